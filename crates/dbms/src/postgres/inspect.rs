//! What a server's database offers the belt, and what does not fit.

use postgres::{Client, GenericClient};

use super::catalog::{self, Sequence, Table};
use super::{explain, install, quoted};

/// The oldest supported version: the right to set one parameter can be granted since then.
pub const VERSION_MIN: i32 = 150_000;

/// The contents of a database that the belt has to know.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// PostgreSQL's version, as it writes it.
    pub version: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its sequences.
    pub sequences: Vec<Sequence>,
    /// What must be equal on all servers.
    pub shape: Vec<(String, String)>,
    /// The digest of `shape`.
    pub digest: String,
    /// What is installed.
    pub installed: Option<Installed>,
    /// What does not fit, and what to do; a sentence each.
    pub objections: Vec<String>,
    /// What fits, but deserves to be known.
    pub remarks: Vec<String>,
}

/// The belt's own state in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The ring.
    pub ring: String,
    /// The server's name in it.
    pub name: String,
    /// The digest of the schema that it was installed for.
    pub digest: String,
    /// The epoch.
    pub epoch: i64,
    /// The last hop received.
    pub received: i64,
    /// For each other server by its place: the last number of its changes that was applied.
    pub applied: Vec<(i16, i64)>,
    /// The last number that an operation here has drawn.
    pub drawn: i64,
}

/// The roles that use a database.
#[derive(Clone, Copy, Debug)]
pub struct Roles<'r> {
    /// That of the middleware.
    pub middleware: Option<&'r str>,
    /// Those of applications.
    pub applications: &'r [String],
}

/// Inspects a database as a role that installs, in one read-only transaction.
///
/// # Errors
/// When its catalogs cannot be read.
pub fn inspect(client: &mut Client, roles: Roles<'_>) -> Result<Inspection, String> {
    let failed = |error: postgres::Error| explain(&error);
    let mut transaction = client
        .build_transaction()
        .isolation_level(postgres::IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .map_err(failed)?;
    let inspection = inspect_in(&mut transaction, roles).map_err(failed)?;
    transaction.rollback().map_err(failed)?;
    Ok(inspection)
}

/// What a middleware looks at before it serves: what is installed, and the digest of the schema as it is now. Its role need not
/// have rights on the application's tables.
///
/// # Errors
/// When the catalogs or the belt's own tables cannot be read.
pub fn installation(client: &mut Client) -> Result<(Option<Installed>, String), String> {
    let read = |client: &mut Client| -> Result<_, postgres::Error> {
        let mut transaction = client
            .build_transaction()
            .isolation_level(postgres::IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()?;
        transaction.batch_execute(PLAIN_NAMES)?;
        let (_, digest) = install::shape(&mut transaction)?;
        let installed = installed(&mut transaction)?;
        transaction.rollback()?;
        Ok((installed, digest))
    };
    read(client).map_err(|error| explain(&error))
}

/// Names in the texts of definitions are complete under these settings.
const PLAIN_NAMES: &str =
    "SET LOCAL search_path = pg_catalog; SET LOCAL quote_all_identifiers = off";

/// Inspects a database within a transaction, whose `search_path` it changes.
pub(super) fn inspect_in(
    client: &mut impl GenericClient,
    roles: Roles<'_>,
) -> Result<Inspection, postgres::Error> {
    client.batch_execute(PLAIN_NAMES)?;
    let row = client.query_one(
        "SELECT current_setting('server_version'), current_setting('server_version_num')::int, \
         current_setting('fsync'), current_setting('synchronous_commit'), pg_is_in_recovery()",
        &[],
    )?;
    let (version, number): (String, i32) = (row.get(0), row.get(1));
    let mut inspection = Inspection {
        version,
        ..Inspection::default()
    };
    if number < VERSION_MIN {
        inspection.objections.push(format!(
            "it is PostgreSQL {}, and 15 or newer is needed: upgrade it",
            inspection.version
        ));
        return Ok(inspection);
    }
    let (fsync, synchronous, in_recovery): (String, String, bool) =
        (row.get(2), row.get(3), row.get(4));
    if in_recovery {
        inspection
            .objections
            .push("it is a standby, which cannot be written: name the primary".to_owned());
    }
    for (setting, value) in [("fsync", &fsync), ("synchronous_commit", &synchronous)] {
        if value == "off" {
            inspection.remarks.push(format!(
                "{setting} = off: a crash of this server may lose operations that were acknowledged"
            ));
        }
    }
    inspection.tables = catalog::tables(client)?;
    inspection.sequences = catalog::sequences(client)?;
    (inspection.shape, inspection.digest) = install::shape(client)?;
    put_roles(client, roles, &mut inspection.objections)?;
    let always = client.query(
        "SELECT t.tgname::text, t.tgrelid::regclass::text, t.tgenabled = 'D' FROM pg_trigger t \
         WHERE NOT t.tgisinternal AND (t.tgenabled IN ('A', 'R') OR t.tgenabled = 'D' AND t.tgname LIKE 'anabranch\\_%')",
        &[],
    )?;
    for row in always {
        let (trigger, table, is_disabled): (String, String, bool) =
            (row.get(0), row.get(1), row.get(2));
        inspection.objections.push(match is_disabled {
            true => format!(
                "the belt's trigger {trigger} of {table} is disabled, so changes go unseen: ALTER TABLE {table} ENABLE \
                 TRIGGER {trigger}, after you have made the servers equal again"
            ),
            false => format!(
                "the trigger {trigger} of {table} fires on replicas as well, and would repeat what another server has done: \
                 ALTER TABLE {table} ENABLE TRIGGER {trigger}"
            ),
        });
    }
    inspection.installed = installed(client)?;
    Ok(inspection)
}

/// Adds what roles lack.
fn put_roles(
    client: &mut impl GenericClient,
    roles: Roles<'_>,
    objections: &mut Vec<String>,
) -> Result<(), postgres::Error> {
    let applications = roles.applications.iter().map(String::as_str);
    for role in applications.chain(roles.middleware) {
        let found = client.query_one(
            "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)",
            &[&role],
        )?;
        if !found.get::<_, bool>(0) {
            objections.push(format!(
                "it has no role {role}: CREATE ROLE {} LOGIN",
                quoted(role)
            ));
        } else if roles.middleware == Some(role) {
            for (right, what) in [
                (
                    "pg_read_all_stats",
                    "may not see what blocks the changes of other servers",
                ),
                (
                    "pg_signal_backend",
                    "may not end operations of a middleware that has ended",
                ),
            ] {
                let has =
                    client.query_one("SELECT pg_has_role($1, $2, 'USAGE')", &[&role, &right])?;
                if !has.get::<_, bool>(0) {
                    objections.push(format!(
                        "the role {role} {what}: GRANT {right} TO {}",
                        quoted(role)
                    ));
                }
            }
            let may_set = client.query_one(
                "SELECT has_parameter_privilege($1, 'session_replication_role', 'SET')",
                &[&role],
            )?;
            if !may_set.get::<_, bool>(0) {
                objections.push(format!(
                    "the role {role} may not apply changes of other servers; as superuser: GRANT SET ON PARAMETER \
                     session_replication_role TO {}",
                    quoted(role)
                ));
            }
        }
    }
    Ok(())
}

fn installed(client: &mut impl GenericClient) -> Result<Option<Installed>, postgres::Error> {
    if !install::is_installed(client)? {
        return Ok(None);
    }
    let row = client.query_one(
        "SELECT s.ring, s.name, s.digest, h.epoch, h.received, \
         (SELECT coalesce(max(number), 0) FROM anabranch.outbox) FROM anabranch.server s, anabranch.hold h",
        &[],
    )?;
    let applied = client.query(
        "SELECT origin, number FROM anabranch.applied ORDER BY origin",
        &[],
    )?;
    Ok(Some(Installed {
        ring: row.get(0),
        name: row.get(1),
        digest: row.get(2),
        epoch: row.get(3),
        received: row.get(4),
        drawn: row.get(5),
        applied: applied.iter().map(|row| (row.get(0), row.get(1))).collect(),
    }))
}
