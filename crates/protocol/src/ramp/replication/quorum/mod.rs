//! Quorum operation (ramp.txt §6.2): no transaction waits for a replica that is away, and reads may lag.
//!
//! Each partition has a replica in each cluster. A transaction is decided when a majority of the replicas of each
//! partition that it writes has prepared it, and installed at each replica that has. The first round of a read asks
//! one replica, and another one as well if that is silent. The second round asks for what the reader has met
//! elsewhere: one of any majority of replicas has it. Where metadata leave open what that wrote, a majority settles
//! it (`look_up`). The page `docs/protocols/ramp-quorum.md` says what holds and why. Writes begin as under Prepare-F
//! ([`super::prepare_f`]).

mod look_up;
mod participant;
mod read;
pub(crate) mod state;
mod write;

/// A transaction that reads on at a replica waits for it so many times as long as one that may ask another.
const PATIENCE: u64 = 8;

/// And so many times as long as its first rows took.
const SLOWER: u64 = 4;

/// For how long other replicas are asked before one at which a read could not go on, or that was silent; in multiples
/// of the time that a replica is waited for.
const AVOIDED: u64 = 64;
