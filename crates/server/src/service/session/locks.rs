//! The advisory locks of a session: taken by the functions that a SELECT calls, released by others, at the end of the
//! transaction, or with the connection.

use std::time::Instant;

use anabranch_sql::client::{AdvisoryFunction, ArgumentList};
use anabranch_types::Value;
use anabranch_wire::ErrorFields;

use super::{Scope, Session};
use crate::frontend::{ConnectionId, JobDone, NodeRequest, Note, Post};
use crate::service::advisory::{LockKey, LockMode, Owner, Request};
use crate::service::errors::error;
use crate::service::options::Guarantee;

/// A lock that was granted.
type Held = (LockKey, LockMode);

/// The advisory locks of a session. A lock that was granted twice is in a list twice.
#[derive(Default)]
pub(super) struct SessionLocks {
    /// Those that stay until they are released.
    session: Vec<Held>,
    /// Those of the transaction that is open, in the order in which they were granted.
    transaction: Vec<Held>,
    /// What the session waits for.
    wanted: Option<Requested>,
}

struct Requested {
    lock: Held,
    is_of_transaction: bool,
    /// When the wait ends with an error.
    until: Option<Instant>,
}

impl SessionLocks {
    /// Whether the session waits for a lock.
    pub(super) fn waits(&self) -> bool {
        self.wanted.is_some()
    }

    /// The number of locks of the transaction.
    pub(super) fn of_transaction(&self) -> usize {
        self.transaction.len()
    }

    /// Whether the wait has lasted for longer than `lock_timeout`.
    pub(super) fn is_timed_out(&self, now: Instant) -> bool {
        let until = self.wanted.as_ref().and_then(|wanted| wanted.until);
        until.is_some_and(|until| until <= now)
    }

    fn grant(&mut self, lock: Held, is_of_transaction: bool) {
        match is_of_transaction {
            true => self.transaction.push(lock),
            false => self.session.push(lock),
        }
    }
}

impl Session {
    /// Calls a function of advisory locks. `None` if the session waits for the lock: a note says when it is granted.
    pub(super) fn call_advisory(
        &mut self,
        function: AdvisoryFunction,
        arguments: &ArgumentList,
        (bound, now): (&[Value], i64),
        scope: &mut Scope<'_>,
    ) -> Result<Option<Value>, Box<ErrorFields>> {
        if function == AdvisoryFunction::UnlockAll {
            self.release_session_locks();
            return Ok(Some(Value::text("")));
        }
        let values = self.evaluate(arguments, bound, now)?;
        let key = match *values.as_slice() {
            [Value::Int(key)] => LockKey::One(key),
            [Value::Int(first), Value::Int(second)] => LockKey::Two(first as i32, second as i32),
            _ => return Ok(Some(Value::Null)),
        };
        let mode = |shared: bool| match shared {
            true => LockMode::Shared,
            false => LockMode::Exclusive,
        };
        match function {
            AdvisoryFunction::Lock {
                shared,
                transaction,
            } => self.take_lock((key, mode(shared)), transaction, scope),
            AdvisoryFunction::Try {
                shared,
                transaction,
            } => {
                let locks = &self.environment.shared.advisory;
                let owner = self.owner();
                let request = locks.request(owner, key, mode(shared), (false, false));
                let is_granted = request == Request::Granted;
                if is_granted {
                    self.locks.grant((key, mode(shared)), transaction);
                }
                Ok(Some(Value::Bool(is_granted)))
            }
            AdvisoryFunction::Unlock { shared } => {
                let lock = (key, mode(shared));
                let held = self.locks.session.iter().rposition(|of| *of == lock);
                match held {
                    Some(place) => {
                        self.locks.session.remove(place);
                        self.release(key, lock.1);
                    }
                    None => {
                        let name = lock.1.name();
                        self.warn("01000", &format!("you don't own a lock of type {name}"));
                    }
                }
                Ok(Some(Value::Bool(held.is_some())))
            }
            AdvisoryFunction::UnlockAll => Ok(Some(Value::Null)),
        }
    }

    /// Takes a lock, or begins to wait for it.
    fn take_lock(
        &mut self,
        lock: Held,
        is_of_transaction: bool,
        scope: &mut Scope<'_>,
    ) -> Result<Option<Value>, Box<ErrorFields>> {
        let (key, mode) = lock;
        let owner = self.owner();
        let part = self.open_part();
        let locks = &self.environment.shared.advisory;
        let waits = !self.is_exclusive();
        match locks.request(owner, key, mode, (waits, part.is_some())) {
            Request::Granted => {
                self.locks.grant(lock, is_of_transaction);
                Ok(Some(Value::text("")))
            }
            Request::Waits => {
                // What the transaction has locked at nodes would be a second table of waits. It is run again later.
                if let Some(part) = part
                    && self.environment.guarantee == Guarantee::Serializable
                {
                    let suspend = NodeRequest::Suspend(part.block);
                    scope.requests.push((part.node, suspend));
                }
                let until = self.lock_timeout().map(|after| scope.now + after);
                let statement = self.settings.statement_timeout();
                let statement = statement.map(|after| scope.now + after);
                self.deadline = [until, statement].into_iter().flatten().min();
                self.locks.wanted = Some(Requested {
                    lock,
                    is_of_transaction,
                    until,
                });
                Ok(None)
            }
            Request::Refused => {
                let mut fields = error("40P01", "deadlock detected");
                fields.detail = Some(
                    "This transaction has changed the schema, so that every other one waits for it. It cannot wait for \
                     an advisory lock that another connection holds."
                        .to_owned(),
                );
                Err(fields)
            }
            Request::Deadlock(detail) => {
                let mut fields = error("40P01", "deadlock detected");
                fields.detail = Some(detail);
                Err(fields)
            }
        }
    }

    /// Notes that the lock is granted for which the session has waited.
    pub(super) fn lock_granted(&mut self) {
        if let Some(wanted) = self.locks.wanted.take() {
            self.locks.grant(wanted.lock, wanted.is_of_transaction);
            self.deadline = None;
        }
    }

    /// Gives up the wait for a lock. False if the lock is granted already: the note of that is on its way.
    pub(super) fn stop_waiting_for_lock(&mut self) -> bool {
        let (waited, granted) = self.environment.shared.advisory.give_up(self.connection);
        self.wake(granted);
        if waited {
            self.locks.wanted = None;
        }
        waited
    }

    /// Releases the locks of the transaction that were granted after the first so many.
    pub(super) fn release_locks_after(&mut self, count: usize) {
        if self.locks.transaction.len() <= count {
            return;
        }
        for (key, mode) in self.locks.transaction.split_off(count) {
            self.release(key, mode);
        }
    }

    /// Releases the locks that the connection holds beyond transactions.
    pub(super) fn release_session_locks(&mut self) {
        for (key, mode) in std::mem::take(&mut self.locks.session) {
            self.release(key, mode);
        }
    }

    /// Releases everything, at the end of the connection.
    pub(super) fn abandon_locks(&mut self) {
        if self.locks.waits() && !self.stop_waiting_for_lock() {
            self.lock_granted();
        }
        self.release_locks_after(0);
        self.release_session_locks();
    }

    fn release(&self, key: LockKey, mode: LockMode) {
        let locks = &self.environment.shared.advisory;
        let granted = locks.release(self.connection, key, mode);
        self.wake(granted);
    }

    /// Lets sessions go on whose requests are granted.
    fn wake(&self, granted: Vec<ConnectionId>) {
        for of in granted {
            let note = Note::Done {
                connection: of.connection,
                place: of.place,
                result: Ok(JobDone::LockGranted),
            };
            self.environment.shared.post.post(of.node, note);
        }
    }

    fn owner(&self) -> Owner {
        Owner {
            connection: self.connection,
            process: self.key.process(),
        }
    }
}
