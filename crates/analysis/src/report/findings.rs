//! What needs coordination, one finding a transaction type and invariant: what tools that look after
//! changes ask for. A [`Baseline`] says which findings are known, so that only new ones are told.
//!
//! A finding is told from others by names that stay when code moves: the transaction type's, the
//! invariant's and the rule's.

use std::collections::BTreeSet;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::source::{SourceFile, Span};
use serde::{Deserialize, Serialize};

use crate::plan::{Confluence, CoordinationClass, Plan, PlanEntry};
use crate::rule::{Rule, rule};

/// The version of the baseline's format.
pub const BASELINE_VERSION: u32 = 1;

/// What stands for the invariant where everything is ordered (`--guarantee serializable`), beside those that
/// need it anyway.
const SERIALIZABILITY: &str = "serializability";

/// What stands for the invariants of a type that may do anything: each of them.
const EVERY_INVARIANT: &str = "every invariant";

/// One transaction type that an invariant needs ordered.
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
    /// The transaction types because of which it is so.
    pub because: &'a [String],
    /// The one among those that may do anything that stands for all of them, if there are any.
    pub anything: Option<&'a str>,
    /// The file in which the type is declared, and where.
    pub place: Option<(&'a SourceFile, Span)>,
}

/// What tells a finding from others.
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
    /// What tells it from others.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            transaction: self.transaction.to_owned(),
            invariant: self.invariant.to_owned(),
            rule: self.rule.code.to_owned(),
        }
    }

    /// It in a sentence, with the others that decide it.
    pub fn message(&self) -> String {
        let (transaction, invariant) = (self.transaction, self.invariant);
        let others: Vec<&str> = self
            .because
            .iter()
            .map(String::as_str)
            .filter(|name| *name != transaction)
            .map(|name| match self.anything {
                Some(anything) if name == anything => "what is not understood",
                _ => name,
            })
            .collect();
        let beside = match others.as_slice() {
            [] => String::new(),
            names => format!("; beside {}", names.join(", ")),
        };
        let explanation = self.explanation;
        format!("{transaction} needs coordination for {invariant}: {explanation}{beside}")
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
    let mut anything = plan.entries.iter().filter(|entry| entry.does_anything);
    let anything = anything.next().map(|first| first.name.as_str());
    let unknown = rule("not-understood")
        .filter(|_| entry.does_anything)
        .map(|rule| Finding {
            transaction: &entry.name,
            invariant: EVERY_INVARIANT,
            rule,
            explanation: entry.unknown.as_deref().unwrap_or(rule.proof),
            because: &[],
            anything,
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
            anything,
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
            anything,
            place,
        })
    });
    let of_all = everything.into_iter().chain(unknown);
    of_all.chain(of_verdicts).collect()
}

/// Findings that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    known: BTreeSet<Fingerprint>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    findings: Vec<Fingerprint>,
}

/// A file that is no baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoBaseline {
    message: String,
}

impl std::fmt::Display for NoBaseline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NoBaseline {}

impl Baseline {
    /// What is found now.
    pub fn of(findings: &[Finding<'_>]) -> Baseline {
        Baseline {
            known: findings.iter().map(Finding::fingerprint).collect(),
        }
    }

    /// From a file's text.
    ///
    /// # Errors
    /// When it is none, or one of another version.
    pub fn parse(text: &str) -> Result<Baseline, NoBaseline> {
        let file: File = serde_json::from_str(text).map_err(|error| NoBaseline {
            message: format!("it is no baseline of anabranch: {error}"),
        })?;
        if file.version != BASELINE_VERSION {
            let found = file.version;
            return Err(NoBaseline {
                message: format!(
                    "its version is {found}, and this program reads {BASELINE_VERSION}: write it anew \
                     with --write-baseline"
                ),
            });
        }
        Ok(Baseline {
            known: file.findings.into_iter().collect(),
        })
    }

    /// A file's text, in a fixed order, with a newline at its end.
    pub fn render(&self) -> String {
        let file = File {
            version: BASELINE_VERSION,
            findings: self.known.iter().cloned().collect(),
        };
        // Plain data with string keys cannot fail to serialize.
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Whether it is known.
    pub fn knows(&self, finding: &Finding<'_>) -> bool {
        self.known.contains(&finding.fingerprint())
    }

    /// Those known that are not found any more, in a fixed order.
    pub fn gone(&self, findings: &[Finding<'_>]) -> Vec<Fingerprint> {
        let found = Baseline::of(findings).known;
        self.known.difference(&found).cloned().collect()
    }
}
