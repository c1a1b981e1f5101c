//! Combines repairs: the best one is applied, and the changed application is repaired again.
//!
//! One change may remove what another needs, or make another possible; so each step reads and analyses the files
//! anew, as those of an unrepaired application. The search is greedy: it keeps the best repair of each step,
//! whatever the others would have led to. It finds a good combination, not the best.
//!
//! If no change saves anything by itself, two may: as long as one type computes what it writes and another checks
//! it, both are ordered. Then a change that costs nothing is applied, and what is better after it.

use std::mem::take;

use anabranch_sql::script::Script;

use super::change::{Planned, change};
use super::edit::{Edit, joined, mapped_back, unified};
use super::{
    Candidate, Improvement, Kind, Repair, SearchResult, Subject, candidates, kind, place_of, search,
};
use crate::analyze_with;
use crate::plan::Plan;

/// The most changes that are applied one after the other.
pub const STEPS_MAX: usize = 3;

/// The most candidates that are read and analysed for all steps after the first together.
pub const TRIED_AFTER_MAX: usize = 100;

/// One of several changes that form a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What kind it is.
    pub kind: &'static Kind,
    /// Its title.
    pub title: String,
}

/// A partly repaired application.
struct Repaired {
    script: Script,
    plan: Plan,
    /// All changes of the files so far.
    edits: Vec<Edit>,
    repair: Repair,
}

/// Returns the best repair with the best one after it, as one; or the best pair if none helps by itself. `None` if
/// a single change is best. `found` are the results of each change by itself.
pub(super) fn combined(subject: Subject<'_>, found: &SearchResult) -> Option<Repair> {
    let mut left = TRIED_AFTER_MAX;
    let mut repaired = next(subject, None, found, &mut left)?;
    while repaired.repair.steps.len() < STEPS_MAX && repaired.plan.needs_coordination() {
        let found = repaired.found(subject, &mut left);
        match next(subject, Some(&repaired), &found, &mut left) {
            Some(further) => repaired = further,
            None => break,
        }
    }
    let Repaired {
        script,
        plan,
        edits,
        mut repair,
    } = repaired;
    let steps = repair.steps.len();
    if steps < 2 {
        return None;
    }
    let before = Planned {
        plan: subject.plan,
        summaries: subject.summaries,
    };
    let after = Planned {
        plan: &plan,
        summaries: &script.summaries,
    };
    repair.kind = kind("repair-combination");
    repair.title = format!("make {steps} changes together");
    repair.change = change(before, after)?;
    let own = &subject.catalog.files[..subject.files];
    repair.diff = unified(own, &repair.files, &edits);
    Some(repair)
}

/// Continues with the best change found, or with the first that costs nothing and has a better one after it.
fn next(
    subject: Subject<'_>,
    from: Option<&Repaired>,
    found: &SearchResult,
    left: &mut usize,
) -> Option<Repaired> {
    if let Some(Improvement {
        candidate, repair, ..
    }) = found.better.first()
    {
        return made(subject, from, candidate, repair);
    }
    let steps = from.map_or(0, |from| from.repair.steps.len());
    if steps + 2 > STEPS_MAX {
        return None;
    }
    let mut neutral = found.neutral.iter();
    neutral.find_map(|(of, repair)| {
        let (candidate, _) = &found.rest[*of];
        if *left == 0 || matches!(candidate.kind.code, "repair-lock-read" | "repair-cascade") {
            return None;
        }
        let first = made(subject, from, candidate, repair)?;
        let found = first.found(subject, left);
        let Improvement {
            candidate, repair, ..
        } = found.better.first()?;
        made(subject, Some(&first), candidate, repair)
    })
}

/// The application with one change more than `from`, whose repair is `now`.
fn made(
    subject: Subject<'_>,
    from: Option<&Repaired>,
    candidate: &Candidate,
    now: &Repair,
) -> Option<Repaired> {
    let script = (subject.read)(now.files.clone()).ok()?;
    let plan = analyze_with(
        script.application.catalog(),
        &script.summaries,
        &now.options,
    );
    let step = Step {
        kind: now.kind,
        title: now.title.clone(),
    };
    let Some(from) = from else {
        return Some(Repaired {
            script,
            plan,
            edits: candidate.edits.clone(),
            repair: Repair {
                steps: vec![step],
                ..now.clone()
            },
        });
    };
    let own = &subject.catalog.files[..subject.files];
    let mut repair = now.clone();
    repair.steps.clone_from(&from.repair.steps);
    repair.steps.push(step);
    repair.places.clone_from(&from.repair.places);
    for span in &candidate.at {
        let place = place_of(own, mapped_back(&from.edits, *span));
        let is_new = |place: &(String, u32)| !repair.places.contains(place);
        let place = place.filter(is_new);
        repair.places.extend(place);
    }
    let more = take(&mut repair.accepts);
    repair.accepts.clone_from(&from.repair.accepts);
    for accepted in more {
        if !repair.accepts.contains(&accepted) {
            repair.accepts.push(accepted);
        }
    }
    Some(Repaired {
        edits: joined(own, &from.edits, &candidate.edits, &now.files),
        script,
        plan,
        repair,
    })
}

impl Repaired {
    /// Tries each further change, as long as tries are left.
    fn found(&self, subject: Subject<'_>, left: &mut usize) -> SearchResult {
        let now = Subject {
            catalog: self.script.application.catalog(),
            summaries: &self.script.summaries,
            plan: &self.plan,
            options: &self.repair.options,
            ..subject
        };
        let mut all = candidates(now);
        all.truncate(*left);
        *left -= all.len();
        search(now, all)
    }
}
