//! Transactions of programs, as `anabranch-source` finds them: statements in branches and loops, with placeholders `$n`
//! numbered over the whole transaction, beside what could not be resolved.

use std::ops::Range;

use sqlparser::ast;

use anabranch_types::DataType;

use super::{FileRange, Reader, mysql, pgsql, unparsed::StatementText};
use crate::{
    application::Application,
    catalog::{Block, Parameter, ParameterMode, Procedure, Returns, RoutineKind, Statement},
    diagnostic::Diagnostic,
    parse::{
        cursor::Cursor,
        lexer::{Places, Text, lex},
        split::statements,
        sql_body::sql_statement,
    },
    source::{Span, Translated},
    summary::{Role, Term, TransactionSummary, WriteClass},
};

/// A transaction that a program runs.
#[derive(Clone, Debug)]
pub struct ClientTransaction {
    /// Its name, which need not be unique.
    pub name: String,
    /// The number of its file.
    pub file: usize,
    /// Its range in that file, in bytes.
    pub range: Range<usize>,
    /// The values of `$1`, `$2`, ….
    pub parameters: Vec<ClientParameter>,
    /// Its statements, in branches and loops.
    pub steps: Vec<Step>,
    /// What could not be resolved. If there is anything, the transaction is unknown.
    pub unresolved: Vec<Unresolved>,
    /// Invariants that its program probably relies on.
    pub probable: Vec<ProbableInvariant>,
}

impl ClientTransaction {
    /// Adds `first` to all file numbers.
    pub fn shift(&mut self, first: usize) {
        fn steps(of: &mut [Step], first: usize) {
            for step in of {
                match step {
                    Step::Run(statement) => statement.file += first,
                    Step::Either(branches) => {
                        branches.iter_mut().for_each(|(_, s)| steps(s, first))
                    }
                    Step::Repeat(inner) => steps(inner, first),
                }
            }
        }
        self.file += first;
        steps(&mut self.steps, first);
        self.unresolved.iter_mut().for_each(|u| u.file += first);
        self.probable.iter_mut().for_each(|p| p.file += first);
    }
}

/// An invariant that a program probably relies on, by a check in its code. The analysis only reports it; to have it
/// kept, declare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbableInvariant {
    /// The name of the transaction type.
    pub transaction: String,
    /// The invariant, as SQL.
    pub rule: String,
    /// The check, as it is written.
    pub guard: String,
    /// The number of the check's file.
    pub file: usize,
    /// The check's range in it, in bytes.
    pub range: Range<usize>,
    /// How likely the check means this invariant.
    pub confidence: Confidence,
    /// The observations that this rests on.
    pub why: String,
}

/// How likely a check in a program means an invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The code compares something, and writes something.
    Low,
    /// The compared value is related to the written one.
    Medium,
    /// The compared column is the written one, by the same value.
    High,
}

impl Confidence {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// A value that a program binds.
#[derive(Clone, Debug)]
pub struct ClientParameter {
    /// The variable or expression, unique in the transaction.
    pub name: String,
    /// Whether it is known only while the transaction runs: it is computed from what was read, or differs between the
    /// rounds of a loop.
    pub varies: bool,
}

/// A step of a program.
#[derive(Clone, Debug)]
pub enum Step {
    /// A statement.
    Run(ClientStatement),
    /// One of these branches, or none: the first with a boolean parameter (by its index) that is true.
    Either(Vec<(usize, Vec<Step>)>),
    /// Any number of repetitions.
    Repeat(Vec<Step>),
}

/// A statement that a program runs.
#[derive(Clone, Debug)]
pub struct ClientStatement {
    /// Its text.
    pub text: String,
    /// The position in the file of each byte of `text`, and of its end.
    pub places: Vec<u32>,
    /// The number of the file.
    pub file: usize,
    /// Whether it is a query, and the program writes nothing if it finds a row.
    pub finds_none: bool,
}

/// SQL that a program runs and that could not be resolved.
#[derive(Clone, Debug)]
pub struct Unresolved {
    /// The number of the file.
    pub file: usize,
    /// Its range in the file, in bytes.
    pub range: Range<usize>,
    /// Why it could not be resolved.
    pub reason: String,
    /// The known parts of its SQL, with `…` for the others; empty if it is no single text.
    pub head: String,
}

impl ClientStatement {
    /// Whether a place of a file lies in this statement.
    pub fn covers(&self, span: Span) -> bool {
        self.place().holds(span)
    }

    fn place(&self) -> FileRange {
        let place = |at: Option<&u32>| at.map_or(0, |at| *at as usize);
        let start = place(self.places.first());
        let end = place(self.places.last()).max(start);
        FileRange {
            file: self.file,
            range: start..end,
        }
    }
}

impl Unresolved {
    fn place(&self) -> FileRange {
        FileRange {
            file: self.file,
            range: self.range.clone(),
        }
    }
}

impl ClientTransaction {
    pub(super) fn place(&self) -> FileRange {
        FileRange {
            file: self.file,
            range: self.range.clone(),
        }
    }

    /// Every statement, in every branch.
    pub fn statements(&self) -> Vec<&ClientStatement> {
        fn collect<'s>(steps: &'s [Step], found: &mut Vec<&'s ClientStatement>) {
            for step in steps {
                match step {
                    Step::Run(statement) => found.push(statement),
                    Step::Either(branches) => {
                        branches.iter().for_each(|(_, inner)| collect(inner, found))
                    }
                    Step::Repeat(inner) => collect(inner, found),
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.steps, &mut found);
        found
    }

    /// Whether more than one statement may run, so that the program sees the result of one before it runs the next.
    pub(super) fn is_several(&self) -> bool {
        let repeats = |step: &Step| matches!(step, Step::Repeat(_));
        fn any(steps: &[Step], test: &dyn Fn(&Step) -> bool) -> bool {
            steps.iter().any(|step| {
                test(step)
                    || match step {
                        Step::Run(_) => false,
                        Step::Either(branches) => branches.iter().any(|(_, s)| any(s, test)),
                        Step::Repeat(inner) => any(inner, test),
                    }
            })
        }
        self.statements().len() > 1 || any(&self.steps, &repeats)
    }

    /// Whether a place lies in one of its statements.
    pub(super) fn holds(&self, span: Span) -> bool {
        self.statements().iter().any(|s| s.place().holds(span)) || self.place().holds(span)
    }

    /// The statement at a place, for a message; the whole transaction if there is none.
    pub(super) fn statement_at(&self, span: Option<Span>) -> FileRange {
        let statements = self.statements();
        let mut places = statements.iter().map(|s| s.place());
        let found = span.and_then(|span| places.find(|place| place.holds(span)));
        found.unwrap_or_else(|| self.place())
    }

    /// The texts of all its SQL, resolved or not.
    pub(super) fn texts(&self) -> Vec<StatementText> {
        let known = self.statements().into_iter().map(|s| StatementText {
            text: s.text.clone(),
            cut: false,
        });
        let cut = self.unresolved.iter().map(|u| StatementText {
            text: u.head.clone(),
            cut: true,
        });
        known.chain(cut).collect()
    }

    /// A diagnostic for each unresolved part, with its place.
    pub(super) fn unresolved_diagnostics(&self) -> Vec<(FileRange, Diagnostic)> {
        let told = |u: &Unresolved| {
            let place = u.place();
            let span = place.span();
            (place, Diagnostic::new("0A000", u.reason.clone(), span))
        };
        self.unresolved.iter().map(told).collect()
    }

    /// Replaces terms by [`Term::Unknown`] where they name a parameter that is known only while the transaction runs.
    pub(super) fn correct(&self, summary: &mut TransactionSummary) {
        let absent = self.statements().into_iter().filter(|s| s.finds_none);
        for place in absent.map(ClientStatement::place) {
            for statement in &mut summary.statements {
                // The query of one table, so that a deletion adds no row to its result.
                let is_lookup = matches!(
                    statement.accesses.as_slice(),
                    [access] if access.role == Role::Read
                );
                statement.finds_none |= is_lookup && place.holds(statement.span);
            }
        }
        let varies = |term: &Term| matches!(term, Term::Parameter(n) | Term::Negated(n) | Term::Element(n) if self.parameters.get(*n).is_none_or(|p| p.varies));
        let correct = |term: &mut Term| {
            if varies(term) {
                *term = Term::Unknown;
            }
        };
        for access in summary.statements.iter_mut().flat_map(|s| &mut s.accesses) {
            for condition in &mut access.conditions {
                correct(&mut condition.term);
            }
            for write in &mut access.writes {
                write.amount_null_by.iter_mut().flatten().for_each(correct);
                match &mut write.class {
                    WriteClass::Assign(term) | WriteClass::Add { term, .. } => correct(term),
                    WriteClass::FromRow | WriteClass::FromData => {}
                }
            }
        }
    }
}

impl Reader {
    /// Compiles a program's transaction into a procedure.
    pub(super) fn client(
        &self,
        base: &Application,
        client: &ClientTransaction,
    ) -> Result<Procedure, Diagnostic> {
        let mut types = vec![None; client.parameters.len()];
        let statements = self.steps(base, &client.steps, client, &mut types)?;
        let parameters = client.parameters.iter().zip(types);
        Ok(Procedure {
            name: client.name.clone(),
            kind: RoutineKind::Procedure,
            parameters: parameters
                .map(|(parameter, data_type)| Parameter {
                    name: parameter.name.clone(),
                    data_type: data_type.unwrap_or(DataType::Text),
                    mode: ParameterMode::In,
                    default: None,
                })
                .collect(),
            returns: Returns::Parameters,
            is_strict: false,
            body: Block {
                variables: Vec::new(),
                statements,
            },
            keeps: Vec::new(),
            span: client.place().span(),
        })
    }

    fn steps(
        &self,
        base: &Application,
        steps: &[Step],
        client: &ClientTransaction,
        types: &mut Vec<Option<DataType>>,
    ) -> Result<Vec<(Statement, Span)>, Diagnostic> {
        let whole = client.place().span();
        let mut found = Vec::new();
        for step in steps {
            match step {
                Step::Run(statement) => {
                    let end = statement.place().span();
                    let text = StatementSource {
                        file: statement.file,
                        text: &statement.text,
                        places: &statement.places,
                        place: end,
                    };
                    found.push(self.statement(base, &text, types)?);
                }
                Step::Either(either) => {
                    let mut branches = Vec::new();
                    for (parameter, inner) in either {
                        let inner = self.steps(base, inner, client, types)?;
                        if let Some(of_type) = types.get_mut(*parameter) {
                            *of_type = Some(DataType::Bool);
                        }
                        branches.push((placeholder(*parameter, whole), inner));
                    }
                    let otherwise = Vec::new();
                    let statement = Statement::If {
                        branches,
                        otherwise,
                    };
                    found.push((statement, whole));
                }
                Step::Repeat(inner) => {
                    let body = self.steps(base, inner, client, types)?;
                    let statement = Statement::ForRange {
                        variable: "turn".to_owned(),
                        from: number("1", whole),
                        to: number("1", whole),
                        by: None,
                        reverse: false,
                        body,
                    };
                    found.push((statement, whole));
                }
            }
        }
        Ok(found)
    }

    /// Compiles one statement, and notes the types of its parameters.
    pub(super) fn statement(
        &self,
        base: &Application,
        written: &StatementSource<'_>,
        types: &mut Vec<Option<DataType>>,
    ) -> Result<(Statement, Span), Diagnostic> {
        let (text, places) = unbraced(written.text, written.places);
        let (written, span) = (
            &StatementSource {
                text,
                places,
                ..*written
            },
            written.place,
        );
        let translated = match self.declarations.is_mysql {
            false => pgsql::statement(text, places, &self.declarations.types),
            true => None,
        };
        let translated = match translated {
            None => mysql::statement(text, places, base.catalog(), span)?,
            translated => translated,
        };
        let written = match &translated {
            None => written,
            Some(Translated { text, places }) => &StatementSource {
                text,
                places,
                ..*written
            },
        };
        let source = &self.files[written.file];
        let number = u16::try_from(written.file).unwrap_or(u16::MAX);
        let original = |span: Span| {
            let place = |at: u32| {
                let last = written.places.len().saturating_sub(1);
                written.places.get((at as usize).min(last)).copied()
            };
            Span {
                file: number,
                start: place(span.start).unwrap_or(written.place.start),
                end: place(span.end).unwrap_or(written.place.end),
            }
        };
        let (tokens, error) = lex(Text {
            file: number,
            text: written.text,
            places: Places::Each(written.places),
        });
        if let Some(error) = error {
            return Err(error);
        }
        let end = original(Span {
            file: number,
            start: u32::MAX,
            end: u32::MAX,
        });
        let parts = statements(&tokens, end);
        let [part] = parts.as_slice() else {
            let message = "it is no single statement";
            return Err(Diagnostic::new("42601", message, written.place));
        };
        let cursor = match part.open {
            true => Cursor::new(source, part.tokens, part.end),
            false => Cursor::ending_at(source, part.tokens, part.end),
        };
        let (statement, span) = match cursor.at_word("call") {
            // CALL is allowed to clients, not in bodies.
            true if routine_called(&cursor.statement()?, base).is_some() => {
                (cursor.statement()?, cursor.whole_span())
            }
            _ => sql_statement(cursor)?,
        };
        if let Some((called, arguments)) = routine_called(&statement, base) {
            for (argument, of) in arguments {
                typed(types, argument, &of);
            }
            return Ok((called, span));
        }
        let compiled = base.statement(written.text).map_err(|mut problems| {
            let mut problem = problems.swap_remove(0);
            problem.span = Some(problem.span.map_or(span, original));
            problem
        })?;
        for (place, found) in compiled.parameters().iter().enumerate() {
            typed(types, place, found);
        }
        let statement = Statement::Sql {
            statement: Box::new(statement),
            into: Vec::new(),
            strict: false,
        };
        Ok((statement, span))
    }
}

/// The text without JDBC's braces: `{call f($1)}`, and `{$1 = call f($2)}`, which returns its result to the client.
fn unbraced<'t>(text: &'t str, places: &'t [u32]) -> (&'t str, &'t [u32]) {
    let inside = text
        .trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let start = inside.and_then(|inside| {
        let call = inside.to_ascii_lowercase().find("call")?;
        let before = inside[..call].trim();
        (before.is_empty() || before.ends_with('='))
            .then(|| text.find('{').map(|at| at + 1 + call))?
    });
    match (start, text.rfind('}')) {
        (Some(start), Some(end)) => (&text[start..end], &places[start..=end]),
        _ => (text, places),
    }
}

/// Notes the type of a parameter.
fn typed(types: &mut Vec<Option<DataType>>, place: usize, found: &DataType) {
    if types.len() <= place {
        types.resize(place + 1, None);
    }
    // A parameter without any hint of its type is text, so a better hint replaces text.
    if matches!(types[place], None | Some(DataType::Text)) {
        types[place] = Some(found.clone());
    }
}

/// The call, if a statement only calls a routine of the application: `CALL f($1)`, `SELECT f($1)`, `SELECT * FROM
/// f($1)`; with the placeholders among its arguments, and their types.
fn routine_called(
    statement: &ast::Statement,
    base: &Application,
) -> Option<(Statement, Vec<(usize, DataType)>)> {
    let procedure = |name: &ast::ObjectName| {
        let last = name.0.last()?.as_ident().map(crate::bind::fold)?;
        base.catalog().procedures.iter().find(|of| of.name == last)
    };
    let (name, arguments, called) = match statement {
        ast::Statement::Call(function) => {
            let called = Statement::Sql {
                statement: Box::new(statement.clone()),
                into: Vec::new(),
                strict: false,
            };
            (function.name.clone(), listed(&function.args)?, called)
        }
        ast::Statement::Query(query) => {
            let function = function_selected(query)?;
            let mut query = query.clone();
            if let ast::SetExpr::Select(select) = &mut *query.body {
                select.from.clear();
                let item = ast::Expr::Function(function.clone());
                select.projection = vec![ast::SelectItem::UnnamedExpr(item)];
            }
            let arguments = listed(&function.args)?;
            (function.name, arguments, Statement::Perform(query))
        }
        _ => return None,
    };
    let inputs = procedure(&name)?.parameters.iter();
    let inputs = inputs.filter(|of| of.mode != ParameterMode::Out);
    let mut found = Vec::new();
    for (argument, parameter) in arguments.iter().zip(inputs) {
        let mut argument = argument;
        while let ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) = argument {
            argument = expr;
        }
        if let ast::Expr::Value(value) = argument
            && let ast::Value::Placeholder(name) = &value.value
            && let Some(place) = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok())
        {
            found.push((place.checked_sub(1)?, parameter.data_type.clone()));
        }
    }
    Some((called, found))
}

/// The function of a query that returns its result unchanged and does nothing else.
fn function_selected(query: &ast::Query) -> Option<ast::Function> {
    let ast::SetExpr::Select(select) = &*query.body else {
        return None;
    };
    let plain = query.with.is_none()
        && query.limit_clause.is_none()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none();
    match (select.projection.as_slice(), select.from.as_slice()) {
        (
            [
                ast::SelectItem::UnnamedExpr(ast::Expr::Function(function))
                | ast::SelectItem::ExprWithAlias {
                    expr: ast::Expr::Function(function),
                    ..
                },
            ],
            [],
        ) if plain => Some(function.clone()),
        (columns, [from]) if plain && from.joins.is_empty() => {
            let are_plain = columns.iter().all(|item| {
                matches!(
                    item,
                    ast::SelectItem::Wildcard(_)
                        | ast::SelectItem::UnnamedExpr(
                            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)
                        )
                )
            });
            let (name, arguments) = match &from.relation {
                ast::TableFactor::Table {
                    name,
                    args: Some(arguments),
                    ..
                } => (name, &arguments.args),
                ast::TableFactor::Function { name, args, .. } => (name, args),
                _ => return None,
            };
            are_plain.then(|| function(name.clone(), arguments.clone()))
        }
        _ => None,
    }
}

fn function(name: ast::ObjectName, arguments: Vec<ast::FunctionArg>) -> ast::Function {
    ast::Function {
        name,
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

/// The arguments, if none is named.
fn listed(arguments: &ast::FunctionArguments) -> Option<Vec<ast::Expr>> {
    let arguments = match arguments {
        ast::FunctionArguments::List(list) => list.args.as_slice(),
        ast::FunctionArguments::None => &[],
        ast::FunctionArguments::Subquery(_) => return None,
    };
    let plain = |argument: &ast::FunctionArg| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    arguments.iter().map(plain).collect()
}

/// A statement with placeholders `$n`.
pub(super) struct StatementSource<'t> {
    pub(super) file: usize,
    pub(super) text: &'t str,
    pub(super) places: &'t [u32],
    /// The span of the whole statement.
    pub(super) place: Span,
}

fn placeholder(index: usize, span: Span) -> ast::Expr {
    value(ast::Value::Placeholder(format!("${}", index + 1)), span)
}

fn number(text: &str, span: Span) -> ast::Expr {
    value(ast::Value::Number(text.to_owned(), false), span)
}

fn value(value: ast::Value, span: Span) -> ast::Expr {
    ast::Expr::Value(value.with_span(span.location()))
}
