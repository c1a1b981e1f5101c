//! `anabranch.transactions`: the open transactions of all nodes, gathered when a client asks for them.
//!
//! Each thread's connections say what their sessions have open, and each node what its protocol knows, between two of
//! their own steps. Nothing stops, so the answers are of moments that are close to each other, and not of one. A
//! transaction may have ended in between; a wait is then without an owner and is left out.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anabranch_types::NodeId;
use anabranch_wire::ErrorFields;

use super::environment::SharedState;
use super::errors::error;
use crate::frontend::{Note, Post};
use crate::open_transactions::{SessionTransaction, TransactionRow, rows};

/// How long a thread may take to answer. It takes a turn.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The rows of `anabranch.transactions`. Takes as long as a turn of the slowest thread; not for a node's thread.
///
/// # Errors
/// When a thread does not answer.
pub(crate) fn gather(
    shared: &SharedState,
    nodes: u16,
) -> Result<Arc<Vec<TransactionRow>>, Box<ErrorFields>> {
    let (sender, received) = channel();
    for node in (0..nodes).map(NodeId) {
        shared.post.post(node, Note::Describe(sender.clone()));
    }
    drop(sender);
    let until = Instant::now() + ANSWER_WITHIN;
    let mut sessions: Vec<SessionTransaction> = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match received.recv_timeout(left) {
            Ok(of_thread) => sessions.extend(of_thread),
            // All have answered.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                return Err(error("57014", "a node's thread has not answered in time"));
            }
        }
    }
    let at_nodes = shared.slot.open_transactions();
    Ok(Arc::new(rows(&sessions, &at_nodes)))
}
