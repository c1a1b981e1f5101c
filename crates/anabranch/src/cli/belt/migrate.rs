//! `anabranch belt migrate SERVERS FILES --was PATH --script FILE`: the schema and the application of a ring change, and every
//! row stays where it is.

use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anabranch_dbms::Servers;
use anabranch_dbms::postgres::catalog::Table;
use anabranch_dbms::postgres::closed::{self, Change, Closed};
use anabranch_dbms::postgres::explain;
use anabranch_dbms::postgres::inspect::Roles;
use anabranch_dbms::postgres::install::{InstalledType, Part, captured_tables, captures_as};
use anabranch_dbms::postgres::migrate::{
    self, Fit, Identity, Left, Migrated, Migration, Standing, claim, is_as_it_was, standing,
};
use anabranch_middleware::command::{Command, command};
use anabranch_middleware::lex::{self, TokenKind};
use anabranch_types::DataType;

use super::gather::{is_up, running, sites, still_runs};
use super::parts::{Held, Newest, Parts, SCHEMA, Seen, Use, held, types};
use super::serve::{check_installed, ring_of};
use super::share::{place_of, read_input, unreached};
use super::{MigrateArguments, Reached, Verdict, first_membership, reach, report};
use crate::cli::input::Input;
use crate::cli::output::say;

/// Changes the schema and the application.
pub(super) fn migrate(arguments: &MigrateArguments) -> Result<Verdict, Box<dyn Error>> {
    let file = &arguments.servers;
    let servers = Servers::read(file)?;
    let script = read_script(&arguments.script)?;
    let lost = arguments.lost.as_ref();
    let lost = lost
        .map(|name| place_of(&servers, file, name))
        .transpose()?;
    let old = read_input(&arguments.was, arguments.was_weights.as_deref(), &servers)?;
    let new = read_input(&arguments.files, arguments.weights.as_deref(), &servers)?;
    let mut reached = reach(&servers)?;
    let found = first_membership(&mut reached, |_| true)?;
    let found = found.ok_or("error: the belt is installed on no server: anabranch belt install")?;
    let gone: Vec<usize> = (0..servers.server.len())
        .filter(|place| {
            lost == Some(*place) || !found.members.iter().any(|of| usize::from(*of) == *place)
        })
        .collect();
    if let Some(lost) = lost.filter(|place| reached[*place].database.is_ok()) {
        return Err(format!(
            "error: the database of {} is reached: leave --lost out, and it takes part",
            servers.server[lost].name
        )
        .into());
    }
    if let Some(verdict) = unreached(&reached, &gone)? {
        return Ok(verdict);
    }
    let wanted = Closed {
        target: script.name_for(&servers, &new),
        change: Change::Migrate,
    };
    claim(&mut sites(&mut reached, &gone))?;
    let how_far = standing(&mut sites(&mut reached, &gone), &wanted)?;
    if let Some(lost) = lost {
        let name = &servers.server[lost].name;
        if how_far == Standing::NotBegun {
            return Err(format!(
                "error: --lost {name}: no server has the new schema yet: remove {name} from the ring first (anabranch belt \
                 remove-server {} {name} --lost)",
                file.display()
            )
            .into());
        }
        if is_up(&servers.server[lost]) {
            return Err(still_runs(name).into());
        }
    }
    if how_far == Standing::Done {
        closed::reopen(&mut sites(&mut reached, &gone), &mut |_| {})?;
        say!(
            "All servers have this change already: {}. The ring is open: start the middlewares, with the new files.\n",
            wanted.target
        )?;
        return Ok(Verdict::Fine);
    }
    let changed = match &how_far {
        Standing::Between(changed) => changed.clone(),
        Standing::NotBegun | Standing::Done => Vec::new(),
    };
    let was = Was::read(&servers, &mut reached, &gone, &changed, &old)?;
    if let Some(running) = running(&servers.server, &gone) {
        return Err(still_runs(running).into());
    }
    let outcome = run(&servers, &mut reached, &gone, &script, &wanted, &was, &new);
    let migrated = match outcome {
        Ok(migrated) => migrated,
        Err(error) => {
            return Err(reopened(&mut reached, &gone, &wanted, &error).into());
        }
    };
    if !migrated.objections.is_empty() {
        say!("{}", report::objections(&migrated.objections, false))?;
        let ends = reopened(&mut reached, &gone, &wanted, "");
        say!("{}\n", ends.trim_start())?;
        return Ok(Verdict::Finding);
    }
    say!("{}", render(&migrated, &was.types, &types(&new)))?;
    let members = servers.server.len() - gone.len();
    say!(
        "{members} servers have the new schema, and no row has moved. Start all middlewares, with the new files.\n"
    )?;
    Ok(Verdict::Fine)
}

/// The ring and its application before the change.
struct Was {
    tables: Vec<Held>,
    types: Vec<InstalledType>,
    /// The tables of the database that all servers have whole.
    whole: Vec<Table>,
    /// Its other tables.
    others: Vec<Table>,
    /// Those of them whose rows belong to the servers by a column, with its place.
    keys: Vec<(Table, usize)>,
}

impl Was {
    /// Reads it from a server that has the schema as it was; `changed` are the sites that have not.
    fn read(
        servers: &Servers,
        reached: &mut [Reached],
        gone: &[usize],
        changed: &[usize],
        old: &Input,
    ) -> Result<Was, Box<dyn Error>> {
        let types = types(old);
        let partitioning = old.plan.partitioning.as_ref();
        let tables = partitioning.map_or_else(Vec::new, |of| held(old, of));
        let ring = ring_of(&servers.server);
        let members = (0..reached.len()).filter(|place| !gone.contains(place));
        let has_changed = members
            .enumerate()
            .filter(|(site, _)| changed.contains(site));
        let without: Vec<usize> = has_changed
            .map(|(_, place)| place)
            .chain(gone.iter().copied())
            .collect();
        let parts = Parts::new(servers, old, &Seen::of(reached), &without);
        let mut found: Option<(Vec<Table>, Vec<Table>)> = None;
        let members = reached.iter_mut().enumerate();
        let members = members.filter(|(place, _)| !gone.contains(place));
        for (site, (place, server)) in members.enumerate() {
            if changed.contains(&site) {
                continue;
            }
            let Ok((client, inspection)) = &mut server.database else {
                continue;
            };
            let rings = std::slice::from_ref(&ring);
            check_installed(client, servers, place, &types, rings).map_err(|error| {
                format!("{error}\n--was names the files that the belt was installed for")
            })?;
            let part = parts.of(place).ok_or("error: the ring has other servers")?;
            let captures = captures_as(client, part)
                .map_err(|error| format!("error: {}: {}", server.entry.name, explain(&error)))?;
            if !captures {
                return Err(format!(
                    "error: {}: the ring replicates other tables than it would for the files of --was: they are not those that the \
                     belt was installed for, or the settings are others",
                    server.entry.name
                )
                .into());
            }
            if found.is_none() {
                let captured = captured_tables(client).map_err(|error| {
                    format!("error: {}: {}", server.entry.name, explain(&error))
                })?;
                let is_whole = |table: &Table| {
                    let known = tables
                        .iter()
                        .find(|of| table.schema == SCHEMA && of.name == table.name);
                    captured.contains(&(table.schema.clone(), table.name.clone()))
                        && known.is_none_or(|of| of.newest == Newest::Everywhere)
                };
                let with_rows = inspection.tables.iter().filter(|table| table.has_rows);
                found = Some(with_rows.cloned().partition(is_whole));
            }
        }
        let (whole, others) = found.ok_or("error: the belt is installed on no server")?;
        let key = |table: &Table| {
            let mut known = tables.iter();
            let known = known.find(|of| table.schema == SCHEMA && of.name == table.name)?;
            let Newest::ByColumn(column, _) = &known.newest else {
                return None;
            };
            let place = table.columns.iter().position(|of| of.name == *column)?;
            Some((table.clone(), place))
        };
        Ok(Was {
            keys: others.iter().filter_map(key).collect(),
            tables,
            types,
            whole,
            others,
        })
    }
}

/// Closes the ring, and changes it.
fn run(
    servers: &Servers,
    reached: &mut [Reached],
    gone: &[usize],
    script: &Script,
    wanted: &Closed,
    was: &Was,
    new: &Input,
) -> Result<Migrated, String> {
    let entries = &servers.server;
    let roles: Vec<Option<String>> = reached.iter().map(|server| server.role.clone()).collect();
    let places: Vec<usize> = (0..entries.len()).filter(|at| !gone.contains(at)).collect();
    let of_sites: Vec<Roles<'_>> = places
        .iter()
        .map(|place| Roles {
            middleware: roles[*place].as_deref(),
            applications: &servers.applications,
        })
        .collect();
    let mut sites = sites(reached, gone);
    migrate::close(&mut sites, wanted, &mut |_| {})?;
    // Looked at again: a middleware that began meanwhile has its ports, or finds that the ring is closed.
    let connected = closed::served(&mut sites)?;
    if let Some(running) = running(entries, gone).or(connected) {
        return Err(still_runs(running));
    }
    let migration = Migration {
        script: &script.text,
        whole: &was.whole,
        others: &was.others,
        keys: &was.keys,
        roles: &of_sites,
        closed: wanted,
    };
    let mut fit = |left: &Left| {
        let mut inspections = places.iter().zip(&left.inspections).peekable();
        let seen = entries.iter().zip(&roles).enumerate();
        let seen: Vec<Seen<'_>> = seen
            .map(|(place, (entry, role))| Seen {
                entry,
                role: role.as_deref(),
                database: match inspections.next_if(|(at, _)| **at == place) {
                    Some((_, inspection)) => Ok(inspection),
                    None => Err("it is no member of the ring"),
                },
            })
            .collect();
        let parts = Parts::new(servers, new, &seen, gone);
        let mut objections = parts.objections.clone();
        objections.extend(misplaced(was, &parts.tables, left));
        match objections.is_empty() {
            true => {
                let alike = alike(&parts, left);
                let parts = places.iter().filter_map(|place| parts.of(*place).cloned());
                Ok(Fit {
                    parts: parts.collect(),
                    alike,
                })
            }
            false => Err(objections),
        }
    };
    migrate::migrate(&mut sites, &migration, &mut fit, &mut |_| {})
}

/// The tables that must be alike on all servers: those that all are to have, of others the columns that all are to have, and
/// those that the script has made, for it has not run once for all.
fn alike(parts: &Parts, left: &Left) -> Vec<Table> {
    let Some(inspection) = left.inspections.first() else {
        return Vec::new();
    };
    let captured: Vec<&Part> = parts.of(0).into_iter().collect();
    let is_captured_whole = |table: &Table| {
        let mut tables = captured.iter().flat_map(|part| &part.tables);
        tables.any(|of| of.is_whole && of.table.path() == table.path())
    };
    let mut alike = Vec::new();
    for table in inspection.tables.iter().filter(|table| table.has_rows) {
        let path = (table.schema.clone(), table.name.clone());
        let known = parts
            .tables
            .iter()
            .find(|of| table.schema == SCHEMA && of.name == table.name);
        let is_it = |of: &&Identity| (&of.schema, &of.name) == (&path.0, &path.1);
        let now = left.after.iter().find(is_it);
        let was_there = now.is_some_and(|now| left.before.iter().any(|of| of.oid == now.oid));
        let is_everywhere = known.is_some_and(|of| of.newest == Newest::Everywhere);
        if !was_there || is_everywhere || is_captured_whole(table) {
            alike.push(table.clone());
        } else if let Some(known) = known.filter(|of| of.has_all_rows) {
            let mut shared = table.clone();
            shared
                .columns
                .retain(|column| !known.own_columns.contains(&column.name));
            alike.push(shared);
        }
    }
    alike
}

/// The tables whose rows would not be where the new application looks for them: BELT-I27.
fn misplaced(was: &Was, tables: &[Held], left: &Left) -> Vec<String> {
    let mut objections = Vec::new();
    for table in tables {
        let path = (SCHEMA.to_owned(), table.name.clone());
        let is_it = |of: &&Identity| of.schema == SCHEMA && of.name == table.name;
        let now = left.after.iter().find(is_it);
        let before = now.and_then(|now| left.before.iter().find(|of| of.oid == now.oid));
        // The script has made the table, with the same rows on all servers, or no server has rows.
        let (Some(now), Some(before)) = (now, before) else {
            continue;
        };
        if left.empty.contains(&path) {
            continue;
        }
        let old = was
            .tables
            .iter()
            .find(|of| before.schema == SCHEMA && of.name == before.name);
        if old.is_some_and(|old| old.newest != Newest::Everywhere) && left.numbered.contains(&path)
        {
            objections.push(format!(
                "a new sequence numbers the rows of {}, and other rows on each server: add the column without numbers, and have the \
                 application number new rows",
                table.name
            ));
        }
        if let Some(why) = old.and_then(|old| moves(old, table, before, now)) {
            objections.push(format!(
                "rows of {} would have to move between the servers: {why}. Gather all rows on one server (anabranch belt remove \
                 --gather NAME), change the schema there, and install the ring again (anabranch belt install --from NAME)",
                table.name
            ));
        }
    }
    objections
}

/// Why rows would have to move, if they would.
fn moves(old: &Held, new: &Held, before: &Identity, now: &Identity) -> Option<String> {
    if old.newest == Newest::Everywhere {
        return None;
    }
    // By its name now, the name that a column had.
    let names: BTreeMap<&str, &str> = now
        .columns
        .iter()
        .filter_map(|(number, (name, _))| {
            let (old, _) = before.columns.get(number)?;
            Some((name.as_str(), old.as_str()))
        })
        .collect();
    if !old.has_all_rows && new.has_all_rows {
        return Some(
            "each server has those of its own keys, and all servers are to have all".to_owned(),
        );
    }
    let now_everywhere = names.iter().find(|(name, old_name)| {
        old.own_columns.contains(**old_name) && !new.own_columns.contains(**name)
    });
    if let Some((name, _)) = now_everywhere {
        return Some(format!(
            "the newest values of {name} are on the server of each key, and operations that run anywhere are to find them"
        ));
    }
    match (&old.newest, &new.newest) {
        (Newest::ByColumn(was, was_type), Newest::ByColumn(is, is_type)) => {
            let is_same = names.get(is.as_str()) == Some(&was.as_str());
            if !is_same || !is_routed_alike(was_type, is_type) {
                return Some(format!(
                    "they belong to the servers by {was} before, and by {is} from now on"
                ));
            }
            if old.is_found_by_key && new.is_found_by_key {
                return None;
            }
        }
        (Newest::Inserted, Newest::Inserted) | (Newest::Unknown, Newest::Unknown) => {}
        (was, is) => {
            return Some(format!(
                "{} before, and {} from now on",
                placing(was),
                placing(is)
            ));
        }
    }
    // No column tells where a row is. If the same operations use it in the same way, it is where they look for it.
    let had: BTreeMap<&str, &str> = names.values().map(|name| (*name, *name)).collect();
    let uses = |of: &Held, names: &BTreeMap<&str, &str>| -> Vec<Use> {
        of.uses.iter().map(|used| used.renamed(names)).collect()
    };
    let (before, now) = (uses(old, &had), uses(new, &names));
    let differs = now.iter().find(|used| !before.contains(used));
    let differs = differs.or_else(|| before.iter().find(|used| !now.contains(used)));
    differs.map(|used| {
        format!(
            "no column tells which server has them, and {} does not use them as before",
            used.of.name
        )
    })
}

/// Whether equal keys of both types are of one slot.
fn is_routed_alike(one: &DataType, other: &DataType) -> bool {
    let is_text = |of: &DataType| matches!(of, DataType::Text | DataType::Varchar(_));
    one == other || one.is_integer() && other.is_integer() || is_text(one) && is_text(other)
}

/// How a table's rows are placed, in words.
fn placing(newest: &Newest) -> String {
    match newest {
        Newest::Everywhere => "every server has them".to_owned(),
        Newest::ByColumn(column, _) => format!("they belong to the servers by {column}"),
        Newest::Inserted => "each server has those that it has inserted".to_owned(),
        Newest::Unknown => "no column tells which server has the newest copies".to_owned(),
    }
}

/// Opens the ring again after an error, if it is as it was. Returns the error, with what to do.
fn reopened(reached: &mut [Reached], gone: &[usize], wanted: &Closed, error: &str) -> String {
    let mut sites = sites(reached, gone);
    let opened = is_as_it_was(&mut sites, wanted).and_then(|is_as_it_was| match is_as_it_was {
        true => closed::reopen(&mut sites, &mut |_| {}).map(|()| true),
        false => Ok(false),
    });
    match opened {
        Ok(true) => format!("{error}\nThe schema is as it was, and middlewares may start."),
        Ok(false) => format!(
            "{error}\nA part of the servers has been changed. Middlewares stay stopped until this has been repeated, with the same \
             script."
        ),
        Err(second) => {
            format!("{error}\n{second}\nMiddlewares stay stopped until this has been repeated.")
        }
    }
}

/// What changes the schema.
struct Script {
    text: String,
    /// Its files.
    files: String,
}

impl Script {
    /// A name for the change, which is another one for another script, application, or setting.
    fn name_for(&self, servers: &Servers, new: &Input) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        let partitioning = new.plan.partitioning.as_ref();
        let tables = partitioning.map_or_else(Vec::new, |of| held(new, of));
        for table in &tables {
            format!(
                "{} {:?} {:?} {:?} {:?}",
                table.name, table.newest, table.own_columns, table.has_all_rows, table.uses
            )
            .hash(&mut hasher);
        }
        format!("{:?} {:?}", types(new), servers.unknown).hash(&mut hasher);
        let digest = hasher.finish();
        match self.files.is_empty() {
            true => format!("another application ({digest:016x})"),
            false => format!("{} ({digest:016x})", self.files),
        }
    }
}

/// Reads a script, and takes the transaction off that frames it.
fn read_script(files: &[PathBuf]) -> Result<Script, String> {
    let mut text = String::new();
    let mut names = Vec::new();
    for file in files {
        let shown = file.display();
        let read =
            std::fs::read_to_string(file).map_err(|error| format!("error: {shown}: {error}"))?;
        let body = unframed(&read).map_err(|error| format!("error: {shown}: {error}"))?;
        text += &body;
        text += "\n;\n";
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        names.push(name.unwrap_or_else(|| shown.to_string()));
    }
    Ok(Script {
        files: names.join(", "),
        text,
    })
}

/// A script without the BEGIN and the COMMIT that are its first and last statements.
fn unframed(text: &str) -> Result<String, String> {
    let tokens = lex::tokens(text).map_err(|error| error.to_string())?;
    let mut places = lex::statements(text, &tokens);
    let kind = |place: &std::ops::Range<usize>| command(&text[place.clone()]);
    let is_framed = places.len() > 1
        && matches!(kind(&places[0]), Ok(Command::Begin(_)))
        && matches!(kind(&places[places.len() - 1]), Ok(Command::Commit));
    if is_framed {
        places.pop();
        places.remove(0);
    }
    for place in &places {
        let statement = &text[place.clone()];
        let line = text[..place.start].matches('\n').count() + 1;
        let Some(why) = unfit(statement).map_err(|error| format!("line {line}: {error}"))? else {
            continue;
        };
        return Err(format!(
            "line {line}: {}: {why}",
            statement.lines().next().unwrap_or_default()
        ));
    }
    let parts = places.iter().map(|place| &text[place.clone()]);
    Ok(parts.collect::<Vec<&str>>().join(";\n"))
}

/// Why a statement cannot be in a script, if it cannot.
fn unfit(statement: &str) -> Result<Option<&'static str>, String> {
    let mut tokens = lex::tokens(statement).map_err(|error| error.to_string())?;
    tokens.retain(|token| token.kind != TokenKind::Comment);
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|of| of.is(statement, word));
    let has = |word: &str| tokens.iter().any(|of| of.is(statement, word));
    let ends = ["begin", "start", "commit", "end", "abort"];
    let ends = ends.iter().any(|word| is(0, word))
        || is(0, "rollback") && !has("to")
        || is(0, "prepare") && is(1, "transaction");
    Ok(match () {
        () if ends => {
            Some("the script runs in one transaction: leave out what begins and ends transactions")
        }
        () if is(0, "copy") && (has("stdin") || has("stdout")) => Some(
            "the script has no input and no output: write INSERT, or COPY from a file of the database's server",
        ),
        () => None,
    })
}

/// What has changed, for people.
fn render(migrated: &Migrated, before: &[InstalledType], now: &[InstalledType]) -> String {
    let title = |of: &InstalledType| match of.parameters.is_empty() {
        true => of.class.clone(),
        false => format!("{} by {}", of.class, of.parameters.join(", ")),
    };
    let find = |list: &'_ [InstalledType], name: &str| list.iter().position(|of| of.name == name);
    let mut lines = Vec::new();
    for of in now {
        match find(before, &of.name).map(|at| &before[at]) {
            None => lines.push(format!("+ {}: {}", of.name, title(of))),
            Some(old) if old != of => {
                lines.push(format!(
                    "  {}: {}, and was {}",
                    of.name,
                    title(of),
                    title(old)
                ));
            }
            Some(_) => {}
        }
    }
    let left = before.iter().filter(|of| find(now, &of.name).is_none());
    lines.extend(left.map(|of| format!("- {}", of.name)));
    let mut out = match lines.is_empty() {
        true => "The transaction types are as they were.\n".to_owned(),
        false => format!(
            "Transaction types that have changed\n  {}\n",
            lines.join("\n  ")
        ),
    };
    out += &format!(
        "{} operations of other servers were applied that were on their way\n",
        migrated.applied
    );
    if !migrated.earlier.is_empty() {
        out += &format!(
            "An earlier run had changed {}.\n",
            migrated.earlier.join(", ")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_one_transaction() {
        let kept =
            unframed("-- why\nBEGIN;\nCREATE TABLE a (x int);\nUPDATE a SET x = 1;\nCOMMIT;\n");
        assert_eq!(
            kept.as_deref(),
            Ok("CREATE TABLE a (x int);\nUPDATE a SET x = 1")
        );
        let function =
            "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$";
        assert_eq!(unframed(function).as_deref(), Ok(function));
        for refused in [
            "SELECT 1; COMMIT; SELECT 2",
            "ROLLBACK",
            "BEGIN; SELECT 1",
            "BEGIN; COMMIT; BEGIN; COMMIT",
            "COMMIT AND CHAIN",
            "/* so */ PREPARE TRANSACTION 'x'",
            "COPY a FROM STDIN",
        ] {
            assert!(unframed(refused).is_err(), "{refused}");
        }
        assert_eq!(unframed("").as_deref(), Ok(""));
    }
}
