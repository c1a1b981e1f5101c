//! The numbers in the paper's text. None is read off the curves of its figures.

/// §2: transactions of one item a second, without coordination, on eight servers.
pub(super) const WRITES_FREE: f64 = 12e6;
/// §2: the same under two-phase locking.
pub(super) const WRITES_LOCKING: f64 = 1.1e6;
/// §2: transactions of eight items: "drops by over three orders of magnitude" under locking.
pub(super) const WRITES_LOCKING_DROP: f64 = 1_000.0;
/// §2: transactions of N items do N writes, "decreases linearly": by so much for eight items.
pub(super) const WRITES_FREE_DROP: f64 = 8.0;

/// §2, Figure 2a: servers, D-2PC and C-2PC, commits a second.
pub(super) const COMMITS_LAN: [(usize, f64, f64); 2] = [(2, 1_125.0, 668.0), (8, 173.0, 321.0)];
/// §2, Figure 2b: from Virginia to Oregon, D-2PC ("83 ms per commit, allowing 12 operations").
pub(super) const COMMITS_OREGON: f64 = 1_000.0 / 83.0;
/// §2, Figure 2b: all eight regions, both ("slightly over 2 transactions/s").
pub(super) const COMMITS_ALL: f64 = 2.0;

/// §6.2, "Varying load": New-Orders a second at most, eight servers, one warehouse each.
pub(super) const ORDERS: f64 = 640e3;
/// The same under locking.
pub(super) const ORDERS_LOCKING: f64 = 40e3;
/// §6.2, "Varying contention": locking with so many warehouses a server, New-Orders a second.
pub(super) const ORDERS_LOCKING_SPREAD: (f64, f64) = (64.0, 87e3);
/// §6.2, "Varying distribution": what is lost from none to all distributed.
pub(super) const LOST: f64 = 0.29;
/// The same under locking: "over 90%".
pub(super) const LOST_LOCKING: f64 = 0.90;

/// §6.2, "Scaling out": servers, and New-Orders a second on them.
pub(super) const SCALED: (u16, f64) = (200, 12.74e6);

/// §6.2, "Physical resource consumption": percent of cycles.
pub(super) const CODE_PATHS: [(&str, f64); 6] = [
    ("storage manager", 45.3),
    ("stored procedure execution", 14.4),
    ("RPC and networking", 13.2),
    ("serialization", 12.6),
    ("ID assignment synchronization", 0.19),
    ("other", 14.3),
];

/// Processor cores of one of the paper's servers, a cr1.8xlarge of Amazon EC2: two Xeon E5-2670 with
/// eight cores each. (Their 32 hardware threads are sold as 32 virtual processors.)
pub(super) const CORES: u16 = 16;
/// Servers of all its experiments but the last.
pub(super) const SERVERS: u16 = 8;
