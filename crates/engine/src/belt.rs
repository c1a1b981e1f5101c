//! The Conveyor Belt in our own database (`docs/protocols/belt.md`, *In our own database*): the tables of the belt's state,
//! and the transactions that change them.
//!
//! [`BELT_TABLES`] declares three tables beside the application's. A global operation is a block that commits under a hold
//! ([`StepAction::CommitInHold`](crate::StepAction::CommitInHold)): then its own transaction compares the rows that it has
//! written with those before, draws its number, and writes its update. All else is a [`BeltWork`]: one transaction, which
//! reads the tables into [`Rows`], lets the function of `Rows` that defines it change them, and writes the difference back
//! together with the application's rows.
//!
//! The database of a server of the ring has one partition, and a protocol that locks what is read and written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_protocol::belt::rows::Refused;
use anabranch_protocol::belt::{Epoch, Hop, Positions, RowImages, Rows, ServerId, Standing, Token};
use anabranch_sql::application::ResultSet;
use anabranch_types::{EffectError, Schema, TableId, Value};
use serde::{Deserialize, Serialize};

/// The belt's tables, as SQL. `anabranch_hold` and `anabranch_state` have one row each. `open` is the hop of the open hold,
/// or 0; `drawn` is the number of the last update of this server that has committed.
pub const BELT_TABLES: &str = "\
CREATE TABLE anabranch_hold (id integer PRIMARY KEY, open bigint NOT NULL, drawn bigint NOT NULL);
CREATE TABLE anabranch_state (id integer PRIMARY KEY, state bytea NOT NULL);
CREATE TABLE anabranch_outbox (number bigint PRIMARY KEY, hop bigint NOT NULL, images bytea NOT NULL);
";

/// The most bytes of the update of one global operation, as the outbox has it. The token has all updates of about two laps
/// of the ring, in one row of at most 1 GiB and in messages of at most as much, in which a byte takes two.
pub(crate) const UPDATE_BYTES_MAX: usize = 16 << 20;

/// What a node has to know of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeltTables {
    pub(crate) hold: TableId,
    pub(crate) state: TableId,
    pub(crate) outbox: TableId,
    /// The tables whose changes by global operations all servers get, and of each whether every server has all of its rows,
    /// so that local operations never write it.
    pub(crate) replicated: BTreeMap<TableId, bool>,
}

impl BeltTables {
    /// The belt's tables in a schema that has them. `is_whole` says of each table of the application whether local
    /// operations never write it, or nothing if it is not replicated.
    ///
    /// # Errors
    /// When the schema does not have the belt's tables, or a replicated table has no primary key.
    pub fn new(
        schema: &Schema,
        is_whole: impl Fn(&str) -> Option<bool>,
    ) -> Result<BeltTables, String> {
        let named = |name: &str| {
            let found = schema.tables.iter().find(|table| table.name == name);
            let found = found.ok_or_else(|| format!("there is no table {name}"))?;
            Ok::<TableId, String>(found.id)
        };
        let own = [
            named("anabranch_hold")?,
            named("anabranch_state")?,
            named("anabranch_outbox")?,
        ];
        let mut replicated = BTreeMap::new();
        for table in schema
            .tables
            .iter()
            .filter(|table| !own.contains(&table.id))
        {
            let Some(is_whole) = is_whole(&table.name) else {
                continue;
            };
            if table.primary_key.is_empty() {
                return Err(format!(
                    "changes of {} cannot be captured: it has no primary key",
                    table.name
                ));
            }
            replicated.insert(table.id, is_whole);
        }
        let [hold, state, outbox] = own;
        Ok(BeltTables {
            hold,
            state,
            outbox,
            replicated,
        })
    }

    /// Whether a table is one of the belt's own.
    pub(crate) fn is_own(&self, table: TableId) -> bool {
        [self.hold, self.state, self.outbox].contains(&table)
    }
}

/// A transaction of the belt.
#[derive(Clone, Debug)]
pub enum BeltWork {
    /// Writes the state of a new ring ([`Rows::new`]).
    Create {
        /// The own server.
        server: ServerId,
        /// All servers, in the order of the ring.
        members: Vec<ServerId>,
    },
    /// Reads what tells whether tables have the same rows as at other servers.
    Digest(Vec<TableId>),
    /// Reads the state that a restarted server goes on from.
    Standing,
    /// Reads what people are told of the state.
    Look,
    /// See [`Rows::receive`].
    Receive(Token<RowImages>),
    /// See [`Rows::pass`].
    Pass {
        /// The hold that ends.
        hold: Hop,
        /// The servers that wish for the token.
        wishes: BTreeSet<ServerId>,
    },
    /// See [`Rows::promise`].
    Promise(Epoch),
    /// See [`Rows::install`].
    Install {
        /// The epoch.
        epoch: Epoch,
        /// Its servers.
        members: Vec<ServerId>,
    },
}

/// The number of a table's rows, and a digest of them without their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDigest {
    /// How many rows.
    pub rows: u64,
    /// The sum of the rows' digests.
    pub digest: u64,
}

/// The state of a ring as one of its databases has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeltLook {
    /// The own server.
    pub server: ServerId,
    /// The servers of the epoch.
    pub members: Vec<ServerId>,
    /// The last hop received.
    pub received: Hop,
    /// The last hop passed. Below `received` while the hold is open.
    pub passed: Hop,
    /// By origin: the number of the last update applied; for the own server, the last one of its own.
    pub applied: Positions,
    /// How many of its own updates are not known to be applied everywhere.
    pub not_everywhere: u64,
}

/// What a transaction of the belt has given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BeltAnswer {
    /// Of [`BeltWork::Create`].
    Created,
    /// Of [`BeltWork::Digest`], in the order of the tables.
    Digested(Vec<TableDigest>),
    /// Of [`BeltWork::Standing`].
    Standing(Standing<RowImages>),
    /// Of [`BeltWork::Look`].
    Looked(BeltLook),
    /// Of [`BeltWork::Receive`].
    Received(Result<(), Refused>),
    /// Of [`BeltWork::Pass`].
    Passed(Result<Token<RowImages>, Refused>),
    /// Of [`BeltWork::Promise`]: the state, unless a later epoch is promised.
    Promised(Option<Standing<RowImages>>),
    /// Of [`BeltWork::Install`]: whether the server takes part.
    Installed(bool),
}

impl BeltAnswer {
    /// The answer in the result of a call of [`Work::Belt`](crate::Work::Belt).
    ///
    /// # Errors
    /// When the result is none of such a call.
    pub fn of(result: &ResultSet) -> Result<BeltAnswer, String> {
        match result.rows.first().and_then(|row| row.first()) {
            Some(Value::Bytes(bytes)) => decoded(bytes).map_err(|error| error.message),
            _ => Err("a call of the belt gave no answer".to_owned()),
        }
    }

    pub(crate) fn into_result(self) -> ResultSet {
        ResultSet {
            rows: vec![vec![Value::Bytes(encoded(&self))]],
            ..ResultSet::default()
        }
    }
}

/// The bytes of a value of the belt in its tables.
pub(crate) fn encoded(value: &impl Serialize) -> Arc<[u8]> {
    let bytes = postcard::to_stdvec(value);
    bytes.expect("a value of the belt is encoded").into()
}

/// A value of the belt from its tables.
pub(crate) fn decoded<T: for<'d> Deserialize<'d>>(bytes: &[u8]) -> Result<T, EffectError> {
    postcard::from_bytes(bytes).map_err(|_| damaged("a value cannot be read"))
}

/// The belt's tables have what no transaction of the belt writes.
pub(crate) fn damaged(what: &str) -> EffectError {
    EffectError::new("XX001", format!("the belt's tables are damaged: {what}"))
}

/// The hop of the open hold, or 0.
pub(crate) fn open_hop(rows: &Rows<RowImages>) -> u64 {
    match rows.is_open(rows.received) {
        true => rows.received.0,
        false => 0,
    }
}
