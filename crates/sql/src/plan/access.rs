//! Access paths: the key by which a table's rows are found.

use anabranch_types::{ColumnIndex, DataType, IndexId, TableSchema};

use super::{KeyPart, Order, Path, RangePath, TableRead};
use crate::{
    bind::from::{bit, mask},
    expression::{Expression, Relation, frame::column_index},
};

/// A path with its cost, for comparison with others.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) path: Path,
    pub(crate) cost: u32,
    /// Conjuncts that the path satisfies by itself.
    pub(crate) consumed: Vec<usize>,
}

/// The columns that equal a value that is the same for all tuples, also those of the path.
pub(crate) fn fixed(schema: &TableSchema, source: usize, conjuncts: &[Expression]) -> Vec<KeyPart> {
    let varies = |value: &Expression| value.any(&mut |e| matches!(e, Expression::Column { .. }));
    known(conjuncts, source, 0)
        .into_iter()
        .filter(|known| known.relation == Relation::Equal && !varies(known.value))
        .map(|known| part(schema, column_index(known.column), known.value))
        .collect()
}

/// `column relation value`, where the value is known before the table is read.
struct KnownColumn<'c> {
    conjunct: usize,
    column: usize,
    relation: Relation,
    value: &'c Expression,
}

fn known<'c>(conjuncts: &'c [Expression], source: usize, placed: u64) -> Vec<KnownColumn<'c>> {
    let mut list = Vec::new();
    let mut add = |conjunct, column: &Expression, relation, value: &'c Expression| {
        if let Expression::Column {
            depth: 0,
            source: s,
            column,
        } = column
            && *s == source
            && mask(value) & !placed == 0
            // Each row is compared with another value.
            && !value.is_volatile()
        {
            list.push(KnownColumn {
                conjunct,
                column: *column,
                relation,
                value,
            });
        }
    };
    for (conjunct, expression) in conjuncts.iter().enumerate() {
        if let Expression::Compare {
            relation,
            left,
            right,
        } = expression
        {
            add(conjunct, left, *relation, right);
            add(conjunct, right, relation.mirrored(), left);
        }
    }
    list
}

fn part(schema: &TableSchema, column: ColumnIndex, value: &Expression) -> KeyPart {
    let described = &schema.columns[column.index()];
    KeyPart {
        column,
        data_type: described.data_type.clone(),
        nullable: described.nullable,
        value: value.clone(),
        integer: None,
    }
}

/// The cheapest path to a table's rows, given what is known of their columns.
pub(crate) fn choose(
    schema: &TableSchema,
    source: usize,
    conjuncts: &[Expression],
    placed: u64,
) -> Choice {
    debug_assert_eq!(placed & bit(source), 0, "a source is joined once");
    let known = known(conjuncts, source, placed);
    let mut best = Choice {
        path: Path::Scan { hash: Vec::new() },
        cost: 1_000,
        consumed: Vec::new(),
    };
    let indexes = schema.indexes.iter().map(|index| Some(index.id));
    for index in std::iter::once(None).chain(indexes) {
        if let Some(choice) = by_index(schema, index, &known)
            && choice.cost < best.cost
        {
            best = choice;
        }
    }
    best
}

fn by_index(
    schema: &TableSchema,
    index: Option<IndexId>,
    known: &[KnownColumn<'_>],
) -> Option<Choice> {
    let columns = schema.key_columns(index);
    let mut prefix = Vec::new();
    let mut consumed = Vec::new();
    for column in columns {
        let equal = known
            .iter()
            .find(|k| k.relation == Relation::Equal && k.column == column.index());
        let Some(equal) = equal else { break };
        prefix.push(part(schema, *column, equal.value));
        consumed.push(equal.conjunct);
    }
    if index.is_none() && !columns.is_empty() && prefix.len() == columns.len() {
        return Some(Choice {
            path: Path::Point { key: prefix },
            cost: 10,
            consumed,
        });
    }
    let next = columns.get(prefix.len());
    let bound = |relations: [Relation; 2]| {
        let next = next?;
        known
            .iter()
            .find(|k| k.column == next.index() && relations.contains(&k.relation))
    };
    let lower = bound([Relation::Greater, Relation::GreaterOrEqual]);
    let upper = bound([Relation::Less, Relation::LessOrEqual]);
    if prefix.is_empty() && lower.is_none() && upper.is_none() {
        return None;
    }
    let unique = index.is_some_and(|index| schema.indexes[index.index()].unique);
    let full = prefix.len() == columns.len();
    let cost = match (unique && full, prefix.len() as u32) {
        (true, _) => 20,
        (false, 0) => 900,
        (false, length) => {
            let bounded = u32::from(lower.is_some()) + u32::from(upper.is_some());
            // A longer prefix first, then more bounds, then the primary key.
            400 - 20 * length.min(15) - 5 * bounded + u32::from(index.is_some())
        }
    };
    let bounds = |known: Option<&KnownColumn<'_>>, inclusive: Relation| {
        let known = known?;
        let column = next.expect("a bound has its column");
        Some((
            part(schema, *column, known.value),
            known.relation == inclusive,
        ))
    };
    for bound in [lower, upper].into_iter().flatten() {
        // A bound on a real column is only approximate (see the executor).
        if schema.columns[bound.column].data_type != DataType::Real {
            consumed.push(bound.conjunct);
        }
    }
    let path = RangePath {
        index,
        prefix,
        lower: bounds(lower, Relation::GreaterOrEqual),
        upper: bounds(upper, Relation::LessOrEqual),
        reverse: false,
        limit: None,
        hash: Vec::new(),
    };
    Some(Choice {
        path: Path::Range(Box::new(path)),
        cost,
        consumed,
    })
}

/// The order in which a range's rows come: the key's columns behind the prefix (and, for a
/// secondary index, the primary key's that are not among them).
fn order_behind(schema: &TableSchema, index: Option<IndexId>, prefix: usize) -> Vec<ColumnIndex> {
    let mut columns: Vec<ColumnIndex> = schema.key_columns(index)[prefix..].to_vec();
    if index.is_some() {
        let fixed = &schema.key_columns(index)[..prefix];
        let more = schema.primary_key.iter().filter(|c| !fixed.contains(c));
        for column in more {
            if !columns.contains(column) {
                columns.push(*column);
            }
        }
    }
    columns
}

/// The path that gives the rows in this order, and whether backwards; `None` if neither the read's path nor another of
/// the same prefix gives it.
pub(crate) fn in_order(
    read: &TableRead,
    projection: &[Expression],
    order: &[Order],
) -> Option<(Path, bool)> {
    let mut wanted = Vec::new();
    for key in order {
        // An index has the order of the text.
        if key.labels.is_some() {
            return None;
        }
        let Expression::Column {
            depth: 0,
            source,
            column,
        } = &projection[key.column]
        else {
            return None;
        };
        if *source != read.source {
            return None;
        }
        wanted.push((column_index(*column), key.descending, key.nulls_first));
    }
    let reverse = wanted.first()?.1;
    // Forwards NULLs come last, backwards first: as the defaults of ASC and DESC have it.
    let nullable = |column: ColumnIndex| read.schema.columns[column.index()].nullable;
    let fits = wanted.iter().all(|(column, descending, nulls_first)| {
        *descending == reverse && (*nulls_first == reverse || !nullable(*column))
    });
    if !fits {
        return None;
    }
    let gives = |index: Option<IndexId>, prefix: &[KeyPart]| {
        let behind = order_behind(&read.schema, index, prefix.len());
        let mut behind = behind.iter();
        wanted.iter().all(|(column, ..)| {
            prefix.iter().any(|part| part.column == *column) || behind.next() == Some(column)
        })
    };
    let all: RangePath = RangePath {
        index: None,
        prefix: Vec::new(),
        lower: None,
        upper: None,
        reverse: false,
        limit: None,
        hash: Vec::new(),
    };
    let current = match &read.path {
        Path::Range(range) => (**range).clone(),
        Path::Scan { hash } if hash.is_empty() => all,
        _ => return None,
    };
    if gives(current.index, &current.prefix) {
        return Some((Path::Range(Box::new(current)), reverse));
    }
    if current.lower.is_some() || current.upper.is_some() {
        return None;
    }
    let others = std::iter::once(None).chain(read.schema.indexes.iter().map(|i| Some(i.id)));
    for index in others {
        if let Some(prefix) = same_prefix(read, index, &current.prefix)
            && gives(index, &prefix)
        {
            let path = RangePath {
                index,
                prefix,
                ..current
            };
            return Some((Path::Range(Box::new(path)), reverse));
        }
    }
    None
}

/// The prefix of another index that fixes exactly the same columns.
fn same_prefix(
    read: &TableRead,
    index: Option<IndexId>,
    prefix: &[KeyPart],
) -> Option<Vec<KeyPart>> {
    let columns = read.schema.key_columns(index).get(..prefix.len())?;
    columns
        .iter()
        .map(|column| prefix.iter().find(|part| part.column == *column).cloned())
        .collect()
}

/// A range with the least value of a column in its first row and the greatest in its last. The column cannot be NULL,
/// and comes after the prefix of the read's index, or of another index with the same prefix.
pub(crate) fn ending_at(read: &TableRead, column: usize) -> Option<RangePath> {
    if read.schema.columns[column].nullable {
        return None;
    }
    let wanted = Some(&column_index(column));
    let current = match &read.path {
        Path::Range(range) => (**range).clone(),
        Path::Scan { hash } if hash.is_empty() => RangePath {
            index: None,
            prefix: Vec::new(),
            lower: None,
            upper: None,
            reverse: false,
            limit: None,
            hash: Vec::new(),
        },
        _ => return None,
    };
    if read
        .schema
        .key_columns(current.index)
        .get(current.prefix.len())
        == wanted
    {
        return Some(current);
    }
    if current.lower.is_some() || current.upper.is_some() {
        return None;
    }
    let others = std::iter::once(None).chain(read.schema.indexes.iter().map(|i| Some(i.id)));
    for index in others {
        if read.schema.key_columns(index).get(current.prefix.len()) == wanted
            && let Some(prefix) = same_prefix(read, index, &current.prefix)
        {
            return Some(RangePath {
                index,
                prefix,
                ..current
            });
        }
    }
    None
}
