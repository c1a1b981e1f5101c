//! The core of RAMP (ramp.txt §4, Algorithms 1 to 3). Where it carries or calls an extension: `extension`.
//!
//! * `coordinator::read` is GET_ALL, `coordinator::write` is PUT_ALL; `coordinator::attempt` is what a coordinator knows of
//!   one transaction.
//! * `participant::{get, prepare, commit}` are GET, PREPARE and COMMIT; `participant::uncertain` is what RAMP-Small and
//!   RAMP-Hybrid add to GET; `participant::sibling_metadata` finds what goes with the rows. `participant::handler` takes a
//!   coordinator's messages.
//! * [`metadata`] is the one thing in which the three differ. [`message`] has the messages.
//! * `context` is what coordinator and participant share; [`trace`] is what a participant remembers of a transaction.

pub(crate) mod context;
pub(crate) mod coordinator;
mod extension;
pub mod message;
pub mod metadata;
pub(crate) mod participant;
pub mod trace;
