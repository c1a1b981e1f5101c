//! GROUP BY with ROLLUP, CUBE and GROUPING SETS: a UNION ALL of one SELECT for each set of keys, in which the keys that
//! are not in the set are NULL, of their types.

use sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, SelectItem,
    SetExpr,
};

use super::{Bind, Binder, aggregate::AggregateFunction, fold, operator::peeled};
use crate::diagnostic::Diagnostic;

/// The sets that one statement may have.
const SETS_MAX: usize = 64;

/// The keys of a set.
type Keys = Vec<Expr>;

impl Binder<'_> {
    /// The SELECT as one for each of its grouping sets; `None` if it has none.
    pub(super) fn grouping_sets(&self, select: &ast::Select) -> Bind<Option<SetExpr>> {
        let GroupByExpr::Expressions(items, modifiers) = &select.group_by else {
            return Ok(None);
        };
        let has_sets = items.iter().any(|item| {
            matches!(
                item,
                Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_)
            )
        });
        if !has_sets || !modifiers.is_empty() {
            return Ok(None);
        }
        if select.distinct.is_some() || !select.named_window.is_empty() {
            return Err(self.unsupported("DISTINCT or WINDOW beside grouping sets", select));
        }
        let mut sets: Vec<Keys> = vec![Vec::new()];
        for item in items {
            let choices = self.choices(item, select)?;
            sets = sets
                .iter()
                .flat_map(|set| choices.iter().map(|more| [&set[..], &more[..]].concat()))
                .collect();
            if sets.len() > SETS_MAX {
                return Err(self.unsupported("so many grouping sets", select));
            }
        }
        let all: Keys = sets.concat();
        let mut parts = Vec::new();
        // A part without rows has all keys, where no set has: it gives the columns their types.
        let has_all = |set: &Keys| {
            all.iter()
                .all(|key| set.iter().any(|own| is_same(own, key)))
        };
        if !sets.iter().any(has_all) {
            let mut none = select.clone();
            none.selection = Some(Expr::value(ast::Value::Boolean(false)));
            parts.push(self.of_set(&none, &all, &[])?);
        }
        for set in &sets {
            let absent = all
                .iter()
                .filter(|key| !set.iter().any(|own| is_same(own, key)));
            let absent: Keys = absent.cloned().collect();
            parts.push(self.of_set(select, set, &absent)?);
        }
        // The set with the most keys is first: it gives the columns their types.
        parts.sort_by_key(|(keys, _)| std::cmp::Reverse(*keys));
        let mut parts = parts.into_iter().map(|(_, part)| part);
        let first = parts.next().expect("there is a set");
        Ok(Some(parts.fold(first, |left, right| {
            SetExpr::SetOperation {
                op: ast::SetOperator::Union,
                set_quantifier: ast::SetQuantifier::All,
                left: Box::new(left),
                right: Box::new(right),
            }
        })))
    }

    /// The sets that one item of GROUP BY stands for.
    fn choices(&self, item: &Expr, select: &ast::Select) -> Bind<Vec<Keys>> {
        let resolve = |keys: &[Expr]| -> Bind<Keys> {
            let keys = keys.iter().flat_map(|key| match peeled(key) {
                Expr::Tuple(list) => list.iter().collect(),
                other => vec![other],
            });
            keys.map(|key| self.key_of(key, select)).collect()
        };
        Ok(match item {
            Expr::Rollup(groups) => {
                let groups: Vec<Keys> = groups
                    .iter()
                    .map(|keys| resolve(keys))
                    .collect::<Bind<_>>()?;
                (0..=groups.len())
                    .rev()
                    .map(|count| groups[..count].concat())
                    .collect()
            }
            Expr::Cube(groups) if groups.len() > 6 => {
                return Err(self.unsupported("so many grouping sets", item));
            }
            Expr::Cube(groups) => {
                let groups: Vec<Keys> = groups
                    .iter()
                    .map(|keys| resolve(keys))
                    .collect::<Bind<_>>()?;
                let chosen = |mask: usize| {
                    let in_mask = groups.iter().enumerate();
                    in_mask
                        .filter(|(place, _)| mask >> place & 1 == 1)
                        .flat_map(|(_, keys)| keys.clone())
                        .collect()
                };
                (0..1usize << groups.len()).rev().map(chosen).collect()
            }
            Expr::GroupingSets(groups) => groups
                .iter()
                .map(|keys| resolve(keys))
                .collect::<Bind<_>>()?,
            other => vec![resolve(std::slice::from_ref(other))?],
        })
    }

    /// A key: the expression that a place in the select list, or an alias, stands for.
    fn key_of(&self, key: &Expr, select: &ast::Select) -> Bind<Expr> {
        let item = match peeled(key) {
            Expr::Value(value) => match &value.value {
                ast::Value::Number(number, _) => {
                    let place = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                    let Some(item) = place.and_then(|place| select.projection.get(place)) else {
                        let message = format!("GROUP BY position {number} is not in select list");
                        return Err(self.error("42P10", message, key));
                    };
                    item
                }
                _ => return Err(self.unsupported("a constant as a key of a grouping set", key)),
            },
            Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Function(_)
            | Expr::Extract { .. }
            | Expr::BinaryOp { .. }
            | Expr::Cast { .. } => {
                // A name may be that of an output column: refused where it hides another.
                if let Expr::Identifier(name) = peeled(key) {
                    let is_alias = |item: &SelectItem| {
                        matches!(item, SelectItem::ExprWithAlias { alias, expr }
                            if fold(alias) == fold(name) && !is_same(expr, key))
                    };
                    if select.projection.iter().any(is_alias) {
                        return Err(self
                            .unsupported("an alias as a key of a grouping set", key)
                            .help("write the expression, or its place in the select list"));
                    }
                }
                return Ok(peeled(key).clone());
            }
            _ => return Err(self.unsupported("this key of a grouping set", key)),
        };
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                Ok(peeled(expr).clone())
            }
            _ => Err(self.unsupported("this key of a grouping set", key)),
        }
    }

    /// The SELECT of one set, with the number of its keys.
    fn of_set(
        &self,
        select: &ast::Select,
        set: &[Expr],
        absent: &[Expr],
    ) -> Bind<(usize, SetExpr)> {
        let mut part = select.clone();
        let mut keys: Keys = Vec::new();
        for key in set {
            if !keys.iter().any(|other| is_same(other, key)) {
                keys.push(key.clone());
            }
        }
        for item in &mut part.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let name = crate::parse::output::output_name(expr);
                    self.with_absent_keys(expr, set, absent)?;
                    *item = SelectItem::ExprWithAlias {
                        expr: expr.clone(),
                        alias: ast::Ident::with_quote('"', name),
                    };
                }
                SelectItem::ExprWithAlias { expr, .. } => {
                    self.with_absent_keys(expr, set, absent)?
                }
                _ => return Err(self.unsupported("* beside grouping sets", select)),
            }
        }
        match &mut part.having {
            Some(having) => self.with_absent_keys(having, set, absent)?,
            // Without keys there is one group, even of no rows.
            None if keys.is_empty() => {
                part.having = Some(Expr::value(ast::Value::Boolean(true)));
            }
            None => {}
        }
        let count = keys.len();
        part.group_by = GroupByExpr::Expressions(keys, Vec::new());
        Ok((count, SetExpr::Select(Box::new(part))))
    }

    /// Puts NULL in place of the keys that are not in the set, outside of aggregates, and numbers in place of
    /// `grouping(…)`.
    fn with_absent_keys(&self, expr: &mut Expr, set: &[Expr], absent: &[Expr]) -> Bind<()> {
        if absent.iter().any(|key| is_same(key, expr)) {
            *expr = null_of(expr.clone());
            return Ok(());
        }
        if set.iter().any(|key| is_same(key, expr)) {
            return Ok(());
        }
        let refuse = |expr: &Expr| -> Diagnostic {
            self.unsupported("this expression beside grouping sets", expr)
                .help("UNION ALL of a query for each set")
        };
        let mut inner: Vec<&mut Expr> = Vec::new();
        match expr {
            Expr::Value(_)
            | Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::TypedString(_) => {}
            Expr::Nested(operand)
            | Expr::UnaryOp { expr: operand, .. }
            | Expr::Cast { expr: operand, .. }
            | Expr::IsNull(operand)
            | Expr::IsNotNull(operand)
            | Expr::IsTrue(operand)
            | Expr::IsNotTrue(operand)
            | Expr::IsFalse(operand)
            | Expr::IsNotFalse(operand)
            | Expr::Extract { expr: operand, .. } => inner.push(operand),
            Expr::BinaryOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => inner.extend([&mut **left, &mut **right]),
            Expr::Between {
                expr, low, high, ..
            } => inner.extend([&mut **expr, &mut **low, &mut **high]),
            Expr::InList { expr, list, .. } => {
                inner.push(expr);
                inner.extend(list);
            }
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => {
                inner.extend(operand.as_deref_mut());
                for when in conditions {
                    inner.extend([&mut when.condition, &mut when.result]);
                }
                inner.extend(else_result.as_deref_mut());
            }
            Expr::Function(function) => {
                if function.over.is_some() {
                    return Err(refuse(expr));
                }
                let name = function
                    .name
                    .0
                    .last()
                    .and_then(|part| part.as_ident())
                    .map(fold);
                let name = name.unwrap_or_default();
                if name == "grouping" {
                    let mask = self.grouping(function, set, absent)?;
                    *expr = Expr::value(ast::Value::Number(mask.to_string(), false));
                    return Ok(());
                }
                if AggregateFunction::named(&name).is_some() {
                    return Ok(());
                }
                let FunctionArguments::List(list) = &mut function.args else {
                    return match function.args {
                        FunctionArguments::None => Ok(()),
                        _ => Err(refuse(expr)),
                    };
                };
                for argument in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
                        inner.push(argument);
                    }
                }
            }
            _ => return Err(refuse(expr)),
        }
        inner
            .into_iter()
            .try_for_each(|operand| self.with_absent_keys(operand, set, absent))
    }

    /// `grouping(a, b)`: a bit for each key, which is set if the key is not in the set.
    fn grouping(&self, function: &Function, set: &[Expr], absent: &[Expr]) -> Bind<u32> {
        let syntax = Expr::Function(function.clone());
        let mut mask = 0;
        for argument in self.plain_arguments(&function.args, &syntax)? {
            let is_in = |keys: &[Expr]| keys.iter().any(|key| is_same(key, argument));
            mask = mask << 1
                | match (is_in(absent), is_in(set)) {
                    (true, _) => 1,
                    (false, true) => 0,
                    (false, false) => {
                        let message = "arguments to GROUPING must be grouping expressions of the associated query level";
                        return Err(self.error("42803", message, &syntax));
                    }
                };
        }
        Ok(mask)
    }
}

/// NULL of the key's type: `(array_agg(key) FILTER (WHERE false))[1]`, which refers to no single row.
fn null_of(key: Expr) -> Expr {
    let list = ast::FunctionArgumentList {
        duplicate_treatment: None,
        args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(key))],
        clauses: Vec::new(),
    };
    let none = Function {
        name: ast::ObjectName::from(vec![ast::Ident::new("array_agg")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: Some(Box::new(Expr::value(ast::Value::Boolean(false)))),
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    };
    let first = Expr::value(ast::Value::Number("1".into(), false));
    Expr::CompoundFieldAccess {
        root: Box::new(Expr::Nested(Box::new(Expr::Function(none)))),
        access_chain: vec![ast::AccessExpr::Subscript(ast::Subscript::Index {
            index: first,
        })],
    }
}

/// Whether two expressions are written alike; a column may be written with its table.
fn is_same(a: &Expr, b: &Expr) -> bool {
    let (a, b) = (peeled(a), peeled(b));
    match (a, b) {
        (Expr::Identifier(name), Expr::CompoundIdentifier(parts))
        | (Expr::CompoundIdentifier(parts), Expr::Identifier(name)) => {
            parts.last().is_some_and(|last| fold(last) == fold(name))
        }
        (a, b) => a.to_string() == b.to_string(),
    }
}
