//! Subqueries in the conditions of outer joins.
//!
//! Their values are computed before the side that may be missing is joined, so they cannot refer to its rows. Where one
//! does, `LEFT JOIN b ON c` is bound as `LEFT JOIN LATERAL (SELECT * FROM b WHERE c) AS b ON true`, which is the same.

use sqlparser::ast::{self, JoinConstraint, JoinOperator, SetExpr, TableFactor};

use super::{
    Binder,
    from::{bit, mask},
    template,
};
use crate::expression::Expression;

/// A join whose right side is LATERAL.
const TEMPLATE: &str =
    "SELECT 1 FROM a LEFT JOIN LATERAL (SELECT * FROM t WHERE true) AS b ON true";

impl Binder<'_> {
    /// A LEFT JOIN with a subquery in its condition that names the joined table, as one whose right side is LATERAL.
    pub(super) fn lateral(join: &ast::Join) -> Option<ast::Join> {
        let (JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))) = &join.join_operator
        else {
            return None;
        };
        let name = match &join.relation {
            TableFactor::Table {
                alias: Some(alias), ..
            }
            | TableFactor::Derived {
                alias: Some(alias), ..
            } => alias.name.clone(),
            TableFactor::Table {
                name, args: None, ..
            } => match name.0.last()? {
                ast::ObjectNamePart::Identifier(name) => name.clone(),
                ast::ObjectNamePart::Function(_) => return None,
            },
            _ => return None,
        };
        // What is taken for a mention and is none costs nothing but time.
        let text = condition.to_string().to_lowercase().replace('"', "");
        let has_subquery = text.contains("select ") || text.contains("values ");
        if !has_subquery || !text.contains(&format!("{}.", name.value.to_lowercase())) {
            return None;
        }
        let mut select = template::select(TEMPLATE)?;
        let mut lateral = select.from.pop()?.joins.pop()?;
        let TableFactor::Derived {
            subquery, alias, ..
        } = &mut lateral.relation
        else {
            return None;
        };
        alias.as_mut()?.name = name;
        let SetExpr::Select(inner) = &mut *subquery.body else {
            return None;
        };
        inner.from.first_mut()?.relation = join.relation.clone();
        inner.selection = Some(condition.clone());
        Some(lateral)
    }

    /// Whether the value of a subquery in a condition depends on a source.
    pub(super) fn subqueries_refer_to(&mut self, on: &[Expression], source: usize) -> bool {
        let subqueries = &self.scope().subqueries;
        let mut wanted = on.iter().fold(0, |wanted, part| wanted | mask(part));
        let mut refers = false;
        loop {
            let before = wanted;
            let needed = subqueries.iter().filter(|it| bit(it.source) & before != 0);
            for (of, _) in needed.flat_map(|subquery| &subquery.references) {
                wanted |= bit(*of);
                refers |= *of == source;
            }
            if wanted == before || refers {
                return refers;
            }
        }
    }
}
