//! What an owner does under Prepare-F: it prepares what its coordinator may have answered for already.

use anabranch_types::{Merging, ProgramId, Timestamp};

use super::{Context, Participant};
use crate::AbortReason;
use crate::ramp::message::{Prepare, Required};

impl Participant {
    /// How what a program writes merges with what others write, if it does.
    pub(in crate::ramp) fn merging(&self, program: ProgramId) -> Option<Merging> {
        self.programs.merging(program)
    }

    /// Prepares what every cluster is to prepare under one timestamp. Asked again, by a coordinator that
    /// has come back, it answers as before: what it has prepared or shown it has, and what it has
    /// forgotten since was shown everywhere.
    pub(in crate::ramp) fn bind(
        &mut self,
        context: &mut Context,
        prepare: Prepare,
    ) -> Result<Timestamp, AbortReason> {
        let name = prepare.prepared;
        let has = self.is_prepared(name)
            || self.recent.contains_key(&name)
            || self.repeats.contains_key(&name)
            || context.stability.is_settled(name);
        if has {
            return Ok(context.clock.next(context.now));
        }
        self.prepare_at(context, prepare, Some(name))
    }

    /// As what a transaction is shown here that has one timestamp for everything.
    pub(in crate::ramp) fn shown_in_all(&self, name: Timestamp) -> Option<Required> {
        let shown = self.recent.contains_key(&name) || self.repeats.contains_key(&name);
        shown.then_some(Required {
            prepared: name,
            commit: name,
        })
    }
}
