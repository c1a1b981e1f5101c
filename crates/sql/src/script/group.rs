//! Groups the statements of a file into declarations and transactions, by the conventions of SQL files: BEGIN and
//! COMMIT, `-- name: …`, `name { … }`.

use std::collections::BTreeSet;
use std::ops::Range;

use super::scan::{Piece, boundary, pieces, words};
use crate::source::SourceFile;

/// The contents of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Grouped {
    /// Statements that declare something, or configure the session.
    pub(super) declarations: Vec<Range<usize>>,
    /// Transactions.
    pub(super) groups: Vec<Group>,
    /// The INSERTs of a dump.
    pub(super) rows: Vec<Range<usize>>,
}

/// The statements of one transaction.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Its name, unique among all files.
    pub(super) name: String,
    /// Its statements, without BEGIN and COMMIT.
    pub(super) statements: Vec<Range<usize>>,
    /// Whether a client runs its statements one by one, and sees the result of each.
    pub(super) by_client: bool,
    /// Whether the file names it, rather than its place.
    pub(super) is_named: bool,
}

/// The group that is open while statements are read.
enum Open {
    /// None.
    No,
    /// From BEGIN to COMMIT.
    Transaction(Group),
    /// From `name {` to `}`.
    Braces(Group),
    /// After `-- name: …`, to the next such comment or a declaration.
    Named(Group),
}

/// The kind of a statement, by its first words.
enum Kind {
    Begin,
    Commit,
    Rollback,
    /// Neither reads nor writes data: SET, SAVEPOINT.
    Session,
    Declaration,
    Data,
}

/// Groups the statements of a file. `taken` are the names in use.
pub(super) fn group(file: &SourceFile, taken: &mut BTreeSet<String>) -> Grouped {
    let text = &*file.text;
    let is_dump = is_dump(text);
    let mut grouped = Grouped::default();
    let mut open = Open::No;
    let mut label: Option<String> = None;
    for piece in pieces(text) {
        let (lead, range) = match piece {
            Piece::Label { name, .. } => {
                label = Some(name);
                continue;
            }
            Piece::Open { name, .. } => {
                close(&mut grouped, std::mem::replace(&mut open, Open::No));
                open = Open::Braces(begun(unique(name, taken), true));
                continue;
            }
            Piece::Close => {
                close(&mut grouped, std::mem::replace(&mut open, Open::No));
                continue;
            }
            Piece::Statement { lead, range } => (lead, range),
        };
        if is_dump
            && words(&text[range.clone()])
                .next()
                .is_some_and(|w| w == "insert" || w == "replace")
        {
            grouped.rows.push(range);
            continue;
        }
        let named = query_name(&text[lead.clone()]);
        let kind = match kind(
            &text[range.clone()],
            matches!(open, Open::No | Open::Named(_)),
        ) {
            // A statement with a name is run by a program.
            Kind::Declaration if named.is_some() && may_run(&text[range.clone()]) => Kind::Data,
            kind => kind,
        };
        if named.is_some() && !matches!(open, Open::Transaction(_) | Open::Braces(_)) {
            close(&mut grouped, std::mem::replace(&mut open, Open::No));
        }
        let mut begin = |label: &mut Option<String>| {
            let told = label.take().filter(|_| named.is_none());
            let is_named = named.is_some() || told.is_some();
            let told = told.unwrap_or_else(|| name_of(file, &text[lead.clone()], range.start));
            begun(unique(told, taken), is_named)
        };
        match (kind, &mut open) {
            (Kind::Begin, _) => {
                close(&mut grouped, std::mem::replace(&mut open, Open::No));
                open = Open::Transaction(begin(&mut label));
            }
            (Kind::Commit, Open::Transaction(_)) => {
                close(&mut grouped, std::mem::replace(&mut open, Open::No));
            }
            // A transaction that rolls back has no effects.
            (Kind::Rollback, Open::Transaction(_)) => open = Open::No,
            (Kind::Session, Open::Transaction(_) | Open::Braces(_)) => {}
            (Kind::Declaration | Kind::Commit | Kind::Rollback | Kind::Session, _) => {
                if let Open::Named(_) = open {
                    close(&mut grouped, std::mem::replace(&mut open, Open::No));
                }
                grouped.declarations.push(range);
            }
            (Kind::Data, Open::Transaction(group) | Open::Braces(group) | Open::Named(group)) => {
                group.statements.push(range)
            }
            (Kind::Data, Open::No) if named.is_some() => {
                let mut group = begin(&mut label);
                group.statements.push(range);
                open = Open::Named(group);
            }
            (Kind::Data, Open::No) => {
                let mut group = begin(&mut label);
                group.statements.push(range);
                close(&mut grouped, Open::Named(group));
            }
        }
    }
    close(&mut grouped, open);
    grouped
}

/// Whether a file is a dump, by its first comments.
fn is_dump(text: &str) -> bool {
    let head = &text[..boundary(text, 400)];
    head.lines().any(|line| {
        let dumps = [
            "-- MySQL dump",
            "-- MariaDB dump",
            "-- PostgreSQL database dump",
        ];
        dumps.iter().any(|dump| line.starts_with(dump))
    })
}

fn begun(name: String, is_named: bool) -> Group {
    Group {
        name,
        statements: Vec::new(),
        by_client: false,
        is_named,
    }
}

fn close(grouped: &mut Grouped, open: Open) {
    if let Open::Transaction(mut group) | Open::Braces(mut group) | Open::Named(mut group) = open
        && !group.statements.is_empty()
    {
        group.by_client = group.statements.len() > 1;
        grouped.groups.push(group);
    }
}

fn kind(statement: &str, outside: bool) -> Kind {
    let head = &statement[..boundary(statement, 120)];
    let first: Vec<String> = words(head).take(3).collect();
    let word = |at: usize| first.get(at).map_or("", String::as_str);
    const DATA: [&str; 12] = [
        "select", "insert", "update", "delete", "with", "values", "merge", "truncate", "call",
        "execute", "do", "replace",
    ];
    match word(0) {
        "begin" => Kind::Begin,
        "start" if word(1) == "transaction" => Kind::Begin,
        "commit" | "end" => Kind::Commit,
        "rollback" if word(1) == "to" || word(2) == "to" => Kind::Data,
        "rollback" | "abort" => Kind::Rollback,
        "set" | "savepoint" | "release" | "lock" => Kind::Session,
        // `pg_dump` writes this, and nothing else does.
        "select" if outside && statement.contains("set_config(") => Kind::Declaration,
        "select" if outside && statement.contains("setval(") => Kind::Declaration,
        first if DATA.contains(&first) => Kind::Data,
        // Anything else in brackets: it is reported if it cannot be analysed.
        _ if statement.starts_with('(') => Kind::Data,
        _ => Kind::Declaration,
    }
}

/// Whether a statement that is a declaration by its first word also reads or writes data.
fn may_run(statement: &str) -> bool {
    let mut words = words(statement);
    match words.next().as_deref() {
        Some("select" | "copy" | "explain") => true,
        Some("create") => {
            let rest: Vec<String> = words.take_while(|word| word != "select").collect();
            rest.last().is_some_and(|word| word == "as")
                && rest.iter().take(3).any(|word| word == "table")
        }
        _ => false,
    }
}

/// The name in `-- name: GetAuthor :one`, as sqlc has it.
fn query_name(lead: &str) -> Option<String> {
    lead.lines().rev().find_map(|line| {
        let comment = line.trim().trim_start_matches(['-', '#', '/', '*']);
        let rest = comment.trim_start().strip_prefix("name:")?;
        let name = rest.split_whitespace().next()?;
        Some(name.to_owned())
    })
}

/// The name of a statement, from the comments before it or from its place.
pub(super) fn name_of(file: &SourceFile, lead: &str, at: usize) -> String {
    let told = query_name(lead).or_else(|| remark(lead));
    told.unwrap_or_else(|| place_name(file, at))
}

/// The words of the comment right above a statement, as a name.
fn remark(lead: &str) -> Option<String> {
    // A comment followed by an empty line is about something else.
    let lead = lead.trim_end_matches([' ', '\t']);
    let lead = lead.strip_suffix('\n').unwrap_or(lead);
    let last = lead.lines().next_back()?;
    let comment = last.trim().strip_prefix("--")?.trim();
    let words: Vec<String> = words(comment).take(6).collect();
    let name = words.join("_").to_lowercase();
    (!name.is_empty() && name.len() <= 48).then_some(name)
}

/// `file:line`, for what has no other name.
fn place_name(file: &SourceFile, at: usize) -> String {
    let (line, _) = file.line_column(u32::try_from(at).unwrap_or(u32::MAX));
    let name = file.name.rsplit('/').next().unwrap_or(&file.name);
    format!("{name}:{line}")
}

/// The name, with a number if it is taken.
pub(super) fn unique(name: String, taken: &mut BTreeSet<String>) -> String {
    let mut given = name.clone();
    let mut number = 1;
    while !taken.insert(given.clone()) {
        number += 1;
        given = format!("{name}_{number}");
    }
    given
}
