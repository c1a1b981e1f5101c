//! Executes compound statements: a WITH with statements that change data, and MERGE.
//!
//! Each part sees the rows as they were before the statement, and of the other parts only what they return. So what a
//! part writes is held back until all have run. Behind that come the actions of foreign keys, and at last their checks: a
//! part may insert the parents of rows that another inserts, or delete the children of rows that another deletes.
//!
//! A row that two parts change has no value that both would have left. PostgreSQL drops one of the changes, for WITH
//! without a word; here it is an error.

use anabranch_types::{Effect, Key, TableId, Value};
use rustc_hash::FxHashMap;

use super::{BATCH_TUPLES, Run, referential::ParentChange};
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

/// What the parts of a compound statement have written so far.
#[derive(Debug)]
pub(crate) struct PartEffects {
    is_merge: bool,
    /// The part that runs.
    part: usize,
    effects: Vec<Effect>,
    /// The rows that were there before and that a part has updated or deleted, and that part.
    changed: FxHashMap<(TableId, Key), usize>,
    /// The rows among them that children may refer to.
    pub(super) parents: Vec<ParentChange>,
    /// Whether all parts have run, and their effects are written.
    pub(super) is_written: bool,
    /// Checks of foreign keys.
    pub(super) checks: DeferredChecks,
}

impl PartEffects {
    fn new(kind: &CompoundKind) -> PartEffects {
        PartEffects {
            is_merge: *kind == CompoundKind::Merge,
            part: 0,
            effects: Vec::new(),
            changed: FxHashMap::default(),
            parents: Vec::new(),
            is_written: false,
            checks: DeferredChecks::default(),
        }
    }

    fn add(&mut self, effect: Effect) -> Result<(), Failure> {
        if let Effect::Update { table, key, .. } | Effect::Delete { table, key } = &effect {
            let part = *self
                .changed
                .entry((*table, key.clone()))
                .or_insert(self.part);
            if part != self.part {
                return Err(self.changed_twice());
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
    /// Writes an effect, or holds it back until all parts have run.
    pub(super) fn write(&mut self, effect: Effect) -> Result<(), TransactionError> {
        match &mut self.part_effects {
            Some(part_effects) if !part_effects.is_written => {
                let budget = &self.context.budget;
                budget.hold(2 * size_of::<Effect>())?;
                Ok(part_effects.add(effect)?)
            }
            _ => self.transaction.write(self.statement, effect),
        }
    }

    /// Runs a compound statement: the rows of its last part, and how many it found or changed.
    pub(crate) async fn compound(
        &mut self,
        several: &CompoundStatement,
    ) -> Result<(Vec<Vec<Value>>, u64), TransactionError> {
        self.part_effects = Some(Box::new(PartEffects::new(&several.kind)));
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
        self.write_part_effects().await?;
        Ok(result)
    }

    /// Writes what the parts were held back from writing; then runs the actions of foreign keys, and their checks.
    async fn write_part_effects(&mut self) -> Result<(), TransactionError> {
        let Some(part_effects) = &mut self.part_effects else {
            return Ok(());
        };
        part_effects.is_written = true;
        let effects = std::mem::take(&mut part_effects.effects);
        let parents = std::mem::take(&mut part_effects.parents);
        for effect in effects {
            self.transaction.write(self.statement, effect)?;
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        for parent in parents {
            self.parent_changed(parent).await?;
        }
        let Some(part_effects) = self.part_effects.take() else {
            return Ok(());
        };
        let checks = part_effects.checks.waiting(|_| true);
        for checks in checks.chunks(BATCH_TUPLES) {
            self.check_deferred_part(checks).await?;
        }
        Ok(())
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
        if let Some(part_effects) = &mut self.part_effects {
            part_effects.part = place;
        }
    }
}
