//! The homes of guards, where sites with all of the data order transactions over guards
//! (`docs/protocols/alvin.md`, *Order over guards*).

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_engine::routing::Target;
use anabranch_protocol::guards::{GuardHome, GuardHomes};
use anabranch_protocol::order::SiteId;
use anabranch_types::{Key, PartitionId, Read, TableId, Value};

/// The homes of an application's guards, at a number of sites.
pub(crate) struct Homes {
    /// The application, with a partition for each site.
    pub(crate) planned: Arc<PlannedApplication>,
    /// Tables with guards.
    guarded: BTreeSet<TableId>,
    /// Those whose guards have homes.
    homed: BTreeSet<TableId>,
}

impl Homes {
    pub(crate) fn new(planned: Arc<PlannedApplication>) -> Homes {
        let guards = planned.plan.entries.iter().flat_map(|entry| &entry.guards);
        Homes {
            guarded: guards.map(|guard| guard.table).collect(),
            homed: planned.homed_tables(),
            planned,
        }
    }

    /// The site of a call whose guards have a home; `None` for other calls.
    pub(crate) fn of_call(&self, procedure: usize, arguments: &[Value]) -> Option<u16> {
        if !self.planned.is_homed(procedure, &self.homed) {
            return None;
        }
        let home = self.planned.execution.home(procedure, arguments, 0);
        home.map(|PartitionId(site)| site)
    }

    fn of(&self, table: TableId, target: impl FnOnce() -> Target) -> GuardHome {
        match (self.guarded.contains(&table), self.homed.contains(&table)) {
            (false, _) => GuardHome::None,
            (true, false) => GuardHome::Ordered,
            (true, true) => match target() {
                Target::One(PartitionId(site)) => GuardHome::At(SiteId(site as u8)),
                Target::Anywhere => GuardHome::None,
                Target::Everywhere => GuardHome::Several,
            },
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
