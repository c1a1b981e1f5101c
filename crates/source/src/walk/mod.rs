//! Abstract interpretation of one function: which SQL it runs, in which branches, with which values.
//!
//! Nothing is executed. Each expression evaluates to a [`Value`]. Where branches differ, texts become alternatives
//! and other values become new ones; a value that a loop changes is new in each iteration. The walk follows calls of
//! functions that run on the caller's connection. It reports every call with unknown SQL ([`Unresolved`]).
//!
//! Statements after a possible return or failure stand in a branch of their own ([`Flow::may_leave`]): they may not
//! run although the statements before them did.

mod call;
mod callee;
mod escape;
mod expression;
mod implicit;
mod run;
mod state;
mod statement;
mod summary_cache;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem::Discriminant,
    rc::Rc,
    sync::Arc,
};

use anabranch_sql::script::Unresolved;

use crate::{
    guard::Guard,
    numbers::is_number,
    objects::{Classes, ExecutionMode},
    project::Project,
    syntax::{Expression, ExpressionKind},
    value::{FoldedText, Read, Scalar, Value, deduplicated},
};
use state::{Handles, State};
pub(crate) use summary_cache::SummaryCache;

/// The most candidate functions that are followed for one call, if only their name is known.
const CANDIDATES_MAX: usize = 6;
/// The most that are followed if the receiver's class, or a table of functions, says that it is one of them.
const ALTERNATIVES_MAX: usize = 64;
/// The depth limits for nested calls and for nested expressions.
const CALLS_MAX: usize = 12;
const DEPTH_MAX: usize = 400;
/// The most statements of one transaction.
const RUNS_MAX: usize = 2_000;
/// The deepest nesting of loops that is followed twice.
const LOOPS_MAX: usize = 4;
/// The most characters of an expression in reports.
const SHOWN_MAX: usize = 48;
/// Limits on evaluated expressions: for one function with its callees, for all functions together, and for each
/// function once the total is exhausted. Mutually recursive programs would not terminate otherwise.
const WORK_MAX: usize = 100_000;
const WORK_OF_ALL_MAX: usize = 4_000_000;
const WORK_LEFT_MAX: usize = 2_000;
/// The limit for the value of one constant or field.
const WORK_OF_CONSTANT_MAX: usize = 1_000;

/// The result of walking one function.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) steps: Vec<WalkedStep>,
    pub(crate) runs: Vec<Run>,
    pub(crate) unresolved: Vec<Unresolved>,
    pub(crate) guards: Vec<Guard>,
    /// Declarations that the function runs, each with its file.
    pub(crate) declared: Vec<(usize, FoldedText)>,
    /// Calls that run a parameter of the function as SQL.
    pub(crate) forwards: Vec<Unresolved>,
    /// Calls that may run SQL; they count if the function is a transaction.
    possible: Vec<Unresolved>,
    /// Whether the function begins or ends a transaction, or runs a parameter as SQL.
    is_transaction: bool,
    /// Whether a limit was reached, so that the rest is not known.
    pub(crate) gave_up: bool,
    /// The functions that were followed.
    pub(crate) entered: BTreeSet<usize>,
    /// The runs of queries after which the function writes nothing if a row is found.
    pub(crate) finds_none: BTreeSet<usize>,
}

impl Walked {
    /// The calls with unknown SQL among those that pass a test. A certain one makes the transaction unknown already;
    /// else possible ones count if the transaction runs anything.
    pub(crate) fn unresolved_among(
        &self,
        runs: bool,
        test: &dyn Fn(&Unresolved) -> bool,
    ) -> Vec<Unresolved> {
        let among = |all: &[Unresolved]| all.iter().filter(|u| test(u)).cloned().collect();
        let certain: Vec<Unresolved> = among(&self.unresolved);
        match certain.is_empty() && (runs || self.is_transaction) {
            true => among(&self.possible),
            false => certain,
        }
    }
}

/// Steps as in [`anabranch_sql::script::Step`], by run numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WalkedStep {
    Run(usize),
    /// A prepared statement, which runs here unless it is executed elsewhere.
    Prepared(usize),
    Either(Vec<Branch>),
    Repeat(Vec<WalkedStep>),
    /// What a function of the program does.
    Called(CalledFunction),
    /// The transaction is committed or rolled back.
    Ends,
}

impl WalkedStep {
    /// Whether it runs no statement.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            WalkedStep::Run(_) | WalkedStep::Prepared(_) => false,
            WalkedStep::Ends => true,
            WalkedStep::Called(called) => called.steps.iter().all(WalkedStep::is_silent),
            WalkedStep::Repeat(inner) => inner.iter().all(WalkedStep::is_silent),
            WalkedStep::Either(branches) => {
                let mut steps = branches.iter().flat_map(|branch| &branch.steps);
                steps.all(WalkedStep::is_silent)
            }
        }
    }
}

/// A function that was followed, with its steps. A function that runs nothing and has no unknown SQL is left out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CalledFunction {
    pub(crate) function: usize,
    pub(crate) steps: Vec<WalkedStep>,
    /// All functions that were followed from it, itself included.
    pub(crate) entered: Rc<BTreeSet<usize>>,
}

/// One branch and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Branch {
    pub(crate) file: usize,
    pub(crate) at: usize,
    pub(crate) steps: Vec<WalkedStep>,
    pub(crate) role: BranchRole,
}

/// How a branch and the statements behind it exclude each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BranchRole {
    /// The statements behind the choice may follow.
    #[default]
    Continues,
    /// Control leaves the function at the end of the branch.
    Returns,
    /// The branch is the rest of a block behind a choice, of which a branch may have left the function.
    Rest,
}

/// One statement that runs.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) text: FoldedText,
    pub(crate) file: usize,
    pub(crate) at: usize,
    pub(crate) bound: Bound,
}

/// The values bound to a statement's placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) positional: BTreeMap<usize, Value>,
    pub(crate) named: BTreeMap<String, Value>,
    /// Whether a value was bound to an unknown placeholder.
    pub(crate) unsure: bool,
}

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Handle {
    texts: Vec<FoldedText>,
    file: usize,
    at: usize,
    bound: Bound,
    /// Its runs.
    runs: Vec<usize>,
}

/// How control leaves a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    /// Nothing after it runs.
    ends: bool,
    /// The transaction aborts.
    aborts: bool,
    /// What follows may not run, while what came before has taken effect.
    may_leave: bool,
    /// Control may go on behind a loop or a switch: by `break` or `continue`.
    breaks: bool,
    /// SQL may have run in it.
    runs: bool,
}

/// An active call.
#[derive(Clone, Debug)]
struct Frame {
    function: Option<usize>,
    file: usize,
    class: Option<String>,
    returns: Vec<Value>,
    /// The value of [`Walk::ran`] when the call began.
    ran: usize,
}

/// Facts about the whole program, gathered by all walks.
#[derive(Debug, Default)]
pub(crate) struct ProgramFacts {
    /// Functions that were followed from a caller, or passed as callbacks.
    pub(crate) joined: BTreeSet<usize>,
    /// Functions that were called but not followed.
    pub(crate) called: BTreeSet<usize>,
    /// The names of callees that get SQL as their text argument, and of those that get something else.
    pub(crate) forwarded: BTreeSet<String>,
    pub(crate) forwarded_otherwise: BTreeSet<String>,
    /// The start positions of texts that were run or reported.
    pub(crate) texts: BTreeSet<(usize, u32)>,
    /// The fields that each method writes.
    pub(crate) fields: BTreeMap<usize, Rc<BTreeSet<String>>>,
    /// Summaries of functions that run nothing.
    pub(crate) summaries: SummaryCache,
    /// What is known of objects, by expression.
    pub(crate) objects: HashMap<ExpressionKey, Object>,
    /// The methods that each call means, by the class of its receiver.
    pub(crate) methods: HashMap<ExpressionKey, Rc<[usize]>>,
    /// The methods that each object may run without a call by name.
    pub(crate) implicit_methods: HashMap<ExpressionKey, Rc<[usize]>>,
    /// The number of evaluated expressions.
    pub(crate) work: usize,
    /// Request handlers and their names.
    pub(crate) routes: BTreeMap<usize, String>,
}

/// Identifies an expression: its function (or its file, numbered after all functions), its range and its kind. The
/// kind is needed because several nodes made from one piece of source share a range.
type ExpressionKey = (usize, usize, usize, Discriminant<ExpressionKind>);

/// What is known of the object that an expression evaluates to.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// Its possible classes; empty if unknown.
    pub(crate) classes: Rc<Classes>,
    /// How it runs SQL, if it does.
    pub(crate) runs: Option<ExecutionMode>,
}

/// The values that a file assigns to outer names and fields.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    /// The class (of a field), the name and the value.
    pub(crate) named: Vec<(Option<String>, String, Value)>,
    /// File-level names that may run SQL: objects made from a connection, functions in a map.
    pub(crate) running: Vec<String>,
    /// The values assigned to fields of a name on objects of unknown class.
    pub(crate) of_objects: Vec<(String, Value)>,
}

/// The state of one walk.
pub(crate) struct Walk<'p, 's> {
    project: &'p Project<'p>,
    facts: &'s mut ProgramFacts,
    state: State,
    frames: Vec<Frame>,
    steps: Vec<Vec<WalkedStep>>,
    out: Walked,
    scalars: u32,
    loops: usize,
    depth: usize,
    work: usize,
    /// The limit on `work`.
    work_max: usize,
    /// The depth of trial runs. Their findings are discarded.
    trial: usize,
    /// Whether only constants are evaluated, so that nothing runs.
    constants: bool,
    gave_up: bool,
    /// Counts runs, prepared statements and unresolved calls, those of trial runs included.
    ran: usize,
    /// The names of objects on which SQL was run.
    ran_on: BTreeSet<String>,
    /// Whether a transaction was begun or ended.
    controlled: bool,
    /// Counts calls that may have run SQL, those of trial runs included.
    escaped: usize,
    /// Recursive calls, by function.
    recursive_calls: Vec<(usize, Unresolved)>,
    /// The number of active callbacks that run in a transaction.
    transactions: usize,
    /// Every prepared statement in its original state.
    prepared: Vec<Arc<Handle>>,
    /// Prepared statements that were executed, or left the function and may be executed by its caller.
    executed: BTreeSet<usize>,
    /// The lowest frame of a function that was called recursively and not followed; 0 if the depth limit was reached.
    cut_from: usize,
    /// The states at each `break` and `continue`, by loop.
    exits: Vec<Vec<State>>,
    /// Whether the transaction was rolled back in this branch.
    aborted: bool,
    /// Whether the transaction was committed in this statement.
    committed: bool,
    /// The number of active `try` blocks with a handler that goes on after an exception, or that runs SQL.
    swallowing: usize,
    /// The functions that were followed, by active call.
    entered: Vec<BTreeSet<usize>>,
    /// The names that stand for the transactions of Python's `with`.
    transactions_of_with: BTreeSet<String>,
}

impl<'p, 's> Walk<'p, 's> {
    pub(crate) fn new(project: &'p Project<'p>, facts: &'s mut ProgramFacts) -> Walk<'p, 's> {
        let work_max = match facts.work < WORK_OF_ALL_MAX {
            true => WORK_MAX,
            false => WORK_LEFT_MAX,
        };
        Walk {
            project,
            facts,
            state: State::default(),
            frames: Vec::new(),
            steps: vec![Vec::new()],
            out: Walked::default(),
            scalars: 0,
            loops: 0,
            depth: 0,
            work: 0,
            work_max,
            trial: 0,
            constants: false,
            gave_up: false,
            ran: 0,
            ran_on: BTreeSet::new(),
            controlled: false,
            escaped: 0,
            recursive_calls: Vec::new(),
            transactions: 0,
            prepared: Vec::new(),
            executed: BTreeSet::new(),
            cut_from: usize::MAX,
            exits: Vec::new(),
            aborted: false,
            committed: false,
            swallowing: 0,
            entered: vec![BTreeSet::new()],
            transactions_of_with: BTreeSet::new(),
        }
    }

    /// Walks a function as a root.
    pub(crate) fn function(mut self, at: usize) -> Walked {
        let declared = &self.project.functions[at];
        for parameter in &declared.function.parameters {
            let number = is_number(&parameter.of_type);
            let value = self.scalar(&parameter.name, Vec::new(), number);
            self.state.variables.insert(&parameter.name, value);
        }
        self.frames.push(Frame {
            function: Some(at),
            file: declared.file,
            class: declared.class.clone(),
            returns: Vec::new(),
            ran: 0,
        });
        self.annotations(declared.function);
        self.decorators(declared.function);
        self.block(&declared.function.body);
        self.report_recursion();
        self.finish()
    }

    /// Walks the top-level code of a file.
    pub(crate) fn module(mut self, file: usize) -> Walked {
        self.frames.push(Frame {
            function: None,
            file,
            class: None,
            returns: Vec::new(),
            ran: 0,
        });
        let project = self.project;
        self.block(&project.sources[file].module.body);
        self.finish()
    }

    /// The values that a file assigns to outer names. This walk belongs to no transaction; it only supplies constants
    /// to other files.
    pub(crate) fn constants(mut self, file: usize) -> Constants {
        self.constants = true;
        self.frames.push(Frame {
            function: None,
            file,
            class: None,
            returns: Vec::new(),
            ran: 0,
        });
        let mut found = Constants::default();
        let project = self.project;
        self.collect_constants(&project.sources[file].module.body, &mut found.named);
        let may_run = |(class, _, value): &&(Option<String>, String, Value)| {
            class.is_none() && value.functions().is_none() && self.may_run(value)
        };
        let running = found.named.iter().filter(may_run);
        found.running = running.map(|(_, name, _)| name.clone()).collect();
        for given in project.reassignments_in(file) {
            let class = given.of.map(str::to_owned);
            let value = match given.adds {
                true => self.scalar(given.name, Vec::new(), false),
                false => self.constant(given.value),
            };
            if given.of_object {
                found
                    .of_objects
                    .push((given.name.to_owned(), value.clone()));
            }
            found.named.push((class, given.name.to_owned(), value));
        }
        // Null is no text that could run.
        found.named.retain(|(_, _, value)| *value != Value::Nothing);
        found
            .of_objects
            .retain(|(_, value)| *value != Value::Nothing);
        found
    }

    /// The value of a constant; unknown, not null, if the work limit is reached.
    fn constant(&mut self, value: &Expression) -> Value {
        self.work_max = self.work + WORK_OF_CONSTANT_MAX;
        let found = self.evaluate(value);
        match std::mem::take(&mut self.gave_up) {
            true => self.scalar("", Vec::new(), false),
            false => found,
        }
    }

    fn finish(mut self) -> Walked {
        self.facts.work += self.work;
        let mut steps = std::mem::take(&mut self.steps).swap_remove(0);
        self.place_unexecuted(&mut steps);
        self.out.steps = steps;
        self.out.is_transaction = !self.out.forwards.is_empty() || self.controlled;
        self.out.gave_up = self.gave_up;
        self.out.entered = self.entered.pop().unwrap_or_default();
        self.out
    }

    /// Statements that were prepared and never executed count as running where they were prepared.
    fn place_unexecuted(&mut self, steps: &mut Vec<WalkedStep>) {
        let mut at = 0;
        while at < steps.len() {
            match &mut steps[at] {
                WalkedStep::Prepared(number) => {
                    let number = *number;
                    let known = self.state.handles.get(number);
                    let handle = known.or_else(|| self.prepared.get(number));
                    let left = handle.cloned().filter(|_| !self.executed.contains(&number));
                    let new = left.map(|handle| {
                        let runs =
                            self.runs_of(&handle.texts, &handle.bound, handle.file, handle.at);
                        self.step_of(&runs, handle.file, handle.at)
                    });
                    match new.flatten() {
                        Some(step) => steps[at] = step,
                        None => {
                            steps.remove(at);
                            continue;
                        }
                    }
                }
                WalkedStep::Either(branches) => {
                    let mut own = std::mem::take(branches);
                    for branch in &mut own {
                        self.place_unexecuted(&mut branch.steps);
                    }
                    own.retain(|branch| !branch.steps.is_empty());
                    if own.is_empty() {
                        steps.remove(at);
                        continue;
                    }
                    steps[at] = WalkedStep::Either(own);
                }
                WalkedStep::Repeat(inner) => {
                    let mut own = std::mem::take(inner);
                    self.place_unexecuted(&mut own);
                    if own.is_empty() {
                        steps.remove(at);
                        continue;
                    }
                    steps[at] = WalkedStep::Repeat(own);
                }
                WalkedStep::Called(called) => {
                    let mut own = std::mem::take(&mut called.steps);
                    self.place_unexecuted(&mut own);
                    if let WalkedStep::Called(called) = &mut steps[at] {
                        called.steps = own;
                    }
                }
                WalkedStep::Run(_) | WalkedStep::Ends => {}
            }
            at += 1;
        }
    }

    fn frame(&self) -> &Frame {
        // Every walk begins by pushing a frame.
        &self.frames[self.frames.len() - 1]
    }

    fn file(&self) -> usize {
        self.frame().file
    }

    /// A fresh value.
    fn scalar(&mut self, shown: &str, read: Vec<Read>, number: bool) -> Value {
        Value::Scalar(self.plain(shown, read, number))
    }

    fn plain(&mut self, shown: &str, read: Vec<Read>, number: bool) -> Scalar {
        self.scalars += 1;
        Scalar {
            id: self.scalars,
            shown: shortened(shown).into(),
            loops: self.loops,
            read: deduplicated(read).into(),
            number,
            database: false,
            minus: None,
        }
    }

    /// A range of the current file.
    fn source(&self, range: &std::ops::Range<usize>) -> &'p str {
        let text = &self.project.sources[self.file()].text;
        text.get(range.clone()).unwrap_or_default()
    }

    fn push(&mut self, step: WalkedStep) {
        let last = self.steps.len() - 1;
        self.steps[last].push(step);
    }

    /// Records a call with unknown SQL.
    fn unresolved(&mut self, unresolved: Unresolved) {
        self.ran += 1;
        if self.trial == 0
            && !self
                .out
                .unresolved
                .iter()
                .any(|u| u.file == unresolved.file && u.range == unresolved.range)
        {
            self.out.unresolved.push(unresolved);
        }
    }

    /// Abandons the walk; only the first reason is recorded.
    fn give_up(&mut self, reason: &str, range: &std::ops::Range<usize>) {
        if !std::mem::replace(&mut self.gave_up, true) {
            let unresolved = Unresolved {
                file: self.file(),
                range: range.clone(),
                reason: reason.to_owned(),
                head: String::new(),
            };
            // Recorded in trial runs as well, since nothing is walked after it.
            self.out.unresolved.push(unresolved);
        }
    }

    /// The value of a variable after two branches.
    fn join(&mut self, name: &str, left: &Value, right: &Value) -> Value {
        if left == right {
            return left.clone();
        }
        match (left, right) {
            (Value::Text(a), Value::Text(b)) => {
                if let Some(both) = crate::fold::either(a, b) {
                    return Value::Text(both);
                }
            }
            (Value::Handle(a), Value::Handle(b)) => return Value::Handle(union(a, b)),
            (Value::Rows(a), Value::Rows(b)) => return Value::Rows(union(a, b)),
            (Value::Nothing, other) | (other, Value::Nothing) => {
                if matches!(
                    other,
                    Value::Rows(_) | Value::Handle(_) | Value::Function(_) | Value::OneOf(_)
                ) {
                    return other.clone();
                }
            }
            (Value::List(a), Value::List(b)) if a.len() == b.len() => {
                let pairs: Vec<Value> = a
                    .iter()
                    .zip(b)
                    .map(|(a, b)| self.join(name, a, b))
                    .collect();
                return Value::List(pairs);
            }
            _ => {}
        }
        if let (Some(mut all), Some(others)) = (left.functions(), right.functions()) {
            all.extend(others);
            return Value::one_of(all);
        }
        let mut read = left.read();
        read.extend(right.read());
        let database = self.may_run(left) || self.may_run(right);
        if let (Value::Text(texts), other) | (other, Value::Text(texts)) = (left, right) {
            // Either the text or an unknown text.
            let hole = match other {
                Value::Scalar(scalar) => scalar.clone(),
                _ => self.plain(name, read.clone(), false),
            };
            let other = [FoldedText::hole(hole, self.file(), 0)];
            if let Some(both) = crate::fold::either(texts, &other) {
                return Value::Text(both);
            }
        }
        let mut either = self.plain(name, read, false);
        either.database = database;
        Value::Scalar(either)
    }

    fn join_states(&mut self, left: State, right: State) -> State {
        let mut joined = left.clone();
        if !left.variables.is_shared_with(&right.variables) {
            for (name, value) in left.variables.iter() {
                match right.variables.shared(name) {
                    Some(other) if !Arc::ptr_eq(value, other) => {
                        let both = self.join(name, value, other);
                        joined.variables.share(name, Arc::new(both));
                    }
                    _ => {}
                }
            }
            for (name, value) in right.variables.iter() {
                if !left.variables.contains(name) {
                    joined.variables.share(name, value.clone());
                }
            }
        }
        if !left.handles.is_shared_with(&right.handles) {
            let mut handles = Handles::default();
            let count = left.handles.len().max(right.handles.len());
            for at in 0..count {
                let handle = match (left.handles.get(at), right.handles.get(at)) {
                    (Some(a), Some(b)) if !Arc::ptr_eq(a, b) => Arc::new(self.join_handles(a, b)),
                    (Some(one), _) | (None, Some(one)) => one.clone(),
                    (None, None) => continue,
                };
                handles.push(handle);
            }
            joined.handles = handles;
        }
        if !right.cursors.is_empty() && !Arc::ptr_eq(&left.cursors, &right.cursors) {
            let cursors = Arc::make_mut(&mut joined.cursors);
            for (name, runs) in right.cursors.iter() {
                let known = cursors.entry(name.clone()).or_default();
                *known = union(known, runs);
            }
        }
        joined
    }

    fn join_handles(&mut self, a: &Handle, b: &Handle) -> Handle {
        if a == b {
            return a.clone();
        }
        let mut joined = a.clone();
        joined.runs = union(&a.runs, &b.runs);
        joined.bound = self.join_bound(&a.bound, &b.bound);
        joined
    }

    fn join_bound(&mut self, a: &Bound, b: &Bound) -> Bound {
        let mut joined = a.clone();
        joined.unsure |= b.unsure;
        for (at, value) in &b.positional {
            let value = match a.positional.get(at) {
                Some(own) => self.join("?", own, value),
                None => value.clone(),
            };
            joined.positional.insert(*at, value);
        }
        for (name, value) in &b.named {
            let value = match a.named.get(name) {
                Some(own) => self.join(name, own, value),
                None => value.clone(),
            };
            joined.named.insert(name.clone(), value);
        }
        joined
    }
}

/// Source text on one line, shortened for reports.
fn shortened(shown: &str) -> String {
    let is_odd = |byte: &u8| !byte.is_ascii_graphic();
    if shown.len() <= SHOWN_MAX && !shown.as_bytes().iter().any(is_odd) {
        return shown.to_owned();
    }
    let mut short = String::new();
    let mut letters = 0;
    for word in shown.split_whitespace() {
        if letters > SHOWN_MAX {
            break;
        }
        if !short.is_empty() {
            short.push(' ');
        }
        let part: String = word.chars().take(SHOWN_MAX + 1).collect();
        letters += part.chars().count() + 1;
        short.push_str(&part);
    }
    if short.chars().count() > SHOWN_MAX {
        short = short.chars().take(SHOWN_MAX - 1).collect();
        short.push('…');
    }
    short
}

fn union(a: &[usize], b: &[usize]) -> Vec<usize> {
    let mut both = a.to_vec();
    both.extend(b.iter().filter(|n| !a.contains(n)));
    both
}
