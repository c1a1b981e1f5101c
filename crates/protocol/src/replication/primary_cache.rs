//! Where one server believes the primaries of other nodes to be.
//!
//! It is told by the packets that come from there, and asks the next replica when one stays silent:
//! whoever is not the primary passes a packet on to whom he takes for it. A belief that is wrong
//! costs time and nothing else: what reaches a node is decided by its [lives](crate::link).

use anabranch_types::NodeId;

use super::message::ReplicaId;
use crate::link::Incarnation;

/// Beliefs, one a node. See the module.
#[derive(Clone, Debug)]
pub struct Whereabouts {
    factor: u8,
    beliefs: Vec<Belief>,
}

#[derive(Clone, Copy, Debug)]
struct Belief {
    replica: ReplicaId,
    life: Incarnation,
}

impl Whereabouts {
    /// Every primary is where it is in the beginning.
    pub fn new(nodes: u16, factor: u8) -> Whereabouts {
        let first = Belief {
            replica: ReplicaId(0),
            life: Incarnation(0),
        };
        Whereabouts {
            factor,
            beliefs: vec![first; usize::from(nodes)],
        }
    }

    /// The replica of a node to which packets go.
    pub fn of(&self, node: NodeId) -> ReplicaId {
        self.beliefs[node.index()].replica
    }

    /// A packet from this life of a node has come from one of its replicas. What an earlier life than
    /// the one last heard sends tells nothing.
    pub fn heard(&mut self, node: NodeId, replica: ReplicaId, life: Incarnation) {
        let belief = &mut self.beliefs[node.index()];
        if life >= belief.life {
            *belief = Belief { replica, life };
        }
    }

    /// A node has not answered in time: the next of its replicas is tried.
    pub fn silent(&mut self, node: NodeId) {
        let belief = &mut self.beliefs[node.index()];
        belief.replica = ReplicaId((belief.replica.0 + 1) % self.factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_is_looked_for_and_who_speaks_is_found() {
        let mut known = Whereabouts::new(2, 3);
        let node = NodeId(1);
        assert_eq!(known.of(node), ReplicaId(0));
        known.silent(node);
        known.silent(node);
        assert_eq!(known.of(node), ReplicaId(2));
        known.silent(node);
        assert_eq!(known.of(node), ReplicaId(0));
        known.heard(node, ReplicaId(1), Incarnation(2));
        assert_eq!(known.of(node), ReplicaId(1));
        // The primary of a former life, which does not know that it is none.
        known.heard(node, ReplicaId(0), Incarnation(1));
        assert_eq!(known.of(node), ReplicaId(1));
        assert_eq!(known.of(NodeId(0)), ReplicaId(0));
    }
}
