//! The state that branches may change: variables, prepared statements, cursors.
//!
//! Each branch starts from the state before it and changes little. Copies share what they have in common, so that
//! equal parts are recognised by pointer.

use std::{
    collections::{BTreeMap, btree_map},
    ops::Bound,
    sync::Arc,
};

use super::{Bound as BoundValues, Handle};
use crate::value::Value;

/// The state at one point of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Variables; fields are named `this.name`.
    pub(super) variables: Variables,
    pub(super) handles: Handles,
    /// The last runs of each cursor.
    pub(super) cursors: Arc<BTreeMap<String, Vec<usize>>>,
}

/// Variables and their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Variables(Arc<BTreeMap<Arc<str>, Arc<Value>>>);

/// Variables that a call wrote, with their new values.
pub(super) type Written = Vec<(Arc<str>, Arc<Value>)>;

impl Variables {
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).map(|value| &**value)
    }

    /// The shared value of a variable.
    pub(super) fn shared(&self, name: &str) -> Option<&Arc<Value>> {
        self.0.get(name)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn insert(&mut self, name: &str, value: Value) {
        self.share(&Arc::from(name), Arc::new(value));
    }

    /// Sets a variable to a shared value.
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

    /// The values of all parts of a variable: `a.b` and `a.b.c` for `a`.
    pub(super) fn parts_of(&self, name: &str) -> impl Iterator<Item = &Value> {
        let (from, to) = (format!("{name}."), format!("{name}/"));
        let range = (Bound::Included(&*from), Bound::Excluded(&*to));
        // In ASCII, `/` follows `.`.
        self.0.range::<str, _>(range).map(|(_, value)| &**value)
    }

    /// Removes the variables for which `goes` is true.
    pub(super) fn forget(&mut self, goes: impl Fn(&str, &Value) -> bool) {
        // Usually none matches, and nothing is copied.
        if self.0.iter().any(|(name, value)| goes(name, value)) {
            Arc::make_mut(&mut self.0).retain(|name, value| !goes(name, value));
        }
    }

    /// Whether both share the same map, and so are equal.
    pub(super) fn is_shared_with(&self, other: &Variables) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Prepared statements by number.
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

    /// Mutable access to the values bound to a statement.
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

/// Whether a variable is a field of the current object.
pub(super) fn is_field(name: &str) -> bool {
    name.starts_with("this.") || name.starts_with("self.")
}
