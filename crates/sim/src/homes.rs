//! The homes of guards, where sites with all of the data order transactions over guards
//! (`docs/protocols/alvin.md`, *Order over guards*).

use std::sync::Arc;

use anabranch_engine::routing::Target;
use anabranch_engine::{GuardTables, PlannedApplication};
use anabranch_protocol::guards::{GuardHome, GuardHomes};
use anabranch_protocol::order::SiteId;
use anabranch_types::{Key, PartitionId, Read, TableId, Value};

/// The homes of an application's guards, at a number of sites.
pub(crate) struct Homes {
    /// The application, with a partition for each site.
    pub(crate) planned: Arc<PlannedApplication>,
    tables: GuardTables,
}

impl Homes {
    pub(crate) fn new(planned: Arc<PlannedApplication>) -> Homes {
        let tables = planned.guard_tables();
        Homes { planned, tables }
    }

    /// The site of a call whose guards have a home; `None` for other calls.
    pub(crate) fn of_call(&self, procedure: usize, arguments: &[Value]) -> Option<u16> {
        let execution = &self.planned.execution;
        let home = self.tables.home(execution, procedure, arguments);
        home.map(|PartitionId(site)| site)
    }

    fn of(&self, table: TableId, target: impl FnOnce() -> Target) -> GuardHome {
        if !self.tables.is_contended(table) {
            return GuardHome::None;
        }
        if !self.tables.is_homed(table) {
            return GuardHome::Ordered;
        }
        match target() {
            Target::One(PartitionId(site)) => GuardHome::At(SiteId(site as u8)),
            Target::Anywhere => GuardHome::None,
            Target::Everywhere => GuardHome::Several,
        }
    }
}

impl GuardHomes for Homes {
    fn of_read(&self, read: &Read) -> GuardHome {
        let router = &self.planned.execution.router;
        self.of(read.table(), || router.read(read))
    }

    fn of_row(&self, table: TableId, key: &Key) -> GuardHome {
        let router = &self.planned.execution.router;
        self.of(table, || router.key(table, key))
    }
}
