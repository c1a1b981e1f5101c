//! The numbers in the text and the tables of operation-partitioning.txt. None is read off the curves of its figures.

/// Table 1 of one application.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes {
    /// Local, global, commutative, local or global: transaction types.
    pub(super) types: [u16; 4],
    /// Read-only transaction types.
    pub(super) read_only: u16,
    /// Local, global, commutative: shares of operations.
    pub(super) frequencies: [f64; 3],
    /// The share of read-only operations.
    pub(super) reads: f64,
    /// §7: the share of operations that write.
    pub(super) writes: f64,
}

/// Table 1: TPC-W.
pub(super) const TPCW: Classes = Classes {
    types: [10, 5, 5, 0],
    read_only: 13,
    frequencies: [0.47, 0.39, 0.14],
    reads: 0.73,
    writes: 0.30,
};

/// Table 1: RUBiS.
pub(super) const RUBIS: Classes = Classes {
    types: [11, 4, 3, 8],
    read_only: 17,
    frequencies: [0.64, 0.08, 0.28],
    reads: 0.85,
    writes: 0.15,
};

/// §7: what a site's own clients wait for the network, in milliseconds; also between servers of one site.
pub(super) const INSIDE_MS: f64 = 20.0;

/// Table 3: mean latencies in milliseconds. Centralised; then Eliá and read-only at 2, 3 and 5 sites.
pub(super) struct Latencies {
    /// One server.
    pub(super) centralised: f64,
    /// Eliá, by [`SITES`].
    pub(super) belt: [f64; 3],
    /// Only reads local, by [`SITES`].
    pub(super) read_only: [f64; 3],
}

/// The numbers of sites of Table 3.
pub(super) const SITES: [u16; 3] = [2, 3, 5];

/// Table 3: TPC-W.
pub(super) const TPCW_MS: Latencies = Latencies {
    centralised: 1390.0,
    belt: [671.0, 436.0, 29.0],
    read_only: [902.0, 521.0, 129.0],
};

/// Table 3: RUBiS.
pub(super) const RUBIS_MS: Latencies = Latencies {
    centralised: 416.0,
    belt: [122.0, 155.0, 35.0],
    read_only: [145.0, 131.0, 96.0],
};

/// §7.1, Figure 3: the highest throughput over MySQL Cluster's; TPC-W, RUBiS.
pub(super) const OVER_TWO_PHASE: [f64; 2] = [4.2, 1.4];
/// §7.1, Figure 3: the number of servers up to which Eliá's throughput grows; TPC-W, RUBiS.
pub(super) const GROWS_UNTIL: [u16; 2] = [13, 12];
/// §7.1: the number of servers up to which MySQL Cluster's grows; TPC-W, RUBiS.
pub(super) const CLUSTER_GROWS_UNTIL: [u16; 2] = [4, 12];
/// §7.1: peak throughput counts while the mean latency is below this, in milliseconds.
pub(super) const PEAK_LATENCY_LAN_MS: f64 = 2_000.0;

/// §7.2, Figure 4, five sites: the highest throughput over that of read-only; TPC-W, RUBiS.
pub(super) const OVER_READ_ONLY: [f64; 2] = [2.91, 1.81];
/// §7.2: load grows until the latency reaches this, in milliseconds.
pub(super) const PEAK_LATENCY_WAN_MS: f64 = 5_000.0;

/// §7.3, Figure 5: percentage of local operations, and operations a second at which saturation begins.
pub(super) const SATURATION: [(u8, f64); 2] = [(30, 600.0), (90, 5_477.0)];
/// §7.3: the execution time of an operation, in milliseconds.
pub(super) const EXECUTION_MS: u64 = 5;
/// §7.3, Figure 6a: mean latencies in milliseconds with 70% local operations: local, global. (The paper prints them the
/// other way round.)
pub(super) const LIGHT_70: (f64, f64) = (70.0, 195.0);
/// §7.3, Figure 6a: global over local latency, the least and the most of all shares.
pub(super) const GLOBAL_OVER_LOCAL: (f64, f64) = (2.23, 3.75);
