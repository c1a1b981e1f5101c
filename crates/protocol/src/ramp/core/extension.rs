//! The points at which the core of RAMP meets its extensions. No other file of the core imports one
//! (`cargo xtask tidy` holds that).
//!
//! Core structures carry state of an extension without looking into it: the types that this module passes on. And the
//! core calls an extension where its algorithm leaves room for one. The calls, by extension:
//!
//! | extension | the core calls | where | without the extension |
//! |---|---|---|---|
//! | [collection](crate::ramp::collection) | `stability.known` | a read begins | nothing is known to be stable |
//! | | `has_forgotten`, `stability.is_settled` | an owner answers or includes | nothing is ever forgotten |
//! | | `stability.decided`, `acknowledged`, `done`, `make_exceptions`, `schedule_announce` | a decision; its end | – |
//! | [causal](crate::ramp::causal) | `admit_dependencies`, `session` | a commit begins, and is answered | none |
//! | | `install_dependencies` | a participant prepares or commits | – |
//! | | `freshness`, `is_fresh`, `verify_freshness` | a round ends; an owner answers | every snapshot is fresh |
//! | [recovery](crate::ramp::recovery) | `record_vote`, `record_committed`, `record_alone`, `record_aborted`, `record_decision`, `record_end` | at each | no log |
//! | [termination](crate::ramp::termination) | `schedule_termination` | after a vote | waits for the coordinator |
//! | | `loses_commit`, `lose_commit` | a decision | every Commit is sent |
//! | [replication](crate::ramp::replication): sticky | `admit_works`, `effects_to_replicate`, `replicate_decision`, `is_remote` | a commit begins, is decided, is answered | one cluster |
//! | Prepare-F, quorums | `begin_replicated`, `handle_replicated_vote`, `replica_installed` | in place of the two phases | two phases |
//! | quorums | `may_begin_at`, `ask_any_replica`, `ask_majority`, `expect_fixed` | in place of asking the owner | the owner |
//! | | `admit_answer`, `take_replica_answer`, `settle_answers`, `settled_writes`, `deny_own`, `not_prepared` | an answer arrives | – |

pub(super) use crate::ramp::causal::context::{
    CausalContext, Dependency, Frontier, SequenceVector,
};
pub(crate) use crate::ramp::causal::freshness;
pub(crate) use crate::ramp::collection::installed_exceptions::ExceptionsBy;
pub(crate) use crate::ramp::collection::stability::Stability;
pub use crate::ramp::collection::stable_vector::{Exceptions, StableVector};
pub(crate) use crate::ramp::replication::quorum::state::{
    LookUp, PendingAnswer, Round, UncertainRead, settle_answers, settled_writes,
    take_replica_answer,
};
pub(crate) use crate::ramp::replication::replicated_write::ReplicatedWrite;
pub(crate) use crate::ramp::replication::sticky::state::is_remote;
