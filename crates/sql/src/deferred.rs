//! Checks of foreign keys that wait for the end of the transaction, or for SET CONSTRAINTS … IMMEDIATE.
//!
//! A statement that would check a deferred foreign key notes a [`Check`] instead: which key, which values, and whether
//! a child was written or a parent has gone. The check passes if a parent with the values exists when it is run, or no
//! child with them does. It is about values, not about the row that was written, which may have changed since.
//! Checks run in the order in which they were noted, as PostgreSQL's deferred triggers do, so that the same one fails.

use std::sync::Arc;

use anabranch_types::{TableId, Value};

use crate::summary::StatementId;

/// Whether the check of a foreign key may wait for the end of the transaction, and whether it does unless SET CONSTRAINTS
/// says otherwise. CASCADE, SET NULL, SET DEFAULT and RESTRICT never wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deferrability {
    /// `NOT DEFERRABLE`, the default: checked at each statement.
    #[default]
    NotDeferrable,
    /// `DEFERRABLE`: checked at each statement, unless SET CONSTRAINTS defers it.
    InitiallyImmediate,
    /// `DEFERRABLE INITIALLY DEFERRED`: checked at COMMIT.
    InitiallyDeferred,
}

impl Deferrability {
    /// Whether SET CONSTRAINTS may change when it is checked.
    pub fn is_deferrable(self) -> bool {
        self != Deferrability::NotDeferrable
    }

    /// Whether it is checked at COMMIT unless SET CONSTRAINTS says otherwise.
    pub fn is_initially_deferred(self) -> bool {
        self == Deferrability::InitiallyDeferred
    }

    /// As SQL, with a space before it; nothing for the default.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Deferrability::NotDeferrable => "",
            Deferrability::InitiallyImmediate => " DEFERRABLE",
            Deferrability::InitiallyDeferred => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
}

/// What SET CONSTRAINTS names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintSelection {
    /// `ALL`
    All,
    /// Constraints of these names, of any table.
    Named(Vec<String>),
}

impl ConstraintSelection {
    /// Whether a constraint of this name is among them.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            ConstraintSelection::All => true,
            ConstraintSelection::Named(names) => names.iter().any(|of| of == name),
        }
    }
}

/// What a transaction's SET CONSTRAINTS statements have said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConstraintTiming {
    all: Option<bool>,
    /// By name; these count more than `all`.
    named: Vec<(String, bool)>,
}

impl ConstraintTiming {
    /// Has these constraints checked at the end of the transaction (`deferred`), or at each statement.
    pub fn set(&mut self, selection: &ConstraintSelection, deferred: bool) {
        match selection {
            ConstraintSelection::All => {
                self.all = Some(deferred);
                self.named.clear();
            }
            ConstraintSelection::Named(names) => {
                self.named.retain(|(name, _)| !names.contains(name));
                let named = names.iter().map(|name| (name.clone(), deferred));
                self.named.extend(named);
            }
        }
    }

    /// Whether a constraint is checked at the end of the transaction.
    pub(crate) fn defers(&self, name: &str, deferrability: Deferrability) -> bool {
        if !deferrability.is_deferrable() {
            return false;
        }
        let named = self.named.iter().find(|(of, _)| of == name);
        named
            .map(|(_, deferred)| *deferred)
            .or(self.all)
            .unwrap_or(deferrability.is_initially_deferred())
    }
}

/// The deferred checks of one transaction.
#[derive(Clone, Debug, Default)]
pub struct DeferredChecks {
    timing: Option<Arc<ConstraintTiming>>,
    checks: Vec<Check>,
    /// The number of times that checks were run.
    runs: u32,
}

/// A place in a transaction's deferred checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeferredPosition {
    checks: usize,
    runs: u32,
}

/// One deferred check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Check {
    /// The statement that noted it, on whose behalf it reads.
    pub(crate) statement: StatementId,
    pub(crate) side: Side,
    pub(crate) child: TableId,
    /// The foreign key's place among those of the child.
    pub(crate) number: usize,
    /// The values of the foreign key's columns, in their order.
    pub(crate) values: Vec<Value>,
    /// The run that it has passed.
    passed: Option<u32>,
}

/// What a check was noted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// A child was written.
    Child,
    /// A parent was deleted, or its key has changed.
    Parent,
}

impl DeferredChecks {
    /// Takes what SET CONSTRAINTS has said before the next statement.
    pub fn set_timing(&mut self, timing: Option<Arc<ConstraintTiming>>) {
        self.timing = timing;
    }

    /// Whether a foreign key is checked at the end of the transaction.
    pub(crate) fn defers(&self, name: &str, deferrability: Deferrability) -> bool {
        match &self.timing {
            Some(timing) => timing.defers(name, deferrability),
            None => deferrability.is_initially_deferred(),
        }
    }

    /// Notes a check. One that follows its like is left out.
    pub(crate) fn note(
        &mut self,
        statement: StatementId,
        side: Side,
        (child, number): (TableId, usize),
        values: Vec<Value>,
    ) {
        let check = Check {
            statement,
            side,
            child,
            number,
            values,
            passed: None,
        };
        if self.checks.last() != Some(&check) {
            self.checks.push(check);
        }
    }

    /// Whether no check waits.
    pub fn is_empty(&self) -> bool {
        self.checks.iter().all(|check| check.passed.is_some())
    }

    /// The checks that wait and that `due` says to run, in order, with their places.
    pub(crate) fn waiting(&self, due: impl Fn(&Check) -> bool) -> Vec<(usize, Check)> {
        let all = self.checks.iter().enumerate();
        all.filter(|(_, check)| check.passed.is_none() && due(check))
            .map(|(place, check)| (place, check.clone()))
            .collect()
    }

    /// Notes that the checks at these places have passed, in one run.
    pub(crate) fn pass(&mut self, places: impl Iterator<Item = usize>) {
        self.runs += 1;
        for place in places {
            self.checks[place].passed = Some(self.runs);
        }
    }

    /// Where the transaction is.
    pub fn position(&self) -> DeferredPosition {
        DeferredPosition {
            checks: self.checks.len(),
            runs: self.runs,
        }
    }

    /// Takes back what was noted since. What has passed since waits again.
    pub fn roll_back_to(&mut self, position: DeferredPosition) {
        self.checks.truncate(position.checks);
        for check in &mut self.checks {
            if check.passed.is_some_and(|run| run > position.runs) {
                check.passed = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(checks: &mut DeferredChecks, value: i64) {
        checks.note(
            StatementId(0),
            Side::Child,
            (TableId(0), 0),
            vec![Value::Int(value)],
        );
    }

    fn values(checks: &DeferredChecks) -> Vec<i64> {
        let waiting = checks.waiting(|_| true);
        let value = |check: &Check| match check.values[0] {
            Value::Int(value) => value,
            _ => unreachable!("all values are integers"),
        };
        waiting.iter().map(|(_, check)| value(check)).collect()
    }

    #[test]
    fn what_is_rolled_back_waits_as_before() {
        let mut checks = DeferredChecks::default();
        note(&mut checks, 1);
        note(&mut checks, 1);
        let before = checks.position();
        note(&mut checks, 2);
        checks.pass([0].into_iter());
        assert_eq!(values(&checks), [2]);
        checks.roll_back_to(before);
        assert_eq!(values(&checks), [1], "its run is taken back");
        checks.pass([0].into_iter());
        let after = checks.position();
        note(&mut checks, 3);
        checks.roll_back_to(after);
        assert!(checks.is_empty(), "a run before the place stands");
    }

    #[test]
    fn a_name_counts_more_than_all_until_all_is_named_again() {
        let named = ConstraintSelection::Named(vec!["a".to_owned()]);
        let mut timing = ConstraintTiming::default();
        let deferred = |timing: &ConstraintTiming, name| {
            timing.defers(name, Deferrability::InitiallyImmediate)
        };
        timing.set(&named, true);
        assert!(deferred(&timing, "a") && !deferred(&timing, "b"));
        timing.set(&ConstraintSelection::All, false);
        assert!(!deferred(&timing, "a"));
        assert!(!timing.defers("a", Deferrability::InitiallyDeferred));
        timing.set(&ConstraintSelection::All, true);
        timing.set(&named, false);
        assert!(!deferred(&timing, "a") && deferred(&timing, "b"));
        assert!(!timing.defers("b", Deferrability::NotDeferrable));
    }
}
