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
    Fetched, IndexId, Key, KeyRange, PartitionId, Placement, Read, Recorded, Row, TableId, Ticks,
    Timestamp,
};
use rustc_hash::{FxHashMap, FxHashSet};

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
}

/// How clusters name versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum VersionScope {
    /// There is one cluster.
    #[default]
    OneCluster,
    /// Several clusters have the same versions of a row. The installations of one cluster are recorded; reads in
    /// the other clusters have no place in its order.
    Shared,
    /// Each of so many clusters makes its own versions, by merging the effects of all. So each cluster has its own
    /// items in the history, and a transaction that it replicates is a transaction of its own.
    PerCluster(u16),
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
    /// A recording of a run with so many clusters. `per_cluster` is whether each makes its own versions.
    pub(crate) fn of_clusters(clusters: u16, per_cluster: bool) -> Recording {
        Recording {
            scope: match (clusters, per_cluster) {
                (1, _) => VersionScope::OneCluster,
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
        if cluster == 0 || matches!(self.scope, VersionScope::PerCluster(_)) {
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
            .map(|cluster| InstalledIndex::new(planned, &self.installed, self.scope, cluster))
            .collect();
        let mut violations = Vec::new();
        let mut committed: FxHashSet<Timestamp> = FxHashSet::default();
        for attempt in &self.attempts {
            if let AttemptOutcome::Committed(timestamp) = attempt.record.outcome {
                committed.insert(timestamp);
                for index in &indexes {
                    violations.extend(index.not_installed(&attempt.record, timestamp));
                }
            }
            let cluster = usize::from(attempt.record.transaction.node.0 % clusters);
            take(indexes[cluster].transaction(attempt));
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
    /// By commit timestamp, with the partition.
    written: FxHashMap<Timestamp, Vec<(PartitionId, &'r Installed)>>,
    /// The timestamps, in order of first installation.
    order: Vec<Timestamp>,
    /// The deletions of each row: sequence and timestamp.
    deleted: FxHashMap<Item, Vec<(u64, Timestamp)>>,
}

impl<'r> InstalledIndex<'r> {
    fn new(
        planned: &'r PlannedApplication,
        installed: &'r [(u16, PartitionId, Installed)],
        scope: VersionScope,
        cluster: u16,
    ) -> InstalledIndex<'r> {
        let mut index = InstalledIndex {
            planned,
            scope,
            cluster,
            written: FxHashMap::default(),
            order: Vec::new(),
            deleted: FxHashMap::default(),
        };
        for (_, partition, one) in installed.iter().filter(|(of, ..)| *of == cluster) {
            let written = index.written.entry(one.timestamp).or_default();
            if written.is_empty() {
                index.order.push(one.timestamp);
            }
            written.push((*partition, one));
            for change in &one.changes {
                if change.kind == InstalledKind::Delete {
                    let item = (*partition, change.table, change.key.clone());
                    let deletions = index.deleted.entry(item).or_default();
                    deletions.push((one.sequence.0, one.timestamp));
                }
            }
        }
        index
    }

    /// Partitions that never installed a committed transaction with effects there.
    fn not_installed(&self, record: &AttemptRecord, timestamp: Timestamp) -> Vec<String> {
        let installed = self.written.get(&timestamp);
        let lacks = |partition: PartitionId| {
            !installed.is_some_and(|all| all.iter().any(|(at, _)| *at == partition))
        };
        let with_effects = record.effects.iter().filter(|on| !on.effects.is_empty());
        with_effects
            .filter(|on| lacks(on.partition))
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
                    "STICKY-I5: {timestamp} was installed more than once in cluster {}",
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
                operations.extend(self.read(read.partition, &read.read, recorded));
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
                Work::Statement { .. } | Work::Step(_) => None,
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
                sequence: one.sequence.0,
            });
            one.changes.iter().map(move |change| (at, change))
        });
        changes
            .map(|(at, change)| {
                let entries = change.entries.iter();
                Operation::Write(Write {
                    item: self.item(change.table, &change.key),
                    kind: match change.kind {
                        InstalledKind::Insert => WriteKind::Insert,
                        InstalledKind::Update => WriteKind::Apply,
                        InstalledKind::Assign => WriteKind::Assign,
                        InstalledKind::Delete => WriteKind::Delete,
                    },
                    value: None,
                    positions: entries
                        .map(|(index, entry)| {
                            let space = self.space(change.table, Some(*index));
                            (space, record::position(entry.as_bytes()))
                        })
                        .collect(),
                    at,
                })
            })
            .collect()
    }

    /// The operation of one read; `None` for a replicated table.
    fn read(&self, partition: PartitionId, read: &Read, recorded: &Recorded) -> Option<Operation> {
        let table = read.table();
        if *self.planned.execution.router.placement(table) == Placement::Replicated {
            return None;
        }
        let is_single = self.scope == VersionScope::OneCluster;
        let sequence = recorded.state.sequence().filter(|_| is_single);
        let at = sequence.map(|sequence| PartitionSequence {
            partition: self.place_of(partition),
            sequence,
        });
        match (read, recorded.answer.answer()) {
            (Read::Point { key, .. }, answer) => {
                let version = match (recorded.versions.last(), answer) {
                    (Some(version), _) => self.named(*version),
                    (None, Fetched::Point(None)) => {
                        let item = (partition, table, key.clone());
                        let deletions = self.deleted.get(&item).into_iter().flatten();
                        let state = recorded.state;
                        let before = deletions.filter(|(at, by)| state.includes(*at, *by));
                        before.max().and_then(|(_, version)| self.named(*version))
                    }
                    (None, _) => None,
                };
                Some(Operation::Read(record::Read {
                    item: self.item(table, key),
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
                    item: self.item(table, key),
                    version: self.named(*version),
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
                    space: self.space(table, *index),
                    lower: Some(lower),
                    upper,
                    found: found.collect(),
                    at,
                }))
            }
            _ => None,
        }
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

    fn item(&self, table: TableId, key: &Key) -> String {
        record::item_name(&self.space(table, None), key.as_bytes())
    }

    /// The name of a partition's order of installation: its node's number.
    fn place_of(&self, partition: PartitionId) -> u16 {
        match self.scope {
            VersionScope::PerCluster(clusters) => partition.0 * clusters + self.cluster,
            _ => partition.0,
        }
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
    fn space(&self, table: TableId, index: Option<IndexId>) -> String {
        let schema = self.planned.schema().table(table);
        let name = match self.scope {
            VersionScope::PerCluster(_) => format!("{} in {}", schema.name, self.cluster),
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
