//! The declarations of a program: its files, functions and classes, with lookup by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    language::Language,
    names,
    syntax::{
        Argument, Expression, ExpressionKind, Function, Module, Parameter, Statement, StatementKind,
    },
    traverse::{expression, expressions, parts},
    value::looks_like_sql,
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

impl Source {
    /// Whether a name is that of this file without its extension, by which other files name it.
    pub(crate) fn is_module(&self, name: &str) -> bool {
        let file = self.name.rsplit(['/', '\\']).next().unwrap_or(&self.name);
        file.split('.').next() == Some(name)
    }
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

/// A class declaration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeclaredClass<'p> {
    pub(crate) name: &'p str,
    pub(crate) bases: &'p [String],
    pub(crate) fields: &'p [Parameter],
    pub(crate) annotations: &'p [Expression],
    pub(crate) body: &'p [Statement],
    pub(crate) language: Language,
}

/// All declarations of a program.
#[derive(Debug)]
pub(crate) struct Declarations<'p> {
    pub(crate) sources: &'p [Source],
    pub(crate) functions: Vec<DeclaredFunction<'p>>,
    pub(crate) classes: Vec<DeclaredClass<'p>>,
    at: BTreeMap<(usize, usize), usize>,
    by_name: HashMap<String, Vec<usize>>,
}

impl<'p> Declarations<'p> {
    pub(crate) fn new(sources: &'p [Source]) -> Declarations<'p> {
        let mut declarations = Declarations {
            sources,
            functions: Vec::new(),
            classes: Vec::new(),
            at: BTreeMap::new(),
            by_name: HashMap::new(),
        };
        for (file, source) in sources.iter().enumerate() {
            let mut collect = FunctionCollector {
                declarations: &mut declarations,
                file,
                class: None,
                transactional: false,
                nested: false,
                within: None,
            };
            collect.statements(&source.module.body);
        }
        for (at, declared) in declarations.functions.iter().enumerate() {
            // A function without a body does not run, unless an annotation holds its SQL.
            let function = declared.function;
            if function.is_abstract && !function.annotations.iter().any(has_text) {
                continue;
            }
            declarations
                .by_name
                .entry(declared.name.clone())
                .or_default()
                .push(at);
        }
        declarations
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
}

/// Collects the functions and classes of a file.
struct FunctionCollector<'a, 'p> {
    declarations: &'a mut Declarations<'p>,
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
                let language = self.declarations.sources[self.file].language;
                self.declarations.classes.push(DeclaredClass {
                    name,
                    bases,
                    fields,
                    annotations,
                    body,
                    language,
                });
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
        let source = &self.declarations.sources[self.file];
        let takes = |p: &crate::syntax::Parameter| {
            names::is_connection_type(&p.of_type)
                || names::is_connection(&p.name) && !matches!(p.name.as_str(), "c" | "q" | "sql")
        };
        let named = match name.is_empty() {
            true => place_name(source, function.range.start),
            false => name,
        };
        let receiver = receiver(source, function);
        let at = self.declarations.functions.len();
        let parameter_use = ParameterUse::of(function);
        let ends = calls.iter().any(|name| names::commits(name));
        let mut annotations = function.annotations.iter();
        let is_transaction = ends
            || self.transactional
            || annotations.any(names::makes_a_transaction)
            || calls.iter().any(|name| names::begins(name));
        self.declarations.functions.push(DeclaredFunction {
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
        self.declarations.at.insert(place, at);
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

/// `file:line`, as a name for anonymous code.
pub(crate) fn place_name(source: &Source, at: usize) -> String {
    let line = source.lines.partition_point(|end| *end < at) + 1;
    let file = source.name.rsplit('/').next().unwrap_or(&source.name);
    format!("{file}:{line}")
}

/// The names of all called functions; `within` includes nested functions.
pub(crate) fn called(statements: &[Statement], within: bool, found: &mut BTreeSet<String>) {
    expressions(statements, within, &mut |value| {
        if let ExpressionKind::Call { callee, .. } = &value.kind
            && let Some(name) = callee.last_name()
        {
            found.insert(name.to_owned());
        }
    });
}

/// Whether variables in these statements may get unseen values.
pub(crate) fn is_dynamic(statements: &[Statement], calls: &BTreeSet<String>) -> bool {
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
