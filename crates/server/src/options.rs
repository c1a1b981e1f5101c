//! Settings of an embedded cluster.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::data::Durability;

/// Settings of an embedded cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterOptions {
    /// The added delay of a message between two nodes, on top of what the machine takes. Calls and
    /// outcomes travel without it: a client is at its node.
    pub delay: Duration,
    /// The most calls that one client may have in flight.
    pub calls_max: usize,
    /// The most calls that a node begins in a turn, before it sends their messages and looks for new
    /// ones; one, if the turn has received messages. Few calls a turn keep few transactions open.
    ///
    /// `None` stands for 8 at nodes without a log. At nodes with a log it stands for all that have
    /// arrived: each turn ends with a sync, which costs more than any number of open calls.
    pub calls_a_turn_max: Option<NonZeroUsize>,
    /// How many outcomes a node collects before it wakes clients while calls wait: a client that wakes
    /// may take the processor of a node. When no call waits, every outcome is sent at once.
    pub outcomes_at_once: usize,
    /// When the records of nodes with logs are synced. Their [`anabranch_engine::OutputRule`] has to fit.
    pub durability: Durability,
    /// Whether nodes record their current activity, for [`Cluster::profile`](crate::Cluster::profile).
    pub profiled: bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions {
            delay: Duration::ZERO,
            calls_max: 4_096,
            calls_a_turn_max: None,
            outcomes_at_once: 32,
            durability: Durability::Sync,
            profiled: false,
        }
    }
}
