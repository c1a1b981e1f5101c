//! Summaries of compiled procedures for the analyser, from the data flow in them ([`super::analyze`]).

use std::collections::BTreeSet;

use anabranch_types::{ColumnIndex, DataType};

use super::{
    Code, CompiledProcedure,
    absence::absences,
    analyze::{Calling, State, is_pure, is_update},
};
use crate::{
    bind::{RawWrite, term::RawTerm},
    plan::{
        Body,
        statement::{Insert, Statement, StatementKind},
    },
    summary::{
        ColumnWrite, Condition, Deferral, ResultUse, Role, StatementId, StatementSummary,
        TableAccess, Term, TransactionSummary, WriteClass,
    },
};

impl CompiledProcedure {
    /// The summary of the procedure, with the statements of the procedures that it calls.
    pub(crate) fn summary(&self) -> TransactionSummary {
        let mut statements = Vec::new();
        self.summarize(&self.by_itself(), &mut statements);
        statements.sort_by_key(|statement| statement.id);
        let mut accesses = statements.iter().flat_map(|of| &of.accesses);
        let only_reads = accesses.all(|access| access.role == Role::Read);
        TransactionSummary {
            name: self.name.clone(),
            span: self.span,
            parameters: self.parameters.clone(),
            statements,
            may_end_early: leaves(&self.body, true),
            keeps: self.keeps.clone(),
            unknown: None,
            only_reads,
            may_change_any_table: false,
        }
    }

    fn summarize(&self, calling: &Calling, statements: &mut Vec<StatementSummary>) {
        let findings = self.walked(calling);
        let absences = match calling.within {
            false => absences(self),
            // The caller may have written before, and goes on after a RETURN.
            true => BTreeSet::new(),
        };
        for (place, site) in self.statements.iter().enumerate() {
            let state = findings.before[place].as_ref();
            let told = !site.statement.columns.is_empty();
            // The caller may use a result that is carried to it, and a part the results of those before it.
            let used = findings.used.contains(&place)
                || site
                    .statement
                    .kind
                    .parts()
                    .iter()
                    .any(|part| !part.columns.is_empty())
                || told && !is_update(&site.statement)
                || calling.within && findings.carried.contains(&place);
            let result = if used {
                ResultUse::Used
            } else if findings.carried.contains(&place) {
                ResultUse::Carried
            } else {
                ResultUse::Unused
            };
            let id = StatementId(calling.first + place as u32);
            statements.push(StatementSummary {
                id,
                span: site.statement.span,
                in_loop: site.in_loop || calling.in_loop,
                path: findings.paths[place].clone(),
                may_skip_rows: may_skip_rows(&site.statement.kind),
                inserts_one: is_one_insert(&site.statement.kind),
                finds_none: absences.contains(&place),
                accesses: accesses(&site.statement, id, state),
                result,
                deferral: match calling.within {
                    true => Deferral::None,
                    false => site.deferral,
                },
                has_program: has_program(&site.statement.kind),
                may_fail: may_fail(&site.statement.kind),
            });
        }
        for (offset, call) in findings.calls {
            let calling = Calling {
                first: self.first_called(calling.first, offset),
                arguments: call.arguments,
                within: true,
                in_loop: calling.in_loop || call.in_loop,
                path: call.path,
            };
            call.procedure.summarize(&calling, statements);
        }
    }
}

/// The summary of a statement that belongs to no procedure, as a transaction type of its own.
pub(crate) fn statement_summary(
    name: &str,
    statement: &Statement,
    id: StatementId,
    parameters: &[DataType],
) -> TransactionSummary {
    let state = State::of_parameters(parameters.len());
    let accesses = accesses(statement, id, Some(&state));
    let only_reads = accesses.iter().all(|access| access.role == Role::Read);
    let named =
        |(number, data_type): (usize, &DataType)| (format!("${}", number + 1), data_type.clone());
    TransactionSummary {
        name: name.to_owned(),
        span: statement.span,
        parameters: parameters.iter().enumerate().map(named).collect(),
        statements: vec![StatementSummary {
            id,
            span: statement.span,
            in_loop: false,
            path: Vec::new(),
            may_skip_rows: may_skip_rows(&statement.kind),
            inserts_one: is_one_insert(&statement.kind),
            finds_none: false,
            accesses,
            result: match statement.columns.is_empty() {
                true => ResultUse::Unused,
                // The result of an UPDATE goes to the client, and nowhere else.
                false if is_update(statement) => ResultUse::Carried,
                false => ResultUse::Used,
            },
            deferral: Deferral::None,
            has_program: has_program(&statement.kind),
            may_fail: may_fail(&statement.kind),
        }],
        may_end_early: false,
        keeps: Vec::new(),
        unknown: None,
        only_reads,
        may_change_any_table: false,
    }
}

fn has_program(kind: &StatementKind) -> bool {
    matches!(kind, StatementKind::Update(update) if update.deferred.is_some())
}

fn may_fail(kind: &StatementKind) -> bool {
    let StatementKind::Update(update) = kind else {
        return false;
    };
    update.deferred.as_ref().is_some_and(|it| it.may_fail)
}

fn may_skip_rows(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::Insert(insert) => insert.conflict.is_some(),
        StatementKind::Compound(_) => true,
        _ => false,
    }
}

fn is_one_insert(kind: &StatementKind) -> bool {
    matches!(kind, StatementKind::Insert(insert) if inserts_one(insert))
}

/// A statement's accesses to tables, with the variables of `state` resolved.
fn accesses(statement: &Statement, id: StatementId, state: Option<&State>) -> Vec<TableAccess> {
    let resolve = |raw: &RawTerm| match state {
        Some(state) => state.resolve(raw, id, &statement.accesses),
        None => Term::Unknown,
    };
    let class = |raw: &RawWrite| match raw {
        RawWrite::Assign(term) => WriteClass::Assign(resolve(term)),
        RawWrite::Add { term, negated, .. } => WriteClass::Add {
            term: resolve(term),
            negated: *negated,
        },
        RawWrite::FromRow { slots, .. } => {
            let known = |slot: &usize| state.is_some_and(|state| is_pure(&state.terms[*slot]));
            if slots.iter().all(known) {
                WriteClass::FromRow
            } else {
                WriteClass::FromData
            }
        }
        RawWrite::FromData => WriteClass::FromData,
    };
    let listed = |(column, slot): &(ColumnIndex, usize)| match state?.terms[*slot] {
        Term::Parameter(parameter) => Some((*column, parameter)),
        _ => None,
    };
    statement
        .accesses
        .iter()
        .map(|access| TableAccess {
            table: access.table,
            role: access.role,
            columns_read: access.columns_read.clone(),
            columns_returned: access.columns_returned.clone(),
            writes: access
                .writes
                .iter()
                .map(|(column, raw)| ColumnWrite {
                    column: *column,
                    class: class(raw),
                    null_by: match raw {
                        RawWrite::FromRow { null_by, .. } => null_by.clone(),
                        _ => Vec::new(),
                    },
                    amount_null_by: match raw {
                        RawWrite::Add { null_by, .. } => null_by
                            .as_ref()
                            .map(|terms| terms.iter().map(resolve).collect()),
                        _ => None,
                    },
                })
                .collect(),
            conditions: access
                .conditions
                .iter()
                .map(|(column, comparison, raw)| Condition {
                    column: *column,
                    comparison: *comparison,
                    term: resolve(raw),
                })
                .collect(),
            has_other_conditions: access.has_other_conditions,
            listed: access.listed.iter().filter_map(listed).collect(),
            draws_key: access.draws_key,
            span: access.span,
        })
        .collect()
}

/// Whether a statement before the last may end the procedure, or an enclosing loop; `to_the_end` if `codes` are the
/// last.
fn leaves(codes: &[Code], to_the_end: bool) -> bool {
    let last = codes.len().saturating_sub(1);
    codes.iter().enumerate().any(|(at, code)| match code {
        Code::Return(_) => !to_the_end || at < last,
        Code::Exit(..) | Code::Continue(..) | Code::Call { .. } => true,
        Code::If {
            branches,
            otherwise,
        } => branches.iter().any(|(_, body)| leaves(body, false)) || leaves(otherwise, false),
        Code::ForRange { body, .. }
        | Code::ForQuery { body, .. }
        | Code::ForEach { body, .. }
        | Code::While { body, .. } => leaves(body, false),
        _ => false,
    })
}

/// Whether an INSERT puts exactly one row there, or fails: `VALUES` of one row, or a SELECT of values
/// alone, without ON CONFLICT.
fn inserts_one(insert: &Insert) -> bool {
    let Body::Select(select) = &insert.query.body else {
        return false;
    };
    insert.conflict.is_none()
        && insert.query.ctes.is_empty()
        && select.steps.is_empty()
        && select.finish.limit.is_none()
        && select.finish.offset.is_none()
}
