//! Changes of a `jsonb`, as `jsonfuncs.c` of PostgreSQL 15 makes them.

use anabranch_types::{
    Value,
    json::{Kind, Node, from_start},
};

use super::{super::Failure, failure, invalid, place_of};

/// A change at the end of a path.
pub(super) enum Edit<'t> {
    Delete,
    Set { new: Node<'t>, create: bool },
    Insert { new: Node<'t>, after: bool },
}

/// A scalar as an array of one element; any other value as it is.
fn as_array(node: Node<'_>) -> Node<'_> {
    match node.is_scalar() {
        true => Node::made(Kind::Array(vec![node])),
        false => node,
    }
}

/// `||`: two objects are merged, the right one's members win; otherwise the elements follow each other, and what is no
/// array is an element.
pub(super) fn concat<'t>(left: Node<'t>, right: Node<'t>) -> Node<'t> {
    let elements = |node: Node<'t>| match node.kind {
        Kind::Array(elements) => elements,
        _ => vec![node],
    };
    match (as_array(left), as_array(right)) {
        (
            Node {
                kind: Kind::Object(mut members),
                ..
            },
            Node {
                kind: Kind::Object(more),
                ..
            },
        ) => {
            // Of equal keys the last counts.
            members.extend(more);
            Node::made(Kind::Object(members))
        }
        (left, right) => {
            let mut list = elements(left);
            list.extend(elements(right));
            Node::made(Kind::Array(list))
        }
    }
}

/// `-`: without a member or the elements that are this string, or without the element at a place.
pub(super) fn delete<'t>(target: Node<'t>, what: &Value) -> Result<Node<'t>, Failure> {
    let kind = match (target.kind, what) {
        (Kind::Object(_), Value::Int(_)) => {
            return Err(invalid("cannot delete from object using integer index"));
        }
        (Kind::Array(mut elements), Value::Int(place)) => {
            let place = from_start(*place, elements.len());
            if let Some(place) = place.filter(|place| *place < elements.len()) {
                elements.remove(place);
            }
            Kind::Array(elements)
        }
        (Kind::Object(mut members), keys) => {
            members.retain(|(name, _)| !is_among(name, keys));
            Kind::Object(members)
        }
        (Kind::Array(mut elements), keys) => {
            elements.retain(|element| match &element.kind {
                Kind::String(content) => !is_among(content, keys),
                _ => true,
            });
            Kind::Array(elements)
        }
        _ => return Err(invalid("cannot delete from scalar")),
    };
    Ok(Node::made(kind))
}

/// Whether a key is this text, or one of these texts.
fn is_among(key: &str, keys: &Value) -> bool {
    match keys {
        Value::Text(text) => text == key,
        Value::Array(list) => list.iter().any(|one| is_among(key, one)),
        _ => false,
    }
}

/// Without the members that are null, on all levels. Elements stay.
pub(super) fn strip_nulls(node: Node<'_>) -> Node<'_> {
    let kind = match node.kind {
        Kind::Array(elements) => Kind::Array(elements.into_iter().map(strip_nulls).collect()),
        Kind::Object(members) => {
            let kept = members
                .into_iter()
                .filter(|(_, value)| !matches!(value.kind, Kind::Null))
                .map(|(name, value)| (name, strip_nulls(value)));
            Kind::Object(kept.collect())
        }
        _ => return node,
    };
    Node::made(kind)
}

/// The document with a change at a path.
pub(super) fn at_path<'t>(
    target: Node<'t>,
    path: &'t [Value],
    edit: Edit<'t>,
) -> Result<Node<'t>, Failure> {
    if target.is_scalar() {
        return Err(invalid(match edit {
            Edit::Delete => "cannot delete path in scalar",
            _ => "cannot set path in scalar",
        }));
    }
    let is_empty = match &target.kind {
        Kind::Array(elements) => elements.is_empty(),
        Kind::Object(members) => members.is_empty(),
        _ => false,
    };
    let creates = !matches!(edit, Edit::Delete | Edit::Set { create: false, .. });
    if path.is_empty() || is_empty && !creates {
        return Ok(target);
    }
    changed(target, path, 0, edit)
}

fn changed<'t>(
    mut node: Node<'t>,
    path: &'t [Value],
    level: usize,
    edit: Edit<'t>,
) -> Result<Node<'t>, Failure> {
    let Value::Text(step) = &path[level] else {
        let message = format!("path element at position {} is null", level + 1);
        return Err(failure("22004", message));
    };
    let is_last = level + 1 == path.len();
    match &mut node.kind {
        Kind::Object(members) => {
            let found = members.iter().rposition(|(name, _)| *name == **step);
            match (found, edit) {
                (Some(at), edit) if !is_last => {
                    let inner = std::mem::replace(&mut members[at].1, Node::made(Kind::Null));
                    members[at].1 = changed(inner, path, level + 1, edit)?;
                }
                (Some(at), Edit::Delete) => {
                    members.remove(at);
                }
                (Some(at), Edit::Set { new, .. }) => members[at].1 = new,
                (Some(_), Edit::Insert { .. }) => {
                    let error = invalid("cannot replace existing key");
                    let hint = "Try using the function jsonb_set to replace key value.";
                    return Err(Box::new(error.with_hint(hint)));
                }
                (None, Edit::Set { new, create: true } | Edit::Insert { new, .. }) if is_last => {
                    members.push((step.as_str().into(), new));
                }
                (None, _) => {}
            }
        }
        Kind::Array(elements) => {
            let Some(place) = place_of(step) else {
                let message = format!(
                    "path element at position {} is not an integer: \"{step}\"",
                    level + 1
                );
                return Err(failure("22P02", message));
            };
            let length = elements.len();
            let found = from_start(place, length);
            let inside = found.filter(|at| *at < length);
            match (inside, edit) {
                (Some(at), edit) if !is_last => {
                    let inner = std::mem::replace(&mut elements[at], Node::made(Kind::Null));
                    elements[at] = changed(inner, path, level + 1, edit)?;
                }
                (Some(at), Edit::Delete) => {
                    elements.remove(at);
                }
                (Some(at), Edit::Set { new, .. }) => elements[at] = new,
                (Some(at), Edit::Insert { new, after }) => {
                    elements.insert(at + usize::from(after), new);
                }
                (None, Edit::Set { new, create: true } | Edit::Insert { new, .. }) if is_last => {
                    // Beyond one of the ends.
                    match found {
                        Some(_) => elements.push(new),
                        None => elements.insert(0, new),
                    }
                }
                (None, _) => {}
            }
        }
        // A path ends at a scalar.
        _ => return Ok(node),
    }
    node.text = "".into();
    Ok(node)
}
