//! Expressions of a wanted type over the columns in scope.

use super::Generator;
use super::schema::{Domain, TableInfo, Ty};

/// A column that an expression may name.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// With its table's alias.
    pub(super) name: String,
    pub(super) ty: Ty,
    pub(super) domain: Domain,
}

/// The columns that an expression may name.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) columns: Vec<Column>,
}

impl Scope {
    /// The columns of a table by this alias; without one, by their bare names.
    pub(super) fn of(table: &TableInfo, alias: &str) -> Scope {
        let name = |column: &str| {
            if alias.is_empty() {
                column.to_owned()
            } else {
                format!("{alias}.{column}")
            }
        };
        let columns = table.columns.iter();
        Scope {
            columns: columns
                .map(|c| Column {
                    name: name(c.name),
                    ty: c.ty,
                    domain: c.domain,
                })
                .collect(),
        }
    }

    pub(super) fn and(&self, other: &Scope) -> Scope {
        Scope {
            columns: self.columns.iter().chain(&other.columns).cloned().collect(),
        }
    }
}

const WORDS: [&str; 14] = [
    "", "a", "ab", "abc", "Ab", "b c", "ÄÖ", "x_y", "50%", "zebra", " lead", "trail ", "O''Hara",
    "none",
];

impl Generator {
    /// A constant of this type, never NULL.
    pub(super) fn literal(&mut self, ty: Ty) -> String {
        match ty {
            Ty::Small | Ty::Int => self.rng.i32(-3..=60).to_string(),
            Ty::Big => self.rng.i64(-1_000..=1_000_000).to_string(),
            Ty::Numeric => match self.rng.u32(0..4) {
                0 => format!("{}.{}", self.rng.i32(-20..=99), self.rng.u32(0..10)),
                1 => format!("0.{:03}", self.rng.u32(0..1_000)),
                2 => format!("{}.50", self.rng.i32(-5..=999)),
                _ => format!("{}.{:02}", self.rng.i32(0..=999), self.rng.u32(0..100)),
            },
            // Quarters: sums and products of a few are exact, so their order does not matter.
            Ty::Real | Ty::Double => {
                format!(
                    "'{}'::{}",
                    f64::from(self.rng.i32(-40..=400)) / 4.0,
                    ty.name()
                )
            }
            Ty::Text | Ty::Varchar | Ty::Char => format!("'{}'", self.pick(&WORDS)),
            Ty::Bool => self.pick(&["true", "false"]).to_owned(),
            Ty::Date => format!("'{}'::date", self.day()),
            Ty::Timestamp => format!("'{}'::timestamp", self.moment()),
            Ty::TimestampTz => format!("'{}+00'::timestamptz", self.moment()),
            Ty::Uuid => {
                format!(
                    "'00000000-0000-4000-8000-{:012x}'::uuid",
                    self.rng.u32(0..12)
                )
            }
            Ty::Bytea => format!("'\\x{:04x}'::bytea", self.rng.u32(0..300)),
        }
    }

    pub(super) fn day(&mut self) -> String {
        format!(
            "{}-{:02}-{:02}",
            self.rng.u32(1995..=2030),
            self.rng.u32(1..=12),
            self.rng.u32(1..=28)
        )
    }

    fn moment(&mut self) -> String {
        let (hour, minute) = (self.rng.u32(0..24), self.rng.u32(0..60));
        let fraction = self.pick(&["", ".5", ".123456", ".01"]);
        format!(
            "{} {hour:02}:{minute:02}:{:02}{fraction}",
            self.day(),
            self.rng.u32(0..60)
        )
    }

    /// A value for a column: mostly one that fits its constraints.
    pub(super) fn column_value(&mut self, table: &TableInfo, place: usize) -> String {
        let column = &table.columns[place];
        if self.one_in(if column.nullable { 6 } else { 150 }) {
            return "NULL".to_owned();
        }
        match (table.name, column.name, column.domain) {
            (_, _, Domain::Place) => self.rng.u32(1..=30).to_string(),
            (_, _, Domain::Person) => self.rng.u32(1..=50).to_string(),
            (_, _, Domain::Number) => self.rng.u32(1..=3).to_string(),
            ("place", "name", _) => {
                format!(
                    "'{}{}'",
                    self.pick(&["North", "South", "Ost"]),
                    self.rng.u32(0..100)
                )
            }
            ("place", "code", _) => {
                format!("'{}'", self.pick(&["A", "AB", "AB  ", "ABCD", "", "zz z"]))
            }
            ("place", "area", _) => {
                format!("{}.{:03}", self.rng.i32(-1..=5_000), self.rng.u32(0..1_000))
            }
            ("person", "grade", _) => self.rng.i32(-1..=101).to_string(),
            ("entry", "id", _) => self.rng.u32(1..=90).to_string(),
            ("entry", "quantity", _) => self.rng.i32(0..=40).to_string(),
            ("entry", "amount", _) => {
                format!("{}.{:05}", self.rng.u32(0..3_000), self.rng.u32(0..100_000))
            }
            ("visit", "fee", _) => {
                format!("{}.{:03}", self.rng.u32(0..9_000), self.rng.u32(0..1_000))
            }
            ("visit", "tip", _) => format!("{}.{:03}", self.rng.u32(0..50), self.rng.u32(0..1_000)),
            _ => self.literal(column.ty),
        }
    }

    /// An expression of this type. `depth` bounds how deep it nests.
    pub(super) fn expression(&mut self, ty: Ty, scope: &Scope, depth: u32) -> String {
        if depth == 0 || self.one_in(4) {
            return self.leaf(ty, scope);
        }
        let d = depth - 1;
        match self.rng.u32(0..12) {
            0 => return self.case(ty, scope, d),
            1 => {
                self.scale_open |= ty == Ty::Numeric;
                let first = self.expression(ty, scope, d);
                return format!("coalesce({first}, {})", self.literal(ty));
            }
            2 if ty != Ty::Bytea => {
                let first = self.expression(ty, scope, d);
                return format!("nullif({first}, {})", self.literal(ty));
            }
            3 if !matches!(ty, Ty::Bool | Ty::Bytea) => {
                self.scale_open |= ty == Ty::Numeric;
                let function = self.pick(&["greatest", "least"]);
                let (a, b) = (self.expression(ty, scope, d), self.expression(ty, scope, d));
                return format!("{function}({a}, {b})");
            }
            _ => {}
        }
        match ty {
            Ty::Small | Ty::Int => self.int(scope, d),
            Ty::Big => self.big(scope, d),
            Ty::Numeric => self.numeric(scope, d),
            Ty::Text | Ty::Varchar | Ty::Char => self.text(scope, d),
            Ty::Bool => self.condition(scope, depth),
            Ty::Date => self.date(scope, d),
            Ty::Timestamp => self.timestamp(scope, d),
            Ty::Real | Ty::Double => {
                let (a, b) = (self.leaf(ty, scope), self.leaf(ty, scope));
                format!("({a} {} {b})", self.pick(&["+", "-", "*"]))
            }
            Ty::TimestampTz | Ty::Uuid | Ty::Bytea => self.leaf(ty, scope),
        }
    }

    /// A column where there is one, else a constant.
    fn leaf(&mut self, ty: Ty, scope: &Scope) -> String {
        // The padding of char(n) counts in some functions: that is a matter of its own.
        let shown = |c: &Column| match (ty, c.ty) {
            (Ty::Text, Ty::Char) => format!("{}::text", c.name),
            _ => c.name.clone(),
        };
        let fitting: Vec<String> = scope
            .columns
            .iter()
            .filter(|c| ty.takes(c.ty))
            .map(shown)
            .collect();
        if fitting.is_empty() || self.one_in(5) {
            if self.one_in(12) {
                return format!("NULL::{}", ty.name());
            }
            self.literal(ty)
        } else {
            fitting[self.rng.usize(0..fitting.len())].clone()
        }
    }

    fn case(&mut self, ty: Ty, scope: &Scope, depth: u32) -> String {
        self.scale_open |= ty == Ty::Numeric;
        let value = |g: &mut Generator| g.expression(ty, scope, depth);
        let otherwise = match self.one_in(3) {
            true => String::new(),
            false => format!(" ELSE {}", value(self)),
        };
        if self.one_in(3) {
            let operand = self.leaf(Ty::Int, scope);
            let (one, two) = (self.literal(Ty::Int), self.literal(Ty::Int));
            let (a, b) = (value(self), value(self));
            return format!(
                "CASE {operand} WHEN {one} THEN {a} WHEN {two} THEN {b}{otherwise} END"
            );
        }
        let condition = self.condition(scope, depth);
        let then = value(self);
        format!("CASE WHEN {condition} THEN {then}{otherwise} END")
    }

    /// A divisor that is never zero.
    fn divisor(&mut self, ty: Ty) -> String {
        match ty {
            Ty::Numeric => self
                .pick(&["3", "0.7", "1.25", "7.00", "-2.5", "1000.001"])
                .to_owned(),
            _ => self.pick(&["2", "3", "7", "-4", "10"]).to_owned(),
        }
    }

    fn int(&mut self, scope: &Scope, d: u32) -> String {
        match self.rng.u32(0..12) {
            0..3 => {
                let (a, b) = (
                    self.expression(Ty::Int, scope, d),
                    self.leaf(Ty::Int, scope),
                );
                format!("({a} {} {b})", self.pick(&["+", "-"]))
            }
            3 => format!(
                "({} * {})",
                self.leaf(Ty::Int, scope),
                self.literal(Ty::Int)
            ),
            4 => {
                let a = self.expression(Ty::Int, scope, d);
                format!("({a} {} {})", self.pick(&["/", "%"]), self.divisor(Ty::Int))
            }
            5 => format!("abs({})", self.expression(Ty::Int, scope, d)),
            6 => format!("length({})", self.expression(Ty::Text, scope, d)),
            7 => {
                let text = self.expression(Ty::Text, scope, d);
                match self.one_in(2) {
                    true => format!("strpos({text}, {})", self.literal(Ty::Text)),
                    false => format!("position({} in {text})", self.literal(Ty::Text)),
                }
            }
            8 => format!("({})::integer", self.expression(Ty::Numeric, scope, 0)),
            9 => {
                let field = self.pick(&["year", "month", "day", "dow", "doy"]);
                format!(
                    "extract({field} FROM {})::integer",
                    self.expression(Ty::Date, scope, 0)
                )
            }
            10 => format!(
                "({} - {})",
                self.leaf(Ty::Date, scope),
                self.leaf(Ty::Date, scope)
            ),
            _ => format!("(- {})", self.expression(Ty::Int, scope, d)),
        }
    }

    fn big(&mut self, scope: &Scope, d: u32) -> String {
        match self.rng.u32(0..4) {
            0 => format!(
                "({} + {})",
                self.expression(Ty::Big, scope, d),
                self.leaf(Ty::Int, scope)
            ),
            1 => format!("({})::bigint", self.expression(Ty::Int, scope, d)),
            2 => format!(
                "({} / {})",
                self.expression(Ty::Big, scope, d),
                self.divisor(Ty::Int)
            ),
            _ => format!(
                "mod({}, {})",
                self.leaf(Ty::Big, scope),
                self.divisor(Ty::Int)
            ),
        }
    }

    fn numeric(&mut self, scope: &Scope, d: u32) -> String {
        match self.rng.u32(0..12) {
            0..3 => {
                let (a, b) = (
                    self.expression(Ty::Numeric, scope, d),
                    self.leaf(Ty::Numeric, scope),
                );
                format!("({a} {} {b})", self.pick(&["+", "-", "*"]))
            }
            3 | 4 => {
                let a = self.expression(Ty::Numeric, scope, d);
                format!("({a} / {})", self.divisor(Ty::Numeric))
            }
            5 => format!(
                "({} % {})",
                self.leaf(Ty::Numeric, scope),
                self.divisor(Ty::Numeric)
            ),
            6 => {
                let a = self.expression(Ty::Numeric, scope, d);
                format!(
                    "{}({a}, {})",
                    self.pick(&["round", "trunc"]),
                    self.rng.i32(-2..=4)
                )
            }
            7 => {
                let function = self.pick(&["ceil", "floor", "round", "abs", "sign", "trunc"]);
                format!("{function}({})", self.expression(Ty::Numeric, scope, d))
            }
            8 => format!("({})::numeric", self.expression(Ty::Int, scope, d)),
            9 => {
                let a = self.expression(Ty::Numeric, scope, 0);
                format!("({a})::numeric(12, {})", self.rng.u32(0..=3))
            }
            10 => {
                let (a, b) = (self.leaf(Ty::Int, scope), self.leaf(Ty::Numeric, scope));
                format!("({a} {} {b})", self.pick(&["+", "-", "*"]))
            }
            _ => format!("(- {})", self.expression(Ty::Numeric, scope, d)),
        }
    }

    fn text(&mut self, scope: &Scope, d: u32) -> String {
        let a = self.expression(Ty::Text, scope, d);
        match self.rng.u32(0..18) {
            0..3 => format!("({a} || {})", self.leaf(Ty::Text, scope)),
            3 => format!("({a} || {})", self.leaf(Ty::Int, scope)),
            4 => format!(
                "{}({a})",
                self.pick(&["upper", "lower", "initcap", "reverse"])
            ),
            5 => format!("substring({a} FROM {} FOR 3)", self.rng.i32(-1..=4)),
            6 => format!("substr({a}, {})", self.rng.i32(-1..=4)),
            7 => format!(
                "{}({a}, {})",
                self.pick(&["left", "right"]),
                self.rng.i32(-3..=4)
            ),
            8 => format!("{}({a})", self.pick(&["trim", "ltrim", "rtrim", "btrim"])),
            9 => format!(
                "trim({} 'a' FROM {a})",
                self.pick(&["LEADING", "TRAILING", "BOTH"])
            ),
            10 => format!("replace({a}, 'a', {})", self.literal(Ty::Text)),
            11 => {
                let function = self.pick(&["lpad", "rpad"]);
                format!("{function}({a}, {}, 'xy')", self.rng.i32(-1..=8))
            }
            12 => format!("repeat({a}, {})", self.rng.i32(-1..=3)),
            13 => format!("split_part({a}, 'b', {})", self.rng.i32(1..=2)),
            14 => {
                let ty =
                    *self.pick(&[&Ty::Int, &Ty::Numeric, &Ty::Date, &Ty::Bool, &Ty::Timestamp]);
                self.scale_open |= ty == Ty::Numeric;
                format!("({})::text", self.leaf(ty, scope))
            }
            15 => format!("concat({a}, {}, '-')", self.leaf(Ty::Int, scope)),
            16 => format!("concat_ws(',', {a}, {})", self.leaf(Ty::Text, scope)),
            _ => format!("({a})::varchar({})", self.rng.u32(1..=6)),
        }
    }

    fn date(&mut self, scope: &Scope, d: u32) -> String {
        match self.rng.u32(0..3) {
            0 => {
                let a = self.expression(Ty::Date, scope, d);
                format!("({a} {} {})", self.pick(&["+", "-"]), self.rng.u32(0..400))
            }
            1 => format!("({})::date", self.expression(Ty::Timestamp, scope, d)),
            _ => self.leaf(Ty::Date, scope),
        }
    }

    fn timestamp(&mut self, scope: &Scope, d: u32) -> String {
        match self.rng.u32(0..3) {
            0 => {
                let a = self.expression(Ty::Timestamp, scope, d);
                let interval = self.pick(&[
                    "1 day",
                    "3 hours",
                    "1 month",
                    "90 minutes",
                    "2 years",
                    "10 seconds",
                ]);
                format!("({a} {} interval '{interval}')", self.pick(&["+", "-"]))
            }
            1 => {
                let unit = self.pick(&["year", "month", "day", "hour", "minute", "second"]);
                format!(
                    "date_trunc('{unit}', {})",
                    self.expression(Ty::Timestamp, scope, d)
                )
            }
            _ => format!("({})::timestamp", self.expression(Ty::Date, scope, d)),
        }
    }

    /// A condition over `scope`.
    pub(super) fn condition(&mut self, scope: &Scope, depth: u32) -> String {
        if depth == 0 {
            return self.comparison(scope, 0);
        }
        let d = depth - 1;
        match self.rng.u32(0..14) {
            0 | 1 => {
                let (a, b) = (self.condition(scope, d), self.condition(scope, d));
                format!("({a} {} {b})", self.pick(&["AND", "OR"]))
            }
            2 => format!("(NOT {})", self.condition(scope, d)),
            3 => {
                let ty = *self.pick(&Ty::DRAWN);
                let test = self.pick(&["IS NULL", "IS NOT NULL"]);
                format!("({} {test})", self.expression(ty, scope, d))
            }
            4 => {
                let ty = *self.pick(&[&Ty::Int, &Ty::Text, &Ty::Numeric, &Ty::Date]);
                let operand = self.leaf(ty, scope);
                let list: Vec<String> =
                    (0..self.rng.u32(1..=5)).map(|_| self.literal(ty)).collect();
                let not = self.pick(&["", "NOT "]);
                format!("({operand} {not}IN ({}))", list.join(", "))
            }
            5 => {
                let ty = *self.pick(&[&Ty::Int, &Ty::Numeric, &Ty::Date, &Ty::Timestamp]);
                let (a, low, high) = (
                    self.expression(ty, scope, d),
                    self.literal(ty),
                    self.literal(ty),
                );
                format!("({a} {}BETWEEN {low} AND {high})", self.pick(&["", "NOT "]))
            }
            6 => {
                let pattern = self.pick(&["a%", "%b%", "_b%", "%", "", "x\\_y", "%r_", "%Ö"]);
                let operator = self.pick(&["LIKE", "NOT LIKE", "ILIKE"]);
                format!(
                    "({} {operator} '{pattern}')",
                    self.expression(Ty::Text, scope, d)
                )
            }
            7 => {
                let ty = *self.pick(&[&Ty::Int, &Ty::Text, &Ty::Numeric]);
                let (a, b) = (self.expression(ty, scope, d), self.leaf(ty, scope));
                format!("({a} IS {}DISTINCT FROM {b})", self.pick(&["", "NOT "]))
            }
            8 => {
                let test = self.pick(&["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS UNKNOWN"]);
                format!("({} {test})", self.condition(scope, d))
            }
            9 => {
                let list: Vec<String> = (0..3).map(|_| self.literal(Ty::Int)).collect();
                let operator = self.pick(&["= ANY", "<> ALL"]);
                format!(
                    "({} {operator} (ARRAY[{}]))",
                    self.leaf(Ty::Int, scope),
                    list.join(", ")
                )
            }
            10 => self.leaf(Ty::Bool, scope),
            _ => self.comparison(scope, d),
        }
    }

    fn comparison(&mut self, scope: &Scope, d: u32) -> String {
        let ty = match self.rng.u32(0..8) {
            // Types that are compared and little else.
            0 => *self.pick(&[
                &Ty::Uuid,
                &Ty::Bytea,
                &Ty::TimestampTz,
                &Ty::Double,
                &Ty::Real,
                &Ty::Char,
            ]),
            _ => *self.pick(&Ty::DRAWN),
        };
        let operator = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        let a = self.expression(ty, scope, d);
        let b = match self.one_in(3) {
            true => self.expression(ty, scope, d),
            false => self.literal(ty),
        };
        format!("({a} {operator} {b})")
    }

    /// A condition that keys and indexes may serve: columns held against constants.
    pub(super) fn narrow(&mut self, table: &TableInfo, alias: &str) -> String {
        let dot = if alias.is_empty() {
            String::new()
        } else {
            format!("{alias}.")
        };
        let value = |g: &mut Generator, name: &str| {
            let place = table
                .columns
                .iter()
                .position(|c| c.name == name)
                .expect("its column");
            g.column_value(table, place)
        };
        match table.name {
            "visit" if self.one_in(2) => {
                let (low, high) = (self.literal(Ty::Date), self.literal(Ty::Date));
                format!("{dot}day >= {low} AND {dot}day < {high}")
            }
            "person" if self.one_in(2) => {
                let (low, high) = (self.rng.u32(0..50), self.rng.u32(40..101));
                match self.one_in(2) {
                    true => format!("{dot}grade BETWEEN {low} AND {high}"),
                    false => format!("{dot}grade = {low} AND {dot}credit > {high}"),
                }
            }
            "place" if self.one_in(3) => {
                let name = value(self, "name");
                format!("{dot}name {} {name}", self.pick(&["=", ">", "<="]))
            }
            _ if table.key.is_empty() => format!("{dot}level > {}", self.literal(Ty::Small)),
            _ => {
                let length = self.rng.usize(1..=table.key.len());
                let parts: Vec<String> = table.key[..length]
                    .iter()
                    .map(|name| format!("{dot}{name} = {}", value(self, name)))
                    .collect();
                parts.join(" AND ")
            }
        }
    }
}
