//! Shows from a type's statements which equations it keeps when it runs alone.
//!
//! Merging keeps an equation if the amounts of each call cancel out (Table 2, row 10). Whether they do is another
//! question: a statement in a branch may not run, one may find no row or several, a copied key may be NULL. A type
//! whose amounts cancel out in every state need not evaluate the equation before it commits
//! ([`crate::plan::PlanEntry::checks`]); every other type does. Accepted are:
//!
//! * statements that run together: of one branch, in a procedure that cannot return before its end;
//! * inserts of exactly one row, and updates and deletions of a row by its whole key;
//! * amounts that are the same parameter, constant or value read, in groups that are surely the same;
//! * an update of a group's own total that finds it whenever it exists, by its key alone (no group without that row
//!   is compared); and an update of a summed row that surely exists, because the call inserts a row that refers to
//!   it, or whose absence leaves the total unchanged, because the total is found by what the update returns.
//!
//! Terms are taken as they stand in the statements, not followed through conditions: if a row was not found, a
//! variable read from it is NULL.
//!
//! An amount with more decimals than the `numeric` columns that store it is rounded in each of them, and possibly
//! differently. So for such columns only values of these columns, whole numbers and constants that fit are
//! accepted.

use anabranch_sql::summary::{
    Comparison, Role, StatementSummary, TableAccess, Term, TransactionSummary, WriteClass,
};
use anabranch_types::{ColumnIndex, DataType, TableId, Value};

use super::contribution::{Contribution, Kind};
use crate::assertion::{Aggregate, Clause, Filter, Part, Source, Test};
use crate::footprint::{Action, Footprint};
use crate::term::surely_equal;

/// What a statement surely adds to one part of an equation, if it finds its row.
struct SureEffect<'f> {
    statement: &'f StatementSummary,
    access: &'f TableAccess,
    part: usize,
    /// The key of the group: a term for each class of linked columns.
    group: Vec<Term>,
    factor: f64,
    term: Term,
}

/// Whether each call of the type leaves the sum of the parts of each group unchanged.
pub(crate) fn keeps_sum(
    footprint: &Footprint<'_>,
    clause: &Clause,
    parts: &[Part],
    owner: usize,
    mine: &[Contribution<'_>],
) -> bool {
    if !is_supported(footprint, clause, parts) {
        return false;
    }
    // All parts of a new group are zero.
    let opens = |c: &&Contribution<'_>| c.kind == Kind::Opens && !clause.constants;
    let effects: Option<Vec<SureEffect<'_>>> = mine
        .iter()
        .filter(|c| !opens(c))
        .map(|c| sure_effect(footprint, clause, parts, c))
        .collect();
    let Some(effects) = effects else {
        return false;
    };
    let ends_early = footprint.types[owner].summary.may_end_early;
    let mut together: Vec<Vec<&SureEffect<'_>>> = Vec::new();
    for effect in &effects {
        let with = |others: &&mut Vec<&SureEffect<'_>>| {
            let first = others[0];
            first.statement.id == effect.statement.id && first.access.span == effect.access.span
                || !ends_early
                    && first.statement.path == effect.statement.path
                    && same(&first.group, &effect.group)
        };
        match together.iter_mut().find(with) {
            Some(others) => others.push(effect),
            None => together.push(vec![effect]),
        }
    }
    together
        .iter()
        .all(|effects| cancel_out(effects) && all_found(footprint, parts, owner, effects))
}

/// Whether an equation is of the supported kind: aggregates over single tables, and groups with one row each of the
/// table whose columns stand beside them.
fn is_supported(footprint: &Footprint<'_>, clause: &Clause, parts: &[Part]) -> bool {
    let mut tables: Vec<TableId> = Vec::new();
    let mut scales = Vec::new();
    for part in parts {
        let (table, columns) = match &part.source {
            Source::Column((table, column)) => {
                let linked = clause.links.columns_of(*table);
                let key = &footprint.table(*table).primary_key;
                if key.is_empty() || !key.iter().all(|c| linked.contains(c)) {
                    return false;
                }
                (*table, vec![*column])
            }
            Source::Aggregate {
                function: Aggregate::Count | Aggregate::Sum,
                columns,
                plain: true,
                region,
            } => match region.tables.as_slice() {
                [table] if columns.iter().all(|c| c.0 == *table) => {
                    (*table, columns.iter().map(|c| c.1).collect())
                }
                _ => return false,
            },
            Source::Aggregate { .. } => return false,
        };
        tables.push(table);
        for column in columns {
            match &footprint.table(table).columns[column.index()].data_type {
                whole if whole.is_integer() => scales.push(None),
                DataType::Numeric(bounds) => scales.push(Some(bounds.map(|b| b.scale))),
                _ => return false,
            }
        }
    }
    let of_one_scale = scales.windows(2).all(|pair| pair[0] == pair[1]);
    let linked = clause.links.classes().iter().all(|class| {
        tables
            .iter()
            .all(|table| class.iter().filter(|c| c.0 == *table).count() == 1)
    });
    of_one_scale && linked
}

/// What a contribution surely adds; `None` if that depends on more than whether its row exists.
fn sure_effect<'f>(
    footprint: &'f Footprint<'_>,
    clause: &Clause,
    parts: &[Part],
    contribution: &Contribution<'_>,
) -> Option<SureEffect<'f>> {
    let action = contribution.action;
    let statement = footprint.statement(action.owner, action.statement)?;
    let [access] = statement.accesses.as_slice() else {
        return None;
    };
    if statement.in_loop || action.cascaded {
        return None;
    }
    let part = &parts[contribution.part];
    let column = summed_column(part);
    let table = footprint.table(access.table);
    let (factor, term) = sure_amount(
        footprint,
        clause,
        part,
        statement,
        access,
        &contribution.kind,
    )?;
    let (factor, term) = match term {
        Term::Negated(parameter) => (-factor, Term::Parameter(parameter)),
        other => (factor, other),
    };
    let summary = footprint.types[action.owner].summary;
    if let Some(column) = column
        && !fits(
            footprint,
            summary,
            &table.columns[column.index()].data_type,
            &term,
        )
    {
        return None;
    }
    let (factor, term) = match term {
        Term::Constant(Value::Int(n)) => (factor * n as f64, Term::Constant(Value::Int(1))),
        Term::Constant(Value::Numeric(n)) => (factor * n.to_f64(), Term::Constant(Value::Int(1))),
        other => (factor, other),
    };
    Some(SureEffect {
        statement,
        access,
        part: contribution.part,
        group: group(clause, statement, access)?,
        factor,
        term,
    })
}

/// The column that a part adds up; `None` for a count of rows.
fn summed_column(part: &Part) -> Option<ColumnIndex> {
    match &part.source {
        Source::Column((_, column)) => Some(*column),
        Source::Aggregate { columns, .. } => columns.first().map(|c| c.1),
    }
}

/// The amount that an access surely adds to a part, as a factor and a term.
fn sure_amount(
    footprint: &Footprint<'_>,
    clause: &Clause,
    part: &Part,
    statement: &StatementSummary,
    access: &TableAccess,
    kind: &Kind,
) -> Option<(f64, Term)> {
    let column = summed_column(part);
    let filters: &[Filter] = match &part.source {
        Source::Column(_) => &[],
        Source::Aggregate { region, .. } => &region.filters,
    };
    let is_total = matches!(part.source, Source::Column(_));
    let table = footprint.table(access.table);
    let nullable = |c: ColumnIndex| table.columns[c.index()].nullable;
    let one = Term::Constant(Value::Int(1));
    let written = column.and_then(|c| access.writes.iter().find(|w| w.column == c));
    Some(match (access.role, kind) {
        (Role::Insert, Kind::Adds { .. }) => {
            let passes = |f: &Filter| surely_passes(access, f, nullable(f.column.1));
            if !statement.inserts_one || !filters.iter().all(passes) {
                return None;
            }
            // A new total is compared with existing rows, not with an earlier total: nothing, and zero.
            if is_total && clause.constants {
                return None;
            }
            match (column, written.map(|w| &w.class)) {
                (None, _) => (part.factor, one),
                (Some(_), Some(WriteClass::Assign(term))) => (part.factor, term.clone()),
                _ => return None,
            }
        }
        (Role::Update, Kind::Adds { .. }) => {
            let Some(WriteClass::Add { term, negated }) = written.map(|w| &w.class) else {
                return None;
            };
            let by_key_alone = !access.has_other_conditions
                && access
                    .conditions
                    .iter()
                    .all(|c| table.primary_key.contains(&c.column));
            // Adding to NULL changes nothing that is summed; a total of NULL is not compared.
            let fits = match is_total {
                true => by_key_alone,
                false => filters.is_empty() && !column.is_some_and(nullable),
            };
            if !fits || !is_keyed(footprint, access) {
                return None;
            }
            let factor = if *negated { -part.factor } else { part.factor };
            (factor, term.clone())
        }
        (Role::Delete, Kind::Moves) if !is_total => {
            if !filters.is_empty() || !is_keyed(footprint, access) || column.is_some_and(nullable) {
                return None;
            }
            let term = match column {
                None => one,
                Some(column) => Term::Column {
                    statement: statement.id,
                    access: 0,
                    column,
                },
            };
            (-part.factor, term)
        }
        _ => return None,
    })
}

/// Whether a column of this type surely stores an amount without rounding.
fn fits(
    footprint: &Footprint<'_>,
    summary: &TransactionSummary,
    data_type: &DataType,
    term: &Term,
) -> bool {
    let DataType::Numeric(Some(bounds)) = data_type else {
        return true;
    };
    let holds = |of: &DataType| match of {
        DataType::Numeric(Some(other)) => other.scale <= bounds.scale,
        other => other.is_integer(),
    };
    match term {
        Term::Constant(Value::Numeric(n)) => n.scale() <= bounds.scale,
        Term::Constant(Value::Int(_) | Value::Null) => true,
        Term::Parameter(p) => summary.parameters.get(*p).is_some_and(|(_, of)| holds(of)),
        Term::Column {
            statement,
            access,
            column,
        } => {
            let mut statements = summary.statements.iter();
            let read = statements.find(|s| s.id == *statement);
            let table = read.and_then(|s| s.accesses.get(*access)).map(|a| a.table);
            table.is_some_and(|table| {
                holds(&footprint.table(table).columns[column.index()].data_type)
            })
        }
        _ => false,
    }
}

/// Whether a WHERE clause fixes the whole primary key, to one value each.
fn is_keyed(footprint: &Footprint<'_>, access: &TableAccess) -> bool {
    let key = &footprint.table(access.table).primary_key;
    let fixes = |column: &ColumnIndex| {
        let mut terms = equals(access, *column);
        terms.next().is_some() && !equals(access, *column).any(|t| matches!(t, Term::Element(_)))
    };
    !key.is_empty() && key.iter().all(fixes)
}

fn equals(access: &TableAccess, column: ColumnIndex) -> impl Iterator<Item = &Term> {
    let conditions = access.conditions.iter();
    conditions
        .filter(move |c| c.column == column && c.comparison == Comparison::Equal)
        .map(|c| &c.term)
}

/// The key of the group that a row belongs to.
fn group(clause: &Clause, statement: &StatementSummary, access: &TableAccess) -> Option<Vec<Term>> {
    let of_class = |class: &Vec<(TableId, ColumnIndex)>| {
        let (_, column) = class.iter().find(|c| c.0 == access.table)?;
        if access.role == Role::Insert {
            let write = access.writes.iter().find(|w| w.column == *column)?;
            return match &write.class {
                WriteClass::Assign(term) => Some(term.clone()),
                _ => None,
            };
        }
        if access.writes.iter().any(|w| w.column == *column) {
            return None;
        }
        Some(
            equals(access, *column)
                .next()
                .cloned()
                .unwrap_or(Term::Column {
                    statement: statement.id,
                    access: 0,
                    column: *column,
                }),
        )
    };
    clause.links.classes().iter().map(of_class).collect()
}

fn same(a: &[Term], b: &[Term]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| surely_equal(a, b))
}

/// Whether an inserted row surely passes a filter.
fn surely_passes(access: &TableAccess, filter: &Filter, nullable: bool) -> bool {
    if access.table != filter.column.0 {
        return false;
    }
    let constant = access.writes.iter().find_map(|w| match &w.class {
        WriteClass::Assign(Term::Constant(value)) if w.column == filter.column.1 => Some(value),
        _ => None,
    });
    match (&filter.test, constant) {
        (Test::NotNull, _) if !nullable => true,
        (Test::NotNull, Some(value)) => *value != Value::Null,
        (Test::Null, Some(value)) => *value == Value::Null,
        (Test::Equals(wanted), Some(value)) => wanted == value,
        _ => false,
    }
}

fn cancel_out(effects: &[&SureEffect<'_>]) -> bool {
    effects.iter().all(|effect| {
        let alike = effects
            .iter()
            .filter(|d| surely_equal(&d.term, &effect.term));
        effect.factor == 0.0
            || surely_equal(&effect.term, &effect.term)
                && alike.map(|d| d.factor).sum::<f64>() == 0.0
    })
}

/// Whether all rows that must be found together are found.
fn all_found(
    footprint: &Footprint<'_>,
    parts: &[Part],
    owner: usize,
    effects: &[&SureEffect<'_>],
) -> bool {
    let is_total = |d: &SureEffect<'_>| matches!(parts[d.part].source, Source::Column(_));
    let finds = |d: &SureEffect<'_>| d.access.role != Role::Insert && !is_total(d);
    let Some(anchor) = effects.iter().find(|d| finds(d)) else {
        return true;
    };
    let alone = effects
        .iter()
        .all(|d| d.statement.id == anchor.statement.id);
    if alone {
        return true;
    }
    let one = effects
        .iter()
        .all(|d| !finds(d) || d.statement.id == anchor.statement.id);
    // If the row is not found, RETURNING gives NULL, and no total is found by NULL.
    let followed = one
        && effects.iter().all(|d| {
            d.statement.id == anchor.statement.id
                || is_total(d) && d.access.role == Role::Update
        })
        && anchor.group.iter().any(|term| {
            matches!(term, Term::Column { statement, .. } if *statement == anchor.statement.id)
        });
    followed
        || effects
            .iter()
            .filter(|d| finds(d))
            .all(|d| surely_exists(footprint, owner, d))
}

/// Whether a call surely finds the row that it updates: it inserts a row that must refer to it.
fn surely_exists(footprint: &Footprint<'_>, owner: usize, effect: &SureEffect<'_>) -> bool {
    let (table, summary) = (
        footprint.table(effect.access.table),
        footprint.types[owner].summary,
    );
    let by_key_alone = !effect.access.has_other_conditions
        && effect
            .access
            .conditions
            .iter()
            .all(|c| table.primary_key.contains(&c.column));
    let stays = footprint.on(owner, table.id).all(|a: &Action| {
        a.access.role != Role::Delete
            && table
                .primary_key
                .iter()
                .all(|c| a.write(*c).is_none() || a.access.role == Role::Insert)
    });
    if effect.access.role != Role::Update || !by_key_alone || !stays || summary.may_end_early {
        return false;
    }
    summary.statements.iter().any(|insert| {
        let [access] = insert.accesses.as_slice() else {
            return false;
        };
        let runs = insert.inserts_one
            && !insert.in_loop
            && effect.statement.path.starts_with(&insert.path);
        let keys = &footprint.catalog.tables[access.table.index()].foreign_keys;
        let columns = &footprint.table(access.table).columns;
        runs && keys.iter().any(|key| {
            let refers = |(column, of_parent): (&ColumnIndex, &ColumnIndex)| {
                let write = access.writes.iter().find(|w| w.column == *column);
                let known = equals(effect.access, *of_parent).next();
                !columns[column.index()].nullable
                    && matches!(
                        (write.map(|w| &w.class), known),
                        (Some(WriteClass::Assign(a)), Some(b)) if surely_equal(a, b)
                    )
            };
            key.parent == table.id
                && table
                    .primary_key
                    .iter()
                    .all(|c| key.parent_columns.contains(c))
                && key.columns.iter().zip(&key.parent_columns).all(refers)
        })
    })
}
