//! The cores of simulated nodes: inputs wait for a free core, and steps take the time that the cost model gives.

use anabranch_engine::{NodeInput, NodeOutbox, Outcome};
use anabranch_types::{PartitionId, Ticks};

use super::host::NodeState;
use super::{Cluster, Event};
use crate::clock::local;
use crate::cost::{InputKind, Step, StepKind};
use crate::protocols::Simulated;

impl<P: Simulated> Cluster<P> {
    /// Queues an input if no core is free; returns it otherwise.
    pub(crate) fn waits_for_core(
        &mut self,
        node: u16,
        input: NodeInput<P::Message>,
    ) -> Option<NodeInput<P::Message>> {
        let cores = &mut self.hosts[usize::from(node)].cores;
        match &self.model {
            Some(model) if cores.busy >= model.cores => {
                cores.timer_waits |= matches!(input, NodeInput::Tick);
                cores.waiting.push_back(input);
                None
            }
            _ => Some(input),
        }
    }

    /// The kind of an input, for the cost model.
    pub(crate) fn input_kind(&self, input: &NodeInput<P::Message>) -> InputKind {
        match input {
            NodeInput::Call(call) => InputKind::Call(self.clients.procedure_name(&call.work)),
            NodeInput::Message { message, .. } => InputKind::Message(P::kind(message)),
            _ => InputKind::Tick,
        }
    }

    /// Steps a node without a log, measured by the meter and charged by the cost model. Sends its messages and queues
    /// its answers.
    pub(crate) fn drive_timed(
        &mut self,
        node: u16,
        input: NodeInput<P::Message>,
        out: &mut NodeOutbox<P::Message>,
    ) {
        let kind = self.input_kind(&input);
        if let Some(meter) = &mut self.meter {
            meter.begin();
        }
        let host = &mut self.hosts[usize::from(node)];
        let local = local(self.now, host.skew);
        let mut certified = 0;
        if let NodeState::Volatile(plain) = &mut host.state {
            let before = plain.protocol().certified();
            plain.step(local, input, out);
            certified = plain.protocol().certified() - before;
        }
        let kind = StepKind::new(
            kind,
            !out.messages.is_empty(),
            out.outcomes.len(),
            certified,
        );
        if let Some(meter) = &mut self.meter {
            meter.end(kind);
        }
        // Messages leave when the step is done.
        let now = self.now;
        self.now = self.charge(node, kind, out);
        for (to, message) in out.messages.drain(..) {
            self.send(node, to.0, message);
        }
        self.now = now;
    }

    /// Charges a step, and returns when its output leaves. Without costs that is now.
    pub(crate) fn charge(
        &mut self,
        node: u16,
        kind: StepKind,
        out: &mut NodeOutbox<P::Message>,
    ) -> Ticks {
        let Some(model) = &mut self.model else {
            return self.now;
        };
        let step = Step {
            kind,
            sent: out.messages.len(),
            answered: out.outcomes.len(),
        };
        let cores = &mut self.hosts[usize::from(node)].cores;
        let end = model.end(self.now, PartitionId(node), step, &out.attempts, cores);
        out.attempts.clear();
        cores.busy += 1;
        let outcomes = std::mem::take(&mut out.outcomes);
        if end.core < end.results || outcomes.is_empty() {
            self.queue.push(end.core, Event::CoreFree { node });
        }
        if !outcomes.is_empty() {
            let frees = end.core == end.results;
            let answers = Event::Answers {
                node,
                outcomes,
                frees,
            };
            self.queue.push(end.results, answers);
        }
        end.results
    }

    /// Sends a node's answers; `frees` is whether the core that made them becomes free.
    pub(crate) fn answers_leave(&mut self, node: u16, outcomes: Vec<Outcome>, frees: bool) {
        for outcome in outcomes {
            self.client_answered(node, outcome);
        }
        if frees {
            self.core_is_free(node);
        }
    }

    /// A core becomes free and takes the next waiting input.
    pub(crate) fn core_is_free(&mut self, node: u16) {
        let cores = &mut self.hosts[usize::from(node)].cores;
        cores.busy -= 1;
        if let Some(input) = cores.waiting.pop_front() {
            if matches!(input, NodeInput::Tick) {
                cores.timer_waits = false;
            }
            self.step(node, input);
        }
    }
}
