//! Proves, with a solver, CHECK constraints that no rule decides, and assertions that are equivalent to one.
//!
//! The question is for an invalid merge: a row that satisfies the table's CHECKs, two replicas that each derive
//! from it by any number of the types' updates and satisfy them too, and a merged row that violates one
//! ([`merge`]). If there is none, the constraint needs no coordination (`solver`).
//!
//! *Why one call at a time is enough.* Take all calls in an order in which each follows those that it has seen.
//! Suppose that the merge of the calls so far is valid. The next call ran on what it had seen, which is valid, and
//! left a valid state: that is the right replica. The left one is the merge of all calls so far, from the same
//! ancestor. The formulas do not depend on where a call ran, so their merge is the merge of these calls with the
//! next one, and it is valid.
//!
//! *Some types only.* If not every type can do without guards, the types that can are separated: the left replica
//! runs any type's calls, the right one only calls of the types that are to be free. Types that are ordered on the
//! row have seen each other's calls, so that the calls which one of them has not seen are of free types: that is
//! the same formula with its sides exchanged.
//!
//! *Assertions.* `NOT EXISTS (SELECT … FROM t WHERE c)` says of each row what `CHECK (c IS NOT TRUE)` says
//! ([`crate::assertion::EveryRow`]), and a row is read as a whole. What differs is how each replica stays valid.
//! Constraints are checked where a row is written. An assertion is evaluated before a call commits, on what that
//! call has seen and written: by every type that some rule finds to write the columns or to insert rows, unless its
//! statements are shown to keep the assertion, or its author declares so. A proof does not change that: a type that
//! may break the assertion alone still has it evaluated, with or without an order.
//!
//! Numbers are whole or rational, and unbounded: an update whose result is beyond its type fails, and the rules
//! assume so, too. Rows that may be deleted and inserted again under one key, keys that change, and transactions
//! that were not analysed are not examined.

mod condition;
mod invalid;
mod merge;

pub(crate) use invalid::{InvalidMerge, ModelCall, invalid_merges};

use std::collections::BTreeSet;
use std::fmt;

use anabranch_sql::summary::{Term, WriteClass};
use anabranch_types::{ColumnIndex, TableId, Value};
use sqlparser::ast::Expr;

use crate::assertion::{RowScope, columns_of};
use crate::footprint::{Action, Footprint};
use crate::invariant::Content;
use crate::plan::Confluence;
use crate::rule::{Finding, Need};
use crate::sign::Sign;
use crate::solve::{Answer, Overflow, Problem, Solver};
use condition::Reader;
use merge::{Merge, Rows, WriteKind, updates, write_kind};

/// The most types among which the search looks for those that can be free though others cannot.
const TYPES_MAX: usize = 16;

/// Rules that find what may go wrong, without knowing a case in which it must.
const SUSPECTING_RULES: [&str; 3] = ["row-mixed", "eq-counter", "bound-computed"];

/// Why nothing is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NotProved(String);

impl NotProved {
    fn new(reason: impl Into<String>) -> NotProved {
        NotProved(reason.into())
    }
}

impl fmt::Display for NotProved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Overflow> for NotProved {
    fn from(overflow: Overflow) -> NotProved {
        NotProved(overflow.to_string())
    }
}

/// A CHECK constraint to prove, or an assertion that is equivalent to one.
pub(crate) struct Check<'a> {
    /// Its table.
    pub(crate) table: TableId,
    /// Its condition.
    pub(crate) condition: &'a Expr,
}

impl<'a> Check<'a> {
    /// Returns the check, if an invariant is a condition that each row of a table satisfies by itself.
    pub(crate) fn of(content: &'a Content) -> Option<Check<'a>> {
        match content {
            Content::Row {
                table, condition, ..
            } => Some(Check {
                table: *table,
                condition,
            }),
            Content::Assertion(formula) => formula.every_row.as_ref().map(|every| Check {
                table: every.table,
                condition: &every.condition,
            }),
            _ => None,
        }
    }
}

/// Proves what it can of a CHECK constraint beyond the rules' findings.
pub(crate) fn judge<'a>(
    footprint: &'a Footprint<'a>,
    solver: &Solver,
    check: &Check<'a>,
    mut findings: Vec<Finding>,
) -> Vec<Finding> {
    let needing: BTreeSet<usize> = findings
        .iter()
        .filter(|f| f.confluent != Confluence::Yes)
        .map(|f| f.owner)
        .collect();
    if needing.is_empty() {
        return findings;
    }
    let proof = match Proof::new(footprint, solver, check) {
        Ok(proof) => proof,
        Err(stop) => return undecided(findings, &stop.0),
    };
    let free: BTreeSet<usize> = match proof.refute(&|_| true) {
        Ok(Answer::Unsatisfiable) => needing.clone(),
        Ok(Answer::Satisfiable(_)) => proof.free_beside(&needing),
        Ok(Answer::Unknown(reason)) => return undecided(findings, &reason),
        Err(stop) => return undecided(findings, &stop.0),
    };
    let guarded: Vec<usize> = needing.difference(&free).copied().collect();
    let described = proof.describe();
    for finding in &mut findings {
        if free.contains(&finding.owner) {
            let why = match guarded.is_empty() {
                true => {
                    format!(
                        "proved for all states: no merge of valid rows violates it ({described})"
                    )
                }
                false => format!(
                    "proved for all states, where the others are ordered: no merge of valid rows violates it ({described})"
                ),
            };
            let mut proved = Finding::yes(finding.owner, "solver", why).because(guarded.clone());
            proved.breaks_alone = finding.breaks_alone;
            *finding = proved;
        } else if guarded.contains(&finding.owner) && !free.is_empty() {
            // The remaining types are all ordered on the row.
            let mine = proof.updates.iter().filter(|a| a.owner == finding.owner);
            finding
                .needs
                .extend(mine.map(|a| Need::row(footprint, a).reading(a)));
            *finding = finding.clone().because(guarded.clone());
        }
    }
    findings
}

/// The findings, with the reason why the solver does not decide what rules only suspect.
fn undecided(mut findings: Vec<Finding>, reason: &str) -> Vec<Finding> {
    for finding in findings
        .iter_mut()
        .filter(|f| SUSPECTING_RULES.contains(&f.rule))
    {
        finding.explanation += &format!("; the solver does not decide this ({reason})");
    }
    findings
}

/// A question to the solver: whether there is an invalid merge.
struct Question<'a> {
    problem: Problem,
    rows: Rows,
    reader: Reader<'a>,
}

/// The proof of one constraint.
struct Proof<'a, 's> {
    footprint: &'a Footprint<'a>,
    solver: &'s Solver,
    table: TableId,
    condition: &'a Expr,
    columns: Vec<ColumnIndex>,
    updates: Vec<&'a Action>,
}

impl<'a, 's> Proof<'a, 's> {
    fn new(
        footprint: &'a Footprint<'a>,
        solver: &'s Solver,
        check: &Check<'a>,
    ) -> Result<Proof<'a, 's>, NotProved> {
        let Check { table, condition } = *check;
        let scope = RowScope {
            table: footprint.table(table),
        };
        let columns = columns_of(&scope, condition)
            .ok_or_else(|| NotProved::new("part of the condition was not analysed"))?;
        let unknown = |a: &Action| footprint.types[a.owner].summary.unknown.is_some();
        if footprint.on_table(table).any(unknown) {
            return Err(NotProved::new("some transaction type was not analysed"));
        }
        if footprint.on_table(table).any(|a| footprint.may_replace(a)) {
            return Err(NotProved::new(
                "rows may be deleted and inserted again under the same key",
            ));
        }
        let key = &footprint.table(table).primary_key;
        if key.iter().any(|c| !footprint.is_settled(table, *c)) {
            return Err(NotProved::new("rows change their keys"));
        }
        Ok(Proof {
            footprint,
            solver,
            table,
            condition,
            updates: updates(footprint, table, &columns),
            columns,
        })
    }

    /// Whether there is an invalid merge in which the right replica runs only calls of free types.
    fn refute(&self, free: &dyn Fn(usize) -> bool) -> Result<Answer, NotProved> {
        Ok(self.solver.decide(&self.question(free)?.problem))
    }

    /// Builds the question.
    fn question(&self, free: &dyn Fn(usize) -> bool) -> Result<Question<'a>, NotProved> {
        let mut problem = Problem::default();
        let mut reader = Reader::new(self.footprint.table(self.table));
        let merge = Merge::new(
            self.footprint,
            self.table,
            &self.updates,
            free,
            &mut problem,
            &mut reader,
        );
        let rows = merge.rows(&self.columns)?;
        let [left, right] = &rows.replicas;
        for row in [&rows.ancestor, left, right] {
            for condition in self.known() {
                let truth = reader.truth(&mut problem, condition, row)?;
                problem.assert(truth.fails.negated());
            }
        }
        let truth = reader.truth(&mut problem, self.condition, &rows.merged)?;
        problem.assert(truth.fails);
        Ok(Question {
            problem,
            rows,
            reader,
        })
    }

    /// What every valid row satisfies, as far as it concerns these columns alone: the condition itself, which is no
    /// CHECK of the table if it is an assertion's, and the CHECKs.
    fn known(&self) -> impl Iterator<Item = &'a Expr> {
        let table = self.footprint.table(self.table);
        let declared = &self.footprint.catalog.table(self.table).checks;
        let declared = declared.iter().map(|check| &check.expression);
        let declared = declared.filter(move |condition| {
            let columns = columns_of(&RowScope { table }, condition);
            let within = |c: &ColumnIndex| self.columns.contains(c);
            columns.is_some_and(|columns| columns.iter().all(within))
                && **condition != *self.condition
        });
        declared.chain([self.condition])
    }

    /// The types that need no order as long as the other types are ordered.
    fn free_beside(&self, needing: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut free = BTreeSet::new();
        let holds = |free: &BTreeSet<usize>| {
            let is_free = |owner: usize| !needing.contains(&owner) || free.contains(&owner);
            self.refute(&is_free) == Ok(Answer::Unsatisfiable)
        };
        if needing.len() > TYPES_MAX || !holds(&free) {
            return free;
        }
        for owner in needing {
            free.insert(*owner);
            if !holds(&free) {
                free.remove(owner);
            }
        }
        free
    }

    /// Describes how the columns are written.
    fn describe(&self) -> String {
        let table = self.footprint.table(self.table);
        let words: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let name = &table.columns[column.index()].name;
                let how = match write_kind(table, &self.updates, *column) {
                    WriteKind::Kept => "stays".to_owned(),
                    WriteKind::Added => self.direction(*column).to_owned(),
                    WriteKind::Assigned => self.values(*column),
                    WriteKind::Computed => "is computed".to_owned(),
                };
                format!("{name} {how}")
            })
            .collect();
        words.join(", ")
    }

    fn direction(&self, column: ColumnIndex) -> &'static str {
        let signs = self.updates.iter().filter_map(|action| {
            let WriteClass::Add { term, negated } = &action.write(column)?.class else {
                return None;
            };
            let sign = self.footprint.sign(action.owner, term);
            Some(sign.turned_if(*negated))
        });
        let mut signs = signs;
        match signs.next() {
            Some(Sign::Positive) if signs.all(|s| s == Sign::Positive) => "only grows",
            Some(Sign::Negative) if signs.all(|s| s == Sign::Negative) => "only shrinks",
            _ => "is added to",
        }
    }

    fn values(&self, column: ColumnIndex) -> String {
        let mut values: Vec<String> = Vec::new();
        for action in &self.updates {
            let Some(write) = action.write(column) else {
                continue;
            };
            let value = match &write.class {
                WriteClass::Assign(Term::Constant(value)) => match value {
                    Value::Null => "NULL".to_owned(),
                    Value::Text(text) => format!("'{text}'"),
                    Value::Int(n) => n.to_string(),
                    Value::Bool(truth) => truth.to_string(),
                    _ => return "is assigned".to_owned(),
                },
                _ => return "is assigned".to_owned(),
            };
            if !values.contains(&value) {
                values.push(value);
            }
        }
        format!("becomes {}", values.join(" or "))
    }
}
