//! Visits every state that a small cluster can come to.
//!
//! [`explore`] goes depth first and knows states again by their digests. Two actions at different
//! nodes come to the same state in either order, so one of the two orders is enough to find it:
//! *sleep sets* (Godefroid, *Partial-Order Methods for the Verification of Concurrent Systems*,
//! 1996, chapter 5 with the state matching of its Figure 5.3) leave the other one out. They spare
//! steps and no states: every state is visited, so whatever holds in each visited state holds in
//! each state that there is. When something is found, [`shortest`] looks for it breadth first.

use rustc_hash::FxHashMap;

use crate::cluster::{Action, Setting, State, Subject};

/// What must hold: in each state, and in each in which nothing is left to happen.
pub trait Property<P: Subject> {
    /// Checks a state.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, state: &State<P>, setting: &Setting) -> Result<(), String>;

    /// Checks a state in which nothing is under way any more.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check_end(&self, state: &State<P>, setting: &Setting) -> Result<(), String>;
}

/// How far to look.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Give up after this many states.
    pub states_max: u64,
    /// Whether to leave out orders that come to the same state.
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

/// What was visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visited {
    /// States, each once.
    pub states: u64,
    /// Steps taken from one state to another.
    pub steps: u64,
    /// States in which nothing was under way.
    pub ends: u64,
    /// The longest run of steps.
    pub depth: u64,
    /// Whether there was nothing else to visit.
    pub complete: bool,
}

/// What must not be, and how it comes to be.
#[derive(Clone, Debug)]
pub struct Found {
    /// What is wrong.
    pub what: String,
    /// The steps that lead to it.
    pub actions: Vec<Action>,
}

/// One state on the way from the first to the current one.
struct Frame<P: Subject> {
    state: State<P>,
    /// Still to be taken from here.
    left: Vec<Action>,
    /// The numbers of the actions that another order takes care of.
    sleep: u64,
}

struct Search<'a, P: Subject> {
    setting: &'a Setting,
    property: &'a dyn Property<P>,
    limits: Limits,
    /// By digest: which actions have not been taken from the state.
    known: FxHashMap<u128, u64>,
    visited: Visited,
}

/// Visits every state that can be reached from this one. Tells what it visited, and the first
/// thing that it found wrong.
pub fn explore<P: Subject>(
    first: State<P>,
    setting: &Setting,
    property: &dyn Property<P>,
    limits: Limits,
) -> (Visited, Option<Found>) {
    let mut search = Search {
        setting,
        property,
        limits,
        known: FxHashMap::default(),
        visited: Visited::default(),
    };
    let mut way: Vec<Action> = Vec::new();
    let mut frames: Vec<Frame<P>> = Vec::new();
    match search.enter(first, 0) {
        Ok(frame) => frames.extend(frame),
        Err(what) => return (search.visited, Some(Found { what, actions: way })),
    }
    while let Some(frame) = frames.last_mut() {
        let Some(action) = frame.left.pop() else {
            frames.pop();
            way.pop();
            continue;
        };
        if search.visited.states >= limits.states_max {
            return (search.visited, None);
        }
        let sleep = search.asleep(frame, action);
        frame.sleep |= 1 << action.number();
        way.push(action);
        search.visited.steps += 1;
        let next = frame.state.after(action, setting);
        match next.and_then(|next| search.enter(next, sleep)) {
            Ok(Some(next)) => {
                frames.push(next);
                search.visited.depth = search.visited.depth.max(way.len() as u64);
            }
            Ok(None) => {
                way.pop();
            }
            Err(what) => return (search.visited, Some(Found { what, actions: way })),
        }
    }
    search.visited.complete = true;
    (search.visited, None)
}

impl<P: Subject> Search<'_, P> {
    /// What need not be taken after `action`: what sleeps here and has nothing to do with it.
    fn asleep(&self, frame: &Frame<P>, action: Action) -> u64 {
        if !self.limits.reduce || frame.sleep == 0 {
            return 0;
        }
        let concerned = frame.state.concerns(action, self.setting);
        let actions = frame.state.actions(self.setting);
        let independent = actions.into_iter().filter(|other| {
            frame.sleep & 1 << other.number() != 0
                && frame.state.concerns(*other, self.setting) & concerned == 0
        });
        independent.fold(0, |sleep, other| sleep | 1 << other.number())
    }

    /// Checks a state if it is new. None if nothing has to be done from here.
    fn enter(&mut self, state: State<P>, sleep: u64) -> Result<Option<Frame<P>>, String> {
        let actions = || state.actions(self.setting);
        let digest = state.digest();
        let (left, sleep): (Vec<Action>, u64) = match self.known.get_mut(&digest) {
            None => {
                self.known.insert(digest, sleep);
                self.visited.states += 1;
                self.property.check(&state, self.setting)?;
                if state.progress(self.setting).is_empty() {
                    self.visited.ends += 1;
                    self.property.check_end(&state, self.setting)?;
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

/// The fewest steps to something wrong, looked for breadth first and no further than `depth_max`.
pub fn shortest<P: Subject>(
    first: State<P>,
    setting: &Setting,
    property: &dyn Property<P>,
    depth_max: usize,
) -> Option<Found> {
    /// How a state was come to: its predecessor's place in the list, and the action.
    type Came = (usize, Option<Action>);
    let trace = |came: &[Came], mut at: usize| {
        let mut actions = Vec::new();
        while let (before, Some(action)) = came[at] {
            actions.push(action);
            at = before;
        }
        actions.reverse();
        actions
    };
    let mut known = FxHashMap::default();
    known.insert(first.digest(), ());
    let mut came: Vec<Came> = vec![(0, None)];
    let mut level = vec![(0, first)];
    for _ in 0..depth_max {
        let mut next_level = Vec::new();
        for (at, state) in level {
            for action in state.actions(setting) {
                let judged = state.after(action, setting).and_then(|next| {
                    if known.insert(next.digest(), ()).is_some() {
                        return Ok(None);
                    }
                    property.check(&next, setting)?;
                    if next.progress(setting).is_empty() {
                        property.check_end(&next, setting)?;
                    }
                    Ok(Some(next))
                });
                match judged {
                    Ok(None) => {}
                    Ok(Some(next)) => {
                        came.push((at, Some(action)));
                        next_level.push((came.len() - 1, next));
                    }
                    Err(what) => {
                        let mut actions = trace(&came, at);
                        actions.push(action);
                        return Some(Found { what, actions });
                    }
                }
            }
        }
        level = next_level;
    }
    None
}

/// The steps in words, a line each, and what is wrong in the end.
pub fn narrate<P: Subject>(first: &State<P>, setting: &Setting, found: &Found) -> String {
    let mut text = String::new();
    let mut state = first.clone();
    for (number, action) in (1..).zip(&found.actions) {
        let words = state.describe(*action, setting);
        text += &format!("{number:>3}. {words}\n");
        match state.after(*action, setting) {
            Ok(next) => state = next,
            Err(_) => break,
        }
    }
    text += &format!("     {}\n", found.what);
    text
}
