//! All mistakes of a command line at once.
//!
//! The parser ends at the first mistake. So an option that it refuses is noted and left out, and the rest is parsed again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Arguments;

/// Why a command line is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It asks for help or the version, or has one mistake.
    One(clap::Error),
    /// It has these mistakes.
    Several(Vec<clap::Error>),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = match self {
            Refusal::One(error) => return error.fmt(f),
            Refusal::Several(errors) => errors,
        };
        for error in errors {
            let text = error.render().to_string();
            // The usage is the same for all of them.
            let end = ["\n\nUsage:", "\n\nFor more information"]
                .iter()
                .filter_map(|mark| text.find(mark));
            let end = end.min().unwrap_or(text.len());
            writeln!(f, "{}", text[..end].trim_end())?;
        }
        write!(f, "\nFor more information, try '--help'.")
    }
}

/// Parses a command line.
///
/// # Errors
/// With every option that is unknown, or whose value is out of range.
pub(crate) fn parse(mut line: Vec<OsString>) -> Result<Arguments, Refusal> {
    let mut errors: Vec<clap::Error> = Vec::new();
    let mut left_out = BTreeSet::new();
    loop {
        let error = match Arguments::try_parse_from(&line) {
            Ok(arguments) if errors.is_empty() => return Ok(arguments),
            Ok(_) => break,
            Err(error) => error,
        };
        match without(&error, &line) {
            Some((option, rest)) => {
                left_out.insert(option);
                line = rest;
                errors.push(error);
            }
            None => {
                // What is missing may be what was left out.
                let text = error.to_string();
                let is_of_them = left_out.iter().any(|option| text.contains(&**option));
                if errors.is_empty() || !is_of_them {
                    errors.push(error);
                }
                break;
            }
        }
    }
    Err(match errors.len() {
        1 => Refusal::One(errors.remove(0)),
        _ => Refusal::Several(errors),
    })
}

/// The option that is refused, and the command line without it, if it is one.
fn without(error: &clap::Error, line: &[OsString]) -> Option<(String, Vec<OsString>)> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_unknown = match error.kind() {
        ErrorKind::UnknownArgument => true,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => false,
        _ => return None,
    };
    // Its value's name may follow: `--batch-ms <MILLISECONDS>`.
    let option = text(ContextKind::InvalidArg)?.split([' ', '=']).next()?;
    let option = option.strip_prefix("--").map(|_| option)?;
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    let (place, is_joined) = line.iter().enumerate().find_map(|(place, part)| {
        let part = part.to_str()?;
        if part == option {
            let next = line.get(place + 1).and_then(|next| next.to_str());
            return (is_unknown || value.is_empty() || next == Some(value))
                .then_some((place, false));
        }
        let given = part.strip_prefix(option)?.strip_prefix('=')?;
        (is_unknown || given == value).then_some((place, true))
    })?;
    let next = line.get(place + 1).and_then(|next| next.to_str());
    let has_value = !is_joined
        && match is_unknown {
            true => next.is_some_and(|next| !next.starts_with('-')),
            false => !value.is_empty(),
        };
    let mut rest = line.to_vec();
    rest.drain(place..=place + usize::from(has_value));
    Some((option.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let line = line.split(' ').map(OsString::from).collect();
        match parse(line) {
            Ok(arguments) => panic!("{arguments:?}"),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn every_mistake_is_told_by_its_option_and_what_would_be_right() {
        let text = refused(
            "anabranch serve shop.sql --connections-max 0 --batch-ms=99999 --nonsense 3 --durability later --memory-max 4 --partitions",
        );
        for told in [
            "'0' for '--connections-max <N>': 0 is not in 1..=100000",
            "'99999' for '--batch-ms <MILLISECONDS>': 99999 is not in 1..=10000",
            "unexpected argument '--nonsense'",
            "'later' for '--durability <DURABILITY>'",
            "[possible values: sync, batch, none]",
            "'4' for '--memory-max <SIZE>': not a whole number with a unit",
            "'--partitions <N>'",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
        assert_eq!(text.matches("error: ").count(), 6, "{text}");
        assert_eq!(text.matches("--help").count(), 1, "{text}");
    }

    #[test]
    fn one_mistake_is_told_as_by_the_parser_and_what_was_left_out_is_not_missing() {
        let text = refused("anabranch serve --batch-ms 0");
        assert!(text.contains("0 is not in 1..=10000"), "{text}");
        assert_eq!(text.matches("error: ").count(), 1, "{text}");
        // `--at` needs `--belt`, which is there, without a value.
        let text = refused("anabranch serve --at eu --belt");
        assert!(!text.contains("were not provided"), "{text}");
        assert!(text.contains("--belt"), "{text}");
    }
}
