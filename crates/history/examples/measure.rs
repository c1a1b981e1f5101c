//! Measures reading and judging a generated history: `cargo run --release -p anabranch-history
//! --example measure -- TRANSACTIONS FILE`. What `anabranch bench check` does, quicker to build.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::time::Instant;

use anabranch_history::generate::Generator;
use anabranch_history::{History, HistoryWriter, Model, check};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let transactions = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let path = arguments.next().unwrap_or("generated.jsonl".into());
    let file = BufWriter::new(File::create(&path)?);
    let mut writer = HistoryWriter::new(file, &Generator::header(1))?;
    for transaction in Generator::new(1, transactions) {
        writer.transaction(&transaction)?;
    }
    writer.finish()?;
    let start = Instant::now();
    let history = History::read(BufReader::with_capacity(1 << 16, File::open(&path)?))?;
    println!(
        "read                 {:.2} s",
        start.elapsed().as_secs_f64()
    );
    for model in Model::ALL {
        let start = Instant::now();
        let verdict = check(&history, model)?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{:<20} {seconds:.2} s {:?}", model.name(), verdict.counts);
    }
    Ok(())
}
