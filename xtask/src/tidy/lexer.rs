//! A lexer for Rust, as far as the rules need one.
//!
//! [`strip`] removes comments and literals, and splits the rest into [`Token`]s. It follows the Rust reference for
//! nested block comments, raw strings with any number of hashes, byte and C strings, escapes, and the difference
//! between a character and a lifetime. It does not check that its input is valid Rust; the compiler does.

/// The tokens and comments of Rust text.
pub(super) struct Code {
    pub(super) tokens: Vec<Token>,
    pub(super) comments: Vec<Comment>,
}

/// An identifier, keyword, number, lifetime or piece of punctuation (`::`, `->` and `=>` are one
/// piece each, everything else a single character). Literals leave no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// Line, from 1.
    pub(super) line: usize,
}

/// One comment, or one line of a block comment, with its delimiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comment {
    pub(super) text: String,
    /// Line, from 1.
    pub(super) line: usize,
}

impl Code {
    /// The text of the token at `index`, empty beyond the ends.
    pub(super) fn text(&self, index: usize) -> &str {
        self.tokens
            .get(index)
            .map_or("", |token| token.text.as_str())
    }

    /// Whether the token at `index` is an identifier or a keyword.
    pub(super) fn is_word(&self, index: usize) -> bool {
        self.text(index)
            .starts_with(|c: char| c == '_' || c.is_alphabetic())
    }

    /// The tokens' texts from `index` on, as many as `expected` has, are those expected.
    pub(super) fn matches(&self, index: usize, expected: &[&str]) -> bool {
        expected
            .iter()
            .enumerate()
            .all(|(offset, text)| self.text(index + offset) == *text)
    }
}

/// Splits Rust text into tokens and comments.
pub(super) fn strip(text: &str) -> Code {
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        line: 1,
        code: Code {
            tokens: Vec::new(),
            comments: Vec::new(),
        },
    };
    while reader.at < reader.chars.len() {
        reader.one();
    }
    reader.code
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
    code: Code,
}

impl Reader {
    fn peek(&self, offset: usize) -> Option<char> {
        self.chars.get(self.at + offset).copied()
    }

    /// Steps over one character, counting lines.
    fn bump(&mut self) {
        if self.peek(0) == Some('\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn push(&mut self, text: String) {
        self.code.tokens.push(Token {
            text,
            line: self.line,
        });
    }

    /// Reads one comment, literal, word or piece of punctuation.
    fn one(&mut self) {
        let Some(first) = self.peek(0) else { return };
        match (first, self.peek(1)) {
            ('/', Some('/')) => self.line_comment(),
            ('/', Some('*')) => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.character_or_lifetime(),
            (c, _) if c == '_' || c.is_alphanumeric() => self.word(),
            (c, _) if c.is_whitespace() => self.bump(),
            (':', Some(':')) | ('-' | '=', Some('>')) => {
                self.push(self.chars[self.at..self.at + 2].iter().collect());
                self.at += 2;
            }
            (c, _) => {
                self.push(c.into());
                self.at += 1;
            }
        }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
        let text = self.chars[start..self.at].iter().collect();
        self.code.comments.push(Comment {
            text,
            line: self.line,
        });
    }

    fn block_comment(&mut self) {
        let (start, line) = (self.at, self.line);
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => break,
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        break;
                    }
                }
                _ => self.bump(),
            }
        }
        let text: String = self.chars[start..self.at.min(self.chars.len())]
            .iter()
            .collect();
        for (offset, text) in text.lines().enumerate() {
            self.code.comments.push(Comment {
                text: text.into(),
                line: line + offset,
            });
        }
    }

    /// A string with escapes, the reader on its opening quote.
    fn string(&mut self) {
        self.bump();
        while let Some(c) = self.peek(0) {
            if c == '\\' {
                self.bump();
            }
            self.bump();
            if c == '"' {
                return;
            }
        }
    }

    /// A raw string, the reader on its first `#` or its opening quote.
    fn raw_string(&mut self, hashes: usize) {
        self.at += hashes + 1;
        while let Some(c) = self.peek(0) {
            self.bump();
            if c == '"' && (0..hashes).all(|offset| self.peek(offset) == Some('#')) {
                self.at += hashes;
                return;
            }
        }
    }

    fn character_or_lifetime(&mut self) {
        if self.peek(1) == Some('\\') {
            self.at += 3; // the quote, the backslash and what it escapes, which may be a quote
            while self.peek(0).is_some_and(|c| c != '\'') {
                self.bump();
            }
            self.at += 1;
        } else if self.peek(2) == Some('\'') {
            self.bump();
            self.bump();
            self.bump();
        } else {
            let start = self.at;
            self.at += 1;
            while self
                .peek(0)
                .is_some_and(|c| c == '_' || c.is_alphanumeric())
            {
                self.at += 1;
            }
            self.push(self.chars[start..self.at].iter().collect());
        }
    }

    /// A word, unless it turns out to be the prefix of a literal.
    fn word(&mut self) {
        let start = self.at;
        while self
            .peek(0)
            .is_some_and(|c| c == '_' || c.is_alphanumeric())
        {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        let hashes = (0..)
            .take_while(|&offset| self.peek(offset) == Some('#'))
            .count();
        let quoted = self.peek(hashes) == Some('"');
        match word.as_str() {
            "r" | "br" | "cr" if quoted => self.raw_string(hashes),
            "b" | "c" if quoted && hashes == 0 => self.string(),
            "b" if self.peek(0) == Some('\'') => self.character_or_lifetime(),
            "r" if hashes == 1 => self.at += 1, // a raw identifier: the name follows
            _ => self.push(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        strip(text)
            .tokens
            .into_iter()
            .map(|token| token.text)
            .collect()
    }

    #[test]
    fn comments_leave_no_token_and_are_kept_by_line() {
        let code = strip("a // b \"c\n/* d /* e */ f\n g */ h /// i\n//! j");
        let texts: Vec<&str> = code
            .tokens
            .iter()
            .map(|token| token.text.as_str())
            .collect();
        assert_eq!(texts, ["a", "h"]);
        assert_eq!(code.tokens[1].line, 3);
        let comments: Vec<(usize, &str)> = code
            .comments
            .iter()
            .map(|comment| (comment.line, comment.text.as_str()))
            .collect();
        assert_eq!(
            comments,
            [
                (1, "// b \"c"),
                (2, "/* d /* e */ f"),
                (3, " g */"),
                (3, "/// i"),
                (4, "//! j")
            ]
        );
    }

    #[test]
    fn literals_leave_no_token() {
        assert_eq!(
            words(r#"a("x // y", "\"b\\", c)"#),
            ["a", "(", ",", ",", "c", ")"]
        );
        assert_eq!(
            words(r###"r"\" a r#"q" b"# c br##"x"#y"## d"###),
            ["a", "c", "d"]
        );
        assert_eq!(words(r#"b"x" a c"y" b'z' b'\'' d"#), ["a", "d"]);
        assert_eq!(words("\"one\ntwo\" a"), ["a"]);
        assert_eq!(strip("\"one\ntwo\" a").tokens[0].line, 2);
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        assert_eq!(
            words("'a' b '\\'' c '\\u{1f600}' d '\"' e"),
            ["b", "c", "d", "e"]
        );
        assert_eq!(
            words("&'a str 'outer: loop"),
            ["&", "'a", "str", "'outer", ":", "loop"]
        );
    }

    #[test]
    fn punctuation_that_rules_look_for_is_one_piece() {
        assert_eq!(
            words("std::time -> x => r#type"),
            ["std", "::", "time", "->", "x", "=>", "type"]
        );
    }
}
