//! Databases that people already have, unmodified.
//!
//! * [`belt`]: what the Conveyor Belt asks of a database.
//! * [`own`]: our own server as a database of a ring.
//! * [`postgres`]: connections, servers for tests and experiments, and what the Conveyor Belt installs in a database.
//! * [`servers`]: the file that describes the servers of a ring.
//! * [`slots`]: which server owns which keys, and what changes when a server joins or leaves.

pub mod belt;
pub mod own;
pub mod postgres;
pub mod servers;
pub mod slots;

pub use servers::Servers;
