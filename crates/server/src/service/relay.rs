//! Notes for the connections of the nodes' threads, whichever threads run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_types::NodeId;

use crate::frontend::{Note, Post};

/// Sends notes to the nodes' threads. While none run it keeps the notes, in order.
#[derive(Default)]
pub(crate) struct Relay {
    state: Mutex<RelayState>,
}

#[derive(Default)]
struct RelayState {
    post: Option<Arc<dyn Post>>,
    held: Vec<(NodeId, Note)>,
}

impl Relay {
    fn lock(&self) -> MutexGuard<'_, RelayState> {
        // Each change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The threads run: sends them what was held, and everything from now on.
    pub(crate) fn connect(&self, post: Arc<dyn Post>) {
        let mut state = self.lock();
        for (node, note) in state.held.drain(..) {
            post.post(node, note);
        }
        state.post = Some(post);
    }

    /// The threads are about to end: what was sent before is handled, and everything from now on is held.
    pub(crate) fn disconnect(&self) {
        self.lock().post = None;
    }
}

impl Post for Relay {
    fn post(&self, node: NodeId, note: Note) {
        let mut state = self.lock();
        match &state.post {
            Some(post) => post.post(node, note),
            None => state.held.push((node, note)),
        }
    }
}
