//! Findings as GitHub's workflow commands, one line each: annotations of a pull request's lines.
//!
//! Known findings (of a baseline) are notices. Other findings, and skipped parts of the application, are warnings.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::Skipped;

use super::findings::{Baseline, Finding};
use super::skipped::{Located, located};

/// The lines. `analysed` is false where nothing could be analysed.
pub fn render(
    findings: &[Finding<'_>],
    baseline: Option<&Baseline>,
    skipped: &[Skipped],
    catalog: &Catalog,
    analysed: bool,
) -> String {
    let nothing = match analysed {
        true => "",
        false => "::error title=nothing analysed::Found no SQL to analyse in these files.\n",
    };
    let found = findings.iter().map(|finding| command(finding, baseline));
    let skipped = skipped
        .iter()
        .map(|piece| warning(&located(piece, catalog)));
    std::iter::once(nothing.to_owned())
        .chain(found)
        .chain(skipped)
        .collect()
}

/// The warning for a skipped piece of a file; a notice, if nothing is missing because of it.
fn warning(piece: &Located<'_>) -> String {
    let place = match (piece.file, piece.line, piece.column) {
        (Some(file), Some(line), Some(column)) => {
            let name = property(file.trim_start_matches("./"));
            format!("file={name},line={line},col={column},")
        }
        // A workflow command has room for one file.
        _ => match piece.files.and_then(<[String]>::first) {
            Some(file) => format!("file={},", property(file.trim_start_matches("./"))),
            None => String::new(),
        },
    };
    let title = property(&format!("skipped [{}]", piece.code));
    let kind = if piece.missing { "warning" } else { "notice" };
    format!(
        "::{kind} {place}title={title}::{}\n",
        data(&piece.sentence())
    )
}

fn command(finding: &Finding<'_>, baseline: Option<&Baseline>) -> String {
    let kind = if baseline.is_some_and(|known| known.knows(finding)) {
        "notice"
    } else {
        "warning"
    };
    let place = finding.place.map_or_else(String::new, |(file, span)| {
        let (line, column) = file.line_column(span.start);
        let name = property(file.name.trim_start_matches("./"));
        format!("file={name},line={line},col={column},")
    });
    let title = property(&format!("{} [{}]", finding.rule.title, finding.rule.code));
    let message = data(&finding.message());
    format!("::{kind} {place}title={title}::{message}\n")
}

/// The escaped text behind a command.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The escaped value of a property; separators are escaped as well.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::{data, property};

    #[test]
    fn what_would_end_a_command_is_escaped() {
        assert_eq!(data("100%\nof: it, all"), "100%25%0Aof: it, all");
        assert_eq!(property("a: b, c"), "a%3A b%2C c");
    }
}
