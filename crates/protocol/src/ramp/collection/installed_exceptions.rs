//! One coordinator's exceptions among what an owner has installed.

use std::collections::BTreeMap;

use anabranch_types::Timestamp;

use crate::ramp::core::participant::installed::Installed;

/// One coordinator's.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExceptionsBy {
    /// By commit timestamp.
    pub(crate) excepted: BTreeMap<Timestamp, Installed>,
    /// The coordinator's list by which something was forgotten here last. A reader that knows only an older list may
    /// need what is forgotten.
    pub(crate) forgotten_since: Timestamp,
    /// Up to here it is unknown by which lists an earlier incarnation has forgotten.
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
