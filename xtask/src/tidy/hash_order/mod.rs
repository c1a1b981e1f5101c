//! No iteration in hash order below `server`.
//!
//! A hash map's order depends on its hasher, its capacity and its history: a message sent in that order makes two
//! runs of one seed differ, and two replicas as well. Hash maps and sets may be declared and looked up. The rule
//! flags iteration: `.iter()`, `.keys()`, `.values()`, `.drain(` and the like, and `for … in &map`. `retain` is
//! permitted: its predicate does not depend on order.
//!
//! The rule works by name within a file, without types; [`names`] says how. It does not see maps that cross files,
//! hide behind a function or are built by a macro; the simulator's double runs catch those.
//!
//! Where the order cannot matter (a sum, a sort that follows), a comment in the statement or on the line above says
//! so: `// tidy: order-free because …`.

mod names;

use super::Finding;
use super::lexer::Code;
use super::tree::Tree;
use crate::Trouble;
use names::Names;

pub(super) const NAME: &str = "hash-order";

const WALKS: &[&str] = &[
    "iter",
    "iter_mut",
    "into_iter",
    "keys",
    "into_keys",
    "values",
    "values_mut",
    "into_values",
    "drain",
    "extract_if",
    "union",
    "intersection",
    "difference",
    "symmetric_difference",
];

/// Calls that return the same map.
const PASSES: &[&str] = &[
    "clone",
    "borrow",
    "borrow_mut",
    "as_ref",
    "as_mut",
    "unwrap",
    "take",
];

/// The comment that explains an exception; a reason must follow it.
const ESCAPE: &str = "tidy: order-free because";

/// Looks for iteration over names that a file declares as hash maps or sets.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust_below_server() {
        let names = Names::of(code);
        for (name, lines) in walks(code, &names) {
            if !lines.clone().any(|line| is_excused(code, line)) {
                findings.push(file.finding(
                    NAME,
                    *lines.end(),
                    format!(
                        "`{name}` is iterated in hash order, which differs from run to run; use an \
                         ordered map, sort, or write `// {ESCAPE} …`"
                    ),
                ));
            }
        }
    }
    Ok(findings)
}

/// Whether a comment on this line or the one above gives a reason.
fn is_excused(code: &Code, line: usize) -> bool {
    code.comments.iter().any(|comment| {
        let reason = comment
            .text
            .split_once(ESCAPE)
            .map(|(_, reason)| reason.trim());
        (comment.line == line || comment.line + 1 == line)
            && reason.is_some_and(|reason| !reason.is_empty())
    })
}

/// Every walk over a declared name, with the lines from its statement's start to the walk.
fn walks(code: &Code, names: &Names) -> Vec<(String, std::ops::RangeInclusive<usize>)> {
    let mut found = Vec::new();
    for at in 0..code.tokens.len() {
        if !code.is_word(at) || !names.contains(code, at) {
            continue;
        }
        let walked = method_walk(code, at).or_else(|| loop_walk(code, at));
        if let Some(end) = walked {
            let start = (0..at)
                .rev()
                .find(|&i| matches!(code.text(i), ";" | "{" | "}"))
                .map_or(0, |i| i + 1);
            let lines = code.tokens[start].line..=code.tokens[end].line;
            found.push((code.text(at).to_string(), lines));
        }
    }
    found
}

/// The token of the walking method that is called on the name at `at`.
fn method_walk(code: &Code, mut at: usize) -> Option<usize> {
    while code.text(at + 1) == "." {
        let method = code.text(at + 2);
        if WALKS.contains(&method) && code.text(at + 3) == "(" {
            return Some(at + 2);
        }
        if !PASSES.contains(&method) || !code.matches(at + 3, &["(", ")"]) {
            return None;
        }
        at += 4;
    }
    None
}

/// The name at `at` itself, when a `for` walks it: alone, borrowed, or taken by `mem::take`.
fn loop_walk(code: &Code, at: usize) -> Option<usize> {
    let after = if code.text(at + 1) == ")" {
        at + 2
    } else {
        at + 1
    };
    if code.text(after) != "{" {
        return None;
    }
    let mut start = at;
    while start > 0 {
        let text = code.text(start - 1);
        let is_taken = text == "(" && start > 1 && code.text(start - 2) == "take";
        if !(matches!(
            text,
            "&" | "mut" | "." | "::" | "self" | "take" | "mem" | "std"
        ) || is_taken
            || (code.text(start) == "." && code.is_word(start - 1) && text != "in"))
        {
            break;
        }
        start -= 1;
    }
    (start > 0 && code.text(start - 1) == "in").then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::found;

    fn lines(text: &str) -> Vec<usize> {
        found(check, &[("crates/engine/src/lib.rs", text)])
            .iter()
            .map(|line| line.split(':').nth(1).unwrap().parse().unwrap())
            .collect()
    }

    const FIELDS: &str = "struct S { map: FxHashMap<u8, u8>, set: Option<std::collections::HashSet<u8>>, list: Vec<u8> }\n";

    #[test]
    fn walking_a_field_is_flagged() {
        for walk in [
            "for x in &self.map {}",
            "for (k, v) in self.map.iter() {}",
            "for x in &mut self.map {}",
            "for x in self.map {}",
            "for x in std::mem::take(&mut self.map) {}",
            "let n = self.map.keys().next();",
            "let n = other.inner.map.values().sum();",
            "self.map.drain();",
            "self.map.clone().into_iter().collect();",
            "let map = &self.map; map.iter();",
            "self.set.as_ref().unwrap().union(&other);",
        ] {
            let text = format!("{FIELDS}fn f(&mut self) {{ {walk} }}\n");
            assert_eq!(lines(&text), [2], "{walk}");
        }
    }

    #[test]
    fn walking_a_local_or_a_parameter_is_flagged() {
        for body in [
            "fn f(m: &HashMap<u8, u8>) { for x in m {} }",
            "fn f(m: &mut FxHashMap<u8, u8>) where A: B { m.values_mut(); }",
            "fn f() { let mut m = FxHashMap::default(); m.iter(); }",
            "fn f() { let m: std::collections::HashSet<u8> = g(); for x in &m {} }",
            "fn f() { let m = g().collect::<FxHashSet<_>>(); m.into_iter(); }",
            "use rustc_hash::FxHashMap as Map; fn f(m: Map<u8, u8>) { m.keys(); }",
            "type Counts<K> = HashMap<K, u8>; fn f(m: Counts<u8>) { m.keys(); }",
        ] {
            assert_eq!(lines(body), [1], "{body}");
        }
    }

    #[test]
    fn lookups_and_other_things_of_that_name_pass() {
        for body in [
            "fn f(&self) { self.map.get(&1); self.map.contains_key(&2); self.map.len(); }",
            "fn f(&mut self) { self.map.retain(|k, _| *k > 1); self.list.iter(); }",
            "fn f(map: &BTreeMap<u8, u8>) { for x in map {} map.iter(); }",
            "fn f() { let m = HashMap::new(); { let m = sorted(m); m.iter(); } }",
            "fn f(m: &HashMap<u8, u8>) { m.get(&1); } fn g(m: &[u8]) { m.iter(); }",
            "fn f(m: &HashMap<u8, u8>); fn g(m: &[u8]) { m.iter(); }",
            "fn f(&self) { for x in sorted(&self.map) {} }",
            "fn f(&self) { // self.map.iter()\n let x = \"self.map.iter()\"; }",
        ] {
            assert_eq!(lines(&format!("{FIELDS}{body}\n")), [0; 0], "{body}");
        }
    }

    #[test]
    fn fields_of_one_name_are_told_apart_by_their_struct() {
        let two = "struct A<T> { map: FxHashMap<u8, T> }\nstruct B { map: Vec<u8> }\n";
        let implementing = |owner: &str| {
            lines(&format!(
                "{two}impl{owner} {{ fn f(&self) {{ self.map.iter(); }} }}\n"
            ))
        };
        assert_eq!(implementing("<T: Fn(u8)> A<T> where T: Eq"), [3]);
        assert_eq!(implementing(" fmt::Display for A<u8>"), [3]);
        assert_eq!(implementing(" B"), [0; 0]);
        assert_eq!(
            lines(&format!("{two}fn f(either: &B) {{ either.map.iter(); }}\n")),
            [0; 0]
        );
    }

    #[test]
    fn a_reason_excuses_and_its_absence_does_not() {
        let excused = "self.map.values().sum() // tidy: order-free because a sum commutes";
        assert_eq!(
            lines(&format!("{FIELDS}fn f(&self) {{ {excused}\n }}\n")),
            [0; 0]
        );
        let above = "// tidy: order-free because sorted next\n self.map\n .keys()";
        assert_eq!(
            lines(&format!("{FIELDS}fn f(&self) {{ {above}\n }}\n")),
            [0; 0]
        );
        let over = "// tidy: order-free because sorted next\n let x = self\n .map\n .keys()";
        assert_eq!(
            lines(&format!("{FIELDS}fn f(&self) {{\n {over}\n }}\n")),
            [0; 0]
        );
        let bare = "self.map.values().sum() // tidy: order-free because";
        assert_eq!(lines(&format!("{FIELDS}fn f(&self) {{ {bare}\n }}\n")), [2]);
    }

    #[test]
    fn server_may() {
        let text = "fn f(m: &HashMap<u8, u8>) { m.iter(); }\n";
        assert_eq!(
            found(check, &[("crates/server/src/lib.rs", text)]),
            Vec::<String>::new()
        );
    }
}
