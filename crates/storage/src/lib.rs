//! Multi-version items of one partition, in memory.
//!
//! A [`Store`] holds one copy of every item of its partition. Each commit is installed atomically at
//! the next [`CommitSequence`]; an item's versions are in order of installation, newest first. A
//! snapshot *is* a commit sequence: a reader sees for each item the newest version installed at or
//! before it. That is the read side of atomic visibility within a partition. Atomic visibility between
//! partitions (ramp.txt §4) is the protocol's task, which names items by their [`ItemTag`].
//!
//! Installation order and timestamp order may differ. Columns that a transaction *assigns* are
//! registers: the highest timestamp wins, so a late effect skips them. Columns that it *computes from
//! the row* (counters, deferred effects) take every effect once, in the order of installation. See
//! [`Store::apply`].
//!
//! * [`store`]: the store: reads, loading, sizes.
//! * [`apply`]: a transaction's effects, all or nothing.
//! * [`version`]: versions, items, the tags that name them.
//! * [`collection`]: garbage collection, and the floors below which no snapshot can be read.
//! * [`recording`]: for recorded histories: the versions that reads return, and installed commits.
//! * [`checkpoint`]: the serialized form of changes and items, for the log and checkpoints.
//! * [`replace`]: all rows replaced at once by those of another node's state.
//! * [`rebuild`]: tables taken out and put into another store, when the schema changes.
//! * [`log`]: the log: appending, checkpoints, recovery.
//! * [`media`]: the log's disk: simulated, or (in `server`) files.
//! * `index`, `tree`: secondary index entries, and the ordered map of tables and indexes.
//!
//! There is no protocol, thread or clock here: time comes in as [`anabranch_types::Ticks`].

pub mod apply;
mod change_index;
pub mod checkpoint;
pub mod collection;
mod collector;
mod index;
mod installed;
mod invariants;
pub mod log;
pub mod media;
pub mod rebuild;
pub mod recording;
pub mod replace;
pub mod store;
mod tree;
pub mod version;
mod writers;

pub use apply::{ApplyError, Change, Commit, SlotValues, Staged};
pub use checkpoint::{CheckpointItem, CheckpointVersion, LoggedChange, SnapshotExport};
pub use index::index_prefix;
pub use installed::{Installed, InstalledChange, InstalledKind, StateOrigin};
pub use log::{Log, LogError, LogOptions, LogPosition, Opened, Room, TornTail, Verified, verify};
pub use media::{Media, MediaError};
pub use rebuild::DetachedTable;
pub use store::{BelowFloor, BelowTime, LoadError, Store, StoreSettings};
pub use version::{CommitSequence, Item, ItemTag, Version};
