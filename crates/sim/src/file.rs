//! A case as a file: one JSON object that says what ran, then the fault plan, one fault a line.
//!
//! ```text
//! {"anabranch_case":1,"workload":"register","protocol":"ramp-fast","nodes":2,"seed":7,…}
//! {"at_us":1200,"for_us":5000,"kind":"pause","node":1}
//! ```
//!
//! A matrix of latencies travels with the case, so that the file is enough to replay it.

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::cluster::Watch;
use crate::fault::{FaultPlan, PlanError};
use crate::latency::Network;
use crate::protocols::ProtocolName;

/// The version of the form that this program reads and writes.
const VERSION: u32 = 1;

/// What the first line says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    anabranch_case: u32,
    workload: String,
    protocol: ProtocolName,
    nodes: u16,
    seed: u64,
    clients: u32,
    transactions: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<Matrix>,
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
            nodes: self.nodes,
            seed: case.seed,
            clients: case.clients,
            transactions: case.transactions,
            network: network.map(|text| Matrix {
                name: case.network.name().to_owned(),
                text: text.to_owned(),
            }),
        };
        let header = serde_json::to_string(&header).expect("a header is plain data");
        header + "\n" + &case.plan.to_lines()
    }

    /// Reads what [`CaseFile::to_text`] writes.
    ///
    /// # Errors
    /// The first line that does not fit.
    pub fn from_text(text: &str) -> Result<CaseFile, PlanError> {
        let at = |line, reason: String| PlanError { line, reason };
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let header: Header =
            serde_json::from_str(first).map_err(|error| at(1, error.to_string()))?;
        if header.anabranch_case != VERSION {
            let reason = format!(
                "version {} of the form; this program reads version {VERSION}",
                header.anabranch_case
            );
            return Err(at(1, reason));
        }
        let plan = FaultPlan::from_lines(rest).map_err(|error| at(error.line + 1, error.reason))?;
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
                seed: header.seed,
                clients: header.clients,
                transactions: header.transactions,
                network,
                plan,
                watch: Watch::CLOSE,
            },
        })
    }

    /// The fault plan of a file of either form: a case, or a plan alone.
    ///
    /// # Errors
    /// The first line that does not fit.
    pub fn plan_from_text(text: &str) -> Result<FaultPlan, PlanError> {
        if text.trim_start().starts_with("{\"anabranch_case\"") {
            CaseFile::from_text(text).map(|file| file.case.plan)
        } else {
            FaultPlan::from_lines(text)
        }
    }
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
            let case = Case::new(ProtocolName::Locking, 5, 3, 4, 50, network, storm);
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
        let newer = text.replace("\"anabranch_case\":1", "\"anabranch_case\":2");
        assert_eq!(CaseFile::from_text(&newer).unwrap_err().line, 1);
        assert_eq!(CaseFile::from_text("").unwrap_err().line, 1);
        let error = CaseFile::from_text(&(text + "{\"kind\":\"pause\"}\n")).unwrap_err();
        assert_eq!(error.line, 2);
    }
}
