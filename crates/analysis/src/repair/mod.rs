//! Repairs: changes of an application under which less has to be coordinated.
//!
//! A repair is a changed text. Its benefit is measured, not claimed: the same front end reads the changed files,
//! the same [`analyze_with`] analyses them, and the difference of the two plans (`change`) is reported. A change
//! that is not better is not offered, and is listed as tried.
//!
//! 1. `body`: routines as lists of statements, with what is known of their variables.
//! 2. One file for each kind makes candidates, each a list of `edit`s: `increment`, `check`, `counter`,
//!    `generated`, `deletion`, `routing`, `shares`. [`KINDS`] lists them by name.
//! 3. [`propose`] reads, analyses and compares each candidate by itself, and ranks those that are better: by how
//!    much coordination they save, then by how little the application gives up.
//! 4. `combined`: applies the best one, and repeats the search on the changed files.
//!
//! A repair keeps what each transaction does when it runs alone, except for what it lists for the application to
//! accept. Only files of SQL are changed: neither programs' source nor files of invariants.

mod body;
mod catalogue;
mod change;
mod check;
mod combined;
mod counter;
mod deletion;
mod edit;
mod generated;
mod increment;
mod routing;
mod shares;
mod tokens;

use std::collections::BTreeSet;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::Script;
use anabranch_sql::source::{SourceFile, Span};
use anabranch_sql::summary::TransactionSummary;

pub use catalogue::{KINDS, Kind, kind_by_code};
pub use change::{Classes, PlanChange, TypeChange, TypePlan};
pub use combined::{STEPS_MAX, Step, TRIED_AFTER_MAX};

use crate::footprint::Footprint;
use crate::invariant;
use crate::plan::Plan;
use crate::unanalysed::with_representative;
use crate::{Guarantee, Options, analyze_with};
use change::{Cost, Planned, change};
use edit::{Edit, applied, ordered, unified};

/// The most candidates that are read and analysed.
pub const TRIED_MAX: usize = 100;

/// Reads changed files, which replace the first of the application's files in order. Returns a reason if it refuses
/// them.
pub type Reader<'r> = dyn Fn(Vec<SourceFile>) -> Result<Script, String> + 'r;

/// An application to repair.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// Its declarations.
    pub catalog: &'a Catalog,
    /// Its transaction types.
    pub summaries: &'a [TransactionSummary],
    /// Its plan.
    pub plan: &'a Plan,
    /// The options that the plan was made with.
    pub options: &'a Options,
    /// How many of the catalog's files, from the first, are the application's own SQL and may be changed.
    pub files: usize,
    /// Reads changed files.
    pub read: &'a Reader<'a>,
}

/// The result of a search for repairs.
#[derive(Clone, Debug, Default)]
pub struct Repairs {
    /// Repairs with a better plan, the best first.
    pub offered: Vec<Repair>,
    /// Candidates that are not offered.
    pub considered: Vec<Considered>,
    /// How many candidates beyond [`TRIED_MAX`] were not tried.
    pub untried: usize,
}

/// A change under which less is coordinated.
#[derive(Clone, Debug)]
pub struct Repair {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its title, with names of this application.
    pub title: String,
    /// The changes that it combines, in order; empty for a single change.
    pub steps: Vec<Step>,
    /// The changed places: file and line.
    pub places: Vec<(String, u32)>,
    /// The change of the files, as `diff -u` prints it; empty if the repair asks for another guarantee.
    pub diff: String,
    /// The change of the plan.
    pub change: PlanChange,
    /// What the application gives up, or has to accept.
    pub accepts: Vec<String>,
    /// The changed files.
    pub files: Vec<SourceFile>,
    /// The options of the new plan.
    pub options: Options,
}

/// A change that is not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its title, with names of this application.
    pub title: String,
    /// Why it is not offered.
    pub reason: String,
}

/// A change that may give a better plan.
struct Candidate {
    kind: &'static Kind,
    title: String,
    at: Vec<Span>,
    edits: Vec<Edit>,
    accepts: Vec<String>,
    /// What has to be accepted, too, if an owner then decides something at commit.
    accepts_at_commit: Option<&'static str>,
    guarantee: Option<Guarantee>,
}

/// The kind with this code, which is one of [`KINDS`].
fn kind(code: &str) -> &'static Kind {
    let mut kinds = KINDS.iter();
    let found = kinds.find(|kind| kind.code == code);
    debug_assert!(found.is_some(), "kind {code} is not in the catalogue");
    found.unwrap_or(&KINDS[0])
}

/// Looks for repairs, and analyses the application again with each candidate.
pub fn propose(subject: Subject<'_>) -> Repairs {
    let mut repairs = Repairs::default();
    if !subject.plan.needs_coordination() {
        return repairs;
    }
    let mut candidates = candidates(subject);
    repairs.untried = candidates.len().saturating_sub(TRIED_MAX);
    candidates.truncate(TRIED_MAX);
    let found = search(subject, candidates);
    repairs.offered.extend(combined::combined(subject, &found));
    let SearchResult { better, rest, .. } = found;
    // Another repair of the same kind does better, or as well with less, in the same place.
    let mut done: Vec<(&'static str, Span)> = Vec::new();
    let overlaps = |done: &[(&'static str, Span)], candidate: &Candidate| {
        let mut at = candidate.at.iter();
        at.any(|span| done.contains(&(candidate.kind.code, *span)))
    };
    for Improvement {
        candidate, repair, ..
    } in better
    {
        if !overlaps(&done, &candidate) {
            done.extend(candidate.at.iter().map(|span| (candidate.kind.code, *span)));
            repairs.offered.push(repair);
        }
    }
    let useless = rest.into_iter().filter(|(c, _)| !overlaps(&done, c));
    repairs.considered = useless
        .map(|(candidate, reason)| Considered {
            kind: candidate.kind,
            title: candidate.title,
            reason,
        })
        .collect();
    let steps = repairs.offered.iter().flat_map(|of| &of.steps);
    let alone = repairs.offered.iter().map(|of| of.title.as_str());
    let offered: BTreeSet<&str> = alone.chain(steps.map(|step| step.title.as_str())).collect();
    let bounds = shares::considered(subject.plan);
    repairs.considered.extend(bounds);
    // What is a step of a combination is of use.
    repairs
        .considered
        .retain(|of| !offered.contains(of.title.as_str()));
    let mut seen = BTreeSet::new();
    repairs
        .considered
        .retain(|of| seen.insert((of.kind.code, of.title.clone())));
    repairs
}

/// A change that saves something.
struct Improvement {
    cost: Cost,
    candidate: Candidate,
    repair: Repair,
}

/// The results of trying each change by itself.
struct SearchResult {
    /// The best first.
    better: Vec<Improvement>,
    /// Changes that save nothing, with the reason.
    rest: Vec<(Candidate, String)>,
    /// Indexes of those of the rest that cost nothing either, the best first, with the repair: with another change
    /// they may save something.
    neutral: Vec<(usize, Repair)>,
}

/// Tries each change by itself.
fn search(subject: Subject<'_>, candidates: Vec<Candidate>) -> SearchResult {
    let cost = Cost::of(subject.plan);
    let (mut better, mut rest, mut neutral) = (Vec::new(), Vec::new(), Vec::new());
    for candidate in candidates {
        match tried(subject, &candidate) {
            // A change that no plan shows is not offered.
            Ok((now, repair)) if now < cost && !repair.change.types.is_empty() => {
                better.push(Improvement {
                    cost: now,
                    candidate,
                    repair,
                })
            }
            Ok((now, repair)) => {
                if now == cost {
                    neutral.push((rest.len(), repair));
                }
                let reason = "tried: it needs no less coordination".to_owned();
                rest.push((candidate, reason));
            }
            Err(reason) => rest.push((candidate, format!("refused: {reason}"))),
        }
    }
    better.sort_by_key(|of| order(of.cost, &of.candidate));
    neutral.sort_by_key(|(of, _)| order(cost, &rest[*of].0));
    SearchResult {
        better,
        rest,
        neutral,
    }
}

/// The key by which changes are ranked: the least is the best.
fn order(cost: Cost, candidate: &Candidate) -> impl Ord + use<> {
    let place = |span: &Span| (span.file, span.start);
    let first = candidate.at.iter().map(place).min();
    (cost, candidate.kind.rank, candidate.edits.len(), first)
}

/// The file and line of a place.
fn place_of(files: &[SourceFile], at: Span) -> Option<(String, u32)> {
    let file = files.get(usize::from(at.file))?;
    let line = file.line_column(at.start).0;
    Some((file.name.clone(), line))
}

/// All candidates, each once.
fn candidates(subject: Subject<'_>) -> Vec<Candidate> {
    let seen = with_representative(subject.catalog, subject.summaries);
    let footprint = Footprint::new(subject.catalog, &seen);
    let bodies = body::bodies(&footprint, subject.files);
    let declared = invariant::collect(&footprint);
    let mut all = increment::candidates(&footprint, &bodies);
    all.extend(check::candidates(&footprint, &bodies, subject.plan));
    all.extend(counter::candidates(&footprint, &bodies));
    all.extend(generated::candidates(&footprint, &bodies, subject.files));
    all.extend(deletion::candidates(
        &footprint,
        &bodies,
        subject.plan,
        &declared,
        subject.files,
    ));
    all.extend(routing::candidates(&footprint, &bodies, subject.plan));
    all.extend(shares::candidates(
        &footprint,
        &bodies,
        subject.plan,
        &declared,
        subject.files,
    ));
    all.extend(weaker(subject));
    let mut seen: Vec<Vec<Edit>> = Vec::new();
    all.retain_mut(|candidate| {
        if candidate.guarantee.is_some() {
            return true;
        }
        let Some(edits) = ordered(&candidate.edits) else {
            return false;
        };
        candidate.edits = edits;
        let is_new = !seen.contains(&candidate.edits);
        if is_new {
            seen.push(candidate.edits.clone());
        }
        is_new
    });
    all
}

/// A candidate that asks for the declared invariants alone, if the plan guarantees more.
fn weaker(subject: Subject<'_>) -> Option<Candidate> {
    (subject.options.guarantee == Guarantee::Serializable).then(|| Candidate {
        kind: kind("repair-guarantee"),
        title: "ask for the declared invariants only: --guarantee invariants".to_owned(),
        at: Vec::new(),
        edits: Vec::new(),
        accepts: vec![
            "transactions are no longer serializable: every rule that has to hold, such as one about a decision on rows \
             that other transactions change, must be declared"
                .to_owned(),
        ],
        accepts_at_commit: None,
        guarantee: Some(Guarantee::Invariants),
    })
}

/// Reads and analyses the application with a change.
fn tried(subject: Subject<'_>, candidate: &Candidate) -> Result<(Cost, Repair), String> {
    let own = &subject.catalog.files[..subject.files];
    let files = applied(own, &candidate.edits).ok_or("an edit is outside of its file")?;
    let read = (subject.read)(files.clone())?;
    let mut options = subject.options.clone();
    options.guarantee = candidate.guarantee.unwrap_or(options.guarantee);
    let plan = analyze_with(read.application.catalog(), &read.summaries, &options);
    let before = Planned {
        plan: subject.plan,
        summaries: subject.summaries,
    };
    let after = Planned {
        plan: &plan,
        summaries: &read.summaries,
    };
    let change = change(before, after).ok_or("it changes the set of transaction types")?;
    let known = |summaries: &[TransactionSummary]| {
        let unknown = summaries.iter().filter(|s| s.unknown.is_some());
        unknown.count()
    };
    if known(&read.summaries) > known(subject.summaries) {
        return Err("the analyser cannot read part of the changed files".to_owned());
    }
    let places = candidate.at.iter();
    let places = places.filter_map(|span| place_of(&subject.catalog.files, *span));
    let (was, now) = (Cost::of(subject.plan), Cost::of(&plan));
    let mut accepts = candidate.accepts.clone();
    if now.at_commit > was.at_commit {
        accepts.extend(candidate.accepts_at_commit.map(str::to_owned));
    }
    let repair = Repair {
        kind: candidate.kind,
        title: candidate.title.clone(),
        steps: Vec::new(),
        places: places.collect(),
        diff: unified(own, &files, &candidate.edits),
        change,
        accepts,
        files,
        options,
    };
    Ok((now, repair))
}
