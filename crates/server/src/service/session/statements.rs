//! Finds or compiles a session's statements.

use std::sync::Arc;

use anabranch_sql::Application;
use anabranch_sql::client::{self, ClientStatement, ClientStatementKind, Runnable};
use anabranch_types::DataType;
use anabranch_wire::ErrorFields;
use anabranch_wire::format;

use super::Session;
use crate::service::errors::{error, of_diagnostic};
use crate::service::prepared::Prepared;

impl Session {
    /// The application, with its version.
    fn versioned(&self) -> (u64, &Application) {
        let environment = &self.environment;
        (environment.version, &environment.planned.application)
    }

    /// A statement, compiled for the schema as it is now.
    ///
    /// # Errors
    /// When it cannot be run under that, or its parameters or columns are others now.
    pub(super) fn current(
        &self,
        prepared: &Arc<Prepared>,
    ) -> Result<Arc<Prepared>, Box<ErrorFields>> {
        let has_plan = prepared.run_plan().is_some();
        if prepared.version == self.environment.version || !has_plan {
            return Ok(Arc::clone(prepared));
        }
        let again = self.prepare(&prepared.text, &prepared.parameter_oids)?;
        // A parameter's length or scale is no part of its type: PostgreSQL's parameters have none.
        let oids = |of: &Prepared| -> Vec<u32> {
            of.parameter_types().iter().map(format::oid_of).collect()
        };
        if oids(&again) != oids(prepared) || again.columns() != prepared.columns() {
            return Err(error("0A000", "cached plan must not change result type"));
        }
        Ok(again)
    }

    /// The statement of a Parse message; compiled statements are shared by all connections.
    pub(super) fn prepare(
        &self,
        text: &str,
        types: &[u32],
    ) -> Result<Arc<Prepared>, Box<ErrorFields>> {
        if let Some(found) = self.environment.statements.get(text, types) {
            return Ok(found);
        }
        let mut statements =
            client::parse(text).map_err(|problem| of_diagnostic(&problem, 0, text))?;
        if statements.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(error("42601", message));
        }
        let prepared = Prepared::new(statements.pop(), text, types, self.versioned())?;
        let prepared = Arc::new(prepared);
        self.environment.statements.insert(text, types, &prepared);
        Ok(prepared)
    }

    /// The statement of a PREPARE.
    pub(super) fn prepare_runnable(
        &self,
        statement: &Runnable,
        types: &[Option<DataType>],
        whole: &str,
    ) -> Result<Arc<Prepared>, Box<ErrorFields>> {
        let (_, application) = self.versioned();
        let oid = |data_type: &Option<DataType>| match data_type {
            None => Ok(0),
            Some(named) => application
                .catalog()
                .looked_up_type(named)
                .map(|found| format::oid_of(&found))
                .map_err(|problem| of_diagnostic(&problem, 0, whole)),
        };
        let types: Vec<u32> = types.iter().map(oid).collect::<Result<_, _>>()?;
        if let Some(found) = self.environment.statements.get(statement.text(), &types) {
            return Ok(found);
        }
        let statement = ClientStatement {
            text: Arc::clone(statement.text()),
            start: statement.start(),
            kind: ClientStatementKind::Run(statement.clone()),
        };
        let text = Arc::clone(&statement.text);
        let prepared = Prepared::new(Some(statement), whole, &types, self.versioned())?;
        let prepared = Arc::new(prepared);
        self.environment.statements.insert(&text, &types, &prepared);
        Ok(prepared)
    }

    /// A statement of a simple query, which may be one of several in its text.
    pub(super) fn prepare_parsed(
        &self,
        statement: ClientStatement,
        whole: &str,
    ) -> Result<Arc<Prepared>, Box<ErrorFields>> {
        if let Some(found) = self.environment.statements.get(&statement.text, &[]) {
            return Ok(found);
        }
        let text = statement.text.clone();
        let prepared = Arc::new(Prepared::new(
            Some(statement),
            whole,
            &[],
            self.versioned(),
        )?);
        self.environment.statements.insert(&text, &[], &prepared);
        Ok(prepared)
    }
}
