//! The models that a history can be checked against.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::phenomenon::Phenomenon;

/// An isolation or consistency model. docs/histories.md and each [`crate::Phenomenon`] say what it forbids, with
/// sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// PL-2 (ramp.txt, Definition 3.11): no G0, G1a, G1b, G1c.
    ReadCommitted,
    /// RA (ramp.txt, Definition 3.10): read committed without fractured reads.
    ReadAtomic,
    /// A session never reads an older version than before (HAT, N-MR).
    MonotonicReads,
    /// A session's later writes are ordered after its earlier ones (HAT, N-MW).
    MonotonicWrites,
    /// A session reads its own writes (HAT, MYR).
    ReadYourWrites,
    /// A session's writes are ordered after the versions that it read (HAT, MRWD).
    WritesFollowReads,
    /// All four session guarantees.
    Sessions,
    /// Transactional causal consistency: read atomic, and reads include everything that the transaction depends on.
    Causal,
    /// Snapshot isolation (ramp.txt, Definition 3.16; Cerone and Gotsman 2018).
    Snapshot,
    /// PL-3U (Adya 1999, §4.2.2; ALVIN's EUS): the writers are serializable, and each reader sees a state of theirs.
    UpdateSerializable,
    /// PL-3 (Adya 1999, §3.2).
    Serializable,
    /// Serializable in an order that agrees with real time.
    StrictSerializable,
}

impl Model {
    /// All models, weaker ones first.
    pub const ALL: [Model; 12] = [
        Model::ReadCommitted,
        Model::ReadAtomic,
        Model::MonotonicReads,
        Model::MonotonicWrites,
        Model::ReadYourWrites,
        Model::WritesFollowReads,
        Model::Sessions,
        Model::Causal,
        Model::Snapshot,
        Model::UpdateSerializable,
        Model::Serializable,
        Model::StrictSerializable,
    ];

    /// The name on the command line and in a history's header.
    pub fn name(self) -> &'static str {
        match self {
            Model::ReadCommitted => "read-committed",
            Model::ReadAtomic => "read-atomic",
            Model::MonotonicReads => "monotonic-reads",
            Model::MonotonicWrites => "monotonic-writes",
            Model::ReadYourWrites => "read-your-writes",
            Model::WritesFollowReads => "writes-follow-reads",
            Model::Sessions => "sessions",
            Model::Causal => "causal",
            Model::Snapshot => "snapshot",
            Model::UpdateSerializable => "update-serializable",
            Model::Serializable => "serializable",
            Model::StrictSerializable => "strict-serializable",
        }
    }
}

impl Model {
    /// Whether it restricts each session alone, and so requires a history with sessions.
    pub fn is_of_sessions(self) -> bool {
        self.of_sessions().is_some()
    }

    /// The phenomena that it forbids in each session, if it is a session guarantee.
    pub(crate) fn of_sessions(self) -> Option<&'static [Phenomenon]> {
        Some(match self {
            Model::MonotonicReads => &[Phenomenon::NonMonotonicReads],
            Model::MonotonicWrites => &[Phenomenon::NonMonotonicWrites],
            Model::ReadYourWrites => &[Phenomenon::MissingYourWrites],
            Model::WritesFollowReads => &[Phenomenon::WritesBeforeReads],
            Model::Sessions => &[
                Phenomenon::NonMonotonicReads,
                Phenomenon::NonMonotonicWrites,
                Phenomenon::MissingYourWrites,
                Phenomenon::WritesBeforeReads,
            ],
            _ => return None,
        })
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no model with this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no model \"{name}\"; there are: {}", names())]
pub struct UnknownModel {
    /// The requested name.
    pub name: String,
}

fn names() -> String {
    Model::ALL.map(Model::name).join(", ")
}

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Model, UnknownModel> {
        Model::ALL
            .into_iter()
            .find(|model| model.name() == name)
            .ok_or_else(|| UnknownModel {
                name: name.to_string(),
            })
    }
}
