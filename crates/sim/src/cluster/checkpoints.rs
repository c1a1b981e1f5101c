//! Checkpoints of nodes with logs: slices between steps, syncs, and what an adopted checkpoint holds.

use anabranch_engine::CheckpointProgress;
use anabranch_protocol::link::Incarnation;
use anabranch_types::Ticks;

use super::host::{NodeState, SYNC};
use super::{Cluster, Event};
use crate::latency;
use crate::protocols::Simulated;
use crate::rows::{rows_at, rows_of};

/// The size of a slice: one item, so that steps, syncs and crashes come between the slices.
const SLICE_BYTES: usize = 1;

impl<P: Simulated> Cluster<P> {
    /// Writes a slice of a node's checkpoint, if one is due or under way.
    pub(super) fn write_slice(&mut self, node: u16) {
        let NodeState::Durable(durable) = &mut self.hosts[usize::from(node)].state else {
            return;
        };
        match durable.checkpoint_slice(SLICE_BYTES) {
            Ok(CheckpointProgress::Adopted) => {
                self.statistics.sometimes("a node wrote a checkpoint");
                self.check_checkpoint(node);
            }
            Ok(CheckpointProgress::Waits) => {
                self.statistics.sometimes("a checkpoint waited for a sync");
            }
            Ok(_) => {}
            Err(error) => self.disk_failed(node, &error),
        }
    }

    /// Begins a sync of a node's checkpoint, if one is due.
    pub(super) fn begin_checkpoint_sync(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        let bytes = match &mut host.state {
            NodeState::Durable(durable) => durable.begin_checkpoint_sync(),
            _ => None,
        };
        let (Some(bytes), Some(incarnation)) = (bytes, host.incarnation()) else {
            return;
        };
        let takes = latency::sample(SYNC, &mut self.disk_random);
        let takes = Ticks(takes.0 * (100 + host.slowdown_percent) / 100);
        let done = Event::CheckpointSynced {
            node,
            incarnation,
            bytes,
        };
        self.queue.push(self.now + takes, done);
    }

    /// Ends a sync of a node's checkpoint, unless the incarnation that began it is over.
    pub(super) fn checkpoint_synced(&mut self, node: u16, incarnation: Incarnation, bytes: u64) {
        let host = &mut self.hosts[usize::from(node)];
        if host.incarnation() != Some(incarnation) {
            return;
        }
        let synced = match &mut host.state {
            NodeState::Durable(durable) => durable.end_checkpoint_sync(bytes),
            _ => Ok(()),
        };
        self.after_step(node, synced);
    }

    /// DUR-I8: the items of an adopted checkpoint are the store's after some prefix of its commits, exactly.
    fn check_checkpoint(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        let NodeState::Durable(durable) = &mut host.state else {
            return;
        };
        let read = durable.read_checkpoint(self.node_builder.empty.clone());
        let store = match read {
            Ok(store) => store,
            Err(error) => return self.disk_failed(node, &error),
        };
        let Some(base) = &self.incarnations[usize::from(node)].base else {
            return;
        };
        let last = store.last();
        let installed = durable.node().protocol().store().installed();
        if last < base.last() || rows_of(&store) != rows_at(base, installed, last) {
            let what = format!("DUR-I8: its checkpoint at {last} has other rows than it had then");
            self.violate(node, &what);
        } else if let Err(error) = store.check_invariants() {
            self.violate(
                node,
                &format!("DUR-I8: its checkpoint at {last} is broken: {error}"),
            );
        }
    }
}
