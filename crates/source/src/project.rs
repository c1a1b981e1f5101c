//! All files of a program: their functions and constants.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::{
    implicit_calls,
    language::Language,
    mutable_names::{Reassignment, globals, reassigned},
    names,
    objects::{Classes, Objects, Scope},
    syntax::{Argument, Expression, ExpressionKind, Function, Module, Statement, StatementKind},
    value::{Value, looks_like_sql},
};

/// A parsed source file.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) language: Language,
    pub(crate) module: Module,
    /// The offsets of its line ends.
    pub(crate) lines: Vec<usize>,
    /// The names of standard library packages that it imports (Go only).
    pub(crate) libraries: BTreeSet<String>,
}

/// A function with its position and properties.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredFunction<'p> {
    pub(crate) function: &'p Function,
    pub(crate) file: usize,
    pub(crate) name: String,
    pub(crate) class: Option<String>,
    /// The receiver's name in a Go method.
    pub(crate) receiver: Option<String>,
    /// Whether it is nested in another function.
    pub(crate) nested: bool,
    /// The enclosing function.
    pub(crate) within: Option<usize>,
    /// Whether it runs SQL itself.
    pub(crate) runs: bool,
    /// Whether it or a function that it may call runs SQL.
    pub(crate) reaches: bool,
    /// Whether it opens a connection or a transaction itself.
    pub(crate) opens: bool,
    /// Whether it ends a transaction itself.
    pub(crate) ends: bool,
    /// Whether everything that it calls runs in one transaction: it begins or ends one, or is annotated as
    /// transactional.
    pub(crate) is_transaction: bool,
    /// Whether it takes a connection, judged by a parameter's name or type.
    pub(crate) takes_connection: bool,
    /// Whether it runs SQL on a parameter of any name.
    pub(crate) runs_on_parameter: bool,
    /// Whether its variables may get unseen values: through variable variables or references.
    pub(crate) is_dynamic: bool,
    /// Whether it runs a parameter as SQL, as a driver's method does.
    pub(crate) forwards: bool,
}

impl DeclaredFunction<'_> {
    /// Whether a name is a parameter, and so shadows an outer name. `this` and `self` never shadow: the object is the
    /// same.
    pub(crate) fn owns(&self, name: &str) -> bool {
        let mut own = self.function.parameters.iter();
        !matches!(name, "this" | "self") && own.any(|parameter| parameter.name == name)
    }
}

impl DeclaredFunction<'_> {
    /// The name qualified by the class.
    pub(crate) fn full_name(&self) -> String {
        match &self.class {
            Some(class) if !class.is_empty() => format!("{class}.{}", self.name),
            _ => self.name.clone(),
        }
    }
}

/// A whole program.
#[derive(Debug)]
pub(crate) struct Project<'p> {
    pub(crate) sources: &'p [Source],
    pub(crate) functions: Vec<DeclaredFunction<'p>>,
    at: BTreeMap<(usize, usize), usize>,
    by_name: HashMap<String, Vec<usize>>,
    /// Accessors that may come to run SQL, by name.
    accessors: HashMap<String, Vec<usize>>,
    /// Hooks for missing attributes that may come to run SQL: `__get`, `__getattr__`.
    attribute_hooks: Vec<usize>,
    /// For each file, the names that stand for standard library packages only.
    libraries: Vec<BTreeSet<String>>,
    /// Methods that may run without being called by name.
    implicit_methods: Vec<usize>,
    /// Files that run SQL outside of functions.
    run_outside: BTreeSet<usize>,
    /// Files in which top-level variables may get unseen values.
    dynamic_outside: BTreeSet<usize>,
    /// The classes of objects.
    pub(crate) objects: Objects,
    /// Constants and fields by file and name, and by class and name.
    pub(crate) constants: Constants,
}

/// The values of names outside of functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants {
    pub(crate) of_files: BTreeMap<(usize, String), Value>,
    pub(crate) of_classes: BTreeMap<(String, String), Value>,
    /// File-level names that may run SQL: objects made from a connection, functions in a map.
    pub(crate) running: BTreeMap<String, BTreeSet<usize>>,
    /// Values by name alone; `None` where several places assign different values.
    pub(crate) by_name: BTreeMap<String, Option<Value>>,
}

impl<'p> Project<'p> {
    pub(crate) fn new(sources: &'p [Source]) -> Project<'p> {
        let mut project = Project {
            sources,
            functions: Vec::new(),
            at: BTreeMap::new(),
            by_name: HashMap::new(),
            accessors: HashMap::new(),
            attribute_hooks: Vec::new(),
            implicit_methods: Vec::new(),
            libraries: Vec::new(),
            run_outside: BTreeSet::new(),
            dynamic_outside: BTreeSet::new(),
            objects: Objects::default(),
            constants: Constants::default(),
        };
        for (file, source) in sources.iter().enumerate() {
            let mut collect = FunctionCollector {
                project: &mut project,
                file,
                class: None,
                transactional: false,
                nested: false,
                within: None,
            };
            collect.statements(&source.module.body);
        }
        for (at, declared) in project.functions.iter().enumerate() {
            // A function without a body does not run, unless an annotation holds its SQL.
            let function = declared.function;
            if function.is_abstract && !function.annotations.iter().any(has_text) {
                continue;
            }
            project
                .by_name
                .entry(declared.name.clone())
                .or_default()
                .push(at);
        }
        project.libraries = libraries(&project);
        let objects = std::mem::take(&mut project.objects);
        project.objects = objects.filled(&project);
        project.reach();
        for (at, declared) in project.functions.iter().enumerate() {
            if !declared.reaches {
                continue;
            }
            if declared.function.is_accessor {
                let all = project.accessors.entry(declared.name.clone());
                all.or_default().push(at);
            }
            if implicit_calls::is_attribute_hook(&declared.name) {
                project.attribute_hooks.push(at);
            }
            let language = project.sources[declared.file].language;
            let class: Option<Rc<str>> = declared.class.as_deref().map(Rc::from);
            let of_class = class.into_iter().collect();
            let is = |interface: &str| project.objects.are_of(&of_class, interface);
            let takes = declared.function.parameters.len();
            let of_object = !of_class.is_empty()
                && implicit_calls::is_implicit_method(language, &declared.name, takes, is);
            if of_object || implicit_calls::is_sequence(&declared.function.returns) {
                project.implicit_methods.push(at);
            }
        }
        for (file, source) in sources.iter().enumerate() {
            let mut calls = BTreeSet::new();
            called(&source.module.body, false, &mut calls);
            if calls
                .iter()
                .any(|name| names::always_runs_sql(name) || names::takes_sql(name))
            {
                project.run_outside.insert(file);
            }
            if source.language == Language::Php && is_dynamic(&source.module.body, &calls) {
                project.dynamic_outside.insert(file);
            }
        }
        project
    }

    /// The accessors of a name that may come to run SQL.
    pub(crate) fn accessors(&self, name: &str, language: Language) -> Vec<usize> {
        let all = self.accessors.get(name).into_iter().flatten().copied();
        all.filter(|at| self.sources[self.functions[*at].file].language == language)
            .collect()
    }

    /// The hooks for missing attributes that may come to run SQL.
    pub(crate) fn attribute_hooks(&self, language: Language) -> Vec<usize> {
        let all = self.attribute_hooks.iter().copied();
        all.filter(|at| self.sources[self.functions[*at].file].language == language)
            .collect()
    }

    /// The methods that may run without being called by name and may come to run SQL, and the functions that return
    /// iterators which do.
    pub(crate) fn implicit_methods(&self, language: Language) -> impl Iterator<Item = usize> {
        let all = self.implicit_methods.iter().copied();
        all.filter(move |at| self.sources[self.functions[*at].file].language == language)
    }

    /// Whether any language has such methods.
    pub(crate) fn has_implicit_methods(&self) -> bool {
        !self.implicit_methods.is_empty()
    }

    /// Whether variables of a function, or of a file outside of functions, may get unseen values.
    pub(crate) fn is_dynamic(&self, function: Option<usize>, file: usize) -> bool {
        match function {
            Some(at) => self.functions[at].is_dynamic,
            None => self.dynamic_outside.contains(&file),
        }
    }

    /// Whether a file may run SQL outside of functions.
    pub(crate) fn runs_outside(&self, file: usize) -> bool {
        self.run_outside.contains(&file)
    }

    /// Marks the functions that may come to run SQL, by their calls.
    fn reach(&mut self) {
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); self.functions.len()];
        for (at, declared) in self.functions.iter().enumerate() {
            // A function may call those nested in it.
            if let Some(around) = declared.within {
                callers[at].push(around);
            }
            let language = self.sources[declared.file].language;
            expressions(
                &declared.function.body,
                false,
                &mut |value| match &value.kind {
                    ExpressionKind::Call { callee, .. } => {
                        for called in self.called(at, callee) {
                            callers[called].push(at);
                        }
                    }
                    // A field access may call an accessor.
                    ExpressionKind::Member(_, name) => {
                        let all = self.all_of(name, language);
                        for read in all.filter(|at| self.functions[*at].function.is_accessor) {
                            callers[read].push(at);
                        }
                    }
                    _ => {}
                },
            );
        }
        let runs = |at: &usize| self.functions[*at].runs;
        let mut open: Vec<usize> = (0..self.functions.len()).filter(runs).collect();
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut self.functions[at].reaches, true) {
                open.append(&mut callers[at]);
            }
        }
    }

    /// All functions that a call may mean: by the receiver's class where the language declares types, otherwise by
    /// name.
    fn called(&self, from: usize, callee: &Expression) -> Vec<usize> {
        let Some(name) = callee.last_name() else {
            return Vec::new();
        };
        let declared = &self.functions[from];
        let language = self.sources[declared.file].language;
        let objects = &self.objects;
        let scope = Scope {
            function: Some(from),
            file: declared.file,
            class: declared.class.as_deref(),
        };
        if let Some(class) = objects.made_by(callee, language) {
            return self.constructors(&class);
        }
        let classes = match &callee.kind {
            ExpressionKind::Member(on, _) => {
                let itself = matches!(on.last_name(), Some("this" | "self" | "cls" | "static"));
                let says = matches!(language, Language::Java | Language::Go);
                match itself || says {
                    true => objects.of(self, on, scope),
                    false => Classes::new(),
                }
            }
            ExpressionKind::Name(_) if language == Language::Java => {
                scope.class.map(Rc::from).into_iter().collect()
            }
            _ => Classes::new(),
        };
        let by_class = objects.methods(self, &classes, name);
        if by_class.is_empty() && self.is_library(callee, declared.file, &classes) {
            return Vec::new();
        }
        let is_foreign = language == Language::Java && objects.are_foreign(&classes);
        if !by_class.is_empty() || is_foreign {
            return by_class;
        }
        // A method needs a receiver.
        let is_name = matches!(callee.kind, ExpressionKind::Name(_)) && language != Language::Java;
        self.all_of(name, language)
            .filter(|at| {
                let of = &self.functions[*at];
                !is_name || of.class.is_none() || of.within.is_some()
            })
            .collect()
    }

    /// Whether a call goes to a standard library package, such as `flag.Parse()`, with a name that stands for nothing
    /// else.
    pub(crate) fn is_library(&self, callee: &Expression, file: usize, classes: &Classes) -> bool {
        let ExpressionKind::Member(on, _) = &callee.kind else {
            return false;
        };
        let libraries = &self.libraries[file];
        classes.is_empty()
            && matches!(&on.kind, ExpressionKind::Name(name) if libraries.contains(name))
    }

    /// The constructors of a class.
    pub(crate) fn constructors(&self, class: &str) -> Vec<usize> {
        let names = [class, "__init__", "constructor", "__construct"];
        names
            .into_iter()
            .flat_map(|name| self.in_class(class, name))
            .collect()
    }

    /// The function that begins at an offset.
    pub(crate) fn function_at(&self, file: usize, start: usize) -> Option<usize> {
        self.at.get(&(file, start)).copied()
    }

    /// Resolves a name within a class of a file: first in the class, then in the file, then the only one in the
    /// program.
    pub(crate) fn find(&self, name: &str, file: usize, class: Option<&str>) -> Option<usize> {
        let all = self.by_name.get(name)?;
        let here = |at: &&usize| {
            let declared = &self.functions[**at];
            declared.file == file && declared.class.as_deref() == class && !declared.nested
        };
        let in_file =
            |at: &&usize| self.functions[**at].file == file && !self.functions[**at].nested;
        let one = |test: &dyn Fn(&&usize) -> bool| {
            let mut found = all.iter().filter(test);
            let first = found.next()?;
            found.next().is_none().then_some(*first)
        };
        one(&here).or_else(|| one(&in_file)).or_else(|| {
            let language = self.sources[file].language;
            one(&|at: &&usize| self.sources[self.functions[**at].file].language == language)
        })
    }

    /// The assignments of a file's functions to outer names.
    pub(crate) fn reassignments_in(&self, file: usize) -> Vec<Reassignment<'_>> {
        let source = &self.sources[file];
        let globals = globals(source);
        let of_file = self.functions.iter().filter(|f| f.file == file);
        of_file
            .flat_map(|function| reassigned(source, &globals, function))
            .collect()
    }

    /// The function of this name in a class, if there is exactly one.
    pub(crate) fn find_in_class(&self, class: &str, name: &str) -> Option<usize> {
        let all = self.by_name.get(name)?;
        let mut found = all
            .iter()
            .filter(|at| self.functions[**at].class.as_deref() == Some(class));
        let first = found.next()?;
        found.next().is_none().then_some(*first)
    }

    /// The functions of this name in a class; several if it is overloaded.
    pub(crate) fn in_class(&self, class: &str, name: &str) -> Vec<usize> {
        let all = self.by_name.get(name).into_iter().flatten().copied();
        all.filter(|at| self.functions[*at].class.as_deref() == Some(class))
            .collect()
    }

    /// All methods of a name in any class.
    pub(crate) fn methods(&self, name: &str, language: Language) -> Vec<usize> {
        let all = self.by_name.get(name).into_iter().flatten().copied();
        let is_one = |at: &usize| {
            let of = &self.functions[*at];
            of.class.is_some() && self.sources[of.file].language == language
        };
        all.filter(is_one).collect()
    }

    /// The functions of a name in a language, nested ones included.
    pub(crate) fn all_of(&self, name: &str, language: Language) -> impl Iterator<Item = usize> {
        let all = self.by_name.get(name).into_iter().flatten().copied();
        all.filter(move |at| self.sources[self.functions[*at].file].language == language)
    }

    /// Whether any function has this name.
    pub(crate) fn has(&self, name: &str, language: Language) -> bool {
        let all = self.by_name.get(name).into_iter().flatten();
        all.into_iter()
            .any(|at| self.sources[self.functions[*at].file].language == language)
    }

    /// The nested functions of a name in a file.
    pub(crate) fn nested(&self, name: &str, file: usize) -> impl Iterator<Item = usize> {
        let all = self.by_name.get(name).into_iter().flatten().copied();
        all.filter(move |at| {
            let of = &self.functions[*at];
            of.nested && of.file == file
        })
    }

    /// Whether a name without a local value may run SQL: in its own file or, if the file does not define it, in any
    /// file that may export it.
    pub(crate) fn is_running(&self, name: &str, file: usize) -> bool {
        let files = self.constants.running.get(name);
        files.is_some_and(|files| {
            let language = self.sources[file].language;
            let is_others = !self.objects.is_named_in(file, name);
            files.contains(&file)
                || is_others
                    && files
                        .iter()
                        .any(|of| self.sources[*of].language == language)
        })
    }

    /// The constant value of a name without a local value.
    pub(crate) fn constant(&self, path: &str, file: usize, class: Option<&str>) -> Option<&Value> {
        let (of, name) = match path.rsplit_once('.') {
            Some((of, name)) => (Some(of.rsplit('.').next().unwrap_or(of)), name),
            None => (None, path),
        };
        let own = matches!(of, None | Some("this" | "self" | "cls" | "static" | "Self"));
        let constants = &self.constants;
        let of_class = |class: &str| {
            let key = (class.to_owned(), name.to_owned());
            constants.of_classes.get(&key)
        };
        let found = match (of, own) {
            (Some(class), false) => of_class(class),
            _ => class.and_then(of_class),
        };
        found
            .or_else(|| constants.of_files.get(&(file, name.to_owned())))
            .or_else(|| constants.by_name.get(name).and_then(Option::as_ref))
    }
}

struct FunctionCollector<'a, 'p> {
    project: &'a mut Project<'p>,
    file: usize,
    class: Option<String>,
    /// Whether an annotation makes every method of the class a transaction.
    transactional: bool,
    nested: bool,
    /// The enclosing function.
    within: Option<usize>,
}

impl<'p> FunctionCollector<'_, 'p> {
    fn statements(&mut self, statements: &'p [Statement]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'p Statement) {
        match &statement.kind {
            StatementKind::Expression(value) => self.expression(value, None),
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.expression(condition, None);
                self.statements(then);
                self.statements(otherwise);
            }
            StatementKind::Cases { value, cases, .. } => {
                value.iter().for_each(|v| self.expression(v, None));
                cases.iter().for_each(|case| self.statements(case));
            }
            StatementKind::Loop { before, body } => {
                before.iter().for_each(|v| self.expression(v, None));
                self.statements(body);
            }
            StatementKind::Try {
                body,
                handlers,
                finally,
            } => {
                self.statements(body);
                handlers.iter().for_each(|h| self.statements(h));
                self.statements(finally);
            }
            StatementKind::Return(value) | StatementKind::Throw(value) => {
                value.iter().for_each(|v| self.expression(v, None));
            }
            StatementKind::Block(inner) | StatementKind::Other(inner) => self.statements(inner),
            StatementKind::Function(function) => self.function(function, function.name.clone()),
            StatementKind::Class {
                name,
                bases,
                fields,
                annotations,
                body,
            } => {
                let language = self.project.sources[self.file].language;
                self.project.objects.declare(name, bases, fields, language);
                let outer = self.class.replace(name.clone());
                let transactional = annotations.iter().any(names::makes_a_transaction);
                let outside = std::mem::replace(&mut self.transactional, transactional);
                self.statements(body);
                self.class = outer;
                self.transactional = outside;
            }
            StatementKind::Leave | StatementKind::Broken => {}
        }
    }

    fn function(&mut self, function: &'p Function, name: String) {
        let mut calls = BTreeSet::new();
        called(&function.body, true, &mut calls);
        let source = &self.project.sources[self.file];
        let takes = |p: &crate::syntax::Parameter| {
            names::is_connection_type(&p.of_type)
                || names::is_connection(&p.name) && !matches!(p.name.as_str(), "c" | "q" | "sql")
        };
        let named = match name.is_empty() {
            true => place_name(source, function.range.start),
            false => name,
        };
        let receiver = receiver(source, function);
        let at = self.project.functions.len();
        let parameter_use = ParameterUse::of(function);
        let ends = calls.iter().any(|name| names::commits(name));
        let mut annotations = function.annotations.iter();
        let is_transaction = ends
            || self.transactional
            || annotations.any(names::makes_a_transaction)
            || calls.iter().any(|name| names::begins(name));
        self.project.functions.push(DeclaredFunction {
            function,
            file: self.file,
            name: named,
            class: self.class.clone().or(receiver.map(|(_, of)| of.to_owned())),
            receiver: receiver.map(|(name, _)| name.to_owned()),
            nested: self.nested,
            within: self.within,
            runs: calls.iter().any(|name| names::may_run_sql(name))
                || function.annotations.iter().any(has_sql),
            reaches: false,
            opens: calls.iter().any(|name| names::opens(name)),
            ends,
            is_transaction,
            takes_connection: function.parameters.iter().any(takes),
            runs_on_parameter: parameter_use.runs_on,
            forwards: parameter_use.forwards,
            is_dynamic: source.language == Language::Php && is_dynamic(&function.body, &calls),
        });
        let place = (self.file, function.range.start);
        self.project.at.insert(place, at);
        let outer = std::mem::replace(&mut self.nested, true);
        let around = self.within.replace(at);
        self.statements(&function.body);
        self.nested = outer;
        self.within = around;
    }

    /// Collects functions in an expression. `name` is the target that the value is assigned to.
    fn expression(&mut self, value: &'p Expression, name: Option<&str>) {
        match &value.kind {
            ExpressionKind::Lambda(function) => {
                let given = name.unwrap_or_default();
                let given = match function.name.is_empty() {
                    true => given.to_owned(),
                    false => function.name.clone(),
                };
                // An anonymous function is an argument of a call.
                let outer = self.nested;
                self.nested |= given.is_empty();
                self.function(function, given);
                self.nested = outer;
            }
            ExpressionKind::Assign { target, value, .. } => {
                self.expression(target, None);
                let name = target.last_name().map(str::to_owned);
                self.expression(value, name.as_deref());
            }
            ExpressionKind::Map(pairs) => {
                for (key, value) in pairs {
                    self.expression(value, Some(key));
                }
            }
            _ => parts(value)
                .into_iter()
                .for_each(|part| self.expression(part, None)),
        }
    }
}

/// The receiver's name and type of a Go method.
fn receiver<'s>(source: &'s Source, function: &Function) -> Option<(&'s str, &'s str)> {
    let text = source.text.get(function.range.clone())?;
    if source.language != Language::Go {
        return None;
    }
    let rest = text.strip_prefix("func")?.trim_start().strip_prefix('(')?;
    let inside = &rest[..rest.find(')')?];
    let name = inside.split_whitespace().next()?;
    let of = inside
        .split_whitespace()
        .next_back()?
        .trim_start_matches('*');
    Some((name, of.split('[').next().unwrap_or(of)))
}

/// For each file, the standard library packages with names that are used only before a dot.
fn libraries(project: &Project<'_>) -> Vec<BTreeSet<String>> {
    let all = project.sources.iter();
    let mut found: Vec<BTreeSet<String>> = all.map(|source| source.libraries.clone()).collect();
    for declared in &project.functions {
        let names = &mut found[declared.file];
        if names.is_empty() {
            continue;
        }
        // Parameters are known by their types. Each member access counts its receiver's name once more, so the sum is
        // positive for a name that is also used alone.
        let mut alone: BTreeMap<&str, i64> = BTreeMap::new();
        expressions(
            &declared.function.body,
            true,
            &mut |value| match &value.kind {
                ExpressionKind::Name(name) => *alone.entry(name).or_default() += 1,
                ExpressionKind::Member(on, _) => {
                    if let ExpressionKind::Name(name) = &on.kind {
                        *alone.entry(name).or_default() -= 1;
                    }
                }
                _ => {}
            },
        );
        for (name, _) in alone.into_iter().filter(|(_, times)| *times > 0) {
            names.remove(name);
        }
    }
    found
}

/// `file:line`, as a name for anonymous code.
pub(crate) fn place_name(source: &Source, at: usize) -> String {
    let line = source.lines.partition_point(|end| *end < at) + 1;
    let file = source.name.rsplit('/').next().unwrap_or(&source.name);
    format!("{file}:{line}")
}

/// The direct subexpressions, without the bodies of functions.
pub(crate) fn parts(value: &Expression) -> Vec<&Expression> {
    match &value.kind {
        ExpressionKind::Text(_)
        | ExpressionKind::Number(_)
        | ExpressionKind::Null
        | ExpressionKind::Name(_)
        | ExpressionKind::Lambda(_)
        | ExpressionKind::Broken => Vec::new(),
        ExpressionKind::Member(of, _)
        | ExpressionKind::Not(of)
        | ExpressionKind::Reference(of)
        | ExpressionKind::Cast { value: of, .. } => vec![of],
        ExpressionKind::Index(of, at) => vec![of, at],
        ExpressionKind::Call { callee, arguments } => {
            let values = arguments.iter().map(|Argument { value, .. }| value);
            std::iter::once(&**callee).chain(values).collect()
        }
        ExpressionKind::Join { parts, .. }
        | ExpressionKind::List(parts)
        | ExpressionKind::Other(parts) => parts.iter().collect(),
        ExpressionKind::Binary { left, right, .. } => vec![left, right],
        ExpressionKind::Conditional { condition, yes, no } => vec![condition, yes, no],
        ExpressionKind::Map(pairs) => pairs.iter().map(|(_, value)| value).collect(),
        ExpressionKind::Assign { target, value, .. } => vec![target, value],
    }
}

/// The names of all called functions; `within` includes nested functions.
fn called(statements: &[Statement], within: bool, found: &mut BTreeSet<String>) {
    expressions(statements, within, &mut |value| {
        if let ExpressionKind::Call { callee, .. } = &value.kind
            && let Some(name) = callee.last_name()
        {
            found.insert(name.to_owned());
        }
    });
}

/// Whether variables in these statements may get unseen values.
fn is_dynamic(statements: &[Statement], calls: &BTreeSet<String>) -> bool {
    let mut found = calls.iter().any(|name| names::sets_dynamic_variables(name));
    expressions(statements, true, &mut |value| {
        if let ExpressionKind::Assign { value, .. } = &value.kind {
            found |= matches!(value.kind, ExpressionKind::Reference(_));
        }
    });
    found
}

/// Whether an annotation is given SQL.
fn has_sql(annotation: &Expression) -> bool {
    let ExpressionKind::Call { arguments, .. } = &annotation.kind else {
        return false;
    };
    arguments.iter().any(Argument::begins_as_sql)
}

/// Whether an annotation is given a text.
fn has_text(annotation: &Expression) -> bool {
    let mut found = false;
    expression(annotation, false, &mut |value| {
        found |= matches!(
            value.kind,
            ExpressionKind::Text(_) | ExpressionKind::Join { .. }
        );
    });
    found
}

/// How a function uses its parameters.
#[derive(Clone, Copy, Debug, Default)]
struct ParameterUse {
    /// It runs SQL on one of them.
    runs_on: bool,
    /// It runs one of them as SQL.
    forwards: bool,
}

impl ParameterUse {
    fn of(function: &Function) -> ParameterUse {
        let mut found = ParameterUse::default();
        let is_parameter = |name: &str| function.parameters.iter().any(|p| p.name == name);
        expressions(&function.body, false, &mut |value| {
            let ExpressionKind::Call { callee, arguments } = &value.kind else {
                return;
            };
            let ExpressionKind::Member(on, name) = &callee.kind else {
                return;
            };
            let surely = names::always_runs_sql(name);
            if !surely && !names::takes_sql(name) {
                return;
            }
            if let ExpressionKind::Name(on) = &on.kind
                && is_parameter(on)
            {
                let is_text = |argument: &Argument| match &argument.value.kind {
                    ExpressionKind::Text(_) | ExpressionKind::Join { .. } => {
                        argument.begins_as_sql()
                    }
                    _ => surely,
                };
                found.runs_on |= arguments.iter().any(is_text);
            }
            if surely || on.last_name().is_some_and(names::is_connection) {
                let first = arguments.first().and_then(|a| a.value.last_name());
                let behind = name.ends_with("Context") || matches!(first, Some("ctx" | "context"));
                let text = arguments.get(usize::from(behind)).map(|a| &a.value.kind);
                found.forwards |=
                    matches!(text, Some(ExpressionKind::Name(name)) if is_parameter(name));
            }
        });
        found
    }
}

impl Argument {
    /// Whether it is or contains a text that begins like SQL.
    pub(crate) fn begins_as_sql(&self) -> bool {
        let is_sql = |value: &Expression| matches!(&value.kind, ExpressionKind::Text(text) if looks_like_sql(&text.text));
        match &self.value.kind {
            ExpressionKind::Join { parts, .. } => parts.iter().any(is_sql),
            _ => is_sql(&self.value),
        }
    }
}

/// Visits every expression and subexpression in statements; `within` includes nested functions and classes.
pub(crate) fn expressions<'p>(
    statements: &'p [Statement],
    within: bool,
    found: &mut dyn FnMut(&'p Expression),
) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Expression(value) => expression(value, within, found),
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                expression(condition, within, found);
                expressions(then, within, found);
                expressions(otherwise, within, found);
            }
            StatementKind::Cases { value, cases, .. } => {
                value.iter().for_each(|v| expression(v, within, found));
                cases
                    .iter()
                    .for_each(|case| expressions(case, within, found));
            }
            StatementKind::Loop { before, body } => {
                before.iter().for_each(|v| expression(v, within, found));
                expressions(body, within, found);
            }
            StatementKind::Try {
                body,
                handlers,
                finally,
            } => {
                expressions(body, within, found);
                handlers.iter().for_each(|h| expressions(h, within, found));
                expressions(finally, within, found);
            }
            StatementKind::Return(value) | StatementKind::Throw(value) => {
                value.iter().for_each(|v| expression(v, within, found));
            }
            StatementKind::Block(inner) | StatementKind::Other(inner) => {
                expressions(inner, within, found);
            }
            StatementKind::Class { body: inner, .. } if within => {
                expressions(inner, within, found);
            }
            StatementKind::Function(function) if within => {
                expressions(&function.body, within, found);
            }
            StatementKind::Class { .. }
            | StatementKind::Function(_)
            | StatementKind::Leave
            | StatementKind::Broken => {}
        }
    }
}

fn expression<'p>(value: &'p Expression, within: bool, found: &mut dyn FnMut(&'p Expression)) {
    found(value);
    if let ExpressionKind::Lambda(function) = &value.kind
        && within
    {
        expressions(&function.body, within, found);
    }
    for part in parts(value) {
        expression(part, within, found);
    }
}
