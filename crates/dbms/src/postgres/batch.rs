//! Which changes are applied together.
//!
//! A call of `anabranch.apply` costs more than the rows that it changes, and the ring waits for it. So operations that follow
//! each other are applied in one call, as long as no two of them change the same row: then the order among them does not
//! matter, but for values that are unique and move from one row to another, which `apply` does in an order that fits
//! (see [`super::apply`]).
//!
//! Rows are compared by the texts of their keys, in tables where equal keys have one text (`anabranch.keys`). Changes of other
//! tables, and a TRUNCATE, are applied by themselves.

use std::collections::{BTreeMap, HashSet};

use anabranch_protocol::belt::{Payload, Update};

use super::capture::ReplicatedTable;
use crate::belt::{Change, Changes};

/// The most bytes of one call, so that neither server needs much memory for it. An operation above it is one call.
const BYTES_MAX: usize = 4 << 20;

/// Creates the table of keys.
pub(super) fn keys(tables: &[ReplicatedTable]) -> String {
    let mut script = String::from(
        "CREATE TABLE anabranch.keys (relation smallint PRIMARY KEY, places smallint[] NOT NULL);\n",
    );
    for of in tables {
        if of.table.key_columns().all(|column| column.has_one_text) {
            let places: Vec<String> = of.table.key.iter().map(usize::to_string).collect();
            script.push_str(&format!(
                "INSERT INTO anabranch.keys VALUES ({}, '{{{}}}');\n",
                of.number,
                places.join(",")
            ));
        }
    }
    script
}

/// The places of the key's columns in the text of a row, by the number of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(pub(super) BTreeMap<i16, Vec<usize>>);

impl Keys {
    /// The row that a change is of, as far as it is known.
    fn row<'c>(&self, change: &'c Change) -> Option<(i16, Vec<&'c str>)> {
        let places = self.0.get(&change.relation)?;
        let fields = fields(change.image.as_deref()?)?;
        let key: Option<Vec<&str>> = places.iter().map(|at| fields.get(*at).copied()).collect();
        Some((change.relation, key?))
    }

    /// Updates in their order, cut into calls.
    pub(super) fn batches<'u>(
        &self,
        updates: impl IntoIterator<Item = &'u Update<Changes>>,
    ) -> Vec<Vec<&'u Change>> {
        let mut batches: Vec<Vec<&Change>> = Vec::new();
        let mut rows = HashSet::new();
        let mut bytes = 0;
        for update in updates {
            let changes = &update.payload.0;
            if changes.is_empty() {
                continue;
            }
            let own: Option<Vec<_>> = changes.iter().map(|change| self.row(change)).collect();
            let size = update.payload.bytes();
            let joins = match &own {
                Some(own) => own.iter().all(|row| !rows.contains(row)) && bytes + size <= BYTES_MAX,
                None => false,
            };
            match batches.last_mut() {
                Some(last) if joins => last.extend(changes),
                _ => {
                    batches.push(changes.iter().collect());
                    rows.clear();
                    bytes = 0;
                }
            }
            // Behind changes whose rows are not known a new call begins.
            bytes += if own.is_some() { size } else { BYTES_MAX };
            rows.extend(own.into_iter().flatten());
        }
        batches
    }
}

/// The columns of a row's text, as they are written in it; `None` if it is no row.
fn fields(image: &str) -> Option<Vec<&str>> {
    let inside = image.strip_prefix('(')?.strip_suffix(')')?;
    let mut fields = Vec::new();
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            // A doubled one ends and begins.
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => {
                fields.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    fields.push(&inside[start..]);
    Some(fields)
}

#[cfg(test)]
mod tests {
    use anabranch_protocol::belt::{Hop, Sequence, ServerId};

    use super::*;

    fn update(sequence: u64, changes: &[(i16, u8, &str)]) -> Update<Changes> {
        let changes = changes.iter().map(|(relation, kind, image)| Change {
            relation: *relation,
            kind: *kind,
            columns: None,
            image: (*kind != b'T').then(|| (*image).to_owned()),
        });
        Update {
            origin: ServerId(0),
            hop: Hop(1),
            sequence: Sequence(sequence),
            payload: Changes(changes.collect()),
        }
    }

    /// The number of changes in each call.
    fn sizes(updates: &[Update<Changes>]) -> Vec<usize> {
        let keys = Keys(BTreeMap::from([(1, vec![0]), (2, vec![1, 2])]));
        keys.batches(updates).iter().map(Vec::len).collect()
    }

    #[test]
    fn columns_of_a_row() {
        assert_eq!(fields("(1,\"a,b\",)"), Some(vec!["1", "\"a,b\"", ""]));
        assert_eq!(
            fields(r#"("a "" , b","c\",d",")")"#),
            Some(vec![r#""a "" , b""#, r#""c\",d""#, r#"")""#])
        );
        assert_eq!(fields("()"), Some(vec![""]));
        assert_eq!(fields("1,2"), None);
    }

    #[test]
    fn operations_on_different_rows_are_applied_together() {
        let all = [
            update(1, &[(1, b'U', "(1,x)"), (1, b'U', "(2,x)")]),
            update(2, &[(1, b'I', "(3,x)"), (2, b'D', "(,1,2)")]),
            update(3, &[(2, b'U', "(x,2,1)")]),
        ];
        assert_eq!(sizes(&all), [5]);
    }

    #[test]
    fn a_row_that_changes_again_begins_a_call() {
        let all = [
            update(1, &[(1, b'U', "(1,x)")]),
            update(2, &[(1, b'U', "(2,x)"), (1, b'D', "(1,)")]),
            update(3, &[(1, b'U', "(3,x)")]),
            update(4, &[(2, b'U', "(2,1,2)")]),
            update(5, &[(2, b'D', "(,1,2)")]),
        ];
        assert_eq!(sizes(&all), [1, 4, 1]);
    }

    #[test]
    fn changes_whose_rows_are_not_known_are_applied_alone() {
        let all = [
            update(1, &[(1, b'U', "(1,x)")]),
            update(2, &[(3, b'U', "(1.0,x)")]),
            update(3, &[(1, b'U', "(2,x)")]),
            update(4, &[(1, b'T', "")]),
            update(5, &[(1, b'I', "(2,x)")]),
        ];
        assert_eq!(sizes(&all), [1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_call_has_an_end() {
        let long = format!("(1,{})", "x".repeat(BYTES_MAX));
        let all = [
            update(1, &[(1, b'I', &long)]),
            update(2, &[(1, b'I', "(2,x)")]),
            update(3, &[(1, b'I', "(3,x)")]),
        ];
        assert_eq!(sizes(&all), [1, 2]);
    }
}
