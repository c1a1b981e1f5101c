//! What an expression comes to.

use std::sync::Arc;

use super::{DEPTH_MAX, Walk};
use crate::{
    fold::{self, Format},
    guard::{Comparator, Comparison},
    language::Language,
    syntax::{Expression, ExpressionKind},
    value::{FoldedText, Piece, Read, Value},
};

impl Walk<'_, '_> {
    pub(super) fn evaluate(&mut self, value: &Expression) -> Value {
        self.work += 1;
        if self.depth >= DEPTH_MAX || self.work >= self.work_max {
            let reason = "more is called here than is followed: what it runs is not known";
            self.give_up(reason, &value.range);
        }
        if self.gave_up {
            return Value::Nothing;
        }
        self.depth += 1;
        let found = self.evaluated(value);
        self.follow_implicit_calls(value, &found);
        self.depth -= 1;
        match found {
            Value::List(_) | Value::Map(_) if found.is_too_big() => {
                self.computed(std::slice::from_ref(&found), value)
            }
            found => found,
        }
    }

    fn evaluated(&mut self, value: &Expression) -> Value {
        let shown = self.source(&value.range);
        match &value.kind {
            ExpressionKind::Text(literal) => {
                Value::Text(vec![FoldedText::known(self.file(), literal)])
            }
            ExpressionKind::Number(number) => {
                let number = number.clone();
                self.scalar(&number, Vec::new(), true)
            }
            ExpressionKind::Null => Value::Nothing,
            ExpressionKind::Name(name) => self.named(name, value),
            ExpressionKind::Member(of, name) => {
                if let Some(found) = self.follow_accessor(of, name, value, None) {
                    return found;
                }
                self.check_attribute_hook(of, name, value);
                if let Some(path) = value.path()
                    && let Some(known) = self.known(&path)
                {
                    return known;
                }
                let from = self.evaluate(of);
                self.part(&from, name, None, value)
            }
            ExpressionKind::Index(of, at) => {
                self.check_attribute_hook(of, "", value);
                let from = self.evaluate(of);
                let key = self.evaluate(at);
                match (&from, &at.kind) {
                    (Value::List(values), ExpressionKind::Number(n)) => {
                        if let Some(one) = n.parse::<usize>().ok().and_then(|n| values.get(n)) {
                            return one.clone();
                        }
                    }
                    // Any of them.
                    (Value::List(values), _) if !values.is_empty() => {
                        let mut one = values[0].clone();
                        for other in &values[1..] {
                            one = self.join(shown, &one, other);
                        }
                        return one;
                    }
                    _ => {}
                }
                match (&key, &at.kind) {
                    (Value::Text(texts), _) if texts.len() == 1 => {
                        let name = texts[0].shown();
                        self.part(&from, &name, None, value)
                    }
                    (_, ExpressionKind::Number(n)) => {
                        let number = n.parse().ok();
                        self.part(&from, "", number, value)
                    }
                    (_, ExpressionKind::Name(name)) => {
                        // PHP's constants of a row, and a variable: neither tells the column.
                        let name = name.clone();
                        match &from {
                            Value::Map(_) => self.part(&from, &name, None, value),
                            _ => self.any_part(&from, &[key], value),
                        }
                    }
                    _ => self.any_part(&from, &[key], value),
                }
            }
            ExpressionKind::Call { callee, arguments } => self.call(value, callee, arguments),
            ExpressionKind::Join { parts, bound } => self.joined(value, parts, *bound),
            ExpressionKind::Binary {
                operator,
                left,
                right,
            } => {
                let (a, b) = (self.evaluate(left), self.evaluate(right));
                if operator == "%"
                    && let Value::Text(texts) = &a
                {
                    return self.formatted(texts, Format::Percent, &b, value);
                }
                if matches!(operator.as_str(), "??" | "||" | "or" | "?:") {
                    return match (&a, &b) {
                        (Value::Nothing, _) => b,
                        (_, Value::Nothing) => a,
                        _ => self.join(shown, &a, &b),
                    };
                }
                self.computed(&[a, b], value)
            }
            ExpressionKind::Not(inner) => {
                let inner = self.evaluate(inner);
                self.computed(&[inner], value)
            }
            ExpressionKind::Conditional { condition, yes, no } => {
                self.guards(condition);
                let before = self.state.clone();
                self.steps.push(Vec::new());
                let a = self.evaluate(yes);
                let first = self.steps.pop().unwrap_or_default();
                let after = std::mem::replace(&mut self.state, before);
                self.restore_handles();
                self.steps.push(Vec::new());
                let b = self.evaluate(no);
                let second = self.steps.pop().unwrap_or_default();
                let other = std::mem::take(&mut self.state);
                self.state = self.join_states(after, other);
                self.restore_handles();
                self.either(vec![(yes.range.start, first), (no.range.start, second)]);
                self.join(shown, &a, &b)
            }
            ExpressionKind::List(values) => {
                if let Some(method) = self.method_in_list(values) {
                    return Value::Function(method);
                }
                Value::List(values.iter().map(|v| self.evaluate(v)).collect())
            }
            ExpressionKind::Map(pairs) => {
                let pairs = pairs.iter();
                Value::Map(
                    pairs
                        .map(|(name, v)| (name.clone(), self.evaluate(v)))
                        .collect(),
                )
            }
            ExpressionKind::Lambda(function) => {
                match self.project.function_at(self.file(), function.range.start) {
                    Some(at) => Value::Function(at),
                    None => Value::Nothing,
                }
            }
            ExpressionKind::Assign {
                target,
                operator,
                value: given,
            } => {
                let mut given = self.evaluate(given);
                if let Some(operator) = operator {
                    let old = self.evaluate(target);
                    given = match (operator.as_str(), &old, &given) {
                        ("+" | ".", Value::Text(_), _) | ("+" | ".", _, Value::Text(_)) => {
                            self.one_behind_other(&[old, given], value)
                        }
                        _ => self.computed(&[old, given], value),
                    };
                }
                self.assign(target, given.clone());
                given
            }
            ExpressionKind::Cast { to, value: inner } => {
                let inner = self.evaluate(inner);
                match (super::is_number(to), &inner) {
                    (true, Value::Scalar(scalar)) => {
                        let mut scalar = scalar.clone();
                        scalar.number = true;
                        Value::Scalar(scalar)
                    }
                    (true, _) => {
                        let read = inner.read();
                        self.scalar(shown, read, true)
                    }
                    (false, _) => inner,
                }
            }
            ExpressionKind::Reference(inner) => self.evaluate(inner),
            ExpressionKind::Other(parts) => {
                let values: Vec<Value> = parts.iter().map(|v| self.evaluate(v)).collect();
                match values.as_slice() {
                    [Value::Function(at)] => Value::Function(*at),
                    _ => self.computed(&values, value),
                }
            }
            // Told for the whole file.
            ExpressionKind::Broken => self.computed(&[], value),
        }
    }

    /// PHP's `[$object, 'method']`, which is as good as the method.
    fn method_in_list(&mut self, values: &[Expression]) -> Option<usize> {
        let [of, name] = values else { return None };
        let ExpressionKind::Text(name) = &name.kind else {
            return None;
        };
        if self.project.sources[self.file()].language != Language::Php {
            return None;
        }
        let classes = self.object(of).classes;
        let methods = &self
            .project
            .objects
            .methods(self.project, &classes, &name.text);
        // Which of several it is, is not known.
        methods.first().copied().filter(|_| methods.len() == 1)
    }

    /// Handles that a branch has made ready are there behind it, too.
    pub(super) fn restore_handles(&mut self) {
        while self.state.handles.len() < self.prepared.len() {
            let handle = self.prepared[self.state.handles.len()].clone();
            self.state.handles.push(handle);
        }
    }

    /// A value that others go into.
    pub(super) fn computed(&mut self, from: &[Value], value: &Expression) -> Value {
        let mut read: Vec<Read> = Vec::new();
        for part in from {
            read.extend(part.read());
        }
        for one in &mut read {
            one.plain = false;
        }
        read.dedup();
        let shown = self.source(&value.range);
        let mut made = self.plain(shown, read, false);
        made.database = from.iter().any(Value::leads_to_database);
        Value::Scalar(made)
    }

    /// A part of something, nobody knows which.
    fn any_part(&mut self, from: &Value, others: &[Value], value: &Expression) -> Value {
        let all = [std::slice::from_ref(from), others].concat();
        let may_run = self.may_run(from);
        let mut found = self.computed(&all, value);
        if let Value::Scalar(scalar) = &mut found {
            scalar.database |= may_run;
        }
        found
    }

    /// Whether it leads to a database, or is a function that may come to run something there.
    pub(super) fn may_run(&self, value: &Value) -> bool {
        match value {
            Value::Function(at) => self.project.functions[*at].reaches,
            Value::Map(pairs) => pairs.iter().any(|(_, value)| self.may_run(value)),
            Value::List(values) => values.iter().any(|value| self.may_run(value)),
            value => value.leads_to_database(),
        }
    }

    /// What a path of names stands for, where that is known.
    pub(super) fn known(&self, path: &str) -> Option<Value> {
        let frame = self.frame();
        if let Some(value) = self.state.variables.get(path) {
            let may_be_another = self.project.is_dynamic(frame.function, frame.file)
                && matches!(value, Value::Text(_) | Value::List(_) | Value::Map(_));
            return (!may_be_another).then(|| value.clone());
        }
        // A variable's own part is no constant.
        let first = path.split('.').next().unwrap_or_default();
        if first != path && self.state.variables.contains(first) {
            return None;
        }
        self.project
            .constant(path, frame.file, frame.class.as_deref())
            .cloned()
    }

    fn named(&mut self, name: &str, value: &Expression) -> Value {
        if let Some(known) = self.known(name) {
            // A field is the same by both of its names.
            return known;
        }
        let frame = self.frame();
        let (file, class) = (frame.file, frame.class.clone());
        // In Java and PHP a function is called something else than a variable of the same name.
        let language = self.project.sources[file].language;
        let function = match language {
            Language::Java | Language::Php => None,
            _ => self.project.find(name, file, class.as_deref()),
        };
        if let Some(at) = function
            && self.project.functions[at].file == file
        {
            return Value::Function(at);
        }
        let shown = self.source(&value.range).trim_start_matches('$').to_owned();
        let mut fresh = self.plain(&shown, Vec::new(), false);
        fresh.database = self.runs_in_transaction(value) || self.project.is_running(name, file);
        let fresh = Value::Scalar(fresh);
        // It stands for one value from here on, until it is given another.
        if !self.constants {
            self.state.variables.insert(name, fresh.clone());
        }
        fresh
    }

    /// A part of something: a column of a row, a value of a map, a field.
    pub(super) fn part(
        &mut self,
        from: &Value,
        name: &str,
        number: Option<usize>,
        value: &Expression,
    ) -> Value {
        match from {
            Value::Map(pairs) => match pairs.iter().rev().find(|(key, _)| key == name) {
                Some((_, found)) => found.clone(),
                None => self.any_part(from, &[], value),
            },
            Value::Rows(runs) => self.column(runs, name, number, value),
            Value::Text(_) | Value::Handle(_) | Value::Function(_) if number.is_none() => {
                // Its methods are called, or it is asked for its length.
                from.clone()
            }
            Value::List(_) => self.computed(std::slice::from_ref(from), value),
            _ => {
                let path = value.path();
                let mut found = self.computed(std::slice::from_ref(from), value);
                if let Value::Scalar(scalar) = &mut found {
                    scalar.database |= self.runs_in_transaction(value);
                }
                if let (Some(path), false) = (path, self.constants) {
                    self.state.variables.insert(&path, found.clone());
                }
                found
            }
        }
    }

    /// Texts and values one behind the other.
    fn joined(&mut self, value: &Expression, parts: &[Expression], bound: bool) -> Value {
        let values: Vec<Value> = parts.iter().map(|part| self.evaluate(part)).collect();
        let is_text = |v: &Value| matches!(v, Value::Text(_));
        if !values.iter().any(is_text) {
            return self.computed(&values, value);
        }
        if !bound {
            return self.one_behind_other(&values, value);
        }
        let mut pieces = Vec::new();
        for (part, of) in parts.iter().zip(values) {
            match (&part.kind, of) {
                (ExpressionKind::Text(literal), _) => {
                    pieces.extend(FoldedText::known(self.file(), literal).pieces);
                }
                // A text that is made by the same tag belongs to the statement.
                (_, Value::Handle(handles)) if handles.len() == 1 => {
                    let made = &self.prepared[handles[0]];
                    if let [one] = made.texts.as_slice() {
                        pieces.extend(one.pieces.clone());
                    }
                    self.executed.insert(handles[0]);
                }
                (_, other) => {
                    let shown = self.source(&part.range);
                    let hole = match other {
                        Value::Scalar(scalar) => scalar,
                        other => {
                            let read = other.read();
                            self.plain(shown, read, false)
                        }
                    };
                    pieces.push(Piece::Hole {
                        value: hole,
                        file: self.file(),
                        place: file_offset(part.range.start),
                        bound: true,
                    });
                }
            }
        }
        Value::Text(vec![FoldedText { pieces }])
    }

    pub(super) fn one_behind_other(&mut self, values: &[Value], value: &Expression) -> Value {
        let mut whole = vec![FoldedText::default()];
        for part in values {
            let next = self.as_texts(part, value);
            match fold::concat(whole, &next) {
                Ok(texts) => whole = texts,
                Err(mut known) => {
                    // The beginning stays known; the rest is a hole.
                    let hole = self.plain("too many texts", Vec::new(), false);
                    let hole = FoldedText::hole(hole, self.file(), file_offset(value.range.start));
                    let first = known.swap_remove(0);
                    let mut pieces = first.pieces;
                    pieces.extend(hole.pieces);
                    return Value::Text(vec![FoldedText { pieces }]);
                }
            }
        }
        Value::Text(whole)
    }

    fn as_texts(&mut self, value: &Value, at: &Expression) -> Vec<FoldedText> {
        match value {
            Value::Text(texts) => texts.clone(),
            Value::Scalar(scalar) => {
                vec![FoldedText::hole(
                    scalar.clone(),
                    self.file(),
                    file_offset(at.range.start),
                )]
            }
            other => {
                let read = other.read();
                let hole = self.plain("…", read, false);
                vec![FoldedText::hole(
                    hole,
                    self.file(),
                    file_offset(at.range.start),
                )]
            }
        }
    }

    /// A text with values put into the places that it has for them.
    pub(super) fn formatted(
        &mut self,
        texts: &[FoldedText],
        of: Format,
        values: &Value,
        at: &Expression,
    ) -> Value {
        let mut found: Vec<FoldedText> = Vec::new();
        for text in texts {
            let formatted = fold::format(text, of, |number, name, is_number| {
                let given = match (values, name) {
                    (Value::Map(pairs), Some(name)) => pairs
                        .iter()
                        .find(|(key, _)| key == name)
                        .map(|(_, v)| v.clone()),
                    (Value::Map(pairs), None) => {
                        // Values by their places stand in front of those that have names.
                        pairs
                            .iter()
                            .filter(|(key, _)| key.is_empty())
                            .nth(number)
                            .map(|(_, v)| v.clone())
                    }
                    (Value::List(values), None) => values.get(number).cloned(),
                    (one, None) if number == 0 => Some(one.clone()),
                    _ => None,
                };
                match given {
                    Some(Value::Text(texts)) if texts.len() == 1 => texts[0].pieces.clone(),
                    Some(Value::Scalar(mut scalar)) => {
                        scalar.number |= is_number;
                        FoldedText::hole(scalar, self.file(), file_offset(at.range.start)).pieces
                    }
                    other => {
                        let read = other.map_or_else(Vec::new, |v| v.read());
                        let shown = self.source(&at.range);
                        let hole = self.plain(shown, read, is_number);
                        FoldedText::hole(hole, self.file(), file_offset(at.range.start)).pieces
                    }
                }
            });
            found.push(formatted);
        }
        Value::Text(found)
    }

    /// Gives something a value.
    pub(super) fn assign(&mut self, target: &Expression, value: Value) {
        match &target.kind {
            ExpressionKind::List(targets) | ExpressionKind::Other(targets) => {
                for (at, target) in targets.iter().enumerate() {
                    let part = match &value {
                        Value::List(values) => values.get(at).cloned(),
                        Value::Rows(runs) => {
                            // In Go the rows come with an error behind them, in JavaScript with
                            // what is known of their columns.
                            let language = self.project.sources[self.file()].language;
                            let rows = !matches!(language, Language::Python | Language::Php);
                            let runs = runs.clone();
                            Some(match rows {
                                true if at == 0 => value.clone(),
                                true => self.computed(&[], target),
                                false => self.column(&runs, "", Some(at), target),
                            })
                        }
                        // So does everything else.
                        other if at == 0 => Some(other.clone()),
                        _ => None,
                    };
                    let part =
                        part.unwrap_or_else(|| self.computed(std::slice::from_ref(&value), target));
                    self.assign(target, part);
                }
            }
            ExpressionKind::Map(targets) => {
                for (name, target) in targets {
                    let part = self.part(&value, name, None, target);
                    self.assign(target, part);
                }
            }
            ExpressionKind::Assign { target, .. } | ExpressionKind::Cast { value: target, .. } => {
                self.assign(target, value);
            }
            ExpressionKind::Name(_) | ExpressionKind::Member(..) => {
                if let ExpressionKind::Member(of, name) = &target.kind {
                    self.follow_accessor(of, name, target, Some(&value));
                }
                let Some(path) = target.path() else {
                    return;
                };
                // Whatever was known of its parts is another's.
                let parts = format!("{path}.");
                self.state
                    .variables
                    .forget(|name, _| name.starts_with(&parts));
                let value = self.renamed(&path, value);
                if self.state.cursors.contains_key(&path) {
                    Arc::make_mut(&mut self.state.cursors).remove(&path);
                }
                self.state.variables.insert(&path, value);
            }
            ExpressionKind::Index(of, _) => {
                // One of several is another.
                if let Some(path) = of.path() {
                    let old = self.evaluate(of);
                    let new = match (old, value) {
                        (Value::Map(mut pairs), value) => {
                            let ExpressionKind::Index(_, key) = &target.kind else {
                                return;
                            };
                            let key = match self.evaluate(key) {
                                Value::Text(texts) if texts.len() == 1 => texts[0].shown(),
                                _ => "…".to_owned(),
                            };
                            pairs.push((key, value));
                            Value::Map(pairs)
                        }
                        (old, value) => self.computed(&[old, value], target),
                    };
                    let new = match new.is_too_big() {
                        true => self.computed(std::slice::from_ref(&new), target),
                        false => new,
                    };
                    self.state.variables.insert(&path, new);
                }
            }
            _ => {}
        }
    }

    /// What is computed is known by the name that it gets.
    fn renamed(&mut self, path: &str, value: Value) -> Value {
        match value {
            Value::Scalar(mut scalar) => {
                if !scalar
                    .shown
                    .chars()
                    .all(|c| c.is_alphanumeric() || c == '_')
                {
                    scalar.shown = path.into();
                }
                Value::Scalar(scalar)
            }
            other => other,
        }
    }

    /// The comparisons in a condition, each with whether it stands under a NOT.
    pub(super) fn guards(&mut self, condition: &Expression) -> Vec<(Comparison, bool)> {
        let mut found = Vec::new();
        self.comparisons(condition, false, true, &mut found);
        // A check is of what was read.
        found.retain(|(of, _)| of.left.has_read() || of.right.has_read());
        found
    }

    fn comparisons(
        &mut self,
        condition: &Expression,
        negated: bool,
        alone: bool,
        found: &mut Vec<(Comparison, bool)>,
    ) {
        match &condition.kind {
            ExpressionKind::Binary {
                operator,
                left,
                right,
            } => {
                if matches!(operator.as_str(), "&&" | "||" | "and" | "or") {
                    self.comparisons(left, negated, false, found);
                    self.comparisons(right, negated, false, found);
                    return;
                }
                let (a, b) = match (compared(left), &right.kind) {
                    (Some((on, with)), ExpressionKind::Number(n)) if n == "0" => {
                        (self.evaluate(on), self.evaluate(with))
                    }
                    _ => (self.evaluate(left), self.evaluate(right)),
                };
                if let Some(sign) = Comparator::of(operator) {
                    found.push((
                        Comparison {
                            sign,
                            left: a,
                            right: b,
                            alone,
                        },
                        negated,
                    ));
                }
            }
            ExpressionKind::Not(inner) => self.comparisons(inner, !negated, alone, found),
            // `!rs.next()` asks for a row.
            _ => {
                let value = self.evaluate(condition);
                found.push((
                    Comparison {
                        sign: Comparator::IsTrue,
                        left: value,
                        right: Value::Nothing,
                        alone,
                    },
                    negated,
                ));
            }
        }
    }
}

/// Both sides of `a.compareTo(b)`, by which decimals are compared with 0 behind it.
fn compared(value: &Expression) -> Option<(&Expression, &Expression)> {
    let ExpressionKind::Call { callee, arguments } = &value.kind else {
        return None;
    };
    match (&callee.kind, arguments.as_slice()) {
        (ExpressionKind::Member(on, name), [one])
            if matches!(name.as_str(), "compareTo" | "Cmp" | "comparedTo") =>
        {
            Some((on, &one.value))
        }
        _ => None,
    }
}

pub(super) fn file_offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
