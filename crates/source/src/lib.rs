//! Extracts the transactions that an application runs from its source code. The analyser itself reads no program.
//!
//! 1. [`Language`]: the language of a file. `lower` turns each language's tree-sitter tree into one common `syntax`;
//!    broken files are parsed as far as they allow.
//! 2. `declarations`, `project`: the functions of all files, and the values of names outside of functions (`constants`).
//! 3. `walk`: an abstract interpretation of each function through its branches. It folds texts (`value`, `fold`),
//!    collects the statements that run with their bound values, and follows calls on the same connection.
//! 4. `guard`, `probable`: checks in the code between a read and a write, reported as probable rules.
//!
//! The analyser recognises SQL by convention: by the names of the methods of drivers and libraries (`names`), and by
//! texts that begin like SQL and are passed to a call. A call with unknown SQL is reported with its position, and
//! makes its transaction unknown. A text that looks like SQL and has no call site is reported as well: nothing is
//! dropped. SQL that a library generates (an object-relational mapper's) is not in the source; calls of such a
//! library are reported where they are recognised.
//!
//! A function is a transaction, unless other functions run it on their own connection.

mod alternatives;
mod client;
mod collections;
mod declarations;
mod dirty_checking;
mod fold;
mod function_tables;
mod guard;
mod implicit_calls;
mod language;
mod lower;
mod mapped;
mod mutable_names;
mod names;
mod numbers;
mod objects;
mod probable;
mod project;
mod sql_outline;
mod syntax;
mod traverse;
mod unread;
mod value;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use anabranch_sql::SourceFile;
use anabranch_sql::script::ClientTransaction;

use declarations::Source;
use project::Project;
use value::{FoldedText, Piece, Scalar, Value};
use walk::{ProgramFacts, Walk};

pub use language::Language;
pub use unread::{Unread, is_unread_test, mentions_database, script_language, unread};

/// The result of reading a program's source.
#[derive(Debug, Default)]
pub struct Program {
    /// The transactions of the program.
    pub clients: Vec<ClientTransaction>,
    /// The program's own declarations (`CREATE TABLE` statements that it runs), as files named after the source file.
    pub declarations: Vec<SourceFile>,
    /// Broken source in places that run no SQL.
    pub broken: Vec<Broken>,
}

/// Source that violates the language's grammar, or nests too deeply to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The file's number.
    pub file: usize,
    /// The byte range in the file.
    pub range: Range<usize>,
}

/// Reads a program. Files in no known [`Language`] are skipped. File numbers are those in `files`; a caller that puts
/// other files before these shifts the numbers ([`ClientTransaction::shift`]).
pub fn read(files: &[SourceFile]) -> Program {
    let mut sources = Vec::new();
    for file in files {
        let language = Language::of(&file.name);
        let module = language.and_then(|language| lower::lower(language, &file.text));
        sources.push(Source {
            name: file.name.clone(),
            text: file.text.to_string(),
            // Without a language the module is empty, so this default is never used.
            language: language.unwrap_or(Language::Python),
            module: module.unwrap_or_default(),
            libraries: language.map_or_else(Default::default, |of| of.libraries(&file.text)),
            lines: file.text.match_indices('\n').map(|(at, _)| at).collect(),
        });
    }
    let mut project = Project::new(&sources);
    constants(&mut project);
    let mut reading = client::Extraction::new(&project);
    reading.read();
    reading.program
}

/// The values of names outside of functions. Runs several rounds: a constant may depend on one that comes later.
fn constants(project: &mut Project<'_>) {
    for _ in 0..3 {
        let mut found = project::Constants::default();
        let mut next = FIRST_OF_CONSTANTS;
        let mut names: BTreeMap<String, Option<Value>> = BTreeMap::new();
        let mut report_unresolved = Vec::new();
        let mut fields: BTreeSet<(usize, String)> = BTreeSet::new();
        let mut of_objects: BTreeMap<String, Value> = BTreeMap::new();
        let mut numbers: BTreeMap<String, bool> = BTreeMap::new();
        // Summaries of functions are shared by all files, until constants change.
        let mut seen = ProgramFacts::default();
        for file in 0..project.sources.len() {
            let constants = Walk::new(project, &mut seen).constants(file);
            for (name, value) in constants.of_objects {
                let value = constant(value, &mut next).unwrap_or_else(any_text);
                let known = of_objects.entry(name);
                add(known.or_insert_with(|| value.clone()), &value);
            }
            for name in constants.running {
                found.running.entry(name).or_default().insert(file);
            }
            for (class, name, value) in constants.named {
                let is_number = matches!(&value, Value::Scalar(scalar) if scalar.number);
                *numbers.entry(name.clone()).or_insert(true) &= is_number;
                let Some(value) = constant(value, &mut next) else {
                    report_unresolved.push((file, class, name));
                    continue;
                };
                let of_file = found.of_files.entry((file, name.clone()));
                add(of_file.or_insert_with(|| value.clone()), &value);
                if let Some(class) = class {
                    let of_class = found.of_classes.entry((class, name.clone()));
                    add(of_class.or_insert_with(|| value.clone()), &value);
                    fields.insert((file, name.clone()));
                }
                let known = names.entry(name).or_insert_with(|| Some(value.clone()));
                if known.as_ref() != Some(&value) {
                    *known = None;
                }
            }
        }
        // A name with a text that is also assigned an unknown value may be anything.
        for (file, class, name) in report_unresolved {
            if let Some(known) = found.of_files.get_mut(&(file, name.clone())) {
                add(known, &any_text());
            }
            if let Some(class) = class
                && let Some(known) = found.of_classes.get_mut(&(class, name.clone()))
            {
                add(known, &any_text());
            }
            names.entry(name).and_modify(|known| *known = None);
        }
        // An object of unknown class may be of any class that has such a field.
        for ((file, name), known) in &mut found.of_files {
            let given = of_objects.get(name);
            if let Some(value) = given.filter(|_| fields.contains(&(*file, name.clone()))) {
                add(known, value);
            }
        }
        for ((_, name), known) in &mut found.of_classes {
            if let Some(value) = of_objects.get(name) {
                add(known, value);
            }
        }
        of_descendants(project, &mut found);
        found.by_name = names;
        let numbers = numbers.into_iter().filter(|(_, is_number)| *is_number);
        found.numbers = numbers.map(|(name, _)| name).collect();
        project.constants = found;
    }
}

/// A class's field also has the values that derived classes assign to it.
fn of_descendants(project: &Project<'_>, found: &mut project::Constants) {
    let of_classes = found.of_classes.clone();
    for ((class, name), known) in &mut found.of_classes {
        for derived in project.objects.descendants(class) {
            if let Some(value) = of_classes.get(&(derived.to_owned(), name.clone())) {
                add(known, value);
            }
        }
    }
}

/// The first id for values of constants; ids of values in functions are smaller.
pub(crate) const FIRST_OF_CONSTANTS: u32 = 1 << 30;

/// The part of a value that holds outside of its function: texts.
fn constant(value: Value, next: &mut u32) -> Option<Value> {
    let Value::Text(mut texts) = value else {
        return None;
    };
    for piece in texts.iter_mut().flat_map(|t| &mut t.pieces) {
        if let Piece::Hole { value, .. } = piece {
            *next += 1;
            value.id = *next;
            value.read = Arc::default();
        }
    }
    Some(Value::Text(texts))
}

/// Adds a text to those that a name may stand for.
fn add(known: &mut Value, value: &Value) {
    if let (Value::Text(texts), Value::Text(more)) = (&*known, value)
        && let Some(both) = fold::either(texts, more)
    {
        *known = Value::Text(both);
    } else {
        // Too many alternatives: any SQL that is run by this name is unknown.
        *known = any_text();
    }
}

/// A text with unknown content.
fn any_text() -> Value {
    let any = Scalar {
        id: FIRST_OF_CONSTANTS,
        shown: "one of many texts".into(),
        loops: usize::MAX,
        read: Arc::default(),
        number: false,
        database: false,
        minus: None,
    };
    Value::Text(vec![FoldedText::hole(any, 0, 0)])
}
