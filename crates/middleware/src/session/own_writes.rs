//! A client reads what it has written, at whichever server.
//!
//! What an operation has committed under a hold is on another server once the token has come there. So a session remembers the
//! last hold under which something of it has committed, and what it runs at another server waits until that server has
//! received as much. A middleware that commits for another one reports the hold to it ([`COMMITTED`]).

use anabranch_protocol::belt::Hop;

use super::hold::no_turn;
use super::{Failure, Place, Session, links};
use crate::backend::COMMITTED;

impl Session {
    /// Notes that an operation has committed under a hold.
    pub(super) fn note_committed(&mut self, hold: Hop) {
        self.committed = self.committed.max(hold);
    }

    /// Notes what another server's middleware has reported.
    pub(super) fn note_committed_at(&mut self, place: Place) {
        if let Place::Other(server) = place
            && let Some(link) = self.links.get_mut(&server)
        {
            let hold = link.backend.committed();
            // The server of the hold has it.
            link.has = link.has.max(hold);
            self.note_committed(hold);
        }
    }

    /// Reports the last hold to the middleware that forwards, before the session is ready.
    pub(super) fn report_committed(&mut self) {
        if self.is_forwarded && self.committed > self.reported {
            self.reported = self.committed;
            let hold = self.reported.0.to_string();
            self.client.answers().parameter_status(COMMITTED, &hold);
        }
    }

    /// Waits until a server has what this client has written.
    pub(super) fn catch_up(&mut self, place: Place) -> Result<(), Failure> {
        let hop = self.committed;
        if !self.shared.options.reads_own_writes || hop == Hop(0) {
            return Ok(());
        }
        let caught_up = self.catch_up_to(place, hop);
        if matches!(&caught_up, Err(failure) if failure.code() == Some("22023")) {
            // No ring has come there: what reported it was wrong, and it is not waited for again.
            self.committed = Hop(0);
        }
        caught_up
    }

    fn catch_up_to(&mut self, place: Place, hop: Hop) -> Result<(), Failure> {
        let Place::Other(server) = place else {
            return self.await_hop(hop);
        };
        self.link(server)?;
        let Some(link) = self.links.get_mut(&server) else {
            return Ok(());
        };
        if link.has >= hop {
            return Ok(());
        }
        self.handle.runs_on(Some(link.backend.cancel_key()));
        let caught_up = link
            .backend
            .run(&format!("CALL anabranch.catch_up({})", hop.0));
        self.handle.runs_on(None);
        match caught_up {
            Ok(Ok(())) => {
                link.has = hop;
                Ok(())
            }
            Ok(Err(error)) => Err(Failure::Server(error)),
            Err(error) => {
                self.links.remove(&server);
                let why = error.to_string();
                Err(links::unreachable(&self.shared, server, &why))
            }
        }
    }

    /// Waits until the own database has what was committed under a hold.
    pub(super) fn await_hop(&mut self, hop: Hop) -> Result<(), Failure> {
        if self.shared.ring.has_received(hop) {
            return Ok(());
        }
        let handle = std::sync::Arc::clone(&self.handle);
        handle.waits(true);
        let caught_up = self.shared.ring.catch_up(hop, || handle.is_cancelled());
        handle.waits(false);
        caught_up.map_err(|why| no_turn(why, self.shared.options.statements.late))
    }
}
