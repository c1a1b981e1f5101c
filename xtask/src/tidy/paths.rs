//! The paths that Rust code names: imports unfolded, the others where they stand.
//!
//! `use a::{b, c::{self, d as e}, f::*};` becomes `a::b`, `a::c`, `a::c::d` and `a::f::*`. Rules that
//! care where a thing comes from read these instead of `use` trees.

use super::lexer::Code;

/// A path as it stands in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPath {
    /// Its parts; the last is `*` where an import takes all that is in a module.
    pub(super) segments: Vec<String>,
    /// What an import calls it here: the name after `as`, or else the last segment.
    pub(super) name: String,
    /// In a `use`, where a single segment names a crate and a module opens what is in it.
    pub(super) is_import: bool,
    /// Index of the token at which the path, or the `use` around it, begins.
    pub(super) token: usize,
    /// Line, from 1.
    pub(super) line: usize,
}

/// Every path in the code.
pub(super) fn paths(code: &Code) -> Vec<NamedPath> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.tokens.len() {
        let (token, line) = (at, code.tokens[at].line);
        if matches!(code.text(at), "use") && code.text(at + 1) != "<" {
            let start = found.len();
            at = unfold(code, at + 1, &[], &mut found);
            for path in &mut found[start..] {
                path.token = token;
            }
        } else if code.matches(at, &["extern", "crate"]) {
            let segment = code.text(at + 2).to_string();
            found.push(NamedPath {
                name: segment.clone(),
                segments: vec![segment],
                is_import: true,
                token,
                line,
            });
            at += 3;
        } else if code.is_word(at) {
            let mut segments = vec![code.text(at).to_string()];
            while code.text(at + 1) == "::" && code.is_word(at + 2) {
                segments.push(code.text(at + 2).to_string());
                at += 2;
            }
            found.push(NamedPath {
                name: code.text(at).to_string(),
                segments,
                is_import: false,
                token,
                line,
            });
            at += 1;
        } else {
            at += 1;
        }
    }
    found
}

/// Unfolds one tree of a `use` under `prefix`; returns where it ends.
fn unfold(code: &Code, mut at: usize, prefix: &[String], found: &mut Vec<NamedPath>) -> usize {
    let mut segments = prefix.to_vec();
    let mut name = None;
    while at < code.tokens.len() {
        match code.text(at) {
            "::" => at += 1,
            "{" => {
                at += 1;
                while at < code.tokens.len() && code.text(at) != "}" {
                    at = unfold(code, at, &segments, found);
                    if code.text(at) == "," {
                        at += 1;
                    }
                }
                return at + 1;
            }
            "," | "}" | ";" => break,
            "as" => {
                name = Some(code.text(at + 1).to_string());
                at += 2;
            }
            "self" if !segments.is_empty() => at += 1, // `module::{self}` is `module`
            segment => {
                segments.push(segment.to_string());
                at += 1;
            }
        }
    }
    let is_own = segments.len() > prefix.len()
        || code.text(at.saturating_sub(1)) == "self"
        || name.is_some();
    if is_own && let Some(last) = segments.last().cloned() {
        let token = at.saturating_sub(1).min(code.tokens.len() - 1);
        found.push(NamedPath {
            segments,
            name: name.unwrap_or(last),
            is_import: true,
            token,
            line: code.tokens[token].line,
        });
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::lexer::strip;
    use super::*;

    fn named(text: &str) -> Vec<String> {
        paths(&strip(text))
            .into_iter()
            .map(|path| {
                let joined = path.segments.join("::");
                match path.segments.last() {
                    Some(last) if *last != path.name => format!("{joined} as {}", path.name),
                    _ => joined,
                }
            })
            .collect()
    }

    #[test]
    fn imports_are_unfolded() {
        assert_eq!(
            named("use a::{b, c::{self, d as e}, f::*};"),
            ["a::b", "a::c", "a::c::d as e", "a::f::*"]
        );
        assert_eq!(named("use a::{self as b, c};"), ["a as b", "a::c"]);
        assert_eq!(named("use ::a as b;"), ["a as b"]);
        assert_eq!(named("extern crate a;"), ["a"]);
    }

    #[test]
    fn other_paths_stand_as_they_are() {
        assert_eq!(named("f(a::b::<C>(), ::d::e)"), ["f", "a::b", "C", "d::e"]);
    }

    #[test]
    fn a_path_knows_its_line_and_its_import() {
        let found = paths(&strip("x;\nuse a::{\n    b,\n    c,\n};\n"));
        let lines: Vec<(usize, usize)> = found.iter().map(|path| (path.token, path.line)).collect();
        assert_eq!(lines, [(0, 1), (2, 3), (2, 4)]);
    }
}
