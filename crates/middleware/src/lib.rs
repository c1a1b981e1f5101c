//! The Conveyor Belt over databases that people already have: a middleware beside each server of a ring.
//!
//! * [`ring`]: a thread drives the belt's state machine ([`anabranch_protocol::belt`]) over the server's database
//!   ([`anabranch_dbms`]). An operation waits there for its [`Turn`].
//! * [`peers`]: the connections between the middlewares of a ring.
//! * [`recognise`]: which transaction type the statements of an application are, and where it runs.
//!
//! Accepting applications' connections is not here yet.

pub mod command;
pub mod lex;
pub mod peers;
pub mod recognise;
pub mod ring;

pub use ring::{NoTurn, Ring, RingOptions, Turn};
