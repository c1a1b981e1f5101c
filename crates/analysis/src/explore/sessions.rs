//! Two calls as two sessions of PostgreSQL in READ COMMITTED.
//!
//! An interleaving is built from the two calls, and a small model of READ COMMITTED says what PostgreSQL makes of it:
//!
//! * Each statement sees what was committed when it began, and what its own transaction has written.
//! * A statement that writes or locks a row which another open transaction has locked ([`super::row_locks`]) waits for
//!   the end of that transaction, and then looks at the row again. A key that an open transaction has inserted is
//!   waited for, and then refused.
//! * Queries without `FOR UPDATE` and its weaker forms never wait.
//!
//! Clients run one statement at a time: both sessions read first, then one writes and commits, then the other. A
//! procedure is one statement: both sessions call it, then the first one commits. The model follows the statement
//! that waits only if it finds one row by its whole key; PostgreSQL evaluates other statements again row by row, on
//! the old snapshot.

use anabranch_sql::catalog::ColumnDefault;
use anabranch_sql::expression::text::{format_text, literal};
use anabranch_sql::script::{ClientStatement, ClientTransaction, Placeholder, Step, substitute};
use anabranch_sql::summary::{Role, StatementId};
use anabranch_sql::testing::ready;
use anabranch_types::{ColumnIndex, DataType, TableId, Value};

use super::World;
use super::call::{Call, replica, run};
use super::case::Case;
use super::generate::quoted;
use super::row_locks::locks;
use super::serial::PairOutcome;
use super::state::{Attempt, Log, State, apply_rows};
use super::statement::{call as called, inserts};
use super::validity::violated_since;

/// Sequences of tables with initial rows continue here in the sessions.
const NUMBERS_FROM: i64 = 10_000;

/// A value that another run generates anew.
const GENERATED: &str = "…";

/// Whether PostgreSQL in READ COMMITTED shows what the two calls do wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadCommitted {
    /// It does, if the sessions run the steps in order.
    Permitted,
    /// It does not, because of this.
    Prevented(String),
    /// The model does not say, because of this.
    NotDecided(String),
}

/// A statement of one of the two sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionStep {
    /// The session: 1 or 2.
    pub session: usize,
    /// The statement.
    pub sql: String,
    /// Whether it waits until the other session commits: the next step is then typed while it waits.
    pub waits: bool,
    /// Whether PostgreSQL refuses it.
    pub is_refused: bool,
    /// The rows that it returns, if that is known; `…` stands for a generated value.
    pub returns: Option<Vec<String>>,
    /// The rows that it returns in each serial order (session 1 first, session 2 first); `None` where it does not run.
    pub in_order: [Option<Vec<String>>; 2],
}

/// A query of a table's rows after both sessions have committed.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalQuery {
    /// The query. Generated values are not among its columns.
    pub sql: String,
    /// The rows that it then returns, sorted.
    pub seen: Vec<String>,
    /// The rows that it returns after each serial order (session 1 first, session 2 first), sorted.
    pub in_order: [Vec<String>; 2],
}

/// Two calls as two sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoSessions {
    /// What PostgreSQL makes of it.
    pub verdict: ReadCommitted,
    /// The initial rows.
    pub setup: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<SessionStep>,
    /// The queries at the end.
    pub queries: Vec<FinalQuery>,
    /// The replica (0 or 1) whose call session 1 runs.
    pub first: usize,
}

/// What one session runs.
struct Program<'p> {
    call: &'p Call,
    /// Its statements; for a client's transaction with the number of its statement in the summary.
    statements: Vec<(String, Option<StatementId>)>,
    /// How many of them only read, before any other.
    leading: usize,
}

/// The outcome of two sessions.
struct Interleaved {
    verdict: ReadCommitted,
    state: State,
    one: Log,
    /// `None` if the second session's call is refused.
    two: Option<Log>,
    /// The number of statements after which the second session waits.
    waits_after: Option<usize>,
    /// Whether each session reads first.
    reads_first: bool,
}

/// The sessions that show best how two calls fail to be isolated.
pub(super) fn two_sessions(
    world: &World<'_>,
    case: &Case,
    ancestor: &State,
    calls: [&Call; 2],
    orders: &[PairOutcome],
    table: TableId,
) -> Option<TwoSessions> {
    let mut best: Option<(usize, TwoSessions)> = None;
    for first in [0, 1] {
        let pair = [calls[first], calls[1 - first]];
        // Session 1 runs the call at `first`: the answers of each order in the order of the sessions.
        let orders = [first, 1 - first].map(|order| {
            let mut outcome = orders[order].clone();
            if first == 1 {
                outcome.answers.swap(0, 1);
            }
            outcome
        });
        let orders = [&orders[0], &orders[1]];
        let programs = pair.map(|call| program(world, call));
        for reads_first in [true, false] {
            if reads_first && programs.iter().any(|program| program.leading == 0) {
                continue;
            }
            let Some(mut ran) = interleaved(world, ancestor, &programs, reads_first) else {
                continue;
            };
            if ran.verdict == ReadCommitted::Permitted
                && is_serial(world, &ran, pair, orders, table)
            {
                ran.verdict = ReadCommitted::Prevented(match (&ran.two, ran.waits_after) {
                    (None, _) => "the call that waits is then refused".to_owned(),
                    (_, Some(_)) => {
                        "the second statement waits for the row's lock, and then looks at the row again"
                            .to_owned()
                    }
                    (_, None) => "each statement sees what was committed before it".to_owned(),
                });
            }
            let rank = match ran.verdict {
                ReadCommitted::Permitted => 0,
                ReadCommitted::NotDecided(_) => 1,
                ReadCommitted::Prevented(_) => 2,
            };
            if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                let written = Writer {
                    world,
                    case,
                    ancestor,
                    programs: &programs,
                    ran: &ran,
                    orders,
                    table,
                };
                best = Some((rank, written.sessions()));
            }
        }
    }
    best.map(|(_, sessions)| sessions)
}

/// Whether the outcome is that of a serial order.
fn is_serial(
    world: &World<'_>,
    ran: &Interleaved,
    pair: [&Call; 2],
    orders: [&PairOutcome; 2],
    table: TableId,
) -> bool {
    let one = Some(world.answers(pair[0].procedure, &ran.one, table));
    let two = ran
        .two
        .as_ref()
        .map(|log| world.answers(pair[1].procedure, log, table));
    orders.iter().any(|order| {
        let [of_one, of_two] = &order.answers;
        order.state == ran.state && (of_one, of_two) == (&one, &two)
    })
}

/// What a session runs for a call.
fn program<'p>(world: &World<'_>, call: &'p Call) -> Program<'p> {
    let Some(client) = world.client_of.get(&call.procedure) else {
        return Program {
            call,
            statements: vec![(called(world, call), None)],
            leading: 0,
        };
    };
    let summary = &world.application.summaries()[call.procedure];
    let parameters = world.application.procedures[call.procedure].parameters();
    let mut statements = Vec::new();
    let mut leading = 0;
    for written in executed(client, &call.arguments) {
        let mut of_it = summary.statements.iter().filter(|s| written.covers(s.span));
        let own = match (of_it.next(), of_it.next()) {
            (Some(own), None) => Some(own),
            _ => None,
        };
        let only_reads = own.is_some_and(|own| {
            own.accesses.iter().all(|access| access.role == Role::Read) && !locks(&written.text)
        });
        if only_reads && leading == statements.len() {
            leading += 1;
        }
        let text = with_values(&written.text, parameters, &call.arguments);
        statements.push((text, own.map(|own| own.id)));
    }
    // A transaction that only reads has nothing left to run behind its reads.
    if leading == statements.len() {
        leading = 0;
    }
    Program {
        call,
        statements,
        leading,
    }
}

/// The statements that a client runs with these arguments.
fn executed<'c>(client: &'c ClientTransaction, arguments: &[Value]) -> Vec<&'c ClientStatement> {
    fn collect<'c>(steps: &'c [Step], arguments: &[Value], found: &mut Vec<&'c ClientStatement>) {
        for step in steps {
            match step {
                Step::Run(statement) => found.push(statement),
                Step::Either(branches) => {
                    let is_true = |place: &usize| arguments.get(*place) == Some(&Value::Bool(true));
                    let taken = branches.iter().find(|(place, _)| is_true(place));
                    if let Some((_, inner)) = taken {
                        collect(inner, arguments, found);
                    }
                }
                Step::Repeat(inner) => collect(inner, arguments, found),
            }
        }
    }
    let mut found = Vec::new();
    collect(&client.steps, arguments, &mut found);
    found
}

/// A client's statement with values in the place of its parameters.
fn with_values(text: &str, parameters: &[(String, DataType)], arguments: &[Value]) -> String {
    let value = |number: &str| -> Option<String> {
        let place = number.parse::<usize>().ok()?.checked_sub(1)?;
        let written = literal(arguments.get(place)?);
        let (_, data_type) = parameters.get(place)?;
        Some(match data_type {
            DataType::Array(_) => format!("{written}::{data_type}"),
            // Behind a minus the sign would begin a comment.
            _ if written.starts_with('-') => format!("({written})"),
            _ => written,
        })
    };
    let (text, _) = substitute(
        text,
        |at| u32::try_from(at).unwrap_or(u32::MAX),
        |placeholder| match placeholder {
            Placeholder::Dollar(n) => value(n).unwrap_or_else(|| format!("${n}")),
            Placeholder::Question(n) => format!("?{}", n.unwrap_or_default()),
            Placeholder::Named(sign, name) => format!("{sign}{name}"),
        },
    );
    let text = text.trim().trim_end_matches(';');
    format!("{text};")
}

impl World<'_> {
    /// The constraints that rows violate; PostgreSQL has no assertions.
    fn violated_constraints(&self, state: &State, valid: &State) -> Vec<String> {
        let mut violated = violated_since(self, state, valid);
        let assertions = self.application.assertions();
        violated.retain(|name| !assertions.iter().any(|assertion| assertion.name() == name));
        violated
    }
}

/// Runs two sessions; `None` if the first call fails by itself.
fn interleaved(
    world: &World<'_>,
    ancestor: &State,
    programs: &[Program<'_>; 2],
    reads_first: bool,
) -> Option<Interleaved> {
    let [one, two] = [programs[0].call, programs[1].call];
    let (after_one, first) = run(world, ancestor, one, false)?;
    let mut waits_after = None;
    let mut verdict = ReadCommitted::Permitted;
    let next_snapshot = if reads_first {
        programs[1].leading
    } else {
        let (after_two, second) = run(world, ancestor, two, false)?;
        let logs = [&first, &second];
        match world.waits([one, two], [&after_one, &after_two], logs) {
            Some(wait) => {
                waits_after = Some(wait.ended);
                let doubt = wait.doubt.or_else(|| {
                    let is_found =
                        wait.is_reference || world.finds_one_row(two.procedure, wait.statement);
                    (!is_found).then_some(
                        "a statement waits for a row's lock, and PostgreSQL then looks only at the rows that it had \
                         found before",
                    )
                });
                if let Some(doubt) = doubt {
                    verdict = ReadCommitted::NotDecided(doubt.to_owned());
                }
                // What waits for a row that it refers to has done its work before.
                wait.ended + usize::from(wait.is_reference)
            }
            None => {
                let mut state = after_one.clone();
                for done in &second.effects {
                    apply_rows(world, &mut state, done);
                }
                let violated = world.violated_constraints(&state, ancestor);
                if let Some(constraint) = violated.first() {
                    verdict = ReadCommitted::NotDecided(format!(
                        "the sessions meet at the constraint {constraint}"
                    ));
                }
                return Some(Interleaved {
                    verdict,
                    state,
                    one: first,
                    two: Some(second),
                    waits_after,
                    reads_first,
                });
            }
        }
    };
    let procedure = &world.application.procedures[two.procedure];
    let attempt = Attempt::new(world, ancestor.clone(), two.number, false);
    let mut attempt = attempt.then_seeing(next_snapshot, after_one.clone());
    let returned = ready(procedure.call(&mut attempt, &two.arguments));
    let returned = returned.and_then(|returned| attempt.check_deferred().map(|()| returned));
    let (state, mut second) = attempt.into_parts();
    let second = match returned {
        Ok(returned) if world.violated_constraints(&state, &after_one).is_empty() => {
            second.returned = returned.rows;
            Some(second)
        }
        _ => None,
    };
    let mut state = if second.is_some() {
        state
    } else {
        after_one.clone()
    };
    let second = second.map(|mut log| {
        if world.ends_without_a_write(&mut log) {
            state = after_one;
        }
        log
    });
    Some(Interleaved {
        verdict,
        state,
        one: first,
        two: second,
        waits_after,
        reads_first,
    })
}

/// Writes sessions.
struct Writer<'w> {
    world: &'w World<'w>,
    case: &'w Case,
    ancestor: &'w State,
    programs: &'w [Program<'w>; 2],
    ran: &'w Interleaved,
    /// Session 1 first, session 2 first.
    orders: [&'w PairOutcome; 2],
    table: TableId,
}

impl Writer<'_> {
    fn sessions(&self) -> TwoSessions {
        TwoSessions {
            verdict: self.ran.verdict.clone(),
            setup: self.setup(),
            steps: self.steps(),
            queries: self.queries(),
            first: replica(self.programs[0].call),
        }
    }

    /// The initial rows; sequences continue above them.
    fn setup(&self) -> Vec<String> {
        let world = self.world;
        let mut setup = Vec::new();
        for statement in inserts(world, self.ancestor) {
            setup.push(statement);
        }
        for (table, _) in self.ancestor.tables() {
            let declared = world.catalog().table(table);
            let columns = &world.schema().table(table).columns;
            for (default, column) in declared.defaults.iter().zip(columns) {
                if let ColumnDefault::Generated { always, .. } = default {
                    if *always {
                        let name = quoted(&declared.name);
                        let begin = format!("INSERT INTO {name} (");
                        for statement in setup.iter_mut().filter(|s| s.starts_with(&begin)) {
                            *statement = statement.replacen(
                                ") VALUES (",
                                ") OVERRIDING SYSTEM VALUE VALUES (",
                                1,
                            );
                        }
                    }
                    let texts =
                        [&quoted(&declared.name), &column.name].map(|t| t.replace('\'', "''"));
                    setup.push(format!(
                        "SELECT setval(pg_get_serial_sequence('{}', '{}'), {NUMBERS_FROM});",
                        texts[0], texts[1]
                    ));
                }
            }
        }
        // A default may draw from a sequence that belongs to no column.
        for sequence in world.catalog().named_sequences() {
            let options = &sequence.options;
            if options.increment > 0 && (options.minimum..=options.maximum).contains(&NUMBERS_FROM)
            {
                let name = quoted(&sequence.name).replace('\'', "''");
                setup.push(format!("SELECT setval('{name}', {NUMBERS_FROM});"));
            }
        }
        setup
    }

    fn steps(&self) -> Vec<SessionStep> {
        let plain = |session: usize, sql: &str| SessionStep {
            session,
            sql: sql.to_owned(),
            waits: false,
            is_refused: false,
            returns: None,
            in_order: [None, None],
        };
        const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;";
        let [one, two] = [0, 1].map(|session| self.statements(session));
        let leading = [0, 1].map(|session| match self.ran.reads_first {
            true => self.programs[session].leading,
            false => 0,
        });
        let mut steps = vec![plain(1, BEGIN)];
        let (reads, rest) = one.split_at(leading[0]);
        let (other_reads, other_rest) = two.split_at(leading[1]);
        if self.ran.reads_first {
            steps.extend_from_slice(reads);
            steps.push(plain(2, BEGIN));
            steps.extend_from_slice(other_reads);
            steps.extend_from_slice(rest);
            steps.push(plain(1, "COMMIT;"));
            steps.extend_from_slice(other_rest);
        } else {
            steps.extend_from_slice(rest);
            steps.push(plain(2, BEGIN));
            let waiting = self.ran.waits_after.map(|ended| match other_rest.len() {
                1 => 0,
                len => ended.min(len - 1),
            });
            let before = waiting.unwrap_or(other_rest.len());
            steps.extend_from_slice(&other_rest[..before]);
            if let Some(waiting) = waiting {
                steps.push(SessionStep {
                    waits: true,
                    ..other_rest[waiting].clone()
                });
            }
            steps.push(plain(1, "COMMIT;"));
            steps.extend_from_slice(&other_rest[(before + 1).min(other_rest.len())..]);
        }
        let refused = self.ran.two.is_none();
        if refused {
            // The statement that is refused ends the transaction: later ones are not run.
            let is_of_it = |step: &SessionStep| step.session == 2 && step.waits;
            let place = steps.iter().position(is_of_it);
            let place = place.or_else(|| steps.iter().rposition(|step| step.session == 2));
            if let Some(place) = place {
                steps[place].is_refused = true;
                steps[place].returns = None;
                let mut at = 0;
                steps.retain(|step| {
                    at += 1;
                    at <= place + 1 || step.session == 1
                });
            }
        }
        steps.push(plain(2, if refused { "ROLLBACK;" } else { "COMMIT;" }));
        steps
    }

    /// The statements of a session, with what they return.
    fn statements(&self, session: usize) -> Vec<SessionStep> {
        let program = &self.programs[session];
        let own = match session {
            0 => Some(&self.ran.one),
            _ => self.ran.two.as_ref(),
        };
        // Serial order `n` has session `n + 1` first.
        let serial = [0, 1].map(|order| match order == session {
            true => Some(&self.orders[order].first),
            false => self.orders[order].second.as_ref(),
        });
        let mut steps = Vec::new();
        for (ended, (sql, statement)) in program.statements.iter().enumerate() {
            let rows = |log: &Log| -> Option<Vec<String>> {
                let Some(statement) = statement else {
                    return (program.statements.len() == 1 && !log.returned.is_empty())
                        .then(|| self.rows(&log.returned));
                };
                let summary = self.world.summary_of(program.call.procedure, *statement)?;
                let is_query = summary.accesses.iter().all(|a| a.role == Role::Read);
                let result = log
                    .results
                    .get(ended)
                    .filter(|r| r.statement == *statement)?;
                (is_query || !result.rows.is_empty()).then(|| self.rows(&result.rows))
            };
            steps.push(SessionStep {
                session: session + 1,
                sql: sql.clone(),
                waits: false,
                is_refused: false,
                returns: own.and_then(rows),
                in_order: serial.map(|log| log.and_then(rows)),
            });
        }
        steps
    }

    /// Rows as text, with `…` for generated values.
    fn rows(&self, rows: &[Vec<Value>]) -> Vec<String> {
        let texts = rows.iter().map(|row| {
            let values: Vec<String> = row
                .iter()
                .map(|value| match self.is_generated(value) {
                    true => GENERATED.to_owned(),
                    false => text(value, None),
                })
                .collect();
            format!("({})", values.join(", "))
        });
        texts.collect()
    }

    /// Whether a value is one that each run generates anew.
    fn is_generated(&self, value: &Value) -> bool {
        let is_new = match value {
            Value::Uuid(_) | Value::Timestamp(_) | Value::Date(_) => true,
            Value::Int(number) => {
                let numbers = self
                    .programs
                    .iter()
                    .map(|p| super::state::number_given(p.call.number));
                numbers
                    .into_iter()
                    .any(|first| (first..first + 100).contains(number))
                    && self.world.catalog().all_sequences().next().is_some()
            }
            _ => false,
        };
        is_new && !self.is_known(value)
    }

    fn is_known(&self, value: &Value) -> bool {
        let rows = self.case.rows.iter().flat_map(|(_, values)| values);
        let arguments = self.programs.iter().flat_map(|p| &p.call.arguments);
        rows.chain(arguments).any(|known| match known {
            Value::Array(values) => values.contains(value),
            known => known == value,
        })
    }

    /// A query for each table whose rows differ from those of a serial order, and for the invariant's own.
    fn queries(&self) -> Vec<FinalQuery> {
        let mut queries = Vec::new();
        for table in &self.world.order {
            let states = [
                &self.ran.state,
                &self.orders[0].state,
                &self.orders[1].state,
            ];
            let rows = states.map(|state| state.of_table(*table));
            if *table != self.table && rows[1] == rows[0] && rows[2] == rows[0] {
                continue;
            }
            let schema = self.world.schema().table(*table);
            let columns = (0..schema.columns.len()).map(|c| ColumnIndex(c as u16));
            let columns: Vec<ColumnIndex> = columns
                .filter(|column| {
                    let mut values = rows
                        .iter()
                        .flat_map(|rows| rows.values())
                        .map(|row| row.get(&schema.layout, *column));
                    !values.any(|value| self.is_generated(&value))
                })
                .collect();
            if columns.is_empty() {
                continue;
            }
            let seen = rows.map(|rows| {
                let texts = rows.values().map(|row| {
                    let values = columns.iter().map(|c| {
                        let data_type = &schema.columns[c.index()].data_type;
                        text(&row.get(&schema.layout, *c), Some(data_type))
                    });
                    format!("({})", values.collect::<Vec<_>>().join(", "))
                });
                let mut texts: Vec<String> = texts.collect();
                texts.sort_unstable();
                texts
            });
            let names: Vec<String> = columns
                .iter()
                .map(|c| quoted(&schema.columns[c.index()].name))
                .collect();
            let [seen, one, other] = seen;
            queries.push(FinalQuery {
                sql: format!("SELECT {} FROM {};", names.join(", "), quoted(&schema.name)),
                seen,
                in_order: [one, other],
            });
        }
        queries
    }
}

/// A value as `psql` prints it; without a column the type is that of the value.
fn text(value: &Value, data_type: Option<&DataType>) -> String {
    let of_value = match value {
        Value::Null => return "NULL".to_owned(),
        Value::Bool(_) => DataType::Bool,
        Value::Int(_) | Value::Numeric(_) => DataType::Numeric(None),
        Value::Timestamp(_) => DataType::Timestamp,
        Value::Date(_) => DataType::Date,
        _ => DataType::Text,
    };
    format_text(value, data_type.unwrap_or(&of_value))
}
