//! The outcome of two calls: the rows that they leave, and what each returns to its client.
//!
//! Two calls are isolated from each other if one order of the two has the same outcome. Answers count where they
//! depend on guarded reads of one table alone: of a client's own transaction the results of such statements, of a
//! procedure what it returns. What a transaction reads beside them is not guarded, and no verdict speaks of it.

use anabranch_sql::StatementResult;
use anabranch_sql::summary::Role;
use anabranch_types::{TableId, Value};

use super::World;
use super::call::{Call, run};
use super::state::{Log, State};

/// What a call has returned to its client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answers {
    /// The results of statements.
    pub(super) statements: Vec<StatementResult>,
    /// The rows that the procedure returned.
    pub(super) returned: Vec<Vec<Value>>,
}

/// The outcome of two calls.
#[derive(Clone, Debug)]
pub(super) struct PairOutcome {
    /// The rows that they leave.
    pub(super) state: State,
    /// What each returned, by its place in the pair; `None` for a call that was refused.
    pub(super) answers: [Option<Answers>; 2],
    /// What the call that ran first has done.
    pub(super) first: Log,
    /// What the call that ran second has done; `None` if it was refused.
    pub(super) second: Option<Log>,
}

impl PairOutcome {
    /// Runs two calls one after the other, the one at `first` first; `None` if that one fails.
    pub(super) fn serial(
        world: &World<'_>,
        ancestor: &State,
        calls: [&Call; 2],
        first: usize,
        table: TableId,
    ) -> Option<PairOutcome> {
        let later = 1 - first;
        let (state, log) = run(world, ancestor, calls[first], false)?;
        let mut answers = [None, None];
        answers[first] = Some(world.answers(calls[first].procedure, &log, table));
        // If the second call fails, the state is the one that the first has left.
        let Some((after, mut second)) = run(world, &state, calls[later], false) else {
            return Some(PairOutcome {
                state,
                answers,
                first: log,
                second: None,
            });
        };
        let ends = world.ends_without_a_write(&mut second);
        answers[later] = Some(world.answers(calls[later].procedure, &second, table));
        Some(PairOutcome {
            state: if ends { state } else { after },
            answers,
            first: log,
            second: Some(second),
        })
    }
}

impl World<'_> {
    /// What a call returned that depends on guarded reads of a table alone.
    pub(super) fn answers(&self, procedure: usize, log: &Log, table: TableId) -> Answers {
        let summary = &self.application.summaries()[procedure];
        let guarded = &self.plan.entries[procedure].guarded_reads;
        if self.client_of.contains_key(&procedure) {
            let counts = |result: &&StatementResult| {
                guarded.contains(&result.statement)
                    && summary
                        .statements
                        .iter()
                        .find(|statement| statement.id == result.statement)
                        .is_some_and(|of| of.accesses.iter().all(|a| a.table == table))
            };
            return Answers {
                statements: log.results.iter().filter(counts).cloned().collect(),
                returned: Vec::new(),
            };
        }
        let reads = summary.statements.iter().filter(|statement| {
            let mut accesses = statement.accesses.iter();
            accesses.any(|access| access.role != Role::Insert)
        });
        let mut reads = reads.peekable();
        let depends_on_it = reads.peek().is_some()
            && reads.all(|statement| {
                let mut accesses = statement.accesses.iter();
                guarded.contains(&statement.id) && accesses.all(|access| access.table == table)
            });
        Answers {
            statements: Vec::new(),
            returned: match depends_on_it {
                true => log.returned.clone(),
                false => Vec::new(),
            },
        }
    }

    /// Whether the client ends its transaction without a write because a query found a row. Its log is then cut
    /// behind that query.
    pub(super) fn ends_without_a_write(&self, log: &mut Log) -> bool {
        let found = log.results.iter().position(|result| {
            self.find_none.contains(&result.statement) && !result.rows.is_empty()
        });
        let Some(place) = found else {
            return false;
        };
        std::rc::Rc::make_mut(&mut log.results).truncate(place + 1);
        log.effects.clear();
        true
    }
}
