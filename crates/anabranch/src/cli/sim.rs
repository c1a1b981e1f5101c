//! `anabranch sim …`

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
use anabranch_sim::case::NODES_MAX;
use anabranch_sim::diagram::{Frame, Recorder};
use anabranch_sim::minimise::minimise;
use anabranch_sim::report::{Checked, Verdict as Ending};
use anabranch_sim::{
    Case, CaseFile, FaultLevel, FaultPlan, Network, Prepared, ProtocolName, Report, Watch,
};
use anabranch_types::Ticks;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use self::sum::{Asked, Sum};
use super::Verdict;
use super::output::{OutputError, cannot_write, check_outputs, say, write_file};
use super::shell::quoted;
use super::text::read_text;

/// What a case file says, and the command line may not say beside it.
const DECIDED_BY_A_CASE: [&str; 18] = [
    "workload",
    "protocol",
    "filter_bits",
    "unsent_commits",
    "one_phase",
    "causal",
    "roaming",
    "replicas",
    "clusters",
    "prepare_f",
    "quorum",
    "nodes",
    "seed",
    "seeds",
    "transactions",
    "clients",
    "faults",
    "net",
];

/// Exit code 1 says that isolation or an invariant was violated, 3 that calls did not go on after
/// the faults had ended, 4 that a node panicked.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct SimArguments {
    /// The application: register, tally, replies, ycsb, counter, bank, departments, smallbank, payroll or tpcc
    #[arg(value_name = "WORKLOAD", required_unless_present = "replay")]
    workload: Option<String>,
    /// The protocol: ramp-fast, ramp-small, ramp-hybrid, nwnr, locking, locking-short, lwnr or e-pci
    #[arg(long, value_name = "NAME", default_value = "ramp-fast", value_parser = protocol)]
    protocol: ProtocolName,
    /// How large ramp-hybrid's Bloom filters are [default: 256]
    #[arg(long, value_name = "BITS", value_parser = super::filter_bits)]
    filter_bits: Option<FilterSize>,
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)),
          help = format!("Nodes with one partition each, in each cluster: 1 to {NODES_MAX}"))]
    nodes: u16,
    /// The seed of everything
    #[arg(long, value_name = "S", default_value_t = 1, conflicts_with = "seeds")]
    seed: u64,
    /// Many seeds instead of one, from A up to but not including B, on all cores
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<std::ops::Range<u64>>,
    /// Calls that the clients make between them while faults may come
    #[arg(long, value_name = "N", default_value_t = 200)]
    transactions: u64,
    /// Clients, each with one call under way
    #[arg(long, value_name = "N", default_value_t = 6)]
    clients: u32,
    /// Each client goes to the next node with each call, instead of staying with one
    #[arg(long)]
    roaming: bool,
    /// Replicas of each node, itself counted: a primary and backups, on as many servers as there are
    /// nodes
    #[arg(long, value_name = "R", default_value_t = 1)]
    replicas: u16,
    /// Clusters that each have all of the data, node N being in cluster N modulo C. Without --prepare-f each
    /// commits by itself, and takes over what the others have committed; for workloads that only assign
    #[arg(long, value_name = "C", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    clusters: u16,
    /// A RAMP's clients are answered when what they write survives the loss of F clusters; it is shown
    /// when all clusters have it. For workloads that only assign: register, ycsb
    #[arg(long, value_name = "F")]
    prepare_f: Option<u16>,
    /// The clusters are copies, by quorums: a majority of those of each partition prepares what is written, any
    /// one is read, and another as well when that is silent for so many microseconds; reads may lag. For
    /// workloads that only assign
    #[arg(long, value_name = "US", num_args = 0..=1, require_equals = true, default_missing_value = "20000")]
    quorum: Option<u64>,
    /// What goes wrong: none, mild, storm, absence (a storm in which one node is gone for long), death (a storm in which
    /// one server never comes back: with --replicas), or a file with a fault plan
    #[arg(long, value_name = "LEVEL|FILE", default_value = "mild")]
    faults: String,
    /// Write the run's fault plan, as drawn from the seed, in the form that --faults reads: with that file
    /// in its place the run is the same
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    plan: Option<PathBuf>,
    /// Leave so many of a million commits of a RAMP to participants that ask what has become of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    lost_commits: Option<u32>,
    /// A RAMP's clients are answered when a transaction is decided, before all participants show it: one
    /// round less, and a client that changes nodes may not read its own writes
    #[arg(long)]
    one_phase: bool,
    /// Whoever sees a transaction of a RAMP sees what its writer had seen, and each client goes on from what
    /// it has seen: causal consistency beside atomic visibility
    #[arg(long)]
    causal: bool,
    /// The network: lan, or wan:FILE with a matrix of round-trip times
    #[arg(long, value_name = "lan|wan:FILE", default_value = "lan")]
    net: String,
    /// Run the case in this file, as a failing run writes it
    #[arg(long, value_name = "FILE", conflicts_with_all = DECIDED_BY_A_CASE)]
    replay: Option<PathBuf>,
    /// Where a failing run writes its minimised case [default: failing-case.jsonl]. A replay makes
    /// its case smaller only if this is given
    #[arg(long, value_name = "FILE")]
    case: Option<PathBuf>,
    /// Draw a window of the run, around the first read that demands what a race would hide, as SVG
    #[arg(long, value_name = "FILE.svg", conflicts_with = "seeds")]
    diagram: Option<PathBuf>,
    /// Draw this window, from A to B in microseconds of simulated time
    #[arg(long, value_name = "A..B", value_parser = range, requires = "diagram")]
    window: Option<std::ops::Range<u64>>,
    /// Write the run's history, for `anabranch check` (docs/histories.md)
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["seeds", "fast"])]
    history: Option<PathBuf>,
    /// Write what happened, what was checked and the verdict for programs (docs/schemas/sim.schema.json)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Check no invariants, record and judge no history and hash less, for speed
    #[arg(long)]
    fast: bool,
}

fn protocol(name: &str) -> Result<ProtocolName, String> {
    ProtocolName::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = ProtocolName::ALL.iter().map(|p| p.name()).collect();
        format!(
            "there is no protocol of this name; there are: {}",
            names.join(", ")
        )
    })
}

fn range(text: &str) -> Result<std::ops::Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(from, to)| {
        let range = from.parse().ok()?..to.parse().ok()?;
        (range.start < range.end).then_some(range)
    });
    parsed.ok_or_else(|| "two numbers like 0..1000, the first below the second".to_owned())
}

/// A count with its thousands grouped.
fn grouped(count: u64) -> String {
    table::grouped(count as f64)
}

/// What goes wrong: drawn, or read.
enum Faults {
    Drawn(FaultLevel),
    Read(FaultPlan),
}

impl SimArguments {
    /// The files that are read.
    fn inputs(&self) -> Vec<&Path> {
        let level = |name: &&str| FaultLevel::ALL.iter().any(|level| level.name() == *name);
        let plan = Some(self.faults.as_str()).filter(|name| !level(name));
        let matrix = self.net.strip_prefix("wan:");
        let named = [plan, matrix].into_iter().flatten().map(Path::new);
        named.chain(self.replay.as_deref()).collect()
    }

    fn faults(&self) -> Result<Faults, String> {
        let level = FaultLevel::ALL
            .into_iter()
            .find(|level| level.name() == self.faults);
        if let Some(level) = level {
            return Ok(Faults::Drawn(level));
        }
        let text = read_text(Path::new(&self.faults)).map_err(|error| {
            format!(
                "{error}\n--faults takes none, mild, storm, absence, death or a file with a fault plan"
            )
        })?;
        let plan = CaseFile::plan_from_text(&text)
            .map_err(|error| format!("error: {}: {error}", self.faults))?;
        plan.check(self.servers(), self.clients)
            .map_err(|error| format!("error: {}: {error}", self.faults))?;
        Ok(Faults::Read(plan))
    }

    fn network(&self) -> Result<Network, String> {
        if self.net == "lan" {
            return Ok(Network::lan());
        }
        let Some(path) = self.net.strip_prefix("wan:") else {
            return Err(format!(
                "error: --net takes lan or wan:FILE, not \"{}\"",
                self.net
            ));
        };
        Network::matrix(path, &read_text(Path::new(path))?)
            .map_err(|error| format!("error: {path}: {error}"))
    }

    /// The nodes of all clusters. What is too many is refused before anything runs.
    fn servers(&self) -> u16 {
        self.nodes.saturating_mul(self.clusters).min(NODES_MAX)
    }

    fn watch(&self) -> Watch {
        if self.fast { Watch::FAST } else { Watch::CLOSE }
    }

    fn file(&self, seed: u64, faults: &Faults, network: &Network) -> CaseFile {
        let level = match faults {
            Faults::Drawn(level) => *level,
            Faults::Read(_) => FaultLevel::None,
        };
        let mut case = Case::new(
            self.protocol,
            seed,
            self.servers(),
            self.clients,
            self.transactions,
            network.clone(),
            level,
        )
        .replicated(self.replicas);
        case.filter = self.filter_bits.unwrap_or_default();
        case.roaming = self.roaming;
        case.extras.one_phase = self.one_phase;
        case.extras.causal = self.causal;
        case.extras.prepare_f = self.prepare_f;
        case.extras.quorum = self.quorum;
        case.clusters = self.clusters;
        case.termination.lost_commits = self.lost_commits.unwrap_or_default();
        if let Faults::Read(plan) = faults {
            case = case.planned(self.servers(), plan.clone());
        }
        case.watch = self.watch();
        CaseFile {
            workload: self.workload.clone().unwrap_or_default(),
            nodes: self.nodes,
            case,
        }
    }
}

pub(crate) fn run(arguments: &SimArguments) -> Result<Verdict, Box<dyn Error>> {
    // A node's panic is a finding, reported with its seed; the default report would drown it.
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
        let prepared = Prepared::new(&file.workload, file.nodes).map_err(said)?;
        return one(arguments, &file, &prepared);
    }
    super::check_filter_bits(
        arguments.filter_bits,
        arguments.protocol == ProtocolName::RampHybrid,
    )?;
    if arguments.lost_commits.is_some() && !arguments.protocol.is_ramp() {
        let name = arguments.protocol.name();
        return Err(format!("error: --unsent-commits: {name} is no RAMP").into());
    }
    let (faults, network) = (arguments.faults()?, arguments.network()?);
    let workload = arguments.workload.as_deref().unwrap_or_default();
    let prepared = Prepared::new(workload, arguments.nodes).map_err(said)?;
    match &arguments.seeds {
        None => one(
            arguments,
            &arguments.file(arguments.seed, &faults, &network),
            &prepared,
        ),
        Some(seeds) => many(arguments, seeds.clone(), &faults, &network, &prepared),
    }
}

fn said(error: anabranch_sim::CaseError) -> String {
    format!("error: {error}")
}

/// Runs one case and tells all about it.
fn one(
    arguments: &SimArguments,
    file: &CaseFile,
    prepared: &Prepared,
) -> Result<Verdict, Box<dyn Error>> {
    let start = Instant::now();
    let recorder = arguments.diagram.as_ref().map(|_| Recorder::default());
    let run = file.case.run_recorded(prepared, recorder).map_err(said)?;
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
            nodes(file.nodes, case.replicas, case.clusters),
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

/// Writes the sum for programs, if that is asked for. `file` is what was run, but for the seeds.
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
    let asked = Asked {
        workload: &file.workload,
        protocol: case.protocol.name(),
        nodes: file.nodes,
        replicas: case.replicas,
        clusters: case.clusters,
        prepare_f: case.extras.prepare_f,
        quorum: case.extras.quorum,
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
    write_file(path, format!("{:#}\n", sum.to_json(&asked)))
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

/// How many nodes there are, in how many clusters if there are several, and how many replicas each has
/// if it has several.
fn nodes(nodes: u16, replicas: u16, clusters: u16) -> String {
    let nodes = counted(nodes.into(), "node");
    match (replicas, clusters) {
        (1, 1) => nodes,
        (1, clusters) => format!("{clusters} clusters of {nodes}"),
        (replicas, _) => format!("{nodes} with {replicas} replicas each"),
    }
}

/// What was checked, and how many of each.
fn checked(checked: &Checked) -> String {
    listed(checked.iter())
}

/// How far a report's lines go.
const WIDTH: usize = 100;

/// Where the values of a report's lines begin.
const INDENT: usize = 16;

/// Names with their counts, in lines of a report.
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

/// Messages, and the packets that carried them.
fn messages(messages: u64, packets: u64, resent: u64) -> String {
    match packets {
        0 => grouped(messages),
        packets => format!(
            "{} in {}; {} sent again",
            grouped(messages),
            counted(packets, "packet"),
            grouped(resent)
        ),
    }
}

/// What is not checked of a run that never came to rest.
const UNREST: &str = "what is left, and the history: the run never came to rest";

fn describe(file: &CaseFile, report: &Report, seconds: f64) -> String {
    let case = &file.case;
    let happened = &report.happened;
    let mut text = format!(
        "{} under {}, simulated: {} ({}), {}, seed {}\n\n",
        file.workload,
        case.protocol.name(),
        nodes(file.nodes, case.replicas, case.clusters),
        case.network.name(),
        counted(case.clients.into(), "client"),
        case.seed
    );
    let answered = report.answered.as_micros() as f64 / 1e3;
    let elapsed = report.elapsed.as_micros() as f64 / 1e3;
    let lines = [
        (
            "transactions",
            format!("{} committed", grouped(happened.committed)),
        ),
        ("aborts", counts(&happened.aborts)),
        (
            "messages",
            messages(happened.messages, happened.packets, happened.resent),
        ),
        ("faults", counts(&happened.faults)),
        (
            "time",
            format!(
                "{answered:.1} ms simulated to the last answer, {elapsed:.1} ms to the end; {}, in \
                 {seconds:.2} s",
                counted(report.events, "event")
            ),
        ),
        ("trace", format!("{:016x}", report.trace)),
        ("sometimes", counts(&happened.sometimes)),
        ("checked", checked(&report.checked)),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:<13} {value}");
    }
    if report.is_weak() {
        let never: Vec<&str> = report.never().collect();
        let _ = writeln!(
            text,
            "  {:<13} this run never saw that {}",
            "weak",
            never.join(", nor that ")
        );
    }
    if !report.at_rest {
        let _ = writeln!(text, "  {:<13} {UNREST}", "not checked");
    }
    let _ = writeln!(text, "  {:<13} {}", "verdict", ending(&report.verdict));
    text
}

fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Fine => "fine: all that was checked holds".to_owned(),
        Ending::Violated(found) => {
            let more = found.len().saturating_sub(1);
            let more = match more {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            format!("violated: {}{more}", found[0])
        }
        Ending::Stuck(why) => format!("no progress: {why}"),
        Ending::Crashed(words) => format!("crashed: {words}"),
    }
}

/// Those options that are on, each behind a space.
fn flags(options: &[(&str, bool)]) -> String {
    let on = options.iter().filter(|(_, on)| *on);
    on.map(|(name, _)| format!(" {name}")).collect()
}

/// How a case's nodes are replicated, as options, each behind a space.
fn replicated(case: &Case) -> String {
    let mut text = String::new();
    for (name, count) in [("replicas", case.replicas), ("clusters", case.clusters)] {
        if count > 1 {
            let _ = write!(text, " --{name} {count}");
        }
    }
    if let Some(failures) = case.extras.prepare_f {
        let _ = write!(text, " --prepare-f {failures}");
    }
    if let Some(patience) = case.extras.quorum {
        let _ = write!(text, " --quorum={patience}");
    }
    text
}

/// Says how to repeat a failing run, makes it smaller, and writes it to a file.
fn fail(arguments: &SimArguments, file: &CaseFile, report: &Report) -> Result<(), Box<dyn Error>> {
    let case = &file.case;
    say!("\n  commit        {}\n", env!("ANABRANCH_COMMIT"))?;
    let path = match (&arguments.case, &arguments.replay) {
        (Some(path), _) => path.as_path(),
        // The file that was given says it all.
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
                Some(share) => format!(" --unsent-commits {share}"),
                None => String::new(),
            },
            flags(&[
                ("--one-phase", case.extras.one_phase),
                ("--causal", case.extras.causal),
                ("--roaming", case.roaming),
            ]),
            replicated(case),
            file.nodes,
            case.clients,
            case.transactions,
            quoted(&arguments.faults),
            quoted(&arguments.net),
            case.seed
        )?;
    }
    let spinner = ProgressBar::new_spinner();
    let smaller = minimise(file, 400, &mut |runs| {
        spinner.set_message(format!("making the case smaller: {runs} runs"));
        spinner.tick();
    });
    spinner.finish_and_clear();
    let smaller = smaller.map_err(said)?;
    // What was found is more than where it could not be put.
    let written = write_file(path, smaller.file.to_text());
    let least = &smaller.file.case;
    say!(
        "  minimised     {}, {}, {}, {} (of {}); {}\n",
        counted(smaller.file.nodes.into(), "node"),
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
        Err(error) => say!("  not kept      {error}; --case FILE names another place\n")?,
    }
    debug_assert_ne!(report.verdict, Ending::Fine);
    Ok(())
}

/// Failing seeds after which a run over many is ended.
const FAILED_MAX: usize = 20;

/// Runs many seeds on all cores and sums up.
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
                    // The trace of one run among many is shown nowhere, and to put each message
                    // into words for it takes two fifths of a run's time.
                    case.watch.hash_contents = false;
                    let result = case.run(prepared);
                    bar.inc(1);
                    match result {
                        Ok(report) => {
                            if report.verdict != Ending::Fine {
                                // Whoever interrupts a long run has seen it.
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
                            trouble.get_or_insert(said(error));
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
    print_sum(arguments, &seeds, &sum, start.elapsed().as_secs_f64())?;
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
    seconds: f64,
) -> Result<(), OutputError> {
    say!(
        "{} under {}, simulated: {} ({}), {}, faults {}\n\n",
        arguments.workload.as_deref().unwrap_or_default(),
        arguments.protocol.name(),
        nodes(arguments.nodes, arguments.replicas, arguments.clusters),
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
        say!("  {:<13} {left}, since so many had failed\n", "not run")?;
    }
    if sum.restless > 0 {
        let count = grouped(sum.restless);
        say!("  {:<13} of {count}: {UNREST}\n", "not checked")?;
    }
    if sum.failed.is_empty() {
        say!("  {:<13} fine: all that was checked holds\n", "verdict")?;
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
    fn what_was_counted_is_told_in_lines_that_fit() {
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

    /// Scripts tell a finding from a cluster that hangs and from one that dies by these numbers.
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
