//! A run's history, assembled from the records of nodes and stores, in the form that the checkers read.
//!
//! Nodes leave an [`AttemptRecord`] of each attempt, and stores what they [installed](Installed). A
//! driver (the simulator, or an embedded cluster) collects both here, with the times of calls and
//! answers. The commit timestamp, which names versions, joins attempts with installations:
//!
//! * Writes come from the stores alone, since a deferred effect knows its row only where it is
//!   installed. An existing row that has changed was *applied*: columns that were not overwritten keep
//!   their values. If every column was overwritten it was *assigned*: then the highest commit timestamp
//!   wins, in whatever order they were installed ([`ASSIGNMENTS`]).
//! * A point read without a row has read the version of the last deletion in that state, or else the
//!   initial version.
//! * A range read covers the requested range; one that stopped at its limit covers the range up to there.
//! * Replicated tables are never written, and are not in the history.

use std::collections::BTreeMap;
use std::io::{self, Write as Sink};

use anabranch_engine::{AttemptOutcome, AttemptRecord, CallId, PlannedApplication, Work};
use anabranch_history::record::{
    self, AssignmentOrder, Header, Operation, Outcome, PartitionSequence, Scan, Transaction,
    VersionName, Write, WriteKind,
};
use anabranch_history::{
    Anomaly, History, HistoryBuilder, HistoryError, HistoryWriter, Model, Unsuitable, Verdict,
    check,
};
use anabranch_sql::expression::text::literal;
use anabranch_storage::recording::index_entry;
use anabranch_storage::{Installed, InstalledKind};
use anabranch_types::{
    Fetched, IndexId, Key, KeyRange, NodeId, PartitionId, Placement, Read, Recorded, RecordedState,
    Row, TableId, Ticks, Timestamp,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::protocols::Shared;

mod site_versions;

use site_versions::{Reader, SiteVersion, SiteVersions};

/// The order of assignments in a recorded history: in the stores the last writer wins.
pub const ASSIGNMENTS: AssignmentOrder = AssignmentOrder::Stamp;

/// Collects the records of a run.
#[derive(Debug, Default)]
pub struct Recording {
    calls: FxHashMap<CallId, CallStart>,
    attempts: Vec<Attempt>,
    /// Whether a node was lost, with attempts that it had not reported.
    has_lost: bool,
    scope: VersionScope,
    /// With the cluster.
    installed: Vec<(u16, PartitionId, Installed)>,
    /// In a ring: by server, the timestamps at their origins of what it has applied, by its own.
    origins: BTreeMap<u16, BTreeMap<Timestamp, Timestamp>>,
}

/// How clusters name versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum VersionScope {
    /// There is one cluster.
    #[default]
    OneCluster,
    /// There is one cluster, and its nodes read what was committed up to a timestamp: the order at a partition is that
    /// of timestamps, in whatever order it has installed them.
    ByTimestamp,
    /// Several clusters have the same versions of a row. The installations of one cluster are recorded; reads in
    /// the other clusters have no place in its order.
    Shared,
    /// Each of so many clusters has one partition and installs all transactions, conflicting ones in the same order.
    /// The order of versions is that of the first one that has installed all of them itself, or else that of
    /// timestamps; what a read missed is known from the order of its own.
    Sites(u16),
    /// Each of so many clusters makes its own versions, by merging the effects of all. So each cluster has its own
    /// items in the history, and a transaction that it replicates is a transaction of its own.
    PerCluster(u16),
    /// Each server has a database of its own, and so its own items and its own order of versions. A transaction writes
    /// at its server, and, if it is a global operation, at each other server where its update was applied.
    Ring,
}

#[derive(Clone, Copy, Debug)]
struct CallStart {
    session: u64,
    at: Ticks,
}

#[derive(Debug)]
struct Attempt {
    record: AttemptRecord,
    call: Option<CallStart>,
    ended: Ticks,
    answered: Option<Ticks>,
}

impl Recording {
    /// A recording of one cluster whose transactions read what was committed up to a timestamp.
    pub fn by_timestamp() -> Recording {
        Recording {
            scope: VersionScope::ByTimestamp,
            ..Recording::default()
        }
    }

    /// A recording of a run with several clusters.
    pub(crate) fn of_clusters(shared: &Shared) -> Recording {
        let clusters = shared.clusters;
        Recording {
            scope: match (clusters, shared.commutes) {
                _ if shared.protocol.partitions_operations() => VersionScope::Ring,
                (1, _) if shared.protocol.reads_by_timestamp() => VersionScope::ByTimestamp,
                (1, _) => VersionScope::OneCluster,
                _ if shared.homes.is_some() => VersionScope::PerCluster(clusters),
                _ if shared.protocol.has_sites() => VersionScope::Sites(clusters),
                (_, false) => VersionScope::Shared,
                (clusters, true) => VersionScope::PerCluster(clusters),
            },
            ..Recording::default()
        }
    }

    /// Records a client's call.
    pub fn called(&mut self, call: CallId, session: u64, at: Ticks) {
        self.calls.insert(call, CallStart { session, at });
    }

    /// Records the end of an attempt. `at` is the run's time, not the node's.
    pub fn ended(&mut self, record: AttemptRecord, at: Ticks) {
        let start = self.calls.get_mut(&record.call);
        let call = start.as_deref().copied();
        // A retry starts when the attempt before it ends.
        if let Some(start) = start {
            start.at = at;
        }
        self.attempts.push(Attempt {
            record,
            call,
            ended: at,
            answered: Some(at),
        });
    }

    /// Records the loss of a node with these open attempts. It may have ended others without reporting them.
    pub fn lost(&mut self, records: Vec<AttemptRecord>, at: Ticks) {
        self.has_lost = true;
        for record in records {
            let call = self.calls.get(&record.call).copied();
            self.attempts.push(Attempt {
                record,
                call,
                ended: at,
                answered: None,
            });
        }
    }

    /// Records the timestamps at their origins of what a server of a ring has applied.
    pub(crate) fn originated(&mut self, server: u16, origins: &BTreeMap<Timestamp, Timestamp>) {
        self.origins.insert(server, origins.clone());
    }

    /// Records what a store has installed, in a run with one cluster.
    pub fn installed(&mut self, partition: PartitionId, installed: Vec<Installed>) {
        self.installed_in(0, partition, installed);
    }

    /// Records what a store of a cluster has installed.
    pub(crate) fn installed_in(
        &mut self,
        cluster: u16,
        partition: PartitionId,
        installed: Vec<Installed>,
    ) {
        let of_all = matches!(
            self.scope,
            VersionScope::PerCluster(_) | VersionScope::Sites(_) | VersionScope::Ring
        );
        if cluster == 0 || of_all {
            let each = installed.into_iter().map(|one| (cluster, partition, one));
            self.installed.extend(each);
        }
    }

    /// The whole history.
    pub fn finish(self, planned: &PlannedApplication, header: Header) -> RunHistory {
        let mut transactions = Vec::with_capacity(self.attempts.len());
        let violations = self.each(planned, |transaction| transactions.push(transaction));
        RunHistory {
            header,
            transactions,
            violations,
        }
    }

    /// Passes the transactions of the history to `take`, in the order in which they ended. Returns the violations:
    /// installations without a transaction, and transactions that were not installed.
    pub fn each(
        mut self,
        planned: &PlannedApplication,
        mut take: impl FnMut(Transaction),
    ) -> Vec<String> {
        self.attempts.sort_by_key(|attempt| attempt.ended);
        let clusters = match self.scope {
            VersionScope::PerCluster(clusters) => clusters,
            _ => 1,
        };
        let indexes: Vec<InstalledIndex<'_>> = (0..clusters)
            .map(|cluster| InstalledIndex::new(planned, &self, cluster))
            .collect();
        let mut violations = Vec::new();
        let mut committed: FxHashSet<Timestamp> = FxHashSet::default();
        let begun = match self.has_lost {
            true => self.begun(&indexes),
            false => FxHashMap::default(),
        };
        for attempt in &self.attempts {
            if let AttemptOutcome::Committed(timestamp) = attempt.record.outcome {
                committed.insert(timestamp);
                for index in &indexes {
                    violations.extend(index.not_installed(&attempt.record, timestamp));
                }
            }
            // Of sites there is one index.
            let cluster = usize::from(attempt.record.transaction.node.0 % clusters);
            let mut transaction = indexes[cluster].transaction(attempt);
            let is_committed = matches!(attempt.record.outcome, AttemptOutcome::Committed(_));
            // An answer before COMMIT's may rest on what a crash takes (docs/protocols/durability.md, *What does not
            // wait*). Then the attempt does not commit, and the state that it has read is not one of the history.
            let is_later =
                |version: &str| begun.get(version).is_some_and(|at| *at >= attempt.ended);
            if self.has_lost
                && !is_committed
                && indexes[cluster].has_read_lost(&transaction, is_later)
            {
                transaction.operations.clear();
            }
            take(transaction);
        }
        for index in &indexes {
            violations.extend(index.installed_again());
            for timestamp in &index.order {
                let is_own = timestamp.node().0 % clusters == index.cluster;
                let is_known = committed.contains(timestamp);
                // A node that was lost may have committed without reporting it.
                if !is_known && !self.has_lost {
                    violations.push(format!(
                        "{timestamp} was installed, and no transaction has committed as it"
                    ));
                }
                if !is_known || !is_own {
                    take(index.orphan(*timestamp));
                }
            }
        }
        violations
    }

    /// When the attempts began that committed versions with these names.
    fn begun(&self, indexes: &[InstalledIndex<'_>]) -> FxHashMap<String, Ticks> {
        let mut begun = FxHashMap::default();
        for attempt in &self.attempts {
            if let (AttemptOutcome::Committed(timestamp), Some(call)) =
                (&attempt.record.outcome, attempt.call)
            {
                let cluster = usize::from(attempt.record.transaction.node.0) % indexes.len();
                begun.insert(indexes[cluster].version_name(*timestamp), call.at);
            }
        }
        begun
    }
}

/// A run's history.
#[derive(Debug)]
pub struct RunHistory {
    /// The run, and the models that it has to satisfy.
    pub header: Header,
    /// All attempts, in the order in which they ended.
    pub transactions: Vec<Transaction>,
    /// Transactions that committed and were not installed, or were installed and did not commit.
    pub violations: Vec<String>,
}

impl RunHistory {
    /// Writes the history as a file (docs/histories.md).
    ///
    /// # Errors
    /// The errors of the sink.
    pub fn write<W: Sink>(&self, sink: W) -> io::Result<W> {
        let mut writer = HistoryWriter::new(sink, &self.header)?;
        for transaction in &self.transactions {
            writer.transaction(transaction)?;
        }
        writer.finish()
    }

    /// Checks the history against its models. Returns all contradictions and violations, each in one line.
    pub fn judge(&self) -> Vec<String> {
        let mut wrong = self.violations.clone();
        match self.verdicts() {
            Err(error) => wrong.push(format!("the history contradicts itself: {error}")),
            Ok(verdicts) => {
                for verdict in verdicts.into_iter().flatten() {
                    let model = verdict.model;
                    let each = verdict.anomalies.iter();
                    wrong.extend(
                        each.map(|anomaly| format!("not {model}: {}", in_one_line(anomaly))),
                    );
                }
            }
        }
        wrong
    }

    fn verdicts(&self) -> Result<Vec<Result<Verdict, Unsuitable>>, HistoryError> {
        let history = self.history()?;
        let models: &[Model] = &self.header.models;
        Ok(models.iter().map(|model| check(&history, *model)).collect())
    }

    /// The history for the checkers, with the line numbers of its file.
    ///
    /// # Errors
    /// If the history contradicts itself.
    pub fn history(&self) -> Result<History, HistoryError> {
        let mut builder = HistoryBuilder::new(self.header.clone());
        for (line, transaction) in (2..).zip(&self.transactions) {
            builder.add(line, transaction.clone())?;
        }
        builder.finish()
    }
}

fn in_one_line(anomaly: &Anomaly) -> String {
    let steps: Vec<&str> = anomaly
        .steps
        .iter()
        .map(|step| step.reason.as_str())
        .collect();
    format!("{}: {}", anomaly.phenomenon, steps.join("; "))
}

/// A row, by partition.
type Item = (PartitionId, TableId, Key);

/// Installations by commit timestamp, to join attempts with them.
struct InstalledIndex<'r> {
    planned: &'r PlannedApplication,
    scope: VersionScope,
    /// The cluster of these installations, where each cluster has its own.
    cluster: u16,
    /// Whether the order of versions is that of timestamps.
    by_timestamp: bool,
    /// By commit timestamp, with the partition.
    written: FxHashMap<Timestamp, Vec<(PartitionId, &'r Installed)>>,
    /// The timestamps, in order of first installation.
    order: Vec<Timestamp>,
    /// The names of the versions with these timestamps.
    names: FxHashSet<String>,
    /// The deletions of each row: sequence and timestamp.
    deleted: FxHashMap<Item, Vec<(u64, Timestamp)>>,
    /// What each site has installed.
    sites: SiteVersions,
    /// See [`Recording::origins`].
    origins: &'r BTreeMap<u16, BTreeMap<Timestamp, Timestamp>>,
}

impl<'r> InstalledIndex<'r> {
    fn new(
        planned: &'r PlannedApplication,
        recording: &'r Recording,
        cluster: u16,
    ) -> InstalledIndex<'r> {
        let (installed, scope) = (&recording.installed, recording.scope);
        // Whose installations have all versions; `None`: each site has taken a state in place of some.
        let complete = match scope {
            VersionScope::Sites(sites) => (0..sites).find(|site| {
                let mut own = installed.iter().filter(|(of, ..)| of == site);
                own.all(|(.., one)| one.origin.is_none())
            }),
            _ => Some(cluster),
        };
        let mut index = InstalledIndex {
            planned,
            scope,
            cluster,
            by_timestamp: scope == VersionScope::ByTimestamp || complete.is_none(),
            written: FxHashMap::default(),
            order: Vec::new(),
            names: FxHashSet::default(),
            deleted: FxHashMap::default(),
            sites: match scope {
                VersionScope::Sites(sites) => SiteVersions::new(sites, installed),
                _ => SiteVersions::default(),
            },
            origins: &recording.origins,
        };
        let is_ring = scope == VersionScope::Ring;
        for (of, partition, one) in installed {
            let is_known = complete.is_none() && index.written.contains_key(&one.timestamp);
            let is_other = complete.is_some_and(|complete| complete != *of) && !is_ring;
            if is_other || is_known || one.origin.is_some() {
                continue;
            }
            // The place of an item: in a ring its server.
            let place = if is_ring {
                PartitionId(*of)
            } else {
                *partition
            };
            let timestamp = index.origin(place, one.timestamp);
            let written = index.written.entry(timestamp).or_default();
            if written.is_empty() {
                index.order.push(timestamp);
            }
            written.push((place, one));
            for change in &one.changes {
                if change.kind == InstalledKind::Delete {
                    let item = (place, change.table, change.key.clone());
                    let deletions = index.deleted.entry(item).or_default();
                    deletions.push((one.sequence.0, one.timestamp));
                }
            }
        }
        let names = index.order.iter().map(|at| index.version_name(*at));
        index.names = names.collect();
        index
    }

    /// The timestamp at its origin of what is installed as `timestamp`.
    fn origin(&self, place: PartitionId, timestamp: Timestamp) -> Timestamp {
        let origins = self.origins.get(&place.0);
        let origin = origins.and_then(|origins| origins.get(&timestamp));
        origin.copied().unwrap_or(timestamp)
    }

    /// The place of an item that an attempt at a node accesses on a partition: in a ring the node.
    fn place(&self, partition: PartitionId, node: NodeId) -> PartitionId {
        match self.scope {
            VersionScope::Ring => PartitionId(node.0),
            _ => partition,
        }
    }

    /// Partitions that never installed a committed transaction with effects there.
    fn not_installed(&self, record: &AttemptRecord, timestamp: Timestamp) -> Vec<String> {
        let installed = self.written.get(&timestamp);
        let lacks = |partition: PartitionId| {
            !installed.is_some_and(|all| all.iter().any(|(at, _)| *at == partition))
        };
        let with_effects = record.effects.iter().filter(|on| !on.effects.is_empty());
        with_effects
            .filter(|on| lacks(self.place(on.partition, record.transaction.node)))
            .map(|on| {
                format!(
                    "{} has committed as {timestamp}, and {} has never installed it",
                    name(record),
                    on.partition
                )
            })
            .collect()
    }

    /// Transactions that a cluster installed more than once (STICKY-I5).
    fn installed_again(&self) -> Vec<String> {
        let VersionScope::PerCluster(_) = self.scope else {
            return Vec::new();
        };
        let again = |timestamp: &&Timestamp| {
            let all = self.written[*timestamp].iter();
            let partitions: FxHashSet<PartitionId> = all.clone().map(|(at, _)| *at).collect();
            partitions.len() < all.len()
        };
        let found = self.order.iter().filter(again);
        found
            .map(|timestamp| {
                format!(
                    "{timestamp} was installed more than once in cluster {} (STICKY-I5, GRD-I3)",
                    self.cluster
                )
            })
            .collect()
    }

    fn transaction(&self, attempt: &Attempt) -> Transaction {
        let record = &attempt.record;
        let mut operations: Vec<Operation> = Vec::new();
        // Reads of an attempt that was lost with its node reached no client; what they read may be lost, too.
        let has_ended = record.outcome != AttemptOutcome::Open;
        for read in record.reads.iter().filter(|_| has_ended) {
            if let Fetched::Recorded(recorded) = &read.fetched {
                let reader = Reader::of(record);
                let operation = self.read(reader, read.partition, &read.read, recorded);
                operations.extend(self.missed(reader, &read.read, recorded, operation.as_ref()));
                operations.extend(operation);
            }
        }
        let (mut version, mut stamp) = (None, None);
        if let AttemptOutcome::Committed(timestamp) = record.outcome {
            let writes = self.writes(timestamp);
            if !writes.is_empty() {
                version = Some(self.version_name(timestamp));
                stamp = Some(timestamp.to_bits());
                operations.extend(writes);
            }
        }
        Transaction {
            id: name(record),
            version,
            stamp,
            session: attempt.call.map(|call| format!("c{}", call.session)),
            node: Some(record.transaction.node.0),
            invoked: attempt.call.map(|call| call.at.0),
            completed: attempt.answered.map(|at| at.0),
            procedure: match &record.work {
                Work::Procedure(number) => {
                    let procedure = self.planned.application.procedures.get(*number);
                    procedure.map(|procedure| procedure.name().to_owned())
                }
                Work::Statement { .. } | Work::Step(_) | Work::Belt(_) => None,
            },
            arguments: record.arguments.iter().map(literal).collect(),
            outcome: match &record.outcome {
                AttemptOutcome::Committed(_) => Outcome::Committed,
                AttemptOutcome::Aborted(reason) => Outcome::Aborted(reason.name().to_owned()),
                AttemptOutcome::Open => Outcome::Unknown,
            },
            operations,
        }
    }

    /// A transaction that was installed and has no attempt.
    fn orphan(&self, timestamp: Timestamp) -> Transaction {
        let id = match self.scope {
            VersionScope::PerCluster(_) => format!("installed {timestamp} in {}", self.cluster),
            _ => format!("installed {timestamp}"),
        };
        Transaction {
            id,
            version: Some(self.version_name(timestamp)),
            stamp: Some(timestamp.to_bits()),
            outcome: Outcome::Unknown,
            operations: self.writes(timestamp),
            ..Transaction::default()
        }
    }

    fn writes(&self, timestamp: Timestamp) -> Vec<Operation> {
        let installed = self.written.get(&timestamp).into_iter().flatten();
        let changes = installed.flat_map(|(partition, one)| {
            let at = Some(PartitionSequence {
                partition: self.place_of(*partition),
                sequence: match self.by_timestamp {
                    true => one.timestamp.to_bits(),
                    false => one.sequence.0,
                },
            });
            one.changes
                .iter()
                .map(move |change| (partition, at, change))
        });
        changes
            .map(|(partition, at, change)| {
                let entries = change.entries.iter();
                Operation::Write(Write {
                    item: self.item(*partition, change.table, &change.key),
                    kind: match change.kind {
                        InstalledKind::Insert => WriteKind::Insert,
                        InstalledKind::Update => WriteKind::Apply,
                        InstalledKind::Assign => WriteKind::Assign,
                        InstalledKind::Delete => WriteKind::Delete,
                    },
                    value: None,
                    positions: entries
                        .map(|(index, entry)| {
                            let space = self.space(*partition, change.table, Some(*index));
                            (space, record::position(entry.as_bytes()))
                        })
                        .collect(),
                    at,
                })
            })
            .collect()
    }

    /// The operation of one read; `None` for a replicated table.
    fn read(
        &self,
        reader: Reader,
        partition: PartitionId,
        read: &Read,
        recorded: &Recorded,
    ) -> Option<Operation> {
        let table = read.table();
        if *self.planned.execution.router.placement(table) == Placement::Replicated {
            return None;
        }
        let partition = self.place(partition, reader.site);
        let is_single = matches!(self.scope, VersionScope::OneCluster | VersionScope::Ring);
        let sequence = match (recorded.state, self.scope) {
            (RecordedState::Timestamp(at), VersionScope::ByTimestamp) => Some(at.to_bits()),
            (state, _) => state.sequence().filter(|_| is_single),
        };
        let at = sequence.map(|sequence| PartitionSequence {
            partition: self.place_of(partition),
            sequence,
        });
        match (read, recorded.answer.answer()) {
            (Read::Point { key, .. }, answer) => {
                let version = match (recorded.versions.last(), answer) {
                    (_, Fetched::Point(None)) if !self.sites.is_empty() => {
                        let absent = self.sites.absent(reader, recorded, (table, key));
                        absent.and_then(|version| self.named(version))
                    }
                    (Some(version), _) => self.named(self.origin(partition, *version)),
                    (None, Fetched::Point(None)) => {
                        let item = (partition, table, key.clone());
                        let deletions = self.deleted.get(&item).into_iter().flatten();
                        let state = recorded.state;
                        let before = deletions.filter(|(at, by)| state.includes(*at, *by));
                        let last = before.max();
                        last.and_then(|(_, version)| self.named(self.origin(partition, *version)))
                    }
                    (None, _) => None,
                };
                Some(Operation::Read(record::Read {
                    item: self.item(partition, table, key),
                    version,
                    value: None,
                    at,
                }))
            }
            (
                Read::Range {
                    index,
                    range,
                    reverse,
                    limit,
                    ..
                },
                Fetched::Range(rows),
            ) => {
                let found = rows.iter().zip(&recorded.versions);
                let found = found.map(|((key, _), version)| record::Read {
                    item: self.item(partition, table, key),
                    version: self.named(self.origin(partition, *version)),
                    value: None,
                    at,
                });
                let stopped = limit.is_some_and(|limit| rows.len() >= limit as usize);
                if stopped && rows.is_empty() {
                    return None;
                }
                let last = rows.last().filter(|_| stopped);
                let last = last.map(|(key, row)| self.position(table, *index, key, row));
                let (lower, upper) = match range.start() {
                    Some(start) => bounds(&start, range, last, *reverse),
                    None => return None,
                };
                Some(Operation::Scan(Scan {
                    space: self.space(partition, table, *index),
                    lower: Some(lower),
                    upper,
                    found: found.collect(),
                    at,
                }))
            }
            _ => None,
        }
    }

    /// Reads of the items that a site's scan was about and did not find, as far as a read of one version says the same.
    fn missed(
        &self,
        reader: Reader,
        read: &Read,
        recorded: &Recorded,
        scan: Option<&Operation>,
    ) -> Vec<Operation> {
        let (Some(Operation::Scan(scan)), Read::Range { table, index, .. }) = (scan, read) else {
            return Vec::new();
        };
        let found: FxHashSet<&str> = scan.found.iter().map(|read| read.item.as_str()).collect();
        let within = |place: &Key| {
            let place = record::position(place.as_bytes());
            scan.lower.as_ref().is_none_or(|lower| *lower <= place)
                && scan.upper.as_ref().is_none_or(|upper| place < *upper)
        };
        let is_in_range = |key: &Key, version: &SiteVersion| {
            let Some(entries) = &version.entries else {
                return false;
            };
            match index {
                None => within(key),
                Some(index) => entries
                    .iter()
                    .any(|(of, entry)| of == index && within(entry)),
            }
        };
        let items = self.sites.items(*table, is_in_range).into_iter();
        let reads = items.filter_map(|key| {
            let item = self.item(PartitionId(0), *table, key);
            if found.contains(item.as_str()) {
                return None;
            }
            let is_in = |version: &SiteVersion| is_in_range(key, version);
            let version = self.sites.left(reader, recorded, (*table, key), is_in)?;
            Some(Operation::Read(record::Read {
                item,
                version: version.and_then(|version| self.named(version)),
                value: None,
                at: None,
            }))
        });
        reads.collect()
    }

    /// A row's position in an index.
    fn position(&self, table: TableId, index: Option<IndexId>, key: &Key, row: &Row) -> String {
        let schema = self.planned.schema().table(table);
        match index {
            None => record::position(key.as_bytes()),
            Some(index) => {
                let entry = index_entry(schema, &schema.indexes[index.index()], row, key);
                record::position(entry.as_bytes())
            }
        }
    }

    fn item(&self, place: PartitionId, table: TableId, key: &Key) -> String {
        record::item_name(&self.space(place, table, None), key.as_bytes())
    }

    /// The name of a partition's order of installation: its node's number.
    fn place_of(&self, partition: PartitionId) -> u16 {
        match self.scope {
            VersionScope::PerCluster(clusters) => partition.0 * clusters + self.cluster,
            _ => partition.0,
        }
    }

    /// Whether a transaction has read a version that no store has installed for good. In a ring the name of such a
    /// version may come again: a server draws numbers from those that are durable. So one is lost, too, of which the
    /// transaction that has the name now is later than the reader.
    fn has_read_lost(&self, transaction: &Transaction, is_later: impl Fn(&str) -> bool) -> bool {
        let is_lost = |read: &record::Read| {
            let version = read.version.as_ref();
            version.is_some_and(|version| {
                !self.names.contains(&version.writer) || is_later(&version.writer)
            })
        };
        transaction
            .operations
            .iter()
            .any(|operation| match operation {
                Operation::Read(read) => is_lost(read),
                Operation::Scan(scan) => scan.found.iter().any(is_lost),
                Operation::Write(_) => false,
            })
    }

    fn version_name(&self, version: Timestamp) -> String {
        let name = record::version_name(version);
        match self.scope {
            VersionScope::PerCluster(_) => format!("{name} in {}", self.cluster),
            _ => name,
        }
    }

    fn named(&self, version: Timestamp) -> Option<VersionName> {
        (version != Timestamp::ZERO).then(|| VersionName::of(self.version_name(version)))
    }

    /// The space of a table, or of one of its indexes.
    fn space(&self, place: PartitionId, table: TableId, index: Option<IndexId>) -> String {
        let schema = self.planned.schema().table(table);
        let name = match self.scope {
            VersionScope::PerCluster(_) => format!("{} in {}", schema.name, self.cluster),
            VersionScope::Ring => format!("{} at {}", schema.name, place.0),
            _ => schema.name.clone(),
        };
        match index {
            None => name,
            Some(index) => format!("{name}.{}", schema.indexes[index.index()].name),
        }
    }
}

/// The bounds that a range read has covered: all of it, or up to the row at its limit.
fn bounds(
    start: &Key,
    range: &KeyRange,
    last: Option<String>,
    reverse: bool,
) -> (String, Option<String>) {
    let lower = record::position(start.as_bytes());
    let upper = range.end().map(|end| record::position(end.as_bytes()));
    match (last, reverse) {
        (None, _) => (lower, upper),
        // The smallest position after the last row.
        (Some(last), false) => (lower, Some(last + "00")),
        (Some(last), true) => (last, upper),
    }
}

fn name(record: &AttemptRecord) -> String {
    format!(
        "{}.{}",
        record.transaction.node, record.transaction.sequence
    )
}
