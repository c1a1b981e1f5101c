//! `anabranch explain FILES… PROCEDURE`

use std::error::Error;
use std::path::PathBuf;

use anabranch_bench::application;
use clap::Args;

use super::Verdict;
use super::output::say;

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// SQL files, or folders of them: the procedure, and the tables that it uses
    #[arg(required = true, num_args = 1.., value_name = "FILES")]
    paths: Vec<PathBuf>,
    /// The procedure's name
    #[arg(value_name = "PROCEDURE")]
    procedure: String,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<Verdict, Box<dyn Error>> {
    let files = application::read_sources(&arguments.paths)?;
    let compiled = application::compile(files)?;
    // As SQL reads a name that is not quoted; an exact one is found, too.
    let folded = arguments.procedure.to_ascii_lowercase();
    let named = compiled.find(&arguments.procedure);
    let Some(procedure) = named.or_else(|| compiled.find(&folded)) else {
        let mut names: Vec<&str> = compiled.procedures.iter().map(|p| p.name()).collect();
        names.sort_unstable();
        let paths = arguments
            .paths
            .iter()
            .map(|path| path.display().to_string());
        return Err(format!(
            "error: there is no procedure \"{}\" in {}; there are: {}",
            arguments.procedure,
            paths.collect::<Vec<_>>().join(", "),
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        )
        .into());
    };
    say!("{}", procedure.explain())?;
    Ok(Verdict::Fine)
}
