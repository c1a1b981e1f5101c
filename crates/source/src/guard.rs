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
