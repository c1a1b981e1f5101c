//! Executes subqueries in expressions: each gives every tuple one value.

use anabranch_types::Value;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{BATCH_TUPLES, Rows, Run};
use crate::{
    TransactionError,
    expression::{
        Batch, Expression, Failure, Relation, Source,
        budget::{bytes, outside, within_value},
        compare::{Fingerprint, push_fingerprint},
        failure,
    },
    plan::{Subquery, SubqueryKind},
    transaction::Transaction,
};

impl<T: Transaction> Run<'_, T> {
    /// Computes a subquery's value for every tuple.
    pub(super) async fn subquery(
        &mut self,
        source: usize,
        subquery: &Subquery,
        batch: &mut Batch<'_>,
    ) -> Result<(), TransactionError> {
        let count = batch.len();
        let before = self.context.budget.held();
        let mut values = Vec::with_capacity(count);
        if !subquery.query.correlated {
            if count > 0 {
                let rows = self.nested(&subquery.query, None).await?;
                self.uncorrelated(subquery, &rows, batch, &mut values)
                    .await?;
                self.hold_values(before, &values)?;
            }
        } else {
            let mut start = 0;
            while start < count {
                let end = count.min(start + BATCH_TUPLES);
                let rows = self
                    .nested(&subquery.query, Some((&*batch, start..end)))
                    .await?;
                let mut row = 0;
                for tuple in start..end {
                    let begin = row;
                    while row < rows.count && rows.owners[row] as usize == tuple {
                        row += 1;
                    }
                    values.push(self.value(&subquery.kind, &rows, begin..row, batch, tuple)?);
                    self.pause_if_due().await?;
                }
                self.hold_values(before, &values)?;
                start = end;
            }
        }
        let shared = values.len() == 1;
        for tuple in 0..count {
            let place = if shared { 0 } else { tuple as u32 };
            let stride = batch.stride;
            batch.indices[tuple * stride + source] = place;
        }
        batch.sources[source] = Source::Values { width: 1, values };
        Ok(())
    }

    /// Holds these values, and not what was held beyond `before`.
    fn hold_values(&self, before: u64, values: &[Value]) -> Result<(), Failure> {
        let budget = &self.context.budget;
        budget.release_to(before);
        budget.hold(values.iter().map(bytes).sum())
    }

    /// One value for all tuples, or one each where a left operand differs.
    async fn uncorrelated(
        &mut self,
        subquery: &Subquery,
        rows: &Rows,
        batch: &Batch<'_>,
        values: &mut Vec<Value>,
    ) -> Result<(), TransactionError> {
        let SubqueryKind::Quantified {
            left,
            relation,
            all,
        } = &subquery.kind
        else {
            values.push(self.value(&subquery.kind, rows, 0..rows.count, batch, 0)?);
            return Ok(());
        };
        let is_in = (*relation, *all) == (Relation::Equal, false);
        let is_not_in = (*relation, *all) == (Relation::NotEqual, true);
        if !(is_in || is_not_in) || rows.count < 8 {
            for tuple in 0..batch.len() {
                values.push(self.value(&subquery.kind, rows, 0..rows.count, batch, tuple)?);
                self.pause_if_due().await?;
            }
            return Ok(());
        }
        let mut prints: FxHashSet<Fingerprint> = FxHashSet::default();
        let mut with_null = false;
        for row in 0..rows.count {
            with_null = with_null || rows.row(row).iter().any(Value::is_null);
            let print = print_of(rows.row(row));
            let budget = &self.context.budget;
            budget.spend(1);
            budget.hold(size_of::<Fingerprint>() + print.len())?;
            prints.insert(print);
            self.pause_if_due().await?;
        }
        for tuple in 0..batch.len() {
            let sides = self.sides(left, batch, tuple)?;
            let print = print_of(&sides);
            let null = sides.iter().any(Value::is_null);
            values.push(if null || (with_null && !prints.contains(&print)) {
                // Rare: three-valued logic decides row by row.
                self.value(&subquery.kind, rows, 0..rows.count, batch, tuple)?
            } else {
                self.context.budget.spend(1);
                Value::Bool(prints.contains(&print) == is_in)
            });
            self.pause_if_due().await?;
        }
        Ok(())
    }

    fn sides(
        &self,
        left: &[Expression],
        batch: &Batch<'_>,
        tuple: usize,
    ) -> Result<SmallVec<[Value; 2]>, Failure> {
        let frame = self.frame(batch, tuple);
        left.iter().map(|side| side.evaluate(&frame)).collect()
    }

    /// The value of some of a subquery's rows for a tuple.
    fn value(
        &self,
        kind: &SubqueryKind,
        rows: &Rows,
        range: std::ops::Range<usize>,
        batch: &Batch<'_>,
        tuple: usize,
    ) -> Result<Value, Failure> {
        self.context.budget.spend(1 + range.len());
        match kind {
            SubqueryKind::Scalar if range.len() > 1 => {
                let message = "more than one row returned by a subquery used as an expression";
                Err(failure("21000", message))
            }
            SubqueryKind::Scalar => Ok(match range.is_empty() {
                true => Value::Null,
                false => rows.row(range.start)[0].clone(),
            }),
            SubqueryKind::Exists { negated } => Ok(Value::Bool(range.is_empty() == *negated)),
            SubqueryKind::Array => {
                let array = Value::Array(range.map(|row| rows.row(row)[0].clone()).collect());
                within_value(outside(&array))?;
                Ok(array)
            }
            SubqueryKind::Quantified {
                left,
                relation,
                all,
            } => {
                let sides = self.sides(left, batch, tuple)?;
                let mut unknown = false;
                for row in range {
                    match row_relation(*relation, &sides, rows.row(row)) {
                        Some(truth) if truth != *all => return Ok(Value::Bool(truth)),
                        Some(_) => {}
                        None => unknown = true,
                    }
                }
                Ok(if unknown {
                    Value::Null
                } else {
                    Value::Bool(*all)
                })
            }
        }
    }
}

/// The fingerprint of a row of values.
fn print_of(values: &[Value]) -> Fingerprint {
    let mut print = Fingerprint::new();
    values
        .iter()
        .for_each(|value| push_fingerprint(&mut print, value));
    print
}

/// Compares two rows of values. For rows of more than one value the relation is `=` or `<>`.
fn row_relation(relation: Relation, left: &[Value], right: &[Value]) -> Option<bool> {
    if let ([left], [right]) = (left, right) {
        return left.compare(right).map(|ordering| relation.holds(ordering));
    }
    let mut unknown = false;
    for (left, right) in left.iter().zip(right) {
        match left.compare(right) {
            Some(ordering) if ordering.is_ne() => return Some(relation == Relation::NotEqual),
            Some(_) => {}
            None => unknown = true,
        }
    }
    if unknown {
        None
    } else {
        Some(relation == Relation::Equal)
    }
}
