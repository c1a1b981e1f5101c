//! Which expressions of a catalog's statements may be opaque ([`crate::bind::opaque`]), and which were.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::builtin::is_builtin;
use crate::diagnostic::Diagnostic;

/// Allows opaque expressions in a catalog's statements, and collects them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpaqueExpressions {
    /// Functions that may have side effects.
    effects: BTreeSet<String>,
    /// Why each expression is opaque.
    reasons: Arc<Mutex<Vec<Diagnostic>>>,
}

impl OpaqueExpressions {
    /// PostgreSQL's functions with side effects, or with reads that their text does not name.
    const EFFECTS: [&str; 12] = [
        "nextval",
        "setval",
        "currval",
        "lastval",
        "set_config",
        "query_to_xml",
        "table_to_xml",
        "schema_to_xml",
        "cursor_to_xml",
        "ts_stat",
        "dblink",
        "dblink_exec",
    ];

    /// Allows any functions but these routines.
    pub(crate) fn except(routines: impl IntoIterator<Item = String>) -> OpaqueExpressions {
        let own = OpaqueExpressions::EFFECTS.into_iter().map(str::to_owned);
        OpaqueExpressions {
            effects: own.chain(routines).collect(),
            reasons: Arc::default(),
        }
    }

    /// Whether a function may have side effects: it is not known to have none.
    pub(crate) fn may_have_effects(&self, name: &str) -> bool {
        self.effects.contains(name) || !is_builtin(name)
    }

    /// Notes an opaque expression, by the error of binding it.
    pub(crate) fn note(&self, error: Diagnostic) {
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        reasons.push(error);
    }

    /// A diagnostic for each opaque expression so far.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reasons = reasons.clone();
        reasons.sort_by_key(|of| of.span.map(|span| (span.file, span.start, span.end)));
        reasons.dedup_by_key(|of| of.span);
        reasons
    }
}
