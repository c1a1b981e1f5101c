//! Checks in code between a read and a write: `if (balance < amount) throw`. Each says of a rule that the
//! application probably relies on. It is told, with where it comes from and how sure that is, and nothing
//! else is made of it: whoever wants it kept declares it.

use std::ops::Range;

use anabranch_sql::script::{Confidence, ProbableInvariant};

use crate::{
    sql_outline::SqlOutline,
    value::{Read, Value},
    walk::{Run, Walked},
};

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    /// No comparison: what stands there is true, or is there.
    IsTrue,
}

impl Comparator {
    pub(crate) fn of(operator: &str) -> Option<Comparator> {
        Some(match operator {
            "<" => Comparator::Less,
            "<=" => Comparator::LessOrEqual,
            ">" => Comparator::Greater,
            ">=" => Comparator::GreaterOrEqual,
            "==" | "===" | "is" => Comparator::Equal,
            "!=" | "!==" | "<>" | "is not" => Comparator::NotEqual,
            _ => return None,
        })
    }

    fn negated(self) -> Comparator {
        match self {
            Comparator::Less => Comparator::GreaterOrEqual,
            Comparator::LessOrEqual => Comparator::Greater,
            Comparator::Greater => Comparator::LessOrEqual,
            Comparator::GreaterOrEqual => Comparator::Less,
            Comparator::Equal => Comparator::NotEqual,
            Comparator::NotEqual => Comparator::Equal,
            Comparator::IsTrue => Comparator::IsTrue,
        }
    }

    /// With its sides exchanged.
    fn flipped(self) -> Comparator {
        match self {
            Comparator::Less => Comparator::Greater,
            Comparator::LessOrEqual => Comparator::GreaterOrEqual,
            Comparator::Greater => Comparator::Less,
            Comparator::GreaterOrEqual => Comparator::LessOrEqual,
            other => other,
        }
    }

    fn shown(self) -> &'static str {
        match self {
            Comparator::Less => "<",
            Comparator::LessOrEqual => "<=",
            Comparator::Greater => ">",
            Comparator::GreaterOrEqual => ">=",
            Comparator::Equal | Comparator::IsTrue => "=",
            Comparator::NotEqual => "<>",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) sign: Comparator,
    pub(crate) left: Value,
    pub(crate) right: Value,
    /// Whether it is all of the condition.
    pub(crate) alone: bool,
}

/// A condition that decides what runs.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) comparison: Comparison,
    /// Whether it stands under a NOT.
    pub(crate) negated: bool,
    pub(crate) file: usize,
    pub(crate) range: Range<usize>,
    pub(crate) shown: String,
    /// Whether nothing behind it runs where it holds, and where it does not.
    pub(crate) then_ends: bool,
    pub(crate) otherwise_ends: bool,
    /// The runs in its branches.
    pub(crate) inside: Range<usize>,
}

/// What a function's checks say.
pub(crate) fn probable(walked: &Walked) -> Vec<ProbableInvariant> {
    let outlines: Vec<SqlOutline> = walked
        .runs
        .iter()
        .map(|run| SqlOutline::of(&run.text.shown()))
        .collect();
    let mut found: Vec<ProbableInvariant> = Vec::new();
    for guard in &walked.guards {
        let told = of_guard(guard, walked, &outlines);
        let new = told.filter(|one| {
            !found
                .iter()
                .any(|f| f.rule == one.rule && f.file == one.file)
        });
        found.extend(new);
    }
    for (run, outline) in walked.runs.iter().zip(&outlines) {
        let told = numbered(run, outline, walked, &outlines);
        let new = told.filter(|one| {
            !found
                .iter()
                .any(|f| f.rule == one.rule && f.file == one.file)
        });
        found.extend(new);
    }
    found
}

fn of_guard(guard: &Guard, walked: &Walked, outlines: &[SqlOutline]) -> Option<ProbableInvariant> {
    // Where the condition ends it, its opposite holds behind; else it holds in its branch.
    let behind = guard.then_ends && !guard.otherwise_ends;
    let protected: Vec<usize> = match behind {
        true => (guard.inside.end..outlines.len()).collect(),
        false => guard.inside.clone().collect(),
    };
    let holds = !(behind ^ guard.negated);
    let comparison = &guard.comparison;
    let sign = match holds {
        true => comparison.sign,
        false => comparison.sign.negated(),
    };
    let (rule, confidence, why) = of_rows(comparison, sign, holds, &protected, outlines)
        .or_else(|| of_column(comparison, sign, &protected, walked, outlines))?;
    // Of a condition of several parts one alone may not decide.
    let confidence = match comparison.alone {
        true => confidence,
        false => confidence.min(Confidence::Medium),
    };
    Some(ProbableInvariant {
        transaction: String::new(),
        rule,
        guard: guard.shown.split_whitespace().collect::<Vec<_>>().join(" "),
        file: guard.file,
        range: guard.range.clone(),
        confidence,
        why,
    })
}

fn plain(value: &Value) -> Option<(&Read, &str)> {
    let Value::Scalar(scalar) = value else {
        return None;
    };
    let read = scalar.read.iter().find(|read| read.column.is_some())?;
    Some((read, read.column.as_deref()?))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Scalar(scalar) => scalar.shown.to_string(),
        Value::Nothing => "NULL".to_owned(),
        Value::Text(texts) => format!(
            "'{}'",
            texts.first().map_or_else(String::new, |t| t.shown())
        ),
        _ => "…".to_owned(),
    }
}

/// A rule about a column that was read and compared.
fn of_column(
    comparison: &Comparison,
    sign: Comparator,
    protected: &[usize],
    walked: &Walked,
    outlines: &[SqlOutline],
) -> Option<(String, Confidence, String)> {
    let (read, column, other, sign) = match (plain(&comparison.left), plain(&comparison.right)) {
        (Some((read, column)), None) => (read, column, &comparison.right, sign),
        (None, Some((read, column))) => (read, column, &comparison.left, sign.flipped()),
        _ => return None,
    };
    let table = outlines.get(read.run)?.table.clone()?;
    let below = matches!(sign, Comparator::Greater | Comparator::GreaterOrEqual);
    let above = matches!(sign, Comparator::Less | Comparator::LessOrEqual);
    let same = |run: &Run| {
        let id = |value: &Value| match value {
            Value::Scalar(scalar) => Some(scalar.id),
            _ => None,
        };
        let bound = run
            .bound
            .positional
            .values()
            .chain(run.bound.named.values());
        let wanted = id(other);
        wanted.is_some() && bound.filter_map(id).any(|own| Some(own) == wanted)
    };
    for at in protected {
        let outline = &outlines[*at];
        if outline.table.as_deref() != Some(table.as_str()) {
            continue;
        }
        let set = outline.sets.iter().find(|(name, _)| name == column);
        if let Some((_, expression)) = set {
            let takes = expression.starts_with(&format!("{column} -"))
                || expression.contains(&format!(".{column} -"));
            let adds = expression.starts_with(&format!("{column} +"))
                || expression.contains(&format!(".{column} +"));
            let computed = !takes && !adds && {
                let bound = &walked.runs[*at].bound;
                let mut values = bound.positional.values().chain(bound.named.values());
                values.any(|v| v.read().iter().any(|r| r.column.as_deref() == Some(column)))
            };
            if below && (takes || computed) {
                let sure = same(&walked.runs[*at]) || computed;
                let confidence = if sure {
                    Confidence::High
                } else {
                    Confidence::Medium
                };
                let why = format!(
                    "{column} is read, compared with {}, and then lowered",
                    shown(other)
                );
                return Some((format!("{table}.{column} >= 0"), confidence, why));
            }
            if above && (adds || computed) {
                let why = format!(
                    "{column} is read, compared with {}, and then raised",
                    shown(other)
                );
                let rule = format!(
                    "{table}.{column} {} {}",
                    Comparator::LessOrEqual.shown(),
                    shown(other)
                );
                return Some((rule, Confidence::Medium, why));
            }
        }
        let counts = column.starts_with("count(")
            || column.starts_with("sum(")
            || column == "count"
            || column == "n";
        if counts && above && outline.verb == "insert" {
            let of = if column.contains('(') {
                column
            } else {
                "count(*)"
            };
            let rule = format!(
                "(SELECT {of} FROM {table}) {} {}",
                Comparator::LessOrEqual.shown(),
                shown(other)
            );
            let why = format!(
                "{of} is read, compared with {}, and then a row is inserted",
                shown(other)
            );
            return Some((rule, Confidence::Medium, why));
        }
    }
    let writes = protected
        .iter()
        .any(|at| outlines[*at].verb != "select" && !outlines[*at].verb.is_empty());
    writes.then(|| {
        let rule = format!("{table}.{column} {} {}", sign.shown(), shown(other));
        let why = format!("{column} is read and compared before something else is written");
        (rule, Confidence::Low, why)
    })
}

/// A rule about whether there are rows.
fn of_rows(
    comparison: &Comparison,
    sign: Comparator,
    holds: bool,
    protected: &[usize],
    outlines: &[SqlOutline],
) -> Option<(String, Confidence, String)> {
    let rows = |value: &Value| match value {
        Value::Rows(runs) => runs.first().copied(),
        _ => None,
    };
    let is_nothing = |value: &Value| {
        matches!(value, Value::Nothing) || matches!(value, Value::Scalar(s) if &*s.shown == "0")
    };
    let (run, there) = match (rows(&comparison.left), rows(&comparison.right), sign) {
        (Some(run), None, Comparator::IsTrue) => (run, holds),
        (Some(run), None, Comparator::Equal) if is_nothing(&comparison.right) => (run, false),
        (Some(run), None, Comparator::NotEqual | Comparator::Greater)
            if is_nothing(&comparison.right) =>
        {
            (run, true)
        }
        (Some(run), None, Comparator::LessOrEqual) if is_nothing(&comparison.right) => (run, false),
        (None, Some(run), Comparator::Equal) if is_nothing(&comparison.left) => (run, false),
        (None, Some(run), Comparator::NotEqual | Comparator::Less)
            if is_nothing(&comparison.left) =>
        {
            (run, true)
        }
        _ => return None,
    };
    let read = outlines.get(run)?;
    let table = read.table.clone()?;
    let keys = read.equal.join(", ");
    if keys.is_empty() {
        return None;
    }
    for at in protected {
        let outline = &outlines[*at];
        if outline.verb != "insert" {
            continue;
        }
        let same = outline.table.as_deref() == Some(table.as_str());
        if !there && same {
            let all = read.equal.iter().all(|key| outline.inserted.contains(key));
            let confidence = if all {
                Confidence::High
            } else {
                Confidence::Medium
            };
            let why =
                format!("a row with that {keys} is looked for, and inserted where there is none");
            return Some((format!("UNIQUE ({keys}) of {table}"), confidence, why));
        }
        if there && !same {
            let into = outline.table.clone().unwrap_or_default();
            let why = format!("a row of {table} is looked for before one of {into} is inserted");
            return Some((
                format!("{into} refers to {table} ({keys})"),
                Confidence::Low,
                why,
            ));
        }
    }
    None
}

/// `max(id) + 1`, and `count(*) + 1`.
fn numbered(
    run: &Run,
    outline: &SqlOutline,
    walked: &Walked,
    outlines: &[SqlOutline],
) -> Option<ProbableInvariant> {
    if outline.verb != "insert" {
        return None;
    }
    let bound = run
        .bound
        .positional
        .values()
        .chain(run.bound.named.values());
    let mut reads = bound.flat_map(Value::read);
    let read = reads.find(|read| {
        let column = read.column.as_deref().unwrap_or_default();
        let text = walked
            .runs
            .get(read.run)
            .map_or_else(String::new, |r| r.text.shown().to_lowercase());
        let from = outlines.get(read.run).and_then(|o| o.table.clone());
        let aggregate =
            column.contains("max(") || column.contains("count(") || text.contains("max(");
        aggregate && from == outline.table
    })?;
    let of = walked.runs.get(read.run)?;
    let table = outline.table.clone()?;
    Some(ProbableInvariant {
        transaction: String::new(),
        rule: format!("ids of {table} follow one another"),
        guard: of
            .text
            .shown()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
        file: of.file,
        range: of.at..of.at,
        confidence: Confidence::Medium,
        why:
            "what is inserted is computed from the greatest, or the number, of those that are there"
                .to_owned(),
    })
}
