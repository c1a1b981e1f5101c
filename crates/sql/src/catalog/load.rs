//! Loads files into a [`Catalog`].
//!
//! 1. Every file is cut into statements, and each is parsed; an error in one does not keep the others from being read.
//! 2. Types are declared, so that columns may name one that is declared later. Tables are declared, then their keys, other
//!    constraints, indexes and foreign keys (see [`super::tables`]), so that a foreign key may refer to a table that is
//!    declared later, or in another file.
//! 3. Views, assertions and procedures follow; procedures may name the types of any table's columns. Triggers are last.

use std::{collections::BTreeSet, sync::Arc};

use anabranch_types::EnumType;

use super::{
    Assertion, Catalog, ColumnDefault, Procedure, Sequence, Trigger, TriggerFunction, View,
    directive,
    names::implied_sequence,
    tables::{Relations, Tables},
};
use crate::{
    diagnostic::Diagnostic,
    parse::{
        cursor::Name,
        declaration::{
            AlterAction, AlterDeclaration, ColumnDeclaration, Declaration, IndexDeclaration,
            IndexKey, SequenceDeclaration, ViewDeclaration,
        },
        enumeration::{EnumDeclaration, LabelAddition, enum_types},
        lexer::{Places, Text, Token, lex},
        routine::{Routine, routine},
        sequence::{is_nextval, nextval_of},
        split::{StatementTokens, statements},
        statement::{cursor_of, declaration},
        trigger::{self, TriggerDeclaration},
        type_lookup::looked_up,
    },
    sequence::SequenceOptions,
    source::{SourceFile, Span, Translated},
};

/// The maximum of diagnostics in one report.
const DIAGNOSTICS_MAX: usize = 50;

/// Loads an application's files, in the order given.
///
/// # Errors
/// All problems that can be found at once, in order of place.
pub fn load(files: Vec<SourceFile>) -> Result<Catalog, Vec<Diagnostic>> {
    load_with(Loader::default(), files, &[])
}

/// Loads files of a foreign schema, of which some, by number, are read in a translation.
pub(crate) fn load_translated(
    files: Vec<SourceFile>,
    translated: &[Option<Translated>],
) -> Result<Catalog, Vec<Diagnostic>> {
    let loader = Loader {
        is_foreign: true,
        ..Loader::default()
    };
    load_with(loader, files, translated)
}

fn load_with(
    mut loader: Loader,
    files: Vec<SourceFile>,
    translated: &[Option<Translated>],
) -> Result<Catalog, Vec<Diagnostic>> {
    let lexed = loader.lex(0, &files, translated);
    let declared = loader.declared(&lexed);
    let mut catalog = loader.build(declared);
    loader.finished()?;
    catalog.files = files;
    Ok(catalog)
}

/// Adds the routines of more files to a catalog; `first` is the number of the first file. Their other declarations are
/// ignored.
///
/// # Errors
/// All problems in these files.
pub(crate) fn load_beside(
    catalog: &Catalog,
    first: usize,
    files: &[SourceFile],
    translated: &[Option<Translated>],
) -> Result<Catalog, Vec<Diagnostic>> {
    let mut loader = Loader {
        is_foreign: true,
        ..Loader::default()
    };
    let lexed = loader.lex(first, files, translated);
    let declared = loader.declared(&lexed).into_iter();
    let routines = declared.filter(|(_, _, of)| matches!(of, Declaration::Routine));
    let routines = routines.map(|(file, statement, _)| (file, statement));
    let routines = routines.collect();
    let mut more = catalog.clone();
    loader.routines(routines, &mut more);
    loader.finished()?;
    Ok(more)
}

/// What of an index the analyser of foreign schemas does not read. Their unique indexes of expressions come as assertions
/// ([`crate::script`]).
fn unanalysed_part(index: &IndexDeclaration) -> Option<Diagnostic> {
    let expression = index.parts.iter().find_map(|part| match part {
        IndexKey::Expression(_, span, _) => Some(*span),
        IndexKey::Column(_) => None,
    });
    let of_expression = expression.map(|span| {
        Diagnostic::unsupported("an index on an expression", span).help("index plain columns")
    });
    let predicate = index.predicate.as_ref();
    of_expression.or(predicate.map(|(_, span)| {
        Diagnostic::unsupported("a partial index", *span)
            .help("leave WHERE out, or state the rule as an assertion")
    }))
}

#[derive(Default)]
struct Loader {
    errors: Vec<Diagnostic>,
    /// Names with unreadable declarations: that they are missing is not reported again.
    broken: BTreeSet<String>,
    /// Whether the files are a foreign schema for the analyser, of which parts may be missing. It finds out by itself what
    /// triggers do ([`crate::script`]).
    is_foreign: bool,
}

type Lexed<'a> = (&'a SourceFile, Vec<Token>, Span);
type Declared<'a> = (&'a SourceFile, StatementTokens<'a>, Declaration);

impl Loader {
    /// All errors in order of place, if there are any.
    fn finished(self) -> Result<(), Vec<Diagnostic>> {
        let mut errors = self.errors;
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by_key(|error| error.span.map(|span| (span.file, span.start)));
        errors.dedup();
        errors.truncate(DIAGNOSTICS_MAX);
        Err(errors)
    }

    fn declared<'a>(&mut self, lexed: &'a [Lexed<'a>]) -> Vec<Declared<'a>> {
        let mut declared = Vec::new();
        for (file, tokens, text_end) in lexed {
            for statement in statements(tokens, *text_end) {
                let parsed = match self.is_foreign && trigger::is_trigger(statement.tokens) {
                    true => Err(trigger::refused(statement.tokens)),
                    false => declaration(file, statement),
                };
                match parsed {
                    Ok(declaration) => declared.push((*file, statement, declaration)),
                    Err(error) => self.note_broken(statement, error),
                }
            }
        }
        declared
    }

    /// Lexes files; `first` is the number of the first.
    fn lex<'a>(
        &mut self,
        first: usize,
        files: &'a [SourceFile],
        translated: &[Option<Translated>],
    ) -> Vec<Lexed<'a>> {
        let mut lexed = Vec::new();
        for (at, file) in files.iter().enumerate() {
            let (Ok(number), Ok(end)) = (u16::try_from(first + at), u32::try_from(file.text.len()))
            else {
                let message = format!("\"{}\" is one file too many, or too long", file.name);
                let error = Diagnostic {
                    code: "54000",
                    message,
                    span: None,
                    detail: None,
                    help: None,
                };
                self.errors.push(error);
                break;
            };
            let other = translated.get(at).and_then(Option::as_ref);
            let text = match other {
                None => Text {
                    file: number,
                    text: &file.text,
                    places: Places::From(0),
                },
                Some(Translated { text, places }) => Text {
                    file: number,
                    text,
                    places: Places::Each(places),
                },
            };
            let (mut tokens, error) = lex(text);
            if let Some(error) = error {
                // After a lexical error the statement is incomplete, and is dropped.
                let complete = tokens
                    .iter()
                    .rposition(|token| token.kind == sqlparser::tokenizer::Token::SemiColon);
                self.note_broken_tokens(&tokens[complete.map_or(0, |at| at + 1)..]);
                tokens.truncate(complete.map_or(0, |at| at + 1));
                self.errors.push(error);
            }
            lexed.push((
                file,
                tokens,
                Span {
                    file: number,
                    start: end,
                    end,
                },
            ));
        }
        lexed
    }

    fn note_broken(&mut self, statement: StatementTokens<'_>, mut error: Diagnostic) {
        self.note_broken_tokens(statement.tokens);
        const STARTS: [&str; 6] = ["create", "alter", "comment", "grant", "drop", "set"];
        let blamed = statement
            .tokens
            .iter()
            .skip(1)
            .find(|t| Some(t.span) == error.span);
        if error.code == "42601"
            && blamed.is_some_and(|token| STARTS.iter().any(|word| token.is_word(word)))
        {
            error.help = Some("is a \";\" missing before it?".to_owned());
        }
        self.errors.push(error);
    }

    /// Remembers the name of a table that cannot be read.
    fn note_broken_tokens(&mut self, tokens: &[Token]) {
        let is_table = tokens.first().is_some_and(|token| token.is_word("create"));
        let words = tokens.iter().skip(2).filter_map(|token| match &token.kind {
            sqlparser::tokenizer::Token::Word(word) => Some(&word.value),
            _ => None,
        });
        const SKIPPED: [&str; 5] = ["if", "not", "exists", "public", "view"];
        let name = words
            .into_iter()
            .find(|word| !SKIPPED.contains(&word.as_str()));
        if let (true, Some(name)) = (is_table, name) {
            self.broken.insert(name.clone());
        }
    }

    fn build(&mut self, declared: Vec<Declared<'_>>) -> Catalog {
        let (declared, named_types, types) = self.types(declared);
        let mut tables = Tables::default();
        let mut views = Vec::new();
        let mut assertions = Vec::new();
        let mut routines = Vec::new();
        let mut alterations = Vec::new();
        let mut indexes = Vec::new();
        let mut sequences: Vec<Sequence> = Vec::new();
        let mut owners = Vec::new();
        let mut triggers = Vec::new();
        for (file, statement, declaration) in declared {
            match declaration {
                Declaration::Table(mut table) => {
                    let columns = table.columns.iter_mut();
                    if self.looked_up(columns.collect(), &types) {
                        tables.declare(table, &mut self.errors);
                    } else {
                        self.broken.insert(table.name.text);
                    }
                }
                Declaration::Alter(mut alter) => {
                    if self.look_up_altered(&mut alter, &types) {
                        alterations.push(alter);
                    }
                }
                Declaration::Type(_) | Declaration::AddLabel(_) | Declaration::DropTypes { .. } => {
                }
                Declaration::DropTables { names, if_exists } => {
                    for name in names {
                        if tables.drop(&name) {
                            // Earlier statements about the table are void, too.
                            self.broken.insert(name.text);
                        } else if !if_exists && !self.broken.contains(&name.text) {
                            let message = format!("table \"{}\" does not exist", name.text);
                            let error = Diagnostic::new("42P01", message, name.span);
                            self.errors.push(error);
                        }
                    }
                }
                Declaration::Sequence(SequenceDeclaration {
                    name,
                    if_not_exists,
                    settings,
                }) => {
                    if if_not_exists && sequences.iter().any(|of| of.name == name.text) {
                        continue;
                    }
                    tables.claim(&name, &mut self.errors);
                    let options = match settings.options(None) {
                        Ok(options) => options,
                        Err((code, message)) => {
                            self.errors.push(Diagnostic::new(code, message, name.span));
                            continue;
                        }
                    };
                    if let Some(Some((table, column))) = settings.owner {
                        owners.push([name.text.clone(), table.text, column.text]);
                    }
                    sequences.push(Sequence {
                        name: name.text,
                        options,
                        owner: None,
                    });
                }
                Declaration::SequenceOwner(names) => owners.push(names),
                Declaration::Index(index) => {
                    match unanalysed_part(&index).filter(|_| self.is_foreign) {
                        Some(error) => self.errors.push(error),
                        None => indexes.push(index),
                    }
                }
                Declaration::View(view) => views.push(view),
                Declaration::Assertion {
                    name,
                    expression,
                    span,
                } => {
                    assertions.push((
                        name,
                        Assertion {
                            name: String::new(),
                            expression,
                            span,
                        },
                    ));
                }
                Declaration::Routine => routines.push((file, statement)),
                Declaration::Trigger(trigger) => triggers.push(trigger),
                Declaration::Nothing => {}
            }
        }
        for alter in alterations {
            tables.alter(alter, &self.broken, &mut self.errors);
        }
        tables.resolve(indexes, &self.broken, &mut self.errors);
        let mut catalog = Catalog {
            types,
            ..Catalog::default()
        };
        let mut relations = tables.finish(&mut catalog);
        for name in named_types {
            let is_relation = catalog.tables.iter().any(|of| of.name == name.text)
                || sequences.iter().any(|of| of.name == name.text)
                || views
                    .iter()
                    .any(|of: &ViewDeclaration| of.name.text == name.text);
            if is_relation {
                let message = format!("type \"{}\" already exists", name.text);
                self.errors
                    .push(Diagnostic::new("42710", message, name.span));
            }
        }
        for [name, table, column] in owners {
            if let Some(sequence) = sequences.iter_mut().find(|of| of.name == name) {
                sequence.owner = Some((table, column));
            }
        }
        self.take_serial_numbers(&sequences, &mut catalog);
        sequences.retain(|sequence| !catalog.implies(sequence));
        catalog.sequences = sequences;
        self.views(views, &mut relations, &mut catalog);
        self.assertions(assertions, &mut catalog);
        self.routines(routines, &mut catalog);
        self.triggers(triggers, &mut catalog);
        catalog
    }

    /// Takes the statements about types out: the rest, the names of the types, and the types.
    fn types<'a>(
        &mut self,
        declared: Vec<Declared<'a>>,
    ) -> (Vec<Declared<'a>>, Vec<Name>, Vec<Arc<EnumType>>) {
        let mut types: Vec<(Name, Vec<String>)> = Vec::new();
        let mut rest = Vec::new();
        for (file, statement, declaration) in declared {
            match declaration {
                Declaration::Type(declared) => self.declare_type(&declared, &mut types),
                Declaration::AddLabel(added) => self.add_label(&added, &mut types),
                Declaration::DropTypes { names, if_exists } => {
                    for name in names {
                        let before = types.len();
                        types.retain(|(of, _)| of.text != name.text);
                        if types.len() == before && !if_exists {
                            let message = format!("type \"{}\" does not exist", name.text);
                            self.errors
                                .push(Diagnostic::new("42704", message, name.span));
                        }
                    }
                }
                other => rest.push((file, statement, other)),
            }
        }
        let names = types.iter().map(|(name, _)| name.clone()).collect();
        let labels = types.into_iter().map(|(name, labels)| (name.text, labels));
        (rest, names, enum_types(labels.collect()))
    }

    fn declare_type(&mut self, declared: &EnumDeclaration, types: &mut Vec<(Name, Vec<String>)>) {
        let name = &declared.name;
        if types.iter().any(|(of, _)| of.text == name.text) {
            let message = format!("type \"{}\" already exists", name.text);
            self.errors
                .push(Diagnostic::new("42710", message, name.span));
            return;
        }
        if let Err(problem) = declared.check() {
            self.errors.push(problem.diagnostic());
        }
        types.push((name.clone(), declared.texts()));
    }

    fn add_label(&mut self, added: &LabelAddition, types: &mut [(Name, Vec<String>)]) {
        let name = &added.name;
        let Some((_, labels)) = types.iter_mut().find(|(of, _)| of.text == name.text) else {
            let message = format!("type \"{}\" does not exist", name.text);
            self.errors
                .push(Diagnostic::new("42704", message, name.span));
            return;
        };
        if let Err(problem) = added.apply(labels) {
            self.errors.push(problem.diagnostic());
        }
    }

    /// Looks the types of columns up; returns whether all of them are there.
    fn looked_up(&mut self, columns: Vec<&mut ColumnDeclaration>, types: &[Arc<EnumType>]) -> bool {
        let mut all = true;
        for column in columns {
            let declared = &mut column.declared;
            match looked_up(declared.data_type.clone(), types, declared.span) {
                Ok(found) => declared.data_type = found,
                Err(error) => {
                    self.errors.push(error);
                    all = false;
                }
            }
        }
        all
    }

    /// The same for the columns of an ALTER TABLE.
    fn look_up_altered(&mut self, alter: &mut AlterDeclaration, types: &[Arc<EnumType>]) -> bool {
        let mut all = true;
        for action in &mut alter.actions {
            match action {
                AlterAction::AddColumn { column, .. } => {
                    all &= self.looked_up(vec![column], types);
                }
                AlterAction::AlterColumn(alteration) => {
                    let Some(declared) = &mut alteration.data_type else {
                        continue;
                    };
                    match looked_up(declared.data_type.clone(), types, declared.span) {
                        Ok(found) => declared.data_type = found,
                        Err(error) => {
                            self.errors.push(error);
                            all = false;
                        }
                    }
                }
                _ => {}
            }
        }
        all
    }

    /// Makes columns serial whose DEFAULT takes the next number of the sequence that a serial column would imply. Of a
    /// foreign schema, every column is one, unless the numbers of its sequence come again.
    fn take_serial_numbers(&self, sequences: &[Sequence], catalog: &mut Catalog) {
        for (table, schema) in catalog.tables.iter_mut().zip(&catalog.schema.tables) {
            for (default, column) in table.defaults.iter_mut().zip(&schema.columns) {
                let ColumnDefault::Expression(expression, _) = default else {
                    continue;
                };
                let is_nextval = is_nextval(expression);
                let declared = nextval_of(expression)
                    .and_then(|name| sequences.iter().find(|of| of.name == name));
                let is_serial = match declared {
                    None => is_nextval && self.is_foreign,
                    // The analyser needs to know of it only that its numbers are new.
                    Some(sequence) if self.is_foreign => !sequence.options.cycles,
                    Some(sequence) => {
                        let owner = sequence.owner.as_ref();
                        let is_own = owner
                            .is_some_and(|(of, name)| (of, name) == (&schema.name, &column.name));
                        is_own
                            && sequence.name == implied_sequence(&schema.name, &column.name)
                            && sequence.options == SequenceOptions::of_type(&column.data_type)
                    }
                };
                if is_serial && column.data_type.is_integer() {
                    *default = ColumnDefault::Generated {
                        always: false,
                        serial: true,
                    };
                }
            }
        }
    }

    fn views(
        &mut self,
        views: Vec<ViewDeclaration>,
        relations: &mut Relations,
        catalog: &mut Catalog,
    ) {
        for declared in views {
            let ViewDeclaration {
                name,
                or_replace,
                columns,
                query,
                span,
            } = declared;
            let mut seen = BTreeSet::new();
            if let Some(twice) = columns.iter().find(|column| !seen.insert(&column.text)) {
                let message = format!("column \"{}\" specified more than once", twice.text);
                self.errors
                    .push(Diagnostic::new("42701", message, twice.span));
            }
            let view = View {
                name: name.text.clone(),
                columns: columns.iter().map(|column| column.text.clone()).collect(),
                query,
                span,
            };
            let replaced = catalog
                .views
                .iter_mut()
                .find(|old| or_replace && old.name == view.name);
            if let Some(replaced) = replaced {
                *replaced = view;
            } else if relations.claim(&name, &mut self.errors) {
                catalog.views.push(view);
            }
        }
    }

    fn assertions(&mut self, assertions: Vec<(Name, Assertion)>, catalog: &mut Catalog) {
        for (name, assertion) in assertions {
            if catalog
                .assertions
                .iter()
                .any(|other| other.name == name.text)
            {
                let message = format!("assertion \"{}\" already exists", name.text);
                self.errors
                    .push(Diagnostic::new("42710", message, name.span));
                continue;
            }
            catalog.assertions.push(Assertion {
                name: name.text,
                ..assertion
            });
        }
    }

    fn routines(
        &mut self,
        routines: Vec<(&SourceFile, StatementTokens<'_>)>,
        catalog: &mut Catalog,
    ) {
        for (file, statement) in routines {
            let mut errors = Vec::new();
            let cursor = cursor_of(file, statement);
            let parsed = routine(cursor, catalog, !self.is_foreign, &mut errors);
            for error in errors {
                self.push_unless_broken(error);
            }
            let mut routine = match parsed {
                Ok(routine) => routine,
                Err(error) => {
                    self.push_unless_broken(error);
                    continue;
                }
            };
            routine.procedure.keeps = directive::kept(
                file,
                routine.procedure.span,
                &catalog.assertions,
                &mut self.errors,
            );
            if routine.is_trigger {
                self.trigger_function(routine, catalog);
                continue;
            }
            let name = &routine.name;
            let same = catalog
                .procedures
                .iter()
                .position(|other| other.name == name.text);
            if catalog.trigger_function(&name.text).is_some() {
                self.errors.push(already_exists(name));
                continue;
            }
            let procedure = Arc::new(routine.procedure);
            match same {
                None => catalog.procedures.push(procedure),
                Some(old) if routine.or_replace => catalog.procedures[old] = procedure,
                Some(old) => {
                    let same_types = catalog.procedures[old]
                        .parameters
                        .iter()
                        .map(|parameter| &parameter.data_type)
                        .eq(procedure
                            .parameters
                            .iter()
                            .map(|parameter| &parameter.data_type));
                    self.errors.push(if same_types {
                        already_exists(name)
                    } else {
                        let construct = format!("a second function named \"{}\"", name.text);
                        Diagnostic::unsupported(construct, name.span)
                            .help("give each procedure a name of its own")
                    });
                }
            }
        }
    }

    /// Declares the function of triggers.
    fn trigger_function(&mut self, routine: Routine, catalog: &mut Catalog) {
        let name = &routine.name;
        let Procedure { body, span, .. } = routine.procedure;
        let function = TriggerFunction {
            name: name.text.clone(),
            body,
            span,
        };
        let functions = &mut catalog.trigger_functions;
        let same = functions.iter().position(|of| of.name == name.text);
        let is_other = catalog.procedures.iter().any(|of| of.name == name.text);
        match same {
            _ if is_other => self.errors.push(already_exists(name)),
            None => functions.push(function),
            Some(old) if routine.or_replace => functions[old] = function,
            Some(_) => self.errors.push(already_exists(name)),
        }
    }

    fn triggers(&mut self, declared: Vec<TriggerDeclaration>, catalog: &mut Catalog) {
        for declared in declared {
            match trigger(&declared, catalog) {
                Ok((trigger, None)) => catalog.triggers.push(trigger),
                Ok((trigger, Some(old))) => catalog.triggers[old] = trigger,
                Err(error) => self.push_unless_broken(error),
            }
        }
    }

    fn push_unless_broken(&mut self, error: Diagnostic) {
        let quoted = error.message.split('"').nth(1).unwrap_or("");
        if error.code != "42P01" || !self.broken.contains(quoted) {
            self.errors.push(error);
        }
    }
}

/// A trigger with its names looked up, and the place of the one that it replaces.
fn trigger(
    declared: &TriggerDeclaration,
    catalog: &Catalog,
) -> Result<(Trigger, Option<usize>), Diagnostic> {
    let TriggerDeclaration { name, table, .. } = declared;
    let Some(found) = catalog.table_by_name(&table.text) else {
        let message = format!("relation \"{}\" does not exist", table.text);
        return Err(Diagnostic::new("42P01", message, table.span));
    };
    let function = &declared.function;
    if catalog.trigger_function(&function.text).is_none() {
        let (code, message) = match catalog.procedure_by_name(&function.text) {
            None => (
                "42883",
                format!("function {}() does not exist", function.text),
            ),
            Some(_) => (
                "42P17",
                format!("function {} must return type trigger", function.text),
            ),
        };
        return Err(Diagnostic::new(code, message, function.span));
    }
    let id = found.id;
    let mut there = catalog.triggers.iter();
    let old = there.position(|of| of.table == id && of.name == name.text);
    if old.is_some() && !declared.or_replace {
        let message = format!(
            "trigger \"{}\" for relation \"{}\" already exists",
            name.text, table.text
        );
        return Err(Diagnostic::new("42710", message, name.span));
    }
    let mut columns = Vec::new();
    for column in &declared.columns {
        let Some(found) = catalog.column_by_name(id, &column.text) else {
            let message = format!(
                "column \"{}\" of relation \"{}\" does not exist",
                column.text, table.text
            );
            return Err(Diagnostic::new("42703", message, column.span));
        };
        if columns.contains(&found) {
            let message = format!("column \"{}\" specified more than once", column.text);
            return Err(Diagnostic::new("42701", message, column.span));
        }
        columns.push(found);
    }
    let trigger = Trigger {
        name: name.text.clone(),
        table: id,
        on_insert: declared.on_insert,
        on_update: declared.on_update,
        columns,
        condition: declared.condition.clone(),
        function: function.text.clone(),
        span: declared.span,
    };
    Ok((trigger, old))
}

fn already_exists(name: &Name) -> Diagnostic {
    let message = format!("function \"{}\" already exists", name.text);
    Diagnostic::new("42723", message, name.span)
}
