//! SQL files as applications keep them, for the analyser: declarations, named queries, transactions from BEGIN to
//! COMMIT, and loose statements.
//!
//! [`read`] accepts whatever it can analyse:
//!
//! 1. `scan` cuts a file into pieces, and `group` puts the pieces of one transaction together.
//! 2. `placeholder` turns the placeholders of a transaction into the parameters of a procedure.
//! 3. What cannot be analysed is skipped and reported ([`Skipped`]).
//!
//! A transaction with a skipped statement stays in the result: it may do anything to whatever it names (`unparsed`). So
//! skipping never makes an application look safer than it is.

mod client;
mod collation;
mod column_properties;
mod declarations;
mod dropped;
mod group;
mod incremental;
mod invariants;
mod migration;
mod mysql;
mod pgsql;
mod placeholder;
mod renaming;
mod scan;
mod tokens;
mod transactions;
mod undeclared;
mod unparsed;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anabranch_types::DataType;

use crate::{
    application::Application,
    catalog::{Block, Catalog, Parameter, ParameterMode, Procedure, Returns, RoutineKind},
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
    summary::{Deferral, ResultUse, TransactionSummary},
};
use declarations::Declarations;
use group::{Group, group, unique};
use placeholder::{Parameters, Rewritten, rewrite};
use undeclared::Undeclared;
use unparsed::Unparsed;

pub use client::{
    ClientParameter, ClientStatement, ClientTransaction, Confidence, ProbableInvariant, Step,
    Unresolved,
};
pub use collation::{ColumnNames, forget_order};
pub use invariants::invariants;
pub use placeholder::{Placeholder, substitute};
pub use unparsed::anything;

/// The files of an application, as far as they can be analysed.
#[derive(Debug)]
pub struct Script {
    /// What was analysed: procedures, and transactions as procedures.
    pub application: Application,
    /// Every transaction type: those of `application`, in its order, then those of which a part was skipped.
    pub summaries: Vec<TransactionSummary>,
    /// What was skipped, in order of place.
    pub skipped: Vec<Skipped>,
    /// Whether clients run transactions of their own, beside the declared procedures.
    pub has_clients: bool,
    /// The transactions that clients run, of programs and of SQL files, with their statements. Each is the type of its
    /// name in `summaries`; `$n` is that type's parameter *n*, and the same throughout its statements.
    pub clients: Vec<ClientTransaction>,
    /// Invariants that programs probably rely on, in order of place.
    pub probable: Vec<ProbableInvariant>,
    /// The state that [`Script::add_file`] continues from.
    reader: Reader,
}

/// A statement, declaration or call that was not analysed.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// The reason and the place. Its SQLSTATE is of class 01 (warning) where nothing is wrong.
    pub diagnostic: Diagnostic,
    /// The consequence for the verdicts.
    pub meaning: String,
    /// The transaction type that is unknown because of it, if any.
    pub transaction: Option<String>,
    /// How far the verdicts hold in spite of it.
    pub extent: SkippedExtent,
    /// The source files that were not read, if it stands for whole files.
    pub unread: Option<UnreadFiles>,
}

/// How far the verdicts hold in spite of a skipped piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkippedExtent {
    /// The piece is no part of the application: a test, a down migration, rows of a dump.
    OutsideApplication,
    /// The analysis assumes the worst about the piece. All verdicts hold.
    Approximated,
    /// The piece is missing from the analysis. The report is no all-clear.
    Missing,
}

/// Source files that were not read, of one language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadFiles {
    /// The language's name.
    pub language: String,
    /// The files, in the order in which they were found.
    pub files: Vec<String>,
}

impl Skipped {
    /// A piece that stands for no transaction type and no whole file. It is missing from the analysis, unless its
    /// SQLSTATE says that nothing is wrong.
    pub fn new(diagnostic: Diagnostic, meaning: impl Into<String>) -> Skipped {
        let extent = match diagnostic.code.starts_with("01") {
            true => SkippedExtent::OutsideApplication,
            false => SkippedExtent::Missing,
        };
        Skipped {
            diagnostic,
            meaning: meaning.into(),
            transaction: None,
            extent,
            unread: None,
        }
    }

    /// The piece, about which the analysis assumes the worst.
    #[must_use]
    pub fn approximated(mut self) -> Skipped {
        self.extent = SkippedExtent::Approximated;
        self
    }

    /// Whether a part of the application is missing from the analysis because of it.
    pub fn is_missing(&self) -> bool {
        self.extent == SkippedExtent::Missing
    }
}

/// A range of bytes in a file.
#[derive(Clone, Debug, PartialEq)]
struct FileRange {
    file: usize,
    range: Range<usize>,
}

impl FileRange {
    fn span(&self) -> Span {
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span {
            file: u16::try_from(self.file).unwrap_or(u16::MAX),
            start: place(self.range.start),
            end: place(self.range.end),
        }
    }

    fn holds(&self, span: Span) -> bool {
        let own = self.span();
        span.file == own.file && own.start <= span.start && span.start <= own.end
    }
}

/// The source of a transaction type.
enum TransactionSource {
    /// In a file of SQL.
    Script { file: usize, group: Group },
    /// In a program.
    Client(ClientTransaction),
}

impl TransactionSource {
    fn name(&self) -> &str {
        match self {
            TransactionSource::Script { group, .. } => &group.name,
            TransactionSource::Client(client) => &client.name,
        }
    }

    fn rename(&mut self, name: String) {
        match self {
            TransactionSource::Script { group, .. } => group.name = name,
            TransactionSource::Client(client) => client.name = name,
        }
    }

    /// Whether a client runs several statements, and sees the result of each before it runs the next.
    fn by_client(&self) -> bool {
        match self {
            TransactionSource::Script { group, .. } => group.by_client,
            TransactionSource::Client(client) => client.is_several(),
        }
    }

    fn holds(&self, span: Span) -> bool {
        match self {
            TransactionSource::Script { file, group } => group.statements.iter().any(|range| {
                let (file, range) = (*file, range.clone());
                FileRange { file, range }.holds(span)
            }),
            TransactionSource::Client(client) => client.holds(span),
        }
    }
}

impl Script {
    /// Whether something that was declared runs when a statement writes: a trigger, a rule, a policy.
    pub fn has_triggers(&self) -> bool {
        let undeclared = self.reader.undeclared();
        undeclared.into_iter().any(undeclared::is_trigger)
    }
}

/// Reads an application's files.
///
/// # Errors
/// The problems, if nothing remains to be analysed without the statements that have them.
pub fn read(files: Vec<SourceFile>) -> Result<Script, Vec<Diagnostic>> {
    read_with(files, Vec::new(), Vec::new())
}

/// Reads an application's files and the transactions that its programs run. The file numbers in `clients` count
/// `files` first, then `programs`.
///
/// # Errors
/// As [`read`].
pub fn read_with(
    files: Vec<SourceFile>,
    programs: Vec<SourceFile>,
    clients: Vec<ClientTransaction>,
) -> Result<Script, Vec<Diagnostic>> {
    let mut taken = BTreeSet::new();
    let mut declarations = Vec::new();
    let mut written = Vec::new();
    let mut rows = Vec::new();
    let is_mysql = files.iter().any(|file| mysql::is_mysql(&file.text));
    let plain = |file: SourceFile| SourceFile {
        text: mysql::normalise(&file.text).into(),
        ..file
    };
    let files: Vec<SourceFile> = match is_mysql {
        true => files.into_iter().map(plain).collect(),
        false => files,
    };
    let (without_down_migrations, back) = without_down_migrations(&files);
    rows.extend(back);
    let (mut dumped, mut migrated) = (Vec::new(), Vec::new());
    for (file, source) in files.iter().enumerate() {
        let grouped = group(
            without_down_migrations.get(&file).unwrap_or(source),
            &mut taken,
        );
        let place = |range| FileRange { file, range };
        dumped.extend(grouped.rows.into_iter().map(place));
        let (groups, steps) = match migration::is_step(&source.name, &source.text) {
            true => grouped.groups.into_iter().partition(|of| of.is_named),
            false => (grouped.groups, Vec::new()),
        };
        migrated.extend(steps.into_iter().flat_map(|of| of.statements).map(place));
        declarations.extend(grouped.declarations.into_iter().map(place));
        let of_file = |group| TransactionSource::Script { file, group };
        written.extend(groups.into_iter().map(of_file));
    }
    rows.extend(passed_over(&dumped, ScriptKind::Dump));
    rows.extend(passed_over(&migrated, ScriptKind::Migration));
    for mut client in clients {
        client.name = unique(client.name, &mut taken);
        written.push(TransactionSource::Client(client));
    }
    let has_clients = !written.is_empty();
    let mut reader = Reader {
        scripts: files.len(),
        files: files.into_iter().chain(programs).collect(),
        declarations: Declarations::new(declarations, is_mysql),
        taken,
    };
    reader.apply_renames_and_drops();
    let base = reader.base(None)?;
    let mut skipped: Vec<(FileRange, Skipped)> = reader.skipped_declarations(&base, 0);
    skipped.extend(rows);
    let routines = reader.routines(0);
    let read = reader.transactions(base, written, 0)?;
    let unknown: Vec<Unparsed> = routines.into_iter().chain(read.unknown).collect();
    let summaries = read.application.summaries().to_vec();
    let mut numbers = numbers(&summaries);
    let summaries = reader.summaries(
        summaries,
        &read.application,
        (&read.known, &unknown),
        &mut numbers,
    );
    skipped.extend(read.skipped);
    skipped.extend(reader.opaque_expressions(&read.application, &read.known, 0));
    Ok(Script {
        clients: read.clients,
        probable: read.probable,
        application: read.application,
        skipped: in_order(skipped, &summaries),
        summaries,
        has_clients,
        reader,
    })
}

/// Sorts by place, and states the milder consequence where a transaction is known to write nothing.
fn in_order(
    mut skipped: Vec<(FileRange, Skipped)>,
    summaries: &[TransactionSummary],
) -> Vec<Skipped> {
    skipped.sort_by_key(|(place, _)| (place.file, place.range.start));
    let mut skipped: Vec<Skipped> = skipped.into_iter().map(|(_, left)| left).collect();
    let harmless = summaries
        .iter()
        .filter(|of| of.unknown.is_some() && of.only_reads);
    let harmless: BTreeSet<&str> = harmless.map(|of| of.name.as_str()).collect();
    for left in &mut skipped {
        if let Some(name) = left
            .transaction
            .as_deref()
            .filter(|of| harmless.contains(of))
        {
            left.meaning = format!(
                "the analysis assumes that {name} may read all of the tables that it names"
            );
        }
    }
    skipped
}

/// The first statement number that is still free.
fn numbers(summaries: &[TransactionSummary]) -> u32 {
    let statements = summaries.iter().flat_map(|summary| &summary.statements);
    statements.map(|s| s.id.0 + 1).max().unwrap_or(0)
}

#[derive(Clone, Debug)]
struct Reader {
    /// The files of SQL, then those of programs.
    files: Vec<SourceFile>,
    /// The number of SQL files.
    scripts: usize,
    declarations: Declarations,
    /// The names of transactions so far.
    taken: BTreeSet<String>,
}

/// The files that have down migrations, without them; and a note that these are skipped.
fn without_down_migrations(
    files: &[SourceFile],
) -> (BTreeMap<usize, SourceFile>, Option<(FileRange, Skipped)>) {
    let mut found = Vec::new();
    let mut without = BTreeMap::new();
    for (file, source) in files.iter().enumerate() {
        let back = migration::down_migrations(&source.name, &source.text);
        if back.is_empty() {
            continue;
        }
        let text = migration::without(&source.text, &back);
        without.insert(file, SourceFile::new(source.name.clone(), text));
        let is_told = |range: &Range<usize>| !source.text[range.clone()].trim().is_empty();
        let told = back.into_iter().filter(is_told);
        found.extend(told.map(|range| FileRange { file, range }));
    }
    let told = found.first().map(|place| {
        let message = match found.len() {
            1 => "this is a down migration".to_owned(),
            more => format!("{more} down migrations, the first of them here"),
        };
        let diagnostic = Diagnostic::new("01000", message, place.span());
        let left = Skipped::new(diagnostic, "down migrations are not analysed");
        (place.clone(), left)
    });
    (without, told)
}

/// A kind of script that runs once: its statements are no transactions.
#[derive(Clone, Copy)]
enum ScriptKind {
    Dump,
    Migration,
}

/// A note that the statements of a dump or a migration are skipped.
fn passed_over(statements: &[FileRange], by: ScriptKind) -> Option<(FileRange, Skipped)> {
    let place = statements.first()?;
    let (what, script, meaning) = match by {
        ScriptKind::Dump => ("INSERT", "a dump", "rows of a dump are no transactions"),
        ScriptKind::Migration => (
            "statement",
            "a migration",
            "a migration runs once, so its statements are no transactions; one that is needs a name (-- name: …)",
        ),
    };
    let message = match statements.len() {
        1 => format!("this {what} is part of {script}"),
        more => format!("{more} {what}s are part of {script}, the first of them here"),
    };
    let left = Skipped::new(Diagnostic::new("01000", message, place.span()), meaning);
    Some((place.clone(), left))
}

impl Reader {
    fn mark_unparsed(
        &self,
        written: TransactionSource,
        diagnostic: Diagnostic,
        skipped: &mut Vec<(FileRange, Skipped)>,
        unknown: &mut Vec<Unparsed>,
    ) {
        let whole = self.whole(&written);
        let place = match &written {
            TransactionSource::Script { file, group } => {
                let places = group.statements.iter().map(|range| FileRange {
                    file: *file,
                    range: range.clone(),
                });
                let mut at = places.filter(|p| diagnostic.span.is_some_and(|span| p.holds(span)));
                at.next().unwrap_or(whole)
            }
            TransactionSource::Client(client) => client.statement_at(diagnostic.span),
        };
        unknown.push(self.unknown(&written, diagnostic.message.clone()));
        skipped.push((place, self.skipped(&written, diagnostic)));
    }

    fn skipped(&self, written: &TransactionSource, diagnostic: Diagnostic) -> Skipped {
        let name = written.name();
        let meaning = match written {
            TransactionSource::Client(client) if !client.unresolved.is_empty() => {
                format!("the analysis assumes that {name} may do anything that its SQL may do")
            }
            _ => format!(
                "the analysis assumes that {name} may do anything to the tables that it names"
            ),
        };
        Skipped {
            transaction: Some(name.to_owned()),
            ..Skipped::new(diagnostic, meaning)
        }
    }

    /// The range of a whole transaction.
    fn whole(&self, written: &TransactionSource) -> FileRange {
        match written {
            TransactionSource::Script { file, group } => {
                let last = group.statements.len() - 1;
                FileRange {
                    file: *file,
                    range: group.statements[0].start..group.statements[last].end,
                }
            }
            TransactionSource::Client(client) => client.place(),
        }
    }

    fn unknown(&self, written: &TransactionSource, reason: String) -> Unparsed {
        let statements = match written {
            TransactionSource::Script { file, group } => {
                let text = |range: &Range<usize>| {
                    unparsed::StatementText::whole(&self.files[*file].text[range.clone()])
                };
                group.statements.iter().map(text).collect()
            }
            TransactionSource::Client(client) => client.texts(),
        };
        Unparsed {
            name: written.name().to_owned(),
            span: self.whole(written).span(),
            reason,
            statements,
            whole: false,
        }
    }

    /// The statements of a transaction in a file of SQL, with the transaction's parameters.
    fn rewritten(&self, file: usize, group: &Group) -> (Vec<Rewritten>, Parameters) {
        let text = &self.files[file].text;
        let mut parameters = Parameters::default();
        let statements = group.statements.iter().enumerate();
        let statements = statements.map(|(at, range)| {
            let several = (group.statements.len() > 1).then_some(at + 1);
            rewrite(&text[range.clone()], range.start, several, &mut parameters)
        });
        (statements.collect(), parameters)
    }

    /// A transaction of a client with its statements, wherever it was found.
    fn steps_of(&self, written: &TransactionSource) -> ClientTransaction {
        let (file, group) = match written {
            TransactionSource::Client(client) => return client.clone(),
            TransactionSource::Script { file, group } => (*file, group),
        };
        let (statements, parameters) = self.rewritten(file, group);
        let steps = statements.into_iter().map(|rewritten| {
            Step::Run(ClientStatement {
                text: rewritten.text,
                places: rewritten.places,
                file,
                finds_none: false,
            })
        });
        ClientTransaction {
            name: group.name.clone(),
            file,
            range: self.whole(written).range,
            parameters: parameters
                .names
                .into_iter()
                .map(|name| ClientParameter {
                    name,
                    varies: false,
                })
                .collect(),
            steps: steps.collect(),
            unresolved: Vec::new(),
            probable: Vec::new(),
        }
    }

    /// Compiles a transaction into a procedure.
    fn procedure(
        &self,
        base: &Application,
        written: &TransactionSource,
    ) -> Result<Procedure, Diagnostic> {
        let (file, group) = match written {
            TransactionSource::Script { file, group } => (file, group),
            TransactionSource::Client(client) => return self.client(base, client),
        };
        let (statements, parameters) = self.rewritten(*file, group);
        let mut block = Block::default();
        let mut types: Vec<Option<DataType>> = Vec::new();
        for (range, rewritten) in group.statements.iter().zip(statements) {
            let place = FileRange {
                file: *file,
                range: range.clone(),
            };
            let text = client::StatementSource {
                file: *file,
                text: &rewritten.text,
                places: &rewritten.places,
                place: place.span(),
            };
            block
                .statements
                .push(self.statement(base, &text, &mut types)?);
        }
        let first = &group.statements[0];
        let last = &group.statements[group.statements.len() - 1];
        let whole = FileRange {
            file: *file,
            range: first.start..last.end,
        };
        let names = parameters.names.into_iter().enumerate();
        Ok(Procedure {
            name: group.name.clone(),
            kind: RoutineKind::Procedure,
            parameters: names
                .map(|(place, name)| Parameter {
                    name,
                    data_type: types
                        .get(place)
                        .cloned()
                        .flatten()
                        .unwrap_or(DataType::Text),
                    mode: ParameterMode::In,
                    default: None,
                })
                .collect(),
            returns: Returns::Parameters,
            is_strict: false,
            body: block,
            keeps: Vec::new(),
            span: whole.span(),
        })
    }

    /// The summaries of all transaction types, those that were not analysed last. `numbers` is the number of the next
    /// statement.
    fn summaries(
        &self,
        mut summaries: Vec<TransactionSummary>,
        application: &Application,
        (known, unknown): (&[(TransactionSource, Procedure)], &[Unparsed]),
        numbers: &mut u32,
    ) -> Vec<TransactionSummary> {
        for summary in &mut summaries {
            let written = known.iter().find(|(w, _)| w.name() == summary.name);
            let Some((written, _)) = written else {
                continue;
            };
            if written.by_client() {
                // The client sees the result of each statement, and may do anything with it.
                for statement in &mut summary.statements {
                    statement.result = ResultUse::Used;
                    statement.deferral = Deferral::None;
                }
            }
            if let TransactionSource::Client(client) = written {
                client.correct(summary);
            }
        }
        let catalog: &Catalog = application.catalog();
        let properties = &self.declarations.properties;
        properties.correct(&mut summaries, catalog);
        let undeclared = Undeclared::new(self.undeclared(), catalog);
        for unknown in unknown {
            let declares = catalog.procedures.len() > known.len();
            summaries.push(unknown.summary(catalog, &undeclared, declares, numbers));
        }
        for trigger in undeclared
            .texts()
            .filter(|text| undeclared::is_trigger(text))
        {
            unparsed::add_trigger_effects(trigger, catalog, &undeclared, &mut summaries, numbers);
        }
        for declaration in undeclared.texts() {
            unparsed::mark_possible_violations(
                declaration,
                catalog,
                &undeclared,
                properties,
                &mut summaries,
            );
        }
        summaries
    }
}
