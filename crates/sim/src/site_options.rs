//! The options of protocols with sites, each with all of the data.

use anabranch_types::Ticks;
use serde::{Deserialize, Serialize};

/// Options of sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteOptions {
    /// What transactions that only read are promised.
    #[serde(default)]
    pub consistency: ConsistencyName,
    /// ALVIN: whether a leader decides after one round trip, if all sites agree.
    #[serde(default)]
    pub fast_decisions: bool,
    /// MultiPaxos: the site that leads at first.
    #[serde(default)]
    pub leader: u16,
    /// How long a site gathers transactions for a batch, under every orderer. 0: each is ordered by itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub batch_window: Ticks,
    /// ALVIN: the most delivered batches that a site keeps for sites that have not delivered them, if not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retained_max: Option<u32>,
    /// What is ordered.
    #[serde(default)]
    pub order_over: OrderOver,
}

fn is_zero(ticks: &Ticks) -> bool {
    *ticks == Ticks(0)
}

/// What transactions are ordered over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderOver {
    /// All accesses: transactions are serializable.
    #[default]
    Accesses,
    /// The guards of the plan: its invariants hold, and reads are read atomic.
    Guards,
}

impl OrderOver {
    /// Both.
    pub const ALL: [OrderOver; 2] = [OrderOver::Accesses, OrderOver::Guards];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            OrderOver::Accesses => "accesses",
            OrderOver::Guards => "guards",
        }
    }
}

/// The names of consistencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConsistencyName {
    /// Serializability: all transactions are broadcast.
    #[default]
    Sr,
    /// Extended update serializability: transactions that only read commit at their site.
    Eus,
}

impl ConsistencyName {
    /// Both.
    pub const ALL: [ConsistencyName; 2] = [ConsistencyName::Sr, ConsistencyName::Eus];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ConsistencyName::Sr => "sr",
            ConsistencyName::Eus => "eus",
        }
    }
}
