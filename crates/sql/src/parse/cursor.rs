//! A place in a list of tokens, and the way from there into `sqlparser`.

use sqlparser::{
    ast,
    dialect::PostgreSqlDialect,
    parser::{Parser, ParserError},
    tokenizer::{Token as Kind, TokenWithSpan},
};

use super::{error_location, lexer::Token, unary_minus};
use crate::{
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
};

/// What this crate's own parsers return.
pub(crate) type Parsed<T> = Result<T, Diagnostic>;

/// A name and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// Operators in one stretch of a statement without brackets or commas: beyond, the trees that they
/// make would be too deep for whatever walks them.
const OPERATORS_MAX: usize = 1_000;
/// The depth of brackets, for the same reason.
const DEPTH_MAX: usize = 60;

static DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// A stretch of tokens, consumed from its front.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    file: &'a SourceFile,
    tokens: &'a [Token],
    position: usize,
    /// What stands behind the last token, for "syntax error at or near".
    behind: Behind,
}

/// What stands behind the last token of a stretch.
#[derive(Clone, Copy)]
enum Behind {
    /// A token that ends the stretch.
    Token(Span),
    /// The end of the text.
    End(Span),
}

impl<'a> Cursor<'a> {
    /// All of `tokens`, behind which `text_end` is the end of the text.
    pub(crate) fn new(file: &'a SourceFile, tokens: &'a [Token], text_end: Span) -> Cursor<'a> {
        Cursor {
            file,
            tokens,
            position: 0,
            behind: Behind::End(text_end),
        }
    }

    /// All of `tokens`, behind which stands the token with this place.
    pub(crate) fn ending_at(file: &'a SourceFile, tokens: &'a [Token], end: Span) -> Cursor<'a> {
        Cursor {
            file,
            tokens,
            position: 0,
            behind: Behind::Token(end),
        }
    }

    /// The file that the tokens stand in.
    pub(crate) fn file(&self) -> &'a SourceFile {
        self.file
    }

    /// Whether nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        self.position >= self.tokens.len()
    }

    /// How many tokens are left.
    pub(crate) fn left(&self) -> usize {
        self.tokens.len() - self.position
    }

    /// The next token.
    pub(crate) fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.position)
    }

    /// The token after `ahead` others.
    pub(crate) fn peek_at(&self, ahead: usize) -> Option<&'a Token> {
        self.tokens.get(self.position + ahead)
    }

    /// The next token, consumed.
    pub(crate) fn next(&mut self) -> Option<&'a Token> {
        let token = self.tokens.get(self.position)?;
        self.position += 1;
        Some(token)
    }

    /// The place of the next token, or of what stands behind the last.
    pub(crate) fn span(&self) -> Span {
        match (self.peek(), self.behind) {
            (Some(token), _) => token.span,
            (None, Behind::Token(span) | Behind::End(span)) => span,
        }
    }

    /// The place of what stands behind the last token.
    pub(crate) fn end_span(&self) -> Span {
        match self.behind {
            Behind::Token(span) | Behind::End(span) => span,
        }
    }

    /// From the next token to the last.
    pub(crate) fn whole_span(&self) -> Span {
        let start = self.span();
        self.tokens_left()
            .last()
            .map_or(start, |last| start.to(last.span))
    }

    /// The place of the last token that was consumed.
    pub(crate) fn last_span(&self) -> Span {
        match self
            .position
            .checked_sub(1)
            .and_then(|last| self.tokens.get(last))
        {
            Some(token) => token.span,
            None => self.span().before(),
        }
    }

    /// From `start` to the last token that was consumed.
    pub(crate) fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    /// Whether the next token is the unquoted word `word`.
    pub(crate) fn at_word(&self, word: &str) -> bool {
        self.peek().is_some_and(|token| token.is_word(word))
    }

    /// Whether the next tokens are these unquoted words.
    pub(crate) fn at_words(&self, words: &[&str]) -> bool {
        words
            .iter()
            .enumerate()
            .all(|(ahead, word)| self.peek_at(ahead).is_some_and(|token| token.is_word(word)))
    }

    /// Whether the next token is one of these unquoted words.
    pub(crate) fn at_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.at_word(word))
    }

    /// Whether the next token is this one.
    pub(crate) fn at(&self, kind: &Kind) -> bool {
        self.peek().is_some_and(|token| token.kind == *kind)
    }

    /// Consumes these words if all of them come next.
    pub(crate) fn eat_words(&mut self, words: &[&str]) -> bool {
        let there = self.at_words(words);
        self.position += if there { words.len() } else { 0 };
        there
    }

    /// Consumes the word if it comes next.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        self.eat_words(&[word])
    }

    /// Consumes the token if it comes next.
    pub(crate) fn eat(&mut self, kind: &Kind) -> bool {
        let there = self.at(kind);
        self.position += usize::from(there);
        there
    }

    /// Consumes these words, or says what was expected.
    pub(crate) fn expect_words(&mut self, words: &[&str]) -> Parsed<Span> {
        let start = self.span();
        for word in words {
            if !self.eat_word(word) {
                return Err(self.expected(&word.to_uppercase()));
            }
        }
        Ok(self.since(start))
    }

    /// Consumes this token, or says what was expected.
    pub(crate) fn expect(&mut self, kind: &Kind) -> Parsed<Span> {
        let span = self.span();
        if self.eat(kind) {
            Ok(span)
        } else {
            Err(self.expected(&format!("\"{kind}\"")))
        }
    }

    /// "syntax error at or near" the next token, with what would be right there.
    pub(crate) fn expected(&self, wanted: &str) -> Diagnostic {
        self.syntax_error().help(format!("expected {wanted}"))
    }

    /// "syntax error at or near" the next token.
    pub(crate) fn syntax_error(&self) -> Diagnostic {
        let span = self.span();
        if self.is_done() && matches!(self.behind, Behind::End(_)) {
            return Diagnostic::new("42601", "syntax error at end of input", span);
        }
        let shown: String = self.file.slice(span).chars().take(40).collect();
        Diagnostic::new(
            "42601",
            format!("syntax error at or near \"{shown}\""),
            span,
        )
    }

    /// Nothing may be left.
    pub(crate) fn finish(&self, wanted: &str) -> Parsed<()> {
        if self.is_done() {
            Ok(())
        } else {
            Err(self.expected(wanted))
        }
    }

    /// A name: a quoted one, or an unquoted one that is not reserved.
    pub(crate) fn name(&mut self, what: &str) -> Parsed<Name> {
        match self.peek() {
            Some(Token {
                kind: Kind::Word(word),
                span,
            }) if word.quote_style.is_some() || !is_reserved(&word.value) => {
                self.position += 1;
                Ok(Name {
                    text: word.value.clone(),
                    span: *span,
                })
            }
            Some(Token {
                kind: Kind::Word(word),
                ..
            }) => Err(self.expected(what).help(format!(
                "\"{0}\" is a reserved word; quote it to use it as {what}: \"{0}\"",
                word.value
            ))),
            _ => Err(self.expected(what)),
        }
    }

    /// A name that may be qualified with the schema `public`, the only one there is.
    pub(crate) fn schema_name(&mut self, what: &str) -> Parsed<Name> {
        let name = self.name(what)?;
        if !self.eat(&Kind::Period) {
            return Ok(name);
        }
        if name.text != "public" {
            let message = format!("schema \"{}\" does not exist", name.text);
            return Err(Diagnostic::new("3F000", message, name.span)
                .help("there is one schema, \"public\"; leave the schema out"));
        }
        let inner = self.name(what)?;
        Ok(Name {
            span: name.span.to(inner.span),
            text: inner.text,
        })
    }

    /// A list of names in parentheses.
    pub(crate) fn names(&mut self, what: &str) -> Parsed<Vec<Name>> {
        self.expect(&Kind::LParen)?;
        let mut names = vec![self.name(what)?];
        while self.eat(&Kind::Comma) {
            names.push(self.name(what)?);
        }
        self.expect(&Kind::RParen)?;
        Ok(names)
    }

    /// A string literal.
    pub(crate) fn string(&mut self) -> Parsed<(String, Span)> {
        match self.peek() {
            Some(Token {
                kind: Kind::SingleQuotedString(value),
                span,
            }) => {
                self.position += 1;
                Ok((value.clone(), *span))
            }
            _ => Err(self.expected("a string")),
        }
    }

    /// A whole number without a sign.
    pub(crate) fn integer(&mut self) -> Parsed<(u32, Span)> {
        if let Some(Token {
            kind: Kind::Number(digits, _),
            span,
        }) = self.peek()
            && let Ok(number) = digits.parse()
        {
            self.position += 1;
            return Ok((number, *span));
        }
        Err(self.expected("a whole number"))
    }

    /// The tokens up to the first, outside of brackets, at which `stop` says so; they are consumed,
    /// it is not. To the end if there is none.
    pub(crate) fn take_until(&mut self, stop: impl Fn(&Cursor<'a>) -> bool) -> Cursor<'a> {
        let start = self.position;
        let mut depth = 0_usize;
        while let Some(token) = self.peek() {
            if depth == 0 && stop(self) {
                break;
            }
            match token.kind {
                Kind::LParen | Kind::LBracket => depth += 1,
                // A closing bracket that nothing opened ends the stretch in any case.
                Kind::RParen | Kind::RBracket if depth == 0 => break,
                Kind::RParen | Kind::RBracket => depth -= 1,
                _ => {}
            }
            self.position += 1;
        }
        self.between(start, self.position)
    }

    /// What stands between a parenthesis, which comes next, and the one that closes it.
    pub(crate) fn parenthesised(&mut self) -> Parsed<Cursor<'a>> {
        self.expect(&Kind::LParen)?;
        let inside = self.take_until(|_| false);
        self.expect(&Kind::RParen)?;
        Ok(inside)
    }

    /// The tokens from `start` to before `end`, positions in the whole stretch.
    fn between(&self, start: usize, end: usize) -> Cursor<'a> {
        let behind = match self.tokens.get(end) {
            Some(token) => Behind::Token(token.span),
            None => self.behind,
        };
        Cursor {
            file: self.file,
            tokens: &self.tokens[start..end],
            position: 0,
            behind,
        }
    }

    /// The next `count` tokens, consumed.
    pub(crate) fn take(&mut self, count: usize) -> Cursor<'a> {
        let start = self.position;
        self.position = (start + count).min(self.tokens.len());
        self.between(start, self.position)
    }

    /// What is left, as one stretch.
    pub(crate) fn rest(&self) -> Cursor<'a> {
        self.between(self.position, self.tokens.len())
    }

    /// The same place over other tokens: what is left of this stretch, but for those that `keep`
    /// leaves out.
    pub(crate) fn tokens_left(&self) -> &'a [Token] {
        &self.tokens[self.position.min(self.tokens.len())..]
    }

    /// These tokens, which are some of this cursor's, with the same end.
    pub(crate) fn over<'b>(&self, tokens: &'b [Token]) -> Cursor<'b>
    where
        'a: 'b,
    {
        Cursor {
            file: self.file,
            tokens,
            position: 0,
            behind: self.behind,
        }
    }

    /// All that is left as an expression.
    pub(crate) fn expression(&self) -> Parsed<ast::Expr> {
        self.parse_all(|parser| parser.parse_expr())
    }

    /// All that is left as a query.
    pub(crate) fn query(&self) -> Parsed<Box<ast::Query>> {
        self.parse_all(|parser| parser.parse_query())
    }

    /// All that is left as one statement.
    pub(crate) fn statement(&self) -> Parsed<ast::Statement> {
        self.parse_all(|parser| parser.parse_statement())
    }

    fn parse_all<T>(&self, parse: impl Fn(&mut Parser<'_>) -> Result<T, ParserError>) -> Parsed<T> {
        self.check_size()?;
        unary_minus::check(self.tokens_left())?;
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

    /// Refuses what would make trees too deep to walk.
    fn check_size(&self) -> Parsed<()> {
        let (mut depth, mut operators) = (0_usize, 0_usize);
        for token in self.tokens_left() {
            match &token.kind {
                Kind::LParen | Kind::LBracket => (depth, operators) = (depth + 1, operators + 1),
                Kind::RParen | Kind::RBracket => depth = depth.saturating_sub(1),
                Kind::Comma if depth == 0 => operators = 0,
                Kind::Comma | Kind::Number(..) | Kind::SingleQuotedString(_) => {}
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
                    operators += usize::from(deeper);
                }
                _ => operators += 1,
            }
            if depth > DEPTH_MAX || operators > OPERATORS_MAX {
                let message = "statement is too complex";
                return Err(Diagnostic::new("54001", message, token.span).help(format!(
                    "at most {DEPTH_MAX} nested brackets and {OPERATORS_MAX} operators in one \
                     expression"
                )));
            }
        }
        Ok(())
    }

    /// "syntax error at or near" the token at this place, or the end.
    fn syntax_error_at(&self, place: Option<Span>) -> Diagnostic {
        let tokens = self.tokens_left();
        let found = place.and_then(|place| {
            tokens
                .iter()
                .position(|token| token.span.start == place.start)
        });
        let at = found.unwrap_or(tokens.len());
        Cursor {
            tokens,
            position: at,
            ..*self
        }
        .syntax_error()
    }

    /// `sqlparser`'s words as PostgreSQL's: "syntax error at or near", and what was expected.
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

/// PostgreSQL's reserved words (its manual, appendix C), in alphabetical order.
const RESERVED: [&str; 77] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Whether PostgreSQL lets this word name nothing unless it is quoted.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_in_order() {
        assert!(RESERVED.is_sorted());
        assert!(is_reserved("select") && is_reserved("with") && is_reserved("all"));
        assert!(!is_reserved("name"));
    }
}
