//! A function followed through all of its branches: which SQL it runs, in which of them, with what.
//!
//! Nothing is run. Each expression comes to a [`Value`]; where branches differ, texts become alternatives and
//! other values new ones; what a loop changes is another value each time. Functions that run on the
//! caller's connection are followed into. Whatever is run and not known is told ([`Unresolved`]).
//!
//! What may not run although what stands before it does, because something returned before or failed, stands in
//! a branch of its own ([`Flow::may_leave`]).

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
    objects::{Classes, ExecutionMode},
    project::Project,
    syntax::{Expression, ExpressionKind},
    value::{FoldedText, Read, Scalar, Value, deduplicated},
};
use state::{Handles, State};
pub(crate) use summary_cache::SummaryCache;

/// How deep functions are followed into functions, and expressions into expressions.
const CALLS_MAX: usize = 12;
const DEPTH_MAX: usize = 400;
/// The most statements of one transaction.
const RUNS_MAX: usize = 2_000;
/// The deepest loops that are followed twice.
const LOOPS_MAX: usize = 4;
/// The most letters that are shown of an expression.
const SHOWN_MAX: usize = 48;
/// The most expressions that are looked at for one function, those of the functions that it calls included; and the
/// most for each once so many have been looked at for all: where everybody calls everybody, there is no end to it.
const WORK_MAX: usize = 100_000;
const WORK_OF_ALL_MAX: usize = 4_000_000;
const WORK_LEFT_MAX: usize = 2_000;
/// The most for the value of one constant, or of one field.
const WORK_OF_CONSTANT_MAX: usize = 1_000;

/// What one function comes to.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) steps: Vec<WalkedStep>,
    pub(crate) runs: Vec<Run>,
    pub(crate) unresolved: Vec<Unresolved>,
    pub(crate) guards: Vec<Guard>,
    /// Declarations that it runs, each with its file.
    pub(crate) declared: Vec<(usize, FoldedText)>,
    /// Parameters of the function that are run as SQL.
    pub(crate) forwards: Vec<Unresolved>,
    /// What may run something, if this is a transaction.
    possible: Vec<Unresolved>,
}

/// As [`anabranch_sql::script::Step`] has it, by the numbers of runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WalkedStep {
    Run(usize),
    /// A statement that was made ready, and runs where nobody else runs it.
    Prepared(usize),
    Either(Vec<Branch>),
    Repeat(Vec<WalkedStep>),
}

/// One branch, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Branch {
    pub(crate) file: usize,
    pub(crate) at: usize,
    pub(crate) steps: Vec<WalkedStep>,
}

/// One statement that runs.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) text: FoldedText,
    pub(crate) file: usize,
    pub(crate) at: usize,
    pub(crate) bound: Bound,
}

/// What is bound to a statement's placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) positional: BTreeMap<usize, Value>,
    pub(crate) named: BTreeMap<String, Value>,
    /// Whether something was bound in a way that does not tell to what.
    pub(crate) unsure: bool,
}

/// A statement that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Handle {
    texts: Vec<FoldedText>,
    file: usize,
    at: usize,
    bound: Bound,
    /// The runs of it.
    runs: Vec<usize>,
}

/// How a statement ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    /// Nothing behind it runs.
    ends: bool,
    /// The transaction is given up.
    aborts: bool,
    /// What is behind it may not run, and what is before it counts.
    may_leave: bool,
}

/// A function on the way in.
#[derive(Clone, Debug)]
struct Frame {
    function: Option<usize>,
    file: usize,
    class: Option<String>,
    returns: Vec<Value>,
    /// How much had run before it.
    ran: usize,
}

/// What is found out beside it about all functions.
#[derive(Debug, Default)]
pub(crate) struct ProgramFacts {
    /// Functions that were followed into from another, or were handed over.
    pub(crate) joined: BTreeSet<usize>,
    /// Functions that were called and not followed into.
    pub(crate) called: BTreeSet<usize>,
    /// The names of what is called with SQL, and with something else, in the place of SQL.
    pub(crate) forwarded: BTreeSet<String>,
    pub(crate) forwarded_otherwise: BTreeSet<String>,
    /// Where the texts begin that were run, or told as not understood.
    pub(crate) texts: BTreeSet<(usize, u32)>,
    /// The fields that methods write.
    pub(crate) fields: BTreeMap<usize, Rc<BTreeSet<String>>>,
    /// What functions have come to that run nothing.
    pub(crate) summaries: SummaryCache,
    /// What is known of objects, by the function and the place of an expression in it.
    pub(crate) objects: HashMap<ExpressionKey, Object>,
    /// The methods that calls mean by the classes of what they are called on.
    pub(crate) methods: HashMap<ExpressionKey, Rc<[usize]>>,
    /// The methods that objects may run where nobody names them.
    pub(crate) implicit_methods: HashMap<ExpressionKey, Rc<[usize]>>,
    /// How many expressions have been looked at.
    pub(crate) work: usize,
    /// Handlers of requests, and what they are called.
    pub(crate) routes: BTreeMap<usize, String>,
}

/// An expression: the function that it stands in, or its file behind those; its place; and its kind, since what was made
/// of one piece of source has one place.
type ExpressionKey = (usize, usize, usize, Discriminant<ExpressionKind>);

/// What is known of an object by the expression that it is.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// The classes that it may be of; none where that is not known.
    pub(crate) classes: Rc<Classes>,
    /// How it runs SQL, if it does.
    pub(crate) runs: Option<ExecutionMode>,
}

/// What a file gives to names outside of functions, and to fields.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    /// The class, if it is a field, the name, and the value.
    pub(crate) named: Vec<(Option<String>, String, Value)>,
    /// Names of the file that stand for what may run SQL: what was made of a connection, functions in a map.
    pub(crate) running: Vec<String>,
    /// What fields of that name are given, whoever's they are.
    pub(crate) of_objects: Vec<(String, Value)>,
}

/// Who follows.
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
    /// How much may be looked at.
    work_max: usize,
    /// Whether what is found is thrown away.
    trial: usize,
    /// Whether constants are evaluated, and nothing runs.
    constants: bool,
    gave_up: bool,
    /// How much was run, made ready, or is not known, also on trial.
    ran: usize,
    /// What SQL was run on, by its name.
    ran_on: BTreeSet<String>,
    /// Whether a transaction was begun or ended.
    controlled: bool,
    /// How many calls may have run something, also on trial.
    escaped: usize,
    /// Calls of functions within themselves, by these functions.
    recursive_calls: Vec<(usize, Unresolved)>,
    /// How many of the functions that are followed were handed to who runs them in a transaction.
    transactions: usize,
    /// Every statement that was made ready, as it was then.
    prepared: Vec<Arc<Handle>>,
    /// Which of them have run, or have left the function, which may then be what runs them.
    executed: BTreeSet<usize>,
    /// The lowest of the frames whose function was called again, and not followed into; 0 where it would have gone
    /// too deep.
    cut_from: usize,
    /// The states in which loops were left.
    exits: Vec<Vec<State>>,
    /// Whether the transaction was rolled back in this branch.
    aborted: bool,
    /// Whether the transaction was committed in this statement.
    committed: bool,
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
        }
    }

    /// A function by itself.
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

    /// What stands outside of functions.
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

    /// The values that a file gives to names outside of functions. What is seen on the way is no transaction's: it
    /// serves the constants of other files alone.
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
            class.is_none() && !matches!(value, Value::Function(_)) && self.may_run(value)
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
        // Nothing is no text that could run.
        found.named.retain(|(_, _, value)| *value != Value::Nothing);
        found
            .of_objects
            .retain(|(_, value)| *value != Value::Nothing);
        found
    }

    /// What a name is given that stands outside of functions: where that takes too long to tell, a value of which
    /// nothing is known, and not nothing.
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
        // One that is known for certain makes it unknown already.
        let possible = std::mem::take(&mut self.out.possible);
        if self.out.unresolved.is_empty()
            && !(self.out.runs.is_empty() && self.out.forwards.is_empty() && !self.controlled)
        {
            self.out.unresolved = possible;
        }
        self.out
    }

    /// What was made ready and not run by anybody who was seen runs where it was made ready.
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
                WalkedStep::Run(_) => {}
            }
            at += 1;
        }
    }

    fn frame(&self) -> &Frame {
        // There is one from the first line on.
        &self.frames[self.frames.len() - 1]
    }

    fn file(&self) -> usize {
        self.frame().file
    }

    /// A value of its own.
    fn scalar(&mut self, shown: &str, read: Vec<Read>, number: bool) -> Value {
        Value::Scalar(self.plain(shown, read, number))
    }

    fn plain(&mut self, shown: &str, read: Vec<Read>, number: bool) -> Scalar {
        self.scalars += 1;
        Scalar {
            id: self.scalars,
            shown: shortened(shown).into(),
            varies: self.loops > 0,
            read: deduplicated(read).into(),
            number,
            database: false,
        }
    }

    /// A piece of the file that is followed.
    fn source(&self, range: &std::ops::Range<usize>) -> &'p str {
        let text = &self.project.sources[self.file()].text;
        text.get(range.clone()).unwrap_or_default()
    }

    fn push(&mut self, step: WalkedStep) {
        let last = self.steps.len() - 1;
        self.steps[last].push(step);
    }

    /// Something that is run and not known.
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

    /// Gives up what is followed, once.
    fn give_up(&mut self, reason: &str, range: &std::ops::Range<usize>) {
        if !std::mem::replace(&mut self.gave_up, true) {
            let unresolved = Unresolved {
                file: self.file(),
                range: range.clone(),
                reason: reason.to_owned(),
                head: String::new(),
            };
            // Also on trial: nothing is followed behind it.
            self.out.unresolved.push(unresolved);
        }
    }

    /// What a variable is after either of two branches.
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
                    Value::Rows(_) | Value::Handle(_) | Value::Function(_)
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
        let mut read = left.read();
        read.extend(right.read());
        let database = self.may_run(left) || self.may_run(right);
        if let (Value::Text(texts), other) | (other, Value::Text(texts)) = (left, right) {
            // The text, or what is not known.
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

/// A stretch of source on one line, and not more of it than people want to read.
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

/// Whether values of a type are numbers, written as SQL has them.
fn is_number(of_type: &str) -> bool {
    let name = of_type
        .trim()
        .trim_start_matches([':', '?', ' '])
        .to_ascii_lowercase();
    matches!(
        name.as_str(),
        "int"
            | "long"
            | "short"
            | "byte"
            | "integer"
            | "double"
            | "float"
            | "number"
            | "bigint"
            | "int64"
            | "int32"
            | "int16"
            | "uint"
            | "uint32"
            | "uint64"
            | "float64"
            | "float32"
            | "bigdecimal"
            | "decimal"
    )
}
