//! The words of a text with their places, for code that edits texts: a statement's tree gives its meaning, its words
//! give the place of each part.

use sqlparser::tokenizer::Token as Kind;

use super::lexer::{Places, Text, lex};
use crate::source::{SourceFile, Span};

/// A word, a literal or a sign of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lexeme {
    /// Its kind.
    pub kind: LexemeKind,
    /// Its place.
    pub span: Span,
}

/// The kind of a [`Lexeme`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LexemeKind {
    /// A name or a keyword without quotes, in lower case.
    Word(String),
    /// A quoted name.
    Quoted(String),
    /// A number.
    Number(String),
    /// A string, however it is quoted: a routine's body, too.
    Text,
    /// A bracket, an operator, a comma.
    Sign(String),
}

impl Lexeme {
    /// Whether it is this word, without quotes and in lower case.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, LexemeKind::Word(found) if found == word)
    }

    /// Whether it is this sign.
    pub fn is_sign(&self, sign: &str) -> bool {
        matches!(&self.kind, LexemeKind::Sign(found) if found == sign)
    }

    /// The name that it may be.
    pub fn name(&self) -> Option<&str> {
        match &self.kind {
            LexemeKind::Word(name) | LexemeKind::Quoted(name) => Some(name),
            _ => None,
        }
    }
}

/// The lexemes of a range of a file, without white space and comments, up to the first lexical error.
pub fn lexemes(file: &SourceFile, span: Span) -> Vec<Lexeme> {
    let text = Text {
        file: span.file,
        text: file.slice(span),
        places: Places::From(span.start),
    };
    let (tokens, _) = lex(text);
    tokens
        .into_iter()
        .map(|token| Lexeme {
            kind: match token.kind {
                Kind::Word(word) if word.quote_style.is_none() => LexemeKind::Word(word.value),
                Kind::Word(word) => LexemeKind::Quoted(word.value),
                Kind::Number(digits, _) => LexemeKind::Number(digits),
                Kind::SingleQuotedString(_) => LexemeKind::Text,
                sign => LexemeKind::Sign(sign.to_string()),
            },
            span: token.span,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_literals_and_signs_have_their_places() {
        let file = SourceFile::new("a.sql", "SET X = \"Y\" + 1; -- z\nf('b')");
        let span = Span {
            file: 2,
            start: 4,
            end: 28,
        };
        let found = lexemes(&file, span);
        let texts: Vec<&str> = found.iter().map(|l| file.slice(l.span)).collect();
        assert_eq!(
            texts,
            ["X", "=", "\"Y\"", "+", "1", ";", "f", "(", "'b'", ")"]
        );
        assert!(found[0].is_word("x") && found[1].is_sign("=") && !found[2].is_word("Y"));
        assert_eq!(found[2].name(), Some("Y"));
        assert_eq!(found[8].kind, LexemeKind::Text);
        assert!(found.iter().all(|l| l.span.file == 2));
    }
}
