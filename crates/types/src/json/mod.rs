//! JSON as PostgreSQL's types `json` and `jsonb` hold it.
//!
//! A `json` is the text that a client sent, once [`check`] has found it valid. A [`Jsonb`] is the text in normal form,
//! the one that PostgreSQL writes: keys ordered by length and then by bytes, of equal keys the last, numbers without
//! exponents, one blank behind each colon and comma. So a part of a normal text is normal, and operators cut texts.
//!
//! Numbers have as many digits as a text gives them, up to PostgreSQL's limits: unlike a `numeric` here they are not
//! computed with. Documents have at most [`DEPTH_MAX`] levels.

mod number;
mod order;
mod parse;
mod write;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

pub use number::compare as compare_numbers;
pub use order::contains;
pub use write::{write_pretty, write_string};

/// The most levels of arrays and objects within each other.
pub const DEPTH_MAX: usize = 250;

/// The most bytes of a text that is made. A few digits with an exponent are a number of many thousands.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// Why a text is no JSON, in PostgreSQL's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// The SQLSTATE.
    pub code: &'static str,
    /// The message.
    pub message: &'static str,
    /// What is wrong where.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl JsonError {
    fn new(code: &'static str, message: &'static str) -> JsonError {
        JsonError {
            code,
            message,
            detail: None,
            hint: None,
        }
    }

    fn too_deep() -> JsonError {
        let hint = format!("A JSON value has at most {DEPTH_MAX} levels.");
        JsonError::new("54001", "stack depth limit exceeded").with_hint(hint)
    }

    fn with_detail(mut self, detail: impl Into<String>) -> JsonError {
        self.detail = Some(detail.into());
        self
    }

    fn with_hint(mut self, hint: impl Into<String>) -> JsonError {
        self.hint = Some(hint.into());
        self
    }
}

/// A value of type `jsonb`, as its normal text.
///
/// Equality, order and hash are PostgreSQL's: `1.0` equals `1`.
#[derive(Clone, Serialize, Deserialize)]
pub struct Jsonb(CompactString);

/// A part of a document.
#[derive(Clone, Debug)]
pub struct Node<'t> {
    /// Its text in the document.
    pub text: Cow<'t, str>,
    /// What it is.
    pub kind: Kind<'t>,
}

/// The kinds of JSON values.
#[derive(Clone, Debug)]
pub enum Kind<'t> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, which is the node's text.
    Number,
    /// A string without its quotes and escapes.
    String(Cow<'t, str>),
    /// The elements of an array.
    Array(Vec<Node<'t>>),
    /// The members of an object, in the order of the text.
    Object(Vec<(Cow<'t, str>, Node<'t>)>),
}

impl<'t> Node<'t> {
    /// Parses a text.
    ///
    /// # Errors
    /// `22P02` if the text is not JSON, `22P05` for the character `\u0000`, `54001` for too many levels.
    pub fn parse(text: &'t str) -> Result<Node<'t>, JsonError> {
        parse::parse(text, parse::Escapes::Read)
    }

    /// A node that no document has yet.
    pub fn made(kind: Kind<'t>) -> Node<'t> {
        Node {
            text: Cow::Borrowed(""),
            kind,
        }
    }

    /// The name that `jsonb_typeof` gives the kind.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "boolean",
            Kind::Number => "number",
            Kind::String(_) => "string",
            Kind::Array(_) => "array",
            Kind::Object(_) => "object",
        }
    }

    /// Whether it is neither an array nor an object.
    pub fn is_scalar(&self) -> bool {
        !matches!(self.kind, Kind::Array(_) | Kind::Object(_))
    }

    /// The member with this key; of several, the last. `None` if it is no object or has none.
    pub fn member(&self, key: &str) -> Option<&Node<'t>> {
        match &self.kind {
            Kind::Object(members) => {
                let found = members.iter().rev().find(|(name, _)| name == key);
                found.map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The element at this place, counted from 0, or from the end by a negative number. `None` if it is no array or
    /// has none.
    pub fn element(&self, place: i64) -> Option<&Node<'t>> {
        match &self.kind {
            Kind::Array(elements) => elements.get(from_start(place, elements.len())?),
            _ => None,
        }
    }

    /// The text that `->>` gives: a string's content, nothing for `null`, any other value as it is written.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Null => None,
            Kind::String(content) => Some(content),
            _ => Some(&self.text),
        }
    }

    /// Appends the normal text.
    ///
    /// # Errors
    /// `22003` for a number beyond PostgreSQL's `numeric`, `54001` for a document that is too deep, `54000` for one that is too
    /// long.
    pub fn write_normal(&self, out: &mut String) -> Result<(), JsonError> {
        write::normal(self, 0, out)
    }
}

/// A place that may be counted from the end, counted from 0.
pub fn from_start(place: i64, length: usize) -> Option<usize> {
    match usize::try_from(place) {
        Ok(place) => Some(place),
        Err(_) => length.checked_sub(usize::try_from(place.unsigned_abs()).ok()?),
    }
}

/// Checks that a text is valid as a `json`, which keeps it as it is.
///
/// # Errors
/// As [`Node::parse`]; escapes are checked for their form alone, as in PostgreSQL.
pub fn check(text: &str) -> Result<(), JsonError> {
    parse::parse(text, parse::Escapes::Check).map(drop)
}

impl Jsonb {
    /// The value that a text is.
    ///
    /// # Errors
    /// As [`Node::parse`] and [`Jsonb::of`].
    pub fn parse(text: &str) -> Result<Jsonb, JsonError> {
        Jsonb::of(&Node::parse(text)?)
    }

    /// The value that a node is.
    ///
    /// # Errors
    /// `22003` for a number beyond PostgreSQL's `numeric`, `54001` for a document that is too deep, `54000` for one that is too
    /// long.
    pub fn of(node: &Node<'_>) -> Result<Jsonb, JsonError> {
        let mut normal = String::with_capacity(node.text.len() + node.text.len() / 8);
        node.write_normal(&mut normal)?;
        Ok(Jsonb(normal.into()))
    }

    /// The value with this normal text: a stored one, or a part of another value.
    pub fn of_normal(text: impl Into<CompactString>) -> Jsonb {
        Jsonb(text.into())
    }

    /// The normal text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes that the text holds outside of the value itself.
    pub fn heap_bytes(&self) -> usize {
        if self.0.is_heap_allocated() {
            self.0.capacity()
        } else {
            0
        }
    }

    /// The value's parts.
    ///
    /// # Panics
    /// If the text is not normal.
    pub fn root(&self) -> Node<'_> {
        Node::parse(&self.0).expect("the text of a jsonb is JSON")
    }

    /// A text that is the same for equal values, and for no others.
    pub fn canonical(&self) -> Cow<'_, str> {
        // Only digits behind a point can differ between equal values.
        if !self.0.contains('.') {
            return Cow::Borrowed(&self.0);
        }
        let mut out = String::with_capacity(self.0.len());
        write::canonical(&self.root(), &mut out);
        Cow::Owned(out)
    }
}

impl PartialEq for Jsonb {
    fn eq(&self, other: &Jsonb) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Jsonb {}

impl PartialOrd for Jsonb {
    fn partial_cmp(&self, other: &Jsonb) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Jsonb {
    fn cmp(&self, other: &Jsonb) -> Ordering {
        if self.0 == other.0 {
            return Ordering::Equal;
        }
        order::compare(&self.root(), &other.root())
    }
}

impl Hash for Jsonb {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().hash(state);
    }
}

impl fmt::Debug for Jsonb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
