//! Operations over partitioned rows: what their coordinator asks of which partition, in which steps; and the locks.
//!
//! The coordinator is the server of the client. Reads take no locks (READ COMMITTED, as MySQL Cluster has it). An operation
//! that writes several rows writes them one after the other, in the order of their keys, so there is no deadlock; it locks
//! each row until its participant has committed. The client is answered when all have prepared and the decision is taken.

use std::collections::{BTreeMap, HashMap, VecDeque};

use anabranch_types::SplitMix64;

use super::costs::{Costs, OperationCosts};
use super::traffic::{Footprint, OperationType};

/// The rows that operations write and that others write, too: books.
const ITEMS: u64 = 10_000;

/// What one partition does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The partition's server.
    pub(super) server: u16,
    /// In nanoseconds.
    pub(super) cost: u64,
    /// The row that it locks first.
    pub(super) locks: Option<u32>,
}

/// An operation's steps. The parts of one step run at the same time.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    steps: VecDeque<Vec<Part>>,
    /// The participants that commit at the end, with the cost of it.
    pub(super) commits: Vec<(u16, u64)>,
}

impl Plan {
    /// The steps of an operation whose client is at `home`.
    pub(super) fn new(
        of: &OperationType,
        home: u16,
        servers: u16,
        costs: &Costs,
        random: &mut SplitMix64,
    ) -> Plan {
        let OperationCosts { plain, .. } = *costs.of_name(of.name);
        let part = |server, cost| Part {
            server,
            cost,
            locks: None,
        };
        let mut any = || random.below(u64::from(servers)) as u16;
        let mut plan = Plan {
            steps: VecDeque::new(),
            commits: Vec::new(),
        };
        match of.footprint {
            Footprint::Home => plan.steps.push_back(vec![part(home, plain)]),
            Footprint::One => plan.steps.push_back(vec![part(any(), plain)]),
            Footprint::All => {
                let share = plain / u64::from(servers) + costs.statement;
                let parts = (0..servers).map(|server| part(server, share));
                plan.steps.push_back(parts.collect());
            }
            Footprint::Read(rows) => {
                plan.steps.push_back(vec![part(home, plain)]);
                let owners: std::collections::BTreeSet<u16> = (0..rows).map(|_| any()).collect();
                let others = owners.into_iter().filter(|server| *server != home);
                let parts: Vec<Part> = others.map(|server| part(server, costs.statement)).collect();
                if !parts.is_empty() {
                    plan.steps.push_back(parts);
                }
            }
            Footprint::Write(rows) => {
                let items = (0..rows).map(|_| random.below(ITEMS) as u32);
                let items: std::collections::BTreeSet<u32> = items.collect();
                plan.write(items.into_iter().collect(), home, servers, plain, costs);
            }
        }
        plan
    }

    fn write(&mut self, items: Vec<u32>, home: u16, servers: u16, plain: u64, costs: &Costs) {
        self.steps.push_back(vec![Part {
            server: home,
            cost: plain,
            locks: None,
        }]);
        let mut participants = BTreeMap::from([(home, ())]);
        for item in items {
            let server = (item % u32::from(servers)) as u16;
            participants.insert(server, ());
            self.steps.push_back(vec![Part {
                server,
                // At home the row is written by the operation's own statement.
                cost: if server == home { 0 } else { costs.statement },
                locks: Some(item),
            }]);
        }
        let is_distributed = participants.len() > 1;
        if is_distributed {
            let prepare = |server: &u16| Part {
                server: *server,
                cost: costs.prepare,
                locks: None,
            };
            self.steps
                .push_back(participants.keys().map(prepare).collect());
        }
        let cost = if is_distributed {
            costs.commit_prepared
        } else {
            0
        };
        self.commits = participants.keys().map(|server| (*server, cost)).collect();
    }

    /// Whether several partitions commit.
    pub(super) fn is_distributed(&self) -> bool {
        self.commits.len() > 1
    }

    /// The next step.
    pub(super) fn next(&mut self) -> Option<Vec<Part>> {
        self.steps.pop_front()
    }
}

/// Who holds the lock of each row, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// By row: the holder, then those that wait, with their server and the cost of what they do then.
    queues: HashMap<u32, VecDeque<(u32, u16, u64)>>,
    /// By operation: the row that it asks for next, and those that it holds, with their servers.
    held: HashMap<u32, Vec<(u16, u32)>>,
    expected: HashMap<u32, (u16, u32)>,
}

impl Locks {
    /// An operation will ask for a row when its message has arrived.
    pub(super) fn expect(&mut self, call: u32, server: u16, item: u32) {
        self.expected.insert(call, (server, item));
    }

    /// Asks for the row. Whether the operation has it now; otherwise a later [`Locks::release`] returns it.
    pub(super) fn acquire(&mut self, call: u32, server: u16, cost: u64) -> bool {
        let (_, item) = self.expected.remove(&call).expect("it asks for a row");
        let queue = self.queues.entry(item).or_default();
        queue.push_back((call, server, cost));
        self.held.entry(call).or_default().push((server, item));
        queue.len() == 1
    }

    /// Releases an operation's rows on a server. The operations that have a row now.
    pub(super) fn release(&mut self, call: u32, server: u16) -> Vec<(u32, u16, u64)> {
        let mut next = Vec::new();
        let Some(rows) = self.held.get_mut(&call) else {
            return next;
        };
        let released: Vec<u32> = rows
            .iter()
            .filter(|(at, _)| *at == server)
            .map(|(_, item)| *item)
            .collect();
        rows.retain(|(at, _)| *at != server);
        if rows.is_empty() {
            self.held.remove(&call);
        }
        for item in released {
            let queue = self.queues.get_mut(&item).expect("the row is locked");
            queue.pop_front();
            match queue.front() {
                Some(first) => next.push(*first),
                None => {
                    self.queues.remove(&item);
                }
            }
        }
        next
    }

    /// Whether no row is locked.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.held.is_empty()
    }
}
