//! Infers the classes of objects from the source, and which classes run SQL on a connection that they keep.
//!
//! A name may be of its declared types and of the classes of all values assigned to it anywhere in its function; a
//! field may be of the classes of all values that any method assigns to it. The inference ignores branches and the
//! order of statements: it answers which methods a call may mean, not what they do.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use crate::{
    declarations::{Declarations, DeclaredClass, DeclaredFunction, Source},
    language::Language,
    names,
    syntax::{Argument, Expression, ExpressionKind, Statement, StatementKind},
    traverse::expressions,
};

/// A set of class names.
pub(crate) type Classes = BTreeSet<Rc<str>>;

/// Rounds of propagation: a field may get its class from another field.
const ROUNDS: usize = 4;
/// The depth to which expressions are searched.
const DEPTH_MAX: usize = 24;

/// The connection on which objects of a class run SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExecutionMode {
    /// On a pool or another source of connections, where each statement commits by itself unless a transaction was
    /// begun.
    Autocommit,
    /// On one connection, in the transaction that is open there.
    InTransaction,
}

/// The classes of a program.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Classes declared in the source.
    own: HashSet<Rc<str>>,
    /// The direct base classes and interfaces of each class.
    bases: HashMap<Rc<str>, BTreeSet<Rc<str>>>,
    /// The directly derived classes of each class.
    derived: HashMap<Rc<str>, BTreeSet<Rc<str>>>,
    fields: HashMap<(Rc<str>, String), Classes>,
    /// Names outside of functions and classes, by file.
    of_files: HashMap<(usize, String), Classes>,
    /// The local names of each function.
    locals: Vec<HashMap<String, Classes>>,
    /// The classes that each function returns.
    returned: Vec<Classes>,
    runs: HashMap<Rc<str>, ExecutionMode>,
    /// Classes with methods of their own that run SQL in the open transaction.
    running: HashSet<Rc<str>>,
    /// Library classes that are constructed with a connection.
    given: HashSet<Rc<str>>,
}

/// The function, file and class around an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) function: Option<usize>,
    pub(crate) file: usize,
    pub(crate) class: Option<&'a str>,
}

impl Objects {
    /// Records a class declaration.
    pub(crate) fn declare(&mut self, class: &DeclaredClass<'_>) {
        let DeclaredClass {
            name,
            bases,
            fields,
            language,
            ..
        } = *class;
        let name: Rc<str> = name.into();
        self.own.insert(name.clone());
        for base in bases.iter().filter(|base| ***base != *name) {
            let base: Rc<str> = base.as_str().into();
            let of = self.bases.entry(name.clone()).or_default();
            of.insert(base.clone());
            self.derived.entry(base).or_default().insert(name.clone());
        }
        for field in fields {
            let key = (name.clone(), field.name.clone());
            let of = classes_of_type(&field.of_type, language);
            add(self.fields.entry(key).or_default(), of);
        }
    }

    /// Completes the inference from all functions of a project. The classes must have been declared.
    pub(crate) fn filled(mut self, declarations: &Declarations<'_>) -> Objects {
        self.locals = vec![HashMap::new(); declarations.functions.len()];
        self.returned = vec![Classes::new(); declarations.functions.len()];
        for (at, declared) in declarations.functions.iter().enumerate() {
            if let Some(class) = &declared.class {
                self.own.insert(class.as_str().into());
            }
            let language = declarations.sources[declared.file].language;
            for parameter in &declared.function.parameters {
                let of = classes_of_type(&parameter.of_type, language);
                let known = self.locals[at].entry(parameter.name.clone());
                add(known.or_default(), of);
            }
            self.returned[at] = classes_of_type(&declared.function.returns, language);
        }
        for _ in 0..ROUNDS {
            if !self.round(declarations) {
                break;
            }
        }
        self.classify_classes(declarations);
        self
    }

    /// Runs one round of propagation over all assignments. Returns whether it found anything new.
    fn round(&mut self, declarations: &Declarations<'_>) -> bool {
        let mut new = false;
        for (file, source) in declarations.sources.iter().enumerate() {
            let scope = Scope {
                function: None,
                file,
                class: None,
            };
            new |= self.statements(declarations, &source.module.body, scope);
        }
        for (at, declared) in declarations.functions.iter().enumerate() {
            let scope = Scope {
                function: Some(at),
                file: declared.file,
                class: declared.class.as_deref(),
            };
            new |= self.statements(declarations, &declared.function.body, scope);
            if declared.function.returns.is_empty() {
                let mut found = Classes::new();
                let source = &declarations.sources[declared.file];
                returned(&declared.function.body, source, &mut |value| {
                    add(&mut found, self.classes(declarations, value, scope, 0));
                });
                new |= add(&mut self.returned[at], found);
            }
        }
        new
    }

    fn statements(
        &mut self,
        declarations: &Declarations<'_>,
        statements: &[Statement],
        scope: Scope<'_>,
    ) -> bool {
        let mut new = false;
        // Class bodies assign fields.
        for statement in statements {
            if let StatementKind::Class { name, body, .. } = &statement.kind {
                let inside = Scope {
                    class: Some(name),
                    ..scope
                };
                new |= self.statements(declarations, body, inside);
            }
        }
        let mut given: Vec<(&Expression, &Expression)> = Vec::new();
        let mut made: Vec<Rc<str>> = Vec::new();
        let mut lambdas_on: Vec<(&Expression, usize)> = Vec::new();
        let language = declarations.sources[scope.file].language;
        expressions(statements, false, &mut |value| match &value.kind {
            ExpressionKind::Assign { target, value, .. } => given.push((target, value)),
            ExpressionKind::Call { callee, arguments } => {
                if let Some(class) = self.made_by(callee, language)
                    && !self.own.contains(&class)
                    && arguments.iter().any(is_connection)
                {
                    made.push(class);
                }
                // A lambda passed to a container receives its elements: `accounts.forEach(one -> …)`.
                if let ExpressionKind::Member(on, _) = &callee.kind {
                    let lambdas = arguments.iter().filter_map(|argument| {
                        let is_lambda = matches!(argument.value.kind, ExpressionKind::Lambda(_));
                        let start = argument.value.range.start;
                        is_lambda.then(|| declarations.function_at(scope.file, start))?
                    });
                    lambdas_on.extend(lambdas.map(|at| (&**on, at)));
                }
            }
            _ => {}
        });
        self.given.extend(made);
        for (on, at) in lambdas_on {
            let of = self.classes(declarations, on, scope, 0);
            for parameter in &declarations.functions[at].function.parameters {
                if parameter.of_type.is_empty() && !of.is_empty() {
                    let known = self.locals[at].entry(parameter.name.clone());
                    new |= add(known.or_default(), of.clone());
                }
            }
        }
        for (target, value) in given {
            let of = self.classes(declarations, value, scope, 0);
            if !of.is_empty() {
                new |= self.give(declarations, target, &of, scope);
            }
        }
        new
    }

    /// Adds classes to an assignment's target.
    fn give(
        &mut self,
        declarations: &Declarations<'_>,
        target: &Expression,
        of: &Classes,
        scope: Scope<'_>,
    ) -> bool {
        match &target.kind {
            ExpressionKind::Name(name) => {
                let of = of.clone();
                let field = scope.class.filter(|class| {
                    // Java accesses fields without `this`.
                    scope.function.is_none() || self.field(class, name).is_some()
                });
                let mut new = false;
                if let Some(class) = field {
                    let key = (class.into(), name.clone());
                    new |= add(self.fields.entry(key).or_default(), of.clone());
                }
                match scope.function {
                    Some(at) => new | add(self.locals[at].entry(name.clone()).or_default(), of),
                    None if scope.class.is_none() => {
                        let key = (scope.file, name.clone());
                        new | add(self.of_files.entry(key).or_default(), of)
                    }
                    None => new,
                }
            }
            ExpressionKind::Member(on, name) => {
                let mut new = false;
                for class in self.classes(declarations, on, scope, 0) {
                    let key = (class, name.clone());
                    new |= add(self.fields.entry(key).or_default(), of.clone());
                }
                new
            }
            // Elements of a list share the list's classes.
            ExpressionKind::Index(target, _)
            | ExpressionKind::Cast { value: target, .. }
            | ExpressionKind::Reference(target) => self.give(declarations, target, of, scope),
            ExpressionKind::List(parts) | ExpressionKind::Other(parts) => {
                let mut new = false;
                for part in parts {
                    new |= self.give(declarations, part, of, scope);
                }
                new
            }
            ExpressionKind::Map(parts) => {
                let mut new = false;
                for (_, part) in parts {
                    new |= self.give(declarations, part, of, scope);
                }
                new
            }
            _ => false,
        }
    }

    /// The classes that an expression may be of; empty if unknown.
    pub(crate) fn of(
        &self,
        declarations: &Declarations<'_>,
        value: &Expression,
        scope: Scope<'_>,
    ) -> Classes {
        self.classes(declarations, value, scope, 0)
    }

    fn classes(
        &self,
        declarations: &Declarations<'_>,
        value: &Expression,
        scope: Scope<'_>,
        depth: usize,
    ) -> Classes {
        if depth > DEPTH_MAX {
            return Classes::new();
        }
        let inner = |value: &Expression| self.classes(declarations, value, scope, depth + 1);
        let language = declarations.sources[scope.file].language;
        let all = |parts: &[Expression]| {
            let mut found = Classes::new();
            for part in parts {
                add(&mut found, inner(part));
            }
            found
        };
        match &value.kind {
            ExpressionKind::Name(name) if is_itself(name) => {
                scope.class.map(Rc::from).into_iter().collect()
            }
            ExpressionKind::Name(name) => self.named(declarations, name, scope),
            ExpressionKind::Member(on, name) => {
                let mut found = Classes::new();
                for class in inner(on) {
                    add(&mut found, self.part(declarations, &class, name));
                }
                found
            }
            ExpressionKind::Call { callee, arguments } => {
                self.classes_of_call(declarations, callee, arguments, scope, depth)
            }
            ExpressionKind::Cast { to, value } => {
                let mut found = classes_of_type(to, language);
                add(&mut found, inner(value));
                found
            }
            ExpressionKind::Conditional { yes, no, .. } => {
                let mut found = inner(yes);
                add(&mut found, inner(no));
                found
            }
            ExpressionKind::Binary {
                operator,
                left,
                right,
            } if matches!(operator.as_str(), "??" | "||" | "or" | "?:" | "and" | "&&") => {
                let mut found = inner(left);
                add(&mut found, inner(right));
                found
            }
            ExpressionKind::Assign { value, .. }
            | ExpressionKind::Index(value, _)
            | ExpressionKind::Reference(value) => inner(value),
            ExpressionKind::List(parts) => all(parts),
            ExpressionKind::Other(parts) if parts.len() == 1 => inner(&parts[0]),
            ExpressionKind::Map(pairs) => {
                let mut found = Classes::new();
                for (_, value) in pairs {
                    add(&mut found, inner(value));
                }
                found
            }
            _ => Classes::new(),
        }
    }

    /// The classes of a call's result.
    fn classes_of_call(
        &self,
        declarations: &Declarations<'_>,
        callee: &Expression,
        arguments: &[Argument],
        scope: Scope<'_>,
        depth: usize,
    ) -> Classes {
        let language = declarations.sources[scope.file].language;
        if let Some(class) = self.made_by(callee, language) {
            return Classes::from([class]);
        }
        let mut found = Classes::new();
        let called: Vec<usize> = match &callee.kind {
            ExpressionKind::Member(on, name) => {
                let of = self.classes(declarations, on, scope, depth + 1);
                let methods = self.methods(declarations, &of, name);
                if methods.is_empty() {
                    // Calls of fields, and elements of containers.
                    for class in &of {
                        add(&mut found, self.part(declarations, class, name));
                    }
                    if of.len() > 1 && of.iter().any(|class| !self.own.contains(class)) {
                        add(&mut found, of.clone());
                    }
                }
                match of.is_empty() {
                    true => declarations
                        .find(name, scope.file, None)
                        .into_iter()
                        .collect(),
                    false => methods,
                }
            }
            ExpressionKind::Name(name) => declarations
                .find(name, scope.file, scope.class)
                .into_iter()
                .collect(),
            _ => Vec::new(),
        };
        for at in called {
            add(&mut found, self.returned[at].clone());
        }
        // Lookups by class: `container.get(Accounts)`, `getBean(Accounts.class)`.
        for Argument { value, .. } in arguments {
            let named = match &value.kind {
                ExpressionKind::Member(of, name) if name == "class" => of.last_name(),
                ExpressionKind::Name(name) => Some(name.as_str()),
                _ => None,
            };
            found.extend(named.and_then(|name| self.own.get(name)).cloned());
        }
        found
    }

    /// The classes of a member: a field, or a method read like one (Python's properties).
    fn part(&self, declarations: &Declarations<'_>, class: &str, name: &str) -> Classes {
        if let Some(found) = self.field(class, name) {
            return found;
        }
        let mut found = Classes::new();
        for at in self.methods(declarations, &Classes::from([class.into()]), name) {
            add(&mut found, self.returned[at].clone());
        }
        found
    }

    /// The classes of a name: from its function or those around it, then fields, then the file.
    fn named(&self, declarations: &Declarations<'_>, name: &str, scope: Scope<'_>) -> Classes {
        let mut at = scope.function;
        while let Some(function) = at {
            if let Some(found) = self.locals[function].get(name) {
                return found.clone();
            }
            at = declarations.functions[function].within;
        }
        let receiver = scope
            .function
            .map(|at| &declarations.functions[at].receiver);
        if let (Some(Some(receiver)), Some(class)) = (receiver, scope.class)
            && receiver == name
        {
            return Classes::from([class.into()]);
        }
        let field = scope.class.and_then(|class| self.field(class, name));
        let of_file = || self.of_files.get(&(scope.file, name.to_owned())).cloned();
        field.or_else(of_file).unwrap_or_default()
    }

    /// The class that a constructor call instantiates.
    pub(crate) fn made_by(&self, callee: &Expression, language: Language) -> Option<Rc<str>> {
        let name = match &callee.kind {
            ExpressionKind::Name(name) | ExpressionKind::Member(_, name) => name.as_str(),
            _ => return None,
        };
        if let Some(name) = name.strip_prefix("new ") {
            let name = name.split(['<', '(']).next().unwrap_or(name).trim();
            let name = name.rsplit(['.', '\\']).next().unwrap_or(name);
            return (!name.is_empty()).then(|| name.into());
        }
        let is_class = language == Language::Python && name.starts_with(char::is_uppercase);
        match self.own.get(name) {
            Some(own) if language == Language::Python => Some(own.clone()),
            _ => is_class.then(|| name.into()),
        }
    }

    /// The classes of a field, inherited ones included.
    fn field(&self, class: &str, name: &str) -> Option<Classes> {
        let mut found: Option<Classes> = None;
        for class in self.with_bases(class) {
            if let Some(of) = self.fields.get(&(class, name.to_owned())) {
                add(found.get_or_insert_default(), of.clone());
            }
        }
        found
    }

    /// Whether a class has a field of this name with a declared type.
    pub(crate) fn has_field(&self, class: &str, name: &str) -> bool {
        self.field(class, name).is_some()
    }

    /// A class with all of its base classes.
    pub(crate) fn with_bases(&self, class: &str) -> Vec<Rc<str>> {
        let mut found: Vec<Rc<str>> = vec![class.into()];
        let mut at = 0;
        while at < found.len() {
            let bases = self.bases.get(&found[at]);
            for base in bases.into_iter().flatten() {
                if !found.contains(base) {
                    found.push(base.clone());
                }
            }
            at += 1;
        }
        found
    }

    /// All classes derived from a class, directly or not.
    pub(crate) fn descendants(&self, class: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open = vec![class];
        while let Some(class) = open.pop() {
            let derived = self.derived.get(class).into_iter().flatten();
            for name in derived {
                if found.insert(&**name) {
                    open.push(name);
                }
            }
        }
        found
    }

    /// The methods of this name in all derived classes.
    pub(crate) fn overriding(
        &self,
        declarations: &Declarations<'_>,
        class: &str,
        name: &str,
    ) -> Vec<usize> {
        let of = self.descendants(class).into_iter();
        of.flat_map(|class| declarations.in_class(class, name))
            .collect()
    }

    /// The methods of this name in all base classes.
    pub(crate) fn inherited(
        &self,
        declarations: &Declarations<'_>,
        class: &str,
        name: &str,
    ) -> Vec<usize> {
        let of = self.with_bases(class).into_iter().skip(1);
        of.flat_map(|base| declarations.in_class(&base, name))
            .collect()
    }

    /// The methods of this name that objects of these classes may have: own, inherited, or overridden in derived
    /// classes.
    pub(crate) fn methods(
        &self,
        declarations: &Declarations<'_>,
        classes: &Classes,
        name: &str,
    ) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        for class in classes {
            let own = declarations.in_class(class, name);
            if own.is_empty() {
                let bases = self.with_bases(class).into_iter().skip(1);
                let mut of_bases = bases.map(|base| declarations.in_class(&base, name));
                // The nearest one.
                found.extend(of_bases.find(|all| !all.is_empty()).unwrap_or_default());
            }
            found.extend(own);
            found.extend(self.overriding(declarations, class, name));
        }
        if found.is_empty() {
            // PHP's fallback for undefined methods.
            for class in classes.iter().flat_map(|class| self.with_bases(class)) {
                found.extend(declarations.in_class(&class, "__call"));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether all of these classes are known, and neither declared in the program nor extended by it.
    pub(crate) fn are_foreign(&self, classes: &Classes) -> bool {
        let is_foreign =
            |class: &Rc<str>| !self.own.contains(class) && self.descendants(class).is_empty();
        !classes.is_empty() && classes.iter().all(is_foreign)
    }

    /// Whether the class of a file-level name is known.
    pub(crate) fn is_named_in(&self, file: usize, name: &str) -> bool {
        self.of_files.contains_key(&(file, name.to_owned()))
    }

    /// Whether one of these is, or extends, a mapper class with methods that a library implements.
    pub(crate) fn are_mappers(&self, classes: &Classes) -> bool {
        let mut all = classes.iter().flat_map(|of| self.with_bases(of));
        all.any(|of| names::is_mapper(&of))
    }

    /// Whether one of these is or extends a class.
    pub(crate) fn are_of(&self, classes: &Classes, class: &str) -> bool {
        let mut all = classes.iter().flat_map(|of| self.with_bases(of));
        all.any(|of| *of == *class)
    }

    /// How objects of these classes run SQL, if they do.
    pub(crate) fn run(&self, classes: &Classes) -> Option<ExecutionMode> {
        classes
            .iter()
            .filter_map(|class| self.runs.get(class))
            .copied()
            .max()
    }

    /// Whether one of these classes has methods that run SQL in the open transaction.
    pub(crate) fn are_running(&self, classes: &Classes) -> bool {
        classes.iter().any(|class| self.running.contains(class))
    }

    /// Whether one of these is a library class that was constructed with a connection.
    pub(crate) fn are_given(&self, classes: &Classes) -> bool {
        classes
            .iter()
            .any(|class| self.given.contains(class) && !names::is_connection(class))
    }

    /// Determines which classes run SQL on a connection that they keep.
    fn classify_classes(&mut self, declarations: &Declarations<'_>) {
        for (at, declared) in declarations.functions.iter().enumerate() {
            let Some(class) = declared.class.as_deref() else {
                continue;
            };
            if !declared.runs || declared.opens {
                continue;
            }
            let scope = Scope {
                function: Some(at),
                file: declared.file,
                class: Some(class),
            };
            let mut found: Option<ExecutionMode> = None;
            expressions(&declared.function.body, true, &mut |value| {
                if let ExpressionKind::Call { callee, arguments } = &value.kind {
                    found =
                        found.max(self.run_by(declarations, (callee, arguments), declared, scope));
                }
            });
            if let Some(runs) = found {
                let runs = of_class(class, runs);
                if runs == ExecutionMode::InTransaction {
                    self.running.insert(class.into());
                }
                let known = self.runs.entry(class.into()).or_insert(runs);
                *known = runs.max(*known);
            }
        }
        // A class runs SQL if one of its fields does, or a base or derived class does.
        loop {
            let mut new: Vec<(Rc<str>, ExecutionMode)> = Vec::new();
            for ((class, field), of) in &self.fields {
                let runs = self.run(of).map(|runs| of_class(field, runs));
                new.extend(runs.map(|runs| (class.clone(), runs)));
            }
            for (class, bases) in &self.bases {
                for base in bases {
                    let (own, other) = (self.runs.get(class), self.runs.get(base));
                    new.extend(own.map(|runs| (base.clone(), *runs)));
                    new.extend(other.map(|runs| (class.clone(), *runs)));
                }
            }
            let mut changed = false;
            for (class, runs) in new {
                let runs = of_class(&class, runs);
                let known = self.runs.get(&class).copied();
                if known < Some(runs) {
                    self.runs.insert(class, runs);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
    }

    /// How a call in a method runs SQL on the object's own connection, if it does.
    fn run_by(
        &self,
        declarations: &Declarations<'_>,
        (callee, arguments): (&Expression, &[Argument]),
        declared: &DeclaredFunction<'_>,
        scope: Scope<'_>,
    ) -> Option<ExecutionMode> {
        let name = callee.last_name()?;
        let ExpressionKind::Member(on, _) = &callee.kind else {
            return names::always_runs_sql(name).then_some(ExecutionMode::InTransaction);
        };
        let of = on.last_name().unwrap_or_default();
        // A parameter belongs to the caller, not to the object.
        if declared
            .function
            .parameters
            .iter()
            .any(|p| p.name == of && !p.is_field)
        {
            return None;
        }
        let classes = self.classes(declarations, on, scope, 0);
        let of_go = |class: &Rc<str>| {
            declarations.sources[scope.file].language == Language::Go
                && matches!(&**class, "DB" | "Tx" | "Conn" | "Pool")
        };
        let is_typed = |class: &Rc<str>| names::is_connection_type(class) || of_go(class);
        let typed = classes.iter().any(is_typed);
        let runs = names::always_runs_sql(name)
            || names::may_run_sql(name)
                && (typed
                    || names::is_connection(of)
                    || arguments.first().is_some_and(Argument::begins_as_sql));
        let language = declarations.sources[scope.file].language;
        let alone = language == Language::Php
            || names::is_pool(of)
            || classes.iter().any(|class| names::is_pool(class))
            || language == Language::Go && classes.contains("DB");
        runs.then_some(match alone {
            true => ExecutionMode::Autocommit,
            false => ExecutionMode::InTransaction,
        })
    }
}

/// Adjusts the mode by name: each call on a pool takes a connection of its own.
fn of_class(name: &str, runs: ExecutionMode) -> ExecutionMode {
    match names::is_pool(name) {
        true => ExecutionMode::Autocommit,
        false => runs,
    }
}

/// Whether a name is the current object, class, or their base.
pub(crate) fn is_own(name: &str) -> bool {
    matches!(
        name,
        "this" | "self" | "cls" | "static" | "super" | "parent" | "exports"
    )
}

/// Whether a name is the current object or class.
fn is_itself(name: &str) -> bool {
    matches!(name, "this" | "self" | "cls" | "static")
}

/// Whether an argument is a connection, judged by its name.
fn is_connection(argument: &Argument) -> bool {
    let name = match &argument.value.kind {
        ExpressionKind::Name(_) | ExpressionKind::Member(..) => argument.value.last_name(),
        _ => None,
    };
    name.is_some_and(|name| names::database_certainty(name) > names::Certainty::No)
}

fn add(known: &mut Classes, more: Classes) -> bool {
    let before = known.len();
    known.extend(more);
    known.len() > before
}

/// The class names in a written type: `Optional<Accounts>`, `*bank.Accounts`, `Accounts | null`.
fn classes_of_type(of_type: &str, language: Language) -> Classes {
    let mut found = Classes::new();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = of_type;
    while let Some(start) = rest.find(is_part) {
        let word = &rest[start..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, behind) = word.split_at(end);
        rest = behind;
        // Skips packages, type variables and types that may be anything.
        let is_package = behind.starts_with('.');
        let any = matches!(word, "Object" | "Any" | "Self") || word.len() < 2;
        let is_class = word.starts_with(char::is_uppercase) || language == Language::Go;
        if is_class && !is_package && !any {
            found.insert(word.into());
        }
    }
    found
}

/// Visits the operands of `return` and `yield`, except in nested functions.
fn returned<'e>(
    statements: &'e [Statement],
    source: &Source,
    found: &mut dyn FnMut(&'e Expression),
) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Return(Some(value)) => found(value),
            StatementKind::Expression(value) => {
                let text = source.text.get(value.range.clone()).unwrap_or_default();
                if text.starts_with("yield") {
                    found(value);
                }
            }
            StatementKind::If {
                then, otherwise, ..
            } => {
                returned(then, source, found);
                returned(otherwise, source, found);
            }
            StatementKind::Cases { cases, .. } => {
                cases.iter().for_each(|case| returned(case, source, found));
            }
            StatementKind::Loop { body, .. } => returned(body, source, found),
            StatementKind::Try {
                body,
                handlers,
                finally,
            } => {
                returned(body, source, found);
                handlers.iter().for_each(|h| returned(h, source, found));
                returned(finally, source, found);
            }
            StatementKind::Block(inner) | StatementKind::Other(inner) => {
                returned(inner, source, found);
            }
            _ => {}
        }
    }
}
