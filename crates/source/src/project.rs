//! A whole program: its declarations, and what is inferred from them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::rc::Rc;

use crate::{
    declarations::{Declarations, Source, called, is_dynamic},
    function_tables::FunctionTables,
    implicit_calls,
    language::Language,
    mapped::Mapped,
    mutable_names::{Reassignment, globals, reassignments},
    names,
    numbers::{is_number, is_typed},
    objects::{Classes, Objects, Scope},
    syntax::{Expression, ExpressionKind},
    traverse::expressions,
    value::Value,
};

/// A whole program.
#[derive(Debug)]
pub(crate) struct Project<'p> {
    declarations: Declarations<'p>,
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
    /// The classes that mappers map to tables.
    pub(crate) mapped: Mapped,
    /// Constants and fields by file and name, and by class and name.
    pub(crate) constants: Constants,
    /// Tables of functions.
    pub(crate) tables: FunctionTables,
    /// The fields with the type of a number, by class, where the language checks types.
    number_fields: BTreeSet<(String, String)>,
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
    /// The names that are given numbers wherever they are given a value.
    pub(crate) numbers: BTreeSet<String>,
}

impl<'p> Deref for Project<'p> {
    type Target = Declarations<'p>;

    fn deref(&self) -> &Declarations<'p> {
        &self.declarations
    }
}

impl<'p> Project<'p> {
    pub(crate) fn new(sources: &'p [Source]) -> Project<'p> {
        let mut project = Project {
            declarations: Declarations::new(sources),
            accessors: HashMap::new(),
            attribute_hooks: Vec::new(),
            implicit_methods: Vec::new(),
            libraries: Vec::new(),
            run_outside: BTreeSet::new(),
            dynamic_outside: BTreeSet::new(),
            objects: Objects::default(),
            mapped: Mapped::default(),
            constants: Constants::default(),
            tables: FunctionTables::default(),
            number_fields: BTreeSet::new(),
        };
        project.tables = FunctionTables::new(&project.declarations);
        for class in &project.declarations.classes {
            if !is_typed(class.language) {
                continue;
            }
            let numbers = class
                .fields
                .iter()
                .filter(|field| is_number(&field.of_type));
            let named = numbers.map(|field| (class.name.to_owned(), field.name.clone()));
            project.number_fields.extend(named);
        }
        project.libraries = libraries(&project.declarations);
        let mut objects = Objects::default();
        for class in &project.declarations.classes {
            objects.declare(class);
        }
        project.objects = objects.filled(&project.declarations);
        project.mapped = Mapped::new(&project.declarations, &project.objects);
        project.reach();
        for (at, declared) in project.declarations.functions.iter().enumerate() {
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
            let language = project.declarations.sources[declared.file].language;
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

    /// Whether a name without a local value is certainly a number: a constant, or a field of the class around it.
    pub(crate) fn is_number(&self, name: &str, class: Option<&str>) -> bool {
        let of_class = |class: &str| self.is_number_field(class, name);
        self.constants.numbers.contains(name) || class.is_some_and(of_class)
    }

    /// Whether a field of a class, or of its bases, has the type of a number.
    pub(crate) fn is_number_field(&self, class: &str, name: &str) -> bool {
        let classes = self.objects.with_bases(class);
        let field = |class: Rc<str>| (class.to_string(), name.to_owned());
        classes
            .into_iter()
            .any(|class| self.number_fields.contains(&field(class)))
    }

    /// The innermost of these functions around a place.
    pub(crate) fn innermost_among(
        &self,
        file: usize,
        at: usize,
        among: &BTreeSet<usize>,
    ) -> Option<usize> {
        let around = among.iter().copied().filter(|function| {
            let declared = &self.functions[*function];
            declared.file == file && declared.function.range.contains(&at)
        });
        around.min_by_key(|function| self.functions[*function].function.range.len())
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
            if !std::mem::replace(&mut self.declarations.functions[at].reaches, true) {
                open.append(&mut callers[at]);
            }
        }
    }

    /// The functions that a function may call: by name, or from a table of functions.
    pub(crate) fn used_by(&self, at: usize) -> BTreeSet<usize> {
        let declared = &self.functions[at];
        let language = self.sources[declared.file].language;
        let mut found = BTreeSet::new();
        expressions(
            &declared.function.body,
            true,
            &mut |value| match &value.kind {
                ExpressionKind::Call { callee, .. } => found.extend(self.called(at, callee)),
                ExpressionKind::Name(name) | ExpressionKind::Member(_, name) => {
                    if let Some(Value::Map(pairs)) = self.tables.get(name, language) {
                        let functions = pairs.iter().filter_map(|(_, value)| value.functions());
                        found.extend(functions.flatten());
                    }
                    if matches!(value.kind, ExpressionKind::Name(_)) {
                        found.extend(self.find(name, declared.file, None));
                    }
                }
                _ => {}
            },
        );
        found
    }

    /// All functions that a call may mean: by the receiver's class where the language declares types, otherwise by
    /// name.
    pub(crate) fn called(&self, from: usize, callee: &Expression) -> Vec<usize> {
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

    /// The assignments of a file's functions to outer names.
    pub(crate) fn reassignments_in(&self, file: usize) -> Vec<Reassignment<'_>> {
        let source = &self.sources[file];
        let globals = globals(source);
        let of_file = self.functions.iter().filter(|f| f.file == file);
        of_file
            .flat_map(|function| reassignments(source, &globals, function))
            .collect()
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

/// For each file, the standard library packages with names that are used only before a dot.
fn libraries(declarations: &Declarations<'_>) -> Vec<BTreeSet<String>> {
    let all = declarations.sources.iter();
    let mut found: Vec<BTreeSet<String>> = all.map(|source| source.libraries.clone()).collect();
    for declared in &declarations.functions {
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
