//! The form of a COPY's data, as its options name it.

use anabranch_sql::client::{CopyColumns, CopyKind, CopySyntax};
use anabranch_types::DataType;
use anabranch_wire::copy::{CopyFormat, CopyHeader, CopyOptions};
use anabranch_wire::{ErrorFields, Format};

use super::errors::error;

/// The form of a COPY's data.
pub(crate) fn options_of(
    syntax: &CopySyntax,
    columns: &[(String, DataType)],
) -> Result<CopyOptions, Box<ErrorFields>> {
    let mut options = CopyOptions::of(match syntax.kind {
        CopyKind::Text => CopyFormat::Text,
        CopyKind::Csv => CopyFormat::Csv,
        CopyKind::Binary => CopyFormat::Binary,
    });
    let byte = |text: &Option<String>| text.as_ref().and_then(|text| text.bytes().next());
    if let Some(delimiter) = byte(&syntax.delimiter) {
        options.delimiter = delimiter;
    }
    if let Some(quote) = byte(&syntax.quote) {
        (options.quote, options.escape) = (quote, quote);
    }
    if let Some(escape) = byte(&syntax.escape) {
        options.escape = escape;
    }
    if let Some(null) = &syntax.null {
        options.null.clone_from(null);
    }
    options.header = match (syntax.header, syntax.header_match) {
        (_, true) => CopyHeader::Match,
        (true, false) => CopyHeader::Present,
        (false, false) => CopyHeader::Absent,
    };
    let places = |named: &CopyColumns| -> Result<Vec<usize>, Box<ErrorFields>> {
        match named {
            CopyColumns::None => Ok(Vec::new()),
            CopyColumns::All => Ok((0..columns.len()).collect()),
            CopyColumns::Named(names) => names
                .iter()
                .map(|name| {
                    let place = columns.iter().position(|(column, _)| column == name);
                    place.ok_or_else(|| {
                        let message = format!("column \"{name}\" is not copied");
                        error("42P10", message)
                    })
                })
                .collect(),
        }
    };
    options.force_quote = places(&syntax.force_quote)?;
    options.force_not_null = places(&syntax.force_not_null)?;
    options.force_null = places(&syntax.force_null)?;
    Ok(options)
}

/// The format that a COPY's messages name.
pub(crate) fn format_of(options: &CopyOptions) -> Format {
    match options.format {
        CopyFormat::Binary => Format::Binary,
        CopyFormat::Text | CopyFormat::Csv => Format::Text,
    }
}
