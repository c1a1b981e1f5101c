//! Numbers for transactions, items and versions.

/// A transaction, numbered by its place in the file.
pub(crate) type TransactionNumber = u32;
/// An item, numbered in order of appearance.
pub(crate) type ItemNumber = u32;
/// A version of an item: 0 is the initial one, others count its writers.
pub(crate) type Position = u32;
