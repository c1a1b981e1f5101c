//! Multi-version items of one partition, in memory.
//!
//! A [`Store`] holds one copy of every item of its partition. Each commit is installed whole and
//! gets the next [`CommitSequence`]; an item's versions stand in order of installation, newest
//! first. A snapshot *is* a commit sequence: a reader sees for each item the newest version
//! installed at or before it. That is the read side of atomic visibility within a partition; what
//! must hold between partitions (ramp.txt §4) is the protocol's, which names items by their
//! [`ItemTag`].
//!
//! Installation order and timestamp order may differ. Columns that a transaction *assigns* are
//! registers: the highest timestamp wins, so an effect that arrives late leaves them alone
//! (`skip`). Columns that it *computes from the row* (counters, deferred effects) take every effect
//! once, in the order of installation. See [`Store::apply`].
//!
//! * [`store`]: the store, its reads, loading, sizes.
//! * [`apply`]: a transaction's effects, all or nothing.
//! * [`version`]: versions, items, the tags that name them.
//! * [`collection`]: what is dropped when, and the floors below which no snapshot can be read.
//! * [`recording`]: which versions reads return and what is installed when; off by default.
//! * [`checkpoint`]: changes and items as the log and its checkpoints keep them, and back.
//! * [`log`]: records made durable in order, checkpoints, recovery.
//! * [`media`]: where the log's bytes go: a simulated disk, or (in `server`) files.
//! * `index`, `tree`: secondary index entries, and the ordered map beneath everything.
//!
//! There is no protocol, thread or clock here: time comes in as [`anabranch_types::Ticks`].

pub mod apply;
pub mod checkpoint;
pub mod collection;
mod index;
mod invariants;
pub mod log;
pub mod media;
pub mod recording;
pub mod store;
mod tree;
pub mod version;
mod writers;

pub use apply::{ApplyError, Change, Commit, SlotValues, Staged};
pub use checkpoint::{CheckpointItem, CheckpointVersion, LoggedChange};
pub use log::{Log, LogError, LogOptions, LogPosition, Opened};
pub use media::{Media, MediaError};
pub use recording::{Installed, InstalledChange, InstalledKind};
pub use store::{BelowFloor, BelowTime, LoadError, Store, StoreSettings};
pub use version::{CommitSequence, Item, ItemTag, Version};
