//! Binds MERGE: each clause as a part of a compound statement, and for the analyser as a statement of its own.
//!
//! `WHEN MATCHED` is an UPDATE or DELETE of the target, joined with the source; `WHEN NOT MATCHED` is an INSERT of the
//! source rows without a target row; `WHEN NOT MATCHED BY SOURCE` is an UPDATE or DELETE of the target rows without a
//! source row. A clause applies to a row only if the earlier clauses of its kind do not: their conditions are part of
//! its own.

use sqlparser::ast::{
    self, Expr, MergeAction, MergeClauseKind, MergeInsertKind, MergeUpdateKind, SelectItem,
    SetExpr, TableFactor, TableWithJoins,
};

use super::{Bind, Binder, fold, modify::Shared, template, with::several};
use crate::{
    diagnostic::Diagnostic,
    expression::Expression,
    plan::{
        Body,
        statement::{CompoundKind, Statement, StatementKind},
        walk,
    },
};

/// The kinds of clauses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Matched,
    NotMatched,
    NotMatchedBySource,
}

impl Binder<'_> {
    /// MERGE.
    pub(crate) fn merge(&mut self, merge: &ast::Merge, shared: &Shared<'_>) -> Bind<Statement> {
        let place = self.place;
        let unsupported = |what: &str| Err(Diagnostic::unsupported(what, place));
        if merge.output.is_some() {
            return unsupported("RETURNING of a MERGE");
        }
        if !matches!(&merge.table, TableFactor::Table { args: None, .. }) {
            return unsupported("this target of a MERGE");
        }
        if merge.source.to_string().contains(" SKIP LOCKED") && merge.clauses.len() > 1 {
            return unsupported("SKIP LOCKED in the source of a MERGE");
        }
        self.check_names(merge)?;
        let target = self.hidden_from_ctes(&merge.table);
        let mut before: Vec<(When, Option<Expr>)> = Vec::new();
        let mut clauses = Vec::new();
        for clause in &merge.clauses {
            let when = match clause.clause_kind {
                MergeClauseKind::Matched => When::Matched,
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                    When::NotMatched
                }
                MergeClauseKind::NotMatchedBySource => When::NotMatchedBySource,
            };
            let mut conditions = vec![match when {
                When::Matched => (*merge.on).clone(),
                When::NotMatched => not_in(&target, &merge.on),
                When::NotMatchedBySource => not_in(&merge.source, &merge.on),
            }];
            for (_, earlier) in before.iter().filter(|(of, _)| *of == when) {
                match earlier {
                    Some(condition) => {
                        let condition = Box::new(Expr::Nested(Box::new(condition.clone())));
                        conditions.push(Expr::IsNotTrue(condition));
                    }
                    None => {
                        let message =
                            "unreachable WHEN clause specified after unconditional WHEN clause";
                        return Err(Diagnostic::new("42601", message, place));
                    }
                }
            }
            conditions.extend(clause.predicate.clone());
            before.push((when, clause.predicate.clone()));
            let statement = match &clause.action {
                MergeAction::DoNothing { .. } => continue,
                MergeAction::Update(update) => {
                    let MergeUpdateKind::Set(assignments) = &update.kind else {
                        return unsupported("UPDATE SET * of a MERGE");
                    };
                    if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                        return unsupported("WHERE in a clause of MERGE");
                    }
                    let ast::Statement::Update(mut statement) =
                        template::statement("UPDATE t SET c = 0 FROM s WHERE true")
                    else {
                        unreachable!("it is written so")
                    };
                    statement.table = relation(&merge.table);
                    statement.assignments = assignments.clone();
                    statement.selection = all_of(conditions);
                    statement.from = (when == When::Matched)
                        .then(|| ast::UpdateTableFromKind::AfterSet(vec![relation(&merge.source)]));
                    self.update(&statement, shared)?
                }
                MergeAction::Delete { .. } => {
                    let ast::Statement::Delete(mut statement) =
                        template::statement("DELETE FROM t USING s WHERE true")
                    else {
                        unreachable!("it is written so")
                    };
                    statement.from = ast::FromTable::WithFromKeyword(vec![relation(&merge.table)]);
                    statement.selection = all_of(conditions);
                    statement.using =
                        (when == When::Matched).then(|| vec![relation(&merge.source)]);
                    self.delete(&statement)?
                }
                MergeAction::Insert(insert) => {
                    if insert.insert_predicate.is_some() {
                        return unsupported("WHERE in a clause of MERGE");
                    }
                    let statement = inserting(merge, insert, conditions);
                    let Some(statement) = statement else {
                        return unsupported("this INSERT of a MERGE");
                    };
                    self.insert(&statement, shared)?
                }
            };
            self.scopes.clear();
            clauses.push(statement);
        }
        if clauses.len() > 1 && clauses.iter().any(chooses_by_drawing) {
            // Each clause evaluates them for itself.
            return unsupported("a function that draws in the source or a condition of a MERGE");
        }
        Ok(several(CompoundKind::Merge, clauses, place))
    }

    /// Binds ON over the target and the source together, so that a name means the same in each clause.
    fn check_names(&mut self, merge: &ast::Merge) -> Bind<()> {
        let ast::Statement::Query(mut query) = template::statement("SELECT 1 FROM t WHERE true")
        else {
            unreachable!("it is written so")
        };
        if let SetExpr::Select(select) = &mut *query.body {
            let target = self.hidden_from_ctes(&merge.table);
            select.from = vec![relation(&target), relation(&merge.source)];
            select.selection = Some((*merge.on).clone());
        }
        let accesses = std::mem::take(&mut self.accesses);
        let bound = self.query(&query);
        self.accesses = accesses;
        self.scopes.clear();
        bound.map(|_| ())
    }

    /// A target, named so that no common table expression of the name is meant.
    fn hidden_from_ctes(&self, target: &TableFactor) -> TableFactor {
        let mut target = target.clone();
        if let TableFactor::Table { name, .. } = &mut target
            && let [ast::ObjectNamePart::Identifier(only)] = &name.0[..]
            && self.ctes.iter().any(|cte| cte.name == fold(only))
        {
            let schema = ast::ObjectNamePart::Identifier(ast::Ident::new("public"));
            name.0.insert(0, schema);
        }
        target
    }
}

/// Whether which rows a clause changes depends on what is drawn.
fn chooses_by_drawing(clause: &Statement) -> bool {
    let mut draws = false;
    let mut visit = |expression: &Expression| draws |= expression.is_volatile();
    match &clause.kind {
        StatementKind::Update(update) => walk::steps(&update.steps, &mut visit),
        StatementKind::Delete(delete) => walk::steps(&delete.steps, &mut visit),
        StatementKind::Insert(insert) => match &insert.query.body {
            Body::Select(select) => walk::select_but_output(select, &mut visit),
            _ => draws = true,
        },
        StatementKind::Query(_) | StatementKind::Compound(_) => {}
    }
    draws
}

/// The INSERT of the source rows without a target row.
fn inserting(
    merge: &ast::Merge,
    insert: &ast::MergeInsertExpr,
    conditions: Vec<Expr>,
) -> Option<ast::Insert> {
    let TableFactor::Table { name, .. } = &merge.table else {
        return None;
    };
    let MergeInsertKind::Values(values) = &insert.kind else {
        return None;
    };
    let [row] = values.rows.as_slice() else {
        return None;
    };
    let is_default = |value: &Expr| matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && name.value == "default");
    let mut columns = insert.columns.clone();
    let mut values: Vec<Expr> = row.iter().cloned().collect();
    if values.iter().any(is_default) {
        if columns.len() != values.len() {
            return None;
        }
        // Columns that are not named get their defaults.
        let mut named = values.iter().map(|value| !is_default(value));
        columns.retain(|_| named.next().unwrap_or(true));
        values.retain(|value| !is_default(value));
    }
    let ast::Statement::Insert(mut statement) =
        template::statement("INSERT INTO t (c) SELECT 0 FROM s WHERE true")
    else {
        return None;
    };
    statement.table = ast::TableObject::TableName(name.clone());
    statement.columns = columns;
    let SetExpr::Select(select) = &mut *statement.source.as_mut()?.body else {
        return None;
    };
    select.projection = values.into_iter().map(SelectItem::UnnamedExpr).collect();
    select.from = vec![relation(&merge.source)];
    select.selection = all_of(conditions);
    Some(statement)
}

/// Whether no row of a table satisfies a condition.
fn not_in(table: &TableFactor, condition: &Expr) -> Expr {
    let ast::Statement::Query(mut query) = template::statement("SELECT 1 FROM t WHERE true") else {
        unreachable!("it is written so")
    };
    if let SetExpr::Select(select) = &mut *query.body {
        select.from = vec![relation(table)];
        select.selection = Some(condition.clone());
    }
    Expr::Exists {
        subquery: query,
        negated: true,
    }
}

fn relation(factor: &TableFactor) -> TableWithJoins {
    TableWithJoins {
        relation: factor.clone(),
        joins: Vec::new(),
    }
}

fn all_of(conditions: Vec<Expr>) -> Option<Expr> {
    let nested = conditions.into_iter().map(|e| Expr::Nested(Box::new(e)));
    nested.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: ast::BinaryOperator::And,
        right: Box::new(right),
    })
}
