//! Compiled procedures: PL/pgSQL and `LANGUAGE SQL` bodies over numbered variables.
//!
//! [`compile`] turns a parsed body into [`Code`], with every name, type and plan settled. [`analyze`] walks it once,
//! in order, to find the origins of values and the UPDATEs that can be deferred. [`run`] interprets it as an `async
//! fn` over a [`crate::Transaction`]. [`declared`] runs it without data, to find the reads that the arguments alone
//! determine.

mod absence;
pub(crate) mod analyze;
mod calling;
pub(crate) mod compile;
pub(crate) mod declared;
pub(crate) mod names;
pub(crate) mod run;
mod summarize;

pub(crate) use summarize::statement_summary;

use std::sync::Arc;

use anabranch_types::{DataType, TimeZone, Value};

use crate::{
    catalog::{RaiseField, RaiseLevel},
    constraint::Constraints,
    expression::{Expression, Failure, cast::cast},
    plan::statement::Statement,
    source::Span,
    summary::{Deferral, StatementId},
};

/// A procedure, ready to run.
#[derive(Debug)]
pub struct CompiledProcedure {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// Assertions that its author declares as kept.
    pub(crate) keeps: Vec<String>,
    /// The input parameters, which have the first slots.
    pub(crate) parameters: Vec<(String, DataType)>,
    /// Defaults of the last parameters.
    pub(crate) defaults: Vec<Option<Expression>>,
    /// The names of variables, by slot; empty where a slot has none.
    pub(crate) slot_names: Vec<String>,
    /// The types of all variables, by slot.
    pub(crate) variables: Vec<DataType>,
    pub(crate) body: Vec<Code>,
    /// Its statements; the first has the number `first_statement`.
    pub(crate) statements: Vec<Site>,
    pub(crate) first_statement: u32,
    /// The number of statements in the procedures that it calls, counted for each call.
    pub(crate) called_statements: u32,
    pub(crate) result: Outcome,
    /// The slot of FOUND.
    pub(crate) found: usize,
    /// The columns of its result.
    pub(crate) columns: Arc<[(String, DataType)]>,
    pub(crate) constraints: Arc<Constraints>,
}

/// A statement in a body.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) statement: Statement,
    pub(crate) in_loop: bool,
    pub(crate) deferral: Deferral,
}

/// The result of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// These variables, as one row.
    Variables(Vec<usize>),
    /// The value of RETURN.
    Scalar,
    /// The rows of RETURN QUERY and RETURN NEXT; RETURN NEXT without a value adds these variables.
    Rows(Vec<usize>),
}

/// The slot of FOUND.
pub(crate) const FOUND: &str = "found";

/// A compiled statement of a body.
#[derive(Debug)]
pub(crate) enum Code {
    Sql {
        site: usize,
        into: Vec<Receiver>,
        strict: bool,
    },
    Assign {
        slot: usize,
        value: Computed,
    },
    AssignElement {
        slot: usize,
        index: Computed,
        value: Computed,
    },
    If {
        branches: Vec<(Computed, Vec<Code>)>,
        otherwise: Vec<Code>,
    },
    ForRange {
        slot: usize,
        from: Computed,
        to: Computed,
        by: Option<Computed>,
        reverse: bool,
        body: Vec<Code>,
    },
    ForQuery {
        site: usize,
        targets: Vec<Receiver>,
        body: Vec<Code>,
    },
    ForEach {
        slot: usize,
        array: Computed,
        body: Vec<Code>,
    },
    While {
        condition: Computed,
        body: Vec<Code>,
    },
    /// Leaves the innermost loop, and so many around it.
    Exit(usize, Option<Computed>),
    /// Goes on with the next round of the innermost loop, or leaves so many and goes on with that around them.
    Continue(usize, Option<Computed>),
    Raise {
        level: RaiseLevel,
        format: String,
        arguments: Vec<(Computed, DataType)>,
        code: &'static str,
        fields: Vec<(RaiseField, Computed, DataType)>,
    },
    Return(Option<Computed>),
    ReturnQuery {
        site: usize,
        /// A cast for each column, or `None` where there is nothing to cast.
        casts: Vec<Option<ResultCast>>,
    },
    ReturnNext(Option<Computed>),
    RowCount {
        slot: usize,
    },
    /// Another procedure, run within this one. In each call its statements have numbers of their own, so that the plan
    /// distinguishes them from those of the procedure called by itself: they begin this far after the caller's last.
    /// None of them is deferred.
    Call {
        procedure: Arc<CompiledProcedure>,
        offset: u32,
        arguments: Vec<Computed>,
        into: Vec<Receiver>,
        /// Whether it is PERFORM's, which sets FOUND and ROW_COUNT.
        performed: bool,
    },
}

/// A variable that takes a column of a result.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) slot: usize,
    /// The cast to the variable's type, if the column's is another.
    pub(crate) cast: Option<ResultCast>,
}

/// A cast of a result's column to the declared type. It applies after the query, to the rows that are taken: other
/// rows may not fit the type, and ORDER BY and UNION see the values before the cast.
#[derive(Clone, Debug)]
pub(crate) struct ResultCast {
    pub(crate) from: DataType,
    pub(crate) to: DataType,
}

/// An expression of a body; one with subqueries is a statement of its own.
#[derive(Debug)]
pub(crate) enum Computed {
    Pure(Expression),
    Query { site: usize },
}

impl Receiver {
    /// A variable of the column's own type.
    pub(crate) fn plain(slot: usize) -> Receiver {
        Receiver { slot, cast: None }
    }
}

impl ResultCast {
    /// Casts a value.
    ///
    /// # Errors
    /// If the type does not have the value: out of range, too long.
    pub(crate) fn of(&self, value: Value, zone: &TimeZone) -> Result<Value, Failure> {
        cast(value, &self.from, &self.to, false, zone)
    }
}

impl CompiledProcedure {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its input parameters, in order.
    pub fn parameters(&self) -> &[(String, DataType)] {
        &self.parameters
    }

    /// The columns of its result.
    pub fn columns(&self) -> &Arc<[(String, DataType)]> {
        &self.columns
    }

    /// The number of its statements, and of those in the procedures that it calls.
    pub(crate) fn statements_in_all(&self) -> u32 {
        self.statements.len() as u32 + self.called_statements
    }

    /// The first statement number of a called procedure, if its own begin at `first`.
    pub(crate) fn first_called(&self, first: u32, offset: u32) -> u32 {
        first + self.statements.len() as u32 + offset
    }

    /// The number of one of its statements if it is called by itself.
    pub(crate) fn statement_id(&self, site: usize) -> StatementId {
        StatementId(self.first_statement + site as u32)
    }
}
