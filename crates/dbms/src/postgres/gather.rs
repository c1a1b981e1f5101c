//! Takes the belt away from a ring, with all rows on one server.
//!
//! A table that the servers have *shared out* has the newest row of each key on one server alone, the key's owner. Its
//! other copies are those of the installation. [`gather`] replaces them on one server, the target, by the owners' rows, so that
//! the target has the whole database, as if there had been no other server.
//!
//! 1. *Close* ([`close`]). Every server gets the table `anabranch.closed`, after which no middleware begins to serve. A middleware
//!    binds its ports first and looks for the table then; the caller looks at the ports after `close`. So one of both
//!    finds the other.
//! 2. *Gather*. A transaction on each server locks out operations and writes. Each server applies the operations of others
//!    that it has not received yet, in their order: from then on the tables that all servers have are equal, which is
//!    compared, and an owner's row is right in all of its columns. Then the target deletes the rows whose keys others own,
//!    gets theirs, and is compared with what was sent. The target's transaction also takes its belt away, and leaves
//!    `anabranch.gathered`, which says that all this was done. It commits first.
//! 3. *Finish* ([`finish`]). The others take their belt away, and at last the target drops `anabranch.gathered`.
//!
//! A process that ends before the target's COMMIT has changed nothing but `anabranch.closed`; after it, [`finish`] alone is
//! left. So it can begin anew at any point. What holds is numbered in `docs/protocols/belt.md`: BELT-I13 to I15.

use std::collections::BTreeMap;

use anabranch_protocol::belt::{Epoch, ServerId, Update};
use postgres::{Client, IsolationLevel};

use super::catalog::{self, Sequence, Table};
use super::copy::{self, RowDigest};
use super::ring::{APPLIER, Payloads, Work};
use super::{explain, install, literal, quoted};
use crate::belt::Changes;

/// How many rows one statement deletes.
const DELETED_MAX: usize = 10_000;

/// How long a middleware's connection may last after the middleware has ended.
const ENDS_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// A server of a ring.
pub struct Site<'c> {
    /// Its place among the servers.
    pub place: u16,
    /// Its name.
    pub name: &'c str,
    /// A connection of the role that installs.
    pub client: &'c mut Client,
}

/// Which server has the newest copy of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The one that the value of this column is routed to, by its place among the table's columns.
    ByColumn(usize),
    /// Each server that has the row: rows are only inserted.
    Inserted,
}

/// A table whose rows the servers have shared out.
#[derive(Clone, Debug)]
pub struct SharedTable {
    /// The table.
    pub table: Table,
    /// How a row's owner is found.
    pub owner: Owner,
}

/// The place of the server that owns a key, given as text, of the shared table with this number.
pub type OwnerOf<'p> = dyn Fn(usize, Option<&str>) -> Result<u16, String> + 'p;

/// What is gathered.
pub struct Plan<'p> {
    /// The tables that all servers have, which have to be equal on all of them.
    pub whole: Vec<Table>,
    /// The tables that the servers have shared out.
    pub shared: Vec<SharedTable>,
    /// Tables that are no part of the ring: the target's rows stay.
    pub others: Vec<Table>,
    /// Tells which server owns a key.
    pub owner_of: Box<OwnerOf<'p>>,
    /// The places of servers that were removed from the ring. Of rows that they own, the target's copy stays.
    pub removed: Vec<u16>,
}

impl std::fmt::Debug for Site<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("place", &self.place)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").finish_non_exhaustive()
    }
}

/// What was gathered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// How many operations of other servers the target had not received before.
    pub applied: usize,
    /// For each shared table its name, and the numbers of rows by their owners' places. Those of the target were there.
    pub tables: Vec<(String, BTreeMap<u16, u64>)>,
    /// What deserves to be known.
    pub remarks: Vec<String>,
}

/// How far the removal of a ring is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The belt is installed.
    Installed {
        /// The name of the server that a gathering has begun for, if one has.
        closed_for: Option<String>,
    },
    /// All rows are on this server, and its belt is taken away; other servers may still have theirs.
    Gathered,
    /// Nothing is installed.
    Removed,
}

fn error_of<'n>(name: &'n str) -> impl Fn(postgres::Error) -> String + 'n {
    move |error| format!("error: {name}: {}", explain(&error))
}

/// Tells how far the removal is on one server.
///
/// # Errors
/// When the database does not answer.
pub fn progress(client: &mut Client) -> Result<Progress, postgres::Error> {
    let row = client.query_one(
        "SELECT to_regclass('anabranch.hold') IS NOT NULL, to_regclass('anabranch.closed') IS NOT NULL, \
         to_regclass('anabranch.gathered') IS NOT NULL",
        &[],
    )?;
    Ok(match (row.get(0), row.get(1), row.get(2)) {
        (_, _, true) => Progress::Gathered,
        (false, _, false) => Progress::Removed,
        (true, is_closed, false) => {
            let found = match is_closed {
                true => client.query_opt("SELECT target FROM anabranch.closed", &[])?,
                false => None,
            };
            Progress::Installed {
                closed_for: found.map(|row| row.get(0)),
            }
        }
    })
}

/// Has no middleware begin to serve any more. `target` is the name of the server that rows are gathered on.
///
/// # Errors
/// When a database refuses it.
pub fn close(
    sites: &mut [Site<'_>],
    target: &str,
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    for site in sites {
        before("close");
        // Also for the middleware, which looks at it.
        let closed = format!(
            "BEGIN; CREATE TABLE IF NOT EXISTS anabranch.closed (target text NOT NULL); DELETE FROM anabranch.closed; \
             INSERT INTO anabranch.closed VALUES ({}); GRANT SELECT ON anabranch.closed TO PUBLIC; COMMIT",
            literal(target)
        );
        let done = site.client.batch_execute(&closed);
        done.map_err(error_of(site.name))?;
    }
    Ok(())
}

/// Lets middlewares serve again.
///
/// # Errors
/// When a database refuses it.
pub fn reopen(sites: &mut [Site<'_>]) -> Result<(), String> {
    for site in sites {
        let done = site
            .client
            .batch_execute("DROP TABLE IF EXISTS anabranch.closed");
        done.map_err(error_of(site.name))?;
    }
    Ok(())
}

/// The name of the server that a gathering has begun for, if one has: no middleware may serve then.
///
/// # Errors
/// When the database does not answer.
pub fn closed(client: &mut Client) -> Result<Option<String>, postgres::Error> {
    Ok(match progress(client)? {
        Progress::Installed { closed_for } => closed_for,
        Progress::Gathered | Progress::Removed => None,
    })
}

/// The first of these servers whose database a middleware is connected to.
///
/// # Errors
/// When a database does not say.
pub fn served<'c>(sites: &mut [Site<'c>]) -> Result<Option<&'c str>, String> {
    for site in sites {
        let begun = std::time::Instant::now();
        loop {
            let row = site.client.query_one(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1), \
                 pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_user::text",
                &[&APPLIER],
            );
            let row = row.map_err(error_of(site.name))?;
            if !row.get::<_, bool>(1) {
                let role: String = row.get(2);
                return Err(format!(
                    "error: {}: the role {role} may not see whether a middleware is connected; as superuser: GRANT \
                     pg_read_all_stats TO {}",
                    site.name,
                    quoted(&role)
                ));
            }
            if !row.get::<_, bool>(0) {
                break;
            }
            if begun.elapsed() > ENDS_WITHIN {
                return Ok(Some(site.name));
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    Ok(None)
}

/// A server's transaction.
struct Open<'c> {
    place: u16,
    name: &'c str,
    work: Work<'c>,
}

impl Open<'_> {
    fn run(&mut self, statements: &str) -> Result<(), String> {
        let done = self.work.transaction.batch_execute(statements);
        done.map_err(error_of(self.name))
    }

    fn of(&self, error: impl std::fmt::Display) -> String {
        format!("error: {}: {error}", self.name)
    }
}

/// Gathers all rows on the site with this number, takes the belt away from it, and from the others. All sites are
/// [closed](close), and they are all that are members of the ring. `before` is called before each statement.
///
/// # Errors
/// When the servers are not what the plan says, a lock is not had within 10 s, or a database refuses a statement or is
/// lost. If the target has not committed, nothing is changed but that the sites are closed.
pub fn gather(
    sites: &mut [Site<'_>],
    target: usize,
    plan: &Plan<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<Gathered, String> {
    let gathered = gather_on(sites, target, plan, before)?;
    finish(sites, target, before)?;
    Ok(gathered)
}

/// The transactions of a gathering, up to the COMMIT of the target's.
fn gather_on(
    sites: &mut [Site<'_>],
    target: usize,
    plan: &Plan<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<Gathered, String> {
    let shared = plan.shared.iter().map(|shared| &shared.table);
    let locked: Vec<String> = plan.whole.iter().chain(shared).map(Table::path).collect();
    let lock = match locked.is_empty() {
        true => String::new(),
        false => format!(
            "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE",
            locked.join(", ")
        ),
    };
    let mut open = Vec::new();
    for site in sites.iter_mut() {
        before("begin");
        let begun = site.client.build_transaction();
        let begun = begun.isolation_level(IsolationLevel::ReadCommitted).start();
        let mut one = Open {
            place: site.place,
            name: site.name,
            work: Work::new(begun.map_err(error_of(site.name))?),
        };
        before("settings");
        one.run(copy::EXACT)?;
        before("lock");
        // Operations of a middleware that has ended may still run. Each statement after this one sees what they have done.
        one.run("LOCK TABLE anabranch.fence IN EXCLUSIVE MODE")
            .map_err(|error| {
                format!("{error}; an operation still runs there: wait for its end, or end it")
            })?;
        before("lock");
        one.run(&lock).map_err(|error| {
            format!("{error}; another connection is writing there: wait for its end, or end it")
        })?;
        open.push(one);
    }
    let mut gathered = Gathered {
        applied: receive_all(&mut open, target, before)?,
        ..Gathered::default()
    };
    compare_whole(&mut open, plan, before)?;
    for table in &plan.others {
        before("digest");
        let mut digests = Vec::new();
        for one in &mut open {
            let digest = copy::digest(&mut one.work.transaction, table);
            digests.push(digest.map_err(|error| one.of(error))?);
        }
        for (one, digest) in open.iter().zip(&digests) {
            if *digest != digests[target] {
                gathered.remarks.push(format!(
                    "{} is no part of the ring, and its rows on {} and {} differ: those of {1} stay",
                    table.title(),
                    open[target].name,
                    one.name
                ));
            }
        }
    }
    let last = last_numbers(&mut open, target, before)?;
    let mut to = open.remove(target);
    for (number, shared) in plan.shared.iter().enumerate() {
        let moved = match shared.owner {
            Owner::ByColumn(column) => {
                let key = (number, column);
                gather_by_column(&mut to, &mut open, plan, key, before)?
            }
            Owner::Inserted => gather_inserted(&mut to, &mut open, &shared.table, before)?,
        };
        gathered.tables.push((shared.table.title(), moved));
    }
    gathered
        .remarks
        .extend(check_references(&mut to, plan, before)?);
    let last = raised(&mut to, last, before)?;
    before("remove");
    let script = removal_of(&mut to, &last)?;
    to.run(&format!(
        "{script}CREATE SCHEMA anabranch; CREATE TABLE anabranch.gathered ();"
    ))?;
    before("commit");
    let name = to.name;
    let done = to.work.transaction.commit();
    done.map_err(error_of(name))?;
    // What the others have applied is in the target: their transactions need not commit.
    Ok(gathered)
}

/// Ends a gathering whose target has committed: takes the belt away from the other servers, and then the note of it.
///
/// # Errors
/// When a database refuses it: it can be run again.
pub fn finish(
    sites: &mut [Site<'_>],
    target: usize,
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let mut highest: BTreeMap<String, (Sequence, i64)> = BTreeMap::new();
    for site in sites.iter_mut() {
        before("sequences");
        let sequences = catalog::sequences(site.client).map_err(error_of(site.name))?;
        merge(&mut highest, sequences);
    }
    for (number, site) in sites.iter_mut().enumerate() {
        if number == target {
            continue;
        }
        before("remove");
        let begun = site.client.transaction();
        let mut one = Open {
            place: site.place,
            name: site.name,
            work: Work::new(begun.map_err(error_of(site.name))?),
        };
        one.run("SET LOCAL lock_timeout = '10s'")?;
        if !install::is_installed(&mut one.work.transaction).map_err(error_of(site.name))? {
            continue;
        }
        let script = removal_of(&mut one, &highest)?;
        one.run(&script)?;
        before("commit");
        let done = one.work.transaction.commit();
        done.map_err(error_of(site.name))?;
    }
    before("forget");
    let site = &mut sites[target];
    let done = site
        .client
        .batch_execute("DROP SCHEMA IF EXISTS anabranch CASCADE");
    done.map_err(error_of(site.name))
}

/// Has each server apply the operations of others that it has not received. Returns how many the target had not.
fn receive_all(
    open: &mut [Open<'_>],
    target: usize,
    before: &mut dyn FnMut(&str),
) -> Result<usize, String> {
    let mut standings = Vec::new();
    for one in open.iter_mut() {
        before("rows");
        let rows = one.work.rows(Payloads::All);
        standings.push(rows.map_err(|trouble| one.of(trouble))?);
    }
    let epochs: Vec<(Epoch, Epoch)> = standings.iter().map(|s| (s.epoch, s.promised)).collect();
    if let Some(at) = epochs
        .iter()
        .position(|(epoch, promised)| *epoch != epochs[0].0 || epoch != promised)
    {
        return Err(format!(
            "error: {}: the removal of a server from the ring has not come to its end: start the middlewares, and repeat \
             anabranch belt remove-server",
            open[at].name
        ));
    }
    let places: Vec<ServerId> = open.iter().map(|one| ServerId(one.place)).collect();
    for (one, standing) in open.iter().zip(&standings) {
        if standing.members != places || standing.server != ServerId(one.place) {
            return Err(one.of("its ring has other members than the servers that were reached"));
        }
    }
    let mut updates: BTreeMap<_, Update<Changes>> = BTreeMap::new();
    for standing in &standings {
        let own = standing.outbox.values();
        for update in own.chain(&standing.token.updates) {
            updates.insert(update.place(), update.clone());
        }
    }
    let mut applied = 0;
    for (number, (one, standing)) in open.iter_mut().zip(&standings).enumerate() {
        for update in updates.values() {
            let position = standing.applied.get(&update.origin);
            let is_new = position.is_none_or(|at| *at < update.sequence);
            if update.origin == standing.server || !is_new {
                continue;
            }
            before("apply");
            let done = one.work.apply(update);
            done.map_err(|trouble| one.of(trouble))?;
            applied += usize::from(number == target);
        }
    }
    Ok(applied)
}

/// BELT-I13: after all operations are applied, all servers have the same rows of a whole table.
fn compare_whole(
    open: &mut [Open<'_>],
    plan: &Plan<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    for table in &plan.whole {
        let mut first: Option<RowDigest> = None;
        for number in 0..open.len() {
            before("digest");
            let digest = copy::digest(&mut open[number].work.transaction, table);
            let digest = digest.map_err(|error| open[number].of(error))?;
            if *first.get_or_insert(digest) != digest {
                return Err(format!(
                    "error: the rows of {title} on {} and {} differ, although all servers have all of them: something has \
                     written there past the belt. Make them equal (pg_dump --data-only --table={title}), and repeat this",
                    open[0].name,
                    open[number].name,
                    title = table.title()
                ));
            }
        }
    }
    Ok(())
}

/// Replaces, on the target, the rows of a shared table that other servers own by theirs. Returns the numbers of rows by
/// owner.
fn gather_by_column(
    to: &mut Open<'_>,
    others: &mut [Open<'_>],
    plan: &Plan<'_>,
    (number, column): (usize, usize),
    before: &mut dyn FnMut(&str),
) -> Result<BTreeMap<u16, u64>, String> {
    let table = &plan.shared[number].table;
    let title = table.title();
    let key = format!("t.{}", quoted(&table.columns[column].name));
    let owner = |values: &[Option<String>]| (plan.owner_of)(number, values[0].as_deref());
    let stays = |owner: u16| owner == to.place || plan.removed.contains(&owner);
    let mut expected: BTreeMap<u16, RowDigest> = BTreeMap::new();
    let mut foreign: Vec<String> = Vec::new();
    before("read");
    let read = copy::read(
        &mut to.work.transaction,
        table,
        &[&key, "t.ctid"],
        |values, line| {
            let owner = owner(values)?;
            match stays(owner) {
                true => expected.entry(owner).or_default().add(line),
                false => foreign.extend(values[1].clone()),
            }
            Ok(())
        },
    );
    read.map_err(|error| format!("error: {}: {title}: {error}", to.name))?;
    for rows in foreign.chunks(DELETED_MAX) {
        before("delete");
        let statement = format!(
            "DELETE FROM ONLY {} WHERE ctid = ANY (($1::text[])::tid[])",
            table.path()
        );
        let deleted = to.work.transaction.execute(&statement, &[&rows]);
        let deleted = deleted.map_err(error_of(to.name))?;
        if deleted != rows.len() as u64 {
            return Err(to.of(format!(
                "{title}: {deleted} of {} rows were deleted: its rules change what is deleted",
                rows.len()
            )));
        }
    }
    for from in others.iter_mut() {
        let mut sent = RowDigest::default();
        before("copy");
        let done = copy::write(&mut to.work.transaction, table, &table.path(), |put| {
            copy::read(
                &mut from.work.transaction,
                table,
                &[&key],
                |values, line| {
                    if owner(values)? == from.place {
                        sent.add(line);
                        put(line)?;
                    }
                    Ok(())
                },
            )
        });
        done.map_err(|error| {
            format!(
                "error: {title} cannot be copied from {} to {}: {error}",
                from.name, to.name
            )
        })?;
        if sent.count > 0 {
            expected.insert(from.place, sent);
        }
    }
    // BELT-I14: each row of an owner is there, and no other.
    let mut found: BTreeMap<u16, RowDigest> = BTreeMap::new();
    before("compare");
    let read = copy::read(&mut to.work.transaction, table, &[&key], |values, line| {
        found.entry(owner(values)?).or_default().add(line);
        Ok(())
    });
    read.map_err(|error| format!("error: {}: {title}: {error}", to.name))?;
    if found != expected {
        return Err(to.of(format!(
            "{title}: its rows are not those that their servers have: the databases write values in different ways"
        )));
    }
    Ok(counts(&found))
}

fn counts(digests: &BTreeMap<u16, RowDigest>) -> BTreeMap<u16, u64> {
    let counts = digests.iter().map(|(place, of)| (*place, of.count));
    counts.collect()
}

/// Adds, on the target, the rows that other servers have inserted into a table whose rows never change. Returns the
/// numbers of rows by server.
fn gather_inserted(
    to: &mut Open<'_>,
    others: &mut [Open<'_>],
    table: &Table,
    before: &mut dyn FnMut(&str),
) -> Result<BTreeMap<u16, u64>, String> {
    let title = table.title();
    let path = table.path();
    before("digest");
    let own = copy::digest(&mut to.work.transaction, table).map_err(|error| to.of(error))?;
    let mut moved = BTreeMap::from([(to.place, own.count)]);
    let on = |row: &str| {
        let columns: Vec<String> = copy::stored(table).map(|c| format!("{row}.{c}")).collect();
        columns.join(", ")
    };
    let columns: Vec<String> = copy::stored(table).collect();
    let same: Vec<String> = table
        .key_columns()
        .map(|column| format!("s.{0} = t.{0}", quoted(&column.name)))
        .collect();
    let same = same.join(" AND ");
    for from in others.iter_mut() {
        before("stage");
        to.run(&format!(
            "CREATE TEMPORARY TABLE anabranch_rows (LIKE {path})"
        ))?;
        before("copy");
        let staged = "pg_temp.anabranch_rows";
        let done = copy::write(&mut to.work.transaction, table, staged, |put| {
            copy::read(&mut from.work.transaction, table, &[], |_, line| put(line))
        });
        done.map_err(|error| {
            format!(
                "error: {title} cannot be copied from {} to {}: {error}",
                from.name, to.name
            )
        })?;
        before("compare");
        let differ = to.work.transaction.query_one(
            &format!(
                "SELECT count(*) FROM {staged} s JOIN ONLY {path} t ON {same} WHERE ROW({})::text <> ROW({})::text",
                on("s"),
                on("t")
            ),
            &[],
        );
        let differ: i64 = differ.map_err(error_of(to.name))?.get(0);
        if differ > 0 {
            return Err(format!(
                "error: {differ} rows of {title} on {} have a key that {} has with other values, and no column tells which \
                 are right: make them equal, and repeat this",
                from.name, to.name
            ));
        }
        before("insert");
        let inserted = to.work.transaction.execute(
            &format!(
                "INSERT INTO {path} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {staged} s \
                 WHERE NOT EXISTS (SELECT FROM ONLY {path} t WHERE {same})",
                columns.join(", "),
                on("s")
            ),
            &[],
        );
        let inserted = inserted.map_err(error_of(to.name))?;
        moved.insert(from.place, inserted);
        before("unstage");
        to.run(&format!("DROP TABLE {staged}"))?;
    }
    Ok(moved)
}

/// Foreign keys were not checked while rows came. Rows that refer to none are an error, unless their parents went with a
/// server that was removed.
fn check_references(
    to: &mut Open<'_>,
    plan: &Plan<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<Vec<String>, String> {
    before("references");
    let keys = to.work.transaction.query(
        "SELECT k.conname::text, k.conrelid::regclass::text, k.confrelid::regclass::text, \
         ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(number, at) JOIN pg_attribute a \
         ON a.attrelid = k.conrelid AND a.attnum = u.number ORDER BY u.at), \
         ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(number, at) JOIN pg_attribute a \
         ON a.attrelid = k.confrelid AND a.attnum = u.number ORDER BY u.at) \
         FROM pg_constraint k WHERE k.contype = 'f' AND k.convalidated AND k.conparentid = 0 ORDER BY 2, 1",
        &[],
    );
    let mut remarks = Vec::new();
    for row in keys.map_err(error_of(to.name))? {
        let (name, child, parent): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let (columns, parent_columns): (Vec<String>, Vec<String>) = (row.get(3), row.get(4));
        let given: Vec<String> = columns
            .iter()
            .map(|column| format!("c.{} IS NOT NULL", quoted(column)))
            .collect();
        let same: Vec<String> = columns
            .iter()
            .zip(&parent_columns)
            .map(|(column, parent)| format!("p.{} = c.{}", quoted(parent), quoted(column)))
            .collect();
        before("references");
        let orphans = to.work.transaction.query_one(
            &format!(
                "SELECT count(*) FROM {child} c WHERE {} AND NOT EXISTS (SELECT FROM {parent} p WHERE {})",
                given.join(" AND "),
                same.join(" AND ")
            ),
            &[],
        );
        let orphans: i64 = orphans.map_err(error_of(to.name))?.get(0);
        if orphans == 0 {
            continue;
        }
        let what = format!("{orphans} rows of {child} refer to no row of {parent} ({name})");
        if plan.removed.is_empty() {
            return Err(to.of(format!("{what}: the servers' rows do not fit together")));
        }
        remarks.push(format!("{what}, as the removed server had them"));
    }
    Ok(remarks)
}

fn merge(highest: &mut BTreeMap<String, (Sequence, i64)>, sequences: Vec<Sequence>) {
    for sequence in sequences {
        let last = sequence.last.unwrap_or(0);
        let entry = highest.entry(sequence.path()).or_insert((sequence, last));
        entry.1 = entry.1.max(last);
    }
}

/// By sequence the highest number that any server has given.
fn last_numbers(
    open: &mut [Open<'_>],
    target: usize,
    before: &mut dyn FnMut(&str),
) -> Result<BTreeMap<String, (Sequence, i64)>, String> {
    let mut highest = BTreeMap::new();
    // The target's first: its owners are those that are looked at.
    let order = std::iter::once(target).chain((0..open.len()).filter(|at| *at != target));
    for at in order {
        before("sequences");
        let one = &mut open[at];
        let sequences = catalog::sequences(&mut one.work.transaction);
        merge(&mut highest, sequences.map_err(error_of(one.name))?);
    }
    Ok(highest)
}

/// The same, and not below what is in the sequence's column: the server that gave a number may have been removed.
fn raised(
    to: &mut Open<'_>,
    mut last: BTreeMap<String, (Sequence, i64)>,
    before: &mut dyn FnMut(&str),
) -> Result<BTreeMap<String, (Sequence, i64)>, String> {
    for (sequence, number) in last.values_mut() {
        let Some((schema, table, column)) = &sequence.owner else {
            continue;
        };
        before("sequences");
        let highest = to.work.transaction.query_one(
            &format!(
                "SELECT max({})::text FROM {}.{}",
                quoted(column),
                quoted(schema),
                quoted(table)
            ),
            &[],
        );
        let highest: Option<String> = highest.map_err(error_of(to.name))?.get(0);
        // A sequence may be part of a text.
        let highest = highest.and_then(|text| text.parse().ok());
        *number = highest.unwrap_or(0).max(*number);
    }
    Ok(last)
}

/// The statements that take a server's belt away.
fn removal_of(
    of: &mut Open<'_>,
    last: &BTreeMap<String, (Sequence, i64)>,
) -> Result<String, String> {
    let transaction = &mut of.work.transaction;
    let slots = transaction.query_one("SELECT slots::bigint FROM anabranch.server", &[]);
    let slots: i64 = slots.map_err(error_of(of.name))?.get(0);
    let here = catalog::sequences(transaction).map_err(error_of(of.name))?;
    let strided = last.iter().filter(|(path, _)| {
        let mut same = here.iter().filter(|sequence| sequence.path() == **path);
        same.any(|sequence| sequence.increment == slots)
    });
    let strided: Vec<(Sequence, i64)> = strided.map(|(_, of)| of.clone()).collect();
    Ok(install::removal(&strided))
}
