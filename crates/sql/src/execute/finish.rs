//! The last operations on a query's rows: DISTINCT, ORDER BY, LIMIT, set operations.

use std::cmp::Ordering;

use anabranch_types::{EnumType, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{PIECE_TUPLES, Rows, Run};
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
    pub(super) async fn finish(
        &mut self,
        finish: &Finish,
        rows: Rows,
    ) -> Result<Rows, TransactionError> {
        let nothing = finish.distinct == Distinct::None
            && finish.order.is_empty()
            && finish.limit.is_none()
            && finish.offset.is_none();
        if nothing && finish.visible == rows.width {
            return Ok(rows);
        }
        let mut order = self.order(finish, &rows).await?;
        let (offset, limit) = self.bounds(finish)?;
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
        self.picked(rows, &order, finish.visible).await
    }

    /// The rows in their order, without duplicates.
    pub(super) async fn order(
        &mut self,
        finish: &Finish,
        rows: &Rows,
    ) -> Result<Vec<usize>, TransactionError> {
        self.context.budget.hold(rows.count * size_of::<usize>())?;
        let mut order: Vec<usize> = (0..rows.count).collect();
        if finish.distinct == Distinct::All {
            let visible: Vec<usize> = (0..finish.visible).collect();
            self.keep_first(&mut order, rows, &visible).await?;
        }
        if !finish.order.is_empty() {
            let compare = |a: &usize, b: &usize| sorted(finish, rows, *a, *b);
            order = self.sorted(order, compare).await?;
        }
        if let Distinct::On(columns) = &finish.distinct {
            self.keep_first(&mut order, rows, columns).await?;
        }
        Ok(order)
    }

    /// The values of OFFSET and LIMIT.
    pub(super) fn bounds(&self, finish: &Finish) -> Result<(usize, usize), Failure> {
        let offset = self.count(finish.offset.as_ref(), "2201X", "OFFSET")?;
        let limit = self.count(finish.limit.as_ref(), "2201W", "LIMIT")?;
        Ok((offset.unwrap_or(0), limit.unwrap_or(usize::MAX)))
    }

    /// The elements in order; equal ones stay in theirs. Sorts pieces, and merges them, with pauses.
    pub(super) async fn sorted<E>(
        &mut self,
        mut list: Vec<E>,
        compare: impl Fn(&E, &E) -> Ordering,
    ) -> Result<Vec<E>, TransactionError> {
        if list.len() <= PIECE_TUPLES {
            self.context.budget.spend(list.len());
            list.sort_by(compare);
            self.pause_if_due().await?;
            return Ok(list);
        }
        let before = self.context.budget.held();
        self.context.budget.hold(list.len() * size_of::<E>())?;
        let mut runs: Vec<Vec<E>> = Vec::new();
        while !list.is_empty() {
            let rest = list.split_off(list.len().min(PIECE_TUPLES));
            list.sort_by(&compare);
            self.context.budget.spend(list.len());
            runs.push(std::mem::replace(&mut list, rest));
            self.pause_if_due().await?;
        }
        while runs.len() > 1 {
            let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
            let mut pairs = runs.into_iter();
            while let Some(left) = pairs.next() {
                merged.push(match pairs.next() {
                    Some(right) => self.merged(left, right, &compare).await?,
                    None => left,
                });
            }
            runs = merged;
        }
        self.context.budget.release_to(before);
        Ok(runs.pop().unwrap_or_default())
    }

    /// Two sorted lists as one.
    async fn merged<E>(
        &mut self,
        left: Vec<E>,
        right: Vec<E>,
        compare: impl Fn(&E, &E) -> Ordering,
    ) -> Result<Vec<E>, TransactionError> {
        let mut out = Vec::with_capacity(left.len() + right.len());
        let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
        loop {
            for _ in 0..PIECE_TUPLES {
                let takes_right = match (left.peek(), right.peek()) {
                    (Some(a), Some(b)) => compare(b, a).is_lt(),
                    (None, Some(_)) => true,
                    (Some(_), None) => false,
                    (None, None) => return Ok(out),
                };
                out.extend(if takes_right {
                    right.next()
                } else {
                    left.next()
                });
            }
            self.context.budget.spend(PIECE_TUPLES);
            self.pause_if_due().await?;
        }
    }

    /// Keeps the first row of each distinct combination of some columns.
    async fn keep_first(
        &mut self,
        order: &mut Vec<usize>,
        rows: &Rows,
        columns: &[usize],
    ) -> Result<(), TransactionError> {
        let before = self.context.budget.held();
        let mut seen = FxHashSet::default();
        let mut kept = 0;
        for place in 0..order.len() {
            let print = print_of(rows, order[place], columns);
            let size = size_of::<Fingerprint>() + print.len();
            if seen.insert(print) {
                order[kept] = order[place];
                kept += 1;
                self.context.budget.hold(size)?;
            }
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        order.truncate(kept);
        self.context.budget.release_to(before);
        Ok(())
    }

    /// These rows in this order, cut to the visible columns.
    pub(super) async fn picked(
        &mut self,
        mut rows: Rows,
        order: &[usize],
        visible: usize,
    ) -> Result<Rows, TransactionError> {
        let budget = &self.context.budget;
        budget.hold(order.len() * visible * size_of::<Value>())?;
        let mut values = Vec::with_capacity(order.len() * visible);
        for piece in order.chunks(PIECE_TUPLES) {
            for row in piece {
                let begin = row * rows.width;
                values.extend(
                    rows.values[begin..begin + visible]
                        .iter_mut()
                        .map(|v| std::mem::replace(v, Value::Null)),
                );
            }
            self.context.budget.spend(piece.len());
            self.pause_if_due().await?;
        }
        let owners = match rows.owners.is_empty() {
            true => Vec::new(),
            false => order.iter().map(|row| rows.owners[*row]).collect(),
        };
        Ok(Rows {
            width: visible,
            values,
            count: order.len(),
            owners,
        })
    }

    /// UNION, INTERSECT, EXCEPT, with or without ALL.
    pub(super) async fn combine(
        &mut self,
        operator: SetOperator,
        all: bool,
        left: Rows,
        right: Rows,
    ) -> Result<Rows, TransactionError> {
        let columns: Vec<usize> = (0..left.width).collect();
        let left_count = left.count;
        let mut both = left;
        let mut order: Vec<usize> = Vec::new();
        self.context
            .budget
            .hold((left_count + right.count) * size_of::<usize>())?;
        if operator == SetOperator::Union {
            both.values.extend(right.values);
            both.owners.extend(right.owners);
            both.count += right.count;
            order.extend(0..both.count);
            if !both.owners.is_empty() {
                let owner = |a: &usize, b: &usize| both.owners[*a].cmp(&both.owners[*b]);
                order = self.sorted(order, owner).await?;
            }
        } else {
            let mut counts: FxHashMap<Fingerprint, usize> = FxHashMap::default();
            for row in 0..right.count {
                let print = print_of(&right, row, &columns);
                self.context
                    .budget
                    .hold(size_of::<Fingerprint>() + print.len())?;
                *counts.entry(print).or_default() += 1;
                self.context.budget.spend(1);
                self.pause_if_due().await?;
            }
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
                self.context.budget.spend(1);
                self.pause_if_due().await?;
            }
        }
        if !all {
            self.keep_first(&mut order, &both, &columns).await?;
        }
        let width = both.width;
        self.picked(both, &order, width).await
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
        let (a, b) = (&a[key.column], &b[key.column]);
        match &key.labels {
            None => compare(a, b, key.descending, key.nulls_first),
            Some(of) => compare(
                &place(a, of),
                &place(b, of),
                key.descending,
                key.nulls_first,
            ),
        }
    });
    by_owner.then_with(|| keys.find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
}

/// The place of a label, which the order of an enumeration's values follows.
fn place(label: &Value, of: &EnumType) -> Value {
    match label {
        Value::Text(label) => of
            .place(label)
            .map_or(Value::Null, |place| Value::Int(place as i64)),
        _ => Value::Null,
    }
}

/// The fingerprint of some columns of a row, and of its owner.
pub(super) fn print_of(rows: &Rows, row: usize, columns: &[usize]) -> Fingerprint {
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
