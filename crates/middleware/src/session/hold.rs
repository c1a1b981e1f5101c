//! Runs a global operation inside a hold.

use anabranch_protocol::belt::Hop;
use anabranch_wire::{ErrorFields, TransactionStatus};

use super::block::{Given, differs, of_server};
use super::unit::Unit;
use super::{End, Failure, Place, Session};
use crate::backend::Answer;
use crate::ring::{NoTurn, Turn};

/// How one run of an operation has ended.
enum Run {
    /// It has committed.
    Done(Vec<Answer>),
    /// It was the victim of others, with this error.
    Again(Failure),
    /// It has failed.
    Failed(Failure),
    /// It has failed with this answer, which the client gets.
    Refused(Answer),
}

impl Session {
    /// Waits for the session's turn, and runs units as one global operation. A unit that has run before has to be answered
    /// as then.
    pub(super) fn in_hold(
        &mut self,
        entries: &[(&Unit, Option<&Given>)],
        modes: &str,
    ) -> Result<Vec<Answer>, Failure> {
        let mut attempts = 0;
        loop {
            let turn = self.turn_of()?;
            let number = self.handle.in_hold(true);
            let handle = std::sync::Arc::clone(&self.handle);
            turn.cancel_by(move || handle.cancel_operation(number));
            let run = self.run_once(&turn, entries, modes);
            self.handle.in_hold(false);
            // An error here loses the turn without a word whether it has committed: the hold is then closed behind it.
            let run = run?;
            attempts += 1;
            if matches!(run, Run::Done(_)) {
                self.note_committed(turn.hold());
            }
            turn.end(matches!(run, Run::Done(_)));
            match run {
                Run::Done(answers) => return Ok(answers),
                Run::Refused(answer) => return Ok(vec![answer]),
                Run::Failed(failure) => return Err(failure),
                Run::Again(failure) if attempts >= self.shared.options.attempts_max => {
                    return Err(failure);
                }
                Run::Again(_) => {}
            }
        }
    }

    fn turn_of(&mut self) -> Result<Turn, Failure> {
        let handle = std::sync::Arc::clone(&self.handle);
        handle.waits(true);
        let turn = self.shared.ring.turn_unless(|| handle.is_cancelled());
        handle.waits(false);
        turn.map_err(|why| no_turn(why, self.shared.options.statements.late))
    }

    /// Commits the open transaction as a global operation, once the session's turn has come. What it has read is locked, so
    /// that it is as if it ran then. Returns whether it was open until then: otherwise it has given way.
    pub(super) fn promote(&mut self, promote: fn(Hop) -> String) -> Result<bool, Failure> {
        let handle = std::sync::Arc::clone(&self.handle);
        handle.waits(true);
        let ring = &self.shared.ring;
        let turn = ring.turn_unless(|| handle.is_cancelled() || handle.is_displaced());
        let is_cancelled = handle.is_cancelled();
        handle.waits(false);
        let turn = match turn {
            Ok(turn) => turn,
            Err(NoTurn::Cancelled) if !is_cancelled => return Ok(false),
            Err(why) => {
                self.leave()?;
                return Err(no_turn(why, self.shared.options.statements.late));
            }
        };
        handle.can_give_way(false);
        let number = handle.in_hold(true);
        let of = std::sync::Arc::clone(&handle);
        turn.cancel_by(move || of.cancel_operation(number));
        handle.runs_on(Some(self.home.cancel_key()));
        let commits = format!(
            "{}; SET CONSTRAINTS ALL IMMEDIATE; COMMIT",
            promote(turn.hold())
        );
        let done = self.home.run(&commits);
        handle.runs_on(None);
        handle.in_hold(false);
        // An error here loses the turn without a word whether it has committed: the hold is then closed behind it.
        let done = done.map_err(End::Home)?;
        if done.is_err() {
            // If the COMMIT has failed there is nothing to roll back, which is a warning.
            self.home.run("ROLLBACK").map_err(End::Home)?.ok();
        }
        if done.is_ok() {
            self.note_committed(turn.hold());
        }
        turn.end(done.is_ok());
        match done {
            Ok(()) => Ok(true),
            Err(error) => Err(of_server(&error)),
        }
    }

    fn run_once(
        &mut self,
        turn: &Turn,
        entries: &[(&Unit, Option<&Given>)],
        modes: &str,
    ) -> Result<Run, Failure> {
        let modes = match modes {
            "" => String::new(),
            modes => format!("; SET TRANSACTION {modes}"),
        };
        let statements = self.shared.options.statements;
        let begun = format!("{}{modes}", (statements.begin)(turn.hold()));
        self.handle.runs_on(Some(self.home.cancel_key()));
        let begun = self.home.run(&begun);
        self.handle.runs_on(None);
        if let Err(error) = begun.map_err(End::Home)? {
            return self.ended_by(&error);
        }
        let mut answers = Vec::with_capacity(entries.len());
        for (unit, given) in entries {
            if self.handle.has_expired() {
                self.home.run("ROLLBACK").map_err(End::Home)?.ok();
                return Ok(Run::Failed(expired()));
            }
            let answered = match given {
                Some(given) => self.run_again(Place::Home, unit, given),
                None => self.exchange(Place::Home, unit, false),
            };
            let answer = match answered {
                Ok(answer) => answer,
                // It is too large: the transaction is still there.
                Err(Failure::Ends(end)) => return Err(end.into()),
                Err(failure) => {
                    self.home.run("ROLLBACK").map_err(End::Home)?.ok();
                    return Ok(Run::Failed(failure));
                }
            };
            if answer.status == TransactionStatus::Idle {
                return Err(self.ended_by_itself());
            }
            let is_as_before = given.is_none_or(|given| given.digest == answer.digest);
            match answer.error.as_deref() {
                Some("40001" | "40P01") if given.is_none() || !is_as_before => {
                    self.home.run("ROLLBACK").map_err(End::Home)?.ok();
                    return Ok(Run::Again(victim()));
                }
                Some(_) if given.is_none() => {
                    self.home.run("ROLLBACK").map_err(End::Home)?.ok();
                    return Ok(Run::Refused(answer));
                }
                _ if !is_as_before => {
                    self.home.run("ROLLBACK").map_err(End::Home)?.ok();
                    return Ok(Run::Failed(differs()));
                }
                _ => answers.push(answer),
            }
        }
        if self.handle.has_expired() {
            self.home.run("ROLLBACK").map_err(End::Home)?.ok();
            return Ok(Run::Failed(expired()));
        }
        self.handle.runs_on(Some(self.home.cancel_key()));
        let sealed = self.home.run(statements.end);
        self.handle.runs_on(None);
        if let Err(error) = sealed.map_err(End::Home)? {
            return self.ended_by(&error);
        }
        match self.home.run("COMMIT").map_err(End::Home)? {
            Ok(()) => Ok(Run::Done(answers)),
            Err(error) => self.ended_by(&error),
        }
    }

    /// The operation's own statements, or those around it, have failed.
    fn ended_by(&mut self, error: &anabranch_wire::relay::Frame) -> Result<Run, Failure> {
        // After a failed COMMIT there is nothing to roll back, which is a warning.
        self.home.run("ROLLBACK").map_err(End::Home)?.ok();
        Ok(match error.field(b'C') {
            Some("40001" | "40P01") => Run::Again(victim()),
            _ => Run::Failed(of_server(error)),
        })
    }
}

/// Why the session's turn has not come, for its client.
pub(super) fn no_turn(why: NoTurn, late: &'static str) -> Failure {
    match why {
        NoTurn::Expired => ErrorFields::error("55P03", why.to_string())
            .with_hint(late)
            .into(),
        NoTurn::Cancelled => {
            ErrorFields::error("57014", "canceling statement due to user request").into()
        }
        NoTurn::Ended => End::Stopped.into(),
        NoTurn::NoSuchHop => ErrorFields::error("22023", why.to_string()).into(),
    }
}

fn expired() -> Failure {
    ErrorFields::error(
        "57014",
        "the operation took too long while it had the token, and was rolled back",
    )
    .with_hint("Other servers wait for it. Do less in one transaction.")
    .into()
}

fn victim() -> Failure {
    ErrorFields::error(
        "40001",
        "could not serialize access: the operation was the victim of others each time that it ran",
    )
    .with_hint("The operation might succeed if retried.")
    .into()
}
