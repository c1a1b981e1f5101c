//! The Conveyor Belt over databases that people already have: a middleware beside each server of a ring.
//!
//! * [`service`] accepts applications' connections. Each has a `session`, which forwards what the client asks for: to
//!   the own database ([`backend`]), or to the middleware of the server that it belongs to.
//! * [`recognise`]: which operation the statements of a client are, and where it runs. [`command`], [`lex`]: what a
//!   statement is otherwise.
//! * [`ring`]: a thread drives the belt's state machine ([`anabranch_protocol::belt`]) over the server's database
//!   ([`anabranch_dbms`]). A global operation waits there for its [`Turn`].
//! * [`peers`]: the connections between the middlewares of a ring; `waits`: what the ring waits for, for people.

pub mod backend;
pub mod command;
pub mod lex;
pub mod peers;
pub mod recognise;
pub mod ring;
pub mod service;
mod session;
pub mod shared;
mod waits;

pub use ring::{NoTurn, Ring, RingOptions, Turn};
pub use service::Service;
pub use shared::{ServiceOptions, Site};
