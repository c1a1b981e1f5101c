//! Reads applications and prints their transactions for comparison.

pub(crate) mod writes;

use std::fmt::Write;

use anabranch_source::{Program, read};
use anabranch_sql::script::{ClientTransaction, Script, Step, read_with};
use anabranch_sql::{SourceFile, render};

/// The program, and the script that the analyser gets.
pub(crate) fn analysed_files(sql: Vec<SourceFile>, programs: Vec<SourceFile>) -> (Program, Script) {
    let mut program = read(&programs);
    let declared = std::mem::take(&mut program.declarations);
    let files: Vec<SourceFile> = sql.into_iter().chain(declared).collect();
    let clients = program.clients.iter().cloned().map(|mut client| {
        client.shift(files.len());
        client
    });
    let script = read_with(files.clone(), programs, clients.collect());
    let script = script.unwrap_or_else(|found| panic!("{}", render(&found, &files)));
    (program, script)
}

/// Each transaction with its statements, indented by branches (`?`) and loops (`*`), and its parameters.
pub(crate) fn told(program: &Program) -> String {
    let mut out = String::new();
    for client in &program.clients {
        let _ = writeln!(out, "{}", client.name);
        steps(client, &client.steps, "  ", &mut out);
        for unresolved in &client.unresolved {
            let _ = writeln!(out, "  ! {}", unresolved.reason);
        }
        for probable in &client.probable {
            let _ = writeln!(
                out,
                "  ~ {} [{}]",
                probable.rule,
                probable.confidence.name()
            );
        }
    }
    out
}

fn steps(client: &ClientTransaction, of: &[Step], indent: &str, out: &mut String) {
    for step in of {
        match step {
            Step::Run(statement) => {
                let mut text = statement
                    .text
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
                for number in (1..=client.parameters.len()).rev() {
                    let parameter = &client.parameters[number - 1];
                    let varies = if parameter.varies { "~" } else { "" };
                    text = text.replace(
                        &format!("${number}"),
                        &format!("<{varies}{}>", parameter.name),
                    );
                }
                let _ = writeln!(out, "{indent}{text}");
            }
            Step::Either(branches) => {
                for (_, inner) in branches {
                    let _ = writeln!(out, "{indent}?");
                    steps(client, inner, &format!("{indent}  "), out);
                }
            }
            Step::Repeat(inner) => {
                let _ = writeln!(out, "{indent}*");
                steps(client, inner, &format!("{indent}  "), out);
            }
        }
    }
}
