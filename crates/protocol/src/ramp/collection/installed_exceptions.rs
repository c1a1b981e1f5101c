//! One coordinator's exceptions among what an owner has installed.

use std::collections::BTreeMap;

use anabranch_types::Timestamp;

use crate::ramp::core::participant::installed::Installed;

/// One coordinator's.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExceptionsBy {
    /// By commit timestamp.
    pub(crate) excepted: BTreeMap<Timestamp, Installed>,
    /// What has been forgotten here the coordinator had told of by then: whoever knows only what it said before
    /// may need it.
    pub(crate) forgotten_since: Timestamp,
    /// Up to here it is not known any more which lists an earlier life has forgotten by.
    pub(crate) unsure: Timestamp,
}

impl ExceptionsBy {
    /// All of them.
    pub(crate) fn excepted(&self) -> impl Iterator<Item = &Installed> + Clone {
        self.excepted.values()
    }

    /// One of them.
    pub(crate) fn get(&self, commit: Timestamp) -> Option<&Installed> {
        self.excepted.get(&commit)
    }
}
