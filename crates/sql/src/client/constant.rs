//! Statements that touch no table: they are answered without a transaction.

use std::{
    future::Future,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use anabranch_types::{
    Effect, EffectError, Fetched, Key, Patch, Read, SlotId, TableId, TimeZone, Value,
};

use crate::{
    TransactionError,
    application::{CompiledStatement, ResultSet},
    argument::ClientContext,
    expression::failure,
    plan::{
        statement::{Statement, StatementKind},
        walk,
    },
    summary::StatementId,
    transaction::{NoSequences, Sequences, Transaction},
};

/// A SELECT without tables.
#[derive(Clone, Debug)]
pub struct ConstantStatement(Arc<CompiledStatement>);

impl ConstantStatement {
    pub(super) fn new(statement: Arc<CompiledStatement>) -> ConstantStatement {
        ConstantStatement(statement)
    }

    /// Whether a statement needs no transaction: no table, no sequence, and no number that is unique among transactions.
    pub(super) fn may_be(statement: &Statement) -> bool {
        let mut needs_one = false;
        walk::statement(statement, &mut |expression| {
            needs_one = needs_one || expression.is_volatile();
        });
        let is_query = matches!(statement.kind, StatementKind::Query(_));
        is_query && statement.accesses.is_empty() && !needs_one
    }

    /// The statement itself, which runs in a transaction as well.
    pub fn statement(&self) -> &Arc<CompiledStatement> {
        &self.0
    }

    /// Its result; `None` if it is not there before the first [pause](Transaction::pause): the statement then has to
    /// run as a call, so that it can be cancelled and other work goes on. `parameters` are the client's, and behind
    /// them the plan's session values, in order.
    ///
    /// # Errors
    /// Errors that its expressions raise.
    pub fn evaluate(
        &self,
        parameters: &[Value],
        context: &ClientContext,
    ) -> Result<Option<ResultSet>, EffectError> {
        let mut transaction = NoTables(context);
        let run = pin!(self.0.execute(&mut transaction, parameters));
        match run.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(result)) => Ok(Some(result)),
            Poll::Ready(Err(TransactionError::Failed(error))) => Err(error),
            Poll::Ready(Err(TransactionError::Retry(reason))) => Err(*failure("XX000", reason)),
            // It waits for nothing but a pause.
            Poll::Pending => Ok(None),
        }
    }
}

/// A transaction without tables, with these values.
struct NoTables<'c>(&'c ClientContext);

impl NoTables<'_> {
    fn refuse<T>() -> Result<T, TransactionError> {
        Err(failure("XX000", "a statement without tables touches one").into())
    }
}

impl Transaction for NoTables<'_> {
    async fn read(
        &mut self,
        _: StatementId,
        _: bool,
        _: Vec<Read>,
    ) -> Result<Vec<Fetched>, TransactionError> {
        NoTables::refuse()
    }

    fn write(&mut self, _: StatementId, _: Effect) -> Result<(), TransactionError> {
        NoTables::refuse()
    }

    fn defers(&self, _: StatementId) -> bool {
        false
    }

    fn is_known(&mut self, _: TableId, _: &Key, _: &[Patch]) -> bool {
        false
    }

    fn slots(&mut self, _: u16) -> SlotId {
        unreachable!("nothing is deferred")
    }

    fn unique(&mut self) -> u128 {
        unreachable!("it draws no number")
    }

    fn sequences(&self) -> Rc<dyn Sequences> {
        Rc::new(NoSequences)
    }

    async fn pause(&mut self) -> Result<(), TransactionError> {
        std::future::pending().await
    }

    fn timestamp(&self) -> i64 {
        self.0.timestamp()
    }

    fn time_zone(&self) -> TimeZone {
        self.0.time_zone().clone()
    }
}
