//! Executes subqueries in expressions: each gives every tuple one value.

use anabranch_types::Value;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{BATCH_TUPLES, Rows, Run};
use crate::{
    TransactionError,
    expression::{
        Batch, Expression, Failure, Relation, Source,
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
        let mut values = Vec::with_capacity(count);
        if !subquery.query.correlated {
            if count > 0 {
                let rows = self.nested(&subquery.query, None).await?;
                self.uncorrelated(subquery, &rows, batch, &mut values)?;
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
                }
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

    /// One value for all tuples, or one each where a left operand differs.
    fn uncorrelated(
        &self,
        subquery: &Subquery,
        rows: &Rows,
        batch: &Batch<'_>,
        values: &mut Vec<Value>,
    ) -> Result<(), Failure> {
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
            }
            return Ok(());
        }
        let mut prints: FxHashSet<Fingerprint> = FxHashSet::default();
        let mut with_null = false;
        for row in 0..rows.count {
            let mut print = Fingerprint::new();
            with_null = with_null || rows.row(row).iter().any(Value::is_null);
            rows.row(row)
                .iter()
                .for_each(|value| push_fingerprint(&mut print, value));
            prints.insert(print);
        }
        for tuple in 0..batch.len() {
            let sides = self.sides(left, batch, tuple)?;
            let mut print = Fingerprint::new();
            sides
                .iter()
                .for_each(|value| push_fingerprint(&mut print, value));
            let null = sides.iter().any(Value::is_null);
            values.push(if null || (with_null && !prints.contains(&print)) {
                // Rare: three-valued logic decides row by row.
                self.value(&subquery.kind, rows, 0..rows.count, batch, tuple)?
            } else {
                Value::Bool(prints.contains(&print) == is_in)
            });
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
            SubqueryKind::Array => Ok(Value::Array(
                range.map(|row| rows.row(row)[0].clone()).collect(),
            )),
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
