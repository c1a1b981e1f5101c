//! What nodes make durable, and rebuild themselves from.
//!
//! Records say what has been *done*, each protocol's in its own words, and are redone in order;
//! nothing is ever undone, since a store shows committed rows only. A checkpoint is made of records
//! too: rows in place of the commits that made them, and what was under way. The page
//! `docs/protocols/durability.md` has the table and the reasons.

use anabranch_storage::{CheckpointItem, CommitSequence, LoggedChange, Staged, Store};
use anabranch_types::{HybridClock, NodeId, TableId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::locking::record::LockingRecord;
use crate::ramp::recovery::record::RampRecord;

/// The form of all records. Whoever changes one raises it: logs of another form are not read, and a data folder says
/// which it has.
pub const RECORD_FORMAT: u32 = 2;

/// One record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record {
    /// The node issues no timestamp whose logical time is above this, and has seen none, until a
    /// higher bound is durable. So after a restart it issues only higher ones: a timestamp names
    /// one transaction for ever.
    Clock(u64),
    /// Of a checkpoint: items of one table, in order.
    Items {
        /// The table.
        table: TableId,
        /// Its items, or some of them.
        items: Vec<CheckpointItem>,
    },
    /// Of a checkpoint: all items have come.
    Store {
        /// The last commit that they show.
        last: CommitSequence,
    },
    /// What a RAMP node has done.
    Ramp(RampRecord),
    /// What a locking node has done.
    Locking(LockingRecord),
}

impl Record {
    /// Whether what a step has said has to wait until this is durable. Losing another one costs
    /// only work that recovery does again.
    pub fn is_forced(&self) -> bool {
        match self {
            Record::Ramp(record) => record.is_forced(),
            Record::Locking(record) => record.is_forced(),
            _ => true,
        }
    }
}

/// A record that a node cannot replay: it is another protocol's, or contradicts those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError(pub String);

impl std::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReplayError {}

/// The protocol keeps no records: its nodes cannot be made durable.
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

/// What a durable node's step has to be written down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    records: Vec<Record>,
    /// What the installation that came last has come to, until its record is made.
    changes: Option<Vec<LoggedChange>>,
    /// Up to where timestamps may be issued and seen.
    bound: u64,
}

impl Journal {
    /// Adds a record.
    pub(crate) fn write(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Takes note of what is about to be installed.
    pub(crate) fn note(&mut self, staged: &Staged) {
        debug_assert!(self.changes.is_none(), "each installation has its record");
        self.changes = Some(staged.logged_changes());
    }

    /// What was installed, for its record; none if nothing was.
    pub(crate) fn take_changes(&mut self) -> Option<Vec<LoggedChange>> {
        self.changes.take()
    }

    /// Ends a step: its records, and a bound for the clock if it has passed the one before.
    pub(crate) fn close(&mut self, clock: &HybridClock, records: &mut Vec<Record>) {
        debug_assert!(
            self.changes.is_none(),
            "what was installed has been written down"
        );
        if clock.last() > self.bound {
            self.bound = clock.last() + AHEAD_MICROS;
            records.push(Record::Clock(self.bound));
        }
        records.append(&mut self.records);
    }

    /// A bound was recorded: the clock goes on above it.
    pub(crate) fn replay_clock(&mut self, bound: u64, clock: &mut HybridClock) {
        self.bound = self.bound.max(bound);
        clock.observe(Timestamp::new(self.bound, NodeId(0)));
    }

    /// The record that says the bound again.
    pub(crate) fn clock_record(&self) -> Record {
        Record::Clock(self.bound)
    }

    /// DUR-I3: the clock has not passed what is (about to be) durable.
    pub(crate) fn check_invariants(&self, clock: &HybridClock) -> Result<(), String> {
        if clock.last() > self.bound {
            return Err(format!(
                "DUR-I3: the clock shows {} and only {} is written down",
                clock.last(),
                self.bound
            ));
        }
        Ok(())
    }
}

/// How many items one record of a checkpoint holds.
const ITEMS: usize = 256;

/// Hands over all of a store.
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
