//! Window functions in a plan.

use crate::{bind::aggregate::Aggregate, expression::Expression};

/// The keys of an order: expression, descending, NULLs first.
pub(crate) type SortKeys = Vec<(Expression, bool, bool)>;

/// Computes window functions: their values become a source.
#[derive(Clone, Debug)]
pub(crate) struct WindowStep {
    pub(crate) source: usize,
    /// The number of functions, each a column of the source.
    pub(crate) width: usize,
    pub(crate) windows: Vec<Window>,
}

/// Functions over one partition and order of the tuples, which are sorted once for all of them.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) partition: Vec<Expression>,
    pub(crate) order: SortKeys,
    pub(crate) calls: Vec<WindowCall>,
}

/// A window function and the rows that it looks at.
#[derive(Clone, Debug)]
pub(crate) struct WindowCall {
    /// The source's column for its value.
    pub(crate) column: usize,
    pub(crate) function: WindowFunction,
    pub(crate) frame: WindowFrame,
}

/// The window functions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile(Expression),
    /// `lag`, or `lead` if `ahead`.
    Lag {
        value: Expression,
        /// 1 if it is not given.
        offset: Option<Expression>,
        default: Option<Expression>,
        ahead: bool,
    },
    FirstValue(Expression),
    LastValue(Expression),
    NthValue(Expression, Expression),
    Aggregate(Box<Aggregate>),
}

/// The rows of the partition that a function looks at, for each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowFrame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: FrameBound,
    pub(crate) end: FrameBound,
}

/// What a frame's offsets count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameUnit {
    Rows,
    /// Differences of the value of ORDER BY.
    Range,
    /// Groups of rows that are equal under ORDER BY.
    Groups,
}

/// One end of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FrameBound {
    /// The partition's first row, or the last one for a frame's end.
    Unbounded,
    CurrentRow,
    Preceding(Expression),
    Following(Expression),
}

impl Default for WindowFrame {
    /// From the partition's first row to the last one that is equal to the current row.
    fn default() -> WindowFrame {
        WindowFrame {
            unit: FrameUnit::Range,
            start: FrameBound::Unbounded,
            end: FrameBound::CurrentRow,
        }
    }
}

impl FrameBound {
    /// Its offset, if it has one.
    pub(crate) fn offset(&self) -> Option<&Expression> {
        match self {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            FrameBound::Unbounded | FrameBound::CurrentRow => None,
        }
    }
}

impl WindowStep {
    /// Calls `visit` with every expression that is evaluated over the tuples: all but the frames' offsets.
    pub(crate) fn each_expression<'s>(&'s self, visit: &mut dyn FnMut(&'s Expression)) {
        for window in &self.windows {
            window.partition.iter().for_each(&mut *visit);
            window.order.iter().for_each(|(key, ..)| visit(key));
            for call in &window.calls {
                call.function.each_expression(visit);
            }
        }
    }

    /// Calls `visit` with the offsets of the frames.
    pub(crate) fn each_offset<'s>(&'s self, visit: &mut dyn FnMut(&'s Expression)) {
        let calls = self.windows.iter().flat_map(|window| &window.calls);
        let bounds = calls.flat_map(|call| [&call.frame.start, &call.frame.end]);
        bounds.filter_map(FrameBound::offset).for_each(visit);
    }

    /// The column of this function over this window, which is added if it is not there.
    pub(crate) fn column(
        &mut self,
        partition: Vec<Expression>,
        order: SortKeys,
        function: WindowFunction,
        frame: WindowFrame,
    ) -> usize {
        let mut windows = self.windows.iter();
        let same = windows.position(|of| of.partition == partition && of.order == order);
        let place = same.unwrap_or_else(|| {
            self.windows.push(Window {
                partition,
                order,
                calls: Vec::new(),
            });
            self.windows.len() - 1
        });
        let calls = &mut self.windows[place].calls;
        let mut others = calls.iter();
        if let Some(same) = others.find(|of| of.function == function && of.frame == frame) {
            return same.column;
        }
        let column = self.width;
        calls.push(WindowCall {
            column,
            function,
            frame,
        });
        self.width += 1;
        column
    }
}

impl WindowFunction {
    /// Its name in lower case.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            WindowFunction::RowNumber => "row_number",
            WindowFunction::Rank => "rank",
            WindowFunction::DenseRank => "dense_rank",
            WindowFunction::PercentRank => "percent_rank",
            WindowFunction::CumeDist => "cume_dist",
            WindowFunction::Ntile(_) => "ntile",
            WindowFunction::Lag { ahead: false, .. } => "lag",
            WindowFunction::Lag { ahead: true, .. } => "lead",
            WindowFunction::FirstValue(_) => "first_value",
            WindowFunction::LastValue(_) => "last_value",
            WindowFunction::NthValue(..) => "nth_value",
            WindowFunction::Aggregate(aggregate) => aggregate.function.name(),
        }
    }

    /// Calls `visit` with its arguments, and an aggregate's FILTER.
    fn each_expression<'s>(&'s self, visit: &mut dyn FnMut(&'s Expression)) {
        match self {
            WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist => {}
            WindowFunction::Ntile(argument)
            | WindowFunction::FirstValue(argument)
            | WindowFunction::LastValue(argument) => visit(argument),
            WindowFunction::NthValue(value, place) => {
                visit(value);
                visit(place);
            }
            WindowFunction::Lag {
                value,
                offset,
                default,
                ..
            } => {
                visit(value);
                offset.iter().chain(default).for_each(visit);
            }
            WindowFunction::Aggregate(aggregate) => {
                aggregate.arguments.iter().for_each(&mut *visit);
                aggregate.filter.iter().for_each(&mut *visit);
                aggregate.order.iter().for_each(|(key, ..)| visit(key));
            }
        }
    }
}
