//! The numbered invariants that an owner can see, and what is told where one is found broken.

use anabranch_storage::CommitSequence;
use anabranch_types::{EffectError, Timestamp};

use super::Participant;
use super::aside::AsideBy;
use super::shown::Shown;
use crate::ramp::stability::Stability;

impl Participant {
    /// The invariants that an owner can see.
    pub(in crate::ramp) fn check_invariants(&self, stability: &Stability) -> Result<(), String> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        self.holds
            .check_invariants(|prepared| self.prepared.contains_key(&prepared))?;
        // tidy: order-free because a sum commutes
        let held: usize = self
            .prepared
            .values()
            .map(|prepared| prepared.held.len())
            .sum();
        let (_, in_table) = self.holds.count();
        if held != in_table {
            return Err(format!(
                "RAMP-I5: {held} holds are taken and {in_table} stand"
            ));
        }
        for shown in &self.shown {
            let (mut sequence, mut commit_max) = (CommitSequence::LOADED, Timestamp::ZERO);
            for next in shown.all() {
                commit_max = commit_max.max(next.commit);
                let remembered = self.recent.get(&next.commit).map(|recent| recent.sequence);
                if next.sequence <= sequence
                    || next.commit_max != commit_max
                    || remembered != Some(next.sequence)
                {
                    return Err(format!("RAMP-I2: {next:?} is not remembered in order"));
                }
                sequence = next.sequence;
            }
            if let Some(oldest) = shown.all().front()
                && oldest.sequence < self.shown_since
            {
                return Err(format!(
                    "RAMP-I2: {oldest:?} is remembered, and was installed before {}",
                    self.shown_since
                ));
            }
            if sequence > self.store.last() {
                return Err(format!(
                    "RAMP-I2: {sequence} is remembered and was not installed"
                ));
            }
            if let Some(oldest) = shown.all().front()
                && stability.is_settled(oldest.commit)
            {
                return Err(format!(
                    "RAMP-I6: {oldest:?} is settled and still remembered"
                ));
            }
        }
        for newest in self.shown.iter().filter_map(|shown| shown.all().back()) {
            self.check_past(newest)?;
        }
        for left_out in self.aside.iter().flat_map(AsideBy::left_out) {
            let remembered = self.recent.get(&left_out.commit);
            if remembered.map(|recent| recent.sequence) != Some(left_out.sequence) {
                return Err(format!(
                    "RAMP-I2: {left_out:?} is set aside and not remembered"
                ));
            }
            if stability.is_settled(left_out.commit) {
                return Err(format!(
                    "RAMP-I6: {left_out:?} is settled and still set aside"
                ));
            }
        }
        let shown: usize = self.shown.iter().map(|shown| shown.all().len()).sum();
        let aside = self.aside.iter().flat_map(AsideBy::left_out).count();
        if self.recent.len() != shown + aside {
            return Err("RAMP-I2: more is remembered than was shown".to_string());
        }
        Ok(())
    }

    pub(super) fn break_invariant(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// Of what was shown last; what was shown before has been looked at.
    fn check_past(&self, shown: &Shown) -> Result<(), String> {
        let Some(past) = &shown.trace.past else {
            return Ok(());
        };
        if past.newest().is_some_and(|newest| newest >= shown.commit) {
            return Err(format!(
                "CAUSAL-I5: {} has no higher timestamp than what it follows",
                shown.commit
            ));
        }
        for named in &*past.named {
            let is_prepared = self.prepared.contains_key(&named.siblings.timestamp);
            let later = (self.recent.get(&named.commit))
                .is_some_and(|followed| followed.sequence > shown.sequence);
            if is_prepared || later {
                return Err(format!(
                    "CAUSAL-I3: {} is shown before {}, which it follows",
                    shown.commit, named.commit
                ));
            }
        }
        if past.reach.of(self.partition) >= shown.sequence {
            return Err(format!(
                "CAUSAL-I2: {} follows what was installed after it",
                shown.commit
            ));
        }
        Ok(())
    }
}

pub(super) fn missing_row() -> EffectError {
    in_doubt("a row whose value it needs has gone")
}

pub(super) fn in_doubt(why: &str) -> EffectError {
    EffectError {
        code: "XX000",
        message: format!("the transaction is committed in part: {why}"),
        constraint: None,
    }
}
