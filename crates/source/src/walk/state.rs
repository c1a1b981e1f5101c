//! What branches may leave different: variables, statements that are ready, cursors.
//!
//! Every branch begins with the state before it, and most change little of it: so copies share what they have in
//! common, and what two of them share is known to be the same without a look.

use std::{
    collections::{BTreeMap, btree_map},
    ops::Bound,
    sync::Arc,
};

use super::{Bound as BoundValues, Handle};
use crate::value::Value;

/// It.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Variables; fields as `this.name`.
    pub(super) variables: Variables,
    pub(super) handles: Handles,
    /// What a cursor has run last.
    pub(super) cursors: Arc<BTreeMap<String, Vec<usize>>>,
}

/// Names, and what they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Variables(Arc<BTreeMap<Arc<str>, Arc<Value>>>);

/// What was written, name by name.
pub(super) type Written = Vec<(Arc<str>, Arc<Value>)>;

impl Variables {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).map(|value| &**value)
    }

    /// The same, as it stands elsewhere, too.
    pub(super) fn shared(&self, name: &str) -> Option<&Arc<Value>> {
        self.0.get(name)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn insert(&mut self, name: &str, value: Value) {
        self.share(&Arc::from(name), Arc::new(value));
    }

    /// The same of a value that stands elsewhere, too.
    pub(super) fn share(&mut self, name: &Arc<str>, value: Arc<Value>) {
        if self
            .0
            .get(name)
            .is_some_and(|known| Arc::ptr_eq(known, &value))
        {
            return;
        }
        let all = Arc::make_mut(&mut self.0);
        match all.get_mut(name) {
            Some(known) => *known = value,
            None => {
                all.insert(name.clone(), value);
            }
        }
    }

    pub(super) fn iter(&self) -> btree_map::Iter<'_, Arc<str>, Arc<Value>> {
        self.0.iter()
    }

    /// What is known of the parts of something: of `a`, `a.b` and `a.b.c`.
    pub(super) fn parts_of(&self, name: &str) -> impl Iterator<Item = &Value> {
        let (from, to) = (format!("{name}."), format!("{name}/"));
        let range = (Bound::Included(&*from), Bound::Excluded(&*to));
        // Behind a point comes a slash.
        self.0.range::<str, _>(range).map(|(_, value)| &**value)
    }

    /// Forgets those of which `goes` is true.
    pub(super) fn forget(&mut self, goes: impl Fn(&str, &Value) -> bool) {
        // Most often there are none.
        if self.0.iter().any(|(name, value)| goes(name, value)) {
            Arc::make_mut(&mut self.0).retain(|name, value| !goes(name, value));
        }
    }

    /// Whether they are surely the same.
    pub(super) fn is_shared_with(&self, other: &Variables) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Statements that are ready, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Handles(Arc<Vec<Arc<Handle>>>);

impl Handles {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, number: usize) -> Option<&Arc<Handle>> {
        self.0.get(number)
    }

    pub(super) fn push(&mut self, handle: Arc<Handle>) {
        Arc::make_mut(&mut self.0).push(handle);
    }

    /// Changes what is bound to one.
    pub(super) fn bound_mut(&mut self, number: usize) -> Option<&mut BoundValues> {
        self.handle_mut(number).map(|handle| &mut handle.bound)
    }

    pub(super) fn handle_mut(&mut self, number: usize) -> Option<&mut Handle> {
        if number >= self.len() {
            return None;
        }
        let all = Arc::make_mut(&mut self.0);
        all.get_mut(number).map(Arc::make_mut)
    }

    pub(super) fn is_shared_with(&self, other: &Handles) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
