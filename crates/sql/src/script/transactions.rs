//! Transactions as procedures behind those that are declared, as far as they can be read.

use std::sync::Arc;

use super::{LeftOut, Place, Probable, Reader, Written, group::unique, unknown::Unknown};
use crate::{application::Application, catalog::Procedure, diagnostic::Diagnostic};

/// What transactions come to.
pub(super) struct Transactions {
    /// What is declared, and those that are understood behind it.
    pub(super) application: Application,
    /// Those that are understood.
    pub(super) known: Vec<(Written, Procedure)>,
    /// Those that are not.
    pub(super) unknown: Vec<Unknown>,
    pub(super) left_out: Vec<(Place, LeftOut)>,
    /// In order of place.
    pub(super) probable: Vec<Probable>,
}

impl Reader {
    /// Reads transactions beside what is declared; their statements are numbered from `first_statement`, or from
    /// behind those of `base`.
    pub(super) fn transactions(
        &mut self,
        base: Application,
        written: Vec<Written>,
        first_statement: u32,
    ) -> Result<Transactions, Vec<Diagnostic>> {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        let (mut left_out, mut probable) = (Vec::new(), Vec::new());
        for mut written in written {
            // A routine of that name is another transaction.
            if base.find(written.name()).is_some() {
                let name = unique(format!("{}_query", written.name()), &mut self.taken);
                written.rename(name);
            }
            if let Written::Client(client) = &mut written {
                let transaction = client.name.clone();
                let told = client.probable.drain(..);
                probable.extend(told.map(|one| Probable {
                    transaction: transaction.clone(),
                    ..one
                }));
            }
            if let Written::Client(client) = &written
                && !client.unresolved.is_empty()
            {
                for (place, diagnostic) in client.told() {
                    let left = self.left_out(&written, diagnostic);
                    left_out.push((place, left));
                }
                unknown.push(self.unknown(&written, client.unresolved[0].reason.clone()));
                continue;
            }
            match self.procedure(&base, &written) {
                Ok(procedure) => known.push((written, procedure)),
                Err(diagnostic) => self.give_up(written, diagnostic, &mut left_out, &mut unknown),
            }
        }
        probable.sort_by_key(|one| (one.file, one.range.start));
        let application = loop {
            if known.is_empty() {
                break base;
            }
            let mut catalog = base.catalog().clone();
            let procedures = known.iter().map(|(_, procedure)| procedure.clone());
            catalog.procedures.extend(procedures.map(Arc::new));
            match base.extended(catalog, first_statement) {
                Ok(application) => break application,
                Err(problems) => {
                    let before = known.len();
                    for problem in &problems {
                        let of_it = |(written, _): &(Written, Procedure)| {
                            problem.span.is_some_and(|span| written.holds(span))
                        };
                        if let Some(at) = known.iter().position(of_it) {
                            let (written, _) = known.remove(at);
                            self.give_up(written, problem.clone(), &mut left_out, &mut unknown);
                        }
                    }
                    if known.len() == before {
                        return Err(problems);
                    }
                }
            }
        };
        Ok(Transactions {
            application,
            known,
            unknown,
            left_out,
            probable,
        })
    }
}
