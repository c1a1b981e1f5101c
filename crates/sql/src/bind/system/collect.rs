//! Collects an application's objects for the system catalogs.

use std::sync::Arc;

use anabranch_types::{ColumnIndex, DataType, TableId, TableSchema};

use sqlparser::ast::Expr;

use super::written::Writer;
use crate::{
    bind::{
        Binder, NoVariables, ViewVariables, computed::bound_part, operator::peeled, scope::Scope,
        trigger::bind_condition,
    },
    catalog::{
        self, Catalog, ColumnDefault, IndexDefinition, IndexPart, ParameterMode, ReferentialAction,
        Returns, RoutineKind, Table, names::index_part_names,
    },
    expression::frame::column_index,
    parse::{cursor::Name, declaration::IndexKey, table::index_name},
    source::Span,
    system::{
        names::quoted,
        objects::{
            Action, Column, Constraint, ConstraintKind, Default, ForeignKey, Index, Objects,
            PUBLIC, Parameter, Procedure, Relation, RelationKind, Sequence, SequenceOwner, Trigger,
            Written, constraint_oid, default_oid, index_oid, oid_of_sequence, procedure_oid,
            table_oid, trigger_function_oid, trigger_oid, view_oid,
        },
        types::type_oid,
    },
};

/// The objects of a catalog.
pub(super) fn objects(catalog: &Catalog) -> Objects {
    let mut objects = Objects {
        types: catalog.types.clone(),
        ..Objects::default()
    };
    for (table, schema) in catalog.tables.iter().zip(&catalog.schema.tables) {
        let mut of = Collector {
            catalog,
            table,
            schema,
            constraints: 0,
            objects: &mut objects,
        };
        of.table();
        of.keys();
        of.checks();
        of.foreign_keys();
    }
    for (declared, sequence) in catalog.sequences.iter().zip(catalog.named_sequences()) {
        let owner = declared.owner.as_ref().and_then(|(table, name)| {
            let table = catalog.table_by_name(table)?.id;
            Some(SequenceOwner {
                table: table_oid(table),
                column: number(catalog.column_by_name(table, name)?),
                column_name: name.clone(),
            })
        });
        add_sequence(
            &mut objects,
            Sequence {
                oid: oid_of_sequence(sequence.id),
                owner,
                is_identity: false,
                sequence: Arc::new(sequence),
            },
        );
    }
    for (view, place) in catalog.views.iter().zip(0..) {
        let mut binder = Binder::new(catalog, &ViewVariables, view.span);
        binder.describes = true;
        // A view that does not bind is reported when the application is compiled.
        let query = binder.closed_query(&view.query);
        let mut columns = query.map_or(Vec::new(), |query| query.columns);
        for (column, name) in columns.iter_mut().zip(&view.columns) {
            column.0.clone_from(name);
        }
        let columns = columns
            .iter()
            .map(|(name, data_type)| Column::plain(name, data_type.clone()));
        objects.relations.push(Relation {
            oid: view_oid(place),
            schema: PUBLIC,
            name: view.name.clone(),
            kind: RelationKind::View,
            columns: columns.collect(),
            definition: Some(format!(" {};", view.query)),
        });
    }
    for (declared, place) in catalog.procedures.iter().zip(0..) {
        objects
            .procedures
            .push(procedure(catalog, declared, procedure_oid(place)));
    }
    for (declared, place) in catalog.trigger_functions.iter().zip(0..) {
        let function = trigger_function(catalog, declared, trigger_function_oid(place));
        objects.procedures.push(function);
    }
    for (declared, place) in catalog.triggers.iter().zip(0..) {
        let trigger = trigger(catalog, declared, trigger_oid(place));
        objects.triggers.push(trigger);
    }
    objects
}

/// Adds a sequence, and the relation that it is.
fn add_sequence(objects: &mut Objects, sequence: Sequence) {
    let columns = [
        ("last_value", DataType::Int8),
        ("log_cnt", DataType::Int8),
        ("is_called", DataType::Bool),
    ];
    objects.relations.push(Relation {
        oid: sequence.oid,
        schema: PUBLIC,
        name: sequence.sequence.name.to_string(),
        kind: RelationKind::Sequence,
        columns: columns
            .map(|(name, data_type)| Column {
                not_null: true,
                ..Column::plain(name, data_type)
            })
            .into(),
        definition: None,
    });
    objects.sequences.push(sequence);
}

struct Collector<'c> {
    catalog: &'c Catalog,
    table: &'c Table,
    schema: &'c TableSchema,
    /// The number of the table's constraints so far.
    constraints: u32,
    objects: &'c mut Objects,
}

impl Collector<'_> {
    fn table(&mut self) {
        let id = self.table.id;
        let mut columns = Vec::new();
        let computed = self.catalog.generated_columns(id);
        let visible = self.schema.visible_columns().iter();
        let described = visible.zip(&self.table.defaults);
        for ((column, default), at) in described.zip(0..) {
            let place = ColumnIndex(at);
            let identity = match default {
                ColumnDefault::Generated { serial: true, .. } => "",
                ColumnDefault::Generated { always: true, .. } => "a",
                ColumnDefault::Generated { .. } => "d",
                ColumnDefault::Null
                | ColumnDefault::Expression(..)
                | ColumnDefault::Computed(..) => "",
            };
            let text = match default {
                ColumnDefault::Generated { .. } => {
                    let name = self.column_sequence(place, &column.name, identity);
                    let text =
                        format!("nextval('{}'::regclass)", quoted(&name).replace('\'', "''"));
                    identity.is_empty().then(|| Written {
                        full: text.clone(),
                        pretty: text,
                    })
                }
                ColumnDefault::Expression(expression, span)
                | ColumnDefault::Computed(expression, span) => {
                    let mut binder = self.binder(*span);
                    let mut writer = Writer::new(&mut binder);
                    Some(writer.stored_as(expression, &column.data_type))
                }
                ColumnDefault::Null => None,
            };
            columns.push(Column {
                name: column.name.clone(),
                data_type: column.data_type.clone(),
                not_null: !column.nullable,
                default: text.map(|text| Default {
                    oid: default_oid(id, place),
                    text,
                }),
                identity,
                generated: computed
                    .iter()
                    .find(|(of, _)| *of == place)
                    .map(|(_, reads)| reads.iter().map(|column| number(*column)).collect()),
            });
        }
        self.objects.relations.push(Relation {
            oid: table_oid(id),
            schema: PUBLIC,
            name: self.table.name.clone(),
            kind: RelationKind::Table,
            columns,
            definition: None,
        });
    }

    /// A binder for expressions over a row of the table.
    fn binder(&self, place: Span) -> Binder<'_> {
        let mut binder = Binder::new(self.catalog, &NoVariables, place);
        binder.describes = true;
        binder.stored = true;
        binder.scopes.push(Scope {
            clause: "check constraints",
            ..Scope::default()
        });
        binder.row_source(self.table.id, None);
        binder
    }

    /// Adds the sequence of a serial or identity column, and returns its name.
    fn column_sequence(&mut self, column: ColumnIndex, name: &str, identity: &str) -> Arc<str> {
        let id = self.table.id;
        let Some(sequence) = self.catalog.sequence_of_column(id, column) else {
            return Arc::from("");
        };
        let sequence = Arc::new(sequence);
        add_sequence(
            self.objects,
            Sequence {
                oid: oid_of_sequence(sequence.id),
                owner: Some(SequenceOwner {
                    table: table_oid(id),
                    column: number(column),
                    column_name: name.to_owned(),
                }),
                is_identity: !identity.is_empty(),
                sequence: Arc::clone(&sequence),
            },
        );
        Arc::clone(&sequence.name)
    }

    fn constraint(
        &mut self,
        name: &str,
        columns: &[ColumnIndex],
        kind: ConstraintKind,
        text: Written,
    ) {
        let oid = constraint_oid(self.table.id, self.constraints);
        self.constraints += 1;
        self.objects.constraints.push(Constraint {
            oid,
            name: name.to_owned(),
            table: table_oid(self.table.id),
            columns: columns.iter().map(|column| number(*column)).collect(),
            kind,
            text,
        });
    }

    /// The primary key, unique constraints and indexes.
    fn keys(&mut self) {
        let (id, schema) = (self.table.id, self.schema);
        if let Some(name) = &self.table.primary_key_name {
            let oid = index_oid(id, None);
            let text = same(format!(
                "PRIMARY KEY ({})",
                listed(schema, &schema.primary_key)
            ));
            self.constraint(
                name,
                &schema.primary_key,
                ConstraintKind::PrimaryKey(oid),
                text,
            );
            let definition = IndexDefinition::plain(&schema.primary_key);
            self.index(name, &definition, (oid, true, true));
        }
        for (index, definition) in schema.indexes.iter().zip(&self.table.indexes) {
            let oid = index_oid(id, Some(index.id));
            if self.table.unique_constraints.contains(&index.id) {
                let text = same(format!("UNIQUE ({})", listed(schema, &index.columns)));
                self.constraint(
                    &index.name,
                    &index.columns,
                    ConstraintKind::Unique(oid),
                    text,
                );
            }
            self.index(&index.name, definition, (oid, index.unique, false));
        }
    }

    fn index(
        &mut self,
        name: &str,
        definition: &IndexDefinition,
        (oid, unique, primary): (u32, bool, bool),
    ) {
        let keys = definition.parts.iter().map(|part| match part {
            IndexPart::Column(at) => {
                let name = self.schema.columns[at.index()].name.clone();
                let span = self.table.span;
                IndexKey::Column(Name { text: name, span })
            }
            IndexPart::Expression(expression, span) => {
                IndexKey::Expression(expression.clone(), *span, index_name(expression))
            }
        });
        let names = index_part_names(&keys.collect::<Vec<_>>());
        let mut described: Vec<(i64, String, DataType)> = Vec::new();
        let mut parts = Vec::new();
        let mut expressions: Vec<Written> = Vec::new();
        for (part, name) in definition.parts.iter().zip(names) {
            match part {
                IndexPart::Column(at) => {
                    let column = &self.schema.columns[at.index()];
                    described.push((number(*at), name, column.data_type.clone()));
                    parts.push(same(quoted(&column.name)));
                }
                IndexPart::Expression(syntax, span) => {
                    let bound = bound_part(self.catalog, self.table.id, syntax, *span);
                    let data_type = bound.map_or(DataType::Text, |(_, data_type)| data_type);
                    described.push((0, name, data_type));
                    parts.push(index_part(self.catalog, self.table.id, syntax, *span));
                    let mut binder = self.binder(*span);
                    expressions.push(Writer::new(&mut binder).stored(syntax));
                }
            }
        }
        let listed = |said: fn(&Written) -> &str| {
            let all: Vec<&str> = expressions.iter().map(said).collect();
            all.join(", ")
        };
        let expressions = (!expressions.is_empty()).then(|| Written {
            full: listed(|of| &of.full),
            pretty: listed(|of| &of.pretty),
        });
        let predicate = definition.predicate.as_ref().map(|(condition, span)| {
            let mut binder = self.binder(*span);
            Writer::new(&mut binder).stored(condition)
        });
        let own = described
            .iter()
            .map(|(_, name, data_type)| Column::plain(name, data_type.clone()));
        self.objects.relations.push(Relation {
            oid,
            schema: PUBLIC,
            name: name.to_owned(),
            kind: RelationKind::Index,
            columns: own.collect(),
            definition: None,
        });
        self.objects.indexes.push(Index {
            oid,
            name: name.to_owned(),
            table: table_oid(self.table.id),
            table_name: self.table.name.clone(),
            columns: described,
            parts,
            expressions,
            predicate,
            unique,
            primary,
        });
    }

    fn checks(&mut self) {
        for check in &self.table.checks {
            let mut binder = self.binder(check.span);
            let mut columns: Vec<ColumnIndex> = Vec::new();
            if let Ok(condition) = binder.condition(&check.expression) {
                condition.each_column(&mut |_, column| columns.push(column_index(column)));
            }
            columns.sort_unstable();
            columns.dedup();
            let condition = Writer::new(&mut binder).stored(&check.expression);
            let text = Written {
                full: format!("CHECK ({})", condition.full),
                pretty: format!("CHECK ({})", condition.pretty),
            };
            self.constraint(
                &check.name,
                &columns,
                ConstraintKind::Check(condition),
                text,
            );
        }
    }

    fn foreign_keys(&mut self) {
        for key in &self.table.foreign_keys {
            let parent = &self.catalog.schema.tables[key.parent.index()];
            let (index, key_name) = referenced(self.catalog, key.parent, &key.parent_columns);
            let (on_update, on_delete) = (action(key.on_update), action(key.on_delete));
            let mut text = format!(
                "FOREIGN KEY ({}) REFERENCES {}({})",
                listed(self.schema, &key.columns),
                quoted(&parent.name),
                listed(parent, &key.parent_columns)
            );
            for (what, action) in [("UPDATE", on_update), ("DELETE", on_delete)] {
                if action != Action::Nothing {
                    text.push_str(&format!(" ON {what} {}", action.words()));
                }
            }
            text.push_str(key.deferrability.sql());
            let kind = ConstraintKind::ForeignKey(Box::new(ForeignKey {
                parent: table_oid(key.parent),
                parent_columns: key.parent_columns.iter().map(|at| number(*at)).collect(),
                index,
                key_name,
                on_update,
                on_delete,
                deferrability: key.deferrability,
            }));
            self.constraint(&key.name, &key.columns, kind, same(text));
        }
    }
}

/// An expression of an index as its declaration has it: in parentheses, but for those of functions.
pub(crate) fn index_part(
    catalog: &Catalog,
    table: TableId,
    expression: &Expr,
    place: Span,
) -> Written {
    let mut binder = Binder::new(catalog, &NoVariables, place);
    binder.describes = true;
    binder.stored = true;
    binder.scopes.push(Scope {
        clause: "index expressions",
        ..Scope::default()
    });
    binder.row_source(table, None);
    let written = Writer::new(&mut binder).stored(expression);
    let is_call = matches!(
        peeled(expression),
        Expr::Function(_)
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Extract { .. }
            | Expr::Overlay { .. }
            | Expr::Position { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
    );
    match is_call {
        true => written,
        false => Written {
            full: format!("({})", written.full),
            pretty: format!("({})", written.pretty),
        },
    }
}

/// A text without parentheses that could be left out.
fn same(text: String) -> Written {
    Written {
        full: text.clone(),
        pretty: text,
    }
}

/// The place of a column, from 1.
fn number(column: ColumnIndex) -> i64 {
    i64::from(column.0) + 1
}

fn listed(schema: &TableSchema, columns: &[ColumnIndex]) -> String {
    let names = columns
        .iter()
        .map(|at| quoted(&schema.columns[at.index()].name));
    names.collect::<Vec<_>>().join(", ")
}

fn action(action: ReferentialAction) -> Action {
    match action {
        ReferentialAction::NoAction => Action::Nothing,
        ReferentialAction::Restrict => Action::Restrict,
        ReferentialAction::Cascade => Action::Cascade,
        ReferentialAction::SetNull => Action::SetNull,
        ReferentialAction::SetDefault => Action::SetDefault,
    }
}

/// The index of the parent's key that has just these columns, and its constraint's name if it has one.
fn referenced(
    catalog: &Catalog,
    parent: TableId,
    columns: &[ColumnIndex],
) -> (u32, Option<String>) {
    let (table, schema) = (catalog.table(parent), catalog.schema.table(parent));
    let is_key = |key: &[ColumnIndex]| {
        key.len() == columns.len() && key.iter().all(|column| columns.contains(column))
    };
    if is_key(&schema.primary_key) {
        return (index_oid(parent, None), table.primary_key_name.clone());
    }
    let unique = schema.indexes.iter();
    let found = unique
        .clone()
        .find(|index| index.unique && is_key(&index.columns));
    found.map_or((0, None), |index| {
        let is_constraint = table.unique_constraints.contains(&index.id);
        let name = is_constraint.then(|| index.name.clone());
        (index_oid(parent, Some(index.id)), name)
    })
}

fn procedure(catalog: &Catalog, declared: &catalog::Procedure, oid: u32) -> Procedure {
    let declaration = declaration(catalog, declared.span);
    let mut parameters: Vec<Parameter> = declared
        .parameters
        .iter()
        .map(|parameter| Parameter {
            name: parameter.name.clone(),
            data_type: parameter.data_type.clone(),
            mode: match parameter.mode {
                ParameterMode::In => "i",
                ParameterMode::Out => "o",
                ParameterMode::InOut => "b",
            },
            default: parameter.default.as_ref().map(|default| {
                let mut binder = Binder::new(catalog, &NoVariables, declared.span);
                binder.describes = true;
                binder.scopes.push(Scope::default());
                Writer::new(&mut binder)
                    .stored_as(default, &parameter.data_type)
                    .full
            }),
        })
        .collect();
    let outputs: Vec<&DataType> = match &declared.returns {
        Returns::Scalar(data_type) => vec![data_type],
        Returns::Table(columns) => columns.iter().map(|(_, data_type)| data_type).collect(),
        Returns::Parameters => {
            let outputs = declared.parameters.iter();
            let outputs = outputs.filter(|parameter| parameter.mode != ParameterMode::In);
            outputs.map(|parameter| &parameter.data_type).collect()
        }
    };
    const VOID: u32 = 2_278;
    const RECORD: u32 = 2_249;
    let is_function = declared.kind == RoutineKind::Function;
    let result = match outputs.as_slice() {
        [] => VOID,
        [one] if is_function => type_oid(one),
        _ => RECORD,
    };
    if let Returns::Table(columns) = &declared.returns {
        parameters.extend(columns.iter().map(|(name, data_type)| Parameter {
            name: name.clone(),
            data_type: data_type.clone(),
            mode: "t",
            default: None,
        }));
    }
    Procedure {
        oid,
        name: declared.name.clone(),
        is_function,
        is_strict: declared.is_strict,
        returns_set: matches!(declared.returns, Returns::Table(_)),
        result,
        parameters,
        language: language(declaration),
        body: body(declaration).to_owned(),
        declaration: declaration.to_owned(),
    }
}

fn trigger_function(catalog: &Catalog, declared: &catalog::TriggerFunction, oid: u32) -> Procedure {
    const TRIGGER: u32 = 2_279;
    let declaration = declaration(catalog, declared.span);
    Procedure {
        oid,
        name: declared.name.clone(),
        is_function: true,
        is_strict: false,
        returns_set: false,
        result: TRIGGER,
        parameters: Vec::new(),
        language: language(declaration),
        body: body(declaration).to_owned(),
        declaration: declaration.to_owned(),
    }
}

fn trigger(catalog: &Catalog, declared: &catalog::Trigger, oid: u32) -> Trigger {
    let schema = catalog.schema.table(declared.table);
    let named = |column: &ColumnIndex| {
        let name = schema.columns[column.index()].name.clone();
        (number(*column), name)
    };
    let mut functions = catalog.trigger_functions.iter().zip(0..);
    let function = functions.find(|(of, _)| of.name == declared.function);
    Trigger {
        oid,
        name: declared.name.clone(),
        table: table_oid(declared.table),
        table_name: schema.name.clone(),
        on_insert: declared.on_insert,
        on_update: declared.on_update,
        columns: declared.columns.iter().map(named).collect(),
        condition: declared.condition.as_ref().map(|(condition, _)| {
            bind_condition(catalog, declared, |binder| {
                binder.describes = true;
                Writer::of_trigger(binder).stored(condition)
            })
        }),
        function: function.map_or(0, |(_, place)| trigger_function_oid(place)),
        function_name: declared.function.clone(),
    }
}

/// The text of a declaration.
fn declaration(catalog: &Catalog, span: Span) -> &str {
    let file = catalog.files.get(usize::from(span.file));
    let range = span.start as usize..span.end as usize;
    file.and_then(|file| file.text.get(range))
        .unwrap_or_default()
}

/// The language of a declaration: that after the word LANGUAGE, SQL without it.
fn language(declaration: &str) -> &'static str {
    let mut words = declaration.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | ';'));
    let mut words = words.by_ref().filter(|word| !word.is_empty());
    let named = words
        .find(|word| word.eq_ignore_ascii_case("language"))
        .and_then(|_| words.next());
    match named {
        Some(name) if name.eq_ignore_ascii_case("plpgsql") => "plpgsql",
        _ => "sql",
    }
}

/// The body of a declaration that is quoted by dollars; empty for another, as in PostgreSQL.
fn body(declaration: &str) -> &str {
    let Some(start) = declaration.find('$') else {
        return "";
    };
    let Some(length) = declaration[start + 1..].find('$') else {
        return "";
    };
    let tag = &declaration[start..start + length + 2];
    let behind = &declaration[start + tag.len()..];
    behind.rfind(tag).map_or("", |end| &behind[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_names_its_language_and_has_a_body() {
        let text =
            "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $b$ BEGIN RETURN 1; END $b$";
        assert_eq!(
            (language(text), body(text)),
            ("plpgsql", " BEGIN RETURN 1; END ")
        );
        let text = "CREATE FUNCTION f() RETURNS int LANGUAGE 'sql' BEGIN ATOMIC SELECT 1; END";
        assert_eq!((language(text), body(text)), ("sql", ""));
    }
}
