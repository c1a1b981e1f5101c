//! The schema of a ring changes on all servers, and every row stays where it is.
//!
//! First all servers apply what others have done, and begin a new epoch, under the schema as it was: from then on no operation
//! of the ring before can commit, and nothing is on its way. Then, in one transaction on each server, the belt is taken away,
//! the script runs, and the belt is installed for the tables as they then are, with the state that it had. All of them commit
//! after the last one has come so far, one after the other; each notes the script's name in `anabranch.migrated`, where it stays. So a
//! process may end at any point: a repetition runs the script on the servers without the note, and opens the ring when all have it.
//! Each of these commands holds a lock on all servers ([`claim`]), so that no other one runs.
//!
//! What holds is numbered in `docs/protocols/belt.md`: BELT-I26 and I27.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_protocol::belt::{Epoch, Rows, ServerId};

use super::catalog::Table;
use super::closed::{Change, Closed, Site, closed, error_of, reopen};
use super::copy;
use super::inspect::{Inspection, Roles, inspect_in};
use super::install::{self, Part};
use super::relocate::{
    Membership, Open, apply_all, compare_whole, first_unlike, lock_all, lock_of, lock_one,
    membership, settled_rows,
};
use super::ring::Payloads;
use super::share::{ROUNDS_MAX, begin_epoch, commit, commit_received};
use super::{literal, quoted};
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
    /// Of those of them whose rows belong to the servers by a column, that column's place.
    pub keys: &'m [(Table, usize)],
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
    /// The schemas and names of tables that were there, and whose rows new sequences have numbered: otherwise on each server.
    pub numbered: BTreeSet<(String, String)>,
}

/// What is to be installed on what a script has left.
#[derive(Debug)]
pub struct Fit {
    /// By site.
    pub parts: Vec<Part>,
    /// The tables that must have the same rows on all servers, with the columns that are compared.
    pub alike: Vec<Table>,
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
    /// All have it; some may be closed still.
    Done,
}

/// Keeps other commands of this kind from these servers, as long as the connections last.
///
/// # Errors
/// When one runs, or a database does not answer.
pub fn claim(sites: &mut [Site<'_>]) -> Result<(), String> {
    for site in sites {
        let row = site.client.query_one(
            "SELECT pg_try_advisory_lock(hashtext('anabranch'), hashtext('belt migrate'))",
            &[],
        );
        if !row.map_err(error_of(site.name))?.get::<_, bool>(0) {
            return Err(format!(
                "error: {}: another anabranch belt migrate runs: wait for its end",
                site.name
            ));
        }
    }
    Ok(())
}

/// Tells how far a change is that may have begun. What another script has begun, and no server has, does not count.
///
/// # Errors
/// When a database does not say, or another change has begun.
pub fn standing(sites: &mut [Site<'_>], wanted: &Closed) -> Result<Standing, String> {
    let mut changed = Vec::new();
    for (number, site) in sites.iter_mut().enumerate() {
        let found = closed(site.client).map_err(error_of(site.name))?;
        match found {
            Some(found)
                if matches!(found.change, Change::Gather | Change::Join | Change::Leave) =>
            {
                return Err(other_change(site.name, &found.target));
            }
            Some(found) if found.change == Change::Migrated && found.target != wanted.target => {
                return Err(other_change(site.name, &found.target));
            }
            _ => {}
        }
        let name = last_script(site.client).map_err(error_of(site.name))?;
        if name.as_deref() == Some(&wanted.target) {
            changed.push(number);
        }
    }
    Ok(match changed.len() {
        0 => Standing::NotBegun,
        all if all == sites.len() => Standing::Done,
        _ => Standing::Between(changed),
    })
}

/// The name of the script that a server has run last.
fn last_script(
    client: &mut impl postgres::GenericClient,
) -> Result<Option<String>, postgres::Error> {
    let row = client.query_one("SELECT to_regclass('anabranch.migrated') IS NOT NULL", &[])?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_opt("SELECT script FROM anabranch.migrated", &[])?;
    Ok(row.map(|row| row.get(0)))
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

/// Closes all servers; those that another script has closed, and not changed, for this one. The caller has a [`claim`].
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
        match found {
            Some(found) if found.change == Change::Migrated => {}
            Some(found) if found.change == Change::Migrate && found.target != wanted.target => {
                before("close");
                let named = site
                    .client
                    .execute("UPDATE anabranch.closed SET target = $1", &[&wanted.target]);
                named.map_err(error_of(site.name))?;
            }
            _ => super::closed::close(std::slice::from_mut(site), wanted, before)?,
        }
    }
    Ok(())
}

/// Changes the schema on all servers: all sites are [closed](close), and they are all members of the ring, in the order of their
/// places. Afterwards they are open, unless something does not fit: then nothing has changed, and they are closed.
///
/// `fit` tells what is to be installed on what the script has left, or what does not fit. `before` is called before
/// each statement.
///
/// # Errors
/// When the script fails on a server, what it leaves differs between servers, a lock is not had within 10 s, or a database is
/// lost: the change can then be repeated.
pub fn migrate(
    sites: &mut [Site<'_>],
    migration: &Migration<'_>,
    fit: &mut dyn FnMut(&Left) -> Result<Fit, Vec<String>>,
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
    let objections = change_all(sites, migration, &changed, fit, before)?;
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
    let all = open.iter_mut();
    all.map(|one| settled_rows(one, before)).collect()
}

/// The transactions that change the schema. Returns what does not fit; then nothing has changed. The sites in `changed` have the
/// new schema.
fn change_all(
    sites: &mut [Site<'_>],
    migration: &Migration<'_>,
    changed: &[usize],
    fit: &mut dyn FnMut(&Left) -> Result<Fit, Vec<String>>,
    before: &mut dyn FnMut(&str),
) -> Result<Vec<String>, String> {
    let lock = migration.lock();
    let mut open = Vec::new();
    for (number, site) in sites.iter_mut().enumerate() {
        let lock = if changed.contains(&number) { "" } else { &lock };
        open.push(lock_one(site, lock, before)?);
    }
    for (number, one) in open.iter_mut().enumerate() {
        before("marks");
        let name = last_script(&mut one.work.transaction).map_err(error_of(one.name))?;
        let has_run = name.as_deref() == Some(&migration.closed.target);
        if has_run != changed.contains(&number) {
            return Err(one.of("another command has changed it meanwhile: repeat this"));
        }
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
    before("sequences");
    let sequences = numbers_given(&mut open[first], before)?;
    let mut numbers = Vec::new();
    for (number, one) in open.iter_mut().enumerate() {
        numbers.push(match is_changed(number) {
            true => None,
            false => Some(run_script(one, migration, before)?),
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
        numbered: newly_numbered(&mut open[first], &sequences, &tables)?,
        inspections,
        before: tables,
        after,
    };
    let fit = match fit(&left) {
        Ok(fit) => fit,
        Err(objections) => return Ok(objections),
    };
    for (number, (one, part)) in open.iter_mut().zip(&fit.parts).enumerate() {
        if is_changed(number) {
            check_fits(one, part)?;
        }
    }
    let objections = unlike(&mut open, &fit.alike, before)?;
    if !objections.is_empty() {
        return Ok(objections);
    }
    let done = Closed {
        target: migration.closed.target.clone(),
        change: Change::Migrated,
    };
    for (((one, part), rows), drawn) in open.iter_mut().zip(fit.parts).zip(rows).zip(numbers) {
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
    migration: &Migration<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<i64, String> {
    before("number");
    let drawn = one.work.transaction.query_one(
        "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM anabranch.number",
        &[],
    );
    let drawn: i64 = drawn.map_err(error_of(one.name))?.get(0);
    let last = numbers_given(one, before)?;
    let mut keys = Vec::new();
    for (number, (table, column)) in migration.keys.iter().enumerate() {
        before("keys");
        keys.push(Key::note(one, table, *column, number)?);
    }
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
    one.run(migration.script)?;
    // A deferred one would fail at COMMIT, behind that of another server.
    one.run("SET CONSTRAINTS ALL IMMEDIATE")?;
    if of(one)? != transaction {
        return Err(one.of(
            "the script has ended its transaction, and what it did until then stays: leave out what begins and ends transactions",
        ));
    }
    one.run("RESET ROLE; RESET SESSION AUTHORIZATION")?;
    one.run(copy::EXACT)?;
    for key in &keys {
        before("keys");
        key.check(one)?;
    }
    let now = numbers_given(one, before)?;
    for (oid, (name, number)) in &last {
        if now.get(oid).is_some_and(|(_, after)| after != number) {
            return Err(one.of(format!(
                "the script draws or sets numbers of the sequence {name}, which gives other numbers on each server: write the keys of rows that it inserts as constants, or insert these rows afterwards through a middleware"
            )));
        }
    }
    Ok(drawn)
}

/// The column by which the rows of a table belong to the servers.
struct Key<'t> {
    table: &'t Table,
    name: &'t str,
    /// The table and the column, whatever their names are.
    numbers: (u32, i16),
    /// The temporary table of the values that it had, and how often.
    values: String,
}

impl<'t> Key<'t> {
    /// Notes the values of the column, before the script.
    fn note(
        one: &mut Open<'_>,
        table: &'t Table,
        column: usize,
        number: usize,
    ) -> Result<Key<'t>, String> {
        let name = table.columns[column].name.as_str();
        let row = one.work.transaction.query_one(
            "SELECT a.attrelid, a.attnum FROM pg_attribute a WHERE a.attrelid = ($1::text)::regclass AND a.attname = $2",
            &[&table.path(), &name],
        );
        let row = row.map_err(error_of(one.name))?;
        let values = format!("pg_temp.anabranch_keys_{number}");
        one.run(&format!(
            "CREATE TEMP TABLE anabranch_keys_{number} ON COMMIT DROP AS \
             SELECT {}::text AS key, count(*) AS rows FROM ONLY {} GROUP BY 1",
            quoted(name),
            table.path()
        ))?;
        Ok(Key {
            table,
            name,
            numbers: (row.get(0), row.get(1)),
            values,
        })
    }

    /// BELT-I27: behind the script the rows have the values that they had. Rows may be gone.
    fn check(&self, one: &mut Open<'_>) -> Result<(), String> {
        let now = one.work.transaction.query_opt(
            "SELECT format('%I.%I', n.nspname, c.relname), quote_ident(a.attname) FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid \
             WHERE c.oid = $1 AND a.attnum = $2 AND NOT a.attisdropped",
            &[&self.numbers.0, &self.numbers.1],
        );
        let Some(row) = now.map_err(error_of(one.name))? else {
            return Ok(());
        };
        let (path, key): (String, String) = (row.get(0), row.get(1));
        let other = one.work.transaction.query_one(
            &format!(
                "SELECT EXISTS (SELECT FROM (SELECT {key}::text AS key, count(*) AS rows FROM ONLY {path} GROUP BY 1) a \
                 LEFT JOIN {} b ON b.key IS NOT DISTINCT FROM a.key WHERE b.rows IS NULL OR a.rows > b.rows)",
                self.values
            ),
            &[],
        );
        if other.map_err(error_of(one.name))?.get::<_, bool>(0) {
            return Err(one.of(format!(
                "the script inserts rows into {}, or changes their {}, by which they belong to the servers: they would be on the \
                 wrong ones. Insert such rows afterwards through a middleware; to change keys, gather all rows on one server first",
                self.table.title(),
                self.name
            )));
        }
        Ok(())
    }
}

/// The settings of a connection of the role that installs.
fn as_author(one: &mut Open<'_>) -> Result<(), String> {
    let settings = [
        "search_path",
        "row_security",
        "DateStyle",
        "IntervalStyle",
        "extra_float_digits",
        "bytea_output",
        "xmloption",
        "lc_monetary",
        "TimeZone",
    ];
    let reset = settings.map(|name| format!("SET LOCAL {name} TO DEFAULT"));
    one.run(&format!(
        "SET LOCAL session_replication_role = origin; SET LOCAL standard_conforming_strings = on; {}",
        reset.join("; ")
    ))
}

/// The tables of before whose rows sequences number that were not there before.
fn newly_numbered(
    one: &mut Open<'_>,
    sequences: &BTreeMap<u32, (String, Option<i64>)>,
    tables: &[Identity],
) -> Result<BTreeSet<(String, String)>, String> {
    let rows = one.work.transaction.query(
        "SELECT d.objid, d.refobjid, n.nspname::text, c.relname::text FROM pg_depend d JOIN pg_class s ON s.oid = d.objid \
         JOIN pg_class c ON c.oid = d.refobjid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') \
         AND CASE s.relkind WHEN 'S' THEN pg_sequence_last_value(s.oid) END IS NOT NULL",
        &[],
    );
    let rows = rows.map_err(error_of(one.name))?;
    let new = rows.iter().filter(|row| {
        let (sequence, table): (u32, u32) = (row.get(0), row.get(1));
        !sequences.contains_key(&sequence) && tables.iter().any(|of| of.oid == table)
    });
    Ok(new.map(|row| (row.get(2), row.get(3))).collect())
}

/// Whether a server that an earlier run has changed has what this run would install.
fn check_fits(one: &mut Open<'_>, part: &Part) -> Result<(), String> {
    let transaction = &mut one.work.transaction;
    let captures = install::captures_as(transaction, part).map_err(error_of(one.name))?;
    let types = install::types(transaction).map_err(error_of(one.name))?;
    match captures && types == part.types {
        true => Ok(()),
        false => Err(one.of(
            "an earlier run has changed it for another application, or other settings: repeat this with the files, the weights and \
             the settings of that run",
        )),
    }
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

/// BELT-I27: of the tables that must be alike on all servers, those that are not.
fn unlike(
    open: &mut [Open<'_>],
    tables: &[Table],
    before: &mut dyn FnMut(&str),
) -> Result<Vec<String>, String> {
    let mut objections = Vec::new();
    for table in tables {
        if let Some(other) = first_unlike(open, table, before)? {
            objections.push(format!(
                "all servers are to have the rows of {}, and those of {} and {} differ: the script may write no values that each \
                 server has of its own, such as now(), random(), or what it reads of shared-out tables",
                table.title(),
                open[0].name,
                open[other].name
            ));
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
    before("note");
    one.run(&format!(
        "CREATE TABLE anabranch.migrated (script text NOT NULL); INSERT INTO anabranch.migrated VALUES ({})",
        literal(&done.target)
    ))?;
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
