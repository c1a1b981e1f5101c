//! The rows of `anabranch.ring`, `anabranch.lag` and `anabranch.types`, and where they come from.

use anabranch_engine::BeltLook;
use anabranch_sql::client::RingRelation;
use anabranch_types::Value;

/// Reads the ring's state in the database.
pub(crate) trait LookAtRing: Send + Sync {
    /// Reads it, and waits until it is there.
    ///
    /// # Errors
    /// When the database is in no ring that has begun, or the server ends.
    fn look(&self) -> Result<BeltLook, String>;
}

/// The rows of the relations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RingRows {
    /// Of `anabranch.ring`, without what the ring waits for.
    pub(crate) ring: Vec<Vec<Value>>,
    pub(crate) lag: Vec<Vec<Value>>,
    pub(crate) types: Vec<Vec<Value>>,
}

impl RingRows {
    /// A column of a relation, as an array. `waits_for`: what the ring waits for at this server; empty for nothing.
    pub(crate) fn column(&self, relation: RingRelation, column: usize, waits_for: &str) -> Value {
        let rows = match relation {
            RingRelation::Ring => &self.ring,
            RingRelation::Lag => &self.lag,
            RingRelation::Types => &self.types,
        };
        let columns = relation.columns();
        let place = |name: &str| columns.iter().position(|(column, _)| *column == name);
        let (waits, is_own) = (place("waits_for"), place("is_own"));
        let value = |row: &Vec<Value>| {
            let is_here = is_own.is_some_and(|at| row[at] == Value::Bool(true));
            match waits == Some(column) && is_here && !waits_for.is_empty() {
                true => Value::text(waits_for),
                false => row[column].clone(),
            }
        };
        Value::Array(rows.iter().map(value).collect())
    }
}
