//! Checks in code: the conditions that decide which statements run.

use std::ops::Range;

use crate::value::Value;

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    /// No comparison: a value that is true or present.
    IsTrue,
}

impl Comparator {
    pub(crate) fn of(operator: &str) -> Option<Comparator> {
        Some(match operator {
            "<" => Comparator::Less,
            "<=" => Comparator::LessOrEqual,
            ">" => Comparator::Greater,
            ">=" => Comparator::GreaterOrEqual,
            "==" | "===" | "is" => Comparator::Equal,
            "!=" | "!==" | "<>" | "is not" => Comparator::NotEqual,
            _ => return None,
        })
    }

    pub(crate) fn negated(self) -> Comparator {
        match self {
            Comparator::Less => Comparator::GreaterOrEqual,
            Comparator::LessOrEqual => Comparator::Greater,
            Comparator::Greater => Comparator::LessOrEqual,
            Comparator::GreaterOrEqual => Comparator::Less,
            Comparator::Equal => Comparator::NotEqual,
            Comparator::NotEqual => Comparator::Equal,
            Comparator::IsTrue => Comparator::IsTrue,
        }
    }

    /// The operator with its sides exchanged.
    pub(crate) fn flipped(self) -> Comparator {
        match self {
            Comparator::Less => Comparator::Greater,
            Comparator::LessOrEqual => Comparator::GreaterOrEqual,
            Comparator::Greater => Comparator::Less,
            Comparator::GreaterOrEqual => Comparator::LessOrEqual,
            other => other,
        }
    }

    pub(crate) fn shown(self) -> &'static str {
        match self {
            Comparator::Less => "<",
            Comparator::LessOrEqual => "<=",
            Comparator::Greater => ">",
            Comparator::GreaterOrEqual => ">=",
            Comparator::Equal | Comparator::IsTrue => "=",
            Comparator::NotEqual => "<>",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) sign: Comparator,
    pub(crate) left: Value,
    pub(crate) right: Value,
    /// Whether it is the whole condition.
    pub(crate) alone: bool,
}

impl Comparison {
    /// The query whose rows it asks for, and whether the comparison, or its negation, holds if there are any.
    pub(crate) fn rows(&self, negated: bool) -> Option<(usize, bool)> {
        let run = |value: &Value| match value {
            Value::Rows(runs) => match runs.as_slice() {
                [one] => Some(*one),
                _ => None,
            },
            _ => None,
        };
        let is_nothing = |value: &Value| {
            matches!(value, Value::Nothing)
                || matches!(value, Value::Scalar(scalar) if &*scalar.shown == "0")
        };
        let (run, sign) = match (run(&self.left), run(&self.right)) {
            (Some(run), None) if is_nothing(&self.right) => (run, self.sign),
            (None, Some(run)) if is_nothing(&self.left) => (run, self.sign.flipped()),
            _ => return None,
        };
        let holds = match sign {
            Comparator::IsTrue | Comparator::NotEqual | Comparator::Greater => true,
            Comparator::Equal | Comparator::LessOrEqual => false,
            Comparator::Less | Comparator::GreaterOrEqual => return None,
        };
        Some((run, holds != negated))
    }
}

/// A condition that guards statements.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) comparison: Comparison,
    /// Whether it is negated.
    pub(crate) negated: bool,
    pub(crate) file: usize,
    pub(crate) range: Range<usize>,
    pub(crate) shown: String,
    /// Whether control leaves the function in the branch where it holds, and in the other branch.
    pub(crate) then_ends: bool,
    pub(crate) otherwise_ends: bool,
    /// The runs within its branches.
    pub(crate) inside: Range<usize>,
}
