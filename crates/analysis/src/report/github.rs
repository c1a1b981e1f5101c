//! Findings as GitHub's workflow commands, one line each: annotations of a pull request's lines.
//!
//! Known findings (of a baseline) are notices, others warnings; so is what of the files is left out.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::Skipped;

use super::findings::{Baseline, Finding};
use super::left_out::{Told, told};

/// The lines.
pub fn render(
    findings: &[Finding<'_>],
    baseline: Option<&Baseline>,
    left_out: &[Skipped],
    catalog: &Catalog,
) -> String {
    let found = findings.iter().map(|finding| command(finding, baseline));
    let left = left_out.iter().map(|piece| left(&told(piece, catalog)));
    found.chain(left).collect()
}

/// A piece of a file that is not understood.
fn left(told: &Told<'_>) -> String {
    let place = match (told.file, told.line, told.column) {
        (Some(file), Some(line), Some(column)) => {
            let name = property(file.trim_start_matches("./"));
            format!("file={name},line={line},col={column},")
        }
        _ => String::new(),
    };
    let title = property(&format!("left out [{}]", told.code));
    format!(
        "::warning {place}title={title}::{}\n",
        data(&told.sentence())
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

/// Text behind the command.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The value of a property: separators are escaped, too.
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
