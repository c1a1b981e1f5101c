//! YCSB as ramp.txt §5.1 has it: transactions of four operations, 95 of 100 of them read.
//!
//! Items are drawn by Zipf's law with
//! exponent 1 (YCSB's is 0.99: a fraction has to be raised to a power there, which not every machine
//! rounds alike). The paper has a million items and one byte in each; here are a thousand a node,
//! YCSB's own default, so that transactions meet.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;
use fastrand::Rng;

use crate::workload::{Caller, Operation, Place, RowSink, Workload};

/// Operations of a transaction.
const OPERATIONS: usize = 4;

/// Transactions of 100 that write; the others read.
const WRITING: u8 = 5;

/// The weight of the item drawn most often, in [`Ycsb::up_to`].
const WEIGHT: u64 = 1 << 32;

/// Reads and writes of items drawn by Zipf's law.
#[derive(Clone, Debug)]
pub struct Ycsb {
    /// The weights of the items up to each, itself included. Those whose numbers are one apart lie
    /// on different partitions, so what is drawn often is spread over them.
    up_to: Arc<[u64]>,
    /// For each of [`PARTS`] parts of the numbers: the item that its least number draws.
    first: Arc<[u32]>,
}

/// How many parts the numbers that are drawn are divided into, so that a search is short.
const PARTS: u64 = 4_096;

impl Ycsb {
    /// A thousand items a node.
    pub fn new(nodes: u16) -> Ycsb {
        let weights = (1..=1_000 * u64::from(nodes)).map(|rank| WEIGHT / rank);
        let mut sum = 0;
        let up_to = weights.map(|weight| {
            sum += weight;
            sum
        });
        let up_to: Arc<[u64]> = up_to.collect();
        let all = up_to.last().copied().unwrap_or(1);
        let first = (0..=PARTS).map(|part| {
            let least = part * (all / PARTS + 1);
            up_to.partition_point(|up_to| *up_to <= least) as u32
        });
        Ycsb {
            first: first.collect(),
            up_to,
        }
    }

    fn calls(&self, seed: u64, place: Place) -> YcsbCaller {
        YcsbCaller {
            rng: Rng::with_seed(seed),
            workload: self.clone(),
            value: i64::from(place.client) << 32,
        }
    }

    fn draw(&self, rng: &mut Rng) -> i64 {
        let all = self.up_to.last().copied().unwrap_or(1);
        let drawn = rng.u64(0..all);
        let part = (drawn / (all / PARTS + 1)) as usize;
        let (first, last) = (self.first[part] as usize, self.first[part + 1] as usize);
        let within = &self.up_to[first..last.min(self.up_to.len() - 1)];
        (first + within.partition_point(|up_to| *up_to <= drawn)) as i64
    }
}

impl Workload for Ycsb {
    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/ycsb/schema.sql",
                include_str!("../../../examples/ycsb/schema.sql"),
            ),
            (
                "examples/ycsb/procedures.sql",
                include_str!("../../../examples/ycsb/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["get_all", "put_all"]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for key in 0..self.up_to.len() as i64 {
            let row = [Value::Int(key), Value::Int(0)];
            take("usertable", &["ycsb_key", "field0"], &row);
        }
    }

    fn caller(&self, seed: u64, place: Place, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(self.calls(seed, place))
    }

    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        match (operation.procedure, rows.len()) {
            (0, OPERATIONS) | (1, 0) => Ok(()),
            (_, found) => Err(format!("{found} items were found")),
        }
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

struct YcsbCaller {
    rng: Rng,
    workload: Ycsb,
    value: i64,
}

impl Caller for YcsbCaller {
    fn next(&mut self) -> Operation {
        let mut ids = [0; OPERATIONS];
        for place in 0..OPERATIONS {
            ids[place] = loop {
                let id = self.workload.draw(&mut self.rng);
                if !ids[..place].contains(&id) {
                    break id;
                }
            };
        }
        let ids = Value::Array(ids.into_iter().map(Value::Int).collect());
        if self.rng.u8(0..100) < WRITING {
            self.value += 1;
            return Operation {
                procedure: 1,
                arguments: Arc::new([ids, Value::Int(self.value)]),
            };
        }
        Operation {
            procedure: 0,
            arguments: Arc::new([ids]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_drawn_by_their_rank_and_a_twentieth_of_the_calls_writes() {
        let workload = Ycsb::new(8);
        let place = Place {
            client: 0,
            node: 0,
            nodes: 8,
        };
        let mut caller = workload.calls(1, place);
        let (mut writes, mut drawn) = (0, vec![0u32; workload.up_to.len()]);
        for _ in 0..20_000 {
            let call = caller.next();
            writes += u32::from(call.procedure == 1);
            let Value::Array(ids) = &call.arguments[0] else {
                panic!("a call begins with its items")
            };
            assert_eq!(ids.len(), OPERATIONS);
            for id in ids.iter() {
                let Value::Int(id) = id else {
                    panic!("an item has a number")
                };
                drawn[*id as usize] += 1;
            }
        }
        assert!((900..1_100).contains(&writes), "{writes}");
        // The eighth comes an eighth as often as the first, about, which is a tenth of all there is
        // to draw: no transaction takes it twice.
        assert!((6_000..9_000).contains(&drawn[0]), "{}", drawn[0]);
        assert!((800..1_300).contains(&drawn[7]), "{}", drawn[7]);
        assert!(drawn[4_000..].iter().any(|times| *times > 0));
    }
}
