//! Routines whose bodies name what does not exist.
//!
//! As in PostgreSQL, a body that is a string is text until it is called: `pg_dump` writes functions before the tables
//! that they name, and a table may be dropped while functions name it. Such a routine is kept as comments of the
//! schema's text, which loading skips, and becomes a routine with the first change after which it compiles.

use super::declared::{Declared, DeclaredRoutine};
use crate::{
    catalog::{Catalog, RoutineKind},
    diagnostic::Diagnostic,
    parse::{LexemeKind, lexemes},
    source::{SourceFile, Span},
};

/// The line above an unresolved routine.
const MARK: &str = "-- anabranch: unresolved";
/// The beginning of each of its lines.
const LINE: &str = "--| ";

/// What a catalog declares.
pub(super) fn declared(catalog: &Catalog) -> Declared {
    Declared {
        unresolved: of(&catalog.files),
        ..Declared::of(catalog)
    }
}

/// The unresolved routines in the comments of files.
fn of(files: &[SourceFile]) -> Vec<DeclaredRoutine> {
    let mut found = Vec::new();
    for file in files {
        let mut lines = file.text.split('\n').peekable();
        while let Some(line) = lines.next() {
            if line != MARK {
                continue;
            }
            let mut text: Vec<&str> = Vec::new();
            while let Some(line) = lines.next_if(|line| line.starts_with(LINE)) {
                text.push(&line[LINE.len()..]);
            }
            found.extend(routine(text.join("\n")));
        }
    }
    found
}

/// Writes a routine as comments.
pub(super) fn print(routine: &DeclaredRoutine, text: &mut String) {
    text.push_str(MARK);
    text.push('\n');
    for line in routine.text.split('\n') {
        text.push_str(LINE);
        text.push_str(line);
        text.push('\n');
    }
}

/// The routine that a text creates.
fn routine(text: String) -> Option<DeclaredRoutine> {
    let file = SourceFile::new("routine", text.as_str());
    let words = lexemes(&file, whole(&text));
    let at = words
        .iter()
        .position(|word| word.is_word("function") || word.is_word("procedure"))?;
    let kind = match words[at].is_word("function") {
        true => RoutineKind::Function,
        false => RoutineKind::Procedure,
    };
    let is_qualified = words.get(at + 2).is_some_and(|word| word.is_sign("."));
    let name = words.get(at + if is_qualified { 3 } else { 1 })?.name()?;
    Some(DeclaredRoutine {
        name: name.to_owned(),
        kind,
        arguments: Vec::new(),
        keeps: Vec::new(),
        text,
    })
}

/// How a routine's text becomes a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyForm {
    /// `BEGIN ATOMIC`, or RETURN: it depends on what it names.
    Parsed,
    /// A string in LANGUAGE SQL.
    Sql,
    /// A string in another language.
    Other,
}

impl DeclaredRoutine {
    /// Whether it is the function of a trigger.
    pub(super) fn is_trigger(&self) -> bool {
        let file = SourceFile::new("routine", self.text.as_str());
        let words = lexemes(&file, whole(&self.text));
        let mut pairs = words.windows(2);
        pairs.any(|pair| pair[0].is_word("returns") && pair[1].is_word("trigger"))
    }

    /// The form of its body.
    pub(super) fn body_form(&self) -> BodyForm {
        let file = SourceFile::new("routine", self.text.as_str());
        let words = lexemes(&file, whole(&self.text));
        let mut pairs = words.windows(2);
        let is_string = |pair: &[crate::parse::Lexeme]| {
            pair[0].is_word("as") && pair[1].kind == LexemeKind::Text
        };
        if !pairs.any(is_string) {
            return BodyForm::Parsed;
        }
        let mut pairs = words.windows(2);
        let is_sql = |pair: &[crate::parse::Lexeme]| {
            pair[0].is_word("language") && pair[1].name() == Some("sql")
        };
        match pairs.any(is_sql) {
            true => BodyForm::Sql,
            false => BodyForm::Other,
        }
    }
}

/// Whether a problem of a body is that something does not exist, so that it may go away.
pub(super) fn is_missing(problem: &Diagnostic) -> bool {
    const CODES: [&str; 5] = ["42P01", "42703", "42883", "42704", "42809"];
    CODES.contains(&problem.code)
}

fn whole(text: &str) -> Span {
    Span {
        file: 0,
        start: 0,
        end: u32::try_from(text.len()).unwrap_or(u32::MAX),
    }
}
