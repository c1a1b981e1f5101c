//! Repairs one after the other: the best one is made, and the changed application is repaired again.
//!
//! What one change leaves may be what another takes away, and a change may make another possible; so the files
//! are read and analysed anew for each step, as those of an application that nobody has repaired. The best of a
//! step is kept, whatever the others would have led to: that finds a good combination, not the best.
//!
//! Where no change saves anything by itself, two may: as long as one type computes what it writes and another
//! checks it, both are ordered. Then what costs nothing is made, and what is better after it.

use std::mem::take;

use anabranch_sql::script::Script;

use super::change::{Planned, change};
use super::edit::{Edit, joined, traced, unified};
use super::{Better, Candidate, Found, Kind, Repair, Subject, candidates, kind, place_of, search};
use crate::analyze_with;
use crate::plan::Plan;

/// The most changes that are made one after the other.
pub const STEPS_MAX: usize = 3;

/// The most candidates that are read and analysed for the steps after the first, all together.
pub const TRIED_AFTER_MAX: usize = 100;

/// One of several changes that are made together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What kind it is.
    pub kind: &'static Kind,
    /// What it does.
    pub title: String,
}

/// An application that is repaired in part.
struct Repaired {
    script: Script,
    plan: Plan,
    /// What was changed of the files, all of it together.
    edits: Vec<Edit>,
    repair: Repair,
}

/// The best repair with what is best after it, as one; and what is best of two together where none is by itself.
/// None where one change is all. `found` is what each comes to by itself.
pub(super) fn combined(subject: Subject<'_>, found: &Found) -> Option<Repair> {
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

/// With the best of what was found, or with the first that costs nothing and has something better after it.
fn next(
    subject: Subject<'_>,
    from: Option<&Repaired>,
    found: &Found,
    left: &mut usize,
) -> Option<Repaired> {
    if let Some(Better {
        candidate, repair, ..
    }) = found.better.first()
    {
        return made(subject, from, candidate, repair);
    }
    let steps = from.map_or(0, |from| from.repair.steps.len());
    if steps + 2 > STEPS_MAX {
        return None;
    }
    let mut even = found.even.iter();
    even.find_map(|(of, repair)| {
        let (candidate, _) = &found.rest[*of];
        if *left == 0 || matches!(candidate.kind.code, "repair-lock-read" | "repair-cascade") {
            return None;
        }
        let first = made(subject, from, candidate, repair)?;
        let found = first.found(subject, left);
        let Better {
            candidate, repair, ..
        } = found.better.first()?;
        made(subject, Some(&first), candidate, repair)
    })
}

/// The application as it is after `from`, with one change more, which comes to `now`.
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
        let place = place_of(own, traced(&from.edits, *span));
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
    /// What each further change would come to, of as many as are left to be tried.
    fn found(&self, subject: Subject<'_>, left: &mut usize) -> Found {
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
