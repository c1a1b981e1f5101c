//! How one transaction type is coordinated: the answer to `EXPLAIN COORDINATION`.

use std::fmt::Write;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::summary::TransactionSummary;

use super::layout::{hanging, heading};
use super::notes::sign;
use super::{json, text};
use crate::plan::Plan;

/// The coordination of one transaction type, as text for people and as JSON for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordination {
    /// Class, routing, guards, checks, deferred updates, verdicts and protocol: lines of text.
    pub text: String,
    /// The type's object in the report of the plan ([`json`]).
    pub json: String,
}

impl Coordination {
    /// The coordination of the type with this index in the plan's entries.
    ///
    /// # Panics
    /// When the plan has no such entry, or there is not one summary for each entry.
    pub fn new(
        plan: &Plan,
        catalog: &Catalog,
        summaries: &[TransactionSummary],
        index: usize,
    ) -> Coordination {
        let (entry, summary) = (&plan.entries[index], &summaries[index]);
        let mut out = String::new();
        text::transaction(plan, catalog, summaries, (entry, summary), 0, &mut out);
        if entry.verdicts.is_empty() {
            let _ = writeln!(out, "  No invariant depends on it.");
        } else {
            heading(
                &mut out,
                "Invariants: ✓ holds without coordination, ✗ needs it, ? not known",
            );
        }
        for verdict in &entry.verdicts {
            let name = &plan.invariants[verdict.invariant].name;
            let start = format!("  {} {name}: ", sign(verdict));
            hanging(
                &mut out,
                &start,
                &format!("{} [{}]", verdict.explanation, verdict.rule),
            );
        }
        let _ = writeln!(out, "Protocol: {}", entry.protocol);
        Coordination {
            text: out,
            json: json::render_transaction(plan, catalog, entry, summary),
        }
    }
}
