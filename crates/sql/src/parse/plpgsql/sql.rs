//! Parses SQL statements within PL/pgSQL: INTO is cut out, `sqlparser` parses the rest.

use sqlparser::tokenizer::Token as Kind;

use super::Body;
use crate::{
    catalog::Statement,
    diagnostic::Diagnostic,
    parse::{
        cursor::{Cursor, Name, Parsed},
        lexer::Token,
        sql_body,
    },
    source::Span,
};

/// `INTO [STRICT] target, …`.
struct Into {
    targets: Vec<String>,
    strict: bool,
}

impl Body<'_, '_> {
    /// SELECT, INSERT, UPDATE, DELETE.
    pub(super) fn sql(&mut self) -> Parsed<Statement> {
        let inside = self.until(&[]);
        let span = inside.whole_span();
        let tokens = inside.tokens_left();
        let (kept, into) = match sql_body::find_into(tokens) {
            None => (tokens.to_vec(), None),
            Some(at) => {
                let mut after = inside;
                after.take(at + 1);
                let into = self.read_targets(&mut after)?;
                let rest = after.tokens_left();
                if let Some(again) = sql_body::find_into(rest) {
                    let message = "INTO specified more than once";
                    return Err(Diagnostic::new("42601", message, rest[again].span));
                }
                ([&tokens[..at], rest].concat(), Some(into))
            }
        };
        let parsed = inside.over(&kept).statement().and_then(|statement| {
            sql_body::allow(&statement, span)?;
            check_destination(&statement, into.as_ref(), span)?;
            Ok(statement)
        });
        let Some(statement) = self.or_noted(parsed)? else {
            return Ok(Statement::Null);
        };
        let (targets, strict) =
            into.map_or((Vec::new(), false), |into| (into.targets, into.strict));
        Ok(Statement::Sql {
            statement: Box::new(statement),
            into: targets,
            strict,
        })
    }

    fn read_targets(&mut self, after: &mut Cursor<'_>) -> Parsed<Into> {
        let strict = after.eat_word("strict");
        let mut targets = Vec::new();
        loop {
            let name: Name = after.name("a variable")?;
            self.check_target(&name);
            if after.at(&Kind::Period) || after.at(&Kind::LBracket) {
                return Err(Diagnostic::unsupported(
                    "INTO a field or an element",
                    name.span.to(after.span()),
                )
                .help("select into a variable, then assign it"));
            }
            targets.push(name.text);
            if !after.eat(&Kind::Comma) {
                return Ok(Into { targets, strict });
            }
        }
    }

    /// `PERFORM …`: a `SELECT …` without its rows.
    pub(super) fn perform(&mut self) -> Parsed<Statement> {
        let inside = self.until(&[]);
        let tokens = inside.tokens_left();
        let mut query = vec![Token {
            kind: Kind::make_word("select", None),
            span: tokens[0].span,
        }];
        query.extend_from_slice(&tokens[1..]);
        let parsed = inside.over(&query).query();
        Ok(self
            .or_noted(parsed)?
            .map_or(Statement::Null, Statement::Perform))
    }

    /// After RETURN QUERY.
    pub(super) fn return_query(&mut self) -> Parsed<Statement> {
        let inside = self.until(&[]);
        if inside.at_word("execute") {
            return Err(
                Diagnostic::unsupported("EXECUTE", inside.span()).help("write the query itself")
            );
        }
        let parsed = sql_body::sql_statement(inside).and_then(|(statement, span)| {
            if !sql_body::returns_rows(&statement) {
                let message = "RETURN QUERY needs a query, or RETURNING";
                return Err(Diagnostic::new("42601", message, span));
            }
            Ok(statement)
        });
        let query = self.or_noted(parsed)?;
        Ok(query.map_or(Statement::Null, |query| {
            Statement::ReturnQuery(Box::new(query))
        }))
    }

    /// `GET DIAGNOSTICS variable = ROW_COUNT`.
    pub(super) fn get_diagnostics(&mut self) -> Parsed<Statement> {
        self.cursor.expect_words(&["get"])?;
        if self.cursor.at_word("stacked") {
            return Err(
                Diagnostic::unsupported("GET STACKED DIAGNOSTICS", self.cursor.span())
                    .help("there are no EXCEPTION blocks for it to report on"),
            );
        }
        self.cursor.eat_word("current");
        self.cursor.expect_words(&["diagnostics"])?;
        let target = self.target()?;
        if !self.cursor.eat(&Kind::Eq) && !self.cursor.eat(&Kind::Assignment) {
            return Err(self.cursor.expected("\"=\""));
        }
        if !self.cursor.eat_word("row_count") {
            return Err(Diagnostic::unsupported(
                "a diagnostics item other than ROW_COUNT",
                self.cursor.span(),
            ));
        }
        if self.cursor.at(&Kind::Comma) {
            return Err(Diagnostic::unsupported(
                "more than one diagnostics item",
                self.cursor.span(),
            ));
        }
        Ok(Statement::RowCount(target))
    }
}

/// Refuses a statement that returns rows without INTO.
fn check_destination(
    statement: &sqlparser::ast::Statement,
    into: Option<&Into>,
    span: Span,
) -> Parsed<()> {
    let is_query = sql_body::returns_rows(statement);
    match into {
        None if is_query => {
            Err(
                Diagnostic::new("42601", "query has no destination for result data", span).help(
                    "add INTO variable, write PERFORM to drop the rows, or RETURN QUERY to return \
                 them",
                ),
            )
        }
        Some(_) if !is_query => Err(Diagnostic::new(
            "42601",
            "INTO used with a command that cannot return data",
            span,
        )
        .help("add RETURNING")),
        _ => Ok(()),
    }
}
