//! Computes recursive queries: WITH RECURSIVE.

use std::sync::Arc;

use anabranch_types::Value;
use rustc_hash::FxHashSet;

use super::{Rows, Run, finish::print_of};
use crate::{
    TransactionError, expression::compare::Fingerprint, plan::Recursive, transaction::Transaction,
};

impl<T: Transaction> Run<'_, T> {
    /// The rows of the base, those that the step makes of them, those that it makes of these, and so on.
    pub(super) async fn recursive(&mut self, of: &Recursive) -> Result<Rows, TransactionError> {
        let most = of.nested.end.max(of.number + 1);
        if self.ctes.len() < most {
            self.ctes.resize(most, None);
        }
        let width = of.base.columns.len();
        let mut seen = FxHashSet::default();
        let mut parts: Vec<Arc<Vec<Value>>> = Vec::new();
        let mut count = 0;
        let mut rows = self.nested(&of.base, None).await?;
        loop {
            if !of.all {
                rows = self.unseen(rows, &mut seen).await?;
            }
            if rows.count == 0 {
                break;
            }
            count += rows.count;
            let part = Arc::new(rows.into_values().1);
            // Those within the step read its rows.
            self.ctes[of.nested.clone()].fill(None);
            self.ctes[of.number] = Some(Arc::clone(&part));
            parts.push(part);
            rows = self.nested(&of.step, None).await?;
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        self.ctes[of.number] = None;
        let mut values = Vec::with_capacity(count * width);
        for part in parts {
            self.context.budget.spend(part.len() / width.max(1));
            values.extend(Arc::unwrap_or_clone(part));
            self.pause_if_due().await?;
        }
        Ok(Rows {
            width,
            values,
            count,
            owners: Vec::new(),
        })
    }

    /// The rows that are not seen yet, each once.
    async fn unseen(
        &mut self,
        rows: Rows,
        seen: &mut FxHashSet<Fingerprint>,
    ) -> Result<Rows, TransactionError> {
        let columns: Vec<usize> = (0..rows.width).collect();
        let mut order = Vec::new();
        for row in 0..rows.count {
            let print = print_of(&rows, row, &columns);
            let size = size_of::<Fingerprint>() + print.len();
            if seen.insert(print) {
                self.context.budget.hold(size)?;
                order.push(row);
            }
            self.context.budget.spend(1);
            self.pause_if_due().await?;
        }
        if order.len() == rows.count {
            return Ok(rows);
        }
        let (width, held) = (rows.width, rows.bytes());
        let before = self.context.budget.held();
        let rows = self.picked(rows, &order, width).await?;
        self.context.budget.release_to(before);
        self.context.budget.release(held);
        rows.hold(&self.context.budget)?;
        Ok(rows)
    }
}
