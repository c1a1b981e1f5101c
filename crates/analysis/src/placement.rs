//! Chooses where each table's rows live, and which parameter routes each type.
//!
//! Operation partitioning's Algorithm 1 ([`crate::partition`]) chooses the parameters: first, conflicting
//! operations should run on one server. The conflicts are the guards that confluence leaves, or all conflicts where
//! everything is ordered. Among equally good parameters, those win by which most guards, and then most accesses,
//! fall on the partition that the routing parameter chooses. A statement that writes counts twice, since its
//! partition takes part in the commit; types count by their weights. A column places a table's rows; a parameter
//! routes a type to the partition of rows whose placing column it fixes.
//!
//! For given parameters, each table's best column follows by itself. This module uses one column and one parameter
//! even where several would do; [`crate::partition`] adds parameters.
//!
//! Where each row's key is drawn from a sequence, no partition has to see all keys, and a column outside the key may place
//! the table ([`drawn_key_columns`]). It does where fewer types are then global.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_sql::summary::{Deferral, ResultUse, Role, Term};
use anabranch_types::{ColumnIndex, DataType, Placement, Schema, TableId, TableSchema};

use crate::footprint::{Action, Footprint, TypeFootprint};
use crate::guard::KeyedGuard;
use crate::partition::search::{Problem, Score, Scored};
use crate::partition::{Conflict, Key};
use crate::plan::CoordinationClass;
use crate::routing::{self, PlacingKind};

/// Where rows live and how types are routed.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// One entry a table.
    pub(crate) placements: Vec<Placement>,
    /// One entry a table: how the value of its placing column determines the partition.
    pub(crate) kinds: Vec<PlacingKind>,
    /// Why, one entry a table.
    pub(crate) reasons: Vec<String>,
    /// One entry a type: the parameter that routes it, and the table with most of its accesses by that parameter.
    pub(crate) routing: Vec<Option<(usize, TableId)>>,
    /// One entry a type: if no parameter routes it, the array whose elements do, and the table with most of its
    /// accesses by them.
    pub(crate) arrays: Vec<Option<(usize, TableId)>>,
    /// One entry a type: the parameter chosen for its conflicts, whether or not it finds rows where they live.
    pub(crate) parameters: Vec<Option<usize>>,
    /// The cost of the conflicts that remain.
    pub(crate) cost: u64,
    /// Whether the search has excluded every better choice.
    pub(crate) is_exhaustive: bool,
}

impl Layout {
    /// Whether the primary keys of a table's rows do not tell where they live.
    pub(crate) fn is_apart(&self, schema: &TableSchema) -> bool {
        let key = &schema.primary_key;
        let outside = |columns: &[ColumnIndex]| columns.iter().any(|c| !key.contains(c));
        match &self.placements[schema.id.index()] {
            Placement::Columns(columns) => !key.is_empty() && outside(columns),
            Placement::Whole | Placement::Replicated => false,
        }
    }

    /// How far a type with these guards must coordinate.
    pub(crate) fn class(&self, owner: usize, guards: &[KeyedGuard]) -> CoordinationClass {
        let parameter = self.routing[owner].map(|(parameter, _)| parameter);
        routing::class(&self.placements, &self.kinds, guards, parameter)
    }
}

/// Where rows live if any statement may write any table: by the columns of the primary key that every unique index
/// has, so that the owner sees all duplicates; else together.
pub fn open_placements(schema: &Schema) -> Vec<Placement> {
    let place = |table: &Arc<TableSchema>| {
        let mut columns = table.primary_key.clone();
        let unique = table.indexes.iter().filter(|index| index.unique);
        columns.retain(|column| unique.clone().all(|index| index.columns.contains(column)));
        match columns.is_empty() {
            true => Placement::Whole,
            false => Placement::Columns(columns),
        }
    };
    schema.tables.iter().map(place).collect()
}

/// Limits and given parts of a layout.
pub(crate) struct LayoutOptions<'o> {
    /// The most choices of parameters that are compared one by one.
    pub(crate) choices_max: usize,
    /// The placement of each table, if the rows live somewhere already.
    pub(crate) given: Option<&'o [Placement]>,
    /// Whether tables with keys that are drawn may be placed by other columns: where numbers never come again.
    pub(crate) by_other_columns: bool,
    /// How far a type with these guards must coordinate under a layout, with all that it does besides.
    pub(crate) class: &'o dyn Fn(&Layout, usize, &[KeyedGuard]) -> CoordinationClass,
}

/// The most tables for which columns outside the key are tried.
const TABLES_TRIED_MAX: usize = 16;

/// How many calls that look for a row by its key at every partition cost as much as one that is global. A look-up is one more
/// round of reads that wait for nothing. A global call commits at several partitions, and aborts where another one is in
/// its way. This number is a choice, not a measurement.
const LOOKUPS_PER_GLOBAL: u64 = 4;

/// Chooses placement and routing.
pub(crate) fn lay_out(
    footprint: &Footprint<'_>,
    held: &[Vec<KeyedGuard>],
    conflicts: &[Conflict],
    weights: &[u64],
    options: &LayoutOptions<'_>,
) -> Layout {
    let tables = footprint.catalog.schema.tables.iter();
    let mut candidates: Vec<Vec<ColumnIndex>> = tables
        .map(|t| {
            let mut candidates = candidates(footprint, t.id);
            match options.given.map(|given| &given[t.id.index()]) {
                Some(Placement::Columns(columns)) => {
                    if options.by_other_columns {
                        candidates.extend(drawn_key_columns(footprint, t.id));
                    }
                    candidates.retain(|c| columns[..] == [*c]);
                }
                Some(Placement::Whole | Placement::Replicated) => candidates.clear(),
                None => {}
            }
            candidates
        })
        .collect();
    let choose = |candidates: &[Vec<ColumnIndex>]| {
        choose(
            footprint,
            held,
            conflicts,
            weights,
            candidates,
            options.choices_max,
        )
    };
    let mut layout = choose(&candidates);
    if !options.by_other_columns || options.given.is_some() {
        return layout;
    }
    let mut global = global_weight(&layout, held, weights, options.class);
    let tables = footprint.catalog.schema.tables.iter().map(|table| table.id);
    let tried = tables.filter_map(|table| {
        let mut columns = drawn_key_columns(footprint, table);
        columns.retain(|column| names(held, table, *column));
        (!columns.is_empty()).then_some((table, columns))
    });
    for (table, columns) in tried.take(TABLES_TRIED_MAX) {
        if global == 0 {
            break;
        }
        let mut more = candidates.clone();
        more[table.index()].extend(&columns);
        let other = choose(&more);
        let Placement::Columns(chosen) = &other.placements[table.index()] else {
            continue;
        };
        let then = global_weight(&other, held, weights, options.class);
        let saved = global.saturating_sub(then);
        let looking = looking(footprint, table, chosen).into_iter();
        let looking = looking.fold(0u64, |sum, owner| sum.saturating_add(weights[owner]));
        if saved > 0 && looking <= saved.saturating_mul(LOOKUPS_PER_GLOBAL) {
            candidates[table.index()].clone_from(chosen);
            (layout, global) = (other, then);
        }
    }
    layout
}

/// The weight of the types that are global.
fn global_weight(
    layout: &Layout,
    held: &[Vec<KeyedGuard>],
    weights: &[u64],
    class: &dyn Fn(&Layout, usize, &[KeyedGuard]) -> CoordinationClass,
) -> u64 {
    let types = held.iter().zip(weights).enumerate();
    let global = types
        .filter(|(owner, (guards, _))| class(layout, *owner, guards) == CoordinationClass::Global);
    global.fold(0, |sum, (_, (_, weight))| sum.saturating_add(*weight))
}

/// The types that look for rows of a table at every partition if these columns place it, and at one if its key does: they
/// name them by the key, or insert rows that refer to them.
fn looking(footprint: &Footprint<'_>, table: TableId, columns: &[ColumnIndex]) -> Vec<usize> {
    let key = &footprint.table(table).primary_key;
    let children = footprint
        .catalog
        .tables
        .iter()
        .zip(0..)
        .filter(|(child, _)| {
            let mut keys = child.foreign_keys.iter();
            keys.any(|of| of.parent == table && of.parent_columns == *key)
        });
    let children: Vec<TableId> = children.map(|(_, id)| TableId(id)).collect();
    let looks = |owner: &usize| {
        let by_key = footprint.on(*owner, table).any(|action| {
            let is_fixed = |column: &ColumnIndex| action.fixed(*column).is_some();
            action.access.role != Role::Insert
                && key.iter().all(is_fixed)
                && !columns.iter().all(is_fixed)
        });
        let refers = |child: &TableId| {
            let mut actions = footprint.on(*owner, *child);
            actions.any(|action| action.access.role == Role::Insert)
        };
        by_key || children.iter().any(refers)
    };
    (0..footprint.types.len()).filter(looks).collect()
}

/// Whether some guard on the table is named by a parameter that is the value of this column.
fn names(held: &[Vec<KeyedGuard>], table: TableId, column: ColumnIndex) -> bool {
    let mut guards = held.iter().flatten();
    guards.any(|guard| {
        let mut key = guard.guard.key.iter().zip(&guard.terms);
        guard.guard.table == table
            && key.any(|(key, term)| key.column == column && matches!(term, Term::Parameter(_)))
    })
}

/// The columns outside the primary key that may place a table whose keys are drawn from the sequence of the key column.
/// No partition has to see all keys then, since numbers do not come again. None where a client may choose a key, where
/// keys change, or where the owner of a row, found by its key alone, gives out numbers at commit.
fn drawn_key_columns(footprint: &Footprint<'_>, table: TableId) -> Vec<ColumnIndex> {
    let schema = footprint.table(table);
    let [key] = schema.primary_key[..] else {
        return Vec::new();
    };
    let may_be_given =
        |action: &Action| action.access.role == Role::Insert && !action.access.draws_key;
    let gives_numbers = |action: &Action| {
        action.access.role == Role::Update
            && footprint.is_deferred(action.deferral, &action.access)
            && (action.result != ResultUse::Unused && action.deferral != Deferral::AfterReading)
    };
    let anything = |of: &TypeFootprint<'_>| of.summary.may_change_any_table;
    if footprint.catalog.sequence_of_column(table, key).is_none()
        || footprint.facts(table).inserters.is_empty()
        || !footprint.is_settled(table, key)
        || footprint.types.iter().any(anything)
        || (footprint.on_table(table)).any(|action| may_be_given(action) || gives_numbers(action))
    {
        return Vec::new();
    }
    let columns = (0..schema.columns.len()).map(|column| ColumnIndex(column as u16));
    let fits = |column: &ColumnIndex| {
        let mut unique = schema.indexes.iter().filter(|index| index.unique);
        let data_type = &schema.columns[column.index()].data_type;
        *column != key
            && !matches!(data_type, DataType::Real | DataType::Double)
            && !data_type.is_json()
            && unique.all(|index| index.columns.contains(column))
            && footprint.is_settled(table, *column)
    };
    columns.filter(fits).collect()
}

/// Chooses placement and routing, with these columns to choose from for each table.
fn choose(
    footprint: &Footprint<'_>,
    held: &[Vec<KeyedGuard>],
    conflicts: &[Conflict],
    weights: &[u64],
    candidates: &[Vec<ColumnIndex>],
    choices_max: usize,
) -> Layout {
    let mut parameters: Vec<Vec<usize>> = (0..footprint.types.len())
        .map(|t| parameters(footprint, candidates, t, &held[t]))
        .collect();
    add_keys(conflicts, &mut parameters);
    let scores: Vec<Vec<Scored>> = (0..footprint.types.len())
        .map(|owner| {
            score(
                footprint,
                candidates,
                &parameters[owner],
                owner,
                &held[owner],
                weights[owner],
            )
        })
        .collect();
    let columns = candidates.iter().map(Vec::len).collect();
    let problem = Problem::new(&parameters, weights, conflicts, scores, columns);
    let starts = starts(&problem);
    let found = problem.search(starts, choices_max);
    let choice = found.choice;
    let columns = problem.columns_for(&choice);
    // A parameter that finds no rows where tables are placed now routes nothing.
    let found_by = |owner: usize, choice: usize| {
        let by_table = &problem.scores[owner][choice];
        let mut best: Option<(Score, usize)> = None;
        for (table, place, score) in by_table {
            let lives_there = columns[*table].is_some_and(|(column, _)| column == *place);
            if lives_there && *score > best.map_or((0, 0), |(score, _)| score) {
                best = Some((*score, *table));
            }
        }
        best.map(|(_, table)| footprint.catalog.schema.tables[table].id)
    };
    let routing: Vec<Option<(usize, TableId)>> = (0..choice.len())
        .map(|t| {
            let parameter = *parameters[t].get(choice[t])?;
            Some((parameter, found_by(t, choice[t])?))
        })
        .collect();
    let placing = |table: TableId| {
        let (place, _) = columns[table.index()]?;
        Some(candidates[table.index()][place])
    };
    let arrays = routing.iter().enumerate().map(|(t, routed)| match routed {
        Some(_) => None,
        None => array(footprint, t, &placing),
    });
    let arrays = arrays.collect();
    let chosen = (0..choice.len()).map(|t| parameters[t].get(choice[t]).copied());
    let mut layout = Layout {
        placements: Vec::new(),
        kinds: Vec::new(),
        reasons: Vec::new(),
        routing,
        arrays,
        parameters: chosen.collect(),
        cost: found.worth.0,
        is_exhaustive: found.is_exhaustive,
    };
    for (table, column) in footprint.catalog.schema.tables.iter().zip(columns) {
        let (placement, reason) = place(footprint, table.id, &candidates[table.id.index()], column);
        layout.kinds.push(PlacingKind::of(table, &placement));
        layout.placements.push(placement);
        layout.reasons.push(reason);
    }
    layout
}

/// Adds the parameters that some conflict requires to equal a key.
fn add_keys(conflicts: &[Conflict], parameters: &mut [Vec<usize>]) {
    for conflict in conflicts {
        let (a, b) = conflict.types;
        for (one, other) in conflict.clauses.iter().flat_map(|c| &c.equal) {
            for (owner, key) in [(a, one), (b, other)] {
                if let Key::Parameter(parameter) = key
                    && !parameters[owner].contains(parameter)
                {
                    parameters[owner].push(*parameter);
                }
            }
        }
    }
    parameters.iter_mut().for_each(|p| p.sort_unstable());
}

/// The columns that may place a table: those in the primary key and in every unique index, so that the owner sees
/// all duplicates. Any column of a table without keys.
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
    held: &[KeyedGuard],
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

/// The array parameter of a type whose elements find most rows where they are placed, and the table with most of
/// those.
fn array(
    footprint: &Footprint<'_>,
    owner: usize,
    placing: &impl Fn(TableId) -> Option<ColumnIndex>,
) -> Option<(usize, TableId)> {
    let mut found: BTreeMap<usize, BTreeMap<TableId, u64>> = BTreeMap::new();
    for action in &footprint.types[owner].actions {
        let table = action.access.table;
        if let Some(column) = placing(table)
            && let Some(parameter) = element(action, column)
        {
            let tables = found.entry(parameter).or_default();
            *tables.entry(table).or_default() += weight(action);
        }
    }
    // The first among equals.
    let found = found.into_iter().rev();
    let (parameter, tables) = found.max_by_key(|(_, tables)| tables.values().sum::<u64>())?;
    let tables = tables.into_iter().rev();
    let (table, _) = tables.max_by_key(|(_, weight)| *weight)?;
    Some((parameter, table))
}

/// The array parameter whose elements are the values of `column` in the rows that an action finds or inserts.
fn element(action: &Action, column: ColumnIndex) -> Option<usize> {
    match action.fixed(column) {
        Some(Term::Element(parameter)) => Some(*parameter),
        Some(_) => None,
        None => {
            let mut listed = action.access.listed.iter();
            let (_, parameter) = listed.find(|(of, _)| *of == column)?;
            Some(*parameter)
        }
    }
}

fn weight(action: &Action) -> u64 {
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
    held: &[KeyedGuard],
    weight_of_type: u64,
) -> Vec<Scored> {
    let mut by_parameter: Vec<BTreeMap<(usize, usize), Score>> =
        vec![BTreeMap::new(); parameters.len() + 1];
    for (choice, parameter) in parameters.iter().enumerate() {
        let wanted = Term::Parameter(*parameter);
        for action in &footprint.types[owner].actions {
            let table = action.access.table.index();
            for (place, column) in candidates[table].iter().enumerate() {
                if action.fixed(*column) == Some(&wanted) {
                    by_parameter[choice].entry((table, place)).or_default().1 +=
                        weight(action) * weight_of_type;
                }
            }
        }
        for guard in held {
            let table = guard.guard.table.index();
            for (place, column) in candidates[table].iter().enumerate() {
                let fixed = guard.guard.key.iter().position(|k| k.column == *column);
                if fixed.is_some_and(|i| guard.terms[i] == wanted) {
                    by_parameter[choice].entry((table, place)).or_default().0 += weight_of_type;
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
    by_parameter.into_iter().map(listed).collect()
}

/// Choices from which hill climbing starts: the tables placed as most parameters alone would have them, and each
/// table in turn placed otherwise; then for each type the parameter that finds most.
fn starts(problem: &Problem) -> impl Iterator<Item = Vec<usize>> {
    // The score of each column if each type were routed for it alone.
    let mut alone: Vec<Vec<Score>> = problem.columns.iter().map(|n| vec![(0, 0); *n]).collect();
    for of_type in &problem.scores {
        let mut best: BTreeMap<(usize, usize), Score> = BTreeMap::new();
        for (table, place, score) in of_type.iter().flatten() {
            let known = best.entry((*table, *place)).or_default();
            *known = (*known).max(*score);
        }
        for ((table, place), score) in best {
            let sum = &mut alone[table][place];
            *sum = (sum.0 + score.0, sum.1 + score.1);
        }
    }
    let first: Vec<Option<usize>> = alone
        .iter()
        .map(|columns| (0..columns.len()).rev().max_by_key(|p| columns[*p]))
        .collect();
    let others = problem.columns.clone().into_iter().enumerate();
    let others = others.flat_map(|(table, columns)| (0..columns).map(move |place| (table, place)));
    let taken = first.clone();
    let others = others.filter(move |(table, place)| taken[*table] != Some(*place));
    let placed = [None].into_iter().chain(others.map(Some));
    placed.map(move |other| {
        let mut places = first.clone();
        if let Some((table, place)) = other {
            places[table] = Some(place);
        }
        parameters_for(problem, &places)
    })
}

/// The best parameter of each type (the first among equals) where `columns` place the tables.
fn parameters_for(problem: &Problem, columns: &[Option<usize>]) -> Vec<usize> {
    let best = |of_type: &Vec<Scored>| {
        let score = |choice: &usize| {
            let scores = of_type[*choice].iter();
            scores
                .filter(|(table, place, _)| columns[*table] == Some(*place))
                .fold((0, 0), |sum: Score, (_, _, score)| {
                    (sum.0 + score.0, sum.1 + score.1)
                })
        };
        let choices = (0..of_type.len()).rev();
        choices.max_by_key(score).unwrap_or_default()
    };
    problem.scores.iter().map(best).collect()
}

fn place(
    footprint: &Footprint<'_>,
    table: TableId,
    candidates: &[ColumnIndex],
    best: Option<(usize, Score)>,
) -> (Placement, String) {
    let schema = footprint.table(table);
    if !footprint.facts(table).is_written() {
        let reason = "no transaction type writes it: every partition has a copy, so keep it small";
        return (Placement::Replicated, reason.into());
    }
    match best {
        Some((place, score)) => {
            let column = candidates[place];
            let name = &schema.columns[column.index()].name;
            let reason = match score {
                (0, 0) => {
                    format!("no transaction type is routed to its rows; {name} spreads them")
                }
                (0, _) => {
                    format!("most transactions find its rows by {name} where they are routed")
                }
                (_, _) => {
                    "guards on it are then on the partition where their transactions are routed"
                        .to_owned()
                }
            };
            let reason = match schema.primary_key[..] {
                [key] if key != column => {
                    let key = &schema.columns[key.index()].name;
                    let price = match looking(footprint, table, &[column]).len() {
                        0 => String::new(),
                        1 => ": 1 type looks at all of them".to_owned(),
                        types => format!(": {types} types look at all of them"),
                    };
                    format!(
                        "{reason}; rows that are looked for by {key} alone are on any partition{price}"
                    )
                }
                _ => reason,
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

#[cfg(test)]
mod tests {
    use anabranch_sql::source::SourceFile;

    use super::*;

    #[test]
    fn the_owner_sees_every_duplicate_in_an_open_database() {
        let sql = "
            CREATE TABLE plain (a integer, b integer, PRIMARY KEY (a, b));
            CREATE TABLE people (id integer PRIMARY KEY, email text UNIQUE);
            CREATE TABLE seats (hall integer, id integer, seat integer,
                PRIMARY KEY (hall, id), UNIQUE (seat, hall));
            CREATE TABLE notes (body text);";
        let files = vec![SourceFile::new("open.sql", sql)];
        let catalog = anabranch_sql::load(files).expect("it loads");
        let by = |columns: &[u16]| {
            Placement::Columns(columns.iter().copied().map(ColumnIndex).collect())
        };
        let expected = [by(&[0, 1]), Placement::Whole, by(&[0]), Placement::Whole];
        assert_eq!(open_placements(&catalog.schema), expected);
    }
}
