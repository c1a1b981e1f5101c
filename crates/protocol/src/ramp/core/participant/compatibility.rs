//! Whether what is about to be promised fits beside what has been promised on the same rows.

use anabranch_storage::{ItemTag, Staged};
use anabranch_types::{ColumnSet, Effect, Key, Read, TableId};
use smallvec::SmallVec;

use crate::AbortReason;
use crate::ramp::core::participant::Participant;
use crate::ramp::core::participant::intents::{Mode, RequestedIntents};
use crate::ramp::core::participant::prepare::updated;

impl Participant {
    /// Whether these updates and those that are prepared on the same rows can run in any order
    /// without one that fails: all of them are promised, or about to be.
    pub(crate) fn fits_beside_prepared(&self, effects: &[Effect]) -> Result<(), AbortReason> {
        if self.intents.is_empty() {
            return Ok(());
        }
        for (at, effect) in effects.iter().enumerate() {
            let Some((table, key)) = updated(effect) else {
                continue;
            };
            let item = ItemTag::of(table, key);
            let seen = effects[..at].iter().map(updated);
            if !self.intents.has_update(item) || seen.flatten().any(|row| row == (table, key)) {
                continue;
            }
            // Mostly all assign the same columns, so that many need not be looked at one by one.
            let mut of_row = effects.iter().filter(|e| updated(e) == Some((table, key)));
            if let Some(columns) = self.intents.replaced(item)
                && of_row.all(|effect| self.replaces(effect) == Some(columns))
            {
                continue;
            }
            let others = self
                .intents
                .owners(item)
                .filter_map(|by| self.prepared.get(&by));
            let runs: SmallVec<[_; 8]> = others
                .flat_map(|prepared| &prepared.effects)
                .chain(effects)
                .filter_map(|effect| match effect {
                    Effect::Update {
                        program, arguments, ..
                    } if updated(effect) == Some((table, key)) => Some((*program, &**arguments)),
                    _ => None,
                })
                .collect();
            // Whichever comes last, the row is as if it had come alone.
            let replaced = self.programs.replaces(runs[0].0);
            let likewise = |(program, _): &(_, _)| self.programs.replaces(*program) == replaced;
            if replaced.is_some() && runs.iter().all(likewise) {
                continue;
            }
            let read = Read::Point {
                table,
                key: key.clone(),
            };
            let mut fits = true;
            let visited = self.store.read(&read, None, &mut |_, _, version| {
                if let Some(row) = version.and_then(|version| version.row()) {
                    fits = self.programs.are_compatible(row, &runs);
                }
            });
            visited.expect("the newest versions are always there");
            if !fits {
                return Err(AbortReason::Conflict);
            }
        }
        Ok(())
    }

    /// The columns that an update assigns, if it does nothing else.
    fn replaces(&self, effect: &Effect) -> Option<ColumnSet> {
        match effect {
            Effect::Update { program, .. } => self.programs.replaces(*program),
            _ => None,
        }
    }

    /// Adds the write intent that keeps a row absent which an update has not found: while the update is promised to
    /// do nothing there, no insert may take its key, known or drawn.
    pub(crate) fn keep_absent(
        &self,
        requested: &mut RequestedIntents,
        effects: &[Effect],
        staged: &Staged,
    ) -> Result<(), AbortReason> {
        let found = |row: (TableId, &Key)| {
            let mut changes = staged.changes().iter();
            changes.any(|change| (change.table(), change.key()) == row)
        };
        for (table, key) in effects.iter().filter_map(updated) {
            if !found((table, key)) {
                requested.request_table(table, Mode::KnownKey);
                if self
                    .intents
                    .excludes(ItemTag::unknown(table), Mode::KnownKey)
                {
                    return Err(AbortReason::Conflict);
                }
            }
        }
        Ok(())
    }
}
