//! Which names in a file stand for hash maps and sets.
//!
//! A field is `.name`. After `self` in an `impl` of a struct of this file it is that struct's field. Elsewhere it
//! counts as a hash map if a struct of this file has a hash map of this name, and none has another field of this
//! name. A local or a parameter is `name`, until its block ends or the name is bound again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::lexer::Code;

const HASH_TYPES: &[&str] = &["HashMap", "HashSet", "FxHashMap", "FxHashSet"];

/// Wrappers of a hash type that iterate as it does.
const WRAPPERS: &[&str] = &["Box", "Rc", "Arc", "RefCell", "Option"];

/// The names that stand for hash maps and sets in one file.
pub(super) struct Names {
    fields: Fields,
    /// Between these tokens.
    locals: BTreeMap<String, Vec<Range<usize>>>,
    blocks: Blocks,
}

impl Names {
    /// Reads the declarations of a file.
    pub(super) fn of(code: &Code) -> Names {
        let types = hash_types(code);
        let blocks = Blocks::of(code);
        let fields = Fields::of(code, &blocks, &types);
        let mut names = Names {
            fields,
            locals: BTreeMap::new(),
            blocks,
        };
        for at in 0..code.tokens.len() {
            if !code.is_word(at) {
                continue;
            }
            let typed = code.text(at + 1) == ":" && is_hash_type(code, at + 2, &types);
            if is_bound_here(code, at) {
                if typed || is_hash_value(code, at + 1, &types, &names.fields, &names.blocks) {
                    names.local(code, at, names.blocks.end_of_block(at));
                }
            } else if typed
                && names
                    .blocks
                    .opener(at)
                    .is_some_and(|open| code.text(open) == "(")
            {
                names.local(code, at, names.blocks.end_of_body(code, at));
            }
        }
        names
    }

    /// Notes a local from `at` on, until `end` or until its name is bound again.
    fn local(&mut self, code: &Code, at: usize, end: usize) {
        let name = code.text(at);
        let rebound = (at + 1..end).find(|&i| code.text(i) == name && is_bound_here(code, i));
        let range = at..rebound.unwrap_or(end);
        self.locals.entry(name.to_string()).or_default().push(range);
    }

    /// Whether the word at `at` stands for a hash map or set.
    pub(super) fn contains(&self, code: &Code, at: usize) -> bool {
        if at > 0 && code.text(at - 1) == "." {
            return self.fields.contains(code, &self.blocks, at);
        }
        let ranges = self.locals.get(code.text(at));
        ranges.is_some_and(|ranges| ranges.iter().any(|range| range.contains(&at)))
    }
}

/// Struct, field, and whether it is a hash map or set.
struct Fields(BTreeMap<String, BTreeMap<String, bool>>);

impl Fields {
    fn of(code: &Code, blocks: &Blocks, types: &BTreeSet<String>) -> Fields {
        let mut fields: BTreeMap<String, BTreeMap<String, bool>> = BTreeMap::new();
        for at in 0..code.tokens.len() {
            if code.is_word(at)
                && code.text(at + 1) == ":"
                && let Some(structure) = blocks.structure(code, at)
            {
                let is_hash = is_hash_type(code, at + 2, types);
                let of_structure = fields.entry(structure.to_string()).or_default();
                of_structure.insert(code.text(at).to_string(), is_hash);
            }
        }
        Fields(fields)
    }

    /// Whether the field that is named at `at`, after a dot, is a hash map or set.
    fn contains(&self, code: &Code, blocks: &Blocks, at: usize) -> bool {
        let name = code.text(at);
        let of_self = at > 1 && code.text(at - 2) == "self";
        let structure = blocks
            .implemented(code, at)
            .and_then(|owner| self.0.get(owner));
        if let (true, Some(fields)) = (of_self, structure) {
            return fields.get(name) == Some(&true);
        }
        let mut of_this_name = self
            .0
            .values()
            .filter_map(|fields| fields.get(name))
            .peekable();
        of_this_name.peek().is_some() && of_this_name.all(|&is_hash| is_hash)
    }
}

/// Whether a `let` binds the word at `at`.
fn is_bound_here(code: &Code, at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map_or("", |index| code.text(index));
    before(1) == "let" || (before(1) == "mut" && before(2) == "let")
}

/// The hash types' names in this file: the usual ones, and its aliases.
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
    fields: &Fields,
    blocks: &Blocks,
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
        return fields.contains(code, blocks, last);
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

    /// The struct whose declaration the token stands in directly.
    fn structure<'a>(&self, code: &'a Code, at: usize) -> Option<&'a str> {
        let open = self.opener(at)?;
        let word = header(code, open).find(|&i| code.text(i) == "struct")?;
        (code.text(open) == "{").then(|| code.text(word + 1))
    }

    /// The type whose `impl` the token stands in.
    fn implemented<'a>(&self, code: &'a Code, at: usize) -> Option<&'a str> {
        let mut open = self.opener(at)?;
        while header(code, open).any(|i| code.text(i) == "fn")
            || !header(code, open).any(|i| code.text(i) == "impl")
        {
            open = self.opener(open)?;
        }
        let words: Vec<usize> = header(code, open).collect();
        let start = words
            .iter()
            .rposition(|&i| matches!(code.text(i), "impl" | "for"))?;
        // Past the generics, if `impl` has them, and along the path to its last segment.
        let mut angles = 0;
        let mut name = None;
        for &i in &words[start + 1..] {
            match code.text(i) {
                "<" => angles += 1,
                ">" => angles -= 1,
                "where" => break,
                text if angles == 0 && code.is_word(i) => name = Some(text),
                _ => {}
            }
        }
        name
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

/// The tokens between the end of what comes before a bracket and the bracket.
fn header(code: &Code, open: usize) -> Range<usize> {
    let before = (0..open)
        .rev()
        .find(|&i| matches!(code.text(i), "{" | "}" | ";"));
    before.map_or(0, |i| i + 1)..open
}
