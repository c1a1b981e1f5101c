//! The Conveyor Belt in the simulator: servers with databases that behave like PostgreSQL's.
//!
//! * [`database`]: the database. [`site`]: a server: the protocol's state machine over it.
//! * [`replicated`]: which columns all servers have to have alike.

pub(crate) mod database;
pub(crate) mod replicated;
pub(crate) mod site;

pub(crate) use site::{BeltSite, EXPIRED};
