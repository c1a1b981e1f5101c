//! `anabranch.transactions`: the open transactions of all nodes, gathered when a client asks for them.
//!
//! Each thread's connections say what their sessions have open, and each node what its protocol knows, between two of
//! their own steps. Nothing stops, so the answers are of moments that are close to each other, and not of one. A
//! transaction may have ended in between; a wait is then without an owner and is left out.
//!
//! One thread gathers at a time, for all sessions that have asked before it began. So whatever clients do, no more than one
//! thread waits.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anabranch_engine::NodeTransactions;
use anabranch_types::NodeId;
use anabranch_wire::ErrorFields;

use super::environment::SharedState;
use super::errors::error;
use super::lookers::Lookers;
use crate::frontend::{ConnectionId, Gathered, JobDone, Note, Post};
use crate::open_transactions::{LookAtNodes, NoAnswer, SessionTransaction, TransactionRow, rows};

/// How long the threads may take to answer. Each takes a turn.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long nodes may be away until others are asked again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Has a session told what all sessions have open, by a note.
///
/// # Errors
/// When the operating system gives no thread.
pub(crate) fn ask(
    shared: &Arc<SharedState>,
    nodes: u16,
    client: ConnectionId,
) -> Result<(), Box<ErrorFields>> {
    let gather = move |shared: &SharedState| gather(shared, nodes).map(Gathered::Transactions);
    ask_by(shared, |shared| &shared.lookers, gather, client)
}

/// Has a session told what `gather` finds, by a note.
///
/// # Errors
/// When the operating system gives no thread.
pub(crate) fn ask_by(
    shared: &Arc<SharedState>,
    of: fn(&SharedState) -> &Lookers,
    gather: impl Fn(&SharedState) -> Result<Gathered, Box<ErrorFields>> + Send + 'static,
    client: ConnectionId,
) -> Result<(), Box<ErrorFields>> {
    let mut lookers = of(shared).lock();
    if !lookers.is_served {
        let of_thread = Arc::clone(shared);
        // Not the thread that analyses statements: the wait for it may be what is looked for.
        let spawned = std::thread::Builder::new()
            .name("lookers".to_owned())
            .spawn(move || serve(&of_thread, of, &gather));
        spawned.map_err(|failure| error("53000", format!("cannot start a thread: {failure}")))?;
        lookers.is_served = true;
    }
    lookers.waiting.push(client);
    Ok(())
}

/// Answers those that wait, until there are none.
fn serve(
    shared: &SharedState,
    of: fn(&SharedState) -> &Lookers,
    gather: &impl Fn(&SharedState) -> Result<Gathered, Box<ErrorFields>>,
) {
    loop {
        let waiting = {
            let mut lookers = of(shared).lock();
            if lookers.waiting.is_empty() {
                lookers.is_served = false;
                return;
            }
            std::mem::take(&mut lookers.waiting)
        };
        let found = gather(shared);
        for client in waiting {
            let note = Note::Done {
                connection: client.connection,
                place: client.place,
                result: found.clone().map(JobDone::Gathered),
            };
            shared.post.post(client.node, note);
        }
    }
}

/// The rows of `anabranch.transactions`. Takes as long as a turn of the slowest thread; not for a node's thread.
fn gather(shared: &SharedState, nodes: u16) -> Result<Arc<Vec<TransactionRow>>, Box<ErrorFields>> {
    let late = || error("55000", "a node's thread has not answered within 5 seconds");
    let until = Instant::now() + ANSWER_WITHIN;
    let (sender, received) = channel();
    for node in (0..nodes).map(NodeId) {
        shared.post.post(node, Note::Describe(sender.clone()));
    }
    drop(sender);
    let mut sessions: Vec<SessionTransaction> = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match received.recv_timeout(left) {
            Ok(of_thread) => sessions.extend(of_thread),
            // All have answered.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => return Err(late()),
        }
    }
    let at_nodes = at_nodes(&*shared.slot, until).ok_or_else(late)?;
    Ok(Arc::new(rows(&sessions, &at_nodes)))
}

/// What is open at the nodes that run; `None` if one does not answer until this time.
pub(crate) fn at_nodes(slot: &dyn LookAtNodes, until: Instant) -> Option<Vec<NodeTransactions>> {
    loop {
        match slot.begin().wait(until) {
            Ok(found) => return Some(found),
            Err(NoAnswer::Late) => return None,
            Err(NoAnswer::Ended) if Instant::now() >= until => return None,
            Err(NoAnswer::Ended) => std::thread::sleep(ASK_AGAIN),
        }
    }
}
