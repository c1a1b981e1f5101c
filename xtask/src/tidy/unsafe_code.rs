//! No `unsafe`, anywhere.
//!
//! The workspace's lints deny it already; this rule catches an `allow` that would lift them, and a crate that does
//! not inherit them.

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "unsafe-code";

/// Looks for the keyword, and for lints that would permit it.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust() {
        for (at, token) in code.tokens.iter().enumerate() {
            let lifted = token.text == "unsafe_code"
                && code.text(at.saturating_sub(1)) == "("
                && matches!(code.text(at.saturating_sub(2)), "allow" | "warn" | "expect");
            if token.text == "unsafe" || lifted {
                findings.push(file.finding(
                    NAME,
                    token.line,
                    "no unsafe code: what the compiler proves need not be reviewed".into(),
                ));
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn unsafe_is_flagged() {
        let text = "//! A.\nfn f() { unsafe { g() } }\n#[allow(unsafe_code)]\nmod m;\n";
        let findings = found(check, &[("crates/server/src/lib.rs", text)]);
        assert_eq!(findings.len(), 2);
        assert!(findings[0].starts_with("crates/server/src/lib.rs:2: no unsafe code"));
        assert!(findings[1].starts_with("crates/server/src/lib.rs:3: no unsafe code"));
    }

    #[test]
    fn the_word_is_not() {
        let text = "//! Not unsafe.\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe {\";\n";
        assert_eq!(
            found(check, &[("crates/server/src/lib.rs", text)]),
            Vec::<String>::new()
        );
    }
}
