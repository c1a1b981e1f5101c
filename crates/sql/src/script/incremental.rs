//! Incremental reading: adds the routines and transactions of one more file to a [`Script`].

use super::{
    FileRange, Reader, Script, Skipped, TransactionSource, declarations::Existing, group::group,
    in_order, mysql, numbers, scan::words, undeclared, unparsed::Unparsed,
};
use crate::{diagnostic::Diagnostic, source::SourceFile};

impl Script {
    /// Reads one more file of routines and transactions, at the cost of that file alone, and returns the names of its
    /// transaction types. A name that is taken gets a number.
    ///
    /// The earlier files are not read again: what was skipped there stays skipped, so a type that called a routine
    /// which was missing stays unknown even if this file declares it.
    ///
    /// # Errors
    /// The problems in the file, if nothing remains to be analysed without the statements that have them; or that it
    /// declares something other than new routines, and all files have to be read again. Places in these errors name
    /// the file by the next free number. The script is unchanged.
    pub fn add_file(&mut self, file: SourceFile) -> Result<Vec<String>, Vec<Diagnostic>> {
        let mut reader = self.reader.clone();
        let is_mysql = reader.declarations.is_mysql;
        let file = match is_mysql {
            true => SourceFile {
                text: mysql::normalise(&file.text).into(),
                ..file
            },
            false => file,
        };
        let number = reader.files.len();
        let grouped = group(&file, &mut reader.taken);
        reader.files.push(file);
        let place = |range| FileRange {
            file: number,
            range,
        };
        for range in &grouped.declarations {
            self.adds_only(&reader, &place(range.clone()))?;
        }
        let declared = grouped.declarations.into_iter().map(place);
        let first_place = reader.declarations.add(declared);
        let groups = grouped.groups.into_iter();
        let written = groups.map(|group| TransactionSource::Script {
            file: number,
            group,
        });
        let written: Vec<TransactionSource> = written.collect();
        let has_clients = self.has_clients || !written.is_empty();
        let first_statement = numbers(&self.summaries);
        let existing = Existing {
            application: &self.application,
            file: number,
            place: first_place,
            first_statement,
        };
        let base = reader.base(Some(&existing))?;
        let mut skipped: Vec<(FileRange, Skipped)> = reader.skipped_declarations(&base, number);
        let routines = reader.routines(number);
        let read = reader.transactions(base, written, first_statement)?;
        let unknown: Vec<Unparsed> = routines.into_iter().chain(read.unknown).collect();
        let there = self.application.summaries().len();
        let summaries = read.application.summaries()[there..].to_vec();
        let mut next = numbers(&summaries).max(first_statement);
        let mut joined = reader.summaries(
            summaries,
            &read.application,
            (&read.known, &unknown),
            &mut next,
        );
        skipped.extend(read.skipped);
        skipped.extend(reader.opaque_expressions(&read.application, &read.known, number));
        let names = joined.iter().map(|summary| summary.name.clone()).collect();
        let skipped = in_order(skipped, &joined);
        // Types that were not analysed stay last.
        let behind = joined.split_off(read.application.summaries().len() - there);
        self.summaries.splice(there..there, joined);
        self.summaries.extend(behind);
        self.has_clients = has_clients;
        self.skipped.extend(skipped);
        self.clients.extend(read.clients);
        self.application = read.application;
        self.reader = reader;
        Ok(names)
    }

    /// Checks that a declaration adds a routine, or changes nothing.
    fn adds_only(&self, reader: &Reader, place: &FileRange) -> Result<(), Vec<Diagnostic>> {
        const HARMLESS: [&str; 5] = ["comment", "grant", "revoke", "set", "reset"];
        let text = reader.text(place);
        let message = match undeclared::routine(text) {
            None if words(text)
                .next()
                .is_some_and(|word| HARMLESS.iter().any(|one| one.eq_ignore_ascii_case(&word))) =>
            {
                return Ok(());
            }
            None => "this declares something other than a routine".to_owned(),
            Some(name) if self.summaries.iter().all(|of| of.name != name) => return Ok(()),
            Some(name) => format!("\"{name}\" exists already"),
        };
        let told = Diagnostic::new("55000", message, place.span());
        Err(vec![told.help("read all files again, with this one")])
    }
}
