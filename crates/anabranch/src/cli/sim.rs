//! `anabranch sim`: simulates a cluster.

mod sum;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anabranch_bench::table::{self, counted};
use anabranch_protocol::ramp::FilterSize;
use anabranch_sim::diagram::{Frame, Recorder};
use anabranch_sim::minimise::minimise;
use anabranch_sim::prepared::NODES_MAX;
use anabranch_sim::report::{Checked, Verdict as Ending};
use anabranch_sim::{
    Case, CaseFile, ConsistencyName, FaultPlan, FaultProfile, Network, OrderOver, Prepared,
    ProtocolName, Report, SiteOptions, Watch,
};
use anabranch_types::Ticks;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use self::sum::{Parameters, Sum};
use super::Verdict;
use super::output::{OutputError, cannot_write, check_outputs, say, write_file};
use super::shell::quoted;
use super::text::read_text;

/// Options that conflict with `--replay`, since the case file determines them.
const SET_BY_CASE: [&str; 24] = [
    "workload",
    "protocol",
    "filter_bits",
    "lost_commits",
    "one_phase",
    "causal",
    "clients_switch_nodes",
    "interactive",
    "replicas",
    "clusters",
    "prepare_f",
    "quorum",
    "consistency",
    "fast_decisions",
    "retained_max",
    "order_over",
    "leader",
    "nodes",
    "seed",
    "seeds",
    "transactions",
    "clients",
    "faults",
    "net",
];

/// Exit codes: 1 isolation or an invariant was violated; 3 calls made no progress after the faults had ended; 4 a node
/// panicked.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct SimArguments {
    /// The workload: register, tally, replies, ycsb, counter, bank, departments, smallbank, payroll, tpcc, tpcw or
    /// rubis
    #[arg(value_name = "WORKLOAD", required_unless_present = "replay")]
    workload: Option<String>,
    /// The protocol: ramp-fast, ramp-small, ramp-hybrid, nwnr, locking, locking-short, lwnr, score, bumper, e-pci,
    /// alvin, epaxos, multipaxos or belt
    #[arg(long, value_name = "NAME", default_value = "ramp-fast", value_parser = protocol)]
    protocol: ProtocolName,
    /// Size of ramp-hybrid's Bloom filters [default: 256]
    #[arg(long, value_name = "BITS", value_parser = super::filter_bits)]
    filter_bits: Option<FilterSize>,
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)),
          help = format!("Nodes with one partition each, in each cluster: 1 to {NODES_MAX}. Under alvin, epaxos \
                          and multipaxos: sites with all of the data, 1 to 9"))]
    nodes: u16,
    /// The seed: it determines the whole run
    #[arg(long, value_name = "S", default_value_t = 1, conflicts_with = "seeds")]
    seed: u64,
    /// Runs many seeds, from A up to but not including B, on all cores
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<std::ops::Range<u64>>,
    /// Calls of all clients together, before the calls after the last fault
    #[arg(long, value_name = "N", default_value_t = 200)]
    transactions: u64,
    /// Clients, each with one running call
    #[arg(long, value_name = "N", default_value_t = 6)]
    clients: u32,
    /// Each client switches to the next node with each call
    #[arg(long)]
    clients_switch_nodes: bool,
    /// Every other transaction of a client is its own: a few operations with savepoints, cancels and rollbacks
    #[arg(long, conflicts_with_all = ["replicas", "clusters"])]
    interactive: bool,
    /// Replicas of each node, on as many servers as there are nodes: a primary and R-1 backups
    #[arg(long, value_name = "R", default_value_t = 1)]
    replicas: u16,
    /// Clusters, each with all of the data; node N is in cluster N mod C. Without --prepare-f and --quorum each commits
    /// by itself and applies the others' transactions. For workloads that only assign or merge columns
    #[arg(long, value_name = "C", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    clusters: u16,
    /// Prepare-F (RAMP): clients are answered when their writes survive the loss of F clusters; writes become visible
    /// when all clusters have prepared them
    #[arg(long, value_name = "F")]
    prepare_f: Option<u16>,
    /// Quorum operation (RAMP): each cluster has a replica; a majority prepares each write, and any replica is read.
    /// After US microseconds without an answer a read goes to another replica as well. Reads may be stale. For
    /// workloads that only assign columns: register, ycsb
    #[arg(long, value_name = "US", num_args = 0..=1, require_equals = true, default_missing_value = "20000")]
    quorum: Option<u64>,
    /// What transactions that only read are promised under alvin, epaxos and multipaxos: sr (serializability; they are
    /// ordered like all others) or eus (extended update serializability; they commit at their site)
    #[arg(long, value_name = "sr|eus", default_value = "sr", value_parser = consistency)]
    consistency: ConsistencyName,
    /// Whether alvin decides on an order after one round trip, if all sites agree
    #[arg(long, value_name = "on|off", default_value = "off", value_parser = on_or_off,
          action = clap::ArgAction::Set)]
    fast_decisions: bool,
    /// The most delivered batches that a site keeps under alvin for sites that are away: above it, these get the state of
    /// another site when they are back. 100000 by default
    #[arg(long, value_name = "N")]
    retained_max: Option<u32>,
    /// The site that leads at first under multipaxos, from 0
    #[arg(long, value_name = "SITE", default_value_t = 0)]
    leader: u16,
    /// What alvin, epaxos and multipaxos order: accesses (transactions are serializable), or guards (only transactions that
    /// can break an invariant together; the others commit at their site)
    #[arg(long, value_name = "accesses|guards", default_value = "accesses", value_parser = order_over)]
    order_over: OrderOver,
    /// Faults: none, mild, storm, long_outage (a storm in which one node is down for long), permanent_loss (a storm in
    /// which one server never restarts: with --replicas), or a file with a fault plan
    #[arg(long, value_name = "PROFILE|FILE", default_value = "mild")]
    faults: String,
    /// Writes the run's fault plan, as drawn from the seed, to a file for --faults. With that file the run is the same
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    plan: Option<PathBuf>,
    /// Of a million commits of RAMP, how many are never sent, so that participants have to inquire
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    lost_commits: Option<u32>,
    /// One-phase writes (RAMP): clients are answered when a transaction is decided, one round before it is visible at
    /// all participants. A client that switches nodes may miss its own writes
    #[arg(long)]
    one_phase: bool,
    /// Causal consistency (RAMP): a reader of a transaction also sees what that transaction depends on, and each client
    /// sees what it has seen before
    #[arg(long)]
    causal: bool,
    /// The network: lan, or wan:FILE with a matrix of round-trip times
    #[arg(long, value_name = "lan|wan:FILE", default_value = "lan")]
    net: String,
    /// Runs the case in this file, as a failing run writes it
    #[arg(long, value_name = "FILE", conflicts_with_all = SET_BY_CASE)]
    replay: Option<PathBuf>,
    /// The file for the minimised case of a failing run [default: failing-case.jsonl]. A replay minimises its case only
    /// if this is given
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
    /// Draws a window of the run as SVG, by default around the first read that a race would have fractured
    #[arg(long, value_name = "FILE.svg", conflicts_with = "seeds")]
    diagram: Option<PathBuf>,
    /// Draws this window, from A to B in microseconds of simulated time
    #[arg(long, value_name = "A..B", value_parser = range, requires = "diagram")]
    window: Option<std::ops::Range<u64>>,
    /// Writes the run's history, for `anabranch check` (docs/histories.md)
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["seeds", "fast"])]
    history: Option<PathBuf>,
    /// Writes the report for programs, as JSON (docs/schemas/sim.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Checks no invariants and no history, and hashes no contents of messages, for speed
    #[arg(long)]
    fast: bool,
}

fn protocol(name: &str) -> Result<ProtocolName, String> {
    ProtocolName::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = ProtocolName::ALL.iter().map(|p| p.name()).collect();
        format!("unknown protocol; the protocols are {}", names.join(", "))
    })
}

pub(super) fn consistency(name: &str) -> Result<ConsistencyName, String> {
    let mut all = ConsistencyName::ALL.into_iter();
    all.find(|one| one.name() == name)
        .ok_or_else(|| "expected sr or eus".to_owned())
}

pub(super) fn order_over(name: &str) -> Result<OrderOver, String> {
    let mut all = OrderOver::ALL.into_iter();
    all.find(|one| one.name() == name)
        .ok_or_else(|| "expected accesses or guards".to_owned())
}

pub(super) fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

/// The network that `--net` names.
pub(super) fn network(net: &str) -> Result<Network, String> {
    if net == "lan" {
        return Ok(Network::lan());
    }
    let Some(path) = net.strip_prefix("wan:") else {
        return Err(format!("error: --net takes lan or wan:FILE, not \"{net}\""));
    };
    Network::matrix(path, &read_text(Path::new(path))?)
        .map_err(|error| format!("error: {path}: {error}"))
}

fn range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(from, to)| {
        let range = from.parse().ok()?..to.parse().ok()?;
        (range.start < range.end).then_some(range)
    });
    parsed.ok_or_else(|| "expected two numbers like 0..1000, the first below the second".to_owned())
}

/// A count with grouped thousands.
fn grouped(count: u64) -> String {
    table::grouped(count as f64)
}

/// The faults of a run: a profile from which they are drawn, or a plan from a file.
enum Faults {
    Drawn(FaultProfile),
    Read(FaultPlan),
}

impl SimArguments {
    /// The files that the command reads.
    fn inputs(&self) -> Vec<&Path> {
        let profile = |name: &&str| {
            FaultProfile::ALL
                .iter()
                .any(|profile| profile.name() == *name)
        };
        let plan = Some(self.faults.as_str()).filter(|name| !profile(name));
        let matrix = self.net.strip_prefix("wan:");
        let named = [plan, matrix].into_iter().flatten().map(Path::new);
        named.chain(self.replay.as_deref()).collect()
    }

    fn faults(&self) -> Result<Faults, String> {
        let profile = FaultProfile::ALL
            .into_iter()
            .find(|profile| profile.name() == self.faults);
        if let Some(profile) = profile {
            return Ok(Faults::Drawn(profile));
        }
        let text = read_text(Path::new(&self.faults)).map_err(|error| {
            format!(
                "{error}\n--faults takes none, mild, storm, long_outage, permanent_loss or a file with a \
                 fault plan"
            )
        })?;
        let plan = CaseFile::plan_from_text(&text)
            .map_err(|error| format!("error: {}: {error}", self.faults))?;
        plan.check(self.servers(), self.clients)
            .map_err(|error| format!("error: {}: {error}", self.faults))?;
        Ok(Faults::Read(plan))
    }

    /// The number of nodes of each cluster, and of clusters: each site is a cluster of its own.
    fn size(&self) -> (u16, u16) {
        match self.protocol.has_sites() {
            true => (1, self.nodes),
            false => (self.nodes, self.clusters),
        }
    }

    /// The number of nodes of all clusters. Too many are refused later.
    fn servers(&self) -> u16 {
        let (nodes, clusters) = self.size();
        nodes.saturating_mul(clusters).min(NODES_MAX)
    }

    fn watch(&self) -> Watch {
        if self.fast { Watch::FAST } else { Watch::CLOSE }
    }

    fn file(&self, seed: u64, faults: &Faults, network: &Network) -> CaseFile {
        let profile = match faults {
            Faults::Drawn(profile) => *profile,
            Faults::Read(_) => FaultProfile::None,
        };
        let mut case = Case::new(
            self.protocol,
            seed,
            self.servers(),
            self.clients,
            self.transactions,
            network.clone(),
            profile,
        )
        .replicated(self.replicas);
        case.filter = self.filter_bits.unwrap_or_default();
        case.clients_switch_nodes = self.clients_switch_nodes;
        case.interactive = self.interactive;
        case.extensions.one_phase = self.one_phase;
        case.extensions.causal = self.causal;
        case.extensions.prepare_f = self.prepare_f;
        case.extensions.quorum = self.quorum;
        let (nodes, clusters) = self.size();
        case.clusters = clusters;
        case.sites = SiteOptions {
            consistency: self.consistency,
            fast_decisions: self.fast_decisions,
            leader: self.leader,
            retained_max: self.retained_max,
            order_over: self.order_over,
            ..SiteOptions::default()
        };
        case.termination.lost_commits = self.lost_commits.unwrap_or_default();
        if let Faults::Read(plan) = faults {
            case = case.planned(self.servers(), plan.clone());
        }
        case.watch = self.watch();
        CaseFile {
            workload: self.workload.clone().unwrap_or_default(),
            nodes,
            case,
        }
    }
}

pub(crate) fn run(arguments: &SimArguments) -> Result<Verdict, Box<dyn Error>> {
    // A node's panic is a finding, reported with its seed. Suppress the default report.
    std::panic::set_hook(Box::new(|_| {}));
    let result = run_quietly(arguments);
    drop(std::panic::take_hook());
    result
}

fn run_quietly(arguments: &SimArguments) -> Result<Verdict, Box<dyn Error>> {
    check_outputs(
        &[
            ("--diagram", arguments.diagram.as_deref()),
            ("--history", arguments.history.as_deref()),
            ("--plan", arguments.plan.as_deref()),
            ("--case", arguments.case.as_deref()),
            ("--json", arguments.json.as_deref()),
        ],
        &arguments.inputs(),
    )?;
    if let Some(path) = &arguments.replay {
        let mut file = CaseFile::from_text(&read_text(path)?)
            .map_err(|error| format!("error: {}: {error}", path.display()))?;
        let servers = file.nodes.saturating_mul(file.case.clusters);
        (file.case.plan.check(servers, file.case.clients))
            .map_err(|error| format!("error: {}: {error}", path.display()))?;
        file.case.watch = arguments.watch();
        let prepared = file.prepare().map_err(message)?;
        return one(arguments, &file, &prepared);
    }
    super::check_filter_bits(
        arguments.filter_bits,
        arguments.protocol == ProtocolName::RampHybrid,
    )?;
    if arguments.lost_commits.is_some() && !arguments.protocol.is_ramp() {
        let name = arguments.protocol.name();
        return Err(format!("error: --lost-commits: {name} is not a RAMP protocol").into());
    }
    if arguments.protocol.has_sites() && arguments.clusters > 1 {
        let name = arguments.protocol.name();
        let what = "each of its nodes has all of the data: give their number as --nodes";
        return Err(format!("error: --clusters: {name} has no clusters; {what}").into());
    }
    let (faults, network) = (arguments.faults()?, network(&arguments.net)?);
    let first = arguments.file(arguments.seed, &faults, &network);
    let prepared = first.prepare().map_err(message)?;
    match &arguments.seeds {
        None => one(
            arguments,
            &arguments.file(arguments.seed, &faults, &network),
            &prepared,
        ),
        Some(seeds) => many(arguments, seeds.clone(), &faults, &network, &prepared),
    }
}

fn message(error: anabranch_sim::CaseError) -> String {
    format!("error: {error}")
}

/// Runs one case and reports it in full.
fn one(
    arguments: &SimArguments,
    file: &CaseFile,
    prepared: &Prepared,
) -> Result<Verdict, Box<dyn Error>> {
    let start = Instant::now();
    let recorder = arguments.diagram.as_ref().map(|_| Recorder::default());
    let run = file
        .case
        .run_recorded(prepared, recorder)
        .map_err(message)?;
    let (report, recorder) = (run.report, run.diagram);
    if let Some(path) = &arguments.plan {
        write_file(path, CaseFile::plan_to_text(&file.case.plan))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut drawn = None;
    if let (Some(path), Some(recorder)) = (&arguments.diagram, recorder) {
        let case = &file.case;
        let title = format!(
            "{} under {}: {} ({}), seed {}",
            file.workload,
            case.protocol.name(),
            size(file),
            case.network.name(),
            case.seed
        );
        let window = arguments.window.as_ref();
        let frame = Frame {
            title: &title,
            nodes: file.nodes * file.case.clusters,
            faults: &file.case.plan.faults,
            window: window.map(|of| (Ticks::from_micros(of.start), Ticks::from_micros(of.end))),
        };
        let diagram = recorder.draw(&frame);
        write_file(path, &diagram.svg)?;
        drawn = Some(diagram);
    }
    if let (Some(path), Some(history)) = (&arguments.history, run.history) {
        let written = std::fs::File::create(path)
            .and_then(|file| history.write(std::io::BufWriter::new(file)));
        written.map_err(|error| cannot_write(path, &error))?;
    }
    let mut sum = Sum::default();
    let seed = file.case.seed;
    sum.add(seed, report.clone());
    write_json(arguments, file, seed..seed.saturating_add(1), &sum)?;
    say!("{}", describe(file, &report, seconds))?;
    if let (Some(path), Some(diagram)) = (&arguments.diagram, drawn) {
        let (from, to) = diagram.window;
        let nothing = if diagram.is_empty {
            ": nothing happens then"
        } else {
            ""
        };
        say!(
            "  {:<13} {}, {} to {} us{nothing}\n",
            "diagram",
            path.display(),
            grouped(from.as_micros()),
            grouped(to.as_micros())
        )?;
    }
    if report.verdict != Ending::Fine {
        fail(arguments, file, &report)?;
    }
    Ok(verdict(&report.verdict))
}

/// Writes the JSON report, if `--json` is given. `file` is the case that was run, except for its seed.
fn write_json(
    arguments: &SimArguments,
    file: &CaseFile,
    seeds: std::ops::Range<u64>,
    sum: &Sum,
) -> Result<(), String> {
    let Some(path) = &arguments.json else {
        return Ok(());
    };
    let case = &file.case;
    let parameters = Parameters {
        workload: &file.workload,
        protocol: case.protocol.name(),
        nodes: stated(file).0,
        replicas: case.replicas,
        clusters: stated(file).1,
        prepare_f: case.extensions.prepare_f,
        quorum: case.extensions.quorum,
        sites: case.protocol.has_sites().then_some(case.sites),
        clients: case.clients,
        transactions: case.transactions,
        network: case.network.name(),
        faults: arguments
            .replay
            .is_none()
            .then_some(arguments.faults.as_str()),
        plan: arguments.seeds.is_none().then_some(&case.plan),
        seeds,
    };
    write_file(path, format!("{:#}\n", sum.to_json(&parameters)))
}

fn verdict(ending: &Ending) -> Verdict {
    match ending {
        Ending::Fine => Verdict::Fine,
        Ending::Violated(_) => Verdict::Finding,
        Ending::Stuck(_) => Verdict::NoProgress,
        Ending::Crashed(_) => Verdict::Crash,
    }
}

fn counts<K: AsRef<str>>(counts: &BTreeMap<K, u64>) -> String {
    let each = counts.iter();
    listed(each.map(|(name, count)| (name.as_ref(), *count)))
}

/// The values of `--nodes` and `--clusters` for a case.
fn stated(file: &CaseFile) -> (u16, u16) {
    match file.case.protocol.has_sites() {
        true => (file.case.clusters, 1),
        false => (file.nodes, file.case.clusters),
    }
}

/// Describes the size of a case's cluster.
fn size(file: &CaseFile) -> String {
    let ((count, clusters), case) = (stated(file), &file.case);
    match case.protocol.has_sites() {
        true => counted(count.into(), "site"),
        false => nodes(count, case.replicas, clusters),
    }
}

/// Describes the number of nodes, of clusters and of replicas.
fn nodes(nodes: u16, replicas: u16, clusters: u16) -> String {
    let nodes = counted(nodes.into(), "node");
    match (replicas, clusters) {
        (1, 1) => nodes,
        (1, clusters) => format!("{clusters} clusters of {nodes}"),
        (replicas, _) => format!("{nodes} with {replicas} replicas each"),
    }
}

/// Describes the checks, and how often each was made.
fn checked(checked: &Checked) -> String {
    listed(checked.iter())
}

/// The width of a report's lines.
const WIDTH: usize = 100;

/// The column of the values in a report's lines.
const INDENT: usize = 16;

/// Names with their counts, wrapped to the lines of a report.
fn listed<'n>(counts: impl Iterator<Item = (&'n str, u64)>) -> String {
    let mut text = String::new();
    let mut column = INDENT;
    for (name, count) in counts {
        let next = format!("{name}: {}", grouped(count));
        let wide = next.chars().count();
        if !text.is_empty() {
            let breaks = column + 2 + wide > WIDTH;
            text.push_str(if breaks { ";\n" } else { "; " });
            text.push_str(&" ".repeat(if breaks { INDENT } else { 0 }));
            column = if breaks { INDENT } else { column + 2 };
        }
        text.push_str(&next);
        column += wide;
    }
    if text.is_empty() {
        text.push_str("none");
    }
    text
}

/// Describes messages, and the packets that carried them.
fn messages(messages: u64, packets: u64, resent: u64) -> String {
    match packets {
        0 => grouped(messages),
        packets => format!(
            "{} in {}; {} resent",
            grouped(messages),
            counted(packets, "packet"),
            grouped(resent)
        ),
    }
}

/// The checks that are not made if a run does not come to rest.
const NOT_CHECKED: &str = "the final state and the history: the run did not come to rest";

fn describe(file: &CaseFile, report: &Report, seconds: f64) -> String {
    let case = &file.case;
    let statistics = &report.statistics;
    let mut text = format!(
        "{} under {}, simulated: {} ({}), {}, seed {}\n\n",
        file.workload,
        case.protocol.name(),
        size(file),
        case.network.name(),
        counted(case.clients.into(), "client"),
        case.seed
    );
    let answered = report.answered.as_micros() as f64 / 1e3;
    let elapsed = report.elapsed.as_micros() as f64 / 1e3;
    let lines = [
        (
            "transactions",
            format!("{} committed", grouped(statistics.committed)),
        ),
        ("aborts", counts(&statistics.aborts)),
        (
            "messages",
            messages(statistics.messages, statistics.packets, statistics.resent),
        ),
        ("faults", counts(&statistics.faults)),
        (
            "time",
            format!(
                "{answered:.1} ms simulated to the last answer, {elapsed:.1} ms to the end; {}, in \
                 {seconds:.2} s",
                counted(report.events, "event")
            ),
        ),
        ("trace", format!("{:016x}", report.trace)),
        ("sometimes", counts(&statistics.sometimes)),
        ("checked", checked(&report.checked)),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:<13} {value}");
    }
    if report.is_weak() {
        let never: Vec<&str> = report.never().collect();
        let _ = writeln!(
            text,
            "  {:<13} this run never reached: {}",
            "weak",
            never.join("; ")
        );
    }
    if !report.at_rest {
        let _ = writeln!(text, "  {:<13} {NOT_CHECKED}", "not checked");
    }
    let _ = writeln!(text, "  {:<13} {}", "verdict", ending(&report.verdict));
    text
}

fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Fine => "fine: all checks passed".to_owned(),
        Ending::Violated(found) => {
            let more = found.len().saturating_sub(1);
            let more = match more {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("violated: {}{more}", found[0])
        }
        Ending::Stuck(why) => format!("no progress: {why}"),
        Ending::Crashed(panic) => format!("crashed: {panic}"),
    }
}

/// The options that are enabled, each with a leading space.
fn flags(options: &[(&str, bool)]) -> String {
    let on = options.iter().filter(|(_, on)| *on);
    on.map(|(name, _)| format!(" {name}")).collect()
}

/// The options for a case's replicas and clusters, each with a leading space.
fn replicated(file: &CaseFile) -> String {
    let case = &file.case;
    let mut text = String::new();
    for (name, count) in [("replicas", case.replicas), ("clusters", stated(file).1)] {
        if count > 1 {
            let _ = write!(text, " --{name} {count}");
        }
    }
    if let Some(failures) = case.extensions.prepare_f {
        let _ = write!(text, " --prepare-f {failures}");
    }
    if let Some(wait_us) = case.extensions.quorum {
        let _ = write!(text, " --quorum={wait_us}");
    }
    if case.protocol.has_sites() {
        let fast = if case.sites.fast_decisions {
            "on"
        } else {
            "off"
        };
        let consistency = case.sites.consistency.name();
        let leader = case.sites.leader;
        let order_over = case.sites.order_over.name();
        let _ = write!(
            text,
            " --consistency {consistency} --fast-decisions {fast} --leader {leader} --order-over {order_over}"
        );
        if let Some(batches) = case.sites.retained_max {
            let _ = write!(text, " --retained-max {batches}");
        }
    }
    text
}

/// Reports how to repeat a failing run, minimises it, and writes the minimised case to a file.
fn fail(arguments: &SimArguments, file: &CaseFile, report: &Report) -> Result<(), Box<dyn Error>> {
    let case = &file.case;
    say!("\n  commit        {}\n", env!("ANABRANCH_COMMIT"))?;
    let path = match (&arguments.case, &arguments.replay) {
        (Some(path), _) => path.as_path(),
        // The replayed file is the case.
        (None, Some(_)) => return Ok(()),
        (None, None) => Path::new("failing-case.jsonl"),
    };
    if arguments.replay.is_none() {
        say!(
            "  again         anabranch sim {} --protocol {}{}{}{}{} --nodes {} --clients {} \
             --transactions {} --faults {} --net {} --seed {}\n",
            file.workload,
            case.protocol.name(),
            match arguments.filter_bits {
                Some(size) => format!(" --filter-bits {}", size.bits()),
                None => String::new(),
            },
            match arguments.lost_commits {
                Some(share) => format!(" --lost-commits {share}"),
                None => String::new(),
            },
            flags(&[
                ("--one-phase", case.extensions.one_phase),
                ("--causal", case.extensions.causal),
                ("--clients-switch-nodes", case.clients_switch_nodes),
                ("--interactive", case.interactive),
            ]),
            replicated(file),
            stated(file).0,
            case.clients,
            case.transactions,
            quoted(&arguments.faults),
            quoted(&arguments.net),
            case.seed
        )?;
    }
    let spinner = ProgressBar::new_spinner();
    let smaller = minimise(file, 400, &mut |runs| {
        spinner.set_message(format!("minimising the case: {runs} runs"));
        spinner.tick();
    });
    spinner.finish_and_clear();
    let smaller = smaller.map_err(message)?;
    // An error in writing the file must not hide the finding.
    let written = write_file(path, smaller.file.to_text());
    let least = &smaller.file.case;
    say!(
        "  minimised     {}, {}, {}, {} (of {}); {}\n",
        size(&smaller.file),
        counted(least.clients.into(), "client"),
        counted(least.transactions, "transaction"),
        counted(least.plan.faults.len() as u64, "fault"),
        case.plan.faults.len(),
        counted(smaller.runs.into(), "run")
    )?;
    say!("                {}\n", ending(&smaller.verdict))?;
    match written {
        Ok(()) => say!(
            "  replay        anabranch sim --replay {}\n",
            quoted(&path.display().to_string())
        )?,
        Err(error) => say!("  not written   {error}; --case FILE names another file\n")?,
    }
    debug_assert_ne!(report.verdict, Ending::Fine);
    Ok(())
}

/// The number of failing seeds after which no further seeds are run.
const FAILED_MAX: usize = 20;

/// Runs many seeds on all cores, and adds up their reports.
fn many(
    arguments: &SimArguments,
    seeds: std::ops::Range<u64>,
    faults: &Faults,
    network: &Network,
    prepared: &Prepared,
) -> Result<Verdict, Box<dyn Error>> {
    let start = Instant::now();
    let bar = ProgressBar::new(seeds.end - seeds.start).with_message("seeds");
    if let Ok(style) = ProgressStyle::with_template(
        "  {msg} {wide_bar:.cyan/blue} {human_pos}/{human_len}, {elapsed}, {eta} to go",
    ) {
        bar.set_style(style);
    }
    let next = AtomicU64::new(seeds.start);
    let enough = AtomicBool::new(false);
    let sum = Mutex::new(Sum::default());
    let trouble = Mutex::new(None);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !enough.load(Ordering::Acquire) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let mut case = arguments.file(seed, faults, network).case;
                    // The trace hashes of many runs are not reported, and formatting each message for the
                    // hash takes two fifths of a run's time.
                    case.watch.hash_contents = false;
                    let result = case.run(prepared);
                    bar.inc(1);
                    match result {
                        Ok(report) => {
                            if report.verdict != Ending::Fine {
                                // So a user who interrupts a long run has seen it.
                                let ending = ending(&report.verdict);
                                bar.println(format!("  seed {seed:<8} {ending}"));
                            }
                            let mut sum = sum.lock().unwrap_or_else(|e| e.into_inner());
                            sum.add(seed, report);
                            if sum.failed.len() >= FAILED_MAX {
                                enough.store(true, Ordering::Release);
                            }
                        }
                        Err(error) => {
                            enough.store(true, Ordering::Release);
                            let mut trouble = trouble.lock().unwrap_or_else(|e| e.into_inner());
                            trouble.get_or_insert(message(error));
                        }
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    if let Some(error) = trouble.into_inner().unwrap_or_else(|e| e.into_inner()) {
        return Err(error.into());
    }
    let mut sum = sum.into_inner().unwrap_or_else(|e| e.into_inner());
    sum.failed.sort_by_key(|(seed, _)| *seed);
    let first = arguments.file(seeds.start, faults, network);
    write_json(arguments, &first, seeds.clone(), &sum)?;
    let seconds = start.elapsed().as_secs_f64();
    print_sum(arguments, &seeds, &sum, &size(&first), seconds)?;
    let Some((seed, report)) = sum.failed.first() else {
        return Ok(Verdict::Fine);
    };
    fail(arguments, &arguments.file(*seed, faults, network), report)?;
    Ok(verdict(&report.verdict))
}

fn print_sum(
    arguments: &SimArguments,
    seeds: &std::ops::Range<u64>,
    sum: &Sum,
    size: &str,
    seconds: f64,
) -> Result<(), OutputError> {
    say!(
        "{} under {}, simulated: {} ({}), {}, faults {}\n\n",
        arguments.workload.as_deref().unwrap_or_default(),
        arguments.protocol.name(),
        size,
        arguments.net,
        counted(arguments.clients.into(), "client"),
        arguments.faults
    )?;
    let answered = sum.answered_us as f64 / 1e6;
    let simulated = sum.simulated_us as f64 / 1e6;
    let lines = [
        (
            "seeds",
            format!(
                "{}, of which {} failed and {} were weak",
                grouped(sum.runs),
                sum.failed.len(),
                grouped(sum.weak())
            ),
        ),
        (
            "transactions",
            format!("{} committed", grouped(sum.committed)),
        ),
        ("aborts", counts(&sum.aborts)),
        ("messages", messages(sum.messages, sum.packets, sum.resent)),
        ("faults", counts(&sum.faults)),
        ("sometimes", counts(&sum.sometimes)),
        ("never", counts(&sum.never())),
        ("checked", checked(&sum.checked)),
        (
            "time",
            format!(
                "{answered:.1} s simulated to the last answers, {simulated:.1} s to the ends; {}, in \
                 {seconds:.1} s",
                counted(sum.events, "event")
            ),
        ),
    ];
    for (name, value) in lines {
        say!("  {name:<13} {value}\n")?;
    }
    let left = (seeds.end - seeds.start).saturating_sub(sum.runs);
    if left > 0 {
        let left = counted(left, "seed");
        say!("  {:<13} {left}, after too many failures\n", "not run")?;
    }
    if sum.not_at_rest > 0 {
        let count = grouped(sum.not_at_rest);
        say!("  {:<13} of {count}: {NOT_CHECKED}\n", "not checked")?;
    }
    if sum.failed.is_empty() {
        say!("  {:<13} fine: all checks passed\n", "verdict")?;
    }
    for (seed, report) in &sum.failed {
        say!("  seed {seed:<8} {}\n", ending(&report.verdict))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_wrapped_to_the_width_of_a_report() {
        let none: [(&str, u64); 0] = [];
        assert_eq!(listed(none.into_iter()), "none");
        let few = listed([("answers", 1_234), ("stores", 1)].into_iter());
        assert_eq!(few, "answers: 1,234; stores: 1");
        let long = "what takes some thirty columns";
        let many = listed([(long, 1), (long, 22), (long, 333)].into_iter());
        let lines: Vec<&str> = many.lines().collect();
        assert_eq!(lines.len(), 2, "{many}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH), "{many}");
        assert!(lines[1].starts_with(&" ".repeat(INDENT)), "{many}");
    }

    /// Scripts distinguish findings, stuck clusters and panics by these numbers.
    #[test]
    fn each_ending_has_an_exit_code_of_its_own() {
        let endings = [
            (Ending::Fine, 0),
            (Ending::Violated(Vec::new()), 1),
            (Ending::Stuck(String::new()), 3),
            (Ending::Crashed(String::new()), 4),
        ];
        for (ending, code) in endings {
            assert_eq!(verdict(&ending).exit_code(), code, "{ending:?}");
            assert_eq!(ending.exit_code(), code, "{ending:?}");
        }
    }
}
