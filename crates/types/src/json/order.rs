//! Order and containment of `jsonb`, as `jsonb_util.c` of PostgreSQL 15 has them.

use std::cmp::Ordering;

use super::{Kind, Node, number};

/// The rank of a kind: any value of a higher kind is above any of a lower one.
fn rank(node: &Node<'_>) -> u8 {
    match node.kind {
        Kind::Null => 0,
        Kind::String(_) => 1,
        Kind::Number => 2,
        Kind::Bool(_) => 3,
        Kind::Array(_) => 4,
        Kind::Object(_) => 5,
    }
}

/// The order of two whole values. An empty array is below every scalar, as in PostgreSQL, which holds a scalar as an
/// array of one element.
pub(super) fn compare(left: &Node<'_>, right: &Node<'_>) -> Ordering {
    let is_empty = |node: &Node<'_>| matches!(&node.kind, Kind::Array(list) if list.is_empty());
    match (is_empty(left), is_empty(right)) {
        (true, false) if right.is_scalar() => Ordering::Less,
        (false, true) if left.is_scalar() => Ordering::Greater,
        _ => nested(left, right),
    }
}

/// The order of two values within others: the longer array and the larger object is above.
fn nested(left: &Node<'_>, right: &Node<'_>) -> Ordering {
    match (&left.kind, &right.kind) {
        (Kind::String(a), Kind::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Kind::Number, Kind::Number) => number::compare(&left.text, &right.text),
        (Kind::Bool(a), Kind::Bool(b)) => a.cmp(b),
        (Kind::Array(a), Kind::Array(b)) => {
            let elements = a.iter().zip(b).map(|(a, b)| nested(a, b));
            first_unequal(a.len().cmp(&b.len()), elements)
        }
        (Kind::Object(a), Kind::Object(b)) => {
            let members = a.iter().zip(b).map(|((name, value), (other_name, other))| {
                name.as_bytes()
                    .cmp(other_name.as_bytes())
                    .then_with(|| nested(value, other))
            });
            first_unequal(a.len().cmp(&b.len()), members)
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn first_unequal(lengths: Ordering, mut parts: impl Iterator<Item = Ordering>) -> Ordering {
    lengths.then_with(|| parts.find(|order| order.is_ne()).unwrap_or(Ordering::Equal))
}

/// Whether one value contains another: `@>`. An array contains a scalar that is one of its elements.
pub fn contains(whole: &Node<'_>, part: &Node<'_>) -> bool {
    match (&whole.kind, &part.kind) {
        (Kind::Array(elements), _) if part.is_scalar() => {
            elements.iter().any(|element| nested(element, part).is_eq())
        }
        _ => within(whole, part),
    }
}

fn within(whole: &Node<'_>, part: &Node<'_>) -> bool {
    match (&whole.kind, &part.kind) {
        (Kind::Object(_), Kind::Object(members)) => members
            .iter()
            .all(|(name, value)| whole.member(name).is_some_and(|found| within(found, value))),
        (Kind::Array(elements), Kind::Array(parts)) => parts
            .iter()
            .all(|part| elements.iter().any(|element| within(element, part))),
        (Kind::Object(_) | Kind::Array(_), _) | (_, Kind::Object(_) | Kind::Array(_)) => false,
        _ => nested(whole, part).is_eq(),
    }
}
