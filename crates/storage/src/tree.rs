//! The ordered map beneath tables and indexes. Everything else sees it through these few methods,
//! so that its structure can change.

use std::collections::BTreeMap;
use std::ops::Bound;

use anabranch_types::Key;

/// Keys in order, each with a value.
#[derive(Debug)]
pub(crate) struct Tree<V> {
    map: BTreeMap<Key, V>,
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Tree {
            map: BTreeMap::new(),
        }
    }
}

impl<V> Tree<V> {
    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        self.map.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// Puts a value; gives back the one that it replaces.
    pub(crate) fn insert(&mut self, key: Key, value: V) -> Option<V> {
        self.map.insert(key, value)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<V> {
        self.map.remove(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// The entries from `start` on and below `end`, in order.
    pub(crate) fn range(
        &self,
        start: &Key,
        end: Option<&Key>,
    ) -> impl DoubleEndedIterator<Item = (&Key, &V)> {
        // An empty range is not to be asked of the map when its ends are crossed.
        let end = end.map(|end| end.max(start));
        self.map.range((
            Bound::Included(start),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        ))
    }

    /// About how many bytes the map takes beside what its values point to.
    pub(crate) fn approximate_bytes(&self) -> usize {
        // Nodes of the standard map are two thirds to three quarters full.
        self.len() * (size_of::<Key>() + size_of::<V>()) * 4 / 3
    }
}
