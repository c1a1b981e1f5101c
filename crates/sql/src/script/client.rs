//! Transactions as programs run them, for whoever reads programs (`anabranch-source`): statements whose
//! placeholders are `$n` over the whole transaction, in branches and loops, beside what could not be
//! found out.

use std::ops::Range;

use sqlparser::ast;

use anabranch_types::DataType;

use super::{Place, Reader, Translated, mysql, pgsql, unknown::Text as UnknownText};
use crate::{
    application::Application,
    catalog::{Block, Parameter, ParameterMode, Procedure, Returns, Statement},
    diagnostic::Diagnostic,
    parse::{
        cursor::Cursor,
        lexer::{Places, Text, lex},
        split::statements,
        sql_body::sql_statement,
    },
    source::Span,
    summary::{Term, TransactionSummary, WriteClass},
};

/// A transaction that a program runs.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name, which need not be unique.
    pub name: String,
    /// The file that it stands in, among those that are read.
    pub file: usize,
    /// Where in that file, in bytes.
    pub range: Range<usize>,
    /// What `$1`, `$2`, … stand for.
    pub parameters: Vec<ClientParameter>,
    /// What it does.
    pub steps: Vec<Step>,
    /// What of it is not known. If there is anything, the transaction is unknown.
    pub unresolved: Vec<Unresolved>,
    /// Rules that its program probably relies on.
    pub probable: Vec<Probable>,
}

impl Client {
    /// Numbers files anew, behind `first` others.
    pub fn shift(&mut self, first: usize) {
        fn steps(of: &mut [Step], first: usize) {
            for step in of {
                match step {
                    Step::Run(statement) => statement.file += first,
                    Step::Either(branches) => {
                        branches.iter_mut().for_each(|(_, s)| steps(s, first))
                    }
                    Step::Repeat(inner) => steps(inner, first),
                }
            }
        }
        self.file += first;
        steps(&mut self.steps, first);
        self.unresolved.iter_mut().for_each(|u| u.file += first);
        self.probable.iter_mut().for_each(|p| p.file += first);
    }
}

/// A rule that a program probably relies on, by a check in its code. Nothing is made of it: whoever wants it
/// kept declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probable {
    /// The transaction type.
    pub transaction: String,
    /// The rule.
    pub rule: String,
    /// The check, as it is written.
    pub guard: String,
    /// The file that it stands in.
    pub file: usize,
    /// Where in it, in bytes.
    pub range: Range<usize>,
    /// How sure that is.
    pub confidence: Confidence,
    /// What has been seen.
    pub why: String,
}

/// How sure it is that a check means a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Something is compared, and something is written.
    Low,
    /// What is compared has to do with what is written.
    Medium,
    /// What is compared is what is written, by the same value.
    High,
}

impl Confidence {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// A value that a program binds.
#[derive(Clone, Debug)]
pub struct ClientParameter {
    /// The variable or the expression; unique in the transaction.
    pub name: String,
    /// Whether it is known only in the course of the transaction: it is computed from what was read, or
    /// is another each time that a loop comes round.
    pub varies: bool,
}

/// What a program does.
#[derive(Clone, Debug)]
pub enum Step {
    /// It runs a statement.
    Run(ClientStatement),
    /// It does one of these, or nothing: each where the boolean parameter of that index says so.
    Either(Vec<(usize, Vec<Step>)>),
    /// It does this any number of times.
    Repeat(Vec<Step>),
}

/// A statement that a program runs.
#[derive(Clone, Debug)]
pub struct ClientStatement {
    /// Its text.
    pub text: String,
    /// The byte of the file that each byte of `text` comes from, and the end.
    pub places: Vec<u32>,
    /// The file.
    pub file: usize,
}

/// Something that a program does and that is not known.
#[derive(Clone, Debug)]
pub struct Unresolved {
    /// The file.
    pub file: usize,
    /// Where in it, in bytes.
    pub range: Range<usize>,
    /// Why it is not known.
    pub reason: String,
    /// Its SQL as far as that is known, with `…` for what is not: where that is one text.
    pub head: String,
}

impl ClientStatement {
    fn place(&self) -> Place {
        let place = |at: Option<&u32>| at.map_or(0, |at| *at as usize);
        let start = place(self.places.first());
        let end = place(self.places.last()).max(start);
        Place {
            file: self.file,
            range: start..end,
        }
    }
}

impl Unresolved {
    fn place(&self) -> Place {
        Place {
            file: self.file,
            range: self.range.clone(),
        }
    }
}

impl Client {
    pub(super) fn place(&self) -> Place {
        Place {
            file: self.file,
            range: self.range.clone(),
        }
    }

    /// Every statement, of every branch.
    fn statements(&self) -> Vec<&ClientStatement> {
        fn collect<'s>(steps: &'s [Step], found: &mut Vec<&'s ClientStatement>) {
            for step in steps {
                match step {
                    Step::Run(statement) => found.push(statement),
                    Step::Either(branches) => {
                        branches.iter().for_each(|(_, inner)| collect(inner, found))
                    }
                    Step::Repeat(inner) => collect(inner, found),
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.steps, &mut found);
        found
    }

    /// Whether more than one statement may run, so that its program sees what one comes to before it
    /// runs the next.
    pub(super) fn is_several(&self) -> bool {
        let repeats = |step: &Step| matches!(step, Step::Repeat(_));
        fn any(steps: &[Step], test: &dyn Fn(&Step) -> bool) -> bool {
            steps.iter().any(|step| {
                test(step)
                    || match step {
                        Step::Run(_) => false,
                        Step::Either(branches) => branches.iter().any(|(_, s)| any(s, test)),
                        Step::Repeat(inner) => any(inner, test),
                    }
            })
        }
        self.statements().len() > 1 || any(&self.steps, &repeats)
    }

    /// Whether a place lies in one of its statements.
    pub(super) fn holds(&self, span: Span) -> bool {
        self.statements().iter().any(|s| s.place().holds(span)) || self.place().holds(span)
    }

    /// Where it is told that something at this place is left out.
    pub(super) fn told_at(&self, span: Option<Span>) -> Place {
        let statements = self.statements();
        let mut places = statements.iter().map(|s| s.place());
        let found = span.and_then(|span| places.find(|place| place.holds(span)));
        found.unwrap_or_else(|| self.place())
    }

    /// The texts of all that it does.
    pub(super) fn texts(&self) -> Vec<UnknownText> {
        let known = self.statements().into_iter().map(|s| UnknownText {
            text: s.text.clone(),
            cut: false,
        });
        let cut = self.unresolved.iter().map(|u| UnknownText {
            text: u.head.clone(),
            cut: true,
        });
        known.chain(cut).collect()
    }

    /// What is told of it as left out, each with its place.
    pub(super) fn told(&self) -> Vec<(Place, Diagnostic)> {
        let told = |u: &Unresolved| {
            let place = u.place();
            let span = place.span();
            (place, Diagnostic::new("0A000", u.reason.clone(), span))
        };
        self.unresolved.iter().map(told).collect()
    }

    /// Terms that are not what they look: a parameter that is known only in the course of the
    /// transaction is none.
    pub(super) fn correct(&self, summary: &mut TransactionSummary) {
        let varies = |term: &Term| matches!(term, Term::Parameter(n) | Term::Element(n) if self.parameters.get(*n).is_none_or(|p| p.varies));
        let correct = |term: &mut Term| {
            if varies(term) {
                *term = Term::Unknown;
            }
        };
        for access in summary.statements.iter_mut().flat_map(|s| &mut s.accesses) {
            for condition in &mut access.conditions {
                correct(&mut condition.term);
            }
            for write in &mut access.writes {
                match &mut write.class {
                    WriteClass::Assign(term) | WriteClass::Add { term, .. } => correct(term),
                    WriteClass::OfRow | WriteClass::OfData => {}
                }
            }
        }
    }
}

impl Reader {
    /// A program's transaction as a procedure.
    pub(super) fn client(
        &self,
        base: &Application,
        client: &Client,
    ) -> Result<Procedure, Diagnostic> {
        let mut types = vec![None; client.parameters.len()];
        let statements = self.steps(base, &client.steps, client, &mut types)?;
        let parameters = client.parameters.iter().zip(types);
        Ok(Procedure {
            name: client.name.clone(),
            parameters: parameters
                .map(|(parameter, data_type)| Parameter {
                    name: parameter.name.clone(),
                    data_type: data_type.unwrap_or(DataType::Text),
                    mode: ParameterMode::In,
                    default: None,
                })
                .collect(),
            returns: Returns::Parameters,
            body: Block {
                variables: Vec::new(),
                statements,
            },
            keeps: Vec::new(),
            span: client.place().span(),
        })
    }

    fn steps(
        &self,
        base: &Application,
        steps: &[Step],
        client: &Client,
        types: &mut Vec<Option<DataType>>,
    ) -> Result<Vec<(Statement, Span)>, Diagnostic> {
        let whole = client.place().span();
        let mut found = Vec::new();
        for step in steps {
            match step {
                Step::Run(statement) => {
                    let end = statement.place().span();
                    let text = Written {
                        file: statement.file,
                        text: &statement.text,
                        places: &statement.places,
                        place: end,
                    };
                    found.push(self.written(base, &text, types)?);
                }
                Step::Either(either) => {
                    let mut branches = Vec::new();
                    for (parameter, inner) in either {
                        let inner = self.steps(base, inner, client, types)?;
                        if let Some(of_type) = types.get_mut(*parameter) {
                            *of_type = Some(DataType::Bool);
                        }
                        branches.push((placeholder(*parameter, whole), inner));
                    }
                    let otherwise = Vec::new();
                    let statement = Statement::If {
                        branches,
                        otherwise,
                    };
                    found.push((statement, whole));
                }
                Step::Repeat(inner) => {
                    let body = self.steps(base, inner, client, types)?;
                    let statement = Statement::ForRange {
                        variable: "turn".to_owned(),
                        from: number("1", whole),
                        to: number("1", whole),
                        by: None,
                        reverse: false,
                        body,
                    };
                    found.push((statement, whole));
                }
            }
        }
        Ok(found)
    }

    /// One statement as a procedure has it, with the types of its parameters.
    pub(super) fn written(
        &self,
        base: &Application,
        written: &Written<'_>,
        types: &mut Vec<Option<DataType>>,
    ) -> Result<(Statement, Span), Diagnostic> {
        let (text, places, span) = (written.text, written.places, written.place);
        let translated = match self.declarations.is_mysql {
            false => pgsql::statement(text, places, &self.declarations.types),
            true => None,
        };
        let translated = match translated {
            None => mysql::statement(text, places, base.catalog(), span)?,
            translated => translated,
        };
        let written = match &translated {
            None => written,
            Some(Translated { text, places }) => &Written {
                text,
                places,
                ..*written
            },
        };
        let source = &self.files[written.file];
        let number = u16::try_from(written.file).unwrap_or(u16::MAX);
        let original = |span: Span| {
            let place = |at: u32| {
                let last = written.places.len().saturating_sub(1);
                written.places.get((at as usize).min(last)).copied()
            };
            Span {
                file: number,
                start: place(span.start).unwrap_or(written.place.start),
                end: place(span.end).unwrap_or(written.place.end),
            }
        };
        let (tokens, error) = lex(Text {
            file: number,
            text: written.text,
            places: Places::Each(written.places),
        });
        if let Some(error) = error {
            return Err(error);
        }
        let end = original(Span {
            file: number,
            start: u32::MAX,
            end: u32::MAX,
        });
        let parts = statements(&tokens, end);
        let [part] = parts.as_slice() else {
            let message = "it is no single statement";
            return Err(Diagnostic::new("42601", message, written.place));
        };
        let cursor = match part.open {
            true => Cursor::new(source, part.tokens, part.end),
            false => Cursor::ending_at(source, part.tokens, part.end),
        };
        let (statement, span) = sql_statement(cursor)?;
        let compiled = base.statement(written.text).map_err(|mut problems| {
            let mut problem = problems.swap_remove(0);
            problem.span = Some(problem.span.map_or(span, original));
            problem
        })?;
        for (place, found) in compiled.parameters().iter().enumerate() {
            if types.len() <= place {
                types.push(None);
            }
            // Text is what a parameter is that nothing tells the type of.
            if matches!(types[place], None | Some(DataType::Text)) {
                types[place] = Some(found.clone());
            }
        }
        let statement = Statement::Sql {
            statement: Box::new(statement),
            into: Vec::new(),
            strict: false,
        };
        Ok((statement, span))
    }
}

/// A statement whose placeholders are `$n`.
pub(super) struct Written<'t> {
    pub(super) file: usize,
    pub(super) text: &'t str,
    pub(super) places: &'t [u32],
    /// The whole of it.
    pub(super) place: Span,
}

fn placeholder(index: usize, span: Span) -> ast::Expr {
    value(ast::Value::Placeholder(format!("${}", index + 1)), span)
}

fn number(text: &str, span: Span) -> ast::Expr {
    value(ast::Value::Number(text.to_owned(), false), span)
}

fn value(value: ast::Value, span: Span) -> ast::Expr {
    ast::Expr::Value(value.with_span(span.location()))
}
