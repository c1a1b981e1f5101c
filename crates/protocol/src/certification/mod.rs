//! Parallel certification (alvin.txt §4.2, P-CC): sites that each have all the data execute transactions on a local
//! snapshot, broadcast them at commit, and certify them at delivery.
//!
//! It runs over any [`Orderer`](crate::order::Orderer): what the orderer delivers is a [`Certificate`], and its conflict
//! relation is the [`AccessSet`]. Every site decides alike on each certificate, without a message of its own.
//!
//! The page `docs/protocols/alvin.md` has the algorithm, the states, the invariants (`PCC-I1` …) and why they hold.
//!
//! * [`certificate`]: what is broadcast. [`read_set`]: the versions that a transaction has read.
//! * [`guarded`]: what a certificate has instead where transactions are ordered over guards ([`crate::guards`]).
//! * [`access_set`]: what a transaction accesses, and the conflict relation.
//! * [`site`]: a site. `durable`: its recovery. `orderer`: the orderers and their log records.
//! * `transfer`, `transfers`: the state of another site, in place of what a site has missed. [`outcomes`]: what became of transactions
//!   that it has missed. [`message`], [`record`]: messages and log records of that.

pub mod access_set;
pub mod certificate;
mod durable;
pub mod guarded;
pub mod message;
mod orderer;
pub mod outcomes;
pub mod read_set;
pub mod record;
pub mod site;
mod transfer;
mod transfers;

pub use access_set::AccessSet;
pub use certificate::Certificate;
pub use guarded::{GuardedCommit, Seen};
pub use message::SiteMessage;
pub use orderer::LoggedOrderer;
pub use read_set::ReadSet;
pub use site::{CertificationSite, Consistency};
