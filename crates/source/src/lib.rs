//! Application source in; the transactions that it runs, out: for the analyser, which reads no program
//! itself.
//!
//! 1. [`Language`]: what a file is written in. `lower` makes one `syntax` of each language's tree, which
//!    tree-sitter's grammars parse, broken files too.
//! 2. `project`: all functions of all files, and what names stand for outside of them (`constants`).
//! 3. `walk`: each function followed through its branches: texts folded (`value`, `fold`), statements that
//!    run with what is bound to them, and functions that run on the same connection with it.
//! 4. `guard`: checks in the code between a read and a write, told as probable rules.
//!
//! What a program runs is known by convention: the names that drivers and libraries give to their
//! methods (`names`), and that a text which begins as SQL does, handed to a call, is run by it. What is run and
//! not known is told with its place, and makes its transaction unknown. A text that looks like SQL and that
//! nobody is seen to run is told too: nothing is dropped. What a library makes up itself (an
//! object-relational mapper's statements) stands nowhere in the source; its calls are told where they are known.
//!
//! A function is a transaction, unless others that run on the same connection have it in theirs.

mod client;
mod fold;
mod guard;
mod implicit_calls;
mod language;
mod lower;
mod mutable_names;
mod names;
mod objects;
mod project;
mod sql_outline;
mod syntax;
mod value;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use anabranch_sql::SourceFile;
use anabranch_sql::script::ClientTransaction;

use project::{Project, Source};
use value::{FoldedText, Piece, Scalar, Value};
use walk::{ProgramFacts, Walk};

pub use language::Language;

/// What the source of a program says.
#[derive(Debug, Default)]
pub struct Program {
    /// The transactions that it runs.
    pub clients: Vec<ClientTransaction>,
    /// What it declares itself (`CREATE TABLE` that it runs), as files by the names of those that it stands in.
    pub declarations: Vec<SourceFile>,
    /// What is broken, outside of what runs SQL.
    pub broken: Vec<Broken>,
}

/// Source that the language's grammar does not allow, or that nests too deeply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The file, by its number.
    pub file: usize,
    /// Where in it, in bytes.
    pub range: Range<usize>,
}

/// Reads a program. Files that are of no [`Language`] are passed over. The numbers of files are those in `files`:
/// whoever has others before these shifts them ([`ClientTransaction::shift`]).
pub fn read(files: &[SourceFile]) -> Program {
    let mut sources = Vec::new();
    for file in files {
        let language = Language::of(&file.name);
        let module = language.and_then(|language| lower::lower(language, &file.text));
        sources.push(Source {
            name: file.name.clone(),
            text: file.text.to_string(),
            // What is of no language has nothing in it.
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

/// What names stand for outside of functions. Several times: one constant may be made of another that comes later.
fn constants(project: &mut Project<'_>) {
    for _ in 0..3 {
        let mut found = project::Constants::default();
        let mut next = FIRST_OF_CONSTANTS;
        let mut names: BTreeMap<String, Option<Value>> = BTreeMap::new();
        let mut report_unresolved = Vec::new();
        let mut fields: BTreeSet<(usize, String)> = BTreeSet::new();
        let mut of_objects: BTreeMap<String, Value> = BTreeMap::new();
        // What functions come to is remembered for all files, until constants change.
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
        // What has a text, and is given something else as well, may be anything.
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
        // An object whose class is not known may be any that has such a field.
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
        project.constants = found;
    }
}

/// A field of a class is what classes that extend it give it, too.
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

/// Numbers that no function gives to its values.
pub(crate) const FIRST_OF_CONSTANTS: u32 = 1 << 30;

/// What of a value means the same everywhere: texts.
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

/// A name that is given several texts stands for any of them.
fn add(known: &mut Value, value: &Value) {
    if let (Value::Text(texts), Value::Text(more)) = (&*known, value)
        && let Some(both) = fold::either(texts, more)
    {
        *known = Value::Text(both);
    } else {
        // Too many to follow: what is run by this name is not known.
        *known = any_text();
    }
}

/// A text of which nothing is known.
fn any_text() -> Value {
    let any = Scalar {
        id: FIRST_OF_CONSTANTS,
        shown: "one of many texts".into(),
        varies: true,
        read: Arc::default(),
        number: false,
        database: false,
    };
    Value::Text(vec![FoldedText::hole(any, 0, 0)])
}
