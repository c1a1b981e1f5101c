//! Headings and wrapped paragraphs of the report in text.

use std::fmt::Write;

/// The width of the text, in columns.
pub const WIDTH: usize = 100;

pub(super) fn heading(out: &mut String, title: &str) {
    let _ = writeln!(out, "{title}\n{}", "─".repeat(title.chars().count()));
}

/// Writes a paragraph indented by `indent`.
pub(super) fn paragraph(out: &mut String, indent: usize, text: &str) {
    hanging(out, &" ".repeat(indent), text);
}

/// Writes `text` behind `start`, wrapped with a hanging indent.
pub(super) fn hanging(out: &mut String, start: &str, text: &str) {
    let indent = start.chars().count();
    let mut line = start.to_owned();
    let mut width = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > indent && width + 1 + length > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            width = indent;
        }
        if width > indent {
            line.push(' ');
            width += 1;
        }
        line.push_str(word);
        width += length;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}
