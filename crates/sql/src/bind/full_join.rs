//! Binds FULL JOIN.
//!
//! The rows of both sides have to be known before one without a match is, so neither side is filtered by WHERE before.
//! What is in FROM up to the join is a stage of its own, which the planner leaves in this order.

use sqlparser::ast::{self, JoinConstraint, Spanned};

use super::{
    Bind, Binder,
    from::{FromList, FullJoin, SourceKind, bit, mask},
    using::Sides,
};

impl Binder<'_> {
    /// Makes a stage of what is in the list, whose last source is the right side of a FULL JOIN.
    pub(super) fn full_join(
        &mut self,
        constraint: &JoinConstraint,
        sides: Sides,
        join: &ast::Join,
        list: &mut FromList,
    ) -> Bind<()> {
        let syntax = &join.relation;
        if *sides.left.start() != 1 {
            return Err(self.unsupported("a FULL JOIN behind another item of FROM", syntax));
        }
        if !matches!(constraint, JoinConstraint::On(_)) {
            return Err(self
                .unsupported("a FULL JOIN by USING or NATURAL", syntax)
                .help("write ON a.id = b.id, and coalesce(a.id, b.id) in the list"));
        }
        let number = *sides.right.end();
        let is_one = *sides.right.start() == number;
        let on = self.join_condition(constraint, sides, join)?;
        let conditions = on.iter().chain(&list.conjuncts);
        let known = (1..=number).fold(0, |mask, source| mask | bit(source));
        if conditions.into_iter().any(|of| mask(of) & !known != 0) {
            return Err(self.unsupported("a subquery in the condition of a FULL JOIN", syntax));
        }
        let last = list.sources.pop().filter(|last| {
            let is_pure = matches!(last.kind, SourceKind::Function { .. });
            is_one && last.number == number && last.depends == 0 && !is_pure
        });
        let Some(mut right) = last else {
            return Err(self.full_join_refused(syntax));
        };
        if let SourceKind::Rows(rows) = right.kind {
            let columns = self.scope().sources[number - 1].columns.iter();
            let columns: Vec<_> = columns
                .map(|column| (column.name.clone(), column.data_type.clone()))
                .collect();
            right.kind = SourceKind::Query(Self::rows_query(rows, &columns));
        }
        let sources = &mut self.scope().sources;
        sources.iter_mut().for_each(|source| source.nullable = true);
        list.full_joins.push(FullJoin {
            sources: std::mem::take(&mut list.sources),
            conjuncts: std::mem::take(&mut list.conjuncts),
            right,
            on,
        });
        Ok(())
    }

    fn full_join_refused(&self, syntax: &impl Spanned) -> crate::diagnostic::Diagnostic {
        let construct = "a FULL JOIN with a function or with a join in parentheses";
        self.unsupported(construct, syntax)
            .help("select from it in a subquery")
    }
}
