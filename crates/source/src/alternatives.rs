//! Functions that run one of several others in a transaction: by a chain of conditions, a switch, a table of functions,
//! or a method that several classes have. Each of the others is a transaction type of its own.
//!
//! This is sound, because a run of the function is a run of one alternative: the steps of the alternative stand in the
//! place of the choice. It is not done where one transaction may run several alternatives (a loop over jobs), and where
//! a statement runs before the choice, which may then depend on what was read. A loop that commits in each round is no
//! obstacle: each round is a transaction.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    project::Project,
    walk::{Branch, BranchRole, CalledFunction, Walked, WalkedStep},
};

/// The most alternatives of one function; with more of them it stays one type.
const ALTERNATIVES_MAX: usize = 64;

/// One alternative of a function.
#[derive(Clone, Debug)]
pub(crate) struct Alternative {
    /// The function that is called; `None` if none of them is.
    label: Option<usize>,
    /// All steps of the transaction.
    pub(crate) steps: Vec<WalkedStep>,
    /// The functions that the alternative itself runs.
    own: BTreeSet<usize>,
    /// The number of loops around it of which each round is a transaction.
    pub(crate) rounds: usize,
}

impl Alternative {
    /// All functions that run in it, as far as they are called.
    pub(crate) fn entered(&self) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        called(&self.steps, &mut |function| {
            found.extend(function.entered.iter().copied())
        });
        found
    }
}

/// The alternatives of a walked function; none if it does not choose among functions.
pub(crate) fn alternatives(walked: &Walked) -> Vec<Alternative> {
    if walked.gave_up {
        return Vec::new();
    }
    let mut steps = walked.steps.clone();
    let mut rounds = 0;
    while let Some(round) = round(&steps) {
        steps = round;
        rounds += 1;
    }
    let mut found = choice(&steps).unwrap_or_default();
    let labels: BTreeSet<Option<usize>> = found.iter().map(|one| one.label).collect();
    let writes = |one: &Alternative| may_write(walked, &one.steps);
    if labels.len() < 2 || found.len() > ALTERNATIVES_MAX || !found.iter().any(writes) {
        return Vec::new();
    }
    found.iter_mut().for_each(|one| one.rounds = rounds);
    found
}

/// The functions that some alternative runs by itself.
pub(crate) fn owned(alternatives: &[Alternative]) -> BTreeSet<usize> {
    let all = alternatives.iter().flat_map(|one| &one.own);
    all.copied().collect()
}

/// The functions of the alternatives.
pub(crate) fn labels(alternatives: &[Alternative]) -> impl Iterator<Item = usize> {
    alternatives.iter().filter_map(|one| one.label)
}

/// The name of each alternative: that of its function, or of its class where the functions of several classes have one
/// name. An alternative that calls none has none.
pub(crate) fn names(project: &Project<'_>, alternatives: &[Alternative]) -> Vec<Option<String>> {
    let functions = |one: &Alternative| one.label.map(|at| &project.functions[at]);
    let names: BTreeSet<&str> = alternatives
        .iter()
        .filter_map(functions)
        .map(|declared| declared.name.as_str())
        .collect();
    let by_class = names.len() == 1;
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let name = |one: &Alternative| {
        let declared = functions(one)?;
        let name = match (&declared.class, by_class) {
            (Some(class), true) => class.clone(),
            _ => declared.name.clone(),
        };
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        Some(match *times {
            1 => name,
            again => format!("{name} {again}"),
        })
    };
    alternatives.iter().map(name).collect()
}

/// Whether no statement runs in these steps, and no unknown SQL.
fn runs_nothing(steps: &[WalkedStep]) -> bool {
    let mut calls = false;
    called(steps, &mut |_| calls = true);
    !calls && steps.iter().all(WalkedStep::is_silent)
}

/// Visits the functions that are called.
fn called(steps: &[WalkedStep], found: &mut dyn FnMut(&CalledFunction)) {
    for step in steps {
        match step {
            WalkedStep::Called(function) => {
                found(function);
                called(&function.steps, found);
            }
            WalkedStep::Either(branches) => branches
                .iter()
                .for_each(|branch| called(&branch.steps, found)),
            WalkedStep::Repeat(inner) => called(inner, found),
            WalkedStep::Run(_) | WalkedStep::Prepared(_) | WalkedStep::Ends => {}
        }
    }
}

/// Whether some statement may write, or some function runs unknown SQL.
fn may_write(walked: &Walked, steps: &[WalkedStep]) -> bool {
    steps.iter().any(|step| match step {
        WalkedStep::Run(run) => {
            let text = walked.runs[*run].text.shown();
            !text
                .trim_start()
                .get(..6)
                .is_some_and(|word| word.eq_ignore_ascii_case("select"))
        }
        WalkedStep::Called(called) => {
            called.steps.iter().all(WalkedStep::is_silent) || may_write(walked, &called.steps)
        }
        WalkedStep::Either(branches) => branches
            .iter()
            .any(|branch| may_write(walked, &branch.steps)),
        WalkedStep::Repeat(inner) => may_write(walked, inner),
        WalkedStep::Prepared(_) => true,
        WalkedStep::Ends => false,
    })
}

/// One round of a loop in which every round is a transaction, if nothing runs outside of the loop.
fn round(steps: &[WalkedStep]) -> Option<Vec<WalkedStep>> {
    let mut loud = steps
        .iter()
        .enumerate()
        .filter(|(_, step)| !step.is_silent());
    let (at, step) = loud.next()?;
    // What a round has left open when it fails may be committed behind the loop.
    let is_last = !steps[at + 1..].iter().any(may_end) && loud.next().is_none();
    if !is_last {
        return None;
    }
    match step {
        WalkedStep::Repeat(inner) => (!is_open(inner, false)).then(|| inner.clone()),
        WalkedStep::Called(called) => round(&called.steps),
        WalkedStep::Either(branches) => match branches.as_slice() {
            [one] => round(&one.steps),
            _ => None,
        },
        WalkedStep::Run(_) | WalkedStep::Prepared(_) | WalkedStep::Ends => None,
    }
}

fn may_end(step: &WalkedStep) -> bool {
    match step {
        WalkedStep::Ends => true,
        WalkedStep::Called(called) => called.steps.iter().any(may_end),
        WalkedStep::Repeat(inner) => inner.iter().any(may_end),
        WalkedStep::Either(branches) => {
            let mut steps = branches.iter().flat_map(|branch| &branch.steps);
            steps.any(may_end)
        }
        WalkedStep::Run(_) | WalkedStep::Prepared(_) => false,
    }
}

/// Whether a transaction may be open behind these steps, if it may be before them.
fn is_open(steps: &[WalkedStep], before: bool) -> bool {
    steps.iter().fold(before, |open, step| match step {
        WalkedStep::Run(_) | WalkedStep::Prepared(_) => true,
        WalkedStep::Ends => false,
        WalkedStep::Called(called) => is_open(&called.steps, open),
        WalkedStep::Repeat(inner) => open || is_open(inner, true),
        WalkedStep::Either(branches) => {
            open || branches.iter().any(|branch| is_open(&branch.steps, open))
        }
    })
}

/// The alternatives of a choice that these steps begin with.
fn choice(steps: &[WalkedStep]) -> Option<Vec<Alternative>> {
    let first = steps.iter().position(|step| !step.is_silent())?;
    let (before, rest) = steps.split_at(first);
    let (step, after) = rest.split_first()?;
    let found = match step {
        WalkedStep::Called(called) => choice(&called.steps)?,
        WalkedStep::Either(branches) => return of_branches(before, branches, after),
        _ => return None,
    };
    Some(
        found
            .into_iter()
            .map(|one| one.between(before, after))
            .collect(),
    )
}

/// The alternatives of a choice, and of the rest of its block where a branch leaves the function.
fn of_branches(
    before: &[WalkedStep],
    branches: &[Branch],
    after: &[WalkedStep],
) -> Option<Vec<Alternative>> {
    let (rest, behind) = match after.split_first() {
        Some((WalkedStep::Either(rest), behind))
            if rest.iter().all(|branch| branch.role == BranchRole::Rest) =>
        {
            (Some(rest.as_slice()), behind)
        }
        _ => (None, after),
    };
    let mut found = Vec::new();
    // A branch that runs nothing is like none of them.
    for branch in branches
        .iter()
        .filter(|branch| !runs_nothing(&branch.steps))
    {
        let after = match branch.role {
            BranchRole::Returns => behind,
            BranchRole::Continues | BranchRole::Rest => after,
        };
        let of_branch = of_branch(&branch.steps)?.into_iter();
        found.extend(of_branch.map(|alternative| alternative.between(before, after)));
    }
    // None of the branches.
    match rest {
        Some([one]) if !runs_nothing(&one.steps) => {
            let inside = of_branch(&one.steps)?.into_iter();
            found.extend(inside.map(|alternative| alternative.between(before, behind)));
        }
        _ if after.iter().all(WalkedStep::is_silent) => {}
        _ => {
            let none = Alternative {
                label: None,
                steps: Vec::new(),
                own: BTreeSet::new(),
                rounds: 0,
            };
            found.push(none.between(before, after));
        }
    }
    Some(found)
}

/// The alternatives of one branch: the function that it calls, or those of a choice in it.
fn of_branch(steps: &[WalkedStep]) -> Option<Vec<Alternative>> {
    let calls = |step: &&WalkedStep| matches!(step, WalkedStep::Called(_));
    let loud = || steps.iter().filter(|step| !step.is_silent());
    let called = match (loud().next(), loud().count()) {
        (Some(WalkedStep::Called(called)), 1) => called,
        (Some(_), _) => return choice(steps),
        // It runs unknown SQL.
        (None, _) => match steps.iter().rfind(calls)? {
            WalkedStep::Called(called) => called,
            _ => return None,
        },
    };
    if let Some(inside) = choice(steps).filter(|inside| inside.len() > 1) {
        return Some(inside);
    }
    let mut own: BTreeSet<usize> = BTreeSet::new();
    self::called(steps, &mut |function| {
        own.extend(function.entered.iter().copied())
    });
    Some(vec![Alternative {
        label: Some(called.function),
        steps: steps.to_vec(),
        own,
        rounds: 0,
    }])
}

impl Alternative {
    /// The alternative between other steps.
    fn between(mut self, before: &[WalkedStep], after: &[WalkedStep]) -> Alternative {
        self.steps.splice(0..0, before.iter().cloned());
        self.steps.extend(after.iter().cloned());
        self
    }
}
