//! A block as one transaction type: everything that its statements do, in any order and any number of times.

use anabranch_sql::source::Span;
use anabranch_sql::summary::{
    Deferral, ResultUse, StatementId, StatementSummary, Term, TransactionSummary, WriteClass,
};

/// Statements of blocks are numbered from here in summaries, apart from those of the application and of other clients'
/// statements.
const FIRST_ID: u32 = 1 << 31;

/// The type of a block whose statements and procedures are `parts`.
///
/// What a client does between two statements is unknown: each value that it sends may depend on what it has read. It
/// sees every result, and may stop after each statement.
pub(super) fn merge(parts: &[TransactionSummary]) -> TransactionSummary {
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    let nowhere = Span {
        file: 0,
        start: 0,
        end: 0,
    };
    let mut merged = TransactionSummary {
        name: super::shape::title(&names.join("; ")),
        span: parts.first().map_or(nowhere, |part| part.span),
        parameters: Vec::new(),
        statements: Vec::new(),
        may_end_early: true,
        keeps: Vec::new(),
        unknown: parts.iter().find_map(|part| part.unknown.clone()),
        may_change_any_table: parts.iter().any(|part| part.may_change_any_table),
        only_reads: parts.iter().all(|part| part.only_reads),
    };
    let mut loops = 0;
    for part in parts {
        let first = FIRST_ID + merged.statements.len() as u32;
        let number = |id: StatementId| {
            let ids = part.statements.iter().map(|statement| statement.id);
            let place = ids.zip(0..).find(|(of, _)| *of == id);
            place.map_or(id, |(_, place)| StatementId(first + place))
        };
        let outer = loops;
        for statement in &part.statements {
            let mut own = general(statement, &number);
            own.path = [outer]
                .into_iter()
                .chain(statement.path.iter().map(|inner| outer + 1 + inner))
                .collect();
            loops = own.path.iter().copied().fold(loops, u32::max);
            merged.statements.push(own);
        }
        loops += 1;
    }
    merged
}

fn general(
    statement: &StatementSummary,
    number: &impl Fn(StatementId) -> StatementId,
) -> StatementSummary {
    let mut own = StatementSummary {
        id: number(statement.id),
        in_loop: true,
        result: ResultUse::Used,
        deferral: Deferral::None,
        // The client may write more, whatever the statement finds.
        ..statement.clone()
    };
    for access in &mut own.accesses {
        for condition in &mut access.conditions {
            condition.term = of_client(&condition.term, number);
        }
        for write in &mut access.writes {
            for term in write.amount_null_by.iter_mut().flatten() {
                *term = of_client(term, number);
            }
            match &mut write.class {
                WriteClass::Assign(term) | WriteClass::Add { term, .. } => {
                    *term = of_client(term, number);
                }
                WriteClass::FromRow | WriteClass::FromData => {}
            }
        }
        access.has_other_conditions |= !access.listed.is_empty();
        access.listed.clear();
    }
    own
}

/// A term of a statement, as it is in a block.
fn of_client(term: &Term, number: &impl Fn(StatementId) -> StatementId) -> Term {
    match term.clone() {
        // The client may have computed it from anything that it has read.
        Term::Parameter(_) | Term::Negated(_) | Term::Element(_) | Term::Pure => Term::Unknown,
        Term::Column {
            statement,
            access,
            column,
        } => Term::Column {
            statement: number(statement),
            access,
            column,
        },
        Term::Incremented {
            statement,
            column,
            offset,
        } => Term::Incremented {
            statement: number(statement),
            column,
            offset,
        },
        Term::Aggregate {
            function,
            statement,
            access,
            column,
            offset,
        } => Term::Aggregate {
            function,
            statement: number(statement),
            access,
            column,
            offset,
        },
        other => other,
    }
}
