//! The numbers in the text of ramp.txt. None is read off the curves of its figures.

/// §5.1: the number of clients, unless it varies.
pub(super) const CLIENTS: u32 = 5_000;

/// §5.2, Figure 4, 10,000 clients: RAMP-F and RAMP-H over no concurrency control ("an overhead of 4.2%").
pub(super) const FAST: f64 = 0.958;
/// The same of RAMP-S ("almost 60% of the throughput of NWNR").
pub(super) const SMALL: f64 = 0.60;
/// The same of long write and long read locks.
pub(super) const LONG_LOCKS: f64 = 0.016;
/// Transactions a second of long write and long read locks at their peak, on five servers.
pub(super) const LONG_LOCKS_PEAK: f64 = 3_412.0;
/// Figure 4, 5,000 clients: mean latency in milliseconds of RAMP-F, RAMP-H and no concurrency control
/// ("less than 10 ms"), and of RAMP-S.
pub(super) const LATENCY: (f64, f64) = (10.0, 14.3);
/// §5: "overheads typically within 8% and no more than 48% of peak throughput".
pub(super) const LEAST: f64 = 0.52;

/// §5.2, "Read Proportion": with writes alone, all RAMPs over no concurrency control.
pub(super) const WRITES_ALONE: f64 = 0.65;
/// §5.2, "Value Size": RAMP-F over no concurrency control at one byte.
pub(super) const ONE_BYTE: f64 = 0.977;
/// The same: by what factor throughput falls from one byte to 100 KB.
pub(super) const LARGE_VALUES_DROP: f64 = 24.0;
/// §5.2, "Database Size": RAMP-F over no concurrency control with 1,000 items.
pub(super) const FEW_ITEMS: f64 = 0.969;

/// §5.3: percent of writes that are blocked, and what is left of the throughput of writes alone.
pub(super) const BLOCKED: [(f64, f64); 4] =
    [(0.01, 1.0), (0.1, 0.9986), (25.0, 0.7753), (50.0, 0.6792)];

/// §5.4, Figure 6: servers, and item operations a second of each under RAMP-F.
pub(super) const SCALED: (u16, f64) = (100, 71_635.0);
/// §5.4, 100 servers: RAMP-F, RAMP-H ("within 3.4%") and RAMP-S over no concurrency control.
pub(super) const SCALED_RATIOS: (f64, f64, f64) = (0.974, 0.966, 0.55);

/// Processor cores of one of the paper's servers, a cr1.8xlarge of Amazon EC2: two Xeon E5-2670 with
/// eight cores each. (Their 32 hardware threads are sold as 32 virtual processors.)
pub(super) const CORES: u16 = 16;
/// Servers of all its experiments but the last.
pub(super) const SERVERS: u16 = 5;

/// Item operations a second of the authors' own prototype (Java) under each protocol, on two processors of a
/// machine of this kind, with two servers and their client over loopback. Not in the paper.
pub(super) const PROTOTYPE: [(&str, f64); 5] = [
    ("ramp-fast", 78_000.0),
    ("ramp-hybrid", 66_000.0),
    ("ramp-small", 44_000.0),
    ("nwnr", 85_000.0),
    ("locking", 26_000.0),
];

/// §6.2: milliseconds at the 99.9th percentile of waiting for two replicas of three, and for one: writes
/// and reads at LinkedIn, on spinning disks.
pub(super) const LINKEDIN: [(f64, f64); 2] = [(21.0, 11.0), (1.63, 0.66)];
/// The same at Yammer.
pub(super) const YAMMER: [(f64, f64); 2] = [(427.0, 10.8), (32.6, 5.6)];
/// §6.2: the most that is gained over a wide-area network of 75 ms, in milliseconds.
pub(super) const WIDE: f64 = 148.0;
