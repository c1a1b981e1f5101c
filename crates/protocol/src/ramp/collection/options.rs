//! Which options of [`RampOptions`] apply to the collection of sibling metadata, and when.

use anabranch_types::Ticks;

use crate::ramp::collection::stability::ExceptionPolicy;
use crate::ramp::options::RampOptions;

impl RampOptions {
    /// Whether one watermark a coordinator says all about stability: no transaction has dependencies, and there is
    /// one cluster.
    pub(crate) fn is_plain(&self) -> bool {
        !self.causal && !self.sticky && !self.prepares_in_all_clusters()
    }

    /// How often nodes gossip, if they do.
    pub(crate) fn gossips_after(&self) -> Option<Ticks> {
        self.gossip_after.filter(|_| self.is_plain())
    }

    /// When a transaction becomes an exception.
    pub(crate) fn exception_policy(&self) -> Option<ExceptionPolicy> {
        let may = self.exceptions_max > 0 && self.is_plain();
        may.then_some(ExceptionPolicy {
            after: self.except_after,
            behind: self.except_behind as usize,
            most: self.exceptions_max as usize,
            former_exceptions: self
                .gossips_after()
                .map_or(0, |_| self.exceptions_max as usize),
        })
    }
}
