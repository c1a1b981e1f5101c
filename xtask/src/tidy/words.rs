//! Words and names that have been replaced do not come back.
//!
//! `xtask/tidy/words.txt` lists them, each with what to write for it:
//!
//! * `word WORDS => REPLACEMENT`: prose. Matches whole words in any case, in comments, strings and
//!   Markdown, and as parts of identifiers: `word gizmo` finds `Gizmo`, `is_gizmo` and `GizmoPart`, but
//!   not `gizmos`. Several words match in a row, across a line's end, too.
//! * `name NAME => REPLACEMENT`: an identifier, spelt exactly so. Matches in Rust code and, in comments
//!   and Markdown, between backticks or in a fenced block; so `name Last` leaves the sentence "Last
//!   comes …" alone.
//! * `word WORDS in PATH => …` and `name NAME in PATH => …`: the same for files whose path begins with
//!   `PATH`, where words and names are common elsewhere.
//! * `allow PATH "FRAGMENT" => REASON`: lines of a file that contain the fragment may use any of them:
//!   quotations, and examples that speak of people. `allow PATH => REASON` stands for the whole file.
//!
//! Looked at are Rust sources, Markdown and the schemas of reports.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{File, Tree};
use super::{Finding, list};
use crate::Trouble;

pub(super) const NAME: &str = "words";

const LIST: &str = "xtask/tidy/words.txt";

#[derive(Default)]
struct Lists<'a> {
    /// By their first word, in lower case.
    phrases: BTreeMap<String, Vec<Phrase<'a>>>,
    names: BTreeMap<&'a str, Vec<Entry<'a>>>,
    allowed: Vec<Allowed<'a>>,
}

struct Phrase<'a> {
    words: Vec<String>,
    entry: Entry<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry<'a> {
    /// As listed.
    listed: &'a str,
    /// What paths have to begin with.
    scope: &'a str,
    replacement: &'a str,
}

/// Lines that are exempt.
struct Allowed<'a> {
    path: &'a str,
    fragment: &'a str,
    /// Line in the list, from 1.
    line: usize,
}

/// Looks at every Rust file, page and schema.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    let lists = read(tree, &mut findings);
    let mut used = BTreeSet::new();
    for file in tree.files.iter().filter(|file| is_checked(&file.path)) {
        let lines: Vec<&str> = file.text.lines().collect();
        let mut hits = phrases(&lists, &file.text);
        hits.extend(names(&lists, file));
        hits.retain(|(_, entry)| file.path.starts_with(entry.scope));
        for (line, entry) in hits {
            let text = lines.get(line - 1).copied().unwrap_or_default();
            let allowed = lists
                .allowed
                .iter()
                .find(|allowed| allowed.path == file.path && text.contains(allowed.fragment));
            match allowed {
                Some(allowed) => {
                    used.insert(allowed.line);
                }
                None => {
                    let Entry {
                        listed,
                        replacement,
                        ..
                    } = entry;
                    let message = format!("`{listed}` was replaced; write {replacement}");
                    findings.push(file.finding(NAME, line, message));
                }
            }
        }
    }
    for allowed in lists
        .allowed
        .iter()
        .filter(|allowed| !used.contains(&allowed.line))
    {
        findings.push(Finding {
            path: LIST.into(),
            line: allowed.line,
            rule: NAME,
            message: format!(
                "{} has no such line to allow; take the entry out",
                allowed.path
            ),
        });
    }
    Ok(findings)
}

fn is_checked(path: &str) -> bool {
    path.ends_with(".rs")
        || path.ends_with(".md")
        || (path.starts_with("docs/schemas/") && path.ends_with(".json"))
}

fn read<'a>(tree: &'a Tree, findings: &mut Vec<Finding>) -> Lists<'a> {
    let mut lists = Lists::default();
    for (line, entry) in list::entries(tree, LIST) {
        let parts = entry
            .split_once(" => ")
            .and_then(|(before, after)| Some((before.split_once(' ')?, after.trim())));
        match parts {
            Some((("word", rest), replacement)) => {
                let entry = scoped(rest, replacement);
                let words: Vec<String> = words(entry.listed).map(|word| word.text).collect();
                if let Some(first) = words.first().cloned() {
                    let phrases = lists.phrases.entry(first).or_default();
                    phrases.push(Phrase { words, entry });
                    continue;
                }
            }
            Some((("name", rest), replacement)) => {
                let entry = scoped(rest, replacement);
                lists.names.entry(entry.listed).or_default().push(entry);
                continue;
            }
            Some((("allow", rest), _)) => {
                let fragment = match rest.split_once(" \"") {
                    Some((path, quoted)) => quoted.strip_suffix('"').map(|quoted| (path, quoted)),
                    None => Some((rest, "")),
                };
                if let Some((path, fragment)) = fragment {
                    lists.allowed.push(Allowed {
                        path,
                        fragment,
                        line,
                    });
                    continue;
                }
            }
            _ => {}
        }
        findings.push(Finding {
            path: LIST.into(),
            line,
            rule: NAME,
            message: "not `word WORDS => …`, `name NAME => …` or `allow PATH \"FRAGMENT\" => …`"
                .into(),
        });
    }
    lists
}

/// Reads `WORDS` or `WORDS in PATH`.
fn scoped<'a>(rest: &'a str, replacement: &'a str) -> Entry<'a> {
    let (listed, scope) = rest.split_once(" in ").unwrap_or((rest, ""));
    Entry {
        listed,
        scope,
        replacement,
    }
}

/// A word of a text, in lower case.
struct Word {
    text: String,
    /// Line, from 1.
    line: usize,
    /// Whether nothing but space, comment signs and the like lies between it and the word before.
    follows: bool,
}

/// The words of a text: cut where something other than a letter or digit stands, and at the humps of
/// `CamelCase`.
fn words(text: &str) -> impl Iterator<Item = Word> {
    let mut chars = text.chars().peekable();
    let mut line = 1;
    let mut before = None;
    std::iter::from_fn(move || {
        let mut follows = true;
        while let Some(&c) = chars.peek()
            && !c.is_alphanumeric()
        {
            line += usize::from(c == '\n');
            follows &= c.is_whitespace() || "/!*>_-\\".contains(c);
            chars.next();
            before = None;
        }
        let mut text = String::new();
        while let Some(&c) = chars.peek()
            && c.is_alphanumeric()
        {
            let is_hump = c.is_uppercase() && before.is_some_and(char::is_lowercase);
            if is_hump && !text.is_empty() {
                break;
            }
            text.extend(c.to_lowercase());
            before = Some(c);
            chars.next();
        }
        (!text.is_empty()).then_some(Word {
            text,
            line,
            follows,
        })
    })
}

/// The lines on which listed phrases begin; each phrase once a line.
fn phrases<'a>(lists: &Lists<'a>, text: &str) -> BTreeSet<(usize, Entry<'a>)> {
    let words: Vec<Word> = words(text).collect();
    let mut hits = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        for phrase in lists.phrases.get(&word.text).into_iter().flatten() {
            let here = words[at..].iter().take(phrase.words.len());
            let is_hit = at + phrase.words.len() <= words.len()
                && here
                    .enumerate()
                    .all(|(n, word)| word.text == phrase.words[n] && (n == 0 || word.follows));
            if is_hit {
                hits.insert((word.line, phrase.entry));
            }
        }
    }
    hits
}

/// The lines with listed names; each name once a line.
fn names<'a>(lists: &Lists<'a>, file: &File) -> BTreeSet<(usize, Entry<'a>)> {
    let mut hits = BTreeSet::new();
    let mut look = |line: usize, name: &str| {
        let entries = lists.names.get(name).into_iter().flatten();
        hits.extend(entries.map(|entry| (line, *entry)));
    };
    if let Some(code) = &file.code {
        for token in &code.tokens {
            look(token.line, &token.text);
        }
        for comment in &code.comments {
            for name in quoted(&comment.text) {
                look(comment.line, name);
            }
        }
    } else if file.path.ends_with(".md") {
        let mut is_fenced = false;
        for (index, text) in file.text.lines().enumerate() {
            is_fenced ^= text.trim_start().starts_with("```");
            if is_fenced {
                identifiers(text).for_each(|name| look(index + 1, name));
            } else {
                quoted(text).for_each(|name| look(index + 1, name));
            }
        }
    }
    hits
}

/// The identifiers between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).flat_map(identifiers)
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c != '_' && !c.is_alphanumeric())
        .filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::*;

    const WORDS: &str = "# Prose.\nword gizmo => the device\nword set apart => *exceptions*\n\
                         name Trove => `Store`\n";

    fn lines(path: &str, text: &str) -> Vec<String> {
        found(check, &[(path, text), (LIST, WORDS)])
            .into_iter()
            .map(|finding| finding.split(':').nth(1).unwrap_or_default().to_string())
            .collect()
    }

    #[test]
    fn a_replaced_word_is_flagged_in_sources_and_pages() {
        let message = "`gizmo` was replaced; write the device";
        assert_eq!(
            found(
                check,
                &[
                    ("crates/a/src/lib.rs", "//! A Gizmo's.\n"),
                    ("docs/a.md", "one\n\nThe gizmo.\n"),
                    ("docs/schemas/a.json", "{\"gizmo\": 1}\n"),
                    (LIST, WORDS)
                ]
            ),
            [
                format!("crates/a/src/lib.rs:1: {message}"),
                format!("docs/a.md:3: {message}"),
                format!("docs/schemas/a.json:1: {message}"),
            ]
        );
    }

    #[test]
    fn words_are_found_in_identifiers_and_strings_but_whole() {
        assert_eq!(
            lines(
                "a.rs",
                "fn is_gizmo() {}\nstruct GizmoMaker;\nconst A: &str = \"a gizmo\";\nGIZMO\nlet gizmos = 1;\n"
            ),
            ["1", "2", "3", "4"]
        );
    }

    #[test]
    fn phrases_are_found_across_lines_but_not_across_sentences() {
        assert_eq!(
            lines(
                "a.rs",
                "// It is set\n// apart.\nfn set_apart() {}\n// Set. Apart.\n"
            ),
            ["1", "3"]
        );
    }

    #[test]
    fn names_are_found_where_code_is_spoken() {
        assert_eq!(
            lines(
                "a.rs",
                "// Trove, `Trove`.\nstruct Trove;\nstruct Troves;\n\"Trove\";\n"
            ),
            ["1", "2"]
        );
        assert_eq!(
            lines(
                "docs/a.md",
                "Trove and `a::Trove`.\nTrove\n```\nTrove::new()\n```\n"
            ),
            ["1", "4"]
        );
        assert_eq!(
            lines("docs/a.md", "Trove and `trove`.\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn allowed_lines_pass_and_must_exist() {
        let list = format!("{WORDS}allow docs/a.md \"“gizmo”\" => a quotation\n");
        let files = [("docs/a.md", "They say “gizmo”.\n"), (LIST, &list)];
        assert_eq!(found(check, &files), Vec::<String>::new());
        let files = [("docs/a.md", "They say no more.\n"), (LIST, &list)];
        assert_eq!(
            found(check, &files),
            ["xtask/tidy/words.txt:5: docs/a.md has no such line to allow; take the entry out"]
        );
    }

    #[test]
    fn a_whole_file_may_be_allowed() {
        let list = format!("{WORDS}allow CHANGELOG.md => old names\n");
        let files = [("CHANGELOG.md", "A gizmo is a device.\n"), (LIST, &list)];
        assert_eq!(found(check, &files), Vec::<String>::new());
    }

    #[test]
    fn a_scope_limits_an_entry() {
        let list = "word gizmo in crates/a/ => a\nname Trove in crates/a/ => `A`\n";
        let text = "// gizmo\nstruct Trove;\n";
        let files = [
            ("crates/a/src/lib.rs", text),
            ("crates/b/src/lib.rs", text),
            (LIST, list),
        ];
        assert_eq!(
            found(check, &files),
            [
                "crates/a/src/lib.rs:1: `gizmo` was replaced; write a",
                "crates/a/src/lib.rs:2: `Trove` was replaced; write `A`"
            ]
        );
    }

    #[test]
    fn entries_that_are_none_are_flagged() {
        for entry in [
            "gizmo => device\n",
            "word gizmo\n",
            "allow docs/a.md \"x => why\n",
        ] {
            let findings = found(check, &[(LIST, entry)]);
            assert_eq!(findings.len(), 1, "{entry}");
            assert!(findings[0].starts_with("xtask/tidy/words.txt:1: not `word WORDS"));
        }
    }
}
