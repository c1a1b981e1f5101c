//! A block's sequences: the node's, except that a step that is run again draws what it drew before.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use anabranch_sql::transaction::Sequences;
use anabranch_types::{ColumnIndex, TableId};

use crate::sequence::NodeSequences;

/// One number drawn from a column's sequence; `None` at the sequence's end.
pub(crate) type Draw = (TableId, ColumnIndex, Option<i64>);

/// The sequences of one block.
#[derive(Debug)]
pub(crate) struct BlockSequences {
    node: Rc<NodeSequences>,
    /// What the step that runs drew before and has not drawn again.
    before: RefCell<VecDeque<Draw>>,
    /// What the step that runs has drawn.
    drawn: RefCell<Vec<Draw>>,
}

impl BlockSequences {
    pub(crate) fn new(node: Rc<NodeSequences>) -> BlockSequences {
        BlockSequences {
            node,
            before: RefCell::default(),
            drawn: RefCell::default(),
        }
    }

    /// Begins a step that drew these numbers before.
    pub(super) fn begin_step(&self, before: &[Draw]) {
        self.before.replace(before.iter().copied().collect());
        self.drawn.borrow_mut().clear();
    }

    /// The numbers that the step has drawn.
    pub(super) fn end_step(&self) -> Vec<Draw> {
        self.drawn.take()
    }
}

impl Sequences for BlockSequences {
    fn next(&self, table: TableId, column: ColumnIndex) -> Option<i64> {
        let mut before = self.before.borrow_mut();
        let again = before
            .iter()
            .position(|(of, at, _)| (*of, *at) == (table, column));
        let number = match again.and_then(|place| before.remove(place)) {
            Some((_, _, number)) => number,
            None => self.node.next(table, column),
        };
        self.drawn.borrow_mut().push((table, column, number));
        number
    }
}
