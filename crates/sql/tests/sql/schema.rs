//! Constraint and index names as PostgreSQL 15 gives them: the expected names are those in its `pg_constraint` and
//! `pg_index` after the same file. `office_dumped.sql` is `pg_dump`'s output of it.

use std::{fs, path::Path};

use anabranch_sql::{
    Catalog, SourceFile,
    catalog::{ColumnDefault, ReferentialAction, describe},
    load, render,
};

fn catalog(name: &str) -> Catalog {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sql/schemas")
        .join(name);
    let file = SourceFile::new(name, fs::read_to_string(path).unwrap());
    load(vec![file.clone()]).unwrap_or_else(|errors| panic!("{}", render(&errors, &[file])))
}

/// Constraints and indexes with their columns, sorted.
fn constraints(catalog: &Catalog) -> Vec<String> {
    let mut lines = Vec::new();
    for table in &catalog.tables {
        let schema = catalog.schema.table(table.id);
        let names = |columns: &[anabranch_types::ColumnIndex],
                     of: &anabranch_types::TableSchema| {
            let names = columns
                .iter()
                .map(|column| of.columns[column.index()].name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let name = &table.name;
        if let Some(key) = &table.primary_key_name {
            lines.push(format!(
                "{name} {key} primary ({})",
                names(&schema.primary_key, schema)
            ));
        }
        for index in &schema.indexes {
            let kind = if index.unique { "unique" } else { "index" };
            lines.push(format!(
                "{name} {} {kind} ({})",
                index.name,
                names(&index.columns, schema)
            ));
        }
        for check in &table.checks {
            lines.push(format!("{name} {} check", check.name));
        }
        for key in &table.foreign_keys {
            let parent = catalog.schema.table(key.parent);
            lines.push(format!(
                "{name} {} ({}) {} ({}) delete {:?} update {:?}",
                key.name,
                names(&key.columns, schema),
                parent.name,
                names(&key.parent_columns, parent),
                key.on_delete,
                key.on_update,
            ));
        }
    }
    lines.sort();
    lines
}

#[test]
fn constraints_and_indexes_have_postgresqls_names() {
    assert_eq!(
        constraints(&catalog("office.sql")),
        [
            "department department_budget_check check",
            "department department_budget_check1 check",
            "department department_check check",
            "department department_floor_check check",
            "department department_floor_name_key unique (floor, name)",
            "department department_name_key unique (name)",
            "department department_pkey primary (id)",
            "employee by_boss index (boss, id)",
            "employee employee_badge_key unique (badge)",
            "employee employee_boss_fkey (boss) employee (id) delete SetNull update NoAction",
            "employee employee_department_fkey (department) department (id) delete Cascade update \
             SetNull",
            "employee employee_department_fkey1 (department) department (id) delete NoAction update \
             NoAction",
            "employee employee_pkey primary (id)",
            "employee employee_room_floor_idx unique (room, floor)",
            "employee employee_room_idx index (room)",
            "employee paid check",
            // Declared (dname, floor) REFERENCES (name, floor): in the order of the parent's key.
            "employee where_it_is (floor, dname) department (floor, name) delete NoAction update \
             NoAction",
        ]
    );
}

#[test]
fn columns_have_their_types_nullability_and_defaults() {
    let catalog = catalog("office.sql");
    let table = catalog.table_by_name("employee").unwrap();
    let shown: Vec<String> = catalog
        .schema
        .table(table.id)
        .columns
        .iter()
        .zip(&table.defaults)
        .map(|(column, default)| {
            let default = match default {
                ColumnDefault::Null => String::new(),
                ColumnDefault::Expression(tree, span) => {
                    format!(" = {tree} \"{}\"", catalog.files[0].slice(*span))
                }
                ColumnDefault::Generated { always, .. } => format!(" generated {always}"),
                ColumnDefault::Computed(tree, _) => format!(" computed {tree}"),
            };
            let nullable = if column.nullable { "" } else { " not null" };
            format!(
                "{} {}{nullable}{default}",
                column.name,
                describe(&column.data_type)
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "id bigint not null generated false",
            "department uuid",
            "room integer",
            "floor smallint",
            "badge bigint not null generated true",
            "hired timestamp with time zone = now() \"now()\"",
            "boss bigint",
            "dname character varying(40)",
        ]
    );
    assert_eq!(catalog.views[0].columns, ["id", "name"]);
    assert_eq!(catalog.schema.table(table.id).layout.columns(), 8);
}

#[test]
fn lookups_find_by_name() {
    let catalog = catalog("office.sql");
    let department = catalog.table_by_name("department").unwrap().id;
    assert!(
        catalog.table_by_name("Department").is_none(),
        "names are folded"
    );
    assert_eq!(
        catalog.column_by_name(department, "floor").unwrap().index(),
        2
    );
    let check = catalog
        .check_by_name(department, "department_check")
        .unwrap();
    assert_eq!(check.expression.to_string(), "closed > opened");
    assert_eq!(
        catalog.files[0].slice(check.span),
        "CHECK (closed > opened)"
    );
    assert!(catalog.view_by_name("heads").is_some());
    let actions: Vec<ReferentialAction> = catalog.tables[1]
        .foreign_keys
        .iter()
        .map(|key| key.on_delete)
        .collect();
    assert_eq!(actions[0], ReferentialAction::Cascade);
}

#[test]
fn the_output_of_pg_dump_loads_as_the_same_schema() {
    let (written, dumped) = (catalog("office.sql"), catalog("office_dumped.sql"));
    assert_eq!(constraints(&written), constraints(&dumped));
    for (left, right) in written.schema.tables.iter().zip(&dumped.schema.tables) {
        for (left, right) in left.columns.iter().zip(&right.columns) {
            assert_eq!(left.name, right.name);
            assert_eq!(left.data_type, right.data_type);
            assert_eq!(left.nullable, right.nullable, "{}", left.name);
        }
    }
    let generated = |catalog: &Catalog| -> Vec<bool> {
        let defaults = catalog.tables.iter().flat_map(|table| &table.defaults);
        defaults
            .map(|default| matches!(default, ColumnDefault::Generated { .. }))
            .collect()
    };
    assert_eq!(generated(&written), generated(&dumped));
}

#[test]
fn foreign_keys_may_point_forward_and_to_other_files() {
    let first = SourceFile::new(
        "a.sql",
        "CREATE TABLE child (p integer REFERENCES parent (id));",
    );
    let second = SourceFile::new("b.sql", "CREATE TABLE parent (id bigint PRIMARY KEY);");
    let catalog = load(vec![first, second]).unwrap();
    let key = &catalog.tables[0].foreign_keys[0];
    assert_eq!(key.parent.index(), 1);
    assert_eq!(key.span.file, 0);
    assert_eq!(catalog.tables[1].span.file, 1);
}

#[test]
fn problems_of_all_files_are_reported_together() {
    let first = SourceFile::new("a.sql", "CREATE TABLE t (a integr);");
    let second = SourceFile::new(
        "b.sql",
        "CREATE TABLE u (a integer REFERENCES t, b text b);",
    );
    let errors = load(vec![first, second]).unwrap_err();
    // "t" is missing because of its own error, so that is not reported again.
    let places: Vec<u16> = errors
        .iter()
        .map(|error| error.span.unwrap().file)
        .collect();
    assert_eq!(places, [0, 1]);
}
