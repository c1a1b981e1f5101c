//! The schema of a ring changes on all servers, and every row stays where it is.
//!
//! First all servers apply what others have done, and begin a new epoch, under the schema as it was: from then on no operation
//! of the ring before can commit, and nothing is on its way. Then, in one transaction on each server, the belt is taken away,
//! the script runs, and the belt is installed for the tables as they then are, with the state that it had. All of them commit
//! after the last one has come so far, one after the other; each leaves in `anabranch.closed` the note that it has. So a process
//! may end at any point: a repetition runs the script on the servers without the note, and opens the ring when all have it.
//!
//! What holds is numbered in `docs/protocols/belt.md`: BELT-I26 and I27.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_protocol::belt::{Epoch, Rows, ServerId};

use super::catalog::Table;
use super::closed::{Change, Closed, Site, closed, error_of, reopen};
use super::copy::{self, RowDigest};
use super::inspect::{Inspection, Roles, inspect_in};
use super::install::{self, Part};
use super::relocate::{
    Membership, Open, apply_all, compare_whole, lock_all, lock_of, lock_one, membership,
};
use super::ring::Payloads;
use super::share::{ROUNDS_MAX, begin_epoch, commit, commit_received};
use crate::belt::Changes;

/// How the schema changes.
#[derive(Debug)]
pub struct Migration<'m> {
    /// The statements, without those that begin or end a transaction.
    pub script: &'m str,
    /// The tables that all servers have whole before it.
    pub whole: &'m [Table],
    /// The other tables of the ring before it.
    pub others: &'m [Table],
    /// By site the roles that use its database.
    pub roles: &'m [Roles<'m>],
    /// Why the ring is closed: for this script, by its name.
    pub closed: &'m Closed,
}

impl Migration<'_> {
    fn lock(&self) -> String {
        lock_of(self.whole.iter().chain(self.others))
    }
}

/// A table, whatever its name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// What PostgreSQL calls it by.
    pub oid: u32,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// By number its columns: the name and the type.
    pub columns: BTreeMap<i16, (String, String)>,
}

/// What the script has left, before the belt is installed again.
#[derive(Debug)]
pub struct Left {
    /// By site its database.
    pub inspections: Vec<Inspection>,
    /// The tables of a server before the script.
    pub before: Vec<Identity>,
    /// The tables of the same server after it.
    pub after: Vec<Identity>,
    /// The schemas and names of tables that have no row on any server.
    pub empty: BTreeSet<(String, String)>,
}

/// What a change of the schema has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Why nothing was changed; a sentence each.
    pub objections: Vec<String>,
    /// How many operations a server applied that it had not received, all servers together.
    pub applied: usize,
    /// The servers that an earlier run had changed.
    pub earlier: Vec<String>,
}

/// How far the change is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No server has the new schema.
    NotBegun,
    /// Some servers have it: those at these sites.
    Between(Vec<usize>),
    /// All have it, and some are closed still.
    Done,
}

/// Tells how far a change is that may have begun.
///
/// # Errors
/// When a database does not say, or another change has begun.
pub fn standing(sites: &mut [Site<'_>], wanted: &Closed) -> Result<Standing, String> {
    let mut changed = Vec::new();
    let mut is_old = false;
    for (number, site) in sites.iter_mut().enumerate() {
        let found = closed(site.client).map_err(error_of(site.name))?;
        match found {
            None => {}
            Some(found) if found.target != wanted.target => {
                return Err(other_change(site.name, &found.target));
            }
            Some(found) => match found.change {
                Change::Migrated => changed.push(number),
                Change::Migrate => is_old = true,
                Change::Gather | Change::Join | Change::Leave => {
                    return Err(other_change(site.name, &found.target));
                }
            },
        }
    }
    // Servers are opened when all have the new schema, and not before.
    Ok(match (changed.is_empty(), is_old) {
        (true, _) => Standing::NotBegun,
        (false, true) => Standing::Between(changed),
        (false, false) => Standing::Done,
    })
}

fn other_change(name: &str, target: &str) -> String {
    format!(
        "error: {name}: another change of the ring has begun, for {target}, and has not come to its end: repeat that first"
    )
}

/// Whether the ring may be opened again after an error: it goes on under the schema as it was.
///
/// # Errors
/// When a database does not say.
pub fn is_as_it_was(sites: &mut [Site<'_>], wanted: &Closed) -> Result<bool, String> {
    if standing(sites, wanted)? != Standing::NotBegun {
        return Ok(false);
    }
    let mut epochs = BTreeSet::new();
    for site in sites {
        let row = site
            .client
            .query_one("SELECT epoch, epoch_server FROM anabranch.hold", &[]);
        let row = row.map_err(error_of(site.name))?;
        epochs.insert((row.get::<_, i64>(0), row.get::<_, i16>(1)));
    }
    Ok(epochs.len() == 1)
}

/// Closes the servers that do not have the new schema.
///
/// # Errors
/// When a database refuses it, or another change has begun.
pub fn close(
    sites: &mut [Site<'_>],
    wanted: &Closed,
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    for site in sites {
        let found = closed(site.client).map_err(error_of(site.name))?;
        if found.is_none_or(|found| found.change != Change::Migrated) {
            super::closed::close(std::slice::from_mut(site), wanted, before)?;
        }
    }
    Ok(())
}

/// Changes the schema on all servers: all sites are [closed](close), and they are all members of the ring, in the order of their
/// places. Afterwards they are open, unless something does not fit: then nothing has changed, and they are closed.
///
/// `parts` tells by site what is to be installed on what the script has left, or what does not fit. `before` is called before
/// each statement.
///
/// # Errors
/// When the script fails on a server, what it leaves differs between servers, a lock is not had within 10 s, or a database is
/// lost: the change can then be repeated.
pub fn migrate(
    sites: &mut [Site<'_>],
    migration: &Migration<'_>,
    parts: &mut dyn FnMut(&Left) -> Result<Vec<Part>, Vec<String>>,
    before: &mut dyn FnMut(&str),
) -> Result<Migrated, String> {
    let mut migrated = Migrated::default();
    let changed = match standing(sites, migration.closed)? {
        Standing::Done => {
            reopen(sites, before)?;
            return Ok(migrated);
        }
        Standing::NotBegun => {
            migrated.applied = begin_ring(sites, migration, before)?;
            Vec::new()
        }
        Standing::Between(changed) => changed,
    };
    let names = changed.iter().map(|site| sites[*site].name.to_owned());
    migrated.earlier = names.collect();
    let objections = change_all(sites, migration, &changed, parts, before)?;
    match objections.is_empty() {
        true => reopen(sites, before)?,
        false => migrated.objections = objections,
    }
    Ok(migrated)
}

/// BELT-I26: has all servers receive what others have done, and begin an epoch, durably. Returns how many operations were new.
fn begin_ring(
    sites: &mut [Site<'_>],
    migration: &Migration<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<usize, String> {
    let lock = migration.lock();
    let mut applied = 0;
    for _ in 0..ROUNDS_MAX {
        let mut open = lock_all(sites, &lock, before)?;
        let list = one_list(&mut open, before)?;
        let found = rows_of(&mut open, before)?;
        let mut rows = found.clone();
        let counts = apply_all(&mut open, &mut rows, before)?;
        let new: usize = counts.iter().sum();
        applied += new;
        if new > 0 {
            commit_received(open, &found, &rows, before)?;
            continue;
        }
        compare_whole(&mut open, migration.whole, before)?;
        let highest = rows.iter().map(|rows| rows.promised).max();
        let highest = highest.unwrap_or_default();
        let has_begun = |rows: &Rows<Changes>| rows.epoch == highest;
        let epoch = match rows.iter().all(has_begun) {
            true => Epoch {
                number: highest.number + 1,
                server: ServerId(list.members[0]),
            },
            // An earlier run has ended between two COMMITs.
            false => highest,
        };
        let hops = rows.iter().map(|rows| rows.received.max(rows.token.hop));
        let hop = hops.max().unwrap_or_default().next();
        for (one, (found, rows)) in open.iter_mut().zip(found.into_iter().zip(rows)) {
            if rows.epoch != epoch {
                begin_epoch(one, &list, found, rows, epoch, hop, before)?;
            }
        }
        for one in open {
            before("commit epoch");
            commit(one)?;
        }
        return Ok(applied);
    }
    Err(
        "error: global operations still commit, although no middleware was found: look for connections to the servers, and end \
         them"
            .to_owned(),
    )
}

/// What all servers say of the ring.
fn one_list(open: &mut [Open<'_>], before: &mut dyn FnMut(&str)) -> Result<Membership, String> {
    let mut list: Option<Membership> = None;
    for one in open.iter_mut() {
        before("membership");
        let found = membership(&mut one.work.transaction).map_err(error_of(one.name))?;
        let found = found.ok_or_else(|| one.of("the belt is not installed there"))?;
        if *list.get_or_insert_with(|| found.clone()) != found {
            return Err(one.of(
                "its ring has other servers, or other keys belong to them, than in the databases of the others",
            ));
        }
    }
    list.ok_or_else(|| "error: the ring has no server".to_owned())
}

/// The belt's tables of each server.
fn rows_of(
    open: &mut [Open<'_>],
    before: &mut dyn FnMut(&str),
) -> Result<Vec<Rows<Changes>>, String> {
    let mut found = Vec::new();
    for one in open {
        before("rows");
        let rows = one.work.rows(Payloads::All);
        let rows = rows.map_err(|trouble| one.of(trouble))?;
        if rows.epoch != rows.promised {
            return Err(one.of(
                "the removal of a server from the ring has not come to its end: start the middlewares, and repeat anabranch belt \
                 remove-server --lost",
            ));
        }
        found.push(rows);
    }
    Ok(found)
}

/// The transactions that change the schema. Returns what does not fit; then nothing has changed. The sites in `changed` have the
/// new schema.
fn change_all(
    sites: &mut [Site<'_>],
    migration: &Migration<'_>,
    changed: &[usize],
    parts: &mut dyn FnMut(&Left) -> Result<Vec<Part>, Vec<String>>,
    before: &mut dyn FnMut(&str),
) -> Result<Vec<String>, String> {
    let lock = migration.lock();
    let mut open = Vec::new();
    for (number, site) in sites.iter_mut().enumerate() {
        let lock = if changed.contains(&number) { "" } else { &lock };
        open.push(lock_one(site, lock, before)?);
    }
    let list = one_list(&mut open, before)?;
    let rows = rows_of(&mut open, before)?;
    for (one, of) in open.iter().zip(&rows) {
        // The updates of a token that was passed before the epoch are applied everywhere, and are looked at no more.
        if of.epoch != rows[0].epoch || !of.outbox.is_empty() {
            return Err(one.of(
                "an operation has committed although the ring is closed: look for connections to the servers, end them, and repeat this",
            ));
        }
    }
    let is_changed = |number: usize| changed.contains(&number);
    let first = (0..open.len()).find(|number| !is_changed(*number));
    let first = first.ok_or("error: all servers have the new schema: repeat this")?;
    before("tables");
    let tables = identities(&mut open[first])?;
    let mut numbers = Vec::new();
    for (number, one) in open.iter_mut().enumerate() {
        numbers.push(match is_changed(number) {
            true => None,
            false => Some(run_script(one, migration.script, before)?),
        });
    }
    before("tables");
    let after = identities(&mut open[first])?;
    let mut inspections = Vec::new();
    for (one, roles) in open.iter_mut().zip(migration.roles) {
        before("inspect");
        let inspection = inspect_in(&mut one.work.transaction, *roles);
        inspections.push(inspection.map_err(error_of(one.name))?);
    }
    let left = Left {
        empty: empty_tables(&mut open, &inspections[first], before)?,
        inspections,
        before: tables,
        after,
    };
    let parts = match parts(&left) {
        Ok(parts) => parts,
        Err(objections) => return Ok(objections),
    };
    let objections = unlike(&mut open, &parts[first], before)?;
    if !objections.is_empty() {
        return Ok(objections);
    }
    let done = Closed {
        target: migration.closed.target.clone(),
        change: Change::Migrated,
    };
    for (((one, part), rows), drawn) in open.iter_mut().zip(parts).zip(rows).zip(numbers) {
        if let Some(drawn) = drawn {
            install_again(one, part, &list, rows, drawn, &done, before)?;
        }
    }
    for (number, one) in open.into_iter().enumerate() {
        if !is_changed(number) {
            before("commit");
        }
        commit(one)?;
    }
    Ok(Vec::new())
}

/// Takes the belt away, and runs the script as its author would. Returns the last number that an operation has drawn.
fn run_script(
    one: &mut Open<'_>,
    script: &str,
    before: &mut dyn FnMut(&str),
) -> Result<i64, String> {
    before("number");
    let drawn = one.work.transaction.query_one(
        "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM anabranch.number",
        &[],
    );
    let drawn: i64 = drawn.map_err(error_of(one.name))?.get(0);
    let last = numbers_given(one, before)?;
    before("take away");
    one.run(&format!(
        "SET LOCAL client_min_messages = warning; {} RESET client_min_messages",
        install::removal(&[])
    ))?;
    as_author(one)?;
    let identity = "SELECT pg_current_xact_id()::text";
    let of = |one: &mut Open<'_>| -> Result<String, String> {
        let row = one.work.transaction.query_one(identity, &[]);
        Ok(row.map_err(error_of(one.name))?.get(0))
    };
    let transaction = of(one)?;
    before("script");
    one.run(script)?;
    if of(one)? != transaction {
        return Err(one.of(
            "the script has ended its transaction, and what it did until then stays: leave out what begins and ends              transactions, also within procedures",
        ));
    }
    one.run("SET LOCAL ROLE NONE")?;
    one.run(copy::EXACT)?;
    let now = numbers_given(one, before)?;
    for (oid, (name, number)) in &last {
        if now.get(oid).is_some_and(|(_, after)| after != number) {
            return Err(one.of(format!(
                "the script draws or sets numbers of the sequence {name}, which gives other numbers on each server: write the keys                  of rows that it inserts as constants, or insert these rows afterwards through a middleware"
            )));
        }
    }
    Ok(drawn)
}

/// The settings of a connection of the role that installs.
fn as_author(one: &mut Open<'_>) -> Result<(), String> {
    one.run("SET LOCAL session_replication_role = origin; SET LOCAL search_path TO DEFAULT")
}

/// By sequence its name, and the number that it has given last.
fn numbers_given(
    one: &mut Open<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<BTreeMap<u32, (String, Option<i64>)>, String> {
    before("sequences");
    let rows = one.work.transaction.query(
        "SELECT c.oid, c.oid::regclass::text, pg_sequence_last_value(c.oid) FROM pg_class c \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND n.nspname <> 'anabranch'",
        &[],
    );
    let rows = rows.map_err(error_of(one.name))?;
    let numbers = rows
        .iter()
        .map(|row| (row.get(0), (row.get(1), row.get(2))));
    Ok(numbers.collect())
}

/// The tables of a server, by what does not change with their names.
fn identities(one: &mut Open<'_>) -> Result<Vec<Identity>, String> {
    let rows = one.work.transaction.query(
        "SELECT c.oid, n.nspname::text, c.relname::text, a.attnum, a.attname::text, format_type(a.atttypid, NULL) \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid \
         WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'anabranch') \
         AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.oid, a.attnum",
        &[],
    );
    let mut tables: Vec<Identity> = Vec::new();
    for row in rows.map_err(error_of(one.name))? {
        let oid = row.get(0);
        if tables.last().is_none_or(|table| table.oid != oid) {
            tables.push(Identity {
                oid,
                schema: row.get(1),
                name: row.get(2),
                columns: BTreeMap::new(),
            });
        }
        if let Some(table) = tables.last_mut() {
            table.columns.insert(row.get(3), (row.get(4), row.get(5)));
        }
    }
    Ok(tables)
}

/// The tables that have no row on any server.
fn empty_tables(
    open: &mut [Open<'_>],
    inspection: &Inspection,
    before: &mut dyn FnMut(&str),
) -> Result<BTreeSet<(String, String)>, String> {
    let mut empty = BTreeSet::new();
    'tables: for table in &inspection.tables {
        for one in open.iter_mut() {
            before("look");
            let has_none = one.work.transaction.query_one(
                &format!("SELECT NOT EXISTS (SELECT FROM {})", table.path()),
                &[],
            );
            if !has_none.map_err(error_of(one.name))?.get::<_, bool>(0) {
                continue 'tables;
            }
        }
        empty.insert((table.schema.clone(), table.name.clone()));
    }
    Ok(empty)
}

/// BELT-I27: the tables that all servers are to have whole, and do not have alike.
fn unlike(
    open: &mut [Open<'_>],
    part: &Part,
    before: &mut dyn FnMut(&str),
) -> Result<Vec<String>, String> {
    let mut objections = Vec::new();
    for table in part.tables.iter().filter(|of| of.is_whole) {
        let mut first: Option<RowDigest> = None;
        for number in 0..open.len() {
            before("digest");
            let digest = copy::digest(&mut open[number].work.transaction, &table.table);
            let digest = digest.map_err(|error| open[number].of(error))?;
            if *first.get_or_insert(digest) != digest {
                objections.push(format!(
                    "all servers are to have the rows of {}, and those of {} and {} differ: let the script write no values that                      each server has of its own (now(), random())",
                    table.table.title(),
                    open[0].name,
                    open[number].name
                ));
                break;
            }
        }
    }
    Ok(objections)
}

/// Installs the belt again, with the state that it had.
fn install_again(
    one: &mut Open<'_>,
    mut part: Part,
    list: &Membership,
    rows: Rows<Changes>,
    drawn: i64,
    done: &Closed,
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    part.owners.clone_from(&list.owners);
    as_author(one)?;
    before("install");
    one.run(&part.script())?;
    before("close");
    one.run(&done.script())?;
    before("number");
    if drawn > 0 {
        one.run(&format!("SELECT setval('anabranch.number', {drawn})"))?;
    }
    let fresh = one.work.rows(Payloads::None);
    let fresh = fresh.map_err(|trouble| one.of(trouble))?;
    before("state");
    let written = one.work.write(&fresh, &rows);
    written.map_err(|trouble| one.of(trouble))
}
