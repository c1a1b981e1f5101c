//! Compiles transactions into procedures, which follow the declared ones, as far as they can be analysed.

use std::sync::Arc;

use super::{
    ClientTransaction, FileRange, ProbableInvariant, Reader, Skipped, TransactionSource,
    group::unique, unparsed::Unparsed,
};
use crate::{application::Application, catalog::Procedure, diagnostic::Diagnostic};

/// The compiled transactions.
pub(super) struct Transactions {
    /// The declarations, followed by the transactions that were analysed.
    pub(super) application: Application,
    /// The analysed transactions.
    pub(super) known: Vec<(TransactionSource, Procedure)>,
    /// The others.
    pub(super) unknown: Vec<Unparsed>,
    pub(super) skipped: Vec<(FileRange, Skipped)>,
    /// All of them, with their statements.
    pub(super) clients: Vec<ClientTransaction>,
    /// In order of place.
    pub(super) probable: Vec<ProbableInvariant>,
}

impl Reader {
    /// Compiles transactions over the declarations in `base`. Their statements are numbered from `first_statement`, or
    /// after those of `base`.
    pub(super) fn transactions(
        &mut self,
        base: Application,
        written: Vec<TransactionSource>,
        first_statement: u32,
    ) -> Result<Transactions, Vec<Diagnostic>> {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        let (mut skipped, mut probable) = (Vec::new(), Vec::new());
        let mut clients = Vec::new();
        for mut written in written {
            // A routine of that name is another transaction.
            if base.find(written.name()).is_some() {
                let name = unique(format!("{}_query", written.name()), &mut self.taken);
                written.rename(name);
            }
            if let TransactionSource::Client(client) = &mut written {
                let transaction = client.name.clone();
                let told = client.probable.drain(..);
                probable.extend(told.map(|one| ProbableInvariant {
                    transaction: transaction.clone(),
                    ..one
                }));
            }
            clients.push(self.steps_of(&written));
            if let TransactionSource::Client(client) = &written
                && !client.unresolved.is_empty()
            {
                for (place, diagnostic) in client.unresolved_diagnostics() {
                    let left = self.skipped(&written, diagnostic);
                    skipped.push((place, left));
                }
                unknown.push(self.unknown(&written, client.unresolved[0].reason.clone()));
                continue;
            }
            match self.procedure(&base, &written) {
                Ok(procedure) => known.push((written, procedure)),
                Err(diagnostic) => {
                    self.mark_unparsed(written, diagnostic, &mut skipped, &mut unknown)
                }
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
                        let of_it = |(written, _): &(TransactionSource, Procedure)| {
                            problem.span.is_some_and(|span| written.holds(span))
                        };
                        if let Some(at) = known.iter().position(of_it) {
                            let (written, _) = known.remove(at);
                            self.mark_unparsed(
                                written,
                                problem.clone(),
                                &mut skipped,
                                &mut unknown,
                            );
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
            skipped,
            clients,
            probable,
        })
    }
}
