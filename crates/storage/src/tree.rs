//! The ordered map of tables and indexes: a B+tree.
//!
//! Leaves and inner nodes are in arenas and refer to each other by number; leaves form a doubly linked
//! list. A node stores the first 16 bytes of each key as a number ([`Key::head`]), so that most searches
//! compare adjacent numbers and follow no pointer.
//!
//! Departures from the textbook, for tables that grow at the ends of many ranges (the orders of each
//! district) and shrink at their beginnings:
//!
//! * a full leaf is split at the new entry if that goes to the leaf's end or just after the last
//!   insertion, so that ascending runs leave full leaves behind;
//! * small nodes are not merged; a leaf is removed when it is empty.

use anabranch_types::Key;

/// The most entries of a leaf, and the most children of an inner node.
const NODE_MAX: usize = 64;

/// The number of searches that descend the tree in step: enough to keep the memory busy.
const IN_STEP: usize = 16;

/// Keys in order, each with a value.
#[derive(Clone, Debug)]
pub(crate) struct Tree<V> {
    leaves: Vec<Leaf<V>>,
    free_leaves: Vec<u32>,
    inners: Vec<Inner>,
    free_inners: Vec<u32>,
    root: u32,
    /// Levels of inner nodes above the leaves.
    height: usize,
    /// The common length of all keys so far, if there is one.
    uniform: Uniform,
}

/// Whether all keys have one length, no longer than a head. Then equal heads mean equal keys, and the
/// keys themselves, which are elsewhere in memory, need not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uniform {
    Empty,
    Length(usize),
    No,
}

impl Uniform {
    fn with(self, key: &Key) -> Uniform {
        match self {
            Uniform::Empty if key.len() <= size_of::<u128>() => Uniform::Length(key.len()),
            Uniform::Length(len) if key.len() == len => self,
            _ => Uniform::No,
        }
    }

    /// Whether the head alone distinguishes this key from all others.
    #[inline]
    fn distinguishes(self, key: &Key) -> bool {
        self == Uniform::Length(key.len())
    }

    /// How much of the head a search for it has to compare.
    #[inline]
    fn width(self, head: u128) -> Width {
        match self {
            Uniform::Length(len) if len <= size_of::<u64>() && head as u64 == 0 => Width::Half,
            _ => Width::Whole,
        }
    }
}

/// How much of the heads a search has to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Whole,
    /// The first 8 bytes: the rest of all heads is zeros.
    Half,
}

/// The number of these ascending heads that are below `head`.
#[inline]
fn count_below(heads: &[u128], head: u128, width: Width) -> usize {
    let half = |head: u128| (head >> 64) as u64;
    match width {
        Width::Whole => heads.partition_point(|held| *held < head),
        Width::Half => heads.partition_point(|held| half(*held) < half(head)),
    }
}

#[derive(Clone, Debug)]
struct Leaf<V> {
    keys: Keys,
    values: Vec<V>,
    previous: Option<u32>,
    next: Option<u32>,
    /// The slot of the last insertion.
    inserted: usize,
    /// Every key whose head is below this one and above the leaf's first head belongs to this leaf. It may
    /// be lower than the bound in the inner nodes: removals widen a leaf's range, and only a split narrows
    /// it.
    fence: u128,
}

/// `children[i]` holds the keys from `keys[i]` up to `keys[i + 1]`, exclusive. `keys[0]` is not used:
/// every key of this node below `keys[1]` is in `children[0]`.
#[derive(Clone, Debug)]
struct Inner {
    keys: Keys,
    children: Vec<u32>,
}

/// Sorted keys with their heads.
#[derive(Clone, Debug, Default)]
struct Keys {
    heads: Vec<u128>,
    keys: Vec<Key>,
}

/// A hint to where an entry was found, or would have been inserted. Insertions and removals may have
/// moved it since, so every use of a position gives the key, which is checked first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    leaf: u32,
    slot: u32,
}

impl Position {
    /// A position for callers without a hint.
    pub(crate) const ANYWHERE: Position = Position { leaf: 0, slot: 0 };

    fn new(leaf: u32, slot: usize) -> Position {
        Position {
            leaf,
            slot: slot as u32,
        }
    }
}

impl Keys {
    fn with_capacity(capacity: usize) -> Keys {
        Keys {
            heads: Vec::with_capacity(capacity),
            keys: Vec::with_capacity(capacity),
        }
    }

    fn len(&self) -> usize {
        self.heads.len()
    }

    /// The number of keys below this one.
    #[inline]
    fn lower_bound(&self, head: u128, key: &Key) -> usize {
        let first = self.heads.partition_point(|held| *held < head);
        self.among_equals(first, head, key)
    }

    /// `first`, or if heads from there on equal the key's, the slot of the first key not below it.
    #[inline]
    fn among_equals(&self, first: usize, head: u128, key: &Key) -> usize {
        let mut slot = first;
        while self.heads.get(slot) == Some(&head) && self.keys[slot] < *key {
            slot += 1;
        }
        slot
    }

    /// The child of an inner node that may hold the key: the last one whose key is not above it.
    #[inline]
    fn child(&self, head: u128, key: &Key, width: Width) -> usize {
        let first = 1 + count_below(&self.heads[1..], head, width);
        let mut slot = first;
        while self.heads.get(slot) == Some(&head) && self.keys[slot] <= *key {
            slot += 1;
        }
        slot - 1
    }

    fn insert(&mut self, at: usize, key: Key) {
        self.heads.insert(at, key.head());
        self.keys.insert(at, key);
    }

    fn remove(&mut self, at: usize) {
        self.heads.remove(at);
        self.keys.remove(at);
    }

    fn split_off(&mut self, at: usize) -> Keys {
        let mut right = Keys::with_capacity(NODE_MAX);
        right.heads.extend(self.heads.drain(at..));
        right.keys.extend(self.keys.drain(at..));
        right
    }
}

impl<V> Leaf<V> {
    fn empty() -> Leaf<V> {
        Leaf {
            keys: Keys::default(),
            values: Vec::new(),
            previous: None,
            next: None,
            inserted: 0,
            fence: u128::MAX,
        }
    }

    /// The slot of a key that belongs to this leaf. For consecutive keys, it first tries the slot of the
    /// previous key and the one behind the last insertion.
    #[inline]
    fn search_near(
        &self,
        near: usize,
        head: u128,
        key: &Key,
        uniform: Uniform,
    ) -> Result<usize, usize> {
        let heads = &self.keys.heads;
        for slot in [near, self.inserted.wrapping_add(1)] {
            let above = |at: usize| heads.get(at).is_none_or(|held| *held > head);
            let below = |at: usize| heads.get(at).is_some_and(|held| *held < head);
            if slot > 0 && slot <= heads.len() && below(slot - 1) && above(slot) {
                return Err(slot);
            }
        }
        self.search(head, key, uniform)
    }

    /// Whether a key certainly belongs to this leaf.
    #[inline]
    fn spans(&self, head: u128) -> bool {
        self.keys.heads.first().is_some_and(|first| *first < head) && head < self.fence
    }

    /// The slot of a key among consecutive numbers that end at the fence, computed from its distance to the
    /// fence: one memory access, where a binary search makes four dependent ones. `None` if the key is
    /// missing or the numbers are not consecutive.
    #[inline]
    fn counted_back(&self, head: u128, key: &Key, uniform: Uniform) -> Option<usize> {
        if !uniform.distinguishes(key) {
            return None;
        }
        let unused = u8::BITS as usize * (size_of::<u128>() - key.len());
        let distance = self.fence.wrapping_sub(head).checked_shr(unused as u32)?;
        let slot = self.keys.heads.len().wrapping_sub(distance as usize);
        (self.keys.heads.get(slot) == Some(&head)).then_some(slot)
    }

    /// The slot of the key, or where it would be inserted.
    #[inline]
    fn search(&self, head: u128, key: &Key, uniform: Uniform) -> Result<usize, usize> {
        if let Some(slot) = self.counted_back(head, key, uniform) {
            return Ok(slot);
        }
        let slot = count_below(&self.keys.heads, head, uniform.width(head));
        if self.keys.heads.get(slot) != Some(&head) {
            return Err(slot);
        }
        if uniform.distinguishes(key) {
            return Ok(slot);
        }
        let slot = self.keys.among_equals(slot, head, key);
        match self.keys.keys.get(slot) {
            Some(held) if self.keys.heads[slot] == head && held == key => Ok(slot),
            _ => Err(slot),
        }
    }
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Tree {
            leaves: vec![Leaf::empty()],
            free_leaves: Vec::new(),
            inners: Vec::new(),
            free_inners: Vec::new(),
            root: 0,
            height: 0,
            uniform: Uniform::Empty,
        }
    }
}

impl<V> Tree<V> {
    #[inline]
    pub(crate) fn get(&self, key: &Key) -> Option<&V> {
        let head = key.head();
        let leaf = &self.leaves[self.leaf_of(head, key) as usize];
        leaf.search(head, key, self.uniform)
            .ok()
            .map(|slot| &leaf.values[slot])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        let head = key.head();
        let leaf = self.leaf_of(head, key);
        let leaf = &mut self.leaves[leaf as usize];
        leaf.search(head, key, self.uniform)
            .ok()
            .map(|slot| &mut leaf.values[slot])
    }

    /// Searches several keys in step, level by level, so that the memory accesses of a level overlap; one
    /// search after the other would wait for each. Calls `found` once for each key, in their order.
    pub(crate) fn find_in_step<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key>,
        mut found: impl FnMut(Option<Position>),
    ) {
        let mut keys = keys.fuse().peekable();
        while let Some(first) = keys.peek() {
            let mut searches = [(0u128, *first, self.root); IN_STEP];
            let mut count = 0;
            for (search, key) in searches.iter_mut().zip(&mut keys) {
                *search = (key.head(), key, self.root);
                count += 1;
            }
            let searches = &mut searches[..count];
            for _ in 0..self.height {
                for (head, key, node) in &mut *searches {
                    let inner = &self.inners[*node as usize];
                    *node = inner.children[inner.keys.child(*head, key, self.uniform.width(*head))];
                }
            }
            for (head, key, leaf) in searches {
                let slot = self.leaves[*leaf as usize].search(*head, key, self.uniform);
                found(slot.ok().map(|slot| Position::new(*leaf, slot)));
            }
        }
    }

    /// The key's position, or where it would be inserted.
    #[inline]
    pub(crate) fn seek(&self, key: &Key) -> Result<Position, Position> {
        let head = key.head();
        let number = self.leaf_of(head, key);
        let leaf = &self.leaves[number as usize];
        match leaf.search(head, key, self.uniform) {
            Ok(slot) => Ok(Position::new(number, slot)),
            Err(slot) => Err(Position::new(number, slot)),
        }
    }

    /// [`Tree::seek`] for a key that is probably near a position.
    #[inline]
    pub(crate) fn seek_near(&self, near: Position, key: &Key) -> Result<Position, Position> {
        let head = key.head();
        match self.leaves.get(near.leaf as usize) {
            Some(leaf) if leaf.spans(head) => {
                match leaf.search_near(near.slot as usize, head, key, self.uniform) {
                    Ok(slot) => Ok(Position::new(near.leaf, slot)),
                    Err(slot) => Err(Position::new(near.leaf, slot)),
                }
            }
            _ => self.seek(key),
        }
    }

    /// The value at a position that a search has just returned.
    ///
    /// # Panics
    /// When the position is empty.
    #[inline]
    pub(crate) fn at(&self, at: Position) -> &V {
        &self.leaves[at.leaf as usize].values[at.slot as usize]
    }

    /// The value that is now at a position, if any.
    #[inline]
    pub(crate) fn peek(&self, at: Position) -> Option<&V> {
        self.leaves
            .get(at.leaf as usize)?
            .values
            .get(at.slot as usize)
    }

    /// Whether the key is at this position.
    #[inline]
    fn is_at(&self, at: Position, key: &Key) -> bool {
        self.leaves.get(at.leaf as usize).is_some_and(|leaf| {
            leaf.keys.heads.get(at.slot as usize) == Some(&key.head())
                && (self.uniform.distinguishes(key) || leaf.keys.keys[at.slot as usize] == *key)
        })
    }

    /// The value of a key that was found at a position; searches again if it has moved.
    #[inline]
    pub(crate) fn get_at(&self, at: Position, key: &Key) -> Option<&V> {
        match self.is_at(at, key) {
            true => Some(self.at(at)),
            false => self.get(key),
        }
    }

    /// As [`Tree::get_at`].
    #[inline]
    pub(crate) fn get_mut_at(&mut self, at: Position, key: &Key) -> Option<&mut V> {
        if self.is_at(at, key) {
            return Some(&mut self.leaves[at.leaf as usize].values[at.slot as usize]);
        }
        self.get_mut(key)
    }

    #[inline]
    fn leaf_of(&self, head: u128, key: &Key) -> u32 {
        let width = self.uniform.width(head);
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            node = inner.children[inner.keys.child(head, key, width)];
        }
        node
    }

    /// The leaf of a key, and the inner nodes on the way with the child taken at each.
    fn path_to(&self, key: &Key) -> (Vec<(u32, usize)>, u32) {
        let head = key.head();
        let mut path = Vec::with_capacity(self.height);
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            let child = inner.keys.child(head, key, Width::Whole);
            path.push((node, child));
            node = inner.children[child];
        }
        (path, node)
    }

    /// Inserts a value; returns the one that it replaces.
    pub(crate) fn insert(&mut self, key: Key, value: V) -> Option<V> {
        let place = self.seek(&key);
        self.put(place, key, value)
    }

    /// [`Tree::insert`] for a key that is probably near a position.
    pub(crate) fn insert_near(&mut self, near: Position, key: Key, value: V) -> Option<V> {
        let place = self.seek_near(near, &key);
        self.put(place, key, value)
    }

    fn put(&mut self, place: Result<Position, Position>, key: Key, value: V) -> Option<V> {
        let Position { leaf: number, slot } = match place {
            Ok(at) => {
                let held = &mut self.leaves[at.leaf as usize].values[at.slot as usize];
                return Some(std::mem::replace(held, value));
            }
            Err(at) => at,
        };
        let slot = slot as usize;
        self.uniform = self.uniform.with(&key);
        let leaf = &mut self.leaves[number as usize];
        if leaf.values.len() < NODE_MAX {
            leaf.keys.insert(slot, key);
            leaf.values.insert(slot, value);
            leaf.inserted = slot;
            return None;
        }
        self.insert_splitting(number, slot, key, value);
        None
    }

    fn insert_splitting(&mut self, number: u32, slot: usize, key: Key, value: V) {
        let (path, _) = self.path_to(&key);
        let leaf = &mut self.leaves[number as usize];
        let ascending = slot == leaf.values.len() || slot == leaf.inserted + 1;
        let middle = if ascending { slot } else { NODE_MAX / 2 };
        let mut right = Leaf::empty();
        right.keys = leaf.keys.split_off(middle);
        right.values = Vec::with_capacity(NODE_MAX);
        right.values.extend(leaf.values.drain(middle..));
        // An ascending run continues at the end of the left leaf; if the right leaf is empty, it starts
        // there.
        let (target, slot) = if slot > middle || right.values.is_empty() {
            (&mut right, slot - middle)
        } else {
            (leaf, slot)
        };
        target.keys.insert(slot, key);
        target.values.insert(slot, value);
        target.inserted = slot;
        let separator = right.keys.keys[0].clone();
        let leaf = &mut self.leaves[number as usize];
        right.fence = std::mem::replace(&mut leaf.fence, separator.head());
        let right = self.link_after(number, right);
        self.insert_child(path, separator, right);
    }

    /// Inserts a leaf into the list after another.
    fn link_after(&mut self, number: u32, mut right: Leaf<V>) -> u32 {
        right.previous = Some(number);
        right.next = self.leaves[number as usize].next;
        let next = right.next;
        let added = match self.free_leaves.pop() {
            Some(free) => {
                self.leaves[free as usize] = right;
                free
            }
            None => {
                self.leaves.push(right);
                (self.leaves.len() - 1) as u32
            }
        };
        self.leaves[number as usize].next = Some(added);
        if let Some(next) = next {
            self.leaves[next as usize].previous = Some(added);
        }
        added
    }

    /// Inserts a node as the right sibling of the one at the end of the path.
    fn insert_child(&mut self, mut path: Vec<(u32, usize)>, mut separator: Key, mut added: u32) {
        while let Some((number, child)) = path.pop() {
            let inner = &mut self.inners[number as usize];
            inner.keys.insert(child + 1, separator);
            inner.children.insert(child + 1, added);
            if inner.children.len() <= NODE_MAX {
                return;
            }
            let last = child + 2 == inner.children.len();
            let middle = if last {
                inner.children.len() - 1
            } else {
                inner.children.len() / 2
            };
            let keys = inner.keys.split_off(middle);
            let children = inner.children.split_off(middle);
            separator = keys.keys[0].clone();
            added = self.add_inner(Inner { keys, children });
        }
        // The root was split. Keys below the new separator belong to the old root, whatever its own key.
        let mut keys = Keys::with_capacity(NODE_MAX);
        keys.insert(0, Key::empty());
        keys.insert(1, separator);
        let children = vec![self.root, added];
        self.root = self.add_inner(Inner { keys, children });
        self.height += 1;
    }

    fn add_inner(&mut self, inner: Inner) -> u32 {
        match self.free_inners.pop() {
            Some(free) => {
                self.inners[free as usize] = inner;
                free
            }
            None => {
                self.inners.push(inner);
                (self.inners.len() - 1) as u32
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<V> {
        let head = key.head();
        let number = self.leaf_of(head, key);
        let leaf = &mut self.leaves[number as usize];
        let slot = leaf.search(head, key, self.uniform).ok()?;
        leaf.keys.remove(slot);
        let value = leaf.values.remove(slot);
        leaf.inserted = usize::MAX - 1;
        if leaf.values.is_empty() && self.height > 0 {
            self.remove_leaf(number, key);
        }
        Some(value)
    }

    /// Removes an empty leaf, which held `key`, from the list and from its parents.
    fn remove_leaf(&mut self, number: u32, key: &Key) {
        let (mut path, _) = self.path_to(key);
        let leaf = std::mem::replace(&mut self.leaves[number as usize], Leaf::empty());
        if let Some(previous) = leaf.previous {
            self.leaves[previous as usize].next = leaf.next;
        }
        if let Some(next) = leaf.next {
            self.leaves[next as usize].previous = leaf.previous;
        }
        self.free_leaves.push(number);
        while let Some((parent, child)) = path.pop() {
            let inner = &mut self.inners[parent as usize];
            inner.keys.remove(child);
            inner.children.remove(child);
            if !inner.children.is_empty() {
                break;
            }
            self.free_inners.push(parent);
            if path.is_empty() {
                // The last leaf was removed: start again with an empty one.
                self.height = 0;
                self.root = self.free_leaves.pop().expect("a leaf was just freed");
                return;
            }
        }
        while self.height > 0 && self.inners[self.root as usize].children.len() == 1 {
            let inner = &mut self.inners[self.root as usize];
            let only = inner.children[0];
            *inner = Inner {
                keys: Keys::default(),
                children: Vec::new(),
            };
            self.free_inners.push(self.root);
            self.root = only;
            self.height -= 1;
        }
    }

    /// The entries from `start` up to `end`, exclusive, ascending.
    pub(crate) fn range<'t>(
        &'t self,
        start: &Key,
        end: Option<&Key>,
    ) -> impl Iterator<Item = (&'t Key, &'t V)> + use<'t, V> {
        let head = start.head();
        let number = self.leaf_of(head, start);
        let slot = self.leaves[number as usize].keys.lower_bound(head, start);
        let end = end.map(|end| (end.head(), end.clone()));
        let mut at = Some((number, slot));
        std::iter::from_fn(move || {
            loop {
                let (number, slot) = at?;
                let leaf = &self.leaves[number as usize];
                let Some(key) = leaf.keys.keys.get(slot) else {
                    at = leaf.next.map(|next| (next, 0));
                    continue;
                };
                if let Some((head, end)) = &end {
                    let held = leaf.keys.heads[slot];
                    if held > *head || held == *head && key >= end {
                        at = None;
                        return None;
                    }
                }
                at = Some((number, slot + 1));
                return Some((key, &leaf.values[slot]));
            }
        })
    }

    /// The entries below `end` down to `start`, descending.
    pub(crate) fn range_reverse<'t>(
        &'t self,
        start: &Key,
        end: Option<&Key>,
    ) -> impl Iterator<Item = (&'t Key, &'t V)> + use<'t, V> {
        let (number, slot) = match end {
            Some(end) => {
                let head = end.head();
                let number = self.leaf_of(head, end);
                (
                    number,
                    self.leaves[number as usize].keys.lower_bound(head, end),
                )
            }
            None => {
                let last = self.last_leaf();
                (last, self.leaves[last as usize].keys.len())
            }
        };
        let start = (start.head(), start.clone());
        // The slot after the next entry.
        let mut at = Some((number, slot));
        std::iter::from_fn(move || {
            loop {
                let (number, slot) = at?;
                let leaf = &self.leaves[number as usize];
                let Some(slot) = slot.checked_sub(1) else {
                    let previous = leaf.previous;
                    at = previous.map(|p| (p, self.leaves[p as usize].keys.len()));
                    continue;
                };
                let (key, held) = (&leaf.keys.keys[slot], leaf.keys.heads[slot]);
                if held < start.0 || held == start.0 && *key < start.1 {
                    at = None;
                    return None;
                }
                at = Some((number, slot));
                return Some((key, &leaf.values[slot]));
            }
        })
    }

    fn last_leaf(&self) -> u32 {
        let mut node = self.root;
        for _ in 0..self.height {
            node = *self.inners[node as usize]
                .children
                .last()
                .expect("an inner node has children");
        }
        node
    }

    /// The approximate size of the map in bytes, without what keys and values point to.
    pub(crate) fn approximate_bytes(&self) -> usize {
        let entry = size_of::<u128>() + size_of::<Key>() + size_of::<V>();
        let leaves = (self.leaves.len() - self.free_leaves.len()).max(1);
        let inners = self.inners.len() - self.free_inners.len();
        leaves * (NODE_MAX * entry + size_of::<Leaf<V>>())
            + inners * (NODE_MAX * (size_of::<u128>() + size_of::<Key>() + 4) + size_of::<Inner>())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Key),
        InsertNear(usize, Key),
        Run(u8, u16),
        Remove(Key),
        RemoveFrom(Key, usize),
        Range(Key, Option<Key>),
    }

    fn keys() -> impl Strategy<Value = Key> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(255)];
        let short = prop::collection::vec(byte.clone(), 0..5);
        let long = prop::collection::vec(byte, 15..19);
        prop_oneof![3 => short, 1 => long].prop_map(|bytes| Key::from_bytes(&bytes))
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => keys().prop_map(Step::Insert),
            3 => (0..9usize, keys()).prop_map(|(place, key)| Step::InsertNear(place, key)),
            2 => (0..4u8, 1..400u16).prop_map(|(prefix, count)| Step::Run(prefix, count)),
            2 => keys().prop_map(Step::Remove),
            2 => (keys(), 1..500usize).prop_map(|(from, count)| Step::RemoveFrom(from, count)),
            3 => (keys(), prop::option::of(keys())).prop_map(|(s, e)| Step::Range(s, e)),
        ]
    }

    fn check_structure(tree: &Tree<u32>) {
        let free: Vec<u32> = tree.free_inners.clone();
        for (number, inner) in tree.inners.iter().enumerate() {
            if !free.contains(&(number as u32)) {
                assert!(!inner.children.is_empty() && inner.children.len() <= NODE_MAX);
                assert_eq!(inner.children.len(), inner.keys.len());
                assert!(inner.keys.keys[1..].is_sorted());
            }
        }
        assert!(tree.leaves.iter().all(|leaf| leaf.values.len() <= NODE_MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn the_tree_is_an_ordered_map(steps in prop::collection::vec(steps(), 1..60)) {
            let mut tree = Tree::default();
            let mut twin: BTreeMap<Key, u32> = BTreeMap::new();
            let mut fresh = 0;
            let mut next = [0u32; 4];
            // Positions of some time ago.
            let mut held: Vec<Position> = Vec::new();
            for step in steps {
                fresh += 1;
                match step {
                    Step::Insert(key) => {
                        prop_assert_eq!(tree.insert(key.clone(), fresh), twin.insert(key, fresh));
                    }
                    Step::InsertNear(place, key) => {
                        let near = match held.get(place) {
                            Some(position) => *position,
                            None => Position::new(place as u32, place),
                        };
                        let old = tree.insert_near(near, key.clone(), fresh);
                        prop_assert_eq!(old, twin.insert(key.clone(), fresh));
                        held.push(tree.seek(&key).expect("it was inserted"));
                    }
                    Step::Run(prefix, count) => for _ in 0..count {
                        let number = &mut next[usize::from(prefix)];
                        *number += 1;
                        let mut bytes = vec![prefix];
                        bytes.extend(number.to_be_bytes());
                        let key = Key::from_bytes(&bytes);
                        let near = held.last().copied().unwrap_or(Position::ANYWHERE);
                        let place = tree.seek_near(near, &key);
                        prop_assert_eq!(place.is_ok(), twin.contains_key(&key));
                        let near = place.unwrap_or_else(|vacant| vacant);
                        held.push(near);
                        let old = tree.insert_near(near, key.clone(), fresh);
                        prop_assert_eq!(old, twin.insert(key, fresh));
                    },
                    Step::Remove(key) => prop_assert_eq!(tree.remove(&key), twin.remove(&key)),
                    Step::RemoveFrom(from, count) => {
                        let gone: Vec<Key> =
                            twin.range(from..).take(count).map(|(key, _)| key.clone()).collect();
                        for key in gone {
                            prop_assert_eq!(tree.remove(&key), twin.remove(&key));
                        }
                    }
                    Step::Range(start, end) => {
                        let within = |key: &Key| *key >= start && end.as_ref().is_none_or(|e| key < e);
                        let expected: Vec<_> = twin.iter().filter(|(key, _)| within(key)).collect();
                        let found: Vec<_> = tree.range(&start, end.as_ref()).collect();
                        prop_assert_eq!(&found, &expected);
                        let mut reverse: Vec<_> = tree.range_reverse(&start, end.as_ref()).collect();
                        reverse.reverse();
                        prop_assert_eq!(&reverse, &expected);
                        prop_assert_eq!(tree.get(&start), twin.get(&start));
                        if let Ok(position) = tree.seek(&start) {
                            held.push(position);
                        }
                        for position in &held {
                            prop_assert_eq!(tree.get_mut_at(*position, &start).copied(),
                                twin.get(&start).copied());
                        }
                    }
                }
                check_structure(&tree);
            }
        }
    }

    /// Found by a seed: after a node's first children are removed, keys below its first separator belong to it,
    /// and their separators must not be compared with that one.
    #[test]
    fn keys_return_below_a_separator_whose_child_is_gone() {
        let key = |number: u32| Key::from_bytes(&number.to_be_bytes());
        let mut tree = Tree::default();
        for number in 10_000..20_000 {
            tree.insert(key(number), number);
        }
        for number in 10_000..15_000 {
            tree.remove(&key(number));
        }
        for number in (0..15_000).rev() {
            tree.insert(key(number), number);
        }
        assert!((0..20_000).all(|number| tree.get(&key(number)) == Some(&number)));
        assert!(
            tree.range(&Key::empty(), None)
                .map(|(_, number)| *number)
                .eq(0..20_000)
        );
    }

    /// Halves of heads distinguish short keys from each other, but not from a longer one.
    #[test]
    fn a_longer_key_comes_behind_the_short_one_it_begins_with() {
        let mut short = Tree::default();
        for number in 0..200u32 {
            short.insert(Key::from_bytes(&number.to_be_bytes()), number);
        }
        for number in 0..200u32 {
            let mut bytes = number.to_be_bytes().to_vec();
            bytes.extend(1u64.to_be_bytes());
            let mut tree = short.clone();
            assert_eq!(tree.insert(Key::from_bytes(&bytes), 1_000), None);
            let mut expected: Vec<u32> = (0..200).collect();
            expected.insert(number as usize + 1, 1_000);
            let held = tree.range(&Key::empty(), None).map(|(_, value)| *value);
            assert!(held.eq(expected), "behind {number}");
        }
    }

    /// Among numbers that are consecutive up to a leaf's end, a key is found by its distance to the end; if some are
    /// missing, another key is at that distance.
    #[test]
    fn numbers_are_found_among_gaps_and_none_is_found_in_one() {
        let full: Tree<u32> = (0..1_000u32).fold(Tree::default(), |mut tree, number| {
            tree.insert(Key::from_bytes(&number.to_be_bytes()), number);
            tree
        });
        for every in 2..70 {
            let mut tree = full.clone();
            for number in (0..1_000).filter(|number| number % every == 0) {
                tree.remove(&Key::from_bytes(&u32::to_be_bytes(number)));
            }
            for number in 0..1_100 {
                let expected = (number < 1_000 && number % every != 0).then_some(number);
                let key = Key::from_bytes(&u32::to_be_bytes(number));
                assert_eq!(tree.get(&key).copied(), expected, "without every {every}th");
            }
        }
    }

    #[test]
    fn ascending_runs_fill_their_leaves() {
        let mut tree = Tree::default();
        for number in 0..1_000u32 {
            for run in 0..10u8 {
                let mut bytes = vec![run];
                bytes.extend(number.to_be_bytes());
                tree.insert(Key::from_bytes(&bytes), ());
            }
        }
        let least = 10_000 / NODE_MAX;
        assert!(
            tree.leaves.len() < least * 5 / 4,
            "{} leaves",
            tree.leaves.len()
        );
    }
}
