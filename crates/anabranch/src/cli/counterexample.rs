//! The search for counterexamples, as `analyze` prints them and `replay` runs them.

use anabranch_analysis::explore::Counterexample;

use super::input::InputArguments;
use super::shell::quoted;

/// The seed of the search: the same files give the same counterexamples.
pub(super) const SEED: u64 = 1;

/// The command that runs a counterexample of these files.
pub(super) fn replay_command(input: &InputArguments, counterexample: &Counterexample) -> String {
    format!(
        "anabranch replay{} --counterexample {}",
        input.typed(),
        quoted(&counterexample.id())
    )
}
