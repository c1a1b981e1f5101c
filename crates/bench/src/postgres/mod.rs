//! A throw-away PostgreSQL server: the oracle of tests, and the rival of experiments.
//!
//! * [`installation`]: finds its programs, or says how to install them.
//! * [`server`]: one server in a folder of its own, removed when dropped.
//! * [`value`]: our values in PostgreSQL's binary format, for parameters and for COPY.
//! * [`copy`]: bulk loading of its tables.
//!
//! Nothing here uses our own stores or protocols.

pub mod copy;
pub mod installation;
pub mod server;
pub mod value;

pub use installation::{Installation, NotInstalled};
pub use server::{Server, ServerError, Settings};
