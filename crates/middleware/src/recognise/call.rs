//! Statements that are one call of a declared routine and nothing else: `CALL f(…)`, `SELECT f(…)`,
//! `SELECT … FROM f(…)`.
//!
//! Beside the call there may be expressions that touch no rows: constants, parameters, columns of the routine's result,
//! operators, and functions that are known to have no effects. Whatever is not known to be such an expression makes the
//! statement something else than a call, for it could touch rows of the application.

use std::collections::BTreeMap;

use anabranch_sql::catalog::{Parameter, ParameterMode, Procedure, RoutineKind, is_builtin};
use sqlparser::ast::{
    self, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, LimitClause, ObjectName, OrderByKind, Query, Select, SelectItem, SetExpr,
    TableFactor,
};

use super::operand::Operand;
use super::shape::{Written, value};
use super::words::{Lexeme, closing};

/// A call of a routine.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The routine's place among the plan's transaction types.
    pub(super) place: usize,
    /// The arguments of the parameters that route the type, by the parameter's index among the inputs.
    pub(super) arguments: Vec<(usize, Operand)>,
}

/// A declared routine.
#[derive(Clone, Debug)]
pub(super) struct Routine {
    /// Its place among the plan's transaction types.
    pub(super) place: usize,
    /// The parameters that route it, by their indexes among the inputs.
    pub(super) routing: Vec<usize>,
    /// Its declaration; `None` if it was not analysed. Then its calls may have any arguments.
    pub(super) declaration: Option<Declaration>,
}

/// What a call has to fit.
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    kind: RoutineKind,
    parameters: Vec<Parameter>,
}

impl Declaration {
    pub(super) fn of(procedure: &Procedure) -> Declaration {
        Declaration {
            kind: procedure.kind,
            parameters: procedure.parameters.clone(),
        }
    }

    /// The input parameters.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Parameter> {
        let parameters = self.parameters.iter();
        parameters.filter(|parameter| parameter.mode != ParameterMode::Out)
    }

    /// By input parameter its argument or its default. `None` if a routine of this declaration cannot be called so.
    fn arguments<'e>(&'e self, given: &[&'e FunctionArg]) -> Option<Vec<&'e Expr>> {
        let given: Option<Vec<(Option<String>, &Expr)>> =
            given.iter().map(|argument| named(argument)).collect();
        let found = self.placed(given?)?;
        let inputs = (0..self.parameters.len())
            .filter(|place| self.parameters[*place].mode != ParameterMode::Out);
        let values = inputs.map(|place| found[place].or(self.parameters[place].default.as_ref()));
        values.collect()
    }

    /// Arguments, some of them with names, by parameter.
    fn placed<A: Clone>(&self, given: Vec<(Option<String>, A)>) -> Option<Vec<Option<A>>> {
        // CALL has arguments for OUT parameters, too; they are not evaluated.
        let counts = |parameter: &Parameter| {
            self.kind == RoutineKind::Procedure || parameter.mode != ParameterMode::Out
        };
        let places: Vec<usize> = (0..self.parameters.len())
            .filter(|place| counts(&self.parameters[*place]))
            .collect();
        let mut found: Vec<Option<A>> = vec![None; self.parameters.len()];
        for (at, (name, argument)) in given.into_iter().enumerate() {
            let place = match name {
                None => *places.get(at)?,
                Some(name) => self.parameters.iter().position(|of| of.name == name)?,
            };
            if found[place].replace(argument).is_some() {
                return None;
            }
        }
        Some(found)
    }
}

/// The call that a statement with these tokens is, if all arguments are constants and parameters: most calls need no
/// parser.
pub(super) fn plain_call(
    statement: &str,
    of: &[Lexeme],
    routines: &BTreeMap<String, Routine>,
) -> Option<Call> {
    let is = |at: usize, keyword: &str| of.get(at).is_some_and(|token| token.is(keyword));
    let is_symbol = |at: usize, symbol| of.get(at).is_some_and(|token| token.is_symbol(symbol));
    let mut at = match () {
        () if is(0, "select") && is_symbol(1, '*') && is(2, "from") => 3,
        () if is(0, "call") || is(0, "select") => 1,
        () => return None,
    };
    if is(at, "public") && is_symbol(at + 1, '.') {
        at += 2;
    }
    let name = of.get(at).filter(|name| name.is_name())?;
    let routine = routines.get(&name.text)?;
    let declaration = routine.declaration.as_ref()?;
    if !is_symbol(at + 1, '(') || closing(of, at + 1) + 1 != of.len() {
        return None;
    }
    let end = of.len() - 1;
    at += 2;
    let mut given: Vec<(Option<String>, Written)> = Vec::new();
    while at < end {
        let name = match of.get(at) {
            Some(name) if name.is_name() && is_symbol(at + 1, '=') && is_symbol(at + 2, '>') => {
                at += 3;
                Some(name.text.clone())
            }
            _ => None,
        };
        let (written, next) = value(statement, of, at)?;
        given.push((name, written));
        at = match next {
            next if next == end => next,
            // A comma has an argument behind it.
            next if is_symbol(next, ',') && next + 1 < end => next + 1,
            _ => return None,
        };
    }
    let found = declaration.placed(given)?;
    let inputs = declaration.parameters.iter().zip(found);
    let inputs = inputs.filter(|(parameter, _)| parameter.mode != ParameterMode::Out);
    // A default is an expression.
    let inputs: Option<Vec<(&Parameter, Written)>> = inputs
        .map(|(parameter, found)| Some((parameter, found?)))
        .collect();
    let inputs = inputs?;
    let arguments = routine.routing.iter().map(|parameter| {
        let (of, written) = &inputs[*parameter];
        (*parameter, written.operand(&of.data_type))
    });
    Some(Call {
        place: routine.place,
        arguments: arguments.collect(),
    })
}

/// An argument with its name, if it has one.
fn named(argument: &FunctionArg) -> Option<(Option<String>, &Expr)> {
    let name = |name: &Expr| match name {
        Expr::Identifier(name) => Some(folded(name)),
        _ => None,
    };
    Some(match argument {
        // `name := value`, as the parser has it.
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
            left,
            op: BinaryOperator::Assignment,
            right,
        })) => (Some(name(left)?), right),
        FunctionArg::Unnamed(argument) => (None, argument_value(argument)?),
        FunctionArg::Named { name, arg, .. } => (Some(folded(name)), argument_value(arg)?),
        FunctionArg::ExprNamed { name: of, arg, .. } => (Some(name(of)?), argument_value(arg)?),
    })
}

/// The call that a statement is.
pub(super) fn call(
    statement: &ast::Statement,
    routines: &BTreeMap<String, Routine>,
) -> Option<Call> {
    let mut finder = Finder {
        routines,
        found: Vec::new(),
    };
    let is_plain = match statement {
        ast::Statement::Call(function) => finder.function(function),
        ast::Statement::Query(query) => finder.query(query),
        _ => false,
    };
    let [(name, given)] = finder.found.as_slice() else {
        return None;
    };
    if !is_plain {
        return None;
    }
    let routine = routines.get(name)?;
    let arguments = match &routine.declaration {
        None => Vec::new(),
        Some(declaration) => {
            let values = declaration.arguments(given)?;
            let inputs: Vec<&Parameter> = declaration.inputs().collect();
            let routing = routine.routing.iter().map(|parameter| {
                let wanted = &inputs[*parameter].data_type;
                (*parameter, Operand::of(values[*parameter], wanted))
            });
            routing.collect()
        }
    };
    Some(Call {
        place: routine.place,
        arguments,
    })
}

/// Finds the calls of declared routines in a statement, and whether everything else in it touches no rows.
struct Finder<'e, 'r> {
    routines: &'r BTreeMap<String, Routine>,
    found: Vec<(String, Vec<&'e FunctionArg>)>,
}

impl<'e> Finder<'e, '_> {
    fn query(&mut self, query: &'e Query) -> bool {
        let SetExpr::Select(select) = &*query.body else {
            return false;
        };
        query.with.is_none()
            && query.locks.is_empty()
            && query.fetch.is_none()
            && query.for_clause.is_none()
            && query.settings.is_none()
            && query.format_clause.is_none()
            && query.pipe_operators.is_empty()
            && self.select(select)
            && query
                .order_by
                .as_ref()
                .is_none_or(|order| match &order.kind {
                    OrderByKind::Expressions(by) => by.iter().all(|by| self.plain(&by.expr)),
                    OrderByKind::All(_) => false,
                })
            && query.limit_clause.as_ref().is_none_or(|limit| match limit {
                LimitClause::LimitOffset {
                    limit,
                    offset,
                    limit_by,
                } => {
                    limit_by.is_empty()
                        && limit.as_ref().is_none_or(|limit| self.plain(limit))
                        && offset
                            .as_ref()
                            .is_none_or(|offset| self.plain(&offset.value))
                }
                LimitClause::OffsetCommaLimit { .. } => false,
            })
    }

    fn select(&mut self, select: &'e Select) -> bool {
        let is_usual = select.into.is_none()
            && select.top.is_none()
            && select.exclude.is_none()
            && select.optimizer_hints.is_empty()
            && select.select_modifiers.is_none()
            && select.lateral_views.is_empty()
            && select.prewhere.is_none()
            && select.connect_by.is_empty()
            && select.cluster_by.is_empty()
            && select.distribute_by.is_empty()
            && select.sort_by.is_empty()
            && select.named_window.is_empty()
            && select.qualify.is_none()
            && select.value_table_mode.is_none();
        let has_from = match select.from.as_slice() {
            [] => Some(false),
            [from] if from.joins.is_empty() && self.called_in_from(&from.relation) => Some(true),
            _ => None,
        };
        let Some(has_from) = has_from else {
            return false;
        };
        let by = match &select.group_by {
            GroupByExpr::Expressions(by, modifiers) if modifiers.is_empty() => by.as_slice(),
            _ => return false,
        };
        let distinct_on = match &select.distinct {
            Some(ast::Distinct::On(by)) => by.as_slice(),
            _ => &[],
        };
        is_usual
            && select.projection.iter().all(|item| match item {
                SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => {
                    self.plain(value)
                }
                SelectItem::Wildcard(_) => has_from,
                SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(_),
                    _,
                ) => has_from,
                // `(f(1)).*` calls f for each column.
                _ => false,
            })
            && by.iter().chain(distinct_on).all(|by| self.plain(by))
            && select.selection.iter().all(|value| self.plain(value))
            && select.having.iter().all(|value| self.plain(value))
    }

    /// Whether a relation of FROM is a call of a declared routine.
    fn called_in_from(&mut self, relation: &'e TableFactor) -> bool {
        let before = self.found.len();
        let is_plain = match relation {
            TableFactor::Table {
                name,
                args: Some(arguments),
                with_hints,
                version: None,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
                ..
            } => {
                arguments.settings.is_none()
                    && with_hints.is_empty()
                    && partitions.is_empty()
                    && index_hints.is_empty()
                    && self.named(name, &arguments.args)
            }
            TableFactor::Function { name, args, .. } => self.named(name, args),
            _ => false,
        };
        is_plain && self.found.len() == before + 1
    }

    /// Whether a function of this name is a declared routine, which is then noted, or has no effects; and so its
    /// arguments.
    fn named(&mut self, name: &ObjectName, arguments: &'e [FunctionArg]) -> bool {
        let Some((schema, name)) = schema_and_name(name) else {
            return false;
        };
        let is_system = schema.as_deref().is_some_and(is_system);
        if !is_system && self.routines.contains_key(&name) {
            self.found.push((name, arguments.iter().collect()));
        } else if !(schema.is_none() || is_system) || !touches_no_rows(&name) {
            return false;
        }
        arguments.iter().all(|argument| match argument {
            FunctionArg::Unnamed(value)
            | FunctionArg::Named { arg: value, .. }
            | FunctionArg::ExprNamed { arg: value, .. } => match value {
                FunctionArgExpr::Expr(value) => self.plain(value),
                FunctionArgExpr::Wildcard => true,
                _ => false,
            },
        })
    }

    fn function(&mut self, function: &'e Function) -> bool {
        let is_usual = !function.uses_odbc_syntax
            && matches!(function.parameters, FunctionArguments::None)
            && function.filter.is_none()
            && function.null_treatment.is_none()
            && function.over.is_none()
            && function.within_group.is_empty();
        match &function.args {
            _ if !is_usual => false,
            FunctionArguments::None => self.named(&function.name, &[]),
            FunctionArguments::List(list) => {
                list.clauses.is_empty()
                    && list.duplicate_treatment.is_none()
                    && self.named(&function.name, &list.args)
            }
            FunctionArguments::Subquery(_) => false,
        }
    }

    /// Whether an expression touches no rows, apart from calls of declared routines, which are noted.
    fn plain(&mut self, expression: &'e Expr) -> bool {
        match expression {
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Value(_)
            | Expr::TypedString(_) => true,
            Expr::Nested(inner)
            | Expr::UnaryOp { expr: inner, .. }
            | Expr::Cast { expr: inner, .. }
            | Expr::Collate { expr: inner, .. }
            | Expr::Extract { expr: inner, .. }
            | Expr::Ceil { expr: inner, .. }
            | Expr::Floor { expr: inner, .. }
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner) => self.plain(inner),
            Expr::BinaryOp { left, right, .. }
            | Expr::AnyOp { left, right, .. }
            | Expr::AllOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right)
            | Expr::AtTimeZone {
                timestamp: left,
                time_zone: right,
            }
            | Expr::Like {
                expr: left,
                pattern: right,
                ..
            }
            | Expr::ILike {
                expr: left,
                pattern: right,
                ..
            } => self.plain(left) && self.plain(right),
            Expr::Between {
                expr, low, high, ..
            } => self.plain(expr) && self.plain(low) && self.plain(high),
            Expr::InList { expr, list, .. } => {
                self.plain(expr) && list.iter().all(|value| self.plain(value))
            }
            Expr::Array(array) => array.elem.iter().all(|value| self.plain(value)),
            Expr::Tuple(values) => values.iter().all(|value| self.plain(value)),
            Expr::Interval(interval) => self.plain(&interval.value),
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => {
                operand.iter().all(|value| self.plain(value))
                    && conditions
                        .iter()
                        .all(|when| self.plain(&when.condition) && self.plain(&when.result))
                    && else_result.iter().all(|value| self.plain(value))
            }
            Expr::Function(function) => self.function(function),
            _ => false,
        }
    }
}

/// Whether a function that is not declared is known to touch no rows of the application. Sequences give numbers of
/// their own on each server. Advisory locks hold on one server alone, so a caller would rely on them in vain.
pub(super) fn touches_no_rows(name: &str) -> bool {
    let is_lock = name.starts_with("pg_advisory_") || name.starts_with("pg_try_advisory_");
    !is_lock && (is_builtin(name) || matches!(name, "nextval" | "currval" | "lastval"))
}

fn argument_value(argument: &FunctionArgExpr) -> Option<&Expr> {
    match argument {
        FunctionArgExpr::Expr(value) => Some(value),
        _ => None,
    }
}

/// Whether a schema has nothing of the application.
pub(super) fn is_system(schema: &str) -> bool {
    matches!(schema, "pg_catalog" | "information_schema")
}

/// The schema, if it is named, and the name, folded.
fn schema_and_name(name: &ObjectName) -> Option<(Option<String>, String)> {
    let mut parts = name.0.iter().map(|part| part.as_ident().map(folded));
    match (parts.next()?, parts.next(), parts.next()) {
        (name, None, None) => Some((None, name?)),
        (schema, Some(name), None) => Some((Some(schema?), name?)),
        _ => None,
    }
}

fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}
