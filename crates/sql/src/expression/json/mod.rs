//! Operators and functions over `json` and `jsonb`.
//!
//! A document is parsed each time it is used. A part of it is cut out of its text: what `->` gives of a `json` has the
//! blanks that the client sent, and what it gives of a `jsonb` is in normal form, as the whole is.

mod build;
mod edit;

use anabranch_types::{
    DataType, Jsonb, TimeZone, Value,
    json::{JsonError, Kind, Node, contains, write_pretty},
};

use super::{Failure, budget::within_value, cast::is_zoned, failure};

pub(crate) use build::Members;

/// A function over JSON. The variants of its first argument say whether it is a `json` or a `jsonb`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JsonFunction {
    /// `->` by a key or a place; `->>` as text.
    Get { text: bool },
    /// `#>` by an array of keys and places; `#>>` as text.
    GetPath { text: bool },
    /// `@>`
    Contains,
    /// `?`
    Exists,
    /// `?|`, or `?&` if all have to be there.
    ExistAmong { all: bool },
    /// `||`
    Concat,
    /// `-` of a key, a place or an array of keys.
    Delete,
    /// `#-`
    DeletePath,
    /// `jsonb_set(target, path, value, create_if_missing)`
    Set,
    /// `jsonb_insert(target, path, value, insert_after)`
    Insert,
    /// Without the members that are null.
    StripNulls,
    /// Over several lines.
    Pretty,
    /// `json_typeof`
    TypeOf,
    /// `json_array_length`
    ArrayLength,
    /// The elements of an array, as an array; `text` as `->>` gives them.
    Elements { text: bool },
    /// The keys of an object, as an array, for the function with this name.
    Keys(&'static str),
    /// The values of an object, as an array; `text` as `->>` gives them.
    MemberValues { text: bool },
    /// `to_json` of a value of this type.
    Of(DataType),
    /// An element of what an aggregate makes: as `to_json`, and `null` for NULL.
    Item(DataType),
    /// A key of what an aggregate makes, from a value of this type.
    Key(DataType),
    /// `json_build_array`; NULLs count.
    BuildArray(Vec<DataType>),
    /// `json_build_object` of keys and values; NULLs count.
    BuildObject(Vec<DataType>),
    /// A row with these column names and types.
    Row(Members),
}

impl JsonFunction {
    /// Whether its value depends on settings in PostgreSQL: those that make JSON of any value.
    pub(crate) fn reads_settings(&self) -> bool {
        matches!(
            self,
            JsonFunction::Of(_)
                | JsonFunction::Item(_)
                | JsonFunction::Key(_)
                | JsonFunction::BuildArray(_)
                | JsonFunction::BuildObject(_)
                | JsonFunction::Row(_)
        )
    }

    /// Whether its value depends on the session's time zone, its arguments apart.
    pub(crate) fn reads_zone(&self) -> bool {
        match self {
            JsonFunction::Of(of) | JsonFunction::Item(of) | JsonFunction::Key(of) => is_zoned(of),
            JsonFunction::BuildArray(types) | JsonFunction::BuildObject(types) => {
                types.iter().any(is_zoned)
            }
            JsonFunction::Row(members) => members.iter().any(|(_, of)| is_zoned(of)),
            _ => false,
        }
    }

    /// Whether it takes NULLs for values.
    fn takes_nulls(&self) -> bool {
        matches!(
            self,
            JsonFunction::Item(_)
                | JsonFunction::BuildArray(_)
                | JsonFunction::BuildObject(_)
                | JsonFunction::Row(_)
        )
    }
}

/// A document among the arguments.
enum Document<'v> {
    Json(&'v str),
    Jsonb(&'v Jsonb),
}

impl<'v> Document<'v> {
    fn of(value: &'v Value) -> Result<Document<'v>, Failure> {
        match value {
            Value::Text(text) => Ok(Document::Json(text)),
            Value::Jsonb(json) => Ok(Document::Jsonb(json)),
            other => Err(failure("XX000", format!("{other:?} is no JSON"))),
        }
    }

    fn root(&self) -> Result<Node<'v>, Failure> {
        match self {
            Document::Json(text) => Node::parse(text).map_err(of_json),
            Document::Jsonb(json) => Ok(json.root()),
        }
    }

    /// A part of the document as a value of the document's type, or as text.
    fn part(&self, node: &Node<'_>, text: bool) -> Value {
        match self {
            _ if text => node.as_text().map_or(Value::Null, Value::text),
            Document::Json(_) => Value::text(&node.text),
            Document::Jsonb(_) => Value::Jsonb(Jsonb::of_normal(&*node.text)),
        }
    }

    /// The beginning of the names of functions over the document.
    fn prefix(&self) -> &'static str {
        match self {
            Document::Json(_) => "json",
            Document::Jsonb(_) => "jsonb",
        }
    }
}

fn of_json(error: JsonError) -> Failure {
    Box::new(error.into())
}

fn invalid(message: impl Into<String>) -> Failure {
    failure("22023", message)
}

/// The value of a function.
pub(super) fn call(
    function: &JsonFunction,
    arguments: &[Value],
    zone: &TimeZone,
) -> Result<Value, Failure> {
    if !function.takes_nulls() && arguments.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    let text = match function {
        JsonFunction::Of(data_type) | JsonFunction::Item(data_type) => {
            build::text_of(&arguments[0], data_type, zone)?
        }
        JsonFunction::Key(data_type) => build::key_of(&arguments[0], data_type, zone),
        JsonFunction::BuildArray(types) => build::array(arguments, types, zone)?,
        JsonFunction::BuildObject(types) => build::object(arguments, types, zone)?,
        JsonFunction::Row(members) => build::row(arguments, members, zone)?,
        _ => return of_document(function, &arguments[0], &arguments[1..]),
    };
    within_value(text.len())?;
    Ok(Value::Text(text.into()))
}

fn of_document(
    function: &JsonFunction,
    document: &Value,
    rest: &[Value],
) -> Result<Value, Failure> {
    let document = Document::of(document)?;
    let root = document.root()?;
    Ok(match (function, rest) {
        (JsonFunction::Get { text }, [Value::Text(key)]) => root
            .member(key)
            .map_or(Value::Null, |node| document.part(node, *text)),
        (JsonFunction::Get { text }, [Value::Int(place)]) => {
            element(&document, &root, *place).map_or(Value::Null, |node| document.part(node, *text))
        }
        (JsonFunction::GetPath { text }, [Value::Array(path)]) => {
            at_path(&root, path).map_or(Value::Null, |node| document.part(node, *text))
        }
        (JsonFunction::Contains, [part]) => {
            let part = Document::of(part)?;
            Value::Bool(contains(&root, &part.root()?))
        }
        (JsonFunction::Exists, [Value::Text(key)]) => Value::Bool(exists(&root, key)),
        (JsonFunction::ExistAmong { all }, [Value::Array(keys)]) => {
            let mut keys = keys.iter().filter_map(|key| match key {
                Value::Text(key) => Some(exists(&root, key)),
                _ => None,
            });
            Value::Bool(match all {
                true => keys.all(|exists| exists),
                false => keys.any(|exists| exists),
            })
        }
        (JsonFunction::Pretty, []) => {
            let mut out = String::new();
            write_pretty(&root, 0, &mut out);
            within_value(out.len())?;
            Value::Text(out.into())
        }
        (JsonFunction::TypeOf, []) => Value::text(root.type_name()),
        (JsonFunction::ArrayLength, []) => match &root.kind {
            Kind::Array(elements) => Value::Int(elements.len() as i64),
            Kind::Object(_) => return Err(invalid("cannot get array length of a non-array")),
            _ => return Err(invalid("cannot get array length of a scalar")),
        },
        (JsonFunction::Elements { text }, []) => match &root.kind {
            Kind::Array(elements) => {
                let parts = elements.iter().map(|node| document.part(node, *text));
                Value::Array(parts.collect())
            }
            Kind::Object(_) => return Err(not_elements(&document, *text, true)),
            _ => return Err(not_elements(&document, *text, false)),
        },
        (JsonFunction::Keys(name), []) => match &root.kind {
            Kind::Object(members) => {
                Value::Array(members.iter().map(|(key, _)| Value::text(key)).collect())
            }
            _ => return Err(not_members(&root, name)),
        },
        (JsonFunction::MemberValues { text }, []) => match &root.kind {
            Kind::Object(members) => {
                let parts = members.iter().map(|(_, node)| document.part(node, *text));
                Value::Array(parts.collect())
            }
            // The keys, which come first, say so.
            _ => Value::Null,
        },
        (JsonFunction::StripNulls, []) => {
            let stripped = edit::strip_nulls(root);
            match document {
                Document::Json(_) => {
                    let mut out = String::new();
                    build::compact(&stripped, &mut out);
                    Value::Text(out.into())
                }
                Document::Jsonb(_) => jsonb(&stripped)?,
            }
        }
        (JsonFunction::Concat, [other]) => {
            let other = Document::of(other)?;
            jsonb(&edit::concat(root, other.root()?))?
        }
        (JsonFunction::Delete, [what]) => jsonb(&edit::delete(root, what)?)?,
        (JsonFunction::DeletePath, [Value::Array(path)]) => {
            jsonb(&edit::at_path(root, path, edit::Edit::Delete)?)?
        }
        (JsonFunction::Set, [Value::Array(path), new, Value::Bool(create)]) => {
            let new = Document::of(new)?;
            let edit = edit::Edit::Set {
                new: new.root()?,
                create: *create,
            };
            jsonb(&edit::at_path(root, path, edit)?)?
        }
        (JsonFunction::Insert, [Value::Array(path), new, Value::Bool(after)]) => {
            let new = Document::of(new)?;
            let edit = edit::Edit::Insert {
                new: new.root()?,
                after: *after,
            };
            jsonb(&edit::at_path(root, path, edit)?)?
        }
        (function, rest) => {
            let message = format!("{function:?} is not defined on {rest:?}");
            return Err(failure("XX000", message));
        }
    })
}

fn jsonb(node: &Node<'_>) -> Result<Value, Failure> {
    let json = Jsonb::of(node).map_err(of_json)?;
    within_value(json.as_str().len())?;
    Ok(Value::Jsonb(json))
}

/// The element at a place. PostgreSQL holds a `jsonb` that is a scalar as an array of one element.
fn element<'n>(document: &Document<'_>, root: &'n Node<'n>, place: i64) -> Option<&'n Node<'n>> {
    match document {
        Document::Jsonb(_) if root.is_scalar() && matches!(place, 0 | -1) => Some(root),
        _ => root.element(place),
    }
}

/// The part at a path. A step into an array is a whole number.
fn at_path<'n>(root: &'n Node<'n>, path: &[Value]) -> Option<&'n Node<'n>> {
    let mut node = root;
    if path.iter().any(Value::is_null) {
        return None;
    }
    for step in path {
        let Value::Text(step) = step else {
            return None;
        };
        node = match &node.kind {
            Kind::Object(_) => node.member(step)?,
            Kind::Array(_) => node.element(place_of(step)?)?,
            _ => return None,
        };
    }
    Some(node)
}

/// The number that a step of a path is, as C's `strtol` reads it.
fn place_of(step: &str) -> Option<i64> {
    let digits = step.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let place: i32 = digits.parse().ok()?;
    Some(place.into())
}

/// Whether there is a member with this key, or an element that is this string.
fn exists(root: &Node<'_>, key: &str) -> bool {
    let is_key = |node: &Node<'_>| matches!(&node.kind, Kind::String(content) if content == key);
    match &root.kind {
        Kind::Object(_) => root.member(key).is_some(),
        Kind::Array(elements) => elements.iter().any(is_key),
        _ => is_key(root),
    }
}

fn not_elements(document: &Document<'_>, text: bool, is_object: bool) -> Failure {
    let what = match (document, is_object) {
        (Document::Jsonb(_), true) => "cannot extract elements from an object".to_owned(),
        (Document::Jsonb(_), false) => "cannot extract elements from a scalar".to_owned(),
        (Document::Json(_), is_object) => format!(
            "cannot call {}_array_elements{} on a {}",
            document.prefix(),
            if text { "_text" } else { "" },
            if is_object { "non-array" } else { "scalar" }
        ),
    };
    invalid(what)
}

fn not_members(root: &Node<'_>, name: &str) -> Failure {
    let is_keys = name.ends_with("object_keys");
    invalid(match &root.kind {
        Kind::Array(_) if is_keys => format!("cannot call {name} on an array"),
        Kind::Array(_) if name.starts_with("json_") => {
            "cannot deconstruct an array as an object".to_owned()
        }
        _ if is_keys => format!("cannot call {name} on a scalar"),
        _ if name.starts_with("json_") => "cannot deconstruct a scalar".to_owned(),
        _ => format!("cannot call {name} on a non-object"),
    })
}

/// The text of the values that an aggregate has collected, as a value.
pub(crate) fn aggregated(text: String, binary: bool) -> Result<Value, Failure> {
    within_value(text.len())?;
    match binary {
        true => Jsonb::parse(&text).map(Value::Jsonb).map_err(of_json),
        false => Ok(Value::Text(text.into())),
    }
}

/// Appends a string with its quotes and escapes.
pub(crate) fn push_string(out: &mut String, content: &str) {
    anabranch_types::json::write_string(out, content);
}
