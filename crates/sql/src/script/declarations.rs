//! What files declare, as far as it can be read: what cannot is left out, as small as it can be, and told.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{
    LeftOut, Place, Reader, Written, dropped,
    lost::{self, Lost},
    mysql,
    peculiar::Peculiar,
    pgsql::{self, Edit, Known, Part, PartKind, Reading, Relations, Stamp, Types},
    renaming::{self, Renamed},
    tokens::Translated,
    unknown::{self, Unknown},
};
use crate::{
    application::Application,
    bind::unknown::Tolerance,
    catalog::{Procedure, load_beside, load_translated},
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
};

/// The declarations of files, and which of them are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Declarations {
    places: Vec<Place>,
    /// Those that name what is called otherwise at the end, in these names; those that are dropped, as nothing.
    renamed: BTreeMap<usize, Renamed>,
    /// Which of them are left out, and why.
    dropped: Vec<(usize, Diagnostic)>,
    /// What may be left out of the others: of which declaration it is part.
    parts: Vec<(usize, Part)>,
    /// Which of these are left out, and why.
    dropped_parts: Vec<(usize, Diagnostic)>,
    /// Keys with columns whose values are equal in a way of their own.
    keys: Vec<(Place, String)>,
    /// Types that nobody declares, each at its first place.
    strange: Vec<(Place, String)>,
    /// What was wrong at first.
    first: Vec<Diagnostic>,
    pub(super) types: Types,
    /// Functions of triggers that set columns to the time.
    stamps: Vec<Stamp>,
    relations: Relations,
    pub(super) peculiar: Peculiar,
    /// Whether they are MySQL's.
    pub(super) is_mysql: bool,
}

/// What there is when more is read.
pub(super) struct Since<'s> {
    pub(super) application: &'s Application,
    /// The number of the file that is read now.
    pub(super) file: usize,
    /// The first of its declarations.
    pub(super) place: usize,
    /// The number of its first statement.
    pub(super) first_statement: u32,
}

impl Declarations {
    pub(super) fn new(places: Vec<Place>, is_mysql: bool) -> Declarations {
        Declarations {
            places,
            is_mysql,
            ..Declarations::default()
        }
    }

    /// Adds the declarations of one more file; the number of the first.
    pub(super) fn add(&mut self, places: impl Iterator<Item = Place>) -> usize {
        let first = self.places.len();
        self.places.extend(places);
        first
    }

    fn is_dropped(&self, declaration: usize) -> bool {
        self.dropped.iter().any(|(at, _)| *at == declaration)
    }

    fn is_dropped_part(&self, part: usize) -> bool {
        self.dropped_parts.iter().any(|(at, _)| *at == part)
    }

    fn part_place(&self, part: usize) -> Place {
        let (declaration, part) = &self.parts[part];
        Place {
            file: self.places[*declaration].file,
            range: part.range.clone(),
        }
    }

    /// Leaves out whatever is smallest that a problem is in; whether there is any.
    fn drop(&mut self, problem: &Diagnostic) -> bool {
        let of_it = |place: &Place| problem.span.is_some_and(|span| place.holds(span));
        let parts = (0..self.parts.len()).filter(|at| {
            let is_there = !self.is_dropped_part(*at) && !self.is_dropped(self.parts[*at].0);
            is_there && of_it(&self.part_place(*at))
        });
        if let Some(at) = parts.min_by_key(|at| self.parts[*at].1.range.len()) {
            // All that a type says of its column stands at one place.
            let place = self.part_place(at);
            let same = (0..self.parts.len()).filter(|at| self.part_place(*at) == place);
            let same: Vec<usize> = same.collect();
            let told = same.into_iter().map(|at| (at, problem.clone()));
            self.dropped_parts.extend(told);
            return true;
        }
        let found = self.places.iter().position(of_it);
        let found = found.filter(|at| !self.is_dropped(*at));
        self.dropped.extend(found.map(|at| (at, problem.clone())));
        found.is_some()
    }

    /// Parts that are left out of declarations that are not.
    fn lost_parts(&self) -> impl Iterator<Item = (Place, &Part, &Diagnostic)> {
        let dropped = self.dropped_parts.iter();
        let there = dropped.filter(|(at, _)| !self.is_dropped(self.parts[*at].0));
        there.map(|(at, diagnostic)| (self.part_place(*at), &self.parts[*at].1, diagnostic))
    }
}

impl Reader {
    /// What is declared, as far as it can be read: by all files, or by one more.
    pub(super) fn base(
        &mut self,
        since: Option<&Since<'_>>,
    ) -> Result<Application, Vec<Diagnostic>> {
        let (files, first) = match since {
            None => (0..self.scripts, 0),
            Some(since) => (since.file..since.file + 1, since.place),
        };
        match self.declarations.is_mysql {
            false => self.look_for_peculiar(first),
            true => self.look_for_asserted(files.clone(), first),
        }
        loop {
            let (declared, translated) = match self.declarations.is_mysql {
                true => self.in_postgres_words(files.clone()),
                false => self.edited(files.clone(), first),
            };
            let loaded = match since {
                None => load_translated(declared, &translated),
                Some(since) => load_beside(
                    since.application.catalog(),
                    since.file,
                    &declared,
                    &translated,
                ),
            };
            let loaded = loaded.and_then(|mut catalog| {
                catalog.files.clone_from(&self.files);
                let lost = self.lost();
                let declared = catalog.procedures.iter().map(|p| p.name.clone());
                let lost = lost.iter().filter_map(|text| lost::routine(text));
                let routines: Vec<String> = declared.chain(lost).collect();
                catalog.tolerance = Some(Tolerance::but(routines));
                match since {
                    None => Application::compile(catalog),
                    Some(since) => since.application.extended(catalog, since.first_statement),
                }
            });
            let problems = match loaded {
                Ok(application) => {
                    let catalog = application.catalog();
                    // A program may have its tables declared elsewhere, and is looked at all the same.
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
                fewer |= self.declarations.drop(problem);
            }
            if !fewer {
                return Err(problems);
            }
        }
    }

    /// What PostgreSQL's files have that there are no words for here: types, columns of types that are not known, and
    /// what cannot be understood because of them.
    ///
    /// Looks at the declarations from `first` on; those before it have been looked at.
    fn look_for_peculiar(&mut self, first: usize) {
        let texts = (0..self.declarations.places.len()).map(|at| self.words(at));
        let views = self.views();
        let stamps = pgsql::all_stamps(texts.clone());
        let relations = Relations::of(texts.clone());
        let types = Types::of(texts);
        let known = Known {
            types: &types,
            stamps: &stamps,
            relations: &relations,
        };
        let mut peculiar = self.declarations.peculiar.clone();
        let none = |_: usize| false;
        for at in first..self.declarations.places.len() {
            self.reading(at, &none, |text, base, dropped| {
                pgsql::looked_at(text, base, known, dropped, &mut peculiar)
            });
        }
        let (mut parts, mut keys, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
        let mut strange = self.declarations.strange.clone();
        for (at, place) in self.declarations.places.iter().enumerate().skip(first) {
            let reading = self.reading(at, &none, |text, base, dropped| {
                pgsql::looked_at(text, base, known, dropped, &mut peculiar)
            });
            parts.extend(reading.parts.into_iter().map(|part| (at, part)));
            keys.extend(reading.keys.into_iter().map(|(range, column)| {
                let file = place.file;
                (Place { file, range }, column)
            }));
            for (range, name) in reading.strange {
                if strange.iter().all(|(_, known)| *known != name) {
                    let file = place.file;
                    strange.push((Place { file, range }, name));
                }
            }
            let renamed = self.declarations.renamed.get(&at);
            let why = renamed.and_then(|renamed| renamed.why.clone());
            let why = why.or_else(|| pgsql::beyond(self.words(at), &peculiar, &views));
            if let Some(why) = why {
                dropped.push((at, Diagnostic::unsupported(why, place.span())));
            }
        }
        let of = &mut self.declarations;
        (of.types, of.stamps, of.relations) = (types, stamps, relations);
        (of.peculiar, of.strange) = (peculiar, strange);
        of.keys.extend(keys);
        of.dropped.extend(dropped);
        let first_part = of.parts.len();
        of.parts.extend(parts);
        for at in first_part..of.parts.len() {
            if let Some(why) = &of.parts[at].1.why {
                let told = Diagnostic::unsupported(why.as_str(), of.part_place(at).span());
                of.dropped_parts.push((at, told));
            }
        }
    }

    /// The views that are declared.
    fn views(&self) -> Vec<pgsql::View> {
        let all = 0..self.declarations.places.len();
        all.filter_map(|at| pgsql::view(self.words(at))).collect()
    }

    /// Assertions about columns of MySQL's of whose values nothing is known.
    fn look_for_asserted(&mut self, files: Range<usize>, first: usize) {
        self.in_postgres_words(files);
        // Other text is compared without regard to case, which is no matter to a constant.
        let unknown = self.declarations.peculiar.ordered_otherwise.clone();
        let peculiar = Peculiar {
            equal_otherwise: unknown,
            ..Peculiar::default()
        };
        let views = self.views();
        for at in first..self.declarations.places.len() {
            let place = &self.declarations.places[at];
            if let Some(why) = pgsql::beyond(self.words(at), &peculiar, &views) {
                let told = Diagnostic::unsupported(why, place.span());
                self.declarations.dropped.push((at, told));
            }
        }
    }

    /// The files with blanks in the place of what declares nothing, or is left out, and with other words where there
    /// are none here for what is declared.
    ///
    /// Of `files` only, whose declarations are those from `first` on.
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
        let mut peculiar = of.peculiar.clone();
        let known = Known {
            types: &of.types,
            stamps: &of.stamps,
            relations: &of.relations,
        };
        for (at, place) in of.places.iter().enumerate().skip(first) {
            if of.is_dropped(at) {
                continue;
            }
            let file = place.file - files.start;
            // Its semicolon and the comments above it belong to it.
            let text = &self.files[place.file].text;
            let end = text[place.range.end..].find(';').map_or(0, |n| n + 1);
            kept[file][place.range.start..place.range.end + end].fill(true);
            let dropped = |start: usize| {
                let mut parts = of.dropped_parts.iter().map(|(at, _)| &of.parts[*at]);
                parts.any(|(declaration, part)| *declaration == at && part.range.start == start)
            };
            let reading = self.reading(at, &dropped, |text, base, dropped| {
                pgsql::declaration(text, base, known, dropped, &mut peculiar)
            });
            edits[file].extend(reading.edits);
        }
        let mut declared = Vec::new();
        let mut translated = Vec::new();
        for ((file, kept), edits) in scripts.iter().zip(&kept).zip(&edits) {
            let mut text = blanked(&file.text, kept);
            translated.push(pgsql::edited(&mut text, edits));
            declared.push(SourceFile::new(file.name.clone(), text));
        }
        self.declarations.peculiar = peculiar;
        (declared, translated)
    }

    /// The files, and what they declare in PostgreSQL's words.
    fn in_postgres_words(
        &mut self,
        files: Range<usize>,
    ) -> (Vec<SourceFile>, Vec<Option<Translated>>) {
        let of = &self.declarations;
        let kept = || (0..of.places.len()).filter(|at| !of.is_dropped(*at));
        let mut peculiar = Peculiar {
            declared: kept()
                .filter_map(|at| mysql::declares(self.words(at)))
                .collect(),
            ..Peculiar::default()
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
            let mut told = mysql::declaration(self.words(at), base, &mut peculiar);
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
        self.declarations.peculiar = peculiar;
        (
            self.files[files.clone()].to_vec(),
            translated[files].to_vec(),
        )
    }

    /// Finds the declarations that name what is called otherwise at the end, or that are dropped.
    pub(super) fn follow_changes(&mut self) {
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

    /// What a declaration says, in the names that things have at the end.
    fn words(&self, at: usize) -> &str {
        match self.declarations.renamed.get(&at) {
            Some(renamed) => &renamed.words.text,
            None => self.text(&self.declarations.places[at]),
        }
    }

    /// How a declaration is read in the names that things have at the end, without those of its parts that begin in the
    /// file where `dropped` says.
    fn reading(
        &self,
        at: usize,
        dropped: &dyn Fn(usize) -> bool,
        read: impl FnOnce(&str, usize, &dyn Fn(usize) -> bool) -> Reading,
    ) -> Reading {
        let base = self.declarations.places[at].range.start;
        let Some(renamed) = self.declarations.renamed.get(&at) else {
            return read(self.words(at), base, dropped);
        };
        let mut reading = read(&renamed.words.text, 0, &|at| dropped(renamed.place(at)));
        let in_file = |range: &mut Range<usize>| {
            *range = renamed.place(range.start)..renamed.place(range.end);
        };
        for edit in &mut reading.edits {
            in_file(&mut edit.range);
            edit.place = renamed.place(edit.place);
        }
        reading
            .parts
            .iter_mut()
            .for_each(|of| in_file(&mut of.range));
        reading
            .keys
            .iter_mut()
            .for_each(|(range, _)| in_file(range));
        reading
            .strange
            .iter_mut()
            .for_each(|(range, _)| in_file(range));
        reading.beside(&renamed.edits);
        reading
    }

    pub(super) fn text(&self, place: &Place) -> &str {
        &self.files[place.file].text[place.range.clone()]
    }

    /// What is left out of the declarations of the files from `first` on.
    pub(super) fn told(&self, base: &Application, first: usize) -> Vec<(Place, LeftOut)> {
        let of = &self.declarations;
        let catalog = base.catalog();
        let lost = Lost::new(self.lost(), catalog);
        let mut told = Vec::new();
        for (at, diagnostic) in &of.dropped {
            let place = &of.places[*at];
            let left = LeftOut {
                diagnostic: diagnostic.clone(),
                meaning: unknown::meaning(self.words(*at), catalog, &lost),
                transaction: lost::routine(self.words(*at)),
            };
            told.push((place.clone(), left));
        }
        for (place, part, diagnostic) in of.lost_parts() {
            let meaning = match part.kind {
                PartKind::Constraint => unknown::meaning(&part.text, catalog, &lost),
                PartKind::OfRegister => {
                    "it has no verdict; who writes the column checks all of its new value"
                        .to_owned()
                }
                PartKind::Default => {
                    format!("{} may be any value", part.text)
                }
            };
            let left = LeftOut {
                diagnostic: diagnostic.clone(),
                meaning,
                transaction: None,
            };
            told.push((place, left));
        }
        // Of what is left out no more is told.
        let gone = of.dropped.iter().map(|(at, _)| of.places[*at].clone());
        let gone: Vec<Place> = gone
            .chain(of.lost_parts().map(|(place, ..)| place))
            .collect();
        let stays = |place: &Place| !gone.iter().any(|gone| gone.holds(place.span()));
        for (place, column) in of.keys.iter().filter(|(place, _)| stays(place)) {
            let message = format!("\"{column}\" is compared in a way of its own");
            let meaning = "who routes by it has to write equal values alike, as in lower case";
            told.push(note(place, "01000", message, meaning));
        }
        for (place, name) in of.strange.iter().filter(|(place, _)| stays(place)) {
            let message = format!("type \"{name}\" is not known");
            let meaning = "its columns are taken to be text of whose values nothing is known";
            told.push(note(place, "42704", message, meaning));
        }
        told.retain(|(place, _)| place.file >= first);
        told
    }

    /// Expressions that are not understood, of what is, in the files from `first` on.
    pub(super) fn not_understood(
        &self,
        application: &Application,
        known: &[(Written, Procedure)],
        first: usize,
    ) -> Vec<(Place, LeftOut)> {
        let of = &self.declarations;
        let tolerance = application.catalog().tolerance.as_ref();
        let told = tolerance.map(Tolerance::told).unwrap_or_default();
        let is_there = |span: Span| {
            let mut places = of.places.iter().enumerate();
            places.any(|(at, place)| !of.is_dropped(at) && place.holds(span))
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
            let meaning = "what it comes to is taken to be any value".to_owned();
            let told = LeftOut {
                diagnostic,
                meaning,
                transaction: None,
            };
            left.push((Place { file, range }, told));
        }
        left
    }

    /// Procedures and functions that are left out of the files from `first` on.
    pub(super) fn routines(&self, first: usize) -> Vec<Unknown> {
        let of = &self.declarations;
        let dropped = of.dropped.iter();
        dropped
            .filter(|(at, _)| of.places[*at].file >= first)
            .filter_map(|(at, diagnostic)| {
                let place = &of.places[*at];
                let name = lost::routine(self.text(place))?;
                Some(Unknown {
                    name,
                    span: place.span(),
                    reason: diagnostic.message.clone(),
                    statements: vec![unknown::Text::whole(self.text(place))],
                    whole: true,
                })
            })
            .collect()
    }

    /// The texts of all that is left out, parts as declarations of their own.
    pub(super) fn lost(&self) -> Vec<&str> {
        let of = &self.declarations;
        let dropped = of.dropped.iter().map(|(at, _)| self.words(*at));
        let parts = of
            .lost_parts()
            .filter(|(_, part, _)| part.kind == PartKind::Constraint);
        dropped
            .chain(parts.map(|(_, part, _)| part.text.as_str()))
            .collect()
    }
}

/// What is told of something that stays.
fn note(place: &Place, code: &'static str, message: String, meaning: &str) -> (Place, LeftOut) {
    let left = LeftOut {
        diagnostic: Diagnostic::new(code, message, place.span()),
        meaning: meaning.to_owned(),
        transaction: None,
    };
    (place.clone(), left)
}

/// A text with blanks in the place of what is not kept, comments apart.
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
