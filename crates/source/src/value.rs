//! Abstract values: what an expression may evaluate to, as far as it is known without running the program.
//!
//! Texts are folded: a text is a sequence of known pieces and holes, with several alternatives where branches differ.
//! Any other value has an identity: two uses of one [`Scalar`] are uses of the same value, and no two scalars are
//! known to be equal.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use crate::{
    sql_outline::{Control, declares, statements, without_leading_comments},
    syntax::Literal,
};

/// The most alternatives of one text.
pub(crate) const ALTERNATIVES_MAX: usize = 32;
/// The most bytes and the most pieces of one folded text.
pub(crate) const TEXT_MAX: usize = 1_000_000;
pub(crate) const PIECES_MAX: usize = 50_000;

/// The largest weight of a list or a map: the number of its parts, counted recursively.
const WEIGHT_MAX: usize = 10_000;

/// A single value that is not a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    /// Identifies the value within one walk.
    pub(crate) id: u32,
    /// The expression that it stands for, as written.
    pub(crate) shown: Arc<str>,
    /// The number of loops around the place where it was made: it differs between the iterations of each of them.
    pub(crate) loops: usize,
    /// The reads that it was computed from: statement and column.
    pub(crate) read: Arc<[Read]>,
    /// Whether it is certainly a number.
    pub(crate) number: bool,
    /// Whether it leads to a database: a method called on it may run SQL.
    pub(crate) database: bool,
    /// The value of which it is the negative.
    pub(crate) minus: Option<Arc<Scalar>>,
}

/// A read by a statement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Read {
    /// The run of the statement, by number.
    pub(crate) run: usize,
    /// The column as selected; none if it is unknown, or if only the existence of a row is known.
    pub(crate) column: Option<String>,
    /// Whether the value is the column itself, not computed from it.
    pub(crate) plain: bool,
}

/// Removes duplicate reads and keeps the first of each, so that a value computed from itself repeatedly does not
/// grow.
pub(crate) fn deduplicated(mut read: Vec<Read>) -> Vec<Read> {
    if read.len() < 2 {
        return read;
    }
    let mut seen = BTreeSet::new();
    read.retain(|one| seen.insert(one.clone()));
    read
}

/// A known piece of a text, or a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text {
        file: usize,
        text: Arc<str>,
        places: Arc<[u32]>,
    },
    Hole {
        value: Scalar,
        file: usize,
        place: u32,
        /// Whether the value is bound as a parameter beside the text.
        bound: bool,
    },
}

/// A text with holes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoldedText {
    pub(crate) pieces: Vec<Piece>,
}

impl FoldedText {
    pub(crate) fn known(file: usize, literal: &Literal) -> FoldedText {
        FoldedText {
            pieces: vec![Piece::Text {
                file,
                text: literal.text.clone(),
                places: literal.places.clone(),
            }],
        }
    }

    pub(crate) fn hole(value: Scalar, file: usize, place: u32) -> FoldedText {
        let bound = false;
        FoldedText {
            pieces: vec![Piece::Hole {
                value,
                file,
                place,
                bound,
            }],
        }
    }

    /// The number of known bytes, with one for each hole.
    pub(crate) fn length(&self) -> usize {
        let of = |piece: &Piece| match piece {
            Piece::Text { text, .. } => text.len(),
            Piece::Hole { .. } => 1,
        };
        self.pieces.iter().map(of).sum()
    }

    /// The text with `…` for each hole.
    pub(crate) fn shown(&self) -> String {
        let mut shown = String::new();
        for piece in &self.pieces {
            shown.push_str(match piece {
                Piece::Text { text, .. } => text,
                Piece::Hole { .. } => "…",
            });
        }
        shown
    }

    /// The known text before the first hole.
    pub(crate) fn head(&self) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text { text, .. } => out.push_str(text),
                Piece::Hole { .. } => break,
            }
        }
        out
    }

    /// The statements of a fully known text that mixes declarations with other statements; `None` for any other text.
    pub(crate) fn mixed(&self) -> Option<Vec<FoldedText>> {
        let may_be =
            |piece: &Piece| matches!(piece, Piece::Text { text, .. } if text.contains(';'));
        // Cheap test first: most texts have no semicolon.
        if !self.pieces.iter().any(may_be) {
            return None;
        }
        let head = self.head();
        if head.len() < self.length() {
            return None;
        }
        let all: Vec<Range<usize>> = statements(&head)
            .into_iter()
            .filter(|range| !head[range.clone()].trim().is_empty())
            .collect();
        let text = |range: &Range<usize>| &head[range.clone()];
        let some = all.iter().any(|range| declares(text(range)));
        let known = all
            .iter()
            .all(|range| Control::of(text(range)).is_some() || looks_like_sql(text(range)));
        let others = all.iter().any(|range| looks_like_sql(text(range)));
        (some && known && others).then(|| all.iter().map(|range| self.part(range)).collect())
    }

    /// A range of the known text.
    fn part(&self, range: &Range<usize>) -> FoldedText {
        let mut pieces = Vec::new();
        let mut done = 0;
        for piece in &self.pieces {
            if let Piece::Text { file, text, places } = piece {
                let start = range.start.clamp(done, done + text.len()) - done;
                let end = range.end.clamp(done, done + text.len()) - done;
                if start < end {
                    pieces.push(Piece::Text {
                        file: *file,
                        text: text[start..end].into(),
                        places: places[start..end.min(places.len())].into(),
                    });
                }
                done += text.len();
            }
        }
        FoldedText { pieces }
    }

    /// Whether the text begins like SQL.
    pub(crate) fn is_sql(&self) -> bool {
        let head = self.head();
        if looks_like_sql(&head) {
            return true;
        }
        // The verb may be followed by an unknown table: `UPDATE ${table} SET`.
        let begins = head.trim_start().to_ascii_lowercase();
        let verb = ["update", "merge", "call", "insert", "delete", "select"]
            .iter()
            .any(|verb| begins.starts_with(verb));
        verb && self.pieces.len() > 1 && looks_like_sql(&self.shown().replace('…', "hole"))
    }
}

/// Whether a text begins like an SQL statement.
pub(crate) fn looks_like_sql(text: &str) -> bool {
    let rest = without_leading_comments(text);
    let rest = rest.trim_start_matches(['(', '{', ' ', '?', '=']);
    let mut words = rest
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase);
    let first = words.next().unwrap_or_default();
    // The words after the first one tell SQL from prose.
    let behind = rest.get(first.len()..).unwrap_or_default();
    let apart = behind.starts_with(char::is_whitespace);
    let second = words.next().unwrap_or_default();
    let has = |word: &str| rest.to_ascii_lowercase().contains(word);
    match first.as_str() {
        "select" => apart && (has(" from") || has("\nfrom") || has("\tfrom") || is_call(behind)),
        "insert" | "replace" => {
            apart && (second == "into" || second == "ignore" || second == "low_priority")
        }
        "delete" => apart && (second == "from" || has(" from ")),
        "update" => apart && has("set") && !second.is_empty(),
        "merge" => apart && second == "into",
        "truncate" => apart && second == "table",
        "do" => apart && rest.contains("$$"),
        "with" => {
            apart
                && has(" as")
                && (has("select") || has("update") || has("delete") || has("insert"))
        }
        "call" => (apart || first == "call") && behind.contains('('),
        "lock" => apart && (second == "table" || second == "tables"),
        "values" => behind.trim_start().starts_with('('),
        _ => false,
    }
}

/// `SELECT f(…)`.
fn is_call(behind: &str) -> bool {
    let name = behind.trim_start();
    let length = name
        .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
        .unwrap_or(name.len());
    length > 0 && name[length..].starts_with('(')
}

/// An abstract value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// One of several alternative texts.
    Text(Vec<FoldedText>),
    Scalar(Scalar),
    /// A prepared statement: one of these.
    Handle(Vec<usize>),
    /// The result of one of these runs of statements.
    Rows(Vec<usize>),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
    /// A function, by its number in the project.
    Function(usize),
    /// One of these functions, which the program chooses while it runs.
    OneOf(Vec<usize>),
    /// Null, or the result of a function without a return value.
    Nothing,
}

impl Value {
    /// The reads that it depends on.
    pub(crate) fn read(&self) -> Vec<Read> {
        let mut found: Vec<Read> = Vec::new();
        self.collect_read(&mut found);
        deduplicated(found)
    }

    /// The functions that it may be; `None` if it may be anything else.
    pub(crate) fn functions(&self) -> Option<Vec<usize>> {
        match self {
            Value::Function(at) => Some(vec![*at]),
            Value::OneOf(all) => Some(all.clone()),
            _ => None,
        }
    }

    /// One of these functions.
    pub(crate) fn one_of(mut functions: Vec<usize>) -> Value {
        functions.sort_unstable();
        functions.dedup();
        match functions.as_slice() {
            [one] => Value::Function(*one),
            _ => Value::OneOf(functions),
        }
    }

    /// Whether it depends on any read.
    pub(crate) fn has_read(&self) -> bool {
        match self {
            Value::Scalar(scalar) => !scalar.read.is_empty(),
            Value::Rows(runs) => !runs.is_empty(),
            Value::List(values) => values.iter().any(Value::has_read),
            Value::Map(pairs) => pairs.iter().any(|(_, value)| value.has_read()),
            Value::Text(texts) => texts
                .iter()
                .flat_map(|t| &t.pieces)
                .any(|piece| matches!(piece, Piece::Hole { value, .. } if !value.read.is_empty())),
            Value::Handle(_) | Value::Function(_) | Value::OneOf(_) | Value::Nothing => false,
        }
    }

    /// Whether it leads to a database, such as an object that keeps a connection.
    pub(crate) fn leads_to_database(&self) -> bool {
        match self {
            Value::Scalar(scalar) => scalar.database,
            Value::Map(pairs) => pairs.iter().any(|(_, value)| value.leads_to_database()),
            Value::List(values) => values.iter().any(Value::leads_to_database),
            _ => false,
        }
    }

    /// Whether it exceeds the weight limit: nested lists would outgrow memory.
    pub(crate) fn is_too_big(&self) -> bool {
        self.weight() > WEIGHT_MAX
    }

    fn weight(&self) -> usize {
        1 + match self {
            Value::Text(texts) => texts.iter().map(|text| text.pieces.len()).sum(),
            Value::List(values) => values.iter().map(Value::weight).sum(),
            Value::Map(pairs) => pairs.iter().map(|(_, value)| value.weight()).sum(),
            Value::Handle(all) | Value::Rows(all) | Value::OneOf(all) => all.len(),
            Value::Scalar(_) | Value::Function(_) | Value::Nothing => 0,
        }
    }

    fn collect_read(&self, found: &mut Vec<Read>) {
        match self {
            Value::Scalar(scalar) => found.extend(scalar.read.iter().cloned()),
            Value::Rows(runs) => found.extend(runs.iter().map(|run| Read {
                run: *run,
                column: None,
                plain: false,
            })),
            Value::List(values) => values.iter().for_each(|v| v.collect_read(found)),
            Value::Map(pairs) => pairs.iter().for_each(|(_, v)| v.collect_read(found)),
            Value::Text(texts) => {
                for piece in texts.iter().flat_map(|t| &t.pieces) {
                    if let Piece::Hole { value, .. } = piece {
                        found.extend(value.read.iter().cloned());
                    }
                }
            }
            Value::Handle(_) | Value::Function(_) | Value::OneOf(_) | Value::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_is_told_from_prose() {
        for sql in [
            "SELECT * FROM t",
            "  select\n 1\nfrom t",
            "-- why\nUPDATE t SET n = 1",
            "/* a */ INSERT INTO t VALUES (1)",
            "SELECT nextval('s')",
            "{call transfer(?, ?)}",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "delete from t",
            "(SELECT a FROM b)",
        ] {
            assert!(looks_like_sql(sql), "{sql}");
        }
        for prose in [
            "Select a file",
            "update failed",
            "insert coin",
            "delete",
            "with care",
            "Call me",
            "select",
            "",
            "-- only a remark",
            "SELECTED from",
        ] {
            assert!(!looks_like_sql(prose), "{prose}");
        }
    }
}
