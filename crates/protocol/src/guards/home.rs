//! Where transactions with a guard are ordered: by the orderer, or at the site where they run.

use anabranch_types::{Key, Read, TableId};

use crate::order::SiteId;

/// Where transactions that access a row, or a range, for a guard are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardHome {
    /// The table has no guards.
    None,
    /// By the orderer.
    Ordered,
    /// At this site, where they run.
    At(SiteId),
    /// At several sites: no transaction has such a guard.
    Several,
}

/// The homes of guards: the same at all sites.
pub trait GuardHomes: Send + Sync {
    /// The home of what is read for a guard.
    fn of_read(&self, read: &Read) -> GuardHome;

    /// The home of a row that is written for a guard.
    fn of_row(&self, table: TableId, key: &Key) -> GuardHome;
}
