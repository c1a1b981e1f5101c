//! The names of a client's statement: `$1`, `$2`, …, and the connection's values.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
};

use anabranch_types::DataType;

use crate::{
    bind::{Bind, Variables, convert::unbounded},
    diagnostic::Diagnostic,
    procedure::compile::parameter_type,
    session_value::SessionValue,
};

/// `$1`, `$2`, … and the connection's values.
pub(super) struct ClientVariables<'t> {
    types: &'t [Option<DataType>],
    /// The number of the client's parameters.
    count: usize,
    used: RefCell<BTreeSet<usize>>,
    session: RefCell<Vec<SessionValue>>,
    /// Session values that `$n` names.
    numbered: Cell<bool>,
}

impl<'t> ClientVariables<'t> {
    pub(super) fn new(types: &'t [Option<DataType>], greatest: usize) -> ClientVariables<'t> {
        ClientVariables {
            types,
            count: greatest.max(types.len()),
            used: RefCell::default(),
            session: RefCell::default(),
            numbered: Cell::default(),
        }
    }

    /// The `$n` of a further value of the connection.
    pub(super) fn further(&self, value: SessionValue) -> usize {
        self.numbered.set(true);
        let mut session = self.session.borrow_mut();
        session.push(value);
        self.count + session.len()
    }

    /// The connection's values that were named.
    pub(super) fn into_session(self) -> Vec<SessionValue> {
        self.session.into_inner()
    }

    /// The types of the client's parameters, of which binding has found these.
    pub(super) fn parameters(&self, found: &[Option<DataType>]) -> Bind<Vec<DataType>> {
        let used = self.used.borrow();
        (0..self.count)
            .map(|slot| match self.types.get(slot) {
                Some(Some(named)) => Ok(unbounded(named)),
                _ if !used.contains(&slot) || found.get(slot).is_none_or(Option::is_none) => {
                    Err(Diagnostic {
                        code: "42P18",
                        message: format!(
                            "could not determine data type of parameter ${}",
                            slot + 1
                        ),
                        span: None,
                        detail: None,
                        help: Some(
                            "use it with a cast, or number the parameters without gaps".into(),
                        ),
                    })
                }
                _ => Ok(parameter_type(found.get(slot).and_then(Option::as_ref))),
            })
            .collect()
    }
}

impl Variables for ClientVariables<'_> {
    fn named(&self, _: Option<&str>, _: &str) -> Option<(usize, DataType)> {
        None
    }

    fn numbered(&self, number: usize) -> Option<(usize, Option<DataType>)> {
        let slot = number - 1;
        if slot < self.count {
            self.used.borrow_mut().insert(slot);
            let named = self.types.get(slot).and_then(Option::as_ref);
            return Some((slot, named.map(unbounded)));
        }
        let session = self.session.borrow();
        let value = session
            .get(slot - self.count)
            .filter(|_| self.numbered.get())?;
        Some((slot, Some(value.data_type())))
    }

    fn is_of_statement(&self) -> bool {
        true
    }

    fn is_of_client(&self) -> bool {
        true
    }

    fn session_value(&self, value: SessionValue) -> Option<usize> {
        let mut session = self.session.borrow_mut();
        let known = session.iter().position(|known| *known == value);
        let place = known.unwrap_or_else(|| {
            session.push(value);
            session.len() - 1
        });
        Some(self.count + place)
    }

    fn call_advice(&self) -> &'static str {
        "call it by itself: SELECT * FROM procedure(…)"
    }
}
