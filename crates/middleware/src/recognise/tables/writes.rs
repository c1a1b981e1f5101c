//! What a statement writes to one table: whether its server can check it, and other servers learn of it.

use std::collections::BTreeSet;

use anabranch_analysis::partition::Spread;
use anabranch_sql::catalog::ReferentialAction;

use super::super::Refusal;
use super::super::operand::Operand;
use super::super::words::{Lexeme, closing};
use super::{Reader, Reference, RowAccess, RowKey};

/// How many foreign keys that change rows are followed, one after the other.
const REFERENCES_MAX: usize = 16;

/// Where the rows of a table are that a statement writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// Every server has them.
    Everywhere,
    /// The server of the value of this column has them.
    Key(usize),
}

impl Reader<'_> {
    pub(super) fn insert(&self, columns_at: usize, touched: &mut RowAccess) -> Result<(), Refusal> {
        let table = self.table();
        if table.written.rows != Spread::OwnServer {
            return self.check_insert(Where::Everywhere);
        }
        let Some(column) = table.written.key else {
            return Err(self.refused(
                "has rows that not every server has, and no single column tells which server",
            ));
        };
        let column = column.index();
        let keys = self.inserted_keys(columns_at, column)?;
        touched.keys.extend(keys);
        // No two servers generate the same key.
        self.check_unique(column, |unique| {
            let is_generated = |column: &usize| {
                let chosen = self.inserted_keys(columns_at, *column);
                chosen.is_ok_and(|chosen| chosen.is_empty())
            };
            unique.iter().any(is_generated)
        })?;
        self.check_insert(Where::Key(column))
    }

    /// The keys of the rows of an INSERT; none if its server generates them.
    fn inserted_keys(&self, columns_at: usize, column: usize) -> Result<Vec<RowKey>, Refusal> {
        let table = self.table();
        let name = &table.columns[column].name;
        let missing = || {
            self.refused(&format!(
                "has rows on several servers, and this INSERT does not say on which: it needs VALUES with a constant or a parameter for \
                 {name}"
            ))
        };
        let mut at = columns_at;
        let mut place = Some(column);
        if self.of.get(at).is_some_and(|token| token.is_symbol('(')) {
            let end = closing(self.of, at);
            let listed = self.of[at + 1..end].iter().filter(|token| token.is_name());
            place = listed
                .enumerate()
                .find(|(_, token)| token.text == *name)
                .map(|(at, _)| at);
            at = end + 1;
        }
        let is_default = self.of.get(at).is_some_and(|token| token.is("default"));
        let Some(place) = place.filter(|_| !is_default) else {
            return match table.columns[column].is_generated {
                true => Ok(Vec::new()),
                false => Err(missing()),
            };
        };
        if !self.of.get(at).is_some_and(|token| token.is("values")) {
            return Err(missing());
        }
        at += 1;
        let mut keys = Vec::new();
        while self.of.get(at).is_some_and(|token| token.is_symbol('(')) {
            let end = closing(self.of, at);
            let depth = self.of[at].depth + 1;
            let inside = at + 1..end;
            let is_comma = |at: &usize| self.of[*at].depth == depth && self.of[*at].is_symbol(',');
            let commas: Vec<usize> = inside.clone().filter(is_comma).collect();
            let first = match place.checked_sub(1) {
                None => at + 1,
                Some(before) => commas.get(before).ok_or_else(missing)? + 1,
            };
            let last = commas.get(place).copied().unwrap_or(end);
            let value = self.of.get(first..last).unwrap_or_default();
            let begins = |keyword: &str| value.first().is_some_and(|begin| begin.is(keyword));
            let is_generated = begins("nextval")
                || value.len() == 1 && begins("default") && table.columns[column].is_generated;
            if !is_generated {
                let data_type = table.columns[column].data_type.clone();
                let operand = self.operand(first..last, &data_type);
                if operand == Operand::Expression {
                    return Err(missing());
                }
                keys.push(RowKey {
                    operand,
                    data_type,
                    column: name.clone(),
                });
            }
            at = end + 1;
            if self.of.get(at).is_some_and(|token| token.is_symbol(',')) {
                at += 1;
            }
        }
        Ok(keys)
    }

    pub(super) fn check_insert(&self, rows: Where) -> Result<(), Refusal> {
        let table = self.table();
        if rows == Where::Everywhere {
            let own = table
                .keys
                .iter()
                .any(|c| table.written.columns[*c] == Spread::OwnServer);
            if own || table.written.rows == Spread::OwnServer {
                return Err(self.refused(
                    "has keys that not every server has, so that inserting cannot be checked",
                ));
            }
            self.check_captured()?;
        }
        self.check_parents(rows, None)
    }

    /// Whether a unique key of rows of one server can be checked there: it contains the column that tells the server, or
    /// `is_unique` says that no other server has the same.
    fn check_unique(
        &self,
        key: usize,
        is_unique: impl Fn(&[usize]) -> bool,
    ) -> Result<(), Refusal> {
        let table = self.table();
        for unique in &table.unique {
            if !unique.contains(&key) && !is_unique(unique) {
                let names: Vec<&str> = unique
                    .iter()
                    .map(|c| table.columns[*c].name.as_str())
                    .collect();
                return Err(self.refused(&format!(
                    "has rows of one server, and only that server's rows can be checked for the unique {}",
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }

    fn check_captured(&self) -> Result<(), Refusal> {
        match self.is_captured() {
            true => Ok(()),
            false => Err(self.refused(
                "is written by no transaction type, so that changes of it would not reach the other servers",
            )),
        }
    }

    pub(super) fn update(&self) -> Result<(), Refusal> {
        let table = self.table();
        let mut columns = self.columns_set();
        let reads_changed = |reads: &[usize]| reads.iter().any(|column| columns.contains(column));
        let computed = table.computed.iter();
        let computed: Vec<usize> = computed
            .filter(|(_, reads)| reads_changed(reads))
            .map(|(column, _)| *column)
            .collect();
        columns.extend(computed);
        let rows = match self.is_everywhere(&columns) {
            true => Where::Everywhere,
            false => match table.written.key {
                Some(key) if !columns.contains(&key.index()) => Where::Key(key.index()),
                _ => {
                    return Err(self.refused(
                        "has columns that one server has, and this statement changes them in a way that no single column tells which",
                    ));
                }
            },
        };
        match rows {
            Where::Everywhere => self.check_captured()?,
            // Every other column of such rows is read on their server alone only if they were inserted there.
            Where::Key(_) if table.written.rows != Spread::OwnServer && !self.is_captured() => {
                if columns
                    .iter()
                    .any(|c| table.written.columns[*c] != Spread::OwnServer)
                {
                    return Err(self.refused(
                        "has columns that all servers read, and this statement changes them where changes are not captured",
                    ));
                }
            }
            Where::Key(_) => {}
        }
        if let Where::Key(key) = rows {
            let is_everywhere =
                |unique: &[usize]| self.is_everywhere(&unique.iter().copied().collect());
            self.check_unique(key, |unique| {
                unique.iter().all(|column| !columns.contains(column)) || is_everywhere(unique)
            })?;
        }
        self.check_parents(rows, Some(&columns))?;
        for (child, reference) in &table.referring {
            if reference.parent_columns.iter().any(|c| columns.contains(c)) {
                self.check_child(*child, reference, reference.on_update, rows, 0)?;
            }
        }
        Ok(())
    }

    pub(super) fn delete(&self) -> Result<(), Refusal> {
        let table = self.table();
        let rows = match (self.is_whole(), table.written.key) {
            (true, _) => {
                self.check_captured()?;
                Where::Everywhere
            }
            (false, Some(key)) if table.written.rows == Spread::OwnServer || self.is_captured() => {
                Where::Key(key.index())
            }
            _ => {
                return Err(self.refused("has columns that not every server has, so that deleting its rows is not possible here"));
            }
        };
        for (child, reference) in &table.referring {
            self.check_child(*child, reference, reference.on_delete, rows, 0)?;
        }
        Ok(())
    }

    /// The columns that the statement sets; all of them if that is not clear.
    fn columns_set(&self) -> BTreeSet<usize> {
        let table = self.table();
        let all = || (0..table.columns.len()).collect();
        let mut found = BTreeSet::new();
        let sets: Vec<usize> = (0..self.of.len())
            .filter(|at| self.of[*at].is("set"))
            .collect();
        if sets.is_empty() {
            return all();
        }
        let place = |token: &Lexeme| {
            table
                .columns
                .iter()
                .position(|column| column.name == token.text)
        };
        for set in sets {
            let depth = self.of[set].depth;
            let mut begins = true;
            let mut at = set + 1;
            while let Some(token) = self.of.get(at).filter(|token| token.depth >= depth) {
                if token.depth == depth && token.is_any(&["where", "from", "returning", "when"]) {
                    break;
                }
                if token.depth == depth && begins {
                    if token.is_symbol('(') {
                        let end = closing(self.of, at);
                        let inside = &self.of[at + 1..end.min(self.of.len())];
                        for token in inside.iter().filter(|token| token.is_name()) {
                            match place(token) {
                                Some(column) => found.insert(column),
                                None => return all(),
                            };
                        }
                    } else {
                        match place(token) {
                            Some(column) => found.insert(column),
                            None => return all(),
                        };
                    }
                    begins = false;
                } else if token.depth == depth && token.is_symbol(',') {
                    begins = true;
                }
                at += 1;
            }
        }
        found
    }

    fn other(&self, table: usize) -> Reader<'_> {
        Reader { table, ..*self }
    }

    /// Whether the rows that foreign keys refer to are where the statement runs. `changed`: the columns that change; all
    /// of them in an INSERT.
    fn check_parents(&self, rows: Where, changed: Option<&BTreeSet<usize>>) -> Result<(), Refusal> {
        for reference in &self.table().references {
            let is_checked =
                changed.is_none_or(|c| reference.columns.iter().any(|of| c.contains(of)));
            let parent = self.other(reference.parent);
            let columns = reference.parent_columns.iter().copied().collect();
            if !is_checked || parent.is_everywhere(&columns) || parent.is_beside(rows, reference) {
                continue;
            }
            return Err(self.refused(&format!(
                "refers to {}, whose rows not every server has",
                parent.table().name
            )));
        }
        Ok(())
    }

    /// Whether this table, a parent, has the referred rows on the same server as the child's.
    fn is_beside(&self, child: Where, reference: &Reference) -> bool {
        let (Where::Key(column), Some(key)) = (child, self.table().written.key) else {
            return false;
        };
        let mut pairs = reference.columns.iter().zip(&reference.parent_columns);
        pairs.any(|(of_child, of_parent)| *of_child == column && *of_parent == key.index())
    }

    /// Whether the rows of a child that refer to rows of this table are where the statement runs, and may be changed as the
    /// foreign key does it.
    fn check_child(
        &self,
        child: usize,
        reference: &Reference,
        action: ReferentialAction,
        rows: Where,
        depth: usize,
    ) -> Result<(), Refusal> {
        let of = self.other(child);
        let changes = !matches!(
            action,
            ReferentialAction::NoAction | ReferentialAction::Restrict
        );
        let columns: BTreeSet<usize> = reference.columns.iter().copied().collect();
        let is_fine = match rows {
            Where::Everywhere if changes => {
                of.is_whole() && of.is_captured() && depth < REFERENCES_MAX
            }
            Where::Everywhere => of.is_everywhere(&columns),
            Where::Key(key) => {
                let mut pairs = reference.columns.iter().zip(&reference.parent_columns);
                let paired = pairs
                    .find(|(_, of_parent)| **of_parent == key)
                    .map(|(c, _)| *c);
                let by = of.table().written.key.map(|by| by.index());
                let is_beside = by.is_some() && by == paired;
                !changes && (is_beside || of.is_everywhere(&columns))
            }
        };
        if !is_fine {
            return Err(self.refused(&format!(
                "is referred to by {}, whose rows not every server has, or whose changes are not captured",
                of.table().name
            )));
        }
        if changes {
            for (grandchild, next) in &of.table().referring {
                of.check_child(*grandchild, next, next.on_delete, rows, depth + 1)?;
            }
        }
        Ok(())
    }
}
