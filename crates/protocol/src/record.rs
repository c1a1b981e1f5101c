//! Log records, from which nodes recover.
//!
//! Each protocol has its own records of what it has *done*. Recovery replays them in order (redo only):
//! nothing is undone, since a store holds committed rows only. A checkpoint consists of records too:
//! rows in place of the commits that made them, and the open transactions.
//! `docs/protocols/durability.md` has the table and the reasons.

use anabranch_storage::{CheckpointItem, CommitSequence, LoggedChange, Staged, Store};
use anabranch_types::{HybridClock, NodeId, TableId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::belt::BeltRecord;
use crate::certification::Certificate;
use crate::certification::record::CertificationRecord;
use crate::guards::record::GuardRecord;
use crate::locking::record::LockingRecord;
use crate::order::epaxos::record::EpaxosRecord;
use crate::order::multipaxos::record::MultiPaxosRecord;
use crate::order::pob::record::PobRecord;
use crate::ramp::recovery::record::RampRecord;
use crate::score::record::ScoreRecord;

/// The version of the record format; every change of a record raises it. A data folder has its format's
/// version, and logs of another version are not read.
pub const RECORD_FORMAT: u32 = 6;

/// One record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record {
    /// A bound on the clock: the node issues no timestamp with a logical time above it, and has seen none,
    /// until a higher bound is durable. After a restart it issues only higher ones, so that a timestamp
    /// names one transaction for ever.
    Clock(u64),
    /// In a checkpoint: items of one table, in order.
    Items {
        /// The table.
        table: TableId,
        /// Items of the table.
        items: Vec<CheckpointItem>,
    },
    /// In a checkpoint: the end of the items.
    Store {
        /// The last commit that the items include.
        last: CommitSequence,
    },
    /// A record of a RAMP node.
    Ramp(RampRecord),
    /// A record of a locking node.
    Locking(LockingRecord),
    /// A record of a site that orders certificates by partial order broadcast.
    Pob(Box<PobRecord<Certificate>>),
    /// A record of a site that orders certificates by MultiPaxos.
    MultiPaxos(Box<MultiPaxosRecord<Certificate>>),
    /// A record of a site that orders certificates by EPaxos.
    Epaxos(Box<EpaxosRecord<Certificate>>),
    /// A record of a server of the Conveyor Belt.
    Belt(Box<BeltRecord>),
    /// A record of a site that orders transactions over guards.
    Guards(Box<GuardRecord>),
    /// A record of a SCORe node.
    Score(ScoreRecord),
    /// A record of a site that certifies, beside those of its orderer.
    Certification(Box<CertificationRecord>),
}

impl Record {
    /// Whether the step's output is held until this record is durable. The loss of any other record only
    /// makes recovery repeat work.
    pub fn is_forced(&self) -> bool {
        match self {
            Record::Ramp(record) => record.is_forced(),
            Record::Locking(record) => record.is_forced(),
            Record::Score(record) => record.is_forced(),
            Record::Pob(record) => record.is_forced(),
            Record::MultiPaxos(record) => record.is_forced(),
            Record::Epaxos(record) => record.is_forced(),
            _ => true,
        }
    }
}

/// A record that a node cannot replay: it belongs to another protocol, or contradicts those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError(pub String);

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReplayError {}

/// The protocol keeps no log records: its nodes cannot be made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRecords {
    /// The protocol's name.
    pub protocol: &'static str,
}

impl std::fmt::Display for NoRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "protocol {} keeps no records: its nodes cannot be made durable",
            self.protocol
        )
    }
}

impl std::error::Error for NoRecords {}

/// How far ahead of its clock a node reserves timestamps: one second.
const AHEAD_MICROS: u64 = 1_000_000;

/// The records of a durable node's current step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    records: Vec<Record>,
    /// The after-images of the last installation, until its record is made.
    changes: Option<Vec<LoggedChange>>,
    /// The bound of the last [`Record::Clock`].
    bound: u64,
}

impl Journal {
    /// The journal of a node with this clock. The records that make the node hold the bound.
    pub(crate) fn new(clock: &HybridClock) -> Journal {
        Journal {
            bound: clock.last(),
            ..Journal::default()
        }
    }

    /// Adds a record.
    pub(crate) fn write(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Keeps the after-images of the changes that are about to be installed.
    pub(crate) fn note(&mut self, staged: &Staged) {
        debug_assert!(self.changes.is_none(), "each installation has its record");
        self.changes = Some(staged.logged_changes());
    }

    /// Takes the after-images of the last installation, for its record; `None` without an installation.
    pub(crate) fn take_changes(&mut self) -> Option<Vec<LoggedChange>> {
        self.changes.take()
    }

    /// Ends a step: outputs its records, preceded by a new clock bound if the clock has passed the last one.
    pub(crate) fn close(&mut self, clock: &HybridClock, records: &mut Vec<Record>) {
        debug_assert!(self.changes.is_none(), "each installation has its record");
        if clock.last() > self.bound {
            self.bound = clock.last() + AHEAD_MICROS;
            records.push(Record::Clock(self.bound));
        }
        records.append(&mut self.records);
    }

    /// Replays a clock bound: the clock continues above it.
    pub(crate) fn replay_clock(&mut self, bound: u64, clock: &mut HybridClock) {
        self.bound = self.bound.max(bound);
        clock.observe(Timestamp::new(self.bound, NodeId(0)));
    }

    /// A record of the current bound.
    pub(crate) fn clock_record(&self) -> Record {
        Record::Clock(self.bound)
    }

    /// Checks DUR-I3: the clock has not passed the recorded bound.
    pub(crate) fn check_invariants(&self, clock: &HybridClock) -> Result<(), String> {
        if clock.last() > self.bound {
            return Err(format!(
                "DUR-I3: the clock is at {} and the recorded bound is {}",
                clock.last(),
                self.bound
            ));
        }
        Ok(())
    }
}

/// The number of items in one record of a checkpoint.
const ITEMS: usize = 256;

/// Passes all items of a store to `sink`, as records.
pub(crate) fn checkpoint_store(store: &Store, sink: &mut dyn FnMut(Record)) {
    for table in (0..store.tables()).map(TableId) {
        let mut after = None;
        loop {
            let items = store.export(table, after.as_ref(), ITEMS);
            let Some(last) = items.last() else { break };
            after = Some(last.key.clone());
            sink(Record::Items { table, items });
        }
    }
    sink(Record::Store { last: store.last() });
}
