//! Assignments in functions to names outside of them: file variables and fields of objects. A name with one text at
//! its declaration and another in a function stands for either.
//!
//! Scopes are not tracked. An assignment without a declaration in the function counts as one to the file's variable;
//! in Python and PHP only where the function says `global`. `X.name` is a field of a class or an object X.

use std::collections::BTreeSet;

use crate::{
    declarations::{DeclaredFunction, Source},
    language::Language,
    syntax::{Expression, ExpressionKind},
    traverse::expressions,
};

/// An assignment in a function to a name outside of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reassignment<'p> {
    /// The class or the object that owns the name.
    pub(crate) of: Option<&'p str>,
    pub(crate) name: &'p str,
    pub(crate) value: &'p Expression,
    /// Whether the new value includes the old one (`+=`).
    pub(crate) adds: bool,
    /// Whether it is a field of an object of unknown class.
    pub(crate) of_object: bool,
}

/// The names that some function declares `global`, in languages that require it.
pub(crate) fn globals(source: &Source) -> BTreeSet<&str> {
    let lines = source.text.lines().map(str::trim_start);
    let named = lines.filter_map(|line| line.strip_prefix("global "));
    let named = named.flat_map(|names| names.split([',', ';']));
    named
        .map(|name| name.trim().trim_start_matches('$'))
        .collect()
}

/// The assignments of a function to outer names, in a file with these [`globals`].
pub(crate) fn reassignments<'p>(
    source: &Source,
    globals: &BTreeSet<&str>,
    declared: &'p DeclaredFunction<'p>,
) -> Vec<Reassignment<'p>> {
    let mut found = Vec::new();
    // Nested functions are visited on their own.
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
                // In Java it may be a field of this class or of a base class.
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

/// Whether an assigned plain name belongs to the surroundings of the function.
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
            // After `let` or a type it declares a local variable.
            let before = text.get(..assigned.range.start).unwrap_or_default();
            let last = before.trim_end().chars().next_back().unwrap_or(';');
            !(last.is_alphanumeric() || matches!(last, '>' | ']' | '_'))
        }
    }
}
