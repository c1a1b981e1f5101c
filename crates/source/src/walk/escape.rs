//! Calls that may run something on the database, and whose own source is not there.
//!
//! A library that is handed a connection, or makes the SQL itself, runs what stands nowhere. Which calls do is told by
//! names: of what they are called on, and of what they are called. A name that other things have as well (`client`,
//! `save`) counts where something else is seen to run in the transaction; there it is not known, rather than free of
//! what it may do. What cannot be told from anything else is left: a function of a library that is given no
//! connection, and has opened one itself.

use anabranch_sql::script::Unresolved;

use super::{
    Walk,
    call::{Call, is_own, shown},
};
use crate::{
    language::Language,
    names::{self, Certainty},
    syntax::{Argument, Expression, ExpressionKind},
    value::{FoldedText, Value},
};

impl Walk<'_, '_> {
    /// A call that runs SQL, of which none is known. Whether it is one.
    pub(super) fn check_unknown_sql(&mut self, call: &Call<'_>, values: &[Value]) -> bool {
        let sure = names::always_runs_sql(call.name);
        let on_database = match call.on {
            Some(on) => on.last_name().is_some_and(names::is_connection),
            None => false,
        };
        // A function that is called back; one that has a name may be what is called so, and is a text.
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
            .find(|(argument, value)| !is_called_back(argument, value));
        let named_sql = call.arguments.iter().any(|a| {
            let name = a.value.last_name().unwrap_or_default().to_ascii_lowercase();
            name.ends_with("sql") || name == "query" || name.ends_with("querystring")
        });
        let language = self.project.sources[self.file()].language;
        let of_others = call
            .on
            .and_then(Expression::last_name)
            .is_some_and(names::is_executor);
        let ready = names::always_executes_prepared(call.name, language) && !of_others
            || on_database && call.name.to_ascii_lowercase().starts_with("exec");
        let runs = sure || names::may_run_sql(call.name) && (on_database || named_sql);
        let second = call.name.starts_with("mysqli_")
            || call.name.starts_with("pg_")
            || call.name.ends_with("Context");
        let place = match second {
            true => values.get(1).or(first.map(|(_, value)| value)),
            false => first.map(|(_, value)| value),
        };
        let handed_over = first.is_none() && !values.is_empty();
        let is_number = matches!(place, Some(Value::Scalar(s)) if s.number);
        if !runs && !ready && first.is_some() {
            self.facts.forwarded_otherwise.insert(call.name.to_owned());
        }
        if self.constants || handed_over {
            return false;
        }
        let Some(place) = place.filter(|_| runs && !is_number) else {
            // Without a text it is a statement that somebody has made ready.
            if ready && !self.is_reported_within(call) {
                let what = match first {
                    Some((_, Value::Scalar(_) | Value::Text(_))) if !is_number => "SQL",
                    _ => "statement",
                };
                let reason = format!("the {what} that {} runs is not known", shown(call));
                self.report_unresolved(call, reason, String::new());
            }
            return ready;
        };
        // Nobody else than the one who is given SQL by this name is given anything else.
        let surely = ready || sure || on_database && names::takes_sql(call.name);
        let is_text = matches!(
            place,
            Value::Scalar(_) | Value::Text(_) | Value::Map(_) | Value::Rows(_)
        );
        if !is_text && !surely {
            return false;
        }
        let text = match place {
            Value::Text(texts) => {
                // A name of something, or a file: no SQL begins so.
                let known = texts.iter().all(|t| !t.head().trim().is_empty());
                if known && !texts.iter().any(FoldedText::is_sql) && !surely {
                    return false;
                }
                // Which of several it is, nobody knows.
                match texts.as_slice() {
                    [one] => one.shown(),
                    _ => String::new(),
                }
            }
            _ => String::new(),
        };
        if let Value::Scalar(scalar) = place
            && let Some(name) = self.parameter(scalar.id)
        {
            let unresolved = self.unresolved_at(
                call,
                format!("{} runs what it is given as {name}", shown(call)),
                text,
            );
            self.ran += 1;
            if self.trial == 0 {
                self.out.forwards.push(unresolved);
            }
            return true;
        }
        let reason = format!("the SQL that {} runs is not known", shown(call));
        self.report_unresolved(call, reason, text);
        true
    }

    /// The parameter, of the function that is followed first, that a value is.
    fn parameter(&self, id: u32) -> Option<String> {
        let root = self.frames.first()?;
        let declared = &self.project.functions[root.function?];
        // They were given the first numbers.
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

    /// Whether something in the call is told already: `em.createQuery(sql).executeUpdate()`.
    pub(super) fn is_reported_within(&self, call: &Call<'_>) -> bool {
        let (file, whole) = (self.file(), &call.whole.range);
        self.out.unresolved.iter().any(|told| {
            told.file == file && whole.start <= told.range.start && told.range.end <= whole.end
        })
    }

    pub(super) fn report_unresolved(&mut self, call: &Call<'_>, reason: String, head: String) {
        if !self.constants {
            let unresolved = self.unresolved_at(call, reason, head);
            self.unresolved(unresolved);
        }
    }

    /// Tells of a call of nothing that is known, if it may run something.
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
            // Texts, rows and lists are what they are.
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

    /// Tells of a call that is given a connection, if it may run something on that.
    pub(super) fn check_passed_connection(&mut self, call: &Call<'_>, values: &[Value]) {
        if self.constants || self.is_reported_within(call) {
            return;
        }
        if let Some((_, reason)) = self.passes_connection(call, values) {
            self.report_possible(call, reason);
        }
    }

    /// Tells of what may run something, if anything else is seen to run in the transaction.
    pub(super) fn report_possible(&mut self, call: &Call<'_>, reason: String) {
        if self.constants {
            return;
        }
        self.escaped += 1;
        let unresolved = self.unresolved_at(call, reason, String::new());
        let known =
            |told: &Unresolved| (told.file, &told.range) == (unresolved.file, &unresolved.range);
        if self.trial == 0 && !self.out.possible.iter().any(known) {
            self.out.possible.push(unresolved);
        }
    }

    /// Tells of the call of a value that is a method of something that runs SQL, or is made with it: `f = repo.put`, and
    /// then `f()`.
    pub(super) fn check_callable_value(&mut self, call: &Call<'_>, called: Option<&Value>) {
        let may_run = match (&call.callee.kind, called) {
            (ExpressionKind::Name(name), _) => {
                let value = self.state.variables.get(name);
                value.is_some_and(Value::leads_to_database)
                    && names::database_certainty(name) == Certainty::No
            }
            // A method that a variable names: `$this->$how()`.
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
                "{} is something that was made of what runs SQL: what it runs is not known",
                shown(call)
            );
            self.report_possible(call, reason);
        }
    }

    /// Tells of rows that a library writes back: `record.store()`.
    pub(super) fn check_row_write(&mut self, call: &Call<'_>, receiver: Option<&Value>) {
        let language = self.project.sources[self.file()].language;
        let writes = names::is_unambiguous_active_record_write(call.name)
            || language == Language::Java
                && matches!(call.name, "store" | "insert" | "update" | "delete");
        if writes && matches!(receiver, Some(Value::Rows(_))) {
            let reason = format!("{} has a library write what was read", shown(call));
            self.report_possible(call, reason);
        }
    }

    /// A library writes what it is told to, or what it is called on.
    fn writes_objects(&self, call: &Call<'_>) -> Option<(Certainty, String)> {
        let name = call.name;
        let on = call.on?;
        let root = self.leads_to_database(on);
        let reason = || {
            format!(
                "{} may have a library make the SQL: it stands nowhere in the source",
                shown(call)
            )
        };
        let file = self.file();
        let language = self.project.sources[file].language;
        // One of that name is the program's own, and a transaction by itself.
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
                return Some((Certainty::Possible, reason()));
            }
            _ => {}
        }
        let named = !call.arguments.is_empty() && call.arguments.iter().all(|a| a.name.is_some());
        let on_itself = match name {
            _ if names::is_unambiguous_active_record_write(name) => {
                !on.last_name().is_some_and(names::is_metric) && !saves_something_else(call, on)
            }
            // A class of an application that a framework lays over a table.
            _ if names::is_active_record_write(name)
                && is_class_of(on)
                && matches!(
                    language,
                    Language::Php | Language::JavaScript | Language::TypeScript
                ) =>
            {
                true
            }
            // Of a class that a framework lays over a table: `Account.update("balance = 0")`.
            "update" | "delete" if language == Language::Java && is_class_of(on) => {
                let first = call.arguments.first().map(|argument| &argument.value.kind);
                matches!(first, Some(ExpressionKind::Text(text)) if text.text.contains(['=', '?']))
            }
            "delete" => call.arguments.is_empty(),
            // A search engine's has an index.
            "update" => {
                let mut names = call.arguments.iter().filter_map(|a| a.name.as_deref());
                named && language == Language::Python && !names.any(|name| name == "index")
            }
            "execute" | "Exec" => !on.last_name().is_some_and(names::is_executor),
            // Made of tables: `query.Account.Where(…).Update(…)`.
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
        // What was found by a library may be written back by it when it changes.
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
        // A library gives it a body.
        let is_mapped = || self.project.objects.are_mappers(&call.classes) && !names::reads(name);
        // What a library has made of a connection.
        let is_made = || {
            self.project.objects.are_given(&call.classes)
                && !names::leaves_connection_unused(name)
                && !names::reads(name)
        };
        (on_itself && !is_own() || is_made() || is_found() || is_mapped() && !is_own())
            .then(|| (Certainty::Possible, reason()))
    }

    /// Somebody is given a connection.
    fn passes_connection(
        &mut self,
        call: &Call<'_>,
        values: &[Value],
    ) -> Option<(Certainty, String)> {
        let language = self.project.sources[self.file()].language;
        // A class's name, in Python.
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
        // A method of a connection, for whoever calls it: `Thread(target=connection.execute)`.
        let method = call
            .arguments
            .iter()
            .find_map(|argument| match &argument.value.kind {
                ExpressionKind::Member(of, name)
                    if names::is_driver_method(name) && self.is_connection(of) =>
                {
                    Some(format!(
                        "{} is given {name}() of {}: what it runs is not known",
                        shown(call),
                        of.last_name().unwrap_or("a connection")
                    ))
                }
                _ => None,
            });
        if let Some(reason) = method {
            return Some((Certainty::Possible, reason));
        }
        // Who is given a function calls that, with what it has been given.
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
            "{} is given {}, and is not in the source: what it runs is not known",
            shown(call),
            connection.last_name().unwrap_or("a connection"),
        );
        // Out of a list or a map, or made by another function: no name tells which.
        let sure = match call.callee.kind {
            ExpressionKind::Name(_) | ExpressionKind::Member(..) => Certainty::Possible,
            _ => Certainty::Certain,
        };
        Some((sure, reason))
    }

    /// Whether an expression is a connection by itself, by its name or by its type.
    fn is_connection(&self, value: &Expression) -> bool {
        let (ExpressionKind::Name(_) | ExpressionKind::Member(..)) = value.kind else {
            return false;
        };
        let Some(name) = value.last_name() else {
            return false;
        };
        // A class is none of its objects.
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

    /// A connection, or what runs SQL on one, that is a value or is written within it: `{ client, id }`.
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

    /// Whether one of the arguments is a connection.
    pub(super) fn is_given_connection(&self, call: &Call<'_>) -> bool {
        let mut given = call.arguments.iter().map(|argument| &argument.value);
        given.any(|value| self.is_connection(value))
    }

    /// Whether a parameter of the function that is followed is a connection by its type.
    fn is_typed(&self, name: &str) -> bool {
        let function = self.frame().function.map(|at| &self.project.functions[at]);
        let parameters = function.map(|declared| declared.function.parameters.iter());
        parameters.into_iter().flatten().any(|parameter| {
            parameter.name == name && names::is_connection_type(&parameter.of_type)
        })
    }

    /// Whether something on the way to a value is a database by its name, or by what it was made from.
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
            // Something of a database may have gone into it.
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

/// Whether a method changes its object, by its name: `setBalance`.
fn changes(name: &str) -> bool {
    let rest = ["set", "add", "remove"]
        .iter()
        .find_map(|start| name.strip_prefix(start));
    rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
}

/// Whether what is called begins with the name of a class: `Account::where(…)->update(…)`.
fn is_class_of(on: &Expression) -> bool {
    match &on.kind {
        ExpressionKind::Name(name) => {
            name.starts_with(char::is_uppercase) && !names::is_standard_class(name)
        }
        ExpressionKind::Member(of, _) | ExpressionKind::Call { callee: of, .. } => is_class_of(of),
        _ => false,
    }
}

/// Whether what is called is a query that a library makes, in Go.
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

/// Whether it is a picture, a drawing or a visitor's session that is saved: `img.save("a.png")`, `ctx.save()`.
fn saves_something_else(call: &Call<'_>, on: &Expression) -> bool {
    let is_text = |argument: &Argument| matches!(argument.value.kind, ExpressionKind::Text(_));
    let of = on.last_name().unwrap_or_default().to_ascii_lowercase();
    call.arguments.first().is_some_and(is_text) && call.name.eq_ignore_ascii_case("save")
        || call.arguments.is_empty() && of.ends_with("session")
        || matches!(of.as_str(), "ctx" | "context" | "canvas")
}
