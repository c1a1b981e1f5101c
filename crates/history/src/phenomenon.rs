//! The phenomena that models forbid, by name, each with where it is defined.
//!
//! *Adya* is A. Adya, *Weak Consistency* (MIT, 1999); *Cerone and Gotsman* is *Analysing Snapshot
//! Isolation* (JACM 65(2), 2018); *HAT* is Bailis et al., *Highly Available Transactions* (VLDB
//! 2014), whose appendix defines session guarantees; *Elle* is Kingsbury and Alvaro, *Elle: Inferring
//! Isolation Anomalies from Experimental Observations* (VLDB 2020); the other definitions are
//! ramp.txt's.

use std::fmt;

use crate::graph::{Dependency, Step};

/// A phenomenon that some models forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Phenomenon {
    /// A committed write that was never installed. Every model presupposes durability.
    LostWrite,
    /// An answer that differs from the version installed at the sequence that it claims.
    WrongVersion,
    /// Two reads that no single order of versions explains (Elle: inconsistent
    /// observations).
    IncompatibleOrder,
    /// An element appended once was read twice (Elle: duplicates).
    DuplicateElements,
    /// A read that does not agree with the transaction's own operations (Elle; Cerone et
    /// al., *A Framework for Transactional Consistency Models*, CONCUR 2015: INT).
    Internal,
    /// Write cycle (Definition 3.6).
    G0,
    /// Aborted read (Definition 3.7).
    G1a,
    /// Intermediate read (Definition 3.8).
    G1b,
    /// Circular information flow (Definition 3.9).
    G1c,
    /// A transaction read some of another's writes and missed others (Definition 3.1).
    FracturedReads,
    /// Fractured reads in which the missed write was read last: an observed transaction vanished (Definition 3.15;
    /// Adya §4.2.3).
    ObservedTransactionVanishes,
    /// A transaction read two versions of one item (Definition 3.23).
    ItemManyPreceders,
    /// Two ranges, or a range and a read, returned different versions of a shared item, or a range lacks a row of a
    /// transaction that was otherwise visible (Definitions 3.14 and 3.25).
    PredicateManyPreceders,
    /// A cycle with an antidependency, all on one item (Definition 3.12), of transactions that all write it.
    LostUpdate,
    /// A cycle with exactly one antidependency (Adya §4.2.2, G-single).
    GSingle,
    /// A cycle with several antidependencies, no two of them next to each other (Cerone and
    /// Gotsman, Theorem 4.1): a long fork (ramp.txt, History 7).
    LongFork,
    /// Two transactions that antidepend on each other (Definition 3.19).
    WriteSkew,
    /// A cycle with several antidependencies (Adya §3.2.3, G2).
    G2,
    /// A cycle of one reader with writers (Adya §4.2.4, G-update).
    GUpdate,
    /// A cycle that includes a real-time order.
    RealTime,
    /// A cycle of reads and session order: an effect before its cause.
    CausalCycle,
    /// A transaction missed an effect that it depends on transitively (Definitions 3.21 and 3.22).
    MissingDependency,
    /// A session read an older version than before (HAT, N-MR).
    NonMonotonicReads,
    /// A session's later write is ordered before an earlier one (HAT, N-MW).
    NonMonotonicWrites,
    /// A session missed its own write (HAT, MYR).
    MissingYourWrites,
    /// A session's write is ordered before a version that it had read (HAT, MRWD).
    WritesBeforeReads,
}

impl Phenomenon {
    /// The name in the literature, or the closest one.
    pub fn name(self) -> &'static str {
        match self {
            Phenomenon::LostWrite => "lost write",
            Phenomenon::WrongVersion => "wrong version",
            Phenomenon::IncompatibleOrder => "incompatible order",
            Phenomenon::DuplicateElements => "duplicate elements",
            Phenomenon::Internal => "internal inconsistency",
            Phenomenon::G0 => "G0",
            Phenomenon::G1a => "G1a",
            Phenomenon::G1b => "G1b",
            Phenomenon::G1c => "G1c",
            Phenomenon::FracturedReads => "fractured reads",
            Phenomenon::ObservedTransactionVanishes => "OTV",
            Phenomenon::ItemManyPreceders => "IMP",
            Phenomenon::PredicateManyPreceders => "PMP",
            Phenomenon::LostUpdate => "lost update",
            Phenomenon::GSingle => "G-single",
            Phenomenon::LongFork => "long fork",
            Phenomenon::WriteSkew => "write skew",
            Phenomenon::G2 => "G2",
            Phenomenon::GUpdate => "G-update",
            Phenomenon::RealTime => "real-time violation",
            Phenomenon::CausalCycle => "causal cycle",
            Phenomenon::MissingDependency => "missing dependency",
            Phenomenon::NonMonotonicReads => "non-monotonic reads",
            Phenomenon::NonMonotonicWrites => "non-monotonic writes",
            Phenomenon::MissingYourWrites => "missing your writes",
            Phenomenon::WritesBeforeReads => "writes before reads",
        }
    }

    /// A short description.
    pub fn meaning(self) -> &'static str {
        match self {
            Phenomenon::LostWrite => "a committed write was never installed",
            Phenomenon::WrongVersion => "a read differs from the version installed at its sequence",
            Phenomenon::IncompatibleOrder => "no order of versions explains both reads",
            Phenomenon::DuplicateElements => "an element appended once was read twice",
            Phenomenon::Internal => "a transaction did not read its own effects",
            Phenomenon::G0 => "transactions overwrite each other in a cycle",
            Phenomenon::G1a => "a read of an aborted transaction's write",
            Phenomenon::G1b => "a read of a version that its own writer replaced",
            Phenomenon::G1c => "transactions depend on each other's writes in a cycle",
            Phenomenon::FracturedReads => {
                "a transaction read some of another's writes and missed others"
            }
            Phenomenon::ObservedTransactionVanishes => {
                "an observed transaction was missing from a later read"
            }
            Phenomenon::ItemManyPreceders => "a transaction read two versions of one item",
            Phenomenon::PredicateManyPreceders => {
                "a range and another read returned different versions of a shared item, or the range \
                 lacks a row of a visible transaction"
            }
            Phenomenon::LostUpdate => "an update was based on an overwritten version",
            Phenomenon::GSingle => "a transaction read two items in states of different times",
            Phenomenon::LongFork => "readers saw independent writes in different orders",
            Phenomenon::WriteSkew => {
                "two transactions each overwrote a version that the other read"
            }
            Phenomenon::G2 => "no serial order: a cycle with antidependencies",
            Phenomenon::GUpdate => {
                "a reader saw a state that no serial order of the writers produces"
            }
            Phenomenon::RealTime => "no serial order agrees with real time",
            Phenomenon::CausalCycle => "an effect comes before its cause",
            Phenomenon::MissingDependency => {
                "a transaction read a write and missed one that it depends on"
            }
            Phenomenon::NonMonotonicReads => "a session read an older version than before",
            Phenomenon::NonMonotonicWrites => {
                "a session's writes were installed in a different order"
            }
            Phenomenon::MissingYourWrites => "a session missed its own write",
            Phenomenon::WritesBeforeReads => {
                "a session's write is ordered before a version that it read"
            }
        }
    }

    /// Classifies a cycle in the serialization graph.
    pub(crate) fn of_cycle(cycle: &[Step]) -> Phenomenon {
        let count = |kind| cycle.iter().filter(|step| step.kind == kind).count();
        let antidependencies = count(Dependency::ReadWrite);
        if count(Dependency::RealTime) > 0 {
            return Phenomenon::RealTime;
        }
        if antidependencies == 0 {
            return match count(Dependency::WriteRead) {
                0 => Phenomenon::G0,
                _ => Phenomenon::G1c,
            };
        }
        // A transaction that only reads loses no update, even on a single item: that is IMP.
        let updates = antidependencies > 1 || count(Dependency::WriteWrite) > 0;
        if updates && cycle.iter().all(|step| step.item == cycle[0].item) {
            return Phenomenon::LostUpdate;
        }
        if antidependencies == 1 {
            return Phenomenon::GSingle;
        }
        let is_anti = |at: usize| cycle[at % cycle.len()].kind == Dependency::ReadWrite;
        if (0..cycle.len()).all(|at| !(is_anti(at) && is_anti(at + 1))) {
            return Phenomenon::LongFork;
        }
        if cycle.len() == 2 {
            return Phenomenon::WriteSkew;
        }
        Phenomenon::G2
    }
}

impl fmt::Display for Phenomenon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
