//! Evaluates calls: their results and their effects.

use std::{collections::BTreeSet, rc::Rc, sync::Arc};

use anabranch_sql::script::Unresolved;

use super::{
    ALTERNATIVES_MAX, Bound, CANDIDATES_MAX, CalledFunction, Frame, Walk, WalkedStep,
    expression::file_offset,
    state::{Variables, Written, is_field},
};
use crate::{
    fold::Format,
    language::Language,
    names::{self, Certainty},
    numbers::{counts, is_number, is_typed},
    objects::{Classes, is_own},
    syntax::{Argument, Expression, ExpressionKind, Literal},
    value::{FoldedText, Value},
};

/// A call under evaluation.
pub(super) struct Call<'e> {
    pub(super) whole: &'e Expression,
    pub(super) callee: &'e Expression,
    pub(super) arguments: &'e [Argument],
    pub(super) name: &'e str,
    /// The receiver expression.
    pub(super) on: Option<&'e Expression>,
    /// The receiver's possible classes; empty if unknown.
    pub(super) classes: Rc<Classes>,
}

impl<'e> Call<'e> {
    /// The call of a callback that this call receives.
    pub(super) fn for_callback(&self) -> Call<'e> {
        Call {
            arguments: &[],
            on: None,
            classes: Rc::default(),
            ..*self
        }
    }

    /// The call of a method without call syntax, such as an accessor.
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
                // The callee is itself computed.
                _ => Some(self.evaluate(callee)),
            },
        };
        let mut values: Vec<Value> = arguments.iter().map(|a| self.evaluate(&a.value)).collect();
        if self.gave_up {
            return Value::Nothing;
        }
        let mut whole_values = values.clone();
        values = values
            .into_iter()
            .map(|value| self.without_choice(value, whole))
            .collect();
        // Some APIs take a text as a list of lines.
        if names::takes_sql(call.name)
            && let Some(Value::List(lines)) = values.first()
            && let Some(text) = self.text_in_lines(&lines.clone(), whole)
        {
            values[0] = text.clone();
            whole_values[0] = text;
        }
        match self.call_by_convention(&call, receiver.as_ref(), &values) {
            Some(found) => found,
            None => self.call_of_program(&call, receiver, whole_values),
        }
    }

    /// Evaluates a call that its name identifies: transaction control, functions on texts, a library that generates SQL,
    /// statements and rows.
    fn call_by_convention(
        &mut self,
        call: &Call<'_>,
        receiver: Option<&Value>,
        values: &[Value],
    ) -> Option<Value> {
        let name = call.name;
        if names::rolls_back(name) {
            self.aborted = true;
            self.push(WalkedStep::Ends);
            return Some(Value::Nothing);
        }
        if names::commits(name) {
            self.committed = true;
            self.controlled = true;
            self.push(WalkedStep::Ends);
            return Some(Value::Nothing);
        }
        if let Some(found) = self.of_text(call, receiver, values) {
            return Some(found);
        }
        if let Some(reason) = generates_sql(call).or_else(|| self.of_entitys_base(call)) {
            self.report_unresolved(call, reason, String::new());
            return Some(self.computed(values, call.whole));
        }
        self.check_dynamic_call(call, values);
        if names::calls_routine(name) && call.on.is_some() {
            let reason = format!("{} calls a stored routine by name", shown(call));
            self.report_unresolved(call, reason, String::new());
            return Some(self.computed(values, call.whole));
        }
        if let Some(found) = self.of_statement(call, receiver, values) {
            self.continues(call, values, &found);
            // A function that runs a text may belong to the program.
            let own = self.project.find(name, self.file(), None);
            self.change_references(call, own.as_slice(), values);
            return Some(found);
        }
        self.check_row_write(call, receiver);
        self.of_rows(call, receiver, values)
    }

    /// Evaluates a call of the program's own functions, or of unknown ones.
    fn call_of_program(
        &mut self,
        call: &Call<'_>,
        receiver: Option<Value>,
        values: Vec<Value>,
    ) -> Value {
        let name = call.name;
        let chosen = self.functions_chosen(call, receiver.as_ref());
        let by_class = match chosen.is_empty() {
            true => self.methods_called(call),
            false => Rc::default(),
        };
        let is_with = matches!(name, names::ENTERS | names::LEAVES);
        if name == names::LEAVES && self.is_transaction_of_with(call) {
            self.push(WalkedStep::Ends);
        }
        if is_with && by_class.is_empty() {
            // Entering a library's context object returns the object.
            return receiver
                .filter(|_| name == names::ENTERS)
                .unwrap_or(Value::Nothing);
        }
        let function = match &*by_class {
            _ if !chosen.is_empty() => None,
            [] => self.function_called(call, receiver.as_ref()),
            [one] => Some(*one),
            _ => None,
        };
        let is_listed = !chosen.is_empty() || !by_class.is_empty();
        let functions = match by_class.is_empty() {
            _ if !chosen.is_empty() => chosen,
            true => self.functions_called(function, call, receiver.as_ref()),
            false => by_class.to_vec(),
        };
        let most = match is_listed {
            true => ALTERNATIVES_MAX,
            false => CANDIDATES_MAX,
        };
        if let Some(found) =
            self.follow_candidates((&functions, most), call, receiver.as_ref(), &values)
        {
            return found;
        }
        let values: Vec<Value> = values
            .into_iter()
            .map(|value| self.without_choice(value, call.whole))
            .collect();
        if call.on.and_then(Expression::last_name).is_some_and(is_own) {
            let methods = match function {
                Some(at) => vec![at],
                None => self.methods_on_self(name),
            };
            self.forget_fields(methods);
        }
        self.change_references(call, &functions, &values);
        let is_reported = self.check_unknown_sql(call, &values);
        if !is_reported && function.is_none() {
            self.check_external_call(call, receiver.as_ref(), &values);
            self.check_callable_value(call, receiver.as_ref());
        } else if !is_reported && by_class.is_empty() && call.on.is_some() {
            // The only function of this name may belong to another class.
            self.check_passed_connection(call, &values);
        }
        let opens = |at: &usize| self.project.functions[*at].opens;
        let opened = functions.iter().any(opens);
        let returned = self.follow_callbacks(call, &values, opened);
        self.changes(call, receiver.as_ref(), &values);
        match (function, returned) {
            (None, Some(returned)) => returned,
            _ => {
                let all: Vec<Value> = receiver.into_iter().chain(values).collect();
                self.made_with(call, &all)
            }
        }
    }

    /// Follows the functions that a call may mean. `None` if none of them is followed.
    fn follow_candidates(
        &mut self,
        (functions, most): (&[usize], usize),
        call: &Call<'_>,
        receiver: Option<&Value>,
        values: &[Value],
    ) -> Option<Value> {
        match functions {
            [] => None,
            [at] => {
                if self.belongs(*at, call, receiver) && self.may_enter(*at, call) {
                    let found = self.follow(*at, values, call);
                    self.change_references(call, functions, values);
                    return Some(match self.makes(call).is_some() {
                        // The new object, not the constructor's return value.
                        true => self.made_with(call, values),
                        false => found,
                    });
                }
                self.facts.called.insert(*at);
                None
            }
            several if several.len() <= most => self.follow_any_of(several, values, call, receiver),
            several => {
                self.facts.called.extend(several);
                if several.iter().any(|at| self.project.functions[*at].reaches) {
                    let reason = format!(
                        "{} may be any of several functions with this name: the SQL that it runs \
                         is not known",
                        shown(call)
                    );
                    self.report_possible(call, reason);
                }
                None
            }
        }
    }

    /// JavaScript callbacks that receive a statement's result.
    fn continues(&mut self, call: &Call<'_>, values: &[Value], found: &Value) {
        let language = self.project.sources[self.file()].language;
        let is_script = matches!(language, Language::JavaScript | Language::TypeScript);
        let Some(Value::Function(at)) = values.last().filter(|_| is_script) else {
            return;
        };
        let inner = call.for_callback();
        if self.project.functions[*at].nested && self.may_enter(*at, &inner) {
            // The error argument comes first.
            let given = [Value::Nothing, found.clone()];
            self.steps.push(Vec::new());
            self.follow(*at, &given, &inner);
            let steps = self.steps.pop().unwrap_or_default();
            self.either(vec![(call.whole.range.start, steps)]);
        }
    }

    /// Joins lines into one text if the first begins like SQL.
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

    /// The result of a call that is computed from these values.
    fn made_with(&mut self, call: &Call<'_>, values: &[Value]) -> Value {
        let from_database = self.leads_to_database(call.callee) == Certainty::Certain
            || self.is_given_connection(call)
            || names::opens(call.name)
            || self.runs_in_transaction(call.whole);
        let language = self.project.sources[self.file()].language;
        let is_number = counts(call.name, language) && !self.project.has(call.name, language);
        match self.computed(values, call.whole) {
            Value::Scalar(mut scalar) => {
                scalar.number |= is_number;
                scalar.database |= from_database;
                Value::Scalar(scalar)
            }
            other => other,
        }
    }

    /// Evaluates functions on texts, numbers, lists and maps.
    fn of_text(
        &mut self,
        call: &Call<'_>,
        receiver: Option<&Value>,
        values: &[Value],
    ) -> Option<Value> {
        let name = call.name.to_ascii_lowercase();
        let whole = call.whole;
        match (name.as_str(), receiver) {
            ("format" | "formatted", Some(Value::Text(texts))) => {
                Some(self.formatted_method(call, texts, values))
            }
            ("format" | "sprintf" | "vsprintf", _) => match values.first() {
                Some(Value::Text(texts)) => {
                    let given = flat(list_from(values, 1));
                    Some(self.formatted(texts, Format::Percent, &given, whole))
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
                let all = [std::slice::from_ref(text), values].concat();
                Some(self.concatenated(&all, whole))
            }
            ("new stringbuilder" | "new stringbuffer" | "new string", _) => {
                Some(match values.first() {
                    Some(Value::Text(texts)) => Value::Text(texts.clone()),
                    _ => Value::Text(vec![FoldedText::default()]),
                })
            }
            ("append" | "writestring" | "insert", Some(old @ Value::Text(_))) => {
                let all = [std::slice::from_ref(old), values].concat();
                let new = match name == "insert" {
                    // At an unknown position.
                    true => self.computed(&all, whole),
                    false => self.concatenated(&all, whole),
                };
                Some(self.keep_in_receiver(call, new))
            }
            ("append" | "push" | "add" | "extend" | "addall", Some(Value::List(old)))
                if call.on.and_then(Expression::path).is_some() =>
            {
                let all = Value::List([old.as_slice(), values].concat());
                let new = match name.as_str() {
                    "append" | "push" | "add" => all,
                    _ => {
                        let Value::List(all) = all else { return None };
                        self.computed(&all, whole)
                    }
                };
                let new = self.bounded(new, whole);
                Some(self.keep_in_receiver(call, new))
            }
            ("join", Some(Value::Text(between))) => {
                self.list_joined(between, values.first(), whole)
            }
            ("join" | "implode", _) => match (values.first(), values.get(1), receiver) {
                (Some(Value::Text(between)), Some(list), _)
                | (Some(Value::Text(between)), None, Some(list @ Value::List(_))) => {
                    self.list_joined(between, Some(list), whole)
                }
                _ => None,
            },
            (
                "int" | "intval" | "parseint" | "number" | "parselong" | "itoa" | "formatint"
                | "float" | "floatval" | "parsefloat" | "parsedouble" | "quote"
                | "pg_escape_literal" | "escape_literal" | "escape",
                _,
            ) if !values.is_empty() => Some(self.number_from(values, whole)),
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
                Some(map_of(values))
            }
            ("of" | "aslist", _)
                if call
                    .on
                    .is_some_and(|on| matches!(on.last_name(), Some("List" | "Arrays"))) =>
            {
                Some(list_from(values, 0))
            }
            ("array", None) => Some(list_from(values, 0)),
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
            ("get" | "getordefault" | "at", Some(table @ Value::Map(_))) => {
                self.function_in_table(table, values)
            }
            ("addvalue" | "put" | "set", Some(Value::Map(pairs))) => {
                let [Value::Text(key), value, ..] = values else {
                    return None;
                };
                let key = key.first().map_or_else(String::new, FoldedText::shown);
                let mut pairs = pairs.clone();
                pairs.push((key, value.clone()));
                let new = self.bounded(Value::Map(pairs), whole);
                Some(self.keep_in_receiver(call, new))
            }
            _ => None,
        }
    }

    /// A text's own formatting method: Python's `format` takes braces, Java's `formatted` percent signs.
    fn formatted_method(
        &mut self,
        call: &Call<'_>,
        texts: &[FoldedText],
        values: &[Value],
    ) -> Value {
        let of = match self.project.sources[self.file()].language {
            Language::Python => Format::Braces,
            _ => Format::Percent,
        };
        let given = match call.arguments.iter().any(|a| a.name.is_some()) {
            true => {
                let named = call.arguments.iter().zip(values);
                let named = named.map(|(a, v)| (a.name.clone().unwrap_or_default(), v.clone()));
                Value::Map(named.collect())
            }
            false => list_from(values, 0),
        };
        self.formatted(texts, of, &given, call.whole)
    }

    /// The result of a conversion to a number, or to a quoted literal.
    fn number_from(&mut self, values: &[Value], whole: &Expression) -> Value {
        if let [Value::Scalar(scalar)] = values {
            let mut scalar = scalar.clone();
            scalar.number = true;
            return Value::Scalar(scalar);
        }
        let read = values.iter().flat_map(Value::read).collect();
        let text = self.source(&whole.range);
        self.scalar(text, read, true)
    }

    /// The value, or an unknown one computed from it if it is too big.
    fn bounded(&mut self, value: Value, whole: &Expression) -> Value {
        match value.is_too_big() {
            true => self.computed(std::slice::from_ref(&value), whole),
            false => value,
        }
    }

    /// Stores the new value of a call's receiver, and returns it.
    fn keep_in_receiver(&mut self, call: &Call<'_>, new: Value) -> Value {
        if let Some(path) = call.on.and_then(Expression::path) {
            self.state.variables.insert(&path, new.clone());
        }
        new
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
            false => Some(self.concatenated(&all, whole)),
        }
    }

    /// Reports recursive calls of the current function if it runs SQL: the SQL then runs again with unknown values.
    pub(super) fn report_recursion(&mut self) {
        let (function, before) = (self.frame().function, self.frame().ran);
        let is_own = |(at, _): &(usize, Unresolved)| Some(*at) == function;
        let all = std::mem::take(&mut self.recursive_calls);
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_own);
        self.recursive_calls = others;
        if self.ran > before && !self.constants {
            own.into_iter()
                .for_each(|(_, recursive)| self.unresolved(recursive));
        }
    }

    /// Follows a call of a function, or applies its cached summary.
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

    /// Follows a call of a function. Returns its result and its writes to outer variables.
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
            // Only its own variables, and the fields of the same object, are visible.
            let same = declared.class == self.frame().class;
            self.state
                .variables
                .forget(|name, _| !same || !is_field(name));
        }
        self.bind_parameters(at, values, call);
        self.frames.push(Frame {
            function: Some(at),
            file: declared.file,
            class: declared.class.clone(),
            returns: Vec::new(),
            ran: self.ran,
        });
        let exits = std::mem::take(&mut self.exits);
        let aborted = self.aborted;
        let known = (self.ran, self.escaped, self.recursive_calls.len());
        self.steps.push(Vec::new());
        self.entered.push(BTreeSet::from([at]));
        if declared.function.is_abstract {
            self.annotations(declared.function);
        }
        self.decorators(declared.function);
        self.block(&declared.function.body);
        self.aborted = aborted;
        self.exits = exits;
        self.report_recursion();
        let steps = self.steps.pop().unwrap_or_default();
        let entered = self.entered.pop().unwrap_or_default();
        if let Some(outer) = self.entered.last_mut() {
            outer.extend(&entered);
        }
        // Unknown SQL may run even if no step is known.
        if !steps.is_empty() || known != (self.ran, self.escaped, self.recursive_calls.len()) {
            self.push(WalkedStep::Called(CalledFunction {
                function: at,
                steps,
                entered: Rc::new(entered),
            }));
        }
        if self.is_own_transaction(at) {
            self.push(WalkedStep::Ends);
        }
        let frame = self.frames.pop();
        let inner = std::mem::replace(&mut self.state.variables, outer);
        let written = self.keep_writes(at, &inner);
        self.restore_handles();
        let returns = frame.map_or_else(Vec::new, |f| f.returns);
        let mut returns = returns.into_iter();
        let mut returned = returns.next().unwrap_or(Value::Nothing);
        for other in returns {
            returned = self.join(call.name, &returned, &other);
        }
        let language = self.project.sources[declared.file].language;
        if let Value::Scalar(scalar) = &mut returned
            && is_typed(language)
        {
            scalar.number |= is_number(&declared.function.returns);
        }
        (returned, written)
    }

    /// Assigns a call's arguments to the parameters of a function.
    fn bind_parameters(&mut self, at: usize, values: &[Value], call: &Call<'_>) {
        let declared = &self.project.functions[at];
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
                None => self.scalar(&parameter.name, Vec::new(), is_number(&parameter.of_type)),
            };
            // The parameter shadows an outer variable of this name with its parts.
            if declared.owns(&parameter.name) {
                let parts = format!("{}.", parameter.name);
                self.state
                    .variables
                    .forget(|name, _| name.starts_with(&parts));
            }
            self.state.variables.insert(&parameter.name, value);
        }
    }

    /// Applies a call's writes to outer variables, and returns them. `inner` are the variables at the call's end.
    fn keep_writes(&mut self, at: usize, inner: &Variables) -> Written {
        let declared = &self.project.functions[at];
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
            // Writes to outer variables and to the object's fields persist.
            let known = self.state.variables.shared(name).cloned();
            match known {
                Some(_) if declared.nested => self.state.variables.share(name, value.clone()),
                None if declared.nested => {}
                _ if !is_field(name) => {}
                // A method of another class may be inherited, or belong to another object.
                Some(known) if !same => {
                    let either = self.join(name, &known, value);
                    self.state.variables.share(name, Arc::new(either));
                }
                _ => self.state.variables.share(name, value.clone()),
            }
        }
        written
    }

    /// Follows the functions that a call receives as arguments. `opened` says whether the callee opens a transaction.
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
            let function = self.function_given(call, value);
            let Some(at) = &function else {
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

    /// The function that an argument is or names: `call_user_func('take_all')`.
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

    /// Arguments for a callback of a function that opens a transaction: connections in it.
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

    /// Applies a call's possible changes to its arguments and receiver.
    fn changes(&mut self, call: &Call<'_>, receiver: Option<&Value>, values: &[Value]) {
        // The callee may have changed parts of these objects.
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
        // An object that receives a read value contains it.
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

    /// The values that the arguments from `from` on bind: a list, a map, or single values.
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
                // A single list holds all values; a list among several arguments is one value.
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
}

/// The arguments from one on, as a list.
fn list_from(values: &[Value], from: usize) -> Value {
    Value::List(values.get(from..).unwrap_or_default().to_vec())
}

/// A single list counts as its elements.
fn flat(value: Value) -> Value {
    match value {
        Value::List(mut inner) if inner.len() == 1 && matches!(inner[0], Value::List(_)) => {
            inner.swap_remove(0)
        }
        other => other,
    }
}

/// Java's `Map.of(key, value, …)`.
fn map_of(values: &[Value]) -> Value {
    let mut pairs = Vec::new();
    for pair in values.chunks(2) {
        if let [Value::Text(key), value] = pair
            && let [key] = key.as_slice()
        {
            pairs.push((key.shown(), value.clone()));
        }
    }
    Value::Map(pairs)
}

/// Why the SQL of a call is not in the source, if a library generates it.
fn generates_sql(call: &Call<'_>) -> Option<String> {
    let by_mapper = call.on.is_some_and(|on| names::is_orm_write(on, call.name));
    if by_mapper {
        return Some(format!(
            "{} has a library generate the SQL, so it is not in the source",
            shown(call)
        ));
    }
    let by_driver = call.on.is_none() && names::writes_rows(call.name);
    by_driver.then(|| format!("{} generates its own SQL", shown(call)))
}

/// The call as reports show it.
pub(super) fn shown(call: &Call<'_>) -> String {
    match call.callee.path() {
        Some(path) => format!("{path}()"),
        None => format!("{}()", call.name),
    }
}

/// Whether an argument is a class literal, which binds no value.
fn is_class(value: &Expression) -> bool {
    let name = value.last_name().unwrap_or_default();
    name == "class" || matches!(&value.kind, ExpressionKind::Other(parts) if parts.is_empty())
}

/// Whether an argument is a row mapper.
fn is_mapper(value: &Expression) -> bool {
    let name = value.last_name().unwrap_or_default().to_ascii_lowercase();
    name.contains("mapper") || name.contains("extractor") || name.contains("rowtype")
}

/// Whether a name suggests a list of values.
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
