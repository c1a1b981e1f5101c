//! What the ring waits for at this server, for people: `waits_for` of `anabranch.ring`.
//!
//! The ring's thread notes it, also before it waits for the database; any session may read it meanwhile.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anabranch_protocol::belt::{Awaited, ServerId};

/// Whether a text may name `anabranch.ring`.
pub(crate) fn may_name_the_ring(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("anabranch") && text.contains("ring")
}

/// What the ring waits for, and which servers are not reached.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    wait: Option<(Wait, Instant)>,
    /// The servers that were not reached at the last attempt, with the reason.
    unreached: BTreeMap<ServerId, String>,
}

#[derive(Debug)]
enum Wait {
    Belt(Awaited),
    /// The database, for this reason.
    Database(String),
}

impl Waits {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the belt waits for.
    pub(crate) fn note(&self, awaited: Option<Awaited>) {
        let state = &mut *self.state();
        let since = match (&awaited, &state.wait) {
            (Some(now), Some((Wait::Belt(before), since))) if now.continues(before) => *since,
            _ => Instant::now(),
        };
        state.wait = awaited.map(|awaited| (Wait::Belt(awaited), since));
    }

    /// Notes that the database is not reached, or refuses a transaction of the belt.
    pub(crate) fn note_trouble(&self, reason: String) {
        let state = &mut *self.state();
        let since = match &state.wait {
            Some((Wait::Database(_), since)) => *since,
            _ => Instant::now(),
        };
        state.wait = Some((Wait::Database(reason), since));
    }

    /// Notes whether a server is reached.
    pub(crate) fn note_reached(&self, server: ServerId, reached: Result<(), String>) {
        let mut state = self.state();
        match reached {
            Ok(()) => _ = state.unreached.remove(&server),
            Err(reason) => _ = state.unreached.insert(server, reason),
        }
    }

    /// What the ring waits for, with the time; nothing if it waits for nothing.
    pub(crate) fn text<'n>(&self, name: impl Fn(ServerId) -> &'n str) -> Option<String> {
        let state = self.state();
        let (wait, since) = state.wait.as_ref()?;
        let other = |server: &ServerId| match state.unreached.get(server) {
            None => name(*server).to_owned(),
            Some(reason) => format!("{} (not reached: {reason})", name(*server)),
        };
        let operations = |count: &usize| match count {
            1 => "1 operation".to_owned(),
            count => format!("{count} operations"),
        };
        let what = match wait {
            Wait::Database(reason) => format!("its database: {reason}"),
            Wait::Belt(Awaited::Token {
                operations: count,
                from,
            }) => {
                let unreached = state.unreached.keys().filter(|server| *server != from);
                let unreached: Vec<String> = unreached.map(other).collect();
                let also = match unreached.is_empty() {
                    true => String::new(),
                    false => format!("; {}", unreached.join("; ")),
                };
                format!(
                    "the token, for {}; it comes from {}{also}",
                    operations(count),
                    other(from)
                )
            }
            Wait::Belt(Awaited::Updates { hop, from }) => {
                format!("updates of hop {} from {}", hop.0, other(from))
            }
            Wait::Belt(Awaited::Receive { hop }) => {
                format!("its database, to apply hop {}", hop.0)
            }
            Wait::Belt(Awaited::Operations {
                hop,
                operations: count,
            }) => format!("{} under hop {}", operations(count), hop.0),
            Wait::Belt(Awaited::Pass { hop }) => {
                format!("its database, to pass hop {}", hop.0)
            }
            Wait::Belt(Awaited::Acknowledgement { hop, from }) => {
                format!("{}, to receive hop {}", other(from), hop.0)
            }
            Wait::Belt(Awaited::Removal { from }) => {
                let from: Vec<String> = from.iter().map(other).collect();
                format!(
                    "{}, to take part without the removed server",
                    from.join(", ")
                )
            }
        };
        Some(format!(
            "{what}, for {:.1} s",
            since.elapsed().as_secs_f64()
        ))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_protocol::belt::Hop;

    use super::*;

    #[test]
    fn a_wait_says_for_what_and_for_whom() {
        let waits = Waits::default();
        let names = ["germany", "japan", "brazil"];
        let text = || waits.text(|server| names[usize::from(server.0)]);
        assert_eq!(text(), None);
        let token = |operations| Awaited::Token {
            operations,
            from: ServerId(2),
        };
        waits.note(Some(token(1)));
        let begun = |text: Option<String>| {
            let text = text.expect("it waits");
            text.rsplit_once(", for ").expect("a time").0.to_owned()
        };
        assert_eq!(
            begun(text()),
            "the token, for 1 operation; it comes from brazil"
        );
        waits.note_reached(ServerId(1), Err("refused".to_owned()));
        waits.note(Some(token(2)));
        assert_eq!(
            begun(text()),
            "the token, for 2 operations; it comes from brazil; japan (not reached: refused)"
        );
        waits.note(Some(Awaited::Acknowledgement {
            hop: Hop(7),
            from: ServerId(1),
        }));
        assert_eq!(
            begun(text()),
            "japan (not reached: refused), to receive hop 7"
        );
        waits.note_reached(ServerId(1), Ok(()));
        assert_eq!(begun(text()), "japan, to receive hop 7");
        waits.note_trouble("the servers differ".to_owned());
        assert_eq!(begun(text()), "its database: the servers differ");
        waits.note(None);
        assert_eq!(text(), None);
    }

    /// More operations that wait do not make a wait a new one.
    #[test]
    fn a_wait_lasts_while_it_is_for_the_same() {
        let waits = Waits::default();
        let since = || waits.state().wait.as_ref().map(|(_, since)| *since);
        let operations = |hop, operations| Awaited::Operations {
            hop: Hop(hop),
            operations,
        };
        waits.note(Some(operations(4, 3)));
        let first = since();
        std::thread::sleep(std::time::Duration::from_millis(2));
        waits.note(Some(operations(4, 2)));
        assert_eq!(since(), first);
        waits.note(Some(operations(5, 2)));
        assert_ne!(since(), first);
    }
}
