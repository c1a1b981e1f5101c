//! Placement of replicas on servers.
//!
//! There are as many servers as nodes. Replica *i* of node *n* is on server *n + i*, modulo their number. So
//! at the start each server has one primary, and the next server takes over the work of a lost one.

use std::fmt;

use anabranch_types::NodeId;

use super::message::ReplicaId;

/// The placement of replicas. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaPlacement {
    nodes: u16,
    factor: u8,
}

/// The replication factor does not fit the size of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementError {
    /// The factor.
    pub factor: u16,
    /// The number of nodes.
    pub nodes: u16,
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlacementError { factor, nodes } = self;
        let most = (*nodes).min(ReplicaPlacement::FACTOR_MAX);
        write!(
            f,
            "{factor} replicas of each node cannot be placed on {nodes} servers: the replication \
             factor has to be between 1 and {most}"
        )
    }
}

impl std::error::Error for PlacementError {}

impl ReplicaPlacement {
    /// The highest replication factor.
    pub const FACTOR_MAX: u16 = 255;

    /// `factor` replicas of each of `nodes` nodes.
    ///
    /// # Errors
    /// When the factor is 0, or above the number of servers.
    pub fn new(nodes: u16, factor: u16) -> Result<ReplicaPlacement, PlacementError> {
        match u8::try_from(factor) {
            Ok(small) if small > 0 && factor <= nodes => Ok(ReplicaPlacement {
                nodes,
                factor: small,
            }),
            _ => Err(PlacementError { factor, nodes }),
        }
    }

    /// The number of nodes, which is the number of servers.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// The number of replicas of each node.
    pub fn factor(&self) -> u8 {
        self.factor
    }

    /// The replica numbers of a node.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.factor).map(ReplicaId)
    }

    /// The server that has a replica.
    pub fn server(&self, node: NodeId, replica: ReplicaId) -> u16 {
        let id = u32::from(node.0) + u32::from(replica.0);
        (id % u32::from(self.nodes)) as u16
    }

    /// The replicas on a server, each with its node.
    pub fn at(&self, server: u16) -> impl Iterator<Item = (NodeId, ReplicaId)> + use<> {
        let placement = *self;
        self.replicas().map(move |replica| {
            let nodes = u32::from(placement.nodes);
            let node = (u32::from(server) + nodes - u32::from(replica.0) % nodes) % nodes;
            (NodeId(node as u16), replica)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_of_none_or_of_more_than_there_are_is_refused() {
        for (nodes, factor) in [(3, 0), (3, 4), (1, 2), (500, 256), (0, 1)] {
            let refused = ReplicaPlacement::new(nodes, factor).unwrap_err();
            assert_eq!(refused, PlacementError { factor, nodes });
            assert!(refused.to_string().contains("between 1 and"), "{refused}");
        }
        for (nodes, factor) in [(1, 1), (3, 3), (500, 255)] {
            assert!(ReplicaPlacement::new(nodes, factor).is_ok());
        }
    }

    #[test]
    fn each_server_has_one_replica_of_each_number() {
        for (nodes, factor) in [(1, 1), (3, 3), (5, 3), (7, 2)] {
            let placement = ReplicaPlacement::new(nodes, factor).unwrap();
            for server in 0..nodes {
                let here: Vec<_> = placement.at(server).collect();
                assert_eq!(here.len(), usize::from(factor));
                for (node, replica) in here {
                    assert_eq!(placement.server(node, replica), server);
                }
            }
            for node in (0..nodes).map(NodeId) {
                let mut servers: Vec<u16> = placement
                    .replicas()
                    .map(|replica| placement.server(node, replica))
                    .collect();
                servers.dedup();
                assert_eq!(servers.len(), usize::from(factor), "no two on one server");
                assert_eq!(servers[0], node.0);
            }
        }
    }
}
