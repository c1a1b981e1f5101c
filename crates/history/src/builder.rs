//! Builds a [`History`] from recorded lines: interns names, orders versions, and matches each read with its version.
//!
//! Two kinds of errors are kept apart. A history that no run can produce is contradictory, and gets no verdict. A
//! history that a faulty run can produce is kept for the checkers: a read of an aborted version, a committed write
//! that was never installed, an answer that differs from the version installed at its sequence.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{HistoryError, Problem};
use crate::history::{
    DirectAnomaly, DirectAnomalyKind, History, Names, ReadFact, ScanFact, TransactionFacts,
    VersionFact, WriteFact,
};
use crate::item_order::{ItemOrder, NamedWrite};
use crate::numbers::{ItemNumber, Position, TransactionNumber};
use crate::record::{
    AssignmentOrder, Header, Operation, Order, Outcome, PartitionSequence, Read, Transaction,
    WriteKind, split_item,
};

/// Builds a history record by record.
#[derive(Debug)]
pub struct HistoryBuilder {
    header: Header,
    transactions: Vec<TransactionFacts>,
    unknown: Vec<bool>,
    names: FxHashSet<Box<str>>,
    items: Names,
    sessions: Names,
    spaces: Names,
    /// The names of versions, with their writers as far as known.
    versions: Names,
    writers: Vec<Option<TransactionNumber>>,
    reads: Vec<NamedRead>,
    scans: Vec<ScanFact>,
    scanners: Vec<(TransactionNumber, u32)>,
    writes: Vec<NamedWrite>,
    places: Vec<(u32, u32, Box<str>)>,
    orders: FxHashMap<ItemNumber, (u64, Vec<u32>)>,
    last_of_session: Vec<Option<u64>>,
}

#[derive(Clone, Debug)]
struct NamedRead {
    transaction: TransactionNumber,
    item: ItemNumber,
    writer: Option<u32>,
    ordinal: Option<u32>,
    at: Option<PartitionSequence>,
    step: u32,
    scan: Option<u32>,
}

impl HistoryBuilder {
    /// A history without transactions.
    pub fn new(header: Header) -> HistoryBuilder {
        HistoryBuilder {
            header,
            transactions: Vec::new(),
            unknown: Vec::new(),
            names: FxHashSet::default(),
            items: Names::default(),
            sessions: Names::default(),
            spaces: Names::default(),
            versions: Names::default(),
            writers: Vec::new(),
            reads: Vec::new(),
            scans: Vec::new(),
            scanners: Vec::new(),
            writes: Vec::new(),
            places: Vec::new(),
            orders: FxHashMap::default(),
            last_of_session: Vec::new(),
        }
    }

    /// Adds a transaction; errors name `line`.
    ///
    /// # Errors
    /// [`Problem::Contradiction`].
    pub fn add(&mut self, line: u64, transaction: Transaction) -> Result<(), HistoryError> {
        let number = self.transactions.len() as TransactionNumber;
        let name: Box<str> = transaction.id.as_str().into();
        if !self.names.insert(name.clone()) {
            return Err(contradiction(
                line,
                format!("two transactions are named {name}"),
            ));
        }
        let version = self.version_number(transaction.version.as_deref().unwrap_or(&name));
        if self.writers[version as usize].replace(number).is_some() {
            let name = self.versions.name(version);
            return Err(contradiction(
                line,
                format!("the versions of two transactions are named {name}"),
            ));
        }
        let session = self.session_of(line, &transaction)?;
        self.unknown.push(transaction.outcome == Outcome::Unknown);
        self.transactions.push(TransactionFacts {
            name,
            call: transaction.procedure.as_ref().map(|procedure| {
                format!("{procedure}({})", transaction.arguments.join(", ")).into()
            }),
            session,
            invoked: transaction.invoked,
            completed: transaction.completed,
            committed: transaction.outcome == Outcome::Committed,
            stamp: transaction.stamp,
            line,
            reads: (0, 0),
            writes: (0, 0),
            source_operations: Vec::new(),
        });
        for (step, operation) in transaction.operations.into_iter().enumerate() {
            self.add_operation(number, step as u32, operation);
        }
        Ok(())
    }

    fn session_of(
        &mut self,
        line: u64,
        transaction: &Transaction,
    ) -> Result<Option<u32>, HistoryError> {
        if let (Some(invoked), Some(completed)) = (transaction.invoked, transaction.completed)
            && completed < invoked
        {
            return Err(contradiction(
                line,
                format!(
                    "the transaction completed at {completed}, before it was invoked at {invoked}"
                ),
            ));
        }
        let Some(name) = &transaction.session else {
            return Ok(None);
        };
        let session = self.sessions.intern(name);
        if session as usize == self.last_of_session.len() {
            self.last_of_session.push(None);
        }
        let last = &mut self.last_of_session[session as usize];
        if let (Some(last), Some(invoked)) = (*last, transaction.invoked)
            && invoked < last
        {
            return Err(contradiction(
                line,
                format!(
                    "session {name} invoked a transaction at {invoked}, before its last one completed at {last}"
                ),
            ));
        }
        *last = transaction.completed.or(transaction.invoked).or(*last);
        Ok(Some(session))
    }

    fn version_number(&mut self, name: &str) -> u32 {
        let number = self.versions.intern(name);
        if number as usize == self.writers.len() {
            self.writers.push(None);
        }
        number
    }

    fn add_operation(&mut self, transaction: TransactionNumber, step: u32, operation: Operation) {
        match operation {
            Operation::Read(read) => self.add_read(transaction, step, None, &read),
            Operation::Scan(scan) => {
                let number = self.scans.len() as u32;
                for read in &scan.found {
                    self.add_read(transaction, step, Some(number), read);
                }
                self.scanners.push((transaction, step));
                self.scans.push(ScanFact {
                    space: self.spaces.intern(&scan.space),
                    lower: scan.lower.map(String::into_boxed_str),
                    upper: scan.upper.map(String::into_boxed_str),
                    at: scan.at,
                });
            }
            Operation::Write(write) => {
                let number = self.writes.len() as u32;
                let item = self.items.intern(&write.item);
                for (space, place) in write.positions {
                    let space = self.spaces.intern(&space);
                    self.places.push((number, space, place.into()));
                }
                self.writes.push(NamedWrite {
                    transaction,
                    item,
                    kind: write.kind,
                    at: write.at,
                    number,
                    ordinal: 1,
                });
            }
        }
    }

    fn add_read(
        &mut self,
        transaction: TransactionNumber,
        step: u32,
        scan: Option<u32>,
        read: &Read,
    ) {
        let version = read.version.as_ref();
        let read = NamedRead {
            transaction,
            item: self.items.intern(&read.item),
            writer: version.map(|version| self.version_number(&version.writer)),
            ordinal: version.and_then(|version| version.ordinal),
            at: read.at,
            step,
            scan,
        };
        self.reads.push(read);
    }

    /// Adds the version order of an item.
    ///
    /// # Errors
    /// [`Problem::Contradiction`].
    pub fn add_order(&mut self, line: u64, order: &Order) -> Result<(), HistoryError> {
        let item = self.items.intern(&order.item);
        let mut versions: Vec<u32> = Vec::with_capacity(order.versions.len());
        for name in &order.versions {
            versions.push(self.version_number(name));
        }
        let mut sorted = versions.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = self.versions.name(twice[0]);
            return Err(contradiction(line, format!("{name} is in the order twice")));
        }
        if self.orders.insert(item, (line, versions)).is_some() {
            let item = &order.item;
            return Err(contradiction(line, format!("{item} has two orders")));
        }
        Ok(())
    }

    /// Completes the history.
    ///
    /// # Errors
    /// [`Problem::Contradiction`], with the line of the transaction or order that contradicts.
    pub fn finish(mut self) -> Result<History, HistoryError> {
        self.writes
            .sort_by_key(|write| (write.transaction, write.item));
        for at in 1..self.writes.len() {
            let before = self.writes[at - 1];
            let write = &mut self.writes[at];
            if (before.transaction, before.item) == (write.transaction, write.item) {
                write.ordinal = before.ordinal + 1;
            }
        }
        let resolved = self.resolve_writers()?;
        let mut direct = Vec::new();
        let ordered = self.order_versions(&mut direct)?;
        self.assemble(resolved, ordered, direct)
    }

    /// The write of each read's version, by index. Also marks unknown transactions as committed if they were
    /// installed or read.
    fn resolve_writers(&mut self) -> Result<Vec<Option<u32>>, HistoryError> {
        for write in &self.writes {
            let number = write.transaction as usize;
            self.transactions[number].committed |= self.unknown[number] && write.at.is_some();
        }
        let mut found = Vec::with_capacity(self.reads.len());
        for read in &self.reads {
            let facts = &self.transactions[read.transaction as usize];
            let Some(version) = read.writer else {
                found.push(None);
                continue;
            };
            let (name, item) = (self.versions.name(version), self.items.name(read.item));
            let no_writer = || {
                contradiction(
                    facts.line,
                    format!(
                        "{} read {item} in version {name}, which no transaction wrote",
                        facts.name
                    ),
                )
            };
            let writer = self.writers[version as usize].ok_or_else(no_writer)?;
            let last = self
                .writes
                .partition_point(|write| (write.transaction, write.item) <= (writer, read.item))
                .checked_sub(1)
                .filter(|at| {
                    let write = &self.writes[*at];
                    (write.transaction, write.item) == (writer, read.item)
                })
                .ok_or_else(no_writer)?;
            if read
                .ordinal
                .is_some_and(|ordinal| ordinal > self.writes[last].ordinal)
            {
                return Err(no_writer());
            }
            if self.unknown[writer as usize] && facts.committed {
                self.transactions[writer as usize].committed = true;
            }
            found.push(Some(last as u32));
        }
        Ok(found)
    }

    /// The version order of each item.
    fn order_versions(
        &self,
        direct: &mut Vec<DirectAnomaly>,
    ) -> Result<Vec<ItemOrder>, HistoryError> {
        let mut by_item: Vec<ItemOrder> = (0..self.items.len())
            .map(|_| ItemOrder::default())
            .collect();
        for (at, write) in self.writes.iter().enumerate() {
            let superseded = self.writes.get(at + 1).is_some_and(|next| {
                (next.transaction, next.item) == (write.transaction, write.item)
            });
            let facts = &self.transactions[write.transaction as usize];
            let item = &mut by_item[write.item as usize];
            if let Some(place) = write.at {
                item.installed.push((place, *write));
            }
            if facts.committed && !superseded {
                item.committed.push(*write);
            }
        }
        for (number, item) in by_item.iter_mut().enumerate() {
            let number = number as ItemNumber;
            if let Some((line, order)) = self.orders.get(&number) {
                let told = self.declared_order(*line, number, order, item)?;
                if !item.installed.is_empty() {
                    self.installed_order(number, item, &mut Vec::new())?;
                    self.check_declared_order(*line, number, &told, &item.versions)?;
                }
                item.versions = told;
            } else if !item.installed.is_empty() {
                self.installed_order(number, item, direct)?;
            } else if self.is_ordered_by_stamp(item) {
                item.versions.clone_from(&item.committed);
            } else if let [_, second, ..] = &item.committed[..] {
                let facts = &self.transactions[second.transaction as usize];
                return Err(contradiction(
                    facts.line,
                    format!(
                        "{} has several writers, and their order is not known: add \"at\", \"stamp\" or an order",
                        self.items.name(number)
                    ),
                ));
            } else {
                item.versions.clone_from(&item.committed);
            }
            self.sort_by_stamp(item);
        }
        Ok(by_item)
    }

    /// Whether stamps alone order an item's versions: all writes are assignments by committed transactions with
    /// different stamps.
    fn is_ordered_by_stamp(&self, item: &ItemOrder) -> bool {
        let stamp = |write: &NamedWrite| self.transactions[write.transaction as usize].stamp;
        let mut stamps: Vec<_> = item.committed.iter().map(stamp).collect();
        stamps.sort_unstable();
        self.header.assignments != AssignmentOrder::Installation
            && item.committed.iter().all(|write| self.is_register(write))
            && stamps.windows(2).all(|pair| pair[0] < pair[1])
    }

    /// Whether a write replaces the whole item, and its stamp is known.
    fn is_register(&self, write: &NamedWrite) -> bool {
        let stamp = self.transactions[write.transaction as usize].stamp;
        !matches!(write.kind, WriteKind::Increment | WriteKind::Apply) && stamp.is_some()
    }

    /// Checks that a declared order agrees with the sequences of installation in the writes.
    fn check_declared_order(
        &self,
        line: u64,
        number: ItemNumber,
        told: &[NamedWrite],
        installed: &[NamedWrite],
    ) -> Result<(), HistoryError> {
        let place = |write: &NamedWrite| {
            let same = |known: &NamedWrite| known.transaction == write.transaction;
            installed.iter().position(same)
        };
        let placed: Vec<(usize, &NamedWrite)> = told
            .iter()
            .filter_map(|write| Some((place(write)?, write)))
            .collect();
        let Some(pair) = placed.windows(2).find(|pair| pair[0].0 > pair[1].0) else {
            return Ok(());
        };
        let name = |write: &NamedWrite| &self.transactions[write.transaction as usize].name;
        Err(contradiction(
            line,
            format!(
                "the order has {}'s version of {} before {}'s, which was installed first",
                name(pair[0].1),
                self.items.name(number),
                name(pair[1].1)
            ),
        ))
    }

    fn declared_order(
        &self,
        line: u64,
        number: ItemNumber,
        order: &[u32],
        item: &ItemOrder,
    ) -> Result<Vec<NamedWrite>, HistoryError> {
        let item_name = self.items.name(number);
        let mut writes: FxHashMap<TransactionNumber, NamedWrite> = item
            .committed
            .iter()
            .map(|write| (write.transaction, *write))
            .collect();
        let mut versions = Vec::with_capacity(order.len());
        for version in order {
            let writer = self.writers[*version as usize];
            let write = writer.and_then(|writer| writes.remove(&writer));
            let name = self.versions.name(*version);
            versions.push(write.ok_or_else(|| {
                contradiction(
                    line,
                    format!("no committed transaction {name} wrote {item_name}"),
                )
            })?);
        }
        let left = item
            .committed
            .iter()
            .find(|write| writes.contains_key(&write.transaction));
        if let Some(left) = left {
            let name = &self.transactions[left.transaction as usize].name;
            return Err(contradiction(
                line,
                format!("{name} wrote {item_name}, but is missing from the order"),
            ));
        }
        Ok(versions)
    }

    fn installed_order(
        &self,
        number: ItemNumber,
        item: &mut ItemOrder,
        direct: &mut Vec<DirectAnomaly>,
    ) -> Result<(), HistoryError> {
        item.installed.sort_by_key(|(place, _)| *place);
        for pair in item.installed.windows(2) {
            let [(left, first), (right, second)] = pair else {
                continue;
            };
            let facts = &self.transactions[second.transaction as usize];
            let name = self.items.name(number);
            if left.partition != right.partition {
                return Err(contradiction(
                    facts.line,
                    format!(
                        "{name} was installed on partitions {} and {}",
                        left.partition, right.partition
                    ),
                ));
            }
            if left == right && first.transaction != second.transaction {
                let other = &self.transactions[first.transaction as usize].name;
                return Err(contradiction(
                    facts.line,
                    format!(
                        "{name} got versions of {other} and {} at the same sequence, {}",
                        facts.name, left.sequence
                    ),
                ));
            }
        }
        let committed =
            |write: &NamedWrite| self.transactions[write.transaction as usize].committed;
        let mut last: FxHashMap<TransactionNumber, PartitionSequence> = FxHashMap::default();
        for (place, write) in &item.installed {
            last.insert(write.transaction, *place);
        }
        item.versions = item
            .installed
            .iter()
            .filter(|(place, write)| committed(write) && last[&write.transaction] == *place)
            .map(|(_, write)| *write)
            .collect();
        for write in &item.committed {
            if !last.contains_key(&write.transaction) {
                direct.push(DirectAnomaly {
                    what: DirectAnomalyKind::LostWrite,
                    transaction: write.transaction,
                    item: number,
                    other: None,
                });
            }
        }
        Ok(())
    }

    /// Orders registers under last writer wins by stamp. A version installed with a lower stamp shows the highest
    /// stamp so far.
    fn sort_by_stamp(&self, item: &mut ItemOrder) {
        let stamp = |write: &NamedWrite| self.transactions[write.transaction as usize].stamp;
        let is_register = |write: &NamedWrite| self.is_register(write);
        if self.header.assignments == AssignmentOrder::Installation
            || !item.versions.iter().all(is_register)
            || item.versions.is_sorted_by_key(stamp)
        {
            return;
        }
        let mut shown: Option<NamedWrite> = None;
        let told = self.header.assignments == AssignmentOrder::Copies;
        for write in item.versions.iter().filter(|_| !told) {
            if shown.is_none_or(|shown| stamp(&shown) < stamp(write)) {
                shown = Some(*write);
            }
            item.shows
                .insert(write.transaction, shown.expect("it was set").transaction);
        }
        item.versions.sort_by_key(stamp);
    }

    fn assemble(
        mut self,
        resolved: Vec<Option<u32>>,
        ordered: Vec<ItemOrder>,
        mut direct: Vec<DirectAnomaly>,
    ) -> Result<History, HistoryError> {
        let indices = self.write_indices();
        let (versions, version_starts, positions) = self.number_versions(&ordered, &indices);
        let writes = self.collect_writes(&positions);
        let placed = self.collect_placed(&positions, &indices);
        let unresolved = std::mem::take(&mut self.reads);
        let scanners = std::mem::take(&mut self.scanners);
        let named_writes = std::mem::take(&mut self.writes);
        let mut history = History {
            header: self.header,
            transactions: self.transactions,
            items: self.items,
            sessions: self.sessions,
            reads: Vec::new(),
            writes,
            versions,
            version_starts,
            scans: self.scans,
            placed,
            spaces: self.spaces,
            direct: Vec::new(),
            inferred: Vec::new(),
            forest: None,
            unjudged: 0,
        };
        let mut reads = Vec::with_capacity(unresolved.len());
        for (read, write) in unresolved.iter().zip(resolved) {
            let write = write.map(|at| &named_writes[at as usize]);
            check_found(&history, read)?;
            if let Some(read) = resolve(&history, &ordered, read, write, &mut direct) {
                reads.push(read);
            }
        }
        let found = unresolved
            .iter()
            .filter_map(|read| Some((read.scan?, read.item)))
            .collect();
        drop(unresolved);
        history.unjudged = crate::absences::add(
            &history,
            &ordered,
            &scanners,
            &found,
            &mut reads,
            &mut direct,
        );
        history.group_reads(reads);
        history.direct = direct;
        Ok(history)
    }

    /// The index in the sorted writes of each write, by its number.
    fn write_indices(&self) -> Vec<u32> {
        let mut indices = vec![0; self.writes.len()];
        for (at, write) in self.writes.iter().enumerate() {
            indices[write.number as usize] = at as u32;
        }
        indices
    }

    /// All versions by item, the start of each item's versions, and the position of each write's version.
    fn number_versions(
        &self,
        ordered: &[ItemOrder],
        indices: &[u32],
    ) -> (Vec<VersionFact>, Vec<u32>, Vec<Option<Position>>) {
        let mut versions = Vec::new();
        let mut version_starts = Vec::with_capacity(ordered.len() + 1);
        let mut positions: Vec<Option<Position>> = vec![None; self.writes.len()];
        for item in ordered {
            version_starts.push(versions.len() as u32);
            for (before, write) in item.versions.iter().enumerate() {
                positions[indices[write.number as usize] as usize] = Some(before as u32 + 1);
                versions.push(VersionFact {
                    writer: write.transaction,
                    kind: write.kind,
                });
            }
        }
        version_starts.push(versions.len() as u32);
        (versions, version_starts, positions)
    }

    /// The writes in version orders, grouped by transaction.
    fn collect_writes(&mut self, positions: &[Option<Position>]) -> Vec<WriteFact> {
        let mut writes = Vec::new();
        let mut at = 0;
        for (number, facts) in self.transactions.iter_mut().enumerate() {
            let start = writes.len() as u32;
            while at < self.writes.len() && self.writes[at].transaction as usize == number {
                if let Some(position) = positions[at] {
                    let item = self.writes[at].item;
                    writes.push(WriteFact { item, position });
                }
                at += 1;
            }
            facts.writes = (start, writes.len() as u32);
        }
        writes
    }

    /// The positions of versions in other spaces.
    fn collect_placed(
        &mut self,
        positions: &[Option<Position>],
        indices: &[u32],
    ) -> FxHashMap<(ItemNumber, Position, u32), Box<str>> {
        let mut placed = FxHashMap::default();
        for (number, space, place) in std::mem::take(&mut self.places) {
            let at = indices[number as usize] as usize;
            if let Some(position) = positions[at] {
                placed.insert((self.writes[at].item, position, space), place);
            }
        }
        placed
    }
}

impl History {
    /// Stores the reads, grouped by transaction.
    fn group_reads(&mut self, mut reads: Vec<(TransactionNumber, ReadFact)>) {
        reads.sort_by_key(|(transaction, read)| (*transaction, read.step));
        let mut at = 0;
        for number in 0..self.transactions.len() {
            let start = at;
            while at < reads.len() && reads[at].0 as usize == number {
                at += 1;
            }
            self.transactions[number].reads = (start as u32, at as u32);
        }
        self.reads = reads.into_iter().map(|(_, read)| read).collect();
    }
}

/// Checks that a scan of the items' own space found no item outside of its range.
fn check_found(history: &History, read: &NamedRead) -> Result<(), HistoryError> {
    let Some(scan) = read.scan.map(|scan| &history.scans[scan as usize]) else {
        return Ok(());
    };
    let (own, place) = split_item(history.item(read.item));
    if own != history.spaces.name(scan.space) || scan.contains(place) {
        return Ok(());
    }
    let facts = history.facts(read.transaction);
    let bound = |bound: &Option<Box<str>>| bound.as_deref().unwrap_or("its end").to_owned();
    Err(contradiction(
        facts.line,
        format!(
            "{} scanned {own} from {} to {}, and found {}, which is outside of that range",
            facts.name,
            bound(&scan.lower),
            bound(&scan.upper),
            history.item(read.item)
        ),
    ))
}

/// Resolves the version that a read names; `None` if the read adds nothing to the graph.
fn resolve(
    history: &History,
    ordered: &[ItemOrder],
    read: &NamedRead,
    write: Option<&NamedWrite>,
    direct: &mut Vec<DirectAnomaly>,
) -> Option<(TransactionNumber, ReadFact)> {
    let reader = read.transaction;
    if !history.facts(reader).committed {
        return None;
    }
    let mut note = |what, other| {
        direct.push(DirectAnomaly {
            what,
            transaction: reader,
            item: read.item,
            other,
        });
    };
    let order = &ordered[read.item as usize];
    let writer = write.map(|write| write.transaction);
    if writer == Some(reader) {
        return None;
    }
    if let Some(at) = read.at
        && order.partition() == Some(at.partition)
    {
        let visible = order.visible(at.sequence);
        if visible != writer {
            note(DirectAnomalyKind::WrongVersion, visible);
        }
    }
    let position = match write {
        None => 0,
        Some(write) => {
            let writer = write.transaction;
            if !history.facts(writer).committed {
                note(DirectAnomalyKind::AbortedRead, Some(writer));
                return None;
            }
            if read.ordinal.is_some_and(|ordinal| ordinal < write.ordinal) {
                note(DirectAnomalyKind::IntermediateRead, Some(writer));
            }
            let shown = order.shows.get(&writer).copied().unwrap_or(writer);
            history.position(shown, read.item)?
        }
    };
    let count = history.versions_of(read.item).len() as u32;
    Some((
        reader,
        ReadFact {
            item: read.item,
            position,
            next: (position < count).then_some(position + 1),
            shown: position,
            step: read.step,
            scan: read.scan,
            absent: false,
        },
    ))
}

fn contradiction(line: u64, what: String) -> HistoryError {
    HistoryError {
        line,
        problem: Problem::Contradiction(what),
    }
}
