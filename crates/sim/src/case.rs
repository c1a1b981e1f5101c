//! One case: all inputs of a run, beside the workload.

use anabranch_protocol::ramp::FilterSize;
use anabranch_types::Ticks;

use crate::cluster::Watch;
use crate::fault::{FaultPlan, FaultProfile};
use crate::latency::Network;
use crate::protocols::{ProtocolName, RampExtensions, Termination};
use crate::site_options::SiteOptions;

/// With replicas a message waits for round trips within its group. Calls take about so many times as long; drawn
/// faults and the wait before an inquiry are stretched by the same factor.
const REPLICATION_SLOWDOWN: u64 = 6;

/// In runs with faults, participants inquire about a prepared transaction after so many longest median latencies:
/// less than most crashes last.
const LATENCIES_TERMINATION: u64 = 8;

/// All inputs of a run, beside the [`Prepared`](crate::Prepared) workload.
#[derive(Clone, Debug)]
pub struct Case {
    /// The protocol.
    pub protocol: ProtocolName,
    /// The size of RAMP-Hybrid's Bloom filters.
    pub filter: FilterSize,
    /// Cooperative termination in RAMP.
    pub termination: Termination,
    /// The seed.
    pub seed: u64,
    /// The number of clients, each with one running call.
    pub clients: u32,
    /// Extensions of RAMP.
    pub extensions: RampExtensions,
    /// Options of sites.
    pub sites: SiteOptions,
    /// Whether each client switches to the next node with each call.
    pub clients_switch_nodes: bool,
    /// Whether clients run transactions of their own, statement by statement.
    pub interactive: bool,
    /// The number of replicas of each node, the primary included.
    pub replicas: u16,
    /// The number of clusters, each of as many nodes as the workload was prepared for. Node *n* is in cluster *n* mod
    /// `clusters`. Under a protocol with sites, each is a site.
    pub clusters: u16,
    /// Calls that all clients make together, before the calls after the last fault.
    pub transactions: u64,
    /// The network.
    pub network: Network,
    /// The fault plan.
    pub plan: FaultPlan,
    /// How closely the run is checked.
    pub watch: Watch,
}

impl Case {
    /// A case with faults that are drawn from the seed.
    pub fn new(
        protocol: ProtocolName,
        seed: u64,
        nodes: u16,
        clients: u32,
        transactions: u64,
        network: Network,
        profile: FaultProfile,
    ) -> Case {
        // About as long as the calls take: each needs a few message latencies.
        let latency = network.longest(nodes).0;
        let calls = transactions / u64::from(clients.max(1)) + 1;
        let horizon = Ticks(calls.saturating_mul(latency * 4));
        let plan = match FaultPlan::draw(profile, seed, nodes, clients.max(1), horizon) {
            plan if protocol.is_durable() => plan,
            plan => plan.without_crashes(),
        };
        Case {
            protocol,
            filter: FilterSize::default(),
            termination: Termination {
                after_us: terminates_after(&network, nodes, &plan),
                lost_commits: 0,
            },
            extensions: RampExtensions::default(),
            sites: SiteOptions::default(),
            seed,
            clients,
            clients_switch_nodes: false,
            interactive: false,
            replicas: 1,
            clusters: 1,
            transactions,
            plan,
            network,
            watch: Watch::CLOSE,
        }
    }

    /// The same case with so many replicas of each node. Drawn faults are stretched, since calls take longer.
    #[must_use]
    pub fn replicated(mut self, replicas: u16) -> Case {
        if self.replicas == 1 && replicas > 1 {
            let after_us = &mut self.termination.after_us;
            *after_us = after_us.saturating_mul(REPLICATION_SLOWDOWN);
            self.plan = self.plan.stretched(REPLICATION_SLOWDOWN);
        }
        self.replicas = replicas;
        self
    }

    /// The same case with another fault plan, which is not stretched. Participants inquire as early as under a
    /// drawn plan.
    #[must_use]
    pub fn planned(mut self, nodes: u16, plan: FaultPlan) -> Case {
        let after_us = terminates_after(&self.network, nodes, &plan);
        let times = if self.replicas > 1 {
            REPLICATION_SLOWDOWN
        } else {
            1
        };
        self.termination.after_us = after_us.saturating_mul(times);
        self.plan = plan;
        self
    }
}

/// How long participants wait before they inquire about a prepared transaction, in microseconds.
fn terminates_after(network: &Network, nodes: u16, plan: &FaultPlan) -> u64 {
    match plan.faults.is_empty() {
        true => Termination::default().after_us,
        false => {
            let latency_us = network.longest(nodes).0 / 1_000;
            latency_us.saturating_mul(LATENCIES_TERMINATION).max(1)
        }
    }
}
