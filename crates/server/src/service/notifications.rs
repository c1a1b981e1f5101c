//! Notifications (LISTEN, NOTIFY): which connections listen to which channels, and what waits for each of them.
//!
//! All connections share one table. A transaction that has committed puts all of its notifications into it in one step, so
//! that every listener has those of different transactions in the same order. A listener's session is sent a note when
//! something waits for it; it takes that when its client may be told.
//!
//! What waits is bounded. When more than the limit waits in all, the listener for which most waits has fallen too far
//! behind: what waits for it is dropped, and its session ends the connection, so that its client learns that it has missed
//! something. A transaction that notifies never fails for a listener that does not read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::frontend::ConnectionId;

/// What a transaction tells the listeners of a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Notification {
    pub(crate) channel: String,
    pub(crate) payload: String,
}

impl Notification {
    /// The bytes that it takes in memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len() + ENTRY_BYTES
    }
}

/// What a notification takes beside its texts.
const ENTRY_BYTES: usize = 128;
/// What a notification takes for each listener for which it waits.
const SLOT_BYTES: usize = 24;

/// A notification that waits, and the connection that has sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// The number of the connection for clients.
    pub(crate) process: i32,
    pub(crate) notification: Arc<Notification>,
}

/// What a listener takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The next ones, in order, and whether more wait.
    Next(Vec<Received>, bool),
    /// What waited was dropped, because it was too much: the connection has to end.
    Overrun,
}

type ListenerId = (u16, u64);

fn id_of(connection: ConnectionId) -> ListenerId {
    (connection.node.0, connection.connection)
}

/// The listeners of a server.
pub(crate) struct Notifications {
    table: Mutex<Table>,
    /// The most bytes that wait in all.
    bytes_max: usize,
}

#[derive(Default)]
struct Table {
    channels: BTreeMap<String, BTreeSet<ListenerId>>,
    listeners: BTreeMap<ListenerId, Listener>,
    /// The number of listeners for which each notification waits, by its number.
    waiting: BTreeMap<u64, usize>,
    /// The number of the last notification.
    last: u64,
    /// The bytes of all that wait, each counted once, and of the queues.
    bytes: usize,
}

struct Listener {
    connection: ConnectionId,
    queue: VecDeque<(u64, Received)>,
    /// The bytes of what is in the queue.
    bytes: usize,
    is_overrun: bool,
}

impl Table {
    /// Takes a notification out of the accounts of one listener.
    fn taken(&mut self, number: u64, bytes: usize) {
        self.bytes -= SLOT_BYTES;
        let Some(count) = self.waiting.get_mut(&number) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.waiting.remove(&number);
            self.bytes -= bytes;
        }
    }

    /// Drops what waits for a listener as far as it is not kept.
    fn drop_waiting(&mut self, id: ListenerId, keeps: impl Fn(&Notification) -> bool) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let queue = std::mem::take(&mut listener.queue);
        let (kept, dropped): (VecDeque<_>, VecDeque<_>) = queue
            .into_iter()
            .partition(|(_, received)| keeps(&received.notification));
        listener.queue = kept;
        for (_, received) in &dropped {
            listener.bytes -= received.notification.bytes();
        }
        for (number, received) in dropped {
            self.taken(number, received.notification.bytes());
        }
    }

    /// Removes a listener from a channel.
    fn leave(&mut self, id: ListenerId, channel: &str) {
        if let Some(listeners) = self.channels.get_mut(channel) {
            listeners.remove(&id);
            if listeners.is_empty() {
                self.channels.remove(channel);
            }
        }
    }

    /// Puts a notification into the queues of its listeners. Returns those for which nothing waited before.
    fn put(&mut self, process: i32, notification: &Arc<Notification>) -> Vec<ConnectionId> {
        let Some(ids) = self.channels.get(&notification.channel) else {
            return Vec::new();
        };
        self.last += 1;
        let bytes = notification.bytes();
        let mut woken = Vec::new();
        let mut count = 0;
        for id in ids {
            let Some(listener) = self.listeners.get_mut(id) else {
                continue;
            };
            if listener.queue.is_empty() {
                woken.push(listener.connection);
            }
            let received = Received {
                process,
                notification: Arc::clone(notification),
            };
            listener.queue.push_back((self.last, received));
            listener.bytes += bytes;
            count += 1;
        }
        if count > 0 {
            self.waiting.insert(self.last, count);
            self.bytes += bytes + count * SLOT_BYTES;
        }
        woken
    }

    /// Drops what waits for the listener for which most waits. Returns its connection.
    fn overrun(&mut self) -> Option<ConnectionId> {
        let most = self.listeners.iter().max_by_key(|(_, of)| of.bytes);
        let (id, listener) = most?;
        let (id, connection) = (*id, listener.connection);
        self.drop_waiting(id, |_| false);
        for listeners in self.channels.values_mut() {
            listeners.remove(&id);
        }
        self.channels.retain(|_, listeners| !listeners.is_empty());
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.is_overrun = true;
        }
        Some(connection)
    }
}

impl Notifications {
    /// No listeners. `bytes_max`: how much waits for all of them at most.
    pub(crate) fn new(bytes_max: usize) -> Notifications {
        Notifications {
            table: Mutex::default(),
            bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Each change of the table is complete before anything can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most bytes of the notifications of one transaction.
    pub(crate) fn transaction_bytes_max(&self) -> usize {
        self.bytes_max / 4
    }

    /// A connection listens to a channel from now on.
    pub(crate) fn listen(&self, connection: ConnectionId, channel: &str) {
        let mut table = self.lock();
        let id = id_of(connection);
        let listener = table.listeners.entry(id).or_insert_with(|| Listener {
            connection,
            queue: VecDeque::new(),
            bytes: 0,
            is_overrun: false,
        });
        if listener.is_overrun {
            return;
        }
        let listeners = table.channels.entry(channel.to_owned()).or_default();
        listeners.insert(id);
    }

    /// A connection listens to a channel no more: what waits of it is dropped.
    pub(crate) fn unlisten(&self, connection: ConnectionId, channel: &str) {
        let mut table = self.lock();
        let id = id_of(connection);
        table.leave(id, channel);
        table.drop_waiting(id, |notification| notification.channel != channel);
    }

    /// A connection listens to none of these channels any more, which are all to which it has listened.
    pub(crate) fn unlisten_all(&self, connection: ConnectionId, channels: &[String]) {
        let mut table = self.lock();
        let id = id_of(connection);
        for channel in channels {
            table.leave(id, channel);
        }
        table.drop_waiting(id, |_| false);
        if table.listeners.get(&id).is_some_and(|of| !of.is_overrun) {
            table.listeners.remove(&id);
        }
    }

    /// A connection has ended, which has listened to these channels.
    pub(crate) fn forget(&self, connection: ConnectionId, channels: &[String]) {
        self.unlisten_all(connection, channels);
        self.lock().listeners.remove(&id_of(connection));
    }

    /// Puts the notifications of a transaction that has committed into the queues of their listeners. Returns the
    /// connections to be told.
    pub(crate) fn publish(
        &self,
        process: i32,
        notifications: &[Arc<Notification>],
    ) -> Vec<ConnectionId> {
        let mut table = self.lock();
        let mut woken = Vec::new();
        for notification in notifications {
            woken.extend(table.put(process, notification));
        }
        while table.bytes > self.bytes_max
            && let Some(connection) = table.overrun()
        {
            woken.push(connection);
        }
        woken
    }

    /// Whether what waited for a listener was dropped, because it was too much.
    pub(crate) fn is_overrun(&self, connection: ConnectionId) -> bool {
        let table = self.lock();
        let listener = table.listeners.get(&id_of(connection));
        listener.is_some_and(|of| of.is_overrun)
    }

    /// Takes what waits for a listener, up to about so many bytes, but at least one.
    pub(crate) fn take(&self, connection: ConnectionId, bytes_max: usize) -> Taken {
        let mut table = self.lock();
        let id = id_of(connection);
        let mut taken = Vec::new();
        let mut bytes = 0;
        loop {
            let Some(listener) = table.listeners.get_mut(&id) else {
                return Taken::Next(taken, false);
            };
            if listener.is_overrun {
                return Taken::Overrun;
            }
            if bytes >= bytes_max && !taken.is_empty() {
                return Taken::Next(taken, !listener.queue.is_empty());
            }
            let Some((number, received)) = listener.queue.pop_front() else {
                return Taken::Next(taken, false);
            };
            let own = received.notification.bytes();
            listener.bytes -= own;
            table.taken(number, own);
            bytes += own;
            taken.push(received);
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_types::NodeId;

    use super::*;

    fn connection(number: u64) -> ConnectionId {
        ConnectionId {
            node: NodeId(0),
            connection: number,
            place: 0,
        }
    }

    fn notification(channel: &str, payload: &str) -> Arc<Notification> {
        Arc::new(Notification {
            channel: channel.to_owned(),
            payload: payload.to_owned(),
        })
    }

    fn published(all: &Notifications, process: i32, channel: &str, payload: &str) -> Vec<u64> {
        let woken = all.publish(process, &[notification(channel, payload)]);
        woken.iter().map(|of| of.connection).collect()
    }

    fn payloads(all: &Notifications, of: u64) -> Vec<String> {
        match all.take(connection(of), usize::MAX) {
            Taken::Next(taken, false) => taken
                .iter()
                .map(|of| of.notification.payload.clone())
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn listeners_of_a_channel_are_woken_once_and_take_all_in_order() {
        let all = Notifications::new(1 << 20);
        all.listen(connection(1), "a");
        all.listen(connection(2), "a");
        all.listen(connection(2), "b");
        assert_eq!(published(&all, 7, "a", "x"), [1, 2]);
        assert!(published(&all, 8, "a", "y").is_empty(), "they are awake");
        assert!(published(&all, 8, "c", "z").is_empty());
        let Taken::Next(taken, true) = all.take(connection(1), 1) else {
            panic!("two wait");
        };
        assert_eq!((taken.len(), taken[0].process), (1, 7));
        assert_eq!(payloads(&all, 1), ["y"]);
        assert_eq!(published(&all, 8, "a", "z"), [1], "2 is awake still");
        assert_eq!(payloads(&all, 2), ["x", "y", "z"]);
        assert_eq!(payloads(&all, 1), ["z"]);
        assert_eq!(all.lock().bytes, 0);
        assert!(all.lock().waiting.is_empty());
    }

    #[test]
    fn what_waits_of_a_channel_goes_with_it() {
        let all = Notifications::new(1 << 20);
        for channel in ["a", "b"] {
            all.listen(connection(1), channel);
            published(&all, 7, channel, channel);
        }
        all.unlisten(connection(1), "a");
        assert_eq!(payloads(&all, 1), ["b"]);
        published(&all, 7, "b", "more");
        all.unlisten_all(connection(1), &["b".to_owned()]);
        assert!(payloads(&all, 1).is_empty());
        assert!(published(&all, 7, "b", "late").is_empty());
        let table = all.lock();
        assert!(table.listeners.is_empty() && table.channels.is_empty());
        assert_eq!(table.bytes, 0);
    }

    #[test]
    fn the_listener_for_which_most_waits_is_overrun() {
        let all = Notifications::new(4 * (ENTRY_BYTES + SLOT_BYTES + 8));
        for number in [1, 2] {
            all.listen(connection(number), "a");
        }
        all.listen(connection(2), "b");
        published(&all, 7, "b", "only 2");
        let mut overrun = Vec::new();
        for round in 0..4 {
            overrun.extend(published(&all, 7, "a", &round.to_string()));
        }
        assert_eq!(overrun, [1, 2], "1 is woken, and 2 is told to go");
        assert_eq!(all.take(connection(2), 1), Taken::Overrun);
        assert_eq!(payloads(&all, 1), ["0", "1", "2", "3"]);
        assert!(published(&all, 7, "b", "nothing").is_empty());
        all.listen(connection(2), "b");
        assert_eq!(all.take(connection(2), 1), Taken::Overrun, "it stays so");
        all.forget(connection(2), &[]);
        assert_eq!(all.lock().listeners.len(), 1);
        assert_eq!(all.lock().bytes, 0);
    }
}
