//! What functions give to names that stand outside of them, or in objects: a name that is given one text where it
//! is declared, and another one by a function, stands for either.
//!
//! Scopes are not followed. What a function assigns without declaring it there is taken for the file's name, in
//! Python and PHP where it says so (`global`); and `X.name` for that of a class or an object X.

use std::collections::BTreeSet;

use crate::{
    language::Language,
    project::{DeclaredFunction, Source, expressions},
    syntax::{Expression, ExpressionKind},
};

/// A name that a function gives a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reassignment<'p> {
    /// The class or the object whose it is, by its name.
    pub(crate) of: Option<&'p str>,
    pub(crate) name: &'p str,
    pub(crate) value: &'p Expression,
    /// Whether the old value goes into it.
    pub(crate) adds: bool,
    /// Whether it is a field of an object, of whatever class.
    pub(crate) of_object: bool,
}

/// The names that some function of a file says are the file's (`global`), in languages in which it has to.
pub(crate) fn globals(source: &Source) -> BTreeSet<&str> {
    let lines = source.text.lines().map(str::trim_start);
    let named = lines.filter_map(|line| line.strip_prefix("global "));
    let named = named.flat_map(|names| names.split([',', ';']));
    named
        .map(|name| name.trim().trim_start_matches('$'))
        .collect()
}

/// What a function gives to names of its surroundings, of a file with these [`globals`].
pub(crate) fn reassigned<'p>(
    source: &Source,
    globals: &BTreeSet<&str>,
    declared: &'p DeclaredFunction<'p>,
) -> Vec<Reassignment<'p>> {
    let mut found = Vec::new();
    // Functions in it are looked at by themselves.
    expressions(&declared.function.body, false, &mut |assigned| {
        let ExpressionKind::Assign {
            target,
            operator,
            value,
        } = &assigned.kind
        else {
            return;
        };
        let mut of_object = false;
        let (of, name) = match &target.kind {
            ExpressionKind::Name(name) if is_outside(source, globals, assigned, name) => {
                // In Java it may be a field, of this class or of one that it extends.
                match source.language {
                    Language::Java => (declared.class.as_deref(), name),
                    _ => (None, name),
                }
            }
            ExpressionKind::Member(of, name) => match &of.kind {
                ExpressionKind::Name(of)
                    if matches!(of.as_str(), "this" | "self" | "cls" | "static" | "$this") =>
                {
                    (declared.class.as_deref(), name)
                }
                ExpressionKind::Name(of) => {
                    of_object = true;
                    (Some(of.as_str()), name)
                }
                ExpressionKind::Member(_, of) => {
                    of_object = true;
                    (Some(of.as_str()), name)
                }
                _ => return,
            },
            _ => return,
        };
        found.push(Reassignment {
            of,
            name,
            value,
            adds: operator.is_some(),
            of_object,
        });
    });
    found
}

/// Whether a plain name that is assigned there is one from outside of the function.
fn is_outside(
    source: &Source,
    globals: &BTreeSet<&str>,
    assigned: &Expression,
    name: &str,
) -> bool {
    let text = source.text.as_str();
    match source.language {
        Language::Python | Language::Php => globals.contains(name),
        Language::Go => {
            let rest = text.get(assigned.range.clone()).unwrap_or_default();
            let sign = rest.find('=').unwrap_or(0);
            !rest[..sign].ends_with(':')
        }
        _ => {
            // Behind `let`, or a type, it is a variable of the function's own.
            let before = text.get(..assigned.range.start).unwrap_or_default();
            let last = before.trim_end().chars().next_back().unwrap_or(';');
            !(last.is_alphanumeric() || matches!(last, '>' | ']' | '_'))
        }
    }
}
