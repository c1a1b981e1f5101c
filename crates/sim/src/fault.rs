//! What goes wrong, when, and for how long: the fault plan.
//!
//! A plan is drawn from the seed before the run and then only read, so it can be written to a file,
//! made smaller, and replayed. The file holds one JSON object a line:
//!
//! ```text
//! {"at_us":1200,"for_us":5000,"kind":"slow_link","from":0,"to":1,"extra_us":900}
//! {"at_us":3000,"for_us":8000,"kind":"partition","from":[0],"to":[1,2],"one_way":false}
//! {"at_us":9000,"for_us":2000,"kind":"pause","node":2}
//! ```
//!
//! Every fault ends by itself, `for_us` after it began; when the last has ended the cluster is
//! *healed*, and from then on it must make progress.

use std::collections::BTreeSet;

use anabranch_types::{SplitMix64, Ticks};
use serde::{Deserialize, Serialize};

/// One thing that goes wrong for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When it begins, in microseconds of virtual time.
    pub at_us: u64,
    /// For how long, in microseconds.
    pub for_us: u64,
    /// What.
    #[serde(flatten)]
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// Every message takes `percent` of its usual time.
    LatencySpike {
        /// From 100 to 100000.
        percent: u64,
    },
    /// Packets are lost.
    Loss {
        /// How many of 100, below 100.
        percent: u64,
    },
    /// Packets arrive twice, the second time whenever.
    Duplication {
        /// How many of 100.
        percent: u64,
    },
    /// Packets come late, and those behind them first.
    Reordering {
        /// How many of 100.
        percent: u64,
    },
    /// Messages from one node to another take longer.
    SlowLink {
        /// The sender.
        from: u16,
        /// The receiver.
        to: u16,
        /// By how much, in microseconds.
        extra_us: u64,
    },
    /// What these nodes send to those does not arrive until the partition heals.
    Partition {
        /// The one side.
        from: Vec<u16>,
        /// The other side. Nodes on neither side reach everybody: the partition is partial.
        to: Vec<u16>,
        /// Whether messages the other way arrive.
        one_way: bool,
    },
    /// A node does nothing and then goes on, with all that has come meanwhile.
    Pause {
        /// Which.
        node: u16,
    },
    /// A node's clock is off, and then right again: it jumps twice.
    ClockSkew {
        /// Which node's.
        node: u16,
        /// By how much, in microseconds; negative is behind.
        by_us: i64,
    },
    /// A node loses power, and comes back when the fault ends, with what was durable.
    Crash {
        /// Which.
        node: u16,
        /// How far its clock is off from then on, in microseconds, beside what it was before.
        clock_us: i64,
    },
    /// A server dies and never comes back; its fault's end is of no account. Only where nodes have
    /// replicas, and a majority of each node's is left.
    Death {
        /// Which.
        node: u16,
    },
    /// A node's disk fails; the node stops when it notices, and comes back when the disk is well.
    Disk {
        /// Which node's.
        node: u16,
        /// How.
        trouble: DiskTrouble,
    },
    /// Every sync of a node's disk takes `percent` of its usual time.
    SlowDisk {
        /// Which node's.
        node: u16,
        /// From 100 to 100000.
        percent: u64,
    },
    /// A client dies in the middle of its transaction, or of its next one, and never learns what
    /// became of it; another takes its place.
    ClientDeath {
        /// Which.
        client: u32,
    },
}

/// How a disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DiskTrouble {
    /// It takes no more bytes.
    Full,
    /// Every read fails: a node that comes back cannot.
    ReadsFail,
    /// Every sync fails.
    SyncsFail,
    /// Every sync says that it has made durable what it has not. No log survives that, and it is
    /// never drawn: it is there to show that the checks see what is lost.
    SyncsLie,
}

impl FaultKind {
    /// Its name in files and reports.
    pub fn name(&self) -> &'static str {
        match self {
            FaultKind::LatencySpike { .. } => "latency_spike",
            FaultKind::Loss { .. } => "loss",
            FaultKind::Duplication { .. } => "duplication",
            FaultKind::Reordering { .. } => "reordering",
            FaultKind::SlowLink { .. } => "slow_link",
            FaultKind::Partition { .. } => "partition",
            FaultKind::Pause { .. } => "pause",
            FaultKind::ClockSkew { .. } => "clock_skew",
            FaultKind::ClientDeath { .. } => "client_death",
            FaultKind::Crash { .. } => "crash",
            FaultKind::Death { .. } => "death",
            FaultKind::Disk { .. } => "disk",
            FaultKind::SlowDisk { .. } => "slow_disk",
        }
    }

    /// What a run with this fault should see sometimes, if the fault is to have shown anything.
    pub(crate) fn expects(&self) -> Option<&'static str> {
        match self {
            FaultKind::Partition { .. } => Some("a partition cut something off"),
            FaultKind::Loss { .. } => Some("the network lost a packet"),
            FaultKind::Duplication { .. } => Some("the network doubled a packet"),
            FaultKind::Reordering { .. } => Some("the network let a packet be overtaken"),
            FaultKind::Pause { .. } => Some("a paused node missed something"),
            FaultKind::ClientDeath { .. } => Some("a client died in the middle of a transaction"),
            FaultKind::Crash { .. } => Some("a node came back"),
            _ => None,
        }
    }

    /// Whether it takes away what a node has not made durable.
    pub(crate) fn needs_logs(&self) -> bool {
        matches!(
            self,
            FaultKind::Crash { .. }
                | FaultKind::Death { .. }
                | FaultKind::Disk { .. }
                | FaultKind::SlowDisk { .. }
        )
    }

    /// Whether it takes a server away, for a time that others notice or for ever.
    pub(crate) fn takes_server(&self) -> bool {
        matches!(self, FaultKind::Death { .. })
    }

    /// Whether all that it names exists in a cluster of this size.
    fn fits(&self, nodes: u16, clients: u32) -> bool {
        match self {
            FaultKind::LatencySpike { percent } => (100..=100_000).contains(percent),
            FaultKind::Loss { percent } => *percent < 100,
            FaultKind::Duplication { percent } | FaultKind::Reordering { percent } => {
                *percent <= 100
            }
            FaultKind::SlowLink { from, to, .. } => *from < nodes && *to < nodes,
            FaultKind::Partition { from, to, .. } => from.iter().chain(to).all(|n| *n < nodes),
            FaultKind::Pause { node }
            | FaultKind::Death { node }
            | FaultKind::ClockSkew { node, .. } => *node < nodes,
            FaultKind::ClientDeath { client } => *client < clients,
            FaultKind::Crash { node, clock_us } => *node < nodes && clock_us.abs() <= CLOCK_US_MAX,
            FaultKind::Disk { node, .. } => *node < nodes,
            FaultKind::SlowDisk { node, percent } => {
                *node < nodes && (100..=100_000).contains(percent)
            }
        }
    }
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultLevel {
    /// Nothing.
    None,
    /// A fault now and then; most of the time the cluster is whole.
    Mild,
    /// Several at a time, all the time.
    Storm,
    /// A storm in which one node goes, and comes back when everything else has long been over.
    Absence,
    /// A storm in which one server dies and never comes back. Only where nodes have replicas.
    Death,
}

impl FaultLevel {
    /// All levels, calmest first.
    pub const ALL: [FaultLevel; 5] = [
        FaultLevel::None,
        FaultLevel::Mild,
        FaultLevel::Storm,
        FaultLevel::Absence,
        FaultLevel::Death,
    ];

    /// Those that a cluster outlives whose nodes have one replica each.
    pub const ONE_REPLICA: [FaultLevel; 4] = [
        FaultLevel::None,
        FaultLevel::Mild,
        FaultLevel::Storm,
        FaultLevel::Absence,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FaultLevel::None => "none",
            FaultLevel::Mild => "mild",
            FaultLevel::Storm => "storm",
            FaultLevel::Absence => "absence",
            FaultLevel::Death => "death",
        }
    }
}

/// Every fault of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// In any order.
    pub faults: Vec<Fault>,
}

/// Why a file holds no fault plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for PlanError {}

impl FaultPlan {
    /// A plan for a cluster of `nodes` and `clients`, whose faults begin within `horizon`.
    pub fn draw(
        level: FaultLevel,
        seed: u64,
        nodes: u16,
        clients: u32,
        horizon: Ticks,
    ) -> FaultPlan {
        let mut random = SplitMix64::stream(seed, "faults", 0);
        let count = match level {
            FaultLevel::None => 0,
            FaultLevel::Mild => random.between(1, 3),
            FaultLevel::Storm | FaultLevel::Absence | FaultLevel::Death => {
                random.between(6, 16) + u64::from(nodes)
            }
        };
        let horizon_us = horizon.as_micros().max(10);
        // How long a fault lasts beside the whole.
        let share = match level {
            FaultLevel::Storm | FaultLevel::Absence | FaultLevel::Death => 3,
            _ => 8,
        };
        let faults = (0..count).map(|_| Fault {
            at_us: random.below(horizon_us),
            for_us: random.between(1, (horizon_us / share).max(1)),
            kind: draw_kind(&mut random, nodes, clients, horizon_us),
        });
        let mut plan = FaultPlan {
            faults: faults.collect(),
        };
        if level == FaultLevel::Absence {
            plan.faults.push(Fault {
                at_us: random.below(horizon_us),
                for_us: horizon_us.saturating_mul(ABSENT),
                kind: FaultKind::Crash {
                    node: random.below(u64::from(nodes)) as u16,
                    clock_us: 0,
                },
            });
        }
        if level == FaultLevel::Death {
            plan.faults.push(Fault {
                at_us: random.below(horizon_us),
                for_us: 0,
                kind: FaultKind::Death {
                    node: random.below(u64::from(nodes)) as u16,
                },
            });
        }
        plan.faults.sort_by_key(|fault| fault.at_us);
        plan
    }

    /// The servers that die for good.
    pub fn deaths(&self) -> BTreeSet<u16> {
        let dead = self.faults.iter().filter_map(|fault| match fault.kind {
            FaultKind::Death { node } => Some(node),
            _ => None,
        });
        dead.collect()
    }

    /// The same plan for runs in which everything takes so many times as long.
    #[must_use]
    pub fn stretched(&self, times: u64) -> FaultPlan {
        let stretch = |fault: &Fault| Fault {
            at_us: fault.at_us.saturating_mul(times),
            for_us: fault.for_us.saturating_mul(times),
            kind: fault.kind.clone(),
        };
        FaultPlan {
            faults: self.faults.iter().map(stretch).collect(),
        }
    }

    /// Whether some fault takes away what a node has not made durable: then every node keeps a log.
    pub fn needs_logs(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.needs_logs())
    }

    /// The plan without what takes a node's memory: for a protocol that makes nothing durable.
    #[must_use]
    pub fn without_crashes(&self) -> FaultPlan {
        let kept = self.faults.iter().filter(|fault| !fault.kind.needs_logs());
        FaultPlan {
            faults: kept.cloned().collect(),
        }
    }

    /// When the last fault has ended.
    pub fn healed_at(&self) -> Ticks {
        let ends = self.faults.iter().map(|f| f.at_us.saturating_add(f.for_us));
        Ticks::from_micros(ends.max().unwrap_or(0))
    }

    /// One JSON object a line.
    pub fn to_lines(&self) -> String {
        let line = |fault| {
            let text = serde_json::to_string(fault);
            text.expect("a fault is plain data") + "\n"
        };
        self.faults.iter().map(line).collect()
    }

    /// Reads what [`FaultPlan::to_lines`] writes; empty lines are passed over.
    ///
    /// # Errors
    /// The first line that is no fault.
    pub fn from_lines(text: &str) -> Result<FaultPlan, PlanError> {
        let mut faults = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let fault: Fault = serde_json::from_str(line).map_err(|error| PlanError {
                line: index + 1,
                reason: error.to_string(),
            })?;
            if fault.at_us.saturating_add(fault.for_us) > LONGEST_US {
                return Err(PlanError {
                    line: index + 1,
                    reason: "a fault has to end within a day".to_owned(),
                });
            }
            faults.push(fault);
        }
        Ok(FaultPlan { faults })
    }

    /// Whether all that the plan names exists in a cluster of this size.
    ///
    /// # Errors
    /// The first fault (its number, from 1) that names something else.
    pub fn check(&self, nodes: u16, clients: u32) -> Result<(), PlanError> {
        let stray = self
            .faults
            .iter()
            .position(|fault| !fault.kind.fits(nodes, clients));
        match stray {
            None => Ok(()),
            Some(at) => Err(PlanError {
                line: at + 1,
                reason: format!(
                    "{} names a node or client that a cluster of {nodes} nodes and {clients} \
                     clients has not, or a number out of range",
                    self.faults[at].kind.name()
                ),
            }),
        }
    }

    /// The plan without what a smaller cluster has not.
    #[must_use]
    pub fn within(&self, nodes: u16, clients: u32) -> FaultPlan {
        let faults = self.faults.iter();
        let faults = faults.filter(|fault| fault.kind.fits(nodes, clients));
        FaultPlan {
            faults: faults.cloned().collect(),
        }
    }
}

/// How much longer than all other faults take a node is absent.
const ABSENT: u64 = 8;

const LONGEST_US: u64 = 86_400_000_000;

/// The farthest that a clock may jump at a crash.
const CLOCK_US_MAX: i64 = 1_000_000;

fn draw_kind(random: &mut SplitMix64, nodes: u16, clients: u32, horizon_us: u64) -> FaultKind {
    let node = |random: &mut SplitMix64| random.below(u64::from(nodes)) as u16;
    match random.below(22) {
        0 => FaultKind::LatencySpike {
            percent: random.between(150, 2_000),
        },
        1..=3 => FaultKind::SlowLink {
            from: node(random),
            to: node(random),
            extra_us: random.between(10, (horizon_us / 10).max(10)),
        },
        4..=5 => {
            let mut all: Vec<u16> = (0..nodes).collect();
            random.shuffle(&mut all);
            let cut = random.between(1, u64::from(nodes).max(2) - 1) as usize;
            let to = all.split_off(cut.min(all.len()));
            // Some see both sides.
            let bridging = if to.len() > 1 && random.percent(30) {
                1
            } else {
                0
            };
            FaultKind::Partition {
                from: all,
                to: to[bridging..].to_vec(),
                one_way: random.percent(40),
            }
        }
        6..=7 => FaultKind::Pause { node: node(random) },
        8..=9 => FaultKind::ClockSkew {
            node: node(random),
            by_us: random.between(0, 200_000) as i64 - 100_000,
        },
        10 => FaultKind::Loss {
            percent: random.between(1, 40),
        },
        11 => FaultKind::Duplication {
            percent: random.between(1, 40),
        },
        12..=13 => FaultKind::Reordering {
            percent: random.between(1, 60),
        },
        14..=17 => FaultKind::Crash {
            node: node(random),
            clock_us: random.between(0, 200_000) as i64 - 100_000,
        },
        18 => FaultKind::Disk {
            node: node(random),
            trouble: match random.below(3) {
                0 => DiskTrouble::Full,
                1 => DiskTrouble::ReadsFail,
                _ => DiskTrouble::SyncsFail,
            },
        },
        19 => FaultKind::SlowDisk {
            node: node(random),
            percent: random.between(200, 10_000),
        },
        _ => FaultKind::ClientDeath {
            client: random.below(u64::from(clients)) as u32,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_the_seeds_and_survives_its_file() {
        let horizon = Ticks::from_millis(20);
        let draw = |seed| FaultPlan::draw(FaultLevel::Storm, seed, 3, 6, horizon);
        for seed in 0..200 {
            let plan = draw(seed);
            assert_eq!(plan, draw(seed));
            assert!(plan.faults.len() > 6);
            plan.check(3, 6).unwrap();
            assert_eq!(FaultPlan::from_lines(&plan.to_lines()).unwrap(), plan);
        }
        assert_ne!(draw(1), draw(2));
        let calm = FaultPlan::draw(FaultLevel::None, 1, 3, 6, horizon);
        assert_eq!(calm, FaultPlan::default());
    }

    #[test]
    fn what_is_no_plan_is_refused_by_line() {
        let good = r#"{"at_us":1,"for_us":2,"kind":"pause","node":0}"#;
        assert!(FaultPlan::from_lines(good).is_ok());
        for bad in [
            "{",
            r#"{"at_us":1,"for_us":2,"kind":"meteor"}"#,
            r#"{"at_us":1,"for_us":2,"kind":"pause"}"#,
            r#"{"at_us":-1,"for_us":2,"kind":"pause","node":0}"#,
            r#"{"at_us":1,"for_us":99999999999999,"kind":"pause","node":0}"#,
        ] {
            let error = FaultPlan::from_lines(&format!("{good}\n\n{bad}\n")).unwrap_err();
            assert_eq!(error.line, 3, "{bad}");
        }
        let plan = FaultPlan::from_lines(good).unwrap();
        assert!(plan.check(1, 1).is_ok());
        let stray = good.replace("\"node\":0", "\"node\":4");
        let plan = FaultPlan::from_lines(&stray).unwrap();
        assert_eq!(plan.check(4, 1).unwrap_err().line, 1);
        assert_eq!(plan.within(4, 1), FaultPlan::default());
    }
}
