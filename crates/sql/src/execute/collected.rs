//! What aggregates collect that need all values at once.

use anabranch_types::Value;
use smallvec::SmallVec;

use crate::expression::budget::outside;

/// One value that an aggregate collects.
#[derive(Clone, Debug)]
pub(super) struct Collected {
    /// The keys of the aggregate's ORDER BY.
    pub(super) keys: SmallVec<[Value; 1]>,
    pub(super) value: Value,
    /// The separator before it, for `string_agg`; the fraction, for a percentile.
    pub(super) separator: Value,
}

impl Collected {
    /// Its approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Collected>()
            + outside(&self.value)
            + outside(&self.separator)
            + self.keys.iter().map(outside).sum::<usize>()
    }
}
