//! Who waits for `anabranch.transactions`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::frontend::ConnectionId;

/// The sessions that wait for what all have open.
#[derive(Default)]
pub(crate) struct Lookers(Mutex<LookerState>);

/// What the lock of [`Lookers`] guards.
#[derive(Default)]
pub(crate) struct LookerState {
    /// By connection.
    pub(crate) waiting: Vec<ConnectionId>,
    /// Whether a thread serves them.
    pub(crate) is_served: bool,
}

impl Lookers {
    /// The state, for as long as the guard lives.
    pub(crate) fn lock(&self) -> MutexGuard<'_, LookerState> {
        // Each change of the state is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
