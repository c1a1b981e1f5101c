//! Random DDL and DML over a few names, so that statements meet what earlier ones have made.

use anabranch_sql::Application;
use anabranch_types::random::mix;

/// Draws statements.
pub(crate) struct Generator {
    state: u64,
}

const TABLES: [&str; 4] = ["t0", "t1", "t2", "t3"];
const COLUMNS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Types, and values of them that DEFAULT and INSERT have.
const TYPES: [(&str, [&str; 3]); 7] = [
    ("int", ["1", "2", "3"]),
    ("bigint", ["1", "2", "3000000000"]),
    ("smallint", ["1", "2", "300"]),
    ("text", ["'1'", "'2'", "'long word'"]),
    ("varchar(3)", ["'1'", "'2'", "'abc'"]),
    ("numeric(6,2)", ["1", "2.5", "300"]),
    ("boolean", ["true", "false", "true"]),
];

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        Generator { state: seed }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.state) % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn maybe(&mut self, one_in: usize, text: &'static str) -> &'static str {
        if self.one_in(one_in) { text } else { "" }
    }

    /// The next statement; most name what the application has.
    pub(crate) fn statement(&mut self, application: &Application) -> String {
        let table = self.table(application);
        let kind = self.below(100);
        match kind {
            0..=13 => self.create_table(application),
            14..=17 => {
                let (exists, cascade) = (self.maybe(3, "IF EXISTS "), self.maybe(2, " CASCADE"));
                let more = match self.one_in(4) {
                    true => format!(", {}", self.table(application)),
                    false => String::new(),
                };
                format!("DROP TABLE {exists}{table}{more}{cascade}")
            }
            18..=23 => self.create_index(application, &table),
            24..=26 => {
                let (exists, name) = (self.maybe(3, "IF EXISTS "), self.index(application));
                format!("DROP INDEX {exists}{name}")
            }
            27..=28 => {
                let (restart, cascade) = (
                    self.maybe(2, " RESTART IDENTITY"),
                    self.maybe(2, " CASCADE"),
                );
                format!("TRUNCATE {table}{restart}{cascade}")
            }
            29..=31 => {
                let (view, column) = (self.pick(&["v0", "v1"]), self.column(application, &table));
                let replace = self.maybe(3, "OR REPLACE ");
                format!("CREATE {replace}VIEW {view} AS SELECT {column} FROM {table}")
            }
            32..=33 => {
                let (exists, cascade) = (self.maybe(3, "IF EXISTS "), self.maybe(2, " CASCADE"));
                format!("DROP VIEW {exists}{}{cascade}", self.pick(&["v0", "v1"]))
            }
            34..=58 => self.insert(application, &table),
            59..=60 => {
                let column = self.column(application, &table);
                format!("DELETE FROM {table} WHERE {column} IS NULL")
            }
            _ => self.alter(application, &table),
        }
    }

    fn table(&mut self, application: &Application) -> String {
        let tables = &application.schema().tables;
        match tables.is_empty() || self.one_in(12) {
            true => self.pick(&TABLES).to_owned(),
            false => tables[self.below(tables.len())].name.clone(),
        }
    }

    fn column(&mut self, application: &Application, table: &str) -> String {
        let schema = application.catalog().table_schema(table);
        let columns = schema.map_or(&[][..], |schema| schema.visible_columns());
        match columns.is_empty() || self.one_in(15) {
            true => self.pick(&COLUMNS).to_owned(),
            false => columns[self.below(columns.len())].name.clone(),
        }
    }

    fn index(&mut self, application: &Application) -> String {
        let tables = application.schema().tables.iter();
        let names: Vec<&str> = tables
            .flat_map(|table| &table.indexes)
            .map(|index| index.name.as_str())
            .collect();
        match names.is_empty() || self.one_in(6) {
            true => self.pick(&["i0", "i1", "t0_pkey", "t1_pkey"]).to_owned(),
            false => names[self.below(names.len())].to_owned(),
        }
    }

    fn constraint(&mut self, application: &Application, table: &str) -> String {
        let catalog = application.catalog();
        let mut names = vec!["k0".to_owned(), "k1".to_owned()];
        if let Some(found) = catalog.table_by_name(table) {
            names.extend(found.primary_key_name.clone());
            names.extend(found.checks.iter().map(|check| check.name.clone()));
            names.extend(found.foreign_keys.iter().map(|key| key.name.clone()));
            let schema = catalog.schema.table(found.id);
            names.extend(schema.indexes.iter().map(|index| index.name.clone()));
        }
        names[self.below(names.len())].clone()
    }

    fn create_table(&mut self, application: &Application) -> String {
        let exists = self.maybe(4, "IF NOT EXISTS ");
        let name = self.pick(&TABLES);
        let mut parts = Vec::new();
        for column in &COLUMNS[..1 + self.below(3)] {
            parts.push(self.column_definition(application, column));
        }
        if self.one_in(4) {
            let part = self.table_constraint(application, name);
            parts.push(part);
        }
        format!("CREATE TABLE {exists}{name} ({})", parts.join(", "))
    }

    fn column_definition(&mut self, application: &Application, column: &str) -> String {
        let (data_type, values) = self.pick(&TYPES);
        let mut text = format!("{column} {data_type}");
        if self.one_in(3) {
            text.push_str(&format!(" DEFAULT {}", self.pick(&values[..2])));
        } else if self.one_in(6) {
            let other = self.pick(&COLUMNS);
            let value = match self.below(3) {
                0 => other.to_owned(),
                1 => format!("{other} IS NULL"),
                _ => format!("coalesce({other}, {})", self.pick(&values[..2])),
            };
            text.push_str(&format!(" GENERATED ALWAYS AS ({value}) STORED"));
        }
        if self.one_in(4) {
            text.push_str(" NOT NULL");
        }
        match self.below(12) {
            0..=1 => text.push_str(" PRIMARY KEY"),
            2 => text.push_str(" UNIQUE"),
            // PostgreSQL keeps the type that a literal had at first.
            3 if data_type == "text" => text.push_str(&format!(" CHECK (length({column}) < 9)")),
            3 if data_type.starts_with("varchar") => {}
            3 => text.push_str(&format!(" CHECK ({column} <> {})", self.pick(&values))),
            4 => {
                let parent = self.table(application);
                let action = self.maybe(2, " ON DELETE CASCADE");
                text.push_str(&format!(" REFERENCES {parent}{action}"));
            }
            5 => {
                let parent = self.table(application);
                let of = self.column(application, &parent);
                text.push_str(&format!(" REFERENCES {parent} ({of})"));
            }
            _ => {}
        }
        text
    }

    fn table_constraint(&mut self, application: &Application, table: &str) -> String {
        let name = match self.one_in(3) {
            true => format!("CONSTRAINT {} ", self.pick(&["k0", "k1"])),
            false => String::new(),
        };
        let column = self.column(application, table);
        let other = self.column(application, table);
        let columns = match self.one_in(3) {
            true => format!("{column}, {other}"),
            false => column.clone(),
        };
        match self.below(5) {
            0 => format!("{name}PRIMARY KEY ({columns})"),
            1 => format!("{name}UNIQUE ({columns})"),
            2 => format!("{name}CHECK ({column} IS NOT NULL OR {other} IS NULL)"),
            3 => format!("{name}CHECK ({column} IS NOT NULL)"),
            _ => {
                let parent = self.table(application);
                let of = match self.one_in(2) {
                    true => String::new(),
                    false => format!(" ({})", self.column(application, &parent)),
                };
                format!("{name}FOREIGN KEY ({column}) REFERENCES {parent}{of}")
            }
        }
    }

    fn create_index(&mut self, application: &Application, table: &str) -> String {
        let unique = self.maybe(3, "UNIQUE ");
        let name = match self.below(3) {
            0 => String::new(),
            1 => format!("{} ", self.pick(&["i0", "i1"])),
            _ => format!("IF NOT EXISTS {} ", self.pick(&["i0", "i1"])),
        };
        let mut parts = vec![self.column(application, table)];
        while self.one_in(4) {
            let column = self.column(application, table);
            parts.push(match self.below(4) {
                0 => column,
                1 => format!("({column} IS NULL)"),
                2 => format!("coalesce({column}, {column})"),
                _ => format!("lower({column})"),
            });
        }
        let parts = parts.split_off(self.below(parts.len()));
        let mut text = format!(
            "CREATE {unique}INDEX {name}ON {table} ({})",
            parts.join(", ")
        );
        if self.one_in(4) {
            let column = self.column(application, table);
            text.push_str(&format!(" WHERE {column} IS NOT NULL"));
        }
        text
    }

    fn insert(&mut self, application: &Application, table: &str) -> String {
        let schema = application.catalog().table_schema(table);
        let declared = application.catalog().table_by_name(table);
        let generated = declared.map_or(Vec::new(), |declared| {
            application.catalog().generated_columns(declared.id)
        });
        let mut values = Vec::new();
        let columns = schema.map_or(&[][..], |schema| schema.visible_columns());
        for (place, column) in columns.iter().enumerate() {
            if generated.iter().any(|(of, _)| of.index() == place) && !self.one_in(12) {
                values.push("DEFAULT");
                continue;
            }
            let shown = column.data_type.to_string();
            let named = TYPES.iter().find(|(name, _)| shown.starts_with(&name[..3]));
            let value = match (named, self.below(6)) {
                (_, 0) | (None, _) => "NULL",
                (_, 1) => "DEFAULT",
                (Some((_, values)), _) => self.pick(values),
            };
            values.push(value);
        }
        format!("INSERT INTO {table} VALUES ({})", values.join(", "))
    }

    fn alter(&mut self, application: &Application, table: &str) -> String {
        let exists = self.maybe(8, "IF EXISTS ");
        let column = self.column(application, table);
        match self.below(16) {
            0 => {
                let to = self.pick(&COLUMNS);
                return format!("ALTER TABLE {exists}{table} RENAME COLUMN {column} TO {to}");
            }
            1 => {
                let to = self.pick(&TABLES);
                return format!("ALTER TABLE {exists}{table} RENAME TO {to}");
            }
            2 => {
                let (name, to) = (
                    self.constraint(application, table),
                    self.pick(&["k0", "k1"]),
                );
                return format!("ALTER TABLE {exists}{table} RENAME CONSTRAINT {name} TO {to}");
            }
            _ => {}
        }
        let mut actions = vec![self.action(application, table)];
        if self.one_in(5) {
            actions.push(self.action(application, table));
        }
        format!("ALTER TABLE {exists}{table} {}", actions.join(", "))
    }

    fn action(&mut self, application: &Application, table: &str) -> String {
        let column = self.column(application, table);
        match self.below(15) {
            0..=2 => {
                let name = self.pick(&COLUMNS);
                let exists = self.maybe(4, "IF NOT EXISTS ");
                let definition = self.column_definition(application, name);
                format!("ADD COLUMN {exists}{definition}")
            }
            3 => {
                let (exists, cascade) = (self.maybe(3, "IF EXISTS "), self.maybe(2, " CASCADE"));
                format!("DROP COLUMN {exists}{column}{cascade}")
            }
            4..=5 => {
                let (data_type, _) = self.pick(&TYPES);
                let using = match self.one_in(2) {
                    true => format!(" USING {column}::{data_type}"),
                    false => String::new(),
                };
                format!("ALTER COLUMN {column} TYPE {data_type}{using}")
            }
            6 => format!("ALTER {column} SET NOT NULL"),
            7 => format!("ALTER {column} DROP NOT NULL"),
            8 => {
                let (_, values) = self.pick(&TYPES);
                format!("ALTER {column} SET DEFAULT {}", self.pick(&values[..2]))
            }
            9 => match self.one_in(3) {
                true => {
                    let exists = self.maybe(2, " IF EXISTS");
                    format!("ALTER {column} DROP EXPRESSION{exists}")
                }
                false => format!("ALTER {column} DROP DEFAULT"),
            },
            10 => {
                let (exists, cascade) = (self.maybe(3, "IF EXISTS "), self.maybe(2, " CASCADE"));
                let name = self.constraint(application, table);
                format!("DROP CONSTRAINT {exists}{name}{cascade}")
            }
            11 => {
                let name = self.constraint(application, table);
                format!("VALIDATE CONSTRAINT {name}")
            }
            _ => {
                let constraint = self.table_constraint(application, table);
                let not_valid = match constraint.contains("CHECK") || constraint.contains("FOREIGN")
                {
                    true => self.maybe(5, " NOT VALID"),
                    false => "",
                };
                format!("ADD {constraint}{not_valid}")
            }
        }
    }
}
