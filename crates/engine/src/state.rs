//! A node's durable state: its protocol with the store, its sequences, its incarnation.
//!
//! Recovery rebuilds it from the log, and a backup keeps it up to date with its primary's log. A
//! checkpoint is the list of records that rebuilds it.

use anabranch_protocol::link::Incarnation;
use anabranch_protocol::{Durable, NoRecords, Protocol, Record};

use crate::log_record::NodeRecord;
use crate::node::{Node, NodeOutbox};
use crate::sequence::SequenceStarts;

/// The durable state of a node that does not run.
pub(crate) struct NodeState<P> {
    pub(crate) protocol: P,
    /// The logged bounds of sequences.
    pub(crate) numbers: SequenceStarts,
    /// The highest incarnation logged; 0 before the first.
    pub(crate) incarnation: u64,
}

impl<P: Durable> NodeState<P> {
    /// A state that no record has been replayed into.
    ///
    /// # Errors
    /// When the protocol keeps no records.
    pub(crate) fn new(mut protocol: P) -> Result<NodeState<P>, NoRecords> {
        protocol.keep_records()?;
        Ok(NodeState {
            protocol,
            numbers: SequenceStarts::default(),
            incarnation: 0,
        })
    }

    /// Applies one record.
    ///
    /// # Errors
    /// When the protocol cannot apply it.
    pub(crate) fn replay(&mut self, record: NodeRecord) -> Result<(), String> {
        match record {
            NodeRecord::Incarnation(number) => self.incarnation = self.incarnation.max(number),
            NodeRecord::Numbers(sequence, bound) => {
                self.numbers.include_point(sequence, bound);
            }
            NodeRecord::Protocol(record) => {
                let replayed = self.protocol.replay(record);
                return replayed.map_err(|error| error.to_string());
            }
        }
        Ok(())
    }

    /// Passes to `sink` the records that rebuild this state.
    pub(crate) fn write(&self, sink: &mut dyn FnMut(NodeRecord)) {
        let incarnation = Incarnation(self.incarnation);
        write_checkpoint(incarnation, &self.numbers, &self.protocol, sink);
    }
}

/// Passes to `sink` the records that rebuild the state of a node in this incarnation.
pub(crate) fn write_checkpoint<P: Durable>(
    incarnation: Incarnation,
    numbers: &SequenceStarts,
    protocol: &P,
    sink: &mut dyn FnMut(NodeRecord),
) {
    write_sequences(incarnation, numbers, sink);
    protocol.checkpoint(&mut |record| sink(NodeRecord::Protocol(record)));
}

/// Passes to `sink` the records of the same state beside the items, which precede them.
pub(crate) fn write_state<P: Durable>(
    incarnation: Incarnation,
    numbers: &SequenceStarts,
    protocol: &P,
    sink: &mut dyn FnMut(NodeRecord),
) {
    write_sequences(incarnation, numbers, sink);
    protocol.checkpoint_state(&mut |record| sink(NodeRecord::Protocol(record)));
}

fn write_sequences(
    incarnation: Incarnation,
    numbers: &SequenceStarts,
    sink: &mut dyn FnMut(NodeRecord),
) {
    sink(NodeRecord::Incarnation(incarnation.0));
    for (sequence, bound) in numbers.all() {
        sink(NodeRecord::Numbers(sequence, bound));
    }
}

/// Takes the records that a batch of steps has to log, if any, and whether one of them is forced:
/// whether output waits until it is durable.
pub(crate) fn take_records<P: Protocol>(
    node: &Node<P>,
    numbers: &mut SequenceStarts,
    output: &mut NodeOutbox<P::Message>,
) -> Option<(Vec<NodeRecord>, bool)> {
    let passed = node.passed_bounds();
    if output.records.is_empty() && passed.is_empty() {
        return None;
    }
    let forced = !passed.is_empty() || output.records.iter().any(Record::is_forced);
    let records = output.records.drain(..).map(NodeRecord::Protocol);
    let mut records: Vec<NodeRecord> = records.collect();
    for (sequence, bound) in passed {
        numbers.include_point(sequence, bound);
        records.push(NodeRecord::Numbers(sequence, bound));
    }
    Some((records, forced))
}
