//! `anabranch belt check|install|remove|add-server|remove-server|migrate SERVERS …`: PostgreSQL servers as a ring of the Conveyor Belt.

mod embedded;
mod gather;
mod migrate;
mod parts;
mod report;
mod serve;
mod share;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use anabranch_analysis::partition::Writes;
use anabranch_dbms::postgres::catalog::Sequence;
use anabranch_dbms::postgres::closed::{self, Progress};
use anabranch_dbms::postgres::inspect::{Inspection, Roles, inspect};
use anabranch_dbms::postgres::relocate::{Membership, membership};
use anabranch_dbms::postgres::{explain, install};
use anabranch_dbms::servers::{self, ServerEntry, Servers};
use clap::{Args, Subcommand};
use postgres::Client;

use super::Verdict;
use super::input::InputArguments;
use super::output::say;
pub(super) use embedded::{Embedded, SERVERS_MAX, serve as serve_embedded};
use parts::{Parts, Seen};
pub(super) use serve::{Middleware, serve};

/// Where operations write, as the file of the servers says.
fn writes(servers: &Servers) -> Writes {
    match servers.writes {
        servers::Writes::Partitioned => Writes::Partitioned,
        servers::Writes::Everywhere => Writes::Everywhere,
    }
}

/// How long to wait for a connection to a server.
const CONNECT_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct BeltArguments {
    #[command(subcommand)]
    command: BeltCommand,
}

#[derive(Debug, Subcommand)]
enum BeltCommand {
    /// Reach every server, and show what would be installed, how operations are coordinated, and what does not fit
    Check(ApplicationArguments),
    /// Install the belt on every server: the schema "anabranch", triggers, steps of sequences
    Install(InstallArguments),
    /// Take all of it away from every server; with --gather, after all rows are on one of them
    Remove(RemoveArguments),
    /// With the middlewares stopped: have an empty server join the ring, with all rows that all servers have, and its share of
    /// the others
    AddServer(AddServerArguments),
    /// With the middlewares stopped: have a server leave the ring, after it has given its rows to the others; with --lost, go
    /// on without one that will never come back
    RemoveServer(RemoveServerArguments),
    /// With the middlewares stopped: change the schema and the application on all servers. Every row stays where it is
    Migrate(MigrateArguments),
}

#[derive(Debug, Args)]
struct ApplicationArguments {
    /// The file that describes the servers
    servers: PathBuf,
    #[command(flatten)]
    input: InputArguments,
}

#[derive(Debug, Args)]
struct InstallArguments {
    #[command(flatten)]
    application: ApplicationArguments,
    /// Replace the rows of all tables on the other servers by those of this one
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// With --from: a server whose rows are old copies and may be replaced. A server that is empty, or has the same rows, need
    /// not be named
    #[arg(long, value_name = "NAME", requires = "from")]
    replace: Vec<String>,
}

#[derive(Debug, Args)]
struct RemoveArguments {
    /// The file that describes the servers
    servers: PathBuf,
    /// With --gather: the files of the application that the belt was installed for, as for serve
    #[arg(value_name = "FILES", requires = "gather")]
    files: Vec<PathBuf>,
    /// With the middlewares stopped: copy the rows that each server owns to this one, which then has the whole database
    #[arg(long, value_name = "NAME")]
    gather: Option<String>,
    /// With --gather: leave out a server that was removed from the ring; of its rows, the copies of the installation stay
    #[arg(long, value_name = "NAME", requires = "gather")]
    without: Vec<String>,
    /// With --gather: the weights that the belt was installed with
    #[arg(long, value_name = "FILE", requires = "gather")]
    weights: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct AddServerArguments {
    /// The file that describes the servers; the one that joins is the last
    servers: PathBuf,
    /// The name of the server that joins
    name: String,
    /// The files of the application that the belt was installed for, as for serve
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,
    /// The weights that the belt was installed with
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RemoveServerArguments {
    /// The file that describes the servers
    servers: PathBuf,
    /// The server's name
    name: String,
    /// The files of the application that the belt was installed for, as for serve
    #[arg(
        value_name = "FILES",
        required_unless_present = "lost",
        conflicts_with = "lost"
    )]
    files: Vec<PathBuf>,
    /// The weights that the belt was installed with
    #[arg(long, value_name = "FILE", conflicts_with = "lost")]
    weights: Option<PathBuf>,
    /// The server will never come back: while the middlewares of the others run, go on without it. What it alone has
    /// acknowledged is lost, and so are the rows that only it had
    #[arg(long)]
    lost: bool,
}

#[derive(Debug, Args)]
struct MigrateArguments {
    /// The file that describes the servers
    servers: PathBuf,
    /// The files of the application as it is from now on, as for serve
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,
    /// A file or folder of the application that the belt was installed for
    #[arg(long, value_name = "PATH", required = true)]
    was: Vec<PathBuf>,
    /// A file of SQL that changes the schema: it runs on each server, in one transaction. Several run one behind the other;
    /// without any, the application alone changes
    #[arg(long, value_name = "FILE")]
    script: Vec<PathBuf>,
    /// The weights of the application as it is from now on
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The weights that the belt was installed with
    #[arg(long, value_name = "FILE")]
    was_weights: Option<PathBuf>,
    /// A server that was lost for good after an earlier run had begun: go on without it, and remove it with remove-server --lost
    /// when the middlewares run
    #[arg(long, value_name = "NAME")]
    lost: Option<String>,
}

/// A server, as far as it could be reached.
pub(super) struct Reached {
    pub(super) entry: ServerEntry,
    /// Its address, without a password.
    pub(super) address: String,
    /// The role of the middleware.
    pub(super) role: Option<String>,
    /// Its database, or why it could not be read.
    pub(super) database: Result<(Client, Inspection), String>,
}

pub(crate) fn run(arguments: BeltArguments) -> Result<Verdict, Box<dyn Error>> {
    match arguments.command {
        BeltCommand::Check(of) => check(of, None),
        BeltCommand::Install(InstallArguments {
            application,
            from,
            replace,
        }) => check(application, Some((from, replace))),
        BeltCommand::Remove(of) => match &of.gather {
            Some(target) => gather::remove_gathered(&of, target),
            None => remove(&of),
        },
        BeltCommand::AddServer(of) => share::add_server(&of),
        BeltCommand::RemoveServer(of) if of.lost => remove_lost_server(&of),
        BeltCommand::RemoveServer(of) => share::remove_server(&of),
        BeltCommand::Migrate(of) => migrate::migrate(&of),
    }
}

/// Shows what would be installed; and installs it, with the rows of one server if it is named.
fn check(
    mut arguments: ApplicationArguments,
    install: Option<(Option<String>, Vec<String>)>,
) -> Result<Verdict, Box<dyn Error>> {
    let servers = Servers::read(&arguments.servers)?;
    let installs = install.is_some();
    let (from, replace) = install.unwrap_or_default();
    let place_of = |name: &String| {
        let place = servers.server.iter().position(|of| of.name == *name);
        place.ok_or_else(|| {
            let file = arguments.servers.display();
            format!("error: {file} has no server {name}")
        })
    };
    let place = from.as_ref().map(place_of).transpose()?;
    let replaced: Result<Vec<usize>, String> = replace.iter().map(place_of).collect();
    let replaced = replaced?;
    arguments
        .input
        .partition_among(servers.server.len(), writes(&servers));
    let input = arguments.input.read()?;
    if input.plan.entries.is_empty() {
        return Err(arguments.input.nothing_found(&input.script).into());
    }
    let mut reached = reach(&servers)?;
    let mut parts = Parts::new(&servers, &input, &Seen::of(&reached), &[]);
    say!("{}", report::render(&servers, &input, &reached, &parts))?;
    if installs && parts.objections.is_empty() {
        let copied = parts.install(&mut reached, place, &replaced)?;
        if parts.objections.is_empty() {
            if let Some(from) = &from {
                say!("{}", report::copied(from, &copied))?;
            }
            say!(
                "\nInstalled on {} servers. Run a middleware beside each of them, and connect applications to it:\n\n  \
                 anabranch serve --belt {servers_file} --at NAME FILES\n\n\
                 Tables that all servers have can now be written only so. This takes it away again:\n\n  \
                 anabranch belt remove {servers_file}\n",
                servers.server.len(),
                servers_file = arguments.servers.display()
            )?;
        }
    }
    say!("{}", report::objections(&parts.objections, installs))?;
    Ok(match parts.objections.is_empty() {
        true => Verdict::Fine,
        false => Verdict::Finding,
    })
}

/// Connects to all servers, as the roles that install.
fn reach(servers: &Servers) -> Result<Vec<Reached>, String> {
    let all = servers.server.iter();
    all.map(|entry| reach_one(servers, entry)).collect()
}

/// Connects to one of them.
fn reach_one(servers: &Servers, entry: &ServerEntry) -> Result<Reached, String> {
    let address = entry.installer()?;
    let role = anabranch_dbms::postgres::Address::parse(&entry.database)?;
    let roles = Roles {
        middleware: role.user(),
        applications: &servers.applications,
    };
    let database = address
        .connect(CONNECT_MAX)
        .map_err(|error| error.trim_start_matches("error: ").to_owned())
        .and_then(|mut client| inspect(&mut client, roles).map(|inspection| (client, inspection)));
    Ok(Reached {
        entry: entry.clone(),
        address: address.typed,
        role: role.user().map(str::to_owned),
        database,
    })
}

/// What the first of these servers says that has the belt of a ring that is looked for.
fn first_membership(
    reached: &mut [Reached],
    is_wanted: impl Fn(&Membership) -> bool,
) -> Result<Option<Membership>, String> {
    for server in reached {
        let Ok((client, _)) = &mut server.database else {
            continue;
        };
        let found = membership(client)
            .map_err(|error| format!("error: {}: {}", server.entry.name, explain(&error)))?;
        if let Some(found) = found.filter(&is_wanted) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Asks the first middleware that is reached to remove a server that is lost.
fn remove_lost_server(arguments: &RemoveServerArguments) -> Result<Verdict, Box<dyn Error>> {
    let servers = Servers::read(&arguments.servers)?;
    let name = &arguments.name;
    if !servers.server.iter().any(|server| server.name == *name) {
        return Err(format!(
            "error: {} has no server {name}",
            arguments.servers.display()
        )
        .into());
    }
    let removed = servers.server.iter().find(|server| server.name == *name);
    if let Some(removed) = removed {
        let listens = removed.reached_at();
        if gather::is_up(removed) {
            return Err(format!(
                "error: the middleware of {name} runs ({listens}): it would go on by itself, with rows that no other server \
                 gets; stop it first, and do not start it again"
            )
            .into());
        }
    }
    if let Some(verdict) = share::end_without_lost(arguments)? {
        return Ok(verdict);
    }
    let mut failures = Vec::new();
    for server in servers.server.iter().filter(|server| server.name != *name) {
        let address = anabranch_dbms::postgres::Address::parse(&server.database)?;
        let reached = server.reached_at();
        let (host, port) = reached.rsplit_once(':').unwrap_or((&reached, ""));
        let Ok(port) = port.parse() else {
            return Err(format!(
                "error: {}: listen = \"{}\" has no port",
                server.name, server.listen
            )
            .into());
        };
        let connected = address.at(host, port).connect(CONNECT_MAX);
        let mut client = match connected {
            Ok(client) => client,
            Err(error) => {
                failures.push(error.trim_start_matches("error: ").to_owned());
                continue;
            }
        };
        let call = format!(
            "CALL anabranch.remove_server({})",
            anabranch_dbms::postgres::literal(name)
        );
        return match client.batch_execute(&call) {
            Ok(()) => {
                say!(
                    "{name} is removed, as the middleware of {} says. Take it out of no list of servers: their places tell \
                     which keys are whose. What it alone had acknowledged is lost.\n",
                    server.name
                )?;
                Ok(Verdict::Fine)
            }
            Err(error) => Err(format!("error: {}: {}", server.name, explain(&error)).into()),
        };
    }
    say!("{}", report::objections(&failures, false))?;
    Err("error: no middleware of the other servers is reached".into())
}

fn remove(arguments: &RemoveArguments) -> Result<Verdict, Box<dyn Error>> {
    let servers = Servers::read(&arguments.servers)?;
    let mut reached = reach(&servers)?;
    let mut failures = Vec::new();
    // A sequence goes on above the numbers of all servers that can be reached.
    let mut last: Vec<(Sequence, i64)> = Vec::new();
    for (_, inspection) in reached.iter().filter_map(|r| r.database.as_ref().ok()) {
        for sequence in &inspection.sequences {
            let number = sequence.last.unwrap_or(0);
            match last.iter_mut().find(|(s, _)| s.path() == sequence.path()) {
                Some((_, highest)) => *highest = number.max(*highest),
                None => last.push((sequence.clone(), number)),
            }
        }
    }
    for server in &mut reached {
        let name = server.entry.name.clone();
        let (client, inspection) = match &mut server.database {
            Ok((client, inspection)) => (client, inspection),
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                continue;
            }
        };
        if inspection.installed.is_none() {
            let progress = closed::progress(client).and_then(|progress| {
                // Other servers had the belt when their rows had been gathered there.
                match progress == Progress::Gathered {
                    true => client.batch_execute("DROP SCHEMA anabranch CASCADE"),
                    false => Ok(()),
                }
            });
            match progress {
                Ok(()) => say!("{name}: nothing is installed\n")?,
                Err(error) => failures.push(format!("{name}: {}", explain(&error))),
            }
            continue;
        }
        let slots = i64::from(servers.slots);
        let strided = last.iter().filter(|(sequence, _)| {
            let here = inspection.sequences.iter();
            let mut same = here.filter(|s| s.path() == sequence.path());
            same.any(|s| s.increment == slots)
        });
        let strided: Vec<(Sequence, i64)> = strided.cloned().collect();
        let script = install::removal(&strided);
        match client.batch_execute(&format!("BEGIN; {script} COMMIT")) {
            Ok(()) => say!("{name}: removed\n")?,
            Err(error) => failures.push(format!("{name}: {}", explain(&error))),
        }
    }
    say!("{}", report::objections(&failures, false))?;
    Ok(match failures.is_empty() {
        true => Verdict::Fine,
        false => Verdict::Finding,
    })
}
