//! A cursor over a list of tokens.

use sqlparser::tokenizer::Token as Kind;

use super::{keyword::is_reserved, lexer::Token};
use crate::{
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
};

/// The result of this crate's own parsers.
pub(crate) type Parsed<T> = Result<T, Diagnostic>;

/// A name and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// A range of tokens, consumed from its front.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    file: &'a SourceFile,
    tokens: &'a [Token],
    position: usize,
    /// What follows the last token, for "syntax error at or near".
    behind: Behind,
}

/// What follows the last token of a range.
#[derive(Clone, Copy)]
enum Behind {
    /// A token that ends the range.
    Token(Span),
    /// The end of the text.
    End(Span),
}

impl<'a> Cursor<'a> {
    /// A cursor over `tokens`, followed by the end of the text at `text_end`.
    pub(crate) fn new(file: &'a SourceFile, tokens: &'a [Token], text_end: Span) -> Cursor<'a> {
        Cursor {
            file,
            tokens,
            position: 0,
            behind: Behind::End(text_end),
        }
    }

    /// A cursor over `tokens`, followed by a token with this place.
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

    /// Whether no token remains.
    pub(crate) fn is_done(&self) -> bool {
        self.position >= self.tokens.len()
    }

    /// The number of remaining tokens.
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

    /// The place of the next token, or of what follows the last.
    pub(crate) fn span(&self) -> Span {
        match (self.peek(), self.behind) {
            (Some(token), _) => token.span,
            (None, Behind::Token(span) | Behind::End(span)) => span,
        }
    }

    /// The place of what follows the last token.
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

    /// Consumes these words; otherwise an error names them.
    pub(crate) fn expect_words(&mut self, words: &[&str]) -> Parsed<Span> {
        let start = self.span();
        for word in words {
            if !self.eat_word(word) {
                return Err(self.expected(&word.to_uppercase()));
            }
        }
        Ok(self.since(start))
    }

    /// Consumes this token; otherwise an error names it.
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

    /// Checks that no token is left.
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

    /// Consumes the tokens up to the first, outside of brackets, for which `stop` holds, or to the end.
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

    /// The tokens between a parenthesis, which comes next, and the one that closes it.
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

    /// A cursor over the rest.
    pub(crate) fn rest(&self) -> Cursor<'a> {
        self.between(self.position, self.tokens.len())
    }

    /// The remaining tokens.
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

    /// A cursor over `tokens` of `file`, whose places count from `offset` of this cursor's, with the same end.
    pub(crate) fn relative_to<'b>(
        &self,
        file: &'b SourceFile,
        tokens: &'b [Token],
        offset: u32,
    ) -> Cursor<'b> {
        let back = |span: Span| Span {
            start: span.start.saturating_sub(offset),
            end: span.end.saturating_sub(offset),
            ..span
        };
        Cursor {
            file,
            tokens,
            position: 0,
            behind: match self.behind {
                Behind::Token(span) => Behind::Token(back(span)),
                Behind::End(span) => Behind::End(back(span)),
            },
        }
    }

    /// "syntax error at or near" the token at this place, or the end.
    pub(super) fn syntax_error_at(&self, place: Option<Span>) -> Diagnostic {
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
}
