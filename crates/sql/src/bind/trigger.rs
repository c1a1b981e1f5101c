//! Row triggers BEFORE INSERT and UPDATE, as assignments to columns of the row that is written.
//!
//! 1. The body of a trigger's function is followed for each event ([`RowTriggers::of`]): what it knows of NEW are the
//!    columns that it has assigned, each with an expression over the row as the trigger found it (source 1) and the old
//!    row (source 2). IF becomes CASE, and so does WHEN.
//! 2. The triggers that a statement fires are composed in the order of their names, each over what those before it have
//!    assigned ([`RowTriggers::on_update`]). The result is over the row as the statement has made it.
//! 3. It stands beside the generated columns, which are computed from the row that the triggers leave
//!    ([`super::computed`]).
//!
//! PostgreSQL evaluates every assignment of a body. Here the value alone that is left is evaluated, so a body in which
//! another one might have failed is refused.

use std::cell::Cell;

use anabranch_types::{ColumnIndex, DataType, TableId, TableSchema, Value};
use sqlparser::ast::{self, Expr};

use super::{
    Bind, Binder, Variables,
    convert::{Context, exists},
    scope::{Scope, ScopeColumn, ScopeSource},
    substitution::{cannot_fail, replaced_all},
};
use crate::{
    catalog::{Catalog, ColumnDefault, Statement, Trigger, plain_type},
    diagnostic::Diagnostic,
    expression::{Expression, frame::column_index},
    parse::trigger::{CONSTANTS, record},
    source::Span,
};

/// The parts of an expression that triggers may make of a column: more would nest too deeply to be evaluated.
const PARTS_MAX: usize = 2_000;
/// The triggers UPDATE OF of one table: each set of them is composed once.
const UPDATE_OF_MAX: usize = 6;
/// The statements of a body, as often as they are followed.
const STATEMENTS_MAX: usize = 10_000;

/// The sources of the expressions of a body.
const NEW: usize = 1;
const OLD: usize = 2;
const OF_TRIGGER: usize = 3;

/// Columns that are assigned, each once, with their values over the row that is written (source 1) and the old row
/// (source 2).
pub(crate) type Assigned = Vec<(ColumnIndex, Expression)>;

/// The triggers of a table, compiled, in the order in which they fire.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowTriggers {
    /// What those on INSERT assign, together.
    insert: Assigned,
    update: Vec<UpdateTrigger>,
}

/// A trigger on UPDATE.
#[derive(Clone, Debug)]
struct UpdateTrigger {
    /// UPDATE OF; empty without it.
    columns: Vec<ColumnIndex>,
    assigned: Assigned,
}

/// What fires a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Insert,
    Update,
}

impl RowTriggers {
    /// The triggers of a table.
    ///
    /// # Errors
    /// The problems of their functions and conditions, at the places of the triggers.
    pub(crate) fn of(catalog: &Catalog, table: TableId) -> Result<RowTriggers, Vec<Diagnostic>> {
        let mut found = RowTriggers::default();
        let mut problems = Vec::new();
        for trigger in catalog.triggers_of(table) {
            let placed = |problem: Diagnostic| Diagnostic {
                span: Some(trigger.span),
                ..problem
            };
            if trigger.on_insert {
                let assigned = assigned_by(catalog, trigger, Event::Insert);
                let composed =
                    assigned.and_then(|assigned| composed(&found.insert, &assigned, trigger.span));
                match composed {
                    Ok(composed) => found.insert = composed,
                    Err(problem) => problems.push(placed(problem)),
                }
            }
            if trigger.on_update {
                match assigned_by(catalog, trigger, Event::Update) {
                    Ok(assigned) => found.update.push(UpdateTrigger {
                        columns: trigger.columns.clone(),
                        assigned,
                    }),
                    Err(problem) => problems.push(placed(problem)),
                }
            }
            if let Err(problem) = found.check_updates(trigger.span) {
                problems.push(placed(problem));
            }
        }
        problems.dedup();
        match problems.is_empty() {
            true => Ok(found),
            false => Err(problems),
        }
    }

    /// What the triggers assign in an INSERT.
    pub(crate) fn on_insert(&self) -> &Assigned {
        &self.insert
    }

    /// What the triggers assign in an UPDATE that names these columns, or changes them since it names others.
    pub(crate) fn on_update(&self, changed: &[ColumnIndex]) -> Assigned {
        let fires = |trigger: &UpdateTrigger| {
            trigger.columns.is_empty() || trigger.columns.iter().any(|of| changed.contains(of))
        };
        let nowhere = Span {
            file: 0,
            start: 0,
            end: 0,
        };
        self.composed_updates(fires, nowhere)
            .expect("every set of them composes, or the table would have been refused")
    }

    /// Refuses triggers of which some set that an UPDATE may fire does not compose. More may compose where fewer do not: a
    /// trigger may use a value that another one overwrites.
    fn check_updates(&self, span: Span) -> Bind<()> {
        let optional = self.update.iter().filter(|of| !of.columns.is_empty());
        if optional.clone().count() > UPDATE_OF_MAX {
            let construct = format!("more than {UPDATE_OF_MAX} triggers UPDATE OF of one table");
            return Err(Diagnostic::unsupported(construct, span)
                .help("leave OF out, and compare NEW and OLD in the function"));
        }
        let optional: Vec<&UpdateTrigger> = optional.collect();
        for set in 0..1_u32 << optional.len() {
            let is_in = |of: &UpdateTrigger| {
                let place = optional.iter().position(|other| std::ptr::eq(*other, of));
                place.is_none_or(|place| set & (1 << place) != 0)
            };
            self.composed_updates(is_in, span)?;
        }
        Ok(())
    }

    fn composed_updates(
        &self,
        fires: impl Fn(&UpdateTrigger) -> bool,
        span: Span,
    ) -> Bind<Assigned> {
        let mut all = Assigned::new();
        for trigger in self.update.iter().filter(|of| fires(of)) {
            all = composed(&all, &trigger.assigned, span)?;
        }
        Ok(all)
    }
}

/// The value of a column, if it is assigned.
fn value_of(assigned: &Assigned, column: ColumnIndex) -> Option<&Expression> {
    let mut all = assigned.iter();
    all.find(|(of, _)| *of == column).map(|(_, value)| value)
}

/// Assigns a column.
fn assign(assigned: &mut Assigned, column: ColumnIndex, value: Expression) {
    match assigned.iter_mut().find(|(of, _)| *of == column) {
        Some(entry) => entry.1 = value,
        None => assigned.push((column, value)),
    }
}

/// What two triggers assign, the second over what the first has.
fn composed(first: &Assigned, second: &Assigned, span: Span) -> Bind<Assigned> {
    let mut all = first.clone();
    let mut discarded = Vec::new();
    for (column, value) in second {
        discarded.extend(value_of(first, *column).cloned());
        let value = replaced_all(value.clone(), &|source, column| {
            (source == NEW).then(|| value_of(first, column).cloned())?
        });
        check_size(&value, span)?;
        assign(&mut all, *column, value);
    }
    check_discarded(&discarded, &all, span)?;
    Ok(all)
}

/// Refuses that something which may fail is not evaluated, since what is left does not contain it.
fn check_discarded(discarded: &[Expression], left: &Assigned, span: Span) -> Bind<()> {
    let is_evaluated = |of: &Expression| left.iter().any(|(_, value)| always_evaluates(value, of));
    if discarded
        .iter()
        .all(|of| cannot_fail(of) || is_evaluated(of))
    {
        return Ok(());
    }
    let construct = "a trigger that computes a value and does not use it";
    Err(Diagnostic::unsupported(construct, span).help("assign each column once"))
}

/// Whether an evaluation of an expression is one of a part.
fn always_evaluates(expression: &Expression, part: &Expression) -> bool {
    if expression == part {
        return true;
    }
    let first = match expression {
        Expression::Case { branches, .. } => branches.first().map(|(condition, _)| condition),
        Expression::Switch { operand, .. } | Expression::InList { operand, .. } => Some(&**operand),
        Expression::And(list) | Expression::Or(list) | Expression::Coalesce(list) => list.first(),
        _ => {
            let mut found = false;
            expression.each_child(|child| found = found || always_evaluates(child, part));
            return found;
        }
    };
    first.is_some_and(|first| always_evaluates(first, part))
}

fn check_size(value: &Expression, span: Span) -> Bind<()> {
    let mut parts = 0;
    value.any(&mut |_| {
        parts += 1;
        parts > PARTS_MAX
    });
    if parts <= PARTS_MAX {
        return Ok(());
    }
    Err(too_complex(span))
}

fn too_complex(span: Span) -> Diagnostic {
    let message = "the functions of the triggers are too complex";
    Diagnostic::new("54001", message, span).help("assign fewer columns from each other")
}

/// What a trigger assigns in an event.
fn assigned_by(catalog: &Catalog, trigger: &Trigger, event: Event) -> Bind<Assigned> {
    let Some(function) = catalog.trigger_function(&trigger.function) else {
        let message = format!("function {}() does not exist", trigger.function);
        return Err(Diagnostic::new("42883", message, trigger.span));
    };
    let mut body = Body {
        catalog,
        trigger,
        event,
        span: trigger.span,
        discarded: Vec::new(),
        statements: 0,
    };
    let before = Assigned::new();
    let condition = match &trigger.condition {
        Some((condition, span)) => Some(body.when(condition, *span)?),
        None => None,
    };
    let mut all = body.run(&function.body.statements, &[], before.clone())?;
    check_discarded(&body.discarded, &all, trigger.span)?;
    if let Some(condition) = condition {
        body.discarded.clear();
        all = body.merged(vec![(condition, all)], before.clone(), &before);
        check_discarded(&body.discarded, &all, trigger.span)?;
    }
    for (_, value) in &all {
        check_size(value, trigger.span)?;
    }
    Ok(all)
}

/// Calls `describe` with a binder for the condition of a trigger.
pub(super) fn bind_condition<T>(
    catalog: &Catalog,
    trigger: &Trigger,
    describe: impl FnOnce(&mut Binder<'_>) -> T,
) -> T {
    let body = Body {
        catalog,
        trigger,
        event: Event::Update,
        span: trigger.span,
        discarded: Vec::new(),
        statements: 0,
    };
    let records = body.records(Event::Update);
    let mut binder = body.binder(&records, "trigger WHEN conditions", false);
    binder.stored = true;
    describe(&mut binder)
}

/// The body of a trigger function, while it is followed.
struct Body<'c> {
    catalog: &'c Catalog,
    trigger: &'c Trigger,
    event: Event,
    /// The place of the statement at hand.
    span: Span,
    /// What PL/pgSQL evaluates, and what is not left in the place that it had.
    discarded: Vec<Expression>,
    /// The statements that were followed: those behind a RETURN in a branch once for each of the other branches.
    statements: usize,
}

type Statements = [(Statement, Span)];

impl Body<'_> {
    /// What is assigned once these statements have run, and `then` the lists behind them, the innermost last.
    fn run(
        &mut self,
        statements: &Statements,
        then: &[&Statements],
        mut assigned: Assigned,
    ) -> Bind<Assigned> {
        for (place, (statement, span)) in statements.iter().enumerate() {
            self.span = *span;
            self.statements += 1;
            if self.statements > STATEMENTS_MAX {
                return Err(too_complex(*span));
            }
            let rest = &statements[place + 1..];
            match statement {
                Statement::Assign { target, value, .. } => {
                    self.assign(target, value, &mut assigned)?;
                }
                Statement::If {
                    branches,
                    otherwise,
                } => {
                    let ends = |of: &Statements| has_return(of);
                    let is_split = branches.iter().any(|(_, of)| ends(of)) || ends(otherwise);
                    // After a RETURN in a branch the rest belongs to the other branches.
                    let mut behind = Vec::new();
                    if is_split {
                        behind.extend_from_slice(then);
                        behind.push(rest);
                    }
                    let after = self.branches(branches, otherwise, &behind, assigned)?;
                    if is_split {
                        return Ok(after);
                    }
                    assigned = after;
                }
                Statement::Block(block) if has_return(&block.statements) => {
                    let mut behind = then.to_vec();
                    behind.push(rest);
                    return self.run(&block.statements, &behind, assigned);
                }
                Statement::Block(block) => {
                    assigned = self.run(&block.statements, &[], assigned)?;
                }
                Statement::Return(_) => return Ok(assigned),
                // No other statement has come through the parser.
                _ => {}
            }
        }
        match then.split_last() {
            Some((next, then)) => self.run(next, then, assigned),
            None => Ok(assigned),
        }
    }

    fn branches(
        &mut self,
        branches: &[(Expr, Vec<(Statement, Span)>)],
        otherwise: &Statements,
        then: &[&Statements],
        before: Assigned,
    ) -> Bind<Assigned> {
        let span = self.span;
        let mut taken = Vec::new();
        let mut last = otherwise;
        for (condition, statements) in branches {
            self.span = span;
            let condition = self.condition(condition, &before)?;
            match &condition {
                Expression::Constant(Value::Bool(true)) => {
                    last = statements;
                    break;
                }
                Expression::Constant(_) => {}
                _ => taken.push((condition, self.run(statements, then, before.clone())?)),
            }
        }
        let last = self.run(last, then, before.clone())?;
        self.span = span;
        let all = self.merged(taken, last, &before);
        for (_, value) in &all {
            check_size(value, span)?;
        }
        Ok(all)
    }

    /// What is assigned after branches with these conditions, or else `otherwise`.
    fn merged(
        &mut self,
        branches: Vec<(Expression, Assigned)>,
        otherwise: Assigned,
        before: &Assigned,
    ) -> Assigned {
        if branches.is_empty() {
            return otherwise;
        }
        let ends: Vec<&Assigned> = branches
            .iter()
            .map(|(_, end)| end)
            .chain([&otherwise])
            .collect();
        let mut columns: Vec<ColumnIndex> = Vec::new();
        for (column, _) in ends.iter().flat_map(|end| end.iter()) {
            if !columns.contains(column) {
                columns.push(*column);
            }
        }
        let mut all = Assigned::new();
        let mut depends = false;
        for column in columns {
            let value = |end: &Assigned| {
                let found = value_of(end, column).or_else(|| value_of(before, column));
                found.cloned().unwrap_or_else(|| self.found(column))
            };
            let last = value(&otherwise);
            let values: Vec<Expression> = branches.iter().map(|(_, end)| value(end)).collect();
            if values.iter().all(|of| of.is_identical(&last)) {
                all.push((column, last));
                continue;
            }
            depends = true;
            let conditions = branches.iter().map(|(condition, _)| condition.clone());
            let merged = Expression::Case {
                branches: conditions.zip(values).collect(),
                otherwise: Box::new(last),
            };
            all.push((column, merged));
        }
        if !depends {
            let conditions = branches.into_iter().map(|(condition, _)| condition);
            self.discarded.extend(conditions);
        }
        all
    }

    /// A column of NEW as the trigger finds it.
    fn found(&self, column: ColumnIndex) -> Expression {
        match self.is_generated(column) {
            // It is computed after the triggers.
            true => Expression::NULL,
            false => Expression::Column {
                depth: 0,
                source: NEW,
                column: column.index(),
            },
        }
    }

    fn is_generated(&self, column: ColumnIndex) -> bool {
        let defaults = &self.catalog.table(self.trigger.table).defaults;
        matches!(defaults[column.index()], ColumnDefault::Computed(..))
    }

    fn assign(&mut self, target: &str, value: &Expr, assigned: &mut Assigned) -> Bind<()> {
        let name = target.split_once('.').map_or(target, |(_, name)| name);
        let table = self.trigger.table;
        let Some(column) = self.catalog.column_by_name(table, name) else {
            return Err(no_field("new", name, self.span));
        };
        if self.is_generated(column) {
            let construct = "an assignment to a generated column in a trigger function";
            return Err(Diagnostic::unsupported(construct, self.span)
                .help("leave it out: the column is computed after the triggers"));
        }
        let to = self.schema().columns[column.index()].data_type.clone();
        let records = self.records(self.event);
        let mut binder = self.binder(&records, "expressions", true);
        let bound = binder.expression(value).map_err(in_body)?;
        let context = match &bound.data_type {
            // PL/pgSQL converts by way of text where no cast of an assignment exists.
            Some(from) if from.is_text() => Context::Explicit,
            Some(from) if !exists(from, &to, Context::Assignment) => {
                let construct = format!(
                    "an assignment of a value of type {} to column \"{name}\" of type {}",
                    plain_type(from),
                    plain_type(&to)
                );
                return Err(Diagnostic::unsupported(construct, self.span).help("cast it"));
            }
            _ => Context::Assignment,
        };
        // A text that is too long for the column is an error, as in any assignment.
        let context = match to.is_text() {
            true => Context::Assignment,
            false => context,
        };
        let expression = binder.coerce(bound, &to, context, value)?;
        self.check(&mut binder, &expression)?;
        self.discarded.extend(value_of(assigned, column).cloned());
        let expression = self.over_found(expression, assigned);
        check_size(&expression, self.span)?;
        assign(assigned, column, expression);
        Ok(())
    }

    /// A condition of the body, over NEW as it is then.
    fn condition(&self, syntax: &Expr, assigned: &Assigned) -> Bind<Expression> {
        let records = self.records(self.event);
        let mut binder = self.binder(&records, "expressions", true);
        let condition = binder.condition(syntax).map_err(in_body)?;
        self.check(&mut binder, &condition)?;
        Ok(simplified(self.over_found(condition, assigned)))
    }

    /// The condition of WHEN.
    fn when(&self, syntax: &Expr, span: Span) -> Bind<Expression> {
        // A condition on INSERT cannot have OLD, whichever event it is tested for.
        let records = self.records(Event::Update);
        let mut binder = self.binder(&records, "trigger WHEN conditions", false);
        binder.stored = true;
        let bound = binder.expression(syntax)?;
        let generated = "BEFORE trigger's WHEN condition cannot reference NEW generated columns";
        let visible = self.schema().visible_columns().len();
        let is_generated = |place: usize| self.is_generated(column_index(place));
        if records.compared.get() && (0..visible).any(is_generated) {
            return Err(Diagnostic::new("42P17", generated, span).detail(
                "A whole-row reference is used and the table contains generated columns.",
            ));
        }
        if let Some(other) = bound.data_type.as_ref().filter(|of| **of != DataType::Bool) {
            let message = format!(
                "argument of WHEN must be type boolean, not type {}",
                plain_type(other)
            );
            return Err(Diagnostic::new("42804", message, span));
        }
        let condition = binder.coerce(bound, &DataType::Bool, Context::Implicit, syntax)?;
        if !binder.scope().subqueries.is_empty() {
            let message = "cannot use subquery in trigger WHEN condition";
            return Err(Diagnostic::new("0A000", message, span));
        }
        self.check(&mut binder, &condition)?;
        let (mut reads_old, mut of_generated) = (false, None);
        condition.each_column(&mut |source, column| {
            reads_old |= source == OLD;
            if source == NEW && self.is_generated(column_index(column)) {
                of_generated = Some(column);
            }
        });
        if reads_old && self.trigger.on_insert {
            let message = "INSERT trigger's WHEN condition cannot reference OLD values";
            return Err(Diagnostic::new("42P17", message, span));
        }
        if let Some(column) = of_generated {
            let name = &self.schema().columns[column].name;
            return Err(Diagnostic::new("42P17", generated, span)
                .detail(format!("Column \"{name}\" is a generated column.")));
        }
        Ok(simplified(condition))
    }

    /// Refuses what cannot be evaluated exactly once for each row.
    fn check(&self, binder: &mut Binder<'_>, expression: &Expression) -> Bind<()> {
        let construct = match () {
            () if !binder.scope().subqueries.is_empty() => "a subquery in a trigger function",
            () if expression.is_volatile() => {
                "a function in a trigger that gives another value each time"
            }
            () => return Ok(()),
        };
        Err(Diagnostic::unsupported(construct, self.span)
            .help("give the column a DEFAULT, or the value in the statement that writes the row"))
    }

    /// An expression of the body over NEW as the trigger has found it.
    fn over_found(&self, expression: Expression, assigned: &Assigned) -> Expression {
        replaced_all(expression, &|source, column| match source {
            NEW => {
                let value = value_of(assigned, column).cloned();
                Some(value.unwrap_or_else(|| self.found(column)))
            }
            OLD if self.event == Event::Insert => Some(Expression::NULL),
            OF_TRIGGER => Some(Expression::Constant(Value::text(
                self.constant(column.index()),
            ))),
            _ => None,
        })
    }

    /// The value of one of the [`CONSTANTS`].
    fn constant(&self, place: usize) -> &str {
        match CONSTANTS[place] {
            "tg_op" => match self.event {
                Event::Insert => "INSERT",
                Event::Update => "UPDATE",
            },
            "tg_name" => &self.trigger.name,
            "tg_when" => "BEFORE",
            "tg_level" => "ROW",
            "tg_table_schema" => "public",
            _ => &self.schema().name,
        }
    }

    /// A binder for the expressions of a body, or of WHEN, which knows of the rows alone.
    fn binder<'b>(
        &'b self,
        records: &'b Records,
        clause: &'static str,
        is_body: bool,
    ) -> Binder<'b> {
        let mut binder = Binder::new(self.catalog, records, self.span);
        let rows = ["new", "old"].map(|name| self.row(name, is_body));
        let mut sources = rows.to_vec();
        if is_body {
            let columns = CONSTANTS.iter().map(|name| ScopeColumn {
                name: (*name).to_owned(),
                data_type: DataType::Text,
                merged: false,
            });
            // No statement can write this name.
            sources.push(source(String::new(), columns.collect()));
        }
        binder.scopes.push(Scope {
            clause,
            sources,
            ..Scope::default()
        });
        binder
    }

    fn records(&self, event: Event) -> Records {
        let columns = self.schema().visible_columns().iter();
        Records {
            columns: columns.map(|column| column.name.clone()).collect(),
            event,
            compared: Cell::new(false),
        }
    }

    fn schema(&self) -> &TableSchema {
        self.catalog.schema.table(self.trigger.table)
    }

    /// A row of the table. In a body, its columns are found by their qualified names alone.
    fn row(&self, name: &str, is_body: bool) -> ScopeSource {
        let visible = self.schema().visible_columns().iter();
        let columns = visible.map(|column| ScopeColumn {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
            merged: is_body,
        });
        source(name.to_owned(), columns.collect())
    }
}

fn source(name: String, columns: Vec<ScopeColumn>) -> ScopeSource {
    ScopeSource {
        name,
        columns,
        access: None,
        table: None,
        elements: None,
        hidden: false,
        nullable: false,
    }
}

/// Whether some way through these statements returns.
fn has_return(statements: &Statements) -> bool {
    statements.iter().any(|(statement, _)| match statement {
        Statement::Return(_) => true,
        Statement::Block(block) => has_return(&block.statements),
        Statement::If {
            branches,
            otherwise,
        } => has_return(otherwise) || branches.iter().any(|(_, of)| has_return(of)),
        _ => false,
    })
}

/// The variables of the functions of triggers. They stand in the scope, apart from the rows NEW and OLD as a whole.
struct Records {
    /// The names of the table's columns.
    columns: Vec<String>,
    event: Event,
    /// Whether the rows have been compared.
    compared: Cell<bool>,
}

impl Variables for Records {
    fn named(&self, _: Option<&str>, _: &str) -> Option<(usize, DataType)> {
        None
    }

    fn numbered(&self, _: usize) -> Option<(usize, Option<DataType>)> {
        None
    }

    fn is_of_statement(&self) -> bool {
        true
    }

    fn call_advice(&self) -> &'static str {
        "write the expression itself"
    }

    fn distinct_records(&self, left: &Expr, right: &Expr) -> Option<Expr> {
        match (record(left)?, record(right)?) {
            ("new", "old") | ("old", "new") => {}
            _ => return None,
        }
        self.compared.set(true);
        if self.event == Event::Insert {
            // There is no row OLD.
            return Some(Expr::value(ast::Value::Boolean(true)));
        }
        let part = |record: &str, column: &str| {
            let column = ast::Ident::with_quote('"', column);
            Box::new(Expr::CompoundIdentifier(vec![
                ast::Ident::new(record),
                column,
            ]))
        };
        let differ = self
            .columns
            .iter()
            .map(|name| Expr::IsDistinctFrom(part("new", name), part("old", name)));
        let any = differ.reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: ast::BinaryOperator::Or,
            right: Box::new(right),
        });
        Some(any.unwrap_or(Expr::value(ast::Value::Boolean(false))))
    }
}

/// A problem of an expression in PL/pgSQL's words.
fn in_body(error: Diagnostic) -> Diagnostic {
    for name in ["new", "old"] {
        let of_record = error.message.strip_prefix(&format!("column {name}."));
        if let Some(field) = of_record.and_then(|rest| rest.strip_suffix(" does not exist")) {
            return Diagnostic {
                help: None,
                ..no_field(
                    name,
                    field,
                    error.span.unwrap_or(Span {
                        file: 0,
                        start: 0,
                        end: 0,
                    }),
                )
            };
        }
    }
    error
}

fn no_field(record: &str, name: &str, span: Span) -> Diagnostic {
    let message = format!("record \"{record}\" has no field \"{name}\"");
    Diagnostic::new("42703", message, span)
}

/// A condition without the parts that do not matter.
fn simplified(condition: Expression) -> Expression {
    let is = |of: &Expression, truth: bool| *of == Expression::Constant(Value::Bool(truth));
    let (list, neutral) = match condition {
        Expression::And(list) => (list, true),
        Expression::Or(list) => (list, false),
        other => return other,
    };
    let mut list: Vec<Expression> = list.into_iter().map(simplified).collect();
    if let Some(decides) = list.iter().position(|of| is(of, !neutral)) {
        // What comes before it is evaluated first, and may fail.
        list.truncate(decides + 1);
        if list[..decides].iter().all(cannot_fail) {
            return Expression::Constant(Value::Bool(!neutral));
        }
    }
    list.retain(|of| !is(of, neutral));
    match list.len() {
        0 => Expression::Constant(Value::Bool(neutral)),
        1 => list.remove(0),
        _ if neutral => Expression::And(list),
        _ => Expression::Or(list),
    }
}
