//! Evaluates expressions.

use std::sync::Arc;

use super::{DEPTH_MAX, Walk};
use crate::{
    fold::{self, Format},
    guard::{Comparator, Comparison},
    language::Language,
    names,
    numbers::is_number,
    objects::is_own,
    syntax::{Expression, ExpressionKind},
    value::{FoldedText, Piece, Read, Value},
};

impl Walk<'_, '_> {
    pub(super) fn evaluate(&mut self, value: &Expression) -> Value {
        self.work += 1;
        if self.depth >= DEPTH_MAX || self.work >= self.work_max {
            let reason =
                "the analyser's limit is reached here: the SQL that runs after it is not known";
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
            ExpressionKind::Member(of, name) => self.member(of, name, value),
            ExpressionKind::Index(of, at) => self.indexed(of, at, value),
            ExpressionKind::Call { callee, arguments } => self.call(value, callee, arguments),
            ExpressionKind::Join { parts, bound } => self.joined(value, parts, *bound),
            ExpressionKind::Binary {
                operator,
                left,
                right,
            } => self.binary(operator, left, right, value),
            ExpressionKind::Not(inner) => {
                let inner = self.evaluate(inner);
                self.computed(&[inner], value)
            }
            ExpressionKind::Conditional { condition, yes, no } => {
                self.conditional(condition, yes, no, value)
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
            } => self.assignment(target, operator.as_deref(), given, value),
            ExpressionKind::Cast { to, value: inner } => self.cast(to, inner, value),
            ExpressionKind::Reference(inner) => self.evaluate(inner),
            ExpressionKind::Other(parts) => {
                let values: Vec<Value> = parts.iter().map(|v| self.evaluate(v)).collect();
                let negates = self.source(&value.range).starts_with('-');
                match values.as_slice() {
                    [Value::Function(at)] => Value::Function(*at),
                    [Value::Scalar(of)] if negates && of.minus.is_none() => {
                        let mut negative = self.computed(&values, value);
                        if let Value::Scalar(scalar) = &mut negative {
                            scalar.number = of.number;
                            scalar.minus = Some(Arc::new(of.clone()));
                        }
                        negative
                    }
                    _ => self.computed(&values, value),
                }
            }
            // Reported for the whole file.
            ExpressionKind::Broken => self.computed(&[], value),
        }
    }

    fn member(&mut self, of: &Expression, name: &str, value: &Expression) -> Value {
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

    fn indexed(&mut self, of: &Expression, at: &Expression, value: &Expression) -> Value {
        self.check_attribute_hook(of, "", value);
        let from = self.evaluate(of);
        let key = self.evaluate(at);
        match (&from, &at.kind) {
            (Value::List(values), ExpressionKind::Number(n)) => {
                if let Some(one) = n.parse::<usize>().ok().and_then(|n| values.get(n)) {
                    return one.clone();
                }
            }
            // The index is not known: any element.
            (Value::List(values), _) if !values.is_empty() => {
                let mut one = values[0].clone();
                for other in &values[1..] {
                    one = self.join(self.source(&value.range), &one, other);
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
                // The key is a variable or a PHP constant: neither gives the column.
                let name = name.clone();
                match &from {
                    Value::Map(_) => self.part(&from, &name, None, value),
                    _ => self.any_part(&from, &[key], value),
                }
            }
            _ => self.any_part(&from, &[key], value),
        }
    }

    fn binary(
        &mut self,
        operator: &str,
        left: &Expression,
        right: &Expression,
        value: &Expression,
    ) -> Value {
        let (a, b) = (self.evaluate(left), self.evaluate(right));
        if operator == "%"
            && let Value::Text(texts) = &a
        {
            return self.formatted(texts, Format::Percent, &b, value);
        }
        if matches!(operator, "??" | "||" | "or" | "?:") {
            return match (&a, &b) {
                (Value::Nothing, _) => b,
                (_, Value::Nothing) => a,
                _ => self.join(self.source(&value.range), &a, &b),
            };
        }
        let is_number = |value: &Value| matches!(value, Value::Scalar(scalar) if scalar.number);
        let numbers = is_number(&a) && is_number(&b);
        let computes = matches!(operator, "-" | "*" | "/" | "%" | "**" | "//" | "<<" | ">>");
        let mut found = self.computed(&[a, b], value);
        if let Value::Scalar(scalar) = &mut found {
            scalar.number = computes && numbers;
        }
        found
    }

    /// Whether a member is certainly a number: a constant of a class or of a file, or a field with such a type.
    fn is_number_member(&mut self, value: &Expression) -> bool {
        let ExpressionKind::Member(of, name) = &value.kind else {
            return false;
        };
        let is_class_or_file = of.last_name().is_some_and(|of| {
            is_own(of)
                || self.project.classes.iter().any(|class| class.name == of)
                || self
                    .project
                    .sources
                    .iter()
                    .any(|source| source.is_module(of))
        });
        if is_class_or_file && self.project.constants.numbers.contains(name) {
            return true;
        }
        let own = of.last_name().is_some_and(is_own);
        let classes = match (own, of.last_name()) {
            (true, _) => self.frame().class.clone().into_iter().collect(),
            (false, Some(class)) if self.project.classes.iter().any(|c| c.name == class) => {
                vec![class.to_owned()]
            }
            _ => {
                let classes = self.object(of).classes;
                classes.iter().map(|class| class.to_string()).collect()
            }
        };
        let is_field = |class: &String| self.project.is_number_field(class, name);
        !classes.is_empty() && classes.iter().all(is_field)
    }

    fn conditional(
        &mut self,
        condition: &Expression,
        yes: &Expression,
        no: &Expression,
        value: &Expression,
    ) -> Value {
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
        self.join(self.source(&value.range), &a, &b)
    }

    fn assignment(
        &mut self,
        target: &Expression,
        operator: Option<&str>,
        given: &Expression,
        value: &Expression,
    ) -> Value {
        if let (ExpressionKind::Name(name), ExpressionKind::Call { callee, .. }) =
            (&target.kind, &given.kind)
            && name.starts_with("with ")
            && callee.last_name().is_some_and(names::begins)
        {
            self.transactions_of_with.insert(name.clone());
        }
        let mut given = self.evaluate(given);
        if let Some(operator) = operator {
            let old = self.evaluate(target);
            given = match (operator, &old, &given) {
                ("+" | ".", Value::Text(_), _) | ("+" | ".", _, Value::Text(_)) => {
                    self.concatenated(&[old, given], value)
                }
                _ => self.computed(&[old, given], value),
            };
        }
        self.assign(target, given.clone());
        given
    }

    fn cast(&mut self, to: &str, inner: &Expression, value: &Expression) -> Value {
        let inner = self.evaluate(inner);
        match (is_number(to), &inner) {
            (true, Value::Scalar(scalar)) => {
                let mut scalar = scalar.clone();
                scalar.number = true;
                Value::Scalar(scalar)
            }
            // The count of changed rows stays recognisable.
            (true, Value::Rows(_)) => inner,
            (true, _) => {
                let read = inner.read();
                self.scalar(self.source(&value.range), read, true)
            }
            (false, _) => inner,
        }
    }

    /// PHP's `[$object, 'method']`, which stands for the method.
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
        // With several candidates the method is not known.
        methods.first().copied().filter(|_| methods.len() == 1)
    }

    /// Adds the statements that other branches prepared, which exist after the branch as well.
    pub(super) fn restore_handles(&mut self) {
        while self.state.handles.len() < self.prepared.len() {
            let handle = self.prepared[self.state.handles.len()].clone();
            self.state.handles.push(handle);
        }
    }

    /// A new value computed from others.
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

    /// An unknown part of a value.
    fn any_part(&mut self, from: &Value, others: &[Value], value: &Expression) -> Value {
        if let Some(chosen) = functions_in(from) {
            return Value::one_of(chosen);
        }
        let all = [std::slice::from_ref(from), others].concat();
        let may_run = self.may_run(from);
        let mut found = self.computed(&all, value);
        if let Value::Scalar(scalar) = &mut found {
            scalar.database |= may_run;
        }
        found
    }

    /// Whether a value leads to a database, or is a function that may come to run SQL.
    pub(super) fn may_run(&self, value: &Value) -> bool {
        match value {
            Value::Function(at) => self.project.functions[*at].reaches,
            Value::OneOf(all) => all.iter().any(|at| self.project.functions[*at].reaches),
            Value::Map(pairs) => pairs.iter().any(|(_, value)| self.may_run(value)),
            Value::List(values) => values.iter().any(|value| self.may_run(value)),
            value => value.leads_to_database(),
        }
    }

    /// The value of a dotted path, if it is known.
    pub(super) fn known(&self, path: &str) -> Option<Value> {
        let frame = self.frame();
        if let Some(value) = self.state.variables.get(path) {
            let may_be_another = self.project.is_dynamic(frame.function, frame.file)
                && matches!(
                    value,
                    Value::Text(_) | Value::List(_) | Value::Map(_) | Value::OneOf(_)
                );
            return (!may_be_another).then(|| value.clone());
        }
        if let Some(table) = self.function_table(path) {
            return Some(table);
        }
        // A part of a variable is no constant.
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
            // A known variable or constant.
            return known;
        }
        let frame = self.frame();
        let (file, class) = (frame.file, frame.class.clone());
        // In Java and PHP, functions and variables have separate namespaces.
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
        fresh.number = self.project.is_number(name, self.frame().class.as_deref());
        let fresh = Value::Scalar(fresh);
        // The name stands for this value until the next assignment.
        if !self.constants {
            self.state.variables.insert(name, fresh.clone());
        }
        fresh
    }

    /// A named or numbered part of a value: a column of a row, a value of a map, a field.
    pub(super) fn part(
        &mut self,
        from: &Value,
        name: &str,
        number: Option<usize>,
        value: &Expression,
    ) -> Value {
        match from {
            // An element with an unknown key may have replaced the one with this key.
            Value::Map(pairs)
                if pairs.iter().any(|(key, _)| key.is_empty()) && functions_in(from).is_some() =>
            {
                self.any_part(from, &[], value)
            }
            Value::Map(pairs) => match pairs.iter().rev().find(|(key, _)| key == name) {
                Some((_, found)) => found.clone(),
                None => self.any_part(from, &[], value),
            },
            Value::Rows(runs) => self.column(runs, name, number, value),
            Value::Text(_) | Value::Handle(_) | Value::Function(_) | Value::OneOf(_)
                if number.is_none() =>
            {
                // A method or the length.
                from.clone()
            }
            Value::List(_) => self.computed(std::slice::from_ref(from), value),
            _ => {
                let path = value.path();
                let mut found = self.computed(std::slice::from_ref(from), value);
                if let Value::Scalar(scalar) = &mut found {
                    scalar.database |= self.runs_in_transaction(value);
                    scalar.number |= self.is_number_member(value);
                }
                if let (Some(path), false) = (path, self.constants) {
                    self.state.variables.insert(&path, found.clone());
                }
                found
            }
        }
    }

    /// Concatenates texts and values.
    fn joined(&mut self, value: &Expression, parts: &[Expression], bound: bool) -> Value {
        let values: Vec<Value> = parts.iter().map(|part| self.evaluate(part)).collect();
        let is_text = |v: &Value| matches!(v, Value::Text(_));
        if !values.iter().any(is_text) {
            let is_number = |v: &Value| matches!(v, Value::Scalar(scalar) if scalar.number);
            let numbers = values.iter().all(is_number);
            let mut found = self.computed(&values, value);
            if let Value::Scalar(scalar) = &mut found {
                scalar.number = numbers;
            }
            return found;
        }
        if !bound {
            return self.concatenated(&values, value);
        }
        let mut pieces = Vec::new();
        for (part, of) in parts.iter().zip(values) {
            match (&part.kind, of) {
                (ExpressionKind::Text(literal), _) => {
                    pieces.extend(FoldedText::known(self.file(), literal).pieces);
                }
                // A nested text of the same tag belongs to the statement.
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

    pub(super) fn concatenated(&mut self, values: &[Value], value: &Expression) -> Value {
        let mut whole = vec![FoldedText::default()];
        for part in values {
            let next = self.as_texts(part, value);
            match fold::concat(whole, &next) {
                Ok(texts) => whole = texts,
                Err(mut known) => {
                    // The beginning stays known; the rest becomes a hole.
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

    /// Formats texts with values.
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
                        // Positional values precede named ones.
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

    /// Assigns a value to a target.
    pub(super) fn assign(&mut self, target: &Expression, value: Value) {
        match &target.kind {
            ExpressionKind::List(targets) | ExpressionKind::Other(targets) => {
                for (at, target) in targets.iter().enumerate() {
                    let part = match &value {
                        Value::List(values) => values.get(at).cloned(),
                        Value::Rows(runs) => {
                            // In Go, rows are followed by an error; in JavaScript, by column descriptions.
                            let language = self.project.sources[self.file()].language;
                            let rows = !matches!(language, Language::Python | Language::Php);
                            let runs = runs.clone();
                            Some(match rows {
                                true if at == 0 => value.clone(),
                                true => self.computed(&[], target),
                                false => self.column(&runs, "", Some(at), target),
                            })
                        }
                        // The same for any other value.
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
                // Its parts belonged to the old value.
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
                // An element changes.
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

    /// A computed value takes the name of its variable.
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

    /// The comparisons in a condition, each with whether it is negated.
    pub(super) fn guards(&mut self, condition: &Expression) -> Vec<(Comparison, bool)> {
        let mut found = Vec::new();
        self.comparisons(condition, false, true, &mut found);
        // Only comparisons of read values are checks.
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
            // `!rs.next()` tests for a row.
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

/// The functions in a list or a map that has nothing else.
pub(super) fn functions_in(value: &Value) -> Option<Vec<usize>> {
    let values: Vec<&Value> = match value {
        Value::Map(pairs) => pairs.iter().map(|(_, value)| value).collect(),
        Value::List(values) => values.iter().collect(),
        _ => return None,
    };
    let all: Option<Vec<Vec<usize>>> = values.into_iter().map(Value::functions).collect();
    all.map(|all| all.concat()).filter(|all| !all.is_empty())
}

/// The operands of `a.compareTo(b)`, a comparison of decimals that yields -1, 0 or 1.
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
