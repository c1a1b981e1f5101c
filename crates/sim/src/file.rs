//! A case as a file: one JSON object that says what ran, then the fault plan, one fault a line, and a
//! line that ends it: a file that was cut short would be another case, which may well pass.
//!
//! ```text
//! {"anabranch_case":2,"workload":"register","protocol":"ramp-fast","nodes":2,"seed":7,…}
//! {"at_us":1200,"for_us":5000,"kind":"pause","node":1}
//! {"end":{"faults":1}}
//! ```
//!
//! A matrix of latencies travels with the case, so that the file is enough to replay it.
//!
//! A fault plan alone begins with `{"anabranch_plan":1}` and ends alike. One that somebody writes by hand may have
//! neither: then it is what its lines say.

use anabranch_protocol::ramp::FilterSize;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::cluster::Watch;
use crate::fault::{FaultPlan, PlanError, in_line};
use crate::latency::Network;
use crate::protocols::{Extras, ProtocolName, Termination};

/// The version of a case's form that this program reads and writes.
const VERSION: u32 = 2;

/// The version of a plan's form.
const PLAN_VERSION: u32 = 1;

/// What the first line of a plan says.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanHeader {
    anabranch_plan: u32,
}

/// What the first line says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    anabranch_case: u32,
    workload: String,
    protocol: ProtocolName,
    /// The default if it is not there.
    #[serde(default, skip_serializing_if = "is_default")]
    filter_bits: FilterSize,
    #[serde(default, skip_serializing_if = "is_default")]
    termination: Termination,
    #[serde(default, skip_serializing_if = "is_default")]
    extras: Extras,
    nodes: u16,
    seed: u64,
    clients: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    roaming: bool,
    /// One if it is not there.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    replicas: u16,
    /// One if it is not there.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    clusters: u16,
    transactions: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<Matrix>,
}

fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

fn one() -> u16 {
    1
}

fn is_one(count: &u16) -> bool {
    *count == 1
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ending {
    end: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    faults: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Matrix {
    name: String,
    text: String,
}

/// A case and the workload and size of cluster that it is for.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// The workload's name.
    pub workload: String,
    /// How many nodes.
    pub nodes: u16,
    /// The rest.
    pub case: Case,
}

impl CaseFile {
    /// The file's text.
    pub fn to_text(&self) -> String {
        let case = &self.case;
        let network = case.network.source();
        let header = Header {
            anabranch_case: VERSION,
            workload: self.workload.clone(),
            protocol: case.protocol,
            filter_bits: case.filter,
            termination: case.termination,
            extras: case.extras,
            nodes: self.nodes,
            seed: case.seed,
            clients: case.clients,
            roaming: case.roaming,
            replicas: case.replicas,
            clusters: case.clusters,
            transactions: case.transactions,
            network: network.map(|text| Matrix {
                name: case.network.name().to_owned(),
                text: text.to_owned(),
            }),
        };
        let header = serde_json::to_string(&header).expect("a header is plain data");
        format!("{header}\n{}", with_end(&case.plan))
    }

    /// Reads what [`CaseFile::to_text`] writes.
    ///
    /// # Errors
    /// The first line that does not fit.
    pub fn from_text(text: &str) -> Result<CaseFile, PlanError> {
        let at = |line, reason: String| PlanError { line, reason };
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let header: Header = serde_json::from_str(first).map_err(|error| at(1, in_line(&error)))?;
        known(header.anabranch_case, VERSION)?;
        let plan = ended(text, rest, "case")?;
        let network = match &header.network {
            None => Network::lan(),
            Some(matrix) => Network::matrix(&matrix.name, &matrix.text)
                .map_err(|error| at(1, format!("the network's matrix: {error}")))?,
        };
        Ok(CaseFile {
            workload: header.workload,
            nodes: header.nodes,
            case: Case {
                protocol: header.protocol,
                filter: header.filter_bits,
                termination: header.termination,
                extras: header.extras,
                seed: header.seed,
                clients: header.clients,
                roaming: header.roaming,
                replicas: header.replicas,
                clusters: header.clusters,
                transactions: header.transactions,
                network,
                plan,
                watch: Watch::CLOSE,
            },
        })
    }

    /// A fault plan alone, as a file's text.
    pub fn plan_to_text(plan: &FaultPlan) -> String {
        let header = PlanHeader {
            anabranch_plan: PLAN_VERSION,
        };
        let header = serde_json::to_string(&header).expect("a number is plain data");
        format!("{header}\n{}", with_end(plan))
    }

    /// The fault plan of a file of any form: a case, a plan alone, or nothing but faults, one a line.
    ///
    /// # Errors
    /// The first line that does not fit.
    pub fn plan_from_text(text: &str) -> Result<FaultPlan, PlanError> {
        if text.trim_start().starts_with("{\"anabranch_case\"") {
            CaseFile::from_text(text).map(|file| file.case.plan)
        } else if text.trim_start().starts_with("{\"anabranch_plan\"") {
            let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
            let header: PlanHeader = serde_json::from_str(first).map_err(|error| PlanError {
                line: 1,
                reason: in_line(&error),
            })?;
            known(header.anabranch_plan, PLAN_VERSION)?;
            ended(text, rest, "plan")
        } else {
            FaultPlan::from_lines(text)
        }
    }
}

/// Refuses another version of a form than this.
fn known(version: u32, read: u32) -> Result<(), PlanError> {
    if version == read {
        return Ok(());
    }
    Err(PlanError {
        line: 1,
        reason: format!("version {version} of the form; this program reads version {read}"),
    })
}

/// Faults, and the line that ends them.
fn with_end(plan: &FaultPlan) -> String {
    let faults = plan.faults.len();
    let end = Ending {
        end: Counts { faults },
    };
    let end = serde_json::to_string(&end).expect("a count is plain data");
    format!("{}{end}\n", plan.to_lines())
}

/// The faults of a text whose second line is the first of `rest`, up to the line that ends them.
fn ended(text: &str, rest: &str, what: &str) -> Result<FaultPlan, PlanError> {
    let line = text.trim_end().lines().count();
    let wrong = |reason| Err(PlanError { line, reason });
    let (faults, last) = match rest.trim_end().rsplit_once('\n') {
        Some((faults, last)) => (faults, last),
        None => ("", rest.trim_end()),
    };
    let Ok(ending) = serde_json::from_str::<Ending>(last) else {
        return wrong(format!("the {what} is cut short: it does not end here"));
    };
    let plan = FaultPlan::from_lines(faults).map_err(|error| PlanError {
        line: error.line + 1,
        reason: error.reason,
    })?;
    let (found, told) = (plan.faults.len(), ending.end.faults);
    if found != told {
        return wrong(format!("the {what} has {found} of its {told} faults"));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultLevel;

    #[test]
    fn a_case_survives_its_file() {
        let text = "sites a b\na 1 80\nb 80 0.5\n";
        for network in [Network::lan(), Network::matrix("two", text).unwrap()] {
            let storm = FaultLevel::Storm;
            let mut case = Case::new(ProtocolName::RampHybrid, 5, 3, 4, 50, network, storm);
            case.filter = FilterSize::try_from(64).unwrap();
            case.extras.one_phase = true;
            case.extras.causal = true;
            let file = CaseFile {
                workload: "bank".to_owned(),
                nodes: 3,
                case,
            };
            let read = CaseFile::from_text(&file.to_text()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{file:?}"));
            let plan = CaseFile::plan_from_text(&file.to_text()).unwrap();
            assert_eq!(plan, file.case.plan);
        }
    }

    #[test]
    fn what_is_no_case_is_refused_by_line() {
        let case = Case::new(
            ProtocolName::RampFast,
            5,
            3,
            4,
            50,
            Network::lan(),
            FaultLevel::None,
        );
        let file = CaseFile {
            workload: "bank".to_owned(),
            nodes: 3,
            case,
        };
        let text = file.to_text();
        let newer = text.replace("\"anabranch_case\":2", "\"anabranch_case\":3");
        assert_eq!(CaseFile::from_text(&newer).unwrap_err().line, 1);
        let empty = text.replace("\"nodes\"", "\"filter_bits\":0,\"nodes\"");
        let error = CaseFile::from_text(&empty).unwrap_err();
        assert!(error.reason.contains("not 0"), "{error}");
        assert_eq!(CaseFile::from_text("").unwrap_err().line, 1);
        let torn = text.replacen('\n', "\n{\"kind\":\"pause\"}\n", 1);
        let error = CaseFile::from_text(&torn).unwrap_err();
        assert_eq!(error.line, 2);
    }

    #[test]
    fn a_case_that_was_cut_short_is_no_other_case() {
        let case = Case::new(
            ProtocolName::RampFast,
            5,
            3,
            4,
            50,
            Network::lan(),
            FaultLevel::Storm,
        );
        let file = CaseFile {
            workload: "bank".to_owned(),
            nodes: 3,
            case,
        };
        let text = file.to_text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() > 3, "a storm has faults: {text}");
        for kept in 1..lines.len() {
            let short = lines[..kept].join("\n") + "\n";
            let error = CaseFile::from_text(&short).unwrap_err();
            assert!(error.reason.contains("cut short"), "{kept}: {error}");
        }
        // Nor is a plan that was.
        let plan = CaseFile::plan_to_text(&file.case.plan);
        assert_eq!(CaseFile::plan_from_text(&plan).unwrap(), file.case.plan);
        let of_plan: Vec<&str> = plan.lines().collect();
        for kept in 1..of_plan.len() {
            let error = CaseFile::plan_from_text(&of_plan[..kept].join("\n")).unwrap_err();
            assert!(error.reason.contains("cut short"), "{kept}: {error}");
        }
        let newer = plan.replace("\"anabranch_plan\":1", "\"anabranch_plan\":2");
        let error = CaseFile::plan_from_text(&newer).unwrap_err();
        assert_eq!(error.line, 1, "{error}");
        // A line that is missing in the middle is missed as well.
        let mut torn = lines.clone();
        torn.remove(2);
        let error = CaseFile::from_text(&torn.join("\n")).unwrap_err();
        assert!(error.reason.contains("of its"), "{error}");
    }
}
