//! Transaction types that join an application that has been read.

use super::{
    LeftOut, Place, Reader, Script, Written, declarations::Since, group::group, in_order, lost,
    mysql, numbers, scan::words, unknown::Unknown,
};
use crate::{diagnostic::Diagnostic, source::SourceFile};

impl Script {
    /// Reads one more file, of routines and transactions, beside what is there: which costs what that file costs, and
    /// not what the application did. What the files before it declare stays as it is, and so does what is left out of
    /// them: a type that called a routine that was not there stays unknown. Gives the names of the types that joined;
    /// a name that is taken gets a number.
    ///
    /// # Errors
    /// What is wrong with the file, where nothing is left without it, or that it declares more than new routines: then
    /// all has to be read again. Places are in a file of its own, one behind those there are. The script stays as it
    /// was.
    pub fn join(&mut self, file: SourceFile) -> Result<Vec<String>, Vec<Diagnostic>> {
        let mut reader = self.reader.clone();
        let is_mysql = reader.declarations.is_mysql;
        let file = match is_mysql {
            true => SourceFile {
                text: mysql::plain(&file.text).into(),
                ..file
            },
            false => file,
        };
        let number = reader.files.len();
        let grouped = group(&file, &mut reader.taken);
        reader.files.push(file);
        let place = |range| Place {
            file: number,
            range,
        };
        for range in &grouped.declarations {
            self.adds_only(&reader, &place(range.clone()))?;
        }
        let declared = grouped.declarations.into_iter().map(place);
        let first_place = reader.declarations.add(declared);
        let groups = grouped.groups.into_iter();
        let written = groups.map(|group| Written::Script {
            file: number,
            group,
        });
        let written: Vec<Written> = written.collect();
        let has_clients = self.has_clients || !written.is_empty();
        let first_statement = numbers(&self.summaries);
        let since = Since {
            application: &self.application,
            file: number,
            place: first_place,
            first_statement,
        };
        let base = reader.base(Some(&since))?;
        let mut left_out: Vec<(Place, LeftOut)> = reader.told(&base, number);
        let routines = reader.routines(number);
        let read = reader.transactions(base, written, first_statement)?;
        let unknown: Vec<Unknown> = routines.into_iter().chain(read.unknown).collect();
        let there = self.application.summaries().len();
        let summaries = read.application.summaries()[there..].to_vec();
        let mut next = numbers(&summaries).max(first_statement);
        let mut joined = reader.summaries(
            summaries,
            &read.application,
            (&read.known, &unknown),
            &mut next,
        );
        left_out.extend(read.left_out);
        left_out.extend(reader.not_understood(&read.application, &read.known, number));
        let names = joined.iter().map(|summary| summary.name.clone()).collect();
        let left_out = in_order(left_out, &joined);
        // Those that are not understood stay behind the others.
        let behind = joined.split_off(read.application.summaries().len() - there);
        self.summaries.splice(there..there, joined);
        self.summaries.extend(behind);
        self.has_clients = has_clients;
        self.left_out.extend(left_out);
        self.application = read.application;
        self.reader = reader;
        Ok(names)
    }

    /// Whether a declaration adds a routine, or changes nothing.
    fn adds_only(&self, reader: &Reader, place: &Place) -> Result<(), Vec<Diagnostic>> {
        const HARMLESS: [&str; 5] = ["comment", "grant", "revoke", "set", "reset"];
        let text = reader.text(place);
        let message = match lost::routine(text) {
            None if words(text)
                .next()
                .is_some_and(|word| HARMLESS.iter().any(|one| one.eq_ignore_ascii_case(&word))) =>
            {
                return Ok(());
            }
            None => "this declares something else than a routine".to_owned(),
            Some(name) if self.summaries.iter().all(|of| of.name != name) => return Ok(()),
            Some(name) => format!("\"{name}\" exists already"),
        };
        let told = Diagnostic::new("55000", message, place.span());
        Err(vec![told.help("read all files again, with this one")])
    }
}
