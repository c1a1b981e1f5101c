//! Groups of registers, written and read together: the race that RAMP is about.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;
use fastrand::Rng;

use crate::group::{GROUP, GroupCaller};
use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload, pair, shown};

/// The application of `examples/register/`.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// The number of groups: few, so that transactions conflict often.
    pub groups: i64,
}

impl Register {
    /// Two groups for each node.
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

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
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
                "a group of registers returned {one} beside {other}: part of a transaction's effects"
            )),
            None => Err(format!("two registers returned {}", shown(rows))),
        }
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

/// Only writes of the application of `examples/register/`: each to `span` random registers. With one register for
/// each node this is the microbenchmark of coordination-avoidance.txt, Figure 1.
#[derive(Clone, Copy, Debug)]
pub struct Writers {
    /// The number of registers; those with consecutive ids lie on different partitions.
    pub registers: i64,
    /// The number of registers that a transaction writes.
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

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
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
    /// One register is that of the client's own node, if it exists: a client calls a node that owns one of its
    /// writes.
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
