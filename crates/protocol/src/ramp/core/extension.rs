//! The points at which the core of RAMP meets its extensions. No other file of the core imports one outside its tests, and
//! the core calls no function of an extension that this page does not list (`cargo xtask tidy` holds both).
//!
//! Core structures carry state of an extension without looking into it: the types that this module passes on. The core
//! calls an extension where its algorithm leaves room for one:
//!
//! | extension | the core calls | when |
//! |---|---|---|
//! | [collection](crate::ramp::collection): stability | `known`, `includes`, `floor`, `learn_vector` | a read begins; a read is refused since metadata are forgotten |
//! | | `acknowledged`, `done`, `reached`, `make_exceptions`, `schedule_announce` | a decision; an acknowledgement; the last one |
//! | … at an owner | `has_forgotten`, `is_settled`, `first_exception`, `find_exceptions`, `reads_exceptions` | a read is answered |
//! | … version history | `retain_history`, `discard_history`, `hold_horizon` | a read in an older snapshot; an install |
//! | [causal](crate::ramp::causal) | `admit_dependencies`, `session` | a commit begins; it is answered |
//! | | `install_dependencies`, `advance_clock`, `trace_alone`, `remember_alone`, `newest` | a participant prepares or commits |
//! | | `follow`, `freshness`, `is_fresh`, `verify_freshness` | sibling metadata arrive; a round ends; an owner answers |
//! | [recovery](crate::ramp::recovery) | `record_vote`, `record_aborted`, `record_committed`, `record_alone`, `record_decision`, `record_end` | at each |
//! | [termination](crate::ramp::termination) | `schedule_termination` | after a vote |
//! | | `loses_commit`, `lose_commit` | a decision (an experiment of ramp.txt §5.3) |
//! | [replication](crate::ramp::replication): sticky clusters | `admit_works`, `effects_to_replicate`, `replicate`, `replicate_decision` | a commit begins; it is decided |
//! | | `is_remote`, `remote_aborted`, `remote_committed`, `remote_installed` | in place of a client's answer |
//! | … Prepare-F and quorums | `begin_replicated`, `prepare_replicated`, `handle_replicated_vote`, `replica_installed`, `check_decided`, `merging` | in place of the two phases |
//! | … quorum reads | `may_begin_at`, `ask_any_replica`, `ask_majority`, `leaves_uncertain`, `expect_fixed`, `avoid_replicas` | in place of asking the owner |
//! | | `admit_answer`, `may_come_from`, `take_replica_answer`, `settle_answers`, `settled_writes`, `not_prepared`, `deny_own` | an answer arrives |
//!
//! Without an extension its calls do nothing, or answer what holds for one cluster without causal consistency and without
//! a log.

pub(crate) use crate::ramp::causal::context::{
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
