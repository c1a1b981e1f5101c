//! Groups of registers, written and read together: the race that RAMP is about.

use std::sync::Arc;

use anabranch_types::Value;
use fastrand::Rng;

use crate::workload::{Caller, Operation, Place, RowSink, Workload, pair};

/// Registers of a group; they lie on different partitions.
const GROUP: i64 = 3;

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

    fn caller(&self, seed: u64, place: Place) -> Box<dyn Caller> {
        Box::new(RegisterCaller {
            rng: Rng::with_seed(seed),
            groups: self.groups,
            value: i64::from(place.client) << 32,
        })
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
            None => Err(format!("two registers are {rows:?}")),
        }
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

struct RegisterCaller {
    rng: Rng,
    groups: i64,
    value: i64,
}

impl Caller for RegisterCaller {
    fn next(&mut self) -> Operation {
        let first = self.rng.i64(0..self.groups) * GROUP;
        let group = || Value::Array((first..first + GROUP).map(Value::Int).collect());
        let (procedure, arguments): (usize, Arc<[Value]>) = match self.rng.u8(0..10) {
            0..=4 => {
                self.value += 1;
                (0, Arc::new([group(), Value::Int(self.value)]))
            }
            5..=7 => (1, Arc::new([group()])),
            _ => {
                let second = first + self.rng.i64(1..GROUP);
                (2, Arc::new([Value::Int(first), Value::Int(second)]))
            }
        };
        Operation {
            procedure,
            arguments,
        }
    }
}
