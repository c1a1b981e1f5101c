//! Parses JSON, with PostgreSQL's errors.

use std::borrow::Cow;

use super::{DEPTH_MAX, JsonError, Kind, Node};

/// What becomes of the escapes in strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Each becomes its character.
    Read,
    /// Their form is checked: a `json` may have characters that no text has.
    Check,
}

/// Parses a whole text.
pub(super) fn parse(text: &str, escapes: Escapes) -> Result<Node<'_>, JsonError> {
    let mut parser = Parser {
        text,
        at: 0,
        escapes,
        depth: 0,
        string: 0,
    };
    let node = parser.value()?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.unexpected("end of input"));
    }
    Ok(node)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    escapes: Escapes,
    depth: usize,
    /// Where the last string began.
    string: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cold]
fn invalid(detail: impl Into<String>) -> JsonError {
    JsonError::new("22P02", "invalid input syntax for type json").with_detail(detail)
}

#[cold]
fn ended() -> JsonError {
    invalid("The input string ended unexpectedly.")
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// The error of a token in the place of others; of the token itself if it is none.
    #[cold]
    fn unexpected(&mut self, expected: &str) -> JsonError {
        let start = self.at;
        let token = match self.peek() {
            None => return ended(),
            Some(b'{' | b'}' | b'[' | b']' | b',' | b':') => {
                self.at += 1;
                Ok(())
            }
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word().map(drop),
        };
        match token {
            Ok(()) => {
                let found = &self.text[start..self.at];
                invalid(format!("Expected {expected}, but found \"{found}\"."))
            }
            Err(error) => error,
        }
    }

    #[cold]
    fn invalid_token(&self, start: usize) -> JsonError {
        let rest = &self.text[start..];
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = (self.at - start).max(first);
        invalid(format!("Token \"{}\" is invalid.", &rest[..length]))
    }

    fn value(&mut self) -> Result<Node<'t>, JsonError> {
        self.blanks();
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.within(Parser::object)?,
            Some(b'[') => self.within(Parser::array)?,
            Some(b'"') => Kind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Kind::Number
            }
            Some(byte) if is_word(byte) => self.word()?,
            _ => return Err(self.unexpected("JSON value")),
        };
        Ok(Node {
            text: Cow::Borrowed(&self.text[start..self.at]),
            kind,
        })
    }

    /// Parses an array or object, one level deeper.
    fn within(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<Kind<'t>, JsonError>,
    ) -> Result<Kind<'t>, JsonError> {
        if self.depth == DEPTH_MAX {
            return Err(JsonError::too_deep());
        }
        self.depth += 1;
        self.at += 1;
        let kind = inside(self)?;
        self.depth -= 1;
        Ok(kind)
    }

    fn array(&mut self) -> Result<Kind<'t>, JsonError> {
        let mut elements = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Kind::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Kind::Array(elements));
                }
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            }
        }
    }

    fn object(&mut self) -> Result<Kind<'t>, JsonError> {
        let mut members = Vec::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Object(members));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected(match members.is_empty() {
                    true => "string or \"}\"",
                    false => "string",
                }));
            }
            let name = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("\":\""));
            }
            self.at += 1;
            members.push((name, self.value()?));
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Kind::Object(members));
                }
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }

    /// `true`, `false` or `null`.
    fn word(&mut self) -> Result<Kind<'t>, JsonError> {
        let start = self.at;
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        match &self.text[start..self.at] {
            "true" => Ok(Kind::Bool(true)),
            "false" => Ok(Kind::Bool(false)),
            "null" => Ok(Kind::Null),
            _ => Err(self.invalid_token(start)),
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        let digits = |parser: &mut Self| {
            let first = parser.at;
            while parser.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                parser.at += 1;
            }
            parser.at > first
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let mut valid = match self.peek() {
            Some(b'0') => {
                self.at += 1;
                true
            }
            _ => digits(self),
        };
        if self.peek() == Some(b'.') {
            self.at += 1;
            valid &= digits(self);
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            valid &= digits(self);
        }
        while self.peek().is_some_and(is_word) {
            self.at += 1;
            valid = false;
        }
        match valid {
            true => Ok(()),
            false => Err(self.invalid_token(start)),
        }
    }

    #[cold]
    fn unterminated(&mut self) -> JsonError {
        self.at = self.text.len();
        self.invalid_token(self.string)
    }

    fn string(&mut self) -> Result<Cow<'t, str>, JsonError> {
        self.string = self.at;
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                None => return Err(self.unterminated()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
                }
                Some(b'\\') => return self.escaped(start).map(Cow::Owned),
                Some(byte @ 0..=0x1f) => return Err(unescaped(byte)),
                Some(_) => self.at += 1,
            }
        }
    }

    /// The rest of a string that has an escape.
    fn escaped(&mut self, start: usize) -> Result<String, JsonError> {
        let mut content = self.text[start..self.at].to_owned();
        loop {
            match self.peek() {
                None => return Err(self.unterminated()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(content);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut content)?;
                }
                Some(byte @ 0..=0x1f) => return Err(unescaped(byte)),
                Some(_) => {
                    let first = self.at;
                    while self
                        .peek()
                        .is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f))
                    {
                        self.at += 1;
                    }
                    content.push_str(&self.text[first..self.at]);
                }
            }
        }
    }

    /// An escape, from behind its backslash.
    fn escape(&mut self, content: &mut String) -> Result<(), JsonError> {
        let Some(escape) = self.text[self.at..].chars().next() else {
            return Err(self.unterminated());
        };
        self.at += escape.len_utf8();
        content.push(match escape {
            '"' | '\\' | '/' => escape,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.code_point(content),
            other => {
                let detail = format!("Escape sequence \"\\{other}\" is invalid.");
                return Err(invalid(detail));
            }
        });
        Ok(())
    }

    /// The character of `\uXXXX`, or of two such escapes, from behind the `u`.
    fn code_point(&mut self, content: &mut String) -> Result<(), JsonError> {
        const LOW: &str = "Unicode low surrogate must follow a high surrogate.";
        let unit = self.hexadecimal()?;
        if self.escapes == Escapes::Check {
            return Ok(());
        }
        let code = match unit {
            0 => {
                let message = "unsupported Unicode escape sequence";
                let detail = "\\u0000 cannot be converted to text.";
                return Err(JsonError::new("22P05", message).with_detail(detail));
            }
            0xd800..=0xdbff => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(invalid(LOW));
                }
                self.at += 2;
                match self.hexadecimal()? {
                    low @ 0xdc00..=0xdfff => 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00),
                    0xd800..=0xdbff => {
                        let detail = "Unicode high surrogate must not follow a high surrogate.";
                        return Err(invalid(detail));
                    }
                    _ => return Err(invalid(LOW)),
                }
            }
            0xdc00..=0xdfff => return Err(invalid(LOW)),
            code => code,
        };
        content.extend(char::from_u32(code));
        Ok(())
    }

    fn hexadecimal(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.as_bytes()[self.at..].iter().take(4);
        let digits: Vec<u8> = digits.copied().collect();
        if digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(self.unterminated());
        }
        let mut code = 0;
        for digit in digits {
            let Some(digit) = char::from(digit).to_digit(16) else {
                let detail = "\"\\u\" must be followed by four hexadecimal digits.";
                return Err(invalid(detail));
            };
            code = code * 16 + digit;
        }
        self.at += 4;
        Ok(code)
    }
}

#[cold]
fn unescaped(byte: u8) -> JsonError {
    invalid(format!(
        "Character with value 0x{byte:02x} must be escaped."
    ))
}
