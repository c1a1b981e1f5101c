//! Probable rules, from checks between a read and a write: `if (balance < amount) throw`.
//!
//! The application probably relies on such a rule. It is reported with its source and a confidence, and has no further
//! effect; the developer declares it if it is to be kept.

use anabranch_sql::script::{Confidence, ProbableInvariant};

use crate::{
    guard::{Comparator, Comparison, Guard},
    sql_outline::SqlOutline,
    value::{Read, Value},
    walk::{Bound, Run, Walked},
};

/// The probable rules of a function.
pub(crate) fn probable(walked: &Walked) -> Vec<ProbableInvariant> {
    let outlines: Vec<SqlOutline> = walked
        .runs
        .iter()
        .map(|run| SqlOutline::of(&run.text.shown()))
        .collect();
    let mut found: Vec<ProbableInvariant> = Vec::new();
    for guard in &walked.guards {
        let rule = of_guard(guard, walked, &outlines);
        let new = rule.filter(|one| {
            !found
                .iter()
                .any(|f| f.rule == one.rule && f.file == one.file)
        });
        found.extend(new);
    }
    for (run, outline) in walked.runs.iter().zip(&outlines) {
        let rule = numbered(run, outline, walked, &outlines);
        let new = rule.filter(|one| {
            !found
                .iter()
                .any(|f| f.rule == one.rule && f.file == one.file)
        });
        found.extend(new);
    }
    found
}

fn of_guard(guard: &Guard, walked: &Walked, outlines: &[SqlOutline]) -> Option<ProbableInvariant> {
    // If the condition leaves the function, its negation holds afterwards; otherwise it holds in its branch.
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
    // One part of a compound condition may not decide alone.
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

/// A rule, how certain it is, and why.
type Rule = (String, Confidence, String);

/// A rule on a column that was read and compared.
fn of_column(
    comparison: &Comparison,
    sign: Comparator,
    protected: &[usize],
    walked: &Walked,
    outlines: &[SqlOutline],
) -> Option<Rule> {
    let (read, column, other, sign) = match (plain(&comparison.left), plain(&comparison.right)) {
        (Some((read, column)), None) => (read, column, &comparison.right, sign),
        (None, Some((read, column))) => (read, column, &comparison.left, sign.flipped()),
        _ => return None,
    };
    let compared = ComparedColumn {
        table: outlines.get(read.run)?.table.clone()?,
        column,
        other,
        sign,
    };
    for at in protected {
        let outline = &outlines[*at];
        if outline.table.as_deref() != Some(compared.table.as_str()) {
            continue;
        }
        let rule = compared
            .bound_by_update(outline, &walked.runs[*at])
            .or_else(|| compared.bound_by_insert(outline));
        if rule.is_some() {
            return rule;
        }
    }
    let writes = protected
        .iter()
        .any(|at| outlines[*at].verb != "select" && !outlines[*at].verb.is_empty());
    writes.then(|| {
        let ComparedColumn { table, column, .. } = &compared;
        let rule = format!("{table}.{column} {} {}", sign.shown(), shown(other));
        let why = format!("{column} is read and compared before something else is written");
        (rule, Confidence::Low, why)
    })
}

/// A column that was read and compared with a value.
struct ComparedColumn<'c> {
    table: String,
    column: &'c str,
    other: &'c Value,
    sign: Comparator,
}

impl ComparedColumn<'_> {
    fn has_lower_bound(&self) -> bool {
        matches!(self.sign, Comparator::Greater | Comparator::GreaterOrEqual)
    }

    fn has_upper_bound(&self) -> bool {
        matches!(self.sign, Comparator::Less | Comparator::LessOrEqual)
    }

    /// The bound that an UPDATE of the column after the check suggests.
    fn bound_by_update(&self, outline: &SqlOutline, run: &Run) -> Option<Rule> {
        let (table, column, other) = (&self.table, self.column, shown(self.other));
        let (_, expression) = outline.sets.iter().find(|(name, _)| name == column)?;
        let takes = expression.starts_with(&format!("{column} -"))
            || expression.contains(&format!(".{column} -"));
        let adds = expression.starts_with(&format!("{column} +"))
            || expression.contains(&format!(".{column} +"));
        let computed = !takes && !adds && {
            let mut reads = bound_values(run).flat_map(Value::read);
            reads.any(|read| read.column.as_deref() == Some(column))
        };
        if self.has_lower_bound() && (takes || computed) {
            let confidence = match computed || self.is_bound_to(run) {
                true => Confidence::High,
                false => Confidence::Medium,
            };
            let why = format!("{column} is read, compared with {other}, and then lowered");
            return Some((format!("{table}.{column} >= 0"), confidence, why));
        }
        if self.has_upper_bound() && (adds || computed) {
            let why = format!("{column} is read, compared with {other}, and then raised");
            let rule = format!(
                "{table}.{column} {} {other}",
                Comparator::LessOrEqual.shown()
            );
            return Some((rule, Confidence::Medium, why));
        }
        None
    }

    /// The bound on a count or a sum that an INSERT after the check suggests.
    fn bound_by_insert(&self, outline: &SqlOutline) -> Option<Rule> {
        let (table, column, other) = (&self.table, self.column, shown(self.other));
        let counts = column.starts_with("count(")
            || column.starts_with("sum(")
            || column == "count"
            || column == "n";
        if !counts || !self.has_upper_bound() || outline.verb != "insert" {
            return None;
        }
        let of = match column.contains('(') {
            true => column,
            false => "count(*)",
        };
        let rule = format!(
            "(SELECT {of} FROM {table}) {} {other}",
            Comparator::LessOrEqual.shown()
        );
        let why = format!("{of} is read, compared with {other}, and then a row is inserted");
        Some((rule, Confidence::Medium, why))
    }

    /// Whether the value that the column is compared with is bound to this run.
    fn is_bound_to(&self, run: &Run) -> bool {
        let id = |value: &Value| match value {
            Value::Scalar(scalar) => Some(scalar.id),
            _ => None,
        };
        let wanted = id(self.other);
        wanted.is_some()
            && bound_values(run)
                .filter_map(id)
                .any(|own| Some(own) == wanted)
    }
}

/// All values bound to a run.
fn bound_values(run: &Run) -> impl Iterator<Item = &Value> {
    let Bound {
        positional, named, ..
    } = &run.bound;
    positional.values().chain(named.values())
}

/// A rule on the existence of rows.
fn of_rows(
    comparison: &Comparison,
    sign: Comparator,
    holds: bool,
    protected: &[usize],
    outlines: &[SqlOutline],
) -> Option<Rule> {
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
            // Not unique, but apart from each other: no two bookings of one room at a time.
            if let Some(condition) = &read.condition {
                let why =
                    "the code looks for such a row, and inserts one if there is none".to_owned();
                let rule = format!("no two rows of {table} that meet by {condition}");
                return Some((rule, Confidence::High, why));
            }
            let all = read.equal.iter().all(|key| outline.inserted.contains(key));
            let confidence = if all {
                Confidence::High
            } else {
                Confidence::Medium
            };
            let why = format!(
                "the code looks for a row with this {keys}, and inserts one if there is none"
            );
            return Some((format!("UNIQUE ({keys}) of {table}"), confidence, why));
        }
        if there && !same {
            let into = outline.table.clone().unwrap_or_default();
            let why =
                format!("the code looks for a row of {table} before it inserts one of {into}");
            return Some((
                format!("{into} refers to {table} ({keys})"),
                Confidence::Low,
                why,
            ));
        }
    }
    None
}

/// Ids computed as `max(id) + 1` or `count(*) + 1`.
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
        why: "the inserted value is computed from the maximum or the count of the existing rows"
            .to_owned(),
    })
}
