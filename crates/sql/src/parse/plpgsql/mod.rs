//! Parses the PL/pgSQL subset (PostgreSQL's manual, chapter 43), by recursive descent over tokens.
//!
//! Expressions and SQL statements are cut out where PL/pgSQL ends them (`THEN`, `LOOP`, `;`, … outside of brackets) and
//! given to `sqlparser`. The variables that a statement assigns are checked here, since the catalog keeps their names
//! without places; all other names are left to the binder.
//!
//! Not supported, each with a diagnostic: EXECUTE, cursors, EXCEPTION handlers, transaction control, CALL, and names that
//! a label qualifies.

mod control;
mod raise;
mod sql;

use anabranch_types::DataType;
use sqlparser::{ast, tokenizer::Token as Kind};

use super::{
    cursor::{Cursor, Name, Parsed},
    declaration::ResultKind,
    scope::Scope,
    type_name::{TypeName, type_name},
};
use crate::{
    catalog::{Block, Catalog, Statement, Variable, VariableType},
    diagnostic::Diagnostic,
    source::Span,
};

/// The maximal nesting of blocks, loops and branches.
const DEPTH_MAX: usize = 60;

/// A whole body.
///
/// # Errors
/// If its structure cannot be followed. Errors within single statements are added to `errors`.
pub(super) fn body(
    cursor: Cursor<'_>,
    result: ResultKind,
    scope: &mut Scope,
    catalog: &Catalog,
    errors: &mut Vec<Diagnostic>,
) -> Parsed<Block> {
    scope.declare("found", VariableType::Data(DataType::Bool), false);
    let mut body = Body {
        cursor,
        result,
        scope,
        catalog,
        errors,
        depth: 0,
        levels: Vec::new(),
    };
    let label = body.label()?;
    let block = body.whole_block(label)?;
    body.cursor.eat(&Kind::SemiColon);
    body.cursor.finish("the end of the body")?;
    Ok(block)
}

struct Body<'a, 'b> {
    cursor: Cursor<'a>,
    result: ResultKind,
    scope: &'b mut Scope,
    catalog: &'b Catalog,
    errors: &'b mut Vec<Diagnostic>,
    depth: usize,
    /// What EXIT and CONTINUE may name or leave here, the innermost last.
    levels: Vec<Level>,
}

/// A loop, or a block with a label.
struct Level {
    label: Option<String>,
    is_loop: bool,
}

type Statements = Vec<(Statement, Span)>;

impl<'a> Body<'a, '_> {
    /// A block with its label, if it has one.
    fn whole_block(&mut self, label: Option<Name>) -> Parsed<Block> {
        let start = self.cursor.span();
        match self.labelled_block(label)? {
            Statement::Block(block) => Ok(block),
            statement => Ok(Block {
                statements: vec![(statement, self.cursor.since(start))],
                ..Block::default()
            }),
        }
    }

    /// A block; one with a label is a loop of one round, which EXIT can leave.
    fn labelled_block(&mut self, label: Option<Name>) -> Parsed<Statement> {
        let Some(label) = label else {
            return self.block(None).map(Statement::Block);
        };
        let start = self.cursor.span();
        self.levels.push(Level {
            label: Some(label.text.clone()),
            is_loop: false,
        });
        let block = self.block(Some(&label.text))?;
        self.levels.pop();
        let span = self.cursor.since(start);
        let leave = Statement::Exit {
            levels: 0,
            condition: None,
        };
        Ok(Statement::While {
            condition: ast::Expr::value(ast::Value::Boolean(true)),
            body: vec![(Statement::Block(block), span), (leave, span)],
        })
    }

    /// `[DECLARE …] BEGIN … END [label]`.
    fn block(&mut self, label: Option<&str>) -> Parsed<Block> {
        let mut block = Block::default();
        self.scope.open();
        if self.cursor.eat_word("declare") {
            while !self.cursor.at_word("begin") {
                // A block may say DECLARE again.
                if self.cursor.eat_word("declare") {
                    continue;
                }
                block.variables.push(self.variable()?);
            }
        }
        let opening = self.cursor.span();
        if !self.cursor.eat_word("begin") {
            return Err(self.cursor.expected("DECLARE or BEGIN"));
        }
        block.statements = self.statements(opening, &["end", "exception"])?;
        if self.cursor.at_word("exception") {
            return Err(
                Diagnostic::unsupported("an EXCEPTION block", self.cursor.span()).help(
                    "test for the condition before it arises, or let the transaction fail: its \
                 caller may run it again",
                ),
            );
        }
        self.cursor.expect_words(&["end"])?;
        self.end_label(label)?;
        self.scope.close();
        Ok(block)
    }

    fn variable(&mut self) -> Parsed<Variable> {
        let start = self.cursor.span();
        let name = self.cursor.name("a variable name, or BEGIN")?;
        if self.cursor.at_word("alias") {
            return Err(
                Diagnostic::unsupported("ALIAS", self.cursor.span()).help("use the name itself")
            );
        }
        let is_cursor = self.cursor.at_any(&["cursor", "refcursor", "scroll"])
            || self.cursor.at_words(&["no", "scroll"]);
        if is_cursor {
            return Err(cursors(self.cursor.span()));
        }
        let constant = self.cursor.eat_word("constant");
        let type_start = self.cursor.span();
        let data_type = match type_name(&mut self.cursor, self.catalog, Some(self.scope))? {
            TypeName::Data(data_type) => VariableType::Data(data_type),
            TypeName::Record => VariableType::Record,
            TypeName::Row(columns) => VariableType::Row(columns),
            TypeName::Void | TypeName::Trigger => {
                let message = "variable has a pseudo-type";
                let span = self.cursor.since(type_start);
                return Err(Diagnostic::new("42P13", message, span));
            }
        };
        if self.cursor.at_word("collate") || self.cursor.at_words(&["not", "null"]) {
            return Err(Diagnostic::unsupported(
                "COLLATE or NOT NULL of a variable",
                self.cursor.span(),
            )
            .help("leave it out"));
        }
        let has_default = self.cursor.eat(&Kind::Assignment)
            || self.cursor.eat(&Kind::Eq)
            || self.cursor.eat_word("default");
        let default = match has_default {
            true => Some(self.expression(&[])?),
            false => None,
        };
        let span = self.cursor.since(start);
        self.semicolon("after a declaration")?;
        if !self.scope.declare(&name.text, data_type.clone(), constant) {
            let message = format!("duplicate declaration of \"{}\"", name.text);
            return Err(Diagnostic::new("42601", message, name.span));
        }
        Ok(Variable {
            name: name.text,
            data_type,
            default,
            constant,
            span,
        })
    }

    /// Statements up to one of `ends`, which is not consumed. `opening` is the statement that they belong to.
    fn statements(&mut self, opening: Span, ends: &[&str]) -> Parsed<Statements> {
        let mut statements = Vec::new();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Diagnostic::new(
                "54001",
                "statements nest too deeply",
                opening,
            ));
        }
        while !self.cursor.at_any(ends) {
            if self.cursor.is_done() {
                let message = "syntax error at end of input";
                let shown = self.cursor.file().slice(opening).to_uppercase();
                return Err(Diagnostic::new("42601", message, self.cursor.span())
                    .help(format!("{shown} is never closed")));
            }
            let start = self.cursor.span();
            let statement = self.statement()?;
            statements.push((statement, self.cursor.since(start)));
            self.semicolon("after a statement")?;
        }
        self.depth -= 1;
        Ok(statements)
    }

    /// `END IF`, `END LOOP`, which close `opening`.
    fn expect_end(&mut self, word: &str, opening: Span) -> Parsed<()> {
        self.cursor.expect_words(&["end"])?;
        if self.cursor.eat_word(word) {
            return Ok(());
        }
        let shown = word.to_uppercase();
        let (line, _) = self.cursor.file().line_column(opening.start);
        Err(self
            .cursor
            .expected(&format!("END {shown} to close the {shown} of line {line}")))
    }

    fn semicolon(&mut self, place: &str) -> Parsed<()> {
        if self.cursor.eat(&Kind::SemiColon) {
            return Ok(());
        }
        Err(self.cursor.expected(&format!("\";\" {place}")))
    }

    /// An expression up to a semicolon or one of `stops` outside of brackets. An invalid one is noted, and becomes
    /// NULL.
    fn expression(&mut self, stops: &[&str]) -> Parsed<ast::Expr> {
        let inside = self.until(stops);
        if inside.is_done() {
            return Err(inside.expected("an expression"));
        }
        let parsed = inside.expression();
        let in_case = inside
            .tokens_left()
            .iter()
            .any(|token| token.is_word("case"));
        if let (Err(error), ["then", ..], true) = (&parsed, stops, in_case) {
            // PostgreSQL refuses it too.
            return Err(error.clone().help(
                "put CASE … END in parentheses: the first THEN outside of them ends the condition",
            ));
        }
        if let (Err(error), [stop, ..]) = (&parsed, stops)
            && !self.cursor.at_any(stops)
        {
            // The word that ends it is missing: it has swallowed what follows.
            return Err(error
                .clone()
                .help(format!("expected {}", stop.to_uppercase())));
        }
        Ok(self
            .or_noted(parsed)?
            .unwrap_or(ast::Expr::value(ast::Value::Null)))
    }

    /// The result; or `None` after an error that does not keep the parser from going on.
    fn or_noted<T>(&mut self, parsed: Parsed<T>) -> Parsed<Option<T>> {
        match parsed {
            Ok(tree) => Ok(Some(tree)),
            Err(error) if self.errors.len() < ERRORS_MAX => {
                self.errors.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn note(&mut self, error: Diagnostic) {
        self.errors.push(error);
    }

    /// The tokens up to a semicolon or one of `stops` outside of brackets, as PL/pgSQL reads them:
    /// it does not know of CASE.
    fn until(&mut self, stops: &[&str]) -> Cursor<'a> {
        let mut length = 0;
        let mut brackets = 0_usize;
        while let Some(token) = self.cursor.peek_at(length) {
            match &token.kind {
                // Within brackets too: no expression holds one.
                Kind::SemiColon => break,
                Kind::LParen | Kind::LBracket => brackets += 1,
                Kind::RParen | Kind::RBracket => brackets = brackets.saturating_sub(1),
                Kind::Word(_) if brackets == 0 && stops.iter().any(|stop| token.is_word(stop)) => {
                    break;
                }
                _ => {}
            }
            length += 1;
        }
        self.cursor.take(length)
    }

    /// The name of a variable that is assigned.
    fn target(&mut self) -> Parsed<String> {
        let name = self.cursor.name("a variable")?;
        self.check_target(&name);
        if self.cursor.eat(&Kind::Period) {
            let field = self.cursor.name("a field")?;
            return Ok(format!("{}.{}", name.text, field.text));
        }
        Ok(name.text)
    }

    fn check_target(&mut self, name: &Name) {
        let error = if self.scope.get(&name.text).is_none() {
            let message = format!("\"{}\" is not a known variable", name.text);
            Diagnostic::new("42601", message, name.span)
                .help("declare it between DECLARE and BEGIN")
        } else if self.scope.is_constant(&name.text) {
            let message = format!("variable \"{}\" is declared CONSTANT", name.text);
            Diagnostic::new("22005", message, name.span)
        } else {
            return;
        };
        self.note(error);
    }

    /// `<<label>>`, if there is one.
    fn label(&mut self) -> Parsed<Option<Name>> {
        if !self.cursor.eat(&Kind::ShiftLeft) {
            return Ok(None);
        }
        let name = self.cursor.name("a label")?;
        self.cursor.expect(&Kind::ShiftRight)?;
        Ok(Some(name))
    }

    /// The label behind END, which has to be that of the block or loop.
    fn end_label(&mut self, label: Option<&str>) -> Parsed<()> {
        if !matches!(
            self.cursor.peek().map(|token| &token.kind),
            Some(Kind::Word(_))
        ) {
            return Ok(());
        }
        let end = self.cursor.name("a label")?;
        let message = match label {
            Some(label) if label == end.text => return Ok(()),
            Some(label) => {
                format!(
                    "end label \"{}\" differs from block's label \"{label}\"",
                    end.text
                )
            }
            None => format!("end label \"{}\" specified for unlabeled block", end.text),
        };
        self.note(Diagnostic::new("42601", message, end.span));
        Ok(())
    }
}

/// The maximum of invalid statements reported for one body.
const ERRORS_MAX: usize = 20;

fn cursors(span: Span) -> Diagnostic {
    Diagnostic::unsupported("a cursor", span).help("use FOR record IN query LOOP")
}
