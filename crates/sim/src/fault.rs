//! Fault plans: which faults occur, when, and for how long.
//!
//! A plan is drawn from the seed before the run and does not change afterwards. So it can be written
//! to a file, made smaller and replayed. The file has one JSON object a line:
//!
//! ```text
//! {"at_us":1200,"for_us":5000,"kind":"slow_link","from":0,"to":1,"extra_us":900}
//! {"at_us":3000,"for_us":8000,"kind":"partition","from":[0],"to":[1,2],"one_way":false}
//! {"at_us":9000,"for_us":2000,"kind":"pause","node":2}
//! ```
//!
//! Every fault ends `for_us` after it begins. After the end of the last fault the cluster is *healed*
//! and has to make progress.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use anabranch_types::{SplitMix64, Ticks};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::EPOCH;
use crate::report::NODE_RESTARTED;

/// A fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When it begins, in microseconds of virtual time.
    pub at_us: u64,
    /// How long it lasts, in microseconds.
    pub for_us: u64,
    /// Its kind.
    #[serde(flatten)]
    pub kind: FaultKind,
}

/// A kind of fault.
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
        /// Their share, in percent: below 100.
        percent: u64,
    },
    /// Packets arrive twice; the second time is drawn independently.
    Duplication {
        /// Their share, in percent.
        percent: u64,
    },
    /// Packets arrive late, after packets that were sent later.
    Reordering {
        /// Their share, in percent.
        percent: u64,
    },
    /// Messages from one node to another take longer.
    SlowLink {
        /// The sender.
        from: u16,
        /// The receiver.
        to: u16,
        /// The additional latency, in microseconds.
        extra_us: u64,
    },
    /// Packets between two sides are lost until the partition heals.
    Partition {
        /// The one side.
        from: Vec<u16>,
        /// The other side. Nodes on neither side reach both: the partition is partial.
        to: Vec<u16>,
        /// Whether packets from `to` to `from` arrive.
        one_way: bool,
    },
    /// A node stops, then continues and takes all inputs that arrived meanwhile.
    Pause {
        /// The node.
        node: u16,
    },
    /// A node's clock jumps, and jumps back when the fault ends.
    ClockSkew {
        /// The node.
        node: u16,
        /// The jump, in microseconds; negative sets it back.
        by_us: i64,
    },
    /// A node loses power, and restarts from its durable state when the fault ends.
    Crash {
        /// The node.
        node: u16,
        /// A jump of its clock at the restart, in microseconds, which stays.
        clock_us: i64,
    },
    /// A server crashes and never restarts; the fault's duration is ignored. Permitted only if a majority of each
    /// node's replicas remains.
    PermanentLoss {
        /// The server.
        node: u16,
    },
    /// A node's disk fails. The node stops when it notices, and restarts when the fault ends.
    Disk {
        /// The node.
        node: u16,
        /// The failure.
        failure: DiskFailure,
    },
    /// Every sync of a node's disk takes `percent` of its usual time.
    SlowDisk {
        /// The node.
        node: u16,
        /// From 100 to 100000.
        percent: u64,
    },
    /// A client crashes in the middle of its transaction, or of its next one, and never learns the outcome. Another
    /// client replaces it.
    ClientCrash {
        /// The client.
        client: u32,
    },
}

/// A failure of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DiskFailure {
    /// The disk is full: writes fail.
    Full,
    /// Every read fails, so that a node cannot restart.
    ReadsFail,
    /// Every sync fails.
    SyncsFail,
    /// Every sync reports success without making anything durable. No log survives that. It is never drawn; tests use
    /// it to show that the checks detect the loss.
    SyncsLie,
}

/// A short description, without the node.
impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |nodes: &[u16]| {
            let names: Vec<String> = nodes.iter().map(|node| format!("n{node}")).collect();
            names.join(" ")
        };
        match self {
            FaultKind::LatencySpike { percent } => write!(f, "messages take {percent}%"),
            FaultKind::Loss { percent } => write!(f, "{percent}% lost"),
            FaultKind::Duplication { percent } => write!(f, "{percent}% duplicated"),
            FaultKind::Reordering { percent } => write!(f, "{percent}% reordered"),
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
            FaultKind::PermanentLoss { .. } => f.write_str("lost"),
            FaultKind::Disk { failure, .. } => f.write_str(match failure {
                DiskFailure::Full => "disk full",
                DiskFailure::ReadsFail => "disk: reads fail",
                DiskFailure::SyncsFail => "disk: syncs fail",
                DiskFailure::SyncsLie => "disk: syncs lie",
            }),
            FaultKind::SlowDisk { percent, .. } => write!(f, "syncs take {percent}%"),
            FaultKind::ClientCrash { client } => write!(f, "client {client} crashes"),
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
            FaultKind::ClientCrash { .. } => "client_crash",
            FaultKind::Crash { .. } => "crash",
            FaultKind::PermanentLoss { .. } => "permanent_loss",
            FaultKind::Disk { .. } => "disk",
            FaultKind::SlowDisk { .. } => "slow_disk",
        }
    }

    /// The node that it affects, if it affects a single one.
    pub(crate) fn site(&self) -> Option<u16> {
        match self {
            FaultKind::Pause { node }
            | FaultKind::ClockSkew { node, .. }
            | FaultKind::Crash { node, .. }
            | FaultKind::PermanentLoss { node }
            | FaultKind::Disk { node, .. }
            | FaultKind::SlowDisk { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// Whether it never ends.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self, FaultKind::PermanentLoss { .. })
    }

    /// The situation that this fault should cause; otherwise it has tested nothing.
    pub(crate) fn expects(&self) -> Option<&'static str> {
        match self {
            FaultKind::Partition { .. } => Some("a partition dropped a packet"),
            FaultKind::Loss { .. } => Some("the network lost a packet"),
            FaultKind::Duplication { .. } => Some("the network duplicated a packet"),
            FaultKind::Reordering { .. } => Some("the network reordered a packet"),
            FaultKind::Pause { .. } => Some("an input reached a paused node"),
            FaultKind::ClientCrash { .. } => {
                Some("a client crashed in the middle of a transaction")
            }
            FaultKind::Crash { .. } => Some(NODE_RESTARTED),
            _ => None,
        }
    }

    /// Whether it destroys or delays state that is not durable, so that every node needs a log.
    pub(crate) fn needs_logs(&self) -> bool {
        matches!(
            self,
            FaultKind::Crash { .. }
                | FaultKind::PermanentLoss { .. }
                | FaultKind::Disk { .. }
                | FaultKind::SlowDisk { .. }
        )
    }

    /// Whether it takes a server away so long that its replicas elect another primary.
    pub(crate) fn loses_server(&self) -> bool {
        matches!(self, FaultKind::PermanentLoss { .. })
    }

    /// Whether its nodes and clients exist in a cluster of this size.
    fn fits(&self, nodes: u16, clients: u32) -> bool {
        self.check_names(nodes, clients).is_ok()
    }

    /// Checks that its nodes and clients exist in a cluster of this size.
    fn check_names(&self, nodes: u16, clients: u32) -> Result<(), String> {
        let named: &[(&str, &[u16])] = match self {
            FaultKind::SlowLink { from, to, .. } => &[("from", &[*from]), ("to", &[*to])],
            FaultKind::Partition { from, to, .. } => &[("from", from), ("to", to)],
            FaultKind::Pause { node }
            | FaultKind::PermanentLoss { node }
            | FaultKind::ClockSkew { node, .. }
            | FaultKind::Crash { node, .. }
            | FaultKind::Disk { node, .. }
            | FaultKind::SlowDisk { node, .. } => &[("node", &[*node])],
            FaultKind::ClientCrash { client } => {
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

    /// Checks that its numbers are in range for every cluster.
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
            | FaultKind::PermanentLoss { .. }
            | FaultKind::Disk { .. }
            | FaultKind::ClientCrash { .. } => Ok(()),
        }
    }

    /// If it sets a clock: the clock's node, and by how many microseconds.
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
    /// Checks what does not depend on the cluster's size.
    fn check(&self) -> Result<(), String> {
        // A permanent loss has no end.
        let least = u64::from(!matches!(self.kind, FaultKind::PermanentLoss { .. }));
        within("at_us", self.at_us, 0..=LONGEST_US)?;
        within("for_us", self.for_us, least..=LONGEST_US)?;
        self.kind.check_numbers()
    }

    /// Parses one fault. Unknown fields are refused: a misspelt field would silently change the fault.
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

/// The reason why a line cannot be parsed, without the line's number, which the caller adds.
pub(crate) fn in_line(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    match text.strip_suffix(&format!(" at line {line} column {column}")) {
        Some(text) if column > 0 => format!("column {column}: {text}"),
        Some(text) => text.to_owned(),
        None => text,
    }
}

/// The fault profiles from which plans are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultProfile {
    /// No faults.
    None,
    /// One to three faults; most of the time the cluster is whole.
    Mild,
    /// Several faults at any time.
    Storm,
    /// A storm in which one node is down for much longer than all other faults.
    LongOutage,
    /// A storm in which one server crashes and never restarts. Only for replicated nodes.
    PermanentLoss,
}

impl FaultProfile {
    /// All profiles, calmest first.
    pub const ALL: [FaultProfile; 5] = [
        FaultProfile::None,
        FaultProfile::Mild,
        FaultProfile::Storm,
        FaultProfile::LongOutage,
        FaultProfile::PermanentLoss,
    ];

    /// The profiles that a cluster without replicas survives.
    pub const ONE_REPLICA: [FaultProfile; 4] = [
        FaultProfile::None,
        FaultProfile::Mild,
        FaultProfile::Storm,
        FaultProfile::LongOutage,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FaultProfile::None => "none",
            FaultProfile::Mild => "mild",
            FaultProfile::Storm => "storm",
            FaultProfile::LongOutage => "long_outage",
            FaultProfile::PermanentLoss => "permanent_loss",
        }
    }
}

/// All faults of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// In any order.
    pub faults: Vec<Fault>,
}

/// The reason why a file is not a fault plan.
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

/// The reason why a cluster cannot run a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultError {
    /// The number of the fault in the plan, counted from 1.
    pub number: usize,
    /// Its kind.
    pub kind: &'static str,
    /// The field, its value, and its permitted range.
    pub reason: String,
}

impl std::fmt::Display for FaultError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "fault {}, {}: {}", self.number, self.kind, self.reason)
    }
}

impl std::error::Error for FaultError {}

impl FaultPlan {
    /// Draws a plan for a cluster of `nodes` and `clients`. Its faults begin within `horizon`.
    pub fn draw(
        profile: FaultProfile,
        seed: u64,
        nodes: u16,
        clients: u32,
        horizon: Ticks,
    ) -> FaultPlan {
        let mut random = SplitMix64::stream(seed, "faults", 0);
        let count = match profile {
            FaultProfile::None => 0,
            FaultProfile::Mild => random.between(1, 3),
            FaultProfile::Storm | FaultProfile::LongOutage | FaultProfile::PermanentLoss => {
                random.between(6, 16) + u64::from(nodes)
            }
        };
        let horizon_us = horizon.as_micros().max(10);
        // A fault lasts at most this fraction of the horizon.
        let share = match profile {
            FaultProfile::Storm | FaultProfile::LongOutage | FaultProfile::PermanentLoss => 3,
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
        if profile == FaultProfile::LongOutage {
            plan.faults.push(Fault {
                at_us: random.below(horizon_us),
                for_us: horizon_us.saturating_mul(LONG_OUTAGE_FACTOR),
                kind: FaultKind::Crash {
                    node: random.below(u64::from(nodes)) as u16,
                    clock_us: 0,
                },
            });
        }
        if profile == FaultProfile::PermanentLoss {
            plan.faults.push(Fault {
                at_us: random.below(horizon_us),
                for_us: 0,
                kind: FaultKind::PermanentLoss {
                    node: random.below(u64::from(nodes)) as u16,
                },
            });
        }
        plan.faults.sort_by_key(|fault| fault.at_us);
        plan
    }

    /// The servers that are lost permanently.
    pub fn permanent_losses(&self) -> BTreeSet<u16> {
        let lost = self.faults.iter().filter_map(|fault| match fault.kind {
            FaultKind::PermanentLoss { node } => Some(node),
            _ => None,
        });
        lost.collect()
    }

    /// The plan with all times multiplied, for runs that take so many times as long.
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

    /// Whether some fault needs logs: then every node keeps one.
    pub fn needs_logs(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.needs_logs())
    }

    /// The plan without crashes and disk faults, for a protocol that writes no log records.
    #[must_use]
    pub fn without_crashes(&self) -> FaultPlan {
        let kept = self.faults.iter().filter(|fault| !fault.kind.needs_logs());
        FaultPlan {
            faults: kept.cloned().collect(),
        }
    }

    /// The end of the last fault.
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

    /// Parses the output of [`FaultPlan::to_lines`]. Empty lines are skipped.
    ///
    /// # Errors
    /// The first line that is not a fault.
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

    /// Checks that a cluster of this size can run the plan.
    ///
    /// # Errors
    /// The first fault that it cannot run.
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

    /// The plan without faults of nodes and clients that a smaller cluster lacks.
    #[must_use]
    pub fn within(&self, nodes: u16, clients: u32) -> FaultPlan {
        let faults = self.faults.iter();
        let faults = faults.filter(|fault| fault.kind.fits(nodes, clients));
        FaultPlan {
            faults: faults.cloned().collect(),
        }
    }
}

/// A long outage lasts so many times the horizon.
const LONG_OUTAGE_FACTOR: u64 = 8;

/// The latest beginning and the longest duration of a fault, in microseconds: an hour. Nodes and clients retry
/// meanwhile, and the number of events of a run is limited.
const LONGEST_US: u64 = 3_600_000_000;

/// The largest jump of a clock, in microseconds.
const CLOCK_US_MAX: u64 = 1_000_000;

/// The largest sum of a node's clock jumps, in microseconds. It is below the clock's initial reading, so that a clock
/// never reads below 0.
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
            // Bridging nodes reach both sides.
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
            failure: match random.below(3) {
                0 => DiskFailure::Full,
                1 => DiskFailure::ReadsFail,
                _ => DiskFailure::SyncsFail,
            },
        },
        19 => FaultKind::SlowDisk {
            node: node(random),
            percent: random.between(200, 10_000),
        },
        _ => FaultKind::ClientCrash {
            client: random.below(u64::from(clients)) as u32,
        },
    };
    match drawn {
        // A single node has no links, and no link leads to its own node.
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
    fn a_plan_depends_on_the_seed_and_survives_its_file() {
        let horizon = Ticks::from_millis(20);
        let draw = |seed| FaultPlan::draw(FaultProfile::Storm, seed, 3, 6, horizon);
        for seed in 0..200 {
            let plan = draw(seed);
            assert_eq!(plan, draw(seed));
            assert!(plan.faults.len() > 6);
            plan.check(3, 6).unwrap();
            assert_eq!(FaultPlan::from_lines(&plan.to_lines()).unwrap(), plan);
        }
        assert_ne!(draw(1), draw(2));
        let calm = FaultPlan::draw(FaultProfile::None, 1, 3, 6, horizon);
        assert_eq!(calm, FaultPlan::default());
    }

    #[test]
    fn a_malformed_plan_is_refused_by_line() {
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
