//! What the Conveyor Belt asks of a database that it does not own.
//!
//! The belt's state machine ([`BeltServer`](anabranch_protocol::belt::BeltServer)) makes
//! [`Request`](anabranch_protocol::belt::Request)s; a [`Database`] answers them. Each is one transaction of the
//! database, and does with the belt's own tables what [`Rows`](anabranch_protocol::belt::Rows) says.

use std::collections::BTreeSet;

use anabranch_protocol::belt::rows::Refused;
use anabranch_protocol::belt::{Epoch, Hop, Payload, ServerId, Standing, Token};
use serde::{Deserialize, Serialize};

/// What the middleware sends to one kind of database around the statements of its clients.
#[derive(Clone, Copy, Debug)]
pub struct Statements {
    /// The settings of a connection, for local operations.
    pub settings: &'static str,
    /// What has to be so on a connection.
    pub checks: &'static str,
    /// Begins a global operation under a hold.
    pub begin: fn(Hop) -> String,
    /// What ends a global operation before its COMMIT.
    pub end: &'static str,
    /// What comes behind the BEGIN of a transaction by hand: it is not known yet whether it is global.
    pub provisional: &'static str,
    /// The statement before the COMMIT of a transaction that began provisionally and is local: it, or the COMMIT, fails with
    /// 55000 if the transaction has written rows of all servers after all.
    pub settle: &'static str,
    /// What makes an open transaction that began provisionally a global operation under a hold, before its COMMIT: for a
    /// database that locks all that a transaction has read until it ends. Without it the transaction runs again inside the
    /// hold.
    pub promote: Option<fn(Hop) -> String>,
    /// The hint for the client of an operation whose turn does not come in time.
    pub late: &'static str,
}

/// One row that a global operation changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// The number of the table in this ring.
    pub relation: i16,
    /// `I` inserted, `U` updated, `D` deleted, `T`: all rows of the table deleted.
    pub kind: u8,
    /// For an update: a digit for each column, 1 if it changed.
    pub columns: Option<String>,
    /// The row in the database's text form, with NULL for columns that did not change.
    pub image: Option<String>,
}

/// What one global operation changed: each row once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Changes(pub Vec<Change>);

impl Payload for Changes {
    fn bytes(&self) -> usize {
        let size = |change: &Change| {
            let columns = change.columns.as_ref().map_or(0, String::len);
            8 + columns + change.image.as_ref().map_or(0, String::len)
        };
        self.0.iter().map(size).sum()
    }
}

/// Why a transaction of the belt did not take place.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A conflict with another transaction, or a deadlock. It can be run again at once.
    #[error("the transaction was aborted: {0}")]
    Aborted(String),
    /// The connection is lost, and the transaction may have committed or not: read the standing.
    #[error("the connection is lost: {0}")]
    Lost(String),
    /// The database refuses it, and would again: the servers differ, a right is missing, the installation is damaged.
    #[error("{0}")]
    Failed(String),
}

/// The transactions of the belt in one server's database.
pub trait Database {
    /// The state that a restarted server goes on from.
    ///
    /// # Errors
    /// When the database does not answer, or nothing is installed.
    fn standing(&mut self) -> Result<Standing<Changes>, Trouble>;

    /// Receives a token, and applies the updates that are new here ([`Rows::receive`](anabranch_protocol::belt::Rows::receive)).
    ///
    /// # Errors
    /// When the transaction did not take place.
    fn receive(&mut self, token: &Token<Changes>) -> Result<Result<(), Refused>, Trouble>;

    /// Closes a hold, once the operations in it have ended ([`Rows::pass`](anabranch_protocol::belt::Rows::pass)).
    ///
    /// # Errors
    /// When the transaction did not take place.
    fn pass(
        &mut self,
        hold: Hop,
        wishes: &BTreeSet<ServerId>,
    ) -> Result<Result<Token<Changes>, Refused>, Trouble>;

    /// Promises to take part in no earlier epoch ([`Rows::promise`](anabranch_protocol::belt::Rows::promise)); the
    /// standing, unless a later one is promised.
    ///
    /// # Errors
    /// When the transaction did not take place.
    fn promise(&mut self, epoch: Epoch) -> Result<Option<Standing<Changes>>, Trouble>;

    /// Begins to take part in a promised epoch ([`Rows::install`](anabranch_protocol::belt::Rows::install)).
    ///
    /// # Errors
    /// When the transaction did not take place.
    fn install(&mut self, epoch: Epoch, members: &[ServerId]) -> Result<bool, Trouble>;
}
