//! Makes transactions of the walked functions: decides which functions are transactions of their own, and reports
//! what is left over.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use anabranch_sql::SourceFile;
use anabranch_sql::script::{
    ClientParameter, ClientTransaction, ProbableInvariant, Step, Unresolved,
};

use crate::{
    Broken, Program,
    alternatives::{alternatives, labels, names, owned},
    declarations::place_name,
    dirty_checking,
    fold::{PlaceholderValue, statement},
    language::Language,
    probable::probable,
    project::Project,
    sql_outline::Control,
    value::{FoldedText, Piece, Scalar, Value},
    walk::{Branch, ProgramFacts, Run, Walk, Walked, WalkedStep},
};

/// Extracts the transactions of a project.
pub(crate) struct Extraction<'p> {
    project: &'p Project<'p>,
    facts: ProgramFacts,
    pub(crate) program: Program,
    /// Functions that run a parameter as SQL, with the call that does.
    forwards: Vec<(usize, Unresolved)>,
    /// For each function that others run in their transactions, those that do.
    runners: BTreeMap<usize, Vec<usize>>,
    /// The functions that are alternatives of others.
    alternatives: BTreeSet<usize>,
    /// The transactions made of each function.
    of_functions: BTreeMap<usize, Vec<usize>>,
    /// Declarations that the program runs, each with its file.
    declared: Vec<(usize, FoldedText)>,
}

impl<'p> Extraction<'p> {
    pub(crate) fn new(project: &'p Project<'p>) -> Extraction<'p> {
        Extraction {
            project,
            facts: ProgramFacts::default(),
            program: Program::default(),
            forwards: Vec::new(),
            runners: BTreeMap::new(),
            alternatives: BTreeSet::new(),
            of_functions: BTreeMap::new(),
            declared: Vec::new(),
        }
    }

    pub(crate) fn read(&mut self) {
        for file in 0..self.project.sources.len() {
            let walked = Walk::new(self.project, &mut self.facts).module(file);
            let name = self.project.sources[file].name.rsplit('/').next();
            let name = name.unwrap_or_default().to_owned();
            self.client(walked, name, file, None);
        }
        let functions = &self.project.functions;
        let mut waiting = Vec::new();
        for (at, declared) in functions.iter().enumerate() {
            let by_others = declared.nested
                || declared.function.private
                || declared.takes_connection
                || declared.runs_on_parameter;
            match by_others && !self.facts.routes.contains_key(&at) {
                true => waiting.push(at),
                false => self.function(at),
            }
        }
        let last: BTreeSet<usize> = waiting.iter().copied().collect();
        for at in self.callers_first(waiting) {
            let joined = self.facts.joined.contains(&at) && !self.facts.called.contains(&at);
            // A function that is declared before those that run it may be called by itself, too.
            let runs_earlier = |runner: &usize| !last.contains(runner) || *runner < at;
            let runners = self.runners.get(&at);
            let is_part = joined
                && (self.alternatives.contains(&at)
                    || runners.is_none_or(|runners| runners.iter().any(runs_earlier)));
            if !is_part || self.facts.routes.contains_key(&at) {
                self.function(at);
            }
        }
        self.forwards();
        self.written_back();
        self.leftovers();
        self.broken();
        self.declarations();
        let clients = &mut self.program.clients;
        clients.sort_by_key(|client| (client.file, client.range.start));
    }

    /// These functions, each behind those that may call it, whatever the order of their declarations.
    fn callers_first(&self, mut waiting: Vec<usize>) -> Vec<usize> {
        let all: BTreeSet<usize> = waiting.iter().copied().collect();
        let mut callers: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for at in &waiting {
            for used in self.project.used_by(*at) {
                if used != *at && all.contains(&used) {
                    callers.entry(used).or_default().insert(*at);
                }
            }
        }
        let mut ordered = Vec::new();
        let mut left = all;
        while !waiting.is_empty() {
            let is_free = |at: &usize| {
                let callers = callers.get(at);
                callers.is_none_or(|callers| callers.is_disjoint(&left))
            };
            let (mut free, mut others): (Vec<usize>, Vec<usize>) =
                waiting.into_iter().partition(is_free);
            // They call each other: the one that is declared first.
            if free.is_empty() {
                free.push(others.remove(0));
            }
            free.iter().for_each(|at| {
                left.remove(at);
            });
            ordered.extend(free);
            waiting = others;
        }
        ordered
    }

    fn function(&mut self, at: usize) {
        if self.of_functions.contains_key(&at) {
            return;
        }
        let walked = Walk::new(self.project, &mut self.facts).function(at);
        for of in &walked.entered {
            self.runners.entry(*of).or_default().push(at);
        }
        let declared = &self.project.functions[at];
        let name = match self.facts.routes.get(&at) {
            Some(name) => name.clone(),
            None => declared.full_name(),
        };
        self.client(walked, name, declared.file, Some(at));
    }

    /// Adds a transaction for a walked function, if it runs anything.
    fn client(&mut self, walked: Walked, name: String, file: usize, function: Option<usize>) {
        if let Some(at) = function {
            let forwards = walked.forwards.iter().cloned();
            self.forwards
                .extend(forwards.map(|unresolved| (at, unresolved)));
        }
        self.declared.extend(walked.declared.iter().cloned());
        let range = match function {
            Some(at) => self.project.functions[at].function.range.clone(),
            None => {
                let first = walked.runs.first().map(|run| run.at);
                let unresolved = walked.unresolved_among(first.is_some(), &|_| true);
                let first = first.or_else(|| unresolved.first().map(|u| u.range.start));
                first.unwrap_or(0)..first.unwrap_or(0)
            }
        };
        let runs = !walked.runs.is_empty();
        let alternatives = alternatives(&walked);
        if alternatives.is_empty() {
            let unresolved = walked.unresolved_among(runs, &|_| true);
            let made = MadeTransaction {
                name,
                steps: &walked.steps,
                unresolved,
                probable: probable(&walked),
                rounds: 0,
            };
            self.add(&walked, made, (file, range), function);
            return;
        }
        self.alternatives.extend(labels(&alternatives));
        let owned = owned(&alternatives);
        let names = names(self.project, &alternatives);
        let mut probable = probable(&walked);
        for (alternative, of) in alternatives.iter().zip(names) {
            let entered = alternative.entered();
            let concerns = |file: usize, at: usize| {
                let owner = self.project.innermost_among(file, at, &owned);
                owner.is_none_or(|owner| entered.contains(&owner))
            };
            let unresolved =
                walked.unresolved_among(runs, &|u: &Unresolved| concerns(u.file, u.range.start));
            let (own, others) = probable
                .into_iter()
                .partition(|rule| concerns(rule.file, rule.range.start));
            probable = others;
            let made = MadeTransaction {
                name: match of {
                    Some(of) => format!("{name}[{of}]"),
                    None => name.clone(),
                },
                steps: &alternative.steps,
                unresolved,
                probable: own,
                rounds: alternative.rounds,
            };
            self.add(&walked, made, (file, range.clone()), function);
        }
    }

    /// Adds a transaction of a walked function.
    fn add(
        &mut self,
        walked: &Walked,
        made: MadeTransaction<'_>,
        (file, range): (usize, Range<usize>),
        function: Option<usize>,
    ) {
        let mut making = ClientBuilder {
            project: self.project,
            parameters: Vec::new(),
            known: BTreeMap::new(),
            names: BTreeSet::new(),
            unresolved: made.unresolved,
            runs: &walked.runs,
            finds_none: &walked.finds_none,
            rounds: made.rounds,
        };
        let steps = making.steps(made.steps);
        let (parameters, unresolved) = (making.parameters, making.unresolved);
        if steps.is_empty() && unresolved.is_empty() {
            return;
        }
        if let Some(at) = function {
            let of_function = self.of_functions.entry(at).or_default();
            of_function.push(self.program.clients.len());
        }
        self.program.clients.push(ClientTransaction {
            name: made.name,
            file,
            range,
            parameters,
            steps,
            unresolved,
            probable: made.probable,
        });
    }

    /// Reports functions that run a parameter as SQL, unless all their callers pass known SQL.
    fn forwards(&mut self) {
        for (at, unresolved) in std::mem::take(&mut self.forwards) {
            let declared = &self.project.functions[at];
            let known = self.facts.forwarded.contains(&declared.name)
                && !self.facts.forwarded_otherwise.contains(&declared.name);
            if known {
                continue;
            }
            let name = declared.full_name();
            let (file, range) = (declared.file, declared.function.range.clone());
            self.add_unresolved(Some(at), name, file, range, unresolved);
        }
    }

    /// Reports functions that change objects which a mapper writes back.
    fn written_back(&mut self) {
        for (at, unresolved) in dirty_checking::written_back(self.project) {
            self.add_written_back(at, unresolved);
        }
        let seen: BTreeSet<usize> = self.of_functions.keys().copied().collect();
        for (at, unresolved) in dirty_checking::flushed(self.project, &seen) {
            self.add_written_back(at, unresolved);
        }
    }

    fn add_written_back(&mut self, at: usize, unresolved: Unresolved) {
        let declared = &self.project.functions[at];
        let name = match self.facts.routes.get(&at) {
            Some(name) => name.clone(),
            None => declared.full_name(),
        };
        let (file, range) = (declared.file, declared.function.range.clone());
        self.add_unresolved(Some(at), name, file, range, unresolved);
    }

    fn add_unresolved(
        &mut self,
        function: Option<usize>,
        name: String,
        file: usize,
        range: Range<usize>,
        unresolved: Unresolved,
    ) {
        let known = function.and_then(|at| self.of_functions.get(&at));
        if let Some(clients) = known {
            for client in clients {
                let known = &mut self.program.clients[*client].unresolved;
                known.push(unresolved.clone());
            }
            return;
        }
        if let Some(at) = function {
            self.of_functions
                .insert(at, vec![self.program.clients.len()]);
        }
        self.program.clients.push(ClientTransaction {
            name,
            file,
            range,
            parameters: Vec::new(),
            steps: Vec::new(),
            unresolved: vec![unresolved],
            probable: Vec::new(),
        });
    }

    /// Reports texts that look like SQL and have no call site.
    fn leftovers(&mut self) {
        let mut found = Vec::new();
        for (file, source) in self.project.sources.iter().enumerate() {
            for range in &source.module.texts {
                let start = u32::try_from(range.start).unwrap_or(u32::MAX);
                if !self.facts.texts.contains(&(file, start)) {
                    found.push((file, range.clone()));
                }
            }
        }
        for (file, range) in found {
            let source = &self.project.sources[file];
            let head = source
                .text
                .get(range.clone())
                .unwrap_or_default()
                .to_owned();
            let unresolved = Unresolved {
                file,
                range: range.clone(),
                reason: "no call site found for this SQL".to_owned(),
                head,
            };
            let name = place_name(source, range.start);
            self.add_unresolved(None, name, file, range, unresolved);
        }
    }

    /// Reports broken source; a function around it becomes unknown.
    fn broken(&mut self) {
        for (file, source) in self.project.sources.iter().enumerate() {
            let mut last = 0..0;
            for range in &source.module.broken {
                // Nested ranges are reported once.
                if range.start < last.end {
                    continue;
                }
                last = range.clone();
                let around = self.project.functions.iter().enumerate().filter(|(_, f)| {
                    let of = &f.function.range;
                    f.file == file && of.start <= range.start && range.end <= of.end
                });
                let around = around
                    .min_by_key(|(_, f)| f.function.range.len())
                    .map(|(at, _)| at);
                let text = match around {
                    Some(at) => source
                        .text
                        .get(self.project.functions[at].function.range.clone()),
                    None => source.text.get(range.clone()),
                };
                if !may_run(text.unwrap_or_default()) {
                    let range = range.clone();
                    self.program.broken.push(Broken { file, range });
                    continue;
                }
                let unresolved = Unresolved {
                    file,
                    range: range.clone(),
                    reason:
                        "the source is broken or nests too deeply here: the SQL that it runs is not known"
                            .to_owned(),
                    head: String::new(),
                };
                let (name, whole) = match around {
                    Some(at) => {
                        let declared = &self.project.functions[at];
                        (declared.full_name(), declared.function.range.clone())
                    }
                    None => (place_name(source, range.start), range.clone()),
                };
                self.add_unresolved(around, name, file, whole, unresolved);
            }
        }
    }

    /// Collects the declarations that the program runs.
    fn declarations(&mut self) {
        let mut files: BTreeMap<usize, String> = BTreeMap::new();
        let mut declared = std::mem::take(&mut self.declared);
        let at = |text: &FoldedText| match text.pieces.first() {
            Some(Piece::Text { file, places, .. }) => (*file, places.first().copied().unwrap_or(0)),
            _ => (usize::MAX, 0),
        };
        declared.sort_by_key(|(_, text)| at(text));
        declared.dedup_by_key(|(_, text)| at(text));
        for (_, text) in declared {
            let (file, place) = at(&text);
            let Some(source) = self.project.sources.get(file) else {
                continue;
            };
            let lines = source.text.as_bytes().iter().take(place as usize);
            let lines = lines.filter(|byte| **byte == b'\n').count();
            let out = files.entry(file).or_default();
            let have = out.bytes().filter(|byte| *byte == b'\n').count();
            // Keeps each declaration on its original line where possible.
            out.extend(std::iter::repeat_n('\n', lines.saturating_sub(have)));
            out.push_str(text.shown().trim_end().trim_end_matches(';'));
            out.push(';');
        }
        for (file, text) in files {
            let name = self.project.sources[file].name.clone();
            self.program.declarations.push(SourceFile::new(name, text));
        }
    }
}

/// Whether a text contains a word that may run SQL.
fn may_run(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    [
        "select", "insert", "update", "delete", "merge", "execute", "query", "prepare",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

/// A transaction of a function, before its steps are made statements.
struct MadeTransaction<'w> {
    name: String,
    steps: &'w [WalkedStep],
    unresolved: Vec<Unresolved>,
    probable: Vec<ProbableInvariant>,
    /// The number of loops around it of which each round is a transaction.
    rounds: usize,
}

struct ClientBuilder<'w> {
    project: &'w Project<'w>,
    parameters: Vec<ClientParameter>,
    /// The parameter of each value.
    known: BTreeMap<(u32, Arc<str>), usize>,
    names: BTreeSet<String>,
    unresolved: Vec<Unresolved>,
    runs: &'w [Run],
    finds_none: &'w BTreeSet<usize>,
    /// The number of loops around the transaction: values made in them do not vary within it.
    rounds: usize,
}

impl ClientBuilder<'_> {
    fn steps(&mut self, steps: &[WalkedStep]) -> Vec<Step> {
        let mut found = Vec::new();
        for step in steps {
            match step {
                WalkedStep::Run(run) => {
                    let statement = self.run(&self.runs[*run]).map(|mut statement| {
                        statement.finds_none = self.finds_none.contains(run);
                        statement
                    });
                    found.extend(statement.map(Step::Run));
                }
                WalkedStep::Prepared(_) | WalkedStep::Ends => {}
                WalkedStep::Called(called) => found.extend(self.steps(&called.steps)),
                WalkedStep::Either(branches) => {
                    let mut either = Vec::new();
                    for Branch {
                        file, at, steps, ..
                    } in branches
                    {
                        let inner = self.steps(steps);
                        if !inner.is_empty() {
                            let source = &self.project.sources[*file];
                            let place = place_name(source, *at);
                            let line = place.rsplit(':').next().unwrap_or_default();
                            let parameter = self.parameter(format!("line {line}"), false);
                            either.push((parameter, inner));
                        }
                    }
                    if !either.is_empty() {
                        found.push(Step::Either(either));
                    }
                }
                WalkedStep::Repeat(inner) => {
                    let inner = self.steps(inner);
                    if !inner.is_empty() {
                        found.push(Step::Repeat(inner));
                    }
                }
            }
        }
        found
    }

    /// A new parameter.
    fn parameter(&mut self, name: String, varies: bool) -> usize {
        // The colon keeps it apart from a column of the same name.
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        let name = if is_name { format!(":{name}") } else { name };
        let mut given = name.clone();
        let mut number = 1;
        while !self.names.insert(given.clone()) {
            number += 1;
            given = format!("{name} ({number})");
        }
        self.parameters.push(ClientParameter {
            name: given,
            varies,
        });
        self.parameters.len() - 1
    }

    fn of_scalar(&mut self, scalar: &Scalar) -> usize {
        let key = (scalar.id, scalar.shown.clone());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let varies = scalar.loops > self.rounds || !scalar.read.is_empty();
        let parameter = self.parameter(scalar.shown.to_string(), varies);
        self.known.insert(key, parameter);
        parameter
    }

    fn of_value(&mut self, value: Option<&Value>, otherwise: &str) -> usize {
        match value {
            Some(Value::Scalar(scalar)) => self.of_scalar(scalar),
            Some(Value::Text(texts)) => {
                let shown = texts.first().map_or_else(String::new, FoldedText::shown);
                let shown: String = shown.chars().take(32).collect();
                let varies = texts.len() > 1 || value.is_some_and(|v| !v.read().is_empty());
                self.parameter(format!("'{shown}'"), varies)
            }
            Some(Value::Nothing) => self.parameter(otherwise.to_owned(), false),
            Some(other) => {
                let varies = !other.read().is_empty();
                self.parameter(otherwise.to_owned(), varies)
            }
            // An unknown value may depend on anything.
            None => self.parameter(otherwise.to_owned(), true),
        }
    }

    /// Turns a run into a statement; `None` if it controls a transaction or its text is not known.
    fn run(&mut self, run: &Run) -> Option<anabranch_sql::script::ClientStatement> {
        if Control::of(&run.text.shown()).is_some() {
            return None;
        }
        let place = u32::try_from(run.at).unwrap_or(u32::MAX);
        let report_unresolved = |reason: String| Unresolved {
            file: run.file,
            range: run.at..run.at,
            reason,
            head: run.text.shown(),
        };
        if !run.text.is_sql() {
            let empty = run.text.pieces.is_empty() || run.text.shown().trim().is_empty();
            if !empty {
                let reason = match run.text.pieces.first() {
                    Some(Piece::Hole { value, .. }) => {
                        format!("part of this SQL is not known: `{}`", value.shown)
                    }
                    _ => "the text that runs here does not begin like SQL".to_owned(),
                };
                self.unresolved.push(report_unresolved(reason));
            }
            return None;
        }
        let percent = self.project.sources[run.file].language == Language::Python;
        let bound = run.bound.clone();
        let mut of_names: BTreeMap<String, usize> = BTreeMap::new();
        let made = statement(&run.text, run.file, place, percent, |placeholder| {
            let given = match placeholder {
                PlaceholderValue::Hole(_) => None,
                PlaceholderValue::Position(at) => bound.positional.get(&at),
                PlaceholderValue::Named(name) => bound.named.get(name),
            };
            // `-n` is known to be the negative of `n`.
            if let Some(Value::Scalar(scalar)) = given.filter(|_| !bound.unsure)
                && let Some(of) = &scalar.minus
            {
                return format!("(0 - ${})", 1 + self.of_scalar(of));
            }
            let number = match placeholder {
                PlaceholderValue::Hole(scalar) => self.of_scalar(scalar),
                PlaceholderValue::Position(at) => {
                    let value = bound.positional.get(&at).filter(|_| !bound.unsure);
                    self.of_value(value, &format!("?{}", at.saturating_add(1)))
                }
                PlaceholderValue::Named(name) => match of_names.get(name) {
                    Some(known) => *known,
                    None => {
                        let value = bound.named.get(name).filter(|_| !bound.unsure);
                        let number = self.of_value(value, &format!(":{name}"));
                        of_names.insert(name.to_owned(), number);
                        number
                    }
                },
            };
            format!("${}", 1 + number)
        });
        match made {
            Ok(statement) => Some(statement),
            Err(hole) => {
                let reason = format!("part of this SQL is not known: `{}`", hole.shown);
                self.unresolved.push(report_unresolved(reason));
                None
            }
        }
    }
}
