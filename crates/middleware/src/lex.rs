//! The tokens of an SQL text, as PostgreSQL's lexer finds them (`scan.l`), with their places in bytes.
//!
//! The middleware forwards texts as they are. It has to know where statements end, which names they contain, and
//! which values, and nothing else: so nothing is copied here.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name or a keyword without quotes.
    Word,
    /// A name in double quotes.
    QuotedWord,
    /// A constant in quotes: `'…'`, `E'…'`, `B'…'`, `X'…'`, `U&'…'`, `$tag$…$tag$`.
    Text,
    /// A number without a sign.
    Number,
    /// `$1`.
    Parameter,
    /// `;`
    Semicolon,
    /// Any other character, alone: operators are several tokens.
    Symbol,
    /// A comment.
    Comment,
}

/// A token and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Its first byte.
    pub start: usize,
    /// The byte behind its last.
    pub end: usize,
}

impl Token {
    /// Its text.
    pub fn text<'t>(&self, of: &'t str) -> &'t str {
        &of[self.start..self.end]
    }

    /// Whether it is this keyword, which is given in lower case.
    pub fn is(&self, of: &str, keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.text(of).eq_ignore_ascii_case(keyword)
    }

    /// Whether it is this character.
    pub fn is_symbol(&self, of: &str, symbol: char) -> bool {
        self.kind == TokenKind::Symbol && self.text(of).starts_with(symbol)
    }
}

/// Why a text is not taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LexError {
    /// A constant, a name or a comment does not end.
    #[error("unterminated {0}")]
    Unterminated(&'static str),
    /// A constant that goes on behind the end of a line: its pieces are one constant, which nothing here expects.
    #[error(
        "a string constant in several pieces is not supported by the belt's middleware: write it as one"
    )]
    InPieces,
}

/// The tokens of a text, comments included.
///
/// # Errors
/// When a constant, a name or a comment does not end, or a constant is in several pieces.
pub fn tokens(text: &str) -> Result<Vec<Token>, LexError> {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(text.len() / 4);
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => {
                at += 1;
                continue;
            }
            b';' => (TokenKind::Semicolon, at + 1),
            b'\'' => (TokenKind::Text, quoted(bytes, at + 1, b'\'', false)?),
            b'"' => (TokenKind::QuotedWord, quoted(bytes, at + 1, b'"', false)?),
            b'-' if bytes.get(at + 1) == Some(&b'-') => (TokenKind::Comment, line_end(bytes, at)),
            b'/' if bytes.get(at + 1) == Some(&b'*') => (TokenKind::Comment, comment(bytes, at)?),
            b'$' => dollar(bytes, at)?,
            b'0'..=b'9' => (TokenKind::Number, number(bytes, at)),
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                (TokenKind::Number, number(bytes, at))
            }
            first if begins_word(first) => word(bytes, at)?,
            // Not in the middle of a character: those beyond ASCII begin words.
            _ => (TokenKind::Symbol, at + 1),
        };
        if kind == TokenKind::Text && bytes[at] != b'$' && continues(bytes, end) {
            return Err(LexError::InPieces);
        }
        found.push(Token {
            kind,
            start: at,
            end,
        });
        at = end;
    }
    Ok(found)
}

fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let end = bytes[at..].iter().position(|b| matches!(b, b'\n' | b'\r'));
    end.map_or(bytes.len(), |end| at + end)
}

/// The end of a quoted piece whose first byte behind the quote is `at`. A doubled quote does not end it.
fn quoted(bytes: &[u8], mut at: usize, quote: u8, has_escapes: bool) -> Result<usize, LexError> {
    while let Some(byte) = bytes.get(at) {
        match *byte {
            b'\\' if has_escapes => at += 2,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return Ok(at + 1),
            _ => at += 1,
        }
    }
    Err(LexError::Unterminated(match quote {
        b'"' => "quoted identifier",
        _ => "quoted string",
    }))
}

/// Whether a constant that has ended goes on: behind white space with the end of a line in it, comments included, another
/// piece begins.
fn continues(bytes: &[u8], mut at: usize) -> bool {
    let mut has_line_end = false;
    loop {
        match bytes.get(at) {
            Some(b'\n' | b'\r') => has_line_end = true,
            Some(b' ' | b'\t' | 0x0b | 0x0c) => {}
            Some(b'-') if bytes.get(at + 1) == Some(&b'-') => {
                at = line_end(bytes, at);
                continue;
            }
            Some(b'\'') => return has_line_end,
            _ => return false,
        }
        at += 1;
    }
}

/// The end of a comment, which may contain others.
fn comment(bytes: &[u8], mut at: usize) -> Result<usize, LexError> {
    let mut depth = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Ok(at);
                }
            }
            _ => at += 1,
        }
    }
    Err(LexError::Unterminated("/* comment"))
}

/// A parameter, or a constant in dollar quotes.
fn dollar(bytes: &[u8], at: usize) -> Result<(TokenKind, usize), LexError> {
    let digits = bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit());
    match digits.count() {
        0 => {}
        count => return Ok((TokenKind::Parameter, at + 1 + count)),
    }
    let tag = bytes[at + 1..]
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_' || **b >= 0x80)
        .count();
    let behind = at + 1 + tag;
    if bytes.get(behind) != Some(&b'$') {
        return Ok((TokenKind::Symbol, at + 1));
    }
    let mark = &bytes[at..=behind];
    let rest = &bytes[behind + 1..];
    let end = rest.windows(mark.len()).position(|window| window == mark);
    match end {
        Some(end) => Ok((TokenKind::Text, behind + 1 + end + mark.len())),
        None => Err(LexError::Unterminated("dollar-quoted string")),
    }
}

fn number(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        let signed = matches!(byte, b'+' | b'-')
            && matches!(bytes[at - 1], b'e' | b'E')
            && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        // "1..2" is a range of PL/pgSQL.
        let point = *byte == b'.' && bytes.get(at + 1) != Some(&b'.');
        if !(byte.is_ascii_alphanumeric() || *byte == b'_' || point || at > 0 && signed) {
            break;
        }
        at += 1;
    }
    at
}

/// A name or keyword, or the prefix of a constant.
fn word(bytes: &[u8], at: usize) -> Result<(TokenKind, usize), LexError> {
    let rest = &bytes[at..];
    let has_quote = |place: usize, quote: u8| rest.get(place) == Some(&quote);
    match rest[0] {
        b'e' | b'E' if has_quote(1, b'\'') => {
            return Ok((TokenKind::Text, quoted(bytes, at + 2, b'\'', true)?));
        }
        b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if has_quote(1, b'\'') => {
            return Ok((TokenKind::Text, quoted(bytes, at + 2, b'\'', false)?));
        }
        b'u' | b'U' if has_quote(1, b'&') && has_quote(2, b'\'') => {
            return Ok((TokenKind::Text, quoted(bytes, at + 3, b'\'', false)?));
        }
        b'u' | b'U' if has_quote(1, b'&') && has_quote(2, b'"') => {
            return Ok((TokenKind::QuotedWord, quoted(bytes, at + 3, b'"', false)?));
        }
        _ => {}
    }
    let length = rest
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$') || **b >= 0x80)
        .count();
    Ok((TokenKind::Word, at + length))
}

/// The places of the statements of a text, without what is empty. The body of a function (`BEGIN ATOMIC … END`) is part of its
/// statement.
pub fn statements(text: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Option<Range<usize>> = None;
    let mut depth = 0_u32;
    let mut before: Option<&Token> = None;
    // A body stands in CREATE FUNCTION and CREATE PROCEDURE alone.
    let mut creates = false;
    for token in tokens {
        if token.kind == TokenKind::Semicolon && depth == 0 {
            found.extend(open.take());
            before = None;
            continue;
        }
        if token.kind == TokenKind::Comment {
            // A comment in front belongs to its statement: it may say which operation begins.
            open.get_or_insert(token.start..token.start);
            continue;
        }
        if before.is_none() {
            creates = token.is(text, "create");
        }
        if depth > 0 && token.is(text, "end") {
            depth -= 1;
        } else if creates && token.is(text, "atomic") && before.is_some_and(|b| b.is(text, "begin"))
            || depth > 0 && token.is(text, "case")
        {
            depth += 1;
        }
        open.get_or_insert(token.start..token.start).end = token.end;
        before = Some(token);
    }
    found.extend(open.take());
    // What has nothing but comments is empty.
    found.retain(|range| range.end > range.start);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        let tokens = tokens(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        tokens.iter().map(|t| (t.kind, t.text(text))).collect()
    }

    fn split(text: &str) -> Vec<&str> {
        let tokens = tokens(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let ranges = statements(text, &tokens);
        ranges.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn tokens_are_postgresqls() {
        use TokenKind::*;
        assert_eq!(
            kinds(
                "SELECT a$1, 'it''s', E'\\'x', $1::int, $t$;'$$$t$, \"B\"\"c\" -- x\n/* /* */ ; */ 1.5e-3+.5 grün"
            ),
            [
                (Word, "SELECT"),
                (Word, "a$1"),
                (Symbol, ","),
                (Text, "'it''s'"),
                (Symbol, ","),
                (Text, "E'\\'x'"),
                (Symbol, ","),
                (Parameter, "$1"),
                (Symbol, ":"),
                (Symbol, ":"),
                (Word, "int"),
                (Symbol, ","),
                (Text, "$t$;'$$$t$"),
                (Symbol, ","),
                (QuotedWord, "\"B\"\"c\""),
                (Comment, "-- x"),
                (Comment, "/* /* */ ; */"),
                (Number, "1.5e-3"),
                (Symbol, "+"),
                (Number, ".5"),
                (Word, "grün"),
            ]
        );
        for (text, what) in [
            ("'a", "quoted string"),
            ("\"a", "quoted identifier"),
            ("/* /* */", "/* comment"),
            ("$a$ $b$", "dollar-quoted string"),
            ("E'a\\'", "quoted string"),
        ] {
            assert_eq!(tokens(text), Err(LexError::Unterminated(what)), "{text}");
        }
        assert_eq!(kinds("'a\\'"), [(Text, "'a\\'")]);
        for text in [
            "E'a'\n'\\' ; COMMIT --'",
            "'a' -- b\n 'c'",
            "U&'a'\r\n\t'b'",
        ] {
            assert_eq!(tokens(text), Err(LexError::InPieces), "{text}");
        }
        assert_eq!(kinds("'a' 'b'\n, 'c'").len(), 4);
    }

    #[test]
    fn statements_end_at_semicolons_alone() {
        assert_eq!(
            split("BEGIN; SELECT ';' ;; -- ;\n COMMIT"),
            ["BEGIN", "SELECT ';'", "-- ;\n COMMIT"]
        );
        assert_eq!(
            split("/*action='a'*/ SELECT 1; -- nothing\n;"),
            ["/*action='a'*/ SELECT 1"]
        );
        assert_eq!(
            split(
                "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT 3"
            ),
            [
                "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END",
                "SELECT 3"
            ]
        );
        assert_eq!(
            split("SELECT t.begin atomic FROM (SELECT 1 AS begin) t; COMMIT; SELECT 1"),
            [
                "SELECT t.begin atomic FROM (SELECT 1 AS begin) t",
                "COMMIT",
                "SELECT 1"
            ]
        );
        assert!(split(" -- only this").is_empty());
    }
}
