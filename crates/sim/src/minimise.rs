//! Makes a failing case smaller while it still fails.
//!
//! First fewer faults, by delta debugging (Zeller and Hildebrandt: Simplifying and Isolating
//! Failure-Inducing Input, TSE 2002); then fewer transactions, clients and nodes, by halves and
//! then by one; then shorter faults. This repeats until nothing more can be removed or the runs are
//! used up. A smaller case counts as failing if its verdict is of the same kind: a crash is another
//! finding than a wrong answer.

use crate::error::CaseError;
use crate::fault::Fault;
use crate::file::CaseFile;
use crate::prepared::Prepared;
use crate::report::Verdict;

/// A minimised case.
#[derive(Clone, Debug)]
pub struct Minimised {
    /// The smallest case that still fails.
    pub file: CaseFile,
    /// Its verdict.
    pub verdict: Verdict,
    /// The number of runs that it took.
    pub runs: u32,
}

/// Minimises a failing case in at most `runs_max` runs. Calls `progress` with their number after each.
///
/// # Errors
/// If the case cannot be run at all.
///
/// # Panics
/// If the case does not fail.
pub fn minimise(
    file: &CaseFile,
    runs_max: u32,
    progress: &mut dyn FnMut(u32),
) -> Result<Minimised, CaseError> {
    let prepared = file.prepare()?;
    let verdict = file.case.run(&prepared)?.verdict;
    assert_ne!(
        verdict,
        Verdict::Fine,
        "only a failing case can be minimised"
    );
    let mut search = Search {
        best: file.clone(),
        verdict,
        prepared,
        runs: 1,
        runs_max,
        progress,
    };
    loop {
        let before = search.best.to_text();
        search.fewer_faults()?;
        search.fewer_transactions()?;
        search.fewer_clients()?;
        search.fewer_nodes()?;
        search.shorter_faults()?;
        if search.best.to_text() == before || search.runs >= search.runs_max {
            break;
        }
    }
    Ok(Minimised {
        file: search.best,
        verdict: search.verdict,
        runs: search.runs,
    })
}

/// The number of nodes of all clusters.
fn servers(file: &CaseFile) -> u16 {
    file.nodes * file.case.clusters
}

struct Search<'p> {
    best: CaseFile,
    verdict: Verdict,
    prepared: Prepared,
    runs: u32,
    runs_max: u32,
    progress: &'p mut dyn FnMut(u32),
}

impl Search<'_> {
    /// Whether a smaller case fails, too. If so, it becomes the best one.
    fn fails(&mut self, candidate: CaseFile) -> Result<bool, CaseError> {
        if self.runs >= self.runs_max {
            return Ok(false);
        }
        self.runs += 1;
        (self.progress)(self.runs);
        let other_size = (candidate.nodes != self.prepared.nodes)
            .then(|| candidate.prepare())
            .transpose()?;
        let prepared = other_size.as_ref().unwrap_or(&self.prepared);
        let verdict = match candidate.case.run(prepared) {
            Ok(report) => report.verdict,
            // Of fewer servers the plan loses too many.
            Err(CaseError::NoMajority { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let same = std::mem::discriminant(&verdict) == std::mem::discriminant(&self.verdict);
        if same {
            self.best = candidate;
            self.verdict = verdict;
            if let Some(prepared) = other_size {
                self.prepared = prepared;
            }
        }
        Ok(same)
    }

    fn with_faults(&self, faults: Vec<Fault>) -> CaseFile {
        let mut candidate = self.best.clone();
        candidate.case.plan.faults = faults;
        candidate
    }

    /// Removes parts of the plan, from halves down to single faults.
    fn fewer_faults(&mut self) -> Result<(), CaseError> {
        let mut parts = 1;
        loop {
            let faults = self.best.case.plan.faults.clone();
            if faults.is_empty() {
                return Ok(());
            }
            let size = faults.len().div_ceil(parts);
            let mut taken = false;
            for start in (0..faults.len()).step_by(size) {
                let end = (start + size).min(faults.len());
                let rest = [&faults[..start], &faults[end..]].concat();
                if self.fails(self.with_faults(rest))? {
                    taken = true;
                    break;
                }
            }
            if taken {
                parts = (parts - 1).max(1);
            } else if size == 1 {
                return Ok(());
            } else {
                parts = (parts * 2).min(faults.len());
            }
        }
    }

    /// Reduces a number: by halves, then by one.
    fn fewer(
        &mut self,
        least: u64,
        get: fn(&CaseFile) -> u64,
        set: fn(&mut CaseFile, u64),
    ) -> Result<(), CaseError> {
        loop {
            let now = get(&self.best);
            let mut smaller: Vec<u64> = vec![now / 2, now - now / 4, now.saturating_sub(1)];
            smaller.retain(|number| *number >= least && *number < now);
            smaller.dedup();
            let mut taken = false;
            for number in smaller {
                let mut candidate = self.best.clone();
                set(&mut candidate, number);
                if self.fails(candidate)? {
                    taken = true;
                    break;
                }
            }
            if !taken {
                return Ok(());
            }
        }
    }

    fn fewer_transactions(&mut self) -> Result<(), CaseError> {
        let set = |file: &mut CaseFile, number| file.case.transactions = number;
        self.fewer(1, |file| file.case.transactions, set)
    }

    fn fewer_clients(&mut self) -> Result<(), CaseError> {
        self.fewer(
            1,
            |file| u64::from(file.case.clients),
            |file, number| {
                file.case.clients = number as u32;
                file.case.plan = (file.case.plan).within(servers(file), file.case.clients);
            },
        )
    }

    fn fewer_nodes(&mut self) -> Result<(), CaseError> {
        self.fewer(
            1,
            |file| u64::from(file.nodes),
            |file, number| {
                file.nodes = number as u16;
                file.case.replicas = file.case.replicas.min(file.nodes);
                file.case.plan = (file.case.plan).within(servers(file), file.case.clients);
            },
        )
    }

    fn shorter_faults(&mut self) -> Result<(), CaseError> {
        for at in 0..self.best.case.plan.faults.len() {
            loop {
                let mut faults = self.best.case.plan.faults.clone();
                if faults[at].for_us <= 1 {
                    break;
                }
                faults[at].for_us /= 2;
                if !self.fails(self.with_faults(faults))? {
                    break;
                }
            }
        }
        Ok(())
    }
}
