//! Calls of `sqlparser`: from the rest of a cursor's tokens to a syntax tree.

use sqlparser::{
    ast,
    dialect::PostgreSqlDialect,
    parser::{Parser, ParserError},
    tokenizer::{Token as Kind, TokenWithSpan},
};

use super::{
    cursor::{Cursor, Parsed},
    error_location,
    lexer::Token,
    precedence,
};
use crate::{diagnostic::Diagnostic, source::Span};

/// The maximum of operators above each other, without commas between them: more would make trees too deep to walk
/// recursively.
const OPERATORS_MAX: usize = 1_000;
/// The maximal depth of brackets, for the same reason.
const DEPTH_MAX: usize = 60;

static DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

const OVERRIDING: [&str; 3] = ["overriding", "system", "value"];

/// The mark of an INSERT with OVERRIDING SYSTEM VALUE.
pub(crate) const OVERRIDES: ast::MysqlInsertPriority = ast::MysqlInsertPriority::HighPriority;

/// The mark of a list of expressions in an INSERT that is the target of its ON CONFLICT: its condition, if it has one, then
/// its elements. No text gives this name.
fn mark(has_condition: bool) -> ast::Expr {
    let name = if has_condition { "where" } else { "" };
    ast::Expr::Identifier(ast::Ident::with_quote('\'', name))
}

/// The elements and the condition of an ON CONFLICT that has more than columns.
pub(crate) fn conflict_parts(insert: &ast::Insert) -> Option<(&[ast::Expr], Option<&ast::Expr>)> {
    let list = insert.partitioned.as_ref()?;
    let (first, parts) = list.split_first()?;
    if *first == mark(true) {
        let (condition, elements) = parts.split_first()?;
        return Some((elements, Some(condition)));
    }
    (*first == mark(false)).then_some((parts, None))
}

/// A target of ON CONFLICT, to be parsed apart.
struct ConflictTarget {
    /// Its tokens.
    range: std::ops::Range<usize>,
    /// What stands there for `sqlparser`.
    stand_in: Vec<Token>,
    /// A [`mark`], the condition and the elements.
    list: Vec<ast::Expr>,
}

/// The INSERT that a statement is.
fn inserting(statement: &mut ast::Statement) -> Option<&mut ast::Insert> {
    match statement {
        ast::Statement::Insert(insert) => Some(insert),
        ast::Statement::Query(query) => match &mut *query.body {
            ast::SetExpr::Insert(ast::Statement::Insert(insert)) => Some(insert),
            _ => None,
        },
        _ => None,
    }
}

/// Where OVERRIDING SYSTEM VALUE stands in an INSERT, outside of brackets.
fn overriding(tokens: &[Token]) -> Parsed<Option<usize>> {
    let begins = tokens.first();
    if !begins.is_some_and(|token| token.is_word("insert") || token.is_word("with")) {
        return Ok(None);
    }
    let mut depth = 0_usize;
    for (at, window) in tokens.windows(OVERRIDING.len()).enumerate() {
        match window[0].kind {
            Kind::LParen => depth += 1,
            Kind::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 0 || !window[0].is_word("overriding") || !window[2].is_word("value") {
            continue;
        }
        if window[1].is_word("system") {
            return Ok(Some(at));
        }
        if window[1].is_word("user") {
            let span = window[0].span.to(window[2].span);
            return Err(Diagnostic::unsupported("OVERRIDING USER VALUE", span)
                .help("leave the identity column out"));
        }
    }
    Ok(None)
}

/// What is between two brackets, or outside of all, so far: a list with commas, whose elements are trees.
#[derive(Default)]
struct Level {
    /// The operators of the last element; what is in brackets is one of their operands.
    operators: usize,
    /// The greatest depth of such an operand.
    deepest: usize,
    /// The greatest depth of an element before.
    before: usize,
}

impl Level {
    /// The depth of the deepest tree, at most.
    fn depth(&self) -> usize {
        self.before.max(self.operators + self.deepest)
    }

    /// The next element begins.
    fn next(&mut self) {
        self.before = self.depth();
        (self.operators, self.deepest) = (0, 0);
    }
}

impl Cursor<'_> {
    /// Parses the rest as an expression.
    pub(crate) fn expression(&self) -> Parsed<ast::Expr> {
        self.parse_all(|parser| parser.parse_expr())
    }

    /// Parses the rest as a query.
    pub(crate) fn query(&self) -> Parsed<Box<ast::Query>> {
        self.parse_all(|parser| parser.parse_query())
    }

    /// Parses the rest as one statement.
    pub(crate) fn statement(&self) -> Parsed<ast::Statement> {
        let tokens = self.tokens_left();
        let Some(target) = self.conflict_target()? else {
            return self.overriding_statement();
        };
        // `sqlparser` knows columns alone there. Its trees have a place for expressions of another dialect.
        let mut others = tokens[..target.range.start].to_vec();
        others.extend(target.stand_in);
        others.extend_from_slice(&tokens[target.range.end..]);
        let mut statement = self.over(&others).overriding_statement()?;
        match inserting(&mut statement) {
            Some(insert) if insert.on.is_some() => insert.partitioned = Some(target.list),
            _ => return Err(self.over(&tokens[target.range.start..]).syntax_error()),
        }
        Ok(statement)
    }

    /// The target of an ON CONFLICT that has expressions or a condition.
    fn conflict_target(&self) -> Parsed<Option<ConflictTarget>> {
        let tokens = self.tokens_left();
        let begins = tokens.first();
        if !begins.is_some_and(|token| token.is_word("insert") || token.is_word("with")) {
            return Ok(None);
        }
        let mut depth = 0_usize;
        for at in 0..tokens.len() {
            match tokens[at].kind {
                Kind::LParen => depth += 1,
                Kind::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            let mut inside = self.over(&tokens[at..]);
            if depth > 0 || !inside.eat_words(&["on", "conflict"]) || !inside.at(&Kind::LParen) {
                continue;
            }
            let left = inside.left();
            let mut listed = inside.parenthesised()?;
            let mut elements = Vec::new();
            loop {
                let element = listed.take_until(|at| at.at(&Kind::Comma));
                elements.push(element);
                if !listed.eat(&Kind::Comma) {
                    break;
                }
            }
            let is_name = |element: &Cursor<'_>| matches!(element.tokens_left(), [token] if matches!(token.kind, Kind::Word(_)));
            let condition = inside
                .eat_word("where")
                .then(|| inside.take_until(|at| at.at_word("do")));
            if condition.is_none() && elements.iter().all(is_name) {
                return Ok(None);
            }
            let mut list = vec![mark(condition.is_some())];
            for part in condition.iter().chain(&elements) {
                list.push(part.expression()?);
            }
            let start = at + 2;
            let range = start..start + left - inside.left();
            let named = tokens[range.clone()].iter();
            let mut stand_in: Vec<Token> = named.take(2).cloned().collect();
            if let [_, name] = &mut stand_in[..] {
                name.kind = Kind::make_word("excluded", Some('"'));
            }
            let close = tokens[range.clone()].iter();
            stand_in.extend(
                close
                    .rev()
                    .find(|token| token.kind == Kind::RParen)
                    .cloned(),
            );
            return Ok(Some(ConflictTarget {
                range,
                stand_in,
                list,
            }));
        }
        Ok(None)
    }

    /// Parses the rest as one statement, which may have OVERRIDING SYSTEM VALUE.
    fn overriding_statement(&self) -> Parsed<ast::Statement> {
        let tokens = self.tokens_left();
        let Some(at) = overriding(tokens)? else {
            return self.parse_all(|parser| parser.parse_statement());
        };
        // `sqlparser` does not know these words. Its trees have a place for those of another dialect.
        let mut others = tokens.to_vec();
        others.drain(at..at + OVERRIDING.len());
        let mut statement = self
            .over(&others)
            .parse_all(|parser| parser.parse_statement())?;
        match inserting(&mut statement) {
            Some(insert) => insert.priority = Some(OVERRIDES),
            None => return Err(self.over(&tokens[at..]).syntax_error()),
        }
        Ok(statement)
    }

    fn parse_all<T>(&self, parse: impl Fn(&mut Parser<'_>) -> Result<T, ParserError>) -> Parsed<T> {
        self.check_size()?;
        precedence::check(self.tokens_left())?;
        if self.is_done() {
            return Err(self.syntax_error());
        }
        let tokens = self.tokens_left();
        let located = tokens.iter().map(|token| TokenWithSpan {
            token: token.kind.clone(),
            span: token.span.location(),
        });
        let mut parser = Parser::new(&DIALECT).with_tokens_with_locations(located.collect());
        let tree = parse(&mut parser)
            .map_err(|error| error_location::improve(self, self.translate(&error)))?;
        let next = parser.peek_token();
        if next.token != Kind::EOF {
            return Err(error_location::improve(
                self,
                self.syntax_error_at(Span::of(next.span)),
            ));
        }
        Ok(tree)
    }

    /// Refuses text that would make trees too deep to walk.
    fn check_size(&self) -> Parsed<()> {
        // The brackets around the token, each with what was before it, and all operators of these.
        let (mut outside, mut above) = (Vec::new(), 0_usize);
        let mut level = Level::default();
        let tokens = self.tokens_left();
        for (place, token) in tokens.iter().enumerate() {
            match &token.kind {
                Kind::Placeholder(_) => {}
                // The cast of one token is no deeper than the token; a cast of a cast is.
                Kind::DoubleColon
                    if place > 0
                        && matches!(
                            tokens[place - 1].kind,
                            Kind::Placeholder(_) | Kind::Number(..) | Kind::SingleQuotedString(_)
                        ) => {}
                Kind::LParen | Kind::LBracket => {
                    level.operators += 1;
                    above += level.operators;
                    outside.push(std::mem::take(&mut level));
                }
                Kind::RParen | Kind::RBracket => {
                    if let Some(around) = outside.pop() {
                        let inner = level.depth();
                        level = around;
                        above -= level.operators;
                        level.deepest = level.deepest.max(inner);
                    }
                }
                Kind::Comma => level.next(),
                Kind::Number(..) | Kind::SingleQuotedString(_) => {}
                Kind::Word(word) => {
                    const DEEPER: [&str; 12] = [
                        "and",
                        "or",
                        "not",
                        "is",
                        "in",
                        "case",
                        "union",
                        "intersect",
                        "except",
                        "join",
                        "isnull",
                        "notnull",
                    ];
                    let deeper =
                        word.quote_style.is_none() && DEEPER.contains(&word.value.as_str());
                    level.operators += usize::from(deeper);
                }
                _ => level.operators += 1,
            }
            if outside.len() > DEPTH_MAX || above + level.depth() > OPERATORS_MAX {
                let message = "statement is too complex";
                return Err(Diagnostic::new("54001", message, token.span).help(format!(
                    "at most {DEPTH_MAX} nested brackets and {OPERATORS_MAX} operators in one \
                     expression"
                )));
            }
        }
        Ok(())
    }

    /// Translates `sqlparser`'s error to PostgreSQL's words: "syntax error at or near", and what was expected.
    fn translate(&self, error: &ParserError) -> Diagnostic {
        let message = match error {
            ParserError::RecursionLimitExceeded => {
                return Diagnostic::new("54001", "statement is too complex", self.span())
                    .help("it nests too deeply; write it in parts");
            }
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        };
        let (text, place) = match message.rsplit_once(" at Line: ") {
            Some((text, place)) => (text, parse_place(place)),
            None => (message.as_str(), None),
        };
        let diagnostic = self.syntax_error_at(place);
        match text
            .strip_prefix("Expected: ")
            .and_then(|text| text.split_once(", found"))
        {
            Some((wanted, _)) => diagnostic.help(format!("expected {wanted}")),
            None => diagnostic.help(text.to_owned()),
        }
    }
}

/// `LINE, Column: COLUMN`, as the end of a message of `sqlparser` has it.
fn parse_place(text: &str) -> Option<Span> {
    let (line, column) = text.split_once(", Column: ")?;
    let line: u64 = line.parse().ok()?;
    let column: u64 = column.parse().ok()?;
    Some(Span {
        file: u16::try_from(line.checked_sub(1)?).ok()?,
        start: u32::try_from(column.checked_sub(1)?).ok()?,
        end: u32::try_from(column.checked_sub(1)?).ok()?,
    })
}
