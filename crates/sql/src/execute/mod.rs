//! Execution: compiled statements over a [`Transaction`], set at a time.
//!
//! A query's tuples go through its steps together (see [`crate::plan`]). So do those of a correlated subquery: it
//! begins with one tuple for each tuple of the enclosing query, so that its reads are issued together, too, and its
//! rows are distinguished by the tuple that owns them.
//!
//! Execution counts its work and [pauses](Transaction::pause) when enough of it is done: each long loop is a function
//! that stops when a pause is due and knows where it goes on, so that tight loops do not await. It also counts the
//! bytes that it holds, as a stack: what a query or step holds beyond its result is released when it ends (see
//! [`Budget`]).

pub(crate) mod aggregate;
mod collected;
pub(crate) mod compound;
pub(crate) mod encode;
pub(crate) mod expand;
pub(crate) mod finish;
pub(crate) mod insert;
pub(crate) mod join;
pub(crate) mod key;
pub(crate) mod modify;
pub(crate) mod recursive;
pub(crate) mod referential;
mod skip_locked;
mod statistics;
pub(crate) mod subquery;
pub(crate) mod window;

use self::{aggregate::GroupStep, compound::PartEffects};
use std::{future::Future, ops::Range, pin::Pin, sync::Arc};

use anabranch_types::Value;

use crate::{
    TransactionError,
    constraint::Constraints,
    expression::{Batch, Budget, EvaluationContext, Expression, Failure, Frame, budget::outside},
    plan::{Body, Query, Select, Step},
    summary::StatementId,
    transaction::Transaction,
};

/// The number of tuples with reads in one batch, and of tuples that a correlated subquery takes at
/// a time: enough to spread the cost of a batch, few enough to bound memory.
const BATCH_TUPLES: usize = 4_096;

/// The number of tuples or rows of a piece: what is handled at a time where there may be many.
const PIECE_TUPLES: usize = 16_384;

impl From<Failure> for TransactionError {
    fn from(failure: Failure) -> TransactionError {
        TransactionError::Failed(*failure)
    }
}

/// A statement in execution.
pub(crate) struct Run<'r, T> {
    pub(crate) transaction: &'r mut T,
    pub(crate) statement: StatementId,
    pub(crate) variables: &'r [Value],
    pub(crate) context: &'r EvaluationContext,
    pub(crate) constraints: &'r Constraints,
    /// Common table expressions evaluated so far, by number.
    pub(crate) ctes: Vec<Option<Arc<Vec<Value>>>>,
    /// The rows that a SELECT … SKIP LOCKED reads beyond its LIMIT: as many may turn out to be locked.
    pub(crate) rows_ahead: u32,
    /// What the parts of a compound statement have written so far.
    pub(crate) part_effects: Option<Box<PartEffects>>,
}

/// The rows of a query.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) width: usize,
    pub(crate) values: Vec<Value>,
    /// The number of rows.
    pub(crate) count: usize,
    /// The parent's tuple that each row belongs to, ascending; empty without a parent.
    pub(crate) owners: Vec<u32>,
}

impl Rows {
    /// Holds the rows.
    ///
    /// # Errors
    /// As [`Budget::hold`].
    fn hold(&self, budget: &Budget) -> Result<(), Failure> {
        budget.hold(self.bytes())
    }

    /// The bytes of the rows.
    fn bytes(&self) -> usize {
        let inside = self.values.len() * size_of::<Value>() + self.owners.len() * size_of::<u32>();
        let outside: usize = self.values.iter().map(outside).sum();
        inside + outside
    }

    /// The width and the values, for a query that reads these rows. Rows without columns get one that is never read, since
    /// the number of rows is that of the values by the width.
    pub(crate) fn into_values(self) -> (usize, Vec<Value>) {
        match self.width {
            0 => (1, vec![Value::Null; self.count]),
            width => (width, self.values),
        }
    }

    /// One row.
    pub(crate) fn row(&self, row: usize) -> &[Value] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// A future of a nested query.
pub(crate) type Nested<'f, R> = Pin<Box<dyn Future<Output = Result<R, TransactionError>> + 'f>>;

impl<T: Transaction> Run<'_, T> {
    /// A frame over a tuple.
    pub(crate) fn frame<'f>(&'f self, batch: &'f Batch<'f>, tuple: usize) -> Frame<'f> {
        Frame::new(self.variables, batch, tuple, self.context)
    }

    /// Runs a query within another: boxed, as queries nest without end.
    pub(crate) fn nested<'f>(
        &'f mut self,
        query: &'f Query,
        parent: Option<(&'f Batch<'f>, Range<usize>)>,
    ) -> Nested<'f, Rows> {
        Box::pin(self.query(query, parent))
    }

    /// Pauses, if a pause is due.
    pub(crate) async fn pause_if_due(&mut self) -> Result<(), TransactionError> {
        if self.context.budget.is_due() {
            self.transaction.pause().await?;
            self.context.budget.restart();
        }
        Ok(())
    }

    /// Runs common table expressions, each once.
    pub(crate) async fn named(&mut self, ctes: &[(usize, Query)]) -> Result<(), TransactionError> {
        for (number, cte) in ctes {
            if self.ctes.get(*number).is_none_or(Option::is_none) {
                let rows = self.nested(cte, None).await?;
                self.name_rows(*number, rows.into_values().1);
            }
        }
        Ok(())
    }

    /// Notes the rows of a common table expression.
    fn name_rows(&mut self, number: usize, values: Vec<Value>) {
        if self.ctes.len() <= number {
            self.ctes.resize(number + 1, None);
        }
        self.ctes[number] = Some(Arc::new(values));
    }

    /// Runs a query, for each of the parent's tuples in the range if there is a parent.
    pub(crate) async fn query(
        &mut self,
        query: &Query,
        parent: Option<(&Batch<'_>, Range<usize>)>,
    ) -> Result<Rows, TransactionError> {
        self.named(&query.ctes).await?;
        let before = self.context.budget.held();
        let rows = self.body(&query.body, parent).await?;
        self.context.budget.release_to(before);
        rows.hold(&self.context.budget)?;
        Ok(rows)
    }

    async fn body(
        &mut self,
        body: &Body,
        parent: Option<(&Batch<'_>, Range<usize>)>,
    ) -> Result<Rows, TransactionError> {
        match body {
            Body::Select(select) => self.select(select, parent).await,
            Body::SetOperation(operation) => {
                let left = self.nested(&operation.left, parent.clone()).await?;
                let right = self.nested(&operation.right, parent).await?;
                let rows = self
                    .combine(operation.operator, operation.all, left, right)
                    .await?;
                self.finish(&operation.finish, rows).await
            }
            Body::Recursive(recursive) => self.recursive(recursive).await,
        }
    }

    async fn select(
        &mut self,
        select: &Select,
        parent: Option<(&Batch<'_>, Range<usize>)>,
    ) -> Result<Rows, TransactionError> {
        if let Some(read) = select.skipping()
            && self.transaction.locks_rows()
        {
            return self.select_skipping(select, read).await;
        }
        let mut batch = match parent {
            None => Batch::single(select.stride),
            Some((parent, range)) => Batch::under(parent, range, select.stride),
        };
        self.steps(&select.steps, &mut batch).await?;
        let rows = self.project(select, &batch).await?;
        self.finish(&select.finish, rows).await
    }

    /// Takes a batch through the steps of a pipeline.
    pub(crate) async fn steps<'p>(
        &mut self,
        steps: &'p [Step],
        batch: &mut Batch<'p>,
    ) -> Result<(), TransactionError> {
        let owners = match batch.parent {
            None => None,
            Some(_) => Some(
                batch
                    .indices
                    .chunks(batch.stride)
                    .map(|t| t[0])
                    .collect::<Vec<_>>(),
            ),
        };
        let mut rest = steps;
        while let Some((step, after)) = rest.split_first() {
            rest = after;
            let expansion = match step {
                Step::Read(read) => self.read(read, batch).await?,
                Step::Function(function) => self.function(function, batch).await?,
                Step::Rows { source, rows, join } => {
                    self.constant_rows(*source, rows, join, batch).await?
                }
                Step::Query(query) => self.derived(query, batch).await?,
                _ => None,
            };
            if let Some(expansion) = expansion {
                let grouped = self
                    .expand(expansion, after, owners.as_deref(), batch)
                    .await?;
                rest = &after[grouped..];
                continue;
            }
            match step {
                Step::Filter(filters) => self.filter(filters, batch).await?,
                Step::Read(_) | Step::Function(_) | Step::Rows { .. } | Step::Query(_) => {}
                Step::Subquery { source, subquery } => {
                    self.subquery(*source, subquery, batch).await?;
                }
                Step::Window(windows) => self.windows(windows, batch).await?,
                Step::Group { .. } => {
                    if let Some(group) = GroupStep::of(step) {
                        self.group(&group, owners.as_deref(), batch).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps the tuples for which all filters are true.
    pub(crate) async fn filter(
        &mut self,
        filters: &[Expression],
        batch: &mut Batch<'_>,
    ) -> Result<(), TransactionError> {
        let (mut tuple, mut kept) = (0, 0);
        loop {
            self.filter_some(filters, batch, &mut tuple, &mut kept)?;
            if tuple == batch.len() {
                break;
            }
            self.pause_if_due().await?;
        }
        batch.indices.truncate(kept * batch.stride);
        Ok(())
    }

    /// Moves the tuples that pass to the front, until a pause is due.
    fn filter_some(
        &self,
        filters: &[Expression],
        batch: &mut Batch<'_>,
        tuple: &mut usize,
        kept: &mut usize,
    ) -> Result<(), Failure> {
        let stride = batch.stride;
        let budget = &self.context.budget;
        while *tuple < batch.len() && !budget.is_due() {
            if self.passes(filters, batch, *tuple)? {
                batch
                    .indices
                    .copy_within(*tuple * stride..(*tuple + 1) * stride, *kept * stride);
                *kept += 1;
            }
            *tuple += 1;
            budget.spend(1);
        }
        Ok(())
    }

    /// Whether all filters are true of a tuple.
    pub(crate) fn passes(
        &self,
        filters: &[Expression],
        batch: &Batch<'_>,
        tuple: usize,
    ) -> Result<bool, Failure> {
        let frame = Frame::new(self.variables, batch, tuple, self.context);
        for filter in filters {
            if filter.test(&frame)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn project(
        &mut self,
        select: &Select,
        batch: &Batch<'_>,
    ) -> Result<Rows, TransactionError> {
        let count = batch.len();
        let width = select.projection.len();
        self.context.budget.hold(
            count * width * size_of::<Value>() + select.uniques * count * size_of::<u128>(),
        )?;
        self.draw(select.uniques * count);
        let mut values = Vec::with_capacity(count * width);
        let mut tuple = 0;
        loop {
            self.evaluate_some(&select.projection, batch, &mut tuple, &mut values)?;
            if tuple == count {
                break;
            }
            self.pause_if_due().await?;
        }
        let owners = match batch.parent {
            None => Vec::new(),
            Some(_) => batch
                .indices
                .chunks(batch.stride)
                .map(|tuple| tuple[0])
                .collect(),
        };
        Ok(Rows {
            width,
            values,
            count,
            owners,
        })
    }

    /// Appends the values of some expressions for each of the next tuples, until a pause is due.
    pub(crate) fn evaluate_some(
        &self,
        expressions: &[Expression],
        batch: &Batch<'_>,
        tuple: &mut usize,
        values: &mut Vec<Value>,
    ) -> Result<(), Failure> {
        let budget = &self.context.budget;
        while *tuple < batch.len() && !budget.is_due() {
            let frame = self.frame(batch, *tuple);
            for expression in expressions {
                let value = expression.evaluate(&frame)?;
                match outside(&value) {
                    0 => {}
                    bytes => budget.hold(bytes)?,
                }
                values.push(value);
            }
            *tuple += 1;
            budget.spend(1);
        }
        Ok(())
    }

    /// Draws numbers for the expressions about to be evaluated.
    pub(crate) fn draw(&mut self, count: usize) {
        for _ in 0..count {
            let number = self.transaction.unique();
            self.context.uniques.borrow_mut().push(number);
        }
    }
}
