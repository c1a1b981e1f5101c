//! Findings as a SARIF 2.1.0 log (OASIS, 2020), for code scanning. Rule ids and fingerprints are stable. Paths are
//! relative to the folder that the tool ran in, `%SRCROOT%`.
//!
//! GitHub reads up to 25,000 results of a run; a notification counts the rest. Each skipped piece of the files has a
//! notification with its place.

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::Skipped;
use anabranch_sql::source::{SourceFile, Span};
use serde_json::{Value, json};

use super::findings::{Baseline, Finding};
use super::skipped::{Located, located};
use crate::rule::{RULES, Rule};

/// The log has at most this many results.
pub const RESULTS_MAX: usize = 25_000;

/// The log has a notification for each of at most this many skipped pieces.
const SKIPPED_MAX: usize = 1_000;

/// The log as one JSON document, with a newline at its end. With a baseline each result says whether it is new.
/// `analysed` is false where nothing could be analysed.
pub fn render(
    findings: &[Finding<'_>],
    baseline: Option<&Baseline>,
    skipped: &[Skipped],
    catalog: &Catalog,
    analysed: bool,
) -> String {
    let results: Vec<Value> = findings
        .iter()
        .take(RESULTS_MAX)
        .map(|finding| result(finding, baseline))
        .collect();
    let mut notes: Vec<Value> = Vec::new();
    if findings.len() > RESULTS_MAX {
        notes.push(note(format!(
            "{} of {} findings are not listed: a log has at most {RESULTS_MAX} results",
            findings.len() - RESULTS_MAX,
            findings.len()
        )));
    }
    let pieces = skipped.iter().take(SKIPPED_MAX);
    notes.extend(pieces.map(|piece| notification(&located(piece, catalog))));
    if skipped.len() > SKIPPED_MAX {
        notes.push(note(format!(
            "{} more skipped pieces of the files are not listed",
            skipped.len() - SKIPPED_MAX
        )));
    }
    let mut invocation = json!({ "executionSuccessful": analysed });
    if !analysed {
        let text = "Found no SQL to analyse in these files.";
        notes.insert(0, json!({ "level": "error", "message": { "text": text } }));
    }
    if !notes.is_empty() {
        invocation["toolExecutionNotifications"] = json!(notes);
    }
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "anabranch",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": RULES.iter().map(described).collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [invocation],
            "results": results,
        }],
    });
    // Plain data with string keys cannot fail to serialize.
    let mut text = serde_json::to_string_pretty(&log).unwrap_or_default();
    text.push('\n');
    text
}

fn note(text: String) -> Value {
    json!({ "level": "warning", "message": { "text": text } })
}

/// The notification for a skipped piece of a file.
fn notification(piece: &Located<'_>) -> Value {
    let mut note = note(piece.sentence());
    if !piece.missing {
        note["level"] = json!("note");
    }
    if let Some(files) = piece.files {
        let places = files
            .iter()
            .take(SKIPPED_MAX)
            .map(|file| json!({ "physicalLocation": { "artifactLocation": artifact(file) } }));
        note["locations"] = places.collect();
    }
    if let (Some(file), Some(line), Some(column)) = (piece.file, piece.line, piece.column) {
        note["locations"] = json!([{
            "physicalLocation": {
                "artifactLocation": artifact(file),
                "region": { "startLine": line, "startColumn": column },
            },
        }]);
    }
    note
}

fn described(rule: &Rule) -> Value {
    let help = if rule.remedy.is_empty() {
        rule.proof.to_owned()
    } else {
        format!("{} {}", rule.proof, rule.remedy)
    };
    json!({
        "id": rule.code,
        "shortDescription": { "text": rule.title },
        "fullDescription": { "text": rule.proof },
        "help": { "text": format!("{help} Source: {}.", rule.source) },
        "defaultConfiguration": { "level": "warning" },
    })
}

fn result(finding: &Finding<'_>, baseline: Option<&Baseline>) -> Value {
    let place = RULES.iter().position(|of| of.code == finding.rule.code);
    let mut result = json!({
        "ruleId": finding.rule.code,
        "level": "warning",
        "message": { "text": finding.message() },
        "partialFingerprints": {
            "transactionInvariantRule/v1": finding.fingerprint().to_string(),
        },
    });
    if let Some(place) = place {
        result["ruleIndex"] = json!(place);
    }
    if let Some((file, span)) = finding.place {
        result["locations"] = json!([{
            "physicalLocation": {
                "artifactLocation": artifact(&file.name),
                "region": region(file, span),
            },
            "logicalLocations": [{ "name": finding.transaction, "kind": "function" }],
        }]);
    }
    if let Some(baseline) = baseline {
        let state = if baseline.knows(finding) {
            "unchanged"
        } else {
            "new"
        };
        result["baselineState"] = json!(state);
    }
    result
}

/// The location of a file: relative to the source root, or its absolute path.
fn artifact(path: &str) -> Value {
    let slashed = path.replace('\\', "/");
    if slashed.starts_with('/') {
        json!({ "uri": format!("file://{}", uri(&slashed)) })
    } else {
        json!({ "uri": uri(path), "uriBaseId": "%SRCROOT%" })
    }
}

/// The first line of a declaration.
fn region(file: &SourceFile, span: Span) -> Value {
    let (line, column) = file.line_column(span.start);
    json!({ "startLine": line, "startColumn": column })
}

/// A path as a relative reference (RFC 3986): with slashes, other reserved characters escaped.
fn uri(path: &str) -> String {
    use std::fmt::Write;

    let path = path.replace('\\', "/");
    let path = path.trim_start_matches("./");
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                escaped.push(char::from(byte));
            }
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{artifact, uri};

    #[test]
    fn paths_are_references() {
        assert_eq!(uri("./a b/ä.sql"), "a%20b/%C3%A4.sql");
        assert_eq!(uri("db\\proc.sql"), "db/proc.sql");
        assert_eq!(uri("100%:?#.sql"), "100%25%3A%3F%23.sql");
        assert_eq!(artifact("db/a.sql")["uriBaseId"], "%SRCROOT%");
        let outside = artifact("/srv/a b.sql");
        assert_eq!(outside["uri"], "file:///srv/a%20b.sql");
        assert!(outside.get("uriBaseId").is_none());
    }
}
