//! What functions give to names that stand outside of them, or in objects: a name that is given one text where it
//! is declared, and another one by a function, stands for either.
//!
//! Scopes are not followed. What a function assigns without declaring it there is taken for the file's name, in
//! Python and PHP where it says so (`global`); and `X.name` for that of a class or an object X.

use crate::{
    language::Language,
    project::{Declared, Source, parts},
    syntax::{Expression, ExpressionKind, Statement, StatementKind},
};

/// A name that a function gives a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reassigned<'p> {
    /// The class or the object whose it is, by its name.
    pub(crate) of: Option<&'p str>,
    pub(crate) name: &'p str,
    pub(crate) value: &'p Expression,
    /// Whether the old value goes into it.
    pub(crate) adds: bool,
}

/// What a function gives to names of its surroundings.
pub(crate) fn reassigned<'p>(source: &Source, declared: &'p Declared<'p>) -> Vec<Reassigned<'p>> {
    let mut found = Vec::new();
    in_statements(
        &declared.function.body,
        &mut |assigned, target, adds, value| {
            let (of, name) = match &target.kind {
                ExpressionKind::Name(name) if is_outside(source, assigned, name) => (None, name),
                ExpressionKind::Member(of, name) => match &of.kind {
                    ExpressionKind::Name(of)
                        if matches!(of.as_str(), "this" | "self" | "cls" | "static" | "$this") =>
                    {
                        (declared.class.as_deref(), name)
                    }
                    ExpressionKind::Name(of) => (Some(of.as_str()), name),
                    _ => return,
                },
                _ => return,
            };
            found.push(Reassigned {
                of,
                name,
                value,
                adds,
            });
        },
    );
    found
}

/// Whether a plain name that is assigned there is one from outside of the function.
fn is_outside(source: &Source, assigned: &Expression, name: &str) -> bool {
    let text = source.text.as_str();
    match source.language {
        Language::Python | Language::Php => {
            let named = |line: &str| {
                let rest = line.trim_start().strip_prefix("global ");
                let names = rest.into_iter().flat_map(|rest| rest.split([',', ';']));
                let is_it = |one: &str| one.trim().trim_start_matches('$') == name;
                names.into_iter().any(is_it)
            };
            text.lines().any(named)
        }
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

/// Assignments: the whole, what is assigned to, whether the old value goes into it, and the new value.
type Found<'f, 'p> = &'f mut dyn FnMut(&'p Expression, &'p Expression, bool, &'p Expression);

fn in_statements<'p>(statements: &'p [Statement], found: Found<'_, 'p>) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Expression(value) => in_expression(value, found),
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                in_expression(condition, found);
                in_statements(then, found);
                in_statements(otherwise, found);
            }
            StatementKind::Cases { value, cases, .. } => {
                value.iter().for_each(|v| in_expression(v, found));
                cases.iter().for_each(|case| in_statements(case, found));
            }
            StatementKind::Loop { before, body } => {
                before.iter().for_each(|v| in_expression(v, found));
                in_statements(body, found);
            }
            StatementKind::Try {
                body,
                handlers,
                finally,
            } => {
                in_statements(body, found);
                handlers.iter().for_each(|h| in_statements(h, found));
                in_statements(finally, found);
            }
            StatementKind::Return(value) | StatementKind::Throw(value) => {
                value.iter().for_each(|v| in_expression(v, found));
            }
            StatementKind::Block(inner) | StatementKind::Other(inner) => {
                in_statements(inner, found);
            }
            // Functions in it are looked at by themselves.
            StatementKind::Function(_)
            | StatementKind::Class { .. }
            | StatementKind::Leave
            | StatementKind::Broken => {}
        }
    }
}

fn in_expression<'p>(value: &'p Expression, found: Found<'_, 'p>) {
    if let ExpressionKind::Assign {
        target,
        operator,
        value: given,
    } = &value.kind
    {
        found(value, target, operator.is_some(), given);
    }
    for part in parts(value) {
        in_expression(part, found);
    }
}
