//! Where each table's rows live, and which parameter routes each type.
//!
//! Operation partitioning's Algorithm 1 looks for one parameter a transaction type such that
//! conflicting operations meet on one server. Here conflicts are the guards that confluence leaves;
//! so the first aim is that a type's guards fall on the partition that its routing parameter
//! chooses, the second that most of its accesses do (a statement that writes counts twice: its
//! partition takes part in the commit). A column places a table's rows; a parameter routes a type
//! to the partition of rows whose placing column it fixes.
//!
//! For a given choice of parameters each table's best column follows by itself. So the choices of
//! parameters are searched: all of them while there are at most [`CHOICES_MAX`], beyond that by
//! turns (the best parameters for the columns, the best columns for the parameters) from several
//! starts. One column and one parameter are used even where several would do.

use std::collections::BTreeMap;

use anabranch_sql::summary::{Role, Term};
use anabranch_types::{ColumnIndex, Placement, TableId};

use crate::footprint::{Action, Footprint};
use crate::guard::Held;

/// How many choices of parameters are tried one by one.
pub const CHOICES_MAX: usize = 20_000;

/// Where rows live and how types are routed.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// One entry a table.
    pub(crate) placements: Vec<Placement>,
    /// Why, one entry a table.
    pub(crate) reasons: Vec<String>,
    /// One entry a type: the parameter that routes it, and the table that it finds best.
    pub(crate) routing: Vec<Option<(usize, TableId)>>,
}

/// What falls on the right partition, guards before accesses.
type Score = (u32, u32);

/// The scores of one type, by parameter (the last entry: none): of each table and candidate column that
/// has one, in order. A type touches few of an application's tables.
struct Scores {
    by_parameter: Vec<Vec<(usize, usize, Score)>>,
}

/// Chooses placement and routing.
pub(crate) fn lay_out(footprint: &Footprint<'_>, held: &[Vec<Held>]) -> Layout {
    let candidates: Vec<Vec<ColumnIndex>> = footprint
        .catalog
        .schema
        .tables
        .iter()
        .map(|t| candidates(footprint, t.id))
        .collect();
    let parameters: Vec<Vec<usize>> = (0..footprint.types.len())
        .map(|t| parameters(footprint, &candidates, t, &held[t]))
        .collect();
    let scores: Vec<Scores> = (0..footprint.types.len())
        .map(|owner| {
            score(
                footprint,
                &candidates,
                &parameters[owner],
                owner,
                &held[owner],
            )
        })
        .collect();
    let choice = search(&scores, &candidates);
    let columns = columns_for(&scores, &candidates, &choice);
    // A parameter that finds nothing where the tables now live routes nothing.
    let found = |owner: usize, choice: usize| {
        let by_table = &scores[owner].by_parameter[choice];
        let mut best: Option<(Score, usize)> = None;
        for (table, place, score) in by_table {
            let lives_there = columns[*table].is_some_and(|(column, _)| column == *place);
            if lives_there && *score > best.map_or((0, 0), |(score, _)| score) {
                best = Some((*score, *table));
            }
        }
        best.map(|(_, table)| footprint.catalog.schema.tables[table].id)
    };
    let routing = (0..choice.len())
        .map(|t| {
            let parameter = *parameters[t].get(choice[t])?;
            Some((parameter, found(t, choice[t])?))
        })
        .collect();
    let mut layout = Layout {
        placements: Vec::new(),
        reasons: Vec::new(),
        routing,
    };
    for (table, column) in footprint.catalog.schema.tables.iter().zip(columns) {
        let (placement, reason) = place(footprint, table.id, &candidates[table.id.index()], column);
        layout.placements.push(placement);
        layout.reasons.push(reason);
    }
    layout
}

/// The columns that may place a table: of the primary key and of every unique index, so that their
/// owner sees all duplicates. Any column of a table without keys.
fn candidates(footprint: &Footprint<'_>, table: TableId) -> Vec<ColumnIndex> {
    let schema = footprint.table(table);
    if !footprint.facts(table).is_written() {
        return Vec::new();
    }
    let mut columns = schema.primary_key.clone();
    if columns.is_empty() {
        let settled = |c: &ColumnIndex| footprint.is_settled(table, *c);
        columns = (0..schema.columns.len())
            .map(|c| ColumnIndex(c as u16))
            .filter(settled)
            .collect();
    }
    columns.retain(|c| {
        schema
            .indexes
            .iter()
            .filter(|i| i.unique)
            .all(|i| i.columns.contains(c))
    });
    // A row whose placing column changes would have to move.
    columns.retain(|c| footprint.is_settled(table, *c));
    columns
}

/// The parameters of a type that fix a candidate column somewhere, in an access or in a guard.
fn parameters(
    footprint: &Footprint<'_>,
    candidates: &[Vec<ColumnIndex>],
    owner: usize,
    held: &[Held],
) -> Vec<usize> {
    let mut found = Vec::new();
    for guard in held {
        for (key, term) in guard.guard.key.iter().zip(&guard.terms) {
            if let Term::Parameter(p) = term
                && candidates[guard.guard.table.index()].contains(&key.column)
                && !found.contains(p)
            {
                found.push(*p);
            }
        }
    }
    for action in &footprint.types[owner].actions {
        for column in &candidates[action.access.table.index()] {
            if let Some(Term::Parameter(p)) = action.fixed(*column)
                && !found.contains(p)
            {
                found.push(*p);
            }
        }
    }
    found.sort_unstable();
    found
}

fn weight(action: &Action) -> u32 {
    if action.access.role == Role::Read {
        1
    } else {
        2
    }
}

fn score(
    footprint: &Footprint<'_>,
    candidates: &[Vec<ColumnIndex>],
    parameters: &[usize],
    owner: usize,
    held: &[Held],
) -> Scores {
    let mut by_parameter: Vec<BTreeMap<(usize, usize), Score>> =
        vec![BTreeMap::new(); parameters.len() + 1];
    for (choice, parameter) in parameters.iter().enumerate() {
        let wanted = Term::Parameter(*parameter);
        for action in &footprint.types[owner].actions {
            let table = action.access.table.index();
            for (place, column) in candidates[table].iter().enumerate() {
                if action.fixed(*column) == Some(&wanted) {
                    by_parameter[choice].entry((table, place)).or_default().1 += weight(action);
                }
            }
        }
        for guard in held {
            let table = guard.guard.table.index();
            for (place, column) in candidates[table].iter().enumerate() {
                let fixed = guard.guard.key.iter().position(|k| k.column == *column);
                if fixed.is_some_and(|i| guard.terms[i] == wanted) {
                    by_parameter[choice].entry((table, place)).or_default().0 += 1;
                }
            }
        }
    }
    let listed = |scores: BTreeMap<(usize, usize), Score>| {
        let scores = scores.into_iter();
        scores
            .map(|((table, place), score)| (table, place, score))
            .collect()
    };
    Scores {
        by_parameter: by_parameter.into_iter().map(listed).collect(),
    }
}

fn add(a: Score, b: Score) -> Score {
    (a.0 + b.0, a.1 + b.1)
}

/// The best candidate of each table (by place, the first among equals) for a choice of parameters.
fn columns_for(
    scores: &[Scores],
    candidates: &[Vec<ColumnIndex>],
    choice: &[usize],
) -> Vec<Option<(usize, Score)>> {
    let zero = |columns: &Vec<ColumnIndex>| vec![(0, 0); columns.len()];
    let mut totals: Vec<Vec<Score>> = candidates.iter().map(zero).collect();
    for (of_type, choice) in scores.iter().zip(choice) {
        for (table, place, score) in &of_type.by_parameter[*choice] {
            totals[*table][*place] = add(totals[*table][*place], *score);
        }
    }
    totals
        .into_iter()
        .map(|columns| {
            let mut best: Option<(usize, Score)> = None;
            for (place, total) in columns.into_iter().enumerate() {
                if best.is_none_or(|(_, b)| total > b) {
                    best = Some((place, total));
                }
            }
            best
        })
        .collect()
}

fn total(scores: &[Scores], candidates: &[Vec<ColumnIndex>], choice: &[usize]) -> Score {
    columns_for(scores, candidates, choice)
        .into_iter()
        .flatten()
        .map(|(_, score)| score)
        .fold((0, 0), add)
}

/// The best choice: for each type the place of its parameter among its parameters, or one beyond.
fn search(scores: &[Scores], candidates: &[Vec<ColumnIndex>]) -> Vec<usize> {
    let sizes: Vec<usize> = scores.iter().map(|s| s.by_parameter.len()).collect();
    let choices = sizes.iter().try_fold(1usize, |n, s| n.checked_mul(*s));
    match choices {
        Some(n) if n <= CHOICES_MAX => exhaustive(scores, candidates, &sizes),
        _ => climb(scores, candidates),
    }
}

fn exhaustive(scores: &[Scores], candidates: &[Vec<ColumnIndex>], sizes: &[usize]) -> Vec<usize> {
    let mut choice = vec![0; sizes.len()];
    let mut best = (total(scores, candidates, &choice), choice.clone());
    'next: loop {
        for place in (0..choice.len()).rev() {
            choice[place] += 1;
            if choice[place] < sizes[place] {
                let score = total(scores, candidates, &choice);
                if score > best.0 {
                    best = (score, choice.clone());
                }
                continue 'next;
            }
            choice[place] = 0;
        }
        return best.1;
    }
}

/// The best parameter of each type (the first among equals) where `columns` place the tables.
fn parameters_for(scores: &[Scores], columns: &[Option<usize>]) -> Vec<usize> {
    scores
        .iter()
        .map(|s| {
            let score = |c: &usize| {
                let scores = s.by_parameter[*c].iter();
                scores
                    .filter(|(table, place, _)| columns[*table] == Some(*place))
                    .map(|(_, _, score)| *score)
                    .fold((0, 0), add)
            };
            (0..s.by_parameter.len())
                .rev()
                .max_by_key(score)
                .unwrap_or_default()
        })
        .collect()
}

/// For given columns the best parameters follow, and for given parameters the best columns: taken
/// in turn until nothing improves, once from each way to place one table, the others being placed
/// as most parameters alone would have them.
fn climb(scores: &[Scores], candidates: &[Vec<ColumnIndex>]) -> Vec<usize> {
    // What each place would score if each type were routed for it alone.
    let zero = |columns: &Vec<ColumnIndex>| vec![(0, 0); columns.len()];
    let mut alone: Vec<Vec<Score>> = candidates.iter().map(zero).collect();
    for of_type in scores {
        let mut best: BTreeMap<(usize, usize), Score> = BTreeMap::new();
        for (table, place, score) in of_type.by_parameter.iter().flatten() {
            let known = best.entry((*table, *place)).or_default();
            *known = (*known).max(*score);
        }
        for ((table, place), score) in best {
            alone[table][place] = add(alone[table][place], score);
        }
    }
    let start: Vec<Option<usize>> = candidates
        .iter()
        .enumerate()
        .map(|(table, columns)| (0..columns.len()).rev().max_by_key(|p| alone[table][*p]))
        .collect();
    let mut best: Option<(Score, Vec<usize>)> = None;
    for (table, columns) in candidates.iter().enumerate() {
        for place in 0..columns.len() {
            let mut places = start.clone();
            places[table] = Some(place);
            let mut reached: Option<(Score, Vec<usize>)> = None;
            loop {
                let choice = parameters_for(scores, &places);
                let score = total(scores, candidates, &choice);
                if reached.as_ref().is_some_and(|(r, _)| score <= *r) {
                    break;
                }
                let columns = columns_for(scores, candidates, &choice);
                places = columns
                    .into_iter()
                    .map(|c| c.map(|(place, _)| place))
                    .collect();
                reached = Some((score, choice));
            }
            if let Some(reached) = reached
                && best.as_ref().is_none_or(|b| reached.0 > b.0)
            {
                best = Some(reached);
            }
        }
    }
    best.map_or_else(|| parameters_for(scores, &start), |(_, choice)| choice)
}

fn place(
    footprint: &Footprint<'_>,
    table: TableId,
    candidates: &[ColumnIndex],
    best: Option<(usize, Score)>,
) -> (Placement, String) {
    let schema = footprint.table(table);
    if !footprint.facts(table).is_written() {
        let reason =
            "no transaction type writes it: every partition has a copy, so let it be small";
        return (Placement::Replicated, reason.into());
    }
    match best {
        Some((place, score)) => {
            let column = candidates[place];
            let name = &schema.columns[column.index()].name;
            let reason = match score {
                (0, 0) => format!("no type is routed to its rows; {name} spreads them"),
                (0, _) => {
                    format!("most transactions find its rows by {name} where they are routed")
                }
                (_, _) => {
                    format!("guards on it fall, by {name}, where their transactions are routed")
                }
            };
            (Placement::Columns(vec![column]), reason)
        }
        None => {
            let apart = schema.indexes.iter().any(|i| i.unique);
            let reason = if apart {
                "no column is in its primary key and in all its unique indexes: only one partition \
                 for all rows sees every duplicate"
            } else if schema.primary_key.is_empty() {
                "it has no column that stays as it was inserted"
            } else {
                "its primary key is updated: rows would have to move"
            };
            (Placement::Whole, reason.into())
        }
    }
}
