//! Measures how long the checkers take to judge a generated history.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::time::{Duration, Instant};

use anabranch_history::generate::Generator;
use anabranch_history::{History, HistoryError, HistoryWriter, Model, Unsuitable, check};

/// The measured times.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The file's length in bytes.
    pub bytes: u64,
    /// How long reading the file takes.
    pub read: Duration,
    /// For each model how long checking takes, and whether it is satisfied, as it has to be.
    pub models: Vec<(Model, Duration, bool)>,
}

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The file cannot be written or read.
    #[error("error: cannot write or read the history: {0}")]
    File(#[from] io::Error),
    /// The generated history is not valid.
    #[error("error: the generated history: {0}")]
    History(#[from] HistoryError),
    /// The history lacks data that a model needs.
    #[error("error: the generated history: {0}")]
    Unsuitable(#[from] Unsuitable),
}

/// Writes a history of so many transactions to the file, reads it and checks every model.
///
/// # Errors
/// When the file cannot be written or read, or the generated history is refused.
pub fn measure(path: &Path, seed: u64, transactions: u64) -> Result<Measured, MeasureError> {
    let file = BufWriter::new(File::create(path)?);
    let mut writer = HistoryWriter::new(file, &Generator::header(seed))?;
    for transaction in Generator::new(seed, transactions) {
        writer.transaction(&transaction)?;
    }
    writer.finish()?;
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let start = Instant::now();
    let history = History::read(BufReader::with_capacity(1 << 16, file))?;
    let read = start.elapsed();
    let mut models = Vec::new();
    for model in Model::ALL {
        let start = Instant::now();
        let verdict = check(&history, model)?;
        models.push((model, start.elapsed(), verdict.is_satisfied()));
    }
    Ok(Measured {
        bytes,
        read,
        models,
    })
}
