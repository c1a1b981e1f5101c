//! Collects the invariants of an application from its catalog, in a fixed order.
//!
//! Assertions come first, since authors care about them most. Then what tables declare: NOT NULL (one invariant for
//! each table), CHECK, generated columns, keys, foreign keys, indexes. Then, for each table that some type changes,
//! isolation. Views are computed when they are read and need no invariant.

use anabranch_sql::catalog::{Catalog, ColumnDefault, ForeignKey};
use anabranch_types::{ColumnIndex, TableId, TableSchema};
use sqlparser::ast::{Expr, Ident};

use crate::assertion::{
    Aggregate, Atom, Facet, Formula, Part, RowScope, Shape, Source, read_assertion, read_check,
};
use crate::footprint::Footprint;
use crate::plan::{Invariant, InvariantKind};

/// An invariant with its content, for the rules.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    /// The invariant as it is in the plan.
    pub(crate) invariant: Invariant,
    /// Its content.
    pub(crate) content: Content,
}

/// The content of an invariant.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// None of the columns is NULL.
    NotNull {
        table: TableId,
        columns: Vec<ColumnIndex>,
    },
    /// Each row satisfies the conjuncts of a condition.
    Row {
        table: TableId,
        atoms: Vec<Atom>,
        condition: Box<Expr>,
    },
    /// No two rows have equal values in the columns.
    Unique {
        table: TableId,
        columns: Vec<ColumnIndex>,
    },
    /// Rows of the table refer to rows of another.
    ForeignKey { table: TableId, key: ForeignKey },
    /// An index has an entry for each row.
    Index {
        table: TableId,
        columns: Vec<ColumnIndex>,
    },
    /// An assertion.
    Assertion(Formula),
    /// Updates are not lost, and what a transaction checked still holds when it commits.
    Isolation { table: TableId },
}

/// All invariants.
pub(crate) fn collect(footprint: &Footprint<'_>) -> Vec<Declared> {
    let catalog = footprint.catalog;
    let mut found: Vec<Declared> = catalog
        .assertions
        .iter()
        .map(|assertion| {
            let formula = read_assertion(catalog, &assertion.expression);
            let (kind, description) = describe_formula(catalog, &formula);
            let mut found = declared(
                assertion.name.clone(),
                kind,
                description,
                Content::Assertion(formula),
            );
            found.invariant.condition = Some(format!("CHECK ({})", assertion.expression));
            found
        })
        .collect();
    for (table, declaration) in catalog.schema.tables.iter().zip(&catalog.tables) {
        found.extend(not_null(table));
        for check in &declaration.checks {
            let atoms = read_check(&RowScope { table }, &check.expression);
            let content = Content::Row {
                table: table.id,
                atoms: atoms.clone(),
                condition: Box::new(check.expression.clone()),
            };
            let description = format!("CHECK ({})", check.expression);
            found.push(declared(
                check.name.clone(),
                kind_of_row(&atoms),
                description,
                content,
            ));
        }
        found.extend(generated(catalog, table));
        keys(table, declaration.primary_key_name.as_deref(), &mut found);
        for key in &declaration.foreign_keys {
            let parent = catalog.schema.table(key.parent);
            let description = format!(
                "{} ({}) refers to {} ({})",
                table.name,
                names(table, &key.columns),
                parent.name,
                names(parent, &key.parent_columns)
            );
            let content = Content::ForeignKey {
                table: table.id,
                key: key.clone(),
            };
            found.push(declared(
                key.name.clone(),
                InvariantKind::ForeignKey,
                description,
                content,
            ));
        }
    }
    for table in &catalog.schema.tables {
        let facts = footprint.facts(table.id);
        if facts.is_written() {
            found.push(declared(
                format!("isolation({})", table.name),
                InvariantKind::NoLostUpdate,
                format!(
                    "no update of {} is lost, and what is checked there holds",
                    table.name
                ),
                Content::Isolation { table: table.id },
            ));
        }
    }
    found
}

fn declared(name: String, kind: InvariantKind, description: String, content: Content) -> Declared {
    Declared {
        invariant: Invariant {
            name,
            kind,
            description,
            condition: None,
        },
        content,
    }
}

/// The name of the invariant that a table's NOT NULL columns form together.
pub(crate) fn not_null_name(table: &str) -> String {
    format!("{table}_not_null")
}

fn not_null(table: &TableSchema) -> Option<Declared> {
    let columns: Vec<ColumnIndex> = (0..table.columns.len())
        .filter(|i| !table.columns[*i].nullable)
        .map(|i| ColumnIndex(i as u16))
        .collect();
    (!columns.is_empty()).then(|| {
        let description = format!(
            "{} of {} columns are NOT NULL",
            columns.len(),
            table.columns.len()
        );
        declared(
            not_null_name(&table.name),
            InvariantKind::RowEquality,
            description,
            Content::NotNull {
                table: table.id,
                columns,
            },
        )
    })
}

/// Each generated column fits the columns that it is computed from. A transaction computes it of the row that it sees, and
/// columns that are merged one by one need not fit together.
fn generated(catalog: &Catalog, table: &TableSchema) -> Vec<Declared> {
    let declared_as = |column: ColumnIndex, reads: Vec<ColumnIndex>| {
        let ColumnDefault::Computed(expression, _) =
            &catalog.table(table.id).defaults[column.index()]
        else {
            return None;
        };
        let described = &table.columns[column.index()];
        let name = &described.name;
        let mut columns = reads;
        columns.push(column);
        // No condition can name a hidden column, so nothing is proved of it.
        let named = match described.is_hidden {
            true => unlike(table, name),
            false => name.clone(),
        };
        let condition = Expr::IsNotDistinctFrom(
            Box::new(Expr::Identifier(Ident::with_quote('"', named))),
            Box::new(Expr::Nested(Box::new(expression.clone()))),
        );
        let content = Content::Row {
            table: table.id,
            atoms: vec![Atom::Several(columns)],
            condition: Box::new(condition),
        };
        Some(declared(
            catalog.generated_name(table.id, column),
            InvariantKind::RowCheck,
            format!("{name} GENERATED ALWAYS AS ({expression})"),
            content,
        ))
    };
    let all = catalog.generated_columns(table.id).into_iter();
    all.filter_map(|(column, reads)| declared_as(column, reads))
        .collect()
}

/// A name that no column of the table has, for people to read.
fn unlike(table: &TableSchema, name: &str) -> String {
    let mut named = format!("{name} of the index");
    while table.columns.iter().any(|column| column.name == named) {
        named.push('\'');
    }
    named
}

fn keys(table: &TableSchema, primary: Option<&str>, found: &mut Vec<Declared>) {
    if !table.primary_key.is_empty() {
        let name = primary.map_or_else(|| format!("{}_pkey", table.name), str::to_owned);
        let columns = table.primary_key.clone();
        let description = format!("PRIMARY KEY ({})", names(table, &columns));
        let content = Content::Unique {
            table: table.id,
            columns,
        };
        found.push(declared(
            name,
            InvariantKind::Uniqueness,
            description,
            content,
        ));
    }
    for index in &table.indexes {
        let columns = index.columns.clone();
        let listed = names(table, &columns);
        found.push(if index.unique {
            declared(
                index.name.clone(),
                InvariantKind::Uniqueness,
                format!("UNIQUE ({listed})"),
                Content::Unique {
                    table: table.id,
                    columns,
                },
            )
        } else {
            declared(
                index.name.clone(),
                InvariantKind::SecondaryIndex,
                format!("INDEX ({listed})"),
                Content::Index {
                    table: table.id,
                    columns,
                },
            )
        });
    }
}

/// The names of columns, separated by commas.
pub(crate) fn names(table: &TableSchema, columns: &[ColumnIndex]) -> String {
    let names: Vec<&str> = columns
        .iter()
        .map(|c| table.columns[c.index()].name.as_str())
        .collect();
    names.join(", ")
}

fn kind_of_row(atoms: &[Atom]) -> InvariantKind {
    let all = |test: fn(&Atom) -> bool| atoms.iter().all(test);
    if all(|a| matches!(a, Atom::Lower(_))) {
        InvariantKind::LowerBound
    } else if all(|a| matches!(a, Atom::Upper(_))) {
        InvariantKind::UpperBound
    } else if all(|a| matches!(a, Atom::Value(_))) {
        InvariantKind::RowEquality
    } else {
        InvariantKind::RowCheck
    }
}

/// The kind of a formula is that of its first clause, unless a later one is sequential or not recognised.
fn describe_formula(catalog: &Catalog, formula: &Formula) -> (InvariantKind, String) {
    let mut kind = None;
    let mut words = Vec::new();
    for clause in &formula.clauses {
        let (this, text) = describe_shape(catalog, &clause.shape);
        if kind.is_none() || this == InvariantKind::Other || this == InvariantKind::SequentialId {
            kind = Some(this);
        }
        words.push(text);
    }
    (kind.unwrap_or(InvariantKind::Other), words.join("; "))
}

fn describe_shape(catalog: &Catalog, shape: &Shape) -> (InvariantKind, String) {
    let table = |t: TableId| catalog.schema.table(t).name.clone();
    match shape {
        Shape::Balance(parts)
            if matches!(
                parts.as_slice(),
                [Part {
                    source: Source::Aggregate {
                        function: Aggregate::Count,
                        ..
                    },
                    ..
                }]
            ) =>
        {
            (
                InvariantKind::Size,
                format!("{} is constant", sum(catalog, parts)),
            )
        }
        Shape::Balance(parts) => (InvariantKind::MaterializedView, equation(catalog, parts)),
        Shape::Extremum(parts) => (InvariantKind::SequentialId, equation(catalog, parts)),
        Shape::Bound { parts, upper } => {
            let (kind, words) = if *upper {
                (InvariantKind::UpperBound, "at most")
            } else {
                (InvariantKind::LowerBound, "at least")
            };
            (
                kind,
                format!("{} is {words} a constant", sum(catalog, parts)),
            )
        }
        Shape::Iff(facets) => {
            let words: Vec<String> = facets.iter().map(|f| facet(catalog, f)).collect();
            (InvariantKind::Existence, words.join(" iff "))
        }
        Shape::Inclusion { child, parent, .. } => {
            let parents: Vec<String> = parent.tables.iter().map(|t| table(*t)).collect();
            (
                InvariantKind::Existence,
                format!("each {} has its {}", table(*child), parents.join(", ")),
            )
        }
        Shape::Row { table: t, atoms } => (
            kind_of_row(atoms),
            format!("each row of {} passes a test", table(*t)),
        ),
        Shape::AtLeastOne { region, .. } => {
            let tables: Vec<String> = region.tables.iter().map(|t| table(*t)).collect();
            (
                InvariantKind::NonEmpty,
                format!("some row of {} exists", tables.join(", ")),
            )
        }
        Shape::Unrecognised(reason) => (InvariantKind::Other, format!("not recognised: {reason}")),
    }
}

fn facet(catalog: &Catalog, facet: &Facet) -> String {
    match facet {
        Facet::Null((table, column)) => {
            let table = catalog.schema.table(*table);
            format!("{} set", table.columns[column.index()].name)
        }
        Facet::True((table, column)) => {
            let table = catalog.schema.table(*table);
            table.columns[column.index()].name.clone()
        }
        Facet::Row(table) => format!("a row of {}", catalog.schema.table(*table).name),
    }
}

/// An equation of the parts, without constants.
fn equation(catalog: &Catalog, parts: &[Part]) -> String {
    let (left, right): (Vec<Part>, Vec<Part>) =
        parts.iter().cloned().partition(|p| p.factor >= 0.0);
    let right: Vec<Part> = right
        .into_iter()
        .map(|p| Part {
            null_of_nothing: p.null_of_nothing,
            factor: -p.factor,
            ..p
        })
        .collect();
    format!("{} = {}", sum(catalog, &left), sum(catalog, &right))
}

fn sum(catalog: &Catalog, parts: &[Part]) -> String {
    if parts.is_empty() {
        return "a constant".into();
    }
    let name = |(table, column): &(TableId, ColumnIndex)| {
        catalog.schema.table(*table).columns[column.index()]
            .name
            .clone()
    };
    let mut text = String::new();
    for (i, part) in parts.iter().enumerate() {
        text.push_str(match (i, part.factor < 0.0) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        });
        if part.factor.abs() != 1.0 {
            text.push_str(&format!("{} ", part.factor.abs()));
        }
        text.push_str(&match &part.source {
            Source::Column(column) => name(column),
            Source::Aggregate {
                function,
                columns,
                region,
                ..
            } => {
                let tables: Vec<&str> = region
                    .tables
                    .iter()
                    .map(|t| catalog.schema.table(*t).name.as_str())
                    .collect();
                let columns: Vec<String> = columns.iter().map(name).collect();
                match function {
                    Aggregate::Count => format!("count({})", tables.join(", ")),
                    Aggregate::Sum => format!("sum({})", columns.join(", ")),
                    Aggregate::Max => format!("max({})", columns.join(", ")),
                    Aggregate::Min => format!("min({})", columns.join(", ")),
                }
            }
        });
    }
    text
}
