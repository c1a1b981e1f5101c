//! What a statement may do before other work has its turn, and how much it may hold.
//!
//! Work is counted, not timed, so that a run is repeatable: one unit is about a tuple joined, filtered, sorted or
//! computed, or a round of a loop. Memory is counted where it grows with the data: tuples, values, groups. What
//! expressions hold only while they are evaluated is counted for each tuple alone.

use std::cell::Cell;

use anabranch_types::Value;

use super::{Failure, failure};
use crate::transaction::STATEMENT_BYTES_MAX;

/// The units of work between two pauses: about a millisecond.
const PAUSE_WORK: u64 = 16_384;

/// The most bytes of one value. (PostgreSQL's limit is 1 GB.)
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 20;

/// The bytes of a long text or array that are handled by one unit of work.
const BYTES_A_UNIT: u64 = 256;

/// The elements of an array that are compared by one unit of work.
const ELEMENTS_A_UNIT: u64 = 16;

/// A statement's work since its last pause, and the bytes that it holds.
#[derive(Debug)]
pub(crate) struct Budget {
    work: Cell<u64>,
    held: Cell<u64>,
    /// The bytes that the evaluation of the current tuple has made so far.
    made: Cell<u64>,
    bytes_max: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(STATEMENT_BYTES_MAX)
    }
}

impl Budget {
    /// The budget of a statement that may hold so many bytes.
    pub(crate) fn new(bytes_max: u64) -> Budget {
        Budget {
            work: Cell::new(0),
            held: Cell::new(0),
            made: Cell::new(0),
            bytes_max,
        }
    }

    /// The budget of a procedure that a statement with this budget calls.
    pub(crate) fn nested(&self) -> Budget {
        let nested = Budget::new(self.bytes_max);
        nested.work.set(self.work.get());
        nested.held.set(self.held.get());
        nested
    }

    /// Goes on after the call of a procedure, which held more or less than before by its result.
    pub(crate) fn resume(&self, nested: &Budget) {
        self.work.set(nested.work.get());
    }

    /// Adds work. What the evaluation of a tuple has made is dropped or held by now.
    #[inline]
    pub(crate) fn spend(&self, units: usize) {
        self.work.set(self.work.get() + units as u64);
        self.made.set(0);
    }

    /// Adds the work of looking at so many elements of an array.
    #[inline]
    pub(crate) fn spend_elements(&self, count: usize) {
        self.work
            .set(self.work.get() + count as u64 / ELEMENTS_A_UNIT);
    }

    /// Whether a pause is due.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.work.get() >= PAUSE_WORK
    }

    /// The units of work until a pause is due.
    pub(crate) fn left(&self) -> usize {
        PAUSE_WORK.saturating_sub(self.work.get()) as usize
    }

    /// A pause is over.
    pub(crate) fn restart(&self) {
        self.work.set(0);
    }

    /// The bytes held.
    #[inline]
    pub(crate) fn held(&self) -> u64 {
        self.held.get()
    }

    /// Holds more bytes.
    ///
    /// # Errors
    /// `53200` when the statement then holds more than it may.
    #[inline]
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Failure> {
        let held = self.held.get() + bytes as u64;
        self.held.set(held);
        if held > self.bytes_max {
            return Err(self.refusal());
        }
        Ok(())
    }

    /// Holds no more than these bytes, which [`Budget::held`] has returned.
    #[inline]
    pub(crate) fn release_to(&self, held: u64) {
        self.held.set(held);
    }

    /// Holds so many bytes less.
    #[inline]
    pub(crate) fn release(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes as u64));
    }

    /// Takes note of a value that the evaluation of the current tuple has made.
    ///
    /// # Errors
    /// `54000` when it is larger than a value may be; `53200` when the tuple's values together are larger than
    /// what a statement may hold.
    #[inline]
    pub(crate) fn make(&self, value: &Value) -> Result<(), Failure> {
        match outside(value) {
            0 => Ok(()),
            bytes => self.make_bytes(bytes),
        }
    }

    fn make_bytes(&self, bytes: usize) -> Result<(), Failure> {
        within_value(bytes)?;
        let made = self.made.get() + bytes as u64;
        self.made.set(made);
        self.work.set(self.work.get() + bytes as u64 / BYTES_A_UNIT);
        if made > self.bytes_max {
            return Err(self.refusal());
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self) -> Failure {
        let message = format!(
            "the statement holds more than {} bytes of rows and values (the limit statement_bytes_max): select or \
             join fewer rows at a time, or raise the limit",
            self.bytes_max
        );
        failure("53200", message)
    }
}

/// Checks the size of a value that is about to be made.
///
/// # Errors
/// `54000` when it is larger than a value may be.
#[inline]
pub(crate) fn within_value(bytes: usize) -> Result<(), Failure> {
    if bytes > VALUE_BYTES_MAX {
        let message = format!(
            "requested length too large: a value may have {VALUE_BYTES_MAX} bytes, and this one would have {bytes}"
        );
        return Err(failure("54000", message));
    }
    Ok(())
}

/// The bytes that a value holds outside itself.
#[inline]
pub(crate) fn outside(value: &Value) -> usize {
    match value {
        // Shorter texts are inside.
        Value::Text(text) if text.len() > 24 => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Jsonb(json) => json.heap_bytes(),
        Value::Array(list) => match list.first() {
            Some(
                Value::Null | Value::Text(_) | Value::Bytes(_) | Value::Array(_) | Value::Jsonb(_),
            ) => list.iter().map(bytes).sum(),
            // An array's elements are of one type, and those of the other types have nothing outside.
            _ => size_of_val(&**list),
        },
        _ => 0,
    }
}

/// The bytes of a value.
pub(crate) fn bytes(value: &Value) -> usize {
    size_of::<Value>() + outside(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_due_after_so_much_work_and_long_values_are_work() {
        let budget = Budget::default();
        budget.spend(PAUSE_WORK as usize - 1);
        assert!(!budget.is_due());
        budget.spend(1);
        assert!(budget.is_due());
        budget.restart();
        let text = Value::text("x".repeat(PAUSE_WORK as usize * BYTES_A_UNIT as usize));
        budget.make(&text).expect("it is not too large");
        assert!(budget.is_due());
    }

    #[test]
    fn what_is_held_and_what_a_tuple_makes_is_limited() {
        let budget = Budget::new(100);
        let text = Value::text("x".repeat(60));
        budget.make(&text).expect("one fits");
        assert_eq!(budget.make(&text).unwrap_err().code, "53200");
        budget.spend(1);
        budget.make(&text).expect("another tuple begins anew");
        budget.hold(60).expect("it fits");
        let before = budget.held();
        assert_eq!(budget.hold(60).unwrap_err().code, "53200");
        budget.release_to(before);
        budget.release(30);
        budget.hold(60).expect("it fits");
        let ints = Value::Array([Value::Int(1), Value::Null].into());
        assert_eq!(outside(&ints), 2 * size_of::<Value>());
        let texts = Value::Array([Value::Null, text].into());
        assert_eq!(outside(&texts), 2 * size_of::<Value>() + 60);
        assert_eq!(within_value(VALUE_BYTES_MAX + 1).unwrap_err().code, "54000");
    }
}
