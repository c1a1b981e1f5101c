//! Quorum operation (ramp.txt §6.2): nobody waits for a copy that is away, and reads may lag.
//!
//! Each partition has a copy in each cluster. A transaction is decided when a majority of the copies of each
//! partition that it writes has prepared it, and shown at each copy that has. The first round of a read asks one
//! copy, and another one as well if that is silent; the second round asks for what a reader has met elsewhere,
//! which of any majority of copies one has; where metadata do not say what that wrote, a majority does (`uncertain_read`).
//! The page `docs/protocols/ramp-quorum.md` says what holds and why;
//! intents are Prepare-F's ([`super::prepare_f`]).

mod look_up;
mod read;
pub(crate) mod state;
mod write;

/// Who reads on in a copy waits for it so many times as long as who may ask another.
const PATIENCE: u64 = 8;

/// And so many times as long as its first rows took.
const SLOWER: u64 = 4;

/// For how long another copy is asked first in the place of one with which a read could not go on, or that was
/// silent, in times of what a copy is waited for.
const AVOIDED: u64 = 64;
