//! Files as clients keep them: declarations beside named queries, transactions from BEGIN to COMMIT, and
//! loose statements, some of which nobody here understands.
//!
//! [`read`] takes what it can. A file is cut into pieces (`scan`) that belong together (`group`), each
//! transaction becomes a procedure whose parameters are its placeholders (`placeholder`), and what
//! cannot be read is left out and told ([`LeftOut`]). A transaction of which a statement is left out is
//! still there for the analyser: as one that may do anything to whatever it names (`unknown`). So what is
//! not understood makes nothing safe.

mod client;
mod declarations;
mod dropped;
mod group;
mod invariants;
mod joining;
mod lost;
mod migration;
mod mysql;
mod order;
mod peculiar;
mod pgsql;
mod placeholder;
mod renaming;
mod scan;
mod tokens;
mod transactions;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anabranch_types::DataType;

use crate::{
    application::Application,
    catalog::{Block, Catalog, Parameter, ParameterMode, Procedure, Returns},
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
    summary::{Deferral, ResultUse, TransactionSummary},
};
use declarations::Declarations;
use group::{Group, group, unique};
use lost::Lost;
use placeholder::{Parameters, rewrite};
use unknown::Unknown;

pub use client::{
    Client, ClientParameter, ClientStatement, Confidence, Probable, Step, Unresolved,
};
pub use invariants::invariants;
pub use order::{Columns, forget_order};
pub use placeholder::{Placeholder, substitute};
pub(crate) use tokens::Translated;
pub use unknown::anything;

/// What was read.
#[derive(Debug)]
pub struct Script {
    /// What is understood: procedures, and transactions as procedures.
    pub application: Application,
    /// Every transaction type: those of `application`, in its order, and behind them those of which
    /// something is left out.
    pub summaries: Vec<TransactionSummary>,
    /// What is left out, in order of place.
    pub left_out: Vec<LeftOut>,
    /// Whether there are transactions of clients', beside what is declared.
    pub has_clients: bool,
    /// Rules that programs probably rely on, in order of place.
    pub probable: Vec<Probable>,
    /// What is needed to read more.
    reader: Reader,
}

/// Something that is left out.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// Why, and where; of SQLSTATE's class 01 where nothing is wrong.
    pub diagnostic: Diagnostic,
    /// What that means for the verdicts.
    pub meaning: String,
    /// The transaction type that is unknown because of it.
    pub transaction: Option<String>,
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    file: usize,
    range: Range<usize>,
}

impl Place {
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

/// A transaction type as it stands in the files.
enum Written {
    /// In a file of SQL.
    Script { file: usize, group: Group },
    /// In a program.
    Client(Client),
}

impl Written {
    fn name(&self) -> &str {
        match self {
            Written::Script { group, .. } => &group.name,
            Written::Client(client) => &client.name,
        }
    }

    fn rename(&mut self, name: String) {
        match self {
            Written::Script { group, .. } => group.name = name,
            Written::Client(client) => client.name = name,
        }
    }

    /// Whether a client runs several statements, and sees what each comes to.
    fn by_client(&self) -> bool {
        match self {
            Written::Script { group, .. } => group.by_client,
            Written::Client(client) => client.is_several(),
        }
    }

    fn holds(&self, span: Span) -> bool {
        match self {
            Written::Script { file, group } => group.statements.iter().any(|range| {
                let (file, range) = (*file, range.clone());
                Place { file, range }.holds(span)
            }),
            Written::Client(client) => client.holds(span),
        }
    }
}

/// Reads an application's files.
///
/// # Errors
/// What is wrong with them, where nothing is left without it.
pub fn read(files: Vec<SourceFile>) -> Result<Script, Vec<Diagnostic>> {
    read_with(files, Vec::new(), Vec::new())
}

/// The same with what programs run. `programs` stand behind the `files` of SQL in the numbers by which
/// `clients` name files.
///
/// # Errors
/// As [`read`].
pub fn read_with(
    files: Vec<SourceFile>,
    programs: Vec<SourceFile>,
    clients: Vec<Client>,
) -> Result<Script, Vec<Diagnostic>> {
    let mut taken = BTreeSet::new();
    let mut declarations = Vec::new();
    let mut written = Vec::new();
    let mut rows = Vec::new();
    let is_mysql = files.iter().any(|file| mysql::speaks(&file.text));
    let plain = |file: SourceFile| SourceFile {
        text: mysql::plain(&file.text).into(),
        ..file
    };
    let files: Vec<SourceFile> = match is_mysql {
        true => files.into_iter().map(plain).collect(),
        false => files,
    };
    let (forth, back) = forth(&files);
    rows.extend(back);
    let (mut dumped, mut migrated) = (Vec::new(), Vec::new());
    for (file, source) in files.iter().enumerate() {
        let grouped = group(forth.get(&file).unwrap_or(source), &mut taken);
        let place = |range| Place { file, range };
        dumped.extend(grouped.rows.into_iter().map(place));
        let (groups, steps) = match migration::is_step(&source.name, &source.text) {
            true => grouped.groups.into_iter().partition(|of| of.is_named),
            false => (grouped.groups, Vec::new()),
        };
        migrated.extend(steps.into_iter().flat_map(|of| of.statements).map(place));
        declarations.extend(grouped.declarations.into_iter().map(place));
        let of_file = |group| Written::Script { file, group };
        written.extend(groups.into_iter().map(of_file));
    }
    rows.extend(passed_over(&dumped, Passed::Dump));
    rows.extend(passed_over(&migrated, Passed::Migration));
    for mut client in clients {
        client.name = unique(client.name, &mut taken);
        written.push(Written::Client(client));
    }
    let has_clients = !written.is_empty();
    let mut reader = Reader {
        scripts: files.len(),
        files: files.into_iter().chain(programs).collect(),
        declarations: Declarations::new(declarations, is_mysql),
        taken,
    };
    reader.follow_changes();
    let base = reader.base(None)?;
    let mut left_out: Vec<(Place, LeftOut)> = reader.told(&base, 0);
    left_out.extend(rows);
    let routines = reader.routines(0);
    let read = reader.transactions(base, written, 0)?;
    let unknown: Vec<Unknown> = routines.into_iter().chain(read.unknown).collect();
    let summaries = read.application.summaries().to_vec();
    let mut numbers = numbers(&summaries);
    let summaries = reader.summaries(
        summaries,
        &read.application,
        (&read.known, &unknown),
        &mut numbers,
    );
    left_out.extend(read.left_out);
    left_out.extend(reader.not_understood(&read.application, &read.known, 0));
    Ok(Script {
        probable: read.probable,
        application: read.application,
        left_out: in_order(left_out, &summaries),
        summaries,
        has_clients,
        reader,
    })
}

/// In order of place; with what it means where a transaction is known to write nothing.
fn in_order(mut left_out: Vec<(Place, LeftOut)>, summaries: &[TransactionSummary]) -> Vec<LeftOut> {
    left_out.sort_by_key(|(place, _)| (place.file, place.range.start));
    let mut left_out: Vec<LeftOut> = left_out.into_iter().map(|(_, left)| left).collect();
    let harmless = summaries
        .iter()
        .filter(|of| of.unknown.is_some() && of.only_reads);
    let harmless: BTreeSet<&str> = harmless.map(|of| of.name.as_str()).collect();
    for left in &mut left_out {
        if let Some(name) = left
            .transaction
            .as_deref()
            .filter(|of| harmless.contains(of))
        {
            left.meaning = format!("{name} is taken to read all of the tables that it names");
        }
    }
    left_out
}

/// The number behind those of all statements.
fn numbers(summaries: &[TransactionSummary]) -> u32 {
    let statements = summaries.iter().flat_map(|summary| &summary.statements);
    statements.map(|s| s.id.0 + 1).max().unwrap_or(0)
}

#[derive(Clone, Debug)]
struct Reader {
    /// Of SQL, and behind them of programs.
    files: Vec<SourceFile>,
    /// How many are of SQL.
    scripts: usize,
    declarations: Declarations,
    /// Names that transactions have.
    taken: BTreeSet<String>,
}

/// Files without the ways back of migrations, where they have any; and these, told as left out.
fn forth(files: &[SourceFile]) -> (BTreeMap<usize, SourceFile>, Option<(Place, LeftOut)>) {
    let mut found = Vec::new();
    let mut without = BTreeMap::new();
    for (file, source) in files.iter().enumerate() {
        let back = migration::ways_back(&source.name, &source.text);
        if back.is_empty() {
            continue;
        }
        let text = migration::without(&source.text, &back);
        without.insert(file, SourceFile::new(source.name.clone(), text));
        let is_told = |range: &Range<usize>| !source.text[range.clone()].trim().is_empty();
        let told = back.into_iter().filter(is_told);
        found.extend(told.map(|range| Place { file, range }));
    }
    let told = found.first().map(|place| {
        let message = match found.len() {
            1 => "this undoes a migration".to_owned(),
            more => format!("{more} stretches undo migrations, this one first"),
        };
        let left = LeftOut {
            diagnostic: Diagnostic::new("01000", message, place.span()),
            meaning: "what they do is not considered".to_owned(),
            transaction: None,
        };
        (place.clone(), left)
    });
    (without, told)
}

/// Whose statements are no transactions.
#[derive(Clone, Copy)]
enum Passed {
    Dump,
    Migration,
}

/// What a dump or a migration does to rows, told as left out.
fn passed_over(statements: &[Place], by: Passed) -> Option<(Place, LeftOut)> {
    let place = statements.first()?;
    let (what, whose, meaning) = match by {
        Passed::Dump => ("INSERT", "a dump", "they are rows, and no transactions"),
        Passed::Migration => (
            "statement",
            "a migration",
            "what runs once is no transaction; what is one needs a name (-- name: …)",
        ),
    };
    let message = match statements.len() {
        1 => format!("this {what} is of {whose}"),
        more => format!("{more} {what}s are of {whose}, this one first"),
    };
    let left = LeftOut {
        diagnostic: Diagnostic::new("01000", message, place.span()),
        meaning: meaning.to_owned(),
        transaction: None,
    };
    Some((place.clone(), left))
}

impl Reader {
    fn give_up(
        &self,
        written: Written,
        diagnostic: Diagnostic,
        left_out: &mut Vec<(Place, LeftOut)>,
        unknown: &mut Vec<Unknown>,
    ) {
        let whole = self.whole(&written);
        let place = match &written {
            Written::Script { file, group } => {
                let places = group.statements.iter().map(|range| Place {
                    file: *file,
                    range: range.clone(),
                });
                let mut at = places.filter(|p| diagnostic.span.is_some_and(|span| p.holds(span)));
                at.next().unwrap_or(whole)
            }
            Written::Client(client) => client.told_at(diagnostic.span),
        };
        unknown.push(self.unknown(&written, diagnostic.message.clone()));
        left_out.push((place, self.left_out(&written, diagnostic)));
    }

    fn left_out(&self, written: &Written, diagnostic: Diagnostic) -> LeftOut {
        let name = written.name();
        let meaning = match written {
            Written::Client(client) if !client.unresolved.is_empty() => {
                format!("{name} is taken to do anything that its SQL may do")
            }
            _ => format!("{name} is taken to do anything to the tables that it names"),
        };
        LeftOut {
            diagnostic,
            meaning,
            transaction: Some(name.to_owned()),
        }
    }

    /// All of a transaction.
    fn whole(&self, written: &Written) -> Place {
        match written {
            Written::Script { file, group } => {
                let last = group.statements.len() - 1;
                Place {
                    file: *file,
                    range: group.statements[0].start..group.statements[last].end,
                }
            }
            Written::Client(client) => client.place(),
        }
    }

    fn unknown(&self, written: &Written, reason: String) -> Unknown {
        let statements = match written {
            Written::Script { file, group } => {
                let text = |range: &Range<usize>| {
                    unknown::Text::whole(&self.files[*file].text[range.clone()])
                };
                group.statements.iter().map(text).collect()
            }
            Written::Client(client) => client.texts(),
        };
        Unknown {
            name: written.name().to_owned(),
            span: self.whole(written).span(),
            reason,
            statements,
            whole: false,
        }
    }

    /// A transaction as a procedure.
    fn procedure(&self, base: &Application, written: &Written) -> Result<Procedure, Diagnostic> {
        let (file, group) = match written {
            Written::Script { file, group } => (file, group),
            Written::Client(client) => return self.client(base, client),
        };
        let source = &self.files[*file];
        let mut parameters = Parameters::default();
        let mut block = Block::default();
        let mut types: Vec<Option<DataType>> = Vec::new();
        for (at, range) in group.statements.iter().enumerate() {
            let several = (group.statements.len() > 1).then_some(at + 1);
            let text = &source.text[range.clone()];
            let rewritten = rewrite(text, range.start, several, &mut parameters);
            let place = Place {
                file: *file,
                range: range.clone(),
            };
            let text = client::Written {
                file: *file,
                text: &rewritten.text,
                places: &rewritten.places,
                place: place.span(),
            };
            block
                .statements
                .push(self.written(base, &text, &mut types)?);
        }
        let first = &group.statements[0];
        let last = &group.statements[group.statements.len() - 1];
        let whole = Place {
            file: *file,
            range: first.start..last.end,
        };
        let names = parameters.names.into_iter().enumerate();
        Ok(Procedure {
            name: group.name.clone(),
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
            body: block,
            keeps: Vec::new(),
            span: whole.span(),
        })
    }

    /// What transaction types do, those that are not understood behind the others; `numbers` is the number of the next
    /// statement.
    fn summaries(
        &self,
        mut summaries: Vec<TransactionSummary>,
        application: &Application,
        (known, unknown): (&[(Written, Procedure)], &[Unknown]),
        numbers: &mut u32,
    ) -> Vec<TransactionSummary> {
        for summary in &mut summaries {
            let written = known.iter().find(|(w, _)| w.name() == summary.name);
            let Some((written, _)) = written else {
                continue;
            };
            if written.by_client() {
                // The client sees what each statement comes to, and may do anything with it.
                for statement in &mut summary.statements {
                    statement.result = ResultUse::Used;
                    statement.deferral = Deferral::None;
                }
            }
            if let Written::Client(client) = written {
                client.correct(summary);
            }
        }
        let catalog: &Catalog = application.catalog();
        let peculiar = &self.declarations.peculiar;
        peculiar.correct(&mut summaries, catalog);
        let lost = Lost::new(self.lost(), catalog);
        for unknown in unknown {
            let declares = catalog.procedures.len() > known.len();
            summaries.push(unknown.summary(catalog, &lost, declares, numbers));
        }
        for trigger in lost.texts().filter(|text| lost::is_trigger(text)) {
            unknown::fire(trigger, catalog, &lost, &mut summaries, numbers);
        }
        for declaration in lost.texts() {
            unknown::constrain(declaration, catalog, &lost, peculiar, &mut summaries);
        }
        summaries
    }
}
