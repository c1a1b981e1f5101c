//! Groups of tallies that are incremented together: columns that merge in any order.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;

use crate::group::{GROUP, GroupCaller};
use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload, shown};

/// The application of `examples/tally/`.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// The number of groups: few, so that transactions conflict often.
    pub groups: i64,
}

impl Tally {
    /// Two groups for each node.
    pub fn new(nodes: u16) -> Tally {
        Tally {
            groups: 2 * i64::from(nodes),
        }
    }
}

impl Workload for Tally {
    fn name(&self) -> &'static str {
        "tally"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/tally/schema.sql",
                include_str!("../../../examples/tally/schema.sql"),
            ),
            (
                "examples/tally/procedures.sql",
                include_str!("../../../examples/tally/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["count_group", "read_tallies", "tallies_in_turn"]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        let columns = ["id", "total", "most", "least", "latest"];
        for id in 0..self.groups * GROUP {
            let row = [id, 0, 0, 0, 0].map(Value::Int);
            take("tallies", &columns, &row);
        }
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(GroupCaller::new(
            seed,
            place.client,
            self.groups,
            |rng, group, number| {
                let amount = rng.i64(-1_000..1_000);
                Arc::new([group, Value::Int(amount), Value::Int(number)])
            },
        ))
    }

    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        if operation.procedure == 0 {
            return Ok(());
        }
        match rows {
            [row] if row.len() % 2 == 0 && !row.is_empty() => {
                match row.chunks(2).find(|pair| pair[0] != pair[1]) {
                    None => Ok(()),
                    Some(_) => Err(format!(
                        "a group of tallies returned {}, which should be equal pairs: part of a \
                         transaction's effects",
                        shown(rows)
                    )),
                }
            }
            _ => Err(format!("pairs of tallies returned {}", shown(rows))),
        }
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}
