//! `anabranch belt add-server SERVERS NAME FILES` and `remove-server`: a server joins a ring, or leaves it, with its share of
//! the rows.

use std::error::Error;
use std::path::{Path, PathBuf};

use anabranch_dbms::Servers;
use anabranch_dbms::postgres::closed::{self, Change as ChangeName, Closed, Site};
use anabranch_dbms::postgres::dump::copy_schema;
use anabranch_dbms::postgres::explain;
use anabranch_dbms::postgres::install::{Part, captures_as};
use anabranch_dbms::postgres::lost::{Ended, end_without};
use anabranch_dbms::postgres::relocate::Plan;
use anabranch_dbms::postgres::share::{self, Change, Shared};

use super::gather::{placed, running, sites, still_runs};
use super::parts::{Parts, SCHEMA, Seen, held, types};
use super::serve::{check_installed, ring_of};
use super::{
    AddServerArguments, Reached, RemoveServerArguments, Verdict, first_membership, reach,
    reach_one, report, writes,
};
use crate::cli::input::{Input, InputArguments};
use crate::cli::output::say;

/// Has a server join.
pub(super) fn add_server(arguments: &AddServerArguments) -> Result<Verdict, Box<dyn Error>> {
    let (name, file) = (&arguments.name, &arguments.servers);
    let servers = Servers::read(file)?;
    let last = place_of(&servers, file, name)?;
    if last + 1 < servers.server.len() || last == 0 {
        return Err(format!(
            "error: {name} has to be the last [[server]] of {}, behind those of the ring: places tell which keys are whose",
            file.display()
        )
        .into());
    }
    let mut reached = reach(&servers)?;
    let ring = ring_of(&servers.server[..last]);
    let new_ring = ring_of(&servers.server);
    let Some(found) = first_membership(&mut reached, |of| of.ring == ring || of.ring == new_ring)?
    else {
        return Err(format!(
            "error: the belt of the ring {ring}, which {name} is to join, is installed on no server: install it with \
             {name} (anabranch belt install)"
        )
        .into());
    };
    let gone: Vec<usize> = (0..last)
        .filter(|place| !found.members.iter().any(|of| usize::from(*of) == *place))
        .collect();
    if let Some(verdict) = unreached(&reached, &gone)? {
        return Ok(verdict);
    }
    let input = read_input(&arguments.files, arguments.weights.as_deref(), &servers)?;
    let first = usize::from(found.members[0]);
    copy_schema_to(&servers, &mut reached, first, last)?;
    let parts = Parts::new(&servers, &input, &Seen::of(&reached), &gone);
    if !parts.objections.is_empty() {
        say!("{}", report::objections(&parts.objections, false))?;
        return Ok(Verdict::Finding);
    }
    let part: &Part = parts.last().ok_or("error: the file has no server")?;
    check_captures(&mut reached[first], part)?;
    let change = Change::Join { ring: &ring, part };
    let of = Named {
        servers: &servers,
        name,
        change: ChangeName::Join,
        rings: &[ring.clone(), new_ring],
    };
    let Some(shared) = of.share(change, &mut reached, &gone, &input)? else {
        say!(
            "{name} was a member of the ring already. The ring is open: start its middlewares.\n"
        )?;
        return Ok(Verdict::Fine);
    };
    let Some(shared) = shared else {
        return Ok(Verdict::Finding);
    };
    say!(
        "{}{name} is a member of the ring. Start all middlewares, with this {}.\n",
        render(&shared, &servers, &format!("{name} joins the ring")),
        file.display()
    )?;
    Ok(Verdict::Fine)
}

/// Has a server leave.
pub(super) fn remove_server(arguments: &RemoveServerArguments) -> Result<Verdict, Box<dyn Error>> {
    let (name, file) = (&arguments.name, &arguments.servers);
    let servers = Servers::read(file)?;
    let leaving = place_of(&servers, file, name)?;
    let mut reached = reach(&servers)?;
    if let Err(error) = &reached[leaving].database {
        return Err(format!(
            "error: {name} is not reached, and has rows that no other server has: {error}. If it will never come back, and they \
             are lost: anabranch belt remove-server {} {name} --lost",
            file.display()
        )
        .into());
    }
    let ring = ring_of(&servers.server);
    // Its own database says what the members are until it has left.
    let found = match first_membership(&mut reached[leaving..=leaving], |_| true)? {
        Some(found) => Some(found),
        None => first_membership(&mut reached, |_| true)?,
    };
    let Some(found) = found else {
        return Err("error: the belt is installed on no server".into());
    };
    let gone: Vec<usize> = (0..servers.server.len())
        .filter(|place| {
            *place != leaving && !found.members.iter().any(|of| usize::from(*of) == *place)
        })
        .collect();
    if let Some(verdict) = unreached(&reached, &gone)? {
        return Ok(verdict);
    }
    let input = read_input(&arguments.files, arguments.weights.as_deref(), &servers)?;
    let sites = sites(&mut reached, &gone);
    let at = sites
        .iter()
        .position(|site| usize::from(site.place) == leaving);
    drop(sites);
    let change = Change::Leave(at.ok_or("error: the server is not reached")?);
    let of = Named {
        servers: &servers,
        name,
        change: ChangeName::Leave,
        rings: &[ring],
    };
    let stays = "Its entry stays in the file: places tell which keys are whose";
    let Some(shared) = of.share(change, &mut reached, &gone, &input)? else {
        say!(
            "{name} was no member of the ring any more. The ring is open: start its middlewares. {stays}.\n"
        )?;
        return Ok(Verdict::Fine);
    };
    let Some(shared) = shared else {
        return Ok(Verdict::Finding);
    };
    say!(
        "{}{name} is no member of the ring any more; its database has old copies of rows. Start the middlewares of the others. \
         {stays}.\n",
        render(&shared, &servers, &format!("{name} leaves the ring"))
    )?;
    Ok(Verdict::Fine)
}

/// Ends a change of the ring's servers, which is not at its end, without the server that joins or leaves, which is lost for good.
/// `None` if no such change has begun, or if the server is a member of the ring as it was: the middlewares of the others remove
/// it then.
pub(super) fn end_without_lost(
    arguments: &RemoveServerArguments,
) -> Result<Option<Verdict>, Box<dyn Error>> {
    let (name, file) = (&arguments.name, &arguments.servers);
    let servers = Servers::read(file)?;
    let lost = place_of(&servers, file, name)?;
    let mut reached = reach(&servers)?;
    let others: Vec<usize> = (0..servers.server.len())
        .filter(|place| *place != lost)
        .collect();
    let mut begun = None;
    for place in &others {
        if let Ok((client, _)) = &mut reached[*place].database {
            let found = closed::closed(client).map_err(|error| {
                format!(
                    "error: {}: {}",
                    servers.server[*place].name,
                    explain(&error)
                )
            })?;
            begun = begun.or(found);
        }
    }
    let Some(begun) = begun else {
        return Ok(None);
    };
    if begun.target != *name || begun.change == ChangeName::Gather {
        return Err(format!(
            "error: another change of the ring has begun, for {}, and has not come to its end: repeat that first",
            begun.target
        )
        .into());
    }
    let found = first_membership(&mut reached, |_| true)?;
    let found = found.ok_or("error: the belt is installed on no other server")?;
    let gone: Vec<usize> = (0..servers.server.len())
        .filter(|place| {
            *place == lost || !found.members.iter().any(|of| usize::from(*of) == *place)
        })
        .collect();
    if let Some(verdict) = unreached(&reached, &gone)? {
        return Ok(Some(verdict));
    }
    if let Some(running) = running(&servers.server, &gone) {
        return Err(still_runs(running).into());
    }
    if let Ok((_, inspection)) = &reached[lost].database
        && inspection.installed.is_some()
    {
        return Err(format!(
            "error: the database of {name} is reached, and has the belt, so that nothing is lost: repeat the command that began the \
             change"
        )
        .into());
    }
    let name_of = |place: u16| {
        servers
            .server
            .get(usize::from(place))
            .map_or("", |of| of.name.as_str())
    };
    // Before it is so: a repetition does not know any more.
    let mut tell = |slots: &[(u16, u16)]| {
        for (slot, owner) in slots {
            // Nothing depends on whether it is read.
            let _ = say!(
                "The rows of the keys of slot {slot} that only {name} had are lost; new ones belong to {}.\n",
                name_of(*owner)
            );
        }
    };
    let mut sites = sites(&mut reached, &gone);
    let ended = end_without(&mut sites, lost as u16, &mut |_| {}, &mut tell)?;
    let joins = begun.change == ChangeName::Join;
    match ended {
        Ended::AsItWas { is_member: true } => return Ok(None),
        Ended::AsItWas { is_member: false } => say!(
            "The change had no effect on the other servers, or all of them had it: they are the ring, and nothing that they have is lost."
        )?,
        Ended::Without { lost } => say!(
            "The other servers are the ring now, without {name}; {}.",
            match lost.is_empty() {
                true => "none of the rows that it had for them is lost".to_owned(),
                false => format!(
                    "the rows of {} slots of keys, as told above, are lost",
                    lost.len()
                ),
            }
        )?,
    }
    say!(
        " {} Start the middlewares.\n",
        match joins {
            true => format!("Take the entry of {name} out of {}.", file.display()),
            false => "Its entry stays in the file: places tell which keys are whose.".to_owned(),
        }
    )?;
    Ok(Some(Verdict::Fine))
}

/// A change of a ring's servers.
struct Named<'n> {
    servers: &'n Servers,
    name: &'n str,
    change: ChangeName,
    /// The names that the ring may have in databases.
    rings: &'n [String],
}

impl Named<'_> {
    /// Moves the rows, or goes on with that. `None` if it was done already; then the ring is open. `Some(None)` if something does
    /// not fit, which was said.
    fn share(
        &self,
        change: Change<'_>,
        reached: &mut [Reached],
        gone: &[usize],
        input: &Input,
    ) -> Result<Option<Option<Shared>>, Box<dyn Error>> {
        self.check_others(reached, gone)?;
        if share::is_done(&mut sites(reached, gone), change)? {
            closed::reopen(&mut sites(reached, gone), &mut |_| {})?;
            return Ok(None);
        }
        let installed_types = types(input);
        for (place, server) in reached.iter_mut().enumerate() {
            let Ok((client, inspection)) = &mut server.database else {
                continue;
            };
            if inspection.installed.is_some() && !gone.contains(&place) {
                check_installed(client, self.servers, place, &installed_types, self.rings)?;
            }
        }
        let Some(plan) = plan(self.servers, reached, gone, input)? else {
            return Ok(Some(None));
        };
        let entries = &self.servers.server;
        if let Some(running) = running(entries, gone) {
            return Err(still_runs(running).into());
        }
        let mut sites: Vec<Site<'_>> = sites(reached, gone);
        let closed = Closed {
            target: self.name.to_owned(),
            change: self.change,
        };
        closed::close(&mut sites, &closed, &mut |_| {})?;
        // Looked at again: a middleware that began meanwhile has its ports, or finds that the ring is closed.
        let mut run = || -> Result<Shared, String> {
            let connected = closed::served(&mut sites)?;
            if let Some(running) = running(entries, gone).or(connected) {
                return Err(still_runs(running));
            }
            share::share(&mut sites, change, &plan, &closed, &mut |_| {})
        };
        match run() {
            Ok(shared) => Ok(Some(Some(shared))),
            Err(error) => Err(reopened(&mut sites, change, &error).into()),
        }
    }

    /// Checks that no other change has begun.
    ///
    /// # Errors
    /// If one has, and has not come to its end.
    fn check_others(&self, reached: &mut [Reached], gone: &[usize]) -> Result<(), String> {
        for site in &mut sites(reached, gone) {
            let begun = closed::closed(site.client)
                .map_err(|error| format!("error: {}: {}", site.name, explain(&error)))?;
            let other = begun.filter(|of| of.target != self.name || of.change != self.change);
            if let Some(other) = other {
                return Err(format!(
                    "error: {}: another change of the ring has begun, for {}, and has not come to its end: repeat that first",
                    site.name, other.target
                ));
            }
        }
        Ok(())
    }
}

/// Opens the ring again after an error, unless some server has begun the new ring. Returns the error, with what to do.
fn reopened(sites: &mut [Site<'_>], change: Change<'_>, error: &str) -> String {
    let opened = share::has_begun(sites, change).and_then(|has_begun| match has_begun {
        true => Ok(false),
        false => closed::reopen(sites, &mut |_| {}).map(|()| true),
    });
    match opened {
        Ok(true) => format!("{error}\nNothing was changed, and middlewares may start."),
        Ok(false) => format!(
            "{error}\nA part of the servers has begun the new ring. Middlewares stay stopped until this has been repeated."
        ),
        Err(second) => {
            format!("{error}\n{second}\nMiddlewares stay stopped until this has been repeated.")
        }
    }
}

/// Checks that a server that joins is to capture what a member does.
fn check_captures(member: &mut Reached, part: &Part) -> Result<(), String> {
    let name = &member.entry.name;
    let (client, _) = member.database.as_mut().map_err(|error| error.clone())?;
    let is_same =
        captures_as(client, part).map_err(|error| format!("error: {name}: {}", explain(&error)))?;
    match is_same {
        true => Ok(()),
        false => Err(format!(
            "error: the ring replicates other tables, or under other numbers, than it would if it were installed now, as {name} \
             says: join with the settings, files and version of anabranch that it was installed with, or gather all rows on \
             one server (anabranch belt remove --gather NAME) and install a ring of the servers that are wanted"
        )),
    }
}

/// The tables of the ring, as the first server that has the belt has them; or nothing, if some do not fit, which is said.
fn plan(
    servers: &Servers,
    reached: &mut [Reached],
    gone: &[usize],
    input: &Input,
) -> Result<Option<Plan<'static>>, Box<dyn Error>> {
    let partitioning = input.plan.partitioning.as_ref();
    let tables = partitioning.map_or_else(Vec::new, |of| held(input, of));
    let members = reached.iter_mut().enumerate();
    let mut members = members.filter(|(place, _)| !gone.contains(place));
    let first = members.find_map(|(_, server)| {
        let (client, inspection) = server.database.as_mut().ok()?;
        inspection
            .installed
            .is_some()
            .then_some((client, inspection))
    });
    let (client, inspection) = first.ok_or("error: the belt is installed on no server")?;
    let with_rows = inspection.tables.iter().filter(|table| table.has_rows);
    let named: Vec<&str> = with_rows
        .filter(|table| table.schema == SCHEMA)
        .map(|table| table.name.as_str())
        .collect();
    let objections: Vec<String> = tables
        .iter()
        .filter(|held| named.contains(&held.name.as_str()) && !held.may_move())
        .map(|held| {
            format!(
                "operations that run on one server find rows of {} by other columns than the one that tells its owner, so that its \
                 rows cannot be handed over: gather all rows on one server (anabranch belt remove --gather NAME), and install \
                 a ring of the servers that are wanted (anabranch belt install --from NAME)",
                held.name
            )
        })
        .collect();
    if !objections.is_empty() {
        say!("{}", report::objections(&objections, false))?;
        return Ok(None);
    }
    Ok(match placed(client, inspection, &tables)? {
        Ok(placed) => Some(placed.plan(servers.slots, Vec::new())),
        Err(objections) => {
            say!("{}", report::objections(&objections, false))?;
            None
        }
    })
}

pub(super) fn place_of(servers: &Servers, file: &Path, name: &str) -> Result<usize, String> {
    let place = servers.server.iter().position(|of| of.name == name);
    place.ok_or_else(|| format!("error: {} has no server {name}", file.display()))
}

pub(super) fn read_input(
    files: &[PathBuf],
    weights: Option<&Path>,
    servers: &Servers,
) -> Result<Input, Box<dyn Error>> {
    let mut input = InputArguments::of_paths(files, weights)?;
    input.partition_among(servers.server.len(), writes(servers));
    let read = input.read()?;
    if read.plan.entries.is_empty() {
        return Err(input.nothing_found(&read.script).into());
    }
    Ok(read)
}

/// Says which servers are not reached, if some are not that have to be.
pub(super) fn unreached(
    reached: &[Reached],
    gone: &[usize],
) -> Result<Option<Verdict>, Box<dyn Error>> {
    let members = reached.iter().enumerate();
    let members = members.filter(|(place, _)| !gone.contains(place));
    let failures = members.filter_map(|(_, server)| {
        let error = server.database.as_ref().err()?;
        Some(format!("{}: {error}", server.entry.name))
    });
    let mut failures: Vec<String> = failures.collect();
    if failures.is_empty() {
        return Ok(None);
    }
    failures.push(
        "nothing was changed: every server that is a member of the ring, or joins it, has to be reached"
            .to_owned(),
    );
    say!("{}", report::objections(&failures, false))?;
    Ok(Some(Verdict::Finding))
}

/// Gives a server that has no tables the schema of another one.
fn copy_schema_to(
    servers: &Servers,
    reached: &mut [Reached],
    from: usize,
    to: usize,
) -> Result<(), String> {
    let is_empty = |of: &Reached| {
        let database = of.database.as_ref();
        database.is_ok_and(|(_, inspection)| inspection.tables.is_empty())
    };
    if !is_empty(&reached[to]) || is_empty(&reached[from]) {
        return Ok(());
    }
    let (source, target) = (&reached[from].entry, &reached[to].entry);
    copy_schema(&source.installer()?, &target.installer()?)?;
    reached[to] = reach_one(servers, &target.clone())?;
    Ok(())
}

/// What has moved, for people.
fn render(shared: &Shared, servers: &Servers, title: &str) -> String {
    let name_of = |place: u16| {
        let server = servers.server.get(usize::from(place));
        server.map_or("", |server| server.name.as_str())
    };
    let mut out = format!("{title}\n");
    let copied = shared.copied.iter().map(|(name, _)| name);
    let names = copied.chain(shared.tables.iter().map(|(name, _)| name));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, rows) in &shared.copied {
        out += &format!("  {name:width$}  all {rows} rows copied\n");
    }
    for (name, rows) in &shared.tables {
        let parts: Vec<String> = rows
            .iter()
            .map(|((from, to), rows)| {
                format!("{rows} rows of {} to {}", name_of(*from), name_of(*to))
            })
            .collect();
        let parts = match parts.is_empty() {
            true => "no rows move".to_owned(),
            false => parts.join(", "),
        };
        out += &format!("  {name:width$}  {parts}\n");
    }
    out += &format!(
        "  {} of {} slots of keys move: {}\n",
        shared.slots.len(),
        servers.slots,
        shared
            .slots
            .iter()
            .map(|(slot, from, to)| format!("{slot} of {} to {}", name_of(*from), name_of(*to)))
            .collect::<Vec<_>>()
            .join(", ")
    );
    out += &format!(
        "  {} times an operation was received that was on its way\n",
        shared.applied
    );
    for remark in &shared.remarks {
        out += &format!("  {remark}\n");
    }
    out
}
