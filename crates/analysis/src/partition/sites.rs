//! What operations come to on so many servers.

use super::{OperationClass, PartitionedType, Partitioning};

/// What calls come to on so many servers, if they are spread evenly and weigh what they are said to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sites {
    /// How many servers there are.
    pub count: u32,
    /// The share of calls that run at once on one server: from 0 to 1.
    pub at_once: f64,
    /// How many times the calls of one server all of them take at most, if to apply what a global call has written costs
    /// as much as to run it: from 1 to `count`.
    pub capacity: f64,
}

impl PartitionedType {
    /// The share of its calls that run at once on one of so many servers.
    pub fn at_once(&self, sites: u32) -> f64 {
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
    /// What calls come to on so many servers; what nobody calls counts as nothing.
    pub fn on(&self, sites: u32) -> Sites {
        let count = sites.max(1);
        let weights: f64 = self.types.iter().map(|of| of.weight as f64).sum();
        let calls = self.types.iter();
        let at_once: f64 = calls.map(|of| of.weight as f64 * of.at_once(count)).sum();
        let at_once = if weights > 0.0 {
            at_once / weights
        } else {
            1.0
        };
        // Each server runs its part of what runs at once, and all of the rest.
        let work = at_once / f64::from(count) + (1.0 - at_once);
        Sites {
            count,
            at_once,
            capacity: 1.0 / work,
        }
    }
}
