//! Replaces the names of declared types in casts, and in the declarations of variables and parameters.

use super::{Edit, types::Types};
use crate::script::{
    scan::Part,
    tokens::{Token, begin, name_of, tokens},
};
use crate::source::Translated;

/// Replaces declared types in a statement by those that represent them; `None` if it names none. `places` are the
/// positions in the file of the bytes of `text`.
pub(in crate::script) fn statement(
    text: &str,
    places: &[u32],
    types: &Types,
) -> Option<Translated> {
    let edits = casts(text, 0, types);
    let mut text = text.to_owned();
    let mut out = super::edited(&mut text, &edits)?;
    for place in &mut out.places {
        let last = places.last().copied().unwrap_or(0);
        *place = places.get(*place as usize).copied().unwrap_or(last);
    }
    Some(out)
}

/// The edits for the casts of a declaration at `base`, and for the types of a routine's parameters and variables.
pub(super) fn casts(text: &str, base: usize, types: &Types) -> Vec<Edit> {
    let all = tokens(text);
    let is_routine = all.first().is_some_and(|t| t.is("create"))
        && all
            .iter()
            .take(4)
            .any(|t| t.is("function") || t.is("procedure"));
    let mut edits = Vec::new();
    named(&all, base, types, is_routine, &mut edits);
    if is_routine {
        for token in &all {
            let Part::Quoted(body) = token.part else {
                continue;
            };
            let mark = match body.strip_prefix('$') {
                Some(rest) => rest.find('$').map_or(0, |end| end + 2),
                None => 0,
            };
            if mark == 0 || body.len() < 2 * mark {
                continue;
            }
            let inside = &body[mark..body.len() - mark];
            let before = edits.len();
            let at = base + token.start + mark;
            named(&tokens(inside), at, types, true, &mut edits);
            edits[before..]
                .iter_mut()
                .for_each(|edit| edit.in_string = true);
        }
    }
    edits
}

fn named(all: &[Token<'_>], base: usize, types: &Types, is_routine: bool, edits: &mut Vec<Edit>) {
    for at in 0..all.len() {
        if let Some((end, words)) = lock(&all[at..]) {
            let range = base + all[at].start..base + all[at + end - 1].end;
            edits.push(Edit::new(range, words));
            continue;
        }
        let Some(name) = all[at].name() else {
            continue;
        };
        // With its schema.
        let first = match at >= 2 && all[at - 1].is_sign('.') {
            true => at - 2,
            false => at,
        };
        let before = |n: usize| first.checked_sub(n).and_then(|at| all.get(at));
        let sign = |n: usize, sign: char| before(n).is_some_and(|t| t.is_sign(sign));
        if all.get(at + 1).is_some_and(|t| t.is_sign('.')) {
            let next = all.get(at + 2).filter(|t| t.name().is_some());
            if let (true, Some(next)) = (first == at && types.is_schema(&name), next) {
                let range = base + all[at].start..base + next.start;
                edits.push(Edit::new(range, String::new()));
            }
            continue;
        }
        let is_cast = sign(1, ':') && sign(2, ':');
        let is_called = before(1).is_some_and(|t| t.is("as")) && is_in_cast(&all[..first]);
        let is_declared = is_routine && declares(all, first, at);
        let text = match types.short_base(&name) {
            Some(text) if is_cast || is_called || is_declared => text,
            None if is_cast && types.is_own(&name) && is_literal(&all[..first - 2]) => {
                "text".to_owned()
            }
            None if is_declared && types.is_own(&name) => "text".to_owned(),
            _ => continue,
        };
        let range = base + all[first].start..base + all[at].end;
        // This edit includes the schema's.
        edits.retain(|edit| edit.range.start != range.start);
        edits.push(Edit::new(range, text));
    }
}

/// The number of tokens of a locking clause that the parser does not have, and the nearest one that it has. NOWAIT and
/// SKIP LOCKED make the statement fail, or read fewer rows: what it may read is the same.
fn lock(rest: &[Token<'_>]) -> Option<(usize, &'static str)> {
    let (plain, mut at, words) = match () {
        () if begin(rest, &["for", "update"]) => (true, 2, "FOR UPDATE"),
        () if begin(rest, &["for", "share"]) => (true, 2, "FOR SHARE"),
        () if begin(rest, &["for", "no", "key", "update"]) => (false, 4, "FOR UPDATE"),
        () if begin(rest, &["for", "key", "share"]) => (false, 3, "FOR SHARE"),
        () => return None,
    };
    let strength = at;
    if rest.get(at).is_some_and(|t| t.is("of")) {
        (_, at) = name_of(rest, at + 1)?;
        while rest.get(at).is_some_and(|t| t.is_sign(',')) {
            (_, at) = name_of(rest, at + 1)?;
        }
    }
    let behind = &rest[at..];
    at += match () {
        () if begin(behind, &["skip", "locked"]) => 2,
        () if begin(behind, &["nowait"]) => 1,
        () if plain && at == strength => return None,
        () => 0,
    };
    Some((at, words))
}

/// Whether the tokens end within the brackets of a CAST.
fn is_in_cast(before: &[Token<'_>]) -> bool {
    let mut depth = 0_usize;
    for (at, token) in before.iter().enumerate().rev() {
        if token.is_sign(')') {
            depth += 1;
        } else if token.is_sign('(') && depth > 0 {
            depth -= 1;
        } else if token.is_sign('(') {
            return at > 0 && before[at - 1].is("cast");
        }
    }
    false
}

/// Whether the tokens end with a string, NULL or a placeholder.
fn is_literal(before: &[Token<'_>]) -> bool {
    match before {
        [.., sign, last] if sign.is_sign('$') => matches!(last.part, Part::Word(_)),
        [.., last] => {
            last.is("null") || matches!(last.part, Part::Quoted(text) if text.starts_with('\''))
        }
        [] => false,
    }
}

/// Whether the type name from `first` to `at` declares a routine's parameter, variable or result.
fn declares(all: &[Token<'_>], first: usize, at: usize) -> bool {
    let word = |n: usize, words: &[&str]| {
        let token = first.checked_sub(n).and_then(|at| all.get(at));
        token.is_some_and(|t| words.iter().any(|word| t.is(word)))
    };
    if word(1, &["returns", "setof"]) {
        return true;
    }
    const MODES: [&str; 5] = ["in", "out", "inout", "variadic", "constant"];
    let begins = |n: usize| match first.checked_sub(n) {
        Some(at) => {
            ['(', ',', ';'].iter().any(|sign| all[at].is_sign(*sign))
                || all[at].is("declare")
                || MODES.iter().any(|mode| all[at].is(mode))
        }
        None => true,
    };
    let named = first >= 1 && all[first - 1].name().is_some();
    let ends = all.get(at + 1).is_none_or(|t| {
        [',', ')', ';', ':', '=', '[']
            .iter()
            .any(|sign| t.is_sign(*sign))
            || t.is("default")
            || t.is("not")
    });
    named && ends && begins(2)
}
