//! Source files and places in them.
//!
//! A place is a [`Span`] of bytes in one file of the list that was loaded. `sqlparser`'s syntax trees have lines and
//! columns; the lexer of this crate gives it tokens with the file's number for the line, and the byte for the column,
//! so that [`Span::of`] gets exact places back.

use std::sync::Arc;

use sqlparser::tokenizer;

/// One file of an application's SQL.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name for messages: a path relative to the current directory.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
}

impl SourceFile {
    /// A file with this name and text.
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> SourceFile {
        SourceFile {
            name: name.into(),
            text: text.into(),
        }
    }

    /// The line and the column of a byte, both counted from 1, the column in characters. A byte
    /// past the end, or inside a character, counts as the character's or the text's last place.
    pub fn line_column(&self, offset: u32) -> (u32, u32) {
        let offset = self.character_start(offset);
        let before = &self.text[..offset];
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        let column = before[self.line_start(offset)..].chars().count();
        (saturate(line) + 1, saturate(column) + 1)
    }

    /// The text of a span of this file, cut to the file.
    pub fn slice(&self, span: Span) -> &str {
        let start = self.character_start(span.start);
        let end = self.character_start(span.end).max(start);
        &self.text[start..end]
    }

    /// The start of the line with this byte.
    pub(crate) fn line_start(&self, offset: usize) -> usize {
        self.text[..offset]
            .rfind('\n')
            .map_or(0, |newline| newline + 1)
    }

    /// The start of the character that holds this byte.
    pub(crate) fn character_start(&self, offset: u32) -> usize {
        let mut offset = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A stretch of a source file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The file, as an index into the list of loaded files.
    pub file: u16,
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The place of a syntax tree that this crate parsed; `None` where the tree has none (some
    /// literals and keywords).
    pub fn of(place: tokenizer::Span) -> Option<Span> {
        let file = u16::try_from(place.start.line.checked_sub(1)?).ok()?;
        let start = u32::try_from(place.start.column.checked_sub(1)?).ok()?;
        let end = u32::try_from(place.end.column.checked_sub(1)?).ok()?;
        Some(Span {
            file,
            start,
            end: end.max(start),
        })
    }

    /// The inverse of [`Span::of`].
    pub(crate) fn location(self) -> tokenizer::Span {
        let line = u64::from(self.file) + 1;
        tokenizer::Span {
            start: tokenizer::Location {
                line,
                column: u64::from(self.start) + 1,
            },
            end: tokenizer::Location {
                line,
                column: u64::from(self.end) + 1,
            },
        }
    }

    /// From the start of this span to the end of `other`, in the same file.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span {
            file: self.file,
            start: self.start,
            end: self.end.max(other.end),
        }
    }

    /// The place just before this span.
    #[must_use]
    pub(crate) fn before(self) -> Span {
        Span {
            end: self.start,
            ..self
        }
    }
}

/// A translated text, with the position in the file of each of its bytes, and of its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Translated {
    pub(crate) text: String,
    pub(crate) places: Vec<u32>,
}

impl Translated {
    /// Appends text of the file.
    pub(crate) fn copy(&mut self, text: &str, start: usize) {
        self.text.push_str(text);
        let place = |at: usize| u32::try_from(start + at).unwrap_or(u32::MAX);
        self.places.extend((0..text.len()).map(place));
    }

    /// Appends text that stands for what is at a position.
    pub(crate) fn write(&mut self, text: &str, at: usize) {
        self.text.push_str(text);
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        self.places.extend(std::iter::repeat_n(place, text.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let file = SourceFile::new("a.sql", "ab\nçd\r\nx");
        assert_eq!(file.line_column(0), (1, 1));
        assert_eq!(file.line_column(2), (1, 3));
        assert_eq!(file.line_column(3), (2, 1));
        assert_eq!(file.line_column(4), (2, 1), "inside of a character");
        assert_eq!(file.line_column(5), (2, 2));
        assert_eq!(file.line_column(8), (3, 1));
        assert_eq!(file.line_column(999), (3, 2), "past the end");
    }

    #[test]
    fn a_span_survives_the_way_through_a_syntax_tree() {
        let span = Span {
            file: 3,
            start: 0,
            end: 17,
        };
        assert_eq!(Span::of(span.location()), Some(span));
        assert_eq!(Span::of(tokenizer::Span::empty()), None);
    }
}
