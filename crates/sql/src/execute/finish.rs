//! The last operations on a query's rows: DISTINCT, ORDER BY, LIMIT, set operations.

use std::cmp::Ordering;

use anabranch_types::Value;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Rows, Run};
use crate::{
    TransactionError,
    expression::{
        Batch, Expression, Failure,
        compare::{Fingerprint, push_fingerprint},
        failure,
    },
    plan::{Distinct, Finish, SetOperator},
    transaction::Transaction,
};

/// The order of two values under one key of ORDER BY.
pub(super) fn compare(a: &Value, b: &Value, descending: bool, nulls_first: bool) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if descending => b.total_cmp(a),
        (false, false) => a.total_cmp(b),
    }
}

impl<T: Transaction> Run<'_, T> {
    /// Finishes a query's rows.
    pub(super) fn finish(&self, finish: &Finish, rows: Rows) -> Result<Rows, TransactionError> {
        let nothing = finish.distinct == Distinct::None
            && finish.order.is_empty()
            && finish.limit.is_none()
            && finish.offset.is_none();
        if nothing && finish.visible == rows.width {
            return Ok(rows);
        }
        let mut order: Vec<usize> = (0..rows.count).collect();
        if finish.distinct == Distinct::All {
            let visible: Vec<usize> = (0..finish.visible).collect();
            keep_first(&mut order, &rows, &visible);
        }
        if !finish.order.is_empty() {
            order.sort_by(|a, b| sorted(finish, &rows, *a, *b));
        }
        if let Distinct::On(columns) = &finish.distinct {
            keep_first(&mut order, &rows, columns);
        }
        let offset = self
            .count(finish.offset.as_ref(), "2201X", "OFFSET")?
            .unwrap_or(0);
        let limit = self
            .count(finish.limit.as_ref(), "2201W", "LIMIT")?
            .unwrap_or(usize::MAX);
        if offset > 0 || limit < usize::MAX {
            let mut place = 0;
            let mut owner = None;
            order.retain(|row| {
                let own = rows.owners.get(*row).copied();
                if owner != Some(own) {
                    owner = Some(own);
                    place = 0;
                }
                place += 1;
                place > offset && place - offset <= limit
            });
        }
        Ok(picked(rows, &order, finish.visible))
    }

    /// The value of LIMIT or OFFSET; `None` for no limit.
    fn count(
        &self,
        expression: Option<&Expression>,
        code: &'static str,
        clause: &str,
    ) -> Result<Option<usize>, Failure> {
        let Some(expression) = expression else {
            return Ok(None);
        };
        let batch = Batch::single(1);
        match expression.evaluate(&self.frame(&batch, 0))? {
            Value::Int(i) if i < 0 => Err(failure(code, format!("{clause} must not be negative"))),
            Value::Int(i) => Ok(Some(usize::try_from(i).unwrap_or(usize::MAX))),
            _ => Ok(None),
        }
    }
}

fn sorted(finish: &Finish, rows: &Rows, a: usize, b: usize) -> Ordering {
    let owners = (rows.owners.get(a), rows.owners.get(b));
    let by_owner = owners.0.cmp(&owners.1);
    let (a, b) = (rows.row(a), rows.row(b));
    let mut keys = finish.order.iter().map(|key| {
        compare(
            &a[key.column],
            &b[key.column],
            key.descending,
            key.nulls_first,
        )
    });
    by_owner.then_with(|| keys.find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
}

/// The fingerprint of some columns of a row, and of its owner.
fn print_of(rows: &Rows, row: usize, columns: &[usize]) -> Fingerprint {
    let mut print = Fingerprint::new();
    if let Some(owner) = rows.owners.get(row) {
        print.extend_from_slice(&owner.to_le_bytes());
    }
    let values = rows.row(row);
    columns
        .iter()
        .for_each(|column| push_fingerprint(&mut print, &values[*column]));
    print
}

/// Keeps the first row of each distinct combination of some columns.
fn keep_first(order: &mut Vec<usize>, rows: &Rows, columns: &[usize]) {
    let mut seen = FxHashSet::default();
    order.retain(|row| seen.insert(print_of(rows, *row, columns)));
}

/// These rows in this order, cut to the visible columns.
fn picked(mut rows: Rows, order: &[usize], visible: usize) -> Rows {
    let mut values = Vec::with_capacity(order.len() * visible);
    for row in order {
        let begin = row * rows.width;
        values.extend(
            rows.values[begin..begin + visible]
                .iter_mut()
                .map(|v| std::mem::replace(v, Value::Null)),
        );
    }
    let owners = match rows.owners.is_empty() {
        true => Vec::new(),
        false => order.iter().map(|row| rows.owners[*row]).collect(),
    };
    Rows {
        width: visible,
        values,
        count: order.len(),
        owners,
    }
}

/// UNION, INTERSECT, EXCEPT, with or without ALL.
pub(super) fn combine(operator: SetOperator, all: bool, left: Rows, right: Rows) -> Rows {
    let columns: Vec<usize> = (0..left.width).collect();
    let left_count = left.count;
    let mut both = left;
    let right_prints: Vec<Fingerprint> = match operator {
        SetOperator::Union => Vec::new(),
        _ => (0..right.count)
            .map(|row| print_of(&right, row, &columns))
            .collect(),
    };
    let mut order: Vec<usize> = Vec::new();
    if operator == SetOperator::Union {
        both.values.extend(right.values);
        both.owners.extend(right.owners);
        both.count += right.count;
        order.extend(0..both.count);
        if !both.owners.is_empty() {
            order.sort_by_key(|row| both.owners[*row]);
        }
    } else {
        let mut counts: FxHashMap<Fingerprint, usize> = FxHashMap::default();
        right_prints
            .into_iter()
            .for_each(|print| *counts.entry(print).or_default() += 1);
        for row in 0..left_count {
            let other = counts.get_mut(&print_of(&both, row, &columns));
            let matched = match other {
                Some(count) if *count > 0 => {
                    *count -= usize::from(all);
                    true
                }
                _ => false,
            };
            if matched == (operator == SetOperator::Intersect) {
                order.push(row);
            }
        }
    }
    if !all {
        keep_first(&mut order, &both, &columns);
    }
    let width = both.width;
    picked(both, &order, width)
}
