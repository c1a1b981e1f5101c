//! One server's cache of the primaries of other nodes.
//!
//! Packets from a primary update the cache. When a replica does not answer, the server tries the next
//! one; a replica that is not the primary forwards packets to the replica that it takes for the primary.
//! A stale entry costs time only: the [incarnations](crate::link) of two nodes decide which messages a
//! node accepts.

use anabranch_types::NodeId;

use super::message::ReplicaId;
use crate::link::Incarnation;

/// The presumed primary of each node. See the module.
#[derive(Clone, Debug)]
pub struct PrimaryCache {
    factor: u8,
    primaries: Vec<CachedPrimary>,
}

#[derive(Clone, Copy, Debug)]
struct CachedPrimary {
    replica: ReplicaId,
    incarnation: Incarnation,
}

impl PrimaryCache {
    /// A cache in which every node's primary is replica 0, as in a new group.
    pub fn new(nodes: u16, factor: u8) -> PrimaryCache {
        let first = CachedPrimary {
            replica: ReplicaId(0),
            incarnation: Incarnation(0),
        };
        PrimaryCache {
            factor,
            primaries: vec![first; usize::from(nodes)],
        }
    }

    /// The replica of a node that packets are sent to.
    pub fn of(&self, node: NodeId) -> ReplicaId {
        self.primaries[node.index()].replica
    }

    /// Learns from a packet that this replica runs this incarnation of a node. Packets of incarnations
    /// before the latest known one are ignored.
    pub fn learn(&mut self, node: NodeId, replica: ReplicaId, incarnation: Incarnation) {
        let cached = &mut self.primaries[node.index()];
        if incarnation >= cached.incarnation {
            *cached = CachedPrimary {
                replica,
                incarnation,
            };
        }
    }

    /// Moves on to the node's next replica, after one has not answered in time.
    pub fn try_next(&mut self, node: NodeId) {
        let cached = &mut self.primaries[node.index()];
        cached.replica = ReplicaId((cached.replica.0 + 1) % self.factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_primary_is_searched_and_a_packet_names_the_new_one() {
        let mut known = PrimaryCache::new(2, 3);
        let node = NodeId(1);
        assert_eq!(known.of(node), ReplicaId(0));
        known.try_next(node);
        known.try_next(node);
        assert_eq!(known.of(node), ReplicaId(2));
        known.try_next(node);
        assert_eq!(known.of(node), ReplicaId(0));
        known.learn(node, ReplicaId(1), Incarnation(2));
        assert_eq!(known.of(node), ReplicaId(1));
        // The deposed primary of a former incarnation.
        known.learn(node, ReplicaId(0), Incarnation(1));
        assert_eq!(known.of(node), ReplicaId(1));
        assert_eq!(known.of(NodeId(0)), ReplicaId(0));
    }
}
