//! Counterexamples of isolation as a script for two sessions of PostgreSQL.
//!
//! The script has parts, one for each counterexample; a part has numbered steps, each for one of the sessions. Lines
//! that are not comments are statements, so that a program can run the script as a person does.

use std::fmt::Write;

use super::counterexample::read_committed;
use crate::explore::{Counterexample, FinalQuery, IsolationFailure, ReadCommitted, SessionStep};

/// The first line of what [`render`] writes. A file that begins with it may be replaced.
pub const FIRST_LINE: &str =
    "-- Two sessions of PostgreSQL in READ COMMITTED: written by anabranch replay.";

/// The script, for a database that has the application's tables and routines, and no rows.
pub fn render(shown: &[&Counterexample], command: &str) -> String {
    let mut out = format!(
        "{FIRST_LINE}
--
--     {command}
--
-- Each part needs a database of its own that has the application's tables and routines, and no rows. Open psql twice
-- there, as session 1 and session 2; times are written in UTC (SET timezone TO 'UTC'). Type the steps in order, each
-- in its session; \"setup\" and \"check\" in either. Where a step waits, go on with the next one in the other session.
-- A value that is generated anew is written as \u{2026}.
-- PostgreSQL has no assertions (CREATE ASSERTION): none is checked here.
"
    );
    let mut parts = 0;
    for one in shown {
        if let Some(failure) = &one.isolation {
            parts += 1;
            part(one, failure, &mut out);
        }
    }
    if parts == 0 {
        out.push_str(
            "\n-- None of the counterexamples is one of isolation: there is nothing to run.\n",
        );
    }
    out
}

fn part(shown: &Counterexample, failure: &IsolationFailure, out: &mut String) {
    let sessions = &failure.sessions;
    let _ = writeln!(out, "\n-- == {}", comment(&shown.id()));
    let _ = writeln!(
        out,
        "-- {}: {}.",
        failure.kind.title(),
        comment(&failure.explanation)
    );
    let _ = writeln!(
        out,
        "-- Session 1 runs the call of replica {}, session 2 that of replica {}.",
        sessions.first + 1,
        2 - sessions.first
    );
    let verdict = match &sessions.verdict {
        ReadCommitted::Permitted => "permitted",
        ReadCommitted::Prevented(_) => "prevented",
        ReadCommitted::NotDecided(_) => "not decided",
    };
    let _ = writeln!(
        out,
        "-- PostgreSQL: {verdict}: {}.",
        read_committed(failure)
    );
    out.push_str("\n-- setup\n");
    for statement in &sessions.setup {
        let _ = writeln!(out, "{statement}");
    }
    for (number, step) in (1..).zip(&sessions.steps) {
        write_step(number, step, out);
    }
    let is_certain = !matches!(sessions.verdict, ReadCommitted::NotDecided(_));
    for query in &sessions.queries {
        check(query, is_certain, out);
    }
    out.push_str("-- == end\n");
}

fn write_step(number: u32, step: &SessionStep, out: &mut String) {
    let _ = write!(out, "\n-- step {number}, session {}", step.session);
    if step.waits {
        out.push_str(" (it waits until session 1 commits)");
    }
    if step.is_refused {
        out.push_str(" (it is refused)");
    }
    let _ = writeln!(out, "\n{}", step.sql);
    let Some(returns) = &step.returns else {
        return;
    };
    let _ = writeln!(out, "--   returns: {}", listed(returns));
    for (session, there) in (1..).zip(&step.in_order) {
        if let Some(there) = there.as_ref().filter(|there| *there != returns) {
            let _ = writeln!(out, "--   with session {session} first: {}", listed(there));
        }
    }
}

fn check(query: &FinalQuery, is_certain: bool, out: &mut String) {
    let _ = writeln!(out, "\n-- check\n{}", query.sql);
    if is_certain {
        let _ = writeln!(out, "--   seen: {}", listed(&query.seen));
    }
    for (session, rows) in (1..).zip(&query.in_order) {
        let _ = writeln!(out, "--   with session {session} first: {}", listed(rows));
    }
}

fn listed(rows: &[String]) -> String {
    match rows.is_empty() {
        true => "no row".to_owned(),
        false => comment(&rows.join(" ")),
    }
}

/// The text on one line.
fn comment(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
