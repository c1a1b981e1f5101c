//! The arguments of `analyze` and `replay` that name an application: files, source folders and databases.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_analysis::partition::{Writes, weights};
use anabranch_analysis::solve::Solver;
use anabranch_analysis::{Guarantee, Limits, Options, Plan, Topology, analyze_with};
use anabranch_bench::application;
use anabranch_source::Program;
use anabranch_sql::diagnostic::Diagnostic;
use anabranch_sql::script::{self, ClientTransaction, Script, Skipped};
use anabranch_sql::source::{SourceFile, Span};
use clap::{Args, ValueEnum};

use super::live::{self, Address, Live, Waits, is_address, without_password};
use super::program;
use super::shell::quoted;
use super::solver::External;
use super::text::read_text;
use super::traffic;

/// A megabyte: 1,000,000 bytes.
const MEGABYTE: u64 = 1_000_000;

/// The default of `--file-mb-max`.
const MEGABYTES_MAX: u64 = application::FILE_BYTES_MAX / MEGABYTE;

/// The name of the built-in solver.
const BUILTIN: &str = "builtin";

/// The default of `--solver-timeout`, in seconds.
const SOLVER_SECONDS: u64 = 10;

/// The default of `--source-files-max`.
const SOURCE_FILES_MAX: u32 = 20_000;

/// The default of `--connect-seconds-max`.
const CONNECT_SECONDS_MAX: u32 = 10;

/// The default of `--query-seconds-max`.
const QUERY_SECONDS_MAX: u32 = 30;

#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// SQL files or folders of them (tables, assertions, procedures, named queries, transactions from BEGIN to
    /// COMMIT, single statements); an application's source files or folders of them (Java, Python, Go, JavaScript,
    /// TypeScript, PHP) for the SQL that they run; or databases (postgresql://user@host:port/database) for their
    /// tables, their procedures, and the statements in pg_stat_statements
    #[arg(required = true, value_name = "FILES")]
    paths: Vec<PathBuf>,
    /// More tables and procedures that the files use: SQL files, or a database
    #[arg(long, value_name = "FILE")]
    schema: Vec<PathBuf>,
    /// Files of assertions, and of queries that must return no row
    #[arg(long, value_name = "FILE")]
    invariants: Vec<PathBuf>,
    /// Refuse declarations that cannot be read, instead of skipping them with a note
    #[arg(long)]
    strict: bool,
    /// The size of the largest file that is read, in MB
    #[arg(long, value_name = "MB", default_value_t = MEGABYTES_MAX, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    file_mb_max: u64,
    /// The most source files that are read
    #[arg(long, value_name = "FILES", default_value_t = SOURCE_FILES_MAX, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    source_files_max: u32,
    /// How long to wait for a connection to a database, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = CONNECT_SECONDS_MAX, value_parser = clap::value_parser!(u32).range(1..=3600))]
    connect_seconds_max: u32,
    /// How long to wait for the answer to each query of a database, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = QUERY_SECONDS_MAX, value_parser = clap::value_parser!(u32).range(1..=3600))]
    query_seconds_max: u32,
    /// The guarantee that the plan has to keep
    #[arg(long, value_enum, default_value_t = GuaranteeArgument::Invariants)]
    guarantee: GuaranteeArgument,
    /// A file with the relative call rate of each transaction type: JSON ({"new_order": 45}), or CSV with the columns
    /// query and calls of pg_stat_statements. Types that it does not name weigh 1
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Estimate the throughput of operations that are partitioned among N servers, each with a whole database (with
    /// --guarantee serializable)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sites: Option<u32>,
    /// Compare at most N choices of routing parameters one by one
    #[arg(long, value_name = "N", default_value_t = Limits::default().choices_max, value_parser = number)]
    choices_max: usize,
    /// Examine the conditions of at most N pairs of accesses for conflicts; further types count as conflicting
    #[arg(long, value_name = "N", default_value_t = Limits::default().conditions_max, value_parser = number)]
    conditions_max: usize,
    /// Where operations write, among servers.
    #[arg(skip)]
    writes: Writes,
    /// The contents of the databases among the paths. They are read once, so that repeated reads agree.
    #[arg(skip)]
    databases: OnceCell<Vec<Live>>,
    /// The solver for what no rule decides: `builtin`, `z3`, or the path of a program that reads SMT-LIB 2
    #[arg(long, value_name = "SOLVER", default_value = BUILTIN)]
    solver: PathBuf,
    /// How long a solver program may take for an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = SOLVER_SECONDS, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    solver_timeout: u64,
}

/// Parses a limit of the analysis.
fn number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| *n <= 1_000_000_000);
    number.ok_or_else(|| "has to be a whole number up to 1000000000".to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuaranteeArgument {
    /// All declared invariants hold, and no update is lost
    Invariants,
    /// Serializability: every row that is read or written is a guard
    Serializable,
}

/// An application and its plan.
pub(crate) struct Input {
    pub(crate) script: Script,
    pub(crate) plan: Plan,
    pub(crate) options: Options,
    pub(crate) sources: Sources,
}

/// The sources of an application.
pub(crate) struct Sources {
    /// Its SQL: databases and files, then what is derived from files of invariants and from programs.
    files: Vec<SourceFile>,
    /// The number of databases and files at the beginning of `files`.
    pub(crate) own: usize,
    programs: Vec<SourceFile>,
    clients: Vec<ClientTransaction>,
    /// Columns of databases whose collation is not bytewise.
    ordered_otherwise: script::ColumnNames,
    /// The number of skipped pieces of the files.
    skipped: usize,
}

impl Sources {
    /// Reads the application again with changed files in the place of its own ones.
    ///
    /// # Errors
    /// Why the files are refused, or the first piece of them that is newly skipped, in a line.
    pub(crate) fn read_changed(&self, mut files: Vec<SourceFile>) -> Result<Script, String> {
        files.extend_from_slice(&self.files[self.own..]);
        let (programs, clients) = (self.programs.clone(), self.clients.clone());
        let read = application::read_script_with(files, programs, clients);
        let mut read = read.map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        })?;
        script::forget_order(&mut read, &self.ordered_otherwise);
        match read.skipped.get(self.skipped) {
            None => Ok(read),
            Some(left) => Err(left.diagnostic.message.clone()),
        }
    }
}

impl InputArguments {
    /// Reads the files and makes the plan.
    ///
    /// # Errors
    /// When a file cannot be read or is refused, when there is nothing to analyse, or when the solver cannot be run.
    pub(crate) fn read(&self) -> Result<Input, Box<dyn Error>> {
        let (mut script, sources) = self.sources()?;
        let guarantee = match self.guarantee {
            GuaranteeArgument::Invariants => Guarantee::Invariants,
            GuaranteeArgument::Serializable => Guarantee::Serializable,
        };
        if self.sites.is_some() && guarantee != Guarantee::Serializable {
            let message = "error: --sites estimates operation partitioning, which needs --guarantee serializable as well";
            return Err(message.into());
        }
        let weights = self.weights(&mut script)?;
        let program = self.program()?;
        let options = Options {
            topology: Topology::Partitioned,
            guarantee,
            weights,
            limits: self.limits(),
            sites: self.sites,
            solver: match &program {
                Some(program) => Solver::External(Arc::new(program.clone())),
                None => Solver::default(),
            },
            placements: None,
            places_by_keys: false,
            writes: self.writes,
        };
        let plan = analyze_with(script.application.catalog(), &script.summaries, &options);
        if let Some(failure) = program.and_then(|program| program.failure()) {
            return Err(format!("error: {failure}").into());
        }
        Ok(Input {
            script,
            plan,
            options,
            sources,
        })
    }

    /// The weights of transaction types: from the file of `--weights`, or else as databases count the calls.
    fn weights(&self, script: &mut Script) -> Result<BTreeMap<String, u64>, Box<dyn Error>> {
        let live = self.databases()?.iter().flat_map(|live| &live.calls);
        let mut weighed = traffic::weights(&live.cloned().collect::<Vec<_>>(), script).0;
        let Some(path) = &self.weights else {
            return Ok(weighed);
        };
        let text = read_text(path)?;
        let wrong = |error: String| format!("error: {}: {error}", path.display());
        if text.trim_start().starts_with(['{', '[']) {
            weighed.extend(weights(&text, &script.summaries).map_err(wrong)?);
            return Ok(weighed);
        }
        let queries = traffic::parse(&text).map_err(wrong)?;
        let (counted, unknown) = traffic::weights(&queries, script);
        if counted.is_empty() && !queries.is_empty() {
            let error = "none of its queries belongs to a transaction type".to_owned();
            return Err(wrong(error).into());
        }
        if unknown > 0 {
            let message = format!(
                "{}: {unknown} of {} queries belong to no transaction type",
                path.display(),
                queries.len()
            );
            let meaning = "their calls have no weight";
            let left = live::note(&message, meaning).approximated();
            script.skipped.push(left);
        }
        weighed.extend(counted);
        Ok(weighed)
    }

    /// The databases among the paths.
    fn databases(&self) -> Result<&[Live], String> {
        if let Some(read) = self.databases.get() {
            return Ok(read);
        }
        let waits = Waits {
            connect: Duration::from_secs(self.connect_seconds_max.into()),
            query: Duration::from_secs(self.query_seconds_max.into()),
        };
        let paths = self.schema.iter().map(|path| (path, false));
        let mut read = Vec::new();
        for (path, runs) in paths.chain(self.paths.iter().map(|path| (path, true))) {
            if is_address(path) {
                let address = Address::parse(&path.display().to_string())?;
                read.push(live::read(&address, runs, waits)?);
            }
        }
        Ok(self.databases.get_or_init(|| read))
    }

    /// The solver program, if `--solver` names one.
    fn program(&self) -> Result<Option<External>, String> {
        if self.solver.as_os_str() == BUILTIN {
            return Ok(None);
        }
        let timeout = Duration::from_secs(self.solver_timeout);
        let program = External::new(&self.solver, timeout);
        program.map(Some).map_err(|error| format!("error: {error}"))
    }

    fn limits(&self) -> Limits {
        Limits {
            choices_max: self.choices_max,
            conditions_max: self.conditions_max,
        }
    }

    /// The arguments that name these paths, and this file of weights, and are otherwise as if not given.
    ///
    /// # Errors
    /// When there are no paths.
    pub(crate) fn of_paths(
        paths: &[PathBuf],
        weights: Option<&Path>,
    ) -> Result<InputArguments, clap::Error> {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            input: InputArguments,
        }
        let mut words: Vec<&std::ffi::OsStr> = vec!["anabranch".as_ref()];
        words.extend(
            weights
                .iter()
                .flat_map(|file| ["--weights".as_ref(), file.as_os_str()]),
        );
        words.push("--".as_ref());
        words.extend(paths.iter().map(|path| path.as_os_str()));
        Ok(<Only as clap::Parser>::try_parse_from(words)?.input)
    }

    /// Has the operations partitioned among so many servers, under serializability.
    pub(crate) fn partition_among(&mut self, servers: usize, writes: Writes) {
        self.writes = writes;
        self.guarantee = GuaranteeArgument::Serializable;
        self.sites = u32::try_from(servers).ok();
    }

    /// Reads the application without a plan.
    ///
    /// # Errors
    /// As [`InputArguments::read`].
    pub(crate) fn script(&self) -> Result<Script, Box<dyn Error>> {
        self.sources().map(|(script, _)| script)
    }

    fn sources(&self) -> Result<(Script, Sources), Box<dyn Error>> {
        let relative = |paths: &[PathBuf]| {
            let files = paths.iter().filter(|path| !is_address(path));
            files.map(|path| relative(path)).collect::<Vec<_>>()
        };
        let databases = self.databases()?;
        let bytes_max = self.file_mb_max * MEGABYTE;
        let limits = program::Limits {
            bytes_max,
            files_max: self.source_files_max as usize,
        };
        let found = program::find(&relative(&self.paths), limits)?;
        let is_program = !found.programs.is_empty() || !found.skipped.is_empty();
        let mut paths = relative(&self.schema);
        paths.extend(found.sql);
        let mut files: Vec<SourceFile> = databases
            .iter()
            .flat_map(|live| live.files.clone())
            .collect();
        files.extend(application::read_sources_up_to(&paths, bytes_max)?);
        let own = files.len();
        let beside = application::read_sources_up_to(&relative(&self.invariants), bytes_max)?;
        files.extend(beside.iter().map(script::invariants));
        let Program {
            mut clients,
            declarations,
            broken,
        } = anabranch_source::read(&found.programs);
        files.extend(declarations);
        clients
            .iter_mut()
            .for_each(|client| client.shift(files.len()));
        let mut read =
            application::read_script_with(files.clone(), found.programs.clone(), clients.clone())?;
        let skipped = read.skipped.len();
        read.has_clients |= is_program || !databases.is_empty();
        let mut ordered_otherwise = script::ColumnNames::new();
        for live in databases {
            ordered_otherwise.extend(live.ordered_otherwise.iter().cloned());
            read.skipped.extend(live.skipped.iter().cloned());
        }
        script::forget_order(&mut read, &ordered_otherwise);
        read.skipped.extend(found.skipped);
        read.skipped.extend(broken.into_iter().map(|broken| {
            let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            let span = Span {
                file: u16::try_from(files.len() + broken.file).unwrap_or(u16::MAX),
                start: place(broken.range.start),
                end: place(broken.range.end),
            };
            let message = "the source has a syntax error here, or nests too deeply";
            Skipped::new(
                Diagnostic::new("42601", message, span),
                "SQL that it may run is not considered",
            )
        }));
        let wrong = read.skipped.iter().map(|left| left.diagnostic.clone());
        let wrong: Vec<Diagnostic> = wrong.filter(|of| !of.code.starts_with("01")).collect();
        // Files with declarations only may be written for anabranch, and errors in them are mistakes. Without any
        // transaction type there is no report that could list the errors.
        let refused = self.strict || read.summaries.is_empty();
        if !wrong.is_empty() && !read.has_clients && refused {
            return Err(application::refused(&files, wrong).into());
        }
        let catalog = read.application.catalog();
        let is_reported = read.skipped.iter().any(Skipped::is_missing);
        if catalog.tables.is_empty() && read.summaries.is_empty() && !is_reported {
            return Err(self.nothing_found(&read).into());
        }
        let sources = Sources {
            files,
            own,
            programs: found.programs,
            clients,
            ordered_otherwise,
            skipped,
        };
        Ok((read, sources))
    }

    /// The error for an application without transaction types: what was found, what was skipped, and what to do.
    pub(crate) fn nothing_found(&self, script: &Script) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| shown(path)).collect();
        let tables = match script.application.catalog().tables.len() {
            0 => "no tables".to_owned(),
            1 => "1 table".to_owned(),
            more => format!("{more} tables"),
        };
        let missing = script.skipped.iter().filter(|left| left.is_missing());
        let unread = missing.clone().filter(|left| left.unread.is_some());
        let mut skipped: Vec<&str> = unread.map(|left| &*left.diagnostic.message).collect();
        let others = missing.filter(|left| left.unread.is_none()).count();
        let others = match others {
            0 => None,
            1 => Some("1 other piece of the files was skipped".to_owned()),
            more => Some(format!("{more} other pieces of the files were skipped")),
        };
        skipped.extend(others.as_deref());
        let skipped = match skipped.is_empty() {
            true => String::new(),
            false => format!(". {}", skipped.join("; ")),
        };
        format!(
            "error: found no SQL to analyse in {}: {tables}, no procedures, and no calls that run SQL{skipped}. Give \
             procedures or queries as SQL files, source in Java, Python, Go, TypeScript, JavaScript or PHP, or a \
             database with pg_stat_statements",
            paths.join(", ")
        )
    }

    /// The arguments as they were typed, each after a space.
    pub(crate) fn typed(&self) -> String {
        let mut text = String::new();
        let word = |path: &PathBuf| {
            let word = shown(path);
            // A word that begins with a hyphen would be an option.
            let word = match word.starts_with('-') {
                true => format!("./{word}"),
                false => word,
            };
            quoted(&word).into_owned()
        };
        for path in &self.paths {
            let _ = write!(text, " {}", word(path));
        }
        for (option, paths) in [("schema", &self.schema), ("invariants", &self.invariants)] {
            for path in paths {
                let _ = write!(text, " --{option} {}", word(path));
            }
        }
        if self.strict {
            text.push_str(" --strict");
        }
        if self.file_mb_max != MEGABYTES_MAX {
            let _ = write!(text, " --file-mb-max {}", self.file_mb_max);
        }
        if self.source_files_max != SOURCE_FILES_MAX {
            let _ = write!(text, " --source-files-max {}", self.source_files_max);
        }
        for (option, seconds, usual) in [
            (
                "connect-seconds-max",
                self.connect_seconds_max,
                CONNECT_SECONDS_MAX,
            ),
            (
                "query-seconds-max",
                self.query_seconds_max,
                QUERY_SECONDS_MAX,
            ),
        ] {
            if seconds != usual {
                let _ = write!(text, " --{option} {seconds}");
            }
        }
        if self.guarantee == GuaranteeArgument::Serializable {
            text.push_str(" --guarantee serializable");
        }
        if let Some(sites) = self.sites {
            let _ = write!(text, " --sites {sites}");
        }
        if let Some(path) = &self.weights {
            let _ = write!(text, " --weights {}", word(path));
        }
        let (limits, usual) = (self.limits(), Limits::default());
        for (option, number, usual) in [
            ("choices-max", limits.choices_max, usual.choices_max),
            (
                "conditions-max",
                limits.conditions_max,
                usual.conditions_max,
            ),
        ] {
            if number != usual {
                let _ = write!(text, " --{option} {number}");
            }
        }
        if self.solver.as_os_str() != BUILTIN {
            let _ = write!(text, " --solver {}", word(&self.solver));
        }
        if self.solver_timeout != SOLVER_SECONDS {
            let _ = write!(text, " --solver-timeout {}", self.solver_timeout);
        }
        text
    }
}

/// A path for messages, without the password of an address.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    match is_address(path) {
        true => without_password(&text),
        false => text,
    }
}

/// A path as reports name it: relative to the current folder if it is inside, so that reports of two machines are
/// equal; otherwise the absolute path.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let whole = climbs.then(|| path.canonicalize().ok()).flatten();
    let path = whole.as_deref().unwrap_or(path);
    let inside = here
        .as_deref()
        .and_then(|here| path.strip_prefix(here).ok());
    match inside {
        Some(rest) if rest.as_os_str().is_empty() => PathBuf::from("."),
        Some(rest) => rest.to_owned(),
        None => path.to_owned(),
    }
}
