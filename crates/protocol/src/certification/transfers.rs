//! The state transfers that a site takes part in: what it sends, and what it collects.

use std::collections::BTreeMap;

use anabranch_storage::{SnapshotExport, StateOrigin, Store};
use anabranch_types::Ticks;

use crate::order::SiteId;

use super::message::{StatePart, StateRest};

/// The size in bytes of a part, roughly: what a receiver of a site takes at a time.
pub(super) const PART_BYTES: usize = 1 << 20;

/// The transfers at a site.
#[derive(Clone, Debug)]
pub(super) struct Transfers<T> {
    /// The states that it sends, by receiver.
    pub(super) sending: BTreeMap<SiteId, Sending<T>>,
    /// The state that it collects.
    pub(super) collecting: Option<Collecting>,
    /// The number of its last transfer as a sender, in this incarnation.
    pub(super) last: u64,
}

/// A state that a site sends.
#[derive(Clone, Debug)]
pub(super) struct Sending<T> {
    pub(super) transfer: u64,
    pub(super) export: SnapshotExport,
    /// What follows the rows, until it is sent.
    pub(super) rest: Option<Box<StateRest<T>>>,
    /// The last part that was sent, and its number.
    pub(super) part: StatePart<T>,
    pub(super) number: u64,
    /// When it was sent.
    pub(super) sent: Ticks,
}

/// A state that a site collects.
#[derive(Clone, Debug)]
pub(super) struct Collecting {
    /// The sender and its number of the transfer.
    pub(super) from: SiteId,
    pub(super) transfer: u64,
    pub(super) origin: StateOrigin,
    /// The rows so far.
    pub(super) store: Store,
    /// The number of the next part.
    pub(super) next: u64,
    /// When the last part came.
    pub(super) heard: Ticks,
}

impl<T> Default for Transfers<T> {
    fn default() -> Self {
        Transfers {
            sending: BTreeMap::new(),
            collecting: None,
            last: 0,
        }
    }
}

impl<T> Transfers<T> {
    /// Whether no state is sent or collected.
    pub(super) fn is_empty(&self) -> bool {
        self.sending.is_empty() && self.collecting.is_none()
    }
}
