//! Every link in a page leads to an existing file.
//!
//! The rule checks links of the form `[text](target)` whose target is a path. It does not visit addresses on the
//! web, nor check headings within a page.

use std::path::Path;

use super::Finding;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "links";

/// Looks at every link in every Markdown file.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let page = tree.root.join(&file.path);
        let folder = page.parent().unwrap_or(&tree.root);
        let mut is_quoted = false;
        for (index, line) in file.text.lines().enumerate() {
            is_quoted ^= line.trim_start().starts_with("```");
            if is_quoted || line.starts_with("    ") {
                continue;
            }
            for target in targets(line).filter(|target| !leads_somewhere(folder, target)) {
                let message = format!("`{target}` does not exist: the link leads nowhere");
                findings.push(file.finding(NAME, index + 1, message));
            }
        }
    }
    Ok(findings)
}

/// The targets of the links in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// Whether there is a file or folder at a target, or the target is none.
fn leads_somewhere(folder: &Path, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    path.is_empty() || path.contains(':') || folder.join(path).exists()
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    #[test]
    fn a_link_to_nowhere_is_flagged() {
        let text = "# A\n\nSee [b](b.md) and [c](../c.md#d).\n";
        let findings = found(check, &[("docs/a.md", text), ("docs/b.md", "")]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("docs/a.md:3: `../c.md#d` does not exist"));
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[a](#here) [b](https://example.org/x) [c](../docs/) [d](a.md#x)\n\n\
                    ```\n[e](nowhere)\n```\n\n    [f](nowhere)\n";
        assert_eq!(found(check, &[("docs/a.md", text)]), Vec::<String>::new());
    }
}
