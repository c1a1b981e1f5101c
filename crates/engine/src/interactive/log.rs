//! What a block has run, so that it can be run again: see `docs/protocols/interactive.md`.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use anabranch_sql::application::ResultSet;
use anabranch_types::{EffectError, TimeZone, Value};

use super::sequences::Draw;
use crate::step::{SavepointId, StatementWork};

/// One step of a block that its client has been answered.
#[derive(Debug)]
pub(super) enum LoggedStep {
    Statement(LoggedStatement),
    Savepoint(SavepointId),
    RollbackTo(SavepointId),
}

/// A statement, with everything that a replay must reproduce.
#[derive(Debug)]
pub(super) struct LoggedStatement {
    pub(super) work: StatementWork,
    pub(super) arguments: Arc<[Value]>,
    pub(super) time_zone: TimeZone,
    /// The numbers that it drew from sequences.
    pub(super) draws: Vec<Draw>,
    /// What the client was told.
    pub(super) digest: Digest,
}

/// The steps of one block, in order. Undone and failed statements are among them: their client has seen their results.
#[derive(Debug)]
pub(super) struct BlockLog {
    steps: Vec<Arc<LoggedStep>>,
    /// The number of the transaction's effects after the last step (INT-I2).
    effects: usize,
    bytes: u64,
    bytes_max: u64,
}

impl BlockLog {
    pub(super) fn new(bytes_max: u64) -> BlockLog {
        BlockLog {
            steps: Vec::new(),
            effects: 0,
            bytes: 0,
            bytes_max,
        }
    }

    /// A log of these steps, which are within the limit.
    pub(super) fn of_steps(steps: Vec<Arc<LoggedStep>>, bytes_max: u64) -> BlockLog {
        BlockLog {
            bytes: steps.iter().map(|step| step.bytes()).sum(),
            steps,
            effects: 0,
            bytes_max,
        }
    }

    /// A log whose steps were too many to be kept.
    pub(super) fn lost(bytes_max: u64) -> BlockLog {
        BlockLog {
            bytes: bytes_max.saturating_add(1),
            ..BlockLog::new(bytes_max)
        }
    }

    pub(super) fn steps(&self) -> &[Arc<LoggedStep>] {
        &self.steps
    }

    /// Adds a step, after which the transaction has this number of effects. A log beyond its limit keeps no steps.
    pub(super) fn push(&mut self, step: LoggedStep, effects: usize) {
        self.effects = effects;
        self.bytes = self.bytes.saturating_add(step.bytes());
        if self.is_complete() {
            self.steps.push(Arc::new(step));
        } else {
            self.steps = Vec::new();
        }
    }

    /// Whether the block can be run again.
    pub(super) fn is_complete(&self) -> bool {
        self.bytes <= self.bytes_max
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The number of steps that can be run again.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<Arc<LoggedStep>> {
        self.steps.get(place).cloned()
    }

    /// The number of the transaction's effects after the last step.
    pub(super) fn effects(&self) -> usize {
        self.effects
    }
}

/// The bytes that a step takes beside its arguments, roughly.
const STEP_BYTES: u64 = 200;

impl LoggedStep {
    fn bytes(&self) -> u64 {
        let kept = match self {
            LoggedStep::Statement(statement) => {
                let arguments: u64 = statement.arguments.iter().map(value_bytes).sum();
                arguments + (statement.draws.len() * size_of::<Draw>()) as u64
            }
            LoggedStep::Savepoint(_) | LoggedStep::RollbackTo(_) => 0,
        };
        STEP_BYTES + kept
    }
}

fn value_bytes(value: &Value) -> u64 {
    let held = match value {
        Value::Text(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        _ => 0,
    };
    held + size_of::<Value>() as u64
}

/// A digest of what a client was told. Different results have different ones, but for one pair in 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(u64, u64);

impl Digest {
    /// The digest of a statement's result: its count and rows in order, or its error.
    pub(super) fn of(result: &Result<ResultSet, EffectError>) -> Digest {
        let of_seed = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(seed);
            match result {
                Ok(result) => {
                    hasher.write_u8(0);
                    hasher.write_u64(result.count);
                    hasher.write_usize(result.rows.len());
                    for row in &result.rows {
                        add_values(&mut hasher, row);
                    }
                }
                Err(error) => {
                    hasher.write_u8(1);
                    add_bytes(&mut hasher, error.code.as_bytes());
                    add_bytes(&mut hasher, error.message.as_bytes());
                    let detail = error.fields.as_ref().and_then(|it| it.detail.as_deref());
                    add_bytes(&mut hasher, detail.unwrap_or_default().as_bytes());
                }
            }
            hasher.finish()
        };
        Digest(of_seed(0), of_seed(1))
    }
}

fn add_bytes(hasher: &mut DefaultHasher, bytes: &[u8]) {
    hasher.write_usize(bytes.len());
    hasher.write(bytes);
}

fn add_values(hasher: &mut DefaultHasher, values: &[Value]) {
    hasher.write_usize(values.len());
    for value in values {
        // Each kind has a number of its own, so that 1 and true differ.
        match value {
            Value::Null => hasher.write_u8(0),
            Value::Bool(bool) => hasher.write(&[1, u8::from(*bool)]),
            Value::Int(int) => {
                hasher.write_u8(2);
                hasher.write_i64(*int);
            }
            Value::Float(float) => {
                hasher.write_u8(3);
                hasher.write_u64(float.to_bits());
            }
            Value::Numeric(decimal) => {
                // 1.0 and 1.00 are equal, and shown differently.
                hasher.write_u8(4);
                add_bytes(hasher, decimal.to_string().as_bytes());
            }
            Value::Text(text) => {
                hasher.write_u8(5);
                add_bytes(hasher, text.as_bytes());
            }
            Value::Bytes(bytes) => {
                hasher.write_u8(6);
                add_bytes(hasher, bytes);
            }
            Value::Uuid(uuid) => {
                hasher.write_u8(7);
                hasher.write(uuid);
            }
            Value::Timestamp(micros) => {
                hasher.write_u8(8);
                hasher.write_i64(*micros);
            }
            Value::Date(days) => {
                hasher.write_u8(9);
                hasher.write_i32(*days);
            }
            Value::Array(values) => {
                hasher.write_u8(10);
                add_values(hasher, values);
            }
            // A block defers nothing.
            Value::Pending(pending) => {
                hasher.write_u8(11);
                hasher.write_i64(pending.offset);
            }
            // Equal values are shown differently, as decimals are.
            Value::Jsonb(json) => {
                hasher.write_u8(12);
                add_bytes(hasher, json.as_str().as_bytes());
            }
        }
    }
}
