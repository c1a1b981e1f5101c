//! Measures what the real code costs on this machine, for the simulator's cost model.
//!
//! The engine's nodes run under the simulator, single-threaded and without a cost model, over the calls of
//! each experiment. A clock measures each step; [`anabranch_sim::cost`] later charges the mean of its kind.
//! Measured besides are the cost of a message in a socket and a codec ([`transport`]), and how a New-Order's
//! time divides over the code ([`paths`]).
//!
//! A calibration names its machine, date, commit and command. One is part of the program
//! ([`Calibration::built_in`]), so that throughput can be simulated anywhere without measuring first.
//!
//! Times are the thread's processor time, in rounds. The slowest hundredth of each kind of step in a round is
//! dropped (another process had the core and the caches), and the lower quartile of the rounds is kept: load by
//! others can only add to a time.

mod experiment;
mod meter;
mod paths;
mod transport;

pub(crate) use meter::now as processor_nanos;

use std::path::Path;

use anabranch_sim::CaseError;
use anabranch_sim::cost::{Costs, StepCost};
use serde::{Deserialize, Serialize};

pub use experiment::ExperimentName;
pub(crate) use experiment::costs_at_sites;
#[cfg(test)]
pub(crate) use experiment::steps_at_sites;
pub use paths::CodePaths;
pub use transport::{Frame, Transport};

/// The version of the format.
const VERSION: u32 = 1;

/// Measured costs, and where they come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The version of the format: 1.
    pub version: u32,
    /// The machine, date, commit and command of the measurement.
    pub provenance: Provenance,
    /// The costs of messages.
    pub transport: Transport,
    /// How a New-Order's time divides over the code.
    pub paths: CodePaths,
    /// The costs of steps, by experiment and protocol.
    pub experiments: Vec<Measured>,
}

/// The machine, date, commit and command of a calibration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The processor, and how many the system has.
    pub machine: String,
    /// The day, as YYYY-MM-DD.
    pub date: String,
    /// The commit that the program was built from.
    pub commit: String,
    /// The command that made it.
    pub command: String,
}

impl Provenance {
    fn name(&self) -> String {
        let Provenance {
            machine,
            date,
            commit,
            ..
        } = self;
        format!("calibration of {date}, {machine}, commit {commit}")
    }
}

/// The costs of the steps of one experiment under one protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The experiment.
    pub experiment: String,
    /// The protocol.
    pub protocol: String,
    /// Its origin, if another than the calibration's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The costs of its steps.
    pub steps: Vec<StepCost>,
}

/// Why a calibration could not be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The experiment.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file is not a calibration.
    #[error("{path} is not a calibration of version {VERSION}: {reason}")]
    Form {
        /// The experiment.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A calibration lacks an experiment.
    #[error("the calibration has no costs of {experiment} under {protocol}: calibrate again")]
    Lacking {
        /// The experiment.
        experiment: String,
        /// The protocol.
        protocol: String,
    },
    /// An experiment could not be run.
    #[error("calibrating: {0}")]
    Run(#[from] CaseError),
    /// A socket of this machine could not be used.
    #[error("calibrating sockets: {0}")]
    Socket(std::io::Error),
    /// The operating system gave no thread for sampling.
    #[error("calibrating code paths: {0}")]
    Sampler(std::io::Error),
    /// An encoded message did not decode.
    #[error("calibrating the codec: {0}")]
    Codec(String),
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Rounds of each experiment.
    pub rounds: usize,
    /// Virtual milliseconds of each round.
    pub millis: u64,
    /// Virtual milliseconds before a round of New-Orders, which fill the caches: a server that has run for a while
    /// has as much of its database in them as fits.
    pub warmup_millis: u64,
    /// Whether TPC-C's database has the specification's size, and not a thousand items.
    pub full_size: bool,
}

impl Effort {
    /// Five rounds at full size.
    pub const FULL: Effort = Effort {
        rounds: 5,
        millis: 60,
        warmup_millis: 240,
        full_size: true,
    };
    /// Enough to see that it works.
    pub const QUICK: Effort = Effort {
        rounds: 1,
        millis: 3,
        warmup_millis: 1,
        full_size: false,
    };
}

impl Calibration {
    /// The calibration that is part of the program.
    ///
    /// # Panics
    /// Never: a test reads it.
    pub fn built_in() -> Calibration {
        let text = include_str!("../../calibration.json");
        Calibration::from_text("the built-in calibration", text)
            .expect("the built-in calibration is valid")
    }

    /// Measures a calibration, and reports to `progress`.
    ///
    /// # Errors
    /// When an experiment or a socket fails.
    pub fn measure(
        provenance: Provenance,
        effort: Effort,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Calibration, CalibrationError> {
        progress("code paths of a New-Order");
        let (paths, effects) = paths::measure(effort)?;
        let mut transport = transport::Rounds::new(effort, effects);
        let mut between = || transport.measure();
        let experiments = experiment::measure(None, effort, &mut between, progress)?;
        Ok(Calibration {
            version: VERSION,
            provenance,
            transport: transport.sum(),
            paths,
            experiments,
        })
    }

    /// Measures one experiment again, and keeps all other costs.
    ///
    /// # Errors
    /// When the experiment fails.
    pub fn measure_again(
        mut self,
        only: ExperimentName,
        provenance: &Provenance,
        effort: Effort,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Calibration, CalibrationError> {
        let mut measured = experiment::measure(Some(only), effort, &mut || Ok(()), progress)?;
        for found in &mut measured {
            found.provenance = Some(provenance.clone());
        }
        let text = only.text();
        self.experiments.retain(|found| found.experiment != text);
        self.experiments.extend(measured);
        Ok(self)
    }

    /// Parses a calibration; `path` names it in errors.
    ///
    /// # Errors
    /// When the text is not a calibration, or of another version.
    pub fn from_text(path: &str, text: &str) -> Result<Calibration, CalibrationError> {
        let form = |reason: String| CalibrationError::Form {
            path: path.to_owned(),
            reason,
        };
        let found: Calibration =
            serde_json::from_str(text).map_err(|error| form(error.to_string()))?;
        if found.version != VERSION {
            return Err(form(format!("its version is {}", found.version)));
        }
        let all = found.experiments.iter().flat_map(|found| &found.steps);
        for cost in all {
            if !(cost.nanos.is_finite() && cost.nanos > 0.0) {
                let step = &cost.step;
                return Err(form(format!("\"{step}\" costs {} ns", cost.nanos)));
            }
        }
        Ok(found)
    }

    /// Reads a calibration from a file.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a calibration.
    pub fn read(path: &Path) -> Result<Calibration, CalibrationError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| CalibrationError::File {
            path: name.clone(),
            source,
        })?;
        Calibration::from_text(&name, &text)
    }

    /// Renders it as text.
    ///
    /// # Panics
    /// Never: it is plain data.
    pub fn to_text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a calibration is plain data");
        text + "\n"
    }

    /// Its name in reports.
    pub fn name(&self) -> String {
        self.provenance.name()
    }

    /// The name in reports of the origin of an experiment's costs.
    pub fn name_of(&self, experiment: ExperimentName) -> String {
        let text = experiment.text();
        let mut all = self.experiments.iter();
        let found = all.find(|found| found.experiment == text);
        let own = found.and_then(|found| found.provenance.as_ref());
        own.unwrap_or(&self.provenance).name()
    }

    /// The costs of the steps of an experiment under a protocol.
    ///
    /// # Errors
    /// When they were not measured.
    pub fn costs(
        &self,
        experiment: ExperimentName,
        protocol: &str,
    ) -> Result<Costs, CalibrationError> {
        let experiment = experiment.text();
        let mut all = self.experiments.iter();
        let found = all.find(|found| found.experiment == experiment && found.protocol == protocol);
        let found = found.ok_or_else(|| CalibrationError::Lacking {
            experiment: experiment.clone(),
            protocol: protocol.to_owned(),
        })?;
        Ok(Costs {
            calibration: found.provenance.as_ref().unwrap_or(&self.provenance).name(),
            message_nanos: self.transport.message.nanos(),
            client_nanos: self.transport.client.nanos(),
            guard_nanos: self.paths.guard_nanos,
            steps: found.steps.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_calibration_has_every_experiment() {
        let built_in = Calibration::built_in();
        for (name, protocol) in experiment::all() {
            built_in.costs(name, protocol.name()).expect("it is there");
        }
        let lacking = built_in.costs(ExperimentName::NewOrder, "paxos");
        assert!(matches!(lacking, Err(CalibrationError::Lacking { .. })));
    }

    #[test]
    fn a_calibration_survives_its_text_and_nonsense_is_refused() {
        let built_in = Calibration::built_in();
        let text = built_in.to_text();
        let read = Calibration::from_text("a", &text).expect("it is one");
        assert_eq!(read.name(), built_in.name());
        assert_eq!(read.to_text(), text);
        let first = &built_in.experiments[0].steps[0];
        let nanos = format!("\"nanos\": {}", serde_json::json!(first.nanos));
        for (from, to) in [
            ("\"version\": 1", "\"version\": 2"),
            ("\"steps\"", "\"stairs\""),
            (nanos.as_str(), "\"nanos\": -1.0"),
        ] {
            assert!(text.contains(from), "{from}");
            let refused = Calibration::from_text("a", &text.replacen(from, to, 1));
            assert!(
                matches!(refused, Err(CalibrationError::Form { .. })),
                "{to}"
            );
        }
    }

    #[test]
    fn a_short_measurement_ends() {
        let provenance = Provenance {
            machine: "a machine".into(),
            date: "a day".into(),
            commit: "a commit".into(),
            command: "a command".into(),
        };
        let found = Calibration::measure(provenance, Effort::QUICK, &mut |_| ());
        let found = found.expect("it can be measured");
        let costs = found
            .costs(ExperimentName::NewOrder, "ramp-fast")
            .expect("it was measured");
        let local = costs.steps.iter();
        let mut local = local.filter(|cost| cost.step == "call new_order, answers");
        assert!(local.next().is_some_and(|cost| cost.nanos > 1_000.0));
        assert!(found.transport.message.nanos() > 10.0 && found.transport.client.nanos() > 10.0);
        assert!(found.paths.storage > 0.0 && found.paths.procedure > 0.0);
    }
}
