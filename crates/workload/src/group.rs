//! Groups of rows that are written and read together, each row on another partition: the operations of `register` and
//! `tally`.

use std::sync::Arc;

use anabranch_types::Value;
use fastrand::Rng;

use crate::workload::{Caller, Operation};

/// Rows of a group.
pub(crate) const GROUP: i64 = 3;

/// Half of the operations write a group, 30% read one, and 20% read two rows of a group one after the other:
/// procedures 0, 1 and 2 of a workload.
pub(crate) struct GroupCaller {
    rng: Rng,
    groups: i64,
    /// The number of writes of this client. Together with the client's number it makes every write distinct.
    number: i64,
    write: WriteArguments,
}

/// The arguments of a write, given its number.
pub(crate) type WriteArguments = fn(&mut Rng, Value, i64) -> Arc<[Value]>;

impl GroupCaller {
    pub(crate) fn new(seed: u64, client: u32, groups: i64, write: WriteArguments) -> GroupCaller {
        GroupCaller {
            rng: Rng::with_seed(seed),
            groups,
            number: i64::from(client) << 32,
            write,
        }
    }
}

impl Caller for GroupCaller {
    fn next(&mut self) -> Operation {
        let first = self.rng.i64(0..self.groups) * GROUP;
        let group = Value::Array((first..first + GROUP).map(Value::Int).collect());
        let (procedure, arguments): (usize, Arc<[Value]>) = match self.rng.u8(0..10) {
            0..=4 => {
                self.number += 1;
                (0, (self.write)(&mut self.rng, group, self.number))
            }
            5..=7 => (1, Arc::new([group])),
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
