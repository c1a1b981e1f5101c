//! Rewrites MySQL's quotes, comments and delimiters to the standard's, without a byte more or less.

use crate::script::{
    scan::{Part, parts},
    tokens::{Token, begin, tokens},
};

/// From this version on, the text in `/*! … */` is run by no server: MariaDB writes notes in it.
const VERSION_NEVER: u32 = 999_999;

/// Whether a file declares tables as MySQL does.
pub(in crate::script) fn is_mysql(text: &str) -> bool {
    const OWN: [&str; 6] = [
        "auto_increment",
        "unsigned",
        "zerofill",
        "mediumtext",
        "longtext",
        "mediumint",
    ];
    let mut before = "";
    let mut in_table = false;
    for (_, part) in parts(text) {
        match part {
            Part::Blank(comment) if executable(comment).is_some() => return true,
            Part::Blank(_) => {}
            Part::Quoted(quoted) if quoted.starts_with('`') && in_table => return true,
            Part::Quoted(_) => before = "",
            Part::Word(word) => {
                if before.eq_ignore_ascii_case("create") && word.eq_ignore_ascii_case("table") {
                    in_table = true;
                }
                if in_table && OWN.iter().any(|own| word.eq_ignore_ascii_case(own)) {
                    return true;
                }
                before = word;
            }
            Part::Sign('=') if in_table && before.eq_ignore_ascii_case("engine") => return true,
            Part::Sign(';') => (in_table, before) = (false, ""),
            Part::Sign(_) => {}
        }
    }
    false
}

/// The length of the opening `/*!40101`, and the version in it.
fn executable(text: &str) -> Option<(usize, u32)> {
    let rest = text
        .strip_prefix("/*M!")
        .or_else(|| text.strip_prefix("/*!"))?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let version = rest[..digits].parse().ok()?;
    (digits >= 5).then(|| (text.len() - rest.len() + digits, version))
}

/// The text with quotes, comments and delimiters as the standard has them.
pub(in crate::script) fn normalise(text: &str) -> String {
    let mut plain = Normaliser {
        text,
        at: 0,
        out: String::with_capacity(text.len()),
        delimiter: None,
        executed: 0,
    };
    while plain.at < text.len() {
        plain.step();
    }
    without_definers(plain.out)
}

struct Normaliser<'t> {
    text: &'t str,
    at: usize,
    out: String,
    /// The delimiter of statements, if it is no semicolon.
    delimiter: Option<&'t str>,
    /// The number of open comments with text that is run.
    executed: usize,
}

impl<'t> Normaliser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn copy(&mut self, length: usize) {
        self.out.push_str(&self.rest()[..length]);
        self.at += length;
    }

    /// Blanks that many bytes; line breaks stay.
    fn blank(&mut self, length: usize) {
        for c in self.rest()[..length].chars() {
            match c {
                '\n' | '\r' => self.out.push(c),
                c => self.out.extend(std::iter::repeat_n(' ', c.len_utf8())),
            }
        }
        self.at += length;
    }

    fn line(&self) -> usize {
        self.rest().find('\n').unwrap_or(self.rest().len())
    }

    fn step(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        if let Some(delimiter) = self.delimiter_line() {
            self.delimiter = (delimiter != ";").then_some(delimiter);
            self.blank(self.line());
            return;
        }
        if let Some(delimiter) = self.delimiter {
            if rest.starts_with(delimiter) {
                self.out.push(';');
                self.out
                    .extend(std::iter::repeat_n(' ', delimiter.len() - 1));
                self.at += delimiter.len();
                return;
            }
            if first == ';' {
                // It ends no statement here.
                self.blank(1);
                return;
            }
        }
        match first {
            '\'' => self.string(),
            '"' => self.string(),
            '`' => self.name(),
            '#' => match rest.as_bytes().get(1) {
                Some(b' ' | b'\t') => {
                    self.out.push_str("--");
                    self.at += 2;
                    self.copy(self.line());
                }
                _ => self.blank(self.line()),
            },
            '-' if rest.starts_with("--") => self.copy(self.line()),
            '/' if rest.starts_with("/*") => match executable(rest) {
                Some((length, version)) if version < VERSION_NEVER => {
                    self.executed += 1;
                    self.blank(length);
                }
                never => {
                    let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
                    // The standard's comments nest.
                    match never.is_some() || rest[2..end].contains("/*") {
                        true => self.blank(end),
                        false => self.copy(end),
                    }
                }
            },
            '*' if self.executed > 0 && rest.starts_with("*/") => {
                self.executed -= 1;
                self.blank(2);
            }
            c => self.copy(c.len_utf8()),
        }
    }

    /// The delimiter in a line `DELIMITER ;;`.
    fn delimiter_line(&self) -> Option<&'t str> {
        const WORD: &str = "delimiter";
        let starts = self.at == 0 || self.text[..self.at].ends_with('\n');
        let line = &self.rest()[..self.line()];
        let head = line.get(..WORD.len())?;
        let named = line[WORD.len()..].trim();
        let is = starts
            && head.eq_ignore_ascii_case(WORD)
            && line[WORD.len()..].starts_with([' ', '\t']);
        (is && !named.is_empty()).then_some(named)
    }

    /// A string, in quotes of either kind.
    fn string(&mut self) {
        let rest = self.rest();
        let quote = rest.as_bytes()[0];
        let bytes = rest.as_bytes();
        let mut end = 1;
        while end < bytes.len() {
            match bytes[end] {
                b'\\' => end += 2,
                b if b == quote && bytes.get(end + 1) == Some(&quote) => end += 2,
                b if b == quote => break,
                _ => end += 1,
            }
        }
        let mut end = (end + 1).min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let string = &rest[..end];
        let inside = string.get(1..end.saturating_sub(1)).unwrap_or_default();
        // A string with the standard's quote in it would have to grow. It becomes a name, which the parser rejects.
        let restated = match quote {
            b'\'' => doubled(string),
            _ if !inside.contains('\'') => format!("'{inside}'"),
            _ => string.to_owned(),
        };
        let restated = if restated.len() == end {
            restated
        } else {
            string.to_owned()
        };
        self.out.push_str(&restated);
        self.at += end;
    }

    /// A name in backticks, in lower case: names are case-insensitive.
    fn name(&mut self) {
        let rest = self.rest();
        let mut end = 1;
        while let Some(offset) = rest[end..].find('`') {
            end += offset + 1;
            if !rest[end..].starts_with('`') {
                break;
            }
            end += 1;
        }
        let name = &rest[..end];
        if name.contains('"') || name.len() < 2 || !name.ends_with('`') {
            self.copy(end);
            return;
        }
        self.out
            .push_str(&name.replace('`', "\"").to_ascii_lowercase());
        self.at += end;
    }
}

/// A string with its quotes doubled instead of escaped by a backslash.
fn doubled(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    let mut characters = string.chars();
    while let Some(c) = characters.next() {
        let next = match c {
            '\\' => characters.next(),
            _ => None,
        };
        match next {
            Some('\'') => out.push_str("''"),
            next => {
                out.push(c);
                out.extend(next);
            }
        }
    }
    out
}

/// The text without DEFINER=user@host, which is about privileges.
fn without_definers(text: String) -> String {
    let all = tokens(&text);
    let mut blanks = Vec::new();
    for (at, token) in all.iter().enumerate() {
        let rest = &all[at..];
        if !token.is("definer") || !rest.get(1).is_some_and(|t| t.is_sign('=')) {
            continue;
        }
        let sign =
            |at: usize, sign: char| rest.get(at).is_some_and(|t: &Token<'_>| t.is_sign(sign));
        let last = match sign(3, '@') {
            true => 4,
            false if begin(&rest[2..], &["current_user"]) && sign(3, '(') => 4,
            false => 2,
        };
        if let Some(last) = rest.get(last) {
            blanks.push(token.start..last.end);
        }
    }
    let mut out = text.clone();
    for blank in blanks {
        let spaces = " ".repeat(blank.len());
        out.replace_range(blank, &spaces);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_stays_where_it_was() {
        for (text, expected) in [
            (
                "CREATE TABLE `Order` (`a``b` int)",
                "CREATE TABLE \"order\" (\"a\"\"b\" int)",
            ),
            (
                "'it\\'s' \"so\" '\\\\' \"it's\"",
                "'it''s' 'so' '\\\\' \"it's\"",
            ),
            ("/*!40101 SET a=1 */;", "         SET a=1   ;"),
            ("/*M!999999\\- sandbox */ x", "                        x"),
            ("# so\n#é\nx", "--so\n   \nx"),
            (
                "DELIMITER ;;\nCREATE TRIGGER t BEGIN a; b; END ;;\nDELIMITER ;\nx;",
                "            \nCREATE TRIGGER t BEGIN a  b  END ; \n           \nx;",
            ),
            (
                "CREATE DEFINER=`root`@`%` TRIGGER t",
                "CREATE                    TRIGGER t",
            ),
        ] {
            assert_eq!(normalise(text), expected, "{text}");
            assert_eq!(normalise(text).len(), text.len());
        }
    }

    #[test]
    fn a_dialect_is_seen_by_its_tables() {
        for text in [
            "CREATE TABLE t (a int) ENGINE=InnoDB;",
            "CREATE TABLE `t` (a int);",
            "create table t (a int unsigned)",
            "/*!40101 SET NAMES utf8 */;",
        ] {
            assert!(is_mysql(text), "{text}");
        }
        for text in [
            "CREATE TABLE t (a text DEFAULT 'auto_increment'); -- not unsigned",
            "SELECT `a` FROM t;",
            "/*! a remark */ CREATE TABLE t (a int);",
            "UPDATE t SET engine = 1;",
        ] {
            assert!(!is_mysql(text), "{text}");
        }
    }
}
