//! Replaces tuples by their matches in a source: the product inside every join.
//!
//! A product may be far larger than what it is made from. It is made in pieces, with pauses. Where its tuples are only
//! filtered and grouped, each piece is grouped as soon as it is made, so that `SELECT count(*) FROM a, b` holds no more
//! than a piece of the product.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{PIECE_TUPLES, Run, aggregate::GroupStep};
use crate::{
    TransactionError,
    expression::{Batch, Failure, NONE, compare::Fingerprint, frame::Indices},
    plan::{Join, Step},
    transaction::Transaction,
};

/// A range of rows for each tuple.
pub(super) type Stretches = SmallVec<[(u32, u32); 2]>;

/// The rows of the new source that belong to each tuple.
pub(super) enum Matches {
    /// A range of rows for each tuple.
    Stretches(Stretches),
    /// All of so many rows, for each tuple.
    All(u32),
    /// Through a hash table: the rows of each tuple's fingerprint.
    Hashed(
        FxHashMap<Fingerprint, Vec<u32>>,
        /* the tuples' key */ Vec<Fingerprint>,
    ),
}

/// The rows that match one tuple.
enum Candidates<'m> {
    Range(u32, u32),
    List(&'m [u32]),
}

impl Candidates<'_> {
    fn get(&self, place: usize) -> Option<u32> {
        match self {
            Candidates::Range(begin, end) => {
                let row = begin + place as u32;
                (row < *end).then_some(row)
            }
            Candidates::List(rows) => rows.get(place).copied(),
        }
    }
}

/// A join whose matches are known, to be made.
pub(super) struct Expansion<'p> {
    source: usize,
    join: &'p Join,
    matches: Matches,
}

impl<'p> Expansion<'p> {
    pub(super) fn new(source: usize, join: &'p Join, matches: Matches) -> Expansion<'p> {
        Expansion {
            source,
            join,
            matches,
        }
    }
}

/// How far an expansion is.
struct Progress {
    /// The tuples that are replaced.
    old: Indices,
    tuple: usize,
    /// The place among the tuple's matches.
    place: usize,
    /// Whether the tuple has had a match.
    matched: bool,
    /// Whether each row of the source has had a match, for a FULL JOIN.
    rows_matched: Vec<bool>,
    /// The next of these rows, once all tuples are done.
    row: usize,
}

impl<T: Transaction> Run<'_, T> {
    /// Replaces each tuple by its matches. If the steps behind only filter and group the tuples, and there are many,
    /// takes them through these steps, too: returns the number of steps done.
    pub(super) async fn expand<'p>(
        &mut self,
        expansion: Expansion<'p>,
        steps: &'p [Step],
        owners: Option<&[u32]>,
        batch: &mut Batch<'p>,
    ) -> Result<usize, TransactionError> {
        if let (Matches::Stretches(stretches), true) =
            (&expansion.matches, expansion.join.is_plain())
            && let Some(count) = small(stretches)
        {
            self.context.budget.spend(count);
            let before = batch.indices.len();
            stretch(expansion.source, stretches, batch);
            hold_change(before, batch, self)?;
            return Ok(0);
        }
        let rows = match expansion.join.full {
            true => batch.sources[expansion.source].count(),
            false => 0,
        };
        self.context.budget.hold(rows)?;
        let mut progress = Progress {
            old: std::mem::take(&mut batch.indices),
            tuple: 0,
            place: 0,
            matched: false,
            rows_matched: vec![false; rows],
            row: 0,
        };
        batch.indices.reserve(progress.old.len());
        self.pause_if_due().await?;
        if self.advance(&expansion, &mut progress, batch)? {
            hold_change(progress.old.len(), batch, self)?;
            return Ok(0);
        }
        let filters = steps
            .iter()
            .take_while(|step| matches!(step, Step::Filter(_)))
            .count();
        let (filters, behind) = steps.split_at(filters);
        let Some(group) = behind.first().and_then(GroupStep::of) else {
            let mut held = 0;
            let mut done = false;
            while !done {
                let added = (batch.indices.len() - held) * size_of::<u32>();
                self.context.budget.hold(added)?;
                held = batch.indices.len();
                self.pause_if_due().await?;
                done = self.advance(&expansion, &mut progress, batch)?;
            }
            hold_change(held, batch, self)?;
            self.context
                .budget
                .release(progress.old.len() * size_of::<u32>());
            return Ok(0);
        };
        let before = self.context.budget.held();
        let mut groups = group.begin(owners, batch);
        let mut done = false;
        loop {
            for filter in filters {
                if let Step::Filter(filter) = filter {
                    self.filter(filter, batch).await?;
                }
            }
            self.add_piece(&group, &mut groups, false, batch).await?;
            if done {
                break;
            }
            // Grouping has paused, if a pause was due.
            batch.indices.clear();
            done = self.advance(&expansion, &mut progress, batch)?;
        }
        self.context.budget.release_to(before);
        self.context
            .budget
            .release(progress.old.len() * size_of::<u32>());
        self.end_groups(&group, groups, batch).await?;
        Ok(filters.len() + 1)
    }

    /// Makes further tuples, behind those in the batch, until a pause is due or a piece is made. Returns whether all
    /// are made.
    fn advance(
        &self,
        expansion: &Expansion<'_>,
        progress: &mut Progress,
        batch: &mut Batch<'_>,
    ) -> Result<bool, Failure> {
        let Expansion {
            source,
            join,
            matches,
        } = expansion;
        let budget = &self.context.budget;
        let stride = batch.stride;
        let full = batch.indices.len() + PIECE_TUPLES * stride;
        let Progress {
            old,
            tuple,
            place,
            matched,
            rows_matched,
            row: unmatched,
        } = progress;
        while let Some(indices) = old.get(*tuple * stride..(*tuple + 1) * stride) {
            if budget.is_due() {
                return Ok(false);
            }
            let candidates = match matches {
                Matches::Stretches(stretches) => {
                    let (begin, end) = stretches[*tuple];
                    Candidates::Range(begin, end)
                }
                Matches::All(count) => Candidates::Range(0, *count),
                Matches::Hashed(table, prints) => {
                    let rows = table.get(&prints[*tuple]);
                    Candidates::List(rows.map_or(&[], Vec::as_slice))
                }
            };
            while let Some(row) = candidates.get(*place) {
                if budget.is_due() || batch.indices.len() >= full {
                    return Ok(false);
                }
                budget.spend(1);
                *place += 1;
                let end = batch.indices.len();
                batch.indices.extend_from_slice(indices);
                batch.indices[end + source] = row;
                let made = end / stride;
                if !join.matches.is_empty() && !self.passes(&join.matches, batch, made)? {
                    batch.indices.truncate(end);
                    continue;
                }
                *matched = true;
                if let Some(matched) = rows_matched.get_mut(row as usize) {
                    *matched = true;
                }
                if !join.filters.is_empty() && !self.passes(&join.filters, batch, made)? {
                    batch.indices.truncate(end);
                }
            }
            if join.left && !*matched {
                let end = batch.indices.len();
                batch.indices.extend_from_slice(indices);
                batch.indices[end + source] = NONE;
                if !self.passes(&join.filters, batch, end / stride)? {
                    batch.indices.truncate(end);
                }
            }
            (*tuple, *place, *matched) = (*tuple + 1, 0, false);
            budget.spend(1);
        }
        while let Some(is_matched) = rows_matched.get(*unmatched) {
            if budget.is_due() || batch.indices.len() >= full {
                return Ok(false);
            }
            budget.spend(1);
            if !is_matched {
                let end = batch.indices.len();
                batch.indices.extend(std::iter::repeat_n(NONE, stride));
                batch.indices[end + source] = *unmatched as u32;
            }
            *unmatched += 1;
        }
        Ok(true)
    }
}

/// Holds the tuples of a batch, which had so many indices before.
fn hold_change<T>(before: usize, batch: &Batch<'_>, run: &Run<'_, T>) -> Result<(), Failure> {
    let budget = &run.context.budget;
    let now = batch.indices.len();
    if now > before {
        return budget.hold((now - before) * size_of::<u32>());
    }
    budget.release((before - now) * size_of::<u32>());
    Ok(())
}

/// The number of rows in some ranges, if they are not more than a piece.
fn small(stretches: &[(u32, u32)]) -> Option<usize> {
    let rows = stretches.iter().map(|(begin, end)| (end - begin) as usize);
    let count = rows.sum::<usize>();
    (count <= PIECE_TUPLES).then_some(count)
}

/// Replaces each tuple by one for each row of its range.
pub(super) fn stretch(source: usize, stretches: &[(u32, u32)], batch: &mut Batch<'_>) {
    let stride = batch.stride;
    if stretches.iter().all(|(begin, end)| end - begin <= 1) {
        // Each tuple goes on in its place, or not at all.
        let mut kept = 0;
        let indices = batch.indices.as_mut_slice();
        for (tuple, (begin, end)) in stretches.iter().enumerate() {
            if begin == end {
                continue;
            }
            if kept < tuple {
                indices.copy_within(tuple * stride..(tuple + 1) * stride, kept * stride);
            }
            indices[kept * stride + source] = *begin;
            kept += 1;
        }
        batch.indices.truncate(kept * stride);
        return;
    }
    if let ([(begin, end)], true) = (stretches, batch.indices.iter().all(|index| *index == NONE)) {
        // The first source of a query without a parent.
        let mut indices = Indices::from_elem(NONE, (end - begin) as usize * stride);
        for (row, place) in (*begin..*end).zip(indices.chunks_exact_mut(stride)) {
            place[source] = row;
        }
        batch.indices = indices;
        return;
    }
    let rows = stretches.iter().map(|(begin, end)| (end - begin) as usize);
    let mut indices = Indices::from_elem(NONE, rows.sum::<usize>() * stride);
    let mut places = indices.chunks_exact_mut(stride);
    for (tuple, (begin, end)) in batch.indices.chunks_exact(stride).zip(stretches) {
        for (row, place) in (*begin..*end).zip(&mut places) {
            place.copy_from_slice(tuple);
            place[source] = row;
        }
    }
    batch.indices = indices;
}
