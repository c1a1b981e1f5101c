//! `anabranch.ring`, `anabranch.lag` and `anabranch.types` of a database in a ring: the ring as this database has it, read
//! by a transaction of the belt when a client asks for it.
//!
//! The relations and their columns are those that the belt installs in PostgreSQL. What the ring waits for the middleware
//! knows; it says so by the setting `anabranch.waits_for`.

use std::sync::Arc;

use anabranch_engine::BeltLook;
use anabranch_protocol::belt::{Sequence, ServerId};
use anabranch_sql::client::RingRelation;
use anabranch_types::Value;
use anabranch_wire::ErrorFields;

use super::environment::SharedState;
use super::errors::{error, error_with_hint};
use super::options::RingDescription;
use super::transactions::ask_by;
use crate::frontend::{ConnectionId, Gathered};
use crate::ring_look::RingRows;

/// Has a session told of the ring, by a note.
///
/// # Errors
/// When the operating system gives no thread.
pub(crate) fn ask(
    shared: &Arc<SharedState>,
    ring: &Arc<RingDescription>,
    client: ConnectionId,
) -> Result<(), Box<ErrorFields>> {
    let ring = Arc::clone(ring);
    let gather = move |shared: &SharedState| -> Result<Gathered, Box<ErrorFields>> {
        let look = shared.at_ring.look();
        let look = look.map_err(|why| error("55000", format!("the ring cannot be read: {why}")))?;
        Ok(Gathered::Ring(Arc::new(rows(&ring, &look))))
    };
    ask_by(shared, |shared| &shared.ring_lookers, gather, client)
}

/// The database is in no ring.
pub(crate) fn in_no_ring(relation: RingRelation) -> Box<ErrorFields> {
    let message = format!("relation \"anabranch.{}\" does not exist", relation.name());
    error_with_hint(
        "42P01",
        message,
        "It is in the databases of a ring: anabranch serve --belt-embedded.",
    )
}

fn rows(ring: &RingDescription, look: &BeltLook) -> RingRows {
    let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let only = |is_own: bool, value: Value| match is_own {
        true => value,
        false => Value::Null,
    };
    let servers = || (0..).map(ServerId).zip(&ring.servers);
    let of_ring = servers().map(|(server, name)| {
        let is_own = server == look.server;
        vec![
            Value::text(name),
            Value::Int(server.0.into()),
            Value::Bool(is_own),
            Value::Bool(look.members.contains(&server)),
            only(is_own, number(look.received.0)),
            only(is_own, Value::Bool(look.passed < look.received)),
            Value::Null,
        ]
    });
    let of_lag = servers().map(|(server, name)| {
        let applied = look.applied.get(&server).unwrap_or(&Sequence(0));
        vec![
            Value::text(name),
            number(applied.0),
            only(server == look.server, number(look.not_everywhere)),
        ]
    });
    let of_types = ring.types.iter().map(|of| {
        vec![
            Value::text(&of.name),
            Value::text(&of.class),
            Value::Array(of.parameters.iter().map(Value::text).collect()),
        ]
    });
    RingRows {
        ring: of_ring.collect(),
        lag: of_lag.collect(),
        types: of_types.collect(),
    }
}
