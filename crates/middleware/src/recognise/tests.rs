//! The examples of the repository, and small applications.

use anabranch_analysis::{Guarantee, Options, analyze_with};
use anabranch_dbms::postgres::catalog::Sequence;
use anabranch_dbms::postgres::install::Part;
use anabranch_sql::script::read;
use anabranch_wire::{Format, Formats};
use bytes::Bytes;

use super::*;

fn servers(count: usize, unknown: &str) -> Servers {
    let mut text = format!("slots = 16\nunknown = \"{unknown}\"\n");
    for (at, name) in ["a", "b", "c", "d"].iter().enumerate().take(count) {
        text.push_str(&format!(
            "[[server]]\nname = \"{name}\"\ndatabase = \"postgresql://u@h/{name}\"\nlisten = \"l{at}\"\nring = \"r{at}\"\n"
        ));
    }
    Servers::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn recogniser_of(script: &Script, unknown: &str) -> Recogniser {
    let options = Options {
        guarantee: Guarantee::Serializable,
        ..Options::default()
    };
    let catalog = script.application.catalog();
    let plan = analyze_with(catalog, &script.summaries, &options);
    Recogniser::new(script, &plan, &servers(3, unknown)).unwrap_or_else(|error| panic!("{error}"))
}

fn script(files: &[(&str, &str)]) -> Script {
    let files = files
        .iter()
        .map(|(name, text)| SourceFile::new(*name, *text));
    read(files.collect()).unwrap_or_else(|error| panic!("{error:?}"))
}

fn example(name: &str) -> Recogniser {
    let folder = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = |file: &str| {
        let path = format!("{folder}/{file}");
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let files = [
        ("schema.sql", text("schema.sql")),
        ("procedures.sql", text("procedures.sql")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
    recogniser_of(&script(&files), "global")
}

/// One statement that is a whole transaction.
fn alone(recogniser: &Recogniser, text: &str, arguments: &Arguments<'_>) -> Result<Route, Refusal> {
    let mut operation = Operation::default();
    recogniser.advance(&mut operation, &recogniser.read(text), arguments)?;
    recogniser.finish(&operation)
}

fn route(recogniser: &Recogniser, text: &str) -> (Class, Option<u16>) {
    let route = alone(recogniser, text, &Arguments::NONE)
        .unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"));
    (route.class, route.server.map(|server| server.0))
}

fn refused(recogniser: &Recogniser, text: &str) -> String {
    match alone(recogniser, text, &Arguments::NONE) {
        Ok(route) => panic!("{text}: {route:?}"),
        Err(refusal) => refusal.message,
    }
}

mod calls;
mod clients;
mod statements;
