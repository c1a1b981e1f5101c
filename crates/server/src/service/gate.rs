//! The gate that every transaction passes: it is closed while the schema changes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anabranch_types::NodeId;

/// Lets transactions begin, or one connection alone.
///
/// A session has a [`Permit`] while it has a transaction at a node. Closing the gate lets no other session in; it is waited
/// for until those inside have left.
#[derive(Default)]
pub(crate) struct Gate {
    is_closed: AtomicBool,
    /// The permits of each node's connections.
    inside: Vec<Count>,
    /// Notified when a session leaves a closed gate.
    left: Condvar,
    lock: Mutex<()>,
}

/// A counter with a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Count(AtomicUsize);

/// The right to have a transaction at a node.
pub(crate) struct Permit {
    gate: Arc<Gate>,
    node: NodeId,
}

impl Gate {
    /// An open gate for the connections of so many nodes.
    pub(crate) fn new(nodes: usize) -> Gate {
        Gate {
            inside: (0..nodes).map(|_| Count::default()).collect(),
            ..Gate::default()
        }
    }

    /// Lets a connection of this node in, unless the gate is closed. `alone`: for the connection that has closed it.
    pub(crate) fn enter(self: &Arc<Gate>, node: NodeId, alone: bool) -> Option<Permit> {
        // Counted first: the changer sees the count, or this session sees the gate closed.
        self.inside[node.index()].0.fetch_add(1, Ordering::SeqCst);
        let permit = Permit {
            gate: Arc::clone(self),
            node,
        };
        let is_open = alone || !self.is_closed.load(Ordering::SeqCst);
        is_open.then_some(permit)
    }

    /// Lets no other session in.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Lets every session in again.
    pub(crate) fn open(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
    }

    /// Whether no other session is let in.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// How many are inside.
    pub(crate) fn inside(&self) -> usize {
        let counts = self.inside.iter();
        counts.map(|count| count.0.load(Ordering::SeqCst)).sum()
    }

    /// Waits until a session leaves, or something else is to be looked at, or this time has passed.
    pub(crate) fn wait(&self, at_most: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.left.wait_timeout(guard, at_most);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Wakes the changer.
    pub(crate) fn notify(&self) {
        self.left.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.inside[self.node.index()]
            .0
            .fetch_sub(1, Ordering::SeqCst);
        if self.gate.is_closed.load(Ordering::SeqCst) {
            self.gate.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_lets_only_its_owner_in() {
        let gate = Arc::new(Gate::new(2));
        let one = gate.enter(NodeId(0), false);
        assert!(one.is_some());
        gate.close();
        assert!(gate.enter(NodeId(1), false).is_none());
        let own = gate.enter(NodeId(1), true);
        assert_eq!(gate.inside(), 2, "a session that was refused is not inside");
        drop(one);
        drop(own);
        assert_eq!(gate.inside(), 0);
        gate.open();
        assert!(gate.enter(NodeId(1), false).is_some());
    }
}
