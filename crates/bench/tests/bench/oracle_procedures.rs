//! Random PL/pgSQL functions and procedures, on PostgreSQL and on ours: the same rows, errors and tables.
//!
//! `ANABRANCH_PROCEDURE_SEED` and `ANABRANCH_PROCEDURES` choose another run. Constructs that are not supported
//! (SQLSTATE 0A000) are counted and named, and have to stay below [`REFUSED_PERCENT_MAX`]; another test has the
//! constructs of PL/pgSQL that are refused, and the positions in their messages.

use std::collections::BTreeMap;

use anabranch_sql::application::Application;
use anabranch_sql::catalog;
use anabranch_sql::diagnostic::Diagnostic;
use anabranch_sql::source::SourceFile;

use crate::oracle::ours::Ours;
use crate::oracle::{Answer, Postgres, difference, setting};
use crate::statements::procedure::{Arguments, DrawnProcedure};
use crate::statements::{Generator, SCHEMA, TABLES};

/// The most procedures and calls of 100 that may be refused as not supported.
const REFUSED_PERCENT_MAX: usize = 5;

/// Procedures that are loaded together.
const BATCH: usize = 20;

/// Calls of each procedure.
const CALLS: usize = 4;

const NOT_SUPPORTED: &str = "0A000";

/// Our numerics have 38 digits, PostgreSQL's 131,072 before the point and 16,383 after it.
const TOO_MANY_DIGITS: &str = "value overflows numeric format: at most 38 digits are supported";

#[test]
fn procedures_do_what_they_do_on_postgresql() {
    let seed = setting("ANABRANCH_PROCEDURE_SEED", 1);
    let count = setting("ANABRANCH_PROCEDURES", 400) as usize;
    println!("ANABRANCH_PROCEDURE_SEED={seed} ANABRANCH_PROCEDURES={count}");
    let mut comparison = Comparison::new(seed);
    let mut drawn = 0;
    while drawn < count {
        let batch = BATCH.min(count - drawn);
        comparison.batch(drawn, batch);
        drawn += batch;
    }
    comparison.report();
}

/// Former differences, found by a seed or by reading, each reduced to the smallest function that has it. Every
/// function takes an array, as generated ones do.
const STORIES: &str = "
CREATE FUNCTION loop_without_rows(parr integer[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v integer := 7; BEGIN
    FOR v IN SELECT id FROM place WHERE id < 0 LOOP NULL; END LOOP;
    RETURN v;
END $$;
CREATE FUNCTION several_rows_into_one(parr integer[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v integer; BEGIN
    UPDATE place SET is_open = true RETURNING id INTO v;
    RETURN v;
END $$;
CREATE FUNCTION row_count_of_into(parr integer[]) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE v integer; n integer; BEGIN
    SELECT id INTO v FROM place ORDER BY id;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
CREATE FUNCTION no_return(parr integer[]) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    IF parr IS NULL AND parr IS NOT NULL THEN RETURN 1; END IF;
END $$;
CREATE FUNCTION nothing(p integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RETURN NULL;
END $$;
CREATE FUNCTION performed(parr integer[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE v integer; BEGIN
    PERFORM nothing(1);
    RETURN found;
END $$;
CREATE FUNCTION assigned_call(parr integer[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE v integer; BEGIN
    v := nothing(1);
    RETURN found;
END $$;
CREATE FUNCTION grown(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v integer[] := '{1}'; BEGIN
    v[4] := 9;
    RETURN v::text || cardinality(v);
END $$;
CREATE FUNCTION only_the_row_taken_need_fit(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v varchar(3); n smallint; BEGIN
    SELECT word, number INTO v, n
    FROM (VALUES (1, 'one', 1), (2, 'three', 33333)) AS r(place, word, number) ORDER BY place;
    RETURN v || n;
END $$;
CREATE FUNCTION the_row_taken_must_fit(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v varchar(3); BEGIN
    SELECT word INTO v FROM (VALUES (1, 'one'), (2, 'three')) AS r(place, word) ORDER BY place DESC;
    RETURN v;
END $$;
CREATE FUNCTION several_rows_before_one_that_fits(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE v varchar(3); BEGIN
    SELECT word INTO STRICT v FROM (VALUES ('three'), ('seven')) AS r(word);
    RETURN v;
END $$;
CREATE FUNCTION a_loop_left_before_what_does_not_fit(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n smallint; s text := ''; BEGIN
    FOR n IN SELECT number FROM (VALUES (1), (2), (33333)) AS r(number) ORDER BY number LOOP
        s := s || n;
        EXIT WHEN n = 2;
    END LOOP;
    RETURN s;
END $$;
CREATE FUNCTION a_loop_comes_to_what_does_not_fit(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n smallint; BEGIN
    FOR n IN SELECT number FROM (VALUES (1), (33333)) AS r(number) ORDER BY number LOOP NULL; END LOOP;
    RETURN 'through';
END $$;
CREATE FUNCTION ordered_before_it_is_text(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE t text; BEGIN
    SELECT number INTO t FROM (VALUES (10), (9)) AS r(number) ORDER BY number;
    RETURN t;
END $$;
CREATE FUNCTION distinct_before_it_is_rounded(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n integer; s text := ''; BEGIN
    FOR n IN SELECT 1.4 AS a UNION SELECT 1.2 ORDER BY a LOOP s := s || n; END LOOP;
    RETURN s;
END $$;
CREATE FUNCTION ordered_before_it_is_returned(parr integer[]) RETURNS text LANGUAGE SQL BEGIN ATOMIC
    SELECT number FROM (VALUES (10), (9)) AS r(number) ORDER BY number;
END;
CREATE FUNCTION only_the_row_returned_need_fit(parr integer[]) RETURNS smallint LANGUAGE SQL BEGIN ATOMIC
    SELECT number FROM (VALUES (1), (33333)) AS r(number) ORDER BY number;
END;
CREATE FUNCTION cases(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE s text := ''; n integer; BEGIN
    FOREACH n IN ARRAY parr LOOP
        CASE n % 4 WHEN 0, 1 THEN s := s || 'a'; WHEN 2 THEN s := s || 'b'; ELSE s := s || 'c'; END CASE;
        CASE WHEN n > 100 THEN s := s || 'd'; WHEN n < 0 OR n IS NULL THEN s := s || 'e'; END CASE;
    END LOOP;
    RETURN s;
END $$;
CREATE FUNCTION asserted(parr integer[]) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    ASSERT cardinality(parr) > 1;
    ASSERT parr[1] > 0, 'the first is ' || parr[1];
    RETURN 1;
END $$;
CREATE FUNCTION labelled(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
<<whole>>
DECLARE s text := ''; n integer; BEGIN
    <<outer>>
    FOREACH n IN ARRAY parr LOOP
        <<inner>>
        FOR i IN 1..5 LOOP
            CONTINUE outer WHEN i > n;
            EXIT outer WHEN n > 50;
            EXIT inner WHEN i = 4;
            s := s || i;
        END LOOP inner;
        s := s || '/';
    END LOOP outer;
    <<part>>
    BEGIN
        EXIT part WHEN s = '';
        s := s || '.';
    END part;
    RETURN s || found;
END whole $$;
CREATE FUNCTION fields(parr integer[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; p place; BEGIN
    SELECT 1 AS a, 'x' AS b INTO r;
    r.a := r.a + parr[1];
    p.id := r.a;
    RETURN concat_ws(',', r.a, r.b, p.id);
END $$;
CREATE FUNCTION strict(parr integer[]) RETURNS integer STRICT LANGUAGE plpgsql AS $$
BEGIN RETURN coalesce(cardinality(parr), 5); END $$;
";

#[test]
fn differences_found_before_do_not_come_back() {
    let mut comparison = Comparison::new(1);
    let calls = [
        "loop_without_rows",
        "several_rows_into_one",
        "row_count_of_into",
        "no_return",
        "performed",
        "assigned_call",
        "grown",
        "only_the_row_taken_need_fit",
        "the_row_taken_must_fit",
        "several_rows_before_one_that_fits",
        "a_loop_left_before_what_does_not_fit",
        "a_loop_comes_to_what_does_not_fit",
        "ordered_before_it_is_text",
        "distinct_before_it_is_rounded",
        "ordered_before_it_is_returned",
        "only_the_row_returned_need_fit",
        "cases",
        "asserted",
        "labelled",
        "fields",
        "strict",
    ];
    comparison.stories(STORIES, &calls);
    assert_eq!(comparison.drawn, calls.len());
    comparison.report();
}

/// Constructs of PL/pgSQL that PostgreSQL accepts and we refuse, with their names and positions.
#[test]
fn what_is_not_supported_is_refused_by_name_and_place() {
    let mut theirs = Postgres::start();
    theirs
        .client
        .batch_execute(SCHEMA)
        .expect("the schema is PostgreSQL's");
    let cases = [
        ("EXECUTE 'SELECT 1';", "EXECUTE"),
        (
            "FOR r IN EXECUTE 'SELECT 1' LOOP NULL; END LOOP;",
            "EXECUTE",
        ),
        (
            "BEGIN NULL; EXCEPTION WHEN others THEN NULL; END;",
            "EXCEPTION",
        ),
        ("OPEN c FOR SELECT 1;", "cursor"),
        (
            "FOREACH v SLICE 0 IN ARRAY parr LOOP NULL; END LOOP;",
            "SLICE",
        ),
        (
            "RAISE EXCEPTION 'no' USING ERRCODE = left('ABCDEF', 5);",
            "ERRCODE",
        ),
        ("GET DIAGNOSTICS t = PG_CONTEXT;", "diagnostics"),
        (
            "FOR v IN UPDATE place SET area = 1 RETURNING id LOOP NULL; END LOOP;",
            "a loop over",
        ),
        ("COMMIT;", "COMMIT"),
        ("PERFORM f(1);", "call of a procedure"),
    ];
    for (number, (statement, named)) in cases.into_iter().enumerate() {
        let text = format!(
            "CREATE FUNCTION f(parr integer[]) RETURNS integer LANGUAGE plpgsql AS $$\n\
             DECLARE v integer; t text; r record; c refcursor;\n\
             BEGIN\n    {statement}\n    RETURN 1;\nEND\n$$"
        );
        let declared = match statement.contains("OPEN") {
            true => text.clone(),
            // A cursor is refused where it is declared.
            false => text.replace(" c refcursor;", ""),
        };
        let refusals = refusals(&declared);
        let [refusal] = &refusals[..] else {
            panic!(
                "{statement} is refused {} times: {refusals:?}",
                refusals.len()
            )
        };
        assert_eq!(refusal.code, NOT_SUPPORTED, "{statement}: {refusal:?}");
        let said = refusal.message.to_lowercase();
        assert!(said.contains(&named.to_lowercase()), "{statement}: {said}");
        let at = refusal.span.expect("it has a place").start as usize;
        let line = declared[..at].lines().count();
        let wanted = if statement.contains("OPEN") {
            2..=2
        } else {
            4..=4
        };
        assert!(wanted.contains(&line.max(1)), "{statement}: line {line}");
        let answer = theirs.ask(&text.replace(" f(", &format!(" f{number}(")));
        assert_eq!(answer.code(), None, "{statement}:\n{answer}");
    }
}

/// An exception that a procedure raises has the procedure's message.
fn is_raised_alike(ours: &Answer, theirs: &Answer) -> bool {
    match (ours, theirs) {
        (
            Answer::Failed { code, message, .. },
            Answer::Failed {
                message: their_message,
                ..
            },
        ) => !["P0001", "AB123"].contains(&code.as_str()) || message == their_message,
        _ => true,
    }
}

/// Both databases, and the results of comparing them.
struct Comparison {
    theirs: Postgres,
    generator: Generator,
    drawn: usize,
    calls: usize,
    rows: usize,
    /// Constructs that we do not support, with a procedure each.
    refused: BTreeMap<String, (usize, String)>,
    /// How often each SQLSTATE occurred; the empty one counts calls that succeeded.
    codes: BTreeMap<String, usize>,
    differences: Vec<String>,
}

fn schema() -> SourceFile {
    SourceFile::new("tests/bench/statements/schema.sql", SCHEMA)
}

/// Our engine with these procedures, in one file.
fn ours(procedures: &[DrawnProcedure]) -> Ours {
    let texts: Vec<String> = procedures
        .iter()
        .map(|p| format!("{};\n", p.text))
        .collect();
    let files = vec![schema(), SourceFile::new("procedures.sql", texts.concat())];
    Ours::new(files).unwrap_or_else(|error| panic!("each was accepted alone: {error}"))
}

/// Our objection to a procedure.
fn refusals(text: &str) -> Vec<Diagnostic> {
    let files = vec![
        schema(),
        SourceFile::new("procedure.sql", format!("{text};")),
    ];
    match catalog::load(files).and_then(Application::compile) {
        Ok(_) => Vec::new(),
        Err(found) => found,
    }
}

impl Comparison {
    fn new(seed: u64) -> Comparison {
        let mut theirs = Postgres::start();
        theirs
            .client
            .batch_execute(SCHEMA)
            .expect("the schema is PostgreSQL's");
        let mut generator = Generator::new(seed);
        for row in generator.fill() {
            // Some rows violate constraints and are not inserted.
            theirs.ask(&row.text);
        }
        Comparison {
            theirs,
            generator,
            drawn: 0,
            calls: 0,
            rows: 0,
            refused: BTreeMap::new(),
            codes: BTreeMap::new(),
            differences: Vec::new(),
        }
    }

    /// Draws procedures, and calls those that both accept.
    fn batch(&mut self, first: usize, count: usize) {
        let mut accepted = Vec::new();
        for number in first..first + count {
            let procedure = self.generator.procedure(&format!("f{number}"));
            self.drawn += 1;
            if self.accept(&procedure) {
                accepted.push(procedure);
            }
        }
        let mut ours = ours(&accepted);
        ours.load(&mut self.theirs);
        for procedure in &accepted {
            for _ in 0..CALLS {
                let arguments = self.generator.arguments(procedure);
                if let Some(found) = self.call(&mut ours, procedure, &arguments) {
                    self.differences
                        .push(format!("{}\n  {}\n{found}", procedure.text, arguments.text));
                    // Start again from equal tables, so that one difference causes no others.
                    ours.load(&mut self.theirs);
                    break;
                }
            }
        }
    }

    /// Whether both accept it. If only one does, that is a difference, unless we refuse it as not supported.
    fn accept(&mut self, procedure: &DrawnProcedure) -> bool {
        let refusals = refusals(&procedure.text);
        if let Some(refusal) = refusals.iter().find(|r| r.code == NOT_SUPPORTED) {
            let seen = (0, procedure.text.clone());
            self.refused
                .entry(refusal.message.clone())
                .or_insert(seen)
                .0 += 1;
            return false;
        }
        let theirs = self.theirs.ask(&procedure.text);
        match (refusals.first(), &theirs) {
            (None, Answer::Done { .. }) => return true,
            (Some(ours), Answer::Failed { code, .. }) if ours.code == code => {}
            (ours, _) => {
                let ours = ours.map(|refusal| format!("{}: {}", refusal.code, refusal.message));
                self.differences.push(format!(
                    "{}\n  ours: {ours:?}\n  PostgreSQL's\n{theirs}",
                    procedure.text
                ));
            }
        }
        false
    }

    /// Calls a procedure on both sides; returns the difference.
    fn call(
        &mut self,
        ours: &mut Ours,
        procedure: &DrawnProcedure,
        arguments: &Arguments,
    ) -> Option<String> {
        let answer = ours.call(&procedure.name, &arguments.values);
        if let Answer::Failed { code, message, .. } = &answer
            && (code == NOT_SUPPORTED || message == TOO_MANY_DIGITS)
        {
            let seen = (0, procedure.text.clone());
            self.refused.entry(message.clone()).or_insert(seen).0 += 1;
            return None;
        }
        let theirs = self.theirs.ask(&arguments.text);
        self.calls += 1;
        let code = theirs.code().unwrap_or_default().to_owned();
        *self.codes.entry(code).or_default() += 1;
        if let Answer::Done { rows, .. } = &theirs {
            self.rows += rows.len();
        }
        let alike = match (&answer, &theirs) {
            (
                Answer::Done { rows, .. },
                Answer::Done {
                    rows: their_rows, ..
                },
            ) => rows == their_rows,
            // We check uniqueness at commit: another error may come before it.
            _ => {
                (answer.is_same_failure(&theirs) && is_raised_alike(&answer, &theirs))
                    || (theirs.is_violation()
                        && answer.code().is_some()
                        && self.theirs.also_violates(&arguments.text, &answer))
            }
        };
        if !alike {
            return Some(format!("  ours\n{answer}\n  PostgreSQL's\n{theirs}"));
        }
        if answer.code().is_some() {
            return None;
        }
        TABLES.iter().find_map(|table| {
            let (ours, theirs) = (ours.contents(table.name), self.theirs.contents(table.name));
            difference(&ours, &theirs).map(|d| format!("  table {}:\n{d}", table.name))
        })
    }

    /// Loads hand-written functions from one text, and compares calls of them.
    fn stories(&mut self, functions: &str, calls: &[&str]) {
        let files = vec![schema(), SourceFile::new("stories.sql", functions)];
        let mut ours = Ours::new(files).unwrap_or_else(|error| panic!("{error}"));
        self.theirs
            .client
            .batch_execute(functions)
            .unwrap_or_else(|error| panic!("{error}"));
        ours.load(&mut self.theirs);
        for name in calls {
            let procedure = DrawnProcedure::named(name);
            let arguments = self.generator.arguments(&procedure);
            self.drawn += 1;
            let found = self.call(&mut ours, &procedure, &arguments);
            self.differences
                .extend(found.map(|found| format!("{name}\n{found}")));
        }
    }

    fn report(self) {
        let refused: usize = self.refused.values().map(|(count, _)| count).sum();
        println!(
            "{} procedures, {} calls, {refused} refused; {} rows compared",
            self.drawn, self.calls, self.rows
        );
        println!("by SQLSTATE: {:?}", self.codes);
        for (message, (count, example)) in &self.refused {
            println!("refused {count}: {message}\n{example}");
        }
        for difference in self.differences.iter().take(8) {
            println!("----\n{difference}");
        }
        assert!(
            self.differences.is_empty(),
            "{} of {} procedures differ",
            self.differences.len(),
            self.drawn
        );
        assert!(
            refused * 100 <= (self.drawn + self.calls) * REFUSED_PERCENT_MAX,
            "{refused} of {} procedures and {} calls are refused as not supported",
            self.drawn,
            self.calls
        );
        // A run proves nothing about events that it does not have.
        for code in ["", "22003", "23505", "23514", "AB123", "P0001", "P0002"] {
            assert!(
                self.drawn < 400 || self.codes.contains_key(code),
                "never {code:?}"
            );
        }
    }
}
