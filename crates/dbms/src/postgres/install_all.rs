//! Installs the belt on all servers of a ring, or on none.
//!
//! On each server one transaction locks the tables that all servers have, compares their rows, and installs the server's
//! [`Part`]. All of them commit after the last one has done so, one after the other. A process that ends between two
//! commits leaves the belt on some servers; no operation can have run in such a ring, since it has no token, and
//! [`removal`](super::install::removal) takes it away.
//!
//! With a [`Source`] the same transactions first copy the rows of all tables from one server to the others. That is how
//! servers begin that are empty, or have old copies of rows. A server whose rows are replaced has to be named, unless it is
//! empty or has the same: nothing tells whether a server's rows are old.

use postgres::{Client, Transaction};

use super::catalog::Table;
use super::copy;
use super::explain;
use super::install::Part;

/// A server of the ring to be.
pub struct Member<'m> {
    /// Its name.
    pub name: &'m str,
    /// A connection of the role that installs.
    pub client: &'m mut Client,
    /// What is installed there.
    pub part: &'m Part,
}

impl std::fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The server whose rows all others get.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// Its number among the members.
    pub member: usize,
    /// All tables of the schema, which is the same on all servers.
    pub tables: &'s [Table],
    /// The numbers of the members whose rows are replaced. Those of others have to be the source's, or none.
    pub replaced: &'s [usize],
}

/// What an installation has found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Why nothing was installed; a sentence each.
    pub objections: Vec<String>,
    /// What deserves to be known.
    pub remarks: Vec<String>,
    /// Tables that were copied, with their numbers of rows on the source.
    pub copied: Vec<(String, u64)>,
}

/// A server's transaction.
struct Open<'m> {
    name: &'m str,
    transaction: Transaction<'m>,
    part: &'m Part,
    /// The digests of the tables that all servers have.
    digests: Vec<String>,
}

impl Open<'_> {
    fn run(&mut self, statements: &str) -> Result<(), String> {
        let done = self.transaction.batch_execute(statements);
        done.map_err(|error| format!("error: {}: {}", self.name, explain(&error)))
    }
}

/// Installs everything on all servers, or on none. `before` is called before each statement.
///
/// # Errors
/// When a database refuses a statement, or is lost: then nothing is installed, unless it happens at a COMMIT, which the
/// message tells.
pub fn install_all(
    members: Vec<Member<'_>>,
    source: Option<Source<'_>>,
    before: &mut dyn FnMut(&str),
) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut open = Vec::new();
    for member in members {
        before("begin");
        let begun = member.client.transaction();
        let mut one = Open {
            name: member.name,
            transaction: begun
                .map_err(|error| format!("error: {}: {}", member.name, explain(&error)))?,
            part: member.part,
            digests: Vec::new(),
        };
        // Nothing is written on any server until all have the belt.
        for table in &one.part.tables {
            before("lock");
            let path = table.table.path();
            one.run(&format!("LOCK TABLE {path} IN SHARE ROW EXCLUSIVE MODE"))?;
        }
        open.push(one);
    }
    if let Some(source) = source {
        for one in &mut open {
            before("settings");
            one.run(copy::EXACT).map_err(|error| {
                format!(
                    "{error}\nCopying rows needs the right to switch triggers off; as superuser: GRANT SET ON PARAMETER \
                     session_replication_role TO the role that installs"
                )
            })?;
        }
        outcome.objections = unlike(&mut open, source, before)?;
        if !outcome.objections.is_empty() {
            return Ok(outcome);
        }
        outcome.copied = copy_from(&mut open, source, before)?;
    }
    for one in &mut open {
        for table in &one.part.tables {
            before("digest");
            let digest = one.transaction.query_one(
                &format!(
                    "SELECT count(*) || ' rows ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {} t",
                    table.table.path()
                ),
                &[],
            );
            let digest =
                digest.map_err(|error| format!("error: {}: {}", one.name, explain(&error)))?;
            one.digests.push(digest.get(0));
        }
        before("install");
        one.run(&one.part.script())?;
    }
    for pair in open.windows(2) {
        let (one, other) = (&pair[0], &pair[1]);
        let digests = one.digests.iter().zip(&other.digests);
        for (table, (mine, theirs)) in one.part.tables.iter().zip(digests) {
            if mine == theirs {
                continue;
            }
            let title = table.table.title();
            let (one, other) = (one.name, other.name);
            match table.is_whole {
                true => outcome.objections.push(format!(
                    "the rows of {title} on {one} and {other} differ, and they have to be equal at the beginning: copy all \
                     rows from the server that has the right ones (--from {one}), or {title} alone (pg_dump --data-only \
                     --table={title})"
                )),
                false => outcome.remarks.push(format!(
                    "the rows of {title} on {one} and {other} differ: right only if they are those that one server owns"
                )),
            }
        }
    }
    if !outcome.objections.is_empty() {
        return Ok(outcome);
    }
    for one in open {
        before("commit");
        one.transaction.commit().map_err(|error| {
            format!(
                "error: {}: {}; what is installed on other servers is taken away by: anabranch belt remove",
                one.name,
                explain(&error)
            )
        })?;
    }
    Ok(outcome)
}

/// What would be lost: rows of members that are not to be replaced, and are not the source's.
fn unlike(
    open: &mut [Open<'_>],
    source: Source<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<Vec<String>, String> {
    let mut objections = Vec::new();
    let kept = |member: &usize| *member != source.member && !source.replaced.contains(member);
    for member in (0..open.len()).filter(kept) {
        let mut titles = Vec::new();
        for table in source.tables.iter().filter(|table| table.has_rows) {
            before("look");
            let mut digest = |of: usize| {
                let one = &mut open[of];
                let digest = copy::digest(&mut one.transaction, table);
                digest.map_err(|error| format!("error: {}: {error}", one.name))
            };
            let theirs = digest(member)?;
            if theirs.count > 0 && theirs != digest(source.member)? {
                titles.push(table.title());
            }
        }
        if !titles.is_empty() {
            let (name, from) = (open[member].name, open[source.member].name);
            objections.push(format!(
                "{name} has rows that {from} has not, of {}: if they are old copies, have them replaced by {from}'s: \
                 --replace {name}",
                titles.join(", ")
            ));
        }
    }
    Ok(objections)
}

/// Replaces the rows of all tables on all servers but the source by the source's.
fn copy_from(
    open: &mut Vec<Open<'_>>,
    source: Source<'_>,
    before: &mut dyn FnMut(&str),
) -> Result<Vec<(String, u64)>, String> {
    let with_rows = source.tables.iter().filter(|table| table.has_rows);
    let mut copied: Vec<(String, u64)> = with_rows.clone().map(|t| (t.title(), 0)).collect();
    if copied.is_empty() {
        return Ok(copied);
    }
    let paths: Vec<String> = with_rows.clone().map(Table::path).collect();
    // A parent has no rows, but its foreign keys refer to tables that are emptied.
    let parents = source
        .tables
        .iter()
        .filter(|t| !t.has_rows && !t.is_foreign);
    let emptied: Vec<String> = paths
        .iter()
        .cloned()
        .chain(parents.map(Table::path))
        .collect();
    for (number, one) in open.iter_mut().enumerate() {
        before("empty");
        one.run(&match number == source.member {
            true => format!(
                "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE",
                paths.join(", ")
            ),
            false => format!("TRUNCATE {}", emptied.join(", ")),
        })?;
    }
    let mut from = open.remove(source.member);
    for (table, (_, rows)) in with_rows.zip(&mut copied) {
        for to in open.iter_mut() {
            before("copy");
            let done = copy::copy_all(&mut from.transaction, &mut to.transaction, table);
            *rows = done.map_err(|error| {
                format!(
                    "error: {} cannot be copied from {} to {}: {error}",
                    table.title(),
                    from.name,
                    to.name
                )
            })?;
        }
    }
    open.insert(source.member, from);
    for one in open {
        before("settings");
        one.run("SET LOCAL session_replication_role = origin; SET LOCAL search_path TO DEFAULT")?;
    }
    Ok(copied)
}
