//! Tables of functions: `HANDLERS = {"grant": grant, "spend": spend}`, from which a program calls one by a key.
//!
//! A table is known if its name is assigned once in the whole program, and every use of the name only reads an element
//! or adds a function. A use that may change the table in another way, or gives it another name, makes it unknown.

use std::collections::BTreeMap;

use crate::{
    declarations::Declarations,
    language::Language,
    syntax::{Argument, Expression, ExpressionKind, Statement, StatementKind},
    traverse::expressions,
    value::Value,
};

/// The methods that only read a table.
const READS: [&str; 17] = [
    "get",
    "getordefault",
    "has",
    "at",
    "keys",
    "values",
    "items",
    "entries",
    "keyset",
    "entryset",
    "containskey",
    "includes",
    "size",
    "foreach",
    "isempty",
    "__contains__",
    "tostring",
];

/// The methods that add their last argument.
const ADDS: [&str; 7] = [
    "put",
    "set",
    "add",
    "append",
    "push",
    "putifabsent",
    "addlast",
];

/// The functions that only read a table that they are given.
const READERS: [&str; 12] = [
    "len",
    "isset",
    "in_array",
    "array_key_exists",
    "array_keys",
    "sorted",
    "list",
    "tuple",
    "count",
    "sizeof",
    "print",
    "empty",
];

/// The tables of a program, by name.
#[derive(Debug, Default)]
pub(crate) struct FunctionTables(BTreeMap<String, FunctionTable>);

/// A table.
#[derive(Debug)]
struct FunctionTable {
    language: Language,
    /// A map from keys to functions; the key is empty where it is not known.
    value: Value,
}

/// What is seen of one name.
#[derive(Debug, Default)]
struct SeenName {
    /// How often it is used, less the uses that are understood.
    others: i64,
    /// How often it is assigned a table.
    declared: usize,
    language: Option<Language>,
    pairs: Vec<(String, Value)>,
    is_broken: bool,
}

/// A part of the program: its file, its class and its statements.
type Context<'p> = (usize, Option<&'p str>, &'p [Statement]);

impl FunctionTables {
    pub(crate) fn new(declarations: &Declarations<'_>) -> FunctionTables {
        let mut contexts: Vec<Context<'_>> = Vec::new();
        for (file, source) in declarations.sources.iter().enumerate() {
            add_contexts(file, None, &source.module.body, &mut contexts);
        }
        for declared in &declarations.functions {
            let class = declared.class.as_deref();
            contexts.push((declared.file, class, &declared.function.body));
        }
        let mut seen: BTreeMap<String, SeenName> = BTreeMap::new();
        for (file, class, statements) in &contexts {
            expressions(statements, false, &mut |value| {
                if let ExpressionKind::Assign { target, value, .. } = &value.kind
                    && let Some(name) = name_of(target)
                    && let Some(pairs) = table(declarations, *file, *class, value)
                {
                    let known = seen.entry(name.to_owned()).or_default();
                    known.declared += 1;
                    known.others -= 1;
                    known.language = Some(declarations.sources[*file].language);
                    known.pairs.extend(pairs);
                }
            });
        }
        for (file, class, statements) in &contexts {
            expressions(statements, false, &mut |value| {
                note_use(declarations, (*file, *class), value, &mut seen);
            });
        }
        let tables = seen.into_iter().filter_map(|(name, seen)| {
            let is_known = seen.declared == 1 && seen.others <= 0 && !seen.is_broken;
            let language = seen
                .language
                .filter(|_| is_known && !seen.pairs.is_empty())?;
            let value = Value::Map(seen.pairs);
            Some((name, FunctionTable { language, value }))
        });
        FunctionTables(tables.collect())
    }

    /// The table that a dotted path names.
    pub(crate) fn get(&self, path: &str, language: Language) -> Option<&Value> {
        let name = path.rsplit('.').next()?;
        let table = self.0.get(name)?;
        (table.language == language).then_some(&table.value)
    }
}

/// The statements of classes; those of functions are listed apart.
fn add_contexts<'p>(
    file: usize,
    class: Option<&'p str>,
    statements: &'p [Statement],
    found: &mut Vec<Context<'p>>,
) {
    found.push((file, class, statements));
    for statement in statements {
        match &statement.kind {
            StatementKind::Class { name, body, .. } => {
                add_contexts(file, Some(name), body, found);
            }
            StatementKind::Block(inner) | StatementKind::Other(inner) => {
                let classes = inner.iter().filter_map(|statement| match &statement.kind {
                    StatementKind::Class { name, body, .. } => Some((name, body)),
                    _ => None,
                });
                for (name, body) in classes {
                    add_contexts(file, Some(name), body, found);
                }
            }
            _ => {}
        }
    }
}

/// The name that an expression consists of, or ends with.
fn name_of(value: &Expression) -> Option<&str> {
    match &value.kind {
        ExpressionKind::Name(name) | ExpressionKind::Member(_, name) => Some(name),
        ExpressionKind::Cast { value, .. } => name_of(value),
        _ => None,
    }
}

/// Counts a use of a name that is assigned a table.
fn note_use(
    declarations: &Declarations<'_>,
    (file, class): (usize, Option<&str>),
    value: &Expression,
    seen: &mut BTreeMap<String, SeenName>,
) {
    let mut understood = |of: &Expression| {
        if let Some(known) = name_of(of).and_then(|name| seen.get_mut(name)) {
            known.others -= 1;
        }
    };
    match &value.kind {
        ExpressionKind::Index(of, _) => understood(of),
        ExpressionKind::Binary { left, right, .. } => {
            understood(left);
            understood(right);
        }
        ExpressionKind::Member(of, _) => {
            // What a method of it does is checked where it is called.
            understood(of);
        }
        ExpressionKind::Map(pairs) => {
            for (key, of) in pairs.iter().filter(|(key, of)| name_of(of) == Some(key)) {
                let _ = key;
                understood(of);
            }
        }
        ExpressionKind::Call { callee, arguments } => {
            if let ExpressionKind::Name(name) = &callee.kind
                && READERS.contains(&name.to_ascii_lowercase().as_str())
            {
                arguments.iter().for_each(|a| understood(&a.value));
            }
        }
        _ => {}
    }
    if let ExpressionKind::Name(name) | ExpressionKind::Member(_, name) = &value.kind
        && let Some(known) = seen.get_mut(name)
    {
        known.others += 1;
    }
    let added = match &value.kind {
        ExpressionKind::Assign { target, value, .. } => match &target.kind {
            ExpressionKind::Index(of, key) => Some((&**of, text_of(key), Some(&**value))),
            ExpressionKind::Member(of, name) => Some((&**of, name.clone(), Some(&**value))),
            _ => None,
        },
        ExpressionKind::Reference(of) => Some((&**of, String::new(), None)),
        ExpressionKind::Call { callee, arguments } => match &callee.kind {
            ExpressionKind::Member(of, method) => {
                let method = method.to_ascii_lowercase();
                let key = arguments
                    .first()
                    .map_or_else(String::new, |a| text_of(&a.value));
                let is_element = || {
                    let known = name_of(of).and_then(|name| seen.get(name));
                    known.is_some_and(|known| {
                        let mut keys = known.pairs.iter().map(|(key, _)| key);
                        keys.any(|key| key.eq_ignore_ascii_case(&method))
                    })
                };
                match method.as_str() {
                    name if READS.contains(&name) => None,
                    name if ADDS.contains(&name) => {
                        let last = arguments.last().map(|argument| &argument.value);
                        Some((&**of, key, last))
                    }
                    _ if is_element() => None,
                    _ => Some((&**of, String::new(), None)),
                }
            }
            _ => None,
        },
        _ => None,
    };
    if let Some((of, key, given)) = added
        && let Some(known) = name_of(of).and_then(|name| seen.get_mut(name))
    {
        match given.and_then(|value| function(declarations, file, class, value)) {
            Some(function) => known.pairs.push((key, Value::Function(function))),
            None => known.is_broken = true,
        }
    }
}

/// A text without holes; empty for anything else.
fn text_of(key: &Expression) -> String {
    match &key.kind {
        ExpressionKind::Text(text) => text.text.to_string(),
        _ => String::new(),
    }
}

/// The elements of an expression that makes a table of functions, or an empty one; `None` for anything else.
fn table(
    declarations: &Declarations<'_>,
    file: usize,
    class: Option<&str>,
    value: &Expression,
) -> Option<Vec<(String, Value)>> {
    let function =
        |value: &Expression| function(declarations, file, class, value).map(Value::Function);
    let pairs_of = |arguments: &[Argument]| -> Option<Vec<(String, Value)>> {
        let pairs = arguments.chunks(2).map(|pair| match pair {
            [key, value] => Some((text_of(&key.value), function(&value.value)?)),
            _ => None,
        });
        pairs.collect()
    };
    match &value.kind {
        ExpressionKind::Map(pairs) => pairs
            .iter()
            .map(|(key, value)| Some((key.clone(), function(value)?)))
            .collect(),
        ExpressionKind::List(values) => {
            // `[["grant", grant], …]`, or functions alone.
            let of_pair = |value: &Expression| match &value.kind {
                ExpressionKind::List(pair) => match pair.as_slice() {
                    [key, value] => Some((text_of(key), function(value)?)),
                    _ => None,
                },
                _ => Some((String::new(), function(value)?)),
            };
            values.iter().map(of_pair).collect()
        }
        ExpressionKind::Cast { value, .. } => table(declarations, file, class, value),
        ExpressionKind::Call { callee, arguments } => {
            let name = callee.last_name()?.to_ascii_lowercase();
            let made = name.split('<').next().unwrap_or(&name).trim();
            match made {
                "new map"
                | "new hashmap"
                | "new linkedhashmap"
                | "new treemap"
                | "new concurrenthashmap"
                | "new enummap"
                | "new arraylist"
                | "dict" => match arguments.as_slice() {
                    [] => Some(Vec::new()),
                    [one] if one.name.is_none() => table(declarations, file, class, &one.value),
                    named => named
                        .iter()
                        .map(|a| Some((a.name.clone()?, function(&a.value)?)))
                        .collect(),
                },
                "of" if matches!(callee.kind, ExpressionKind::Member(..)) => {
                    match callee.path()?.as_str() {
                        "Map.of" => pairs_of(arguments),
                        "List.of" => arguments
                            .iter()
                            .map(|a| Some((String::new(), function(&a.value)?)))
                            .collect(),
                        _ => None,
                    }
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The function that an expression names or is.
fn function(
    declarations: &Declarations<'_>,
    file: usize,
    class: Option<&str>,
    value: &Expression,
) -> Option<usize> {
    let language = declarations.sources[file].language;
    match &value.kind {
        ExpressionKind::Lambda(function) => declarations.function_at(file, function.range.start),
        ExpressionKind::Name(name) if !matches!(language, Language::Java | Language::Php) => {
            let found = declarations.find(name, file, None)?;
            let declared = &declarations.functions[found];
            (declared.class.is_none() && !declared.nested).then_some(found)
        }
        ExpressionKind::Text(text) if language == Language::Php => {
            declarations.find(&text.text, file, None)
        }
        // PHP's `[$this, 'grant']`.
        ExpressionKind::List(parts) if language == Language::Php => match parts.as_slice() {
            [of, name] if of.last_name() == Some("this") => {
                declarations.find_in_class(class?, &text_of(name))
            }
            _ => None,
        },
        ExpressionKind::Member(of, name) => match &of.kind {
            ExpressionKind::Name(of) if matches!(of.as_str(), "self" | "this" | "cls") => {
                declarations.find_in_class(class?, name)
            }
            ExpressionKind::Name(of) => {
                let in_class = declarations.find_in_class(of, name);
                // A function of a module.
                in_class.or_else(|| {
                    let mut all = declarations.all_of(name, language);
                    let first = all.next()?;
                    let declared = &declarations.functions[first];
                    (all.next().is_none() && declared.class.is_none()).then_some(first)
                })
            }
            _ => None,
        },
        ExpressionKind::Other(parts) => match parts.as_slice() {
            [one] => function(declarations, file, class, one),
            _ => None,
        },
        _ => None,
    }
}
