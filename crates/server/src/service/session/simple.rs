//! The simple protocol: a text of one or several statements.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_sql::client::{self, ClientStatement, ClientStatementKind};
use anabranch_wire::ErrorFields;

use super::run::{Destination, Run};
use super::{Batch, BatchItem, Scope, Session};
use crate::service::errors::{error, error_with_hint, of_diagnostic};
use crate::service::prepared::Prepared;

impl Session {
    /// Begins the text of a Query message.
    pub(super) fn simple_query(&mut self, text: &str) {
        self.portals.clear();
        self.group_wrote = false;
        match self.parse_batch(text) {
            Ok(batch) => self.batch = Some(batch),
            Err(fields) => {
                self.wire.error(&fields);
                self.ready();
            }
        }
    }

    fn parse_batch(&mut self, text: &str) -> Result<Batch, Box<ErrorFields>> {
        if let Some(prepared) = self.environment.statements.get(text, &[]) {
            return Ok(Batch {
                text: "".into(),
                items: [BatchItem::Prepared(prepared)].into(),
            });
        }
        let statements = client::parse(text).map_err(|problem| of_diagnostic(&problem, 0, text))?;
        if statements.is_empty() {
            self.wire.empty_query();
        }
        let items: VecDeque<BatchItem> = statements.into_iter().map(BatchItem::Parsed).collect();
        Ok(Batch {
            text: text.into(),
            items,
        })
    }

    /// Runs the next statement of the text, or ends the text.
    pub(super) fn next_of_batch(&mut self, scope: &mut Scope<'_>) {
        let Some(batch) = &mut self.batch else {
            return;
        };
        let text = Arc::clone(&batch.text);
        let Some(item) = batch.items.pop_front() else {
            self.batch = None;
            if !self.ending {
                self.ready();
            }
            return;
        };
        if let Err(fields) = self.run_item(item, &text, scope) {
            self.fail(&fields);
        }
    }

    fn run_item(
        &mut self,
        item: BatchItem,
        text: &str,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let prepared = match item {
            BatchItem::Prepared(prepared) => prepared,
            BatchItem::Parsed(statement) => {
                let is_whole = statement.start == 0 && statement.text.len() == text.len();
                let prepared = self.prepare_parsed(statement, text)?;
                let is_alone = self
                    .batch
                    .as_ref()
                    .is_some_and(|batch| batch.items.is_empty());
                if is_alone && is_whole {
                    self.environment.statements.insert(text, &[], &prepared);
                }
                prepared
            }
        };
        if !prepared.parameter_types().is_empty() {
            return Err(error("42P02", "there is no parameter $1"));
        }
        self.check_alone(&prepared)?;
        let run = Run {
            prepared,
            parameters: Vec::new(),
            destination: Destination::Simple,
            explain: None,
        };
        self.run(run, scope)
    }

    /// Refuses a text of several statements that PostgreSQL would run as one transaction and that one transaction
    /// each does not stand for: one that writes beside another that reads or writes.
    fn check_alone(&self, prepared: &Prepared) -> Result<(), Box<ErrorFields>> {
        let Some(batch) = &self.batch else {
            return Ok(());
        };
        let touches = |item: &BatchItem| match item {
            BatchItem::Prepared(prepared) => prepared.touches_tables(),
            BatchItem::Parsed(ClientStatement { kind, .. }) => {
                matches!(
                    kind,
                    ClientStatementKind::Run(_) | ClientStatementKind::Copy(_)
                )
            }
        };
        if prepared.writes() && batch.items.iter().any(touches) {
            return Err(error_with_hint(
                "0A000",
                "several statements in one text are one transaction in PostgreSQL, which is not supported if one \
                 of them writes",
                "Send each statement by itself, or declare a procedure that has them all.",
            ));
        }
        Ok(())
    }
}
