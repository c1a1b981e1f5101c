//! Takes the belt away from a ring, with all rows on one server.
//!
//! A table that the servers have *shared out* has the newest row of each key on one server alone, the key's owner. Its
//! other copies are those of the installation. [`gather`] replaces them on one server, the target, by the owners' rows, so that
//! the target has the whole database, as if there had been no other server.
//!
//! 1. *Close* ([`close`](super::closed::close)). Every server gets the table `anabranch.closed`, after which no middleware begins to serve. A middleware
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

use super::catalog::{self, Sequence};
use super::closed::{Site, error_of};
use super::copy;
use super::relocate::{
    Open, Owner, Plan, Way, add_inserted, apply_all, compare_whole, last_numbers, lock_all,
    membership, merge, removal_of, take_over,
};
use super::ring::{Payloads, Work};
use super::{install, quoted};

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

/// Gathers all rows on the site with this number, takes the belt away from it, and from the others. All sites are
/// [closed](super::closed::close), and they are all that are members of the ring. `before` is called before each statement.
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
    let mut open = lock_all(sites, &plan.lock(), before)?;
    let mut rows = Vec::new();
    for one in &mut open {
        before("rows");
        let read = one.work.rows(Payloads::All);
        rows.push(read.map_err(|trouble| one.of(trouble))?);
    }
    if let Some(at) = rows
        .iter()
        .position(|of| of.epoch != rows[0].epoch || of.epoch != of.promised)
    {
        return Err(open[at].of(
            "a change of the ring's servers has not come to its end: repeat the command that began it; for remove-server --lost, \
             start the middlewares of the others before",
        ));
    }
    let places: Vec<u16> = open.iter().map(|one| one.place).collect();
    for (one, of) in open.iter().zip(&rows) {
        let members: Vec<u16> = of.members.iter().map(|member| member.0).collect();
        if members != places || of.server.0 != one.place {
            return Err(one.of("its ring has other members than the servers that were reached"));
        }
    }
    let owners = membership(&mut open[target].work.transaction);
    let owners = owners.map_err(error_of(open[target].name))?;
    let owners = owners.map_or_else(Vec::new, |of| of.owners);
    let applied = apply_all(&mut open, &mut rows, before)?;
    let mut gathered = Gathered {
        applied: applied[target],
        ..Gathered::default()
    };
    compare_whole(&mut open, &plan.whole, before)?;
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
    let to_place = to.place;
    let mut sources: Vec<&mut Open<'_>> = open.iter_mut().collect();
    for (number, shared) in plan.shared.iter().enumerate() {
        let moved = match shared.owner {
            Owner::ByColumn(column) => {
                // Of rows whose server was removed the target's copies stay: it is no source.
                let way_of = |key: Option<&str>| -> Result<Way, String> {
                    let slot = (plan.slot_of)(number, key)?;
                    let from = owners.get(usize::from(slot)).copied();
                    let from = from.ok_or("its key has a slot that the ring has not")?;
                    Ok(Way { from, to: to_place })
                };
                let table = (&shared.table, column);
                take_over(&mut to, &mut sources, table, &way_of, before)?
            }
            Owner::Inserted => add_inserted(&mut to, &mut sources, &shared.table, before)?,
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
