//! Measures the costs on this machine.

use anabranch_sim::SiteLoad;

use super::super::load::{Filled, Point, System, Traffic, Warehouses};
use super::super::{BATCH_WINDOW, Effort};
use super::*;
use crate::calibrate::{Calibration, steps_at_sites};

/// Clients of each site while steps are measured: few enough that attempts seldom conflict, many enough for batches.
const CLIENTS: u32 = 20;

/// The workloads whose steps are measured together.
const TRAFFIC: [&[Traffic]; 2] = [
    &[
        Traffic::Tpcc {
            reads: 3,
            warehouses: Warehouses::OfNodes,
        },
        Traffic::Tpcc {
            reads: 50,
            warehouses: Warehouses::OfNodes,
        },
    ],
    &[Traffic::Bank],
];

/// The systems whose steps are measured together: those of one protocol.
const SYSTEMS: [&[System]; 3] = [
    &[System::AlvinSr, System::AlvinFast, System::AlvinEus],
    &[System::Epaxos],
    &[System::PaxosLow],
];

#[test]
#[ignore = "it prints a measurement of this machine"]
fn prints_costs_of_sites() {
    let built_in = Calibration::built_in();
    let mut steps = Vec::new();
    for traffic in TRAFFIC {
        for systems in SYSTEMS {
            let mut loads: Vec<(SiteLoad, Filled)> = Vec::new();
            for (traffic, system) in traffic
                .iter()
                .flat_map(|traffic| systems.iter().map(move |system| (*traffic, *system)))
            {
                let point = Point {
                    traffic,
                    system,
                    regions: 5,
                    nodes: 1,
                };
                let filled = Filled::new(&point.data(&Effort::QUICK, CLIENTS), 1);
                let filled = filled.expect("the workload loads");
                let mut load = point.load(CLIENTS, [600, 1_800], 1);
                load.options.batch_window = BATCH_WINDOW;
                loads.push((load, filled));
            }
            let together: Vec<_> = loads
                .iter()
                .map(|(load, filled)| (load, &filled.prepared, &filled.store))
                .collect();
            steps.push(Measured {
                workload: traffic[0].workload().to_owned(),
                protocol: systems[0].protocol().name().to_owned(),
                steps: steps_at_sites(&together).expect("it runs"),
            });
        }
    }
    let build = match cfg!(debug_assertions) {
        true => "a development build",
        false => "a release build",
    };
    let costs = SiteCosts {
        measured: format!("DATE, MACHINE, {build}"),
        message_nanos: built_in.transport.message.nanos(),
        client_nanos: built_in.transport.client.nanos(),
        steps,
    };
    println!("{:#}", serde_json::to_value(costs).expect("it is JSON"));
}
