//! Parses `CREATE TYPE … AS ENUM` and `ALTER TYPE … ADD VALUE`.

use std::sync::Arc;

use anabranch_types::EnumType;
use sqlparser::tokenizer::Token as Kind;

use super::{
    cursor::{Cursor, Name, Parsed},
    data_type,
};
use crate::{diagnostic::Diagnostic, source::Span, system::objects::enum_oids};

/// The bytes that a label has at most, as a name in PostgreSQL.
const LABEL_BYTES_MAX: usize = 63;
/// The labels of a type at most: their numbers have to fit into those of the type.
const LABELS_MAX: usize = 4_000;

/// `CREATE TYPE … AS ENUM`.
#[derive(Clone, Debug)]
pub(crate) struct EnumDeclaration {
    pub(crate) name: Name,
    pub(crate) labels: Vec<Label>,
}

/// A label, and its place in the text.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// `ALTER TYPE … ADD VALUE`.
#[derive(Clone, Debug)]
pub(crate) struct LabelAddition {
    pub(crate) name: Name,
    pub(crate) if_not_exists: bool,
    pub(crate) label: Label,
    /// The label that it comes next to, if one is named.
    pub(crate) next_to: Option<(Side, Label)>,
}

/// The side of another label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

/// Why labels cannot be those of a type: SQLSTATE, message, and more about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelProblem {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) span: Span,
}

impl LabelProblem {
    /// The problem as one of a file.
    pub(crate) fn diagnostic(self) -> Diagnostic {
        let error = Diagnostic::new(self.code, self.message, self.span);
        match self.detail {
            Some(detail) => error.help(detail),
            None => error,
        }
    }
}

impl EnumDeclaration {
    /// Checks the labels, in PostgreSQL's words.
    pub(crate) fn check(&self) -> Result<(), LabelProblem> {
        for (place, label) in self.labels.iter().enumerate() {
            label.check()?;
            if place >= LABELS_MAX {
                return Err(too_many(label.span));
            }
            if self.labels[..place].iter().any(|of| of.text == label.text) {
                return Err(LabelProblem {
                    code: "23505",
                    message: "duplicate key value violates unique constraint \"pg_enum_typid_label_index\""
                        .to_owned(),
                    detail: Some(format!(
                        "The label \"{}\" of type \"{}\" already exists.",
                        label.text, self.name.text
                    )),
                    span: label.span,
                });
            }
        }
        Ok(())
    }

    /// The labels' texts.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.labels.iter().map(|label| label.text.clone()).collect()
    }
}

impl Label {
    fn check(&self) -> Result<(), LabelProblem> {
        if self.text.len() <= LABEL_BYTES_MAX {
            return Ok(());
        }
        Err(LabelProblem {
            code: "42602",
            message: format!("invalid enum label \"{}\"", self.text),
            detail: Some("Labels must be 63 bytes or less.".to_owned()),
            span: self.span,
        })
    }
}

impl LabelAddition {
    /// Adds the label to those of the type. `Ok(false)`: it is there, and the statement permits that.
    pub(crate) fn apply(&self, labels: &mut Vec<String>) -> Result<bool, LabelProblem> {
        self.label.check()?;
        let text = &self.label.text;
        let problem = |code, message: String, span| LabelProblem {
            code,
            message,
            detail: None,
            span,
        };
        if labels.contains(text) {
            if self.if_not_exists {
                return Ok(false);
            }
            let message = format!("enum label \"{text}\" already exists");
            return Err(problem("42710", message, self.label.span));
        }
        if labels.len() >= LABELS_MAX {
            return Err(too_many(self.label.span));
        }
        let place = match &self.next_to {
            None => labels.len(),
            Some((side, other)) => {
                let Some(at) = labels.iter().position(|of| *of == other.text) else {
                    let message = format!("\"{}\" is not an existing enum label", other.text);
                    return Err(problem("22023", message, other.span));
                };
                at + usize::from(*side == Side::After)
            }
        };
        labels.insert(place, text.clone());
        Ok(true)
    }
}

fn too_many(span: Span) -> LabelProblem {
    LabelProblem {
        code: "54000",
        message: format!("a type of an enumeration has at most {LABELS_MAX} labels"),
        detail: None,
        span,
    }
}

/// `CREATE TYPE`, from after these words. Of these types there are enumerations alone.
pub(crate) fn create_type(cursor: &mut Cursor<'_>, start: Span) -> Parsed<EnumDeclaration> {
    let name = cursor.schema_name("a type name")?;
    if !cursor.eat_words(&["as", "enum"]) {
        let construct = "CREATE TYPE other than AS ENUM";
        return Err(Diagnostic::unsupported(construct, start.to(cursor.span()))
            .help("declare the columns themselves"));
    }
    if data_type::is_builtin(&name.text) {
        let construct = format!("a type with the name of another, \"{}\",", name.text);
        return Err(Diagnostic::unsupported(construct, name.span).help("give it another name"));
    }
    let mut inside = cursor.parenthesised()?;
    let mut labels = Vec::new();
    while !inside.is_done() {
        labels.push(label(&mut inside)?);
        if !inside.eat(&Kind::Comma) {
            break;
        }
        if inside.is_done() {
            return Err(inside.syntax_error());
        }
    }
    inside.finish("\",\" or \")\"")?;
    cursor.finish("the end of the statement")?;
    Ok(EnumDeclaration { name, labels })
}

/// `ALTER TYPE name`, from after these words, if it adds a label.
///
/// # Errors
/// `0A000` for the other changes of a type, whose owner apart.
pub(crate) fn alter_type(cursor: &mut Cursor<'_>) -> Parsed<LabelAddition> {
    let start = cursor.span();
    let name = cursor.schema_name("a type name")?;
    if !cursor.eat_words(&["add", "value"]) {
        const FORMS: [(&[&str], &str, &str); 3] = [
            (
                &["rename", "to"],
                "ALTER TYPE … RENAME TO",
                "create a type with the other name, change the columns with ALTER TABLE … ALTER COLUMN … TYPE … USING, and drop this one",
            ),
            (
                &["rename", "value"],
                "ALTER TYPE … RENAME VALUE",
                "add the new label, update the rows, and keep the old label",
            ),
            (
                &["set", "schema"],
                "ALTER TYPE … SET SCHEMA",
                "there is one schema, \"public\"",
            ),
        ];
        let found = FORMS.iter().find(|(words, ..)| cursor.at_words(words));
        let (construct, help) = match found {
            Some((_, construct, help)) => (*construct, *help),
            None => (
                "this ALTER TYPE",
                "ADD VALUE adds a label to an enumeration",
            ),
        };
        return Err(Diagnostic::unsupported(construct, start.to(cursor.span())).help(help));
    }
    let if_not_exists = cursor.eat_words(&["if", "not", "exists"]);
    let added = label(cursor)?;
    let side = if cursor.eat_word("before") {
        Some(Side::Before)
    } else if cursor.eat_word("after") {
        Some(Side::After)
    } else {
        None
    };
    let next_to = match side {
        Some(side) => Some((side, label(cursor)?)),
        None => None,
    };
    cursor.finish("the end of the statement")?;
    Ok(LabelAddition {
        name,
        if_not_exists,
        label: added,
        next_to,
    })
}

fn label(cursor: &mut Cursor<'_>) -> Parsed<Label> {
    let (text, span) = cursor.string()?;
    Ok(Label { text, span })
}

/// Enumerations with these names and labels, with their numbers.
pub(crate) fn enum_types(named: Vec<(String, Vec<String>)>) -> Vec<Arc<EnumType>> {
    let oids = enum_oids(named.iter().map(|(name, _)| name.as_str()));
    let types = named.into_iter().zip(oids).map(|((name, labels), oid)| {
        Arc::new(EnumType {
            oid,
            written: crate::system::names::quoted(&name),
            name,
            labels,
        })
    });
    types.collect()
}
