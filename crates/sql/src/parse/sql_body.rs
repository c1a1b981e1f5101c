//! Parses bodies in `LANGUAGE SQL`: `BEGIN ATOMIC … END`, `AS $$ … $$`, `RETURN expression`.
//!
//! The last statement's rows are the routine's result, if it has one, as a [`Statement::ReturnQuery`]. For a routine
//! that returns one value or OUT parameters, the first row is the result, and NULLs if there is none.

use sqlparser::ast;

use super::{
    cursor::{Cursor, Parsed},
    declaration::ResultKind,
    lexer::Token,
    scope::Scope,
    split,
};
use crate::{
    catalog::{Block, Statement},
    diagnostic::Diagnostic,
    source::Span,
};

/// The statements of a body; `end` is the place behind it.
pub(crate) fn body(
    cursor: Cursor<'_>,
    result: ResultKind,
    end: Span,
    scope: &Scope,
) -> Parsed<Block> {
    let mut block = Block::default();
    for part in split::statements(cursor.tokens_left(), end) {
        let inside = match part.open {
            true => cursor.over(part.tokens),
            false => Cursor::ending_at(cursor.file(), part.tokens, part.end),
        };
        let (statement, span) = sql_statement(inside)?;
        block.statements.push((
            Statement::Sql {
                statement: Box::new(statement),
                into: Vec::new(),
                strict: false,
            },
            span,
        ));
    }
    // OUT parameters are there to be set by the last statement; without any, nothing returns.
    let returns = match result {
        ResultKind::Parameters => scope.has_outputs(),
        ResultKind::Scalar | ResultKind::NamedRows | ResultKind::Rows => true,
    };
    if returns {
        return_last(&mut block, end)?;
    }
    Ok(block)
}

fn return_last(block: &mut Block, end: Span) -> Parsed<()> {
    let rule = "the final statement must be SELECT, or INSERT, UPDATE or DELETE with RETURNING";
    let message = "return type mismatch in function";
    match block.statements.pop() {
        Some((Statement::Sql { statement, .. }, span)) if returns_rows(&statement) => {
            block
                .statements
                .push((Statement::ReturnQuery(statement), span));
            Ok(())
        }
        Some((_, span)) => Err(Diagnostic::new("42P13", message, span).help(rule)),
        None => Err(Diagnostic::new("42P13", message, end).help(rule)),
    }
}

/// `RETURN expression` as a whole body.
pub(crate) fn return_expression(cursor: Cursor<'_>, result: ResultKind) -> Parsed<Block> {
    let span = cursor.whole_span();
    if result != ResultKind::Scalar {
        return Err(
            Diagnostic::unsupported("RETURN as the body of this routine", span)
                .help("write BEGIN ATOMIC … END"),
        );
    }
    let statement = Statement::Return(Some(cursor.expression()?));
    Ok(Block {
        variables: Vec::new(),
        statements: vec![(statement, span)],
    })
}

/// Parses the rest as one statement that a body may have: a query, INSERT, UPDATE or DELETE.
pub(crate) fn sql_statement(cursor: Cursor<'_>) -> Parsed<(ast::Statement, Span)> {
    let span = cursor.whole_span();
    refuse(&cursor)?;
    if let Some(into) = find_into(cursor.tokens_left()) {
        return Err(
            Diagnostic::unsupported("INTO here", cursor.tokens_left()[into].span)
                .help("INTO a variable is PL/pgSQL's: write LANGUAGE plpgsql"),
        );
    }
    let statement = cursor.statement()?;
    allow(&statement, span)?;
    Ok((statement, span))
}

/// Refuses statements that no body may have, by their first word.
pub(crate) fn refuse(cursor: &Cursor<'_>) -> Parsed<()> {
    const REFUSED: [(&str, &str); 19] = [
        ("create", "declare it outside of the procedure"),
        ("alter", "declare it outside of the procedure"),
        ("drop", "declare it outside of the procedure"),
        ("truncate", "use DELETE"),
        ("copy", "use INSERT"),
        ("call", "write its statements here"),
        ("do", "write its statements here"),
        (
            "commit",
            "a procedure is one transaction: it commits when it returns",
        ),
        (
            "rollback",
            "RAISE EXCEPTION ends the transaction and undoes it",
        ),
        (
            "savepoint",
            "RAISE EXCEPTION ends the transaction and undoes it",
        ),
        ("start", "a procedure is one transaction"),
        ("set", "leave it out"),
        ("reset", "leave it out"),
        ("lock", "leave it out: what must be ordered is in the plan"),
        ("explain", "use \"anabranch explain\""),
        ("listen", "leave it out"),
        ("notify", "leave it out"),
        ("prepare", "leave it out: procedures are compiled once"),
        ("vacuum", "leave it out"),
    ];
    for (word, help) in REFUSED {
        if cursor.at_word(word) {
            let construct = format!("{} in a procedure", word.to_uppercase());
            return Err(Diagnostic::unsupported(construct, cursor.span()).help(help));
        }
    }
    Ok(())
}

/// Refuses statements that `sqlparser` parsed as another kind.
pub(crate) fn allow(statement: &ast::Statement, span: Span) -> Parsed<()> {
    use ast::Statement::{Delete, Insert, Merge, Query, Update};
    match statement {
        Query(_) | Insert(_) | Update(_) | Delete(_) | Merge(_) => Ok(()),
        _ => Err(
            Diagnostic::unsupported("this statement in a procedure", span)
                .help("use SELECT, INSERT, UPDATE and DELETE"),
        ),
    }
}

/// Whether a statement returns rows.
pub(crate) fn returns_rows(statement: &ast::Statement) -> bool {
    match statement {
        ast::Statement::Query(query) => match query.body.as_ref() {
            ast::SetExpr::Insert(inner)
            | ast::SetExpr::Update(inner)
            | ast::SetExpr::Delete(inner)
            | ast::SetExpr::Merge(inner) => returns_rows(inner),
            _ => true,
        },
        ast::Statement::Insert(insert) => insert.returning.is_some(),
        ast::Statement::Update(update) => update.returning.is_some(),
        ast::Statement::Delete(delete) => delete.returning.is_some(),
        _ => false,
    }
}

/// The position of the first INTO outside of brackets that is not INSERT's.
pub(crate) fn find_into(tokens: &[Token]) -> Option<usize> {
    use sqlparser::tokenizer::Token as Kind;
    let mut depth = 0_usize;
    for (position, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::LParen | Kind::LBracket => depth += 1,
            Kind::RParen | Kind::RBracket => depth = depth.saturating_sub(1),
            Kind::Word(_) if depth == 0 && token.is_word("into") => {
                let inserts = position > 0
                    && (tokens[position - 1].is_word("insert")
                        || tokens[position - 1].is_word("merge"));
                if !inserts {
                    return Some(position);
                }
            }
            _ => {}
        }
    }
    None
}
