//! A node of a server of the Conveyor Belt: see [`crate::belt`].

use std::sync::Arc;

use anabranch_protocol::{Age, PartitionEffects, Protocol, Request, TransactionId};
use anabranch_types::Ticks;

use super::{Node, OpenCall};
use crate::admission::Shortage;
use crate::belt::BeltTables;
use crate::call::Work;
use crate::limits::TransactionLimits;

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

    /// The limits of a call. A transaction of the belt has none: it has what other transactions, each within the limits, have
    /// committed, and without it no server goes on.
    pub(super) fn limits_of(&self, work: &Work) -> TransactionLimits {
        match work {
            Work::Belt(_) => TransactionLimits::NONE,
            _ => self.options.limits,
        }
    }

    /// Why the node does not admit a call's effects. Those of the belt's transactions it always does: they free what
    /// all servers have. So do those on the belt's own tables, which tell the others of deletions as well.
    pub(super) fn refuses(&self, work: &Work, effects: &[PartitionEffects]) -> Option<Shortage> {
        if matches!(work, Work::Belt(_)) {
            return None;
        }
        let of_clients = |table| match &self.belt {
            Some(belt) => !belt.is_own(table),
            None => true,
        };
        self.admission.refuses(effects, of_clients)
    }
}
