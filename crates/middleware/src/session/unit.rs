//! What is sent to a server at once, in a form that can be sent again, and to another server.

use std::collections::HashMap;
use std::sync::Arc;

use anabranch_wire::Formats;
use anabranch_wire::relay::Frame;
use bytes::Bytes;

use crate::backend::Sent;
use crate::command::Command;
use crate::recognise::{Arguments, Statement};

/// A prepared statement of the client.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Its name; empty for the unnamed one.
    pub(super) name: String,
    /// Tells it from others of the same name.
    pub(super) generation: u64,
    /// The message that makes it.
    pub(super) parse: Frame,
    /// What it is.
    pub(super) command: Command,
    /// Its text.
    pub(super) text: String,
    /// The types of its parameters, as far as the client has named them.
    pub(super) types: Vec<u32>,
    /// What operations are recognised by.
    pub(super) statement: Option<Statement>,
}

/// A portal of the client.
#[derive(Clone, Debug)]
pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) formats: Formats,
    pub(super) values: Vec<Option<Bytes>>,
    /// Whether it has been executed: another Execute goes on with it.
    pub(super) is_executed: bool,
}

impl Portal {
    pub(super) fn arguments(&self) -> Arguments<'_> {
        Arguments {
            types: &self.prepared.types,
            formats: &self.formats,
            values: &self.values,
        }
    }
}

/// A message to a server.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A query by text.
    Query(Frame),
    /// It makes a prepared statement.
    Parse(Arc<Prepared>),
    /// It uses a prepared statement, which has to be there.
    Using(Frame, Arc<Prepared>),
    /// Any other.
    Other(Frame),
}

/// Messages that are sent at once, and answered as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct Unit {
    items: Vec<Item>,
    /// Whether it runs once, whatever becomes of its transaction: it draws numbers from sequences, or prepares statements.
    once: bool,
}

/// The prepared statements that are on a server, by their generation; `None` if one may be there or not.
pub(super) type OnServer = HashMap<String, Option<u64>>;

impl Unit {
    pub(super) fn of_query(frame: Frame) -> Unit {
        Unit {
            items: vec![Item::Query(frame)],
            once: false,
        }
    }

    /// Notes whether it does not run again with its transaction.
    pub(super) fn once(mut self, once: bool) -> Unit {
        self.once = once;
        self
    }

    pub(super) fn runs_once(&self) -> bool {
        self.once
    }

    /// Whether it begins what it runs: it goes on with no portal of an earlier unit.
    pub(super) fn begins(&self) -> bool {
        self.items.iter().any(|item| match item {
            Item::Query(_) => true,
            Item::Using(frame, _) => frame.letter() == b'B',
            Item::Parse(_) | Item::Other(_) => false,
        })
    }

    /// How many bytes its messages have.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |item: &Item| match item {
            Item::Query(frame) | Item::Using(frame, _) | Item::Other(frame) => frame.bytes().len(),
            Item::Parse(prepared) => prepared.parse.bytes().len(),
        };
        self.items.iter().map(bytes).sum()
    }

    pub(super) fn push(&mut self, item: Item) {
        self.items.push(item);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The statements that it prepares, in order.
    pub(super) fn prepares(&self) -> impl Iterator<Item = &Arc<Prepared>> {
        self.items.iter().filter_map(|item| match item {
            Item::Parse(prepared) => Some(prepared),
            _ => None,
        })
    }

    /// The names of the prepared statements that it makes or uses.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| match item {
            Item::Parse(prepared) | Item::Using(_, prepared) => Some(prepared.name.as_str()),
            _ => None,
        })
    }

    /// The messages for a server with these prepared statements. A statement that was made on another server, or by an
    /// earlier run of this unit, is made again.
    pub(super) fn sent(&self, on_server: &mut OnServer) -> Sent {
        let mut sent = Sent::default();
        let mut is_extended = false;
        for item in &self.items {
            match item {
                Item::Query(frame) => {
                    // A query by text ends the unnamed prepared statement.
                    on_server.insert(String::new(), None);
                    sent.push(frame.bytes(), true);
                    continue;
                }
                Item::Parse(prepared) => prepare(&mut sent, on_server, prepared, true),
                Item::Using(frame, prepared) => {
                    if on_server.get(&prepared.name) != Some(&Some(prepared.generation)) {
                        prepare(&mut sent, on_server, prepared, false);
                    }
                    sent.push(frame.bytes(), true);
                }
                Item::Other(frame) => sent.push(frame.bytes(), true),
            }
            is_extended = true;
        }
        if is_extended {
            sent.sync();
        }
        sent
    }
}

fn prepare(sent: &mut Sent, on_server: &mut OnServer, prepared: &Prepared, is_for_client: bool) {
    let name = &prepared.name;
    let before = on_server.insert(name.clone(), Some(prepared.generation));
    if before.is_some() && !name.is_empty() {
        sent.close_statement(name);
    }
    sent.push(prepared.parse.bytes(), is_for_client);
}
