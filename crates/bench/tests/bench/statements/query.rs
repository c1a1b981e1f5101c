//! Queries, drawn part by part and assembled at the end.

use super::Generator;
use super::expression::{Column, Scope};
use super::schema::{Domain, TABLES, TableInfo, Ty, VIEWS};

/// A source of rows: its FROM item and the columns in scope.
struct Source {
    from: String,
    scope: Scope,
    /// Its join conditions.
    conditions: Vec<String>,
}

impl Generator {
    /// A query, and whether the order of its rows is determined.
    pub(super) fn query(&mut self) -> (String, bool) {
        match self.rng.u32(0..20) {
            0 => {
                let kinds = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"];
                let kind = self.pick(&kinds);
                let types: Vec<Ty> = (0..self.rng.usize(1..=2))
                    .map(|_| *self.pick(&Ty::DRAWN))
                    .collect();
                self.scale_open |= types.contains(&Ty::Numeric);
                let (one, two) = (self.plain(&types), self.plain(&types));
                match self.one_in(2) {
                    true => (format!("{one} {kind} {two}"), false),
                    false => {
                        let order: Vec<String> =
                            (1..=types.len()).map(|place| place.to_string()).collect();
                        (
                            format!("{one} {kind} {two} ORDER BY {}", order.join(", ")),
                            true,
                        )
                    }
                }
            }
            1 => {
                let types = [Ty::Int, *self.pick(&Ty::DRAWN)];
                let inner = self.plain(&types);
                let name = self.alias();
                let scope = derived(&name, &types);
                let condition = self.condition(&scope, 1);
                let text = format!(
                    "WITH {name} (c1, c2) AS ({inner}) SELECT c2, c1 FROM {name} WHERE {condition}"
                );
                (text, false)
            }
            2..6 => self.grouped(),
            _ => self.listed(),
        }
    }

    /// A query without grouping, perhaps with ORDER BY and LIMIT.
    fn listed(&mut self) -> (String, bool) {
        let source = self.source();
        let mut items = Vec::new();
        let mut types = Vec::new();
        for _ in 0..self.rng.usize(1..=4) {
            let (item, ty) = self.item(&source.scope);
            items.push(item);
            types.push(ty);
        }
        let distinct = self.one_in(6);
        self.scale_open |= distinct && types.contains(&Ty::Numeric);
        let condition = self.filter(&source);
        let mut text = format!(
            "SELECT {}{} FROM {}{condition}",
            if distinct { "DISTINCT " } else { "" },
            items.join(", "),
            source.from
        );
        let ordered = self.one_in(2);
        if ordered {
            // 0.0 and 0.00 are equal: either may come first.
            self.scale_open |= types.contains(&Ty::Numeric);
            text.push_str(&self.order(items.len()));
            if self.one_in(2) {
                let limit = self.rng.u32(0..8);
                let offset = match self.one_in(2) {
                    true => format!(" OFFSET {}", self.rng.u32(0..5)),
                    false => String::new(),
                };
                text.push_str(&format!(" LIMIT {limit}{offset}"));
            }
        }
        (text, ordered)
    }

    /// ORDER BY every column, so that the order is determined.
    fn order(&mut self, columns: usize) -> String {
        let mut places: Vec<usize> = (1..=columns).collect();
        self.rng.shuffle(&mut places);
        let keys: Vec<String> = places
            .into_iter()
            .map(|place| {
                let direction = self.pick(&["", "", " DESC", " ASC"]);
                format!(
                    "{place}{direction}{}",
                    self.pick(&["", "", " NULLS FIRST", " NULLS LAST"])
                )
            })
            .collect();
        format!(" ORDER BY {}", keys.join(", "))
    }

    /// A query with groups and aggregates.
    fn grouped(&mut self) -> (String, bool) {
        let source = self.source();
        let mut keys: Vec<String> = Vec::new();
        for _ in 0..self.rng.usize(0..=2) {
            let place = self.rng.usize(0..source.scope.columns.len());
            let column = source.scope.columns[place].clone();
            // A constant among the keys would count as a position in the select list.
            keys.push(match column.ty {
                Ty::Int if self.one_in(2) => format!("({} % 3)", column.name),
                Ty::Date if self.one_in(2) => format!("extract(year FROM {})", column.name),
                Ty::Text | Ty::Varchar if self.one_in(2) => format!("left({}, 1)", column.name),
                ty => {
                    self.scale_open |= ty == Ty::Numeric;
                    column.name
                }
            });
        }
        let mut items = keys.clone();
        for _ in 0..self.rng.usize(1..=3) {
            items.push(self.aggregate(&source.scope));
        }
        let condition = self.filter(&source);
        let mut text = format!(
            "SELECT {} FROM {}{condition}",
            items.join(", "),
            source.from
        );
        if !keys.is_empty() {
            text.push_str(&format!(" GROUP BY {}", keys.join(", ")));
        }
        if self.one_in(3) {
            let (limit, test) = (self.rng.u32(0..4), self.pick(&[">", "=", "<="]));
            let aggregate = match self.one_in(2) {
                true => "count(*)".to_owned(),
                false => format!("max({})", self.expression(Ty::Int, &source.scope, 1)),
            };
            text.push_str(&format!(" HAVING {aggregate} {test} {limit}"));
        }
        let ordered = self.one_in(2);
        if ordered {
            self.scale_open = true;
            text.push_str(&self.order(items.len()));
        }
        (text, ordered)
    }

    fn aggregate(&mut self, scope: &Scope) -> String {
        let int = |g: &mut Generator| g.expression(Ty::Int, scope, 1);
        let filter = match self.one_in(8) {
            true => format!(" FILTER (WHERE {})", self.condition(scope, 0)),
            false => String::new(),
        };
        let aggregate = match self.rng.u32(0..12) {
            0 => "count(*)".to_owned(),
            1 => {
                let ty = *self.pick(&Ty::DRAWN);
                format!("count({})", self.expression(ty, scope, 1))
            }
            2 => {
                let ty = *self.pick(&[&Ty::Int, &Ty::Text, &Ty::Date, &Ty::Numeric]);
                format!("count(DISTINCT {})", self.expression(ty, scope, 1))
            }
            3 => format!("sum({})", int(self)),
            4 => format!("sum({})", self.expression(Ty::Numeric, scope, 1)),
            5 => format!("sum({})", self.expression(Ty::Big, scope, 0)),
            6 => format!("avg({})", int(self)),
            7 => format!("avg({})", self.expression(Ty::Numeric, scope, 1)),
            8 => {
                let function = self.pick(&["bool_and", "bool_or"]);
                format!("{function}({})", self.condition(scope, 0))
            }
            9 => {
                let text = self.expression(Ty::Text, scope, 0);
                format!("string_agg({text}, ',' ORDER BY {text})")
            }
            _ => {
                let ty = *self.pick(&[
                    &Ty::Int,
                    &Ty::Big,
                    &Ty::Numeric,
                    &Ty::Text,
                    &Ty::Date,
                    &Ty::Double,
                ]);
                self.scale_open |= ty == Ty::Numeric;
                format!(
                    "{}({})",
                    self.pick(&["min", "max"]),
                    self.expression(ty, scope, 1)
                )
            }
        };
        aggregate + &filter
    }

    /// One item of a select list.
    fn item(&mut self, scope: &Scope) -> (String, Ty) {
        match self.rng.u32(0..10) {
            0..4 if !scope.columns.is_empty() => {
                let column = &scope.columns[self.rng.usize(0..scope.columns.len())];
                (column.name.clone(), column.ty)
            }
            4 => {
                let (text, ty) = self.scalar_subquery(scope);
                (text, ty)
            }
            _ => {
                let ty = *self.pick(&Ty::DRAWN);
                (self.expression(ty, scope, 2), ty)
            }
        }
    }

    /// A query for one value: an aggregate, so that there is never more than one row.
    fn scalar_subquery(&mut self, outer: &Scope) -> (String, Ty) {
        let table = &TABLES[self.rng.usize(0..TABLES.len())];
        let alias = self.alias();
        let scope = Scope::of(table, &alias);
        let link = self.link(&scope, outer);
        let (aggregate, ty) = match self.rng.u32(0..4) {
            0 => ("count(*)".to_owned(), Ty::Big),
            1 => (
                format!("sum({})", self.expression(Ty::Int, &scope, 1)),
                Ty::Big,
            ),
            2 => (
                format!("max({})", self.expression(Ty::Int, &scope, 1)),
                Ty::Int,
            ),
            _ => (
                format!("min({})", self.expression(Ty::Date, &scope, 0)),
                Ty::Date,
            ),
        };
        (
            format!(
                "(SELECT {aggregate} FROM {} {alias} WHERE {link})",
                table.name
            ),
            ty,
        )
    }

    /// A condition that correlates a subquery with the query around it, or compares with a constant.
    fn link(&mut self, inner: &Scope, outer: &Scope) -> String {
        let keys = |scope: &Scope, domain: Domain| -> Vec<Column> {
            scope
                .columns
                .iter()
                .filter(|c| c.domain == domain)
                .cloned()
                .collect()
        };
        let domain = *self.pick(&[&Domain::Place, &Domain::Person, &Domain::Number]);
        let (mine, theirs) = (keys(inner, domain), keys(outer, domain));
        if mine.is_empty() || theirs.is_empty() {
            return self.condition(inner, 1);
        }
        let (mine, theirs) = (
            mine[self.rng.usize(0..mine.len())].clone(),
            theirs[self.rng.usize(0..theirs.len())].clone(),
        );
        let tie = format!("{} = {}", mine.name, theirs.name);
        match self.one_in(3) {
            true => format!("{tie} AND {}", self.condition(&inner.and(outer), 1)),
            false => tie,
        }
    }

    /// EXISTS, IN and comparisons with a subquery.
    pub(super) fn subquery_condition(&mut self, outer: &Scope) -> String {
        let table = &TABLES[self.rng.usize(0..TABLES.len())];
        let alias = self.alias();
        let scope = Scope::of(table, &alias);
        let not = self.pick(&["", "", "NOT "]);
        match self.rng.u32(0..4) {
            0 => {
                let link = self.link(&scope, outer);
                format!(
                    "{not}EXISTS (SELECT * FROM {} {alias} WHERE {link})",
                    table.name
                )
            }
            1 | 2 => {
                let ty = *self.pick(&[&Ty::Int, &Ty::Int, &Ty::Text, &Ty::Numeric]);
                let (mine, theirs) = (
                    self.expression(ty, outer, 1),
                    self.expression(ty, &scope, 1),
                );
                let condition = match self.one_in(2) {
                    true => format!(" WHERE {}", self.link(&scope, outer)),
                    false => String::new(),
                };
                format!(
                    "{mine} {not}IN (SELECT {theirs} FROM {} {alias}{condition})",
                    table.name
                )
            }
            _ => {
                let (subquery, ty) = self.scalar_subquery(outer);
                let operator = self.pick(&["=", "<", ">=", "<>"]);
                format!("{} {operator} {subquery}", self.expression(ty, outer, 1))
            }
        }
    }

    fn filter(&mut self, source: &Source) -> String {
        let mut conditions = source.conditions.clone();
        match self.rng.u32(0..6) {
            0 | 1 => conditions.push(self.condition(&source.scope, 2)),
            2 => conditions.push(self.subquery_condition(&source.scope)),
            3 => conditions.push(self.condition(&source.scope, 0)),
            _ => {}
        }
        if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        }
    }

    /// A query for columns of these types over one source.
    pub(super) fn plain(&mut self, types: &[Ty]) -> String {
        let source = self.source();
        let items: Vec<String> = types
            .iter()
            .map(|ty| self.expression(*ty, &source.scope, 1))
            .collect();
        let condition = self.filter(&source);
        format!(
            "SELECT {} FROM {}{condition}",
            items.join(", "),
            source.from
        )
    }

    fn source(&mut self) -> Source {
        match self.rng.u32(0..16) {
            0 => self.values(),
            1 => self.array(),
            2 => {
                let types = [Ty::Int, Ty::Text, Ty::Numeric];
                let inner = self.plain(&types);
                let name = self.alias();
                let scope = derived(&name, &types);
                Source {
                    from: format!("({inner}) AS {name} (c1, c2, c3)"),
                    scope,
                    conditions: Vec::new(),
                }
            }
            3..10 => self.joined(),
            10 => {
                let view = &VIEWS[self.rng.usize(0..VIEWS.len())];
                self.table(view)
            }
            _ => {
                let table = &TABLES[self.rng.usize(0..TABLES.len())];
                self.table(table)
            }
        }
    }

    fn table(&mut self, table: &TableInfo) -> Source {
        let alias = self.alias();
        let conditions = match VIEWS.iter().all(|view| view.name != table.name) && self.one_in(2) {
            true => vec![self.narrow(table, &alias)],
            false => Vec::new(),
        };
        Source {
            from: format!("{} {alias}", table.name),
            scope: Scope::of(table, &alias),
            conditions,
        }
    }

    fn values(&mut self) -> Source {
        let types = [Ty::Int, *self.pick(&[&Ty::Text, &Ty::Date, &Ty::Numeric])];
        let rows: Vec<String> = (0..self.rng.u32(1..=4))
            .map(|_| format!("({}, {})", self.literal(types[0]), self.literal(types[1])))
            .collect();
        let name = self.alias();
        Source {
            from: format!("(VALUES {}) AS {name} (c1, c2)", rows.join(", ")),
            scope: derived(&name, &types),
            conditions: Vec::new(),
        }
    }

    fn array(&mut self) -> Source {
        let items: Vec<String> = (0..self.rng.u32(1..=4))
            .map(|_| self.literal(Ty::Int))
            .collect();
        let name = self.alias();
        let numbered = self.one_in(2);
        let (ordinality, names) = if numbered {
            (" WITH ORDINALITY", "c1, c2")
        } else {
            ("", "c1")
        };
        let types: &[Ty] = if numbered {
            &[Ty::Int, Ty::Big]
        } else {
            &[Ty::Int]
        };
        Source {
            from: format!(
                "unnest(ARRAY[{}]){ordinality} AS {name} ({names})",
                items.join(", ")
            ),
            scope: derived(&name, types),
            conditions: Vec::new(),
        }
    }

    /// Two or three tables, joined as their keys say, so that the result stays small.
    fn joined(&mut self) -> Source {
        const WAYS: [(&str, &str, &str); 9] = [
            ("person", "place", "A.place_id = B.id"),
            ("place", "person", "B.place_id = A.id"),
            ("visit", "place", "A.place_id = B.id"),
            ("visit", "person", "A.person_id = B.id"),
            ("person", "visit", "B.guide_id = A.id"),
            (
                "entry",
                "visit",
                "A.place_id = B.place_id AND A.number = B.number",
            ),
            (
                "visit",
                "entry",
                "B.place_id = A.place_id AND A.number = B.number",
            ),
            ("tag", "person", "A.person_id = B.id"),
            ("log", "tag", "A.level = B.strength"),
        ];
        let (one, two, on) = WAYS[self.rng.usize(0..WAYS.len())];
        let (a, b) = (self.alias(), self.alias());
        let info = |name: &str| TABLES.iter().find(|t| t.name == name).expect("a table");
        let mut scope = Scope::of(info(one), &a).and(&Scope::of(info(two), &b));
        let on = on
            .replace("A.", &format!("{a}."))
            .replace("B.", &format!("{b}."));
        let kind = self.pick(&[
            "JOIN",
            "JOIN",
            "LEFT JOIN",
            "INNER JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
        ]);
        let extra = match self.one_in(4) {
            true => format!(" AND {}", self.condition(&scope, 0)),
            false => String::new(),
        };
        let mut from = match self.one_in(6) {
            // The implicit join.
            true => {
                return Source {
                    from: format!("{one} {a}, {two} {b}"),
                    scope,
                    conditions: vec![on],
                };
            }
            false => format!("{one} {a} {kind} {two} {b} ON {on}{extra}"),
        };
        if self.one_in(4) {
            let c = self.alias();
            let third = Scope::of(info("tag"), &c);
            let people: Vec<&Column> = scope
                .columns
                .iter()
                .filter(|c| c.domain == Domain::Person)
                .collect();
            if let Some(person) = people.first() {
                let kind = self.pick(&["JOIN", "LEFT JOIN"]);
                from.push_str(&format!(
                    " {kind} tag {c} ON {c}.person_id = {}",
                    person.name
                ));
                scope = scope.and(&third);
            }
        }
        let conditions = match self.one_in(3) {
            true => vec![self.narrow(info(one), &a)],
            false => Vec::new(),
        };
        Source {
            from,
            scope,
            conditions,
        }
    }
}

/// The columns c1, c2, … of a derived table.
fn derived(alias: &str, types: &[Ty]) -> Scope {
    let columns = types.iter().enumerate().map(|(place, ty)| Column {
        name: format!("{alias}.c{}", place + 1),
        ty: *ty,
        domain: Domain::Any,
    });
    Scope {
        columns: columns.collect(),
    }
}
