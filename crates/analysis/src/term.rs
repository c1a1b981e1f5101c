//! Reasoning about [`Term`]s: which are surely equal, which surely differ.

use anabranch_sql::summary::{StatementId, Term};
use anabranch_types::{ColumnIndex, Value};

use crate::footprint::Footprint;

/// Whether two terms of one call surely have different values for some inputs: distinct parameters or distinct
/// constants. Unknown terms count as equal: a transaction type is assumed to be right when it runs alone.
pub(crate) fn surely_differ(a: &Term, b: &Term) -> bool {
    match (a, b) {
        (Term::Parameter(a), Term::Parameter(b)) | (Term::Element(a), Term::Element(b)) => a != b,
        (Term::Constant(a), Term::Constant(b)) => a != b,
        (Term::Parameter(_), Term::Element(_) | Term::Constant(_))
        | (Term::Element(_) | Term::Constant(_), Term::Parameter(_))
        | (Term::Element(_), Term::Constant(_))
        | (Term::Constant(_), Term::Element(_)) => true,
        _ => false,
    }
}

/// Whether two terms of one call surely have the same value. Elements of one array do not: each row has its own.
pub(crate) fn surely_equal(a: &Term, b: &Term) -> bool {
    match a {
        Term::Parameter(_) | Term::Constant(_) | Term::Column { .. } | Term::Incremented { .. } => {
            a == b
        }
        Term::Aggregate { .. } | Term::Negated(_) | Term::Now => a == b,
        Term::Element(_) | Term::Generated | Term::Pure | Term::Unknown => false,
    }
}

/// A term of the type `owner`, for people.
pub(crate) fn describe(footprint: &Footprint<'_>, owner: usize, term: &Term) -> String {
    let summary = footprint.types[owner].summary;
    let parameter = |i: usize| {
        summary
            .parameters
            .get(i)
            .map_or_else(|| format!("${}", i + 1), |(name, _)| name.clone())
    };
    let column = |statement: &StatementId, access: usize, column: ColumnIndex| {
        let access = summary
            .statements
            .iter()
            .find(|s| s.id == *statement)
            .and_then(|s| s.accesses.get(access));
        access.map_or_else(
            || "a column".into(),
            |a| footprint.column_name(a.table, column),
        )
    };
    match term {
        Term::Constant(Value::Int(n)) => n.to_string(),
        Term::Constant(Value::Text(text)) => format!("'{text}'"),
        Term::Constant(Value::Null) => "NULL".into(),
        Term::Constant(_) => "a constant".into(),
        Term::Parameter(i) => parameter(*i),
        Term::Element(i) => format!("each of {}", parameter(*i)),
        Term::Column {
            statement,
            access,
            column: c,
        } => column(statement, *access, *c),
        Term::Incremented { .. } => "the incremented value".into(),
        Term::Aggregate {
            function,
            statement,
            access: Some(access),
            column: Some(c),
            ..
        } => {
            format!("{function}({})", column(statement, *access, *c))
        }
        Term::Aggregate { function, .. } => format!("{function}(*)"),
        Term::Generated => "a generated value".into(),
        Term::Now => "the current time".into(),
        Term::Negated(i) => format!("-{}", parameter(*i)),
        Term::Pure => "computed".into(),
        Term::Unknown => "not known".into(),
    }
}
