//! Executes compound statements: a WITH with statements that change data, and MERGE.
//!
//! Each part sees the rows as they were before the statement, and of the other parts only what they return. So what a
//! part writes is withheld until all have run, and foreign keys are checked behind that: a part may insert the parents
//! of rows that another inserts, or delete the children of rows that another deletes.
//!
//! A row that two parts change has no value that both would have left. PostgreSQL drops one of the changes, for WITH
//! without a word; here it is an error.

use std::collections::hash_map::Entry;

use anabranch_types::{Effect, Key, TableId, Value};
use rustc_hash::FxHashMap;

use super::{BATCH_TUPLES, Run};
use crate::{
    TransactionError,
    deferred::DeferredChecks,
    expression::{Failure, failure},
    plan::{
        Query,
        statement::{CompoundKind, CompoundStatement, Statement, StatementKind},
    },
    summary::Deferral,
    transaction::Transaction,
};

/// Why a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The statement names it.
    Statement,
    /// The action of a foreign key, on a row whose parent was changed.
    Action,
}

/// What the parts of a compound statement have written so far.
#[derive(Debug)]
pub(crate) struct Withheld {
    is_merge: bool,
    /// The part that runs.
    part: usize,
    effects: Vec<Effect>,
    /// The rows that were there before, and are updated or deleted.
    changed: FxHashMap<(TableId, Key), Change>,
    /// Checks of foreign keys.
    pub(super) checks: DeferredChecks,
}

/// A change of a row that was there before.
#[derive(Clone, Copy, Debug)]
struct Change {
    part: usize,
    cause: Cause,
    deletes: bool,
}

impl Withheld {
    fn new(kind: &CompoundKind) -> Withheld {
        Withheld {
            is_merge: *kind == CompoundKind::Merge,
            part: 0,
            effects: Vec::new(),
            changed: FxHashMap::default(),
            checks: DeferredChecks::default(),
        }
    }

    fn add(&mut self, effect: Effect, cause: Cause) -> Result<(), Failure> {
        let deletes = matches!(effect, Effect::Delete { .. });
        if let Effect::Update { table, key, .. } | Effect::Delete { table, key } = &effect {
            let part = self.part;
            match self.changed.entry((*table, key.clone())) {
                Entry::Vacant(place) => {
                    let change = Change {
                        part,
                        cause,
                        deletes,
                    };
                    place.insert(change);
                }
                Entry::Occupied(mut earlier) => {
                    let earlier = earlier.get_mut();
                    // An action follows a statement wherever both delete.
                    let by_action = Cause::Action == cause || Cause::Action == earlier.cause;
                    let is_deleted = deletes && earlier.deletes && by_action;
                    if earlier.part != part && !is_deleted {
                        return Err(self.changed_twice());
                    }
                    let is_same_part = earlier.part == part;
                    earlier.deletes |= deletes;
                    if cause == Cause::Statement {
                        earlier.cause = cause;
                    }
                    if !is_same_part {
                        return Ok(());
                    }
                }
            }
        }
        self.effects.push(effect);
        Ok(())
    }

    /// Looks at a part that names one row more than once.
    pub(super) fn check_repeated(&self) -> Result<(), Failure> {
        match self.is_merge {
            true => Err(self.changed_twice()),
            // UPDATE and DELETE take one of the tuples, as they do by themselves.
            false => Ok(()),
        }
    }

    #[cold]
    fn changed_twice(&self) -> Failure {
        let (code, message, hint) = match self.is_merge {
            true => (
                "21000",
                "MERGE command cannot affect row a second time",
                "Ensure that not more than one source row matches any one target row.",
            ),
            false => (
                "0A000",
                "two parts of a WITH change the same row",
                "Write them as statements of their own, in a transaction.",
            ),
        };
        let mut failure = failure(code, message);
        failure.fields_mut().hint = Some(hint.into());
        failure
    }
}

impl<T: Transaction> Run<'_, T> {
    /// Writes an effect that the statement names.
    pub(super) fn write(&mut self, effect: Effect) -> Result<(), TransactionError> {
        self.write_because(effect, Cause::Statement)
    }

    /// Writes an effect, or withholds it until all parts have run.
    pub(super) fn write_because(
        &mut self,
        effect: Effect,
        cause: Cause,
    ) -> Result<(), TransactionError> {
        match &mut self.withheld {
            None => self.transaction.write(self.statement, effect),
            Some(withheld) => Ok(withheld.add(effect, cause)?),
        }
    }

    /// Runs a compound statement: the rows of its last part, and how many it found or changed.
    pub(crate) async fn compound(
        &mut self,
        several: &CompoundStatement,
    ) -> Result<(Vec<Vec<Value>>, u64), TransactionError> {
        self.withheld = Some(Box::new(Withheld::new(&several.kind)));
        let result = match &several.kind {
            CompoundKind::With { numbers } => self.named_parts(&several.parts, numbers).await?,
            CompoundKind::Merge => {
                let mut count = 0;
                for (place, clause) in several.parts.iter().enumerate() {
                    self.begin_part(place);
                    count += self.simple(clause, Deferral::None).await?.1;
                }
                (Vec::new(), count)
            }
        };
        let Some(withheld) = self.withheld.take() else {
            return Ok(result);
        };
        for effect in withheld.effects {
            self.transaction.write(self.statement, effect)?;
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        let checks = withheld.checks.waiting(|_| true);
        for checks in checks.chunks(BATCH_TUPLES) {
            self.check_deferred_part(checks).await?;
        }
        Ok(result)
    }

    /// Runs the parts of a WITH, each with the common table expressions before it.
    async fn named_parts(
        &mut self,
        parts: &[Statement],
        numbers: &[usize],
    ) -> Result<(Vec<Vec<Value>>, u64), TransactionError> {
        let Some((last, parts)) = parts.split_last() else {
            return Ok((Vec::new(), 0));
        };
        let queries: &[(usize, Query)] = match &last.kind {
            StatementKind::Query(query) => &query.ctes,
            _ => &last.ctes,
        };
        for (place, (part, number)) in parts.iter().zip(numbers).enumerate() {
            let before = queries.iter().take_while(|(of, _)| of < number).count();
            self.named(&queries[..before]).await?;
            self.begin_part(place);
            let (rows, _) = self.simple(part, Deferral::None).await?;
            self.name_rows(*number, rows.into_iter().flatten().collect());
        }
        self.begin_part(parts.len());
        self.simple(last, Deferral::None).await
    }

    fn begin_part(&mut self, place: usize) {
        if let Some(withheld) = &mut self.withheld {
            withheld.part = place;
        }
    }
}
