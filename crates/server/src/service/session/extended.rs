//! The extended protocol: Parse, Bind, Describe, Execute, Close.

use std::sync::Arc;

use anabranch_types::Value;
use anabranch_wire::format;
use anabranch_wire::{ErrorFields, Format, Formats, Request, Target};

use super::answer::{Sending, column_formats, fields};
use super::run::{Destination, Run};
use super::{Scope, Session, State};
use crate::service::errors::{error, of_effect};
use crate::service::prepared::{Columns, Prepared};

/// A statement with its parameters, or what is left of its result.
pub(crate) struct Portal {
    prepared: Arc<Prepared>,
    parameters: Vec<Value>,
    formats: Formats,
    state: PortalState,
}

/// How far a portal has been run.
enum PortalState {
    New,
    /// Its call is under way, or its rows are being sent.
    Running,
    /// Rows are left.
    Suspended(Box<Sending>),
    Done,
}

impl Session {
    /// Handles a message of the extended protocol.
    pub(super) fn extended(
        &mut self,
        request: Request,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        match request {
            Request::Parse {
                statement,
                text,
                parameter_types,
            } => {
                if statement.is_empty() {
                    // It is gone even if the one that replaces it fails.
                    self.statements.remove("");
                }
                self.statements.check_free(&statement)?;
                let prepared = self.prepare(&text, &parameter_types)?;
                if !prepared.ends_transaction() {
                    self.check_not_failed()?;
                }
                self.statements.insert(&statement, prepared)?;
                self.wire.parse_complete();
            }
            Request::Bind {
                portal,
                statement,
                parameter_formats,
                parameters,
                result_formats,
            } => {
                let prepared = self.named(&statement)?;
                if !prepared.ends_transaction() {
                    self.check_not_failed()?;
                }
                let parameters =
                    self.parameters(&statement, &prepared, &parameter_formats, &parameters)?;
                if let Some(columns) = self.columns_of(&prepared) {
                    column_formats(&result_formats, columns.len())?;
                }
                let bound = Portal {
                    prepared,
                    parameters,
                    formats: result_formats,
                    state: PortalState::New,
                };
                self.portals.insert(&portal, bound)?;
                self.wire.bind_complete();
            }
            Request::Describe(Target::Statement(name)) => {
                let prepared = self.named(&name)?;
                self.wire.parameter_description(&prepared.parameter_oids);
                self.describe(self.columns_of(&prepared), &Formats::All(Format::Text))?;
            }
            // A cursor of SQL is a portal, too.
            Request::Describe(Target::Portal(name)) if self.cursor_columns(&name).is_some() => {
                self.describe(self.cursor_columns(&name), &Formats::All(Format::Text))?;
            }
            Request::Describe(Target::Portal(name)) => {
                let portal = self.portals.get(&name)?;
                let (prepared, formats) = (Arc::clone(&portal.prepared), portal.formats.clone());
                self.describe(self.columns_of(&prepared), &formats)?;
            }
            Request::Execute { portal, rows_max } => {
                self.execute_portal(&portal, rows_max, scope)?
            }
            Request::Close(Target::Statement(name)) => {
                self.statements.remove(&name);
                self.wire.close_complete();
            }
            Request::Close(Target::Portal(name)) => {
                self.portals.remove(&name);
                self.wire.close_complete();
            }
            other => {
                let message = format!("unexpected message {}", other.name());
                return Err(error("08P01", message));
            }
        }
        Ok(())
    }

    /// The prepared statement with this name, compiled for the schema as it is now.
    pub(super) fn named(&mut self, name: &str) -> Result<Arc<Prepared>, Box<ErrorFields>> {
        let held = Arc::clone(self.statements.get(name)?);
        let current = self.current(&held)?;
        if !Arc::ptr_eq(&held, &current) {
            self.statements.remove(name);
            self.statements.insert(name, Arc::clone(&current))?;
        }
        Ok(current)
    }

    fn describe(
        &mut self,
        columns: Option<Columns>,
        asked: &Formats,
    ) -> Result<(), Box<ErrorFields>> {
        match columns {
            None => self.wire.no_data(),
            Some(columns) => {
                let formats = column_formats(asked, columns.len())?;
                self.wire.row_description(&fields(&columns, &formats));
            }
        }
        Ok(())
    }

    /// A statement's parameters from a Bind message.
    fn parameters(
        &self,
        name: &str,
        prepared: &Prepared,
        formats: &Formats,
        values: &[Option<bytes::Bytes>],
    ) -> Result<Vec<Value>, Box<ErrorFields>> {
        let types = prepared.parameter_types();
        if values.len() != types.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {}",
                values.len(),
                types.len()
            );
            return Err(error("08P01", message));
        }
        let formats = formats.for_columns(values.len()).map_err(|given| {
            let message = format!(
                "bind message has {given} parameter formats but {} parameters",
                values.len()
            );
            error("08P01", message)
        })?;
        let zone = self.settings.zone();
        let values = values.iter().zip(types).zip(formats);
        values
            .map(|((value, data_type), format)| {
                format::decode(value.as_deref(), data_type, format, zone)
                    .map_err(|failure| of_effect(&failure))
            })
            .collect()
    }

    fn execute_portal(
        &mut self,
        name: &str,
        rows_max: u32,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let rows_left = (rows_max > 0).then_some(rows_max);
        let portal = self.portals.get_mut(name)?;
        match std::mem::replace(&mut portal.state, PortalState::Running) {
            PortalState::New => {
                let run = Run {
                    prepared: Arc::clone(&portal.prepared),
                    parameters: portal.parameters.clone(),
                    destination: Destination::Portal {
                        name: name.to_owned(),
                        formats: portal.formats.clone(),
                        rows_left,
                    },
                    explain: None,
                };
                self.run(run, scope)
            }
            PortalState::Suspended(mut sending) => {
                sending.rows_left = rows_left;
                sending.sent = 0;
                self.state = State::Sending(sending);
                Ok(())
            }
            // As in PostgreSQL: what returns no rows cannot be run again, what does has no more.
            state @ (PortalState::Done | PortalState::Running) => {
                portal.state = state;
                if portal.prepared.columns().is_none() {
                    let message = format!("portal \"{name}\" cannot be run");
                    return Err(error("55000", message));
                }
                let tag = portal.prepared.tag_of_nothing();
                self.wire.command_complete(&tag);
                Ok(())
            }
        }
    }

    /// Keeps the rows that a portal has not sent.
    pub(super) fn keep_rows(&mut self, sending: Sending) {
        let name = sending.portal.clone();
        if let Some(Ok(portal)) = name.map(|name| self.portals.get_mut(&name)) {
            portal.state = PortalState::Suspended(Box::new(sending));
        }
    }

    /// Notes that a portal has sent everything.
    pub(super) fn portal_done(&mut self, name: &str) {
        if let Ok(portal) = self.portals.get_mut(name) {
            portal.state = PortalState::Done;
        }
    }
}
