//! The simple protocol: a text of one or several statements.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_sql::client::{self, ClientStatement, ClientStatementKind};
use anabranch_wire::ErrorFields;

use super::run::{Destination, Run};
use super::{Batch, BatchItem, Scope, Session};
use crate::service::errors::{error, of_diagnostic};

impl Session {
    /// Begins the text of a Query message.
    pub(super) fn simple_query(&mut self, text: &str) {
        if self.block.is_none() {
            self.portals.clear();
        }
        match self.parse_batch(text) {
            Ok(batch) => self.batch = Some(batch),
            Err(fields) => {
                self.wire.error(&fields);
                self.fail_block(fields.code);
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

    /// Runs the next statement of the text, or ends the text. Returns whether the session can go on.
    pub(super) fn next_of_batch(&mut self, scope: &mut Scope<'_>) -> bool {
        let Some(batch) = &mut self.batch else {
            return true;
        };
        let text = Arc::clone(&batch.text);
        let Some(item) = batch.items.pop_front() else {
            if self.in_implicit_block() {
                self.commit(None, "COMMIT", false, scope);
                return true;
            }
            if !self.send_notifications() {
                return false;
            }
            self.batch = None;
            if !self.ending {
                self.ready();
            }
            return true;
        };
        if let Err(fields) = self.run_item(item, &text, scope) {
            self.fail(&fields);
        }
        true
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
        let run = Run {
            prepared,
            parameters: Vec::new(),
            destination: Destination::Simple,
            explain: None,
        };
        self.run(run, scope)
    }

    /// Whether statements are to come in the text that belong to one transaction with what runs now.
    pub(super) fn more_to_come(&self) -> bool {
        let joins = |item: &BatchItem| match item {
            BatchItem::Prepared(prepared) => prepared.touches_tables(),
            BatchItem::Parsed(ClientStatement { kind, .. }) => matches!(
                kind,
                ClientStatementKind::Run(_)
                    | ClientStatementKind::Change(_)
                    | ClientStatementKind::Copy(_)
                    | ClientStatementKind::Explain { .. }
                    | ClientStatementKind::Execute { .. }
                    | ClientStatementKind::Listen(_)
                    | ClientStatementKind::Unlisten(_)
                    | ClientStatementKind::Notify { .. }
                    | ClientStatementKind::Transaction(_)
            ),
        };
        self.batch
            .as_ref()
            .is_some_and(|batch| batch.items.iter().any(joins))
    }
}
