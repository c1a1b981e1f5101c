//! The relations of a database in a ring of the Conveyor Belt, whose rows the server gathers when a statement reads them.
//!
//! Their columns are those of the views that the belt installs in PostgreSQL (`dbms::postgres::install`).

use anabranch_types::DataType;

/// A relation of a database in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingRelation {
    /// `anabranch.ring`: the servers.
    Ring,
    /// `anabranch.lag`: by server, its operations that are applied here.
    Lag,
    /// `anabranch.types`: the transaction types.
    Types,
}

impl RingRelation {
    /// All relations.
    pub(crate) const ALL: [RingRelation; 3] =
        [RingRelation::Ring, RingRelation::Lag, RingRelation::Types];

    /// Its name in the schema `anabranch`.
    pub fn name(self) -> &'static str {
        match self {
            RingRelation::Ring => "ring",
            RingRelation::Lag => "lag",
            RingRelation::Types => "types",
        }
    }

    /// Its columns with their types, in order.
    pub fn columns(self) -> Vec<(&'static str, DataType)> {
        match self {
            RingRelation::Ring => vec![
                ("name", DataType::Text),
                ("place", DataType::Int8),
                ("is_own", DataType::Bool),
                ("is_member", DataType::Bool),
                ("hop", DataType::Int8),
                ("has_token", DataType::Bool),
                ("waits_for", DataType::Text),
            ],
            RingRelation::Lag => vec![
                ("name", DataType::Text),
                ("applied", DataType::Int8),
                ("not_everywhere", DataType::Int8),
            ],
            RingRelation::Types => vec![
                ("name", DataType::Text),
                ("class", DataType::Text),
                ("parameters", DataType::Array(Box::new(DataType::Text))),
            ],
        }
    }
}
