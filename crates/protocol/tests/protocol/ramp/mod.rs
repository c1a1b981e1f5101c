//! RAMP's tests: scenarios step by step, and random schedules under a checker.

mod bad_input;
mod causal;
mod commits;
mod exceptions;
mod followers;
mod gossip;
mod limits;
mod metadata;
mod one_phase;
mod prepare_f;
mod quorum;
mod random;
mod ranges;
mod readers;
mod refusals;
mod scenarios;
mod sticky;
mod termination;
mod uncertain;

use std::sync::Arc;

use anabranch_protocol::Topology;
use anabranch_protocol::ramp::{FilterSize, Metadata, RampNode, RampOptions};
use anabranch_types::{NodeId, Ticks};

use crate::support::cluster::Cluster;
use crate::support::fixture;

/// RAMP-Small, and RAMP-Hybrid with filters of the paper's size and of one bit, which exclude next to nothing.
fn inexact() -> [Metadata; 3] {
    let hybrid = |bits| Metadata::Hybrid(FilterSize::try_from(bits).expect("a size"));
    [Metadata::Small, hybrid(256), hybrid(1)]
}

/// A cluster of RAMP nodes, each with items `0..8` of its partition.
fn cluster(partitions: u16) -> Cluster<RampNode> {
    cluster_with(partitions, Ticks::from_millis(500), RampOptions::default())
}

fn cluster_with(partitions: u16, window: Ticks, options: RampOptions) -> Cluster<RampNode> {
    let topology = Arc::new(Topology::one_each(partitions));
    let node = |part| {
        let store = fixture::store(part, 8, window);
        RampNode::new(
            NodeId(part),
            topology.clone(),
            store,
            fixture::programs(),
            options,
        )
    };
    Cluster::new((0..partitions).map(node).collect())
}
