//! Applications for the analyser's tests: schemas as SQL, transaction types by hand.
//!
//! A type is built statement by statement; terms are written as text: `p_x` a parameter, `p_x[]` an element of an
//! array parameter, `=n` an integer, `null`, `fresh` a generated value, `pure`, `now`, `?` for an unknown term,
//! `#s.c+n` what UPDATE number `s` of the type returns of the column `c` that it increments, `@s.c` the column `c`
//! that statement `s` reads first, `min@s.c`, `max@s.c+1` an aggregate of it.

use anabranch_analysis::plan::{Confluence, Plan, PlanEntry, Verdict};
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::catalog::Catalog;
use anabranch_sql::source::{SourceFile, Span};
use anabranch_sql::summary::{
    ColumnWrite, Comparison, Condition, Deferral, ResultUse, Role, StatementId, StatementSummary,
    TableAccess, Term, TransactionSummary, WriteClass,
};
use anabranch_types::{ColumnIndex, DataType, TableId, Value};

const NOWHERE: Span = Span {
    file: 0,
    start: 0,
    end: 0,
};

/// A schema and the types built so far.
pub(crate) struct Application {
    pub(crate) catalog: Catalog,
    pub(crate) types: Vec<TransactionSummary>,
    statements: u32,
}

/// A type being built.
pub(crate) struct Type<'a> {
    application: &'a mut Application,
    summary: TransactionSummary,
    first: u32,
}

/// The files of an application of the examples folder.
pub(crate) fn example_files(folder: &str) -> Vec<SourceFile> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    ["schema.sql", "assertions.sql", "procedures.sql"]
        .iter()
        .filter_map(|name| {
            let text = std::fs::read_to_string(format!("{root}/{folder}/{name}")).ok()?;
            Some(SourceFile {
                name: format!("examples/{folder}/{name}"),
                text: text.into(),
            })
        })
        .collect()
}

impl Application {
    /// An application with these declarations.
    pub(crate) fn new(sql: &str) -> Application {
        let file = SourceFile {
            name: "test.sql".into(),
            text: sql.into(),
        };
        Application::of(vec![file])
    }

    /// An application from files.
    pub(crate) fn of(files: Vec<SourceFile>) -> Application {
        let kept = files.clone();
        let catalog = anabranch_sql::load(files)
            .unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, &kept)));
        Application {
            catalog,
            types: Vec::new(),
            statements: 0,
        }
    }

    /// An application of the examples folder, with its types as they are compiled.
    pub(crate) fn example(folder: &str) -> Application {
        Application::compiled(example_files(folder))
    }

    /// An application from files, with its types as they are compiled.
    pub(crate) fn compiled(files: Vec<SourceFile>) -> Application {
        let mut application = Application::of(files.clone());
        let compiled = anabranch_sql::Application::compile(application.catalog.clone())
            .unwrap_or_else(|found| panic!("{}", anabranch_sql::render(&found, &files)));
        application.types = compiled.summaries().to_vec();
        application
    }

    /// Adds a type with these parameters.
    pub(crate) fn transaction<'a>(&'a mut self, name: &str, parameters: &[&str]) -> Type<'a> {
        let first = self.statements;
        let summary = TransactionSummary {
            name: name.into(),
            span: NOWHERE,
            parameters: parameters
                .iter()
                .map(|p| ((*p).to_owned(), DataType::Int4))
                .collect(),
            statements: Vec::new(),
            may_end_early: false,
            keeps: Vec::new(),
            unknown: None,
            only_reads: false,
            may_change_any_table: false,
        };
        Type {
            application: self,
            summary,
            first,
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        self.plan_for(Guarantee::Invariants)
    }

    pub(crate) fn plan_for(&self, guarantee: Guarantee) -> Plan {
        analyze(&self.catalog, &self.types, Topology::Partitioned, guarantee)
    }

    pub(crate) fn table(&self, name: &str) -> TableId {
        let found = self.catalog.schema.tables.iter().find(|t| t.name == name);
        found.unwrap_or_else(|| panic!("no table {name}")).id
    }

    pub(crate) fn column(&self, table: TableId, name: &str) -> ColumnIndex {
        let columns = &self.catalog.schema.table(table).columns;
        let place = columns.iter().position(|c| c.name == name);
        ColumnIndex(place.unwrap_or_else(|| panic!("no column {name}")) as u16)
    }
}

impl Type<'_> {
    fn id(&self) -> StatementId {
        StatementId(self.first + self.summary.statements.len() as u32)
    }

    fn term(&self, text: &str) -> Term {
        let parameter = |name: &str| {
            let place = self.summary.parameters.iter().position(|(n, _)| n == name);
            place.unwrap_or_else(|| panic!("no parameter {name}"))
        };
        let (function, rest) = match text.split_once('@') {
            Some((function, rest)) => (function, rest),
            None => ("", text),
        };
        match text {
            "null" => return Term::Constant(Value::Null),
            "fresh" => return Term::Generated,
            "pure" => return Term::Pure,
            "now" => return Term::Now,
            "?" => return Term::Unknown,
            _ => {}
        }
        if let Some(n) = text.strip_prefix('=') {
            return Term::Constant(Value::Int(n.parse().expect("an integer")));
        }
        if let Some(rest) = text.strip_prefix('#') {
            let (statement, _, column, offset) = self.place(rest);
            return Term::Incremented {
                statement,
                column,
                offset,
            };
        }
        if text.contains('@') {
            let (statement, access, column, offset) = self.place(rest);
            if function.is_empty() {
                return Term::Column {
                    statement,
                    access,
                    column,
                };
            }
            return Term::Aggregate {
                function: function.into(),
                statement,
                access: Some(access),
                column: Some(column),
                offset,
            };
        }
        match text.strip_suffix("[]") {
            Some(name) => Term::Element(parameter(name)),
            None => Term::Parameter(parameter(text)),
        }
    }

    /// `statement.column+offset`; a statement being built is its own number.
    fn place(&self, text: &str) -> (StatementId, usize, ColumnIndex, i64) {
        let (statement, column) = text.split_once('.').expect("statement.column");
        let number: usize = statement.parse().expect("a number");
        let split = column.find(['+', '-']).unwrap_or(column.len());
        let (column, offset) = column.split_at(split);
        let of = &self.summary.statements[number];
        let (access, column) = of
            .accesses
            .iter()
            .enumerate()
            .find_map(|(i, a)| {
                let columns = &self.application.catalog.schema.table(a.table).columns;
                let place = columns.iter().position(|c| c.name == column)?;
                Some((i, ColumnIndex(place as u16)))
            })
            .unwrap_or_else(|| panic!("statement {number} does not touch {column}"));
        (
            of.id,
            access,
            column,
            offset.trim_start_matches('+').parse().unwrap_or(0),
        )
    }

    fn access(&self, role: Role, table: &str, conditions: &[(&str, &str)]) -> TableAccess {
        let table = self.application.table(table);
        let conditions: Vec<Condition> = conditions
            .iter()
            .map(|(column, term)| Condition {
                column: self.application.column(table, column),
                comparison: Comparison::Equal,
                term: self.term(term),
            })
            .collect();
        TableAccess {
            table,
            role,
            columns_returned: Vec::new(),
            columns_read: conditions.iter().map(|c| c.column).collect(),
            writes: Vec::new(),
            conditions,
            has_other_conditions: false,
            listed: Vec::new(),
            draws_key: false,
            span: NOWHERE,
        }
    }

    fn push(mut self, accesses: Vec<TableAccess>, deferrable: bool) -> Self {
        let id = self.id();
        self.summary.statements.push(StatementSummary {
            id,
            span: NOWHERE,
            in_loop: false,
            path: Vec::new(),
            may_skip_rows: false,
            inserts_one: accesses.iter().any(|a| a.role == Role::Insert),
            finds_none: false,
            accesses,
            result: ResultUse::Unused,
            deferral: match deferrable {
                true => Deferral::Unread,
                false => Deferral::None,
            },
            has_program: deferrable,
            may_fail: false,
        });
        self
    }

    /// SELECT columns FROM table WHERE …; its result is only passed on.
    pub(crate) fn select(self, table: &str, columns: &[&str], conditions: &[(&str, &str)]) -> Self {
        let mut access = self.access(Role::Read, table, conditions);
        let table = access.table;
        access
            .columns_read
            .extend(columns.iter().map(|c| self.application.column(table, c)));
        self.push(vec![access], false).result(ResultUse::Carried)
    }

    /// INSERT INTO table; columns that are not named are NULL.
    pub(crate) fn insert(self, table: &str, values: &[(&str, &str)]) -> Self {
        let mut access = self.access(Role::Insert, table, &[]);
        let id = access.table;
        for column in 0..self.application.catalog.schema.table(id).columns.len() {
            let column = ColumnIndex(column as u16);
            let given = values
                .iter()
                .find(|(c, _)| self.application.column(id, c) == column);
            let term = given.map_or(Term::Constant(Value::Null), |(_, text)| self.term(text));
            access.writes.push(ColumnWrite {
                column,
                class: WriteClass::Assign(term),
                null_by: Vec::new(),
                amount_null_by: None,
            });
        }
        self.push(vec![access], false)
    }

    /// UPDATE table SET …: `x` assigns, `+x` adds, `-x` subtracts, `row` computes from the row, `data` from what
    /// was read. Deferrable if the whole primary key is fixed and nothing comes from data.
    pub(crate) fn update(
        self,
        table: &str,
        writes: &[(&str, &str)],
        conditions: &[(&str, &str)],
    ) -> Self {
        let mut access = self.access(Role::Update, table, conditions);
        let id = access.table;
        let mut deferrable = true;
        for (column, text) in writes {
            let class = match *text {
                "row" => WriteClass::FromRow,
                "data" => {
                    deferrable = false;
                    WriteClass::FromData
                }
                _ => match (text.strip_prefix('+'), text.strip_prefix('-')) {
                    (Some(t), _) => WriteClass::Add {
                        term: self.term(t),
                        negated: false,
                    },
                    (_, Some(t)) => WriteClass::Add {
                        term: self.term(t),
                        negated: true,
                    },
                    _ => WriteClass::Assign(self.term(text)),
                },
            };
            let column = self.application.column(id, column);
            let amount_null_by = match &class {
                WriteClass::Add { term, .. } => Some(vec![term.clone()]),
                _ => None,
            };
            access.writes.push(ColumnWrite {
                column,
                class,
                null_by: Vec::new(),
                amount_null_by,
            });
        }
        let key = &self.application.catalog.schema.table(id).primary_key;
        let keyed = key
            .iter()
            .all(|k| access.conditions.iter().any(|c| c.column == *k));
        let deferrable = deferrable && keyed && !key.is_empty();
        self.push(vec![access], deferrable)
    }

    /// DELETE FROM table WHERE …
    pub(crate) fn delete(self, table: &str, conditions: &[(&str, &str)]) -> Self {
        let access = self.access(Role::Delete, table, conditions);
        self.push(vec![access], false)
    }

    /// How the last statement's result is used. Used results cannot be deferred.
    pub(crate) fn result(mut self, result: ResultUse) -> Self {
        let last = self.summary.statements.last_mut().expect("a statement");
        last.result = result;
        if result == ResultUse::Used {
            last.deferral = Deferral::None;
        }
        self
    }

    /// Adds columns that the last statement reads.
    pub(crate) fn reading(mut self, columns: &[&str]) -> Self {
        let table = self
            .summary
            .statements
            .last()
            .expect("a statement")
            .accesses[0]
            .table;
        let found: Vec<_> = columns
            .iter()
            .map(|c| self.application.column(table, c))
            .collect();
        let last = self.summary.statements.last_mut().expect("a statement");
        last.accesses[0].columns_read.extend(found);
        self
    }

    /// Joins another table in the last statement.
    pub(crate) fn join(
        mut self,
        table: &str,
        columns: &[&str],
        conditions: &[(&str, &str)],
    ) -> Self {
        let last = self.summary.statements.pop().expect("a statement");
        let id = last.id;
        self.summary.statements.push(last);
        let mut access = self.access(Role::Read, table, conditions);
        let joined = access.table;
        access
            .columns_read
            .extend(columns.iter().map(|c| self.application.column(joined, c)));
        let last = self.summary.statements.last_mut().expect("a statement");
        assert_eq!(last.id, id);
        last.accesses.push(access);
        self
    }

    /// Ends the type.
    pub(crate) fn done(self) {
        self.application.statements += self.summary.statements.len() as u32;
        self.application.types.push(self.summary);
    }
}

/// The verdict on a type and an invariant.
pub(crate) fn verdict<'p>(plan: &'p Plan, name: &str, invariant: &str) -> &'p Verdict {
    try_verdict(plan, name, invariant)
        .unwrap_or_else(|| panic!("{name} has no verdict on {invariant}"))
}

/// The verdict, if there is one.
pub(crate) fn try_verdict<'p>(plan: &'p Plan, name: &str, invariant: &str) -> Option<&'p Verdict> {
    let place = plan.invariants.iter().position(|i| i.name == invariant);
    let place = place.unwrap_or_else(|| panic!("no invariant {invariant}"));
    entry(plan, name).verdict(place)
}

pub(crate) fn entry<'p>(plan: &'p Plan, name: &str) -> &'p PlanEntry {
    plan.entry(name).unwrap_or_else(|| panic!("no type {name}"))
}

/// Asserts a verdict by its rule.
pub(crate) fn expect(plan: &Plan, name: &str, invariant: &str, confluent: Confluence, rule: &str) {
    let found = verdict(plan, name, invariant);
    assert_eq!(
        (found.confluent, found.rule),
        (confluent, rule),
        "{name} on {invariant}: {}",
        found.explanation
    );
}
