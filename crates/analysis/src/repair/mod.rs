//! Repairs: changes of an application under which less has to be coordinated.
//!
//! A repair is a changed text. Nobody says of it what it is good for: the changed files are read by the same
//! front end and analysed by the same [`analyze_with`], and what is told of the plan is the difference of the two
//! plans. What does not come out better (`change`) is not offered, and told as tried.
//!
//! 1. `body`: the routines as lists of statements, with what is known of their variables.
//! 2. One file a kind makes candidates, each a list of `edit`s: `increment`, `check`, `counter`,
//!    `generated`, `deletion`, `routing`, `shares`. [`KINDS`] has them by name.
//! 3. [`propose`] reads, analyses and compares each by itself, and ranks what is better: by how much
//!    coordination goes, then by how little the application gives up.
//! 4. `combined`: the best one is made, and the search begins again on what it has made of the files.
//!
//! Each keeps what the transactions do when they run alone, but for what it says that the application has to
//! accept. Programs' source is not changed, nor files of invariants: only SQL that is written down as such.

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
mod words;

use std::collections::BTreeSet;

use anabranch_sql::catalog::Catalog;
use anabranch_sql::script::Script;
use anabranch_sql::source::{SourceFile, Span};
use anabranch_sql::summary::TransactionSummary;

pub use catalogue::{KINDS, Kind, kind_by_code};
pub use change::{Classes, PlanChange, TypeChange, TypePlan};
pub use combined::{STEPS_MAX, Step, TRIED_AFTER_MAX};

use crate::anything::stood_for;
use crate::footprint::Footprint;
use crate::invariant;
use crate::plan::Plan;
use crate::{Guarantee, Options, analyze_with};
use change::{Cost, Planned, change};
use edit::{Edit, applied, ordered, unified};

/// The most candidates that are read and analysed.
pub const TRIED_MAX: usize = 100;

/// Reads changed files: the first of the application's, in their order. Says why they are refused.
pub type Reader<'r> = dyn Fn(Vec<SourceFile>) -> Result<Script, String> + 'r;

/// What is to be repaired.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// What is declared.
    pub catalog: &'a Catalog,
    /// Its transaction types.
    pub summaries: &'a [TransactionSummary],
    /// Its plan.
    pub plan: &'a Plan,
    /// What the plan was asked for with.
    pub options: &'a Options,
    /// So many of the catalog's files are the application's own SQL, and may be changed.
    pub files: usize,
    /// Who reads them again.
    pub read: &'a Reader<'a>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Repairs {
    /// What comes out better, the best first.
    pub offered: Vec<Repair>,
    /// What was tried, or comes to mind, and is of no use here.
    pub considered: Vec<Considered>,
    /// Candidates beyond [`TRIED_MAX`], which were not looked at.
    pub untried: usize,
}

/// A change under which less is coordinated.
#[derive(Clone, Debug)]
pub struct Repair {
    /// What kind it is.
    pub kind: &'static Kind,
    /// What it does, here.
    pub title: String,
    /// The changes that are made together, in their order. Empty of a single one.
    pub steps: Vec<Step>,
    /// Where: file and line.
    pub places: Vec<(String, u32)>,
    /// The change of the files, as `diff -u` shows it; empty where another guarantee is asked for.
    pub diff: String,
    /// The change of the plan.
    pub change: PlanChange,
    /// What the application gives up, or has to accept.
    pub accepts: Vec<String>,
    /// The files, changed.
    pub files: Vec<SourceFile>,
    /// What the new plan was asked for with.
    pub options: Options,
}

/// A change that is not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// What kind it is.
    pub kind: &'static Kind,
    /// What it would do, here.
    pub title: String,
    /// Why it is not offered.
    pub reason: String,
}

/// A change that may be one for the better.
struct Candidate {
    kind: &'static Kind,
    title: String,
    at: Vec<Span>,
    edits: Vec<Edit>,
    accepts: Vec<String>,
    /// What is to be accepted besides if an owner then decides something at commit.
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

/// Looks for repairs, and analyses the application again with each.
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
    let Found { better, rest, .. } = found;
    // What another of the same kind does better, or does as well with less, in the same place.
    let mut done: Vec<(&'static str, Span)> = Vec::new();
    let overlaps = |done: &[(&'static str, Span)], candidate: &Candidate| {
        let mut at = candidate.at.iter();
        at.any(|span| done.contains(&(candidate.kind.code, *span)))
    };
    for Better {
        candidate, repair, ..
    } in better
    {
        if !overlaps(&done, &candidate) {
            done.extend(candidate.at.iter().map(|span| (candidate.kind.code, *span)));
            repairs.offered.push(repair);
        }
    }
    let told = rest.into_iter().filter(|(c, _)| !overlaps(&done, c));
    repairs.considered = told
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
    // What is a step of something is of use.
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
struct Better {
    cost: Cost,
    candidate: Candidate,
    repair: Repair,
}

/// What trying each of some changes by itself has come to.
struct Found {
    /// The best first.
    better: Vec<Better>,
    /// What saves nothing, with the reason.
    rest: Vec<(Candidate, String)>,
    /// Those of the rest that cost nothing either, the best first, with what they come to: with another they may save
    /// something.
    even: Vec<(usize, Repair)>,
}

/// Tries each change by itself.
fn search(subject: Subject<'_>, candidates: Vec<Candidate>) -> Found {
    let cost = Cost::of(subject.plan);
    let (mut better, mut rest, mut even) = (Vec::new(), Vec::new(), Vec::new());
    for candidate in candidates {
        match tried(subject, &candidate) {
            // A change that no plan shows is none to ask for.
            Ok((now, repair)) if now < cost && !repair.change.types.is_empty() => {
                better.push(Better {
                    cost: now,
                    candidate,
                    repair,
                })
            }
            Ok((now, repair)) => {
                if now == cost {
                    even.push((rest.len(), repair));
                }
                let reason = "tried: no less has to be ordered with it".to_owned();
                rest.push((candidate, reason));
            }
            Err(reason) => rest.push((candidate, format!("it is refused: {reason}"))),
        }
    }
    better.sort_by_key(|of| order(of.cost, &of.candidate));
    even.sort_by_key(|(of, _)| order(cost, &rest[*of].0));
    Found { better, rest, even }
}

/// What tells which of two changes is the better one: the least.
fn order(cost: Cost, candidate: &Candidate) -> impl Ord + use<> {
    let place = |span: &Span| (span.file, span.start);
    let first = candidate.at.iter().map(place).min();
    (cost, candidate.kind.rank, candidate.edits.len(), first)
}

/// Where something is: file and line.
fn place_of(files: &[SourceFile], at: Span) -> Option<(String, u32)> {
    let file = files.get(usize::from(at.file))?;
    let line = file.line_column(at.start).0;
    Some((file.name.clone(), line))
}

/// All changes that come to mind, each once.
fn candidates(subject: Subject<'_>) -> Vec<Candidate> {
    let seen = stood_for(subject.catalog, subject.summaries);
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

/// The declared invariants alone, where more is asked for.
fn weaker(subject: Subject<'_>) -> Option<Candidate> {
    (subject.options.guarantee == Guarantee::Serializable).then(|| Candidate {
        kind: kind("repair-guarantee"),
        title: "ask for the declared invariants alone: --guarantee invariants".to_owned(),
        at: Vec::new(),
        edits: Vec::new(),
        accepts: vec![
            "transactions are not as if they ran one after another: what is to hold beyond the declared \
             invariants, such as a decision about rows that others change, has to be declared"
                .to_owned(),
        ],
        accepts_at_commit: None,
        guarantee: Some(Guarantee::Invariants),
    })
}

/// Reads and analyses the application with a change.
fn tried(subject: Subject<'_>, candidate: &Candidate) -> Result<(Cost, Repair), String> {
    let own = &subject.catalog.files[..subject.files];
    let files = applied(own, &candidate.edits).ok_or("a change is outside of its file")?;
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
    let change = change(before, after).ok_or("it changes which transaction types there are")?;
    let known = |summaries: &[TransactionSummary]| {
        let unknown = summaries.iter().filter(|s| s.unknown.is_some());
        unknown.count()
    };
    if known(&read.summaries) > known(subject.summaries) {
        return Err("something of it is not understood then".to_owned());
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
