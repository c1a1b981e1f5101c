//! Prepares, binds and runs statements, and evaluates their results.

use std::sync::Arc;

use super::{
    Bound, Branch, BranchRole, Handle, RUNS_MAX, Run, Walk, WalkedStep,
    call::{Call, start},
};
use crate::{
    names,
    sql_outline::{Control, SqlOutline, declares},
    syntax::{Expression, ExpressionKind},
    value::{FoldedText, Read, Value},
};

impl Walk<'_, '_> {
    /// Evaluates a call that prepares a statement, binds to one, or runs one.
    pub(super) fn of_statement(
        &mut self,
        call: &Call<'_>,
        receiver: Option<&Value>,
        values: &[Value],
    ) -> Option<Value> {
        let name = call.name;
        // A field may hold a statement as text.
        let receiver = match receiver {
            Some(Value::Text(texts))
                if texts.iter().any(FoldedText::is_sql)
                    && (names::binds(name) || names::executes(name)) =>
            {
                let handle = self.prepare(texts.clone(), Bound::default(), call);
                if let Some(path) = call.on.and_then(Expression::path) {
                    self.state.variables.insert(&path, handle.clone());
                }
                Some(handle)
            }
            Some(other) => Some(other.clone()),
            None => None,
        };
        if let Some(Value::Handle(handles)) = &receiver {
            return self.on_handles(call, handles, values);
        }
        if let Some(found) = self.with_prepared_argument(call, values) {
            return Some(found);
        }
        self.run_text_argument(call, values)
    }

    /// Evaluates a call that receives a prepared statement as an argument.
    fn with_prepared_argument(&mut self, call: &Call<'_>, values: &[Value]) -> Option<Value> {
        let name = call.name;
        let at = values.iter().position(|v| matches!(v, Value::Handle(_)))?;
        let Value::Handle(handles) = &values[at] else {
            return None;
        };
        if names::binds(name) {
            self.bind(call, handles, values, at + 1);
            return Some(values[at].clone());
        }
        if names::prepares(name)
            || name.to_ascii_lowercase().contains("close")
            || name.starts_with("new ")
            || names::reports_text(name, call.callee)
            || names::builds_text(name)
        {
            return Some(values[at].clone());
        }
        if name.ends_with("bind_result") {
            self.assign_columns(call, handles);
            return Some(Value::Nothing);
        }
        if name.contains("fetch")
            || name.contains("result")
            || name.contains("affected")
            || name.contains("num_rows")
        {
            let runs = self.runs_so_far(handles);
            return Some(Value::Rows(runs));
        }
        let bound = self.bound_by(call, values, at + 1);
        Some(self.run_handles(handles, bound, call))
    }

    /// Evaluates a call that receives SQL as a text: prepares or runs it.
    fn run_text_argument(&mut self, call: &Call<'_>, values: &[Value]) -> Option<Value> {
        let name = call.name;
        let (at, texts, beside) = self.text_in(call, values)?;
        if !names::may_run_sql(name) {
            if names::reports_text(name, call.callee) {
                self.mark(&texts);
                return None;
            }
            if names::builds_text(name) {
                return None;
            }
        }
        if self.constants {
            return Some(Value::Text(texts));
        }
        if let Some(control) = control_of(&texts) {
            return self.control(control, &texts);
        }
        let mixed = match &texts[..] {
            [text] => text.mixed(),
            _ => None,
        };
        if mixed.is_none() && !texts.iter().any(FoldedText::is_sql) {
            return None;
        }
        self.facts.forwarded.insert(name.to_owned());
        if let Some(path) = call.on.and_then(Expression::path) {
            self.ran_on.insert(path);
        }
        // JPA queries are not SQL.
        if name == "createQuery"
            && call
                .on
                .and_then(|on| on.last_name())
                .is_some_and(is_entity_manager)
        {
            self.mark(&texts);
            let reason =
                "createQuery() is written in the mapper's query language, not in SQL".to_owned();
            self.report_unresolved(call, reason, String::new());
            return Some(self.computed(values, call.whole));
        }
        let mut bound = self.bound_by(call, values, at + 1);
        if let Some(beside) = beside {
            match beside {
                Value::List(list) => bound.positional.extend(list.into_iter().enumerate()),
                Value::Map(pairs) => bound.named.extend(pairs),
                _ => bound.unsure = true,
            }
        }
        if names::prepares(name) {
            return Some(self.prepare(texts, bound, call));
        }
        Some(self.run_texts(&texts, mixed, bound, call))
    }

    /// Runs texts with their bound values: many times for a batch, statement by statement for a mixed text.
    fn run_texts(
        &mut self,
        texts: &[FoldedText],
        mixed: Option<Vec<FoldedText>>,
        mut bound: Bound,
        call: &Call<'_>,
    ) -> Value {
        let many = call.name.to_ascii_lowercase();
        if many.contains("many") || many.contains("batch") {
            // Once for each of many sets of values.
            bound.unsure = true;
            self.loops += 1;
            self.steps.push(Vec::new());
            let found = self.run(texts, bound, call.whole.range.start);
            let inner = self.steps.pop().unwrap_or_default();
            self.loops -= 1;
            self.push(WalkedStep::Repeat(inner));
            return found;
        }
        if let Some(parts) = mixed {
            // Declarations are recorded; the other statements run.
            for part in parts {
                match Control::of(&part.head()) {
                    Some(control) => {
                        self.control(control, &[part]);
                    }
                    None => {
                        self.run(&[part], bound.clone(), call.whole.range.start);
                    }
                }
            }
            return Value::Nothing;
        }
        let found = self.run(texts, bound, call.whole.range.start);
        if let (Some(path), Value::Rows(runs)) = (call.on.and_then(Expression::path), &found) {
            Arc::make_mut(&mut self.state.cursors).insert(path, runs.clone());
        }
        found
    }

    /// Finds the SQL argument: its index, its texts, and the values beside it in an object argument.
    fn text_in(
        &self,
        call: &Call<'_>,
        values: &[Value],
    ) -> Option<(usize, Vec<FoldedText>, Option<Value>)> {
        for (at, value) in values.iter().enumerate() {
            match value {
                Value::Text(texts) => {
                    let control = || control_of(texts).is_some() && names::may_run_sql(call.name);
                    let mixed = || texts.len() == 1 && texts[0].mixed().is_some();
                    if texts.iter().any(FoldedText::is_sql) || control() || mixed() {
                        return Some((at, texts.clone(), None));
                    }
                }
                Value::Map(pairs) => {
                    let of = |names: &[&str]| {
                        let found = pairs.iter().find(|(key, _)| names.contains(&key.as_str()));
                        found.map(|(_, value)| value.clone())
                    };
                    if let Some(Value::Text(texts)) = of(&["text", "sql", "query", "statement"])
                        && texts.iter().any(FoldedText::is_sql)
                    {
                        return Some((
                            at,
                            texts,
                            of(&["values", "params", "bindings", "replacements", "bind"]),
                        ));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn control(&mut self, control: Control, texts: &[FoldedText]) -> Option<Value> {
        self.mark(texts);
        let begins = |text: &FoldedText| {
            let head = text.head().trim_start().to_ascii_lowercase();
            head.starts_with("begin") || head.starts_with("start transaction")
        };
        self.controlled |= !matches!(control, Control::Utility) || texts.iter().any(begins);
        match control {
            Control::Commit => {
                self.committed = true;
                self.push(WalkedStep::Ends);
            }
            Control::Rollback => {
                self.aborted = true;
                self.push(WalkedStep::Ends);
            }
            Control::Utility => {
                let declares = |text: &&FoldedText| {
                    let head = text.head();
                    // A text with holes is no known declaration.
                    head.len() == text.length() && declares(&head)
                };
                if self.trial == 0 && !self.is_down_migration() {
                    let file = self.file();
                    let found = texts.iter().filter(declares);
                    self.out
                        .declared
                        .extend(found.map(|text| (file, text.clone())));
                }
            }
        }
        Some(Value::Nothing)
    }

    /// Whether the current function undoes a migration, so that its statements declare nothing.
    fn is_down_migration(&self) -> bool {
        const NAMES: [&str; 9] = [
            "down",
            "downgrade",
            "rollback",
            "revert",
            "undo",
            "backward",
            "backwards",
            "unapply",
            "reverse",
        ];
        let functions = self.frames.iter().filter_map(|frame| frame.function);
        let mut names = functions.map(|at| self.project.functions[at].name.to_ascii_lowercase());
        names.any(|name| NAMES.contains(&name.as_str()))
    }

    /// Prepares a statement.
    fn prepare(&mut self, texts: Vec<FoldedText>, bound: Bound, call: &Call<'_>) -> Value {
        if self.constants {
            return Value::Text(texts);
        }
        self.mark(&texts);
        self.restore_handles();
        let number = self.prepared.len();
        let handle = Arc::new(Handle {
            texts,
            file: self.file(),
            at: start(call) as usize,
            bound,
            runs: Vec::new(),
        });
        self.ran += 1;
        self.prepared.push(handle.clone());
        self.state.handles.push(handle);
        self.push(WalkedStep::Prepared(number));
        Value::Handle(vec![number])
    }

    fn runs_so_far(&self, handles: &[usize]) -> Vec<usize> {
        let of = |number: &usize| self.state.handles.get(*number).map(|h| h.runs.clone());
        handles.iter().filter_map(of).flatten().collect()
    }

    fn on_handles(
        &mut self,
        call: &Call<'_>,
        handles: &[usize],
        values: &[Value],
    ) -> Option<Value> {
        let name = call.name;
        let lower = name.to_ascii_lowercase();
        let ran = !self.runs_so_far(handles).is_empty();
        if lower.contains("bind_result") || lower == "bindcolumn" {
            self.assign_columns(call, handles);
            return Some(Value::Nothing);
        }
        if lower == "bindparams" || names::binds(name) {
            self.bind(call, handles, values, 0);
            return Some(Value::Handle(handles.to_vec()));
        }
        let reads = lower.starts_with("fetch")
            || lower.starts_with("get") && lower != "get"
            || lower == "scan";
        let gathers = matches!(
            lower.as_str(),
            "mapto" | "list" | "one" | "first" | "map" | "all" | "then"
        );
        if ran && (reads || gathers) {
            let runs = self.runs_so_far(handles);
            let rows = Value::Rows(runs);
            return self.of_rows(call, Some(&rows), values).or(Some(rows));
        }
        if names::executes(name) {
            let mut bound = self.bound_by(call, values, 0);
            if lower == "map" || lower == "mapto" || lower == "then" {
                bound = Bound::default();
            }
            if lower == "addbatch" {
                self.loops += 1;
                self.steps.push(Vec::new());
                let found = self.run_handles(handles, bound, call);
                let inner = self.steps.pop().unwrap_or_default();
                self.loops -= 1;
                self.push(WalkedStep::Repeat(inner));
                return Some(found);
            }
            if lower == "executebatch" && ran {
                return Some(Value::Nothing);
            }
            return Some(self.run_handles(handles, bound, call));
        }
        if lower.contains("close") || lower.contains("rowcount") || lower.contains("affected") {
            let runs = self.runs_so_far(handles);
            return Some(Value::Rows(runs));
        }
        Some(Value::Handle(handles.to_vec()))
    }

    fn run_handles(&mut self, handles: &[usize], bound: Bound, call: &Call<'_>) -> Value {
        let mut all = Vec::new();
        let mut branches: Vec<Branch> = Vec::new();
        let file = self.file();
        for number in handles {
            let Some(handle) = self.state.handles.get(*number).cloned() else {
                continue;
            };
            let mut own = handle.bound.clone();
            own.unsure |= bound.unsure;
            own.positional.extend(bound.positional.clone());
            own.named.extend(bound.named.clone());
            if handles.len() > 1 {
                own.unsure = true;
            }
            let runs = self.runs_of(&handle.texts, &own, handle.file, handle.at);
            if self.trial == 0 {
                self.executed.insert(*number);
            }
            if let Some(state) = self.state.handles.handle_mut(*number) {
                state.runs.clone_from(&runs);
            }
            if let Some(step) = self.step_of(&runs, handle.file, handle.at) {
                let at = start(call) as usize;
                branches.push(Branch {
                    file,
                    at,
                    steps: vec![step],
                    role: BranchRole::default(),
                });
            }
            all.extend(runs);
        }
        match branches.len() {
            0 => {}
            1 => {
                let Branch { steps, .. } = branches.swap_remove(0);
                steps.into_iter().for_each(|step| self.push(step));
            }
            _ => self.push(WalkedStep::Either(branches)),
        }
        Value::Rows(all)
    }

    /// Binds values: `setInt(1, n)`, `bindValue(':n', n)`, `bind_param("i", n)`, `setParameter("n", n)`.
    fn bind(&mut self, call: &Call<'_>, handles: &[usize], values: &[Value], from: usize) {
        let lower = call.name.to_ascii_lowercase();
        let mut bound = Bound::default();
        let given: Vec<(&Expression, &Value)> = call
            .arguments
            .iter()
            .map(|a| &a.value)
            .zip(values)
            .skip(from)
            .collect();
        let by_name = call.arguments.iter().any(|a| a.name.is_some());
        if lower.ends_with("bind_param") {
            for (at, (_, value)) in given.iter().skip(1).enumerate() {
                bound.positional.insert(at, (*value).clone());
            }
            bound.unsure = call.arguments.iter().any(|a| a.spread);
        } else if by_name
            || lower == "bindparams"
            || lower == "params"
            || lower == "bindmap"
            || lower == "bindbean"
        {
            bound = self.bound_by(call, values, from);
        } else {
            match given.as_slice() {
                [
                    (
                        Expression {
                            kind: ExpressionKind::Number(n),
                            ..
                        },
                        _,
                    ),
                    (_, value),
                    ..,
                ] => {
                    match n
                        .parse::<usize>()
                        .ok()
                        .and_then(|n| n.checked_sub(usize::from(lower != "bind")))
                    {
                        Some(at) => {
                            bound.positional.insert(at, (*value).clone());
                        }
                        None => bound.unsure = true,
                    }
                }
                [(_, Value::Text(key)), (_, value), ..] if key.len() == 1 => {
                    let key = key[0].shown();
                    bound.named.insert(
                        key.trim_start_matches([':', '@', '$']).to_owned(),
                        (*value).clone(),
                    );
                }
                [(_, Value::Map(_)), ..] => bound = self.bound_by(call, values, from),
                [_, _, ..] => bound.unsure = true,
                // Options such as `setFetchSize(1)`.
                _ => return,
            }
        }
        for number in handles {
            if let Some(own) = self.state.handles.bound_mut(*number) {
                own.unsure |= bound.unsure || handles.len() > 1;
                own.positional.extend(bound.positional.clone());
                own.named.extend(bound.named.clone());
            }
        }
    }

    /// Assigns result columns to variables that a call receives by reference.
    fn assign_columns(&mut self, call: &Call<'_>, handles: &[usize]) {
        let runs = self.runs_so_far(handles);
        let targets: Vec<&Expression> = call
            .arguments
            .iter()
            .map(|a| &a.value)
            .filter(|v| !matches!(v.kind, ExpressionKind::Text(_)))
            .collect();
        let skip = usize::from(!matches!(call.callee.kind, ExpressionKind::Member(..)));
        for (at, target) in targets.into_iter().skip(skip).enumerate() {
            let value = self.column(&runs, "", Some(at), target);
            self.assign(target, value);
        }
    }

    /// Evaluates a call on rows: a column, or rows.
    pub(super) fn of_rows(
        &mut self,
        call: &Call<'_>,
        receiver: Option<&Value>,
        values: &[Value],
    ) -> Option<Value> {
        let lower = call.name.to_ascii_lowercase();
        let cursor = call
            .on
            .and_then(Expression::path)
            .and_then(|path| self.state.cursors.get(&path).cloned());
        let runs = match (receiver, cursor) {
            (Some(Value::Rows(runs)), _) => runs.clone(),
            (_, Some(runs))
                if lower.contains("fetch") || lower == "scan" || lower.contains("rowcount") =>
            {
                runs
            }
            _ => {
                // `mysqli_fetch_assoc($result)`.
                let given = values.iter().find_map(|v| match v {
                    Value::Rows(runs) => Some(runs.clone()),
                    _ => None,
                });
                let reads = lower.contains("fetch")
                    || lower.contains("num_rows")
                    || lower.contains("affected");
                given.filter(|_| reads)?
            }
        };
        if lower.contains("scan") {
            let mut at = 0;
            for argument in call.arguments {
                if let ExpressionKind::Reference(target) = &argument.value.kind {
                    let value = self.column(&runs, "", Some(at), target);
                    self.assign(target, value);
                    at += 1;
                }
            }
            return Some(Value::Nothing);
        }
        let gets = lower.starts_with("get") && !values.is_empty();
        if gets
            || matches!(
                lower.as_str(),
                "fetchcolumn"
                    | "scalar"
                    | "scalar_one"
                    | "scalar_one_or_none"
                    | "fetchval"
                    | "pluck"
            )
        {
            let argument = call.arguments.first();
            let name = match values.first() {
                Some(Value::Text(texts)) if texts.len() == 1 => texts[0].shown(),
                _ => String::new(),
            };
            let number = match argument.map(|a| &a.value.kind) {
                Some(ExpressionKind::Number(n)) => n
                    .parse::<usize>()
                    .ok()
                    .map(|n| n.saturating_sub(usize::from(gets))),
                None => Some(0),
                _ => None,
            };
            return Some(self.column(&runs, &name, number, call.whole));
        }
        for value in values {
            if let Value::Function(at) = value {
                let inner = call.for_callback();
                let at = *at;
                if !self.frames.iter().any(|f| f.function == Some(at)) {
                    let rows = Value::Rows(runs.clone());
                    self.repeat(&mut |walk: &mut Self| {
                        walk.follow(at, std::slice::from_ref(&rows), &inner);
                    });
                }
            }
        }
        Some(Value::Rows(runs))
    }

    /// A column of these runs' results, by name or by number.
    pub(super) fn column(
        &mut self,
        runs: &[usize],
        name: &str,
        number: Option<usize>,
        value: &Expression,
    ) -> Value {
        let mut read = Vec::new();
        for run in runs {
            let Some(known) = self.out.runs.get(*run) else {
                continue;
            };
            let outline = SqlOutline::of(&known.text.shown());
            let column = match number {
                Some(at) => outline.columns.get(at).cloned(),
                None => outline
                    .columns
                    .iter()
                    .find(|c| c.eq_ignore_ascii_case(name))
                    .cloned(),
            };
            let column = column.or_else(|| {
                (outline.all && !name.is_empty() && !is_of_rows(name)).then(|| name.to_owned())
            });
            read.push(Read {
                run: *run,
                plain: column.is_some(),
                column,
            });
        }
        let is_column = read.iter().any(|r| r.column.is_some());
        // `rows` and `rows[0]` are still rows.
        let of_rows = matches!(
            value.kind,
            ExpressionKind::Member(..) | ExpressionKind::Index(..)
        );
        let row = number.is_some() && of_rows && !is_fetched(value);
        if !is_column && (of_rows || name.is_empty() || is_of_rows(name)) || row {
            return Value::Rows(runs.to_vec());
        }
        let shown = match name.is_empty() {
            false => name.to_owned(),
            true => read
                .iter()
                .find_map(|r| r.column.clone())
                .unwrap_or_else(|| self.source(&value.range).to_owned()),
        };
        self.scalar(&shown, read, false)
    }

    /// Runs one of these alternative texts.
    pub(super) fn run(&mut self, texts: &[FoldedText], bound: Bound, at: usize) -> Value {
        let file = self.file();
        let runs = self.runs_of(texts, &bound, file, at);
        if let Some(step) = self.step_of(&runs, file, at) {
            self.push(step);
        }
        Value::Rows(runs)
    }

    /// Records a run for each text.
    pub(super) fn runs_of(
        &mut self,
        texts: &[FoldedText],
        bound: &Bound,
        file: usize,
        at: usize,
    ) -> Vec<usize> {
        self.mark(texts);
        let mut runs = Vec::new();
        for text in texts {
            if self.out.runs.len() >= RUNS_MAX {
                self.give_up(
                    "more statements run here than the analyser follows",
                    &(at..at),
                );
                break;
            }
            self.ran += 1;
            runs.push(self.out.runs.len());
            let (text, bound) = (text.clone(), bound.clone());
            self.out.runs.push(Run {
                text,
                file,
                at,
                bound,
            });
        }
        runs
    }

    pub(super) fn step_of(&self, runs: &[usize], file: usize, at: usize) -> Option<WalkedStep> {
        match runs {
            [] => None,
            [one] => Some(WalkedStep::Run(*one)),
            several => {
                let branch = |run: &usize| Branch {
                    file,
                    at,
                    steps: vec![WalkedStep::Run(*run)],
                    role: BranchRole::default(),
                };
                Some(WalkedStep::Either(several.iter().map(branch).collect()))
            }
        }
    }

    /// Marks texts as run or reported.
    pub(super) fn mark(&mut self, texts: &[FoldedText]) {
        for piece in texts.iter().flat_map(|t| &t.pieces) {
            if let crate::value::Piece::Text { file, places, .. } = piece
                && let Some(place) = places.first()
            {
                self.facts.texts.insert((*file, *place));
            }
        }
    }
}

/// Members of results besides columns.
fn is_of_rows(name: &str) -> bool {
    matches!(
        name,
        "rows"
            | "rowCount"
            | "length"
            | "rowcount"
            | "data"
            | "affectedRows"
            | "insertId"
            | "lastrowid"
            | "changes"
            | "lastInsertRowid"
            | "num_rows"
            | "affected_rows"
            | "fields"
            | "count"
            | "then"
            | "err"
            | "error"
    )
}

/// Whether a single row was fetched, so that an index means a column.
fn is_fetched(value: &Expression) -> bool {
    match &value.kind {
        ExpressionKind::Index(of, _) => {
            let name = of.last_name().unwrap_or_default().to_ascii_lowercase();
            name.contains("fetchone")
                || name.contains("fetch_row")
                || name.contains("row") && !name.contains("rows")
                || name == "result"
        }
        _ => true,
    }
}

fn is_entity_manager(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "em"
        || name.ends_with("entitymanager")
        || name.ends_with("session")
        || name == "manager"
}

/// The kind of control statement that all alternatives share.
fn control_of(texts: &[FoldedText]) -> Option<Control> {
    let mut found = texts.iter().map(|text| Control::of(&text.shown()));
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}
