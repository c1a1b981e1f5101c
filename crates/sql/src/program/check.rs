//! Compiled CHECKs.

use anabranch_types::{ColumnSet, Row};

use crate::expression::{
    EvaluationContext, Expression, Failure, Frame,
    integer::Truth,
    registers::{RowCells, RowLanes},
};

/// A CHECK over a row, which is source 1.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) expression: Expression,
    /// The condition once more, where it is on integers.
    pub(crate) truth: Option<Truth>,
    pub(crate) columns: ColumnSet,
}

impl Check {
    /// Whether it holds for the row of a frame's source 1; `None` for NULL.
    pub(crate) fn test(&self, frame: &Frame<'_>, row: &Row) -> Result<Option<bool>, Failure> {
        match self.holds(row) {
            Some(truth) => Ok(Some(truth)),
            None => self.evaluate(frame),
        }
    }

    /// Whether it holds for the row of a frame's source 1, by the full evaluation.
    ///
    /// The time zone is UTC, whatever the session's is: owners and replicas of a row have to agree, and no session is
    /// at hand where a row program runs.
    pub(crate) fn evaluate(&self, frame: &Frame<'_>) -> Result<Option<bool>, Failure> {
        if frame.context.zone.is_utc() {
            return self.expression.test(frame);
        }
        let context = EvaluationContext {
            timestamp: frame.context.timestamp,
            ..EvaluationContext::default()
        };
        self.expression.test(&frame.with_context(&context))
    }

    /// Whether it holds for a row; `None` if only the full evaluation can decide.
    #[inline]
    pub(crate) fn holds(&self, row: &Row) -> Option<bool> {
        let arguments = &[];
        self.truth.as_ref()?.holds(&RowCells { row, arguments })
    }

    /// Whether it holds for all of some rows, at most [`crate::expression::registers::LANES`]; `None` if only the full
    /// evaluation can decide.
    pub(crate) fn hold(&self, rows: &[Row]) -> Option<bool> {
        self.truth.as_ref()?.holds_of_all(&RowLanes(rows))
    }
}
