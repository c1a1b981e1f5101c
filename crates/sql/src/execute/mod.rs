//! Execution: compiled statements over a [`Transaction`], set at a time.
//!
//! A query's tuples go through its steps together (see [`crate::plan`]). So do those of a correlated subquery: it
//! begins with one tuple for each tuple of the enclosing query, so that its reads are issued together, too, and its
//! rows are distinguished by the tuple that owns them.

pub(crate) mod aggregate;
pub(crate) mod encode;
pub(crate) mod finish;
pub(crate) mod insert;
pub(crate) mod join;
pub(crate) mod key;
pub(crate) mod modify;
pub(crate) mod referential;
pub(crate) mod subquery;

use std::{future::Future, ops::Range, pin::Pin, sync::Arc};

use anabranch_types::Value;

use crate::{
    TransactionError,
    constraint::Constraints,
    expression::{Batch, EvaluationContext, Expression, Failure, Frame},
    plan::{Body, Query, Select, Step},
    summary::StatementId,
    transaction::Transaction,
};

/// The number of tuples with reads in one batch, and of tuples that a correlated subquery takes at
/// a time: enough to spread the cost of a batch, few enough to bound memory.
const BATCH_TUPLES: usize = 4_096;

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

    /// Runs common table expressions, each once.
    pub(crate) async fn named(&mut self, ctes: &[(usize, Query)]) -> Result<(), TransactionError> {
        for (number, cte) in ctes {
            if self.ctes.len() <= *number {
                self.ctes.resize(*number + 1, None);
            }
            if self.ctes[*number].is_none() {
                let rows = self.nested(cte, None).await?;
                self.ctes[*number] = Some(Arc::new(rows.values));
            }
        }
        Ok(())
    }

    /// Runs a query, for each of the parent's tuples in the range if there is a parent.
    pub(crate) async fn query(
        &mut self,
        query: &Query,
        parent: Option<(&Batch<'_>, Range<usize>)>,
    ) -> Result<Rows, TransactionError> {
        self.named(&query.ctes).await?;
        match &query.body {
            Body::Select(select) => self.select(select, parent).await,
            Body::SetOperation(operation) => {
                let left = self.nested(&operation.left, parent.clone()).await?;
                let right = self.nested(&operation.right, parent).await?;
                let rows = finish::combine(operation.operator, operation.all, left, right);
                self.finish(&operation.finish, rows)
            }
        }
    }

    async fn select(
        &mut self,
        select: &Select,
        parent: Option<(&Batch<'_>, Range<usize>)>,
    ) -> Result<Rows, TransactionError> {
        let mut batch = match parent {
            None => Batch::single(select.stride),
            Some((parent, range)) => Batch::under(parent, range, select.stride),
        };
        self.steps(&select.steps, &mut batch).await?;
        let rows = self.project(select, &batch)?;
        self.finish(&select.finish, rows)
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
        for step in steps {
            match step {
                Step::Filter(filters) => self.filter(filters, batch)?,
                Step::Read(read) => self.read(read, batch).await?,
                Step::Function(function) => self.function(function, batch)?,
                Step::Rows { source, rows, join } => {
                    self.constant_rows(*source, rows, join, batch)?
                }
                Step::Query(query) => self.derived(query, batch).await?,
                Step::Subquery { source, subquery } => {
                    self.subquery(*source, subquery, batch).await?;
                }
                Step::Group {
                    source,
                    keys,
                    aggregates,
                    grand,
                } => {
                    self.group(*source, keys, aggregates, *grand, owners.as_deref(), batch)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps the tuples for which all filters are true.
    fn filter(&self, filters: &[Expression], batch: &mut Batch<'_>) -> Result<(), Failure> {
        let stride = batch.stride;
        let mut kept = 0;
        for tuple in 0..batch.len() {
            if self.passes(filters, batch, tuple)? {
                batch
                    .indices
                    .copy_within(tuple * stride..(tuple + 1) * stride, kept * stride);
                kept += 1;
            }
        }
        batch.indices.truncate(kept * stride);
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

    fn project(&mut self, select: &Select, batch: &Batch<'_>) -> Result<Rows, TransactionError> {
        let count = batch.len();
        let width = select.projection.len();
        self.draw(select.uniques * count);
        let mut values = Vec::with_capacity(count * width);
        for tuple in 0..count {
            let frame = self.frame(batch, tuple);
            for expression in &select.projection {
                values.push(expression.evaluate(&frame)?);
            }
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

    /// Draws numbers for the expressions about to be evaluated.
    pub(crate) fn draw(&mut self, count: usize) {
        for _ in 0..count {
            let number = self.transaction.unique();
            self.context.uniques.borrow_mut().push(number);
        }
    }
}
