//! Recovery of a site that orders over guards.
//!
//! The log has the inputs in their order: own commits, commits that have arrived, and the orderer's records. Replay applies
//! the same transactions in the same order, since what is applied next is a function of these.

use std::sync::Arc;

use anabranch_storage::Store;
use anabranch_types::{NodeId, Ticks, Timestamp};

use crate::certification::LoggedOrderer;
use crate::contract::{Durable, Outbox};
use crate::order::OutboxOf;
use crate::record::{NoRecords, Record, ReplayError};

use super::message::GuardMessage;
use super::record::{GuardRecord, GuardState, Pending};
use super::site::GuardSite;

impl<O: LoggedOrderer> Durable for GuardSite<O> {
    fn keep_records(&mut self) -> Result<(), NoRecords> {
        self.keeps_records = true;
        Ok(())
    }

    fn replay(&mut self, record: Record) -> Result<(), ReplayError> {
        let now = Ticks(0);
        match record {
            Record::Clock(bound) => {
                self.clock_bound = self.clock_bound.max(bound);
                self.clock.observe(Timestamp::new(bound, NodeId(0)));
            }
            Record::Items { table, items } => self.store.import(table, items),
            Record::Store { last } => self.store.finish_import(last),
            Record::Guards(record) => match *record {
                GuardRecord::Own { commit, accesses } => {
                    self.install_own(now, Arc::new(commit), &accesses);
                }
                GuardRecord::Received { origin, commit } => {
                    let (number, commit) = (commit.number, Arc::new(commit));
                    let next = self.streams.received()[origin.index()] + 1;
                    if number > next {
                        return Err(ReplayError(format!(
                            "GRD-I3: commit {number} of {origin} has no place in its stream"
                        )));
                    }
                    // A delivery may have carried it already.
                    if number == next {
                        self.add_received(origin, commit);
                        self.drain(now);
                    }
                }
                GuardRecord::State(state) => {
                    self.streams.restore(state.streams);
                    self.logs = state.logs;
                    self.versions = state.versions;
                    self.pending = state.pending;
                    self.floors = state.floors;
                    self.decisions = state.decisions;
                    for pending in self.pending.clone() {
                        if let Pending::Ordered { certificate, .. } = pending
                            && let Some(guarded) = certificate.guarded
                        {
                            self.take_carried(&guarded.carried);
                        }
                    }
                }
            },
            other => {
                let record = O::from_record(other)
                    .map_err(|other| ReplayError(format!("a site cannot replay {other:?}")))?;
                let mut ordered = OutboxOf::<O>::default();
                self.orderer.replay(record, &mut ordered)?;
                for delivery in &ordered.deliveries {
                    self.decide(delivery);
                }
                self.drain(now);
            }
        }
        self.ended.clear();
        Ok(())
    }

    fn recover(&mut self, now: Ticks, out: &mut Outbox<GuardMessage<O::Message>>) {
        self.earlier_batches = Some(self.orderer.last_own());
        self.order(now, out, |orderer, ordered| orderer.recover(now, ordered));
        self.finish(now, out);
    }

    fn items(&self) -> &Store {
        &self.store
    }

    fn items_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    fn checkpoint_state(&self, sink: &mut dyn FnMut(Record)) {
        if !self.keeps_records {
            return;
        }
        sink(Record::Clock(self.clock_bound));
        let state = GuardState {
            streams: self.streams.state(),
            logs: self.logs.clone(),
            versions: self.versions.clone(),
            pending: self.pending.clone(),
            floors: self.floors.clone(),
            decisions: self.decisions,
        };
        sink(Record::Guards(Box::new(GuardRecord::State(state))));
        self.orderer
            .checkpoint(&mut |record| sink(O::into_record(record)));
    }
}

impl Pending {
    /// What it is, for people.
    pub(crate) fn name(&self) -> String {
        match self {
            Pending::Stream { origin, commit } => format!("commit {} of {origin}", commit.number),
            Pending::Ordered { batch, .. } => batch.to_string(),
        }
    }
}
