//! Decodes string literals and keeps the source offset of each resulting byte.

use crate::syntax::Literal;

/// A language's escape sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// `\n`, `\"`, `\u0041`, and a backslash before the end of a line.
    Backslash,
    /// None.
    Raw,
    /// PHP's single quotes: `\\` and `\'` alone.
    Quote,
    /// Format strings: braces are doubled too.
    Braces,
}

/// Decodes the text between the quotes; `base` is the offset of its first byte.
pub(super) fn decode(raw: &str, base: usize, escapes: Escapes) -> Literal {
    let (mut text, mut places) = (String::new(), Vec::new());
    let mut rest = raw.char_indices().peekable();
    let mut push = |c: char, at: usize| {
        text.push(c);
        let place = u32::try_from(base + at).unwrap_or(u32::MAX);
        places.extend(std::iter::repeat_n(place, c.len_utf8()));
    };
    while let Some((at, c)) = rest.next() {
        let next = rest.peek().map(|(_, c)| *c);
        match (c, escapes) {
            ('{' | '}', Escapes::Braces) if next == Some(c) => {
                rest.next();
                push(c, at);
            }
            ('\\', Escapes::Quote) if matches!(next, Some('\\' | '\'')) => {
                rest.next();
                push(next.unwrap_or('\\'), at);
            }
            ('\\', Escapes::Backslash | Escapes::Braces) => {
                let Some((_, escaped)) = rest.next() else {
                    push('\\', at);
                    continue;
                };
                match escaped {
                    'n' => push('\n', at),
                    't' => push('\t', at),
                    'r' => push('\r', at),
                    'f' | 'b' | 'v' | 'a' | 's' => push(' ', at),
                    '\n' => {}
                    'u' | 'x' | 'U' => {
                        let digits: String = raw[at + 2..]
                            .trim_start_matches(['{', 'u'])
                            .chars()
                            .take_while(char::is_ascii_hexdigit)
                            .take(match escaped {
                                'x' => 2,
                                _ if raw[at + 2..].starts_with('{') => 8,
                                _ => 4,
                            })
                            .collect();
                        let code = u32::from_str_radix(&digits, 16).ok();
                        let decoded = code.and_then(char::from_u32);
                        if decoded.is_some() {
                            // Skips the digits of the escape.
                            let written = raw[at + 2..].find(&digits).unwrap_or(0) + digits.len();
                            let end = at + 2 + written;
                            while rest.peek().is_some_and(|(at, _)| *at < end) {
                                rest.next();
                            }
                            if raw[at + 2..].starts_with('{')
                                && rest.peek().is_some_and(|(_, c)| *c == '}')
                            {
                                rest.next();
                            }
                        }
                        push(decoded.unwrap_or(escaped), at);
                    }
                    '0'..='7' => push('\u{fffd}', at),
                    other => push(other, at),
                }
            }
            _ => push(c, at),
        }
    }
    Literal {
        text: text.into(),
        places: places.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_the_language() {
        let text = |raw, escapes| decode(raw, 0, escapes).text.to_string();
        assert_eq!(
            text(r#"a\n\"b\" \u0041\x42"#, Escapes::Backslash),
            "a\n\"b\" AB"
        );
        assert_eq!(text(r"\u{48}i", Escapes::Backslash), "Hi");
        assert_eq!(text("a\\\nb", Escapes::Backslash), "ab");
        assert_eq!(text(r"a\n'\\", Escapes::Raw), r"a\n'\\");
        assert_eq!(text(r"it\'s \n \\", Escapes::Quote), r"it's \n \");
        assert_eq!(text("{{}} é", Escapes::Braces), "{} é");
        assert_eq!(
            text(r"\u{ffffffff} \", Escapes::Backslash),
            r"u{ffffffff} \"
        );
    }

    #[test]
    fn each_byte_knows_its_place() {
        let literal = decode(r"a\té", 10, Escapes::Backslash);
        assert_eq!(*literal.places, [10, 11, 13, 13]);
        assert_eq!(literal.text.len(), literal.places.len());
    }
}
