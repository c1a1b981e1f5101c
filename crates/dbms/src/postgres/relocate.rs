//! Moves rows to where they belong under another list of servers.
//!
//! A table that the servers have *shared out* has the newest row of each key on one server alone, the key's owner. Other
//! copies are those of the installation. When servers join or leave, some keys get another owner, and when a ring ends, all
//! keys get the one that stays. This module has the steps that these changes are made of: a transaction on each server locks
//! out operations and writes ([`lock_all`]); each server applies the operations of others that it has not received yet
//! ([`apply_all`]), from which on the tables that all servers have are equal ([`compare_whole`]) and an owner's row is right
//! in all of its columns; a new owner replaces its copies by the old owner's rows ([`take_over`]), and an old one deletes
//! its own ([`give_up`]). Their order, and what commits when, is the matter of [`gather`](super::gather) and
//! [`share`](super::share).

use std::collections::BTreeMap;

use anabranch_protocol::belt::{Rows, Update};
use postgres::{GenericClient, IsolationLevel};

use super::catalog::{self, Sequence, Table};
use super::closed::{Site, error_of};
use super::copy::{self, RowDigest};
use super::ring::{Payloads, Work};
use super::{install, quoted};
use crate::belt::Changes;
use crate::slots::{self, Owners};

/// How many rows one statement deletes.
const DELETED_MAX: usize = 10_000;

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
    /// Whether only global operations insert and delete rows, so that every server has all of them; then the owner alone has
    /// the newest values of some columns.
    pub has_all_rows: bool,
}

/// The slot of a key, given as text, of the shared table with this number.
pub type SlotOf<'p> = dyn Fn(usize, Option<&str>) -> Result<u16, String> + 'p;

/// The tables of a ring.
pub struct Plan<'p> {
    /// The tables that all servers have, which have to be equal on all of them.
    pub whole: Vec<Table>,
    /// The tables that the servers have shared out.
    pub shared: Vec<SharedTable>,
    /// Tables that are no part of the ring.
    pub others: Vec<Table>,
    /// Tells the slot of a key.
    pub slot_of: Box<SlotOf<'p>>,
    /// The places of servers that were removed from the ring, and whose keys no other server has taken over.
    pub removed: Vec<u16>,
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").finish_non_exhaustive()
    }
}

impl Plan<'_> {
    /// The statement that keeps out writes of the ring's tables.
    pub(super) fn lock(&self) -> String {
        let shared = self.shared.iter().map(|shared| &shared.table);
        lock_of(self.whole.iter().chain(shared))
    }
}

/// The statement that keeps out writes of these tables.
pub(super) fn lock_of<'t>(tables: impl Iterator<Item = &'t Table>) -> String {
    let locked: Vec<String> = tables.map(Table::path).collect();
    match locked.is_empty() {
        true => String::new(),
        false => format!(
            "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE",
            locked.join(", ")
        ),
    }
}

/// Which servers have what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The names of all servers that have been members, by place.
    pub ring: String,
    /// The places of the members.
    pub members: Vec<u16>,
    /// By slot the place of the server that the keys belong to.
    pub owners: Owners,
}

/// Reads which servers have what, as a server's database says; nothing if it has no belt.
///
/// # Errors
/// When the belt's tables cannot be read.
pub fn membership(client: &mut impl GenericClient) -> Result<Option<Membership>, postgres::Error> {
    if !install::is_installed(client)? {
        return Ok(None);
    }
    // Rings were installed without the column once.
    let row = client.query_one(
        "SELECT s.ring, h.members, s.slots, s.servers, \
         ARRAY(SELECT o::smallint FROM jsonb_array_elements_text(to_jsonb(s) -> 'owners') WITH ORDINALITY AS e(o, at) ORDER BY at) \
         FROM anabranch.server s, anabranch.hold h",
        &[],
    )?;
    let places = |numbers: Vec<i16>| numbers.into_iter().map(i16::cast_unsigned).collect();
    let owners: Owners = places(row.get(4));
    let (slots, servers): (i16, i16) = (row.get(2), row.get(3));
    Ok(Some(Membership {
        ring: row.get(0),
        members: places(row.get(1)),
        owners: match owners.is_empty() {
            true => slots::initial(slots.cast_unsigned(), servers.cast_unsigned()),
            false => owners,
        },
    }))
}

/// The server that a row's newest copy is on, and the one that it is to be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) from: u16,
    pub(super) to: u16,
}

/// The way of a row with this key.
pub(super) type WayOf<'p> = dyn Fn(Option<&str>) -> Result<Way, String> + 'p;

/// A server's transaction.
pub(super) struct Open<'c> {
    pub(super) place: u16,
    pub(super) name: &'c str,
    pub(super) work: Work<'c>,
}

impl Open<'_> {
    pub(super) fn run(&mut self, statements: &str) -> Result<(), String> {
        let done = self.work.transaction.batch_execute(statements);
        done.map_err(error_of(self.name))
    }

    pub(super) fn of(&self, error: impl std::fmt::Display) -> String {
        format!("error: {}: {error}", self.name)
    }
}

/// Begins a transaction on each server that keeps out operations and writes. `lock` locks its tables.
pub(super) fn lock_all<'c>(
    sites: &'c mut [Site<'_>],
    lock: &str,
    before: &mut dyn FnMut(&str),
) -> Result<Vec<Open<'c>>, String> {
    let sites = sites.iter_mut();
    sites.map(|site| lock_one(site, lock, before)).collect()
}

/// Begins such a transaction on one server.
pub(super) fn lock_one<'c>(
    site: &'c mut Site<'_>,
    lock: &str,
    before: &mut dyn FnMut(&str),
) -> Result<Open<'c>, String> {
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
    let is_installed = install::is_installed(&mut one.work.transaction);
    if is_installed.map_err(error_of(site.name))? {
        before("lock");
        // Operations of a middleware that has ended may still run. Each statement after this one sees what they have done.
        one.run("LOCK TABLE anabranch.fence IN EXCLUSIVE MODE")
            .map_err(|error| {
                format!("{error}; an operation still runs there: wait for its end, or end it")
            })?;
    }
    before("lock");
    one.run(lock).map_err(|error| {
        format!("{error}; another connection is writing there: wait for its end, or end it")
    })?;
    Ok(one)
}

/// Has each server apply the operations of others that it has not received. `rows` are the belt's tables of each server,
/// which are not written. Returns by server how many were new there.
pub(super) fn apply_all(
    open: &mut [Open<'_>],
    rows: &mut [Rows<Changes>],
    before: &mut dyn FnMut(&str),
) -> Result<Vec<usize>, String> {
    let mut updates: BTreeMap<_, Update<Changes>> = BTreeMap::new();
    for of in rows.iter() {
        for update in of.outbox.values().chain(&of.token.updates) {
            updates.insert(update.place(), update.clone());
        }
    }
    let mut counts = Vec::new();
    for (one, of) in open.iter_mut().zip(rows) {
        let mut applied = 0;
        for update in updates.values() {
            let position = of.applied.get(&update.origin);
            let is_new = position.is_none_or(|at| *at < update.sequence);
            if update.origin == of.server || !is_new {
                continue;
            }
            before("apply");
            let done = one.work.apply(update);
            done.map_err(|trouble| one.of(trouble))?;
            of.applied.insert(update.origin, update.sequence);
            applied += 1;
        }
        counts.push(applied);
    }
    Ok(counts)
}

/// BELT-I13: after all operations are applied, all servers have the same rows of a whole table.
pub(super) fn compare_whole(
    open: &mut [Open<'_>],
    whole: &[Table],
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    for table in whole {
        if let Some(other) = first_unlike(open, table, before)? {
            return Err(format!(
                "error: the rows of {title} on {} and {} differ, although all servers have all of them: something has \
                 written there past the belt. Make them equal (pg_dump --data-only --table={title}), and repeat this",
                open[0].name,
                open[other].name,
                title = table.title()
            ));
        }
    }
    Ok(())
}

/// The first server whose rows of a table are others than those of the first one.
pub(super) fn first_unlike(
    open: &mut [Open<'_>],
    table: &Table,
    before: &mut dyn FnMut(&str),
) -> Result<Option<usize>, String> {
    let mut first: Option<RowDigest> = None;
    for (number, one) in open.iter_mut().enumerate() {
        before("digest");
        let digest = copy::digest(&mut one.work.transaction, table);
        let digest = digest.map_err(|error| one.of(error))?;
        if *first.get_or_insert(digest) != digest {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// The belt's tables of a server whose ring is no longer removing another one.
pub(super) fn settled_rows(
    one: &mut Open<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<Rows<Changes>, String> {
    before("rows");
    let rows = one.work.rows(Payloads::All);
    let rows = rows.map_err(|trouble| one.of(trouble))?;
    match rows.epoch == rows.promised {
        true => Ok(rows),
        false => Err(one.of(
            "the removal of a server from the ring has not come to its end: start the middlewares, and repeat anabranch belt \
             remove-server --lost",
        )),
    }
}

/// Replaces, on the server `to`, the rows of a shared table that are to be there by those of the servers that have the newest
/// copies, if these are among `sources`. Returns the numbers of all rows that are to be there, by the servers that had
/// them.
pub(super) fn take_over(
    to: &mut Open<'_>,
    sources: &mut [&mut Open<'_>],
    (table, column): (&Table, usize),
    way_of: &WayOf<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<BTreeMap<u16, u64>, String> {
    let title = table.title();
    let key = format!("t.{}", quoted(&table.columns[column].name));
    let places: Vec<u16> = sources.iter().map(|source| source.place).collect();
    let mut expected: BTreeMap<u16, RowDigest> = BTreeMap::new();
    let mut old: Vec<String> = Vec::new();
    before("read");
    let heads = [key.as_str(), "t.ctid"];
    let read = copy::read(&mut to.work.transaction, table, &heads, |values, line| {
        let way = way_of(values[0].as_deref())?;
        match (way.to == to.place, places.contains(&way.from)) {
            (false, _) => {}
            (true, false) => expected.entry(way.from).or_default().add(line),
            (true, true) => old.extend(values[1].clone()),
        }
        Ok(())
    });
    read.map_err(|error| format!("error: {}: {title}: {error}", to.name))?;
    delete_rows(to, table, &old, before)?;
    for from in sources.iter_mut() {
        let mut sent = RowDigest::default();
        before("copy");
        let (place, here) = (from.place, to.place);
        let done = copy::write(&mut to.work.transaction, table, &table.path(), |put| {
            let read = &mut from.work.transaction;
            copy::read(read, table, &[&key], |values, line| {
                let way = way_of(values[0].as_deref())?;
                if way.from == place && way.to == here {
                    sent.add(line);
                    put(line)?;
                }
                Ok(())
            })
        });
        done.map_err(|error| {
            format!(
                "error: {title} cannot be copied from {} to {}: {error}",
                from.name, to.name
            )
        })?;
        if sent.count > 0 {
            expected.insert(place, sent);
        }
    }
    // BELT-I14: each row of an owner is there, and no other.
    let mut found: BTreeMap<u16, RowDigest> = BTreeMap::new();
    before("compare");
    let read = copy::read(&mut to.work.transaction, table, &[&key], |values, line| {
        let way = way_of(values[0].as_deref())?;
        if way.to == to.place {
            found.entry(way.from).or_default().add(line);
        }
        Ok(())
    });
    read.map_err(|error| format!("error: {}: {title}: {error}", to.name))?;
    if found != expected {
        return Err(to.of(format!(
            "{title}: its rows are not those that their servers have: the databases write values in different ways"
        )));
    }
    let counts = found.iter().map(|(place, of)| (*place, of.count));
    Ok(counts.collect())
}

/// Deletes, on the server that has had the newest copies, the rows of a shared table that are to be on others. Returns their
/// number.
pub(super) fn give_up(
    from: &mut Open<'_>,
    (table, column): (&Table, usize),
    way_of: &WayOf<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<u64, String> {
    let key = format!("t.{}", quoted(&table.columns[column].name));
    let mut gone: Vec<String> = Vec::new();
    before("read");
    let place = from.place;
    let heads = [key.as_str(), "t.ctid"];
    let read = copy::read(&mut from.work.transaction, table, &heads, |values, _| {
        let way = way_of(values[0].as_deref())?;
        if way.from == place && way.to != place {
            gone.extend(values[1].clone());
        }
        Ok(())
    });
    read.map_err(|error| format!("error: {}: {}: {error}", from.name, table.title()))?;
    delete_rows(from, table, &gone, before)?;
    Ok(gone.len() as u64)
}

/// Deletes the rows at these places.
fn delete_rows(
    of: &mut Open<'_>,
    table: &Table,
    rows: &[String],
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    for rows in rows.chunks(DELETED_MAX) {
        before("delete");
        let statement = format!(
            "DELETE FROM ONLY {} WHERE ctid = ANY (($1::text[])::tid[])",
            table.path()
        );
        let deleted = of.work.transaction.execute(&statement, &[&rows]);
        let deleted = deleted.map_err(error_of(of.name))?;
        if deleted != rows.len() as u64 {
            return Err(of.of(format!(
                "{}: {deleted} of {} rows were deleted: its rules change what is deleted",
                table.title(),
                rows.len()
            )));
        }
    }
    Ok(())
}

/// Adds, on the server `to`, the rows that `sources` have inserted into a table whose rows never change. Returns the
/// numbers of rows by server.
pub(super) fn add_inserted(
    to: &mut Open<'_>,
    sources: &mut [&mut Open<'_>],
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
    for from in sources.iter_mut() {
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

pub(super) fn merge(highest: &mut BTreeMap<String, (Sequence, i64)>, sequences: Vec<Sequence>) {
    for sequence in sequences {
        let last = sequence.last.unwrap_or(0);
        let entry = highest.entry(sequence.path()).or_insert((sequence, last));
        entry.1 = entry.1.max(last);
    }
}

/// By sequence the highest number that any server has given, with the columns that the server `first` has for it.
pub(super) fn last_numbers(
    open: &mut [Open<'_>],
    first: usize,
    before: &mut dyn FnMut(&str),
) -> Result<BTreeMap<String, (Sequence, i64)>, String> {
    let mut highest = BTreeMap::new();
    let order = std::iter::once(first).chain((0..open.len()).filter(|at| *at != first));
    for at in order {
        before("sequences");
        let one = &mut open[at];
        let sequences = catalog::sequences(&mut one.work.transaction);
        merge(&mut highest, sequences.map_err(error_of(one.name))?);
    }
    Ok(highest)
}

/// The statements that take a server's belt away.
pub(super) fn removal_of(
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
