//! No iteration in hash order below `server`.
//!
//! A hash map's order depends on its hasher, its capacity and its history: a message sent in that
//! order makes two runs of one seed differ, and two replicas as well. Lookups are fine. So a hash
//! map or set may be declared, and what is flagged is walking it: `.iter()`, `.keys()`,
//! `.values()`, `.drain(` and their kin, and `for … in &map`. `retain` is permitted: its predicate
//! has no business with order.
//!
//! This is done by name within a file, without types. A field is known by its declaration and met
//! as `.name`; a local or a parameter is met as `name` until its block ends or the name is bound
//! again. What crosses files, hides behind a function or is built by a macro is not seen; the
//! simulator's double runs are the second net.
//!
//! Where the order truly cannot matter (a sum, a sort that follows), the line or the one above
//! says so: `// tidy: order-free because …`.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::lexer::Code;
use super::tree::Tree;
use crate::Trouble;

pub(super) const NAME: &str = "hash-order";

const HASH_TYPES: &[&str] = &["HashMap", "HashSet", "FxHashMap", "FxHashSet"];

/// What may stand around a hash type without changing what iterating it means.
const WRAPPERS: &[&str] = &["Box", "Rc", "Arc", "RefCell", "Option"];

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

/// Calls that hand on the same map.
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

/// Looks for walks over what each file declares as a hash map or set.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, Trouble> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust_below_server() {
        let declared = Declared::of(code);
        for (name, lines) in walks(code, &declared) {
            if !lines.clone().any(|line| is_excused(code, line)) {
                findings.push(file.finding(
                    NAME,
                    *lines.end(),
                    format!(
                        "`{name}` is walked in hash order, which differs from run to run; use an \
                         ordered map, sort, or say `// {ESCAPE} …`"
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

/// The names that stand for hash maps and sets in one file.
struct Declared {
    /// Met as `.name`.
    fields: BTreeSet<String>,
    /// Met as `name`, between these tokens.
    locals: BTreeMap<String, Vec<std::ops::Range<usize>>>,
}

impl Declared {
    fn of(code: &Code) -> Declared {
        let types = hash_types(code);
        let blocks = Blocks::of(code);
        let mut declared = Declared {
            fields: BTreeSet::new(),
            locals: BTreeMap::new(),
        };
        for at in 0..code.tokens.len() {
            if !code.is_word(at) {
                continue;
            }
            let bound = is_bound_here(code, at);
            let typed = code.text(at + 1) == ":" && is_hash_type(code, at + 2, &types);
            if bound && (typed || is_hash_value(code, at + 1, &types, &declared.fields)) {
                declared.local(code, at, blocks.end_of_block(at));
            } else if typed && blocks.opener(at).is_some_and(|open| code.text(open) == "(") {
                declared.local(code, at, blocks.end_of_body(code, at));
            } else if typed {
                declared.fields.insert(code.text(at).to_string());
            }
        }
        declared
    }

    /// Notes a local from `at` on, until `end` or until its name is bound again.
    fn local(&mut self, code: &Code, at: usize, end: usize) {
        let name = code.text(at);
        let rebound = (at + 1..end).find(|&i| code.text(i) == name && is_bound_here(code, i));
        let range = at..rebound.unwrap_or(end);
        self.locals.entry(name.to_string()).or_default().push(range);
    }

    /// Whether the word at `at` stands for a hash map or set.
    fn contains(&self, code: &Code, at: usize) -> bool {
        let name = code.text(at);
        if at > 0 && code.text(at - 1) == "." {
            return self.fields.contains(name);
        }
        self.locals
            .get(name)
            .is_some_and(|ranges| ranges.iter().any(|range| range.contains(&at)))
    }
}

/// Whether a `let` binds the word at `at`.
fn is_bound_here(code: &Code, at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map_or("", |index| code.text(index));
    before(1) == "let" || (before(1) == "mut" && before(2) == "let")
}

/// The hash types' names in this file: the usual ones, and what it calls them besides.
fn hash_types(code: &Code) -> BTreeSet<String> {
    let mut types: BTreeSet<String> = HASH_TYPES.iter().map(|name| name.to_string()).collect();
    for at in 0..code.tokens.len() {
        if code.text(at + 1) == "as" && types.contains(code.text(at)) && code.is_word(at + 2) {
            types.insert(code.text(at + 2).to_string());
        }
        if code.text(at) == "type" && code.is_word(at + 1) {
            let value = (at + 2..code.tokens.len())
                .take_while(|&i| code.text(i) != ";")
                .find(|&i| code.text(i) == "=");
            if value.is_some_and(|value| is_hash_type(code, value + 1, &types)) {
                types.insert(code.text(at + 1).to_string());
            }
        }
    }
    types
}

/// Whether a type that begins at `at` is a hash type, perhaps behind references and wrappers.
fn is_hash_type(code: &Code, mut at: usize, types: &BTreeSet<String>) -> bool {
    loop {
        let text = code.text(at);
        if types.contains(text) && code.text(at + 1) != "::" {
            return true;
        }
        if matches!(text, "&" | "mut") || text.starts_with('\'') {
            at += 1;
        } else if code.is_word(at) && code.text(at + 1) == "::"
            || (WRAPPERS.contains(&text) && code.text(at + 1) == "<")
        {
            at += 2;
        } else {
            return false;
        }
    }
}

/// Whether what follows a `let`'s name, type or `=` first, makes it a hash map or set: a
/// constructor, a `collect`, or a declared field by itself.
fn is_hash_value(
    code: &Code,
    at: usize,
    types: &BTreeSet<String>,
    fields: &BTreeSet<String>,
) -> bool {
    if code.text(at) != "=" {
        return false;
    }
    let mut start = at + 1;
    while matches!(code.text(start), "&" | "mut") {
        start += 1;
    }
    let mut last = start;
    while code.is_word(last) && matches!(code.text(last + 1), "::" | ".") {
        if types.contains(code.text(last)) && code.text(last + 1) == "::" {
            return true;
        }
        last += 2;
    }
    if code.text(last + 1) == ";" && code.text(last - 1) == "." {
        return fields.contains(code.text(last));
    }
    let end = (start..code.tokens.len())
        .find(|&i| code.text(i) == ";")
        .unwrap_or(start);
    (start..end).any(|i| {
        code.matches(i, &["collect", "::", "<"])
            && is_hash_type(code, i + 3, types)
            // The last thing that is done, not a step on the way.
            && code.text(end - 1) == ")"
            && !(i..end).any(|j| code.text(j) == ".")
    })
}

/// Which bracket each token stands in, and where each closes.
struct Blocks {
    opener: Vec<Option<usize>>,
    closer: BTreeMap<usize, usize>,
}

impl Blocks {
    fn of(code: &Code) -> Blocks {
        let mut open = Vec::new();
        let mut blocks = Blocks {
            opener: Vec::new(),
            closer: BTreeMap::new(),
        };
        for at in 0..code.tokens.len() {
            if matches!(code.text(at), ")" | "]" | "}")
                && let Some(opener) = open.pop()
            {
                blocks.closer.insert(opener, at);
            }
            blocks.opener.push(open.last().copied());
            if matches!(code.text(at), "(" | "[" | "{") {
                open.push(at);
            }
        }
        blocks
    }

    /// The bracket that the token stands in.
    fn opener(&self, at: usize) -> Option<usize> {
        self.opener.get(at).copied().flatten()
    }

    /// Where the bracket that the token stands in closes.
    fn end_of_block(&self, at: usize) -> usize {
        let opener = self.opener(at);
        opener
            .and_then(|open| self.closer.get(&open).copied())
            .unwrap_or(self.opener.len())
    }

    /// Where the body of the function ends whose parameter the token is; at once if it has none.
    fn end_of_body(&self, code: &Code, at: usize) -> usize {
        let parameters = self.end_of_block(at);
        (parameters..code.tokens.len())
            .find(|&i| matches!(code.text(i), "{" | ";"))
            .and_then(|i| self.closer.get(&i).copied())
            .unwrap_or(parameters)
    }
}

/// Every walk over a declared name, with the lines that it takes up.
fn walks(code: &Code, declared: &Declared) -> Vec<(String, std::ops::RangeInclusive<usize>)> {
    let mut found = Vec::new();
    for at in 0..code.tokens.len() {
        if !code.is_word(at) || !declared.contains(code, at) {
            continue;
        }
        let walked = method_walk(code, at).or_else(|| loop_walk(code, at));
        if let Some(end) = walked {
            let lines = code.tokens[at].line..=code.tokens[end].line;
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
    use super::super::tests::found;
    use super::*;

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
