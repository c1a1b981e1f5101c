//! PL/pgSQL functions and procedures, drawn statement by statement.
//!
//! Variables and FOUND are in the scope of expressions, beside columns. Loops over rows have a determined order,
//! and every loop ends. A numeric variable has a scale, so that its value is determined among equal ones.

use anabranch_sql::expression::text::{format_text, parse_text};
use anabranch_types::{DataType, Value};

use super::Generator;
use super::expression::{Column, Scope};
use super::schema::{Domain, TABLES, TableInfo, Ty};

/// A function or procedure, and its parameters.
#[derive(Clone, Debug)]
pub(crate) struct DrawnProcedure {
    /// Its name.
    pub(crate) name: String,
    /// `CREATE …`, without a semicolon.
    pub(crate) text: String,
    /// Whether CALL runs it.
    is_procedure: bool,
    parameters: Vec<Ty>,
}

/// The arguments of one call.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    /// As our engine takes them.
    pub(crate) values: Vec<Value>,
    /// The call as PostgreSQL takes it.
    pub(crate) text: String,
}

/// How a body returns its results.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Results {
    /// RETURN with a value of this type.
    Scalar(Ty),
    /// RETURN NEXT with a value of this type.
    Values(Ty),
    /// `o1`, `o2`, … of these types are assigned; RETURN NEXT makes a row of them.
    Rows(Vec<Ty>),
    /// `o1`, `o2`, … of these types are assigned.
    Outputs(Vec<Ty>),
    /// Nothing.
    None,
}

/// Types of variables, and how they are declared.
const DECLARED: [(Ty, &str); 12] = [
    (Ty::Int, "integer"),
    (Ty::Int, "integer"),
    (Ty::Int, "integer"),
    (Ty::Small, "smallint"),
    (Ty::Big, "bigint"),
    (Ty::Numeric, "numeric(12, 4)"),
    (Ty::Numeric, "numeric(6, 1)"),
    (Ty::Text, "text"),
    (Ty::Text, "text"),
    (Ty::Varchar, "varchar(6)"),
    (Ty::Bool, "boolean"),
    (Ty::Date, "date"),
];

/// Types of parameters and results.
const PASSED: [Ty; 6] = [Ty::Int, Ty::Int, Ty::Big, Ty::Text, Ty::Bool, Ty::Date];

impl DrawnProcedure {
    /// A hand-written function, which takes only an array of integers.
    pub(crate) fn named(name: &str) -> DrawnProcedure {
        DrawnProcedure {
            name: name.to_owned(),
            text: String::new(),
            is_procedure: false,
            parameters: Vec::new(),
        }
    }
}

impl Generator {
    /// A function or procedure of this name.
    pub(crate) fn procedure(&mut self, name: &str) -> DrawnProcedure {
        self.aliases = 0;
        let passed = |g: &mut Generator| PASSED[g.rng.usize(0..PASSED.len())];
        let parameters: Vec<Ty> = (0..self.rng.usize(1..=3)).map(|_| passed(self)).collect();
        let several = |g: &mut Generator| (0..g.rng.usize(1..=3)).map(|_| passed(g)).collect();
        let results = match self.rng.u32(0..20) {
            0..10 => Results::Rows(several(self)),
            10..13 => Results::Outputs(several(self)),
            13..15 => Results::Values(passed(self)),
            15..18 => Results::Scalar(passed(self)),
            _ => Results::None,
        };
        let mut author = Author::new(self, &parameters, results);
        author.body();
        let (declared, lines, results) = (author.declared, author.lines, author.results);
        let mut list: Vec<String> = parameters
            .iter()
            .enumerate()
            .map(|(place, ty)| format!("p{} {}", place + 1, ty.name()))
            .collect();
        list.push("parr integer[]".to_owned());
        let outputs = |types: &[Ty], mode: &str| {
            let columns = types.iter().enumerate();
            let columns: Vec<String> = columns
                .map(|(place, ty)| format!("{mode}o{} {}", place + 1, ty.name()))
                .collect();
            columns
        };
        let returns = match &results {
            Results::Scalar(ty) => format!(" RETURNS {}", ty.name()),
            Results::Values(ty) => format!(" RETURNS SETOF {}", ty.name()),
            Results::Rows(types) => format!(" RETURNS TABLE ({})", outputs(types, "").join(", ")),
            Results::Outputs(types) => {
                list.extend(outputs(types, "OUT "));
                String::new()
            }
            Results::None => String::new(),
        };
        let is_procedure = results == Results::None;
        let kind = if is_procedure {
            "PROCEDURE"
        } else {
            "FUNCTION"
        };
        let text = format!(
            "CREATE {kind} {name}({}){returns} LANGUAGE plpgsql AS $$\nDECLARE\n{}\nBEGIN\n{}\nEND\n$$",
            list.join(", "),
            declared.join("\n"),
            lines.join("\n"),
        );
        DrawnProcedure {
            name: name.to_owned(),
            text,
            is_procedure,
            parameters,
        }
    }

    /// Arguments for a call of it.
    pub(crate) fn arguments(&mut self, procedure: &DrawnProcedure) -> Arguments {
        let mut values = Vec::new();
        let mut texts = Vec::new();
        for ty in &procedure.parameters {
            let (value, data_type) = self.argument(*ty);
            texts.push(literal(&value, &data_type));
            values.push(value);
        }
        let numbers = DataType::Array(Box::new(DataType::Int4));
        let array: Vec<Value> = (0..self.rng.usize(0..5))
            .map(|_| match self.one_in(8) {
                true => Value::Null,
                false => Value::Int(self.rng.i64(-3..=50)),
            })
            .collect();
        let array = match self.one_in(15) {
            true => Value::Null,
            false => Value::Array(array.into()),
        };
        texts.push(literal(&array, &numbers));
        values.push(array);
        let verb = match procedure.is_procedure {
            true => "CALL",
            false => "SELECT * FROM",
        };
        let text = format!("{verb} {}({})", procedure.name, texts.join(", "));
        Arguments { values, text }
    }

    fn argument(&mut self, ty: Ty) -> (Value, DataType) {
        let (value, data_type) = match ty {
            Ty::Int => (Value::Int(self.rng.i64(-3..=60)), DataType::Int4),
            Ty::Big => (Value::Int(self.rng.i64(-9..=999_999)), DataType::Int8),
            Ty::Bool => (Value::Bool(self.rng.bool()), DataType::Bool),
            Ty::Date => {
                let day = self.day();
                let parsed = parse_text(&day, &DataType::Date).expect("it is a day");
                (parsed, DataType::Date)
            }
            _ => {
                let word = self.pick(&["", "a", "ab c", "50%", "ÄÖ", "O'Hara", "longer than six"]);
                (Value::text(word), DataType::Text)
            }
        };
        match self.one_in(10) {
            true => (Value::Null, data_type),
            false => (value, data_type),
        }
    }
}

/// A value as PostgreSQL reads it.
fn literal(value: &Value, data_type: &DataType) -> String {
    match value.is_null() {
        true => format!("NULL::{data_type}"),
        false => format!(
            "'{}'::{data_type}",
            format_text(value, data_type).replace('\'', "''")
        ),
    }
}

/// Writes one body.
struct Author<'g> {
    g: &'g mut Generator,
    results: Results,
    /// Variables that expressions may name.
    scope: Scope,
    /// Variables that may be assigned.
    targets: Vec<(String, Ty)>,
    declared: Vec<String>,
    lines: Vec<String>,
    indent: usize,
    names: u32,
    loops: u32,
    /// The number of statements left to draw.
    left: u32,
}

impl<'g> Author<'g> {
    fn new(g: &'g mut Generator, parameters: &[Ty], results: Results) -> Author<'g> {
        let mut author = Author {
            g,
            results,
            scope: Scope::default(),
            targets: Vec::new(),
            declared: Vec::new(),
            lines: Vec::new(),
            indent: 1,
            names: 0,
            loops: 0,
            left: 14,
        };
        for (place, ty) in parameters.iter().enumerate() {
            let is_target = author.g.rng.bool();
            author.know(&format!("p{}", place + 1), *ty, is_target);
        }
        author.know("found", Ty::Bool, false);
        if let Results::Rows(types) | Results::Outputs(types) = author.results.clone() {
            for (place, ty) in types.iter().enumerate() {
                author.know(&format!("o{}", place + 1), *ty, true);
            }
        }
        author
    }

    fn know(&mut self, name: &str, ty: Ty, is_target: bool) {
        self.scope.columns.push(Column {
            name: name.to_owned(),
            ty,
            domain: Domain::Any,
        });
        if is_target {
            self.targets.push((name.to_owned(), ty));
        }
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn line(&mut self, text: impl AsRef<str>) {
        let indent = "    ".repeat(self.indent);
        self.lines.push(format!("{indent}{}", text.as_ref()));
    }

    fn expression(&mut self, ty: Ty) -> String {
        self.g.expression(ty, &self.scope, 2)
    }

    fn small(&mut self, ty: Ty) -> String {
        self.g.expression(ty, &self.scope, 1)
    }

    fn condition(&mut self) -> String {
        // The first THEN or LOOP outside of brackets ends a condition.
        format!("({})", self.g.condition(&self.scope, 1))
    }

    /// A number that is mostly a key of a small table.
    fn key(&mut self, most: u32) -> String {
        match self.g.one_in(3) {
            true => self.small(Ty::Int),
            false => self.g.rng.u32(1..=most).to_string(),
        }
    }

    fn body(&mut self) {
        for _ in 0..self.g.rng.usize(2..=5) {
            let (ty, declared) = DECLARED[self.g.rng.usize(0..DECLARED.len())];
            let name = self.name("v");
            let value = match self.g.one_in(3) {
                true => String::new(),
                // A value that fits; assignments have those that do not.
                false => format!(" := {}", self.g.literal(ty)),
            };
            let value = match ty {
                Ty::Varchar if !value.is_empty() => " := 'six'".to_owned(),
                _ => value,
            };
            self.declared.push(format!("    {name} {declared}{value};"));
            self.know(&name, ty, true);
        }
        self.declared.push("    rec record;".to_owned());
        self.declared.push("    varr integer[] := '{}';".to_owned());
        while self.left > 0 {
            self.statement(3);
        }
        match self.results.clone() {
            Results::Scalar(ty) if !self.g.one_in(12) => {
                let value = self.expression(ty);
                self.line(format!("RETURN {value};"));
            }
            Results::Rows(_) | Results::Values(_) => self.return_next(),
            _ => {}
        }
    }

    /// Statements between two others, indented.
    fn inner(&mut self, depth: u32) {
        self.indent += 1;
        for _ in 0..self.g.rng.usize(1..=3) {
            self.statement(depth);
        }
        self.indent -= 1;
    }

    fn statement(&mut self, depth: u32) {
        self.left = self.left.saturating_sub(1);
        if depth == 0 {
            return self.assign();
        }
        let d = depth - 1;
        match self.g.rng.u32(0..100) {
            0..16 => self.assign(),
            16..28 => self.branch(d),
            28..35 => self.range_loop(d),
            35..45 => self.query_loop(d),
            45..49 => self.each(d),
            49..53 => self.other_loop(d),
            53..65 => self.select_into(),
            65..69 => self.perform(),
            69..83 => self.modify(),
            83..85 => self.raise(),
            85..87 => self.leave(),
            87..93 => self.return_next(),
            93..96 => self.element(),
            96..98 => self.nested(d),
            _ => self.row_count(),
        }
    }

    fn target(&mut self, fits: impl Fn(Ty) -> bool) -> Option<(String, Ty)> {
        let fitting: Vec<(String, Ty)> = self
            .targets
            .iter()
            .filter(|(_, ty)| fits(*ty))
            .cloned()
            .collect();
        let count = fitting.len();
        (count > 0).then(|| fitting[self.g.rng.usize(0..count)].clone())
    }

    fn assign(&mut self) {
        let Some((target, ty)) = self.target(|_| true) else {
            return self.line("NULL;");
        };
        let from = self.brought_to(ty);
        let value = self.expression(from);
        let sign = self.g.pick(&[":=", "="]);
        self.line(format!("{target} {sign} {value};"));
    }

    /// A type whose values a variable accepts and converts to its own type.
    fn brought_to(&mut self, ty: Ty) -> Ty {
        match ty {
            Ty::Int | Ty::Small | Ty::Numeric => {
                *self.g.pick(&[&Ty::Int, &Ty::Int, &Ty::Big, &Ty::Numeric])
            }
            Ty::Text | Ty::Varchar => *self.g.pick(&[&Ty::Text, &Ty::Text, &Ty::Int, &Ty::Date]),
            other => other,
        }
    }

    fn branch(&mut self, depth: u32) {
        let condition = self.condition();
        self.line(format!("IF {condition} THEN"));
        self.inner(depth);
        for word in ["ELSIF", "ELSEIF"] {
            if self.g.one_in(4) {
                let condition = self.condition();
                self.line(format!("{word} {condition} THEN"));
                self.inner(depth);
            }
        }
        if self.g.one_in(2) {
            self.line("ELSE");
            self.inner(depth);
        }
        self.line("END IF;");
    }

    fn looped(&mut self, depth: u32) {
        self.loops += 1;
        self.inner(depth);
        if self.g.one_in(3) {
            let condition = self.condition();
            let word = self.g.pick(&["EXIT", "CONTINUE"]);
            self.indent += 1;
            self.line(format!("{word} WHEN {condition};"));
            self.assign();
            self.indent -= 1;
        }
        self.loops -= 1;
    }

    fn range_loop(&mut self, depth: u32) {
        let variable = self.name("i");
        let (low, count) = (self.g.rng.i32(-2..=9), self.g.rng.i32(-1..=4));
        let by = match self.g.rng.u32(0..12) {
            0..3 => " BY 2",
            3 => " BY length(varr::text)",
            4 => " BY 0",
            _ => "",
        };
        let range = match self.g.rng.u32(0..12) {
            0..4 => format!("REVERSE {}..{low}", low + count),
            4..6 => "1..cardinality(parr)".to_owned(),
            6 => {
                let bound = self.small(Ty::Int);
                format!("greatest({bound}, 3)..4")
            }
            7 => format!("{low}.5..{}::numeric", low + count),
            8 => "p1::text::integer..3".to_owned(),
            _ => format!("{low}..{}", low + count),
        };
        self.line(format!("FOR {variable} IN {range}{by} LOOP"));
        let known = self.scope.columns.len();
        self.know(&variable, Ty::Int, false);
        self.looped(depth);
        self.scope.columns.truncate(known);
        self.line("END LOOP;");
    }

    /// A query of columns of a table, with a determined order and a limit.
    fn rows(&mut self, columns: &[Ty], most: u32) -> String {
        let tables: Vec<&TableInfo> = TABLES.iter().filter(|t| !t.key.is_empty()).collect();
        let table = tables[self.g.rng.usize(0..tables.len())];
        let alias = self.g.alias();
        let scope = Scope::of(table, &alias).and(&self.scope);
        let items: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(place, ty)| {
                let value = self.g.expression(*ty, &scope, 1);
                // RETURN QUERY takes exactly its types.
                format!("({value})::{} AS c{}", ty.name(), place + 1)
            })
            .collect();
        let condition = match self.g.rng.u32(0..4) {
            0 => self.g.narrow(table, &alias),
            1 => format!("{alias}.{} >= {}", table.key[0], self.key(20)),
            2 => format!("{alias}.{} = {}", table.key[0], self.key(30)),
            _ => self.g.condition(&scope, 1),
        };
        let keys: Vec<String> = table
            .key
            .iter()
            .map(|key| format!("{alias}.{key}"))
            .collect();
        let limit = match most {
            0 => String::new(),
            most => format!(" LIMIT {}", self.g.rng.u32(1..=most)),
        };
        let order = keys.join(self.g.pick(&[", ", " DESC, "]));
        format!(
            "SELECT {} FROM {} {alias} WHERE {condition} ORDER BY {order}{limit}",
            items.join(", "),
            table.name
        )
    }

    fn some_types(&mut self, most: usize) -> Vec<Ty> {
        let count = self.g.rng.usize(1..=most);
        (0..count)
            .map(|_| PASSED[self.g.rng.usize(0..PASSED.len())])
            .collect()
    }

    fn query_loop(&mut self, depth: u32) {
        let known = self.scope.columns.len();
        if self.g.one_in(3) {
            // Into variables: every variable is assigned, even if there is no row.
            let Some((target, ty)) = self.target(|_| true) else {
                return self.line("NULL;");
            };
            let from = self.brought_to(ty);
            let query = self.rows(&[from], 3);
            self.line(format!("FOR {target} IN {query} LOOP"));
        } else {
            let record = self.name("r");
            self.declared.push(format!("    {record} record;"));
            let types = self.some_types(3);
            let query = self.rows(&types, 4);
            self.line(format!("FOR {record} IN {query} LOOP"));
            for (place, ty) in types.iter().enumerate() {
                self.know(&format!("{record}.c{}", place + 1), *ty, false);
            }
        }
        self.looped(depth);
        if self.indent > 1 || !self.g.one_in(4) {
            // Otherwise its last row is visible after the loop.
            self.scope.columns.truncate(known);
        }
        self.line("END LOOP;");
        if self.g.one_in(3) {
            self.row_count();
        }
    }

    fn each(&mut self, depth: u32) {
        let Some((target, _)) = self.target(|ty| ty == Ty::Int) else {
            return self.line("NULL;");
        };
        let array = match self.g.rng.u32(0..4) {
            0 => "varr".to_owned(),
            1 => format!("ARRAY[{}, {}, 3]", self.small(Ty::Int), self.small(Ty::Int)),
            _ => "parr".to_owned(),
        };
        self.line(format!("FOREACH {target} IN ARRAY {array} LOOP"));
        self.looped(depth);
        self.line("END LOOP;");
    }

    fn other_loop(&mut self, depth: u32) {
        let counter = self.name("n");
        self.declared.push(format!("    {counter} integer := 0;"));
        let condition = self.condition();
        let most = self.g.rng.u32(1..=3);
        if self.g.one_in(2) {
            self.line(format!("WHILE {counter} < {most} AND {condition} LOOP"));
        } else {
            self.line("LOOP");
            self.line(format!("    EXIT WHEN {counter} >= {most} OR {condition};"));
        }
        self.line(format!("    {counter} := {counter} + 1;"));
        self.looped(depth);
        self.line("END LOOP;");
    }

    fn select_into(&mut self) {
        let strict = if self.g.one_in(5) { "STRICT " } else { "" };
        let most = match self.g.one_in(2) {
            // The row is determined, and so is whether there is another.
            true => 0,
            false => 1,
        };
        if self.g.one_in(4) {
            let types = [Ty::Int, Ty::Text];
            let query = self.rows(&types, most);
            let record = self.name("s");
            self.declared.push(format!("    {record} record;"));
            self.line(into(&query, &format!("{strict}{record}")));
            for (place, ty) in types.iter().enumerate() {
                if self.indent == 1 {
                    self.know(&format!("{record}.c{}", place + 1), *ty, false);
                }
            }
        } else {
            let mut targets: Vec<(String, Ty)> = Vec::new();
            for _ in 0..self.g.rng.usize(1..=2) {
                if let Some(target) = self.target(|_| true)
                    && !targets.contains(&target)
                {
                    targets.push(target);
                }
            }
            if targets.is_empty() {
                return self.line("NULL;");
            }
            let types: Vec<Ty> = targets.iter().map(|(_, ty)| self.brought_to(*ty)).collect();
            let query = self.rows(&types, most);
            let names: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
            self.line(into(&query, &format!("{strict}{}", names.join(", "))));
        }
        if self.g.one_in(3) {
            self.row_count();
        }
    }

    fn perform(&mut self) {
        let query = self.rows(&[Ty::Int], 0);
        self.line(format!("PERFORM {};", &query["SELECT ".len()..]));
    }

    fn row_count(&mut self) {
        if let Some((target, _)) = self.target(|ty| matches!(ty, Ty::Int | Ty::Big)) {
            self.line(format!("GET DIAGNOSTICS {target} = ROW_COUNT;"));
        }
    }

    fn modify(&mut self) {
        let text = match self.g.rng.u32(0..12) {
            0 | 1 => format!(
                "INSERT INTO log (what, level) VALUES ({}, {})",
                self.small(Ty::Text),
                self.small(Ty::Int)
            ),
            2 | 3 => {
                let action = self.g.pick(&[
                    "DO NOTHING",
                    "(person_id, word) DO UPDATE SET strength = excluded.strength + tag.strength",
                    "(person_id, word) DO UPDATE SET strength = tag.strength + 1",
                ]);
                format!(
                    "INSERT INTO tag (person_id, word, strength) VALUES ({}, left({}, 8), {}) ON \
                     CONFLICT {action}",
                    self.key(50),
                    self.small(Ty::Text),
                    self.small(Ty::Int)
                )
            }
            4 => format!(
                "INSERT INTO log (what, level) SELECT t.word, {} FROM tag t WHERE t.person_id = {}",
                self.g.rng.u32(0..9),
                self.key(50)
            ),
            5 => {
                let id = self.key(90);
                format!("DELETE FROM entry WHERE id = {id}")
            }
            6 => {
                let strength = self.small(Ty::Int);
                format!(
                    "DELETE FROM tag WHERE person_id = {} AND strength < {strength}",
                    self.key(50)
                )
            }
            _ => self.update(),
        };
        let returning = match self.g.rng.u32(0..4) {
            0 => {
                let column = match text.contains("log (") {
                    true => "level",
                    false if text.contains(" tag") => "strength",
                    false if text.contains(" entry") => "quantity",
                    false if text.contains(" person ") => "grade",
                    false if text.contains(" visit ") => "number",
                    false => "id",
                };
                let strict = if self.g.one_in(4) { "STRICT " } else { "" };
                self.target(|ty| ty == Ty::Int)
                    .map(|(target, _)| format!(" RETURNING {column} INTO {strict}{target}"))
            }
            _ => None,
        };
        self.line(format!("{text}{};", returning.unwrap_or_default()));
        if self.g.one_in(3) {
            self.row_count();
        }
    }

    fn update(&mut self) -> String {
        let several = self.g.one_in(5);
        match self.g.rng.u32(0..4) {
            0 => {
                let by = self.small(Ty::Int);
                let key = self.key(50);
                let test = if several { "<" } else { "=" };
                format!("UPDATE person SET credit = credit + {by} WHERE id {test} {key}")
            }
            1 => {
                let (note, number) = (self.small(Ty::Text), self.g.rng.u32(1..=3));
                let key = self.key(30);
                let number = match several {
                    true => String::new(),
                    false => format!(" AND number = {number}"),
                };
                format!("UPDATE visit SET note = {note} WHERE place_id = {key}{number}")
            }
            2 => {
                let area = self.small(Ty::Numeric);
                format!("UPDATE place SET area = {area} WHERE id = {}", self.key(30))
            }
            _ => {
                let quantity = self.small(Ty::Int);
                let key = self.key(90);
                format!("UPDATE entry SET quantity = quantity + {quantity} WHERE id = {key}")
            }
        }
    }

    fn raise(&mut self) {
        let (number, text) = (self.small(Ty::Int), self.small(Ty::Text));
        let raise = match self.g.rng.u32(0..5) {
            0 => format!("RAISE NOTICE 'seen % and %', {number}, {text}"),
            1 => format!("RAISE EXCEPTION 'bad %: 100%% of %', {number}, {text}"),
            2 => format!("RAISE EXCEPTION 'coded %', {text} USING ERRCODE = 'AB123'"),
            3 => format!("RAISE unique_violation USING MESSAGE = concat('said ', {number})"),
            _ => "RAISE SQLSTATE '22012'".to_owned(),
        };
        let condition = self.condition();
        self.line(format!("IF {condition} THEN"));
        self.line(format!("    {raise};"));
        self.line("END IF;");
    }

    fn leave(&mut self) {
        if self.loops > 0 {
            let word = self.g.pick(&["EXIT", "CONTINUE"]);
            return self.line(format!("{word};"));
        }
        let condition = self.condition();
        let value = match self.results {
            Results::Scalar(ty) => format!(" {}", self.expression(ty)),
            _ => String::new(),
        };
        self.line(format!("IF {condition} THEN"));
        self.line(format!("    RETURN{value};"));
        self.line("END IF;");
    }

    fn return_next(&mut self) {
        match self.results.clone() {
            Results::Rows(types) if self.g.one_in(3) => {
                let query = self.rows(&types, 3);
                self.line(format!("RETURN QUERY {query};"));
            }
            Results::Rows(_) => self.line("RETURN NEXT;"),
            Results::Values(ty) => {
                let value = self.expression(ty);
                self.line(format!("RETURN NEXT {value};"));
            }
            _ => self.assign(),
        }
    }

    fn element(&mut self) {
        let value = self.small(Ty::Int);
        let text = match self.g.rng.u32(0..4) {
            0 => format!("varr[{}] := {value};", self.g.rng.u32(1..=4)),
            1 => format!("varr[cardinality(varr) + 1] := {value};"),
            2 => "varr := parr;".to_owned(),
            _ => match self.target(|ty| ty == Ty::Int) {
                Some((target, _)) => {
                    format!(
                        "{target} := coalesce(parr[{}], varr[1]);",
                        self.g.rng.u32(0..=5)
                    )
                }
                None => "NULL;".to_owned(),
            },
        };
        self.line(text);
    }

    /// A block with a variable of its own, which may hide another.
    fn nested(&mut self, depth: u32) {
        let (known, targets) = (self.scope.columns.clone(), self.targets.clone());
        let hidden = match self.g.one_in(2) {
            true => self.target(|ty| ty == Ty::Int).map(|(name, _)| name),
            false => None,
        };
        let name = match hidden {
            Some(name) if name.starts_with('v') => name,
            _ => self.name("w"),
        };
        let value = self.small(Ty::Int);
        self.line("DECLARE");
        self.line(format!("    {name} integer := {value};"));
        self.line("BEGIN");
        if !known.iter().any(|column| column.name == name) {
            self.know(&name, Ty::Int, true);
        }
        self.inner(depth);
        self.line("END;");
        (self.scope.columns, self.targets) = (known, targets);
    }
}

/// A query with INTO before its FROM.
fn into(query: &str, targets: &str) -> String {
    // The list may hold a FROM of its own; the first of the query follows the last alias.
    let mut depth = 0;
    let mut at = None;
    for (place, character) in query.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 && at.is_none() && query[place..].starts_with(" FROM ") => {
                at = Some(place);
            }
            _ => {}
        }
    }
    let (list, rest) = query.split_at(at.expect("it has a FROM"));
    format!("{list} INTO {targets}{rest};")
}
