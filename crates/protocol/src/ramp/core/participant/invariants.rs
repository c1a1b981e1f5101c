//! The numbered invariants that an owner can see, and the errors for a broken one.

use anabranch_storage::CommitSequence;
use anabranch_types::{EffectError, Timestamp};

use crate::ramp::core::extension::ExceptionsBy;
use crate::ramp::core::extension::Stability;
use crate::ramp::core::participant::Participant;
use crate::ramp::core::participant::installed::Installed;

impl Participant {
    /// The invariants that an owner can see.
    pub(crate) fn check_invariants(&self, stability: &Stability) -> Result<(), String> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        self.intents
            .check_invariants(|prepared| self.prepared.contains_key(&prepared))?;
        // tidy: order-free because a sum commutes
        let intents: usize = self
            .prepared
            .values()
            .map(|prepared| prepared.intents.len())
            .sum();
        let (_, in_table) = self.intents.count();
        if intents != in_table {
            return Err(format!(
                "RAMP-I5: {intents} write intents are held and {in_table} are listed"
            ));
        }
        for installed in &self.installed {
            let (mut sequence, mut commit_max) = (CommitSequence::LOADED, Timestamp::ZERO);
            for next in installed.all() {
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
            if let Some(oldest) = installed.all().front()
                && oldest.sequence < self.installed_since
            {
                return Err(format!(
                    "RAMP-I2: {oldest:?} is remembered, and was installed before {}",
                    self.installed_since
                ));
            }
            if sequence > self.store.last() {
                return Err(format!(
                    "RAMP-I2: {sequence} is remembered and was not installed"
                ));
            }
            if let Some(oldest) = installed.all().front()
                && stability.is_settled(oldest.commit)
            {
                return Err(format!(
                    "RAMP-I6: {oldest:?} is settled and still remembered"
                ));
            }
        }
        for newest in self
            .installed
            .iter()
            .filter_map(|installed| installed.all().back())
        {
            self.check_causal_context(newest)?;
        }
        for excepted in self.exceptions_by.iter().flat_map(ExceptionsBy::excepted) {
            let remembered = self.recent.get(&excepted.commit);
            if remembered.map(|recent| recent.sequence) != Some(excepted.sequence) {
                return Err(format!(
                    "RAMP-I2: {excepted:?} is an exception and not remembered"
                ));
            }
            if stability.is_settled(excepted.commit) {
                return Err(format!(
                    "RAMP-I6: {excepted:?} is settled and still an exception"
                ));
            }
        }
        let installed: usize = self
            .installed
            .iter()
            .map(|installed| installed.all().len())
            .sum();
        let exceptions_by = self
            .exceptions_by
            .iter()
            .flat_map(ExceptionsBy::excepted)
            .count();
        if self.recent.len() != installed + exceptions_by {
            return Err("RAMP-I2: more is remembered than was installed".to_string());
        }
        Ok(())
    }

    pub(crate) fn break_invariant(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// Checks the transaction that was installed last; earlier ones were checked before.
    fn check_causal_context(&self, installed: &Installed) -> Result<(), String> {
        let Some(causal_context) = &installed.trace.causal_context else {
            return Ok(());
        };
        if causal_context
            .newest()
            .is_some_and(|newest| newest >= installed.commit)
        {
            return Err(format!(
                "CAUSAL-I5: {} has no higher timestamp than its dependencies",
                installed.commit
            ));
        }
        for dependency in &*causal_context.dependencies {
            let is_prepared = self.prepared.contains_key(&dependency.siblings.timestamp);
            let later = (self.recent.get(&dependency.commit))
                .is_some_and(|followed| followed.sequence > installed.sequence);
            if is_prepared || later {
                return Err(format!(
                    "CAUSAL-I3: {} is installed before {}, on which it depends",
                    installed.commit, dependency.commit
                ));
            }
        }
        if causal_context.covered.of(self.partition) >= installed.sequence {
            return Err(format!(
                "CAUSAL-I2: {} depends on what was installed after it",
                installed.commit
            ));
        }
        Ok(())
    }
}

pub(crate) fn missing_row() -> EffectError {
    in_doubt("a row whose value it needs has gone")
}

pub(crate) fn in_doubt(why: &str) -> EffectError {
    EffectError::new(
        "XX000",
        format!("the transaction is committed in part: {why}"),
    )
}
