//! The baseline on real servers: rows that every server has are changed on all of them by two-phase commit, with PostgreSQL's
//! `PREPARE TRANSACTION`.
//!
//! The coordinator is the server of the client. What only this server has is one transaction there. Otherwise the operation
//! runs at home; then what it changes is changed at all others at the same time, each of which prepares in the same message;
//! home commits when all have, and that is the decision. The client is answered, and the decision is on its way to the others.
//! So a row is locked at home first, and since only clients of one home write it, there is no deadlock.
//!
//! **In favour of the baseline**: nothing is written for a coordinator that ends between the two phases, so that its
//! participants would stay in doubt for ever.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, IsolationLevel};

use super::super::databases::DatabaseError;
use super::ring::Ring;

/// What a participant is asked for.
enum Request {
    /// Runs an operation, and prepares it under its number.
    Prepare { text: String, number: u64 },
    /// Ends it.
    Decide { number: u64, commits: bool },
}

/// A participant's connection, in a thread of its own: as far away as its server. Requests and answers travel one after the
/// other, without waiting for each other.
struct Participant {
    requests: Sender<(Instant, Request)>,
    answers: Receiver<(Instant, Result<(), postgres::Error>)>,
    takes: Duration,
}

impl Participant {
    /// `name` and an operation's number name its prepared transaction: on all databases of this PostgreSQL server.
    fn new(mut connection: Client, takes: Duration, name: String) -> Participant {
        let (requests, waiting) = channel();
        let (answer, answers) = channel();
        thread::spawn(move || {
            for (sent, request) in waiting {
                sleep_until(sent + takes);
                let done = match &request {
                    Request::Prepare { text, number } => connection
                        .batch_execute(&format!(
                            "BEGIN; {text}; PREPARE TRANSACTION '{name}-{number}'"
                        ))
                        .inspect_err(|_| {
                            // The answer is the error; there is nothing else to end.
                            let _ = connection.batch_execute("ROLLBACK");
                        }),
                    Request::Decide { number, commits } => {
                        let verb = if *commits { "COMMIT" } else { "ROLLBACK" };
                        connection.batch_execute(&format!("{verb} PREPARED '{name}-{number}'"))
                    }
                };
                if answer.send((Instant::now(), done)).is_err() {
                    return;
                }
            }
        });
        Participant {
            requests,
            answers,
            takes,
        }
    }

    fn send(&self, request: Request) {
        // A participant that has ended is found out by its answer.
        let _ = self.requests.send((Instant::now(), request));
    }

    fn answer(&self) -> Result<(), Failure> {
        let Ok((sent, answer)) = self.answers.recv() else {
            return Err(Failure::Ended);
        };
        sleep_until(sent + self.takes);
        answer.map_err(Failure::Refused)
    }
}

fn sleep_until(when: Instant) {
    thread::sleep(when.saturating_duration_since(Instant::now()));
}

/// Why an operation did not commit.
#[derive(Debug)]
pub(super) enum Failure {
    /// A server refused it.
    Refused(postgres::Error),
    /// A participant's thread has ended.
    Ended,
}

impl Failure {
    /// Whether the operation may succeed when it is run again.
    pub(super) fn may_be_repeated(&self) -> bool {
        matches!(self, Failure::Refused(error) if error
            .code()
            .is_some_and(|code| matches!(code.code(), "40001" | "40P01")))
    }

    /// Whether nothing can be run any more.
    pub(super) fn ends_all(&self) -> bool {
        match self {
            Failure::Refused(error) => error.is_closed() || error.code().is_none(),
            Failure::Ended => true,
        }
    }

    /// What happened, for people.
    pub(super) fn describe(&self) -> String {
        match self {
            Failure::Refused(error) => {
                let code = error.code().map_or("connection", |code| code.code());
                format!("{code}: {}", anabranch_dbms::postgres::explain(error))
            }
            Failure::Ended => "the connection to another server has ended".to_owned(),
        }
    }
}

/// Runs the operations of one client.
pub(super) struct Coordinator {
    home: Client,
    others: Vec<Participant>,
    /// Whether the participants were sent a decision whose answers have not been read.
    is_deciding: bool,
    /// The number of the next operation.
    number: u64,
}

impl Coordinator {
    /// That of a client at a server.
    ///
    /// # Errors
    /// When a server refuses a connection.
    pub(super) fn new(
        ring: &Ring,
        home: u16,
        client: u32,
        isolation: IsolationLevel,
    ) -> Result<Coordinator, DatabaseError> {
        let level = match isolation {
            IsolationLevel::Serializable => "serializable",
            _ => "read committed",
        };
        let connect = |server: u16| -> Result<Client, DatabaseError> {
            let mut client = ring.connect(server)?;
            client.batch_execute(&format!("SET default_transaction_isolation = '{level}'"))?;
            Ok(client)
        };
        let mut others = Vec::new();
        for server in (0..ring.databases.len() as u16).filter(|server| *server != home) {
            let takes = ring.links.between[usize::from(home)][usize::from(server)];
            others.push(Participant::new(
                connect(server)?,
                Duration::from_nanos(takes),
                format!("client{client}-{server}"),
            ));
        }
        Ok(Coordinator {
            home: connect(home)?,
            others,
            is_deciding: false,
            number: 0,
        })
    }

    /// Runs an operation here, and `changes` on the other servers if it is global; returns when it is decided.
    pub(super) fn run(&mut self, text: &str, changes: Option<&str>) -> Result<(), Failure> {
        let Some(changes) = changes.filter(|_| !self.others.is_empty()) else {
            let done = self.home.batch_execute(text);
            return done.map_err(Failure::Refused);
        };
        let begun = self.home.batch_execute(&format!("BEGIN; {text}"));
        if let Err(error) = begun {
            let _ = self.home.batch_execute("ROLLBACK");
            return Err(Failure::Refused(error));
        }
        let number = self.number;
        self.number += 1;
        for other in &self.others {
            other.send(Request::Prepare {
                text: changes.to_owned(),
                number,
            });
        }
        // The answers to the last decision come first; they are there when those to the new requests are.
        self.await_decisions()?;
        let votes: Vec<Result<(), Failure>> = self.others.iter().map(Participant::answer).collect();
        let all_prepared = votes.iter().all(Result::is_ok);
        let mut outcome = match all_prepared {
            true => self.home.batch_execute("COMMIT").map_err(Failure::Refused),
            false => {
                let _ = self.home.batch_execute("ROLLBACK");
                Ok(())
            }
        };
        let commits = all_prepared && outcome.is_ok();
        let prepared = self
            .others
            .iter()
            .zip(&votes)
            .filter(|(_, vote)| vote.is_ok());
        for (other, _) in prepared.clone() {
            other.send(Request::Decide { number, commits });
        }
        self.is_deciding = commits;
        if !commits {
            // An operation that is given up may begin again: when all participants have.
            for (other, _) in prepared {
                other.answer()?;
            }
        }
        if let Some(failure) = votes.into_iter().find_map(Result::err) {
            outcome = Err(failure);
        }
        outcome
    }

    /// Waits until the participants have done what was decided last.
    pub(super) fn await_decisions(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_deciding) {
            for other in &self.others {
                other.answer()?;
            }
        }
        Ok(())
    }
}
