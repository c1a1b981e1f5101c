//! The notifications of a session: what its transaction sends and changes when it commits, and what its client is told.
//!
//! LISTEN, UNLISTEN and NOTIFY always belong to a block: one by itself begins a block without BEGIN, which its text or
//! pipeline ends. So everything that commits a block or rolls it back, as a whole or to a savepoint, has them right.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_engine::CallId;
use anabranch_sql::client::ArgumentList;
use anabranch_types::Value;
use anabranch_wire::ErrorFields;

use super::run::{Run, notifies};
use super::{Awaited, Scope, Session, State};
use crate::service::errors::{error, error_with_hint};
use crate::service::notifications::{Notification, Taken};

/// A channel's name has fewer bytes.
const CHANNEL_BYTES: usize = 64;
/// A payload has fewer bytes.
const PAYLOAD_BYTES: usize = 8_000;
/// The most channels that a connection listens to, and the most statements of a transaction that change that.
const CHANNELS_MAX: usize = 10_000;

/// A change of the channels that a session listens to.
pub(super) enum ListenChange {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

/// What a transaction does about notifications when it commits.
#[derive(Default)]
pub(super) struct PendingNotifications {
    changes: Vec<ListenChange>,
    /// Each once, in order.
    notifications: Vec<Arc<Notification>>,
    known: BTreeSet<Arc<Notification>>,
    /// The bytes of the notifications.
    bytes: usize,
    /// The number of them before the statement that runs.
    before_statement: usize,
}

/// How much was pending at a moment.
#[derive(Clone, Copy)]
pub(super) struct PendingMark {
    changes: usize,
    notifications: usize,
}

impl PendingNotifications {
    /// What is pending now.
    pub(super) fn mark(&self) -> PendingMark {
        PendingMark {
            changes: self.changes.len(),
            notifications: self.notifications.len(),
        }
    }

    /// Goes back to what was pending at a moment.
    pub(super) fn go_back(&mut self, mark: PendingMark) {
        self.changes.truncate(mark.changes);
        self.forget_after(mark.notifications);
    }

    fn forget_after(&mut self, count: usize) {
        let count = count.min(self.notifications.len());
        for notification in self.notifications.split_off(count) {
            self.bytes -= notification.bytes();
            self.known.remove(&notification);
        }
    }

    fn add(&mut self, notification: Notification) {
        let notification = Arc::new(notification);
        if self.known.insert(Arc::clone(&notification)) {
            self.bytes += notification.bytes();
            self.notifications.push(notification);
        }
    }
}

/// What a session knows of the channels that it listens to.
#[derive(Default)]
pub(super) struct Listening {
    /// The channels, in the order in which they were listened to.
    channels: Vec<String>,
    /// Whether a note has come that something waits.
    is_notified: bool,
    /// Whether the client has been told that the next request is awaited, and has sent none.
    pub(super) is_ready: bool,
    /// Whether something waits until output is sent.
    pub(super) is_held: bool,
}

/// The notifications of a transaction whose commit was under way when its connection ended.
pub(crate) struct Unpublished {
    pub(crate) commit: Commit,
    /// The number of the connection for clients.
    pub(crate) process: i32,
    pub(crate) notifications: Vec<Arc<Notification>>,
}

/// What tells that a transaction is committed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Commit {
    /// The outcome of a call.
    Call(CallId),
    /// The answer of the thread that changes the schema.
    Change,
}

impl Session {
    /// LISTEN and UNLISTEN: notes what changes when the transaction commits.
    pub(super) fn change_channels(
        &mut self,
        change: ListenChange,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let count = match change {
            ListenChange::Listen(_) => self.listening.channels.len(),
            ListenChange::Unlisten(_) | ListenChange::UnlistenAll => 0,
        };
        let pending = self.pending_notifications(scope);
        if pending.changes.len() + count >= CHANNELS_MAX {
            let message = "too many channels are listened to";
            let hint = format!("A connection listens to at most {CHANNELS_MAX} channels.");
            return Err(error_with_hint("53400", message, hint));
        }
        pending.changes.push(change);
        Ok(())
    }

    /// NOTIFY: notes what is sent when the transaction commits.
    pub(super) fn add_notification(
        &mut self,
        channel: &str,
        payload: &str,
        scope: &mut Scope<'_>,
    ) -> Result<(), Box<ErrorFields>> {
        let pending = self.pending_notifications(scope);
        pending.before_statement = pending.notifications.len();
        self.add_checked(channel, payload)
    }

    /// `pg_notify(channel, payload)`, in a block that is open.
    pub(super) fn call_notify(
        &mut self,
        arguments: &ArgumentList,
        bound: &[Value],
        now: i64,
    ) -> Result<Value, Box<ErrorFields>> {
        let values = self.evaluate(arguments, bound, now)?;
        let text = |value: Option<&Value>| match value {
            Some(Value::Text(text)) => text.to_string(),
            _ => String::new(),
        };
        self.add_checked(&text(values.first()), &text(values.get(1)))?;
        Ok(Value::text(""))
    }

    fn add_checked(&mut self, channel: &str, payload: &str) -> Result<(), Box<ErrorFields>> {
        if channel.is_empty() {
            return Err(error("22023", "channel name cannot be empty"));
        }
        if channel.len() >= CHANNEL_BYTES {
            return Err(error("22023", "channel name too long"));
        }
        if payload.len() >= PAYLOAD_BYTES {
            return Err(error("22023", "payload string too long"));
        }
        let max = self
            .environment
            .shared
            .notifications
            .transaction_bytes_max();
        let Some(block) = &mut self.block else {
            return Err(error("XX000", "a notification belongs to no transaction"));
        };
        block.notifications.add(Notification {
            channel: channel.to_owned(),
            payload: payload.to_owned(),
        });
        if block.notifications.bytes > max {
            let message = "too many notifications in the NOTIFY queue";
            let hint = "Commit between them: a transaction sends a quarter of what may wait for all listeners.";
            return Err(error_with_hint("54000", message, hint));
        }
        Ok(())
    }

    /// What the open block does when it commits. Begins a block if none is open.
    fn pending_notifications(&mut self, scope: &mut Scope<'_>) -> &mut PendingNotifications {
        if self.block.is_none() {
            self.begin_implicit(scope);
        }
        let block = self.block.as_mut().expect("it was begun");
        &mut block.notifications
    }

    /// Notes that a statement that calls `pg_notify` takes its values from the first on.
    pub(super) fn begin_notifying(&mut self) {
        if let Some(block) = &mut self.block
            && self.hidden.is_empty()
        {
            block.notifications.before_statement = block.notifications.notifications.len();
        }
    }

    /// A statement takes its values again: what it has sent is forgotten.
    pub(super) fn notify_again(&mut self, run: &Run) {
        let planned = run.prepared.run_plan();
        let again = planned.is_some_and(|of| of.plan.session_values.iter().any(notifies));
        if let Some(block) = &mut self.block
            && again
        {
            let count = block.notifications.before_statement;
            block.notifications.forget_after(count);
        }
    }

    /// Does what was pending of a transaction that has committed.
    pub(super) fn publish(&mut self, pending: PendingNotifications) {
        for change in pending.changes {
            self.apply(change);
        }
        if !pending.notifications.is_empty() {
            let shared = &self.environment.shared;
            shared.publish(self.key.process(), &pending.notifications);
        }
    }

    fn apply(&mut self, change: ListenChange) {
        let notifications = &self.environment.shared.notifications;
        let channels = &mut self.listening.channels;
        match change {
            ListenChange::Listen(channel) if !channels.contains(&channel) => {
                notifications.listen(self.connection, &channel);
                channels.push(channel);
            }
            ListenChange::Listen(_) => {}
            ListenChange::Unlisten(channel) => {
                channels.retain(|of| *of != channel);
                match channels.is_empty() {
                    true => notifications.unlisten_all(self.connection, &[channel]),
                    false => notifications.unlisten(self.connection, &channel),
                }
            }
            ListenChange::UnlistenAll => self.unlisten_all(),
        }
    }

    /// Listens to no channel any more.
    pub(super) fn unlisten_all(&mut self) {
        let channels = std::mem::take(&mut self.listening.channels);
        let notifications = &self.environment.shared.notifications;
        notifications.unlisten_all(self.connection, &channels);
    }

    /// The channels that the session listens to.
    pub(super) fn listening_channels(&self) -> Value {
        let channels = self.listening.channels.iter();
        Value::Array(channels.map(Value::text).collect())
    }

    /// Something waits for the session.
    pub(crate) fn notified(&mut self) {
        self.listening.is_notified = true;
    }

    /// Tells the client what waits, if no transaction is open. Returns whether the session goes on: not while much waits to
    /// be sent, and not if the connection ends.
    pub(super) fn send_notifications(&mut self) -> bool {
        self.listening.is_held = false;
        let listens = !self.listening.channels.is_empty() || self.listening.is_notified;
        if self.block.is_some() || !listens || self.ending {
            return true;
        }
        let max = self.environment.options.output_bytes_max;
        loop {
            let room = max.saturating_sub(self.wire.output().len());
            if room == 0 {
                self.listening.is_held = true;
                self.flushes = true;
                return false;
            }
            let notifications = &self.environment.shared.notifications;
            match notifications.take(self.connection, room) {
                Taken::Next(received, more) => {
                    self.flushes |= !received.is_empty();
                    for of in received {
                        let Notification { channel, payload } = &*of.notification;
                        self.wire.notification(of.process, channel, payload);
                    }
                    if !more {
                        self.listening.is_notified = false;
                        return true;
                    }
                }
                Taken::Overrun => {
                    self.terminate(overrun_message());
                    return false;
                }
            }
        }
    }

    /// Handles a note that something waits, while the client is to send a request. Returns whether the session goes on.
    pub(super) fn take_note(&mut self, scope: &mut Scope<'_>) -> bool {
        if !self.listening.is_notified {
            return true;
        }
        if self.listening.is_ready && self.block.is_none() {
            return self.send_notifications();
        }
        // The client is told at the end of its transaction or pipeline.
        self.listening.is_notified = false;
        let notifications = &self.environment.shared.notifications;
        if notifications.is_overrun(self.connection) {
            self.roll_back(false, scope);
            self.terminate(overrun_message());
            return false;
        }
        true
    }

    /// What is to be published if the commit that is under way succeeds, at the end of the connection.
    pub(super) fn unpublished(&mut self) -> Option<Unpublished> {
        let commit = match (&self.state, &self.finishing) {
            (_, Some(finishing)) if finishing.commits() => Commit::Change,
            (
                State::Calling {
                    call,
                    awaited: Awaited::Control(control),
                },
                None,
            ) if control.commits() && !self.is_exclusive() => Commit::Call(call.id),
            _ => return None,
        };
        let block = self.block.as_mut()?;
        let pending = std::mem::take(&mut block.notifications);
        (!pending.notifications.is_empty()).then_some(Unpublished {
            commit,
            process: self.key.process(),
            notifications: pending.notifications,
        })
    }

    /// Forgets the channels, at the end of the connection.
    pub(super) fn abandon_channels(&mut self) {
        let channels = std::mem::take(&mut self.listening.channels);
        let notifications = &self.environment.shared.notifications;
        notifications.forget(self.connection, &channels);
    }
}

fn overrun_message() -> Box<ErrorFields> {
    error_with_hint(
        "53400",
        "terminating connection because too many notifications wait for it",
        "Notifications were lost. A connection that listens has to be read from, and to leave no transaction open.",
    )
}
