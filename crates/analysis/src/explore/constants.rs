//! Numbers and texts that an application's own files name: random values hardly ever satisfy conditions on them.

use std::collections::BTreeMap;

use anabranch_types::{ColumnIndex, TableId};

use super::World;

/// How many constants of the application's text are added to the pool.
const CONSTANTS_MAX: usize = 8;

/// The constants that the CHECK conditions on a column name.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedConstants {
    pub(super) integers: Vec<i64>,
    pub(super) texts: Vec<String>,
}

/// Numbers and texts that the application's own files name.
pub(super) fn constants(world: &World<'_>) -> (Vec<i64>, Vec<String>) {
    let mut integers: Vec<i64> = vec![-1, 4];
    let mut texts = vec!["a".to_owned(), "b".to_owned()];
    for file in &world.catalog().files {
        let mut quoted = file.text.split('\'');
        while let (Some(code), text) = (quoted.next(), quoted.next()) {
            for word in code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if let Ok(n) = word.parse::<i64>() {
                    for n in [n, n.saturating_add(1)] {
                        if n.unsigned_abs() <= 1_000
                            && !integers.contains(&n)
                            && integers.len() < CONSTANTS_MAX
                        {
                            integers.push(n);
                        }
                    }
                }
            }
            if let Some(text) = text
                && text.len() <= 16
                && texts.len() < CONSTANTS_MAX
                && !texts.iter().any(|t| t == text)
            {
                texts.push(text.to_owned());
            }
        }
    }
    (integers, texts)
}

/// Constants that CHECK conditions compare with, by column.
pub(super) fn of_columns(world: &World<'_>) -> BTreeMap<(TableId, ColumnIndex), NamedConstants> {
    let mut named: BTreeMap<(TableId, ColumnIndex), NamedConstants> = BTreeMap::new();
    for table in &world.catalog().tables {
        for check in &table.checks {
            let text = check.expression.to_string();
            let (mut words, mut texts) = (Vec::new(), Vec::new());
            let mut quoted = text.split('\'');
            while let (Some(code), text) = (quoted.next(), quoted.next()) {
                let part = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                words.extend(code.split(part).filter(|word| !word.is_empty()));
                texts.extend(text.map(str::to_owned));
            }
            let integers: Vec<i64> = words.iter().filter_map(|word| word.parse().ok()).collect();
            let columns = world.schema().table(table.id).columns.iter().zip(0..);
            for (_, place) in columns.filter(|(c, _)| words.contains(&c.name.as_str())) {
                let of = named.entry((table.id, ColumnIndex(place))).or_default();
                of.integers.extend(&integers);
                of.texts.extend(texts.iter().cloned());
            }
        }
    }
    named
}
