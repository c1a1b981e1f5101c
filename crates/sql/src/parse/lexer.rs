//! PostgreSQL's lexical structure (its manual, chapter 4.1): from text to tokens with byte spans.
//!
//! The tokens are `sqlparser`'s, so that any range of them can be given to it. They differ from those of its own lexer
//! in five ways, each of them PostgreSQL's:
//!
//! * unquoted names are folded to lower case and cut to 63 bytes;
//! * every string literal (`'…'`, `E'…'`, `$$…$$`, and neighbours joined over a line break) is a plain string token
//!   with its value;
//! * `x ISNULL` is `x IS NULL`;
//! * `1..10` is a number, two periods and a number, as PL/pgSQL's loops need it;
//! * a place is a file and a byte (see [`Span::of`]).

use sqlparser::tokenizer::Token as Kind;

use crate::{diagnostic::Diagnostic, source::Span};

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

impl Token {
    /// Whether this is the unquoted word `word`, given in lower case.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, Kind::Word(found) if found.quote_style.is_none() && found.value == word)
    }
}

/// A text to lex, and the positions of its bytes in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    pub(crate) file: u16,
    pub(crate) text: &'a str,
    pub(crate) places: Places<'a>,
}

/// The positions of the bytes of a text in its file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Places<'a> {
    /// Consecutive, from here.
    From(u32),
    /// Of each byte, and of the end: for a string with escapes.
    Each(&'a [u32]),
}

impl Text<'_> {
    /// The place of some bytes of this text.
    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        let place = |offset: usize| match self.places {
            Places::From(base) => base.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX)),
            Places::Each(places) => places[offset.min(places.len() - 1)],
        };
        Span {
            file: self.file,
            start: place(start),
            end: place(end),
        }
    }
}

/// The tokens of a text without white space and comments. After a lexical error, those before it
/// and the error.
pub(crate) fn lex(text: Text<'_>) -> (Vec<Token>, Option<Diagnostic>) {
    let mut lexer = Lexer {
        source: text,
        text: text.text,
        position: 0,
        tokens: Vec::new(),
    };
    let error = lexer.run().err();
    (lexer.tokens, error)
}

struct Lexer<'a> {
    source: Text<'a>,
    text: &'a str,
    position: usize,
    tokens: Vec<Token>,
}

/// The longest name that PostgreSQL keeps, in bytes.
const NAME_BYTES_MAX: usize = 63;

fn is_name_start(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_' || !character.is_ascii()
}

fn is_name_part(character: char) -> bool {
    is_name_start(character) || character.is_ascii_digit() || character == '$'
}

fn is_operator(character: char) -> bool {
    "+-*/<>=~!@#%^&|`?".contains(character)
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &str {
        let start = self.position;
        let rest = self.rest();
        self.position += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        &self.text[start..self.position]
    }

    fn push(&mut self, start: usize, kind: Kind) {
        let span = self.source.span(start, self.position);
        self.tokens.push(Token { kind, span });
    }

    fn error(&self, start: usize, end: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new("42601", message, self.source.span(start, end))
    }

    fn run(&mut self) -> Result<(), Diagnostic> {
        if self.text.starts_with('\u{feff}') {
            self.position = '\u{feff}'.len_utf8();
        }
        while let Some(character) = self.peek() {
            let start = self.position;
            let next = self.rest().chars().nth(1);
            match character {
                ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' => {
                    self.position += 1;
                }
                '-' if next == Some('-') => {
                    self.take_while(|c| c != '\n');
                }
                '/' if next == Some('*') => self.comment(start)?,
                '\'' => {
                    let value = self.string(start, false)?;
                    self.push(start, Kind::SingleQuotedString(value));
                }
                '"' => self.quoted_name(start)?,
                '$' => self.dollar(start)?,
                '0'..='9' => self.number(start)?,
                '.' if next == Some('.') => {
                    for _ in 0..2 {
                        self.position += 1;
                        self.push(self.position - 1, Kind::Period);
                    }
                }
                '.' if next.is_some_and(|c| c.is_ascii_digit()) => self.number(start)?,
                _ if is_name_start(character) => self.word(start, character, next)?,
                _ => self.punctuation(start, character)?,
            }
        }
        Ok(())
    }

    fn comment(&mut self, start: usize) -> Result<(), Diagnostic> {
        let mut depth = 0_usize;
        let bytes = self.text.as_bytes();
        while self.position < bytes.len() {
            let rest = &bytes[self.position..];
            if rest.starts_with(b"/*") {
                depth += 1;
                self.position += 2;
            } else if rest.starts_with(b"*/") {
                depth -= 1;
                self.position += 2;
                if depth == 0 {
                    return Ok(());
                }
            } else {
                self.position += 1;
            }
        }
        Err(self
            .error(start, start + 2, "unterminated /* comment")
            .help("close it with */"))
    }

    fn word(&mut self, start: usize, first: char, next: Option<char>) -> Result<(), Diagnostic> {
        if next == Some('\'') {
            match first {
                'e' | 'E' => {
                    self.position += 1;
                    let value = self.string(start, true)?;
                    self.push(start, Kind::SingleQuotedString(value));
                    return Ok(());
                }
                'n' | 'N' => {
                    self.position += 1;
                    let value = self.string(start, false)?;
                    self.push(start, Kind::SingleQuotedString(value));
                    return Ok(());
                }
                'b' | 'B' | 'x' | 'X' => {
                    return Err(Diagnostic::unsupported(
                        "a bit string literal",
                        self.source.span(start, start + 2),
                    )
                    .help("for bytes write '\\x…'::bytea"));
                }
                _ => {}
            }
        }
        let rest = self.rest().as_bytes();
        if rest.len() > 2
            && rest[0].eq_ignore_ascii_case(&b'u')
            && rest[1] == b'&'
            && let b'\'' | b'"' = rest[2]
        {
            return Err(Diagnostic::unsupported(
                "a U& literal",
                self.source.span(start, start + 3),
            )
            .help("write the characters themselves, or \\u escapes in an E'…' string"));
        }
        let name = self.take_while(is_name_part).to_ascii_lowercase();
        if name == "isnull" && self.is_postfix() {
            for word in ["is", "null"] {
                self.push(start, Kind::make_word(word, None));
            }
            return Ok(());
        }
        self.push(start, Kind::make_word(cut_name(&name), None));
        Ok(())
    }

    /// Whether the word that was read stands behind an operand: `x ISNULL`, which `sqlparser` takes for an alias. It is
    /// reserved in PostgreSQL; MySQL has a function of this name.
    fn is_postfix(&self) -> bool {
        let is_call = self.rest().trim_start().starts_with('(');
        let before = self.tokens.last();
        let is_label =
            before.is_some_and(|token| token.kind == Kind::Period || token.is_word("as"));
        !is_call && !is_label && before.is_some()
    }

    fn quoted_name(&mut self, start: usize) -> Result<(), Diagnostic> {
        self.position += 1;
        let mut name = String::new();
        loop {
            name.push_str(self.take_while(|c| c != '"'));
            if self.rest().starts_with("\"\"") {
                name.push('"');
                self.position += 2;
            } else if self.rest().starts_with('"') {
                self.position += 1;
                break;
            } else {
                return Err(self.error(start, start + 1, "unterminated quoted identifier"));
            }
        }
        if name.is_empty() {
            return Err(self.error(start, self.position, "zero-length delimited identifier"));
        }
        self.push(start, Kind::make_word(cut_name(&name), Some('"')));
        Ok(())
    }

    /// A string from its opening quote, joined with those that follow after a line break.
    fn string(&mut self, start: usize, escapes: bool) -> Result<String, Diagnostic> {
        let mut value = String::new();
        loop {
            self.position += 1;
            self.string_part(start, escapes, &mut value)?;
            let end = self.position;
            let gap = self.take_while(|c| c.is_ascii_whitespace());
            if !(gap.contains('\n') && self.rest().starts_with('\'')) {
                self.position = end;
                return Ok(value);
            }
        }
    }

    fn string_part(
        &mut self,
        start: usize,
        escapes: bool,
        value: &mut String,
    ) -> Result<(), Diagnostic> {
        loop {
            let part = self.take_while(|c| c != '\'' && !(escapes && c == '\\'));
            value.push_str(part);
            if self.rest().starts_with("''") {
                value.push('\'');
                self.position += 2;
            } else if self.rest().starts_with('\'') {
                self.position += 1;
                return Ok(());
            } else if self.rest().starts_with('\\') {
                self.escape(value)?;
            } else {
                return Err(self
                    .error(start, start + 1, "unterminated quoted string")
                    .help("close it with '; a quote inside of a string is written twice"));
            }
        }
    }

    fn escape(&mut self, value: &mut String) -> Result<(), Diagnostic> {
        let start = self.position;
        self.position += 1;
        let Some(character) = self.peek() else {
            return Ok(());
        };
        self.position += character.len_utf8();
        let code = match character {
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            '0'..='7' => {
                self.position -= 1;
                self.digits(8, 3)
            }
            'x' if self.peek().is_some_and(|c| c.is_ascii_hexdigit()) => self.digits(16, 2),
            'u' => self.digits(16, 4),
            'U' => self.digits(16, 8),
            other => u32::from(other),
        };
        match char::from_u32(code) {
            Some('\0') => {
                let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
                let mut error = self.error(start, self.position, message);
                error.code = "22021";
                Err(error)
            }
            Some(decoded)
                if decoded != '\0' && (code < 0x80 || !matches!(character, '0'..='7' | 'x')) =>
            {
                value.push(decoded);
                Ok(())
            }
            _ => Err(self
                .error(start, self.position, "invalid escape in a string")
                .help("write characters beyond ASCII as themselves or as \\uXXXX")),
        }
    }

    fn digits(&mut self, radix: u32, digits_max: usize) -> u32 {
        let mut number = 0_u32;
        for _ in 0..digits_max {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else {
                break;
            };
            number = number.wrapping_mul(radix).wrapping_add(digit);
            self.position += 1;
        }
        number
    }

    /// `$1`, or `$tag$ … $tag$`.
    fn dollar(&mut self, start: usize) -> Result<(), Diagnostic> {
        self.position += 1;
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.take_while(|c| c.is_ascii_digit());
            let placeholder = self.text[start..self.position].to_owned();
            self.push(start, Kind::Placeholder(placeholder));
            return Ok(());
        }
        if self.peek().is_some_and(is_name_start) {
            self.take_while(|c| is_name_part(c) && c != '$');
        }
        if self.peek() != Some('$') {
            return Err(self.error(start, start + 1, "syntax error at or near \"$\""));
        }
        self.position += 1;
        let tag = &self.text[start..self.position];
        let Some(length) = self.rest().find(tag) else {
            return Err(self
                .error(start, self.position, "unterminated dollar-quoted string")
                .help(format!("close it with {tag}")));
        };
        let value = self.rest()[..length].to_owned();
        self.position += length + tag.len();
        self.push(start, Kind::SingleQuotedString(value));
        Ok(())
    }

    fn number(&mut self, start: usize) -> Result<(), Diagnostic> {
        self.take_while(|c| c.is_ascii_digit());
        if self.rest().starts_with('.') && !self.rest().starts_with("..") {
            self.position += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if self.rest().starts_with(['e', 'E']) {
            let after = self.rest()[1..].trim_start_matches(['+', '-']);
            let signs = self.rest().len() - 1 - after.len();
            if signs <= 1 && after.starts_with(|c: char| c.is_ascii_digit()) {
                self.position += 1 + signs;
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        let digits = self.text[start..self.position].to_owned();
        if self.peek().is_some_and(is_name_start) {
            self.take_while(is_name_part);
            let shown = &self.text[start..self.position];
            let message = format!("trailing junk after numeric literal at or near \"{shown}\"");
            return Err(self.error(start, self.position, message));
        }
        self.push(start, Kind::Number(digits, false));
        Ok(())
    }

    fn punctuation(&mut self, start: usize, character: char) -> Result<(), Diagnostic> {
        let kind = match character {
            '(' => Kind::LParen,
            ')' => Kind::RParen,
            '[' => Kind::LBracket,
            ']' => Kind::RBracket,
            ',' => Kind::Comma,
            ';' => Kind::SemiColon,
            '.' => Kind::Period,
            ':' if self.rest().starts_with("::") => Kind::DoubleColon,
            ':' if self.rest().starts_with(":=") => Kind::Assignment,
            ':' => Kind::Colon,
            _ if is_operator(character) => {
                self.operator(start);
                return Ok(());
            }
            '\\' if self.at_restriction() => {
                self.take_while(|c| c != '\n');
                return Ok(());
            }
            '\\' => {
                return Err(self
                    .error(start, start + 1, "syntax error at or near \"\\\"")
                    .help("commands of psql, which begin with a backslash, cannot be loaded"));
            }
            other => {
                let message = format!("syntax error at or near \"{other}\"");
                return Err(self.error(start, start + other.len_utf8(), message));
            }
        };
        self.position += if matches!(kind, Kind::DoubleColon | Kind::Assignment) {
            2
        } else {
            1
        };
        self.push(start, kind);
        Ok(())
    }

    /// `pg_dump` begins and ends with these two commands of psql, which concern psql alone.
    fn at_restriction(&self) -> bool {
        let starts_line = self.position == 0 || self.text[..self.position].ends_with('\n');
        let rest = self.rest();
        starts_line && (rest.starts_with("\\restrict ") || rest.starts_with("\\unrestrict "))
    }

    /// The longest run of operator characters, but for a comment in it, and but for a sign at its
    /// end unless one of the characters that only operators have stands before it.
    fn operator(&mut self, start: usize) {
        self.take_while(is_operator);
        let mut operator = &self.text[start..self.position];
        for comment in ["--", "/*"] {
            if let Some(at) = operator.find(comment) {
                operator = &operator[..at];
            }
        }
        while operator.len() > 1
            && operator.ends_with(['+', '-'])
            && !operator.contains(['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'])
        {
            operator = &operator[..operator.len() - 1];
        }
        let kind = operator_kind(operator);
        self.position = start + operator.len();
        self.push(start, kind);
    }
}

fn operator_kind(operator: &str) -> Kind {
    match operator {
        "+" => Kind::Plus,
        "-" => Kind::Minus,
        "*" => Kind::Mul,
        "/" => Kind::Div,
        "%" => Kind::Mod,
        "^" => Kind::Caret,
        "=" => Kind::Eq,
        "<" => Kind::Lt,
        ">" => Kind::Gt,
        "<=" => Kind::LtEq,
        ">=" => Kind::GtEq,
        "<>" | "!=" => Kind::Neq,
        "=>" => Kind::RArrow,
        "||" => Kind::StringConcat,
        "|/" => Kind::PGSquareRoot,
        "||/" => Kind::PGCubeRoot,
        "|" => Kind::Pipe,
        "&" => Kind::Ampersand,
        "&&" => Kind::Overlap,
        "#" => Kind::Sharp,
        "~" => Kind::Tilde,
        "~*" => Kind::TildeAsterisk,
        "!~" => Kind::ExclamationMarkTilde,
        "!~*" => Kind::ExclamationMarkTildeAsterisk,
        "~~" => Kind::DoubleTilde,
        "~~*" => Kind::DoubleTildeAsterisk,
        "!~~" => Kind::ExclamationMarkDoubleTilde,
        "!~~*" => Kind::ExclamationMarkDoubleTildeAsterisk,
        "<<" => Kind::ShiftLeft,
        ">>" => Kind::ShiftRight,
        "@" => Kind::AtSign,
        "@>" => Kind::AtArrow,
        "<@" => Kind::ArrowAt,
        "->" => Kind::Arrow,
        "->>" => Kind::LongArrow,
        "#>" => Kind::HashArrow,
        "#>>" => Kind::HashLongArrow,
        "#-" => Kind::HashMinus,
        "?" => Kind::Question,
        "?|" => Kind::QuestionPipe,
        "?&" => Kind::QuestionAnd,
        "@?" => Kind::AtQuestion,
        "@@" => Kind::AtAt,
        other => Kind::CustomBinaryOperator(other.to_owned()),
    }
}

/// A name as PostgreSQL keeps it.
fn cut_name(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        let (tokens, error) = lex(Text {
            file: 0,
            text,
            places: Places::From(0),
        });
        assert_eq!(error, None, "{text}");
        tokens.into_iter().map(|token| token.kind).collect()
    }

    fn string(value: &str) -> Kind {
        Kind::SingleQuotedString(value.to_owned())
    }

    fn number(value: &str) -> Kind {
        Kind::Number(value.to_owned(), false)
    }

    #[test]
    fn names_fold_and_quoted_ones_do_not() {
        assert_eq!(
            kinds("Foo \"Bar\"\"s\" é$1"),
            [
                Kind::make_word("foo", None),
                Kind::make_word("Bar\"s", Some('"')),
                Kind::make_word("é$1", None),
            ]
        );
    }

    #[test]
    fn every_string_literal_is_its_value() {
        assert_eq!(
            kinds("'it''s' E'a\\n\\'\\x41\\u00e9' $$a 'b' $x$$ $t$ $$ $t$ 'a'\n 'b' 'c' 'd'"),
            [
                string("it's"),
                string("a\n'Aé"),
                string("a 'b' $x"),
                string(" $$ "),
                string("ab"),
                string("c"),
                string("d"),
            ]
        );
    }

    #[test]
    fn numbers_stop_before_two_periods() {
        assert_eq!(
            kinds("1..10 1.5 .5 2. 1e3 1.5E-3"),
            [
                number("1"),
                Kind::Period,
                Kind::Period,
                number("10"),
                number("1.5"),
                number(".5"),
                number("2."),
                number("1e3"),
                number("1.5E-3"),
            ]
        );
    }

    #[test]
    fn operators_leave_a_sign_to_what_follows() {
        assert_eq!(
            kinds("a*-1<=-2--x\n||/*c/*d*/*/!="),
            [
                Kind::make_word("a", None),
                Kind::Mul,
                Kind::Minus,
                number("1"),
                Kind::LtEq,
                Kind::Minus,
                number("2"),
                Kind::StringConcat,
                Kind::Neq,
            ]
        );
    }

    #[test]
    fn spans_are_bytes_of_the_file() {
        let (tokens, _) = lex(Text {
            file: 2,
            text: "é 'x'",
            places: Places::From(10),
        });
        assert_eq!(
            tokens[1].span,
            Span {
                file: 2,
                start: 13,
                end: 16
            }
        );
    }

    #[test]
    fn what_is_never_closed_is_blamed_where_it_opens() {
        for (text, at) in [
            ("a 'b", 2),
            ("a \"b", 2),
            ("a $x$ b $$", 2),
            ("a /* /* */", 2),
            ("1x", 0),
        ] {
            let (_, error) = lex(Text {
                file: 0,
                text,
                places: Places::From(0),
            });
            assert_eq!(error.unwrap().span.unwrap().start, at, "{text}");
        }
    }
}
