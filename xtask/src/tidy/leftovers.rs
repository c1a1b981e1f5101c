//! No stub, note to oneself or unexplained ignored test in the crates.
//!
//! An unsupported construct gives a typed error that names it; a stub that panics does not. Notes belong into an
//! issue, which has an owner. A test that is ignored without a reason is never run.

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "leftovers";

const NOTES: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];
const STUBS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Looks for notes in comments and stubs in code.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust().filter(|(file, _)| file.is_in_crates()) {
        for comment in &code.comments {
            for note in NOTES.iter().filter(|note| has_word(&comment.text, note)) {
                let message = format!("`{note}`: a note to oneself; finish it or open an issue");
                findings.push(file.finding(NAME, comment.line, message));
            }
        }
        for (at, token) in code.tokens.iter().enumerate() {
            if STUBS.contains(&token.text.as_str()) && code.text(at + 1) == "!" {
                let message = format!(
                    "`{}!`: return a typed error that names what is not supported",
                    token.text
                );
                findings.push(file.finding(NAME, token.line, message));
            }
            if code.matches(at, &["#", "[", "ignore", "]"]) {
                let message = "`#[ignore]` without a reason: `#[ignore = \"…\"]`".into();
                findings.push(file.finding(NAME, token.line, message));
            }
        }
    }
    Ok(findings)
}

/// Whether `word` occurs in `text` with no letter, digit or underscore on either side.
fn has_word(text: &str, word: &str) -> bool {
    let is_inside = |c: char| c == '_' || c.is_alphanumeric();
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !before.is_some_and(is_inside) && !after.is_some_and(is_inside)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn leftovers_are_flagged() {
        let text = "//! A.\n// TODO: b\nfn f() { todo!() }\nfn g() { std::unimplemented!(\"x\") }\n\
                    /* FIXME */ fn h() { dbg!(1); }\n#[ignore]\nfn i() {}\n";
        let findings = found(check, &[("crates/sql/src/a.rs", text)]);
        let lines: Vec<&str> = findings
            .iter()
            .filter_map(|f| f.split(':').nth(1))
            .collect();
        assert_eq!(lines, ["2", "5", "3", "4", "5", "6"], "{findings:?}");
    }

    #[test]
    fn what_is_finished_passes() {
        let text = "//! TODOS and a HACKER.\nfn todo() { let unimplemented = \"TODO todo!()\"; }\n\
                    #[ignore = \"takes an hour\"]\nfn i() {}\n";
        assert_eq!(
            found(check, &[("crates/sql/src/a.rs", text)]),
            Vec::<String>::new()
        );
    }
}
