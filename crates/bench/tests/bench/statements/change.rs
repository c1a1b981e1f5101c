//! Statements that change rows, and statements that fail.

use super::Generator;
use super::expression::Scope;
use super::schema::{Domain, TABLES, TableInfo, Ty};

impl Generator {
    fn some_table(&mut self) -> &'static TableInfo {
        &TABLES[self.rng.usize(0..TABLES.len())]
    }

    /// `INSERT … VALUES` of one row.
    pub(super) fn insert_row(&mut self, table: &TableInfo) -> String {
        let (columns, rows) = self.rows(table, 1);
        format!("INSERT INTO {} ({columns}) VALUES {rows}", table.name)
    }

    /// Some of the columns, and rows for them.
    fn rows(&mut self, table: &TableInfo, count: u32) -> (String, String) {
        let mut places: Vec<usize> = (0..table.columns.len()).collect();
        if self.one_in(3) {
            // Columns without a default are rarely omitted.
            let dropped = self.rng.usize(0..places.len());
            let column = &table.columns[dropped];
            if column.nullable || ["is_open", "credit", "fee"].contains(&column.name) {
                places.remove(dropped);
            }
        }
        let names: Vec<&str> = places
            .iter()
            .map(|place| table.columns[*place].name)
            .collect();
        let rows: Vec<String> = (0..count)
            .map(|_| {
                let values: Vec<String> = places
                    .iter()
                    .map(|place| self.inserted(table, *place))
                    .collect();
                format!("({})", values.join(", "))
            })
            .collect();
        (names.join(", "), rows.join(", "))
    }

    fn inserted(&mut self, table: &TableInfo, place: usize) -> String {
        match self.rng.u32(0..40) {
            0 => "DEFAULT".to_owned(),
            1 if table.columns[place].ty == Ty::Text => {
                self.expression(Ty::Text, &Scope::default(), 2)
            }
            _ => self.column_value(table, place),
        }
    }

    /// An INSERT of any kind.
    pub(super) fn insert(&mut self) -> String {
        let table = self.some_table();
        let returning = self.returning(table);
        let mut text = match self.rng.u32(0..8) {
            0 => self.insert_select(),
            1 => {
                let (columns, rows) = self.rows(table, 2);
                format!("INSERT INTO {} ({columns}) VALUES {rows}", table.name)
            }
            2 | 3 if !table.key.is_empty() => return self.upsert(table) + &returning,
            _ => self.insert_row(table),
        };
        if text.starts_with(&format!("INSERT INTO {} ", table.name)) {
            text.push_str(&returning);
        }
        text
    }

    fn insert_select(&mut self) -> String {
        match self.rng.u32(0..4) {
            0 => {
                let types = [Ty::Timestamp, Ty::Text];
                format!(
                    "INSERT INTO log (at, what) {} LIMIT 3",
                    ordered(self.plain(&types))
                )
            }
            1 => format!(
                "INSERT INTO tag (person_id, word, strength) SELECT t.id, 'w' || t.grade, \
                 t.grade * 2 FROM person t WHERE t.grade BETWEEN {} AND 60",
                self.rng.u32(40..60)
            ),
            2 => format!(
                "INSERT INTO entry (id, place_id, number, amount, quantity) SELECT {} + t.number, \
                 t.place_id, t.number, t.fee / 3, t.number FROM visit t WHERE t.place_id = {}",
                self.rng.u32(60..100),
                self.rng.u32(1..=30)
            ),
            _ => format!(
                "INSERT INTO visit (place_id, number, day) SELECT p.id, 1 + (SELECT \
                 coalesce(max(v.number), 0) FROM visit v WHERE v.place_id = p.id), {} FROM place p \
                 WHERE p.id = {}",
                self.literal(Ty::Date),
                self.rng.u32(1..=30)
            ),
        }
    }

    /// `INSERT … ON CONFLICT`.
    fn upsert(&mut self, table: &TableInfo) -> String {
        // Two rows with the same key fail for that, or for a missing parent, whichever is checked first. So they
        // are drawn for tables without parents.
        let count = match table.name {
            "place" => self.rng.u32(1..=2),
            _ => 1,
        };
        let (columns, rows) = self.rows(table, count);
        let insert = format!(
            "INSERT INTO {} ({columns}) VALUES {rows} ON CONFLICT",
            table.name
        );
        let target = match table.name {
            "place" if self.one_in(3) => "name".to_owned(),
            "person" if self.one_in(3) => "place_id, nick".to_owned(),
            _ => table.key.join(", "),
        };
        match self.rng.u32(0..4) {
            0 => format!("{insert} DO NOTHING"),
            1 => format!("{insert} ({target}) DO NOTHING"),
            _ => {
                let settable = settable(table);
                let column = &table.columns[settable[self.rng.usize(0..settable.len())]];
                let scope = Scope::of(table, table.name);
                let value = match self.rng.u32(0..3) {
                    0 => self.set_value(table, column.name, &scope),
                    _ => format!("excluded.{}", column.name),
                };
                let condition = match self.one_in(4) {
                    true => format!(" WHERE {}", self.condition(&scope, 1)),
                    false => String::new(),
                };
                format!(
                    "{insert} ({target}) DO UPDATE SET {} = {value}{condition}",
                    column.name
                )
            }
        }
    }

    fn returning(&mut self, table: &TableInfo) -> String {
        match self.rng.u32(0..3) {
            0 => " RETURNING *".to_owned(),
            1 => {
                let scope = Scope::of(table, "");
                let ty = *self.pick(&Ty::DRAWN);
                format!(
                    " RETURNING {}, {} AS x",
                    table.columns[0].name,
                    self.expression(ty, &scope, 1)
                )
            }
            _ => String::new(),
        }
    }

    /// The new value of a column in an UPDATE.
    fn set_value(&mut self, table: &TableInfo, name: &str, scope: &Scope) -> String {
        let place = table
            .columns
            .iter()
            .position(|c| c.name == name)
            .expect("its column");
        let column = &table.columns[place];
        let own = match scope
            .columns
            .iter()
            .find(|c| c.name.ends_with(&format!(".{name}")))
        {
            Some(qualified) => qualified.name.clone(),
            None => name.to_owned(),
        };
        match (column.ty, self.rng.u32(0..5)) {
            (_, 0) => self.column_value(table, place),
            (_, 1) if name != "is_open" => "DEFAULT".to_owned(),
            (Ty::Small | Ty::Int | Ty::Big, _) if column.domain == Domain::Any => {
                format!("{own} {} {}", self.pick(&["+", "-"]), self.rng.u32(0..6))
            }
            (Ty::Numeric, 2) => format!("round({own} * 1.1, 4)"),
            (Ty::Numeric, 3) => format!("round({own} / 3, 3) + 1"),
            (Ty::Numeric, _) => format!("{own} + {}", self.rng.u32(0..9)),
            (Ty::Varchar, _) => format!("left({own} || 'q', 8)"),
            (Ty::Text | Ty::Date | Ty::Timestamp | Ty::Bool, _) => {
                self.expression(column.ty, scope, 1)
            }
            _ => self.column_value(table, place),
        }
    }

    /// An UPDATE of any kind.
    pub(super) fn update(&mut self) -> String {
        let table = self.some_table();
        if self.one_in(6) {
            return self.update_from();
        }
        if self.one_in(8) && !table.key.is_empty() {
            // A key of one row only: the effects of several rows on each other depend on their order.
            let column = table.key[table.key.len() - 1];
            let place = table
                .columns
                .iter()
                .position(|c| c.name == column)
                .expect("its column");
            let (value, rows) = (self.column_value(table, place), self.one_row(table));
            return format!("UPDATE {} SET {column} = {value} WHERE {rows}", table.name);
        }
        let bare = Scope::of(table, "");
        let settable = settable(table);
        let mut sets = Vec::new();
        let mut set = Vec::new();
        for _ in 0..self.rng.usize(1..=2) {
            let column = table.columns[settable[self.rng.usize(0..settable.len())]].name;
            if !set.contains(&column) {
                set.push(column);
                sets.push(format!(
                    "{column} = {}",
                    self.set_value(table, column, &bare)
                ));
            }
        }
        let unique = set.iter().any(|column| ["name", "nick"].contains(column));
        let condition = match self.rng.u32(0..6) {
            _ if unique => self.one_row(table),
            0 => self.condition(&bare, 1),
            1 => self.subquery_condition(&Scope::of(table, table.name)),
            2 => self.narrow(table, ""),
            _ => self.one_row(table),
        };
        let returning = self.returning(table);
        format!(
            "UPDATE {} SET {} WHERE {condition}{returning}",
            table.name,
            sets.join(", ")
        )
    }

    /// The whole key compared with constants; any row, if there is no key.
    fn one_row(&mut self, table: &TableInfo) -> String {
        if table.key.is_empty() {
            return format!("level = {}", self.literal(Ty::Small));
        }
        let parts: Vec<String> = table
            .key
            .iter()
            .map(|name| {
                let place = table.columns.iter().position(|c| c.name == *name);
                format!(
                    "{name} = {}",
                    self.column_value(table, place.expect("its column"))
                )
            })
            .collect();
        parts.join(" AND ")
    }

    /// An UPDATE that takes values from another table, one row of it for each row.
    fn update_from(&mut self) -> String {
        match self.rng.u32(0..3) {
            0 => {
                let text = self.leaf_of("place", Ty::Text);
                format!(
                    "UPDATE person SET credit = credit + place.id, nick = {text} || person.id FROM \
                     place WHERE person.place_id = place.id AND place.id = {}",
                    self.rng.u32(1..=30)
                )
            }
            1 => format!(
                "UPDATE visit AS v SET tip = round(p.area / 7, 5), note = p.name FROM place AS p WHERE \
                 p.id = v.place_id AND v.number = {} AND p.area IS NOT NULL RETURNING v.*",
                self.rng.u32(1..=3)
            ),
            _ => format!(
                "UPDATE entry SET quantity = x.q FROM (VALUES ({}, 3), (91, 4)) AS x (id, q) WHERE \
                 entry.id = x.id RETURNING entry.id, x.q, quantity",
                self.rng.u32(1..=90)
            ),
        }
    }

    fn leaf_of(&mut self, table: &str, ty: Ty) -> String {
        let info = TABLES.iter().find(|t| t.name == table).expect("a table");
        self.expression(ty, &Scope::of(info, table), 0)
    }

    /// A DELETE of few rows.
    pub(super) fn delete(&mut self) -> String {
        let table = self.some_table();
        if self.one_in(6) {
            return format!(
                "DELETE FROM tag USING person p WHERE tag.person_id = p.id AND p.grade = {} \
                 RETURNING tag.word, p.id",
                self.rng.u32(0..=100)
            );
        }
        let condition = match self.one_in(6) {
            true => {
                let scope = Scope::of(table, table.name);
                format!(
                    "{} AND {}",
                    self.narrow(table, table.name),
                    self.subquery_condition(&scope)
                )
            }
            false => self.one_row(table),
        };
        let returning = self.returning(table);
        format!("DELETE FROM {} WHERE {condition}{returning}", table.name)
    }

    /// A statement that fails or nearly fails, for one reason.
    pub(super) fn risk(&mut self) -> String {
        let id = self.rng.u32(1..=50);
        let by_key = |expression: &str| format!("SELECT {expression} FROM person WHERE id = {id}");
        let fixed = [
            "SELECT 1 / 0",
            "SELECT 5 % 0",
            "SELECT 1.5 / 0",
            "SELECT 1.5 % 0.0",
            "SELECT 2147483647 + 1",
            "SELECT 2147483647::bigint + 1",
            "SELECT -2147483648 - 1",
            "SELECT 9223372036854775807 + 1",
            "SELECT 9223372036854775808 + 1",
            "SELECT 46341 * 46341",
            "SELECT 32767::smallint + 1::smallint",
            "SELECT 40000::smallint",
            "SELECT 3000000000::integer",
            "SELECT (-2147483648) / (-1)",
            "SELECT abs(-2147483648)",
            "SELECT 'abc'::integer",
            "SELECT ' 12 '::integer",
            "SELECT '12.5'::integer",
            "SELECT 'maybe'::boolean",
            "SELECT 'YES'::boolean",
            "SELECT '2026-02-30'::date",
            "SELECT '2024-02-29'::date + 365",
            "SELECT '2026-13-01'::date",
            "SELECT 'yesterweek'::date",
            "SELECT '25:00'::timestamp",
            "SELECT '1e400'::double precision",
            "SELECT 1e300::double precision * 1e300::double precision",
            "SELECT '1.23'::numeric(2, 1)",
            "SELECT 99.96::numeric(3, 1)",
            "SELECT 9.995::numeric(3, 2)",
            "SELECT 'abcdef'::varchar(3)",
            "SELECT 'abcdef'::char(3)",
            "SELECT substring('abc' FROM 1 FOR -1)",
            "SELECT sqrt(-1.0::double precision)",
            "SELECT 'zz'::uuid",
            "SELECT '\\xzz'::bytea",
            "SELECT 2.5::integer, 3.5::integer, -2.5::integer, (-2.5)::integer",
            "SELECT 2.5::double precision::integer, 3.5::double precision::integer",
            "SELECT round(2.5), round(-2.5), round(2.345, 2), trunc(-2.9)",
            "SELECT 1 / 3.0, 2 / 3.0, 10 / 4, -7 / 2, -7 % 3, 1.0 / 3 * 3",
            "SELECT 0.1 + 0.2, 0.1::double precision + 0.2::double precision",
            "SELECT 1e10, 1.5e-3, 123456789012345678901234567890 * 2",
            "SELECT split_part('a,b', ',', 0)",
            "SELECT chr(0)",
            "SELECT (SELECT id FROM place)",
            "SELECT nonsense FROM place",
            "SELECT * FROM nowhere",
            "SELECT id FROM place t, person u",
            "SELECT upper(1, 2)",
            "SELECT no_such_function(1)",
            "SELECT 1 + true",
            "SELECT id FROM place GROUP BY name",
            "SELECT count(*) FROM place WHERE count(*) > 1",
            "SELECT id FROM place LIMIT -1",
            "SELECT id FROM place UNION SELECT id, name FROM place",
            "SELECT id FROM place WHERE name",
            "SELECT DISTINCT id FROM place ORDER BY name",
            "SELECT id FROM place ORDER BY 2",
            "INSERT INTO place (id, id) VALUES (1, 2)",
            "INSERT INTO place (id, name) VALUES (1)",
            "INSERT INTO place (id) VALUES (99)",
            "INSERT INTO place (id, name, area) VALUES (99, 'far', -1)",
            "INSERT INTO place (id, name, area) VALUES (99, 'far', 1234567)",
            "INSERT INTO place (id, name) VALUES (99, 'a name that is too long')",
            "INSERT INTO place (id, name, code) VALUES (99, 'far', 'ABCDE')",
            "INSERT INTO place (id, name) VALUES (99, 1)",
            "INSERT INTO place (id, name) VALUES ('x', 'far')",
            "INSERT INTO place (id, name, founded) VALUES (99, 'far', 5)",
            "INSERT INTO person (id, place_id) VALUES (99, 99)",
            "INSERT INTO person (id, grade) VALUES (99, 40000)",
            "INSERT INTO tag (person_id, word) VALUES (99, 'x')",
            "INSERT INTO entry (id, place_id, number, amount, quantity) VALUES (99, 99, 1, 1, 1)",
            "INSERT INTO entry (id, place_id, number, amount, quantity) VALUES (99, 99, NULL, 1, 1)",
            "INSERT INTO entry (id, amount, quantity) VALUES (99, 99999, 2)",
            "INSERT INTO place (id, name) VALUES (98, 'n'), (98, 'm')",
            "INSERT INTO place (id, name) VALUES (98, 'n'), (98, 'm') ON CONFLICT (id) DO UPDATE \
             SET name = excluded.name",
            "INSERT INTO place (id, name) VALUES (98, 'n') ON CONFLICT (area) DO NOTHING",
            "UPDATE place SET id = NULL WHERE id = 1",
            "UPDATE place SET nothing = 1",
            "UPDATE place SET area = 'x'",
            "UPDATE place SET is_open = 1",
            "DELETE FROM place WHERE nothing = 1",
            "DELETE FROM nowhere",
        ];
        let by_row = [
            "id / (id - id)",
            "credit * 9223372036854775807",
            "(credit + 70000)::smallint",
            "nick::integer",
            "grade / 0",
            "2147483600 + id",
            "(SELECT number FROM visit WHERE visit.guide_id = person.id)",
            "repeat(nick, 2)::varchar(2)",
            "1.0 / (grade - grade)",
            "id::numeric(1, 0)",
        ];
        match self.rng.usize(0..fixed.len() + 20) {
            place if place < fixed.len() => fixed[place].to_owned(),
            _ => by_key(self.pick(&by_row)),
        }
    }
}

/// Indexes of the columns that an UPDATE of several rows may set.
fn settable(table: &TableInfo) -> Vec<usize> {
    let places = table.columns.iter().enumerate();
    places
        .filter(|(_, c)| !table.key.contains(&c.name))
        .map(|(place, _)| place)
        .collect()
}

/// A query whose order of rows is determined.
fn ordered(query: String) -> String {
    format!("{query} ORDER BY 1, 2")
}
