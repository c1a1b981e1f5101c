//! A partial order of versions, as a forest.

use std::collections::BTreeMap;

use crate::numbers::{ItemNumber, Position};

/// The parent of each version, by item; 0 is the initial version, or an unknown parent. A parent's position is
/// smaller than its children's.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    pub(crate) parents: BTreeMap<ItemNumber, Vec<Position>>,
}

impl Forest {
    /// Whether one version certainly comes before another.
    pub(crate) fn is_before(&self, item: ItemNumber, earlier: Position, later: Position) -> bool {
        let Some(parents) = self.parents.get(&item) else {
            return false;
        };
        let mut at = later;
        while at > earlier {
            at = parents[at as usize - 1];
        }
        at == earlier && earlier != later
    }
}
