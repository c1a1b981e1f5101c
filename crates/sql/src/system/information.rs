//! The rows of `information_schema`.
//!
//! As in PostgreSQL, it describes what the application has declared, and the system catalogs themselves.

use anabranch_types::{DataType, EnumType};

use super::{
    Cell, SessionCell, System,
    objects::{
        Column, Constraint, ConstraintKind, PUBLIC, Procedure, Relation, RelationKind, Trigger,
    },
    relations::{Definition, definitions},
    rows::row,
    types::{base_type_of, type_oid, type_text},
};
use crate::deferred::Deferrability;

const DATABASE: Cell = Cell::Session(SessionCell::Database);
const USER: Cell = Cell::Session(SessionCell::User);

/// The rows of a relation.
pub(super) fn rows(of: &'static Definition, system: &System) -> Vec<Vec<Cell>> {
    let objects = &system.objects;
    match of.name {
        "schemata" => ["pg_catalog", "public", "information_schema"]
            .map(|name| {
                row(
                    of,
                    vec![
                        ("catalog_name", DATABASE),
                        ("schema_name", name.into()),
                        ("schema_owner", USER),
                    ],
                )
            })
            .into(),
        "enabled_roles" => vec![row(of, vec![("role_name", USER)])],
        "tables" => tables(of, system),
        "columns" => columns(of, system),
        "views" => {
            let views = objects
                .relations
                .iter()
                .filter(|of| of.kind == RelationKind::View);
            views.map(|view| self::view(of, view)).collect()
        }
        "table_constraints" => table_constraints(of, system),
        "check_constraints" => {
            let mut rows = Vec::new();
            for constraint in &objects.constraints {
                if let ConstraintKind::Check(condition) = &constraint.kind {
                    let clause = format!("({})", condition.full);
                    rows.push(check(of, &constraint.name, &clause));
                }
            }
            for (name, column) in not_null(system) {
                rows.push(check(of, &name, &format!("{column} IS NOT NULL")));
            }
            rows
        }
        "key_column_usage" => key_columns(of, system),
        "constraint_column_usage" => constraint_columns(of, system),
        "constraint_table_usage" => {
            let keys = objects
                .constraints
                .iter()
                .filter(|c| !matches!(c.kind, ConstraintKind::Check(_)));
            keys.map(|constraint| {
                let table = match &constraint.kind {
                    ConstraintKind::ForeignKey(key) => key.parent,
                    _ => constraint.table,
                };
                let mut given = named("table", name_of(system, table)).to_vec();
                given.extend(named("constraint", &constraint.name));
                row(of, given)
            })
            .collect()
        }
        "referential_constraints" => {
            let keys = objects
                .constraints
                .iter()
                .filter_map(|constraint| match &constraint.kind {
                    ConstraintKind::ForeignKey(key) => Some((constraint, key)),
                    _ => None,
                });
            keys.map(|(constraint, key)| {
                let mut given = named("constraint", &constraint.name).to_vec();
                if let Some(name) = &key.key_name {
                    given.extend(named("unique_constraint", name));
                }
                given.extend([
                    ("match_option", "NONE".into()),
                    ("update_rule", key.on_update.words().into()),
                    ("delete_rule", key.on_delete.words().into()),
                ]);
                row(of, given)
            })
            .collect()
        }
        "sequences" => objects
            .sequences
            .iter()
            // PostgreSQL does not list those of identity columns.
            .filter(|sequence| !sequence.is_identity)
            .map(|sequence| {
                let sequence = &sequence.sequence;
                let options = &sequence.options;
                let mut given = named("sequence", &sequence.name).to_vec();
                given.extend([
                    ("data_type", options.data_type.to_string().into()),
                    ("numeric_precision", precision(&options.data_type).into()),
                    ("numeric_precision_radix", 2.into()),
                    ("numeric_scale", 0.into()),
                    ("start_value", options.start.to_string().into()),
                    ("minimum_value", options.minimum.to_string().into()),
                    ("maximum_value", options.maximum.to_string().into()),
                    ("increment", options.increment.to_string().into()),
                    (
                        "cycle_option",
                        if options.cycles { "YES" } else { "NO" }.into(),
                    ),
                ]);
                row(of, given)
            })
            .collect(),
        "routines" => objects
            .procedures
            .iter()
            .map(|procedure| routine(of, procedure, system))
            .collect(),
        "parameters" => objects
            .procedures
            .iter()
            .flat_map(|procedure| parameters(of, procedure))
            .collect(),
        "triggers" => triggers(of, system),
        _ => Vec::new(),
    }
}

/// The three columns that name an object of the schema `public`.
fn named(prefix: &'static str, name: &str) -> [(&'static str, Cell); 3] {
    let columns = match prefix {
        "table" => ["table_catalog", "table_schema", "table_name"],
        "constraint" => ["constraint_catalog", "constraint_schema", "constraint_name"],
        "sequence" => ["sequence_catalog", "sequence_schema", "sequence_name"],
        "specific" => ["specific_catalog", "specific_schema", "specific_name"],
        "routine" => ["routine_catalog", "routine_schema", "routine_name"],
        _ => [
            "unique_constraint_catalog",
            "unique_constraint_schema",
            "unique_constraint_name",
        ],
    };
    let [catalog, schema, object] = columns;
    [
        (catalog, DATABASE),
        (schema, "public".into()),
        (object, name.into()),
    ]
}

fn yes(truth: bool) -> Cell {
    if truth { "YES" } else { "NO" }.into()
}

fn name_of(system: &System, oid: u32) -> &str {
    let relation = system.objects.relations.iter().find(|of| of.oid == oid);
    relation.map_or("", |relation| &relation.name)
}

/// The tables and views of the application.
fn readable(system: &System) -> impl Iterator<Item = &Relation> {
    let relations = system.objects.relations.iter();
    relations.filter(|of| matches!(of.kind, RelationKind::Table | RelationKind::View))
}

fn tables(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let table = |schema: &'static str, name: &str, is_view: bool, is_written: bool| {
        row(
            of,
            vec![
                ("table_catalog", DATABASE),
                ("table_schema", schema.into()),
                ("table_name", name.into()),
                (
                    "table_type",
                    if is_view { "VIEW" } else { "BASE TABLE" }.into(),
                ),
                ("is_insertable_into", yes(is_written)),
                ("is_typed", yes(false)),
            ],
        )
    };
    let own = readable(system).map(|of| {
        let is_view = of.kind == RelationKind::View;
        table("public", &of.name, is_view, !is_view)
    });
    let others = definitions()
        .iter()
        .map(|of| table(of.schema, of.name, of.is_view, false));
    own.chain(others).collect()
}

fn columns(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for relation in readable(system) {
        for (column, place) in relation.columns.iter().zip(1i64..) {
            let is_view = relation.kind == RelationKind::View;
            rows.push(self::column(
                of,
                ("public", &relation.name),
                column,
                place,
                !is_view,
            ));
        }
    }
    for own in definitions() {
        for (column, place) in own.columns.iter().zip(1i64..) {
            let described = Column {
                not_null: !column.nullable,
                ..Column::plain(column.name, column.data_type.clone())
            };
            rows.push(self::column(
                of,
                (own.schema, own.name),
                &described,
                place,
                false,
            ));
        }
    }
    rows
}

fn column(
    of: &Definition,
    (schema, table): (&'static str, &str),
    column: &Column,
    place: i64,
    is_written: bool,
) -> Vec<Cell> {
    let default = column.default.as_ref();
    let default = default.map(|default| default.text.full.as_str());
    let mut given = vec![
        ("table_catalog", DATABASE),
        ("table_schema", schema.into()),
        ("table_name", table.into()),
        ("column_name", column.name.as_str().into()),
        ("ordinal_position", place.into()),
        (
            "column_default",
            default.filter(|_| column.generated.is_none()).into(),
        ),
        ("is_nullable", yes(!column.not_null)),
        ("dtd_identifier", place.to_string().into()),
        ("is_self_referencing", yes(false)),
        ("is_identity", yes(!column.identity.is_empty())),
        ("identity_cycle", yes(false)),
        (
            "is_generated",
            match column.generated {
                Some(_) => "ALWAYS".into(),
                None => "NEVER".into(),
            },
        ),
        (
            "generation_expression",
            default.filter(|_| column.generated.is_some()).into(),
        ),
        ("is_updatable", yes(is_written)),
    ];
    if !column.identity.is_empty() {
        let maximum = match column.data_type {
            DataType::Int2 => i16::MAX.into(),
            DataType::Int4 => i32::MAX.into(),
            _ => i64::MAX,
        };
        let generation = if column.identity == "a" {
            "ALWAYS"
        } else {
            "BY DEFAULT"
        };
        given.extend([
            ("identity_generation", generation.into()),
            ("identity_start", "1".into()),
            ("identity_increment", "1".into()),
            ("identity_maximum", maximum.to_string().into()),
            ("identity_minimum", "1".into()),
        ]);
    }
    given.extend(described(&column.data_type));
    row(of, given)
}

/// The columns that describe a type.
fn described(data_type: &DataType) -> Vec<(&'static str, Cell)> {
    let is_array = matches!(data_type, DataType::Array(_));
    let scalar = data_type.element().unwrap_or(data_type);
    if let Some(of) = scalar.as_enum() {
        return own_type(of, is_array, "").into();
    }
    let oid = type_oid(data_type);
    let shown = match data_type {
        DataType::Array(_) => "ARRAY".to_owned(),
        _ => type_text(oid, None),
    };
    let udt = base_type_of(oid).map_or("", |base| base.name);
    let mut given = vec![
        ("data_type", shown.into()),
        ("udt_catalog", DATABASE),
        ("udt_schema", "pg_catalog".into()),
        ("udt_name", udt.into()),
    ];
    /// The bytes that PostgreSQL counts for a character.
    const CHARACTER_BYTES: i64 = 4;
    match data_type {
        DataType::Varchar(Some(length)) | DataType::Char(length) => {
            let length = i64::from(*length);
            given.push(("character_maximum_length", length.into()));
            given.push(("character_octet_length", (length * CHARACTER_BYTES).into()));
        }
        // PostgreSQL's limit of a value.
        DataType::Text | DataType::Varchar(None) => {
            given.push(("character_octet_length", (1i64 << 30).into()));
        }
        DataType::Numeric(bounds) => {
            given.push(("numeric_precision_radix", 10.into()));
            if let Some(bounds) = bounds {
                given.push(("numeric_precision", i64::from(bounds.precision).into()));
                given.push(("numeric_scale", i64::from(bounds.scale).into()));
            }
        }
        DataType::Timestamp | DataType::TimestampTz => given.push(("datetime_precision", 6.into())),
        DataType::Date => given.push(("datetime_precision", 0.into())),
        _ => {
            if let Some(bits) = precision(data_type) {
                given.push(("numeric_precision", bits.into()));
                given.push(("numeric_precision_radix", 2.into()));
                if data_type.is_integer() {
                    given.push(("numeric_scale", 0.into()));
                }
            }
        }
    }
    given
}

/// The columns that name an enumeration or its arrays, with `prefix` before their names.
fn own_type(of: &EnumType, is_array: bool, prefix: &str) -> [(&'static str, Cell); 4] {
    let (shown, name) = match is_array {
        true => ("ARRAY", format!("_{}", of.name)),
        false => ("USER-DEFINED", of.name.clone()),
    };
    let [catalog, schema, udt] = match prefix {
        "" => ["udt_catalog", "udt_schema", "udt_name"],
        _ => ["type_udt_catalog", "type_udt_schema", "type_udt_name"],
    };
    [
        ("data_type", shown.into()),
        (catalog, DATABASE),
        (schema, "public".into()),
        (udt, name.into()),
    ]
}

/// The bits of a number.
fn precision(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Int2 => Some(16),
        DataType::Int4 => Some(32),
        DataType::Int8 => Some(64),
        DataType::Real => Some(24),
        DataType::Double => Some(53),
        _ => None,
    }
}

fn view(of: &Definition, view: &Relation) -> Vec<Cell> {
    let mut given = named("table", &view.name).to_vec();
    given.extend([
        ("view_definition", view.definition.as_deref().into()),
        ("check_option", "NONE".into()),
        ("is_updatable", yes(false)),
        ("is_insertable_into", yes(false)),
        ("is_trigger_updatable", yes(false)),
        ("is_trigger_deletable", yes(false)),
        ("is_trigger_insertable_into", yes(false)),
    ]);
    row(of, given)
}

/// The triggers, a row for each event of one. Those of a table and an event are numbered in the order in which they fire.
fn triggers(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let all = &system.objects.triggers;
    let mut rows = Vec::new();
    for (event, is_insert) in [("INSERT", true), ("UPDATE", false)] {
        let fires = |of: &Trigger| {
            if is_insert {
                of.on_insert
            } else {
                of.on_update
            }
        };
        for trigger in all.iter().filter(|of| fires(of)) {
            let is_before =
                |of: &&Trigger| of.table == trigger.table && fires(of) && of.name < trigger.name;
            let before = all.iter().filter(is_before).count() as i64;
            let condition = trigger.condition.as_ref().map(|of| of.full.as_str());
            rows.push(row(
                of,
                vec![
                    ("trigger_catalog", DATABASE),
                    ("trigger_schema", "public".into()),
                    ("trigger_name", trigger.name.as_str().into()),
                    ("event_manipulation", event.into()),
                    ("event_object_catalog", DATABASE),
                    ("event_object_schema", "public".into()),
                    ("event_object_table", trigger.table_name.as_str().into()),
                    ("action_order", (before + 1).into()),
                    ("action_condition", condition.into()),
                    ("action_statement", trigger.action().into()),
                    ("action_orientation", "ROW".into()),
                    ("action_timing", "BEFORE".into()),
                ],
            ));
        }
    }
    rows
}

fn check(of: &Definition, name: &str, condition: &str) -> Vec<Cell> {
    let mut given = named("constraint", name).to_vec();
    given.push(("check_clause", condition.into()));
    row(of, given)
}

/// NOT NULL as constraints, which PostgreSQL names by schema, table and column; and the column's name.
fn not_null(system: &System) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for table in system
        .objects
        .relations
        .iter()
        .filter(|of| of.kind == RelationKind::Table)
    {
        for (column, place) in table
            .columns
            .iter()
            .zip(1..)
            .filter(|(column, _)| column.not_null)
        {
            found.push((
                format!("{PUBLIC}_{}_{place}_not_null", table.oid),
                column.name.as_str(),
            ));
        }
    }
    found
}

fn table_constraints(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let constraint = |table: &str, name: &str, kind: &'static str, deferrability: Deferrability| {
        let mut given = named("constraint", name).to_vec();
        given.extend(named("table", table));
        given.extend([
            ("constraint_type", kind.into()),
            ("is_deferrable", yes(deferrability.is_deferrable())),
            (
                "initially_deferred",
                yes(deferrability.is_initially_deferred()),
            ),
            ("enforced", yes(true)),
        ]);
        if kind == "UNIQUE" {
            given.push(("nulls_distinct", yes(true)));
        }
        row(of, given)
    };
    let mut rows = Vec::new();
    for declared in &system.objects.constraints {
        let (kind, deferrability) = match &declared.kind {
            ConstraintKind::Check(_) => ("CHECK", Deferrability::default()),
            ConstraintKind::ForeignKey(key) => ("FOREIGN KEY", key.deferrability),
            ConstraintKind::PrimaryKey(_) => ("PRIMARY KEY", Deferrability::default()),
            ConstraintKind::Unique(_) => ("UNIQUE", Deferrability::default()),
        };
        rows.push(constraint(
            name_of(system, declared.table),
            &declared.name,
            kind,
            deferrability,
        ));
    }
    for table in system
        .objects
        .relations
        .iter()
        .filter(|of| of.kind == RelationKind::Table)
    {
        for (_, place) in table
            .columns
            .iter()
            .zip(1..)
            .filter(|(column, _)| column.not_null)
        {
            let name = format!("{PUBLIC}_{}_{place}_not_null", table.oid);
            let deferrability = Deferrability::default();
            rows.push(constraint(&table.name, &name, "CHECK", deferrability));
        }
    }
    rows
}

/// The names of a relation's columns at these places.
fn column_names<'s>(system: &'s System, relation: u32, places: &[i64]) -> Vec<&'s str> {
    let relation = system
        .objects
        .relations
        .iter()
        .find(|of| of.oid == relation);
    let name = |place: &i64| {
        let at = usize::try_from(place - 1).ok()?;
        Some(relation?.columns.get(at)?.name.as_str())
    };
    places.iter().filter_map(name).collect()
}

fn key_columns(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for constraint in &system.objects.constraints {
        if let ConstraintKind::Check(_) = constraint.kind {
            continue;
        }
        let names = column_names(system, constraint.table, &constraint.columns);
        for (at, column) in names.into_iter().enumerate() {
            let mut given = named("constraint", &constraint.name).to_vec();
            given.extend(named("table", name_of(system, constraint.table)));
            given.push(("column_name", column.into()));
            given.push(("ordinal_position", (at as i64 + 1).into()));
            given.push((
                "position_in_unique_constraint",
                parent_place(constraint, system, at).into(),
            ));
            rows.push(row(of, given));
        }
    }
    rows
}

/// The place of a foreign key's referenced column in the referenced key.
fn parent_place(constraint: &Constraint, system: &System, at: usize) -> Option<i64> {
    let ConstraintKind::ForeignKey(key) = &constraint.kind else {
        return None;
    };
    let index = system
        .objects
        .indexes
        .iter()
        .find(|index| index.oid == key.index)?;
    let column = key.parent_columns.get(at)?;
    let place = index
        .columns
        .iter()
        .position(|(place, ..)| place == column)?;
    Some(place as i64 + 1)
}

fn constraint_columns(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for constraint in &system.objects.constraints {
        let (table, columns) = match &constraint.kind {
            ConstraintKind::ForeignKey(key) => (key.parent, &key.parent_columns),
            _ => (constraint.table, &constraint.columns),
        };
        for column in column_names(system, table, columns) {
            let mut given = named("table", name_of(system, table)).to_vec();
            given.push(("column_name", column.into()));
            given.extend(named("constraint", &constraint.name));
            rows.push(row(of, given));
        }
    }
    rows
}

/// The name that tells overloaded routines apart.
fn specific(procedure: &Procedure) -> String {
    format!("{}_{}", procedure.name, procedure.oid)
}

fn routine(of: &Definition, procedure: &Procedure, system: &System) -> Vec<Cell> {
    let mut given = named("specific", &specific(procedure)).to_vec();
    given.extend(named("routine", &procedure.name));
    let kind = if procedure.is_function {
        "FUNCTION"
    } else {
        "PROCEDURE"
    };
    given.extend([
        ("routine_type", kind.into()),
        (
            "routine_body",
            if procedure.language == "sql" {
                "SQL"
            } else {
                "EXTERNAL"
            }
            .into(),
        ),
        ("routine_definition", procedure.body.as_str().into()),
        (
            "external_language",
            procedure.language.to_uppercase().into(),
        ),
        ("parameter_style", "GENERAL".into()),
        ("is_deterministic", yes(false)),
        ("sql_data_access", "MODIFIES".into()),
        ("schema_level_routine", yes(true)),
        ("security_type", "INVOKER".into()),
    ]);
    if procedure.is_function
        && let Some((own, is_array)) = system.own_type(procedure.result)
    {
        given.extend(own_type(own, is_array, "type_"));
        given.extend([("dtd_identifier", "0".into()), ("is_null_call", yes(false))]);
    }
    if procedure.is_function
        && let Some(base) = base_type_of(procedure.result)
    {
        let shown = match base.category {
            "A" => "ARRAY".to_owned(),
            _ => type_text(base.oid, None),
        };
        given.extend([
            ("data_type", shown.into()),
            ("type_udt_catalog", DATABASE),
            ("type_udt_schema", "pg_catalog".into()),
            ("type_udt_name", base.name.into()),
            ("dtd_identifier", "0".into()),
            ("is_null_call", yes(false)),
        ]);
    }
    row(of, given)
}

fn parameters(of: &Definition, procedure: &Procedure) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (parameter, place) in procedure.parameters.iter().zip(1i64..) {
        let mode = match parameter.mode {
            "i" => "IN",
            "b" => "INOUT",
            _ => "OUT",
        };
        let mut given = named("specific", &specific(procedure)).to_vec();
        let name = Some(parameter.name.as_str()).filter(|name| !name.is_empty());
        given.extend([
            ("ordinal_position", place.into()),
            ("parameter_mode", mode.into()),
            ("is_result", yes(false)),
            ("as_locator", yes(false)),
            ("parameter_name", name.into()),
            ("dtd_identifier", place.to_string().into()),
            ("parameter_default", parameter.default.as_deref().into()),
        ]);
        // The lengths of parameters are not kept.
        let of_type = described(&parameter.data_type).into_iter();
        given.extend(of_type.filter(|(name, _)| {
            ["data_type", "udt_catalog", "udt_schema", "udt_name"].contains(name)
        }));
        rows.push(row(of, given));
    }
    rows
}

#[cfg(test)]
mod tests {
    use anabranch_types::Value;

    use super::*;

    #[test]
    fn a_type_is_described_by_its_bounds() {
        let given = described(&DataType::Varchar(Some(20)));
        let of = |name: &str| {
            given
                .iter()
                .find(|(column, _)| *column == name)
                .map(|(_, cell)| cell.clone())
        };
        assert_eq!(of("data_type"), Some("character varying".into()));
        assert_eq!(of("udt_name"), Some("varchar".into()));
        assert_eq!(
            of("character_octet_length"),
            Some(Cell::Value(Value::Int(80)))
        );
    }
}
