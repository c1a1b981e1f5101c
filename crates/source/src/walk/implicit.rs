//! Code that runs without a call by name: accessors, decorators, event listeners, source in texts.
//!
//! Operators, loops, conversions and destruction may run methods wherever an object of their class is used. This
//! requires that the object's class is known.

use std::rc::Rc;

use super::{
    Bound, CANDIDATES_MAX, Walk,
    call::{Call, shown},
};
use crate::{
    declarations::DeclaredFunction,
    language::Language,
    names,
    objects::is_own,
    syntax::{Expression, ExpressionKind, Function},
    traverse::expressions,
    value::{FoldedText, Value},
};

impl Walk<'_, '_> {
    /// Follows an accessor: `account.balance` may read the database. `given` is the value that is written to it.
    pub(super) fn follow_accessor(
        &mut self,
        of: &Expression,
        name: &str,
        whole: &Expression,
        given: Option<&Value>,
    ) -> Option<Value> {
        let language = self.project.sources[self.file()].language;
        let accessors = self.project.accessors(name, language);
        if accessors.is_empty() || self.constants {
            return None;
        }
        let classes = self.object(of).classes;
        let call = Call::of_field(whole, of, name, classes.clone());
        // By class only, since field names are too common.
        let mut methods = self.project.objects.methods(self.project, &classes, name);
        methods.retain(|at| accessors.contains(at));
        let values = given.map_or(&[][..], std::slice::from_ref);
        match methods.as_slice() {
            [] => None,
            several if several.len() <= CANDIDATES_MAX => {
                let receiver = self.evaluate(of);
                self.follow_any_of(several, values, &call, Some(&receiver))
            }
            _ => {
                let reason = format!(
                    "{} is an accessor, and several methods have this name",
                    shown(&call)
                );
                self.report_possible(&call, reason);
                None
            }
        }
    }

    /// Evaluates a function's annotations, which may hold the SQL that it runs.
    pub(super) fn annotations(&mut self, function: &crate::syntax::Function) {
        for annotation in &function.annotations {
            let ExpressionKind::Call { callee, arguments } = &annotation.kind else {
                continue;
            };
            let name = callee
                .last_name()
                .unwrap_or_default()
                .trim_start_matches('@')
                .to_owned();
            let values: Vec<Value> = arguments.iter().map(|a| self.evaluate(&a.value)).collect();
            let native = arguments.iter().any(|a| {
                a.name.as_deref() == Some("nativeQuery") && self.source(&a.value.range) == "true"
            });
            let texts = values.into_iter().find_map(|v| match v {
                Value::Text(texts) if texts.iter().any(FoldedText::is_sql) => Some(texts),
                _ => None,
            });
            let Some(texts) = texts else { continue };
            let head = texts.first().map(FoldedText::head).unwrap_or_default();
            let call = Call {
                whole: annotation,
                callee,
                arguments,
                name: "",
                on: None,
                classes: Rc::default(),
            };
            if name == "Query" && !native {
                self.mark(&texts);
                self.report_unresolved(
                    &call,
                    "@Query is written in the mapper's query language, not in SQL".to_owned(),
                    String::new(),
                );
                let _ = head;
                continue;
            }
            let mut bound = Bound::default();
            for (at, parameter) in function.parameters.iter().enumerate() {
                if let Some(value) = self.state.variables.get(&parameter.name) {
                    bound.named.insert(parameter.name.clone(), value.clone());
                    bound.positional.insert(at, value.clone());
                }
            }
            self.run(&texts, bound, annotation.range.start);
        }
    }

    /// Reports decorators of the program that run SQL around the function.
    pub(super) fn decorators(&mut self, function: &Function) {
        for decorator in &function.annotations {
            let callee = match &decorator.kind {
                ExpressionKind::Call { callee, .. } => callee,
                _ => decorator,
            };
            let name = callee.last_name().unwrap_or_default();
            let call = Call {
                whole: decorator,
                callee,
                arguments: &[],
                name,
                on: None,
                classes: Rc::default(),
            };
            if name == "db_session" {
                let reason = "@db_session has a library write changed objects".to_owned();
                self.report_possible(&call, reason);
                continue;
            }
            let found = self.project.find(name, self.file(), None);
            let runs = found.is_some_and(|at| {
                let declared = &self.project.functions[at];
                declared.class.is_none() && self.decorator_runs_sql(declared)
            });
            if runs && !names::is_route(name) {
                let reason = format!("@{name} runs SQL around the function");
                self.report_possible(&call, reason);
            }
        }
    }

    /// Whether a decorator runs SQL in the wrapper that it returns.
    fn decorator_runs_sql(&self, decorator: &DeclaredFunction<'_>) -> bool {
        let mut found = false;
        expressions(&decorator.function.body, true, &mut |value| {
            let ExpressionKind::Call { callee, .. } = &value.kind else {
                return;
            };
            found |= match &callee.kind {
                ExpressionKind::Member(on, name) => {
                    names::always_runs_sql(name)
                        || names::takes_sql(name)
                            && on.last_name().is_some_and(names::is_connection)
                }
                ExpressionKind::Name(name) => {
                    let called = self.project.find(name, decorator.file, None);
                    called.is_some_and(|at| {
                        let called = &self.project.functions[at];
                        called.reaches && called.takes_connection
                    })
                }
                _ => false,
            };
        });
        found
    }

    /// Reports calls that run unnamed code: source in a text, a method by reflection, event listeners.
    pub(super) fn check_dynamic_call(&mut self, call: &Call<'_>, values: &[Value]) {
        let language = self.project.sources[self.file()].language;
        let alone = call.on.is_none();
        let known = match values {
            [Value::Text(texts), ..] => texts.iter().all(|text| file_named(text).is_some()),
            _ => false,
        };
        let reason = match call.name {
            names::JUMPS if alone => "goto is not analysed".to_owned(),
            name if alone && names::runs_source(name) => match language {
                // A named file that is not part of the program is a library.
                _ if known && !self.includes_what_runs(values) => return,
                Language::Php | Language::Python | Language::JavaScript | Language::TypeScript => {
                    format!("{} runs source code that is not known", shown(call))
                }
                _ => return,
            },
            "invoke" if language == Language::Java && self.is_method_by_name(call) => {
                format!("{} calls a method by reflection", shown(call))
            }
            name if language == Language::Java && names::publishes(name) => {
                let mut functions = self.project.functions.iter();
                let listens = functions
                    .any(|f| f.reaches && f.function.annotations.iter().any(names::listens));
                match listens {
                    true => format!(
                        "{} publishes an event, and some listeners run SQL",
                        shown(call)
                    ),
                    false => return,
                }
            }
            _ => return,
        };
        self.report_possible(call, reason);
    }

    /// Whether an included file belongs to the program and runs SQL.
    fn includes_what_runs(&self, values: &[Value]) -> bool {
        let [Value::Text(texts), ..] = values else {
            return false;
        };
        let of_file = |tail: String| {
            let is_named = |name: &str| name == tail || name.ends_with(&format!("/{tail}"));
            let mut sources = self.project.sources.iter().enumerate();
            sources.any(|(at, source)| is_named(&source.name) && self.project.runs_outside(at))
        };
        texts.iter().filter_map(file_named).any(of_file)
    }

    /// Whether a call is reflective: `Account.class.getMethod("pay").invoke(…)`.
    fn is_method_by_name(&self, call: &Call<'_>) -> bool {
        let of_class = call
            .classes
            .iter()
            .any(|class| matches!(&**class, "Method" | "MethodHandle"));
        let mut at = call.on;
        while let Some(on) = at {
            if on
                .last_name()
                .is_some_and(|name| name.contains("etMethod") || name.contains("eclaredMethod"))
            {
                return true;
            }
            at = match &on.kind {
                ExpressionKind::Call { callee: of, .. } | ExpressionKind::Member(of, _) => Some(of),
                _ => None,
            };
        }
        of_class
    }

    /// Invalidates variables that a call receives by reference.
    pub(super) fn change_references(
        &mut self,
        call: &Call<'_>,
        functions: &[usize],
        values: &[Value],
    ) {
        for at in functions {
            let parameters = &self.project.functions[*at].function.parameters;
            for (parameter, argument) in parameters.iter().zip(call.arguments) {
                if parameter.is_reference {
                    let value = self.computed(values, call.whole);
                    self.assign(&argument.value, value);
                }
            }
        }
    }

    /// Reports a field access that may run SQL through a hook such as PHP's `__get`.
    pub(super) fn check_attribute_hook(&mut self, of: &Expression, name: &str, whole: &Expression) {
        let language = self.project.sources[self.file()].language;
        let hooks = self.project.attribute_hooks(language);
        if hooks.is_empty() || self.constants || of.last_name().is_some_and(is_own) {
            return;
        }
        let classes = self.object(of).classes;
        let objects = &self.project.objects;
        let runs = hooks.iter().any(|at| {
            let class = self.project.functions[*at].class.as_deref();
            class.is_some_and(|class| objects.are_of(&classes, class))
        });
        if runs {
            let call = Call::of_field(whole, of, name, classes);
            let reason = format!("{} may run a method that reads the database", shown(&call));
            self.report_possible(&call, reason);
        }
    }
}

impl Walk<'_, '_> {
    /// Follows the methods that the use of an object may run implicitly: operators, iteration, destruction. `found`
    /// is the object's value.
    pub(super) fn follow_implicit_calls(&mut self, value: &Expression, found: &Value) {
        let has_class = matches!(
            value.kind,
            ExpressionKind::Name(_) | ExpressionKind::Member(..) | ExpressionKind::Call { .. }
        );
        let some = self.project.has_implicit_methods();
        if !some || !has_class || self.constants || self.is_itself(value) {
            return;
        }
        let all = self.implicit_methods(value);
        if all.is_empty() {
            return;
        }
        let called = called(value);
        let classes = self.object(value).classes;
        let name = value.last_name().or(called).unwrap_or_default();
        let call = Call::of_field(value, value, name, classes);
        let (methods, others): (Vec<usize>, Vec<usize>) = all
            .iter()
            .copied()
            .partition(|at| self.project.functions[*at].class.is_some());
        if let Some(at) = others.first() {
            let name = self.project.functions[*at].full_name();
            self.report_possible(
                &call,
                format!("the iterator that {name}() returns may run SQL"),
            );
        }
        if methods.len() > CANDIDATES_MAX {
            let reason = format!(
                "{} may run more methods than the analyser follows",
                shown(&call)
            );
            self.report_possible(&call, reason);
            return;
        }
        for method in methods {
            self.follow_any_of(&[method], &[], &call, Some(found));
        }
    }

    /// The methods that an object may run implicitly, and the iterator that a call returns.
    fn implicit_methods(&mut self, value: &Expression) -> Rc<[usize]> {
        let key = self.key_of(value);
        if let Some(known) = self.facts.implicit_methods.get(&key) {
            return known.clone();
        }
        let language = self.project.sources[self.file()].language;
        let called = called(value);
        let classes = self.object(value).classes;
        let objects = &self.project.objects;
        let may_run = |at: &usize| {
            let declared = &self.project.functions[*at];
            match declared.class.as_deref() {
                Some(class) => {
                    let below = |of: &Rc<str>| objects.descendants(of).contains(class);
                    objects.are_of(&classes, class) || classes.iter().any(below)
                }
                None => called == Some(declared.name.as_str()),
            }
        };
        let found: Rc<[usize]> = self
            .project
            .implicit_methods(language)
            .filter(may_run)
            .collect();
        self.facts.implicit_methods.insert(key, found.clone());
        found
    }

    /// Whether an expression is the current object.
    fn is_itself(&self, value: &Expression) -> bool {
        let function = self.frame().function;
        let receiver = function.and_then(|at| self.project.functions[at].receiver.as_deref());
        let name = match &value.kind {
            ExpressionKind::Name(name) => name.as_str(),
            _ => return false,
        };
        is_own(name) || receiver == Some(name)
    }
}

/// The name of the callee.
fn called(value: &Expression) -> Option<&str> {
    match &value.kind {
        ExpressionKind::Call { callee, .. } => callee.last_name(),
        _ => None,
    }
}

/// The file that a text names, without unknown folders: `__DIR__ . '/pay.php'`.
fn file_named(text: &FoldedText) -> Option<String> {
    let shown = text.shown();
    let (tail, is_whole) = match shown.rsplit_once('…') {
        Some((_, tail)) => (tail, tail.starts_with('/')),
        None => (shown.as_str(), true),
    };
    let tail = tail.trim_start_matches(['.', '/']);
    (is_whole && !tail.is_empty()).then(|| tail.to_owned())
}
