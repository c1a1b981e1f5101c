//! All files of a program together: its functions, and what its constants are.

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

/// A source file that was read.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) language: Language,
    pub(crate) module: Module,
    /// Where its lines end.
    pub(crate) lines: Vec<usize>,
    /// The names of packages of the language's own library that it imports: Go's.
    pub(crate) libraries: BTreeSet<String>,
}

/// A function, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredFunction<'p> {
    pub(crate) function: &'p Function,
    pub(crate) file: usize,
    pub(crate) name: String,
    pub(crate) class: Option<String>,
    /// What a method of Go calls its object.
    pub(crate) receiver: Option<String>,
    /// Whether it stands in another function.
    pub(crate) nested: bool,
    /// The function that it stands in.
    pub(crate) within: Option<usize>,
    /// Whether it runs SQL itself.
    pub(crate) runs: bool,
    /// Whether it, or what it may call, does.
    pub(crate) reaches: bool,
    /// Whether it opens a connection or a transaction itself.
    pub(crate) opens: bool,
    /// Whether it ends a transaction itself.
    pub(crate) ends: bool,
    /// Whether all that it calls runs in one transaction: it begins or ends one, or an annotation says so.
    pub(crate) is_transaction: bool,
    /// Whether it is given a connection, by what its parameter is called, or by its type.
    pub(crate) takes_connection: bool,
    /// Whether it runs SQL on a parameter, whatever that is called.
    pub(crate) runs_on_parameter: bool,
    /// Whether its variables may get values that are not seen: by their names, or as others' references.
    pub(crate) is_dynamic: bool,
    /// Whether it runs a parameter as SQL: it is to its callers what a driver's method is.
    pub(crate) forwards: bool,
}

impl DeclaredFunction<'_> {
    /// Whether a name is that of a parameter, and so another's than the same name around it. The object whose method
    /// it is is the same by its name.
    pub(crate) fn owns(&self, name: &str) -> bool {
        let mut own = self.function.parameters.iter();
        !matches!(name, "this" | "self") && own.any(|parameter| parameter.name == name)
    }
}

impl DeclaredFunction<'_> {
    /// Its name with its class's.
    pub(crate) fn full_name(&self) -> String {
        match &self.class {
            Some(class) if !class.is_empty() => format!("{class}.{}", self.name),
            _ => self.name.clone(),
        }
    }
}

/// All files.
#[derive(Debug)]
pub(crate) struct Project<'p> {
    pub(crate) sources: &'p [Source],
    pub(crate) functions: Vec<DeclaredFunction<'p>>,
    at: BTreeMap<(usize, usize), usize>,
    by_name: HashMap<String, Vec<usize>>,
    /// Methods that are read or written as fields are, and may come to run SQL.
    accessors: HashMap<String, Vec<usize>>,
    /// Methods that run where nobody names them, and may come to run SQL: `__get`, `__getattr__`.
    attribute_hooks: Vec<usize>,
    /// For each file the names that stand for packages of the language's own library, and for nothing else in it.
    libraries: Vec<BTreeSet<String>>,
    /// Methods that run where nobody names them, whatever is done with their objects.
    implicit_methods: Vec<usize>,
    /// Files that run SQL outside of functions.
    run_outside: BTreeSet<usize>,
    /// Files whose variables outside of functions may get values that are not seen.
    dynamic_outside: BTreeSet<usize>,
    /// The classes of objects.
    pub(crate) objects: Objects,
    /// Constants and fields by file and name, and by class and name.
    pub(crate) constants: Constants,
}

/// What names stand for that are given a value outside of functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants {
    pub(crate) of_files: BTreeMap<(usize, String), Value>,
    pub(crate) of_classes: BTreeMap<(String, String), Value>,
    /// Names of files that stand for what may run SQL: what was made of a connection, functions in a map.
    pub(crate) running: BTreeMap<String, BTreeSet<usize>>,
    /// Names that several places give a value: nobody else can tell which is meant.
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
            // What has no body is not what runs, unless an annotation says what does.
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

    /// The methods of that name that are read or written as fields are, and may come to run SQL.
    pub(crate) fn accessors(&self, name: &str, language: Language) -> Vec<usize> {
        let all = self.accessors.get(name).into_iter().flatten().copied();
        all.filter(|at| self.sources[self.functions[*at].file].language == language)
            .collect()
    }

    /// The methods that nobody names where they run, and that may come to run SQL.
    pub(crate) fn attribute_hooks(&self, language: Language) -> Vec<usize> {
        let all = self.attribute_hooks.iter().copied();
        all.filter(|at| self.sources[self.functions[*at].file].language == language)
            .collect()
    }

    /// The methods that run where nobody names them, whatever is done with their objects, and may come to run SQL; and
    /// functions that return what does.
    pub(crate) fn implicit_methods(&self, language: Language) -> impl Iterator<Item = usize> {
        let all = self.implicit_methods.iter().copied();
        all.filter(move |at| self.sources[self.functions[*at].file].language == language)
    }

    /// Whether there are any, in any language.
    pub(crate) fn has_implicit_methods(&self) -> bool {
        !self.implicit_methods.is_empty()
    }

    /// Whether variables may get values that are not seen: of a function, or of a file outside of functions.
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

    /// Which functions may come to run SQL, by what they call.
    fn reach(&mut self) {
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); self.functions.len()];
        for (at, declared) in self.functions.iter().enumerate() {
            // Who has a function within it may call it.
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
                    // A field that is a method.
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

    /// All functions that a call within a function may mean: by the class of what it is called on where the language
    /// has everything say its class, and by its name elsewhere.
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
        // A method is called on something.
        let is_name = matches!(callee.kind, ExpressionKind::Name(_)) && language != Language::Java;
        self.all_of(name, language)
            .filter(|at| {
                let of = &self.functions[*at];
                !is_name || of.class.is_none() || of.within.is_some()
            })
            .collect()
    }

    /// Whether what is called is of the language's own library: `flag.Parse()`, where `flag` is nothing else.
    pub(crate) fn is_library(&self, callee: &Expression, file: usize, classes: &Classes) -> bool {
        let ExpressionKind::Member(on, _) = &callee.kind else {
            return false;
        };
        let libraries = &self.libraries[file];
        classes.is_empty()
            && matches!(&on.kind, ExpressionKind::Name(name) if libraries.contains(name))
    }

    /// The functions that make an object of a class what it is.
    pub(crate) fn constructors(&self, class: &str) -> Vec<usize> {
        let names = [class, "__init__", "constructor", "__construct"];
        names
            .into_iter()
            .flat_map(|name| self.in_class(class, name))
            .collect()
    }

    /// The number of the function that stands there.
    pub(crate) fn function_at(&self, file: usize, start: usize) -> Option<usize> {
        self.at.get(&(file, start)).copied()
    }

    /// The function that a name means in a class of a file: of the class, of the file, or the only one that
    /// there is.
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

    /// What the functions of a file give to names of their surroundings.
    pub(crate) fn reassignments_in(&self, file: usize) -> Vec<Reassignment<'_>> {
        let source = &self.sources[file];
        let globals = globals(source);
        let of_file = self.functions.iter().filter(|f| f.file == file);
        of_file
            .flat_map(|function| reassigned(source, &globals, function))
            .collect()
    }

    /// The function of a class that is named.
    pub(crate) fn find_in_class(&self, class: &str, name: &str) -> Option<usize> {
        let all = self.by_name.get(name)?;
        let mut found = all
            .iter()
            .filter(|at| self.functions[**at].class.as_deref() == Some(class));
        let first = found.next()?;
        found.next().is_none().then_some(*first)
    }

    /// The functions of that name of a class: more than one where it has several for different arguments.
    pub(crate) fn in_class(&self, class: &str, name: &str) -> Vec<usize> {
        let all = self.by_name.get(name).into_iter().flatten().copied();
        all.filter(|at| self.functions[*at].class.as_deref() == Some(class))
            .collect()
    }

    /// All methods of that name, of whatever class: which of them is called is known where there is one alone.
    pub(crate) fn methods(&self, name: &str, language: Language) -> Vec<usize> {
        let all = self.by_name.get(name).into_iter().flatten().copied();
        let is_one = |at: &usize| {
            let of = &self.functions[*at];
            of.class.is_some() && self.sources[of.file].language == language
        };
        all.filter(is_one).collect()
    }

    /// The functions of that name in a language, within others or not.
    pub(crate) fn all_of(&self, name: &str, language: Language) -> impl Iterator<Item = usize> {
        let all = self.by_name.get(name).into_iter().flatten().copied();
        all.filter(move |at| self.sources[self.functions[*at].file].language == language)
    }

    /// Whether there is a function of that name.
    pub(crate) fn has(&self, name: &str, language: Language) -> bool {
        let all = self.by_name.get(name).into_iter().flatten();
        all.into_iter()
            .any(|at| self.sources[self.functions[*at].file].language == language)
    }

    /// The functions of that name that stand in functions of a file.
    pub(crate) fn nested(&self, name: &str, file: usize) -> impl Iterator<Item = usize> {
        let all = self.by_name.get(name).into_iter().flatten().copied();
        all.filter(move |at| {
            let of = &self.functions[*at];
            of.nested && of.file == file
        })
    }

    /// Whether a name that no function has given a value stands for what may run SQL: in its file, or, where that says
    /// nothing of it, in whichever it may be from.
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

    /// What a name stands for that no function has given a value.
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
    /// Whether each method of the class is a transaction, by an annotation.
    transactional: bool,
    nested: bool,
    /// The function around.
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

    /// `name` is what the value is assigned to.
    fn expression(&mut self, value: &'p Expression, name: Option<&str>) {
        match &value.kind {
            ExpressionKind::Lambda(function) => {
                let given = name.unwrap_or_default();
                let given = match function.name.is_empty() {
                    true => given.to_owned(),
                    false => function.name.clone(),
                };
                // What has no name is somebody's argument.
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

/// What a Go method calls its object, and the type that it belongs to.
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

/// The names of each file that stand before a point alone, and are those of packages of the language's own library.
fn libraries(project: &Project<'_>) -> Vec<BTreeSet<String>> {
    let all = project.sources.iter();
    let mut found: Vec<BTreeSet<String>> = all.map(|source| source.libraries.clone()).collect();
    for declared in &project.functions {
        let names = &mut found[declared.file];
        if names.is_empty() {
            continue;
        }
        // Parameters have types, by which they are known. A name is gone through by itself, and before a point once more.
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

/// `file:line`, for what has no name.
pub(crate) fn place_name(source: &Source, at: usize) -> String {
    let line = source.lines.partition_point(|end| *end < at) + 1;
    let file = source.name.rsplit('/').next().unwrap_or(&source.name);
    format!("{file}:{line}")
}

/// The expressions that an expression is made of, without the bodies of functions.
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

/// The names of all that is called in some statements; with those in functions within them, where `within`.
fn called(statements: &[Statement], within: bool, found: &mut BTreeSet<String>) {
    expressions(statements, within, &mut |value| {
        if let ExpressionKind::Call { callee, .. } = &value.kind
            && let Some(name) = callee.last_name()
        {
            found.insert(name.to_owned());
        }
    });
}

/// Whether variables in some statements may get values that are not seen.
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

/// What a function does with its parameters.
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
    /// Whether it is a text, or made of some, that begins as SQL does in one of its parts.
    pub(crate) fn begins_as_sql(&self) -> bool {
        let is_sql = |value: &Expression| matches!(&value.kind, ExpressionKind::Text(text) if looks_like_sql(&text.text));
        match &self.value.kind {
            ExpressionKind::Join { parts, .. } => parts.iter().any(is_sql),
            _ => is_sql(&self.value),
        }
    }
}

/// Each expression in some statements, and each that it is made of; those in functions and classes within them, too,
/// where `within`.
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
