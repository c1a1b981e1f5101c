//! The Conveyor Belt ("Scaling Out ACID Applications with Operation Partitioning", §4 and the appendix): servers that
//! each have a whole database run *global* operations in turn, while they hold a token, and the token carries their
//! updates to the others. *Local* operations run at once, and never meet this module.
//!
//! [`server::BeltServer`] is a pure state machine. It drives a database that it does not own: [`server::Request`]s go
//! to the database, [`server::Input`]s are its answers, messages of other servers, timers and operations of clients.
//! Everything that has to survive a crash is in that database, in the belt's own tables ([`rows::Rows`]): what each
//! database transaction does with them is defined there, and every database does the same.
//!
//! The page `docs/protocols/belt.md` has the algorithm, the messages, the invariants (`BELT-I1` …) and why they hold.
//!
//! Departures from the paper: the received token, the applied positions and the outbox are durable, so that a crash
//! loses no update (the paper leaves fault tolerance open); updates are pruned by a watermark for each server, not
//! after one lap; operations of a hold run at the same time, and other servers apply their updates in one database
//! transaction; an idle ring does not circulate.

pub mod images;
pub mod message;
pub mod record;
pub mod rows;
pub mod server;
pub mod token;

pub use images::{RowImage, RowImages};
pub use message::Message;
pub use record::BeltRecord;
pub use rows::{Rows, Standing};
pub use server::{
    Acknowledge, Awaited, BeltOptions, BeltServer, Input, Outbox, Reply, Request, Timer,
};
pub use token::{Epoch, Hop, Payload, Positions, Sequence, ServerId, Token, Update};
