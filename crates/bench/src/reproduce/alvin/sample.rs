//! Histories of small runs, judged by the checkers; and how many loads were checked at rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anabranch_sim::{Case, FaultProfile, Prepared, Verdict, Watch};
use anabranch_workload::Workload;
use anabranch_workload::bank::Bank;
use anabranch_workload::tpcc::{Distribution, Mix, Scale, Tpcc};

use super::load::System;
use super::{BATCH_WINDOW, Context, ReproduceError, regions};
use crate::figure::{Comparison, Section};

/// Sites of a run that is judged.
const SITES: u16 = 3;

/// Clients of all its sites.
const CLIENTS: u32 = 24;

/// Judges a history of each system and workload.
pub(super) fn section(
    context: &Context<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Section, ReproduceError> {
    let settings = context.settings;
    let tpcc = Tpcc {
        scale: Scale {
            warehouses: u32::from(SITES),
            items: 60,
            customers: 20,
        },
        distribution: Distribution::Specified,
        mix: Mix::reading(50).expect("a percentage is at most 100"),
    };
    let workloads: [(&str, Arc<dyn Workload>); 2] = [
        ("TPC-C, 50% read-only", Arc::new(tpcc)),
        ("Bank", Arc::new(Bank::of_accounts(60))),
    ];
    let mut section = Section {
        title: "Checks".into(),
        text: vec![
            format!(
                "After each simulated load the clients stop, the sites come to rest, and all have to have the same rows, every \
                 constraint and condition at each. Besides, a small run of each system at {SITES} sites, in batches, is recorded: \
                 its history has to be strictly serializable, under EUS that of the transactions with effects, with consistent \
                 reads. The first run that fails a check ends the command."
            ),
            "Numbers are transactions whose history was judged.".into(),
        ],
        ..Section::default()
    };
    for (name, workload) in workloads {
        let prepared = Prepared::from_workload(workload, 1)?;
        for system in System::ALL {
            let what = format!("{name}: {}", system.name());
            progress(&format!("judging a history, {what}"));
            let mut case = Case::new(
                system.protocol(),
                settings.seed,
                SITES,
                CLIENTS,
                settings.effort.sampled,
                regions::first(SITES),
                FaultProfile::None,
            );
            case.clusters = SITES;
            case.sites = system.options(SITES);
            case.sites.batch_window = BATCH_WINDOW;
            case.watch = Watch {
                invariants_every: 16,
                hash_contents: false,
                history: true,
            };
            let report = case.run(&prepared)?;
            if report.verdict != Verdict::Fine {
                return Err(ReproduceError::Wrong {
                    what,
                    violation: format!("{:?}", report.verdict),
                });
            }
            let judged = report.statistics.committed as f64;
            section
                .comparisons
                .push(Comparison::simulated(what, "", judged));
        }
    }
    let loads = context.checked.load(Ordering::Relaxed) as f64;
    section
        .comparisons
        .push(Comparison::simulated("loads checked at rest", "", loads));
    Ok(section)
}
