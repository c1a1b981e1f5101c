//! What the nodes of one process have room for.
//!
//! All logs are on one disk, as a rule, and all rows in one memory. So every node refuses what one of them has no room
//! for: otherwise a transaction that one node admits would write at another that cannot.

use std::sync::atomic::{AtomicU8, Ordering};

use anabranch_engine::{Admission, Shortage};
use anabranch_types::NodeId;

/// What each node's disk and the process's memory have room for.
#[derive(Debug)]
pub(crate) struct RoomGauge {
    disks: Box<[AtomicU8]>,
    memory: AtomicU8,
}

impl RoomGauge {
    /// A gauge for so many nodes, with room for everything.
    pub(crate) fn new(nodes: usize) -> RoomGauge {
        RoomGauge {
            disks: (0..nodes).map(|_| AtomicU8::new(0)).collect(),
            memory: AtomicU8::new(0),
        }
    }

    /// Sets what a node's disk has room for.
    pub(crate) fn set_disk(&self, node: NodeId, admission: Admission) {
        let code = code(admission);
        let disk = &self.disks[node.index()];
        // Nearly always the same: a store would take the line from the other nodes' caches.
        if disk.load(Ordering::Relaxed) != code {
            disk.store(code, Ordering::Relaxed);
        }
    }

    /// Sets whether there is memory for more.
    pub(crate) fn set_memory(&self, is_short: bool) {
        self.memory.store(u8::from(is_short), Ordering::Relaxed);
    }

    /// What a node may admit as far as the others' disks and the memory go.
    pub(crate) fn beside(&self, node: NodeId) -> Admission {
        let memory = match self.memory.load(Ordering::Relaxed) {
            0 => Admission::All,
            _ => Admission::Deletes(Shortage::Memory),
        };
        let disks = self.disks.iter().enumerate();
        let others = disks.filter(|(number, _)| *number != node.index());
        let narrowest = others.map(|(_, disk)| disk.load(Ordering::Relaxed)).max();
        match narrowest {
            None | Some(0) => memory,
            Some(1) => Admission::Deletes(Shortage::Disk),
            Some(_) => Admission::Reads(Shortage::Disk),
        }
    }
}

fn code(admission: Admission) -> u8 {
    match admission {
        Admission::All => 0,
        Admission::Deletes(_) => 1,
        Admission::Reads(_) => 2,
    }
}
