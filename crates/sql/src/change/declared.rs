//! The application as a list of declarations, which a change alters, and which is printed as SQL (see [`mod@super::print`]).
//!
//! Tables, keys, constraints and indexes are kept by their parts. Expressions, views, assertions and routines are kept
//! as their texts.

use std::collections::BTreeMap;

use anabranch_types::{ColumnIndex, DataType, SequenceId, TableId, TableSchema};

use crate::{
    catalog::{
        Catalog, ColumnDefault, Deferrability, IndexPart, ReferentialAction, RoutineKind,
        names::{choose_name, implied_sequences},
    },
    parse::{Lexeme, lexemes},
    sequence::SequenceOptions,
    source::{SourceFile, Span},
};

/// Everything that an application declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Declared {
    /// Enumerations, with their labels.
    pub(super) types: Vec<DeclaredType>,
    pub(super) tables: Vec<DeclaredTable>,
    pub(super) sequences: Vec<DeclaredSequence>,
    pub(super) views: Vec<DeclaredText>,
    pub(super) assertions: Vec<DeclaredText>,
    pub(super) routines: Vec<DeclaredRoutine>,
    /// Routines whose bodies name what does not exist: they cannot be called until it does.
    pub(super) unresolved: Vec<DeclaredRoutine>,
    pub(super) triggers: Vec<DeclaredTrigger>,
}

/// A trigger.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredTrigger {
    pub(super) name: String,
    pub(super) table: String,
    pub(super) on_insert: bool,
    pub(super) on_update: bool,
    /// UPDATE OF; empty without it.
    pub(super) columns: Vec<String>,
    /// The condition of WHEN, without the parentheses around it.
    pub(super) condition: Option<String>,
    pub(super) function: String,
}

/// An enumeration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredType {
    pub(super) name: String,
    pub(super) labels: Vec<String>,
}

/// A sequence of CREATE SEQUENCE.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredSequence {
    /// Its number before the change, or the column that implied it; `None` if the change creates it.
    pub(super) from: Option<SequenceId>,
    pub(super) name: String,
    /// The table and the column that own it.
    pub(super) owner: Option<(String, String)>,
    pub(super) options: SequenceOptions,
}

/// A view or an assertion.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredText {
    pub(super) name: String,
    /// The whole CREATE statement, without its semicolon.
    pub(super) text: String,
}

/// A procedure or a function.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredRoutine {
    pub(super) name: String,
    pub(super) kind: RoutineKind,
    /// The types of its input parameters, for messages and DROP.
    pub(super) arguments: Vec<DataType>,
    /// The whole CREATE statement, without its semicolon.
    pub(super) text: String,
    /// The assertions that its directive declares as kept.
    pub(super) keeps: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredTable {
    /// Its number before the change; `None` if the change creates it.
    pub(super) from: Option<TableId>,
    pub(super) name: String,
    pub(super) columns: Vec<DeclaredColumn>,
    pub(super) primary_key: Option<DeclaredKey>,
    pub(super) checks: Vec<DeclaredCheck>,
    pub(super) foreign_keys: Vec<DeclaredForeignKey>,
    /// UNIQUE constraints and indexes.
    pub(super) indexes: Vec<DeclaredIndex>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredColumn {
    pub(super) name: String,
    pub(super) data_type: DataType,
    pub(super) not_null: bool,
    pub(super) default: DeclaredDefault,
    /// Where the values of the rows that exist come from.
    pub(super) values: ColumnValues,
}

/// Where a column's values in existing rows come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ColumnValues {
    /// A column before the change, with a cast of assignment if its type changes.
    Old(ColumnIndex),
    /// An expression over the columns before the change: ALTER TYPE … USING.
    Using(ColumnIndex, String),
    /// What an INSERT would put there: the column is new.
    New(DeclaredDefault),
}

/// The DEFAULT of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DeclaredDefault {
    Null,
    Expression(String),
    /// As [`ColumnDefault::Generated`].
    Generated {
        always: bool,
        serial: bool,
    },
    /// The expression of a generated column, without the parentheses around it.
    Computed(String),
}

/// A primary key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredKey {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
}

/// A CHECK.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredCheck {
    pub(super) name: String,
    /// The condition, without the parentheses around it.
    pub(super) condition: String,
    pub(super) test: Test,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredForeignKey {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) parent: String,
    pub(super) parent_columns: Vec<String>,
    pub(super) on_delete: ReferentialAction,
    pub(super) on_update: ReferentialAction,
    pub(super) deferrability: Deferrability,
    pub(super) test: Test,
}

/// An index, or a UNIQUE constraint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeclaredIndex {
    pub(super) name: String,
    pub(super) parts: Vec<DeclaredPart>,
    /// The condition of a partial index.
    pub(super) predicate: Option<String>,
    pub(super) unique: bool,
    pub(super) is_constraint: bool,
    pub(super) test: Test,
}

/// A part of the key of an index.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DeclaredPart {
    Column(String),
    /// An expression, in parentheses.
    Expression(String),
}

impl DeclaredIndex {
    /// Its columns, if it is of columns alone and of all rows.
    pub(super) fn columns(&self) -> Option<Vec<String>> {
        let column = |part: &DeclaredPart| match part {
            DeclaredPart::Column(name) => Some(name.clone()),
            DeclaredPart::Expression(_) => None,
        };
        match self.predicate {
            None => self.parts.iter().map(column).collect(),
            Some(_) => None,
        }
    }
}

/// Whether existing rows have to be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// They pass: the constraint stood before the change.
    Passed,
    /// They have to be tested.
    Due,
    /// They are not tested: NOT VALID.
    NotValid,
}

impl Declared {
    /// What a catalog declares, unresolved routines apart.
    pub(super) fn of(catalog: &Catalog) -> Declared {
        let text = |span: Span| catalog.files[usize::from(span.file)].slice(span).to_owned();
        let views = catalog.views.iter().map(|view| DeclaredText {
            name: view.name.clone(),
            text: text(view.span),
        });
        let assertions = catalog.assertions.iter().map(|assertion| DeclaredText {
            name: assertion.name.clone(),
            text: text(assertion.span),
        });
        let routines = catalog.procedures.iter().map(|routine| DeclaredRoutine {
            name: routine.name.clone(),
            kind: routine.kind,
            arguments: routine.input_types(),
            text: text(routine.span),
            keeps: routine.keeps.clone(),
        });
        let functions = catalog
            .trigger_functions
            .iter()
            .map(|function| DeclaredRoutine {
                name: function.name.clone(),
                kind: RoutineKind::Function,
                arguments: Vec::new(),
                text: text(function.span),
                keeps: Vec::new(),
            });
        let triggers = catalog.triggers.iter().map(|trigger| {
            let schema = catalog.schema.table(trigger.table);
            let condition = trigger.condition.as_ref();
            DeclaredTrigger {
                name: trigger.name.clone(),
                table: schema.name.clone(),
                on_insert: trigger.on_insert,
                on_update: trigger.on_update,
                columns: names(schema, &trigger.columns),
                condition: condition.map(|(_, span)| one_line(&text(*span))),
                function: trigger.function.clone(),
            }
        });
        let sequences = catalog.sequences.iter().zip(catalog.named_sequences());
        let sequences = sequences.map(|(declared, resolved)| DeclaredSequence {
            from: Some(resolved.id),
            name: declared.name.clone(),
            owner: declared.owner.clone(),
            options: resolved.options,
        });
        let types = catalog.types.iter().map(|of| DeclaredType {
            name: of.name.clone(),
            labels: of.labels.clone(),
        });
        Declared {
            types: types.collect(),
            tables: (0..catalog.tables.len())
                .map(|number| DeclaredTable::of(catalog, number))
                .collect(),
            sequences: sequences.collect(),
            views: views.collect(),
            assertions: assertions.collect(),
            routines: routines.chain(functions).collect(),
            unresolved: Vec::new(),
            triggers: triggers.collect(),
        }
    }

    /// Takes a dropped assertion out of the directives of routines.
    pub(super) fn forget_kept(&mut self, assertion: &str) {
        for routine in &mut self.routines {
            routine.keeps.retain(|kept| kept != assertion);
        }
    }

    /// The table with this name.
    pub(super) fn table(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.name == name)
    }

    /// The kind of the relation with this name, as messages have it.
    pub(super) fn relation(&self, name: &str) -> Option<Relation> {
        if let Some(table) = self.table(name) {
            return Some(Relation::Table(table));
        }
        if let Some(view) = self.views.iter().position(|view| view.name == name) {
            return Some(Relation::View(view));
        }
        let named = |of: &DeclaredSequence| of.name == name;
        if let Some(sequence) = self.sequences.iter().position(named) {
            return Some(Relation::Sequence(sequence));
        }
        self.tables
            .iter()
            .enumerate()
            .find_map(|(number, table)| {
                let key = table.primary_key.as_ref();
                if key.is_some_and(|key| key.name == name) {
                    return Some(Relation::PrimaryKey(number));
                }
                if let Some(found) = table.indexes.iter().position(|index| index.name == name) {
                    return Some(Relation::Index(number, found));
                }
                None
            })
            .or_else(|| {
                let mut implied = self.implied_sequences().into_iter();
                let found = implied.find(|(_, of)| of == name);
                found.map(|((table, column), _)| Relation::SerialSequence(table, column))
            })
    }

    /// The names of the sequences that serial and identity columns imply, by the places of table and column: those that
    /// the catalog of these declarations has.
    pub(super) fn implied_sequences(&self) -> BTreeMap<(usize, usize), String> {
        let tables = self.tables.iter().enumerate();
        let generated: Vec<(usize, usize)> = tables
            .flat_map(|(number, table)| {
                let columns = table.columns.iter().enumerate();
                let generated = columns
                    .filter(|(_, of)| matches!(of.default, DeclaredDefault::Generated { .. }));
                generated.map(move |(column, _)| (number, column))
            })
            .collect();
        let named = generated.iter().map(|(table, column)| {
            let table = &self.tables[*table];
            (&*table.name, &*table.columns[*column].name)
        });
        let names = implied_sequences(named, |name| {
            self.table(name).is_some() || self.sequences.iter().any(|of| of.name == name)
        });
        generated.into_iter().zip(names).collect()
    }

    /// The name of the sequence that a column implies, or would imply if it were a serial column.
    pub(super) fn implied_sequence(&self, table: usize, column: usize) -> String {
        let place = (table, column);
        if let Some(name) = self.implied_sequences().remove(&place) {
            return name;
        }
        let of = &self.tables[table];
        choose_name(&of.name, &of.columns[column].name, "seq", |name| {
            self.relation(name).is_some()
        })
    }
}

/// What a relation's name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Table(usize),
    View(usize),
    Sequence(usize),
    /// The sequence that a serial or identity column implies.
    SerialSequence(usize, usize),
    /// The index of a table's primary key.
    PrimaryKey(usize),
    /// An index of a table.
    Index(usize, usize),
}

impl DeclaredTable {
    fn of(catalog: &Catalog, number: usize) -> DeclaredTable {
        let (schema, table) = (&catalog.schema.tables[number], &catalog.tables[number]);
        let file = |span: Span| &catalog.files[usize::from(span.file)];
        let visible = schema.visible_columns().iter();
        let columns = visible.zip(&table.defaults).enumerate();
        let columns = columns.map(|(place, (column, default))| DeclaredColumn {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
            not_null: !column.nullable,
            default: DeclaredDefault::of(default, |span| file(span)),
            values: ColumnValues::Old(ColumnIndex(place as u16)),
        });
        let checks = table.checks.iter().map(|check| DeclaredCheck {
            name: check.name.clone(),
            condition: check_condition(file(check.span), check.span),
            test: Test::Passed,
        });
        let foreign_keys = table.foreign_keys.iter().map(|key| {
            let parent = catalog.schema.table(key.parent);
            DeclaredForeignKey {
                name: key.name.clone(),
                columns: names(schema, &key.columns),
                parent: parent.name.clone(),
                parent_columns: names(parent, &key.parent_columns),
                on_delete: key.on_delete,
                on_update: key.on_update,
                deferrability: key.deferrability,
                test: Test::Passed,
            }
        });
        let indexes = schema.indexes.iter().zip(&table.indexes);
        let indexes = indexes.map(|(index, definition)| DeclaredIndex {
            name: index.name.clone(),
            parts: definition
                .parts
                .iter()
                .map(|part| match part {
                    IndexPart::Column(column) => {
                        DeclaredPart::Column(schema.columns[column.index()].name.clone())
                    }
                    IndexPart::Expression(_, span) => {
                        let text = one_line(file(*span).slice(*span));
                        DeclaredPart::Expression(format!("({text})"))
                    }
                })
                .collect(),
            predicate: definition
                .predicate
                .as_ref()
                .map(|(_, span)| one_line(file(*span).slice(*span))),
            unique: index.unique,
            is_constraint: table.unique_constraints.contains(&index.id),
            test: Test::Passed,
        });
        DeclaredTable {
            from: Some(schema.id),
            name: schema.name.clone(),
            columns: columns.collect(),
            primary_key: table.primary_key_name.as_ref().map(|name| DeclaredKey {
                name: name.clone(),
                columns: names(schema, &schema.primary_key),
            }),
            checks: checks.collect(),
            foreign_keys: foreign_keys.collect(),
            indexes: indexes.collect(),
        }
    }

    /// The column with this name.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Its expressions over a row, to be changed: those of checks, generated columns and indexes.
    pub(super) fn row_expressions(&mut self) -> impl Iterator<Item = &mut String> {
        let checks = self.checks.iter_mut().map(|check| &mut check.condition);
        let computed = self
            .columns
            .iter_mut()
            .filter_map(|of| match &mut of.default {
                DeclaredDefault::Computed(expression) => Some(expression),
                _ => None,
            });
        let indexes = self.indexes.iter_mut().flat_map(|index| {
            let parts = index.parts.iter_mut().filter_map(|part| match part {
                DeclaredPart::Expression(expression) => Some(expression),
                DeclaredPart::Column(_) => None,
            });
            parts.chain(&mut index.predicate)
        });
        checks.chain(computed).chain(indexes)
    }

    /// The name of the key that a foreign key to these columns refers to.
    pub(super) fn key_of(&self, columns: &[String]) -> Option<&str> {
        let is_same = |key: &[String]| {
            key.len() == columns.len() && key.iter().all(|column| columns.contains(column))
        };
        if let Some(key) = &self.primary_key
            && is_same(&key.columns)
        {
            return Some(&key.name);
        }
        let mut unique = self.indexes.iter().filter(|index| index.unique);
        let is_key = |index: &DeclaredIndex| index.columns().is_some_and(|of| is_same(&of));
        let found = unique.find(|index| is_key(index))?;
        Some(&found.name)
    }

    /// Whether the name is that of one of its constraints.
    pub(super) fn has_constraint(&self, name: &str) -> bool {
        let key = self.primary_key.as_ref();
        let mut indexes = self.indexes.iter();
        key.is_some_and(|key| key.name == name)
            || indexes.any(|index| index.is_constraint && index.name == name)
            || self.checks.iter().any(|check| check.name == name)
            || self.foreign_keys.iter().any(|key| key.name == name)
    }
}

fn names(schema: &TableSchema, columns: &[ColumnIndex]) -> Vec<String> {
    let name = |column: &ColumnIndex| schema.columns[column.index()].name.clone();
    columns.iter().map(name).collect()
}

impl DeclaredDefault {
    /// The DEFAULT of a column; `file` has its text.
    pub(super) fn of<'a>(
        default: &ColumnDefault,
        file: impl Fn(Span) -> &'a SourceFile,
    ) -> DeclaredDefault {
        match default {
            ColumnDefault::Null => DeclaredDefault::Null,
            ColumnDefault::Expression(_, span) => {
                DeclaredDefault::Expression(one_line(file(*span).slice(*span)))
            }
            ColumnDefault::Generated { always, serial } => DeclaredDefault::Generated {
                always: *always,
                serial: *serial,
            },
            ColumnDefault::Computed(_, span) => {
                DeclaredDefault::Computed(one_line(file(*span).slice(*span)))
            }
        }
    }
}

/// The condition of the CHECK that stands at `span`, which may begin with its name.
pub(super) fn check_condition(file: &SourceFile, span: Span) -> String {
    let lexemes = lexemes(file, span);
    let start = lexemes.iter().position(|lexeme| lexeme.is_word("check"));
    let mut inside = lexemes.iter().skip(start.map_or(0, |start| start + 2));
    let mut depth = 0_usize;
    let (mut from, mut to) = (None, 0);
    let step = |lexeme: &Lexeme, depth: &mut usize| {
        if lexeme.is_sign("(") || lexeme.is_sign("[") {
            *depth += 1;
        } else if lexeme.is_sign(")") || lexeme.is_sign("]") {
            match depth.checked_sub(1) {
                Some(less) => *depth = less,
                None => return false,
            }
        }
        true
    };
    for lexeme in inside.by_ref() {
        if !step(lexeme, &mut depth) {
            break;
        }
        from.get_or_insert(lexeme.span.start);
        to = lexeme.span.end;
    }
    let inner = Span {
        start: from.unwrap_or(to),
        end: to,
        ..span
    };
    one_line(file.slice(inner))
}

/// An expression's text; comments that end with their line must not swallow what is printed behind it.
pub(super) fn one_line(text: &str) -> String {
    match text.contains("--") {
        true => format!("{text}\n"),
        false => text.to_owned(),
    }
}
