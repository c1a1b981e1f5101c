//! Executes NOWAIT and SKIP LOCKED over a system that locks rows.
//!
//! SELECT … SKIP LOCKED must not lock the range in which it looks for rows: it would wait for every row that another
//! transaction has locked there. So it reads candidates without locks, and then locks them one by one, in the order of
//! the result, until LIMIT has enough. A row that has changed in between may not be a candidate any more. By then it is
//! locked, so the candidates are read again.

use anabranch_types::{EffectError, Fetched, Key, LockPolicy, Read, Row};
use rustc_hash::FxHashMap;

use super::{BATCH_TUPLES, Rows, Run};
use crate::{
    TransactionError,
    expression::{Batch, Failure, Source},
    plan::{Path, Select, TableRead, WhenLocked},
    transaction::Transaction,
};

/// The rows beyond LIMIT that are read at first.
const ROWS_AHEAD: u32 = 16;

/// The factor by which they become more, while too many are locked.
const ROWS_AHEAD_GROWTH: u32 = 4;

/// What is known of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Candidate {
    /// This transaction has locked it: it stays as it is.
    Own,
    /// Another transaction has it, or it is gone.
    Skipped,
}

impl<T: Transaction> Run<'_, T> {
    /// Reads rows of a table under NOWAIT, or the candidates under SKIP LOCKED.
    pub(super) async fn fetch_without_waiting(
        &mut self,
        read: &TableRead,
        reads: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        let (policy, for_write) = match read.when_locked {
            WhenLocked::Skip => (LockPolicy::Unlocked, false),
            WhenLocked::Wait | WhenLocked::Fail => (LockPolicy::IfFree, read.for_write),
        };
        let statement = self.statement;
        let transaction = &mut *self.transaction;
        let answers = transaction
            .read_with_policy(statement, for_write, reads, policy)
            .await?;
        if answers
            .iter()
            .any(|answer| matches!(answer, Fetched::Locked))
        {
            let table = &read.schema.name;
            let message = format!("could not obtain lock on row in relation \"{table}\"");
            return Err(TransactionError::Failed(EffectError::new("55P03", message)));
        }
        Ok(answers)
    }

    /// Runs a SELECT … SKIP LOCKED, whose locked rows are those of `read`.
    pub(super) async fn select_skipping(
        &mut self,
        select: &Select,
        read: &TableRead,
    ) -> Result<Rows, TransactionError> {
        let (offset, limit) = self.bounds(&select.finish)?;
        let wanted = offset.saturating_add(limit);
        let stops_early = matches!(&read.path, Path::Range(range) if range.limit.is_some());
        let mut known = FxHashMap::default();
        let outer = std::mem::replace(&mut self.rows_ahead, ROWS_AHEAD);
        let before = self.context.budget.held();
        loop {
            self.context.budget.release_to(before);
            let mut batch = Batch::single(select.stride);
            self.steps(&select.steps, &mut batch).await?;
            let rows = self.project(select, &batch).await?;
            let order = self.order(&select.finish, &rows).await?;
            let asked = wanted.saturating_add(self.rows_ahead as usize);
            let may_be_more = stops_early && rows.count >= asked;
            match self
                .lock_candidates(read, &batch, &order, wanted, &mut known)
                .await?
            {
                Some(chosen) if chosen.len() >= wanted || !may_be_more => {
                    self.rows_ahead = outer;
                    let chosen = &chosen[offset.min(chosen.len())..];
                    return self.picked(rows, chosen, select.finish.visible).await;
                }
                Some(_) => self.rows_ahead = self.rows_ahead.saturating_mul(ROWS_AHEAD_GROWTH),
                None => {}
            }
        }
    }

    /// Locks tuples in this order until `wanted` of them are locked, and returns those; `None` if one has changed since it
    /// was read.
    async fn lock_candidates(
        &mut self,
        read: &TableRead,
        batch: &Batch<'_>,
        order: &[usize],
        wanted: usize,
        known: &mut FxHashMap<Key, Candidate>,
    ) -> Result<Option<Vec<usize>>, TransactionError> {
        let mut chosen = Vec::new();
        let mut rest = order.iter().copied();
        loop {
            let most = (wanted - chosen.len()).min(BATCH_TUPLES);
            let mut next = Vec::new();
            while next.len() < most
                && let Some(tuple) = rest.next()
            {
                if known.get(candidate(read, batch, tuple).0) != Some(&Candidate::Skipped) {
                    next.push(tuple);
                }
            }
            if next.is_empty() {
                return Ok(Some(chosen));
            }
            let is_new = |tuple: &&usize| !known.contains_key(candidate(read, batch, **tuple).0);
            let asked: Vec<usize> = next.iter().filter(is_new).copied().collect();
            if self.lock_rows(read, batch, &asked, known).await? {
                return Ok(None);
            }
            let is_own = |tuple: &usize| {
                known.get(candidate(read, batch, *tuple).0) == Some(&Candidate::Own)
            };
            chosen.extend(next.into_iter().filter(is_own));
            self.pause_if_due().await?;
        }
    }

    /// Locks the rows of some tuples, and notes which of them are locked. Returns whether one of those has changed since
    /// it was read.
    async fn lock_rows(
        &mut self,
        read: &TableRead,
        batch: &Batch<'_>,
        tuples: &[usize],
        known: &mut FxHashMap<Key, Candidate>,
    ) -> Result<bool, TransactionError> {
        if tuples.is_empty() {
            return Ok(false);
        }
        let reads = tuples.iter().map(|tuple| Read::Point {
            table: read.schema.id,
            key: candidate(read, batch, *tuple).0.clone(),
        });
        let (statement, reads) = (self.statement, reads.collect());
        let answers = self
            .transaction
            .read_with_policy(statement, read.for_write, reads, LockPolicy::IfFree)
            .await?;
        let mut has_changed = false;
        for (tuple, answer) in tuples.iter().zip(answers) {
            let (key, before) = candidate(read, batch, *tuple);
            let state = match answer {
                Fetched::Point(Some(row)) => {
                    has_changed |= row.as_bytes() != before.as_bytes();
                    Candidate::Own
                }
                _ => Candidate::Skipped,
            };
            self.hold_key(key)?;
            known.insert(key.clone(), state);
        }
        Ok(has_changed)
    }

    fn hold_key(&self, key: &Key) -> Result<(), Failure> {
        self.context.budget.spend(1);
        self.context
            .budget
            .hold(size_of::<(Key, Candidate)>() + key.len())
    }
}

/// The key and the row of a tuple's candidate.
fn candidate<'b>(read: &TableRead, batch: &'b Batch<'_>, tuple: usize) -> (&'b Key, &'b Row) {
    let Source::Rows { rows, keys, .. } = &batch.sources[read.source] else {
        unreachable!("the rows of a table are rows");
    };
    let row = batch.tuple(tuple)[read.source] as usize;
    (&keys[row], &rows[row])
}
