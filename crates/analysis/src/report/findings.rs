//! Findings: one for each transaction type and invariant that need coordination. A [`Baseline`] lists known findings,
//! so that only new ones are reported.
//!
//! A finding is identified by names that stay when code moves: of the transaction type, the invariant and the rule. A
//! part of the application that was skipped is known by its file, its transaction type or its language.

use std::collections::BTreeSet;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::Skipped;
use anabranch_sql::source::{SourceFile, Span};
use serde::{Deserialize, Serialize};

use super::skipped::located;
use crate::plan::{Confluence, CoordinationClass, Plan, PlanEntry};
use crate::rule::{Rule, rule};

/// The version of the baseline's format.
pub const BASELINE_VERSION: u32 = 1;

/// The invariant's name in the finding that everything is ordered (`--guarantee serializable`).
const SERIALIZABILITY: &str = "serializability";

/// The invariant's name in the finding of a type that was not analysed.
const EVERY_INVARIANT: &str = "every invariant";

/// One transaction type that an invariant requires to coordinate.
#[derive(Clone, Debug)]
pub struct Finding<'a> {
    /// The transaction type's name.
    pub transaction: &'a str,
    /// The invariant's name.
    pub invariant: &'a str,
    /// The rule that found it.
    pub rule: &'static Rule,
    /// Why, in words.
    pub explanation: &'a str,
    /// The transaction types that, with this one, decide the verdict.
    pub because: &'a [String],
    /// The transaction type that stands for all that were not analysed, if there are any.
    pub not_analysed: Option<&'a str>,
    /// The file and span in which the type is declared.
    pub place: Option<(&'a SourceFile, Span)>,
}

/// The identity of a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// The transaction type's name.
    pub transaction: String,
    /// The invariant's name.
    pub invariant: String,
    /// The rule's code.
    pub rule: String,
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.transaction, self.invariant, self.rule)
    }
}

impl Finding<'_> {
    /// The finding's identity.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            transaction: self.transaction.to_owned(),
            invariant: self.invariant.to_owned(),
            rule: self.rule.code.to_owned(),
        }
    }

    /// The finding as a sentence, with the other transaction types that decide it.
    pub fn message(&self) -> String {
        let (transaction, invariant) = (self.transaction, self.invariant);
        let others: Vec<&str> = self
            .because
            .iter()
            .map(String::as_str)
            .filter(|name| *name != transaction)
            .map(|name| match self.not_analysed {
                Some(first) if name == first => "transaction types that were not analysed",
                _ => name,
            })
            .collect();
        let concurrent = match others.as_slice() {
            [] => String::new(),
            names => format!("; concurrent with {}", names.join(", ")),
        };
        let explanation = self.explanation;
        format!("{transaction} needs coordination for {invariant}: {explanation}{concurrent}")
    }
}

/// The findings of a plan, in order of declaration.
pub fn findings<'a>(plan: &'a Plan, catalog: &'a Catalog) -> Vec<Finding<'a>> {
    plan.entries
        .iter()
        .flat_map(|entry| of_entry(plan, catalog, entry))
        .collect()
}

fn of_entry<'a>(plan: &'a Plan, catalog: &'a Catalog, entry: &'a PlanEntry) -> Vec<Finding<'a>> {
    let declared = catalog.procedures.iter().find(|p| p.name == entry.name);
    let place = declared.and_then(|procedure| {
        let file = catalog.files.get(usize::from(procedure.span.file))?;
        Some((file, procedure.span))
    });
    let ordered = entry.serializable && entry.class != CoordinationClass::Free;
    let mut not_analysed = plan
        .entries
        .iter()
        .filter(|entry| entry.may_change_any_table);
    let not_analysed = not_analysed.next().map(|first| first.name.as_str());
    let of_every_invariant = rule("not-analysed")
        .filter(|_| entry.may_change_any_table)
        .map(|rule| Finding {
            transaction: &entry.name,
            invariant: EVERY_INVARIANT,
            rule,
            explanation: entry.unknown.as_deref().unwrap_or(rule.proof),
            because: &[],
            not_analysed,
            place,
        });
    let everything = rule("serializable")
        .filter(|_| ordered)
        .map(|rule| Finding {
            transaction: &entry.name,
            invariant: SERIALIZABILITY,
            rule,
            explanation: rule.proof,
            because: &[],
            not_analysed,
            place,
        });
    let needing = entry
        .verdicts
        .iter()
        .filter(|verdict| verdict.confluent != Confluence::Yes);
    let of_verdicts = needing.filter_map(|verdict| {
        Some(Finding {
            transaction: &entry.name,
            invariant: &plan.invariants[verdict.invariant].name,
            rule: rule(verdict.rule)?,
            explanation: &verdict.explanation,
            because: &verdict.because,
            not_analysed,
            place,
        })
    });
    let of_all = everything.into_iter().chain(of_every_invariant);
    of_all.chain(of_verdicts).collect()
}

/// The identity of a part of the application that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkippedFingerprint {
    /// The file, if the part has a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The transaction type that is not analysed because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<String>,
    /// The language that is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The SQLSTATE of the reason.
    pub code: String,
}

impl SkippedFingerprint {
    fn of(piece: &Skipped, catalog: &Catalog) -> SkippedFingerprint {
        let piece = located(piece, catalog);
        SkippedFingerprint {
            file: piece.file.map(str::to_owned),
            transaction: piece.transaction.map(str::to_owned),
            language: piece.language.map(str::to_owned),
            code: piece.code.to_owned(),
        }
    }
}

/// The known findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    known: BTreeSet<Fingerprint>,
    skipped: BTreeSet<SkippedFingerprint>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    findings: Vec<Fingerprint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedFingerprint>,
}

/// A file is not a baseline that this program reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineError {
    message: String,
}

impl std::fmt::Display for BaselineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for BaselineError {}

impl Baseline {
    /// The baseline that lists these findings, and what is missing from the analysis.
    pub fn of(findings: &[Finding<'_>], skipped: &[Skipped], catalog: &Catalog) -> Baseline {
        let missing = skipped.iter().filter(|piece| piece.is_missing());
        Baseline {
            known: fingerprints(findings),
            skipped: missing
                .map(|piece| SkippedFingerprint::of(piece, catalog))
                .collect(),
        }
    }

    /// Parses a file's text.
    ///
    /// # Errors
    /// When the text is not a baseline, or one of another version.
    pub fn parse(text: &str) -> Result<Baseline, BaselineError> {
        let file: File = serde_json::from_str(text).map_err(|error| BaselineError {
            message: format!("not a baseline of anabranch: {error}"),
        })?;
        if file.version != BASELINE_VERSION {
            let found = file.version;
            return Err(BaselineError {
                message: format!(
                    "the baseline has version {found}, but this program reads version {BASELINE_VERSION}; \
                     write it again with --write-baseline"
                ),
            });
        }
        Ok(Baseline {
            known: file.findings.into_iter().collect(),
            skipped: file.skipped.into_iter().collect(),
        })
    }

    /// The text of the baseline's file, in a fixed order, with a newline at its end.
    pub fn render(&self) -> String {
        let file = File {
            version: BASELINE_VERSION,
            findings: self.known.iter().cloned().collect(),
            skipped: self.skipped.iter().cloned().collect(),
        };
        // Plain data with string keys cannot fail to serialize.
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Whether the finding is known.
    pub fn knows(&self, finding: &Finding<'_>) -> bool {
        self.known.contains(&finding.fingerprint())
    }

    /// The skipped pieces that are missing from the analysis and that the baseline does not list.
    pub fn new_skipped<'s>(
        &'s self,
        skipped: &'s [Skipped],
        catalog: &'s Catalog,
    ) -> impl Iterator<Item = &'s Skipped> {
        let missing = skipped.iter().filter(|piece| piece.is_missing());
        missing.filter(|piece| {
            let print = SkippedFingerprint::of(piece, catalog);
            !self.skipped.contains(&print)
        })
    }

    /// The known findings that are missing from `findings`, in a fixed order.
    pub fn gone(&self, findings: &[Finding<'_>]) -> Vec<Fingerprint> {
        let found = fingerprints(findings);
        self.known.difference(&found).cloned().collect()
    }
}

fn fingerprints(findings: &[Finding<'_>]) -> BTreeSet<Fingerprint> {
    findings.iter().map(Finding::fingerprint).collect()
}
