//! Estimates for an operation partitioning on a number of servers.

use super::{OperationClass, PartitionedType, Partitioning};

/// The work of calls on a number of servers, if calls are spread evenly and as frequent as their weights say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sites {
    /// How many servers there are.
    pub count: u32,
    /// The share of calls that run on one server without the others: from 0 to 1.
    pub local_share: f64,
    /// The throughput of all servers, as a multiple of one server's, if applying a global call's writes costs as
    /// much as running it: from 1 to `count`.
    pub capacity: f64,
}

impl PartitionedType {
    /// The share of its calls that run on one of so many servers without the others.
    pub fn local_share(&self, sites: u32) -> f64 {
        match self.class {
            OperationClass::Commutative | OperationClass::Local => 1.0,
            // All parameters but one have to be routed to where that one is.
            OperationClass::LocalOrGlobal => {
                let others = i32::try_from(self.parameters.len().saturating_sub(1));
                f64::from(sites.max(1)).powi(-others.unwrap_or(i32::MAX))
            }
            OperationClass::Global => 0.0,
        }
    }
}

impl Partitioning {
    /// Estimates the work on a number of servers; types with weight 0 do not count.
    pub fn on(&self, sites: u32) -> Sites {
        let count = sites.max(1);
        let weights: f64 = self.types.iter().map(|of| of.weight as f64).sum();
        let calls = self.types.iter();
        let local_share: f64 = calls
            .map(|of| of.weight as f64 * of.local_share(count))
            .sum();
        let local_share = if weights > 0.0 {
            local_share / weights
        } else {
            1.0
        };
        // Each server runs its share of the local calls, and all others.
        let work = local_share / f64::from(count) + (1.0 - local_share);
        Sites {
            count,
            local_share,
            capacity: 1.0 / work,
        }
    }
}
