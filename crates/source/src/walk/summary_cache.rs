//! A cache of function summaries: a function that runs nothing returns the same for all unknown arguments, so it is
//! walked once.
//!
//! Most functions of a program run no SQL; they format dates or manage lists, and call each other. A summary is
//! stored if the result could not have been different: the function cannot reach SQL, and its arguments and
//! surroundings are unknown values or texts that go no further. Reuse repeats its writes to outer variables and
//! replaces the values that it created by fresh ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use super::{
    Walk,
    call::Call,
    state::{State, Variables, Written, is_field},
};
use crate::{
    syntax::ExpressionKind,
    traverse::expressions,
    value::{FoldedText, Piece, Scalar, Value},
};

/// After so many results that cannot be cached, a function is not tried again.
const TRIED_MAX: usize = 4;

/// Longer texts are not used in keys.
const TEXT_MAX: usize = 64;

/// The depth to which nested lists are inspected.
const DEPTH_MAX: usize = 8;

/// Summaries by function and arguments.
#[derive(Debug, Default)]
pub(crate) struct SummaryCache {
    outcomes: BTreeMap<SummaryKey, CacheEntry>,
    /// The names used in a function and in the nested functions that it calls.
    names: BTreeMap<usize, Rc<BTreeSet<Rc<str>>>>,
    /// The names used in a function itself.
    own_names: BTreeMap<usize, Rc<Names>>,
}

/// The names used in a function.
#[derive(Debug)]
struct Names {
    /// All names.
    names: Vec<Rc<str>>,
    /// The nested functions that it may call.
    nested: Vec<usize>,
}

/// A function and what is known of its arguments.
pub(super) type SummaryKey = (usize, Vec<ArgumentKind>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArgumentKind {
    Nothing,
    Value,
    Number,
    Certainty,
    Text(String),
}

#[derive(Clone, Debug)]
enum CacheEntry {
    Summary(Rc<Summary>),
    /// The number of results so far that depended on more than the key.
    NotCacheable(usize),
}

#[derive(Debug)]
struct Summary {
    returned: SummaryValue,
    /// Writes to outer variables, applied where a variable of the name exists.
    written: Vec<(Arc<str>, SummaryValue)>,
}

/// A result of a function.
#[derive(Clone, Debug)]
enum SummaryValue {
    /// The argument at this index.
    Argument(usize),
    /// A value that contains no value from outside of the function.
    Own(Value),
    /// A value that may differ next time.
    Other,
}

/// The state of a walk before a call.
pub(super) struct CallState {
    state: State,
    scalars: u32,
    cut_from: usize,
    side_effects: [usize; 10],
}

impl Walk<'_, '_> {
    /// The cache key of a call, if it can be cached.
    pub(super) fn summary_key(
        &mut self,
        at: usize,
        values: &[Value],
        call: &Call<'_>,
    ) -> Option<SummaryKey> {
        let project = self.project;
        let declared = &project.functions[at];
        let is_plain = |value: &Value| match value {
            Value::Nothing => true,
            Value::Scalar(scalar) => scalar.read.is_empty(),
            value => short(value).is_some(),
        };
        let in_order = call.arguments.iter().all(|a| a.name.is_none() && !a.spread);
        if declared.reaches || !in_order || !values.iter().all(is_plain) {
            return None;
        }
        let mut ids = BTreeSet::new();
        let mut given = Vec::new();
        for value in values {
            given.push(match value {
                Value::Scalar(scalar) => {
                    // With one value passed twice, the result does not show which argument it came from.
                    if !ids.insert(scalar.id) {
                        return None;
                    }
                    match (scalar.number, scalar.database) {
                        (_, true) => ArgumentKind::Certainty,
                        (true, false) => ArgumentKind::Number,
                        (false, false) => ArgumentKind::Value,
                    }
                }
                value => match short(value) {
                    Some(text) => ArgumentKind::Text(text.to_string()),
                    None => ArgumentKind::Nothing,
                },
            });
        }
        let summary_key = (at, given);
        let outcomes = &self.facts.summaries.outcomes;
        if matches!(
            outcomes.get(&summary_key),
            Some(CacheEntry::NotCacheable(TRIED_MAX..))
        ) {
            return None;
        }
        // Only nested functions see outer variables.
        let names = match declared.nested {
            true => self.names(at),
            false => Rc::default(),
        };
        self.sees_no_known_value(at, &names, &ids)
            .then_some(summary_key)
    }

    /// Whether all variables that a function can see around it are unknown.
    fn sees_no_known_value(
        &self,
        at: usize,
        names: &BTreeSet<Rc<str>>,
        given: &BTreeSet<u32>,
    ) -> bool {
        let declared = &self.project.functions[at];
        let same = declared.class == self.frame().class;
        let tells_nothing = |value: &Value| {
            matches!(value, Value::Scalar(of)
                if of.read.is_empty() && !of.database && !given.contains(&of.id))
        };
        let variables = &self.state.variables;
        // The methods that it calls see the fields as well.
        let fields = ["this", "self"].map(|of| variables.parts_of(of));
        if (same || declared.nested) && !fields.into_iter().flatten().all(tells_nothing) {
            return false;
        }
        names.iter().filter(|_| declared.nested).all(|name| {
            if declared.owns(name) {
                return true;
            }
            let mut parts = variables.parts_of(name);
            let itself = variables.get(name).is_none_or(|value| match value {
                Value::Function(at) => *self.project.functions[*at].name == **name,
                value => tells_nothing(value),
            });
            itself && parts.all(tells_nothing)
        })
    }

    /// The names used in a function and in the nested functions that it calls, transitively.
    fn names(&mut self, at: usize) -> Rc<BTreeSet<Rc<str>>> {
        if let Some(known) = self.facts.summaries.names.get(&at) {
            return known.clone();
        }
        let mut names = BTreeSet::new();
        let mut seen = BTreeSet::from([at]);
        let mut open = vec![at];
        while let Some(next) = open.pop() {
            let own = self.own_names(next);
            names.extend(own.names.iter().cloned());
            open.extend(own.nested.iter().filter(|at| seen.insert(**at)));
        }
        let names = Rc::new(names);
        self.facts.summaries.names.insert(at, names.clone());
        names
    }

    /// The names used in a function itself.
    fn own_names(&mut self, at: usize) -> Rc<Names> {
        if let Some(known) = self.facts.summaries.own_names.get(&at) {
            return known.clone();
        }
        let project = self.project;
        let declared = &project.functions[at];
        let (mut names, mut called) = (BTreeSet::new(), BTreeSet::new());
        expressions(&declared.function.body, true, &mut |value| {
            let (ExpressionKind::Name(name) | ExpressionKind::Member(_, name)) = &value.kind else {
                return;
            };
            called.insert(name.as_str());
            if matches!(value.kind, ExpressionKind::Name(_)) {
                names.insert(name.as_str());
            }
        });
        let nested = called
            .into_iter()
            .flat_map(|name| project.nested(name, declared.file));
        let own = Rc::new(Names {
            names: names.into_iter().map(Rc::from).collect(),
            nested: nested.collect(),
        });
        self.facts.summaries.own_names.insert(at, own.clone());
        own
    }

    /// Applies a cached summary, if there is one.
    pub(super) fn cached_result(
        &mut self,
        summary_key: &SummaryKey,
        values: &[Value],
    ) -> Option<Value> {
        let CacheEntry::Summary(known) = self.facts.summaries.outcomes.get(summary_key)?.clone()
        else {
            return None;
        };
        let declared = &self.project.functions[summary_key.0];
        let same = declared.class == self.frame().class;
        let is_written = |name: &str, variables: &Variables| match declared.nested {
            true => variables.contains(name),
            false => is_field(name),
        };
        // A method of another class may be inherited, or belong to another object: then its write is one of two
        // possible values.
        let is_sure = |name: &str, summary_value: &SummaryValue, variables: &Variables| {
            let is_plain = same || declared.nested || !variables.contains(name);
            is_plain && !matches!(summary_value, SummaryValue::Other)
        };
        let variables = &self.state.variables;
        let mut written = known.written.iter();
        if written.any(|(name, summary_value)| {
            is_written(name, variables) && !is_sure(name, summary_value, variables)
        }) {
            return None;
        }
        let mut new = BTreeMap::new();
        for (name, summary_value) in &known.written {
            if is_written(name, &self.state.variables)
                && let Some(value) = self.summary_value(summary_value, values, &mut new)
            {
                self.state.variables.share(name, Arc::new(value));
            }
        }
        self.summary_value(&known.returned, values, &mut new)
    }

    fn summary_value(
        &mut self,
        summary_value: &SummaryValue,
        values: &[Value],
        new: &mut BTreeMap<u32, u32>,
    ) -> Option<Value> {
        match summary_value {
            SummaryValue::Argument(place) => Some(values[*place].clone()),
            SummaryValue::Own(value) => Some(self.with_fresh_values(value, new)),
            SummaryValue::Other => None,
        }
    }

    /// Records the state before a call.
    pub(super) fn call_state(&mut self) -> CallState {
        CallState {
            state: self.state.clone(),
            scalars: self.scalars,
            cut_from: std::mem::replace(&mut self.cut_from, usize::MAX),
            side_effects: self.side_effects(),
        }
    }

    /// Counts the effects that a function may have besides the state.
    fn side_effects(&self) -> [usize; 10] {
        let out = &self.out;
        let flags = [self.aborted, self.committed, self.gave_up];
        [
            out.runs.len(),
            out.unresolved.len() + out.forwards.len() + self.escaped,
            out.guards.len(),
            out.declared.len(),
            self.steps.last().map_or(0, Vec::len),
            self.ran,
            self.recursive_calls.len(),
            self.prepared.len(),
            self.exits.iter().map(Vec::len).sum(),
            flags.into_iter().filter(|flag| *flag).count(),
        ]
    }

    /// Stores a call's summary, if the call had no other effects.
    pub(super) fn store_summary(
        &mut self,
        summary_key: SummaryKey,
        call_state: &CallState,
        values: &[Value],
        (returned, written): (&Value, Written),
    ) {
        // A function that is active outside of this call may be followed the next time.
        let cut_from = std::mem::replace(&mut self.cut_from, call_state.cut_from);
        self.cut_from = self.cut_from.min(cut_from);
        let is_whole = cut_from >= self.frames.len();
        let unchanged = call_state.side_effects == self.side_effects()
            && self.state.leaves_unchanged(&call_state.state);
        let takes_text = summary_key
            .1
            .iter()
            .any(|of| matches!(of, ArgumentKind::Text(_)));
        let summary_value = |value: &Value| {
            let is_it = |given: &Value| match (given, value) {
                (Value::Scalar(given), Value::Scalar(found)) => given == found,
                _ => false,
            };
            match values.iter().position(is_it) {
                Some(place) => SummaryValue::Argument(place),
                // The text may be an argument, and its position may differ the next time.
                None if is_own(value, call_state.scalars, !takes_text, 0) => {
                    SummaryValue::Own(value.clone())
                }
                None => SummaryValue::Other,
            }
        };
        let outcomes = &mut self.facts.summaries.outcomes;
        let tried = match outcomes.get(&summary_key) {
            Some(CacheEntry::NotCacheable(times)) => *times,
            _ => 0,
        };
        let returned = summary_value(returned);
        let outcome = match returned {
            returned @ (SummaryValue::Argument(_) | SummaryValue::Own(_))
                if unchanged && is_whole =>
            {
                let written = written.into_iter().map(|(name, value)| {
                    let value = summary_value(&value);
                    (name, value)
                });
                CacheEntry::Summary(Rc::new(Summary {
                    returned,
                    written: written.collect(),
                }))
            }
            _ => CacheEntry::NotCacheable(tried + 1),
        };
        outcomes.insert(summary_key, outcome);
    }

    /// A copy with fresh values.
    fn with_fresh_values(&mut self, value: &Value, new: &mut BTreeMap<u32, u32>) -> Value {
        match value {
            Value::Scalar(scalar) => Value::Scalar(self.fresh_scalar(scalar, new)),
            Value::List(values) => {
                let values = values
                    .iter()
                    .map(|value| self.with_fresh_values(value, new));
                Value::List(values.collect())
            }
            Value::Map(pairs) => {
                let pairs = pairs.iter().map(|(summary_key, value)| {
                    (summary_key.clone(), self.with_fresh_values(value, new))
                });
                Value::Map(pairs.collect())
            }
            Value::Text(texts) => {
                let mut texts: Vec<FoldedText> = texts.clone();
                for piece in texts.iter_mut().flat_map(|text| &mut text.pieces) {
                    if let Piece::Hole { value, .. } = piece {
                        *value = self.fresh_scalar(value, new);
                    }
                }
                Value::Text(texts)
            }
            other => other.clone(),
        }
    }

    fn fresh_scalar(&mut self, scalar: &Scalar, new: &mut BTreeMap<u32, u32>) -> Scalar {
        let id = *new.entry(scalar.id).or_insert_with(|| {
            self.scalars += 1;
            self.scalars
        });
        Scalar {
            id,
            loops: scalar.loops.max(self.loops),
            ..scalar.clone()
        }
    }
}

impl State {
    /// Whether prepared statements and cursors are unchanged.
    fn leaves_unchanged(&self, earlier: &State) -> bool {
        self.handles.is_shared_with(&earlier.handles)
            && Arc::ptr_eq(&self.cursors, &earlier.cursors)
    }
}

/// A known, short text.
fn short(value: &Value) -> Option<Arc<str>> {
    let Value::Text(texts) = value else {
        return None;
    };
    let [one] = texts.as_slice() else { return None };
    match one.pieces.as_slice() {
        [] => Some("".into()),
        [Piece::Text { text, .. }] if text.len() <= TEXT_MAX => Some(text.clone()),
        _ => None,
    }
}

/// Whether all its scalars were created after `others` and depend on no read, and no text is contained where texts
/// matter.
fn is_own(value: &Value, others: u32, texts_too: bool, depth: usize) -> bool {
    let own = |scalar: &Scalar| scalar.id > others && scalar.read.is_empty();
    match value {
        _ if depth > DEPTH_MAX => false,
        Value::Nothing => true,
        Value::Scalar(scalar) => own(scalar),
        Value::List(values) => values
            .iter()
            .all(|value| is_own(value, others, texts_too, depth + 1)),
        Value::Map(pairs) => {
            let mut values = pairs.iter().map(|(_, value)| value);
            values.all(|value| is_own(value, others, texts_too, depth + 1))
        }
        Value::Text(texts) if texts_too => {
            texts.iter().flat_map(|text| &text.pieces).all(|piece| {
                let Piece::Hole { value, .. } = piece else {
                    return true;
                };
                // Values of constants have larger ids.
                own(value) && value.id < crate::FIRST_OF_CONSTANTS
            })
        }
        Value::Text(_)
        | Value::Handle(_)
        | Value::Rows(_)
        | Value::Function(_)
        | Value::OneOf(_) => false,
    }
}
