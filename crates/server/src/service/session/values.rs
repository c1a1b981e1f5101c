//! The values that a statement takes from its connection: `current_user`, `current_setting(…)` and their kin.

use anabranch_sql::client::{ArgumentList, ClientContext, SessionValue};
use anabranch_types::Value;
use anabranch_wire::ErrorFields;

use super::{Scope, Session};
use crate::open_transactions::column_of;
use crate::service::errors::{error, of_effect};
use crate::service::settings::SERVER_VERSION;

/// The schemas that there are, in the order in which they are searched without being named.
const IMPLICIT: &str = "pg_catalog";
const PUBLIC: &str = "public";

impl Session {
    /// The session's values for a plan, in order, to be bound behind the client's parameters.
    pub(super) fn session_values(
        &mut self,
        wanted: &[SessionValue],
        parameters: &[Value],
        text: &str,
        now: i64,
    ) -> Result<Vec<Value>, Box<ErrorFields>> {
        let mut bound = parameters.to_vec();
        for value in wanted {
            let found = self.session_value(value, &bound, text, now)?;
            bound.push(found);
        }
        Ok(bound.split_off(parameters.len()))
    }

    /// The same for a statement that may have to wait for advisory locks, or for what other sessions say. `None` if it waits: those that are there are
    /// kept, and the next call goes on behind them.
    pub(super) fn session_values_or_wait(
        &mut self,
        wanted: &[SessionValue],
        parameters: &[Value],
        text: &str,
        (now, scope): (i64, &mut Scope<'_>),
    ) -> Result<Option<Vec<Value>>, Box<ErrorFields>> {
        let mut bound = parameters.to_vec();
        bound.append(&mut self.hidden);
        while let Some(value) = wanted.get(bound.len() - parameters.len()) {
            let found = match value {
                SessionValue::Advisory {
                    function,
                    arguments,
                } => self.call_advisory(*function, arguments, (&bound, now), scope)?,
                SessionValue::Transactions(column) => match &self.gathered {
                    Some(rows) => Some(column_of(rows, *column)),
                    None => {
                        self.gather_transactions(scope)?;
                        None
                    }
                },
                SessionValue::Ring { relation, column } => match &self.ring_rows {
                    Some(rows) => {
                        let waits_for = self.settings.get("anabranch.waits_for");
                        Some(rows.column(*relation, *column, &waits_for.unwrap_or_default()))
                    }
                    None => {
                        self.gather_ring(*relation, scope)?;
                        None
                    }
                },
                value => Some(self.session_value(value, &bound, text, now)?),
            };
            match found {
                Some(found) => bound.push(found),
                None => {
                    self.hidden = bound.split_off(parameters.len());
                    return Ok(None);
                }
            }
        }
        Ok(Some(bound.split_off(parameters.len())))
    }

    fn session_value(
        &mut self,
        value: &SessionValue,
        bound: &[Value],
        text: &str,
        now: i64,
    ) -> Result<Value, Box<ErrorFields>> {
        let identity = self.settings.identity();
        Ok(match value {
            SessionValue::Setting { name, missing_ok } => match self.settings.get(name) {
                Ok(value) => Value::text(value),
                Err(_) if *missing_ok => Value::Null,
                Err(fields) => return Err(fields),
            },
            SessionValue::SetConfig(arguments) => self.set_config(arguments, bound, now)?,
            SessionValue::Notify(arguments) => self.call_notify(arguments, bound, now)?,
            SessionValue::ListeningChannels => self.listening_channels(),
            SessionValue::Version => Value::text(format!("PostgreSQL {SERVER_VERSION}")),
            SessionValue::CurrentUser | SessionValue::SessionUser => Value::text(&identity.user),
            SessionValue::Database => Value::text(&identity.database),
            SessionValue::CurrentSchema => match self.searches_public() {
                true => Value::text(PUBLIC),
                false => Value::Null,
            },
            SessionValue::CurrentSchemas { implicit } => {
                let implicit = implicit.then_some(IMPLICIT).into_iter();
                let public = self.searches_public().then_some(PUBLIC);
                Value::Array(implicit.chain(public).map(Value::text).collect())
            }
            SessionValue::BackendPid => Value::Int(self.key.process().into()),
            SessionValue::ServerAddress => {
                Value::text(self.environment.options.listen.ip().to_string())
            }
            SessionValue::ServerPort => Value::Int(identity.port.into()),
            SessionValue::ClientAddress => self
                .peer
                .map_or(Value::Null, |peer| Value::text(peer.ip().to_string())),
            SessionValue::ClientPort => self
                .peer
                .map_or(Value::Null, |peer| Value::Int(peer.port().into())),
            SessionValue::StartTime => Value::Timestamp(self.environment.shared.started_micros),
            SessionValue::CurrentQuery => Value::text(text),
            SessionValue::Cursors(column) => self.cursors_column(*column),
            other => {
                let message = format!("{other:?} is not known to the session");
                return Err(error("XX000", message));
            }
        })
    }

    /// Whether the search path has the one schema that there is.
    fn searches_public(&self) -> bool {
        let path = self.settings.get("search_path").unwrap_or_default();
        path.split(',')
            .any(|schema| schema.trim().trim_matches('"') == PUBLIC)
    }

    /// `set_config(name, value, is_local)`. A setting that is local to a transaction of one statement is over with it.
    fn set_config(
        &mut self,
        arguments: &ArgumentList,
        bound: &[Value],
        now: i64,
    ) -> Result<Value, Box<ErrorFields>> {
        let values = self.evaluate(arguments, bound, now)?;
        let [name, value, local] = values.as_slice() else {
            return Err(error("XX000", "set_config has three arguments"));
        };
        let Value::Text(name) = name else {
            return Err(error("22004", "SET requires parameter name"));
        };
        let local = *local == Value::Bool(true);
        let before = local.then(|| self.settings.get(name)).and_then(Result::ok);
        let change = match value {
            Value::Text(value) => self.settings.set(name, value)?,
            _ => self.settings.reset(name)?,
        };
        let after = Value::text(self.settings.get(name)?);
        match before {
            Some(before) => _ = self.settings.set(name, &before)?,
            None if local => _ = self.settings.reset(name)?,
            None => self.report(change),
        }
        Ok(after)
    }

    /// The values of arguments.
    pub(super) fn evaluate(
        &self,
        arguments: &ArgumentList,
        bound: &[Value],
        now: i64,
    ) -> Result<Vec<Value>, Box<ErrorFields>> {
        let mut uniques = Vec::with_capacity(arguments.uniques());
        for _ in 0..arguments.uniques() {
            let mut bytes = [0; 16];
            getrandom::fill(&mut bytes).map_err(|failure| {
                error(
                    "58000",
                    format!("the system gives no random numbers: {failure}"),
                )
            })?;
            uniques.push(u128::from_ne_bytes(bytes));
        }
        let context = self.context(now).with_uniques(uniques);
        arguments
            .evaluate(bound, &context)
            .map_err(|failure| of_effect(&failure))
    }

    /// What expressions without a transaction take.
    pub(super) fn context(&self, now: i64) -> ClientContext {
        ClientContext::at(now).with_time_zone(self.settings.zone().clone())
    }
}
