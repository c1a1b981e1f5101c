//! Reports of what is stable, to participants that no other message brings the watermark to.

use anabranch_types::{NodeId, Ticks};

use crate::Outbox;
use crate::ramp::core::message::{Message, Stamped};
use crate::ramp::node::RampNode;
use crate::ramp::timer::ANNOUNCE;

impl RampNode {
    /// Makes exceptions of transactions that have held up the watermark for long.
    pub(crate) fn make_exceptions(&mut self) {
        if self.context.stability.is_held_up() {
            let since = self.context.clock.next(self.context.now);
            self.counters.exceptions += self.context.stability.make_exceptions(since);
        }
    }

    /// Sets the timer if a participant waits for the watermark.
    pub(crate) fn schedule_announce(&mut self, out: &mut Outbox<Stamped>) {
        let stability = &self.context.stability;
        if !self.announcing
            && (stability.has_fewer_exceptions() || stability.unreported().next().is_some())
        {
            self.announcing = true;
            let longer = stability.longer_between_lists();
            let after = self.options.announce_after.0.saturating_mul(longer);
            out.timers.push((self.context.now + Ticks(after), ANNOUNCE));
        }
    }

    pub(crate) fn announce(&mut self, out: &mut Outbox<Stamped>) {
        self.announcing = false;
        if self.context.stability.has_fewer_exceptions() {
            let since = self.context.clock.next(self.context.now);
            self.context.stability.publish(since);
        }
        let unreported: Vec<NodeId> = self.context.stability.unreported().collect();
        for node in unreported {
            self.send(node, Message::Stable, out);
        }
        self.participant.collect_versions(&self.context);
    }
}
