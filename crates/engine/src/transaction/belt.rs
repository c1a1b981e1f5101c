//! The transactions of the belt at a node: see [`crate::belt`].
//!
//! Every one of them, and every commit of a global operation, locks the row of `anabranch_hold` for writing until it has
//! ended. So they have one order, in which numbers are drawn: an operation that waited for another one's row draws later,
//! and a hold that is open when an operation commits is open until it has committed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use anabranch_protocol::belt::rows::Refused;
use anabranch_protocol::belt::{Hop, RowImage, RowImages, Rows, Sequence, Token, Update};
use anabranch_sql::transaction::TransactionError;
use anabranch_types::{
    Access, ColumnIndex, Effect, EffectError, Fetched, Key, KeyRange, LockPolicy, Read, Row,
    TableId, Value,
};
use smallvec::SmallVec;

use super::NodeTransaction;
use super::verify::Entries;
use crate::belt::{
    BeltAnswer, BeltLook, BeltTables, BeltWork, TableDigest, UPDATE_BYTES_MAX, damaged, decoded,
    encoded, open_hop,
};
use crate::overlay::{Overlay, OwnWrite};

/// The key of the one row of a table of the belt.
const ONLY: i64 = 0;

/// What a transaction does with rows that it may write.
const FOR_WRITE: Access = Access {
    for_write: true,
    guard: true,
    lock: LockPolicy::Wait,
};

impl NodeTransaction {
    /// Makes it a transaction in the database of a ring.
    pub(crate) fn set_belt(&mut self, belt: Option<Arc<BeltTables>>) {
        self.belt = belt;
    }

    /// Checks a transaction that ends and is no global operation: it has written no table that all servers have, or the others
    /// would not learn of it. Before the ring has begun ([`BeltWork::Create`]), it may.
    ///
    /// # Errors
    /// SQLSTATE `55000`; `42501` if it has written a table of the belt; a retry.
    pub(crate) async fn check_local(&mut self) -> Result<(), TransactionError> {
        let Some(belt) = self.belt.clone() else {
            return Ok(());
        };
        self.check_own_tables(&belt)?;
        let of_all = {
            let mailbox = self.mailbox.borrow();
            let tables = mailbox.writes.iter().map(|write| write.effect.table());
            let mut of_all = tables.filter(|table| belt.replicated.get(table) == Some(&true));
            of_all.next()
        };
        let Some(table) = of_all else {
            return Ok(());
        };
        let key = number_key(self, belt.hold, 0)?;
        let hold = self.rows_before(&[(belt.hold, key)]).await?.pop();
        if hold.flatten().is_none() {
            return Ok(());
        }
        let name = &self.planned.application.schema().table(table).name;
        let message = format!("a local operation writes \"{name}\", which all servers have");
        let error = EffectError::new("55000", message);
        Err(TransactionError::Failed(error.with_hint(
            "Connect to the middleware of the belt, and call what the application declares.",
        )))
    }

    /// Checks that a client's transaction has written none of the belt's own tables.
    fn check_own_tables(&self, belt: &BeltTables) -> Result<(), TransactionError> {
        let mailbox = self.mailbox.borrow();
        let mut tables = mailbox.writes.iter().map(|write| write.effect.table());
        let Some(table) = tables.find(|table| belt.is_own(*table)) else {
            return Ok(());
        };
        let name = &self.planned.application.schema().table(table).name;
        let message = format!("only the belt writes \"{name}\"");
        Err(TransactionError::Failed(EffectError::new("42501", message)))
    }

    /// Ends the statements of a global operation under a hold: writes its update.
    ///
    /// # Errors
    /// SQLSTATE `40001` if the hold is not open; `54000` if the update is too large; `42501` if the operation has written a
    /// table of the belt; a retry.
    pub(crate) async fn seal(&mut self, hold: Hop) -> Result<(), TransactionError> {
        let belt = self.belt.clone().ok_or_else(no_ring)?;
        self.check_own_tables(&belt)?;
        let images = self.captured(&belt).await?;
        let (open, drawn) = self.hold(&belt).await?;
        if open != hold.0 {
            let message = format!("hop {} is not held here", hold.0);
            let error = EffectError::new("40001", message);
            let detail = match open {
                0 => "No hold is open.".to_owned(),
                open => format!("The hold is of hop {open}."),
            };
            return Err(TransactionError::Failed(error.with_detail(detail)));
        }
        if images.is_empty() {
            return Ok(());
        }
        let update = encoded(&RowImages::untimed(images));
        if update.len() > UPDATE_BYTES_MAX {
            let message = format!(
                "what the operation changes on all servers takes {} bytes, and at most {UPDATE_BYTES_MAX} are passed on",
                update.len()
            );
            let error = EffectError::new("54000", message);
            return Err(TransactionError::Failed(
                error.with_hint("Change fewer rows in one transaction."),
            ));
        }
        let number = drawn + 1;
        self.put_hold(&belt, Some((open, drawn)), (open, number))?;
        let row = [
            Value::Int(signed(number)?),
            Value::Int(signed(hold.0)?),
            Value::Bytes(update),
        ];
        self.insert(belt.outbox, number_key(self, belt.outbox, number)?, &row)
    }

    /// What the transaction has changed in replicated tables: each row once, with the columns that differ.
    async fn captured(&mut self, belt: &BeltTables) -> Result<Vec<RowImage>, TransactionError> {
        let mut items: Vec<(TableId, Key)> = Vec::new();
        {
            let mailbox = self.mailbox.borrow();
            if mailbox.writes.iter().any(OwnWrite::is_pending) {
                let message = "a value of a global operation is known only at its commit";
                return Err(TransactionError::Failed(EffectError::new("XX000", message)));
            }
            let effects = mailbox.writes.iter().map(|write| &write.effect);
            let captured = effects.filter(|of| belt.replicated.contains_key(&of.table()));
            items.extend(captured.map(|of| (of.table(), of.key().clone())));
        }
        items.sort();
        items.dedup();
        let before = self.rows_before(&items).await?;
        let planned = Arc::clone(&self.planned);
        let schema = planned.application.schema();
        let programs = planned.application.programs();
        let mailbox = self.mailbox.borrow();
        let overlay = Overlay::new(schema, &*programs, &mailbox.writes, Vec::new(), Vec::new());
        let mut images = Vec::new();
        for ((table, key), before) in items.into_iter().zip(before) {
            let point = Read::Point {
                table,
                key: key.clone(),
            };
            let after = match overlay.fold(&point, Fetched::Point(before.clone()))? {
                Fetched::Point(row) => row,
                Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => None,
            };
            let image =
                RowImage::between(schema.table(table), key, before.as_ref(), after.as_ref());
            images.extend(image);
        }
        Ok(images)
    }

    /// Runs a transaction of the belt.
    ///
    /// # Errors
    /// When the belt's tables are damaged, or rows of another server do not fit those here; a retry.
    pub(crate) async fn run_belt(
        &mut self,
        work: &BeltWork,
    ) -> Result<BeltAnswer, TransactionError> {
        let belt = self.belt.clone().ok_or_else(no_ring)?;
        // The rows that it changes are locked with all of their entries.
        self.locks = true;
        Ok(match work {
            BeltWork::Create { server, members } => {
                let rows = Rows::new(*server, members.clone());
                self.put_hold(&belt, None, (open_hop(&rows), 0))?;
                self.put_state(&belt, false, rows)?;
                BeltAnswer::Created
            }
            BeltWork::Digest(tables) => BeltAnswer::Digested(self.digests(tables).await?),
            BeltWork::Standing => {
                let (_, rows) = self.belt_state(&belt).await?;
                BeltAnswer::Standing(rows.standing())
            }
            BeltWork::Look => {
                let (_, rows) = self.belt_state(&belt).await?;
                BeltAnswer::Looked(BeltLook {
                    server: rows.server,
                    members: rows.members,
                    received: rows.received,
                    passed: rows.passed,
                    applied: rows.applied,
                    not_everywhere: rows.outbox.len() as u64,
                })
            }
            BeltWork::Receive(token) => {
                let (held, before) = self.belt_state(&belt).await?;
                let mut after = before.clone();
                let received = after.receive(token.clone());
                if let Ok(new) = &received {
                    self.apply(&belt, new).await?;
                    self.put_rows(&belt, held, &before, after)?;
                }
                BeltAnswer::Received(received.map(drop))
            }
            BeltWork::Pass { hold, wishes } => {
                let (held, before) = self.belt_state(&belt).await?;
                let mut after = before.clone();
                let passed: Result<Token<RowImages>, Refused> =
                    after.pass(*hold, wishes.clone()).cloned();
                if passed.is_ok() {
                    self.put_rows(&belt, held, &before, after)?;
                }
                BeltAnswer::Passed(passed)
            }
            BeltWork::Promise(epoch) => {
                let (held, before) = self.belt_state(&belt).await?;
                let mut after = before.clone();
                let promised = after.promise(*epoch).then(|| after.standing());
                self.put_rows(&belt, held, &before, after)?;
                BeltAnswer::Promised(promised)
            }
            BeltWork::Install { epoch, members } => {
                let (held, before) = self.belt_state(&belt).await?;
                let mut after = before.clone();
                let done = after.install(*epoch, members.clone());
                self.put_rows(&belt, held, &before, after)?;
                BeltAnswer::Installed(done)
            }
        })
    }

    /// The belt's rows, locked, and what [`NodeTransaction::hold`] gives.
    async fn belt_state(
        &mut self,
        belt: &BeltTables,
    ) -> Result<((u64, u64), Rows<RowImages>), TransactionError> {
        let held = self.hold(belt).await?;
        let rows = self.belt_rows(belt, held.1).await?;
        Ok((held, rows))
    }

    /// Writes what differs between the belt's rows before and after.
    fn put_rows(
        &mut self,
        belt: &BeltTables,
        held: (u64, u64),
        before: &Rows<RowImages>,
        after: Rows<RowImages>,
    ) -> Result<(), TransactionError> {
        for number in before.outbox.keys() {
            if !after.outbox.contains_key(number) {
                let key = number_key(self, belt.outbox, number.0)?;
                self.delete(belt.outbox, key);
            }
        }
        self.put_hold(belt, Some(held), (open_hop(&after), held.1))?;
        self.put_state(belt, true, after)
    }

    /// Changes the application's rows as operations of other servers did, in their order. Each row is written once; rows that
    /// go are deleted first, so that others may take their unique values. No foreign key is checked, since rows may refer
    /// to what only their origin has, and nothing cascades.
    async fn apply(
        &mut self,
        belt: &BeltTables,
        updates: &[Update<RowImages>],
    ) -> Result<(), TransactionError> {
        let images = || updates.iter().flat_map(|update| &update.payload.images);
        let items: BTreeSet<(TableId, Key)> = images()
            .map(|image| (image.item().0, image.item().1.clone()))
            .collect();
        let items: Vec<(TableId, Key)> = items.into_iter().collect();
        let before = self.rows_before(&items).await?;
        let planned = Arc::clone(&self.planned);
        let schema = planned.application.schema();
        let mut now: BTreeMap<(TableId, Key), Option<Row>> =
            items.iter().cloned().zip(before.iter().cloned()).collect();
        for image in images() {
            let (table, key) = image.item();
            let Some(is_whole) = belt.replicated.get(&table) else {
                return Err(TransactionError::Failed(damaged(
                    "an update of no replicated table",
                )));
            };
            let Some(row) = now.get_mut(&(table, key.clone())) else {
                continue;
            };
            let is_new = matches!(image, RowImage::Insert { .. });
            if *is_whole && is_new == row.is_some() {
                let name = &schema.table(table).name;
                let what = match is_new {
                    true => "that another server inserts are here already",
                    false => "that another server changes are not here",
                };
                return Err(TransactionError::Failed(EffectError::new(
                    "XX001",
                    format!("the servers differ: rows of \"{name}\" {what}"),
                )));
            }
            *row = image
                .applied(schema.table(table), row.as_ref())
                .map_err(|_| TransactionError::Failed(damaged("a row becomes too long")))?;
        }
        let changed: Vec<_> = items
            .iter()
            .zip(before)
            .filter_map(|(item, before)| {
                let after = now.remove(item)?;
                (after != before).then_some((item, before, after))
            })
            .collect();
        let home = self.identity.home;
        let mut entries = Entries::default();
        for ((table, key), before, after) in &changed {
            if let Some(after) = after {
                let table = schema.table(*table);
                self.note_entries(home, table, key, (after, Some(before)), &mut entries);
            }
        }
        // Effects never wait for locks, and so would be refused for as long as a client has read where an entry comes.
        self.lock_entries(entries).await?;
        for ((table, key), before, _) in &changed {
            if before.is_some() {
                self.delete(*table, key.clone());
            }
        }
        for ((table, key), _, after) in changed {
            if let Some(row) = after {
                self.push(Effect::Insert {
                    table: *table,
                    key: key.clone(),
                    row,
                    patches: SmallVec::new(),
                });
            }
        }
        Ok(())
    }

    async fn digests(&mut self, tables: &[TableId]) -> Result<Vec<TableDigest>, TransactionError> {
        let all = tables.iter().map(|table| whole(*table)).collect();
        let fetched = self.fetch(FOR_WRITE, all).await?;
        let digests = fetched.into_iter().map(|fetched| {
            let mut digest = TableDigest::default();
            if let Fetched::Range(rows) = fetched {
                for (_, row) in rows {
                    let mut hasher = DefaultHasher::new();
                    row.as_bytes().hash(&mut hasher);
                    digest.rows += 1;
                    digest.digest = digest.digest.wrapping_add(hasher.finish());
                }
            }
            digest
        });
        Ok(digests.collect())
    }

    /// Rows as they were before the transaction, locked for writing.
    async fn rows_before(
        &mut self,
        items: &[(TableId, Key)],
    ) -> Result<Vec<Option<Row>>, TransactionError> {
        let points = items.iter().map(|(table, key)| Read::Point {
            table: *table,
            key: key.clone(),
        });
        let fetched = self.fetch(FOR_WRITE, points.collect()).await?;
        let rows = fetched.into_iter().map(|fetched| match fetched {
            Fetched::Point(row) => row,
            Fetched::Range(_) | Fetched::Locked | Fetched::Recorded(_) => None,
        });
        Ok(rows.collect())
    }

    /// The hop of the open hold, or 0, and the last number drawn.
    async fn hold(&mut self, belt: &BeltTables) -> Result<(u64, u64), TransactionError> {
        let key = number_key(self, belt.hold, 0)?;
        let mut rows = self.rows_before(&[(belt.hold, key)]).await?;
        let Some(row) = rows.pop().flatten() else {
            return Err(TransactionError::Failed(damaged("anabranch_hold is empty")));
        };
        let layout = &self.planned.schema().table(belt.hold).layout;
        let number = |column| unsigned(row.get_int(layout, ColumnIndex(column)));
        Ok((number(1)?, number(2)?))
    }

    fn put_hold(
        &mut self,
        belt: &BeltTables,
        before: Option<(u64, u64)>,
        (open, drawn): (u64, u64),
    ) -> Result<(), TransactionError> {
        if before == Some((open, drawn)) {
            return Ok(());
        }
        let key = number_key(self, belt.hold, 0)?;
        if before.is_some() {
            self.delete(belt.hold, key.clone());
        }
        let row = [
            Value::Int(ONLY),
            Value::Int(signed(open)?),
            Value::Int(signed(drawn)?),
        ];
        self.insert(belt.hold, key, &row)
    }

    /// The belt's rows as they are.
    async fn belt_rows(
        &mut self,
        belt: &BeltTables,
        drawn: u64,
    ) -> Result<Rows<RowImages>, TransactionError> {
        let key = number_key(self, belt.state, 0)?;
        let state = self
            .rows_before(&[(belt.state, key)])
            .await?
            .pop()
            .flatten();
        let planned = Arc::clone(&self.planned);
        let schema = planned.schema();
        let layout = &schema.table(belt.state).layout;
        let state = state.map(|row| row.get(layout, ColumnIndex(1)));
        let Some(Value::Bytes(state)) = state else {
            return Err(TransactionError::Failed(damaged(
                "anabranch_state is empty",
            )));
        };
        let mut rows: Rows<RowImages> = decoded(&state).map_err(TransactionError::Failed)?;
        let all = whole(belt.outbox);
        let layout = &schema.table(belt.outbox).layout;
        for fetched in self.fetch(FOR_WRITE, vec![all]).await? {
            let Fetched::Range(found) = fetched else {
                continue;
            };
            for (_, row) in found {
                let number = |column| unsigned(row.get_int(layout, ColumnIndex(column)));
                let (sequence, hop) = (Sequence(number(0)?), Hop(number(1)?));
                let Value::Bytes(payload) = row.get(layout, ColumnIndex(2)) else {
                    return Err(TransactionError::Failed(damaged("an update is empty")));
                };
                let update = Update {
                    origin: rows.server,
                    hop,
                    sequence,
                    payload: decoded(&payload).map_err(TransactionError::Failed)?,
                };
                rows.outbox.insert(sequence, update);
            }
        }
        rows.drawn = Sequence(drawn);
        if drawn > 0 {
            rows.applied.insert(rows.server, rows.drawn);
        }
        Ok(rows)
    }

    fn put_state(
        &mut self,
        belt: &BeltTables,
        is_there: bool,
        mut rows: Rows<RowImages>,
    ) -> Result<(), TransactionError> {
        // It is in a table of its own.
        rows.outbox.clear();
        let key = number_key(self, belt.state, 0)?;
        if is_there {
            self.delete(belt.state, key.clone());
        }
        let row = [Value::Int(ONLY), Value::Bytes(encoded(&rows))];
        self.insert(belt.state, key, &row)
    }

    fn insert(
        &mut self,
        table: TableId,
        key: Key,
        values: &[Value],
    ) -> Result<(), TransactionError> {
        let row = self.planned.schema().table(table).layout.encode(values);
        let row = row.map_err(|error| {
            TransactionError::Failed(EffectError::new("54000", format!("the belt: {error}")))
        })?;
        self.push(Effect::Insert {
            table,
            key,
            row,
            patches: SmallVec::new(),
        });
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: Key) {
        self.push(Effect::Delete { table, key });
    }

    fn push(&mut self, effect: Effect) {
        let partition = self.identity.home;
        self.mailbox.borrow_mut().writes.push(OwnWrite {
            partition,
            copies: None,
            effect,
            guard: true,
        });
    }
}

/// All rows of a table.
fn whole(table: TableId) -> Read {
    Read::Range {
        table,
        index: None,
        range: KeyRange::prefix_of(Key::empty()),
        reverse: false,
        limit: None,
    }
}

fn no_ring() -> TransactionError {
    let message = "this database is in no ring";
    TransactionError::Failed(EffectError::new("55000", message))
}

/// The key of a row of the belt's tables, which begin with an integer.
fn number_key(of: &NodeTransaction, table: TableId, number: u64) -> Result<Key, TransactionError> {
    let schema = of.planned.schema().table(table);
    let column = &schema.columns[0];
    let mut key = Key::empty();
    key.push_value(
        &column.data_type,
        column.nullable,
        &Value::Int(signed(number)?),
    );
    Ok(key)
}

fn signed(number: u64) -> Result<i64, TransactionError> {
    i64::try_from(number).map_err(|_| TransactionError::Failed(damaged("a number above 2^63")))
}

fn unsigned(number: Option<i64>) -> Result<u64, TransactionError> {
    let number = number.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| TransactionError::Failed(damaged("a negative number")))
}
