//! What an owner does under Prepare-F: it prepares what its coordinator may have answered for already.

use anabranch_types::{Merging, ProgramId, Timestamp};

use crate::AbortReason;
use crate::ramp::core::context::Context;
use crate::ramp::core::message::{Decision, Prepare};
use crate::ramp::core::participant::Participant;

impl Participant {
    /// How what a program writes merges with what others write, if it does.
    pub(crate) fn merging(&self, program: ProgramId) -> Option<Merging> {
        self.programs.merging(program)
    }

    /// Prepares what every cluster prepares under one timestamp. Asked again, by a coordinator that has restarted, it
    /// answers as before: it has what it prepared or installed, and what it has forgotten was installed everywhere.
    pub(crate) fn prepare_replicated(
        &mut self,
        context: &mut Context,
        prepare: Prepare,
    ) -> Result<Timestamp, AbortReason> {
        let name = prepare.prepared;
        let has = self.is_prepared(name)
            || self.recent.contains_key(&name)
            || self.commit_replies.contains_key(&name)
            || context.stability.is_settled(name);
        if has {
            return Ok(context.clock.next(context.now));
        }
        self.prepare_at(context, prepare, Some(name))
    }

    /// The decision under which a transaction with one timestamp for everything is installed here.
    pub(crate) fn installed_as_replicated(&self, name: Timestamp) -> Option<Decision> {
        let installed = self.recent.contains_key(&name) || self.commit_replies.contains_key(&name);
        installed.then_some(Decision {
            prepared: name,
            commit: name,
        })
    }
}
