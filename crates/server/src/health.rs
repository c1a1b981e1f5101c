//! Whether the threads of a cluster are alive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anabranch_types::NodeId;

/// Whether all threads of a cluster are alive, and the reason if one is not.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failed: AtomicBool,
    reason: OnceLock<String>,
}

impl Health {
    /// The reason why the first thread ended that failed; none while all are alive.
    pub(crate) fn failure(&self) -> Option<&str> {
        if self.failed.load(Ordering::Acquire) {
            Some(
                self.reason
                    .get()
                    .map_or("a node's thread has panicked", String::as_str),
            )
        } else {
            None
        }
    }

    fn fail(&self, reason: String) {
        // The first reason stays.
        let _ = self.reason.set(reason);
        self.failed.store(true, Ordering::Release);
    }
}

/// Marks the cluster as failed if the thread that owns this panics.
pub(crate) struct Watch {
    pub health: Arc<Health>,
    pub id: NodeId,
}

impl Watch {
    /// Marks the cluster as failed: this node has to stop.
    pub(crate) fn fail(&self, reason: &str) {
        self.health
            .fail(format!("node {} has stopped: {reason}", self.id));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.health
                .fail(format!("the thread of node {} has panicked", self.id));
        }
    }
}
