//! Counters and their entries, on different partitions: the sum of entries equals the total in every read.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload, pair, shown};

/// The application of `examples/counter/`.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The number of counters: few, so that increments conflict often.
    pub counters: i64,
    /// Sites that keep entries.
    pub sites: i64,
}

impl Counter {
    /// One counter for each node.
    pub fn new(nodes: u16) -> Counter {
        Counter {
            counters: i64::from(nodes),
            sites: i64::from(nodes),
        }
    }
}

impl Workload for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/counter/schema.sql",
                include_str!("../../../examples/counter/schema.sql"),
            ),
            (
                "examples/counter/assertions.sql",
                include_str!("../../../examples/counter/assertions.sql"),
            ),
            (
                "examples/counter/procedures.sql",
                include_str!("../../../examples/counter/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["add_entry", "read_counter"]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for id in 0..self.counters {
            take(
                "counters",
                &["id", "total"],
                &[Value::Int(id), Value::Int(0)],
            );
        }
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(CounterCaller {
            rng: Rng::with_seed(seed),
            counters: self.counters,
            sites: self.sites,
            number: i64::from(place.client) << 32,
        })
    }

    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        if operation.procedure == 0 {
            return Ok(());
        }
        match pair(rows) {
            Some((shown, added)) if shown == added => Ok(()),
            Some((shown, added)) => Err(format!(
                "the total is {shown}, but the entries add up to {added}"
            )),
            None => Err(format!("a counter returned {}", shown(rows))),
        }
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

struct CounterCaller {
    rng: Rng,
    counters: i64,
    sites: i64,
    number: i64,
}

impl Caller for CounterCaller {
    fn next(&mut self) -> Operation {
        let counter = Value::Int(self.rng.i64(0..self.counters));
        let (procedure, arguments): (usize, Arc<[Value]>) = if self.rng.u8(0..10) < 6 {
            self.number += 1;
            let site = Value::Int(self.rng.i64(0..self.sites));
            let amount = Value::Int(self.rng.i64(1..100));
            (
                0,
                Arc::new([site, Value::Int(self.number), counter, amount]),
            )
        } else {
            (1, Arc::new([counter]))
        };
        Operation {
            procedure,
            arguments,
        }
    }
}
