//! How large a transaction may become: what is larger is refused with SQLSTATE `54000` before anything
//! of it has left its node, so that nobody has to clean up after it.
//!
//! Counted while the procedure runs, so that a loop without end is stopped as well. Not counted: the
//! rows that a read returns, and what a deferred update makes of a row at commit (it starts from a row
//! and arguments that are within the limits).

use anabranch_protocol::PartitionRead;
use anabranch_types::{Effect, EffectError, Read, Value};

/// How large a transaction of one call may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Reads asked of partitions (a range on several counts once for each), and rows written.
    pub items_max: u64,
    /// Bytes of keys asked for, and of what is written.
    pub bytes_max: u64,
    /// Bytes of one key, as it is stored.
    pub key_bytes_max: u64,
    /// Bytes of one inserted row, or of the arguments of one update.
    pub row_bytes_max: u64,
}

impl Default for TransactionLimits {
    /// A million items, 256 MiB in all, 8 KiB a key, 16 MiB a row.
    fn default() -> Self {
        TransactionLimits {
            items_max: 1_000_000,
            bytes_max: 256 << 20,
            key_bytes_max: 8 << 10,
            row_bytes_max: 16 << 20,
        }
    }
}

/// How large a transaction has become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    limits: TransactionLimits,
    items: u64,
    bytes: u64,
}

impl Size {
    pub(crate) fn new(limits: TransactionLimits) -> Size {
        Size {
            limits,
            items: 0,
            bytes: 0,
        }
    }

    /// Adds what is about to be asked.
    pub(crate) fn add_reads(&mut self, asked: &[PartitionRead]) -> Result<(), EffectError> {
        for PartitionRead { read, .. } in asked {
            let key = match read {
                Read::Point { key, .. } => key,
                Read::Range { range, .. } => &range.prefix,
            };
            self.add(key.len(), 0)?;
        }
        Ok(())
    }

    /// Adds what is about to be written.
    pub(crate) fn add_write(&mut self, effect: &Effect) -> Result<(), EffectError> {
        let row = match effect {
            Effect::Insert { row, .. } => row.as_bytes().len(),
            Effect::Update { arguments, .. } => arguments.iter().map(bytes).sum(),
            Effect::Delete { .. } => 0,
        };
        self.add(effect.key().len(), row)
    }

    fn add(&mut self, key: usize, row: usize) -> Result<(), EffectError> {
        let (key, row) = (key as u64, row as u64);
        self.items += 1;
        self.bytes += key + row;
        let limits = &self.limits;
        let fits = key <= limits.key_bytes_max
            && row <= limits.row_bytes_max
            && self.items <= limits.items_max
            && self.bytes <= limits.bytes_max;
        if fits {
            Ok(())
        } else {
            Err(self.refusal(key, row))
        }
    }

    /// Which limit does not let it in.
    #[cold]
    fn refusal(&self, key: u64, row: u64) -> EffectError {
        let limits = &self.limits;
        let (size, max, what, unit) = if key > limits.key_bytes_max {
            (key, limits.key_bytes_max, "a key", "bytes")
        } else if row > limits.row_bytes_max {
            (row, limits.row_bytes_max, "a row", "bytes")
        } else if self.items > limits.items_max {
            (self.items, limits.items_max, "the transaction", "items")
        } else {
            (self.bytes, limits.bytes_max, "the transaction", "bytes")
        };
        EffectError {
            code: "54000",
            message: format!(
                "{what} has {size} {unit}; at most {max} are permitted: make it smaller, or raise the \
                 limit"
            ),
            constraint: None,
        }
    }
}

/// About how much room an argument takes.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(values) => values.iter().map(bytes).sum(),
        _ => size_of::<i64>(),
    }
}
