//! A case as a file: a JSON object with the inputs, the fault plan with one fault a line, and a last
//! line with the number of faults. A truncated file is refused: it would be another case, which might pass.
//!
//! ```text
//! {"anabranch_case":3,"workload":"register","protocol":"ramp-fast","nodes":2,"seed":7,…}
//! {"at_us":1200,"for_us":5000,"kind":"pause","node":1}
//! {"end":{"faults":1}}
//! ```
//!
//! The file includes the matrix of latencies, so that it suffices for a replay.
//!
//! A fault plan alone begins with `{"anabranch_plan":1}` and ends with the same last line. In a plan written by hand
//! both may be missing.

use anabranch_protocol::ramp::FilterSize;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::cluster::Watch;
use crate::error::CaseError;
use crate::fault::{FaultPlan, PlanError, in_line};
use crate::latency::Network;
use crate::prepared::Prepared;
use crate::protocols::{ProtocolName, RampExtensions, Termination};
use crate::site_options::SiteOptions;

/// The version of the case format that this program reads and writes.
const VERSION: u32 = 3;

/// The version of the plan format.
const PLAN_VERSION: u32 = 1;

/// The first line of a plan.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanHeader {
    anabranch_plan: u32,
}

/// The first line of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    anabranch_case: u32,
    workload: String,
    protocol: ProtocolName,
    /// The default size if it is missing.
    #[serde(default, skip_serializing_if = "is_default")]
    filter_bits: FilterSize,
    #[serde(default, skip_serializing_if = "is_default")]
    termination: Termination,
    #[serde(default, skip_serializing_if = "is_default")]
    extensions: RampExtensions,
    #[serde(default, skip_serializing_if = "is_default")]
    sites: SiteOptions,
    nodes: u16,
    seed: u64,
    clients: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    clients_switch_nodes: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    interactive: bool,
    /// 1 if it is missing.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    replicas: u16,
    /// 1 if it is missing.
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

/// The last line of a case or plan.
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

/// A case, with its workload and the size of its cluster.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// The workload's name.
    pub workload: String,
    /// The number of nodes of each cluster; 1 where each is a site.
    pub nodes: u16,
    /// The case.
    pub case: Case,
}

impl CaseFile {
    /// The workload, for the case's cluster.
    ///
    /// # Errors
    /// If there is no such workload, or its SQL does not compile.
    pub fn prepare(&self) -> Result<Prepared, CaseError> {
        match self.case.protocol.has_sites() {
            true if self.case.protocol.partitions_operations() => {
                Prepared::for_ring(&self.workload, self.case.clusters)
            }
            true => Prepared::for_sites(&self.workload, self.case.clusters),
            false => Prepared::new(&self.workload, self.nodes),
        }
    }

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
            extensions: case.extensions,
            sites: case.sites,
            nodes: self.nodes,
            seed: case.seed,
            clients: case.clients,
            clients_switch_nodes: case.clients_switch_nodes,
            interactive: case.interactive,
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

    /// Parses the output of [`CaseFile::to_text`].
    ///
    /// # Errors
    /// The first malformed line.
    pub fn from_text(text: &str) -> Result<CaseFile, PlanError> {
        let at = |line, reason: String| PlanError { line, reason };
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let header: Header = serde_json::from_str(first).map_err(|error| at(1, in_line(&error)))?;
        check_version(header.anabranch_case, VERSION)?;
        let plan = parse_faults(text, rest, "case")?;
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
                extensions: header.extensions,
                sites: header.sites,
                seed: header.seed,
                clients: header.clients,
                clients_switch_nodes: header.clients_switch_nodes,
                interactive: header.interactive,
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

    /// Parses the fault plan of a file: a case, a plan alone, or only lines with faults.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn plan_from_text(text: &str) -> Result<FaultPlan, PlanError> {
        if text.trim_start().starts_with("{\"anabranch_case\"") {
            CaseFile::from_text(text).map(|file| file.case.plan)
        } else if text.trim_start().starts_with("{\"anabranch_plan\"") {
            let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
            let header: PlanHeader = serde_json::from_str(first).map_err(|error| PlanError {
                line: 1,
                reason: in_line(&error),
            })?;
            check_version(header.anabranch_plan, PLAN_VERSION)?;
            parse_faults(text, rest, "plan")
        } else {
            FaultPlan::from_lines(text)
        }
    }
}

/// Refuses a format version that this program does not read.
fn check_version(version: u32, read: u32) -> Result<(), PlanError> {
    if version == read {
        return Ok(());
    }
    Err(PlanError {
        line: 1,
        reason: format!("the file has format version {version}; this program reads version {read}"),
    })
}

/// The faults of a plan, and the last line.
fn with_end(plan: &FaultPlan) -> String {
    let faults = plan.faults.len();
    let end = Ending {
        end: Counts { faults },
    };
    let end = serde_json::to_string(&end).expect("a count is plain data");
    format!("{}{end}\n", plan.to_lines())
}

/// Parses the faults of a text and its last line. `rest` is the text without its first line.
fn parse_faults(text: &str, rest: &str, what: &str) -> Result<FaultPlan, PlanError> {
    let line = text.trim_end().lines().count();
    let wrong = |reason| Err(PlanError { line, reason });
    let (faults, last) = match rest.trim_end().rsplit_once('\n') {
        Some((faults, last)) => (faults, last),
        None => ("", rest.trim_end()),
    };
    let Ok(ending) = serde_json::from_str::<Ending>(last) else {
        return wrong(format!("the {what} is truncated: its last line is missing"));
    };
    let plan = FaultPlan::from_lines(faults).map_err(|error| PlanError {
        line: error.line + 1,
        reason: error.reason,
    })?;
    let (found, expected) = (plan.faults.len(), ending.end.faults);
    if found != expected {
        return wrong(format!("the {what} has {found} of its {expected} faults"));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultProfile;

    #[test]
    fn a_case_survives_its_file() {
        let text = "sites a b\na 1 80\nb 80 0.5\n";
        for network in [Network::lan(), Network::matrix("two", text).unwrap()] {
            let storm = FaultProfile::Storm;
            let mut case = Case::new(ProtocolName::RampHybrid, 5, 3, 4, 50, network, storm);
            case.filter = FilterSize::try_from(64).unwrap();
            case.extensions.one_phase = true;
            case.extensions.causal = true;
            case.interactive = true;
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
    fn a_malformed_case_is_refused_by_line() {
        let case = Case::new(
            ProtocolName::RampFast,
            5,
            3,
            4,
            50,
            Network::lan(),
            FaultProfile::None,
        );
        let file = CaseFile {
            workload: "bank".to_owned(),
            nodes: 3,
            case,
        };
        let text = file.to_text();
        let newer = text.replace("\"anabranch_case\":3", "\"anabranch_case\":4");
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
    fn a_truncated_case_is_refused() {
        let case = Case::new(
            ProtocolName::RampFast,
            5,
            3,
            4,
            50,
            Network::lan(),
            FaultProfile::Storm,
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
            assert!(error.reason.contains("truncated"), "{kept}: {error}");
        }
        // The same holds for a plan.
        let plan = CaseFile::plan_to_text(&file.case.plan);
        assert_eq!(CaseFile::plan_from_text(&plan).unwrap(), file.case.plan);
        let of_plan: Vec<&str> = plan.lines().collect();
        for kept in 1..of_plan.len() {
            let error = CaseFile::plan_from_text(&of_plan[..kept].join("\n")).unwrap_err();
            assert!(error.reason.contains("truncated"), "{kept}: {error}");
        }
        let newer = plan.replace("\"anabranch_plan\":1", "\"anabranch_plan\":2");
        let error = CaseFile::plan_from_text(&newer).unwrap_err();
        assert_eq!(error.line, 1, "{error}");
        // A line that is missing in the middle is noticed, too.
        let mut torn = lines.clone();
        torn.remove(2);
        let error = CaseFile::from_text(&torn.join("\n")).unwrap_err();
        assert!(error.reason.contains("of its"), "{error}");
    }
}
