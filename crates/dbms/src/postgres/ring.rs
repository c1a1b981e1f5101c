//! The belt's transactions in a PostgreSQL database.
//!
//! Each reads the belt's tables into [`Rows`], lets the function of `Rows` that defines the transaction change them, and
//! writes the difference back, together with the rows of the application that change with it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use anabranch_protocol::belt::rows::Refused;
use anabranch_protocol::belt::{
    Epoch, Hop, Positions, Rows, Sequence, ServerId, Standing, Token, Update,
};
use postgres::{Client, IsolationLevel, Statement, Transaction};

use super::batch::Keys;
use super::{explain, literal};
use crate::belt::{Change, Changes, Database, Statements, Trouble};

/// The statements that begin a global operation of a hold. The lock comes first: the transaction's snapshot is taken
/// after it, so that it sees whether the hold is open.
pub fn begin(hold: Hop) -> String {
    format!(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; LOCK TABLE anabranch.fence IN ROW SHARE MODE; SELECT anabranch.enter({})",
        hold.0
    )
}

/// The statements that end a global operation before its COMMIT. Deferred constraints and triggers run now, since what
/// they change belongs to the operation.
pub const END: &str = "SET CONSTRAINTS ALL IMMEDIATE; SELECT anabranch.seal()";

/// What makes a connection ready for global operations.
pub const PREPARE: &str = "SELECT anabranch.prepare()";

/// The setting of a connection for local operations.
pub const LOCAL: &str =
    "SET anabranch.hop = 'local'; SET default_transaction_isolation = serializable";

/// What comes behind the BEGIN of a transaction by hand: it is not known yet whether it is global.
pub const PROVISIONAL: &str =
    "SET LOCAL anabranch.hop = 'provisional'; SET LOCAL anabranch.numbers = 'record'";

/// The statement before the COMMIT of a transaction that began provisionally and is local: it fails if the transaction
/// has written rows of all servers after all.
pub const SETTLE: &str = "SELECT anabranch.settle()";

/// What the middleware sends.
pub const STATEMENTS: Statements = Statements {
    settings: SETTINGS,
    checks: CHECKS,
    begin,
    end: END,
    provisional: PROVISIONAL,
    settle: SETTLE,
    promote: None,
    late: "Another server of the ring may be down: SELECT * FROM anabranch.ring.",
};

/// What is set on each connection of a client.
const SETTINGS: &str = "SET anabranch.hop = 'local'; SET default_transaction_isolation = serializable; \
    SET standard_conforming_strings = on; \
    SET anabranch.numbers = ''; SELECT anabranch.prepare()";

/// What has to be so on each of them, or the middleware would misread what a client means. A role may be called like the
/// schema of the belt, which then comes first.
const CHECKS: &str = "DO $$ BEGIN \
    IF pg_catalog.current_schema() = 'anabranch' THEN PERFORM pg_catalog.set_config('search_path', 'public', false); END IF; \
    IF pg_catalog.current_setting('session_replication_role') <> 'origin' THEN \
    RAISE EXCEPTION 'session_replication_role has to be origin' USING ERRCODE = '55000'; END IF; \
    IF pg_catalog.current_schema() IS DISTINCT FROM 'public' THEN \
    RAISE EXCEPTION 'the first schema in search_path has to be public' USING ERRCODE = '55000'; END IF; \
    END $$";

/// The `application_name` of the connection that applies what other servers have done.
pub(super) const APPLIER: &str = "anabranch belt";

/// The processes that keep what other servers have done from being applied in this database, or block one of those that are
/// given.
///
/// # Errors
/// When PostgreSQL does not say.
pub fn blockers(client: &mut Client, blocked: &[i32]) -> Result<Vec<i32>, postgres::Error> {
    let rows = client.query(
        "SELECT DISTINCT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity WHERE datname = current_database() \
         AND wait_event_type = 'Lock' AND (application_name = $1 OR pid = ANY ($2))",
        &[&APPLIER, &blocked],
    )?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// How long a hold is kept open by operations that the belt does not know, before they are ended.
const FENCE_MAX: Duration = Duration::from_secs(2);

/// What runs before each statement of a transaction.
type Probe = Box<dyn FnMut(&str) + Send>;

/// The prepared statements of a connection, by their texts. A hop runs about ten: prepared, each is one round trip instead of
/// two, and is not parsed again.
type PreparedStatements = HashMap<&'static str, Statement>;

/// One server's database.
pub struct PostgresDatabase {
    client: Client,
    prepared: PreparedStatements,
    probe: Option<Probe>,
    /// Once a token has been received.
    keys: Option<Keys>,
}

impl PostgresDatabase {
    /// Takes over a connection of a role that may apply changes.
    ///
    /// # Errors
    /// When its settings cannot be made.
    pub fn new(mut client: Client) -> Result<PostgresDatabase, Trouble> {
        // Set once: each change of the role makes PostgreSQL plan all statements of the connection again.
        client
            .batch_execute(
                &format!(
                    "SET application_name = {}; SET session_replication_role = replica; SET synchronous_commit = on; \
                     SET search_path = pg_catalog",
                    literal(APPLIER)
                ),
            )
            .map_err(trouble)?;
        Ok(PostgresDatabase {
            client,
            prepared: PreparedStatements::new(),
            probe: None,
            keys: None,
        })
    }

    /// Runs a function before each statement, for tests that end the connection there.
    #[must_use]
    pub fn with_probe(mut self, probe: impl FnMut(&str) + Send + 'static) -> PostgresDatabase {
        self.probe = Some(Box::new(probe));
        self
    }

    /// Ends connections whose operations keep a hold open: those of a middleware that has ended. The belt closes a hold
    /// once its own operations have ended.
    fn end_forgotten_operations(&mut self) -> Result<(), Trouble> {
        self.client
            .batch_execute(
                "SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.relation = 'anabranch.fence'::regclass \
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                 AND l.granted AND l.pid <> pg_backend_pid()",
            )
            .map_err(trouble)
    }

    fn begin(&mut self, isolation: IsolationLevel) -> Result<Work<'_>, Trouble> {
        if let Some(probe) = &mut self.probe {
            probe("begin");
        }
        let begun = self.client.build_transaction();
        let transaction = begun.isolation_level(isolation).start().map_err(trouble)?;
        Ok(Work {
            transaction,
            prepared: Some(&mut self.prepared),
            probe: self.probe.as_mut(),
        })
    }
}

/// A transaction under way.
pub(super) struct Work<'w> {
    pub(super) transaction: Transaction<'w>,
    /// Those of the connection, if it runs many such transactions.
    prepared: Option<&'w mut PreparedStatements>,
    probe: Option<&'w mut Probe>,
}

/// Sorts an error of the driver.
fn trouble(error: postgres::Error) -> Trouble {
    let text = explain(&error);
    match error.code().map(|code| code.code()) {
        Some("40001" | "40P01" | "55P03") => Trouble::Aborted(text),
        // The server ends the connection: shutdown, crash, termination.
        Some(code) if code.starts_with("57P") || code.starts_with("08") => Trouble::Lost(text),
        Some(_) => Trouble::Failed(text),
        None => Trouble::Lost(text),
    }
}

fn damaged(what: &str) -> Trouble {
    Trouble::Failed(format!(
        "the belt's tables in the database are damaged: {what}; take the belt away from this server and install it anew"
    ))
}

/// PostgreSQL's numbers are signed; those of the belt are counted from 0 in one direction.
fn unsigned(number: i64) -> Result<u64, Trouble> {
    u64::try_from(number).map_err(|_| damaged("a negative number"))
}

fn signed(number: u64) -> Result<i64, Trouble> {
    i64::try_from(number).map_err(|_| damaged("a number above 2^63"))
}

fn server(number: i16) -> Result<ServerId, Trouble> {
    let number = u16::try_from(number).map_err(|_| damaged("a negative server"))?;
    Ok(ServerId(number))
}

/// Which updates of the outbox are read with what they change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Payloads {
    /// Those of all.
    All,
    /// Those of one hop; others are read without.
    Of(Hop),
    /// The outbox is not read.
    None,
}

impl<'w> Work<'w> {
    /// The work of a transaction that another module has begun.
    pub(super) fn new(transaction: Transaction<'w>) -> Work<'w> {
        Work {
            transaction,
            prepared: None,
            probe: None,
        }
    }

    /// A statement, prepared.
    fn prepare(&mut self, text: &'static str) -> Result<Statement, Trouble> {
        if let Some(prepared) = &self.prepared
            && let Some(found) = prepared.get(text)
        {
            return Ok(found.clone());
        }
        let statement = self.transaction.prepare(text).map_err(trouble)?;
        if let Some(prepared) = &mut self.prepared {
            prepared.insert(text, statement.clone());
        }
        Ok(statement)
    }

    fn before(&mut self, what: &str) {
        if let Some(probe) = &mut self.probe {
            probe(what);
        }
    }

    /// Waits for the operations of the hold, and keeps others out until the end of the transaction.
    fn fence(&mut self) -> Result<(), Trouble> {
        self.before("fence");
        self.transaction
            .batch_execute(&format!(
                "SET LOCAL lock_timeout = {}; LOCK TABLE anabranch.fence IN EXCLUSIVE MODE; SET LOCAL lock_timeout = 0",
                FENCE_MAX.as_millis()
            ))
            .map_err(trouble)
    }

    pub(super) fn rows(&mut self, payloads: Payloads) -> Result<Rows<Changes>, Trouble> {
        self.before("rows");
        let statement = self.prepare(
            "SELECT s.place, h.epoch, h.epoch_server, h.promised, h.promised_server, h.members, h.received, h.passed, \
             h.token FROM anabranch.hold h, anabranch.server s FOR UPDATE OF h",
        )?;
        let found = self
            .transaction
            .query_opt(&statement, &[])
            .map_err(trouble)?;
        let row = found.ok_or_else(|| damaged("anabranch.hold is empty"))?;
        let place = server(row.get(0))?;
        let epoch = |number: usize| -> Result<Epoch, Trouble> {
            Ok(Epoch {
                number: unsigned(row.get(number))?,
                server: server(row.get(number + 1))?,
            })
        };
        let members: Vec<i16> = row.get(5);
        let members: Result<Vec<ServerId>, Trouble> = members.into_iter().map(server).collect();
        let received = Hop(unsigned(row.get(6))?);
        let mut rows = Rows::new(place, members?);
        rows.epoch = epoch(1)?;
        rows.promised = epoch(3)?;
        rows.received = received;
        rows.passed = Hop(unsigned(row.get(7))?);
        rows.token.hop = received;
        if let Some(bytes) = row.get::<_, Option<Vec<u8>>>(8) {
            rows.token =
                postcard::from_bytes(&bytes).map_err(|_| damaged("the token cannot be read"))?;
        }
        let statement = self.prepare("SELECT origin, number FROM anabranch.applied")?;
        let applied = self.transaction.query(&statement, &[]).map_err(trouble)?;
        for row in applied {
            let number = Sequence(unsigned(row.get(1))?);
            rows.applied.insert(server(row.get(0))?, number);
        }
        if payloads != Payloads::None {
            self.read_outbox(&mut rows, payloads)?;
        }
        Ok(rows)
    }

    fn read_outbox(&mut self, rows: &mut Rows<Changes>, payloads: Payloads) -> Result<(), Trouble> {
        self.before("outbox");
        let only: Option<i64> = match payloads {
            Payloads::Of(hop) => Some(signed(hop.0)?),
            Payloads::All | Payloads::None => None,
        };
        let statement = self.prepare(
            "SELECT o.number, o.hop, c.relation, c.kind, c.columns::text, c.image FROM anabranch.outbox o \
             LEFT JOIN LATERAL unnest(o.relations, o.kinds, o.columns, o.images) \
             AS c(relation, kind, columns, image) ON $1::bigint IS NULL OR o.hop = $1 ORDER BY o.number",
        )?;
        let found = self
            .transaction
            .query(&statement, &[&only])
            .map_err(trouble)?;
        let origin = rows.server;
        for row in found {
            let sequence = Sequence(unsigned(row.get(0))?);
            let hop = Hop(unsigned(row.get(1))?);
            let update = rows.outbox.entry(sequence).or_insert_with(|| Update {
                origin,
                hop,
                sequence,
                payload: Changes::default(),
            });
            if let Some(relation) = row.get::<_, Option<i16>>(2) {
                update.payload.0.push(Change {
                    relation,
                    kind: row.get::<_, i8>(3).cast_unsigned(),
                    columns: row.get(4),
                    image: row.get(5),
                });
            }
        }
        if let Some(last) = rows.outbox.keys().next_back().copied() {
            rows.drawn = last;
            let own = rows.applied.entry(origin).or_default();
            *own = last.max(*own);
        }
        Ok(())
    }

    /// Writes what differs between `before` and `after`.
    pub(super) fn write(
        &mut self,
        before: &Rows<Changes>,
        after: &Rows<Changes>,
    ) -> Result<(), Trouble> {
        self.before("hold");
        let token = match before.token == after.token {
            true => None,
            false => Some(
                postcard::to_stdvec(&after.token)
                    .map_err(|error| Trouble::Failed(error.to_string()))?,
            ),
        };
        let members: Result<Vec<i16>, Trouble> = after.members.iter().map(|m| number(*m)).collect();
        let statement = self.prepare(
            "UPDATE anabranch.hold SET epoch = $1, epoch_server = $2, promised = $3, promised_server = $4, \
             members = $5, received = $6, passed = $7, token = coalesce($8, token)",
        )?;
        self.transaction
            .execute(
                &statement,
                &[
                    &signed(after.epoch.number)?,
                    &number(after.epoch.server)?,
                    &signed(after.promised.number)?,
                    &number(after.promised.server)?,
                    &members?,
                    &signed(after.received.0)?,
                    &signed(after.passed.0)?,
                    &token,
                ],
            )
            .map_err(trouble)?;
        self.write_positions(&before.applied, &after.applied)?;
        let gone = before
            .outbox
            .keys()
            .filter(|number| !after.outbox.contains_key(number));
        let gone: Result<Vec<i64>, Trouble> = gone.map(|number| signed(number.0)).collect();
        let gone = gone?;
        if !gone.is_empty() {
            self.before("prune");
            let statement = self.prepare("DELETE FROM anabranch.outbox WHERE number = ANY ($1)")?;
            self.transaction
                .execute(&statement, &[&gone])
                .map_err(trouble)?;
        }
        Ok(())
    }

    fn write_positions(&mut self, before: &Positions, after: &Positions) -> Result<(), Trouble> {
        let changed = after
            .iter()
            .filter(|(origin, at)| before.get(origin) != Some(at));
        let mut origins: Vec<i16> = Vec::new();
        let mut numbers: Vec<i64> = Vec::new();
        for (origin, at) in changed {
            origins.push(number(*origin)?);
            numbers.push(signed(at.0)?);
        }
        if origins.is_empty() {
            return Ok(());
        }
        self.before("applied");
        let statement = self.prepare(
            "INSERT INTO anabranch.applied SELECT * FROM unnest($1::smallint[], $2::bigint[]) \
             ON CONFLICT (origin) DO UPDATE SET number = excluded.number",
        )?;
        self.transaction
            .execute(&statement, &[&origins, &numbers])
            .map_err(trouble)?;
        Ok(())
    }

    /// The keys of the tables whose changes can be applied together: none if an earlier version has installed the belt.
    fn keys(&mut self) -> Result<Keys, Trouble> {
        self.before("keys");
        let is_there = self
            .transaction
            .query_one("SELECT to_regclass('anabranch.keys') IS NOT NULL", &[])
            .map_err(trouble)?;
        let mut keys = Keys::default();
        if is_there.get(0) {
            let found = self
                .transaction
                .query("SELECT relation, places FROM anabranch.keys", &[])
                .map_err(trouble)?;
            for row in found {
                let places: Vec<i16> = row.get(1);
                let places = places.into_iter().map(usize::try_from);
                let places: Result<Vec<usize>, _> = places.collect();
                let places = places.map_err(|_| damaged("a negative place of a column"))?;
                keys.0.insert(row.get(0), places);
            }
        }
        Ok(keys)
    }

    /// Changes the application's rows as an operation of another server did.
    pub(super) fn apply(&mut self, update: &Update<Changes>) -> Result<(), Trouble> {
        self.apply_changes(&update.payload.0.iter().collect::<Vec<_>>())
    }

    /// Changes the application's rows, each once.
    fn apply_changes(&mut self, changes: &[&Change]) -> Result<(), Trouble> {
        self.before("apply");
        let relations: Vec<i16> = changes.iter().map(|c| c.relation).collect();
        let kinds: Vec<i8> = changes.iter().map(|c| c.kind.cast_signed()).collect();
        let columns: Vec<&Option<String>> = changes.iter().map(|c| &c.columns).collect();
        let images: Vec<&Option<String>> = changes.iter().map(|c| &c.image).collect();
        let statement =
            self.prepare("SELECT anabranch.apply($1, $2, ($3::text[])::varbit[], $4)")?;
        self.transaction
            .execute(&statement, &[&relations, &kinds, &columns, &images])
            .map_err(trouble)?;
        Ok(())
    }

    fn commit(mut self) -> Result<(), Trouble> {
        self.before("commit");
        self.transaction.commit().map_err(trouble)
    }
}

fn number(server: ServerId) -> Result<i16, Trouble> {
    i16::try_from(server.0).map_err(|_| damaged("a server above 32767"))
}

impl Database for PostgresDatabase {
    fn standing(&mut self) -> Result<Standing<Changes>, Trouble> {
        let mut work = self.begin(IsolationLevel::RepeatableRead)?;
        let rows = work.rows(Payloads::All)?;
        work.commit()?;
        Ok(rows.standing())
    }

    fn receive(&mut self, token: &Token<Changes>) -> Result<Result<(), Refused>, Trouble> {
        let known = self.keys.take();
        let mut work = self.begin(IsolationLevel::Serializable)?;
        let keys = match known {
            Some(keys) => keys,
            None => work.keys()?,
        };
        let before = work.rows(Payloads::None)?;
        let mut after = before.clone();
        let new = match after.receive(token.clone()) {
            Ok(new) => new,
            Err(refused) => return Ok(Err(refused)),
        };
        for changes in keys.batches(&new) {
            work.apply_changes(&changes)?;
        }
        work.write(&before, &after)?;
        work.commit()?;
        self.keys = Some(keys);
        Ok(Ok(()))
    }

    fn pass(
        &mut self,
        hold: Hop,
        wishes: &BTreeSet<ServerId>,
    ) -> Result<Result<Token<Changes>, Refused>, Trouble> {
        let mut work = self.begin(IsolationLevel::ReadCommitted)?;
        if let Err(error) = work.fence() {
            drop(work);
            if matches!(error, Trouble::Aborted(_)) {
                self.end_forgotten_operations()?;
            }
            return Err(error);
        }
        let before = work.rows(Payloads::Of(hold))?;
        let mut after = before.clone();
        let token = match after.pass(hold, wishes.clone()) {
            Ok(token) => token.clone(),
            Err(refused) => return Ok(Err(refused)),
        };
        work.write(&before, &after)?;
        work.commit()?;
        Ok(Ok(token))
    }

    fn promise(&mut self, epoch: Epoch) -> Result<Option<Standing<Changes>>, Trouble> {
        let mut work = self.begin(IsolationLevel::ReadCommitted)?;
        work.fence()?;
        let before = work.rows(Payloads::All)?;
        let mut after = before.clone();
        let done = after.promise(epoch);
        work.write(&before, &after)?;
        work.commit()?;
        Ok(done.then(|| after.standing()))
    }

    fn install(&mut self, epoch: Epoch, members: &[ServerId]) -> Result<bool, Trouble> {
        let mut work = self.begin(IsolationLevel::ReadCommitted)?;
        work.fence()?;
        let before = work.rows(Payloads::None)?;
        let mut after = before.clone();
        let done = after.install(epoch, members.to_vec());
        work.write(&before, &after)?;
        work.commit()?;
        Ok(done)
    }
}

impl std::fmt::Debug for PostgresDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresDatabase").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_are_those_of_the_belt() {
        for part in [LOCAL, PREPARE] {
            assert!(SETTINGS.contains(part), "{part}");
        }
    }
}
