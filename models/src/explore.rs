//! Visits every reachable state of a small cluster.
//!
//! [`explore`] searches depth first and recognises states by their digests. Two actions at different
//! nodes lead to the same state in either order, so one order is enough: *sleep sets* (Godefroid,
//! *Partial-Order Methods for the Verification of Concurrent Systems*, 1996, chapter 5 with the state
//! matching of its Figure 5.3) skip the other. They save steps and no states: a property that holds in
//! all visited states holds in all reachable states. After a violation [`shortest`] searches for it
//! breadth first.

use rustc_hash::FxHashMap;

use crate::cluster::{Action, Scenario, State, Subject};

/// A property: of every state, and of every state at rest.
pub trait Property<P: Subject> {
    /// Checks a state.
    ///
    /// # Errors
    /// The violation.
    fn check(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String>;

    /// Checks a state at rest, in which nothing is left to happen.
    ///
    /// # Errors
    /// The violation.
    fn check_end(&self, state: &State<P>, scenario: &Scenario) -> Result<(), String>;
}

/// The limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The search ends after this many states.
    pub states_max: u64,
    /// Whether to skip orders of actions that lead to the same state.
    pub reduce: bool,
}

impl Default for Limits {
    /// A hundred million states, with reduction.
    fn default() -> Self {
        Limits {
            states_max: 100_000_000,
            reduce: true,
        }
    }
}

/// The size of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    /// The number of different states.
    pub states: u64,
    /// The number of steps from one state to another.
    pub steps: u64,
    /// The number of states at rest.
    pub ends: u64,
    /// The longest sequence of steps.
    pub depth: u64,
    /// Whether all reachable states were visited.
    pub complete: bool,
}

/// A violation of a property, and the steps that lead to it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The violation.
    pub what: String,
    /// The steps from the first state.
    pub actions: Vec<Action>,
}

/// A violation and its description.
#[derive(Clone, Debug)]
pub struct Found {
    /// The violation.
    pub what: String,
    /// The number of steps that lead to it.
    pub steps: usize,
    /// The steps, one line each, and the violation.
    pub story: String,
}

/// A state on the path from the first to the current one.
struct Frame<P: Subject> {
    state: State<P>,
    /// Actions that are left to be taken.
    left: Vec<Action>,
    /// The sleep set: the numbers of actions that another order covers.
    sleep: u64,
}

struct Search<'a, P: Subject> {
    scenario: &'a Scenario,
    property: &'a dyn Property<P>,
    limits: Limits,
    /// By digest: the actions that were not taken from the state.
    known: FxHashMap<u128, u64>,
    visited: Visited,
}

/// Visits every state that is reachable from `first`. Returns the size of the search, and the first violation.
pub fn explore<P: Subject>(
    first: State<P>,
    scenario: &Scenario,
    property: &dyn Property<P>,
    limits: Limits,
) -> (Visited, Option<Violation>) {
    let mut search = Search {
        scenario,
        property,
        limits,
        known: FxHashMap::default(),
        visited: Visited::default(),
    };
    let mut path: Vec<Action> = Vec::new();
    let mut frames: Vec<Frame<P>> = Vec::new();
    match search.enter(first, 0) {
        Ok(frame) => frames.extend(frame),
        Err(what) => {
            return (
                search.visited,
                Some(Violation {
                    what,
                    actions: path,
                }),
            );
        }
    }
    while let Some(frame) = frames.last_mut() {
        let Some(action) = frame.left.pop() else {
            frames.pop();
            path.pop();
            continue;
        };
        if search.visited.states >= limits.states_max {
            return (search.visited, None);
        }
        let sleep = search.asleep(frame, action);
        frame.sleep |= 1 << action.number();
        path.push(action);
        search.visited.steps += 1;
        let next = frame.state.after(action, scenario);
        match next.and_then(|next| search.enter(next, sleep)) {
            Ok(Some(next)) => {
                frames.push(next);
                search.visited.depth = search.visited.depth.max(path.len() as u64);
            }
            Ok(None) => {
                path.pop();
            }
            Err(what) => {
                return (
                    search.visited,
                    Some(Violation {
                        what,
                        actions: path,
                    }),
                );
            }
        }
    }
    search.visited.complete = true;
    (search.visited, None)
}

impl<P: Subject> Search<'_, P> {
    /// The sleep set after `action`: the actions that sleep here and are independent of it.
    fn asleep(&self, frame: &Frame<P>, action: Action) -> u64 {
        if !self.limits.reduce || frame.sleep == 0 {
            return 0;
        }
        let concerned = frame.state.concerns(action, self.scenario);
        let actions = frame.state.actions(self.scenario);
        let independent = actions.into_iter().filter(|other| {
            frame.sleep & 1 << other.number() != 0
                && frame.state.concerns(*other, self.scenario) & concerned == 0
        });
        independent.fold(0, |sleep, other| sleep | 1 << other.number())
    }

    /// Checks a state if it is new. Returns `None` if no action has to be taken from it.
    fn enter(&mut self, state: State<P>, sleep: u64) -> Result<Option<Frame<P>>, String> {
        let actions = || state.actions(self.scenario);
        let digest = state.digest();
        let (left, sleep): (Vec<Action>, u64) = match self.known.get_mut(&digest) {
            None => {
                self.known.insert(digest, sleep);
                self.visited.states += 1;
                self.property.check(&state, self.scenario)?;
                if state.progress(self.scenario).is_empty() {
                    self.visited.ends += 1;
                    self.property.check_end(&state, self.scenario)?;
                }
                let awake = |action: &Action| sleep & 1 << action.number() == 0;
                (actions().into_iter().filter(awake).collect(), sleep)
            }
            Some(before) => {
                let due = *before & !sleep;
                *before &= sleep;
                let sleep = *before;
                if due == 0 {
                    return Ok(None);
                }
                let is_due = |action: &Action| due & 1 << action.number() != 0;
                (actions().into_iter().filter(is_due).collect(), sleep)
            }
        };
        Ok(Some(Frame { state, left, sleep }))
    }
}

/// Searches breadth first for the shortest sequence of steps to a violation, of at most `depth_max` steps.
pub fn shortest<P: Subject>(
    first: State<P>,
    scenario: &Scenario,
    property: &dyn Property<P>,
    depth_max: usize,
) -> Option<Violation> {
    /// How a state was reached: the index of its predecessor, and the action.
    type Origin = (usize, Option<Action>);
    let trace = |origins: &[Origin], mut at: usize| {
        let mut actions = Vec::new();
        while let (before, Some(action)) = origins[at] {
            actions.push(action);
            at = before;
        }
        actions.reverse();
        actions
    };
    let mut known = FxHashMap::default();
    known.insert(first.digest(), ());
    let mut origins: Vec<Origin> = vec![(0, None)];
    let mut level = vec![(0, first)];
    for _ in 0..depth_max {
        let mut next_level = Vec::new();
        for (at, state) in level {
            for action in state.actions(scenario) {
                let judged = state.after(action, scenario).and_then(|next| {
                    if known.insert(next.digest(), ()).is_some() {
                        return Ok(None);
                    }
                    property.check(&next, scenario)?;
                    if next.progress(scenario).is_empty() {
                        property.check_end(&next, scenario)?;
                    }
                    Ok(Some(next))
                });
                match judged {
                    Ok(None) => {}
                    Ok(Some(next)) => {
                        origins.push((at, Some(action)));
                        next_level.push((origins.len() - 1, next));
                    }
                    Err(what) => {
                        let mut actions = trace(&origins, at);
                        actions.push(action);
                        return Some(Violation { what, actions });
                    }
                }
            }
        }
        level = next_level;
    }
    None
}

/// Describes the steps to a violation, one line each, and the violation.
pub fn describe_steps<P: Subject>(
    first: &State<P>,
    scenario: &Scenario,
    found: &Violation,
) -> String {
    let mut text = String::new();
    let mut state = first.clone();
    for (number, action) in (1..).zip(&found.actions) {
        let words = state.describe(*action, scenario);
        text += &format!("{number:>3}. {words}\n");
        match state.after(*action, scenario) {
            Ok(next) => state = next,
            Err(_) => break,
        }
    }
    text += &format!("     {}\n", found.what);
    text
}
