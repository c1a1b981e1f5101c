//! A node of a server of the Conveyor Belt: see [`crate::belt`].

use std::sync::Arc;

use anabranch_protocol::{Age, Protocol, Request, TransactionId};
use anabranch_types::Ticks;

use super::{Node, OpenCall};
use crate::belt::BeltTables;

impl<P: Protocol> Node<P> {
    /// Makes its database that of a server of a ring. It has one partition, and the protocol locks what is read.
    #[must_use]
    pub fn with_belt(self, belt: Arc<BeltTables>) -> Node<P> {
        Node {
            belt: Some(belt),
            ..self
        }
    }

    /// Has an attempt go before all others that wait by age: it is older than they are.
    pub(super) fn go_first(&mut self, now: Ticks, open: &OpenCall, transaction: TransactionId) {
        let first = open.first_attempt.unwrap_or(transaction);
        let age = Age {
            began: Ticks(0),
            transaction: first,
        };
        self.request(now, transaction, Request::WaitByAge(age));
    }
}
