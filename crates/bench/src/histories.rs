//! How long the checkers take: a generated history is written to a file, read and judged.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::time::{Duration, Instant};

use anabranch_history::generate::Generator;
use anabranch_history::{History, HistoryError, HistoryWriter, Model, Unsuitable, check};

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The file's length in bytes.
    pub bytes: u64,
    /// Reading it: lines to a history that can be judged.
    pub read: Duration,
    /// Each model: how long, and whether it was satisfied, as it has to be.
    pub models: Vec<(Model, Duration, bool)>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The file cannot be written or read.
    #[error("error: cannot write or read the history: {0}")]
    File(#[from] io::Error),
    /// The generated history is not valid.
    #[error("error: the generated history: {0}")]
    History(#[from] HistoryError),
    /// It lacks what a model asks.
    #[error("error: the generated history: {0}")]
    Unsuitable(#[from] Unsuitable),
}

/// Writes a history of so many transactions to the file, and measures.
///
/// # Errors
/// When the file cannot be written or read, or what was generated is refused.
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
