//! Names that PostgreSQL gives to constraints and indexes that are declared without one.

use std::collections::BTreeSet;

use crate::parse::declaration::IndexKey;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// `first_second_label`, each of the first two cut so that the whole is no longer than a name may
/// be (PostgreSQL's `makeObjectName`).
pub(crate) fn make_name(first: &str, second: &str, label: &str) -> String {
    let separators = 1 + usize::from(!second.is_empty());
    let room = NAME_BYTES_MAX.saturating_sub(label.len() + separators);
    let (mut first, mut second) = (first, second);
    while first.len() + second.len() > room {
        if first.len() > second.len() {
            first = cut_last(first);
        } else {
            second = cut_last(second);
        }
    }
    match second {
        "" => format!("{first}_{label}"),
        _ => format!("{first}_{second}_{label}"),
    }
}

/// The name that a serial or identity column gives to its sequence, if no other relation has it.
pub(crate) fn implied_sequence(table: &str, column: &str) -> String {
    make_name(table, column, "seq")
}

/// The names that columns give to their sequences, each `(table, column)` in the order in which they were declared: as in
/// PostgreSQL a number is appended to one that is taken, by another relation or by a column before it.
pub(crate) fn implied_sequences<'a>(
    columns: impl IntoIterator<Item = (&'a str, &'a str)>,
    is_taken: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut given = BTreeSet::new();
    let named = columns.into_iter().map(|(table, column)| {
        let name = choose_name(table, column, "seq", |name| {
            given.contains(name) || is_taken(name)
        });
        given.insert(name.clone());
        name
    });
    named.collect()
}

fn cut_last(text: &str) -> &str {
    let mut end = text.len().saturating_sub(1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The first of `first_second_label`, `first_second_label1`, … that is not taken.
pub(crate) fn choose_name(
    first: &str,
    second: &str,
    label: &str,
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let mut name = make_name(first, second, label);
    let mut number = 0_u64;
    while is_taken(&name) {
        number += 1;
        name = make_name(first, second, &format!("{label}{number}"));
    }
    name
}

/// Column names as a part of a name: joined by `_`.
pub(crate) fn join_columns<'a>(columns: impl IntoIterator<Item = &'a str>) -> String {
    let mut joined = String::new();
    for column in columns {
        if !joined.is_empty() {
            joined.push('_');
        }
        joined.push_str(column);
        if joined.len() >= NAME_BYTES_MAX {
            break;
        }
    }
    joined
}

/// The one column among `columns` that `words` name, if it is just one.
pub(crate) fn only_column<'a>(columns: &[&'a str], words: &[String]) -> Option<&'a str> {
    let words: BTreeSet<&str> = words.iter().map(String::as_str).collect();
    let mut named = columns.iter().filter(|column| words.contains(*column));
    match (named.next(), named.next()) {
        (Some(column), None) => Some(column),
        _ => None,
    }
}

/// The names of the parts of an index, in an index's default name: as in PostgreSQL a number is appended to one that stands
/// before it.
pub(crate) fn index_part_names(parts: &[IndexKey]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in parts {
        let name = part.name();
        let numbered = (1..).map(|number| format!("{name}{number}"));
        let mut all = std::iter::once(name.to_owned()).chain(numbered);
        names.extend(all.find(|of| !names.contains(of)));
    }
    names
}

/// The middle of the default name of an index.
pub(crate) fn index_columns_name(parts: &[IndexKey]) -> String {
    let names = index_part_names(parts);
    join_columns(names.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_as_postgresql_cuts_them() {
        assert_eq!(make_name("t", "", "pkey"), "t_pkey");
        assert_eq!(make_name("t", "a_b", "fkey"), "t_a_b_fkey");
        let long = make_name(&"x".repeat(60), &"y".repeat(60), "fkey");
        assert_eq!(long.len(), 63);
        assert_eq!(long, format!("{}_{}_fkey", "x".repeat(29), "y".repeat(28)));
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let taken = ["t_a_key", "t_a_key1"];
        assert_eq!(
            choose_name("t", "a", "key", |name| taken.contains(&name)),
            "t_a_key2"
        );
    }
}
