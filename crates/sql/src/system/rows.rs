//! The rows of `pg_catalog`.
//!
//! A relation without rows here has none: there are no policies, publications, partitions, extensions or comments. What a row leaves out has the value that stands for nothing: NULL where the column may be NULL, otherwise
//! 0, false or an empty text.

use std::sync::Arc;

use anabranch_types::{DataType, EnumType, Value};

use super::{
    Cell, SessionCell, System,
    names::quoted,
    objects::{
        Column, Constraint, ConstraintKind, INFORMATION_SCHEMA, Index, OWNER, PG_CATALOG, PUBLIC,
        Procedure, Relation, RelationKind, Sequence, Trigger, Written,
    },
    relations::{Definition, definitions, schema_of},
    types::{
        ENUM_FUNCTIONS, ENUM_STORAGE, base_type_of, base_types, storage_of, type_functions,
        type_modifier, type_oid,
    },
};

/// The OIDs of catalogs that `pg_depend` refers to.
const PG_CLASS: u32 = 1_259;
const PG_CONSTRAINT: u32 = 2_606;
const PG_ATTRDEF: u32 = 2_604;
/// The access methods of tables and of indexes.
const HEAP: u32 = 2;
const BTREE: u32 = 403;
/// The collation of the database, and that of `name`.
const DEFAULT_COLLATION: u32 = 100;
/// The encoding UTF8.
const UTF8: i64 = 6;
/// The tablespace of everything.
const TABLESPACE: u32 = 1_663;

/// The rows of a relation.
pub(super) fn rows(of: &'static Definition, system: &System) -> Vec<Vec<Cell>> {
    let objects = &system.objects;
    match of.name {
        "pg_am" => [(HEAP, "heap", "t"), (BTREE, "btree", "i")]
            .map(|(oid, name, kind)| {
                row(
                    of,
                    vec![
                        ("oid", oid.into()),
                        ("amname", name.into()),
                        ("amtype", kind.into()),
                    ],
                )
            })
            .into(),
        "pg_attrdef" => defaults(of, system),
        "pg_attribute" => attributes(of, system),
        "pg_authid" | "pg_roles" | "pg_user" => vec![owner(of)],
        "pg_class" => classes(of, system),
        "pg_collation" => collations(of),
        "pg_constraint" => objects
            .constraints
            .iter()
            .map(|c| constraint(of, c))
            .collect(),
        "pg_database" => vec![database(of)],
        "pg_depend" => dependencies(of, system),
        "pg_index" => objects
            .indexes
            .iter()
            .map(|of_table| index(of, of_table))
            .collect(),
        "pg_indexes" => {
            let indexes = objects.indexes.iter();
            indexes
                .map(|index| {
                    row(
                        of,
                        vec![
                            ("schemaname", "public".into()),
                            ("tablename", index.table_name.as_str().into()),
                            ("indexname", index.name.as_str().into()),
                            ("indexdef", index.text(None, false).into()),
                        ],
                    )
                })
                .collect()
        }
        "pg_language" => [(14u32, "sql", false), (13_563, "plpgsql", true)]
            .map(|(oid, name, is_procedural)| {
                row(
                    of,
                    vec![
                        ("oid", oid.into()),
                        ("lanname", name.into()),
                        ("lanowner", OWNER.into()),
                        ("lanispl", is_procedural.into()),
                        ("lanpltrusted", true.into()),
                    ],
                )
            })
            .into(),
        "pg_namespace" => [
            (PG_CATALOG, "pg_catalog"),
            (PUBLIC, "public"),
            (INFORMATION_SCHEMA, "information_schema"),
        ]
        .map(|(oid, name)| {
            row(
                of,
                vec![
                    ("oid", oid.into()),
                    ("nspname", name.into()),
                    ("nspowner", OWNER.into()),
                ],
            )
        })
        .into(),
        "pg_proc" => procedures(of, system),
        "pg_sequence" => objects
            .sequences
            .iter()
            .map(|sequence| {
                row(
                    of,
                    vec![
                        ("seqrelid", sequence.oid.into()),
                        (
                            "seqtypid",
                            type_oid(&sequence.sequence.options.data_type).into(),
                        ),
                        ("seqstart", sequence.sequence.options.start.into()),
                        ("seqincrement", sequence.sequence.options.increment.into()),
                        ("seqmax", sequence.sequence.options.maximum.into()),
                        ("seqmin", sequence.sequence.options.minimum.into()),
                        ("seqcache", sequence.sequence.options.cache.into()),
                        ("seqcycle", sequence.sequence.options.cycles.into()),
                    ],
                )
            })
            .collect(),
        "pg_sequences" => objects
            .sequences
            .iter()
            .map(|Sequence { sequence, .. }| {
                let options = &sequence.options;
                row(
                    of,
                    vec![
                        ("schemaname", "public".into()),
                        ("sequencename", (&*sequence.name).into()),
                        ("sequenceowner", Cell::Session(SessionCell::User)),
                        ("data_type", type_oid(&options.data_type).into()),
                        ("start_value", options.start.into()),
                        ("min_value", options.minimum.into()),
                        ("max_value", options.maximum.into()),
                        ("increment_by", options.increment.into()),
                        ("cycle", options.cycles.into()),
                        ("cache_size", options.cache.into()),
                        ("last_value", Cell::LastCalled(Arc::clone(sequence))),
                    ],
                )
            })
            .collect(),
        "pg_settings" => settings(of),
        "pg_tables" => tables(of, system),
        "pg_tablespace" => vec![row(
            of,
            vec![
                ("oid", TABLESPACE.into()),
                ("spcname", "pg_default".into()),
                ("spcowner", OWNER.into()),
            ],
        )],
        "pg_enum" => labels(of, system),
        "pg_trigger" => objects.triggers.iter().map(|t| trigger(of, t)).collect(),
        "pg_type" => types(of, system),
        "pg_views" => {
            let views = objects
                .relations
                .iter()
                .filter(|of| of.kind == RelationKind::View);
            views
                .map(|view| {
                    row(
                        of,
                        vec![
                            ("schemaname", "public".into()),
                            ("viewname", view.name.as_str().into()),
                            ("viewowner", Cell::Session(SessionCell::User)),
                            ("definition", view.definition.as_deref().into()),
                        ],
                    )
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A row with these values, and nothing in the other columns.
pub(super) fn row(of: &Definition, given: Vec<(&'static str, Cell)>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = of
        .columns
        .iter()
        .map(|column| {
            Cell::Value(match &column.data_type {
                _ if column.nullable => Value::Null,
                DataType::Bool => Value::Bool(false),
                DataType::Real => Value::Float(0.0),
                of if of.element().is_some() => Value::Array([].into()),
                of if of.is_text() => Value::text(""),
                _ => Value::Int(0),
            })
        })
        .collect();
    for (name, cell) in given {
        cells[of.place(name)] = cell;
    }
    cells
}

impl From<bool> for Cell {
    fn from(truth: bool) -> Cell {
        Cell::Value(Value::Bool(truth))
    }
}

impl From<i32> for Cell {
    fn from(int: i32) -> Cell {
        Cell::Value(Value::Int(int.into()))
    }
}

impl From<i64> for Cell {
    fn from(int: i64) -> Cell {
        Cell::Value(Value::Int(int))
    }
}

impl From<u32> for Cell {
    fn from(oid: u32) -> Cell {
        Cell::Value(Value::Int(oid.into()))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Value(Value::text(text))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Value(Value::text(text))
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Value(Value::Null), Into::into)
    }
}

/// An array.
pub(super) fn array<T>(elements: impl IntoIterator<Item = T>, of: impl Fn(T) -> Value) -> Cell {
    Cell::Value(Value::Array(elements.into_iter().map(of).collect()))
}

fn classes(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let objects = &system.objects;
    let mut rows = Vec::new();
    for relation in &objects.relations {
        let oid = relation.oid;
        let is = |kind: RelationKind| relation.kind == kind;
        let checks = objects
            .constraints
            .iter()
            .filter(|c| c.table == oid && matches!(c.kind, ConstraintKind::Check(_)));
        let am = match relation.kind {
            RelationKind::Table => HEAP,
            RelationKind::Index => BTREE,
            RelationKind::View | RelationKind::Sequence => 0,
        };
        rows.push(row(
            of,
            vec![
                ("oid", oid.into()),
                ("relname", relation.name.as_str().into()),
                ("relnamespace", relation.schema.into()),
                ("relowner", OWNER.into()),
                ("relam", am.into()),
                (
                    "relfilenode",
                    if is(RelationKind::View) { 0 } else { oid }.into(),
                ),
                ("reltuples", Cell::Value(Value::Float(-1.0))),
                (
                    "relhasindex",
                    objects
                        .indexes
                        .iter()
                        .any(|index| index.table == oid)
                        .into(),
                ),
                ("relpersistence", "p".into()),
                ("relkind", relation.kind.letter().into()),
                ("relnatts", (relation.columns.len() as i64).into()),
                ("relchecks", (checks.count() as i64).into()),
                ("relhasrules", is(RelationKind::View).into()),
                ("relhastriggers", objects.has_triggers(oid).into()),
                ("relispopulated", true.into()),
                (
                    "relreplident",
                    if is(RelationKind::Table) { "d" } else { "n" }.into(),
                ),
            ],
        ));
    }
    for own in definitions() {
        rows.push(row(
            of,
            vec![
                ("oid", own.oid.into()),
                ("relname", own.name.into()),
                ("relnamespace", schema_of(own).into()),
                ("relowner", OWNER.into()),
                ("relam", if own.is_view { 0 } else { HEAP }.into()),
                ("reltuples", Cell::Value(Value::Float(-1.0))),
                ("relpersistence", "p".into()),
                ("relkind", if own.is_view { "v" } else { "r" }.into()),
                ("relnatts", (own.columns.len() as i64).into()),
                ("relhasrules", own.is_view.into()),
                ("relispopulated", true.into()),
                ("relreplident", "n".into()),
            ],
        ));
    }
    rows
}

fn attributes(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for relation in &system.objects.relations {
        for (column, place) in relation.columns.iter().zip(1i64..) {
            rows.push(attribute(
                of,
                relation.oid,
                column,
                place,
                relation.kind == RelationKind::Table,
            ));
        }
    }
    for own in definitions() {
        for (column, place) in own.columns.iter().zip(1i64..) {
            let described = Column {
                not_null: !column.nullable,
                ..Column::plain(column.name, column.data_type.clone())
            };
            rows.push(attribute(of, own.oid, &described, place, false));
        }
    }
    rows
}

fn attribute(
    of: &Definition,
    relation: u32,
    column: &Column,
    place: i64,
    is_local: bool,
) -> Vec<Cell> {
    let oid = type_oid(&column.data_type);
    let (length, by_value, alignment, storage, collation) = storage_of(&column.data_type);
    row(
        of,
        vec![
            ("attrelid", relation.into()),
            ("attname", column.name.as_str().into()),
            ("atttypid", oid.into()),
            ("attstattarget", (-1).into()),
            ("attlen", i64::from(length).into()),
            ("attnum", place.into()),
            (
                "attndims",
                i64::from(matches!(column.data_type, DataType::Array(_))).into(),
            ),
            ("attcacheoff", (-1).into()),
            (
                "atttypmod",
                i64::from(type_modifier(&column.data_type)).into(),
            ),
            ("attbyval", by_value.into()),
            ("attalign", alignment.into()),
            ("attstorage", storage.into()),
            ("attnotnull", column.not_null.into()),
            ("atthasdef", column.default.is_some().into()),
            ("attidentity", column.identity.into()),
            (
                "attgenerated",
                if column.generated.is_some() { "s" } else { "" }.into(),
            ),
            ("attislocal", (is_local || relation != 0).into()),
            ("attcollation", collation.into()),
        ],
    )
}

fn defaults(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for relation in &system.objects.relations {
        for (column, place) in relation.columns.iter().zip(1i64..) {
            if let Some(default) = &column.default {
                rows.push(row(
                    of,
                    vec![
                        ("oid", default.oid.into()),
                        ("adrelid", relation.oid.into()),
                        ("adnum", place.into()),
                        ("adbin", default.text.full.as_str().into()),
                    ],
                ));
            }
        }
    }
    rows
}

fn constraint(of: &Definition, constraint: &Constraint) -> Vec<Cell> {
    let places = |places: &[i64]| array(places.iter().copied(), Value::Int);
    let mut given = vec![
        ("oid", constraint.oid.into()),
        ("conname", constraint.name.as_str().into()),
        ("connamespace", PUBLIC.into()),
        ("contype", constraint.kind.letter().into()),
        ("convalidated", true.into()),
        ("conrelid", constraint.table.into()),
        ("confupdtype", " ".into()),
        ("confdeltype", " ".into()),
        ("confmatchtype", " ".into()),
        ("conislocal", true.into()),
        (
            "connoinherit",
            (!matches!(constraint.kind, ConstraintKind::Check(_))).into(),
        ),
        ("conkey", places(&constraint.columns)),
    ];
    match &constraint.kind {
        ConstraintKind::Check(condition) => given.push(("conbin", condition.full.as_str().into())),
        ConstraintKind::PrimaryKey(index) | ConstraintKind::Unique(index) => {
            given.push(("conindid", (*index).into()));
        }
        ConstraintKind::ForeignKey(key) => given.extend([
            ("condeferrable", key.deferrability.is_deferrable().into()),
            (
                "condeferred",
                key.deferrability.is_initially_deferred().into(),
            ),
            ("conindid", key.index.into()),
            ("confrelid", key.parent.into()),
            ("confupdtype", key.on_update.letter().into()),
            ("confdeltype", key.on_delete.letter().into()),
            ("confmatchtype", "s".into()),
            ("confkey", places(&key.parent_columns)),
        ]),
    }
    row(of, given)
}

fn index(of: &Definition, index: &Index) -> Vec<Cell> {
    let count = index.columns.len() as i64;
    let collation = |(_, _, data_type): &(i64, String, DataType)| {
        let base = base_type_of(type_oid(data_type));
        Value::Int(base.map_or(0, |base| base.collation).into())
    };
    row(
        of,
        vec![
            ("indexrelid", index.oid.into()),
            ("indrelid", index.table.into()),
            ("indnatts", count.into()),
            ("indnkeyatts", count.into()),
            ("indisunique", index.unique.into()),
            ("indisprimary", index.primary.into()),
            ("indimmediate", true.into()),
            ("indisvalid", true.into()),
            ("indisready", true.into()),
            ("indislive", true.into()),
            (
                "indkey",
                array(&index.columns, |(place, ..)| Value::Int(*place)),
            ),
            ("indcollation", array(&index.columns, collation)),
            ("indclass", array(&index.columns, |_| Value::Int(0))),
            ("indoption", array(&index.columns, |_| Value::Int(0))),
            (
                "indexprs",
                index.expressions.as_ref().map(|of| of.full.as_str()).into(),
            ),
            (
                "indpred",
                index.predicate.as_ref().map(|of| of.full.as_str()).into(),
            ),
        ],
    )
}

impl Index {
    /// Its declaration, or that of one of its parts: with the schema and all parentheses, or `pretty`.
    pub(crate) fn text(&self, part: Option<usize>, pretty: bool) -> String {
        let said = |written: &Written| match pretty {
            true => written.pretty.clone(),
            false => written.full.clone(),
        };
        if let Some(part) = part {
            return self.parts.get(part).map_or(String::new(), said);
        }
        let parts: Vec<String> = self.parts.iter().map(said).collect();
        let unique = if self.unique { "UNIQUE " } else { "" };
        let schema = if pretty { "" } else { "public." };
        let predicate = self.predicate.as_ref().map(said);
        let predicate = predicate.map_or(String::new(), |of| format!(" WHERE {of}"));
        format!(
            "CREATE {unique}INDEX {} ON {schema}{} USING btree ({}){predicate}",
            quoted(&self.name),
            quoted(&self.table_name),
            parts.join(", ")
        )
    }
}

fn trigger(of: &Definition, trigger: &Trigger) -> Vec<Cell> {
    // As PostgreSQL numbers them.
    const ROW: i64 = 1;
    const BEFORE: i64 = 2;
    const INSERT: i64 = 4;
    const UPDATE: i64 = 16;
    let event = |fires: bool, bit: i64| if fires { bit } else { 0 };
    let kind = ROW | BEFORE | event(trigger.on_insert, INSERT) | event(trigger.on_update, UPDATE);
    row(
        of,
        vec![
            ("oid", trigger.oid.into()),
            ("tgrelid", trigger.table.into()),
            ("tgname", trigger.name.as_str().into()),
            ("tgfoid", trigger.function.into()),
            ("tgtype", kind.into()),
            ("tgenabled", "O".into()),
            (
                "tgattr",
                array(&trigger.columns, |(place, _)| Value::Int(*place)),
            ),
            ("tgargs", Cell::Value(Value::Bytes([].into()))),
            (
                "tgqual",
                trigger.condition.as_ref().map(|of| of.full.as_str()).into(),
            ),
        ],
    )
}

impl Trigger {
    /// Its declaration: with the schema and all parentheses, or `pretty`.
    pub(crate) fn text(&self, pretty: bool) -> String {
        let mut events = Vec::new();
        if self.on_insert {
            events.push("INSERT".to_owned());
        }
        if self.on_update {
            let columns = self.columns.iter().map(|(_, name)| quoted(name));
            let columns: Vec<String> = columns.collect();
            events.push(match columns.is_empty() {
                true => "UPDATE".to_owned(),
                false => format!("UPDATE OF {}", columns.join(", ")),
            });
        }
        let condition = match &self.condition {
            Some(of) if pretty => format!(" WHEN ({})", of.pretty),
            Some(of) => format!(" WHEN ({})", of.full),
            None => String::new(),
        };
        let schema = if pretty { "" } else { "public." };
        format!(
            "CREATE TRIGGER {} BEFORE {} ON {schema}{} FOR EACH ROW{condition} {}",
            quoted(&self.name),
            events.join(" OR "),
            quoted(&self.table_name),
            self.action()
        )
    }

    /// What it executes.
    pub(crate) fn action(&self) -> String {
        format!("EXECUTE FUNCTION {}()", quoted(&self.function_name))
    }
}

fn dependencies(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let objects = &system.objects;
    let depends = |class: u32, object: u32, relation: u32, column: i64, kind: &'static str| {
        row(
            of,
            vec![
                ("classid", class.into()),
                ("objid", object.into()),
                ("refclassid", PG_CLASS.into()),
                ("refobjid", relation.into()),
                ("refobjsubid", column.into()),
                ("deptype", kind.into()),
            ],
        )
    };
    let mut rows = Vec::new();
    for sequence in &objects.sequences {
        let kind = if sequence.is_identity { "i" } else { "a" };
        if let Some(owner) = &sequence.owner {
            rows.push(depends(
                PG_CLASS,
                sequence.oid,
                owner.table,
                owner.column,
                kind,
            ));
        }
    }
    for relation in &objects.relations {
        for (column, place) in relation.columns.iter().zip(1i64..) {
            if let Some(default) = &column.default {
                let own = if column.generated.is_some() { "i" } else { "a" };
                rows.push(depends(PG_ATTRDEF, default.oid, relation.oid, place, own));
                for read in column.generated.iter().flatten() {
                    rows.push(depends(PG_ATTRDEF, default.oid, relation.oid, *read, "n"));
                }
            }
        }
    }
    for constraint in &objects.constraints {
        for column in &constraint.columns {
            rows.push(depends(
                PG_CONSTRAINT,
                constraint.oid,
                constraint.table,
                *column,
                "a",
            ));
        }
    }
    rows
}

fn owner(of: &Definition) -> Vec<Cell> {
    let prefix = if of.name == "pg_user" { "use" } else { "rol" };
    let values: Vec<(&'static str, Cell)> = match prefix {
        "use" => vec![
            ("usename", Cell::Session(SessionCell::User)),
            ("usesysid", OWNER.into()),
            ("usecreatedb", false.into()),
            ("usesuper", true.into()),
            ("userepl", false.into()),
            ("usebypassrls", true.into()),
        ],
        _ => vec![
            ("oid", OWNER.into()),
            ("rolname", Cell::Session(SessionCell::User)),
            ("rolsuper", true.into()),
            ("rolinherit", true.into()),
            ("rolcreaterole", false.into()),
            ("rolcreatedb", false.into()),
            ("rolcanlogin", true.into()),
            ("rolreplication", false.into()),
            ("rolbypassrls", true.into()),
            ("rolconnlimit", (-1).into()),
        ],
    };
    row(of, values)
}

fn database(of: &Definition) -> Vec<Cell> {
    /// As PostgreSQL numbers its first database.
    const DATABASE: u32 = 5;
    row(
        of,
        vec![
            ("oid", DATABASE.into()),
            ("datname", Cell::Session(SessionCell::Database)),
            ("datdba", OWNER.into()),
            ("encoding", UTF8.into()),
            ("datlocprovider", "c".into()),
            ("datallowconn", true.into()),
            ("datconnlimit", (-1).into()),
            ("dattablespace", TABLESPACE.into()),
            ("datcollate", "C".into()),
            ("datctype", "C".into()),
        ],
    )
}

fn collations(of: &Definition) -> Vec<Vec<Cell>> {
    [
        (DEFAULT_COLLATION, "default", "d", None),
        (950, "C", "c", Some("C")),
        (951, "POSIX", "c", Some("POSIX")),
    ]
    .map(|(oid, name, provider, locale)| {
        row(
            of,
            vec![
                ("oid", oid.into()),
                ("collname", name.into()),
                ("collnamespace", PG_CATALOG.into()),
                ("collowner", OWNER.into()),
                ("collprovider", provider.into()),
                ("collisdeterministic", true.into()),
                ("collencoding", (-1).into()),
                ("collcollate", locale.into()),
                ("collctype", locale.into()),
            ],
        )
    })
    .into()
}

fn procedures(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let own = system
        .objects
        .procedures
        .iter()
        .map(|procedure| self::procedure(of, procedure));
    // The functions of types, by name and number alone: nothing calls them.
    let others = type_functions().iter().map(|(oid, name)| {
        row(
            of,
            vec![
                ("oid", (*oid).into()),
                ("proname", (*name).into()),
                ("pronamespace", PG_CATALOG.into()),
                ("proowner", OWNER.into()),
                ("prokind", "f".into()),
                ("provolatile", "i".into()),
                ("proparallel", "s".into()),
                ("prosrc", (*name).into()),
            ],
        )
    });
    own.chain(others).collect()
}

fn procedure(of: &Definition, procedure: &Procedure) -> Vec<Cell> {
    let inputs: Vec<Value> = procedure
        .parameters
        .iter()
        .filter(|parameter| parameter.is_input())
        .map(|parameter| Value::Int(type_oid(&parameter.data_type).into()))
        .collect();
    let all = &procedure.parameters;
    let has_outputs = inputs.len() < all.len() || all.iter().any(|parameter| parameter.mode != "i");
    let mut given = vec![
        ("oid", procedure.oid.into()),
        ("proname", procedure.name.as_str().into()),
        ("pronamespace", PUBLIC.into()),
        ("proowner", OWNER.into()),
        (
            "prolang",
            if procedure.language == "sql" {
                14u32
            } else {
                13_563
            }
            .into(),
        ),
        ("procost", Cell::Value(Value::Float(100.0))),
        (
            "prorows",
            Cell::Value(Value::Float(if procedure.returns_set {
                1000.0
            } else {
                0.0
            })),
        ),
        (
            "prokind",
            if procedure.is_function { "f" } else { "p" }.into(),
        ),
        ("proisstrict", procedure.is_strict.into()),
        ("proretset", procedure.returns_set.into()),
        ("provolatile", "v".into()),
        ("proparallel", "u".into()),
        ("pronargs", (inputs.len() as i64).into()),
        (
            "pronargdefaults",
            (all.iter().filter(|p| p.default.is_some()).count() as i64).into(),
        ),
        ("prorettype", procedure.result.into()),
        ("proargtypes", Cell::Value(Value::Array(inputs.into()))),
        ("prosrc", procedure.body.as_str().into()),
    ];
    if has_outputs {
        given.push((
            "proallargtypes",
            array(all, |p| Value::Int(type_oid(&p.data_type).into())),
        ));
        given.push(("proargmodes", array(all, |p| Value::text(p.mode))));
    }
    if all.iter().any(|parameter| !parameter.name.is_empty()) {
        given.push(("proargnames", array(all, |p| Value::text(&p.name))));
    }
    row(of, given)
}

fn settings(of: &Definition) -> Vec<Vec<Cell>> {
    /// Those that tools look for here; `SHOW` knows more.
    const NAMES: [&str; 14] = [
        "application_name",
        "bytea_output",
        "client_encoding",
        "DateStyle",
        "extra_float_digits",
        "integer_datetimes",
        "IntervalStyle",
        "search_path",
        "server_encoding",
        "server_version",
        "server_version_num",
        "standard_conforming_strings",
        "statement_timeout",
        "TimeZone",
    ];
    let setting = |name: &'static str| {
        row(
            of,
            vec![
                ("name", name.into()),
                ("setting", Cell::Session(SessionCell::Setting(name))),
                ("pending_restart", false.into()),
            ],
        )
    };
    NAMES.map(setting).into()
}

fn tables(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let objects = &system.objects;
    let table = |schema: &'static str, name: &str, has_indexes: bool, has_triggers: bool| {
        row(
            of,
            vec![
                ("schemaname", schema.into()),
                ("tablename", name.into()),
                ("tableowner", Cell::Session(SessionCell::User)),
                ("hasindexes", has_indexes.into()),
                ("hasrules", false.into()),
                ("hastriggers", has_triggers.into()),
                ("rowsecurity", false.into()),
            ],
        )
    };
    let own = |relation: &Relation| {
        let oid = relation.oid;
        let has_triggers = objects.has_triggers(oid);
        let has_indexes = objects.indexes.iter().any(|index| index.table == oid);
        table("public", &relation.name, has_indexes, has_triggers)
    };
    let relations = objects
        .relations
        .iter()
        .filter(|of| of.kind == RelationKind::Table);
    let others = definitions().iter().filter(|of| !of.is_view);
    relations
        .map(own)
        .chain(others.map(|of| table(of.schema, of.name, false, false)))
        .collect()
}

/// The labels of enumerations.
fn labels(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for declared in &system.objects.types {
        for (place, label) in declared.labels.iter().enumerate() {
            rows.push(row(
                of,
                vec![
                    ("oid", declared.label_oid(place).into()),
                    ("enumtypid", declared.oid.into()),
                    (
                        "enumsortorder",
                        Cell::Value(Value::Float(place as f64 + 1.0)),
                    ),
                    ("enumlabel", label.as_str().into()),
                ],
            ));
        }
    }
    rows
}

/// The rows of an enumeration and of its arrays.
fn own_types(of: &Definition, declared: &EnumType) -> [Vec<Cell>; 2] {
    let (length, by_value, alignment, storage, _) = ENUM_STORAGE;
    let common = |functions: [u32; 5]| {
        let [input, output, receive, send, subscript] = functions;
        vec![
            ("typnamespace", PUBLIC.into()),
            ("typowner", OWNER.into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typsubscript", subscript.into()),
            ("typinput", input.into()),
            ("typoutput", output.into()),
            ("typreceive", receive.into()),
            ("typsend", send.into()),
            ("typtypmod", (-1).into()),
        ]
    };
    let mut own = common(ENUM_FUNCTIONS);
    own.extend([
        ("oid", declared.oid.into()),
        ("typname", declared.name.as_str().into()),
        ("typlen", i64::from(length).into()),
        ("typbyval", by_value.into()),
        ("typtype", "e".into()),
        ("typcategory", "E".into()),
        ("typarray", declared.array_oid().into()),
        ("typalign", alignment.into()),
        ("typstorage", storage.into()),
    ]);
    let mut arrays = common([750, 751, 2400, 2401, 6179]);
    arrays.extend([
        ("oid", declared.array_oid().into()),
        ("typname", format!("_{}", declared.name).into()),
        ("typlen", (-1).into()),
        ("typtype", "b".into()),
        ("typcategory", "A".into()),
        ("typelem", declared.oid.into()),
        ("typalign", "i".into()),
        ("typstorage", "x".into()),
    ]);
    [row(of, own), row(of, arrays)]
}

fn types(of: &Definition, system: &System) -> Vec<Vec<Cell>> {
    let rows = base_types().iter().map(|base| {
        let [input, output, receive, send, subscript] = base.functions;
        row(
            of,
            vec![
                ("oid", base.oid.into()),
                ("typname", base.name.into()),
                ("typnamespace", PG_CATALOG.into()),
                ("typowner", OWNER.into()),
                ("typlen", i64::from(base.length).into()),
                ("typbyval", base.by_value.into()),
                ("typtype", base.kind.into()),
                ("typcategory", base.category.into()),
                ("typispreferred", base.preferred.into()),
                ("typisdefined", true.into()),
                ("typdelim", ",".into()),
                ("typsubscript", subscript.into()),
                ("typelem", base.element.into()),
                ("typarray", base.array.into()),
                ("typinput", input.into()),
                ("typoutput", output.into()),
                ("typreceive", receive.into()),
                ("typsend", send.into()),
                ("typalign", base.alignment.into()),
                ("typstorage", base.storage.into()),
                ("typtypmod", (-1).into()),
                ("typcollation", base.collation.into()),
            ],
        )
    });
    let own = system.objects.types.iter();
    rows.chain(own.flat_map(|declared| own_types(of, declared)))
        .collect()
}
