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
use std::fmt;
use std::ops::RangeInclusive;

use anabranch_types::{SplitMix64, Ticks};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cluster::EPOCH;

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

/// In a few words, without the node that it is about.
impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |nodes: &[u16]| {
            let names: Vec<String> = nodes.iter().map(|node| format!("n{node}")).collect();
            names.join(" ")
        };
        match self {
            FaultKind::LatencySpike { percent } => write!(f, "messages take {percent}%"),
            FaultKind::Loss { percent } => write!(f, "{percent}% lost"),
            FaultKind::Duplication { percent } => write!(f, "{percent}% doubled"),
            FaultKind::Reordering { percent } => write!(f, "{percent}% overtaken"),
            FaultKind::SlowLink { from, to, extra_us } => {
                write!(f, "n{from} to n{to}: {extra_us} us more")
            }
            FaultKind::Partition { from, to, one_way } => {
                let sign = if *one_way { "-x->" } else { "|" };
                write!(f, "cut: {} {sign} {}", named(from), named(to))
            }
            FaultKind::Pause { .. } => f.write_str("paused"),
            FaultKind::ClockSkew { by_us, .. } => write!(f, "clock off by {by_us} us"),
            FaultKind::Crash { .. } => f.write_str("down"),
            FaultKind::Death { .. } => f.write_str("dead"),
            FaultKind::Disk { trouble, .. } => f.write_str(match trouble {
                DiskTrouble::Full => "disk full",
                DiskTrouble::ReadsFail => "disk: reads fail",
                DiskTrouble::SyncsFail => "disk: syncs fail",
                DiskTrouble::SyncsLie => "disk: syncs lie",
            }),
            FaultKind::SlowDisk { percent, .. } => write!(f, "syncs take {percent}%"),
            FaultKind::ClientDeath { client } => write!(f, "client {client} dies"),
        }
    }
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

    /// The node that it is about, if it is about one.
    pub(crate) fn site(&self) -> Option<u16> {
        match self {
            FaultKind::Pause { node }
            | FaultKind::ClockSkew { node, .. }
            | FaultKind::Crash { node, .. }
            | FaultKind::Death { node }
            | FaultKind::Disk { node, .. }
            | FaultKind::SlowDisk { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// Whether its end is of no account.
    pub(crate) fn lasts_for_ever(&self) -> bool {
        matches!(self, FaultKind::Death { .. })
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
        self.check_names(nodes, clients).is_ok()
    }

    /// What it names that a cluster of this size has not.
    fn check_names(&self, nodes: u16, clients: u32) -> Result<(), String> {
        let named: &[(&str, &[u16])] = match self {
            FaultKind::SlowLink { from, to, .. } => &[("from", &[*from]), ("to", &[*to])],
            FaultKind::Partition { from, to, .. } => &[("from", from), ("to", to)],
            FaultKind::Pause { node }
            | FaultKind::Death { node }
            | FaultKind::ClockSkew { node, .. }
            | FaultKind::Crash { node, .. }
            | FaultKind::Disk { node, .. }
            | FaultKind::SlowDisk { node, .. } => &[("node", &[*node])],
            FaultKind::ClientDeath { client } => {
                let last = u64::from(clients).saturating_sub(1);
                return within("client", *client, 0..=last);
            }
            FaultKind::LatencySpike { .. }
            | FaultKind::Loss { .. }
            | FaultKind::Duplication { .. }
            | FaultKind::Reordering { .. } => &[],
        };
        let last = u64::from(nodes).saturating_sub(1);
        let mut each = named.iter();
        each.try_for_each(|(field, named)| {
            let mut named = named.iter();
            named.try_for_each(|node| within(field, *node, 0..=last))
        })
    }

    /// What no cluster can make anything of.
    fn check_numbers(&self) -> Result<(), String> {
        match self {
            FaultKind::LatencySpike { percent } | FaultKind::SlowDisk { percent, .. } => {
                within("percent", *percent, 100..=100_000)
            }
            FaultKind::Loss { percent } => within("percent", *percent, 0..=99),
            FaultKind::Duplication { percent } | FaultKind::Reordering { percent } => {
                within("percent", *percent, 0..=100)
            }
            FaultKind::SlowLink { from, to, extra_us } => {
                if from == to {
                    return Err(format!(
                        "`from` and `to` are both {to}: they have to differ"
                    ));
                }
                within("extra_us", *extra_us, 0..=LONGEST_US)
            }
            FaultKind::Partition { from, to, .. } => {
                for (field, side) in [("from", from), ("to", to)] {
                    if side.is_empty() {
                        return Err(format!("`{field}` is empty: it has to name a node"));
                    }
                }
                match from.iter().find(|node| to.contains(node)) {
                    None => Ok(()),
                    Some(node) => Err(format!(
                        "`from` and `to` both name {node}: no node can be cut off from itself"
                    )),
                }
            }
            FaultKind::ClockSkew { by_us, .. } => within_clock("by_us", *by_us),
            FaultKind::Crash { clock_us, .. } => within_clock("clock_us", *clock_us),
            FaultKind::Pause { .. }
            | FaultKind::Death { .. }
            | FaultKind::Disk { .. }
            | FaultKind::ClientDeath { .. } => Ok(()),
        }
    }

    /// Whose clock it sets, and by how many microseconds at most.
    fn sets_clock(&self) -> Option<(u16, i64)> {
        match self {
            FaultKind::ClockSkew { node, by_us } => Some((*node, *by_us)),
            FaultKind::Crash { node, clock_us } => Some((*node, *clock_us)),
            _ => None,
        }
    }
}

fn within(
    field: &str,
    value: impl Into<u64>,
    permitted: RangeInclusive<u64>,
) -> Result<(), String> {
    let value = value.into();
    match permitted.contains(&value) {
        true => Ok(()),
        false => Err(format!(
            "`{field}` is {value}: it has to be from {} to {}",
            permitted.start(),
            permitted.end()
        )),
    }
}

fn within_clock(field: &str, by_us: i64) -> Result<(), String> {
    match by_us.unsigned_abs() <= CLOCK_US_MAX {
        true => Ok(()),
        false => Err(format!(
            "`{field}` is {by_us}: it has to be from -{CLOCK_US_MAX} to {CLOCK_US_MAX}"
        )),
    }
}

impl Fault {
    /// What no cluster can make anything of.
    fn check(&self) -> Result<(), String> {
        // A death has no end.
        let least = u64::from(!matches!(self.kind, FaultKind::Death { .. }));
        within("at_us", self.at_us, 0..=LONGEST_US)?;
        within("for_us", self.for_us, least..=LONGEST_US)?;
        self.kind.check_numbers()
    }

    /// Reads one fault. A field that it has not is refused: it may be a slip of the pen, and the fault
    /// another than was meant.
    fn from_line(line: &str) -> Result<Fault, String> {
        let fault: Fault = serde_json::from_str(line).map_err(|error| in_line(&error))?;
        let (given, known) = (fields(serde_json::from_str(line)), fields(fault.as_json()));
        let name = fault.kind.name();
        if let Some(unknown) = given.difference(&known).next() {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let known = known.join(", ");
            return Err(format!("{name}: unknown field `{unknown}`; it has {known}"));
        }
        match fault.check() {
            Ok(()) => Ok(fault),
            Err(reason) => Err(format!("{name}: {reason}")),
        }
    }

    fn as_json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

fn fields(object: serde_json::Result<Value>) -> BTreeSet<String> {
    match object {
        Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
        _ => BTreeSet::new(),
    }
}

/// What is wrong with a line that is no JSON, or not the right one. Which line it is of the file is
/// said elsewhere.
pub(crate) fn in_line(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    match text.strip_suffix(&format!(" at line {line} column {column}")) {
        Some(text) if column > 0 => format!("column {column}: {text}"),
        Some(text) => text.to_owned(),
        None => text,
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

/// Why a plan cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultError {
    /// Which fault of the plan, counted from 1.
    pub number: usize,
    /// Its kind.
    pub kind: &'static str,
    /// Which field of it, what it is, and what it may be.
    pub reason: String,
}

impl std::fmt::Display for FaultError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "fault {}, {}: {}", self.number, self.kind, self.reason)
    }
}

impl std::error::Error for FaultError {}

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
            let fault = Fault::from_line(line).map_err(|reason| PlanError {
                line: index + 1,
                reason,
            })?;
            faults.push(fault);
        }
        Ok(FaultPlan { faults })
    }

    /// Whether the plan can be carried out in a cluster of this size.
    ///
    /// # Errors
    /// The first fault that cannot.
    pub fn check(&self, nodes: u16, clients: u32) -> Result<(), FaultError> {
        let mut clocks = vec![0u64; usize::from(nodes)];
        for (fault, number) in self.faults.iter().zip(1..) {
            let mut checked = fault.check();
            checked = checked.and_then(|()| fault.kind.check_names(nodes, clients));
            if let (Ok(()), Some((node, by_us))) = (&checked, fault.kind.sets_clock())
                && let Some(clock) = clocks.get_mut(usize::from(node))
            {
                *clock += by_us.unsigned_abs();
                if *clock > CLOCK_US_ALL {
                    checked = Err(format!(
                        "the clock of `node` {node} would be set by {clock} us in all: at most \
                         {CLOCK_US_ALL} are permitted"
                    ));
                }
            }
            checked.map_err(|reason| FaultError {
                number,
                kind: fault.kind.name(),
                reason,
            })?;
        }
        Ok(())
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

/// The latest that a fault may begin, and the longest that it may last: an hour, in microseconds. Nodes
/// and clients try again all the while, and a run may take only so many events.
const LONGEST_US: u64 = 3_600_000_000;

/// The farthest that a clock may jump at once, in microseconds.
const CLOCK_US_MAX: u64 = 1_000_000;

/// By how much a node's clock may be set in all, in microseconds: less than it shows when a run
/// begins, so that it is never before its beginning.
const CLOCK_US_ALL: u64 = EPOCH as u64 / 1_000 - CLOCK_US_MAX;

fn draw_kind(random: &mut SplitMix64, nodes: u16, clients: u32, horizon_us: u64) -> FaultKind {
    let node = |random: &mut SplitMix64| random.below(u64::from(nodes)) as u16;
    let drawn = match random.below(22) {
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
    };
    match drawn {
        // A single node has no network, and no node is slow to reach itself.
        FaultKind::SlowLink { .. } | FaultKind::Partition { .. } if nodes == 1 => {
            FaultKind::Pause { node: 0 }
        }
        FaultKind::SlowLink { from, to, extra_us } if from == to => FaultKind::SlowLink {
            from,
            to: (to + 1) % nodes,
            extra_us,
        },
        drawn => drawn,
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
        assert_eq!(plan.check(4, 1).unwrap_err().number, 1);
        assert_eq!(plan.within(4, 1), FaultPlan::default());
    }
}
