//! Calls of functions outside of the program that may run SQL.
//!
//! A library that receives a connection, or generates SQL, runs statements that are not in the source. Such calls are
//! recognised by the names of the receiver and of the method. A name that also has other uses (`client`, `save`)
//! counts only if the transaction runs SQL elsewhere; the call then makes it unknown. The analyser misses library
//! functions that open a connection themselves: nothing distinguishes them from other calls.

use anabranch_sql::script::Unresolved;

use super::{
    Walk,
    call::{Call, shown},
};
use crate::{
    collections::is_collection,
    language::Language,
    names::{self, Certainty},
    objects::is_own,
    syntax::{Argument, Expression, ExpressionKind},
    traverse::{expression, expressions},
    value::{FoldedText, Value},
};

/// Names of what is destroyed without a database.
const RESOURCES: [&str; 16] = [
    "stream", "socket", "request", "response", "req", "res", "server", "agent", "modal", "chart",
    "editor", "player", "view", "tooltip", "observer", "timer",
];

impl Walk<'_, '_> {
    /// Reports a call that runs unknown SQL. Returns whether it is one.
    pub(super) fn check_unknown_sql(&mut self, call: &Call<'_>, values: &[Value]) -> bool {
        let sure = names::always_runs_sql(call.name);
        let on_database = match call.on {
            Some(on) => on.last_name().is_some_and(names::is_connection),
            None => false,
        };
        // A callback. A name may be a function or a text of the same name.
        let needs_text = sure || on_database && names::takes_sql(call.name);
        let is_called_back = |argument: &Argument, value: &Value| match value {
            Value::Function(_) => {
                !needs_text || matches!(argument.value.kind, ExpressionKind::Lambda(_))
            }
            _ => false,
        };
        let first = call
            .arguments
            .iter()
            .zip(values)
            .find(|(argument, value)| !is_called_back(argument, value))
            .map(|(_, value)| value);
        let language = self.project.sources[self.file()].language;
        let of_others = call
            .on
            .and_then(Expression::last_name)
            .is_some_and(names::is_executor);
        let executes = names::always_executes_prepared(call.name, language) && !of_others
            || on_database && call.name.to_ascii_lowercase().starts_with("exec");
        let runs = sure || names::may_run_sql(call.name) && (on_database || names_sql(call));
        let text = text_argument(call, values, first);
        let is_number = matches!(text, Some(Value::Scalar(s)) if s.number);
        if !runs && !executes && first.is_some() {
            self.facts.forwarded_otherwise.insert(call.name.to_owned());
        }
        let only_callbacks = first.is_none() && !values.is_empty();
        if self.constants || only_callbacks {
            return false;
        }
        let Some(text) = text.filter(|_| runs && !is_number) else {
            // Without a text it executes a statement prepared elsewhere.
            if executes && !self.is_reported_within(call) {
                let what = match first {
                    Some(Value::Scalar(_) | Value::Text(_)) if !is_number => "SQL",
                    _ => "statement",
                };
                let reason = format!("the {what} that {} runs is not known", shown(call));
                self.report_unresolved(call, reason, String::new());
            }
            return executes;
        };
        self.report_unknown_text(call, text, executes || needs_text)
    }

    /// Reports a call that runs a text which is not known to be SQL; `surely`: the call takes nothing but SQL. Returns
    /// whether it is reported.
    fn report_unknown_text(&mut self, call: &Call<'_>, text: &Value, surely: bool) -> bool {
        let is_text = matches!(
            text,
            Value::Scalar(_) | Value::Text(_) | Value::Map(_) | Value::Rows(_)
        );
        if !is_text && !surely {
            return false;
        }
        let head = match text {
            Value::Text(texts) => {
                // A name or a path, which is no SQL.
                let known = texts.iter().all(|t| !t.head().trim().is_empty());
                if known && !texts.iter().any(FoldedText::is_sql) && !surely {
                    return false;
                }
                // With several texts, none is known to run.
                match texts.as_slice() {
                    [one] => one.shown(),
                    _ => String::new(),
                }
            }
            _ => String::new(),
        };
        if let Value::Scalar(scalar) = text
            && let Some(name) = self.parameter(scalar.id)
        {
            let unresolved = self.unresolved_at(
                call,
                format!("{} runs its parameter {name} as SQL", shown(call)),
                head,
            );
            self.ran += 1;
            if self.trial == 0 {
                self.out.forwards.push(unresolved);
            }
            return true;
        }
        let reason = format!("the SQL that {} runs is not known", shown(call));
        self.report_unresolved(call, reason, head);
        true
    }

    /// The parameter of the root function that a value stands for.
    fn parameter(&self, id: u32) -> Option<String> {
        let root = self.frames.first()?;
        let declared = &self.project.functions[root.function?];
        // Parameters have the first ids.
        let at = (id as usize).checked_sub(1)?;
        declared.function.parameters.get(at).map(|p| p.name.clone())
    }

    pub(super) fn unresolved_at(
        &self,
        call: &Call<'_>,
        reason: String,
        head: String,
    ) -> Unresolved {
        Unresolved {
            file: self.file(),
            range: call.whole.range.clone(),
            reason,
            head,
        }
    }

    /// Whether a call within this one is reported already: `em.createQuery(sql).executeUpdate()`.
    pub(super) fn is_reported_within(&self, call: &Call<'_>) -> bool {
        let (file, whole) = (self.file(), &call.whole.range);
        self.out.unresolved.iter().any(|known| {
            known.file == file && whole.start <= known.range.start && known.range.end <= whole.end
        })
    }

    pub(super) fn report_unresolved(&mut self, call: &Call<'_>, reason: String, head: String) {
        if !self.constants {
            let unresolved = self.unresolved_at(call, reason, head);
            self.unresolved(unresolved);
        }
    }

    /// Reports a call of an unknown function that may run SQL.
    pub(super) fn check_external_call(
        &mut self,
        call: &Call<'_>,
        receiver: Option<&Value>,
        values: &[Value],
    ) {
        if self.constants || self.is_reported_within(call) {
            return;
        }
        let found = match receiver {
            // Texts, rows and lists run nothing.
            None | Some(Value::Scalar(_) | Value::Nothing) => self.writes_objects(call),
            Some(_) => None,
        };
        let found = found.or_else(|| self.passes_connection(call, values));
        let Some((sure, reason)) = found else { return };
        match sure {
            Certainty::Certain => self.report_unresolved(call, reason, String::new()),
            _ => self.report_possible(call, reason),
        }
    }

    /// Reports a call that receives a connection and may run SQL on it.
    pub(super) fn check_passed_connection(&mut self, call: &Call<'_>, values: &[Value]) {
        if self.constants || self.is_reported_within(call) {
            return;
        }
        if let Some((_, reason)) = self.passes_connection(call, values) {
            self.report_possible(call, reason);
        }
    }

    /// Records a call that may run SQL; it is reported only if the transaction runs SQL elsewhere.
    pub(super) fn report_possible(&mut self, call: &Call<'_>, reason: String) {
        if self.constants {
            return;
        }
        self.escaped += 1;
        let unresolved = self.unresolved_at(call, reason, String::new());
        let known =
            |known: &Unresolved| (known.file, &known.range) == (unresolved.file, &unresolved.range);
        if self.trial == 0 && !self.out.possible.iter().any(known) {
            self.out.possible.push(unresolved);
        }
    }

    /// Reports calls of a value made from an object that runs SQL: `f = repo.put`, and then `f()`.
    pub(super) fn check_callable_value(&mut self, call: &Call<'_>, called: Option<&Value>) {
        let may_run = match (&call.callee.kind, called) {
            (ExpressionKind::Name(name), _) => {
                let value = self.state.variables.get(name);
                value.is_some_and(Value::leads_to_database)
                    && names::database_certainty(name) == Certainty::No
            }
            // A method named by a variable: `$this->$how()`.
            (ExpressionKind::Index(of, _), _) if of.last_name().is_some_and(is_own) => {
                let class = self.frame().class.clone().unwrap_or_default();
                let mut functions = self.project.functions.iter();
                functions.any(|f| f.reaches && f.class.as_ref() == Some(&class))
            }
            (ExpressionKind::Member(..), _) => false,
            (_, Some(value)) => value.leads_to_database(),
            _ => false,
        };
        if may_run && !self.is_reported_within(call) {
            let reason = format!(
                "{} was made from an object that runs SQL: the SQL that it runs is not known",
                shown(call)
            );
            self.report_possible(call, reason);
        }
    }

    /// Reports rows that a library writes back: `record.store()`.
    pub(super) fn check_row_write(&mut self, call: &Call<'_>, receiver: Option<&Value>) {
        let language = self.project.sources[self.file()].language;
        let writes = names::is_unambiguous_active_record_write(call.name)
            || language == Language::Java
                && matches!(call.name, "store" | "insert" | "update" | "delete");
        if writes && matches!(receiver, Some(Value::Rows(_))) {
            let reason = format!("{} has a library write back a row", shown(call));
            self.report_possible(call, reason);
        }
    }

    /// Whether a call has a library write objects, and how certain that is.
    fn writes_objects(&self, call: &Call<'_>) -> Option<(Certainty, String)> {
        let name = call.name;
        let on = call.on?;
        let root = self.leads_to_database(on);
        let reason = || {
            format!(
                "{} may have a library generate SQL that is not in the source",
                shown(call)
            )
        };
        let file = self.file();
        let language = self.project.sources[file].language;
        let by_mapper = self.is_written_by_mapper(call, on);
        let sure = match by_mapper {
            true => Certainty::Certain,
            false => Certainty::Possible,
        };
        // A function of the program with this name is a transaction of its own.
        let is_own = || self.project.has(name, language) && !names::is_driver_method(name);
        match root {
            Certainty::Certain if names::writes(name) && !is_own() => {
                return Some((Certainty::Certain, reason()));
            }
            Certainty::Possible
                if names::is_active_record_write(name)
                    && !is_own()
                    && !saves_something_else(call, on) =>
            {
                return Some((sure, reason()));
            }
            _ => {}
        }
        let named = !call.arguments.is_empty() && call.arguments.iter().all(|a| a.name.is_some());
        let on_itself = match name {
            _ if by_mapper && names::is_active_record_write(name) => true,
            _ if names::is_unambiguous_active_record_write(name) => {
                !on.last_name().is_some_and(names::is_metric) && !saves_something_else(call, on)
            }
            // A model class that a framework maps to a table.
            _ if names::is_active_record_write(name)
                && is_class_of(on)
                && matches!(
                    language,
                    Language::Php | Language::JavaScript | Language::TypeScript
                ) =>
            {
                true
            }
            // A model class: `Account.update("balance = 0")`.
            "update" | "delete" if language == Language::Java && is_class_of(on) => {
                let first = call.arguments.first().map(|argument| &argument.value.kind);
                matches!(first, Some(ExpressionKind::Text(text)) if text.text.contains(['=', '?']))
            }
            "delete" => call.arguments.is_empty(),
            // A search engine's update names an index.
            "update" => {
                let mut names = call.arguments.iter().filter_map(|a| a.name.as_deref());
                named && language == Language::Python && !names.any(|name| name == "index")
            }
            "execute" | "Exec" => !on.last_name().is_some_and(names::is_executor),
            // A query object: `query.Account.Where(…).Update(…)`.
            _ if language == Language::Go
                && names::is_active_record_write(name)
                && is_query(on) =>
            {
                true
            }
            "create" | "add" | "remove" | "acreate" => {
                on.last_name().is_some_and(|of| of.ends_with("_set"))
            }
            _ => false,
        };
        // A library may write changed objects back.
        let is_found = || {
            let of = on.path().and_then(|path| self.known(&path));
            language == Language::Java
                && changes(name)
                && !call.arguments.is_empty()
                && on
                    .last_name()
                    .is_some_and(|of| names::database_certainty(of) == Certainty::No)
                && of.is_some_and(|of| of.leads_to_database())
        };
        // A mapper method that the library implements.
        let is_mapped = || self.project.objects.are_mappers(&call.classes) && !names::reads(name);
        // An object that a library made from a connection.
        let is_made = || {
            self.project.objects.are_given(&call.classes)
                && !names::leaves_connection_unused(name)
                && !names::reads(name)
        };
        (on_itself && !is_own() || is_made() || is_found() || is_mapped() && !is_own())
            .then(|| (sure, reason()))
    }

    /// Why a call of an entity's base runs SQL that is not in the source, if it writes: `super().save()`. The base
    /// belongs to the mapper, whatever methods the program has.
    pub(super) fn of_entitys_base(&self, call: &Call<'_>) -> Option<String> {
        let class = self.frame().class.as_deref()?;
        let of_base = call
            .on
            .is_some_and(|on| matches!(on.last_name(), Some("super" | "parent")));
        let writes = of_base
            && names::is_active_record_write(call.name)
            && self.project.mapped.is_entity(class);
        writes.then(|| {
            format!(
                "{} has the base of the entity class {class} write it by SQL that is not in the source",
                shown(call)
            )
        })
    }

    /// Whether a name in the current function was given a value that an entity class made: `a = Account.find(1)`.
    fn was_given_entity(&self, on: &Expression) -> bool {
        let (ExpressionKind::Name(name), Some(at)) = (&on.kind, self.frame().function) else {
            return false;
        };
        let mut found = false;
        expressions(
            &self.project.functions[at].function.body,
            false,
            &mut |value| {
                if let ExpressionKind::Assign { target, value, .. } = &value.kind
                    && matches!(&target.kind, ExpressionKind::Name(given) if given == name)
                {
                    found |= self.project.mapped.entity_named(value).is_some();
                }
            },
        );
        found
    }

    /// Whether a call that may write objects does so by a mapper: the program uses one, and the call's name has hardly
    /// any other use, or its receiver is an entity, a repository or a query.
    fn is_written_by_mapper(&self, call: &Call<'_>, on: &Expression) -> bool {
        let file = self.file();
        let language = self.project.sources[file].language;
        let mapped = &self.project.mapped;
        if !mapped.is_used(language) {
            return false;
        }
        // An image is saved to a path, a stream is destroyed.
        let of = on.last_name().unwrap_or_default().to_ascii_lowercase();
        let takes_path = language == Language::Python
            && call.name == "save"
            && call.arguments.iter().any(|a| a.name.is_none() && !a.spread);
        let is_resource = call.name == "destroy" && RESOURCES.iter().any(|end| of.ends_with(end));
        let is_other = saves_something_else(call, on) || names::is_metric(&of);
        if takes_path || is_resource || is_other {
            return false;
        }
        let flushes = || {
            call.name.eq_ignore_ascii_case("flush") && self.leads_to_database(on) > Certainty::No
        };
        let is_of_query = || {
            let mut found = false;
            expression(on, false, &mut |part| {
                found |= matches!(part.last_name(), Some("$query" | "$relatedQuery" | "query"));
            });
            found
        };
        names::is_unambiguous_active_record_write(call.name)
            || mapped.entity_among(&call.classes).is_some()
            || self.project.objects.are_mappers(&call.classes)
            || mapped.entity_named(on).is_some()
            || self.was_given_entity(on)
            || is_of_query()
            || flushes()
    }

    /// Whether a call passes a connection to unknown code, and how certain that is.
    fn passes_connection(
        &mut self,
        call: &Call<'_>,
        values: &[Value],
    ) -> Option<(Certainty, String)> {
        let language = self.project.sources[self.file()].language;
        // A constructor call in Python.
        let makes = language == Language::Python
            && call.name.starts_with(char::is_uppercase)
            && !matches!(call.callee.kind, ExpressionKind::Index(..));
        let is_function = |(argument, value): (&Argument, &Value)| {
            let name = argument.value.last_name();
            let own = match &argument.value.kind {
                ExpressionKind::Member(of, _) => of.last_name().is_some_and(is_own),
                _ => false,
            };
            matches!(value, Value::Function(_))
                || own && name.is_some_and(|n| self.project.has(n, language))
        };
        // A bound method of a connection: `Thread(target=connection.execute)`.
        let method = call
            .arguments
            .iter()
            .find_map(|argument| match &argument.value.kind {
                ExpressionKind::Member(of, name)
                    if names::is_driver_method(name) && self.is_connection(of) =>
                {
                    Some(format!(
                        "{} is passed {name}() of {}: the SQL that it runs is not known",
                        shown(call),
                        of.last_name().unwrap_or("a connection")
                    ))
                }
                _ => None,
            });
        if let Some(reason) = method {
            return Some((Certainty::Possible, reason));
        }
        // It waits there until it is taken out.
        let mut classes = call.classes.iter();
        let waits = |class: &std::rc::Rc<str>| is_collection(class);
        let is_element = |class: &std::rc::Rc<str>| {
            names::is_connection_type(class) || matches!(&**class, "Thread" | "String" | "Long")
        };
        if self.project.objects.are_foreign(&call.classes)
            && classes.clone().any(waits)
            && classes.all(|class| waits(class) || is_element(class))
        {
            return None;
        }
        // A callee that also receives a function passes the connection to it.
        if names::leaves_connection_unused(call.name)
            || makes
            || names::reports_text(call.name, call.callee)
            || call.arguments.iter().zip(values).any(is_function)
        {
            return None;
        }
        let given = call.arguments.iter().map(|argument| &argument.value);
        let connection = given
            .into_iter()
            .find_map(|value| self.connection_in(value))?;
        let reason = format!(
            "{} is passed {} and is not in the source: the SQL that it runs is not known",
            shown(call),
            connection.last_name().unwrap_or("a connection"),
        );
        // The callee comes from a list, a map or another call, so no name identifies it.
        let sure = match call.callee.kind {
            ExpressionKind::Name(_) | ExpressionKind::Member(..) => Certainty::Possible,
            _ => Certainty::Certain,
        };
        Some((sure, reason))
    }

    /// Whether an expression is a connection, judged by its name or type.
    fn is_connection(&self, value: &Expression) -> bool {
        let (ExpressionKind::Name(_) | ExpressionKind::Member(..)) = value.kind else {
            return false;
        };
        let Some(name) = value.last_name() else {
            return false;
        };
        // A class is not a connection.
        let is_class = name.starts_with(char::is_uppercase)
            && name.contains(char::is_lowercase)
            && self.project.sources[self.file()].language == Language::Python;
        if is_class {
            return false;
        }
        let of_other_things = |name: &str| {
            let name = name.to_ascii_lowercase();
            [
                "c", "q", "s", "sql", "con", "link", "ds", "qr", "manager", "repo",
            ]
            .contains(&name.as_str())
                || ["template", "statement", "stmt", "engine", "handle"]
                    .iter()
                    .any(|end| name.ends_with(end))
        };
        names::database_certainty(name) > Certainty::No && !of_other_things(name)
            || self.is_typed(name)
            || value.path().is_some_and(|path| self.ran_on.contains(&path))
    }

    /// A connection, or an object that runs SQL on one, in an argument or nested in it: `{ client, id }`.
    fn connection_in<'e>(&mut self, value: &'e Expression) -> Option<&'e Expression> {
        match &value.kind {
            ExpressionKind::Map(pairs) => {
                let mut values = pairs.iter().map(|(_, value)| value);
                values.find_map(|value| self.connection_in(value))
            }
            ExpressionKind::List(values) => values.iter().find_map(|v| self.connection_in(v)),
            ExpressionKind::Other(values) if values.len() == 1 => self.connection_in(&values[0]),
            ExpressionKind::Reference(value) | ExpressionKind::Cast { value, .. } => {
                self.connection_in(value)
            }
            ExpressionKind::Name(name) => {
                let given = self.is_connection(value)
                    || !is_own(name) && {
                        let classes = self.object(value).classes;
                        self.project.objects.are_running(&classes)
                    };
                given.then_some(value)
            }
            _ => self.is_connection(value).then_some(value),
        }
    }

    /// Whether an argument is a connection.
    pub(super) fn is_given_connection(&self, call: &Call<'_>) -> bool {
        let mut given = call.arguments.iter().map(|argument| &argument.value);
        given.any(|value| self.is_connection(value))
    }

    /// Whether a parameter of the current function is a connection by type.
    fn is_typed(&self, name: &str) -> bool {
        let function = self.frame().function.map(|at| &self.project.functions[at]);
        let parameters = function.map(|declared| declared.function.parameters.iter());
        parameters.into_iter().flatten().any(|parameter| {
            parameter.name == name && names::is_connection_type(&parameter.of_type)
        })
    }

    /// How certain it is that an expression leads to a database, by the names and values along its path.
    pub(super) fn leads_to_database(&self, value: &Expression) -> Certainty {
        let mut found = Certainty::No;
        let mut at = value;
        loop {
            let name = match &at.kind {
                ExpressionKind::Name(name) | ExpressionKind::Member(_, name) => name,
                _ => "",
            };
            found = found.max(names::database_certainty(name));
            if !name.is_empty() && self.is_typed(name) {
                return Certainty::Certain;
            }
            // It may have been made from a connection.
            let path = at.path();
            let known = path.and_then(|path| self.known(&path));
            let is_running = |name: &str| {
                !self.state.variables.contains(name) && self.project.is_running(name, self.file())
            };
            let of_file = matches!(&at.kind, ExpressionKind::Name(name) if is_running(name));
            if of_file || known.is_some_and(|known| known.leads_to_database()) {
                found = found.max(Certainty::Possible);
            }
            at = match &at.kind {
                ExpressionKind::Member(of, _)
                | ExpressionKind::Index(of, _)
                | ExpressionKind::Reference(of)
                | ExpressionKind::Call { callee: of, .. }
                | ExpressionKind::Cast { value: of, .. } => of,
                ExpressionKind::Other(parts) if parts.len() == 1 => &parts[0],
                _ => return found,
            };
        }
    }
}

/// Whether the name of an argument suggests SQL.
fn names_sql(call: &Call<'_>) -> bool {
    call.arguments.iter().any(|a| {
        let name = a.value.last_name().unwrap_or_default().to_ascii_lowercase();
        name.ends_with("sql") || name == "query" || name.ends_with("querystring")
    })
}

/// The argument that is the text: the second one where a connection or a context precedes it, otherwise `first`.
fn text_argument<'v>(
    call: &Call<'_>,
    values: &'v [Value],
    first: Option<&'v Value>,
) -> Option<&'v Value> {
    let is_second = call.name.starts_with("mysqli_")
        || call.name.starts_with("pg_")
        || call.name.ends_with("Context");
    match is_second {
        true => values.get(1).or(first),
        false => first,
    }
}

/// Whether a method is a setter, judged by its name: `setBalance`.
fn changes(name: &str) -> bool {
    let rest = ["set", "add", "remove"]
        .iter()
        .find_map(|start| name.strip_prefix(start));
    rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

/// Whether a call chain begins with a class: `Account::where(…)->update(…)`.
fn is_class_of(on: &Expression) -> bool {
    match &on.kind {
        ExpressionKind::Name(name) => {
            name.starts_with(char::is_uppercase) && !names::is_standard_class(name)
        }
        ExpressionKind::Member(of, _) | ExpressionKind::Call { callee: of, .. } => is_class_of(of),
        _ => false,
    }
}

/// Whether a Go expression is a library's query builder.
fn is_query(on: &Expression) -> bool {
    match &on.kind {
        ExpressionKind::Call { callee, .. } => {
            let is_part = |name: &str| matches!(name, "Where" | "WithContext" | "Unscoped");
            callee.last_name().is_some_and(is_part) || is_query(callee)
        }
        ExpressionKind::Member(of, _) => is_query(of),
        _ => false,
    }
}

/// Whether the call saves something else: an image, a canvas state or an HTTP session: `img.save("a.png")`,
/// `ctx.save()`.
fn saves_something_else(call: &Call<'_>, on: &Expression) -> bool {
    let is_text = |argument: &Argument| matches!(argument.value.kind, ExpressionKind::Text(_));
    let of = on.last_name().unwrap_or_default().to_ascii_lowercase();
    call.arguments.first().is_some_and(is_text) && call.name.eq_ignore_ascii_case("save")
        || call.arguments.is_empty() && of.ends_with("session")
        || matches!(of.as_str(), "ctx" | "context" | "canvas")
}
