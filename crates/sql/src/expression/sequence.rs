//! Calls of `nextval`, `currval`, `lastval` and `setval`, and what a sequence shows as a relation.

use std::sync::Arc;

use anabranch_types::Value;

use super::{EvaluationContext, Expression, Failure, Frame, failure};
use crate::{
    sequence::ResolvedSequence,
    transaction::{SequenceError, Sequences},
};

/// A function of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SequenceFunction {
    /// `nextval(regclass)`. That of a sequence that the statement names is [`Expression::Next`].
    Next,
    /// `currval(regclass)`.
    Current,
    /// `lastval()`, which has no sequence.
    Last,
    /// `setval(regclass, bigint)`, `setval(regclass, bigint, boolean)`.
    Set,
    /// The column `last_value` of the sequence as a relation.
    LastValue,
    /// The column `is_called` of the sequence as a relation.
    IsCalled,
    /// `last_value` of `pg_sequences`: NULL before the first number.
    LastCalled,
}

/// The sequence of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SequenceTarget {
    /// The one that the statement names by a literal.
    Named(Arc<ResolvedSequence>),
    /// The one with the OID that the first argument gives.
    Computed(Arc<SequenceList>),
    /// None: `lastval()`.
    Nothing,
}

/// Sequences by their OIDs.
pub(crate) type SequenceList = Vec<(u32, Arc<ResolvedSequence>)>;

/// A call: the function, the sequence, the arguments behind it.
pub(super) fn call(
    function: &SequenceFunction,
    target: &SequenceTarget,
    arguments: &[Expression],
    frame: &Frame<'_>,
) -> Result<Value, Failure> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(argument.evaluate(frame)?);
    }
    if values.iter().any(|value| matches!(value, Value::Null)) {
        return Ok(Value::Null);
    }
    let mut values = values.as_slice();
    let sequence = match target {
        SequenceTarget::Named(sequence) => Some(sequence),
        SequenceTarget::Computed(list) => {
            let [Value::Int(oid), rest @ ..] = values else {
                return Err(failure("XX000", "a sequence without an OID"));
            };
            values = rest;
            let found = list.iter().find(|(of, _)| i64::from(*of) == *oid);
            let Some((_, sequence)) = found else {
                let message = format!("relation with OID {oid} is not a sequence");
                return Err(failure("42809", message));
            };
            Some(sequence)
        }
        SequenceTarget::Nothing => None,
    };
    let Some(source) = frame.context.sequences.as_deref() else {
        return Err(failure(
            "0A000",
            "a sequence is used outside of a transaction",
        ));
    };
    let Some(sequence) = sequence else {
        return source
            .last()
            .map(Value::Int)
            .ok_or_else(|| failure("55000", "lastval is not yet defined in this session"));
    };
    let name = &sequence.name;
    Ok(match (function, values) {
        (SequenceFunction::Next, _) => Value::Int(next(sequence, frame.context)?),
        (SequenceFunction::Current, _) => {
            return source.current(sequence).map(Value::Int).ok_or_else(|| {
                let message =
                    format!("currval of sequence \"{name}\" is not yet defined in this session");
                failure("55000", message)
            });
        }
        (SequenceFunction::Set, [Value::Int(number), rest @ ..]) => {
            let is_called = !matches!(rest, [Value::Bool(false)]);
            set(sequence, *number, is_called, source)?;
            Value::Int(*number)
        }
        (SequenceFunction::LastValue, _) => Value::Int(source.state(sequence).0),
        (SequenceFunction::IsCalled, _) => Value::Bool(source.state(sequence).1),
        (SequenceFunction::LastCalled, _) => match source.state(sequence) {
            (number, true) => Value::Int(number),
            (_, false) => Value::Null,
        },
        _ => {
            return Err(failure(
                "XX000",
                "a function of a sequence has other arguments",
            ));
        }
    })
}

/// The next number of a sequence.
pub(super) fn next(
    sequence: &ResolvedSequence,
    context: &EvaluationContext,
) -> Result<i64, Failure> {
    let source = context.sequences.as_deref();
    let number = source.and_then(|source| source.next(sequence));
    number.ok_or_else(|| {
        let ResolvedSequence { name, options, .. } = sequence;
        let (word, end) = match options.increment > 0 {
            true => ("maximum", options.maximum),
            false => ("minimum", options.minimum),
        };
        let message = format!("nextval: reached {word} value of sequence \"{name}\" ({end})");
        failure("2200H", message)
    })
}

fn set(
    sequence: &ResolvedSequence,
    number: i64,
    is_called: bool,
    source: &dyn Sequences,
) -> Result<(), Failure> {
    let ResolvedSequence { name, options, .. } = sequence;
    if !(options.minimum..=options.maximum).contains(&number) {
        let message = format!(
            "setval: value {number} is out of bounds for sequence \"{name}\" ({}..{})",
            options.minimum, options.maximum
        );
        return Err(failure("22003", message));
    }
    source.set(sequence, number, is_called).map_err(|error| {
        let (code, message, hint) = match error {
            SequenceError::Unsupported => (
                "0A000",
                format!("setval of sequence \"{name}\" is not supported where each node counts by itself"),
                "let all partitions run in one server",
            ),
            SequenceError::Backward => (
                "55000",
                format!("setval may not take sequence \"{name}\" back under this guarantee"),
                "the plan relies on its numbers being new; ALTER SEQUENCE ... RESTART, or TRUNCATE ... RESTART IDENTITY, takes it back",
            ),
        };
        let mut error = failure(code, message);
        error = Box::new(error.with_hint(hint));
        error
    })
}
