//! Groups of registers, written and read together: the race that RAMP is about.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;
use fastrand::Rng;

use crate::group::{GROUP, GroupCaller};
use crate::workload::{Caller, Operation, Place, RowSink, Workload, pair, shown};

/// The application of `examples/register/`.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// How many groups there are. Few, and transactions meet often.
    pub groups: i64,
}

impl Register {
    /// Two groups a node.
    pub fn new(nodes: u16) -> Register {
        Register {
            groups: 2 * i64::from(nodes),
        }
    }
}

impl Workload for Register {
    fn name(&self) -> &'static str {
        "register"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/register/schema.sql",
                include_str!("../../../examples/register/schema.sql"),
            ),
            (
                "examples/register/procedures.sql",
                include_str!("../../../examples/register/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["write_group", "read_group", "read_in_turn"]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for id in 0..self.groups * GROUP {
            take(
                "registers",
                &["id", "value"],
                &[Value::Int(id), Value::Int(0)],
            );
        }
    }

    fn caller(&self, seed: u64, place: Place, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(GroupCaller::new(
            seed,
            place.client,
            self.groups,
            |_, group, number| Arc::new([group, Value::Int(number)]),
        ))
    }

    fn judge(&self, operation: &Operation, rows: &[Vec<Value>]) -> Result<(), String> {
        if operation.procedure == 0 {
            return Ok(());
        }
        match pair(rows) {
            Some((one, other)) if one == other => Ok(()),
            Some((one, other)) => Err(format!(
                "a group of registers shows {one} beside {other}: a part of somebody's effects"
            )),
            None => Err(format!("two registers are {}", shown(rows))),
        }
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

/// Writes of the application of `examples/register/`, and nothing else: each to `span` of the
/// registers, drawn at random. With a register a node this is the microbenchmark of
/// coordination-avoidance.txt, Figure 1.
#[derive(Clone, Copy, Debug)]
pub struct Writers {
    /// How many registers there are; those with ids one apart lie on different partitions.
    pub registers: i64,
    /// How many of them a transaction writes.
    pub span: usize,
}

impl Workload for Writers {
    fn name(&self) -> &'static str {
        "writers"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        Register { groups: 0 }.files()
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["write_group"]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for id in 0..self.registers {
            let row = [Value::Int(id), Value::Int(0)];
            take("registers", &["id", "value"], &row);
        }
    }

    fn caller(&self, seed: u64, place: Place, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(Writer {
            rng: Rng::with_seed(seed),
            writers: *self,
            value: i64::from(place.client) << 32,
            home: i64::from(place.node),
        })
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

struct Writer {
    rng: Rng,
    writers: Writers,
    value: i64,
    home: i64,
}

impl Caller for Writer {
    /// One of the registers is the one with the number of the client's node, if there is one: a
    /// client calls the node that has what it writes.
    fn next(&mut self) -> Operation {
        let Writers { registers, span } = self.writers;
        let mut ids: Vec<i64> = Vec::with_capacity(span);
        if self.home < registers {
            ids.push(self.home);
        }
        while ids.len() < span.min(registers as usize) {
            let id = self.rng.i64(0..registers);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        self.value += 1;
        let ids = Value::Array(ids.into_iter().map(Value::Int).collect());
        Operation {
            procedure: 0,
            arguments: Arc::new([ids, Value::Int(self.value)]),
        }
    }
}
