//! Sequences: their options, the arithmetic of their numbers, and what a connection has drawn from them.
//!
//! A sequence's numbers are a function of its options and of its [`SequencePoint`], so that nodes log and compare points,
//! never numbers. PostgreSQL's manual has the options under CREATE SEQUENCE and the functions in section 9.17.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anabranch_types::{DataType, SequenceId, SequencePoint};

/// The options of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceOptions {
    /// `smallint`, `integer` or `bigint`.
    pub data_type: DataType,
    /// The step from one number to the next; never 0.
    pub increment: i64,
    /// The least number.
    pub minimum: i64,
    /// The greatest number.
    pub maximum: i64,
    /// The first number.
    pub start: i64,
    /// CACHE, which the catalogs show. Each number is drawn when it is asked for, whatever this says.
    pub cache: i64,
    /// Whether it begins again at its other end after its last number.
    pub cycles: bool,
}

impl SequenceOptions {
    /// The options of `CREATE SEQUENCE … AS type` without others, and those of a serial or identity column.
    pub fn of_type(data_type: &DataType) -> SequenceOptions {
        let data_type = match data_type {
            DataType::Int2 | DataType::Int4 => data_type.clone(),
            _ => DataType::Int8,
        };
        SequenceOptions {
            increment: 1,
            minimum: 1,
            maximum: bounds(&data_type).1,
            start: 1,
            cache: 1,
            cycles: false,
            data_type,
        }
    }

    /// The number at a position, from 0, of an epoch that begins with `base`; `None` behind its end.
    pub fn number(&self, base: i64, position: u64) -> Option<i64> {
        let (least, greatest) = (i128::from(self.minimum), i128::from(self.maximum));
        let step = i128::from(self.increment);
        let number = i128::from(base) + step * i128::from(position);
        // ALTER SEQUENCE may leave the base outside of the limits: it has been given already, or is refused.
        if (least..=greatest).contains(&number) {
            return i64::try_from(number).ok();
        }
        if !self.cycles {
            return None;
        }
        let (from, room) = match step > 0 {
            true => (least, greatest - i128::from(base)),
            false => (greatest, i128::from(base) - least),
        };
        // The positions before the first turn, and those of a whole turn.
        let before = if room < 0 { 1 } else { room / step.abs() + 1 };
        let turn = (greatest - least) / step.abs() + 1;
        let behind = (i128::from(position) - before).max(0) % turn;
        i64::try_from(from + step * behind).ok()
    }

    /// The number that was given last, or set; the first one before that. With it, whether it was given.
    pub fn last(&self, point: SequencePoint) -> (i64, bool) {
        match point.drawn.checked_sub(1) {
            None => (point.base, false),
            Some(0) => (point.base, true),
            Some(position) => {
                let number = self.number(point.base, position);
                let end = if self.increment > 0 {
                    self.maximum
                } else {
                    self.minimum
                };
                (number.unwrap_or(end), true)
            }
        }
    }

    /// The point at the same last number under other options.
    pub(crate) fn moved(&self, point: SequencePoint) -> SequencePoint {
        let (base, is_called) = self.last(point);
        SequencePoint {
            epoch: point.epoch + 1,
            drawn: u64::from(is_called),
            base,
        }
    }
}

/// The least and the greatest number of a sequence's type.
pub(crate) fn bounds(data_type: &DataType) -> (i64, i64) {
    match data_type {
        DataType::Int2 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

/// A sequence that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedSequence {
    /// Its number.
    pub id: SequenceId,
    /// Its name.
    pub name: Arc<str>,
    /// Its options.
    pub options: SequenceOptions,
}

/// What a connection has drawn from sequences: the results of `currval` and `lastval`.
#[derive(Debug, Default)]
pub struct SessionSequences(Mutex<SessionState>);

#[derive(Debug, Default)]
struct SessionState {
    /// The last number of each sequence in this connection, by its name.
    current: BTreeMap<Arc<str>, i64>,
    /// The sequence that `nextval` was called for last.
    last: Option<Arc<str>>,
}

impl SessionSequences {
    fn state(&self) -> std::sync::MutexGuard<'_, SessionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a number that `nextval` gave.
    pub fn drawn(&self, sequence: &ResolvedSequence, number: i64) {
        let mut state = self.state();
        state.current.insert(Arc::clone(&sequence.name), number);
        state.last = Some(Arc::clone(&sequence.name));
    }

    /// Notes a number that `setval` set as one that is given.
    pub fn set(&self, sequence: &ResolvedSequence, number: i64) {
        self.state()
            .current
            .insert(Arc::clone(&sequence.name), number);
    }

    /// The result of `currval`.
    pub fn current(&self, sequence: &ResolvedSequence) -> Option<i64> {
        self.state().current.get(&sequence.name).copied()
    }

    /// The result of `lastval`.
    pub fn last(&self) -> Option<i64> {
        let state = self.state();
        state
            .last
            .as_ref()
            .and_then(|name| state.current.get(name).copied())
    }

    /// Forgets all of it: DISCARD.
    pub fn discard(&self) {
        *self.state() = SessionState::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(options: &SequenceOptions, base: i64) -> Vec<Option<i64>> {
        (0..7)
            .map(|position| options.number(base, position))
            .collect()
    }

    #[test]
    fn numbers_go_by_steps_to_the_end_and_begin_again_if_they_cycle() {
        let mut options = SequenceOptions {
            increment: 3,
            minimum: 2,
            maximum: 10,
            start: 4,
            ..SequenceOptions::of_type(&DataType::Int4)
        };
        let some = |numbers: [i64; 7]| numbers.map(Some).to_vec();
        assert_eq!(
            numbers(&options, 4),
            [Some(4), Some(7), Some(10), None, None, None, None]
        );
        options.cycles = true;
        assert_eq!(numbers(&options, 4), some([4, 7, 10, 2, 5, 8, 2]));
        options.increment = -3;
        assert_eq!(numbers(&options, 8), some([8, 5, 2, 10, 7, 4, 10]));
    }

    #[test]
    fn no_number_is_beyond_64_bits() {
        let options = SequenceOptions::of_type(&DataType::Int8);
        assert_eq!(options.number(i64::MAX - 1, 1), Some(i64::MAX));
        assert_eq!(options.number(i64::MAX - 1, 2), None);
        assert_eq!(options.number(1, u64::MAX), None);
    }

    #[test]
    fn other_options_go_on_after_the_last_number() {
        let mut options = SequenceOptions::of_type(&DataType::Int8);
        let point = SequencePoint {
            epoch: 2,
            drawn: 4,
            base: 1,
        };
        assert_eq!(options.last(point), (4, true));
        let moved = options.moved(point);
        options.increment = 10;
        assert_eq!(options.number(moved.base, moved.drawn), Some(14));
        assert_eq!(options.last(SequencePoint::first(1)), (1, false));
    }
}
