//! What a call comes to, and does.

use std::{rc::Rc, sync::Arc};

use anabranch_sql::script::Unresolved;

use super::{
    Bound, Frame, Walk, callee::CANDIDATES_MAX, expression::file_offset, state::Written,
    summary_cache::is_field,
};
use crate::{
    fold::Format,
    language::Language,
    names::{self, Certainty},
    objects::Classes,
    syntax::{Argument, Expression, ExpressionKind, Literal},
    value::{FoldedText, Value},
};

/// A call that is being looked at.
pub(super) struct Call<'e> {
    pub(super) whole: &'e Expression,
    pub(super) callee: &'e Expression,
    pub(super) arguments: &'e [Argument],
    pub(super) name: &'e str,
    /// What it is called on, as it is written.
    pub(super) on: Option<&'e Expression>,
    /// The classes that this may be of; none where that is not known.
    pub(super) classes: Rc<Classes>,
}

impl<'e> Call<'e> {
    /// The call of a function that this one is given.
    pub(super) fn for_callback(&self) -> Call<'e> {
        Call {
            arguments: &[],
            on: None,
            classes: Rc::default(),
            ..*self
        }
    }

    /// A field, or what else is called without brackets, as a call of its method.
    pub(super) fn of_field(
        whole: &'e Expression,
        of: &'e Expression,
        name: &'e str,
        classes: Rc<Classes>,
    ) -> Call<'e> {
        Call {
            whole,
            callee: whole,
            arguments: &[],
            name,
            on: Some(of),
            classes,
        }
    }
}

impl Walk<'_, '_> {
    pub(super) fn call(
        &mut self,
        whole: &Expression,
        callee: &Expression,
        arguments: &[Argument],
    ) -> Value {
        let on = match &callee.kind {
            ExpressionKind::Member(on, _) => Some(&**on),
            _ => None,
        };
        let call = Call {
            whole,
            callee,
            arguments,
            name: callee.last_name().unwrap_or_default(),
            on,
            classes: on.map_or_else(Rc::default, |on| self.object(on).classes),
        };
        let receiver = match on {
            Some(on) => Some(self.evaluate(on)),
            None => match &callee.kind {
                ExpressionKind::Name(_) => None,
                // The result of a call, or a lambda, is called.
                _ => Some(self.evaluate(callee)),
            },
        };
        let mut values: Vec<Value> = arguments.iter().map(|a| self.evaluate(&a.value)).collect();
        if self.gave_up {
            return Value::Nothing;
        }
        let name = call.name;
        // A text in lines, for who puts them together.
        if names::takes_sql(name)
            && let Some(Value::List(lines)) = values.first()
            && let Some(text) = self.text_in_lines(&lines.clone(), whole)
        {
            values[0] = text;
        }
        if names::rolls_back(name) {
            self.aborted = true;
            return Value::Nothing;
        }
        if names::commits(name) {
            self.committed = true;
            self.controlled = true;
            return Value::Nothing;
        }
        if let Some(found) = self.of_text(&call, receiver.as_ref(), &values) {
            return found;
        }
        if let Some(on) = on
            && names::is_orm_write(on, name)
        {
            let reason = format!(
                "{} has a library make the SQL: it stands nowhere in the source",
                shown(&call)
            );
            self.report_unresolved(&call, reason, String::new());
            return self.computed(&values, whole);
        }
        if on.is_none() && names::writes_rows(name) {
            let reason = format!("{} makes the SQL itself", shown(&call));
            self.report_unresolved(&call, reason, String::new());
            return self.computed(&values, whole);
        }
        self.check_dynamic_call(&call, &values);
        if names::calls_routine(name) && on.is_some() {
            let reason = format!("{} calls a routine by its name", shown(&call));
            self.report_unresolved(&call, reason, String::new());
            return self.computed(&values, whole);
        }
        if let Some(found) = self.of_statement(&call, receiver.as_ref(), &values) {
            self.continues(&call, &values, &found);
            // What runs a text may be the program's own.
            let own = self.project.find(name, self.file(), None);
            self.change_references(&call, own.as_slice(), &values);
            return found;
        }
        self.check_row_write(&call, receiver.as_ref());
        if let Some(found) = self.of_rows(&call, receiver.as_ref(), &values) {
            return found;
        }
        let by_class = self.methods_called(&call);
        let is_with = matches!(name, names::ENTERS | names::LEAVES);
        if is_with && by_class.is_empty() {
            // What a library's object is entered as is as good as the object.
            return receiver
                .filter(|_| name == names::ENTERS)
                .unwrap_or(Value::Nothing);
        }
        let function = match &*by_class {
            [] => self.function_called(&call, receiver.as_ref()),
            [one] => Some(*one),
            _ => None,
        };
        let functions = match by_class.is_empty() {
            true => self.functions_called(function, &call, receiver.as_ref()),
            false => by_class.to_vec(),
        };
        match functions.as_slice() {
            [] => {}
            [at] => {
                if self.belongs(*at, &call, receiver.as_ref()) && self.may_enter(*at, &call) {
                    let found = self.follow(*at, &values, &call);
                    self.change_references(&call, &functions, &values);
                    return match self.makes(&call).is_some() {
                        // What it made, and not what the constructor returns.
                        true => self.made_with(&call, &values),
                        false => found,
                    };
                }
                self.facts.called.insert(*at);
            }
            several if several.len() <= CANDIDATES_MAX => {
                if let Some(found) = self.follow_any_of(several, &values, &call, receiver.as_ref())
                {
                    return found;
                }
            }
            several => {
                self.facts.called.extend(several);
                if several.iter().any(|at| self.project.functions[*at].reaches) {
                    let reason = format!(
                        "{} is one of several functions of that name: what it runs is not known",
                        shown(&call)
                    );
                    self.report_possible(&call, reason);
                }
            }
        }
        if on.and_then(Expression::last_name).is_some_and(is_own) {
            let methods = match function {
                Some(at) => vec![at],
                None => self.methods_on_self(name),
            };
            self.forget_fields(methods);
        }
        self.change_references(&call, &functions, &values);
        let is_told = self.check_unknown_sql(&call, &values);
        if !is_told && function.is_none() {
            self.check_external_call(&call, receiver.as_ref(), &values);
            self.check_callable_value(&call, receiver.as_ref());
        } else if !is_told && by_class.is_empty() && on.is_some() {
            // The only function of that name may be another's.
            self.check_passed_connection(&call, &values);
        }
        let opens = |at: &usize| self.project.functions[*at].opens;
        let opened = functions.iter().any(opens);
        let returned = self.follow_callbacks(&call, &values, opened);
        self.changes(&call, receiver.as_ref(), &values);
        match (function, returned) {
            (None, Some(returned)) => returned,
            _ => {
                let all: Vec<Value> = receiver.into_iter().chain(values).collect();
                self.made_with(&call, &all)
            }
        }
    }

    /// JavaScript's functions that are called with what a statement has come to.
    fn continues(&mut self, call: &Call<'_>, values: &[Value], found: &Value) {
        let language = self.project.sources[self.file()].language;
        let is_script = matches!(language, Language::JavaScript | Language::TypeScript);
        let Some(Value::Function(at)) = values.last().filter(|_| is_script) else {
            return;
        };
        let inner = call.for_callback();
        if self.project.functions[*at].nested && self.may_enter(*at, &inner) {
            // What went wrong comes first.
            let given = [Value::Nothing, found.clone()];
            self.steps.push(Vec::new());
            self.follow(*at, &given, &inner);
            let steps = self.steps.pop().unwrap_or_default();
            self.either(vec![(call.whole.range.start, steps)]);
        }
    }

    /// Texts of which the first begins as SQL does, one behind the other.
    fn text_in_lines(&mut self, lines: &[Value], whole: &Expression) -> Option<Value> {
        let Some(Value::Text(first)) = lines.first() else {
            return None;
        };
        if !first.iter().any(FoldedText::is_sql) || lines.len() < 2 {
            return None;
        }
        let between = Literal {
            text: " ".into(),
            places: [file_offset(whole.range.start)].into(),
        };
        let between = [FoldedText::known(self.file(), &between)];
        self.list_joined(&between, Some(&Value::List(lines.to_vec())), whole)
    }

    /// What a call has made of some values.
    fn made_with(&mut self, call: &Call<'_>, values: &[Value]) -> Value {
        let from_database = self.leads_to_database(call.callee) == Certainty::Certain
            || self.is_given_connection(call)
            || names::opens(call.name)
            || self.runs_in_transaction(call.whole);
        match self.computed(values, call.whole) {
            Value::Scalar(mut scalar) => {
                scalar.database |= from_database;
                Value::Scalar(scalar)
            }
            other => other,
        }
    }

    /// What works on texts, numbers and maps alone.
    fn of_text(
        &mut self,
        call: &Call<'_>,
        receiver: Option<&Value>,
        values: &[Value],
    ) -> Option<Value> {
        let name = call.name.to_ascii_lowercase();
        let whole = call.whole;
        let rest = |from: usize| Value::List(values.get(from..).unwrap_or_default().to_vec());
        // A single list of values is as good as they are.
        let flat = |value: Value| match value {
            Value::List(mut inner) if inner.len() == 1 && matches!(inner[0], Value::List(_)) => {
                inner.swap_remove(0)
            }
            other => other,
        };
        match (name.as_str(), receiver) {
            ("format" | "formatted", Some(Value::Text(texts))) => {
                let texts = texts.clone();
                let python = self.project.sources[self.file()].language == Language::Python;
                let of = if python {
                    Format::Braces
                } else {
                    Format::Percent
                };
                let given = match call.arguments.iter().any(|a| a.name.is_some()) {
                    true => Value::Map(
                        call.arguments
                            .iter()
                            .zip(values)
                            .map(|(a, v)| (a.name.clone().unwrap_or_default(), v.clone()))
                            .collect(),
                    ),
                    false => rest(0),
                };
                Some(self.formatted(&texts, of, &given, whole))
            }
            ("format" | "sprintf" | "vsprintf", _) => match values.first() {
                Some(Value::Text(texts)) => {
                    let texts = texts.clone();
                    Some(self.formatted(&texts, Format::Percent, &flat(rest(1)), whole))
                }
                _ => None,
            },
            (
                "tostring" | "trim" | "strip" | "stripindent" | "trimindent" | "intern"
                | "trimspace" | "dedent" | "valueof" | "string" | "str" | "strval" | "lstrip"
                | "rstrip" | "trimmargin" | "striptrailing",
                _,
            ) => match (receiver, values.first()) {
                (Some(Value::Text(texts)), _) => Some(Value::Text(texts.clone())),
                (_, Some(Value::Text(texts))) => Some(Value::Text(texts.clone())),
                (_, Some(Value::Scalar(scalar))) if values.len() == 1 => {
                    Some(Value::Scalar(scalar.clone()))
                }
                _ => None,
            },
            ("concat", Some(text @ Value::Text(_))) => {
                let all: Vec<Value> = std::iter::once(text.clone())
                    .chain(values.iter().cloned())
                    .collect();
                Some(self.one_behind_other(&all, whole))
            }
            ("new stringbuilder" | "new stringbuffer" | "new string", _) => {
                Some(match values.first() {
                    Some(Value::Text(texts)) => Value::Text(texts.clone()),
                    _ => Value::Text(vec![FoldedText::default()]),
                })
            }
            ("append" | "writestring" | "insert", Some(old @ Value::Text(_))) => {
                let all = [vec![old.clone()], values.to_vec()].concat();
                let new = match name == "insert" {
                    // Somewhere in it.
                    true => self.computed(&all, whole),
                    false => self.one_behind_other(&all, whole),
                };
                if let Some(path) = call.on.and_then(Expression::path) {
                    self.state.variables.insert(&path, new.clone());
                }
                Some(new)
            }
            ("append" | "push" | "add" | "extend" | "addall", Some(Value::List(old)))
                if call.on.and_then(Expression::path).is_some() =>
            {
                let mut all = old.clone();
                all.extend(values.iter().cloned());
                let known = matches!(name.as_str(), "append" | "push" | "add");
                let new = match known {
                    true => Value::List(all),
                    false => self.computed(&all, whole),
                };
                let new = match new.is_too_big() {
                    true => self.computed(std::slice::from_ref(&new), whole),
                    false => new,
                };
                if let Some(path) = call.on.and_then(Expression::path) {
                    self.state.variables.insert(&path, new.clone());
                }
                Some(new)
            }
            ("join", Some(Value::Text(between))) => {
                self.list_joined(&between.clone(), values.first(), whole)
            }
            ("join" | "implode", _) => match (values.first(), values.get(1), receiver) {
                (Some(Value::Text(between)), Some(list), _) => {
                    self.list_joined(&between.clone(), Some(list), whole)
                }
                (Some(Value::Text(between)), None, Some(list @ Value::List(_))) => {
                    self.list_joined(&between.clone(), Some(&list.clone()), whole)
                }
                _ => None,
            },
            (
                "int" | "intval" | "parseint" | "number" | "parselong" | "itoa" | "formatint"
                | "float" | "floatval" | "parsefloat" | "parsedouble" | "quote"
                | "pg_escape_literal" | "escape_literal" | "escape",
                _,
            ) if !values.is_empty() => {
                let read = values.iter().flat_map(Value::read).collect();
                let text = self.source(&whole.range);
                Some(match &values[0] {
                    Value::Scalar(scalar) if values.len() == 1 => {
                        let mut scalar = scalar.clone();
                        scalar.number = true;
                        Value::Scalar(scalar)
                    }
                    _ => self.scalar(text, read, true),
                })
            }
            (
                "mysqli_real_escape_string"
                | "real_escape_string"
                | "pg_escape_string"
                | "addslashes",
                _,
            ) => values.last().cloned(),
            ("of" | "entry" | "ofentries", _)
                if call.on.is_some_and(|on| on.last_name() == Some("Map")) =>
            {
                let mut pairs = Vec::new();
                for pair in values.chunks(2) {
                    if let [Value::Text(key), value] = pair
                        && let [key] = key.as_slice()
                    {
                        pairs.push((key.shown(), value.clone()));
                    }
                }
                Some(Value::Map(pairs))
            }
            ("of" | "aslist", _)
                if call
                    .on
                    .is_some_and(|on| matches!(on.last_name(), Some("List" | "Arrays"))) =>
            {
                Some(rest(0))
            }
            ("array", None) => Some(rest(0)),
            _ if name.starts_with("new ")
                && (name.ends_with("parametersource") || name.contains("hashmap")) =>
            {
                Some(Value::Map(match values {
                    [Value::Text(key), value] if key.len() == 1 => {
                        vec![(key[0].shown(), value.clone())]
                    }
                    _ => Vec::new(),
                }))
            }
            ("addvalue" | "put" | "set", Some(Value::Map(pairs))) => {
                let [Value::Text(key), value, ..] = values else {
                    return None;
                };
                let mut pairs = pairs.clone();
                pairs.push((
                    key.first().map_or_else(String::new, FoldedText::shown),
                    value.clone(),
                ));
                let new = match Value::Map(pairs) {
                    new if new.is_too_big() => self.computed(std::slice::from_ref(&new), whole),
                    new => new,
                };
                if let Some(path) = call.on.and_then(Expression::path) {
                    self.state.variables.insert(&path, new.clone());
                }
                Some(new)
            }
            _ => None,
        }
    }

    fn list_joined(
        &mut self,
        between: &[FoldedText],
        list: Option<&Value>,
        whole: &Expression,
    ) -> Option<Value> {
        let Some(Value::List(parts)) = list else {
            return Some(self.computed(&[Value::Nothing], whole));
        };
        let mut all = Vec::new();
        for part in parts {
            if !all.is_empty() {
                all.push(Value::Text(between.to_vec()));
            }
            all.push(part.clone());
        }
        match all.is_empty() {
            true => None,
            false => Some(self.one_behind_other(&all, whole)),
        }
    }

    /// Tells where the function that is followed calls itself, if something has run meanwhile: that runs again,
    /// with values that nobody knows. Where nothing does, nothing does again.
    pub(super) fn report_recursion(&mut self) {
        let (function, before) = (self.frame().function, self.frame().ran);
        let is_own = |(at, _): &(usize, Unresolved)| Some(*at) == function;
        let all = std::mem::take(&mut self.recursive_calls);
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_own);
        self.recursive_calls = others;
        if self.ran > before && !self.constants {
            own.into_iter().for_each(|(_, told)| self.unresolved(told));
        }
    }

    /// A function with these arguments.
    pub(super) fn follow(&mut self, at: usize, values: &[Value], call: &Call<'_>) -> Value {
        let Some(key) = self.summary_key(at, values, call) else {
            return self.follow_uncached(at, values, call).0;
        };
        if let Some(known) = self.cached_result(&key, values) {
            self.facts.joined.insert(at);
            return known;
        }
        let call_state = self.call_state();
        let (returned, written) = self.follow_uncached(at, values, call);
        self.store_summary(key, &call_state, values, (&returned, written));
        returned
    }

    /// The same; with what it writes in variables that are not its own.
    fn follow_uncached(
        &mut self,
        at: usize,
        values: &[Value],
        call: &Call<'_>,
    ) -> (Value, Written) {
        let declared = &self.project.functions[at];
        self.facts.joined.insert(at);
        let outer = self.state.variables.clone();
        if !declared.nested {
            // Its own variables alone, and the fields of the object.
            let same = declared.class == self.frame().class;
            self.state
                .variables
                .forget(|name, _| !same || !is_field(name));
        }
        let method = self.project.sources[declared.file].language == Language::Python
            && declared
                .function
                .parameters
                .first()
                .is_some_and(|p| matches!(p.name.as_str(), "self" | "cls"))
            && (call.on.is_some() || declared.name == "__init__");
        for (number, parameter) in declared.function.parameters.iter().enumerate() {
            let place = match method {
                true => number.checked_sub(1),
                false => Some(number),
            };
            let named = call
                .arguments
                .iter()
                .position(|a| a.name.as_deref() == Some(&parameter.name));
            let spread = call.arguments.iter().any(|a| a.spread);
            let given = named
                .or_else(|| place.filter(|_| !spread))
                .and_then(|n| values.get(n).cloned());
            let value = match given {
                Some(value) => value,
                None => self.scalar(
                    &parameter.name,
                    Vec::new(),
                    super::is_number(&parameter.of_type),
                ),
            };
            // What is known of the parts of another of this name is not known of its.
            if declared.owns(&parameter.name) {
                let parts = format!("{}.", parameter.name);
                self.state
                    .variables
                    .forget(|name, _| name.starts_with(&parts));
            }
            self.state.variables.insert(&parameter.name, value);
        }
        self.frames.push(Frame {
            function: Some(at),
            file: declared.file,
            class: declared.class.clone(),
            returns: Vec::new(),
            ran: self.ran,
        });
        let exits = std::mem::take(&mut self.exits);
        let aborted = self.aborted;
        if declared.function.is_abstract {
            self.annotations(declared.function);
        }
        self.decorators(declared.function);
        self.block(&declared.function.body);
        self.aborted = aborted;
        self.exits = exits;
        self.report_recursion();
        let frame = self.frames.pop();
        let inner = std::mem::replace(&mut self.state.variables, outer);
        let same = declared.class == self.frame().class;
        let mut written = Written::new();
        for (name, value) in inner.iter() {
            let is_kept = |known: &Arc<Value>| Arc::ptr_eq(known, value);
            let of = name.split('.').next().unwrap_or_default();
            if self.state.variables.shared(name).is_some_and(is_kept) || declared.owns(of) {
                continue;
            }
            written.push((name.clone(), value.clone()));
        }
        for (name, value) in &written {
            // What it changes of its surroundings stays changed, and what it changes of its object.
            let known = self.state.variables.shared(name).cloned();
            match known {
                Some(_) if declared.nested => self.state.variables.share(name, value.clone()),
                None if declared.nested => {}
                _ if !is_field(name) => {}
                // A method of another class may be inherited, or be another object's.
                Some(known) if !same => {
                    let either = self.join(name, &known, value);
                    self.state.variables.share(name, Arc::new(either));
                }
                _ => self.state.variables.share(name, value.clone()),
            }
        }
        self.restore_handles();
        let returns = frame.map_or_else(Vec::new, |f| f.returns);
        let mut returns = returns.into_iter();
        let mut returned = returns.next().unwrap_or(Value::Nothing);
        for other in returns {
            returned = self.join(call.name, &returned, &other);
        }
        (returned, written)
    }

    /// Functions that are handed over are called by whoever has them.
    /// `opened`: by what opens a transaction.
    fn follow_callbacks(
        &mut self,
        call: &Call<'_>,
        values: &[Value],
        opened: bool,
    ) -> Option<Value> {
        let mut returned = None;
        let outside = self.frame().function.is_none();
        let path = match values.first() {
            Some(Value::Text(texts)) => texts
                .first()
                .map(FoldedText::shown)
                .filter(|t| t.starts_with('/')),
            _ => None,
        };
        for (argument, value) in call.arguments.iter().zip(values) {
            let told = self.function_given(call, value);
            let Some(at) = &told else {
                continue;
            };
            if self.constants {
                continue;
            }
            if names::is_route(call.name) && (path.is_some() || outside) {
                let name = match &path {
                    Some(path) => format!("{} {path}", call.name.to_lowercase()),
                    None => self.project.functions[*at].name.clone(),
                };
                self.facts.routes.insert(*at, name);
                continue;
            }
            if outside && matches!(argument.value.kind, ExpressionKind::Name(_)) {
                continue;
            }
            let declared = &self.project.functions[*at];
            let is_named = matches!(
                argument.value.kind,
                ExpressionKind::Name(_) | ExpressionKind::List(_) | ExpressionKind::Text(_)
            );
            if !declared.nested && !is_named {
                continue;
            }
            let inner = call.for_callback();
            let at = *at;
            if !self.may_enter(at, &inner) {
                continue;
            }
            if names::calls_repeatedly(call.name) {
                self.repeat(&mut |walk: &mut Self| {
                    walk.follow(at, &[], &inner);
                });
            } else if names::calls_once(call.name) || opened {
                let given = self.connections_for(at);
                let begun = opened || names::runs_in_a_transaction(call.on, call.name);
                self.transactions += usize::from(begun);
                returned = Some(self.follow(at, &given, &inner));
                self.transactions -= usize::from(begun);
            } else {
                let before = self.state.clone();
                self.steps.push(Vec::new());
                let found = self.follow(at, &[], &inner);
                let steps = self.steps.pop().unwrap_or_default();
                let after = std::mem::take(&mut self.state);
                self.state = self.join_states(before, after);
                self.restore_handles();
                self.either(vec![(argument.value.range.start, steps)]);
                returned = Some(self.computed(&[found], call.whole));
            }
        }
        returned
    }

    /// The function that an argument is, or that it names: `call_user_func('take_all')`.
    fn function_given(&self, call: &Call<'_>, value: &Value) -> Option<usize> {
        match value {
            Value::Function(at) => Some(*at),
            Value::Text(texts) if names::calls_by_name(call.name) => match texts.as_slice() {
                [one] => self.project.find(&one.shown(), self.file(), None),
                _ => None,
            },
            _ => None,
        }
    }

    /// What a function is given that is handed to who opens a transaction: something that runs in it.
    fn connections_for(&mut self, at: usize) -> Vec<Value> {
        let parameters = &self.project.functions[at].function.parameters;
        let mut given = Vec::new();
        for parameter in parameters {
            let mut value = self.plain(&parameter.name, Vec::new(), false);
            value.database = true;
            given.push(Value::Scalar(value));
        }
        given
    }

    /// What a call may change of what it is given.
    fn changes(&mut self, call: &Call<'_>, receiver: Option<&Value>, values: &[Value]) {
        // What is known of an object's parts may be so no more once others have had it.
        let given = call.arguments.iter().map(|a| &a.value).chain(call.on);
        for path in given.filter_map(Expression::path) {
            let parts = format!("{path}.");
            self.state.variables.forget(|name, value| {
                name.starts_with(&parts) && matches!(value, Value::Scalar(_))
            });
        }
        for argument in call.arguments {
            if let ExpressionKind::Reference(target) = &argument.value.kind {
                let value = self.computed(values, target);
                self.assign(target, value);
            }
        }
        // An object that is given what was read has it in it.
        let read = values.iter().any(Value::has_read);
        if let (true, Some(on), Some(receiver @ Value::Scalar(_))) = (read, call.on, receiver)
            && let Some(path) = on.path()
            && self.state.variables.contains(&path)
            && !names::is_connection(&path)
        {
            let all = [vec![receiver.clone()], values.to_vec()].concat();
            let value = self.computed(&all, on);
            let parts = format!("{path}.");
            self.state
                .variables
                .forget(|name, _| name.starts_with(&parts));
            self.state.variables.insert(&path, value);
        }
    }

    /// What the arguments from one on bind: a list or a map of values, or values.
    pub(super) fn bound_by(&mut self, call: &Call<'_>, values: &[Value], from: usize) -> Bound {
        let mut bound = Bound::default();
        let mut next = 0;
        let several = values.len().saturating_sub(from) > 1;
        for (argument, value) in call.arguments.iter().zip(values).skip(from) {
            if let Some(name) = &argument.name {
                match value {
                    Value::Map(pairs) => bound.named.extend(pairs.iter().cloned()),
                    Value::List(list)
                        if matches!(name.as_str(), "params" | "parameters" | "args") =>
                    {
                        bound.positional.extend(list.iter().cloned().enumerate());
                    }
                    _ => {
                        bound.named.insert(name.clone(), value.clone());
                    }
                }
                continue;
            }
            match value {
                Value::Function(_) => {}
                Value::Map(pairs) => {
                    for (name, value) in pairs {
                        bound.named.insert(
                            name.trim_start_matches([':', '@', '$']).to_owned(),
                            value.clone(),
                        );
                    }
                }
                // One list is all of them; one among others is a value.
                Value::List(list)
                    if next == 0 && !argument.spread && (!several || is_list(&argument.value)) =>
                {
                    for value in list {
                        bound.positional.insert(next, value.clone());
                        next += 1;
                    }
                }
                _ if is_class(&argument.value) || is_mapper(&argument.value) => {}
                _ if argument.spread => bound.unsure = true,
                Value::Scalar(_) if !several && is_value_list(&argument.value) => {
                    bound.unsure = true
                }
                _ => {
                    bound.positional.insert(next, value.clone());
                    next += 1;
                }
            }
        }
        bound
    }

    /// A function's annotations, which may be the SQL that it runs.
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
                    "@Query is in the words of the mapper's objects, not of tables".to_owned(),
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
}

/// Whether a name is that of the object, or the class, whose method is followed.
pub(super) fn is_own(name: &str) -> bool {
    matches!(
        name,
        "this" | "self" | "cls" | "static" | "super" | "parent" | "exports"
    )
}

/// The call as it is told to people.
pub(super) fn shown(call: &Call<'_>) -> String {
    match call.callee.path() {
        Some(path) => format!("{path}()"),
        None => format!("{}()", call.name),
    }
}

/// `Account.class`, which is no value.
fn is_class(value: &Expression) -> bool {
    let name = value.last_name().unwrap_or_default();
    name == "class" || matches!(&value.kind, ExpressionKind::Other(parts) if parts.is_empty())
}

/// What makes objects of rows.
fn is_mapper(value: &Expression) -> bool {
    let name = value.last_name().unwrap_or_default().to_ascii_lowercase();
    name.contains("mapper") || name.contains("extractor") || name.contains("rowtype")
}

/// A name that is likely one of many values.
fn is_value_list(value: &Expression) -> bool {
    let name = value.last_name().unwrap_or_default().to_ascii_lowercase();
    [
        "params",
        "args",
        "arguments",
        "bindings",
        "values",
        "parameters",
        "binds",
    ]
    .iter()
    .any(|end| name.ends_with(end))
}

fn is_list(value: &Expression) -> bool {
    matches!(value.kind, ExpressionKind::List(_))
}

pub(super) fn start(call: &Call<'_>) -> u32 {
    file_offset(call.whole.range.start)
}
