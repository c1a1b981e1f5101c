//! Measures how long the analyser takes for a generated application of so many statements, and for one more
//! transaction type of TPC-C.
//!
//! A generated application has the parts of real ones that take time to analyse: a table for every forty
//! statements, foreign keys, unique names, bounds, rows found by their own key and by other tables' keys,
//! types that share tables, and types that conflict with no other.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anabranch_analysis::explore::{Effort, Explorer};
use anabranch_analysis::plan::CoordinationClass;
use anabranch_analysis::{Guarantee, Topology, analyze};
use anabranch_sql::diagnostic::Diagnostic;
use anabranch_sql::script;
use anabranch_sql::source::SourceFile;
use anabranch_types::SplitMix64;

/// Statements in a procedure.
const STATEMENTS_EACH: usize = 3;
/// Statements for each table.
const STATEMENTS_A_TABLE: usize = 40;
/// One of so many tables is a log, whose rows are only added.
const LOG_EVERY: usize = 4;
/// How often measurements of milliseconds are repeated; the median counts.
const REPEATS: usize = 21;

/// One more type for TPC-C, which reads and changes a customer's balance.
const ONE_MORE: &str = "
CREATE PROCEDURE goodwill(w integer, d integer, c integer, amount numeric) LANGUAGE plpgsql AS $$
DECLARE
    was numeric;
BEGIN
    SELECT c_balance INTO was FROM customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    UPDATE customer SET c_balance = c_balance + amount WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d;
    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w;
END; $$;
";

/// The measured times.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The number of statements: the requested number, rounded up to whole procedures.
    pub statements: usize,
    /// The number of tables.
    pub tables: usize,
    /// The number of transaction types.
    pub types: usize,
    /// The length of the SQL in bytes.
    pub bytes: usize,
    /// Time to parse and compile it.
    pub read: Duration,
    /// Time for a plan that keeps invariants.
    pub invariants: Duration,
    /// Time for a plan that is serializable.
    pub serializable: Duration,
    /// Time to look for counterexamples to the first plan's verdicts, within the default limits.
    pub counterexamples: Duration,
    /// The number of types of the first plan that need coordination.
    pub ordered: usize,
    /// Time to add one type to TPC-C, which has been read: from its text to the plan of all types.
    pub one_more: Duration,
    /// The part of that time which is analysis.
    pub one_more_analysis: Duration,
}

/// Generates an application of so many statements, and measures.
///
/// # Errors
/// Diagnostics of its SQL; there should be none.
pub fn measure(
    seed: u64,
    statements: usize,
    tpcc: &[SourceFile],
    progress: &mut dyn FnMut(&str),
) -> Result<Measured, Vec<Diagnostic>> {
    let (text, tables, types) = made_up(seed, statements);
    let bytes = text.len();
    progress("reading");
    let (read, script) = timed(|| script::read(vec![SourceFile::new("made-up.sql", text)]));
    let script = script?;
    let (catalog, summaries) = (script.application.catalog(), &script.summaries);
    progress("analysing");
    let [(invariants, plan), (serializable, _)] = [Guarantee::Invariants, Guarantee::Serializable]
        .map(|guarantee| timed(|| analyze(catalog, summaries, Topology::default(), guarantee)));
    progress("looking for counterexamples");
    let (counterexamples, _) = timed(|| {
        let explorer = Explorer::new(&script.application, &plan);
        explorer
            .with_clients(&script.clients)
            .search(seed, Effort::default())
    });
    let ordered = plan.entries.iter();
    let ordered = ordered.filter(|entry| entry.class != CoordinationClass::Free);
    let ordered = ordered.count();

    progress("adding a type to TPC-C");
    let one_more = SourceFile::new("one-more.sql", ONE_MORE);
    let mut whole = Vec::with_capacity(REPEATS);
    let mut analysis = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        let mut script = script::read(tpcc.to_vec())?;
        let start = Instant::now();
        script.add_file(one_more.clone())?;
        let (took, _) = timed(|| {
            let catalog = script.application.catalog();
            let guarantee = Guarantee::Invariants;
            analyze(catalog, &script.summaries, Topology::default(), guarantee)
        });
        whole.push(start.elapsed());
        analysis.push(took);
    }
    Ok(Measured {
        statements: types * STATEMENTS_EACH,
        tables,
        types,
        bytes,
        read,
        invariants,
        serializable,
        counterexamples,
        ordered,
        one_more: median(whole),
        one_more_analysis: median(analysis),
    })
}

fn timed<T>(what: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = what();
    (start.elapsed(), result)
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// Generates an application; returns it with its numbers of tables and transaction types. Of four types one adds
/// to counters, one reads, one appends to logs, and one has the patterns that rules look for.
fn made_up(seed: u64, statements: usize) -> (String, usize, usize) {
    let mut random = SplitMix64::new(seed);
    let tables = (statements / STATEMENTS_A_TABLE).max(LOG_EVERY);
    let types = statements.div_ceil(STATEMENTS_EACH);
    let mut text = String::new();
    for table in 0..tables {
        text += &made_up_table(&mut random, table);
    }
    for number in 0..types {
        let statements = made_up_statements(&mut random, number, tables);
        let _ = writeln!(
            text,
            "CREATE PROCEDURE p{number}(p_id bigint, p_other bigint, p_x bigint, p_name text)\n\
             LANGUAGE plpgsql AS $$\nDECLARE\n    v bigint;\nBEGIN\n    {}\nEND; $$;",
            statements.join("\n    ")
        );
    }
    (text, tables, types)
}

/// Declares a table; every fourth is a log.
fn made_up_table(random: &mut SplitMix64, table: usize) -> String {
    if is_log(table) {
        return format!(
            "CREATE TABLE t{table} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), parent bigint NOT NULL, \
             name text, amount bigint NOT NULL);\n\
             CREATE INDEX t{table}_parent ON t{table} (parent);\n"
        );
    }
    let parent = match table % 2 {
        1 => format!("REFERENCES t{} (id)", row_table(random, table)),
        _ => String::new(),
    };
    let unique = if table.is_multiple_of(3) {
        "UNIQUE"
    } else {
        ""
    };
    let bound = match table % LOG_EVERY {
        0 => "CHECK (amount >= 0)",
        _ => "",
    };
    format!(
        "CREATE TABLE t{table} (id bigint PRIMARY KEY, parent bigint NOT NULL {parent}, name text {unique}, \
         amount bigint NOT NULL {bound}, n integer NOT NULL, state text);\n\
         CREATE INDEX t{table}_parent ON t{table} (parent);\n"
    )
}

/// The kinds of transaction types.
fn made_up_statements(
    random: &mut SplitMix64,
    number: usize,
    tables: usize,
) -> [String; STATEMENTS_EACH] {
    let mut three = |one: &dyn Fn(&mut SplitMix64) -> String| [0; 3].map(|_| one(random));
    match number % 4 {
        0 => {
            let [a, b] = [0; 2].map(|_| row_table(random, tables));
            let mut choices = [
                format!("UPDATE t{a} SET amount = amount + p_x, n = n + 1 WHERE id = p_id;"),
                format!("UPDATE t{b} SET amount = amount - p_x WHERE id = p_other;"),
                format!(
                    "INSERT INTO t{a} (id, parent, name, amount, n, state) \
                     VALUES (p_id, p_other, p_name, p_x, 0, 'new');"
                ),
                format!("UPDATE t{b} SET state = p_name WHERE parent = p_other AND state = 'new';"),
                format!("DELETE FROM t{a} WHERE id = p_id;"),
            ];
            random.shuffle(&mut choices);
            let [first, second, ..] = choices;
            let read = format!("SELECT amount INTO v FROM t{b} WHERE id = p_other;");
            [read, first, second]
        }
        1 => three(&|random| {
            let table = row_table(random, tables);
            format!("UPDATE t{table} SET n = n + 1 WHERE id = p_id;")
        }),
        2 => three(&|random| {
            let table = row_table(random, tables);
            format!("SELECT sum(amount) INTO v FROM t{table} WHERE parent = p_other;")
        }),
        _ => three(&|random| {
            let table =
                random.below((tables / LOG_EVERY) as u64) as usize * LOG_EVERY + LOG_EVERY - 1;
            format!("INSERT INTO t{table} (parent, name, amount) VALUES (p_other, p_name, p_x);")
        }),
    }
}

fn is_log(table: usize) -> bool {
    table % LOG_EVERY == LOG_EVERY - 1
}

/// Picks one of the first `tables` that is no log.
fn row_table(random: &mut SplitMix64, tables: usize) -> usize {
    let table = random.below(tables as u64) as usize;
    table - usize::from(is_log(table))
}

#[cfg(test)]
mod tests {
    use anabranch_workload::tpcc::FILES;

    use super::*;

    /// No statement is skipped, so that all are analysed.
    #[test]
    fn what_is_made_up_is_understood() {
        let (text, tables, types) = made_up(1, 240);
        let read = script::read(vec![SourceFile::new("made-up.sql", text)]);
        let script = read.expect("it is SQL");
        assert!(script.skipped.is_empty(), "{:?}", script.skipped);
        assert_eq!(script.summaries.len(), types);
        assert_eq!(script.application.catalog().tables.len(), tables);
        assert_eq!((types, tables), (80, 6));
        let statements = script.summaries.iter().map(|s| s.statements.len());
        assert_eq!(statements.sum::<usize>(), 240);
        assert_eq!(made_up(1, 240).0, made_up(1, 240).0, "a seed gives one");
    }

    #[test]
    fn one_more_type_joins_tpcc() {
        let sources = FILES.map(|(name, text)| SourceFile::new(name, text));
        let measured = measure(1, 60, &sources, &mut |_| ()).expect("it is SQL");
        assert!((1..measured.types).contains(&measured.ordered));
        assert_eq!(measured.statements, 60);
        assert!(measured.one_more > measured.one_more_analysis);
    }
}
