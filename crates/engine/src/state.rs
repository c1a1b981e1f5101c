//! What a log rebuilds: a node's protocol with its store, and what the node knows beside it.

use anabranch_protocol::link::Incarnation;
use anabranch_protocol::{Durable, NoRecords, Protocol, Record};

use crate::durable::NodeRecord;
use crate::node::{Node, NodeOutbox};
use crate::sequence::SequenceStarts;

/// A node that does not run. See the module.
pub(crate) struct Image<P> {
    pub(crate) protocol: P,
    /// What was written down of identity columns.
    pub(crate) numbers: SequenceStarts,
    /// Its last life.
    pub(crate) life: u64,
}

impl<P: Durable> Image<P> {
    /// An image that nothing has been replayed into.
    ///
    /// # Errors
    /// When the protocol keeps no records.
    pub(crate) fn new(mut protocol: P) -> Result<Image<P>, NoRecords> {
        protocol.keep_records()?;
        Ok(Image {
            protocol,
            numbers: SequenceStarts::default(),
            life: 0,
        })
    }

    /// Does again what a record says was done.
    ///
    /// # Errors
    /// When the protocol cannot.
    pub(crate) fn replay(&mut self, record: NodeRecord) -> Result<(), String> {
        match record {
            NodeRecord::Life(number) => self.life = self.life.max(number),
            NodeRecord::Numbers(table, column, bound) => {
                self.numbers.include(table, column, bound);
            }
            NodeRecord::Protocol(record) => {
                let replayed = self.protocol.replay(record);
                return replayed.map_err(|error| error.to_string());
            }
        }
        Ok(())
    }

    /// Hands over records that rebuild it.
    pub(crate) fn write(&self, sink: &mut dyn FnMut(NodeRecord)) {
        write(Incarnation(self.life), &self.numbers, &self.protocol, sink);
    }
}

/// Hands over records that rebuild a node that is in this life.
pub(crate) fn write<P: Durable>(
    life: Incarnation,
    numbers: &SequenceStarts,
    protocol: &P,
    sink: &mut dyn FnMut(NodeRecord),
) {
    sink(NodeRecord::Life(life.0));
    for (table, column, bound) in numbers.all() {
        sink(NodeRecord::Numbers(table, column, bound));
    }
    protocol.checkpoint(&mut |record| sink(NodeRecord::Protocol(record)));
}

/// Takes what a batch has to have written down, if anything; and whether something waits for it.
pub(crate) fn take_records<P: Protocol>(
    node: &Node<P>,
    numbers: &mut SequenceStarts,
    said: &mut NodeOutbox<P::Message>,
) -> Option<(Vec<NodeRecord>, bool)> {
    let passed = node.passed_bounds();
    if said.records.is_empty() && passed.is_empty() {
        return None;
    }
    let forced = !passed.is_empty() || said.records.iter().any(Record::is_forced);
    let records = said.records.drain(..).map(NodeRecord::Protocol);
    let mut records: Vec<NodeRecord> = records.collect();
    for (table, column, bound) in passed {
        numbers.include(table, column, bound);
        records.push(NodeRecord::Numbers(table, column, bound));
    }
    Some((records, forced))
}
