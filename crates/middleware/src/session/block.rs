//! A transaction by hand, from BEGIN to COMMIT: begun provisionally, moved to the server that it turns out to belong to,
//! run again where it has to be.

use anabranch_dbms::postgres::numbers;
use anabranch_wire::relay::Frame;
use anabranch_wire::{ErrorFields, TransactionStatus};

use super::unit::Unit;
use super::{End, Failure, Place, Run, Session};
use crate::backend::Answer;
use crate::recognise::{Class, Operation};

/// What a unit has given, and gives again each time that it runs.
#[derive(Debug)]
pub(super) struct Given {
    /// That of its answer.
    pub(super) digest: u64,
    /// The numbers that it has drawn from sequences.
    pub(super) numbers: Vec<String>,
}

/// A transaction that is open.
pub(super) struct Block {
    /// Whether it began without a BEGIN: it ends with its query, or with the pipeline.
    pub(super) is_implicit: bool,
    /// `READ ONLY` and the like.
    pub(super) modes: String,
    /// Whether only a ROLLBACK is possible.
    pub(super) has_failed: bool,
    operation: Operation,
    /// Whether it has statements that an operation consists of.
    has_operation: bool,
    /// Where it runs; `None` as long as nothing has run, or if it gave way.
    place: Option<Place>,
    /// What has run, and what it gave.
    log: Vec<(Unit, Given)>,
    /// The bytes of its messages.
    log_bytes: usize,
    /// Whether a part of it was lost with a connection: it can only be rolled back as a whole.
    is_lost: bool,
    /// What its statements have set on the connection.
    pub(super) settings: Vec<(crate::command::Command, String)>,
}

impl Block {
    /// Whether it has something open on the own database.
    pub(super) fn is_at_home(&self) -> bool {
        self.place == Some(Place::Home)
    }
}

/// The results of a transaction that was run again differ from those that its client has seen.
pub(super) fn differs() -> Failure {
    ErrorFields::error(
        "40001",
        "could not serialize access: what this transaction has read has changed before its COMMIT",
    )
    .with_hint("The transaction might succeed if retried.")
    .into()
}

/// An error of a server, as it is.
pub(super) fn of_server(frame: &Frame) -> Failure {
    Failure::Server(frame.clone())
}

impl Session {
    /// BEGIN. Nothing is sent before the first statement, which says where to.
    pub(super) fn begin_block(&mut self, modes: &str) -> Result<(), Failure> {
        match &mut self.block {
            Some(block) if block.has_failed => return Err(aborted()),
            // BEGIN in a text of several statements: what ran before belongs to the transaction.
            Some(block) if block.is_implicit => {
                block.is_implicit = false;
                if !modes.is_empty() {
                    block.modes = modes.to_owned();
                }
            }
            Some(_) => self.warn("25001", "there is already a transaction in progress"),
            None => self.block = Some(Session::open(modes, false)),
        }
        self.client.answers().command_complete("BEGIN");
        Ok(())
    }

    fn open(modes: &str, is_implicit: bool) -> Block {
        Block {
            is_implicit,
            modes: modes.to_owned(),
            has_failed: false,
            operation: Operation::default(),
            has_operation: false,
            place: None,
            log: Vec::new(),
            log_bytes: 0,
            is_lost: false,
            settings: Vec::new(),
        }
    }

    /// Opens the transaction that a query of several statements, or a pipeline, is.
    pub(super) fn open_implicit(&mut self) {
        if self.block.is_none() {
            self.block = Some(Session::open("", true));
        }
    }

    /// Runs a unit within the open transaction. Returns whether it succeeded.
    pub(super) fn run_within(
        &mut self,
        unit: &Unit,
        runs: &[Run<'_>],
        recovers: bool,
    ) -> Result<bool, Failure> {
        let Some(block) = &mut self.block else {
            return self.run_alone(unit, runs);
        };
        if block.has_failed && (!recovers || block.is_lost) {
            return Err(aborted());
        }
        let max = self.shared.options.answer_bytes_max;
        if block.log_bytes > max {
            return Err(ErrorFields::error(
                "54000",
                format!("the statements of the transaction have more than the {max} bytes that are kept until its COMMIT"),
            )
            .with_hint("Do less in one transaction.")
            .into());
        }
        let mut server = None;
        for run in runs {
            let recognised =
                self.shared
                    .recogniser
                    .advance(&mut block.operation, run.statement, &run.arguments);
            match recognised {
                Ok(route) => server = route.server.or(server),
                Err(refusal) => return Err(self.refused(run.text, refusal)?),
            }
            block.has_operation = true;
        }
        if server.is_none() && block.place.is_none() && block.has_operation {
            // Where it would be if it ended here is the best guess.
            let ended = self.shared.recogniser.finish(&block.operation);
            server = ended.ok().and_then(|route| route.server);
        }
        let wanted = match server {
            None => None,
            Some(server) if server == self.shared.options.own => Some(Place::Home),
            Some(server) => Some(Place::Other(server)),
        };
        let answer = self.run_at(unit, wanted)?;
        self.client.send(&answer.bytes)?;
        if answer.status == TransactionStatus::Idle {
            return Err(self.ended_by_itself());
        }
        let fine = answer.error.is_none();
        if let Some(block) = &mut self.block {
            block.has_failed = !fine;
            // What is drawn from a sequence stays drawn: it does not run again.
            if !unit.runs_once() {
                block.log_bytes += unit.bytes();
                let given = Given {
                    digest: answer.digest,
                    numbers: answer.numbers,
                };
                block.log.push((unit.clone(), given));
            }
        }
        Ok(fine)
    }

    /// Runs a unit at the place of the transaction, which moves if another is wanted.
    fn run_at(&mut self, unit: &Unit, wanted: Option<Place>) -> Result<Answer, Failure> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let last = attempts >= self.shared.options.attempts_max;
            let place = match self.settle_at(wanted) {
                Err(failure) if !last && is_again(&failure) => continue,
                other => other?,
            };
            let answer = self.exchange(place, unit, true)?;
            let is_again = place == Place::Home
                && match answer.error.as_deref() {
                    Some("40001" | "40P01") => true,
                    Some("57014") => self.handle.take_displaced(),
                    _ => false,
                };
            if !is_again || answer.has_begun || last {
                return Ok(answer);
            }
            self.leave()?;
        }
    }

    /// Has the transaction open at the place that is wanted, with all that it has run so far.
    fn settle_at(&mut self, wanted: Option<Place>) -> Result<Place, Failure> {
        let Some(block) = &mut self.block else {
            return Ok(Place::Home);
        };
        if let Some(Place::Other(server)) = block.place
            && !self.links.contains_key(&server)
        {
            block.is_lost = true;
            return Err(super::links::unreachable(
                &self.shared,
                server,
                "the connection with the transaction was lost",
            ));
        }
        let place = match (block.place, wanted) {
            (Some(place), None) => return Ok(place),
            (Some(place), Some(wanted)) if place == wanted => return Ok(place),
            (Some(Place::Other(from)), Some(_)) => {
                return Err(ErrorFields::error(
                    "0A000",
                    format!(
                        "the transaction has used rows of {}, and this statement belongs to another server",
                        self.shared.name_of(from)
                    ),
                )
                .with_hint("Use two transactions, or declare the whole as an operation of the application.")
                .into());
            }
            (_, wanted) => wanted.unwrap_or(Place::Home),
        };
        if self.is_forwarded && place != Place::Home {
            return Err(ErrorFields::error(
                "XX000",
                "another middleware sent this transaction here, and it belongs to a third server",
            )
            .with_hint(
                "The middlewares disagree: start all of them with the same application and the same list of servers.",
            )
            .into());
        }
        self.leave()?;
        let Some(block) = &mut self.block else {
            return Ok(Place::Home);
        };
        let modes = match block.modes.is_empty() {
            true => String::new(),
            false => format!(" {}", block.modes),
        };
        let log = std::mem::take(&mut block.log);
        block.place = Some(place);
        let done = self.begin_at(place, &modes).and_then(|()| {
            for (unit, given) in &log {
                let answer = self.run_again(place, unit, given)?;
                if answer.digest != given.digest {
                    return Err(match answer.error.as_deref() {
                        Some("40001" | "40P01") => again(),
                        _ => differs(),
                    });
                }
            }
            Ok(())
        });
        if let Some(block) = &mut self.block {
            block.log = log;
        }
        match done {
            Ok(()) => Ok(place),
            Err(failure) => {
                self.leave()?;
                Err(failure)
            }
        }
    }

    /// Runs a unit again, with the numbers that it had.
    pub(super) fn run_again(
        &mut self,
        place: Place,
        unit: &Unit,
        given: &Given,
    ) -> Result<Answer, Failure> {
        let has_numbers = place == Place::Home && !given.numbers.is_empty();
        if has_numbers {
            let numbers = numbers::given(&given.numbers);
            let set = self.home.run(&numbers).map_err(End::Home)?;
            set.map_err(|error| of_server(&error))?;
        }
        let answer = self.exchange(place, unit, false)?;
        if has_numbers && answer.error.is_none() {
            let set = self.home.run(numbers::RECORD).map_err(End::Home)?;
            set.map_err(|error| of_server(&error))?;
        }
        Ok(answer)
    }

    fn begin_at(&mut self, place: Place, modes: &str) -> Result<(), Failure> {
        self.catch_up(place)?;
        match place {
            Place::Home => {
                let provisional = self.shared.options.statements.provisional;
                let begin = format!("BEGIN ISOLATION LEVEL SERIALIZABLE{modes}; {provisional}");
                let begun = self.home.run(&begin).map_err(End::Home)?;
                self.handle.can_give_way(true);
                begun.map_err(|error| of_server(&error))
            }
            Place::Other(server) => {
                self.link(server)?;
                let Some(link) = self.links.get_mut(&server) else {
                    return Ok(());
                };
                match link.backend.run(&format!("BEGIN{modes}")) {
                    Ok(begun) => begun.map_err(|error| of_server(&error)),
                    Err(error) => {
                        self.links.remove(&server);
                        Err(super::links::unreachable(
                            &self.shared,
                            server,
                            &error.to_string(),
                        ))
                    }
                }
            }
        }
    }

    /// Rolls back what the transaction has open. Its log stays.
    pub(super) fn leave(&mut self) -> Result<(), Failure> {
        let place = self.block.as_mut().and_then(|block| block.place.take());
        match place {
            None => Ok(()),
            Some(Place::Home) => {
                self.handle.can_give_way(false);
                let rolled_back = self.home.run("ROLLBACK").map_err(End::Home)?;
                rolled_back.map_err(|error| of_server(&error))
            }
            Some(Place::Other(server)) => {
                if let Some(link) = self.links.get_mut(&server)
                    && link.backend.run("ROLLBACK").is_err()
                {
                    // A lost connection rolls back as well.
                    self.links.remove(&server);
                }
                Ok(())
            }
        }
    }

    /// Gives way to what other servers have done, if the open transaction blocks it: it is rolled back, and runs again with its
    /// next statement.
    pub(super) fn give_way(&mut self) -> Result<(), End> {
        if self.block.as_ref().is_some_and(Block::is_at_home) && self.handle.take_displaced() {
            return match self.leave() {
                Err(Failure::Ends(end)) => Err(end),
                // A ROLLBACK is not refused.
                Ok(()) | Err(Failure::Error(_) | Failure::Server(_)) => Ok(()),
            };
        }
        Ok(())
    }

    /// ROLLBACK.
    pub(super) fn rollback(&mut self) -> Result<(), Failure> {
        let left = self.leave();
        self.block = None;
        self.portals.clear();
        left
    }

    /// COMMIT. Returns its tag.
    pub(super) fn commit(&mut self) -> Result<&'static str, Failure> {
        let Some(block) = &self.block else {
            self.warn("25P01", "there is no transaction in progress");
            return Ok("COMMIT");
        };
        if block.has_failed {
            self.rollback()?;
            return Ok("ROLLBACK");
        }
        let done = self.commit_open();
        let block = self.block.take();
        self.portals.clear();
        match done {
            Ok(()) => {
                let was_elsewhere = matches!(
                    block.as_ref().and_then(|block| block.place),
                    Some(Place::Other(_))
                );
                for (command, text) in block.into_iter().flat_map(|block| block.settings) {
                    if was_elsewhere {
                        // What was fine there is fine here.
                        let set = self.home.run(&text).map_err(End::Home)?;
                        set.map_err(|error| of_server(&error))?;
                    }
                    self.note_setting(&command, &text);
                }
                Ok("COMMIT")
            }
            Err(failure) => Err(failure),
        }
    }

    fn commit_open(&mut self) -> Result<(), Failure> {
        let Some(block) = &self.block else {
            return Ok(());
        };
        if block.log.is_empty() && !block.has_operation {
            return self.leave();
        }
        let route = match block.has_operation {
            // Settings, cursors and the like alone.
            false => None,
            true => match self.shared.recogniser.finish(&block.operation) {
                Ok(route) => Some(route),
                Err(refusal) => {
                    self.leave()?;
                    return Err(refusal.into());
                }
            },
        };
        let wanted = match &route {
            Some(route) => route.server.map(|server| match server {
                server if server == self.shared.options.own => Place::Home,
                server => Place::Other(server),
            }),
            None => None,
        };
        let is_global = route
            .as_ref()
            .is_some_and(|route| matches!(route.class, Class::Global | Class::Open));
        let mut attempts = 0;
        loop {
            attempts += 1;
            let last = attempts >= self.shared.options.attempts_max;
            let place = match (is_global, wanted.or(block_place(&self.block))) {
                // It is rolled back, and need not be there.
                (true, None | Some(Place::Home)) => Place::Home,
                (_, wanted) => match self.settle_at(wanted) {
                    Err(failure) if !last && is_again(&failure) => continue,
                    other => other?,
                },
            };
            if is_global && place == Place::Home {
                return self.commit_in_hold();
            }
            match self.commit_at(place)? {
                None => return Ok(()),
                Some(error) => {
                    if let Some(block) = &mut self.block {
                        // The COMMIT has ended it.
                        block.place = None;
                    }
                    match error.field(b'C') {
                        Some("40001" | "40P01") if place == Place::Home && !last => {}
                        // It has written what all servers have.
                        Some("55000") if place == Place::Home => return self.commit_in_hold(),
                        _ => return Err(of_server(&error)),
                    }
                }
            }
        }
    }

    /// Commits what is open at a place. Returns the error.
    fn commit_at(&mut self, place: Place) -> Result<Option<Frame>, Failure> {
        match place {
            Place::Home => {
                // Its end is near: it does not give way any more.
                self.handle.can_give_way(false);
                let settle = self.shared.options.statements.settle;
                let done = self
                    .home
                    .run(&format!("SET CONSTRAINTS ALL IMMEDIATE; {settle}; COMMIT"));
                match done.map_err(End::Home)? {
                    Ok(()) => Ok(None),
                    Err(error) => {
                        // If SETTLE has failed, the transaction is still there.
                        let rolled_back = self.home.run("ROLLBACK").map_err(End::Home)?;
                        rolled_back.map_err(|error| of_server(&error))?;
                        Ok(Some(error))
                    }
                }
            }
            Place::Other(server) => {
                let Some(link) = self.links.get_mut(&server) else {
                    return Err(super::links::unreachable(
                        &self.shared,
                        server,
                        "the connection with the transaction was lost",
                    ));
                };
                match link.backend.run("COMMIT") {
                    Ok(done) => {
                        self.note_committed_at(place);
                        Ok(done.err())
                    }
                    Err(error) => {
                        self.links.remove(&server);
                        Err(ErrorFields::error(
                            "08007",
                            format!(
                                "the connection to {} was lost while the transaction committed: {error}",
                                self.shared.name_of(server)
                            ),
                        )
                        .with_hint("Whether it has committed is not known: read before you repeat it.")
                        .into())
                    }
                }
            }
        }
    }

    /// Commits the transaction inside a hold: as it is if the database locks what it has read, else by running it again.
    fn commit_in_hold(&mut self) -> Result<(), Failure> {
        if let Some(promote) = self.shared.options.statements.promote
            && self.block.as_ref().is_some_and(Block::is_at_home)
            && self.promote(promote)?
        {
            if let Some(block) = &mut self.block {
                block.place = None;
            }
            return Ok(());
        }
        self.leave()?;
        let Some(block) = &mut self.block else {
            return Ok(());
        };
        let log = std::mem::take(&mut block.log);
        let modes = block.modes.clone();
        let entries: Vec<(&Unit, Option<&Given>)> = log
            .iter()
            .map(|(unit, given)| (unit, Some(given)))
            .collect();
        self.in_hold(&entries, &modes).map(drop)
    }
}

/// A transaction that has failed is told so.
fn aborted() -> Failure {
    ErrorFields::error(
        "25P02",
        "current transaction is aborted, commands ignored until end of transaction block",
    )
    .into()
}

fn block_place(block: &Option<Block>) -> Option<Place> {
    block.as_ref().and_then(|block| block.place)
}

/// The victim of others while it was run again.
fn again() -> Failure {
    ErrorFields::error(
        "40P01",
        "could not serialize access while the transaction ran again",
    )
    .into()
}

/// Whether a transaction may be run again after this failure.
fn is_again(failure: &Failure) -> bool {
    failure.code() == Some("40P01")
}
