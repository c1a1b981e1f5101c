//! A PostgreSQL server as the oracle of tests and the rival of experiments; `dbms` starts it.
//!
//! * [`value`]: our values in PostgreSQL's binary format, for parameters and for COPY.
//! * [`copy`]: bulk loading of its tables.
//!
//! Nothing here uses our own stores or protocols.

pub mod copy;
pub mod value;
