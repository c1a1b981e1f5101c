//! What keeps middlewares from serving while the servers of a ring change, and how far such a change is.
//!
//! Every server gets the table `anabranch.closed`, after which no middleware begins to serve. A middleware binds its ports
//! first and looks for the table then; the caller looks at the ports, and at the middlewares' connections ([`served`]), after
//! [`close`]. So one of both finds the other.

use postgres::Client;

use super::ring::APPLIER;
use super::{explain, install, literal, quoted};

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

impl std::fmt::Debug for Site<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("place", &self.place)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A change of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// All rows are gathered on one server, and the ring ends.
    Gather,
    /// A server joins.
    Join,
    /// A server leaves.
    Leave,
    /// The schema changes.
    Migrate,
    /// The schema has changed on this server, and perhaps not on others.
    Migrated,
}

impl Change {
    /// The word for it in a database.
    fn word(self) -> &'static str {
        match self {
            Change::Gather => "gather",
            Change::Join => "join",
            Change::Leave => "leave",
            Change::Migrate => "migrate",
            Change::Migrated => "migrated",
        }
    }

    fn of_word(word: &str) -> Change {
        match word {
            "join" => Change::Join,
            "leave" => Change::Leave,
            "migrate" => Change::Migrate,
            "migrated" => Change::Migrated,
            _ => Change::Gather,
        }
    }
}

/// Why a ring is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The name of the server that gathers, joins or leaves, or of the script that changes the schema.
    pub target: String,
    /// What changes.
    pub change: Change,
}

impl Closed {
    /// The statements that close a server which has the belt and is not closed. Also the middleware's role looks at the table.
    pub(super) fn script(&self) -> String {
        format!(
            "CREATE TABLE anabranch.closed (target text NOT NULL, change text NOT NULL); \
             INSERT INTO anabranch.closed VALUES ({}, {}); GRANT SELECT ON anabranch.closed TO PUBLIC;",
            literal(&self.target),
            literal(self.change.word())
        )
    }
}

/// How far the removal of a ring is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The belt is installed.
    Installed {
        /// The change of the ring that has begun, if one has.
        closed: Option<Closed>,
    },
    /// All rows are on this server, and its belt is taken away; other servers may still have theirs.
    Gathered,
    /// Nothing is installed.
    Removed,
}

pub(super) fn error_of<'n>(name: &'n str) -> impl Fn(postgres::Error) -> String + 'n {
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
                true => client.query_opt(
                    "SELECT target, to_jsonb(c) ->> 'change' FROM anabranch.closed c",
                    &[],
                )?,
                false => None,
            };
            Progress::Installed {
                closed: found.map(|row| Closed {
                    target: row.get(0),
                    // An earlier version has closed it without this column, to gather.
                    change: row
                        .get::<_, Option<&str>>(1)
                        .map_or(Change::Gather, Change::of_word),
                }),
            }
        }
    })
}

/// Has no middleware begin to serve any more, on each of these servers that has the belt.
///
/// # Errors
/// When a database refuses it.
pub fn close(
    sites: &mut [Site<'_>],
    closed: &Closed,
    before: &mut dyn FnMut(&str),
) -> Result<(), String> {
    for site in sites {
        before("close");
        if !install::is_installed(site.client).map_err(error_of(site.name))? {
            continue;
        }
        close_one(site, closed)?;
    }
    Ok(())
}

/// Closes a server for one change, or finds that it is. Of two commands at once one finds the other's table.
fn close_one(site: &mut Site<'_>, closed: &Closed) -> Result<(), String> {
    let name = site.name;
    let mut made = None;
    if self::closed(site.client).map_err(error_of(name))?.is_none() {
        let script = format!("BEGIN; {} COMMIT", closed.script());
        made = Some(site.client.batch_execute(&script));
        if matches!(made, Some(Err(_))) {
            site.client
                .batch_execute("ROLLBACK")
                .map_err(error_of(name))?;
        }
    }
    match (self::closed(site.client).map_err(error_of(name))?, made) {
        (Some(found), _) if found == *closed => Ok(()),
        (Some(found), _) => Err(format!(
            "error: {name}: another change of the ring has begun, for {}, and has not come to its end: repeat that first",
            found.target
        )),
        (None, Some(Err(error))) => Err(error_of(name)(error)),
        (None, _) => Err(format!(
            "error: {name}: another command has opened the ring meanwhile: repeat this one"
        )),
    }
}

/// Lets middlewares serve again.
///
/// # Errors
/// When a database refuses it.
pub fn reopen(sites: &mut [Site<'_>], before: &mut dyn FnMut(&str)) -> Result<(), String> {
    for site in sites {
        before("reopen");
        let done = site
            .client
            .batch_execute("DROP TABLE IF EXISTS anabranch.closed");
        done.map_err(error_of(site.name))?;
    }
    Ok(())
}

/// The change of the ring that has begun, if one has: no middleware may serve then.
///
/// # Errors
/// When the database does not answer.
pub fn closed(client: &mut Client) -> Result<Option<Closed>, postgres::Error> {
    Ok(match progress(client)? {
        Progress::Installed { closed } => closed,
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
