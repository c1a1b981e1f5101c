//! Limits of a transaction's size. A transaction beyond a limit fails with SQLSTATE `54000` before any
//! of it has left its node, so no other node has to clean up.
//!
//! The size is counted while the procedure runs, so that endless loops are stopped as well. It does not
//! include the rows that a read returns (what a statement holds of them has a limit of its own), nor the result of a deferred update at commit (whose row and
//! arguments are within the limits).

use anabranch_protocol::PartitionRead;
use anabranch_sql::application::ResultSet;
use anabranch_sql::transaction::STATEMENT_BYTES_MAX;
use anabranch_types::{Effect, EffectError, Read, Value};

/// Limits of the size of one call's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Reads sent to partitions (a range counts once for each partition), and rows written.
    pub items_max: u64,
    /// Bytes of the keys read, and of the keys and rows written.
    pub bytes_max: u64,
    /// Bytes of one key, as it is stored.
    pub key_bytes_max: u64,
    /// Bytes of one inserted row, or of the arguments of one update.
    pub row_bytes_max: u64,
    /// Bytes of a call's result: its values, and [`VALUE_BYTES`] for each. A larger one fails with
    /// [`crate::CallError::ResultTooLarge`], and the call has no effects.
    pub result_bytes_max: u64,
    /// Bytes of rows, values, groups and tuples that one statement holds at once while it runs. A statement beyond
    /// it fails with SQLSTATE `53200`.
    pub statement_bytes_max: u64,
}

/// What a value of a result takes beside the bytes of its text, byte string or elements.
pub const VALUE_BYTES: u64 = 8;

impl TransactionLimits {
    /// No limit at all.
    pub(crate) const NONE: TransactionLimits = TransactionLimits {
        items_max: u64::MAX,
        bytes_max: u64::MAX,
        key_bytes_max: u64::MAX,
        row_bytes_max: u64::MAX,
        result_bytes_max: u64::MAX,
        statement_bytes_max: u64::MAX,
    };
}

impl Default for TransactionLimits {
    /// A million items, 256 MiB in all, 8 KiB a key, 16 MiB a row, 64 MiB a result, 256 MiB held by a statement.
    fn default() -> Self {
        TransactionLimits {
            items_max: 1_000_000,
            bytes_max: 256 << 20,
            key_bytes_max: 8 << 10,
            row_bytes_max: 16 << 20,
            result_bytes_max: 64 << 20,
            statement_bytes_max: STATEMENT_BYTES_MAX,
        }
    }
}

/// The size of a transaction so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionSize {
    pub(crate) limits: TransactionLimits,
    items: u64,
    bytes: u64,
}

impl TransactionSize {
    pub(crate) fn new(limits: TransactionLimits) -> TransactionSize {
        TransactionSize {
            limits,
            items: 0,
            bytes: 0,
        }
    }

    /// Adds reads that are about to be sent.
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

    /// Adds an effect that is about to be written.
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

    /// The error that names the exceeded limit.
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
        EffectError::new(
            "54000",
            format!(
                "{what} has {size} {unit}, and the limit is {max}: make it smaller, or raise the limit"
            ),
        )
    }
}

/// Whether a result has more bytes than a limit. Stops counting there.
pub(crate) fn is_larger(result: &ResultSet, bytes_max: u64) -> bool {
    let messages = result.messages.iter();
    let mut size: u64 = messages.map(|it| it.bytes() as u64).sum();
    if size > bytes_max {
        return true;
    }
    result.rows.iter().any(|row| {
        size += row.iter().map(result_bytes).sum::<u64>();
        size > bytes_max
    })
}

fn result_bytes(value: &Value) -> u64 {
    VALUE_BYTES
        + match value {
            Value::Text(text) => text.len() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::Array(values) => values.iter().map(result_bytes).sum(),
            _ => 0,
        }
}

/// The approximate size of an argument in bytes.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(values) => values.iter().map(bytes).sum(),
        _ => size_of::<i64>(),
    }
}
