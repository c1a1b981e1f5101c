//! Diagnostics: what is wrong with the input, where, and what to do about it.
//!
//! ```text
//! error[42703]: column "w_taxx" does not exist
//!  --> schema.sql:12:8
//!    |
//! 12 |     SELECT w_taxx FROM warehouse
//!    |            ^^^^^^
//!    = help: "warehouse" has a column "w_tax"
//! ```

use std::fmt::Write;

use crate::source::{SourceFile, Span};

/// One problem in the input. [`render`] shows it with the source line and carets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// PostgreSQL's SQLSTATE where it has one for this, such as `42703` for an unknown column;
    /// `0A000` for what is not supported.
    pub code: &'static str,
    /// The problem, in PostgreSQL's words where it has some.
    pub message: String,
    /// Its place; `None` if it has none.
    pub span: Option<Span>,
    /// More about the problem, in PostgreSQL's words.
    pub detail: Option<String>,
    /// Advice on what to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic with this SQLSTATE at a place.
    pub fn new(code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic {
            code,
            message: message.into(),
            span: Some(span),
            detail: None,
            help: None,
        }
    }

    /// Valid SQL that is not supported: SQLSTATE `0A000`.
    pub fn unsupported(construct: impl AsRef<str>, span: Span) -> Diagnostic {
        let message = format!("{} is not supported", construct.as_ref());
        Diagnostic::new("0A000", message, span)
    }

    /// The same diagnostic with a detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Diagnostic {
        self.detail = Some(detail.into());
        self
    }

    /// The same diagnostic with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

/// Whether the rendered text carries ANSI colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Plain,
    /// ANSI escape sequences, for a terminal.
    Ansi,
}

/// All diagnostics as plain text, in the order given, each with its source line and carets under its place. An empty
/// line separates two.
pub fn render(diagnostics: &[Diagnostic], files: &[SourceFile]) -> String {
    render_in(diagnostics, files, Colour::Plain)
}

/// As [`render`], with colours if asked for.
pub fn render_in(diagnostics: &[Diagnostic], files: &[SourceFile], colour: Colour) -> String {
    let mut text = String::new();
    for (number, diagnostic) in diagnostics.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        render_one(&mut text, diagnostic, files, colour);
    }
    text
}

const RED: &str = "31;1";
const BLUE: &str = "34;1";
const BOLD: &str = "1";

fn paint(colour: Colour, code: &str, text: &str) -> String {
    match colour {
        Colour::Plain => text.to_owned(),
        Colour::Ansi => format!("\x1b[{code}m{text}\x1b[0m"),
    }
}

fn render_one(text: &mut String, diagnostic: &Diagnostic, files: &[SourceFile], colour: Colour) {
    let title = paint(colour, RED, &format!("error[{}]", diagnostic.code));
    let message = paint(
        colour,
        BOLD,
        &format!(": {}", printable(&diagnostic.message)),
    );
    line(text, &format!("{title}{message}"));
    let mut margin = 1;
    if let Some((span, file)) = diagnostic
        .span
        .and_then(|span| Some((span, files.get(usize::from(span.file))?)))
    {
        let (row, column) = file.line_column(span.start);
        let number = row.to_string();
        margin = number.len();
        let excerpt = Excerpt::new(file, span);
        let bar = paint(colour, BLUE, "|");
        let arrow = paint(colour, BLUE, "-->");
        line(
            text,
            &format!("{:margin$}{arrow} {}:{row}:{column}", "", file.name),
        );
        line(text, &format!("{:margin$} {bar}", ""));
        line(
            text,
            &format!("{} {bar} {}", paint(colour, BLUE, &number), excerpt.text),
        );
        let carets = paint(colour, RED, &"^".repeat(excerpt.width));
        line(
            text,
            &format!(
                "{:margin$} {bar} {:indent$}{carets}",
                "",
                "",
                indent = excerpt.indent
            ),
        );
    }
    for (label, said) in [("detail", &diagnostic.detail), ("help", &diagnostic.help)] {
        if let Some(said) = said {
            let sign = paint(colour, BLUE, "=");
            let label = paint(colour, BOLD, label);
            line(
                text,
                &format!("{:margin$} {sign} {label}: {}", "", printable(said)),
            );
        }
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", line.trim_end());
}

/// Text from the input, without control characters that a terminal would obey.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// One source line, cut to what fits, and where the carets go under it.
struct Excerpt {
    text: String,
    indent: usize,
    width: usize,
}

/// Columns of a source line that are shown.
const WIDTH_MAX: usize = 100;
/// Columns shown before the place, where the line is too long.
const BEFORE_MAX: usize = 40;
const TAB: usize = 4;

impl Excerpt {
    fn new(file: &SourceFile, span: Span) -> Excerpt {
        let start = file.character_start(span.start);
        let line_start = file.line_start(start);
        let line_end = file.text[start..]
            .find('\n')
            .map_or(file.text.len(), |n| start + n);
        let end = file.character_start(span.end).clamp(start, line_end);
        // Cells of the terminal: a tab is some, a wide character two.
        let mut cells = Vec::new();
        let (mut first, mut last) = (None, 0);
        let source = file.text[line_start..line_end].trim_end();
        for (offset, character) in source.char_indices() {
            let offset = line_start + offset;
            if offset >= start && first.is_none() {
                first = Some(cells.len());
            }
            match character {
                '\t' => cells.resize((cells.len() / TAB + 1) * TAB, Some(' ')),
                _ if character.is_control() => cells.push(Some('\u{fffd}')),
                _ => {
                    cells.push(Some(character));
                    // `None` continues the cell before it.
                    cells.extend((1..character_width(character)).map(|_| None));
                }
            }
            if offset < end {
                last = cells.len();
            }
        }
        let first = first.unwrap_or(cells.len());
        let width = last.saturating_sub(first).max(1);
        Excerpt::cut(&cells, first, width)
    }

    fn cut(cells: &[Option<char>], first: usize, width: usize) -> Excerpt {
        if cells.len() <= WIDTH_MAX {
            let text = cells.iter().flatten().collect();
            return Excerpt {
                text,
                indent: first,
                width,
            };
        }
        let mut from = first
            .saturating_sub(BEFORE_MAX)
            .min(cells.len() - WIDTH_MAX);
        while cells[from].is_none() {
            from += 1;
        }
        let to = (from + WIDTH_MAX).min(cells.len());
        let mut text = String::new();
        text.push_str(if from > 0 { "…" } else { "" });
        text.extend(cells[from..to].iter().flatten());
        text.push_str(if to < cells.len() { "…" } else { "" });
        let indent = first.saturating_sub(from) + usize::from(from > 0);
        Excerpt {
            text,
            indent,
            width: width.min(to.saturating_sub(first).max(1)),
        }
    }
}

/// The width of a character in a terminal: two columns for East Asian wide ones and emoji.
fn character_width(character: char) -> usize {
    match u32::from(character) {
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, place: &str, help: Option<&str>) -> String {
        let start = u32::try_from(text.find(place).unwrap()).unwrap();
        let end = start + u32::try_from(place.len()).unwrap();
        let mut diagnostic = Diagnostic::new(
            "42601",
            "broken",
            Span {
                file: 0,
                start,
                end,
            },
        );
        diagnostic.help = help.map(str::to_owned);
        render(&[diagnostic], &[SourceFile::new("a.sql", text)])
    }

    #[test]
    fn carets_stand_under_the_place() {
        let text = "one\n  two three\n";
        assert_eq!(
            rendered(text, "three", Some("write four")),
            "error[42601]: broken\n --> a.sql:2:7\n  |\n2 |   two three\n  |       ^^^^^\n  = help: write four\n"
        );
    }

    #[test]
    fn tabs_and_wide_characters_keep_the_carets_in_place() {
        assert_eq!(
            rendered("\tx\t'日本' bad", "bad", None),
            "error[42601]: broken\n --> a.sql:1:9\n  |\n1 |     x   '日本' bad\n  |                ^^^\n"
        );
    }

    #[test]
    fn a_place_over_several_lines_is_marked_to_the_end_of_its_first() {
        let text = "ab 'x\ny' c";
        let shown = rendered(text, "'x\ny'", None);
        assert!(shown.ends_with("1 | ab 'x\n  |    ^^\n"), "{shown}");
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let text = format!("{}bad{}", "a ".repeat(200), " z".repeat(200));
        let shown = rendered(&text, "bad", None);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() < 120),
            "{shown}"
        );
        let at = lines[3].chars().position(|c| c == 'b').unwrap();
        assert_eq!(
            lines[4].chars().position(|c| c == '^').unwrap(),
            at,
            "{shown}"
        );
    }

    #[test]
    fn the_end_of_the_text_has_a_place_too() {
        let end = Span {
            file: 0,
            start: 3,
            end: 3,
        };
        let shown = render(
            &[Diagnostic::new(
                "42601",
                "syntax error at end of input",
                end,
            )],
            &[SourceFile::new("a.sql", "abc")],
        );
        assert!(shown.ends_with("1 | abc\n  |    ^\n"), "{shown}");
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        let span = Span {
            file: 0,
            start: 0,
            end: 1,
        };
        let diagnostic = [Diagnostic::new("42601", "x\u{1b}y", span)];
        let files = [SourceFile::new("a.sql", "abc")];
        assert!(!render(&diagnostic, &files).contains('\u{1b}'));
        assert!(render_in(&diagnostic, &files, Colour::Ansi).contains("\u{1b}[31;1merror"));
    }
}
