//! A run's history: what nodes and stores tell of each attempt, as the checkers want it.
//!
//! Nodes leave an [`AttemptRecord`] of each attempt, stores what they [installed](Installed); a
//! driver (the simulator, or an embedded cluster) gathers both here and says when clients called
//! and were answered. The two are joined by the commit timestamp, which names versions:
//!
//! * What was written is told by the stores alone, since a deferred effect knows its row only where
//!   it is installed. A row that was there and has changed was *applied*: what it was stays visible
//!   in it as far as it was not overwritten; or *assigned*, if every column was: then the highest
//!   commit timestamp stands, whichever was installed first ([`ASSIGNMENTS`]).
//! * A point that has no row is the version of whoever deleted it last, in the state that was read;
//!   else the initial one.
//! * A range covers what the protocol was asked for; one that stopped at its limit covers what it
//!   has passed.
//! * Copies of a table on every partition are never written, and left out.

use std::io::{self, Write as Sink};

use anabranch_engine::{AttemptOutcome, AttemptRecord, CallId, PlannedApplication, Work};
use anabranch_history::record::{
    self, AssignmentOrder, Header, Operation, Outcome, Place, Scan, Transaction, VersionName,
    Write, WriteKind,
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

use crate::cluster::Cluster;
use crate::protocols::Simulated;

/// What decides between two assignments in a recorded history: the stores let the last writer win.
pub const ASSIGNMENTS: AssignmentOrder = AssignmentOrder::Stamp;

/// Gathers what a run leaves.
#[derive(Debug, Default)]
pub struct Recording {
    calls: FxHashMap<CallId, Asked>,
    attempts: Vec<Attempt>,
    /// Whether a node was lost, and with it what it had not told.
    has_lost: bool,
    clusters: Clusters,
    /// With the cluster.
    installed: Vec<(u16, PartitionId, Installed)>,
}

/// Whose versions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Clusters {
    /// There is one cluster.
    #[default]
    One,
    /// Of several, all of which show the same versions of a row, one tells what was installed; reads in the
    /// others have no place in its order.
    Alike,
    /// So many, each of which makes versions of its own from what all have done. So each has items of its
    /// own, and what it takes over is a transaction of its own.
    Apart(u16),
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    session: u64,
    at: Ticks,
}

#[derive(Debug)]
struct Attempt {
    record: AttemptRecord,
    asked: Option<Asked>,
    ended: Ticks,
    answered: Option<Ticks>,
}

impl Recording {
    /// Of a run with so many clusters, each of which has everything; `apart` if their versions differ.
    pub(crate) fn of_clusters(clusters: u16, apart: bool) -> Recording {
        Recording {
            clusters: match (clusters, apart) {
                (1, _) => Clusters::One,
                (_, false) => Clusters::Alike,
                (clusters, true) => Clusters::Apart(clusters),
            },
            ..Recording::default()
        }
    }

    /// A client makes a call.
    pub fn called(&mut self, call: CallId, session: u64, at: Ticks) {
        self.calls.insert(call, Asked { session, at });
    }

    /// An attempt has ended, `at` the run's time rather than the node's.
    pub fn ended(&mut self, record: AttemptRecord, at: Ticks) {
        let asked = self.calls.get_mut(&record.call);
        let before = asked.as_deref().copied();
        // What is tried again was asked for again.
        if let Some(asked) = asked {
            asked.at = at;
        }
        self.attempts.push(Attempt {
            record,
            asked: before,
            ended: at,
            answered: Some(at),
        });
    }

    /// A node is gone, and with it what these attempts, and others, might have told.
    pub fn lost(&mut self, records: Vec<AttemptRecord>, at: Ticks) {
        self.has_lost = true;
        for record in records {
            let asked = self.calls.get(&record.call).copied();
            self.attempts.push(Attempt {
                record,
                asked,
                ended: at,
                answered: None,
            });
        }
    }

    /// What a store has installed, where there is one cluster.
    pub fn installed(&mut self, partition: PartitionId, installed: Vec<Installed>) {
        self.installed_in(0, partition, installed);
    }

    /// What a store of a cluster has installed.
    pub(crate) fn installed_in(
        &mut self,
        cluster: u16,
        partition: PartitionId,
        installed: Vec<Installed>,
    ) {
        if cluster == 0 || matches!(self.clusters, Clusters::Apart(_)) {
            let each = installed.into_iter().map(|one| (cluster, partition, one));
            self.installed.extend(each);
        }
    }

    /// Everything as a history.
    pub fn finish(self, planned: &PlannedApplication, header: Header) -> RunHistory {
        let mut transactions = Vec::with_capacity(self.attempts.len());
        let violations = self.each(planned, |transaction| transactions.push(transaction));
        RunHistory {
            header,
            transactions,
            violations,
        }
    }

    /// Gives everything to `take` as transactions of a history, in the order in which they ended.
    /// What nobody answers for, an effect without a transaction or the other way round, is returned:
    /// a violation, each in words.
    pub fn each(
        mut self,
        planned: &PlannedApplication,
        mut take: impl FnMut(Transaction),
    ) -> Vec<String> {
        self.attempts.sort_by_key(|attempt| attempt.ended);
        let apart = match self.clusters {
            Clusters::Apart(clusters) => clusters,
            _ => 1,
        };
        let joinings: Vec<Joining<'_>> = (0..apart)
            .map(|cluster| Joining::new(planned, &self.installed, self.clusters, cluster))
            .collect();
        let mut violations = Vec::new();
        let mut committed: FxHashSet<Timestamp> = FxHashSet::default();
        for attempt in &self.attempts {
            if let AttemptOutcome::Committed(timestamp) = attempt.record.outcome {
                committed.insert(timestamp);
                for joining in &joinings {
                    violations.extend(joining.not_installed(&attempt.record, timestamp));
                }
            }
            let cluster = usize::from(attempt.record.transaction.node.0 % apart);
            take(joinings[cluster].transaction(attempt));
        }
        for joining in &joinings {
            violations.extend(joining.installed_again());
            for timestamp in &joining.order {
                let is_own = timestamp.node().0 % apart == joining.cluster;
                let is_known = committed.contains(timestamp);
                // Who is lost may have committed without having told anybody.
                if !is_known && !self.has_lost {
                    violations.push(format!(
                        "{timestamp} was installed, and no transaction has committed as it"
                    ));
                }
                if !is_known || !is_own {
                    take(joining.orphan(*timestamp));
                }
            }
        }
        violations
    }
}

/// A run's history.
#[derive(Debug)]
pub struct RunHistory {
    /// What ran, and what it promised.
    pub header: Header,
    /// Each attempt, in the order in which they ended.
    pub transactions: Vec<Transaction>,
    /// What cannot be: a transaction that has committed and was not installed, or the other way
    /// round.
    pub violations: Vec<String>,
}

impl RunHistory {
    /// Writes it as a file (docs/histories.md).
    ///
    /// # Errors
    /// What the sink says.
    pub fn write<W: Sink>(&self, sink: W) -> io::Result<W> {
        let mut writer = HistoryWriter::new(sink, &self.header)?;
        for transaction in &self.transactions {
            writer.transaction(transaction)?;
        }
        writer.finish()
    }

    /// What is wrong with it, each in one line: what does not fit together, and what violates the
    /// models that the run promised.
    pub fn judge(&self) -> Vec<String> {
        let mut wrong = self.violations.clone();
        match self.verdicts() {
            Err(error) => wrong.push(format!("the history contradicts itself: {error}")),
            Ok(verdicts) => {
                for verdict in verdicts.into_iter().flatten() {
                    let model = verdict.model;
                    let each = verdict.anomalies.iter();
                    wrong
                        .extend(each.map(|anomaly| format!("not {model}: {}", in_a_line(anomaly))));
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

    /// The history, to be checked; lines are those of the file.
    ///
    /// # Errors
    /// When it contradicts itself.
    pub fn history(&self) -> Result<History, HistoryError> {
        let mut builder = HistoryBuilder::new(self.header.clone());
        for (line, transaction) in (2..).zip(&self.transactions) {
            builder.add(line, transaction.clone())?;
        }
        builder.finish()
    }
}

impl<P: Simulated> Cluster<P> {
    /// Takes what has been recorded, if anything was.
    pub(crate) fn take_history(
        &mut self,
        planned: &PlannedApplication,
        header: Header,
    ) -> Option<RunHistory> {
        let mut recording = self.recording.take()?;
        for (number, lives) in (0u16..).zip(&self.lives) {
            if let Some(node) = self.node(number) {
                let installed = node.protocol().store().installed().iter();
                // What was found again in a log has been told by the life that installed it.
                let new = installed.filter(|one| one.sequence > lives.found_until());
                let (cluster, partition) = (number % self.clusters, number / self.clusters);
                recording.installed_in(cluster, PartitionId(partition), new.cloned().collect());
                let open = node.open_attempts();
                if !open.is_empty() {
                    recording.lost(open, self.now);
                }
            }
        }
        Some(recording.finish(planned, header))
    }
}

fn in_a_line(anomaly: &Anomaly) -> String {
    let steps: Vec<&str> = anomaly
        .steps
        .iter()
        .map(|step| step.words.as_str())
        .collect();
    format!("{}: {}", anomaly.phenomenon, steps.join("; "))
}

/// A row, by partition.
type Item = (PartitionId, TableId, Key);

/// What joins attempts with what was installed.
struct Joining<'r> {
    planned: &'r PlannedApplication,
    clusters: Clusters,
    /// Whose installations these are, where each cluster has its own.
    cluster: u16,
    /// By commit timestamp, with the partition.
    written: FxHashMap<Timestamp, Vec<(PartitionId, &'r Installed)>>,
    /// The timestamps, in order of first installation.
    order: Vec<Timestamp>,
    /// Deletions of each row: the sequence, and who.
    deleted: FxHashMap<Item, Vec<(u64, Timestamp)>>,
}

impl<'r> Joining<'r> {
    fn new(
        planned: &'r PlannedApplication,
        installed: &'r [(u16, PartitionId, Installed)],
        clusters: Clusters,
        cluster: u16,
    ) -> Joining<'r> {
        let mut joining = Joining {
            planned,
            clusters,
            cluster,
            written: FxHashMap::default(),
            order: Vec::new(),
            deleted: FxHashMap::default(),
        };
        for (_, partition, one) in installed.iter().filter(|(of, ..)| *of == cluster) {
            let written = joining.written.entry(one.timestamp).or_default();
            if written.is_empty() {
                joining.order.push(one.timestamp);
            }
            written.push((*partition, one));
            for change in &one.changes {
                if change.kind == InstalledKind::Delete {
                    let item = (*partition, change.table, change.key.clone());
                    let deletions = joining.deleted.entry(item).or_default();
                    deletions.push((one.sequence.0, one.timestamp));
                }
            }
        }
        joining
    }

    /// Partitions that a committed transaction had effects for and that never installed it.
    fn not_installed(&self, record: &AttemptRecord, timestamp: Timestamp) -> Vec<String> {
        let installed = self.written.get(&timestamp);
        let lacks = |partition: PartitionId| {
            !installed.is_some_and(|all| all.iter().any(|(at, _)| *at == partition))
        };
        let asked = record
            .effects
            .iter()
            .filter(|asked| !asked.effects.is_empty());
        asked
            .filter(|asked| lacks(asked.partition))
            .map(|asked| {
                format!(
                    "{} has committed as {timestamp}, and {} has never installed it",
                    name(record),
                    asked.partition
                )
            })
            .collect()
    }

    /// What was taken over more than once.
    fn installed_again(&self) -> Vec<String> {
        let Clusters::Apart(_) = self.clusters else {
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
        // What a node read that was lost in the middle nobody has seen; it may be lost as well.
        let seen = record.outcome != AttemptOutcome::Open;
        for read in record.reads.iter().filter(|_| seen) {
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
            session: attempt.asked.map(|asked| format!("c{}", asked.session)),
            node: Some(record.transaction.node.0),
            invoked: attempt.asked.map(|asked| asked.at.0),
            completed: attempt.answered.map(|at| at.0),
            procedure: match &record.work {
                Work::Procedure(number) => {
                    let procedure = self.planned.application.procedures.get(*number);
                    procedure.map(|procedure| procedure.name().to_owned())
                }
                Work::Statement(_) => None,
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

    /// What was installed and no attempt answers for.
    fn orphan(&self, timestamp: Timestamp) -> Transaction {
        let id = match self.clusters {
            Clusters::Apart(_) => format!("installed {timestamp} in {}", self.cluster),
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
            let at = Some(Place {
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

    /// The operation of one read; nothing where it is a copy's.
    fn read(&self, partition: PartitionId, read: &Read, recorded: &Recorded) -> Option<Operation> {
        let table = read.table();
        if *self.planned.execution.router.placement(table) == Placement::Replicated {
            return None;
        }
        let alone = self.clusters == Clusters::One;
        let sequence = recorded.state.sequence().filter(|_| alone);
        let at = sequence.map(|sequence| Place {
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
                let last = last.map(|(key, row)| self.place(table, *index, key, row));
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

    /// Where an index has a row.
    fn place(&self, table: TableId, index: Option<IndexId>, key: &Key, row: &Row) -> String {
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

    /// Where a partition's order of installation is told from those of others: by its node's number.
    fn place_of(&self, partition: PartitionId) -> u16 {
        match self.clusters {
            Clusters::Apart(clusters) => partition.0 * clusters + self.cluster,
            _ => partition.0,
        }
    }

    fn version_name(&self, version: Timestamp) -> String {
        let name = record::version_name(version);
        match self.clusters {
            Clusters::Apart(_) => format!("{name} in {}", self.cluster),
            _ => name,
        }
    }

    fn named(&self, version: Timestamp) -> Option<VersionName> {
        (version != Timestamp::ZERO).then(|| VersionName::of(self.version_name(version)))
    }

    /// A table's own space, or that of an index of it.
    fn space(&self, table: TableId, index: Option<IndexId>) -> String {
        let schema = self.planned.schema().table(table);
        let name = match self.clusters {
            Clusters::Apart(_) => format!("{} in {}", schema.name, self.cluster),
            _ => schema.name.clone(),
        };
        match index {
            None => name,
            Some(index) => format!("{name}.{}", schema.indexes[index.index()].name),
        }
    }
}

/// What a range has covered: all, or up to the row that it stopped at.
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
        // Every position behind the last one is at or behind this.
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
