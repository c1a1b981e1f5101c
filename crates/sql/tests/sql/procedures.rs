//! Parsed procedures: `schemas/procedures.sql`, which PostgreSQL 15 accepts too, with an outline of its catalog in
//! `schemas/procedures.txt`. `UPDATE_PROCEDURES=1` rewrites the latter.

use std::{env, fmt::Write, fs, path::Path};

use anabranch_sql::{
    Catalog, SourceFile, Span,
    catalog::{Block, Procedure, Statement},
    load, render,
};

#[test]
fn procedures_are_parsed_into_these_statements() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/schemas");
    let text = fs::read_to_string(folder.join("procedures.sql")).unwrap();
    let file = SourceFile::new("procedures.sql", text);
    let catalog =
        load(vec![file.clone()]).unwrap_or_else(|errors| panic!("{}", render(&errors, &[file])));
    let mut shown = Outline {
        catalog: &catalog,
        text: String::new(),
    };
    for procedure in &catalog.procedures {
        shown.procedure(procedure);
    }
    let golden = folder.join("procedures.txt");
    if env::var_os("UPDATE_PROCEDURES").is_some() {
        fs::write(&golden, &shown.text).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    for (number, (left, right)) in expected.lines().zip(shown.text.lines()).enumerate() {
        assert_eq!(
            left,
            right,
            "line {}; UPDATE_PROCEDURES=1 accepts what is shown",
            number + 1
        );
    }
    assert_eq!(expected, shown.text);
}

struct Outline<'a> {
    catalog: &'a Catalog,
    text: String,
}

impl Outline<'_> {
    fn line(&mut self, depth: usize, span: Span, line: &str) {
        let file = &self.catalog.files[usize::from(span.file)];
        let (row, column) = file.line_column(span.start);
        let source = file.slice(span);
        let last = source.chars().next_back().unwrap_or(' ');
        let first = source.split_whitespace().next().unwrap_or("");
        let indent = 4 * depth;
        writeln!(
            self.text,
            "{:indent$}{line}    -- {row}:{column} {first}…{last}",
            ""
        )
        .unwrap();
    }

    fn procedure(&mut self, procedure: &Procedure) {
        let Procedure {
            name,
            kind: _,
            parameters,
            returns,
            is_strict: _,
            body,
            keeps,
            span,
        } = procedure;
        self.line(0, *span, &format!("{name} returns {returns:?}"));
        for assertion in keeps {
            writeln!(self.text, "    keeps {assertion}").unwrap();
        }
        for parameter in parameters {
            let default = parameter.default.as_ref().map(ToString::to_string);
            writeln!(
                self.text,
                "    {:?} {} {} {default:?}",
                parameter.mode, parameter.name, parameter.data_type
            )
            .unwrap();
        }
        self.block(1, body);
    }

    fn block(&mut self, depth: usize, block: &Block) {
        for variable in &block.variables {
            let default = variable.default.as_ref().map(ToString::to_string);
            let line = format!(
                "variable {} {:?} {default:?} constant {}",
                variable.name, variable.data_type, variable.constant
            );
            self.line(depth, variable.span, &line);
        }
        self.statements(depth, &block.statements);
    }

    fn statements(&mut self, depth: usize, statements: &[(Statement, Span)]) {
        for (statement, span) in statements {
            self.statement(depth, statement, *span);
        }
    }

    fn statement(&mut self, depth: usize, statement: &Statement, span: Span) {
        match statement {
            Statement::Sql {
                statement,
                into,
                strict,
            } => {
                self.line(
                    depth,
                    span,
                    &format!("sql into {into:?} strict {strict}: {statement}"),
                );
            }
            Statement::If {
                branches,
                otherwise,
            } => {
                for (number, (condition, body)) in branches.iter().enumerate() {
                    self.line(depth, span, &format!("if {number}: {condition}"));
                    self.statements(depth + 1, body);
                }
                self.line(depth, span, "else");
                self.statements(depth + 1, otherwise);
            }
            Statement::ForRange {
                variable,
                from,
                to,
                by,
                reverse,
                body,
            } => {
                let by = by.as_ref().map(ToString::to_string);
                let line = format!("for {variable} {from} to {to} by {by:?} reverse {reverse}");
                self.line(depth, span, &line);
                self.statements(depth + 1, body);
            }
            Statement::ForQuery {
                targets,
                query,
                body,
            } => {
                self.line(depth, span, &format!("for {targets:?} in {query}"));
                self.statements(depth + 1, body);
            }
            Statement::ForEach {
                target,
                array,
                body,
            } => {
                self.line(depth, span, &format!("for each {target} in {array}"));
                self.statements(depth + 1, body);
            }
            Statement::While { condition, body } => {
                self.line(depth, span, &format!("while {condition}"));
                self.statements(depth + 1, body);
            }
            Statement::Block(block) => {
                self.line(depth, span, "block");
                self.block(depth + 1, block);
            }
            Statement::Perform(query) => self.line(depth, span, &format!("perform {query}")),
            Statement::Assign {
                target,
                index,
                value,
            } => {
                let index = index.as_ref().map(ToString::to_string);
                self.line(depth, span, &format!("{target} {index:?} := {value}"));
            }
            Statement::Exit { levels, condition } => {
                let when = condition.as_ref().map(ToString::to_string);
                self.line(depth, span, &format!("exit {levels} {when:?}"));
            }
            Statement::Continue { levels, condition } => {
                let when = condition.as_ref().map(ToString::to_string);
                self.line(depth, span, &format!("continue {levels} {when:?}"));
            }
            Statement::Case {
                operand,
                branches,
                otherwise,
            } => {
                self.line(depth, span, &format!("case {operand}"));
                for (values, body) in branches {
                    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                    self.line(depth, span, &format!("when {values:?}"));
                    self.statements(depth + 1, body);
                }
                self.line(depth, span, "else");
                self.statements(depth + 1, otherwise);
            }
            Statement::Raise {
                level,
                format,
                arguments,
                code,
                fields,
            } => {
                let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
                let mut line = format!("raise {level:?} {code:?} {format:?} {arguments:?}");
                for (field, value) in fields {
                    line += &format!(" {field:?}={value}");
                }
                self.line(depth, span, &line);
            }
            Statement::Return(value) => {
                let value = value.as_ref().map(ToString::to_string);
                self.line(depth, span, &format!("return {value:?}"));
            }
            Statement::ReturnNext(value) => {
                let value = value.as_ref().map(ToString::to_string);
                self.line(depth, span, &format!("return next {value:?}"));
            }
            Statement::ReturnQuery(query) => {
                self.line(depth, span, &format!("return query {query}"));
            }
            Statement::RowCount(target) => {
                self.line(depth, span, &format!("{target} := row count"))
            }
            Statement::Null => self.line(depth, span, "null"),
            other => panic!("{other:?}"),
        }
    }
}
