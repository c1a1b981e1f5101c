//! A primary's view of its backups: what each has, has confirmed and is sent next.

use std::sync::Arc;

use anabranch_types::Ticks;

use super::message::{LogId, ReplicaId};

/// A primary's view of its group.
#[derive(Clone, Debug)]
pub(super) struct PrimaryState<T> {
    /// The last round of confirmation that has begun.
    pub(super) round: u64,
    /// Whether output waits for a round that has not begun.
    pub(super) round_wanted: bool,
    /// Entries up to here have been sent to the backups that could take them.
    pub(super) broadcast: u64,
    pub(super) heartbeat_at: Ticks,
    /// How many heartbeats in a row have brought no confirmation.
    pub(super) missed: u32,
    /// The round that was confirmed at the last heartbeat.
    pub(super) confirmed: u64,
    /// By replica number; the primary's own entry is unused.
    pub(super) backups: Vec<BackupProgress>,
    /// The state that is being sent to backups that lack compacted entries.
    pub(super) transfer: Option<StateTransfer<T>>,
    /// Whether the driver has been asked for that state.
    pub(super) state_requested: bool,
}

/// What a primary knows of one backup.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BackupProgress {
    /// The backup's log equals the primary's up to here, durably.
    pub(super) matched: u64,
    /// The next entry to be sent.
    pub(super) next: u64,
    /// The first entry to send again when entries are lost: the one after the end that the backup last
    /// reported. Until it reports, the one after the primary's last entry at its election, since a new
    /// primary knows of no match.
    pub(super) resend_from: u64,
    /// The last round that it has confirmed.
    pub(super) confirmed: u64,
    /// `matched` at the last heartbeat: if it has not grown since, entries may be lost.
    pub(super) matched_before: u64,
    /// How many heartbeats have passed since its last message.
    pub(super) silent_heartbeats: u32,
    /// Which part of the state it waits for.
    pub(super) part: Option<u32>,
}

/// A backup that has been silent for more heartbeats than this gets heartbeats without entries.
pub(super) const SILENT_HEARTBEATS: u32 = 2;

/// A state that is sent in parts.
#[derive(Clone, Debug)]
pub(super) struct StateTransfer<T> {
    pub(super) base: LogId,
    pub(super) parts: Arc<Vec<T>>,
}

/// The highest value that more than half of all have reached.
fn reached_by_majority(mut values: Vec<u64>) -> u64 {
    values.sort_unstable_by(|a, b| b.cmp(a));
    values[values.len() / 2]
}

impl<T: Clone> PrimaryState<T> {
    /// The state of a primary that is elected now and whose log ends at `last`.
    pub(super) fn new(count: u8, last: LogId, now: Ticks) -> PrimaryState<T> {
        let backup = BackupProgress {
            next: last.index + 1,
            resend_from: last.index + 1,
            silent_heartbeats: SILENT_HEARTBEATS,
            ..BackupProgress::default()
        };
        PrimaryState {
            round: 0,
            round_wanted: false,
            broadcast: last.index,
            heartbeat_at: now,
            missed: 0,
            confirmed: 0,
            backups: vec![backup; usize::from(count)],
            transfer: None,
            state_requested: false,
        }
    }

    /// The last round that a majority has confirmed, the primary itself counted.
    pub(super) fn confirmed_round(&self, own: ReplicaId) -> u64 {
        let all = self.backups.iter().enumerate();
        let rounds = all.map(|(number, backup)| match number == own.index() {
            true => self.round,
            false => backup.confirmed,
        });
        reached_by_majority(rounds.collect())
    }

    /// The last entry that a majority has made durable.
    pub(super) fn replicated(&self, own: ReplicaId, durable: u64) -> u64 {
        let all = self.backups.iter().enumerate();
        let matched = all.map(|(number, backup)| match number == own.index() {
            true => durable,
            false => backup.matched,
        });
        reached_by_majority(matched.collect())
    }

    /// Moves the next heartbeat back with a clock that was set back.
    pub(super) fn set_back(&mut self, by: Ticks) {
        self.heartbeat_at = Ticks(self.heartbeat_at.0.saturating_sub(by.0));
    }

    /// Whether a state transfer is under way.
    pub(super) fn is_installing(&self) -> bool {
        self.transfer.is_some()
    }

    /// Ends the state transfer if no backup waits for a part.
    pub(super) fn end_transfer_if_idle(&mut self) {
        if self.backups.iter().all(|backup| backup.part.is_none()) {
            self.transfer = None;
            self.state_requested = false;
        }
    }
}
