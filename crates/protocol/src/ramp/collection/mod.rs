//! When sibling metadata may go (ramp.txt §4.5 and §4.8).

mod announce;
mod exceptions;
pub(crate) mod former_exceptions;
mod gossip;
mod history;
pub(crate) mod installed_exceptions;
mod options;
mod participant;
pub(crate) mod stability;
pub(crate) mod stable_vector;
