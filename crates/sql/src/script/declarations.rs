//! The declarations in the files, as far as they can be analysed. What cannot is skipped, as little of it as possible,
//! and reported.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{
    FileRange, Reader, Skipped, TransactionSource,
    column_properties::ColumnProperties,
    dropped, mysql,
    pgsql::{
        self, Definitions, Edit, OptionalPart, PartKind, Relations, TimestampFunction, Translation,
        Types,
    },
    renaming::{self, Renamed},
    undeclared::{self, Undeclared},
    unparsed::{self, Unparsed},
};
use crate::{
    application::Application,
    catalog::{Procedure, load_beside, load_translated, opaque::OpaqueExpressions},
    diagnostic::Diagnostic,
    source::{SourceFile, Span, Translated},
};

/// The declarations of files, and which of them are skipped.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    places: Vec<FileRange>,
    /// Declarations that name something renamed later, with the final names; dropped ones, as empty texts.
    renamed: BTreeMap<usize, Renamed>,
    /// The skipped declarations, and why.
    skipped: Vec<(usize, Diagnostic)>,
    /// The parts that can be skipped by themselves, each with the number of its declaration.
    parts: Vec<(usize, OptionalPart)>,
    /// The skipped parts, and why.
    skipped_part_errors: Vec<(usize, Diagnostic)>,
    /// Keys with a column of a type or collation that has its own equality.
    keys: Vec<(FileRange, String)>,
    /// Types that are not declared, each at its first place.
    unknown_types: Vec<(FileRange, String)>,
    /// The problems of the first attempt.
    first: Vec<Diagnostic>,
    pub(super) types: Types,
    /// Trigger functions that set columns to the current time.
    stamps: Vec<TimestampFunction>,
    relations: Relations,
    pub(super) properties: ColumnProperties,
    /// Whether the files are MySQL's.
    pub(super) is_mysql: bool,
}

/// The application so far, when one more file is read.
pub(super) struct Existing<'s> {
    pub(super) application: &'s Application,
    /// The number of the new file.
    pub(super) file: usize,
    /// The first of its declarations.
    pub(super) place: usize,
    /// The number of its first statement.
    pub(super) first_statement: u32,
}

impl Declarations {
    pub(super) fn new(places: Vec<FileRange>, is_mysql: bool) -> Declarations {
        Declarations {
            places,
            is_mysql,
            ..Declarations::default()
        }
    }

    /// Adds the declarations of one more file, and returns the number of the first.
    pub(super) fn add(&mut self, places: impl Iterator<Item = FileRange>) -> usize {
        let first = self.places.len();
        self.places.extend(places);
        first
    }

    fn is_skipped(&self, declaration: usize) -> bool {
        self.skipped.iter().any(|(at, _)| *at == declaration)
    }

    fn is_skipped_part(&self, part: usize) -> bool {
        self.skipped_part_errors.iter().any(|(at, _)| *at == part)
    }

    fn part_place(&self, part: usize) -> FileRange {
        let (declaration, part) = &self.parts[part];
        FileRange {
            file: self.places[*declaration].file,
            range: part.range.clone(),
        }
    }

    /// Skips the smallest part that has this problem, and returns whether there is one.
    fn skip(&mut self, problem: &Diagnostic) -> bool {
        let of_it = |place: &FileRange| problem.span.is_some_and(|span| place.holds(span));
        let parts = (0..self.parts.len()).filter(|at| {
            let is_there = !self.is_skipped_part(*at) && !self.is_skipped(self.parts[*at].0);
            is_there && of_it(&self.part_place(*at))
        });
        if let Some(at) = parts.min_by_key(|at| self.parts[*at].1.range.len()) {
            // The parts that a declared type adds to its column have the same place.
            let place = self.part_place(at);
            let same = (0..self.parts.len()).filter(|at| self.part_place(*at) == place);
            let same: Vec<usize> = same.collect();
            let told = same.into_iter().map(|at| (at, problem.clone()));
            self.skipped_part_errors.extend(told);
            return true;
        }
        let found = self.places.iter().position(of_it);
        let found = found.filter(|at| !self.is_skipped(*at));
        self.skipped.extend(found.map(|at| (at, problem.clone())));
        found.is_some()
    }

    /// The skipped parts of declarations that are not skipped.
    fn skipped_parts(&self) -> impl Iterator<Item = (FileRange, &OptionalPart, &Diagnostic)> {
        let dropped = self.skipped_part_errors.iter();
        let there = dropped.filter(|(at, _)| !self.is_skipped(self.parts[*at].0));
        there.map(|(at, diagnostic)| (self.part_place(*at), &self.parts[*at].1, diagnostic))
    }
}

impl Reader {
    /// Compiles the declarations of all files, or of one more.
    pub(super) fn base(
        &mut self,
        existing: Option<&Existing<'_>>,
    ) -> Result<Application, Vec<Diagnostic>> {
        let (files, first) = match existing {
            None => (0..self.scripts, 0),
            Some(existing) => (existing.file..existing.file + 1, existing.place),
        };
        match self.declarations.is_mysql {
            false => self.find_column_properties(first),
            true => self.skip_opaque_assertions(files.clone(), first),
        }
        loop {
            let (declared, translated) = match self.declarations.is_mysql {
                true => self.in_postgres_words(files.clone()),
                false => self.edited(files.clone(), first),
            };
            let loaded = match existing {
                None => load_translated(declared, &translated),
                Some(existing) => load_beside(
                    existing.application.catalog(),
                    existing.file,
                    &declared,
                    &translated,
                ),
            };
            let loaded = loaded.and_then(|mut catalog| {
                catalog.files.clone_from(&self.files);
                let undeclared = self.undeclared();
                let declared = catalog.procedures.iter().map(|p| p.name.clone());
                let undeclared = undeclared
                    .iter()
                    .filter_map(|text| undeclared::routine(text));
                let routines: Vec<String> = declared.chain(undeclared).collect();
                catalog.opaque = Some(OpaqueExpressions::except(routines));
                match existing {
                    None => Application::compile(catalog),
                    Some(existing) => existing
                        .application
                        .extended(catalog, existing.first_statement),
                }
            });
            let problems = match loaded {
                Ok(application) => {
                    let catalog = application.catalog();
                    // The tables of a program may be declared elsewhere; its SQL is analysed all the same.
                    let is_program = self.files.len() > self.scripts;
                    let wrong = !self.declarations.first.is_empty();
                    let nothing = catalog.tables.is_empty() && wrong && !is_program;
                    return match nothing {
                        true => Err(std::mem::take(&mut self.declarations.first)),
                        false => Ok(application),
                    };
                }
                Err(problems) => problems,
            };
            if self.declarations.first.is_empty() {
                self.declarations.first.clone_from(&problems);
            }
            let mut fewer = false;
            for problem in &problems {
                fewer |= self.declarations.skip(problem);
            }
            if !fewer {
                return Err(problems);
            }
        }
    }

    /// Finds column properties, declared types and unknown types in PostgreSQL's files, and skips what cannot be
    /// analysed because of them.
    ///
    /// Looks at the declarations from `first` on only.
    fn find_column_properties(&mut self, first: usize) {
        let texts = (0..self.declarations.places.len()).map(|at| self.words(at));
        let views = self.views();
        let stamps = pgsql::all_timestamp_functions(texts.clone());
        let relations = Relations::of(texts.clone());
        let types = Types::of(texts);
        let known = Definitions {
            types: &types,
            stamps: &stamps,
            relations: &relations,
        };
        let mut properties = self.declarations.properties.clone();
        let none = |_: usize| false;
        for at in first..self.declarations.places.len() {
            self.translation(at, &none, |text, base, dropped| {
                pgsql::translated(text, base, known, dropped, &mut properties)
            });
        }
        let (mut parts, mut keys, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
        let mut unknown_types = self.declarations.unknown_types.clone();
        for (at, place) in self.declarations.places.iter().enumerate().skip(first) {
            let translation = self.translation(at, &none, |text, base, dropped| {
                pgsql::translated(text, base, known, dropped, &mut properties)
            });
            parts.extend(translation.parts.into_iter().map(|part| (at, part)));
            keys.extend(translation.keys.into_iter().map(|(range, column)| {
                let file = place.file;
                (FileRange { file, range }, column)
            }));
            for (range, name) in translation.unknown_types {
                if unknown_types.iter().all(|(_, known)| *known != name) {
                    let file = place.file;
                    unknown_types.push((FileRange { file, range }, name));
                }
            }
            let renamed = self.declarations.renamed.get(&at);
            let why = renamed.and_then(|renamed| renamed.why.clone());
            let why =
                why.or_else(|| pgsql::unsupported_reason(self.words(at), &properties, &views));
            if let Some(why) = why {
                dropped.push((at, Diagnostic::unsupported(why, place.span())));
            }
        }
        let of = &mut self.declarations;
        (of.types, of.stamps, of.relations) = (types, stamps, relations);
        (of.properties, of.unknown_types) = (properties, unknown_types);
        of.keys.extend(keys);
        of.skipped.extend(dropped);
        let first_part = of.parts.len();
        of.parts.extend(parts);
        for at in first_part..of.parts.len() {
            if let Some(why) = &of.parts[at].1.why {
                let told = Diagnostic::unsupported(why.as_str(), of.part_place(at).span());
                of.skipped_part_errors.push((at, told));
            }
        }
    }

    /// The declared views.
    fn views(&self) -> Vec<pgsql::View> {
        let all = 0..self.declarations.places.len();
        all.filter_map(|at| pgsql::view(self.words(at))).collect()
    }

    /// Skips assertions about opaque columns in MySQL's files.
    fn skip_opaque_assertions(&mut self, files: Range<usize>, first: usize) {
        self.in_postgres_words(files);
        // Other text is case-insensitive, which does not matter to a comparison with a constant.
        let unknown = self.declarations.properties.own_order.clone();
        let properties = ColumnProperties {
            own_equality: unknown,
            ..ColumnProperties::default()
        };
        let views = self.views();
        for at in first..self.declarations.places.len() {
            let place = &self.declarations.places[at];
            if let Some(why) = pgsql::unsupported_reason(self.words(at), &properties, &views) {
                let told = Diagnostic::unsupported(why, place.span());
                self.declarations.skipped.push((at, told));
            }
        }
    }

    /// PostgreSQL's files as the catalog loads them: statements other than declarations, and skipped ones, are blank;
    /// declarations that the parser does not have are replaced by such as it has.
    ///
    /// Of `files` only; their declarations are those from `first` on.
    fn edited(
        &mut self,
        files: Range<usize>,
        first: usize,
    ) -> (Vec<SourceFile>, Vec<Option<Translated>>) {
        let of = &self.declarations;
        let scripts = &self.files[files.clone()];
        let mut kept: Vec<Vec<bool>> = Vec::new();
        for file in scripts {
            kept.push(vec![false; file.text.len()]);
        }
        let mut edits: Vec<Vec<Edit>> = vec![Vec::new(); scripts.len()];
        let mut properties = of.properties.clone();
        let known = Definitions {
            types: &of.types,
            stamps: &of.stamps,
            relations: &of.relations,
        };
        for (at, place) in of.places.iter().enumerate().skip(first) {
            if of.is_skipped(at) {
                continue;
            }
            let file = place.file - files.start;
            // Its semicolon belongs to it.
            let text = &self.files[place.file].text;
            let end = text[place.range.end..].find(';').map_or(0, |n| n + 1);
            kept[file][place.range.start..place.range.end + end].fill(true);
            let dropped = |start: usize| {
                let mut parts = of.skipped_part_errors.iter().map(|(at, _)| &of.parts[*at]);
                parts.any(|(declaration, part)| *declaration == at && part.range.start == start)
            };
            let translation = self.translation(at, &dropped, |text, base, dropped| {
                pgsql::declaration(text, base, known, dropped, &mut properties)
            });
            edits[file].extend(translation.edits);
        }
        let mut declared = Vec::new();
        let mut translated = Vec::new();
        for ((file, kept), edits) in scripts.iter().zip(&kept).zip(&edits) {
            let mut text = blanked(&file.text, kept);
            translated.push(pgsql::edited(&mut text, edits));
            declared.push(SourceFile::new(file.name.clone(), text));
        }
        self.declarations.properties = properties;
        (declared, translated)
    }

    /// MySQL's files, with their declarations translated to PostgreSQL's SQL.
    fn in_postgres_words(
        &mut self,
        files: Range<usize>,
    ) -> (Vec<SourceFile>, Vec<Option<Translated>>) {
        let of = &self.declarations;
        let kept = || (0..of.places.len()).filter(|at| !of.is_skipped(*at));
        let mut properties = ColumnProperties {
            declared: kept()
                .filter_map(|at| mysql::declares(self.words(at)))
                .collect(),
            ..ColumnProperties::default()
        };
        let mut translated = vec![Some(Translated::default()); self.files.len()];
        for at in kept() {
            let place = &of.places[at];
            let renamed = of.renamed.get(&at);
            let base = if renamed.is_some() {
                0
            } else {
                place.range.start
            };
            let mut told = mysql::declaration(self.words(at), base, &mut properties);
            if let Some(renamed) = renamed {
                let in_file = |at: u32| u32::try_from(renamed.place(at as usize)).unwrap_or(at);
                told.places.iter_mut().for_each(|at| *at = in_file(*at));
            }
            if let Some(Some(of_file)) = translated.get_mut(place.file) {
                of_file.text.push_str(&told.text);
                of_file.places.extend(told.places);
            }
        }
        for (of_file, file) in translated.iter_mut().zip(&self.files) {
            let end = u32::try_from(file.text.len()).unwrap_or(u32::MAX);
            of_file.iter_mut().for_each(|t| t.places.push(end));
        }
        self.declarations.properties = properties;
        (
            self.files[files.clone()].to_vec(),
            translated[files].to_vec(),
        )
    }

    /// Rewrites declarations to the final names, and empties those that are dropped later.
    pub(super) fn apply_renames_and_drops(&mut self) {
        let places = self.declarations.places.iter();
        let texts = places.map(|place| (self.text(place), place.range.start));
        let texts: Vec<(&str, usize)> = texts.collect();
        self.declarations.renamed = renaming::renamed(&texts);
        let all = (0..self.declarations.places.len()).map(|at| self.words(at));
        for at in dropped::dropped(all) {
            let place = &self.declarations.places[at];
            let void = Renamed::void(self.text(place), place.range.start);
            self.declarations.renamed.insert(at, void);
        }
    }

    /// The text of a declaration, with the final names.
    fn words(&self, at: usize) -> &str {
        match self.declarations.renamed.get(&at) {
            Some(renamed) => &renamed.words.text,
            None => self.text(&self.declarations.places[at]),
        }
    }

    /// Translates a declaration with `read`, with the final names, and without the parts that begin at a place for
    /// which `dropped` holds. Places in the result are those in the file.
    fn translation(
        &self,
        at: usize,
        dropped: &dyn Fn(usize) -> bool,
        read: impl FnOnce(&str, usize, &dyn Fn(usize) -> bool) -> Translation,
    ) -> Translation {
        let base = self.declarations.places[at].range.start;
        let Some(renamed) = self.declarations.renamed.get(&at) else {
            return read(self.words(at), base, dropped);
        };
        let mut translation = read(&renamed.words.text, 0, &|at| dropped(renamed.place(at)));
        let in_file = |range: &mut Range<usize>| {
            *range = renamed.place(range.start)..renamed.place(range.end);
        };
        for edit in &mut translation.edits {
            in_file(&mut edit.range);
            edit.place = renamed.place(edit.place);
        }
        translation
            .parts
            .iter_mut()
            .for_each(|of| in_file(&mut of.range));
        translation
            .keys
            .iter_mut()
            .for_each(|(range, _)| in_file(range));
        translation
            .unknown_types
            .iter_mut()
            .for_each(|(range, _)| in_file(range));
        translation.beside(&renamed.edits);
        translation
    }

    pub(super) fn text(&self, place: &FileRange) -> &str {
        &self.files[place.file].text[place.range.clone()]
    }

    /// What is skipped or noted of the declarations, in the files from `first` on.
    pub(super) fn skipped_declarations(
        &self,
        base: &Application,
        first: usize,
    ) -> Vec<(FileRange, Skipped)> {
        let of = &self.declarations;
        let catalog = base.catalog();
        let undeclared = Undeclared::new(self.undeclared(), catalog);
        let mut told = Vec::new();
        for (at, diagnostic) in &of.skipped {
            let place = &of.places[*at];
            let meaning = unparsed::meaning(self.words(*at), catalog, &undeclared);
            let left = Skipped {
                transaction: undeclared::routine(self.words(*at)),
                ..Skipped::new(diagnostic.clone(), meaning)
            };
            told.push((place.clone(), left));
        }
        for (place, part, diagnostic) in of.skipped_parts() {
            let meaning = match part.kind {
                PartKind::Constraint => unparsed::meaning(&part.text, catalog, &undeclared),
                PartKind::OpaqueCheck => {
                    "it has no verdict; a transaction that writes the column checks the whole new value"
                        .to_owned()
                }
                PartKind::Default => {
                    format!("{} may be any value", part.text)
                }
            };
            let left = Skipped::new(diagnostic.clone(), meaning);
            let left = match part.kind {
                PartKind::Constraint => left,
                PartKind::OpaqueCheck | PartKind::Default => left.approximated(),
            };
            told.push((place, left));
        }
        // There are no notes on skipped parts.
        let gone = of.skipped.iter().map(|(at, _)| of.places[*at].clone());
        let gone: Vec<FileRange> = gone
            .chain(of.skipped_parts().map(|(place, ..)| place))
            .collect();
        let stays = |place: &FileRange| !gone.iter().any(|gone| gone.holds(place.span()));
        for (place, column) in of.keys.iter().filter(|(place, _)| stays(place)) {
            let message = format!("\"{column}\" has an equality of its own");
            let meaning =
                "to route by this key, write equal values in one form, for example in lower case";
            told.push(note(place, "01000", message, meaning));
        }
        for (place, name) in of.unknown_types.iter().filter(|(place, _)| stays(place)) {
            let message = format!("unknown type \"{name}\"");
            let meaning =
                "the analysis takes its columns for text, and derives nothing from their values";
            told.push(note(place, "42704", message, meaning));
        }
        told.retain(|(place, _)| place.file >= first);
        told
    }

    /// Opaque expressions in what was analysed, in the files from `first` on.
    pub(super) fn opaque_expressions(
        &self,
        application: &Application,
        known: &[(TransactionSource, Procedure)],
        first: usize,
    ) -> Vec<(FileRange, Skipped)> {
        let of = &self.declarations;
        let opaque = application.catalog().opaque.as_ref();
        let told = opaque
            .map(OpaqueExpressions::diagnostics)
            .unwrap_or_default();
        let is_there = |span: Span| {
            let mut places = of.places.iter().enumerate();
            places.any(|(at, place)| !of.is_skipped(at) && place.holds(span))
                || known.iter().any(|(written, _)| written.holds(span))
        };
        let mut left = Vec::new();
        for diagnostic in told {
            let Some(span) = diagnostic.span.filter(|span| is_there(*span)) else {
                continue;
            };
            let file = usize::from(span.file);
            if file < first {
                continue;
            }
            let range = span.start as usize..span.end as usize;
            let meaning = "the analysis assumes that it may be any value";
            let told = Skipped::new(diagnostic, meaning).approximated();
            left.push((FileRange { file, range }, told));
        }
        left
    }

    /// The skipped procedures and functions, in the files from `first` on.
    pub(super) fn routines(&self, first: usize) -> Vec<Unparsed> {
        let of = &self.declarations;
        let dropped = of.skipped.iter();
        dropped
            .filter(|(at, _)| of.places[*at].file >= first)
            .filter_map(|(at, diagnostic)| {
                let place = &of.places[*at];
                let name = undeclared::routine(self.text(place))?;
                Some(Unparsed {
                    name,
                    span: place.span(),
                    reason: diagnostic.message.clone(),
                    statements: vec![unparsed::StatementText::whole(self.text(place))],
                    whole: true,
                })
            })
            .collect()
    }

    /// The texts of all skipped declarations, with skipped parts as declarations of their own.
    pub(super) fn undeclared(&self) -> Vec<&str> {
        let of = &self.declarations;
        let dropped = of.skipped.iter().map(|(at, _)| self.words(*at));
        let parts = of
            .skipped_parts()
            .filter(|(_, part, _)| part.kind == PartKind::Constraint);
        dropped
            .chain(parts.map(|(_, part, _)| part.text.as_str()))
            .collect()
    }
}

/// A note on a declaration that is not skipped.
fn note(
    place: &FileRange,
    code: &'static str,
    message: String,
    meaning: &str,
) -> (FileRange, Skipped) {
    let left = Skipped::new(Diagnostic::new(code, message, place.span()), meaning);
    (place.clone(), left.approximated())
}

/// The text with blanks in the place of all bytes that are not kept; comments stay.
fn blanked(text: &str, kept: &[bool]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut comment = false;
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        comment = !kept[at] && c != '\n' && (comment || rest.starts_with("--"));
        if kept[at] || comment || c.is_whitespace() {
            out.push(c);
        } else {
            out.extend(std::iter::repeat_n(' ', c.len_utf8()));
        }
    }
    out
}
