//! Parsing: from text to declarations.
//!
//! 1. `lexer` makes the tokens of a whole file, with exact places.
//! 2. `split` cuts them into statements at their semicolons; `BEGIN ATOMIC … END` is one.
//! 3. Data definition is parsed here (`table`, `data_type`, `routine`): `sqlparser`'s trees of it have no places, and
//!    its grammar accepts every dialect's. PL/pgSQL bodies are parsed here too (`plpgsql`): it has no grammar for
//!    them.
//! 4. Expressions, queries, INSERT, UPDATE and DELETE are cut out as ranges of tokens and given to `sqlparser`'s
//!    PostgreSQL dialect (`cursor`).
//!
//! No name is looked up here: that is the catalog's part.

mod alter;
pub(crate) mod cursor;
pub(crate) mod data_type;
pub(crate) mod declaration;
pub(crate) mod enumeration;
mod error_location;
pub(crate) mod keyword;
mod lexeme;
pub(crate) mod lexer;
pub(crate) mod output;
mod plpgsql;
mod precedence;
pub(crate) mod routine;
mod scope;
pub(crate) mod sequence;
pub(crate) mod split;
pub(crate) mod sql_body;
pub(crate) mod statement;
pub(crate) mod table;
mod tree;
pub(crate) mod trigger;
pub(crate) mod type_lookup;
mod type_name;

pub use data_type::resolve_data_type;
pub(crate) use data_type::{cast_type, resolve_statement_type, resolve_written_type};
pub use lexeme::{Lexeme, LexemeKind, lexemes};
pub(crate) use tree::{OVERRIDES, conflict_parts};

use sqlparser::ast;

use crate::{
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
};

/// Parses the statements that a client sends. `number` is the file's number in their places.
///
/// # Errors
/// The first problem in the text.
pub fn parse_statements(
    file: &SourceFile,
    number: u16,
) -> Result<Vec<(ast::Statement, Span)>, Diagnostic> {
    let text = lexer::Text {
        file: number,
        text: &file.text,
        places: lexer::Places::From(0),
    };
    let (tokens, error) = lexer::lex(text);
    if let Some(error) = error {
        return Err(error);
    }
    let end = u32::try_from(file.text.len()).unwrap_or(u32::MAX);
    let text_end = Span {
        file: number,
        start: end,
        end,
    };
    let parse = |statement| {
        let cursor = statement::cursor_of(file, statement);
        Ok((cursor.statement()?, cursor.whole_span()))
    };
    split::statements(&tokens, text_end)
        .into_iter()
        .map(parse)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_statements_have_their_places() {
        let file = SourceFile::new("query", "SELECT A FROM t; DELETE FROM \"T\" WHERE b = 'x;'");
        let statements = parse_statements(&file, 7).unwrap();
        let shown: Vec<String> = statements
            .iter()
            .map(|(tree, _)| tree.to_string())
            .collect();
        assert_eq!(
            shown,
            ["SELECT a FROM t", "DELETE FROM \"T\" WHERE b = 'x;'"]
        );
        assert_eq!(
            statements[1].1,
            Span {
                file: 7,
                start: 17,
                end: 47
            }
        );
        let error = parse_statements(&SourceFile::new("query", "SELECT 1 FROM"), 0).unwrap_err();
        assert_eq!(error.message, "syntax error at end of input");
    }
}
