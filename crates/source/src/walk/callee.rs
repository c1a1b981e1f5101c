//! Resolves calls: which functions a call may mean, and which of them run in the same transaction.

use std::{collections::BTreeSet, rc::Rc};

use super::{
    CALLS_MAX, CANDIDATES_MAX, ExpressionKey, Frame, Object, Walk,
    call::{Call, shown},
    expression::functions_in,
    state::{State, is_field},
};
use crate::{
    language::Language,
    names,
    objects::{ExecutionMode, Scope, is_own},
    syntax::{Expression, ExpressionKind},
    traverse::expressions,
    value::Value,
};

impl Walk<'_, '_> {
    /// The function that a call means, if it is unambiguous.
    pub(super) fn function_called(
        &mut self,
        call: &Call<'_>,
        receiver: Option<&Value>,
    ) -> Option<usize> {
        let frame = self.frame();
        let (file, class) = (frame.file, frame.class.clone());
        let objects = &self.project.objects;
        match (&call.callee.kind, receiver) {
            (ExpressionKind::Name(name), _) => {
                if let Some(Value::Function(at)) = self.state.variables.get(name) {
                    return Some(*at);
                }
                let made = name.strip_prefix("new ").unwrap_or(name);
                let found = self.project.find(made, file, class.as_deref())?;
                // Methods need a receiver, except in Java; a variable keeps the value that it was assigned.
                let language = self.project.sources[file].language;
                let declared = &self.project.functions[found];
                let is_method = declared.class.is_some() && declared.within.is_none();
                let is_variable = || {
                    let known = self.state.variables.get(name);
                    known.is_some_and(|value| self.may_run(value))
                };
                let may_be =
                    language == Language::Java || made != name || !is_method && !is_variable();
                may_be.then_some(found)
            }
            (_, Some(Value::Function(at)))
                if !matches!(call.callee.kind, ExpressionKind::Member(..)) =>
            {
                Some(*at)
            }
            // A Java lambda's single method, and JavaScript's ways to call a function value.
            (ExpressionKind::Member(_, name), Some(Value::Function(at)))
                if self.project.sources[file].language == Language::Java
                    || matches!(name.as_str(), "call" | "apply" | "__invoke") =>
            {
                Some(*at)
            }
            (ExpressionKind::Member(on, name), _) => {
                let of = on.last_name().unwrap_or_default();
                if let Some(found) = self.project.find_in_class(of, name) {
                    return Some(found);
                }
                if matches!(of, "super" | "parent")
                    && let Some(class) = &class
                    && let [one] = objects.inherited(self.project, class, name).as_slice()
                {
                    return Some(*one);
                }
                let own = is_own(of);
                if own && let Some(class) = &class {
                    let found = self.project.find_in_class(class, name);
                    return found.or_else(|| match self.methods_on_self(name).as_slice() {
                        // An inherited method.
                        [one] => Some(*one),
                        [] => self.project.find_in_class(class, "__call"),
                        _ => None,
                    });
                }
                if of == "exports" || own {
                    return self.project.find(name, file, class.as_deref());
                }
                if self.is_receiver(of)
                    && let Some(class) = &class
                {
                    return self.project.find_in_class(class, name);
                }
                if self.is_drivers(call) {
                    return None;
                }
                let language = self.project.sources[file].language;
                if matches!(language, Language::Java | Language::Php)
                    && self.project.objects.are_foreign(&call.classes)
                {
                    return None;
                }
                if self.is_library(call) {
                    return None;
                }
                // A method of an unknown object, if only one method has this name.
                let found = self.project.find(name, file, None);
                found.filter(|at| self.may_take(*at, call.arguments.len()))
            }
            _ => None,
        }
    }

    /// The functions of which a call means one, if the program chooses it from a table or in a branch.
    pub(super) fn functions_chosen(&self, call: &Call<'_>, receiver: Option<&Value>) -> Vec<usize> {
        let language = self.project.sources[self.file()].language;
        let chosen = match (&call.callee.kind, receiver) {
            (ExpressionKind::Name(name), _) => self.state.variables.get(name),
            // A functional interface of Java has one method.
            (ExpressionKind::Member(_, name), chosen)
                if language == Language::Java
                    || matches!(name.as_str(), "call" | "apply" | "__invoke") =>
            {
                chosen
            }
            (ExpressionKind::Member(..), _) => None,
            (_, chosen) => chosen,
        };
        match chosen {
            Some(Value::OneOf(all)) => all.clone(),
            _ => Vec::new(),
        }
    }

    /// The table of functions that a path names: a name of a file, or a field of a class.
    pub(super) fn function_table(&self, path: &str) -> Option<Value> {
        let frame = self.frame();
        let language = self.project.sources[frame.file].language;
        let table = self.project.tables.get(path, language)?;
        let of_class = path.rsplit_once('.').is_none_or(|(of, _)| {
            let of = of.rsplit('.').next().unwrap_or(of);
            is_own(of)
                || of.starts_with(char::is_uppercase)
                || self
                    .project
                    .sources
                    .iter()
                    .any(|source| source.is_module(of))
        });
        of_class.then(|| table.clone())
    }

    /// An element of a table of functions, by a call such as `HANDLERS.get(kind)`.
    pub(super) fn function_in_table(&mut self, table: &Value, values: &[Value]) -> Option<Value> {
        let mut chosen = functions_in(table)?;
        if let Some(Value::Text(texts)) = values.first()
            && let [key] = texts.as_slice()
            && let Value::Map(pairs) = table
            && !pairs.iter().any(|(key, _)| key.is_empty())
        {
            let key = key.shown();
            let of_key = pairs.iter().filter(|(name, _)| *name == key);
            chosen = of_key
                .filter_map(|(_, value)| value.functions())
                .flatten()
                .collect();
        }
        // What is returned if there is no such key.
        match values.get(1) {
            None | Some(Value::Nothing) => {}
            Some(other) => chosen.extend(other.functions()?),
        }
        (!chosen.is_empty()).then(|| Value::one_of(chosen))
    }

    /// A value that library code gets: of a choice among functions it is only known whether one of them may run SQL.
    pub(super) fn without_choice(&mut self, value: Value, at: &Expression) -> Value {
        if !matches!(value, Value::OneOf(_)) {
            return value;
        }
        let mut any = self.plain(self.source(&at.range), Vec::new(), false);
        any.database = self.may_run(&value);
        Value::Scalar(any)
    }

    /// Whether a followed function is a transaction of its own, by its annotations.
    pub(super) fn is_own_transaction(&self, at: usize) -> bool {
        let outer = &self.frames[..self.frames.len() - 1];
        let begun = |frame: &Frame| {
            let of = frame.function.map(|at| &self.project.functions[at]);
            of.is_some_and(|declared| declared.is_transaction)
        };
        let annotations = &self.project.functions[at].function.annotations;
        annotations.iter().any(names::makes_a_transaction)
            && self.transactions == 0
            && !self.controlled
            && !outer.iter().any(begun)
    }

    /// Whether a call leaves the context of Python's `with` that began a transaction.
    pub(super) fn is_transaction_of_with(&self, call: &Call<'_>) -> bool {
        let name = call.on.and_then(Expression::last_name);
        name.is_some_and(|name| self.transactions_of_with.contains(name))
    }

    /// Whether a method accepts this many arguments. Only Python requires all of them.
    fn may_take(&self, at: usize, count: usize) -> bool {
        let declared = &self.project.functions[at];
        let source = &self.project.sources[declared.file];
        let function = declared.function;
        let end = function
            .body
            .first()
            .map_or(function.range.end, |s| s.range.start);
        let head = source
            .text
            .get(function.range.start..end)
            .unwrap_or_default();
        source.language != Language::Python
            || head.contains('*')
            || function.parameters.len() >= count + usize::from(declared.class.is_some())
    }

    /// What is known of the object that an expression evaluates to.
    pub(super) fn object(&mut self, value: &Expression) -> Object {
        let key = self.key_of(value);
        if let Some(known) = self.facts.objects.get(&key) {
            return known.clone();
        }
        let project = self.project;
        let frame = self.frame();
        let scope = Scope {
            function: frame.function,
            file: frame.file,
            class: frame.class.as_deref(),
        };
        let classes = project.objects.of(project, value, scope);
        let object = Object {
            runs: project.objects.run(&classes),
            classes: Rc::new(classes),
        };
        self.facts.objects.insert(key, object.clone());
        object
    }

    /// The key of an expression.
    pub(super) fn key_of(&self, value: &Expression) -> ExpressionKey {
        let frame = self.frame();
        let of = frame.function;
        let of = of.unwrap_or_else(|| self.project.functions.len() + frame.file);
        let kind = std::mem::discriminant(&value.kind);
        (of, value.range.start, value.range.end, kind)
    }

    /// Whether an expression is an object that runs SQL in the open transaction.
    pub(super) fn runs_in_transaction(&mut self, value: &Expression) -> bool {
        self.object(value).runs == Some(ExecutionMode::InTransaction)
    }

    /// The methods that a call may mean, by the class of its receiver.
    pub(super) fn methods_called(&mut self, call: &Call<'_>) -> Rc<[usize]> {
        let key = self.key_of(call.callee);
        if let Some(known) = self.facts.methods.get(&key) {
            return known.clone();
        }
        let project = self.project;
        let own = call.on.and_then(Expression::last_name).is_some_and(is_own);
        let mut methods = match self.makes(call) {
            // Java's constructors have the name of their class.
            Some(class) => project.constructors(&class),
            None if own => Vec::new(),
            None => project.objects.methods(project, &call.classes, call.name),
        };
        // Among several candidates, only those that may run SQL matter.
        if methods.len() > 1 {
            methods.retain(|at| project.functions[*at].reaches);
        }
        let methods: Rc<[usize]> = methods.into();
        self.facts.methods.insert(key, methods.clone());
        methods
    }

    /// The class that a call instantiates.
    pub(super) fn makes(&self, call: &Call<'_>) -> Option<Rc<str>> {
        let language = self.project.sources[self.file()].language;
        self.project.objects.made_by(call.callee, language)
    }

    /// All functions that a call may mean: the resolved one with its overrides or, if none was resolved, all
    /// functions of the name that may run SQL on the caller's connection.
    pub(super) fn functions_called(
        &self,
        found: Option<usize>,
        call: &Call<'_>,
        receiver: Option<&Value>,
    ) -> Vec<usize> {
        let mut all: Vec<usize> = found.into_iter().collect();
        let frame = self.frame();
        let of = call.on.and_then(Expression::last_name);
        let own = of.is_none_or(|of| matches!(of, "this" | "self" | "cls" | "static"));
        if own && let Some(class) = &frame.class {
            // A function at file level is not overridden.
            let is_method = found.is_none_or(|at| self.project.functions[at].class.is_some());
            if is_method {
                all.extend(
                    self.project
                        .objects
                        .overriding(self.project, class, call.name),
                );
                all.sort_unstable();
                all.dedup();
            }
        }
        if !all.is_empty() || self.is_drivers(call) || self.is_library(call) {
            return all;
        }
        let language = self.project.sources[frame.file].language;
        let name = call.name.strip_prefix("new ").unwrap_or(call.name);
        let carries =
            receiver.is_some_and(Value::leads_to_database) && !names::is_driver_method(name);
        let all = self.project.all_of(name, language);
        // These languages declare the classes of objects.
        let is_foreign = matches!(language, Language::Java | Language::Php)
            && self.project.objects.are_foreign(&call.classes);
        let may_be_object = matches!(receiver, Some(Value::Scalar(_))) && !is_foreign;
        let may_be_meant = |at: &usize| {
            let declared = &self.project.functions[*at];
            let takes = declared.function.parameters.len() >= call.arguments.len();
            // A function that runs no SQL itself is followed if it receives a connection.
            let given = declared.takes_connection && self.is_given_connection(call)
                || declared.runs_on_parameter
                || carries
                || declared.runs && call.on.is_none()
                || may_be_object && declared.runs && self.is_in_transaction();
            takes && declared.reaches && given && self.belongs(*at, call, receiver)
        };
        // One more than the limit shows that there are too many.
        all.filter(may_be_meant).take(CANDIDATES_MAX + 1).collect()
    }

    /// Whether the callee belongs to the language's standard library.
    fn is_library(&self, call: &Call<'_>) -> bool {
        let file = self.frame().file;
        self.project.is_library(call.callee, file, &call.classes)
    }

    /// Whether the callee is a driver's method on a connection.
    fn is_drivers(&self, call: &Call<'_>) -> bool {
        let of = call.on.and_then(Expression::last_name);
        of.is_some_and(names::is_connection) && names::is_driver_method(call.name)
    }

    /// Follows several candidate functions as branches.
    pub(super) fn follow_any_of(
        &mut self,
        several: &[usize],
        values: &[Value],
        call: &Call<'_>,
        receiver: Option<&Value>,
    ) -> Option<Value> {
        let before = self.state.clone();
        let mut after: Option<State> = None;
        let mut branches = Vec::new();
        let mut returned: Option<Value> = None;
        for at in several {
            if !(self.belongs(*at, call, receiver) && self.may_enter(*at, call)) {
                self.facts.called.insert(*at);
                continue;
            }
            self.state = before.clone();
            self.restore_handles();
            self.steps.push(Vec::new());
            let found = self.follow(*at, values, call);
            let steps = self.steps.pop().unwrap_or_default();
            branches.push((call.whole.range.start, steps));
            let state = std::mem::take(&mut self.state);
            after = Some(match after {
                Some(other) => self.join_states(other, state),
                None => state,
            });
            returned = Some(match returned {
                Some(other) => self.join(call.name, &other, &found),
                None => found,
            });
        }
        self.state = after.unwrap_or(before);
        self.restore_handles();
        self.either(branches);
        returned
    }

    /// The methods of this name that the current object may have.
    pub(super) fn methods_on_self(&self, name: &str) -> Vec<usize> {
        let language = self.project.sources[self.file()].language;
        self.project.methods(name, language)
    }

    /// Invalidates the fields that methods write which were called and not followed.
    pub(super) fn forget_fields(&mut self, methods: Vec<usize>) {
        let variables = &self.state.variables;
        let known = |of: &&str| variables.parts_of(of).next().is_some();
        if !["this", "self"].iter().any(known) {
            return;
        }
        for method in methods {
            for name in self.fields_written(method).iter() {
                if self.state.variables.contains(name) {
                    let value = self.scalar(name, Vec::new(), false);
                    self.state.variables.insert(name, value);
                }
            }
        }
    }

    /// The fields that a method, and the methods that it calls on the same object, assign.
    fn fields_written(&mut self, method: usize) -> Rc<BTreeSet<String>> {
        if let Some(known) = self.facts.fields.get(&method) {
            return known.clone();
        }
        let mut fields = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open = vec![method];
        while let Some(at) = open.pop() {
            if !seen.insert(at) {
                continue;
            }
            let project = self.project;
            let declared = &project.functions[at];
            let language = project.sources[declared.file].language;
            expressions(
                &declared.function.body,
                true,
                &mut |value| match &value.kind {
                    ExpressionKind::Assign { target, .. } => {
                        let path = target.path().filter(|path| is_field(path));
                        fields.extend(path);
                    }
                    ExpressionKind::Call { callee, .. } => {
                        if let ExpressionKind::Member(on, name) = &callee.kind
                            && on.last_name().is_some_and(is_own)
                        {
                            open.extend(project.methods(name, language));
                        }
                    }
                    _ => {}
                },
            );
        }
        let fields = Rc::new(fields);
        self.facts.fields.insert(method, fields.clone());
        fields
    }

    /// Whether a name is the current Go method's receiver.
    fn is_receiver(&self, name: &str) -> bool {
        let function = self.frame().function.map(|at| &self.project.functions[at]);
        function.is_some_and(|declared| declared.receiver.as_deref() == Some(name))
    }

    /// Whether a transaction is certainly open here.
    pub(super) fn is_in_transaction(&self) -> bool {
        let begun = |frame: &Frame| {
            let of = frame.function.map(|at| &self.project.functions[at]);
            of.is_some_and(|declared| declared.is_transaction)
        };
        self.controlled || self.transactions > 0 || self.frames.iter().any(begun)
    }

    /// Whether a function belongs to the transaction: it runs on its caller's connection, or runs nothing.
    pub(super) fn belongs(&self, at: usize, call: &Call<'_>, receiver: Option<&Value>) -> bool {
        let declared = &self.project.functions[at];
        if !declared.runs {
            return declared.file == self.file() || !declared.opens;
        }
        if declared.opens {
            return false;
        }
        // The receiver was made from a connection or a transaction.
        let carries = receiver.is_some_and(Value::leads_to_database);
        if carries || declared.forwards || self.is_in_transaction() {
            return true;
        }
        // The object keeps a connection.
        let runs = self.project.objects.run(&call.classes);
        if declared.class.is_some() && runs == Some(ExecutionMode::InTransaction) {
            return true;
        }
        let given = call.arguments.iter().any(|argument| {
            let names = argument.value.last_name();
            names.is_some_and(names::is_connection)
        });
        let reference =
            (self.frame().function).is_some_and(|at| self.project.functions[at].function.reference);
        let given = given || reference;
        let same = declared.file == self.file();
        let of = call.on.and_then(Expression::last_name);
        let own = of.is_none_or(|of| {
            is_own(of) || self.is_receiver(of) || declared.class.as_deref() == Some(of)
        });
        // With a transaction open, methods of the same object run in it.
        let open = |frame: &Frame| {
            frame.function.is_some_and(|at| {
                self.project.functions[at].opens || self.project.functions[at].ends
            })
        };
        let own_open =
            own && declared.class.is_some() && (self.controlled || self.frames.iter().any(open));
        declared.takes_connection && given
            || declared.runs_on_parameter
            || own_open
            || same
                && own
                && (declared.function.private || declared.nested || declared.name.starts_with('_'))
    }

    /// Whether a function of the transaction can be followed from here. A call that cannot is reported if it may run
    /// SQL; a recursive one is reported once it is known whether the function runs any.
    pub(super) fn may_enter(&mut self, at: usize, call: &Call<'_>) -> bool {
        let inside = self.frames.iter().position(|f| f.function == Some(at));
        if let Some(frame) = inside {
            self.cut_from = self.cut_from.min(frame);
            let reason = format!("{} calls itself", shown(call));
            let unresolved = self.unresolved_at(call, reason, String::new());
            self.recursive_calls.push((at, unresolved));
            return false;
        }
        if self.frames.len() <= CALLS_MAX {
            return true;
        }
        self.cut_from = 0;
        if self.project.functions[at].reaches {
            let reason = format!("{} goes too deep to follow", shown(call));
            self.report_unresolved(call, reason, String::new());
        }
        false
    }
}
