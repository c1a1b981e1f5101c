//! Work that takes longer than a node's thread may: the analysis of a transaction type that is new.

use std::sync::mpsc::{Sender, channel};

use crate::cluster::STACK_BYTES;

/// A thread that works for all connections, one job after the other.
pub(crate) struct Jobs {
    queue: Sender<Job>,
}

/// A piece of work. It sends its result itself.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

impl Jobs {
    /// Starts the thread. It ends when this is dropped and its queue is empty.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub(crate) fn start() -> std::io::Result<Jobs> {
        let (queue, jobs) = channel::<Job>();
        std::thread::Builder::new()
            .name("analysis".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || jobs.into_iter().for_each(|job| job()))?;
        Ok(Jobs { queue })
    }

    /// Queues a job; returns whether there is a thread to do it.
    pub(crate) fn push(&self, job: Job) -> bool {
        self.queue.send(job).is_ok()
    }
}
