//! Parses `CREATE TRIGGER`, and says which bodies the function of a trigger may have.
//!
//! A row trigger BEFORE INSERT or UPDATE whose function does nothing but assign columns of NEW is supported. Everything
//! else is refused here, so that no trigger does less than it says.

use sqlparser::{ast, tokenizer::Token as Kind};

use super::{
    cursor::{Cursor, Name, Parsed},
    lexer::Token,
    scope::Scope,
};
use crate::{
    catalog::{Block, Statement, VariableType},
    diagnostic::Diagnostic,
    source::Span,
};

/// What to do without a trigger.
const ADVICE: &str = "do its work in the procedures that write the table";
/// What the function of a trigger may do.
const BODY: &str =
    "a trigger function consists of NEW.column := expression, IF, and RETURN NEW at its end";

/// The variables of a trigger function that have one value for each trigger and event.
pub(crate) const CONSTANTS: [&str; 7] = [
    "tg_op",
    "tg_name",
    "tg_when",
    "tg_level",
    "tg_table_name",
    "tg_relname",
    "tg_table_schema",
];

/// `CREATE TRIGGER`.
#[derive(Clone, Debug)]
pub(crate) struct TriggerDeclaration {
    pub(crate) name: Name,
    pub(crate) or_replace: bool,
    pub(crate) table: Name,
    pub(crate) on_insert: bool,
    pub(crate) on_update: bool,
    /// UPDATE OF; empty without it.
    pub(crate) columns: Vec<Name>,
    /// WHEN, with the place of the condition.
    pub(crate) condition: Option<(ast::Expr, Span)>,
    pub(crate) function: Name,
    pub(crate) span: Span,
}

/// Whether a statement creates a trigger.
pub(crate) fn is_trigger(tokens: &[Token]) -> bool {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(word));
    is(0, "create") && (is(1, "trigger") || is(1, "or") && is(2, "replace") && is(3, "trigger"))
}

/// The refusal of a statement that creates a trigger, where there are none.
pub(crate) fn refused(tokens: &[Token]) -> Diagnostic {
    let word = tokens.iter().position(|token| token.is_word("trigger"));
    let span = tokens[0].span.to(tokens[word.unwrap_or(0)].span);
    Diagnostic::unsupported("CREATE TRIGGER", span).help(ADVICE)
}

/// The refusal of a trigger function, where there are none.
pub(super) fn refused_function(span: Span) -> Diagnostic {
    Diagnostic::unsupported("a TRIGGER function", span).help(ADVICE)
}

/// `CREATE [OR REPLACE] TRIGGER`, from after TRIGGER; `start` is the place of CREATE.
pub(crate) fn create_trigger(
    cursor: &mut Cursor<'_>,
    start: Span,
    or_replace: bool,
) -> Parsed<TriggerDeclaration> {
    let name = cursor.name("a trigger name")?;
    let place = cursor.span();
    if cursor.eat_word("after") {
        return Err(Diagnostic::unsupported("an AFTER trigger", place).help(ADVICE));
    }
    if cursor.eat_words(&["instead", "of"]) {
        return Err(Diagnostic::unsupported("an INSTEAD OF trigger", place).help(ADVICE));
    }
    cursor.expect_words(&["before"])?;
    let mut columns = Vec::new();
    let (mut on_insert, mut on_update) = (false, false);
    loop {
        let place = cursor.span();
        let event = match () {
            () if cursor.eat_word("insert") => &mut on_insert,
            () if cursor.eat_word("update") => {
                if cursor.eat_word("of") {
                    columns.push(cursor.name("a column name")?);
                    while cursor.eat(&Kind::Comma) {
                        columns.push(cursor.name("a column name")?);
                    }
                }
                &mut on_update
            }
            () if cursor.at_any(&["delete", "truncate"]) => {
                let word = cursor.file().slice(place).to_uppercase();
                let construct = format!("a trigger on {word}");
                return Err(Diagnostic::unsupported(construct, place).help(ADVICE));
            }
            () => return Err(cursor.expected("INSERT or UPDATE")),
        };
        if std::mem::replace(event, true) {
            let message = "duplicate trigger events specified";
            return Err(Diagnostic::new("42601", message, cursor.span()));
        }
        if !cursor.eat_word("or") {
            break;
        }
    }
    cursor.expect_words(&["on"])?;
    let table = cursor.schema_name("a table name")?;
    for (word, construct) in [
        ("from", "FROM of a trigger"),
        ("not", "a deferrable trigger"),
        ("deferrable", "a deferrable trigger"),
        ("initially", "a deferrable trigger"),
        ("referencing", "REFERENCING of a trigger"),
    ] {
        if cursor.at_word(word) {
            return Err(Diagnostic::unsupported(construct, cursor.span()).help("leave it out"));
        }
    }
    let place = cursor.span();
    let is_for = cursor.eat_word("for");
    if is_for {
        cursor.eat_word("each");
    }
    if !is_for || !cursor.eat_word("row") {
        if is_for {
            cursor.expect_words(&["statement"])?;
        }
        return Err(Diagnostic::unsupported("a statement trigger", place)
            .help("write FOR EACH ROW, and assign columns of NEW"));
    }
    let mut condition = None;
    if cursor.eat_word("when") {
        let inside = cursor.parenthesised()?;
        condition = Some((inside.expression()?, inside.whole_span()));
    }
    cursor.expect_words(&["execute"])?;
    if !cursor.eat_word("procedure") {
        cursor.expect_words(&["function"])?;
    }
    let function = cursor.schema_name("a function name")?;
    let arguments = cursor.parenthesised()?;
    if !arguments.is_done() {
        let construct = "an argument of a trigger's function";
        return Err(Diagnostic::unsupported(construct, arguments.whole_span())
            .help("write a function for each value"));
    }
    cursor.finish("\";\" at the end of the statement")?;
    Ok(TriggerDeclaration {
        name,
        or_replace,
        table,
        on_insert,
        on_update,
        columns,
        condition,
        function,
        span: cursor.since(start),
    })
}

/// Declares the variables that the function of a trigger has.
pub(super) fn declare_variables(scope: &mut Scope) {
    for record in ["new", "old"] {
        scope.declare(record, VariableType::Record, false);
    }
    for constant in CONSTANTS {
        let text = VariableType::Data(anabranch_types::DataType::Text);
        scope.declare(constant, text, true);
    }
}

/// Refuses the body of a trigger function that does more than assign columns of NEW.
pub(super) fn check_body(body: &Block, span: Span) -> Parsed<()> {
    check_block(body)?;
    if !returns(&body.statements) {
        let construct = "a trigger function that may end without RETURN NEW";
        return Err(Diagnostic::unsupported(construct, span).help(BODY));
    }
    Ok(())
}

fn check_block(block: &Block) -> Parsed<()> {
    if let Some(variable) = block.variables.first() {
        let construct = "DECLARE in a trigger function";
        return Err(Diagnostic::unsupported(construct, variable.span)
            .help("write the expression where its value is used"));
    }
    check_statements(&block.statements)
}

fn check_statements(statements: &[(Statement, Span)]) -> Parsed<()> {
    for (statement, span) in statements {
        let construct = match statement {
            Statement::Assign {
                target,
                index: None,
                ..
            } if target.starts_with("new.") => continue,
            Statement::If {
                branches,
                otherwise,
            } => {
                for (_, statements) in branches {
                    check_statements(statements)?;
                }
                check_statements(otherwise)?;
                continue;
            }
            Statement::Block(block) => {
                check_block(block)?;
                continue;
            }
            Statement::Null => continue,
            Statement::Return(Some(value)) if is_new(value) => continue,
            Statement::Return(_) => "a RETURN of anything but NEW",
            Statement::Assign { index: Some(_), .. } => "an assignment to an element",
            Statement::Assign { .. } => "an assignment to anything but a column of NEW",
            Statement::Raise { .. } => "RAISE",
            Statement::Sql { .. } | Statement::Perform(_) => "an SQL statement",
            Statement::Case { .. } => "CASE with an operand",
            _ => "this statement",
        };
        let construct = format!("{construct} in a trigger function");
        return Err(Diagnostic::unsupported(construct, *span).help(BODY));
    }
    Ok(())
}

/// Whether an expression is the row NEW.
fn is_new(value: &ast::Expr) -> bool {
    record(value) == Some("new")
}

/// The record that an expression is: `new` or `old`.
pub(crate) fn record(value: &ast::Expr) -> Option<&'static str> {
    let name = match value {
        ast::Expr::Nested(inner) => return record(inner),
        // `ROW(NEW.*)`
        ast::Expr::Function(of) if of.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &of.args else {
                return None;
            };
            match list.args.as_slice() {
                [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(name))] => {
                    return named(name);
                }
                _ => return None,
            }
        }
        ast::Expr::Identifier(name) => name,
        ast::Expr::QualifiedWildcard(name, _) => return named(name),
        _ => return None,
    };
    known(name)
}

fn named(name: &ast::ObjectName) -> Option<&'static str> {
    match name.0.as_slice() {
        [part] => known(part.as_ident()?),
        _ => None,
    }
}

fn known(name: &ast::Ident) -> Option<&'static str> {
    let folded = super::output::fold(name);
    ["new", "old"].into_iter().find(|known| *known == folded)
}

/// Whether every way through these statements ends with RETURN.
fn returns(statements: &[(Statement, Span)]) -> bool {
    statements.iter().any(|(statement, _)| match statement {
        Statement::Return(_) => true,
        Statement::Block(block) => returns(&block.statements),
        Statement::If {
            branches,
            otherwise,
        } => branches.iter().all(|(_, of)| returns(of)) && returns(otherwise),
        _ => false,
    })
}
