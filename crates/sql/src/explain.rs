//! Compiled plans as text, in the manner of PostgreSQL's EXPLAIN.

use std::fmt::Write;

use anabranch_types::{ColumnIndex, TableSchema};

use crate::{
    expression::{Expression, SequenceFunction, SequenceTarget, text::format_text},
    plan::{
        Body, Distinct, Finish, Join, KeyPart, Path, Query, RowsOf, Select, Step, SubqueryKind,
        TableFunction, TableRead, WhenLocked,
        statement::{CompoundKind, Statement, StatementKind},
    },
    procedure::CompiledProcedure,
    summary::Deferral,
};

/// The names for an expression: the sources of each enclosing query, innermost last, and the variables.
struct Names<'n> {
    sources: Vec<Vec<SourceName<'n>>>,
    variables: &'n [String],
}

#[derive(Clone)]
enum SourceName<'n> {
    Table(&'n TableSchema),
    Other(String),
}

impl CompiledProcedure {
    /// Each of its statements with its steps: access paths, keys, filters, and whether it can be
    /// deferred.
    pub fn explain(&self) -> String {
        let mut out = String::new();
        let variables = self.variable_names();
        for (place, site) in self.statements.iter().enumerate() {
            let _ = write!(out, "{}", self.statement_id(place).0);
            let _ = writeln!(
                out,
                ": {}{}{}",
                headline(&site.statement),
                if site.in_loop { " (in a loop)" } else { "" },
                match site.deferral {
                    Deferral::None => "",
                    Deferral::Unread => " (can be deferred)",
                    Deferral::AfterReading => " (can be deferred once the row is read)",
                },
            );
            statement(&mut out, &site.statement, &variables);
        }
        out
    }

    /// Its steps, indented below the headline of a client's call.
    pub(crate) fn explain_call(&self) -> String {
        let mut out = format!("Call of {}\n", self.name);
        for line in self.explain().lines() {
            let _ = writeln!(out, "  {line}");
        }
        out
    }

    fn variable_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        for slot in names.len()..self.variables.len() {
            names.push(
                self.slot_names
                    .get(slot)
                    .cloned()
                    .unwrap_or_else(|| format!("variable {slot}")),
            );
        }
        names
    }
}

/// A statement with its steps, over variables of these names.
pub(crate) fn client_statement(of: &Statement, variables: &[String]) -> String {
    let mut out = headline(of);
    out.push('\n');
    statement(&mut out, of, variables);
    out
}

fn headline(statement: &Statement) -> String {
    match &statement.kind {
        StatementKind::Query(_) => "Select".into(),
        StatementKind::Insert(insert) => format!("Insert on {}", insert.schema.name),
        StatementKind::Update(update) => format!("Update on {}", update.schema.name),
        StatementKind::Delete(delete) => format!("Delete on {}", delete.schema.name),
        StatementKind::Compound(several) => match several.kind {
            CompoundKind::With { .. } => "Several".into(),
            CompoundKind::Merge => "Merge".into(),
        },
    }
}

/// A statement's steps, indented.
pub(crate) fn statement(out: &mut String, statement: &Statement, variables: &[String]) {
    let mut names = Names {
        sources: Vec::new(),
        variables,
    };
    named(out, &statement.ctes, 1, &names);
    match &statement.kind {
        StatementKind::Query(of) => query(out, of, 1, &mut names),
        StatementKind::Insert(insert) => query(out, &insert.query, 1, &mut names),
        StatementKind::Update(update) => {
            names.sources.push(sources(&update.steps, update.stride));
            steps(out, &update.steps, 1, &mut names);
            let is_left = |column: &ColumnIndex| {
                let mut computed = update.computed.iter();
                !computed.any(|of| of.column == *column)
            };
            let left = update.assignments.iter();
            for (column, expression) in left.filter(|(column, _)| is_left(column)) {
                let name = &update.schema.columns[column.index()].name;
                line(
                    out,
                    1,
                    &format!("Set: {name} = {}", text(expression, &names)),
                );
            }
            for of in &update.computed {
                let name = &update.schema.columns[of.column.index()].name;
                let value = of.assigned(&update.assignments);
                line(out, 1, &format!("Set: {name} = {}", text(&value, &names)));
            }
        }
        StatementKind::Delete(delete) => {
            names.sources.push(sources(&delete.steps, delete.stride));
            steps(out, &delete.steps, 1, &mut names);
        }
        StatementKind::Compound(several) => {
            for (place, part) in several.parts.iter().enumerate() {
                let number = match &several.kind {
                    CompoundKind::With { numbers } => numbers.get(place),
                    CompoundKind::Merge => None,
                };
                let cte = number.map_or(String::new(), |number| format!("CTE {number}: "));
                line(out, 1, &format!("{cte}{}", headline(part)));
                let mut steps = String::new();
                self::statement(&mut steps, part, variables);
                steps.lines().for_each(|step| line(out, 1, step));
            }
        }
    }
}

fn line(out: &mut String, depth: usize, text: &str) {
    let _ = writeln!(out, "{:width$}{text}", "", width = depth * 2);
}

/// Common table expressions.
fn named(out: &mut String, ctes: &[(usize, Query)], depth: usize, names: &Names<'_>) {
    for (number, cte) in ctes {
        line(out, depth, &format!("CTE {number}"));
        let mut inner = Names {
            sources: Vec::new(),
            variables: names.variables,
        };
        query(out, cte, depth + 1, &mut inner);
    }
}

fn query(out: &mut String, of: &Query, depth: usize, names: &mut Names<'_>) {
    named(out, &of.ctes, depth, names);
    match &of.body {
        Body::Select(select) => {
            let Select {
                steps: list,
                stride,
                finish: of,
                ..
            } = &**select;
            let mut inner = Names {
                sources: names.sources.clone(),
                variables: names.variables,
            };
            inner.sources.push(sources(list, *stride));
            steps(out, list, depth, &mut inner);
            finish(out, of, depth, &inner);
        }
        Body::SetOperation(operation) => {
            let all = if operation.all { " All" } else { "" };
            line(out, depth, &format!("{:?}{all}", operation.operator));
            query(out, &operation.left, depth + 1, names);
            query(out, &operation.right, depth + 1, names);
            finish(out, &operation.finish, depth, names);
        }
        Body::Recursive(recursive) => {
            let all = if recursive.all { " All" } else { "" };
            line(out, depth, &format!("Recursive Union{all}"));
            query(out, &recursive.base, depth + 1, names);
            query(out, &recursive.step, depth + 1, names);
        }
    }
}

fn finish(out: &mut String, of: &Finish, depth: usize, names: &Names<'_>) {
    match &of.distinct {
        Distinct::None => {}
        Distinct::All => line(out, depth, "Unique"),
        Distinct::On(columns) => line(out, depth, &format!("Unique on outputs {columns:?}")),
    }
    if !of.order.is_empty() {
        let keys: Vec<String> = of
            .order
            .iter()
            .map(|key| {
                format!(
                    "output {}{}",
                    key.column + 1,
                    if key.descending { " DESC" } else { "" }
                )
            })
            .collect();
        line(out, depth, &format!("Sort by {}", keys.join(", ")));
    }
    if let Some(limit) = &of.limit {
        line(out, depth, &format!("Limit {}", text(limit, names)));
    }
    if let Some(offset) = &of.offset {
        line(out, depth, &format!("Offset {}", text(offset, names)));
    }
}

/// The names of a pipeline's sources, by number from 1.
fn sources(list: &[Step], stride: usize) -> Vec<SourceName<'_>> {
    let mut names = vec![SourceName::Other(String::new()); stride.max(1)];
    let mut set = |source: usize, name| {
        if let Some(place) = names.get_mut(source) {
            *place = name;
        }
    };
    for step in list {
        match step {
            Step::Read(read) => set(read.source, SourceName::Table(&read.schema)),
            Step::Function(function) => {
                set(
                    function.source,
                    SourceName::Other(format!("f{}", function.source)),
                );
            }
            Step::Rows { source, .. } => set(*source, SourceName::Other(format!("values{source}"))),
            Step::Query(query) => {
                set(
                    query.source,
                    SourceName::Other(format!("query{}", query.source)),
                );
            }
            Step::Subquery { source, .. } => {
                set(*source, SourceName::Other(format!("subquery{source}")));
            }
            Step::Window(windows) => set(windows.source, SourceName::Other("window".into())),
            Step::Group { source, .. } => set(*source, SourceName::Other("aggregate".into())),
            Step::Filter(_) => {}
        }
    }
    names
}

fn steps(out: &mut String, list: &[Step], depth: usize, names: &mut Names<'_>) {
    for step in list {
        match step {
            Step::Filter(filters) => filter(out, "Filter", filters, depth, names),
            Step::Read(read) => table(out, read, depth, names),
            Step::Function(function) => {
                let name = match function.function {
                    TableFunction::Unnest => "unnest",
                    TableFunction::Elements if function.arguments.len() > 1 => "distinct rows of",
                    TableFunction::Elements => "distinct elements of",
                    TableFunction::GenerateSeries => "generate_series",
                };
                let arguments: Vec<String> =
                    function.arguments.iter().map(|e| text(e, names)).collect();
                let shown = format!(
                    "Function {name}({}) f{}",
                    arguments.join(", "),
                    function.source
                );
                line(out, depth, &shown);
                join(out, &function.join, depth, names);
            }
            Step::Rows {
                source,
                rows,
                join: of,
            } => {
                line(
                    out,
                    depth,
                    &format!("Values: {} rows values{source}", rows.len()),
                );
                join(out, of, depth, names);
            }
            Step::Query(of) => {
                let hash: Vec<String> = of
                    .hash
                    .iter()
                    .map(|(row, tuple)| format!("{} = {}", text(row, names), text(tuple, names)))
                    .collect();
                let how = if hash.is_empty() {
                    "Nested Loop".into()
                } else {
                    format!("Hash Join on ({})", hash.join(" AND "))
                };
                line(out, depth, &format!("{how} with query{}", of.source));
                match &of.rows {
                    RowsOf::Query(inner) => query(out, inner, depth + 1, names),
                    RowsOf::Constant { values, width } => {
                        let count = values.len() / width;
                        line(
                            out,
                            depth + 1,
                            &format!("System Catalog Scan: {count} rows"),
                        );
                    }
                    RowsOf::Cte { number, .. } => {
                        line(out, depth + 1, &format!("CTE Scan {number}"))
                    }
                }
                join(out, &of.join, depth, names);
            }
            Step::Subquery { source, subquery } => {
                let kind = match &subquery.kind {
                    SubqueryKind::Scalar => "scalar".to_string(),
                    SubqueryKind::Exists { negated: false } => "EXISTS".into(),
                    SubqueryKind::Exists { negated: true } => "NOT EXISTS".into(),
                    SubqueryKind::Quantified { relation, all, .. } => {
                        format!("{} {}", relation.symbol(), if *all { "ALL" } else { "ANY" })
                    }
                    SubqueryKind::Array => "ARRAY".into(),
                };
                let times = if subquery.query.correlated {
                    "for each tuple"
                } else {
                    "once"
                };
                line(
                    out,
                    depth,
                    &format!("Subquery subquery{source}: {kind}, {times}"),
                );
                query(out, &subquery.query, depth + 1, names);
            }
            Step::Window(windows) => {
                for of in &windows.windows {
                    let functions: Vec<&str> = of.calls.iter().map(|c| c.function.name()).collect();
                    let partition: Vec<String> =
                        of.partition.iter().map(|e| text(e, names)).collect();
                    let order: Vec<String> =
                        of.order.iter().map(|(e, ..)| text(e, names)).collect();
                    let shown = format!(
                        "Window {} by ({}) in the order of ({})",
                        functions.join(", "),
                        partition.join(", "),
                        order.join(", ")
                    );
                    line(out, depth, &shown);
                }
            }
            Step::Group {
                keys, aggregates, ..
            } => {
                let functions: Vec<&str> = aggregates.iter().map(|a| a.function.name()).collect();
                let keys: Vec<String> = keys.iter().map(|e| text(e, names)).collect();
                let by = if keys.is_empty() {
                    String::new()
                } else {
                    format!(" by {}", keys.join(", "))
                };
                line(
                    out,
                    depth,
                    &format!("Aggregate {}{by}", functions.join(", ")),
                );
            }
        }
    }
}

fn table(out: &mut String, read: &TableRead, depth: usize, names: &Names<'_>) {
    let name = &read.schema.name;
    let left = match (read.join.left, read.join.full) {
        (_, true) => "Full Join ",
        (true, false) => "Left Join ",
        (false, false) => "",
    };
    let write = match (read.for_write, read.when_locked) {
        (true, WhenLocked::Wait) => " for update",
        (false, WhenLocked::Wait) => "",
        (true, WhenLocked::Fail) => " for update nowait",
        (false, WhenLocked::Fail) => " for share nowait",
        (true, WhenLocked::Skip) => " for update skip locked",
        (false, WhenLocked::Skip) => " for share skip locked",
    };
    let part = |part: &KeyPart| {
        let column = &read.schema.columns[part.column.index()].name;
        format!("{column} = {}", text(&part.value, names))
    };
    match &read.path {
        Path::Point { key } => {
            line(out, depth, &format!("{left}Key Lookup on {name}{write}"));
            let key: Vec<String> = key.iter().map(part).collect();
            line(out, depth + 1, &format!("Key: {}", key.join(" AND ")));
        }
        Path::Range(range) => {
            let index = match range.index {
                None => "primary key".to_string(),
                Some(index) => read.schema.indexes[index.index()].name.clone(),
            };
            let backward = if range.reverse { " Backward" } else { "" };
            line(
                out,
                depth,
                &format!("{left}Range Scan{backward} on {name} using {index}{write}"),
            );
            let mut conditions: Vec<String> = range.prefix.iter().map(part).collect();
            let bounds = [(&range.lower, [">", ">="]), (&range.upper, ["<", "<="])];
            for (bound, symbols) in bounds {
                if let Some((part, inclusive)) = bound {
                    let column = &read.schema.columns[part.column.index()].name;
                    let symbol = symbols[usize::from(*inclusive)];
                    conditions.push(format!("{column} {symbol} {}", text(&part.value, names)));
                }
            }
            if !conditions.is_empty() {
                line(
                    out,
                    depth + 1,
                    &format!("Range: {}", conditions.join(" AND ")),
                );
            }
            if let Some((limit, offset)) = &range.limit {
                let offset = offset
                    .as_ref()
                    .map_or(String::new(), |o| format!(" + {}", text(o, names)));
                line(
                    out,
                    depth + 1,
                    &format!("Stop after: {}{offset}", text(limit, names)),
                );
            }
        }
        Path::Scan { hash } => {
            line(out, depth, &format!("{left}Full Scan on {name}{write}"));
            let keys: Vec<String> = hash
                .iter()
                .map(|(row, tuple)| format!("{} = {}", text(row, names), text(tuple, names)))
                .collect();
            if !keys.is_empty() {
                line(out, depth + 1, &format!("Hash: {}", keys.join(" AND ")));
            }
        }
    }
    join(out, &read.join, depth, names);
}

fn join(out: &mut String, of: &Join, depth: usize, names: &Names<'_>) {
    filter(out, "Join Filter", &of.matches, depth + 1, names);
    filter(out, "Filter", &of.filters, depth + 1, names);
}

fn filter(out: &mut String, label: &str, filters: &[Expression], depth: usize, names: &Names<'_>) {
    if !filters.is_empty() {
        let shown: Vec<String> = filters.iter().map(|e| text(e, names)).collect();
        line(out, depth, &format!("{label}: {}", shown.join(" AND ")));
    }
}

/// An expression as approximate SQL.
fn text(expression: &Expression, names: &Names<'_>) -> String {
    let of = |e: &Expression| text(e, names);
    let list = |list: &[Expression]| list.iter().map(of).collect::<Vec<_>>().join(", ");
    match expression {
        Expression::Constant(value) => constant(value),
        Expression::Variable(slot) => names
            .variables
            .get(*slot)
            .cloned()
            .unwrap_or_else(|| format!("${}", slot + 1)),
        Expression::Column {
            depth,
            source,
            column,
        } => {
            let place = names.sources.len().checked_sub(depth + 1);
            match place.and_then(|place| names.sources[place].get(*source)) {
                Some(SourceName::Table(schema)) => schema.columns[*column].name.clone(),
                Some(SourceName::Other(name)) => format!("{name}.{}", column + 1),
                None => format!("outer.{}", column + 1),
            }
        }
        Expression::Not(e) => format!("NOT ({})", of(e)),
        Expression::And(all) => all.iter().map(of).collect::<Vec<_>>().join(" AND "),
        Expression::Or(any) => format!("({})", any.iter().map(of).collect::<Vec<_>>().join(" OR ")),
        Expression::IsNull { operand, negated } => {
            format!(
                "{} IS {}NULL",
                of(operand),
                if *negated { "NOT " } else { "" }
            )
        }
        Expression::IsBool {
            operand,
            expected,
            negated,
        } => {
            let not = if *negated { "NOT " } else { "" };
            format!(
                "{} IS {not}{}",
                of(operand),
                if *expected { "TRUE" } else { "FALSE" }
            )
        }
        Expression::Compare {
            relation,
            left,
            right,
        } => {
            format!("{} {} {}", of(left), relation.symbol(), of(right))
        }
        Expression::Distinct {
            left,
            right,
            negated,
        } => {
            let not = if *negated { "NOT " } else { "" };
            format!("{} IS {not}DISTINCT FROM {}", of(left), of(right))
        }
        Expression::Arithmetic {
            operator,
            left,
            right,
            ..
        } => {
            format!("({} {} {})", of(left), operator.symbol(), of(right))
        }
        Expression::Negate { operand, .. } => format!("-{}", of(operand)),
        Expression::Concat(left, right) => format!("({} || {})", of(left), of(right)),
        Expression::Case {
            branches,
            otherwise,
        } => {
            let whens: Vec<String> = branches
                .iter()
                .map(|(c, r)| format!("WHEN {} THEN {}", of(c), of(r)))
                .collect();
            format!("CASE {} ELSE {} END", whens.join(" "), of(otherwise))
        }
        Expression::Switch {
            operand,
            branches,
            otherwise,
        } => {
            let whens: Vec<String> = branches
                .iter()
                .map(|(c, r)| format!("WHEN {} THEN {}", of(c), of(r)))
                .collect();
            format!(
                "CASE {} {} ELSE {} END",
                of(operand),
                whens.join(" "),
                of(otherwise)
            )
        }
        Expression::Coalesce(all) => format!("coalesce({})", list(all)),
        Expression::NullIf(left, right) => format!("nullif({}, {})", of(left), of(right)),
        Expression::InList {
            operand,
            list: all,
            negated,
        } => {
            format!(
                "{} {}IN ({})",
                of(operand),
                if *negated { "NOT " } else { "" },
                list(all)
            )
        }
        Expression::Quantified {
            relation,
            left,
            array,
            all,
        } => {
            let word = if *all { "ALL" } else { "ANY" };
            format!("{} {} {word} ({})", of(left), relation.symbol(), of(array))
        }
        Expression::Like {
            operand,
            pattern,
            insensitive,
            negated,
            ..
        } => {
            let not = if *negated { "NOT " } else { "" };
            let word = if *insensitive { "ILIKE" } else { "LIKE" };
            format!("{} {not}{word} {}", of(operand), of(pattern))
        }
        Expression::Cast { operand, to, .. } => format!("{}::{to}", of(operand)),
        Expression::Call {
            function,
            arguments,
        } => {
            let shown = format!("{function:?}").to_lowercase();
            let name = shown.split('(').next().unwrap_or("").to_string();
            format!("{name}({})", list(arguments))
        }
        Expression::Array(all) => format!("ARRAY[{}]", list(all)),
        Expression::Subscript(array, index) => format!("{}[{}]", of(array), of(index)),
        Expression::Now => "now()".into(),
        Expression::Unique => "gen_random_uuid()".into(),
        Expression::Next(sequence) => format!("nextval('{}')", sequence.name),
        Expression::OfSequence {
            function,
            target,
            arguments,
        } => {
            let name = match function {
                SequenceFunction::Next => "nextval",
                SequenceFunction::Current => "currval",
                SequenceFunction::Last => "lastval",
                SequenceFunction::Set => "setval",
                SequenceFunction::LastValue | SequenceFunction::LastCalled => "last_value",
                SequenceFunction::IsCalled => "is_called",
            };
            let mut listed = Vec::new();
            if let SequenceTarget::Named(sequence) = target {
                listed.push(format!("'{}'", sequence.name));
            }
            listed.extend(arguments.iter().map(of));
            format!("{name}({})", listed.join(", "))
        }
    }
}

fn constant(value: &anabranch_types::Value) -> String {
    use anabranch_types::{DataType, Value};
    match value {
        Value::Null => "NULL".into(),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Timestamp(_) => format!("'{}'", format_text(value, &DataType::Timestamp)),
        Value::Date(_) => format!("'{}'", format_text(value, &DataType::Date)),
        other => format_text(other, &DataType::Text),
    }
}
