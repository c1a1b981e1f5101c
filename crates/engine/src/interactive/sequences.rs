//! The sequences of one call or block: the node's, except that what is run again has the answers that it had before.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_sql::sequence::{ResolvedSequence, SessionSequences};
use anabranch_sql::transaction::{SequenceError, Sequences};
use anabranch_types::SequenceId;

use crate::call::CallId;
use crate::sequence::NodeSequences;

/// One use of a sequence, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    question: Question,
    /// The number; `None` at the sequence's end, or where the connection has none.
    number: Option<i64>,
    /// Of a sequence's state: whether the number counts as given.
    is_called: bool,
}

/// What is asked of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Next(SequenceId),
    Current(SequenceId),
    Last,
    Set(SequenceId, i64, bool),
    State(SequenceId),
}

/// The sequences of one call or block.
#[derive(Debug)]
pub(crate) struct CallSequences {
    node: Rc<NodeSequences>,
    /// What the connection has drawn. A replay does not change it.
    session: RefCell<Option<Arc<SessionSequences>>>,
    /// What the step that runs was answered before and has not asked again.
    before: RefCell<VecDeque<Draw>>,
    /// What the step that runs was answered.
    drawn: RefCell<Vec<Draw>>,
    /// The call whose step runs.
    call: Cell<Option<CallId>>,
    /// Whether the step that runs is not in the block's log.
    is_unlogged: Cell<bool>,
    /// What the step that is not in the log was answered in an attempt that was lost.
    interrupted: RefCell<Vec<Draw>>,
    /// Whether the node was asked: nothing else is worth keeping.
    is_used: Cell<bool>,
}

impl CallSequences {
    pub(crate) fn new(node: Rc<NodeSequences>) -> CallSequences {
        CallSequences {
            node,
            session: RefCell::default(),
            before: RefCell::default(),
            drawn: RefCell::default(),
            call: Cell::default(),
            is_unlogged: Cell::default(),
            interrupted: RefCell::default(),
            is_used: Cell::default(),
        }
    }

    /// Takes the call that runs, and its connection.
    pub(crate) fn enter(&self, call: CallId, session: Option<Arc<SessionSequences>>) {
        if self.call.replace(Some(call)) != Some(call) {
            self.is_unlogged.set(false);
            self.interrupted.take();
            self.before.take();
            self.drawn.take();
        }
        self.session.replace(session);
    }

    /// Begins a step that had these answers before; `None`: one that is not in the log. That step has the answers that it
    /// had in an attempt of the same call that was lost.
    pub(super) fn begin_step(&self, logged: Option<&[Draw]>) {
        let drawn = self.drawn.take();
        let unused = self.before.take();
        if self.is_unlogged.replace(logged.is_none()) {
            self.interrupted.replace(drawn);
            self.interrupted.borrow_mut().extend(unused);
        }
        let before = match logged {
            Some(logged) => logged.to_vec(),
            None => self.interrupted.take(),
        };
        self.before.replace(before.into());
    }

    /// The answers that the step has had.
    pub(super) fn end_step(&self) -> Vec<Draw> {
        self.is_unlogged.set(false);
        self.before.take();
        self.drawn.take()
    }

    /// Begins another attempt of the same call, which has the answers of the attempt before.
    pub(crate) fn begin_attempt(&self) {
        if self.is_used.get() {
            let mut before = self.before.borrow_mut();
            let unused = std::mem::take(&mut *before);
            before.extend(self.drawn.take());
            before.extend(unused);
        }
    }

    /// The answer to a question: the one before, or a new one.
    fn answer(&self, question: Question, new: impl FnOnce() -> (Option<i64>, bool)) -> Draw {
        self.is_used.set(true);
        let mut before = self.before.borrow_mut();
        let again = before.iter().position(|draw| draw.question == question);
        let draw = match again.and_then(|place| before.remove(place)) {
            Some(draw) => draw,
            None => {
                let (number, is_called) = new();
                Draw {
                    question,
                    number,
                    is_called,
                }
            }
        };
        self.drawn.borrow_mut().push(draw);
        draw
    }

    fn session<T>(&self, of: impl FnOnce(&SessionSequences) -> T) -> Option<T> {
        self.session.borrow().as_deref().map(of)
    }
}

impl Sequences for CallSequences {
    fn next(&self, sequence: &ResolvedSequence) -> Option<i64> {
        let new = || {
            let number = self.node.next(sequence);
            if let Some(number) = number {
                self.session(|session| session.drawn(sequence, number));
            }
            (number, true)
        };
        self.answer(Question::Next(sequence.id), new).number
    }

    fn current(&self, sequence: &ResolvedSequence) -> Option<i64> {
        let new = || {
            let number = self.session(|session| session.current(sequence));
            (number.flatten(), true)
        };
        self.answer(Question::Current(sequence.id), new).number
    }

    fn last(&self) -> Option<i64> {
        let new = || (self.session(SessionSequences::last).flatten(), true);
        self.answer(Question::Last, new).number
    }

    fn set(
        &self,
        sequence: &ResolvedSequence,
        number: i64,
        is_called: bool,
    ) -> Result<(), SequenceError> {
        let mut refused = None;
        let question = Question::Set(sequence.id, number, is_called);
        self.answer(question, || {
            match self.node.set(sequence, number, is_called) {
                Ok(()) if is_called => {
                    self.session(|session| session.set(sequence, number));
                }
                Ok(()) => {}
                Err(error) => refused = Some(error),
            }
            (Some(number), is_called)
        });
        match refused {
            None => Ok(()),
            Some(error) => {
                // It is asked again by a statement that is run again.
                self.drawn.borrow_mut().pop();
                Err(error)
            }
        }
    }

    fn state(&self, sequence: &ResolvedSequence) -> (i64, bool) {
        let new = || {
            let (number, is_called) = self.node.state(sequence);
            (Some(number), is_called)
        };
        let draw = self.answer(Question::State(sequence.id), new);
        (
            draw.number.unwrap_or(sequence.options.start),
            draw.is_called,
        )
    }
}

#[cfg(test)]
mod tests {
    use anabranch_sql::sequence::SequenceOptions;
    use anabranch_types::{DataType, PartitionId};

    use super::*;

    fn sequence() -> ResolvedSequence {
        ResolvedSequence {
            id: SequenceId::Named(0),
            name: "s".into(),
            options: SequenceOptions::of_type(&DataType::Int8),
        }
    }

    fn sequences() -> (Rc<NodeSequences>, CallSequences) {
        let node = Rc::new(NodeSequences::new(PartitionId(0), 1));
        let call = CallSequences::new(Rc::clone(&node));
        call.enter(CallId(1), Some(Arc::default()));
        (node, call)
    }

    /// A step whose attempt is lost before it is in the log is run again by the same call.
    #[test]
    fn an_interrupted_step_sets_once() {
        let (node, block) = sequences();
        let of = sequence();
        block.begin_step(None);
        assert_eq!(block.next(&of), Some(1));
        let logged = block.end_step();
        block.begin_step(None);
        assert_eq!(block.set(&of, 10, true), Ok(()));
        assert_eq!(block.next(&of), Some(11));
        // The attempt is lost, and another call draws.
        assert_eq!(node.next(&of), Some(12));
        block.enter(CallId(1), None);
        block.begin_step(Some(&logged));
        assert_eq!(block.next(&of), Some(1), "the replay");
        block.begin_step(None);
        assert_eq!(block.set(&of, 10, true), Ok(()));
        assert_eq!(block.next(&of), Some(11));
        assert_eq!(node.next(&of), Some(13), "it was set once");
    }

    /// The next statement is another one, even if it asks the same.
    #[test]
    fn another_call_asks_anew() {
        let (_, block) = sequences();
        let of = sequence();
        block.begin_step(None);
        assert_eq!(block.next(&of), Some(1));
        block.enter(CallId(2), None);
        block.begin_step(None);
        assert_eq!(block.next(&of), Some(2));
    }

    #[test]
    fn another_attempt_of_a_call_has_the_answers_before() {
        let (node, call) = sequences();
        let of = sequence();
        call.begin_attempt();
        assert_eq!([call.next(&of), call.next(&of)], [Some(1), Some(2)]);
        assert_eq!(call.set(&of, 5, false), Ok(()));
        node.next(&of);
        call.begin_attempt();
        assert_eq!(call.next(&of), Some(1));
        call.begin_attempt();
        assert_eq!([call.next(&of), call.next(&of)], [Some(1), Some(2)]);
        assert_eq!(call.set(&of, 5, false), Ok(()));
        assert_eq!(call.state(&of), (5, true), "the other draw counts");
        assert_eq!(call.current(&of), Some(2));
        assert_eq!(call.last(), Some(2));
    }
}
