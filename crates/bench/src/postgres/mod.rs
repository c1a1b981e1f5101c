//! A throw-away PostgreSQL server: the oracle of tests, and the rival of experiments.
//!
//! * [`installation`]: where its programs are, and the line to type where they are missing.
//! * [`server`]: one server in a folder of its own, gone when dropped.
//! * [`value`]: our values in PostgreSQL's binary form, for parameters and for COPY.
//! * [`copy`]: rows into its tables, in bulk.
//!
//! Nothing here is on the way of a transaction of our own; no protocol and no store is in sight.

pub mod copy;
pub mod installation;
pub mod server;
pub mod value;

pub use installation::{Installation, NotInstalled};
pub use server::{Server, ServerError, Settings};
