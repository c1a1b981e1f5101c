//! The lists that rules read: text files under `xtask/tidy`, one entry a line, `#` before a comment.

use super::tree::Tree;

/// The entries of a list, each with its line from 1. A list that is not there is empty.
pub(super) fn entries<'a>(tree: &'a Tree, path: &str) -> Vec<(usize, &'a str)> {
    tree.file(path)
        .map_or(Vec::new(), |file| entries_of(&file.text))
}

/// The entries in a list's text.
pub(super) fn entries_of(text: &str) -> Vec<(usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_are_no_entries() {
        let text = "# A list.\n\n  a b\n# c\nd\n";
        assert_eq!(entries_of(text), [(3, "a b"), (5, "d")]);
    }
}
