//! Comments and replies: a reader may see a reply and miss its comment.

use std::sync::Arc;

use anabranch_engine::PlannedApplication;
use anabranch_types::Value;
use fastrand::Rng;

use crate::workload::{Caller, ClientPlacement, Operation, RowSink, Workload};

/// Posts of a thread, on different partitions: a comment, its copy on a wall, a reply.
const THREAD: i64 = 3;

/// The application of `examples/replies/`. A single answer does not reveal a missed comment; a recorded history does.
#[derive(Clone, Copy, Debug)]
pub struct Replies {
    /// The number of threads: few, so that replies soon follow what they answer.
    pub threads: i64,
}

impl Replies {
    /// One thread for every two nodes.
    pub fn new(nodes: u16) -> Replies {
        Replies {
            threads: i64::from(nodes / 2).max(1),
        }
    }
}

impl Workload for Replies {
    fn name(&self) -> &'static str {
        "replies"
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "examples/replies/schema.sql",
                include_str!("../../../examples/replies/schema.sql"),
            ),
            (
                "examples/replies/procedures.sql",
                include_str!("../../../examples/replies/procedures.sql"),
            ),
        ]
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["comment", "reply", "look", "look_in_turn"]
    }

    fn rows(&self, _: u64, take: &mut RowSink<'_>) {
        for id in 0..self.threads * THREAD {
            take("posts", &["id", "body"], &[Value::Int(id), Value::Int(0)]);
        }
    }

    fn caller(&self, seed: u64, place: ClientPlacement, _: &PlannedApplication) -> Box<dyn Caller> {
        Box::new(RepliesCaller {
            rng: Rng::with_seed(seed),
            threads: self.threads,
            body: i64::from(place.client) << 32,
        })
    }

    /// No operation reads both copies of a comment.
    fn may_fracture(&self) -> bool {
        false
    }

    fn refuses(&self, _: &str) -> bool {
        false
    }
}

struct RepliesCaller {
    rng: Rng,
    threads: i64,
    body: i64,
}

impl Caller for RepliesCaller {
    fn next(&mut self) -> Operation {
        let comment = self.rng.i64(0..self.threads) * THREAD;
        let (wall, reply) = (comment + 1, comment + 2);
        let several = |ids: [i64; 2]| Value::Array(ids.into_iter().map(Value::Int).collect());
        let two = |first, second| Arc::new([Value::Int(first), Value::Int(second)]);
        let (procedure, arguments): (usize, Arc<[Value]>) = match self.rng.u8(0..10) {
            0..=2 => {
                self.body += 1;
                (
                    0,
                    Arc::new([several([comment, wall]), Value::Int(self.body)]),
                )
            }
            3..=5 => (1, two(comment, reply)),
            6..=7 => (2, Arc::new([several([wall, reply])])),
            8 => (3, two(wall, reply)),
            _ => (3, two(reply, wall)),
        };
        Operation {
            procedure,
            arguments,
        }
    }
}
