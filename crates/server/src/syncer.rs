//! A thread that syncs a node's files, so that the node's own thread goes on.
//!
//! The node requests one sync at a time and is told by its inbox. Output that depends on the records waits at the node
//! ([`DurableNode`](anabranch_engine::DurableNode)), so a slow disk delays answers and nothing else.

use std::sync::mpsc::{Receiver, Sender, channel};

use anabranch_storage::LogPosition;
use anabranch_storage::media::MediaError;

use crate::files::FileHandle;

/// What a sync makes durable.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SyncTarget {
    /// The log, up to here.
    Log(LogPosition),
    /// So many bytes of the checkpoint under way.
    Checkpoint(u64),
}

/// A sync that has ended.
#[derive(Debug)]
pub(crate) struct Synced {
    pub target: SyncTarget,
    pub result: Result<(), MediaError>,
}

/// The way to the thread; it ends with this.
#[derive(Debug)]
pub(crate) struct Syncer {
    requests: Sender<(SyncTarget, FileHandle)>,
}

impl Syncer {
    /// Starts the thread. `done` is called on it after each sync.
    pub(crate) fn start(
        name: String,
        done: impl Fn(Synced) + Send + 'static,
    ) -> std::io::Result<Syncer> {
        let (requests, receiver): (_, Receiver<(SyncTarget, FileHandle)>) = channel();
        std::thread::Builder::new().name(name).spawn(move || {
            while let Ok((target, file)) = receiver.recv() {
                let result = file.sync();
                done(Synced { target, result });
            }
        })?;
        Ok(Syncer { requests })
    }

    /// Requests a sync of a file.
    pub(crate) fn sync(&self, target: SyncTarget, file: FileHandle) {
        // The thread ends only after this does.
        let _ = self.requests.send((target, file));
    }
}
