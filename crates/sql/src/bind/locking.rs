//! Binds FOR UPDATE and FOR SHARE with NOWAIT or SKIP LOCKED.

use sqlparser::ast::{self, SetExpr};

use super::{
    Bind, Binder,
    from::{FromList, SourceKind},
};
use crate::{diagnostic::Diagnostic, plan::WhenLocked, source::Span};

/// A locking clause that does not wait.
#[derive(Clone, Debug)]
pub(crate) struct UnwaitingLock {
    when: WhenLocked,
    /// The name behind OF.
    of: Option<String>,
    place: Span,
}

impl UnwaitingLock {
    fn words(&self) -> &'static str {
        match self.when {
            WhenLocked::Skip => "SKIP LOCKED",
            WhenLocked::Wait | WhenLocked::Fail => "NOWAIT",
        }
    }

    fn unsupported(&self, place: &str) -> Diagnostic {
        let construct = format!("{} {place}", self.words());
        Diagnostic::unsupported(construct, self.place).help(
            "lock the rows of one table in a query of its own, and name it where they are used: \
             … WHERE id IN (SELECT id FROM … FOR UPDATE SKIP LOCKED)",
        )
    }
}

impl Binder<'_> {
    /// The locking clause of a query, if it is one that does not wait.
    pub(super) fn unwaiting_lock(&self, query: &ast::Query) -> Bind<Option<UnwaitingLock>> {
        let Some(clause) = query.locks.iter().find(|lock| lock.nonblock.is_some()) else {
            return Ok(None);
        };
        let of = clause.of.as_ref();
        let lock = UnwaitingLock {
            when: match clause.nonblock {
                Some(ast::NonBlock::SkipLocked) => WhenLocked::Skip,
                Some(ast::NonBlock::Nowait) | None => WhenLocked::Fail,
            },
            of: of.map(|name| self.simple_name(name)).transpose()?,
            place: self.place_of(query),
        };
        if query.locks.len() > 1 {
            return Err(lock.unsupported("beside another locking clause"));
        }
        if !matches!(&*query.body, SetExpr::Select(_)) {
            return Err(lock.unsupported("of anything but one SELECT"));
        }
        if self.is_stored() {
            return Err(lock.unsupported("in a view or a constraint"));
        }
        Ok(Some(lock))
    }

    /// Notes at the sources of the innermost scope what a locking clause says of them. `is_plain`: whether each row of the
    /// query is one of the joined rows.
    pub(super) fn lock_sources(
        &mut self,
        lock: &UnwaitingLock,
        list: &mut FromList,
        is_plain: bool,
    ) -> Bind<()> {
        let scope = self.scope();
        if !is_plain || scope.windows.is_some() {
            let place = "with DISTINCT, grouping, aggregates, window functions or functions that \
                         return rows";
            return Err(lock.unsupported(place));
        }
        if lock.when == WhenLocked::Skip && scope.escapes > 0 {
            return Err(lock.unsupported("in a query that refers to an outer one"));
        }
        let named = match &lock.of {
            None => None,
            Some(of) => {
                let mut sources = scope.sources.iter();
                let at = sources.position(|source| !source.hidden && source.name == *of);
                let Some(at) = at else {
                    let message =
                        format!("relation \"{of}\" in FOR UPDATE clause not found in FROM clause");
                    return Err(Diagnostic::new("42P01", message, lock.place));
                };
                Some(at + 1)
            }
        };
        if !list.full_joins.is_empty() || (lock.when == WhenLocked::Skip && list.sources.len() > 1)
        {
            return Err(lock.unsupported("over a join"));
        }
        let locked = list.sources.iter_mut();
        for source in locked.filter(|source| named.is_none_or(|named| source.number == named)) {
            match source.kind {
                SourceKind::Table(_) => source.when_locked = lock.when,
                // Its rows are of no table.
                SourceKind::Function { .. } | SourceKind::Rows(_)
                    if lock.when == WhenLocked::Fail && named.is_none() => {}
                _ => return Err(lock.unsupported("over anything but a table")),
            }
        }
        Ok(())
    }
}
