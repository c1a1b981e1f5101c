//! Queries by text, which may be of several statements.

use anabranch_wire::ErrorFields;
use anabranch_wire::relay::{Frame, Frames};
use anabranch_wire::{Format, Formats, Request};
use postgres_protocol::message::frontend;

use super::unit::Unit;
use super::{End, Failure, Run, Session};
use crate::command::{self, Command};
use crate::lex::{self, TokenKind};
use crate::recognise::{Arguments, Statement};

/// The message of a query with this text.
fn query(text: &str) -> Option<Frame> {
    let mut frames = Frames::new(usize::MAX);
    frontend::query(text, frames.buffer()).ok()?;
    frames.next_frame().ok().flatten()
}

/// The values of `EXECUTE name (1, 'a')`, which have to be constants.
pub(super) fn executed_values(text: &str) -> Option<Vec<Option<bytes::Bytes>>> {
    let tokens = lex::tokens(text).ok()?;
    let open = match tokens.iter().position(|t| t.is_symbol(text, '(')) {
        None => return Some(Vec::new()),
        Some(open) => open,
    };
    let mut values = Vec::new();
    let mut minus = false;
    // Values have commas between them.
    let mut separated = true;
    for token in &tokens[open + 1..] {
        let word = token.text(text);
        let is_value = matches!(
            token.kind,
            TokenKind::Number | TokenKind::Text | TokenKind::Word
        );
        if is_value && !std::mem::replace(&mut separated, false) {
            return None;
        }
        match token.kind {
            TokenKind::Comment => {}
            TokenKind::Symbol if word == ")" => return Some(values),
            TokenKind::Symbol if word == "," => (minus, separated) = (false, true),
            TokenKind::Symbol if word == "-" => minus = true,
            TokenKind::Number => {
                let sign = if minus { "-" } else { "" };
                values.push(Some(format!("{sign}{word}").into()));
            }
            TokenKind::Text if word.starts_with('\'') => {
                let inner = &word[1..word.len() - 1];
                values.push(Some(inner.replace("''", "'").into()));
            }
            TokenKind::Word if word.eq_ignore_ascii_case("null") => values.push(None),
            TokenKind::Word if word.eq_ignore_ascii_case("true") => values.push(Some("t".into())),
            TokenKind::Word if word.eq_ignore_ascii_case("false") => values.push(Some("f".into())),
            _ => return None,
        }
    }
    None
}

/// Whether a statement does not run again with its transaction: what it does outlives that.
pub(super) fn runs_once(command: &Command, text: &str) -> bool {
    match command {
        Command::Draw => true,
        Command::Setting => begins_with(text, "prepare") || begins_with(text, "deallocate"),
        _ => false,
    }
}

/// Whether a word, in lower case, is the first one of a statement.
fn begins_with(text: &str, word: &str) -> bool {
    let tokens = lex::tokens(text).unwrap_or_default();
    let mut tokens = tokens
        .iter()
        .filter(|t| !matches!(t.kind, TokenKind::Comment | TokenKind::Semicolon));
    tokens.next().is_some_and(|token| token.is(text, word))
}

impl Session {
    /// Runs a query's statements. The caller says that it is ready.
    pub(super) fn simple(&mut self, frame: &Frame) -> Result<(), End> {
        let text = match frame.request() {
            Ok(Request::Query { text }) => text,
            Ok(_) => return Ok(()),
            Err(error) => return self.fail(ErrorFields::from(error).into()),
        };
        let tokens = match lex::tokens(&text) {
            Ok(tokens) => tokens,
            Err(error) => {
                if let Some(block) = &mut self.block {
                    block.has_failed = true;
                }
                return self.fail(ErrorFields::error("42601", error.to_string()).into());
            }
        };
        let ranges = lex::statements(&text, &tokens);
        let commands: Vec<Command> = ranges
            .iter()
            .map(|range| command::command(&text[range.clone()]).unwrap_or(Command::Statement))
            .collect();
        if ranges.is_empty() {
            self.client.answers().letter(b'I');
            return Ok(());
        }
        if commands.iter().all(|c| *c == Command::Statement) {
            let statements: Vec<(Statement, &str)> = ranges
                .iter()
                .map(|range| &text[range.clone()])
                .map(|text| (self.shared.recogniser.read(text), text))
                .collect();
            let runs: Vec<Run<'_>> = statements
                .iter()
                .map(|(statement, text)| Run {
                    statement,
                    arguments: Arguments::NONE,
                    text,
                })
                .collect();
            let done = self.run_within(&Unit::of_query(frame.clone()), &runs, false);
            return self.ended(done).map(drop);
        }
        let several = ranges.len() > 1;
        for (range, command) in ranges.into_iter().zip(&commands) {
            if !self.one(command, &text[range], several)? {
                break;
            }
        }
        if self.block.as_ref().is_some_and(|block| block.is_implicit) {
            self.end_implicit()?;
        }
        Ok(())
    }

    /// Ends the transaction that a query, or a pipeline, is.
    pub(super) fn end_implicit(&mut self) -> Result<bool, End> {
        match self.commit() {
            Ok(_) => Ok(true),
            Err(failure) => {
                self.fail(failure)?;
                Ok(false)
            }
        }
    }

    /// Notes how a unit has ended.
    pub(super) fn ended(&mut self, done: Result<bool, Failure>) -> Result<bool, End> {
        match done {
            Ok(fine) => Ok(fine),
            Err(failure) => {
                if let Some(block) = &mut self.block {
                    block.has_failed = true;
                }
                self.fail(failure)?;
                Ok(false)
            }
        }
    }

    /// Runs one statement of a query. Returns whether it succeeded.
    fn one(&mut self, command: &Command, text: &str, of_several: bool) -> Result<bool, End> {
        let mut arguments_of = None;
        let read = match command {
            Command::Statement => Some(text.to_owned()),
            Command::Declare(range) => Some(text[range.clone()].to_owned()),
            Command::Execute(name) => match self.prepared_by_sql.get(name) {
                Some(prepared) => {
                    arguments_of = Some(executed_values(text));
                    Some(prepared.clone())
                }
                None => {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    let error = ErrorFields::error("26000", message).with_hint(
                        "EXECUTE runs what was prepared by PREPARE, on this connection.",
                    );
                    return self.ended(Err(error.into()));
                }
            },
            Command::Local
            | Command::Draw
            | Command::WithinTransaction
            | Command::RollbackTo
            | Command::Setting
            | Command::ResetsAll => None,
            _ => return self.command(command, text),
        };
        let values = match arguments_of {
            None => Vec::new(),
            Some(Some(values)) => values,
            Some(None) => {
                let error = ErrorFields::error(
                    "0A000",
                    "EXECUTE with values that are not constants is not supported by the belt's middleware",
                )
                .with_hint("Write constants, or use the extended protocol.");
                return self.ended(Err(error.into()));
            }
        };
        let formats = Formats::All(Format::Text);
        let arguments = Arguments {
            types: &[],
            formats: &formats,
            values: &values,
        };
        let statement = read.map(|read| self.shared.recogniser.read(&read));
        let runs: Vec<Run<'_>> = statement
            .iter()
            .map(|statement| Run {
                statement,
                arguments,
                text,
            })
            .collect();
        if of_several && !runs.is_empty() {
            self.open_implicit();
        }
        if let Command::ResetsAll = command {
            if self.block.is_some() {
                let error = ErrorFields::error(
                    "25001",
                    format!("{text} cannot run inside a transaction block"),
                );
                return self.ended(Err(error.into()));
            }
            let done = self.reset_all(text);
            let fine = self.ended(done)?;
            if fine {
                self.note_setting(command, text);
            }
            return Ok(fine);
        }
        let Some(frame) = query(text) else {
            return Ok(true);
        };
        let unit = Unit::of_query(frame).once(runs_once(command, text));
        let recovers = matches!(command, Command::RollbackTo);
        let done = self.run_within(&unit, &runs, recovers);
        let fine = self.ended(done)?;
        if fine && matches!(command, Command::Setting) {
            self.keep_setting(command, text);
        }
        Ok(fine)
    }

    /// What was set is kept at once, or when the transaction commits. What was prepared stays in any case.
    pub(super) fn keep_setting(&mut self, command: &Command, text: &str) {
        if begins_with(text, "prepare") {
            self.note_prepare(text);
        }
        match &mut self.block {
            Some(block) => block.settings.push((command.clone(), text.to_owned())),
            None => self.note_setting(command, text),
        }
    }

    /// DISCARD and RESET ALL: the middleware's own settings are made again.
    fn reset_all(&mut self, text: &str) -> Result<bool, Failure> {
        // DISCARD ALL runs by itself.
        let mut done = Ok(());
        let own = self.shared.options.statements;
        for statements in [text, own.settings, own.checks] {
            if done.is_ok() {
                done = self.home.run(statements).map_err(End::Home)?;
            }
        }
        match done {
            Ok(()) => {
                let tag: Vec<&str> = text.split_whitespace().take(2).collect();
                let tag = match tag[..] {
                    [first, ..] if first.eq_ignore_ascii_case("reset") => "RESET".to_owned(),
                    _ => tag.join(" ").to_uppercase(),
                };
                self.client.answers().command_complete(&tag);
                Ok(true)
            }
            Err(error) => Err(super::block::of_server(&error)),
        }
    }
}

/// The text of a message as bytes, for tests.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_execute_are_constants() {
        let values = |text: &str| {
            executed_values(text).map(|values| {
                values
                    .into_iter()
                    .map(|v| v.map(|v| String::from_utf8_lossy(&v).into_owned()))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(values("EXECUTE a"), Some(vec![]));
        assert_eq!(
            values("EXECUTE a(-1, 'it''s', NULL, true)"),
            Some(vec![
                Some("-1".to_owned()),
                Some("it's".to_owned()),
                None,
                Some("t".to_owned())
            ])
        );
        assert_eq!(values("EXECUTE a(1 + 1)"), None);
        assert_eq!(values("EXECUTE a('0' '2')"), None);
        assert_eq!(values("EXECUTE a(now())"), None);
    }
}
