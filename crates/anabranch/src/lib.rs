//! anabranch: the transactional database that coordinates only when it must.
//!
//! This crate is the library's public interface and the `anabranch` binary. The [glossary] defines the project's
//! terms. The crates that it exports:
//!
//! * [`types`]: values, keys, rows, effects.
//! * [`sql`]: compiles PostgreSQL's SQL to a catalog and procedures.
//! * [`analysis`]: makes a plan from a catalog.
//! * [`engine`]: a node, which runs procedures over a protocol.
//! * [`server`]: the embedded cluster.
//! * [`sim`]: a whole cluster in virtual time.
//! * [`workload`] and [`mod@bench`]: benchmark applications and experiments on them.
//!
//! [glossary]: https://github.com/anabranch/anabranch/blob/main/docs/glossary.md

pub use anabranch_analysis as analysis;
pub use anabranch_bench as bench;
pub use anabranch_engine as engine;
pub use anabranch_server as server;
pub use anabranch_sim as sim;
pub use anabranch_sql as sql;
pub use anabranch_types as types;
pub use anabranch_workload as workload;
