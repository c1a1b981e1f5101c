//! Objects that a mapper writes back when it finds them changed (dirty checking).
//!
//! A managed entity that is changed is written at commit: no call names the write, and its SQL is not in the source.
//! JPA's providers work so, and SQLAlchemy's and Pony's sessions. A function is reported if it changes an entity, by
//! an assignment, a setter or a method of the entity that assigns its fields, and has a persistence context: it is
//! transactional, or it loads or commits through one. A new object is not managed, unless a call that is reported
//! anyway makes it so; neither is an object of a class that no mapper maps.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_sql::script::Unresolved;

use crate::{
    declarations::DeclaredFunction,
    language::Language,
    mapped::is_context,
    names::{self, Certainty},
    objects::{Classes, Scope},
    project::Project,
    syntax::{Expression, ExpressionKind},
    traverse::expressions,
};

/// The changes of entities by a function.
#[derive(Clone, Debug)]
struct Change {
    /// The entity's class, if it is known.
    class: Option<String>,
    file: usize,
    range: std::ops::Range<usize>,
    /// Whether the changed object is the function's own one, or was passed in: callers change theirs.
    is_callers: bool,
}

/// The functions that change managed entities, each with the first change.
pub(crate) fn written_back(project: &Project<'_>) -> Vec<(usize, Unresolved)> {
    let finder = Finder { project };
    let mut changes: BTreeMap<usize, Change> = BTreeMap::new();
    let of_language = |at: &usize| {
        let declared = &project.functions[*at];
        project
            .mapped
            .writes_back(project.sources[declared.file].language)
    };
    let all: Vec<usize> = (0..project.functions.len()).filter(of_language).collect();
    // A function may change an entity by calling another one that does.
    loop {
        let before = changes.len();
        for at in &all {
            if !changes.contains_key(at)
                && let Some(change) = finder.change(*at, &changes)
            {
                changes.insert(*at, change);
            }
        }
        if changes.len() == before {
            break;
        }
    }
    let mut found: BTreeMap<usize, Unresolved> = BTreeMap::new();
    for (at, change) in changes {
        // A lambda is part of the function around it.
        let mut root = at;
        while let Some(around) = project.functions[root].within {
            root = around;
        }
        let declared = &project.functions[root];
        if finder.is_entitys(declared) || !finder.is_managing(root) {
            continue;
        }
        let what = match &change.class {
            Some(class) => format!("an object of the entity class {class} is changed here"),
            None => "an object that the mapper has loaded is changed here".to_owned(),
        };
        found.entry(root).or_insert_with(|| Unresolved {
            file: change.file,
            range: change.range,
            reason: format!(
                "{what}: the mapper writes it back at commit, and that SQL is not in the source"
            ),
            head: String::new(),
        });
    }
    found.into_iter().collect()
}

struct Finder<'p> {
    project: &'p Project<'p>,
}

impl Finder<'_> {
    /// Whether a function is a method of an entity.
    fn is_entitys(&self, declared: &DeclaredFunction<'_>) -> bool {
        let class = declared.class.as_deref();
        class.is_some_and(|class| self.project.mapped.is_entity(class))
    }

    /// The first change of an entity in a function, without those nested in it.
    fn change(&self, at: usize, known: &BTreeMap<usize, Change>) -> Option<Change> {
        let declared = &self.project.functions[at];
        let constructs = declared.class.as_deref() == Some(&declared.name)
            || matches!(declared.name.as_str(), "__init__" | "__post_init__");
        if constructs {
            return None;
        }
        let mut found: Option<Change> = None;
        let mut expressions_of = Vec::new();
        expressions(&declared.function.body, false, &mut |value| {
            expressions_of.push(value);
        });
        for value in expressions_of {
            let changed = match &value.kind {
                ExpressionKind::Assign { target, .. } => self.assigned(at, target),
                ExpressionKind::Call { callee, .. } => self.called(at, callee, known),
                _ => None,
            };
            if let Some((class, is_callers)) = changed {
                found.get_or_insert(Change {
                    class,
                    file: declared.file,
                    range: value.range.clone(),
                    is_callers,
                });
                if is_callers && let Some(found) = &mut found {
                    found.is_callers = true;
                }
            }
        }
        found
    }

    /// The class of the entity whose field an assignment changes, and whether the object is the caller's.
    fn assigned(&self, at: usize, target: &Expression) -> Option<(Option<String>, bool)> {
        let declared = &self.project.functions[at];
        match &target.kind {
            ExpressionKind::Member(on, _) if !is_itself(on) => self.entity(at, on),
            ExpressionKind::Member(..) if self.is_entitys(declared) => {
                Some((declared.class.clone(), true))
            }
            // Java's methods assign fields by their names.
            ExpressionKind::Name(name) if self.is_entitys(declared) => {
                let class = declared.class.as_deref()?;
                let is_own = self.project.objects.has_field(class, name)
                    && !declared.owns(name)
                    && !self.is_declared(at, name);
                is_own.then(|| (declared.class.clone(), true))
            }
            ExpressionKind::Index(on, _) => match &on.kind {
                ExpressionKind::Member(..) => self.assigned(at, on),
                _ => None,
            },
            _ => None,
        }
    }

    /// The class of the entity that a call changes, and whether the object is the caller's.
    fn called(
        &self,
        at: usize,
        callee: &Expression,
        known: &BTreeMap<usize, Change>,
    ) -> Option<(Option<String>, bool)> {
        let declared = &self.project.functions[at];
        let name = callee.last_name()?;
        let by_own = |is_callers: bool| {
            let mut own = self.project.called(at, callee).into_iter();
            own.find_map(|of| {
                let change = known.get(&of).filter(|change| change.is_callers)?;
                Some((change.class.clone(), is_callers))
            })
        };
        let ExpressionKind::Member(on, _) = &callee.kind else {
            return by_own(self.is_entitys(declared));
        };
        if is_itself(on) {
            return by_own(self.is_entitys(declared));
        }
        // A collection of an entity: `order.getLines().add(line)`.
        if is_collection_change(name)
            && let ExpressionKind::Call { callee: of, .. } = &on.kind
            && let ExpressionKind::Member(of, got) = &of.kind
            && names::reads(got)
        {
            return self.entity(at, of);
        }
        let Some((class, is_callers)) = self.entity(at, on) else {
            // A function of another object may change what it is passed.
            return by_own(false);
        };
        let of_class = class.as_deref().map(|class| Classes::from([class.into()]));
        let methods = of_class.map(|of| self.project.objects.methods(self.project, &of, name));
        let changes = match methods.filter(|methods| !methods.is_empty()) {
            Some(methods) => methods.iter().any(|of| known.contains_key(of)),
            None => is_setter(name) || class.is_none() && self.is_entitys_change(at, name, known),
        };
        changes.then_some((class, is_callers))
    }

    /// Whether an entity has a method of this name that changes it.
    fn is_entitys_change(&self, at: usize, name: &str, known: &BTreeMap<usize, Change>) -> bool {
        let language = self.project.sources[self.project.functions[at].file].language;
        let methods = self.project.methods(name, language);
        let is_change =
            |of: &usize| known.contains_key(of) && self.is_entitys(&self.project.functions[*of]);
        methods.iter().any(is_change)
    }

    /// The entity class of an expression, if its value is one that a mapper may manage; and whether it was passed in.
    fn entity(&self, at: usize, on: &Expression) -> Option<(Option<String>, bool)> {
        let declared = &self.project.functions[at];
        let language = self.project.sources[declared.file].language;
        let scope = Scope {
            function: Some(at),
            file: declared.file,
            class: declared.class.as_deref(),
        };
        let (given, is_new) = match &on.kind {
            ExpressionKind::Name(name) => self.given(at, name),
            _ => (Vec::new(), false),
        };
        if is_new {
            return None;
        }
        let is_callers = matches!(&on.kind, ExpressionKind::Name(name) if declared.owns(name));
        let mapped = &self.project.mapped;
        let classes = self.project.objects.of(self.project, on, scope);
        let by_class = mapped.entity_among(&classes).map(str::to_owned);
        let by_type = || given.iter().find_map(|(_, of)| of.clone());
        let by_name = || {
            let mut values = given.iter();
            values.find_map(|(value, _)| mapped.entity_named(value).map(str::to_owned))
        };
        if let Some(class) = by_class.or_else(by_type).or_else(by_name) {
            return Some((Some(class), is_callers));
        }
        // Of an object of unknown class it counts where it comes from.
        let is_loaded = |value: &Expression| match language {
            Language::Python => comes_from_session(value),
            _ => self.comes_from_mapper(value, scope),
        };
        let is_known = !classes.is_empty() && language == Language::Java;
        let is_loaded = !is_known
            && (given.iter().any(|(value, _)| is_loaded(value))
                || is_callers && self.is_passed_to_lambda(at, scope));
        is_loaded.then_some((None, is_callers))
    }

    /// Whether a value was loaded by a mapper: `accounts.findById(id).get()`, `em.find(…)`.
    fn comes_from_mapper(&self, value: &Expression, scope: Scope<'_>) -> bool {
        let on = match &value.kind {
            ExpressionKind::Call { callee, .. } => match &callee.kind {
                ExpressionKind::Member(on, _) => on,
                _ => return false,
            },
            ExpressionKind::Index(of, _) | ExpressionKind::Cast { value: of, .. } => {
                return self.comes_from_mapper(of, scope);
            }
            ExpressionKind::Other(parts) if parts.len() == 1 => {
                return self.comes_from_mapper(&parts[0], scope);
            }
            _ => return false,
        };
        let name = on.last_name().unwrap_or_default();
        let by_name = is_context(name) || name.to_ascii_lowercase().ends_with("repository");
        let classes = self.project.objects.of(self.project, on, scope);
        by_name
            || self.project.objects.are_mappers(&classes)
            || on
                .last_name()
                .is_some_and(|of| self.project.mapped.is_entity(of))
            || self.comes_from_mapper(on, scope)
    }

    /// Whether a function is a lambda that gets what a mapper has loaded: `accounts.findById(id).ifPresent(a -> …)`.
    fn is_passed_to_lambda(&self, at: usize, scope: Scope<'_>) -> bool {
        let declared = &self.project.functions[at];
        let Some(around) = declared.within else {
            return false;
        };
        let scope = Scope {
            function: Some(around),
            ..scope
        };
        let mut found = false;
        expressions(
            &self.project.functions[around].function.body,
            false,
            &mut |value| {
                if let ExpressionKind::Call { callee, arguments } = &value.kind
                    && let ExpressionKind::Member(on, _) = &callee.kind
                {
                    let is_it = arguments.iter().any(|argument| {
                        matches!(argument.value.kind, ExpressionKind::Lambda(_))
                            && argument.value.range.start == declared.function.range.start
                    });
                    found |= is_it && self.comes_from_mapper(on, scope);
                }
            },
        );
        found
    }

    /// The values that a name is given in a function or those around it, each with the entity class of its declared
    /// type; and whether all of them are new objects.
    fn given(&self, at: usize, name: &str) -> (Vec<(&Expression, Option<String>)>, bool) {
        let mut found = Vec::new();
        let mut next = Some(at);
        while let Some(of) = next {
            let declared = &self.project.functions[of];
            let source = &self.project.sources[declared.file];
            expressions(&declared.function.body, false, &mut |value| {
                if let ExpressionKind::Assign { target, value, .. } = &value.kind
                    && matches!(&target.kind, ExpressionKind::Name(given) if given == name)
                {
                    let before = source.text.get(..target.range.start).unwrap_or_default();
                    let class =
                        declared_type(before).filter(|of| self.project.mapped.is_entity(of));
                    found.push((&**value, class.map(str::to_owned)));
                }
            });
            if !found.is_empty() || declared.owns(name) {
                break;
            }
            next = declared.within;
        }
        let language = self.project.sources[self.project.functions[at].file].language;
        let is_new = |value: &Expression| match &value.kind {
            ExpressionKind::Call { callee, .. } => {
                let name = callee.last_name().unwrap_or_default();
                name.starts_with("new ")
                    || language == Language::Python
                        && matches!(callee.kind, ExpressionKind::Name(_))
                        && name.starts_with(char::is_uppercase)
            }
            _ => false,
        };
        let all_new = !found.is_empty() && found.iter().all(|(value, _)| is_new(value));
        (found, all_new)
    }

    /// Whether a name is a local variable of the function: a type stands before it where it is first assigned.
    fn is_declared(&self, at: usize, name: &str) -> bool {
        let declared = &self.project.functions[at];
        let source = &self.project.sources[declared.file];
        let mut found = false;
        expressions(&declared.function.body, true, &mut |value| {
            if let ExpressionKind::Assign { target, .. } = &value.kind
                && matches!(&target.kind, ExpressionKind::Name(given) if given == name)
            {
                let before = source.text.get(..target.range.start).unwrap_or_default();
                let word = before.trim_end();
                found |= before.len() > word.len()
                    && word.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '>' | ']'));
            }
        });
        found
    }

    /// Whether a function runs in a transaction of a persistence context, or uses one.
    fn is_managing(&self, root: usize) -> bool {
        let declared = &self.project.functions[root];
        let source = &self.project.sources[declared.file];
        let only_reads = declared.function.annotations.iter().any(|annotation| {
            let text = source
                .text
                .get(annotation.range.clone())
                .unwrap_or_default();
            let text: String = text.split_whitespace().collect();
            text.contains("readOnly=true")
        });
        if only_reads {
            return false;
        }
        let scope = Scope {
            function: Some(root),
            file: declared.file,
            class: declared.class.as_deref(),
        };
        let mut found = declared.is_transaction || declared.takes_connection;
        expressions(&declared.function.body, true, &mut |value| {
            let ExpressionKind::Call { callee, .. } = &value.kind else {
                return;
            };
            let ExpressionKind::Member(on, name) = &callee.kind else {
                return;
            };
            let of = on.last_name().unwrap_or_default();
            let classes = self.project.objects.of(self.project, on, scope);
            let by_class = classes.iter().any(|class| names::is_connection_type(class))
                || self.project.objects.are_mappers(&classes);
            let loads = source.language == Language::Java
                && self.project.mapped.is_entity(of)
                && names::reads(name);
            found |= by_class || loads || names::database_certainty(of) == Certainty::Certain;
            found |= match source.language {
                Language::Python => is_session(of),
                _ => is_context(of),
            };
        });
        found
    }
}

/// Functions that write back what their session finds changed, where no change is seen: `db.session.commit()`.
pub(crate) fn flushed(project: &Project<'_>, seen: &BTreeSet<usize>) -> Vec<(usize, Unresolved)> {
    let mut found = Vec::new();
    for (at, declared) in project.functions.iter().enumerate() {
        let language = project.sources[declared.file].language;
        let is_python = language == Language::Python && project.mapped.writes_back(language);
        if !is_python || declared.nested || seen.contains(&at) {
            continue;
        }
        let mut place = None;
        expressions(&declared.function.body, true, &mut |value| {
            if let ExpressionKind::Call { callee, .. } = &value.kind
                && let ExpressionKind::Member(on, name) = &callee.kind
                && matches!(name.as_str(), "commit" | "flush")
                && on.last_name().is_some_and(is_session)
            {
                place.get_or_insert(value.range.clone());
            }
        });
        if let Some(range) = place {
            let unresolved = Unresolved {
                file: declared.file,
                range,
                reason: "the session writes back the objects that were changed, and that SQL is not in the source"
                    .to_owned(),
                head: String::new(),
            };
            found.push((at, unresolved));
        }
    }
    found
}

/// Whether an expression is the current object.
fn is_itself(on: &Expression) -> bool {
    matches!(&on.kind, ExpressionKind::Name(name) if matches!(name.as_str(), "this" | "self" | "cls"))
}

/// Whether a name is usual for a session of SQLAlchemy.
fn is_session(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("session") && !name.ends_with("http_session") || name == "db"
}

/// Whether a value was loaded through a session: `session.get(…)`, `s.scalars(select(…)).one()`, or an element of
/// such values.
fn comes_from_session(value: &Expression) -> bool {
    match &value.kind {
        ExpressionKind::Call { callee, .. } => match &callee.kind {
            ExpressionKind::Member(on, name) => {
                on.last_name().is_some_and(is_session)
                    && matches!(
                        name.as_str(),
                        "get" | "get_one" | "query" | "scalar" | "scalars" | "merge"
                    )
                    || comes_from_session(on)
            }
            _ => false,
        },
        ExpressionKind::Index(of, _) | ExpressionKind::Cast { value: of, .. } => {
            comes_from_session(of)
        }
        ExpressionKind::Other(parts) if parts.len() == 1 => comes_from_session(&parts[0]),
        _ => false,
    }
}

/// Whether a method is a setter, judged by its name: `setBalance`.
fn is_setter(name: &str) -> bool {
    let rest = ["set", "add", "remove", "increment", "decrement"]
        .iter()
        .find_map(|start| name.strip_prefix(start));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_uppercase() || c == '_'))
}

/// Whether a method changes a collection.
fn is_collection_change(name: &str) -> bool {
    matches!(
        name,
        "add"
            | "addAll"
            | "remove"
            | "removeAll"
            | "removeIf"
            | "clear"
            | "put"
            | "putAll"
            | "append"
    )
}

/// The last word of a type that stands at the end of a text, before a variable: `Account` of `final Account `.
fn declared_type(before: &str) -> Option<&str> {
    let word = before.trim_end();
    if word.len() == before.len() {
        return None;
    }
    let start = word.rfind(|c: char| !(c.is_alphanumeric() || c == '_'));
    let word = &word[start.map_or(0, |at| at + 1)..];
    word.starts_with(char::is_uppercase).then_some(word)
}
