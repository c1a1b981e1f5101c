//! `anabranch belt remove SERVERS --gather NAME FILES`: takes the belt away, with all rows on one server.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::{TcpStream, ToSocketAddrs};

use anabranch_analysis::partition::{KeyPlacement, Writes};
use anabranch_dbms::Servers;
use anabranch_dbms::postgres::catalog::Table;
use anabranch_dbms::postgres::closed::{self, Change, Closed, Progress, Site};
use anabranch_dbms::postgres::gather::{self, Gathered};
use anabranch_dbms::postgres::inspect::Inspection;
use anabranch_dbms::postgres::relocate::{Membership, Owner, Plan, SharedTable};
use anabranch_dbms::postgres::{explain, install};
use anabranch_dbms::servers::ServerEntry;
use anabranch_types::text::parse_value;
use anabranch_types::{DataType, TimeZone};
use postgres::Client;

use super::parts::{Held, Newest, SCHEMA, held, types};
use super::serve::{check_installed, membership_of, ring_of};
use super::{
    CONNECT_MAX, Reached, RemoveArguments, Verdict, first_membership, reach, report, writes,
};
use crate::cli::input::InputArguments;
use crate::cli::output::say;

/// Gathers all rows on the server `target`, and takes the belt away from every server.
pub(super) fn remove_gathered(
    arguments: &RemoveArguments,
    target: &str,
) -> Result<Verdict, Box<dyn Error>> {
    let servers = Servers::read(&arguments.servers)?;
    let file = arguments.servers.display();
    let place_of = |name: &String| {
        let place = servers
            .server
            .iter()
            .position(|server| server.name == *name);
        place.ok_or_else(|| format!("error: {file} has no server {name}"))
    };
    let target_place = place_of(&target.to_owned())?;
    let without: Result<Vec<usize>, String> = arguments.without.iter().map(place_of).collect();
    let without = without?;
    if without.contains(&target_place) {
        return Err(format!("error: --without {target}: all rows are to be gathered there").into());
    }
    let mut reached = reach(&servers)?;
    // A server that has left, and given its keys to others, has nothing that could be missing.
    let found = first_membership(&mut reached, |_| true)?;
    let is_part = |of: &Membership, place: usize| {
        let mut places = of.members.iter().chain(&of.owners);
        places.any(|part| usize::from(*part) == place)
    };
    let left = (0..servers.server.len())
        .filter(|place| found.as_ref().is_some_and(|of| !is_part(of, *place)));
    let skipped: Vec<usize> = without.iter().copied().chain(left).collect();
    let mut failures = Vec::new();
    let mut progress = Vec::new();
    for (place, server) in reached.iter_mut().enumerate() {
        let name = &server.entry.name;
        let found = match &mut server.database {
            Ok((client, _)) => closed::progress(client).map_err(|error| explain(&error)),
            Err(error) => Err(error.clone()),
        };
        match found {
            Ok(Progress::Gathered) if place != target_place => {
                return Err(format!(
                    "error: {name} has all rows already, and its belt is taken away: repeat with --gather {name}"
                )
                .into());
            }
            Ok(Progress::Installed {
                closed: Some(closed),
            }) if closed.change != Change::Gather => {
                let other = closed.target;
                return Err(format!(
                    "error: {name}: another change of the ring has begun, for {other}, and has not come to its end: repeat that first \
                     (anabranch belt add-server, remove-server or migrate)"
                )
                .into());
            }
            Ok(found) => progress.push(Some(found)),
            Err(_) if skipped.contains(&place) => progress.push(None),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    if !failures.is_empty() {
        failures.push(
            "nothing was changed: every server that is a member of the ring has to be reached"
                .to_owned(),
        );
        say!("{}", report::objections(&failures, false))?;
        return Ok(Verdict::Finding);
    }
    if progress[target_place] == Some(Progress::Gathered) {
        // An earlier run has gathered everything, and did not come to its end.
        gather::finish(
            &mut sites(&mut reached, &[]),
            target_place_in(&progress, target_place),
            &mut |_| {},
        )?;
        say!("All rows were on {target} already. The belt is removed from the others, too.\n")?;
        return Ok(Verdict::Fine);
    }
    if progress
        .iter()
        .flatten()
        .all(|found| *found == Progress::Removed)
    {
        return Err(format!(
            "error: the belt is installed on no server, and nothing was moved; {target} has all rows if an earlier run with \
             --gather {target} was ended at its last step"
        )
        .into());
    }
    for (place, found) in progress.iter().enumerate() {
        if *found == Some(Progress::Removed) && !skipped.contains(&place) {
            let name = &servers.server[place].name;
            return Err(format!(
                "error: {name}: the belt is not installed there, so that it is not known which rows are the newest"
            )
            .into());
        }
    }
    if arguments.files.is_empty() {
        return Err("error: name the files of the application that the belt was installed for: they tell which server owns which rows".into());
    }
    let mut input = InputArguments::of_paths(&arguments.files, arguments.weights.as_deref())?;
    input.partition_among(servers.server.len(), writes(&servers));
    let input = input.read()?;
    let installed_types = types(&input);
    for (place, server) in reached.iter_mut().enumerate() {
        if let Ok((client, _)) = &mut server.database
            && !skipped.contains(&place)
        {
            check_installed(
                client,
                &servers,
                place,
                &installed_types,
                &[ring_of(&servers.server)],
            )?;
        }
    }
    let Ok((client, inspection)) = &mut reached[target_place].database else {
        unreachable!("failures were reported");
    };
    let found = membership_of(client, target)?;
    let removed: Vec<usize> = (0..servers.server.len())
        .filter(|place| !found.members.iter().any(|of| usize::from(*of) == *place))
        .collect();
    let name_of = |place: &usize| servers.server[*place].name.as_str();
    let lost = removed.iter().filter(|place| is_part(&found, **place));
    // With every row on every server, none went with it.
    let had_rows = writes(&servers) == Writes::Partitioned;
    if had_rows && let Some(place) = lost.clone().find(|place| !without.contains(place)) {
        let name = name_of(place);
        return Err(format!(
            "error: {name} was removed from the ring, and the newest rows of its keys went with it. To keep the copies of \
             these rows that {target} has, which are those of the installation: --without {name}"
        )
        .into());
    }
    if let Some(place) = without.iter().find(|place| !removed.contains(place)) {
        let name = name_of(place);
        return Err(format!(
            "error: --without {name}: it is a member of the ring, and has rows of its own; if it will never come back: \
             anabranch belt remove-server {file} {name} --lost"
        )
        .into());
    }
    let partitioning = input.plan.partitioning.as_ref();
    let tables = partitioning.map_or_else(Vec::new, |of| held(&input, of));
    let placed = match placed(client, inspection, &tables)? {
        Ok(placed) => placed,
        Err(objections) => {
            say!("{}", report::objections(&objections, false))?;
            return Ok(Verdict::Finding);
        }
    };
    let plan = placed.plan(servers.slots, lost.map(|place| *place as u16).collect());
    if let Some(running) = running(&servers.server, &removed) {
        return Err(still_runs(running).into());
    }
    let mut sites = sites(&mut reached, &removed);
    let target_site = sites
        .iter()
        .position(|site| usize::from(site.place) == target_place);
    let target_site = target_site.ok_or("error: the server of --gather is no member")?;
    let closed = Closed {
        target: target.to_owned(),
        change: Change::Gather,
    };
    closed::close(&mut sites, &closed, &mut |_| {})?;
    // Looked at again: a middleware that began meanwhile has its ports, or finds that the ring is closed.
    let connected = closed::served(&mut sites)?;
    if let Some(running) = running(&servers.server, &removed).or(connected) {
        closed::reopen(&mut sites, &mut |_| {})?;
        return Err(still_runs(running).into());
    }
    let gathered = gather::gather(&mut sites, target_site, &plan, &mut |_| {}).map_err(|error| {
        format!(
            "{error}\nThe middlewares stay stopped until this has been repeated; to go on with the ring instead, if {target} \
             still has the belt: DROP TABLE anabranch.closed, on each server"
        )
    })?;
    let names: Vec<&str> = (0..servers.server.len())
        .map(|place| name_of(&place))
        .collect();
    say!("{}", render(&gathered, &names, target_place, &removed))?;
    Ok(Verdict::Fine)
}

/// The number of the target among the servers that were reached.
fn target_place_in(progress: &[Option<Progress>], target: usize) -> usize {
    progress[..target].iter().flatten().count()
}

/// The servers that were reached, without those at these places.
pub(super) fn sites<'r>(reached: &'r mut [Reached], removed: &[usize]) -> Vec<Site<'r>> {
    let sites = reached.iter_mut().enumerate();
    let sites = sites.filter(|(place, _)| !removed.contains(place));
    sites
        .filter_map(|(place, server)| {
            let (client, _) = server.database.as_mut().ok()?;
            Some(Site {
                place: place as u16,
                name: &server.entry.name,
                client,
            })
        })
        .collect()
}

/// Which server has the newest rows of each table.
pub(super) struct Placed {
    whole: Vec<Table>,
    shared: Vec<SharedTable>,
    /// By shared table the type of the column that tells a row's owner.
    key_types: Vec<Option<(String, DataType)>>,
    others: Vec<Table>,
}

impl Placed {
    /// The tables of the ring, with their keys' slots as a middleware has them.
    pub(super) fn plan(self, slots: u16, removed: Vec<u16>) -> Plan<'static> {
        // The owners do not matter for slots.
        let keys = KeyPlacement::new(0, slots, 1);
        let key_types = self.key_types;
        Plan {
            whole: self.whole,
            shared: self.shared,
            others: self.others,
            slot_of: Box::new(move |table, key| slot_of(&keys, &key_types[table], key)),
            removed,
        }
    }
}

/// Sorts the tables of the database; or why their rows cannot be gathered.
pub(super) fn placed(
    client: &mut Client,
    inspection: &Inspection,
    tables: &[Held],
) -> Result<Result<Placed, Vec<String>>, String> {
    let captured =
        install::captured_tables(client).map_err(|error| format!("error: {}", explain(&error)))?;
    let mut placed = Placed {
        whole: Vec::new(),
        shared: Vec::new(),
        key_types: Vec::new(),
        others: Vec::new(),
    };
    let mut objections = Vec::new();
    for table in inspection.tables.iter().filter(|table| table.has_rows) {
        let held = tables
            .iter()
            .find(|held| table.schema == SCHEMA && held.name == table.name);
        let newest = held.map_or(&Newest::Everywhere, |held| &held.newest);
        let is_captured = captured.contains(&(table.schema.clone(), table.name.clone()));
        let (owner, key_type) = match newest {
            Newest::Everywhere if is_captured => {
                placed.whole.push(table.clone());
                continue;
            }
            Newest::Everywhere => {
                placed.others.push(table.clone());
                continue;
            }
            _ if !table.is_plain => {
                objections.push(format!(
                    "the servers have shared out the rows of {}, which is partitioned or inherited: copy them by hand",
                    table.title()
                ));
                continue;
            }
            Newest::ByColumn(column, data_type) => {
                let Some(place) = table.columns.iter().position(|c| c.name == *column) else {
                    objections.push(format!(
                        "{} has no column {column}, by which its rows are shared out",
                        table.title()
                    ));
                    continue;
                };
                (
                    Owner::ByColumn(place),
                    Some((format!("{}.{column}", table.title()), data_type.clone())),
                )
            }
            Newest::Inserted => (Owner::Inserted, None),
            Newest::Unknown => {
                objections.push(format!(
                    "no column of {} tells which server has the newest copy of a row: copy its rows by hand, remove the belt without \
                     --gather, and install a ring of the servers that are wanted",
                    table.title()
                ));
                continue;
            }
        };
        placed.key_types.push(key_type);
        placed.shared.push(SharedTable {
            table: table.clone(),
            owner,
            has_all_rows: held.is_some_and(|held| held.has_all_rows),
        });
    }
    Ok(match objections.is_empty() {
        true => Ok(placed),
        false => Err(objections),
    })
}

/// The slot of a key, as a middleware routes it.
fn slot_of(
    keys: &KeyPlacement,
    of: &Option<(String, DataType)>,
    key: Option<&str>,
) -> Result<u16, String> {
    let Some((column, data_type)) = of else {
        return Err("no column of this table tells a row's server".to_owned());
    };
    let value = match key {
        None => anabranch_types::Value::Null,
        Some(text) => parse_value(text, data_type, &TimeZone::default())
            .map_err(|_| format!("{column}: {text} cannot be read as {data_type}"))?,
    };
    Ok(keys.slot_of(&value))
}

/// The first server whose middleware accepts connections.
pub(super) fn running<'s>(servers: &'s [ServerEntry], removed: &[usize]) -> Option<&'s str> {
    let members = servers.iter().enumerate();
    let mut members = members.filter(|(place, _)| !removed.contains(place));
    members
        .find(|(_, server)| is_up(server))
        .map(|(_, server)| server.name.as_str())
}

/// Whether a server's middleware accepts connections.
pub(super) fn is_up(server: &ServerEntry) -> bool {
    server
        .reached_at()
        .to_socket_addrs()
        .into_iter()
        .flatten()
        .any(|address| TcpStream::connect_timeout(&address, CONNECT_MAX).is_ok())
}

pub(super) fn still_runs(name: &str) -> String {
    format!(
        "error: the middleware of {name} runs: stop the middlewares of all servers first; what they serve meanwhile would be lost"
    )
}

/// What was gathered, for people.
fn render(gathered: &Gathered, names: &[&str], target: usize, removed: &[usize]) -> String {
    let mut out = format!("Gathered on {}\n", names[target]);
    let width = gathered.tables.iter().map(|(name, _)| name.chars().count());
    let width = width.max().unwrap_or(0);
    for (name, rows) in &gathered.tables {
        let mut parts = vec![format!(
            "{} own rows",
            rows.get(&(target as u16)).unwrap_or(&0)
        )];
        let others: BTreeMap<usize, u64> = rows
            .iter()
            .map(|(place, rows)| (usize::from(*place), *rows))
            .filter(|(place, _)| *place != target)
            .collect();
        for (place, rows) in others {
            parts.push(match removed.contains(&place) {
                false => format!("{rows} of {}", names[place]),
                true => format!("{rows} of {}, as of the installation", names[place]),
            });
        }
        out += &format!("  {name:width$}  {}\n", parts.join(", "));
    }
    out += &format!(
        "  {} operations of other servers were applied that were on their way\n",
        gathered.applied
    );
    for remark in &gathered.remarks {
        out += &format!("  {remark}\n");
    }
    out + &format!(
        "The belt is removed from every member. {} has the whole database.\n",
        names[target]
    )
}
