//! A routine's body as a list of statements, with what is known of its variables: the basis for any change of its
//! text.

use std::collections::BTreeMap;
use std::mem::discriminant;

use anabranch_sql::catalog::{Block, ParameterMode, Procedure, Statement, VariableType};
use anabranch_sql::parse::{Lexeme, LexemeKind, lexemes};
use anabranch_sql::source::{SourceFile, Span};
use anabranch_sql::summary::{Role, StatementSummary};
use anabranch_types::{ColumnIndex, DataType, TableId};

use super::edit::Edit;
use super::tokens::{find, parts};
use crate::footprint::{Action, Footprint};
use crate::term::surely_equal;

/// A branch or a loop around statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    number: usize,
    repeats: bool,
}

/// A statement of a body.
pub(super) struct Node<'a> {
    pub(super) span: Span,
    path: Vec<Step>,
    pub(super) statement: &'a Statement,
    /// Its tokens.
    pub(super) words: Vec<Lexeme>,
}

/// A declared name.
struct Variable<'a> {
    input: bool,
    output: bool,
    data_type: Option<&'a VariableType>,
    parameter: Option<&'a DataType>,
    /// Where it is declared, if that is in the body.
    declared: Option<Span>,
    /// The statements that set it.
    set_by: Vec<usize>,
    /// Whether a statement that may run never or repeatedly sets it, or another declaration hides it.
    is_unclear: bool,
}

/// The source of a variable's value.
pub(super) enum Origin {
    /// The caller: nothing sets it.
    Input,
    /// Only this statement sets it.
    Set(usize),
    /// Not known.
    Unclear,
}

/// A routine's body, or the statements of a client's transaction.
pub(super) struct Body<'a> {
    pub(super) owner: usize,
    pub(super) procedure: &'a Procedure,
    pub(super) file: &'a SourceFile,
    footprint: &'a Footprint<'a>,
    pub(super) nodes: Vec<Node<'a>>,
    /// The tokens of the whole declaration, without those of a body in quotes.
    pub(super) header: Vec<Lexeme>,
    /// The tokens of the body.
    pub(super) words: Vec<Lexeme>,
    variables: BTreeMap<&'a str, Variable<'a>>,
}

/// The bodies that repairs may change: in the first `files`, analysed completely, and without calls of other
/// routines.
pub(super) fn bodies<'a>(footprint: &'a Footprint<'a>, files: usize) -> Vec<Body<'a>> {
    let types = 0..footprint.types.len();
    types
        .filter_map(|owner| body(footprint, owner, files))
        .collect()
}

fn body<'a>(footprint: &'a Footprint<'a>, owner: usize, files: usize) -> Option<Body<'a>> {
    let summary = footprint.types[owner].summary;
    let catalog = footprint.catalog;
    let mut named = catalog.procedures.iter().filter(|p| p.name == summary.name);
    let (Some(procedure), None) = (named.next(), named.next()) else {
        return None;
    };
    let whole = procedure.span;
    let inside =
        |span: Span| span.file == whole.file && whole.start <= span.start && span.end <= whole.end;
    let foreign = summary.statements.iter().any(|s| !inside(s.span));
    if summary.unknown.is_some() || foreign || usize::from(whole.file) >= files {
        return None;
    }
    let file = catalog.files.get(usize::from(whole.file))?;
    let header = lexemes(file, whole);
    let mut variables = BTreeMap::new();
    for parameter in &procedure.parameters {
        declare(
            &mut variables,
            &parameter.name,
            Variable {
                input: parameter.mode == ParameterMode::In,
                output: parameter.mode != ParameterMode::In,
                data_type: None,
                parameter: Some(&parameter.data_type),
                declared: None,
                set_by: Vec::new(),
                is_unclear: false,
            },
        );
    }
    let mut gathered = Gathered {
        file,
        nodes: Vec::new(),
        variables,
        steps: 0,
    };
    gathered.block(&procedure.body, &[]);
    let Gathered {
        nodes, variables, ..
    } = gathered;
    let first = nodes.first()?.span;
    let quoted = header.iter().find(|word| {
        word.kind == LexemeKind::Text
            && word.span.start <= first.start
            && first.end <= word.span.end
    });
    let words = match quoted {
        Some(text) => lexemes(file, unquoted(file, text.span)?),
        None => header.clone(),
    };
    Some(Body {
        owner,
        procedure,
        file,
        footprint,
        nodes,
        header,
        words,
        variables,
    })
}

/// The text between the quotes of a body. `None` if it differs from the source text, because of escapes.
fn unquoted(file: &SourceFile, span: Span) -> Option<Span> {
    let text = file.slice(span);
    let quote = match text.strip_prefix('$') {
        Some(rest) => rest.find('$')? + 2,
        None => {
            let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
            (!inner.contains('\'')).then_some(1)?
        }
    };
    let quote = u32::try_from(quote).ok()?;
    Some(Span {
        start: span.start + quote,
        end: span.end.checked_sub(quote)?,
        ..span
    })
}

fn declare<'a>(
    variables: &mut BTreeMap<&'a str, Variable<'a>>,
    name: &'a str,
    variable: Variable<'a>,
) {
    let hides = variables.contains_key(name);
    let declared = variables.entry(name).or_insert(variable);
    declared.is_unclear |= hides;
}

struct Gathered<'a> {
    file: &'a SourceFile,
    nodes: Vec<Node<'a>>,
    variables: BTreeMap<&'a str, Variable<'a>>,
    steps: usize,
}

impl<'a> Gathered<'a> {
    fn block(&mut self, block: &'a Block, path: &[Step]) {
        for variable in &block.variables {
            let declared = Variable {
                input: false,
                output: false,
                data_type: Some(&variable.data_type),
                parameter: None,
                declared: Some(variable.span),
                set_by: Vec::new(),
                is_unclear: false,
            };
            declare(&mut self.variables, &variable.name, declared);
        }
        self.statements(&block.statements, path);
    }

    fn statements(&mut self, statements: &'a [(Statement, Span)], path: &[Step]) {
        for (statement, span) in statements {
            self.statement(statement, *span, path);
        }
    }

    fn within(&mut self, statements: &'a [(Statement, Span)], path: &[Step], repeats: bool) {
        let number = self.steps;
        self.steps += 1;
        let path = [path, &[Step { number, repeats }]].concat();
        self.statements(statements, &path);
    }

    /// Records that a statement which may not run exactly once sets a variable.
    fn mark_unclear(&mut self, name: &'a str) {
        if let Some(variable) = self.variables.get_mut(name) {
            variable.is_unclear = true;
        }
    }

    fn statement(&mut self, statement: &'a Statement, span: Span, path: &[Step]) {
        let number = self.nodes.len();
        let sets = |gathered: &mut Gathered<'a>, name: &'a str| {
            if let Some(variable) = gathered.variables.get_mut(name) {
                variable.set_by.push(number);
            }
        };
        self.nodes.push(Node {
            span,
            path: path.to_vec(),
            statement,
            words: lexemes(self.file, span),
        });
        match statement {
            Statement::Sql { into, .. } => into.iter().for_each(|name| sets(self, name)),
            // A field of a record.
            Statement::Assign { target, .. } if target.contains('.') => {
                let record = target.split('.').next().unwrap_or_default();
                self.mark_unclear(record);
            }
            Statement::Assign {
                target,
                index: None,
                ..
            } => sets(self, target),
            Statement::Assign { target, .. } | Statement::RowCount(target) => {
                self.mark_unclear(target)
            }
            Statement::If {
                branches,
                otherwise,
            } => {
                for (_, branch) in branches {
                    self.within(branch, path, false);
                }
                self.within(otherwise, path, false);
            }
            Statement::Case {
                branches,
                otherwise,
                ..
            } => {
                for (_, branch) in branches {
                    self.within(branch, path, false);
                }
                self.within(otherwise, path, false);
            }
            Statement::ForRange { variable, body, .. } => {
                // The loop has a variable of its own, which may hide another.
                self.mark_unclear(variable);
                self.within(body, path, true);
            }
            Statement::ForQuery { targets, body, .. } => {
                targets.iter().for_each(|name| self.mark_unclear(name));
                self.within(body, path, true);
            }
            Statement::ForEach { target, body, .. } => {
                self.mark_unclear(target);
                self.within(body, path, true);
            }
            Statement::While { body, .. } => self.within(body, path, true),
            Statement::Block(block) => self.block(block, path),
            _ => {}
        }
    }
}

impl<'a> Body<'a> {
    /// Whether the files declare the routine with a header.
    pub(super) fn is_routine(&self) -> bool {
        self.header
            .first()
            .is_some_and(|word| word.is_word("create"))
    }

    /// Whether it has variables that can hold a result.
    pub(super) fn is_plpgsql(&self) -> bool {
        self.is_routine() && self.words != self.header
    }

    /// Whether a statement runs in every call.
    pub(super) fn always_runs(&self, node: usize) -> bool {
        self.nodes[node].path.is_empty()
    }

    /// The summary of a statement, without its branches and loops.
    pub(super) fn summary(&self, node: usize) -> Option<&'a StatementSummary> {
        let node = &self.nodes[node];
        let sql = matches!(
            node.statement,
            Statement::Sql { .. } | Statement::Perform(_) | Statement::ReturnQuery(_)
        );
        let mut of_type = self.footprint.types[self.owner].summary.statements.iter();
        of_type.find(|s| sql && s.span == node.span)
    }

    /// The actions of a statement, with terms followed back.
    pub(super) fn actions(&self, node: usize) -> Vec<&'a Action> {
        let Some(summary) = self.summary(node) else {
            return Vec::new();
        };
        let actions = self.footprint.types[self.owner].actions.iter();
        actions.filter(|a| a.statement == summary.id).collect()
    }

    /// The only table access of a statement, if it has one.
    pub(super) fn only_access(&self, node: usize, role: Role) -> Option<&'a Action> {
        match self.actions(node).as_slice() {
            [action] if action.access.role == role => Some(action),
            _ => None,
        }
    }

    /// The source of a name's value; `None` if it is no variable.
    pub(super) fn origin(&self, name: &str) -> Option<Origin> {
        let variable = self.variables.get(name)?;
        Some(match variable.set_by.as_slice() {
            _ if variable.is_unclear => Origin::Unclear,
            [] if variable.input => Origin::Input,
            [node] if !variable.input => Origin::Set(*node),
            _ => Origin::Unclear,
        })
    }

    /// Whether a variable holds the values of a column without conversion.
    pub(super) fn fits(&self, name: &str, table: TableId, column: ColumnIndex) -> bool {
        let column = &self.footprint.table(table).columns[column.index()].data_type;
        let same = |of: &DataType| discriminant(of) == discriminant(column);
        self.variables.get(name).is_some_and(|variable| {
            match (variable.data_type, variable.parameter) {
                (Some(VariableType::Data(of)), _) | (None, Some(of)) => same(of),
                _ => false,
            }
        })
    }

    /// Whether a variable holds a row.
    pub(super) fn is_record(&self, name: &str) -> bool {
        let of = self.variables.get(name).and_then(|v| v.data_type);
        matches!(of, Some(VariableType::Record | VariableType::Row(_)))
    }

    /// Whether callers see a variable.
    pub(super) fn is_output(&self, name: &str) -> bool {
        self.variables.get(name).is_some_and(|v| v.output)
    }

    /// Whether the body gives a name a meaning.
    pub(super) fn knows(&self, name: &str) -> bool {
        let words = self.header.iter().chain(&self.words);
        self.variables.contains_key(name) || words.filter_map(Lexeme::name).any(|n| n == name)
    }

    /// Whether one statement has run, for the last time, whenever the other runs.
    pub(super) fn runs_before(&self, first: usize, then: usize) -> bool {
        let (one, other) = (&self.nodes[first].path, &self.nodes[then].path);
        first < then
            && other.starts_with(one)
            && !other[one.len()..].iter().any(|step| step.repeats)
    }

    /// Whether one statement runs exactly when the other does.
    pub(super) fn runs_with(&self, first: usize, then: usize) -> bool {
        self.runs_before(first, then) && self.nodes[first].path == self.nodes[then].path
    }

    /// Whether a statement between two others accesses the table, or writes to others that are tied to it.
    pub(super) fn touched_between(
        &self,
        table: TableId,
        first: usize,
        then: usize,
        reads_too: bool,
    ) -> bool {
        (first + 1..then)
            .flat_map(|node| self.summaries(node))
            .any(|action| match action.access.role {
                Role::Read => reads_too && action.access.table == table,
                Role::Insert | Role::Update => action.access.table == table,
                Role::Delete => true,
            })
    }

    /// The actions of a statement, including the condition or query of a branch or a loop.
    fn summaries(&self, node: usize) -> impl Iterator<Item = &'a Action> + use<'a> {
        let span = self.nodes[node].span;
        let of_type = &self.footprint.types[self.owner];
        let statements = of_type.summary.statements.iter();
        let ids: Vec<_> = statements
            .filter(|s| s.span == span)
            .map(|s| s.id)
            .collect();
        let actions = of_type.actions.iter();
        actions.filter(move |action| ids.contains(&action.statement))
    }

    /// Whether two actions access the same row of one table, found by its whole key.
    pub(super) fn same_row(&self, one: &Action, other: &Action) -> bool {
        let key = &self.footprint.table(one.access.table).primary_key;
        let equal = |column: &ColumnIndex| match (one.fixed(*column), other.fixed(*column)) {
            (Some(one), Some(other)) => surely_equal(one, other),
            _ => false,
        };
        one.access.table == other.access.table && !key.is_empty() && key.iter().all(equal)
    }

    /// Whether the body tests the outcome of its last statement (FOUND, ROW_COUNT).
    pub(super) fn asks_for_outcome(&self) -> bool {
        let asks = |word: &Lexeme| word.is_word("found") || word.is_word("row_count");
        self.words.iter().any(asks)
    }

    /// The select list of a SELECT: one range of its tokens for each value.
    pub(super) fn selected(&self, node: usize) -> Option<Vec<std::ops::Range<usize>>> {
        let words = &self.nodes[node].words;
        if !words.first()?.is_word("select") {
            return None;
        }
        let into = find(words, 0..words.len(), "into");
        let from = find(words, 0..words.len(), "from")?;
        let end = into.map_or(from, |into| into.min(from));
        let distinct = words.get(1)?.is_word("distinct") || words.get(1)?.is_word("all");
        (!distinct).then(|| parts(words, 1..end))
    }

    /// The column of the SELECT's only table, if a range of tokens names it and nothing else.
    pub(super) fn column_at(
        &self,
        node: usize,
        part: std::ops::Range<usize>,
    ) -> Option<(ColumnIndex, &Lexeme)> {
        let table = self.only_access(node, Role::Read)?.access.table;
        let word = match &self.nodes[node].words[part] {
            [name] => name,
            [_, dot, name] if dot.is_sign(".") => name,
            _ => return None,
        };
        let column = self.footprint.catalog.column_by_name(table, word.name()?)?;
        Some((column, word))
    }

    /// The names of a table's columns, in order.
    pub(super) fn column_names(&self, table: TableId) -> Vec<&'a str> {
        let columns = self.footprint.table(table).columns.iter();
        columns.map(|column| column.name.as_str()).collect()
    }

    /// Where the body declares a variable.
    pub(super) fn declaration(&self, name: &str) -> Option<Span> {
        self.variables.get(name)?.declared
    }

    /// The source text of tokens.
    pub(super) fn text(&self, words: &[Lexeme]) -> &'a str {
        super::tokens::span(words).map_or("", |span| self.file.slice(span))
    }

    /// Whether a variable is named outside of these places.
    pub(super) fn is_named_outside(&self, name: &str, places: &[Span]) -> bool {
        let inside = |span: Span| {
            places
                .iter()
                .any(|place| place.start <= span.start && span.end <= place.end)
        };
        self.words
            .iter()
            .any(|word| word.name() == Some(name) && !inside(word.span))
    }

    /// Removes a statement with its semicolon, and its line if nothing else stands there.
    pub(super) fn removed(&self, span: Span) -> Edit {
        let text = &self.file.text;
        let (mut start, mut end) = (span.start as usize, span.end as usize);
        let behind = text[end..].trim_start();
        if behind.starts_with(';') {
            end = text.len() - behind.len() + 1;
        }
        let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let rest = text[end..].split('\n').next().unwrap_or_default();
        if text[line..start].trim().is_empty() && rest.trim().is_empty() {
            start = line;
            end = (end + rest.len() + 1).min(text.len());
        }
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Edit::replace(
            Span {
                start: place(start),
                end: place(end),
                ..span
            },
            "",
        )
    }

    /// The names behind INTO.
    pub(super) fn targets(&self, node: usize) -> Option<Vec<Span>> {
        let words = &self.nodes[node].words;
        let mut at = find(words, 0..words.len(), "into")? + 1;
        if words.get(at)?.is_word("strict") {
            at += 1;
        }
        let mut names = vec![words.get(at)?.span];
        while words.get(at + 1).is_some_and(|word| word.is_sign(",")) {
            at += 2;
            names.push(words.get(at)?.span);
        }
        Some(names)
    }

    /// A SELECT … INTO without some of its columns.
    pub(super) fn without(&self, node: usize, places: &[usize]) -> Option<Vec<Edit>> {
        let words = &self.nodes[node].words;
        let selected = self.selected(node)?;
        let columns: Option<Vec<Span>> = selected
            .iter()
            .map(|part| super::tokens::span(&words[part.clone()]))
            .collect();
        let mut edits = Vec::new();
        for list in [columns?, self.targets(node)?] {
            let kept: Vec<&str> = (0..list.len())
                .filter(|place| !places.contains(place))
                .map(|place| self.file.slice(list[place]))
                .collect();
            let whole = list.first()?.to(*list.last()?);
            edits.push(Edit::replace(whole, kept.join(", ")));
        }
        Some(edits)
    }

    /// Removes what is unused once these places are gone: reads into variables that are named nowhere else, and the
    /// declarations of these variables.
    pub(super) fn unneeded(&self, reads: &[usize], gone: &[Span]) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut places = gone.to_vec();
        for node in reads {
            let Statement::Sql { into, strict, .. } = self.nodes[*node].statement else {
                continue;
            };
            let mut besides = places.clone();
            besides.push(self.nodes[*node].span);
            besides.extend(into.iter().filter_map(|name| self.declaration(name)));
            let is_needed =
                |name: &String| self.is_output(name) || self.is_named_outside(name, &besides);
            let unneeded: Vec<usize> = (0..into.len())
                .filter(|place| !is_needed(&into[*place]))
                .collect();
            let less = match (unneeded.len(), into.as_slice()) {
                (0, [record]) if self.is_record(record) => {
                    self.fewer_fields(*node, record, &besides)
                }
                (0, _) => None,
                (all, _) if all == into.len() => (!strict && !self.asks_for_outcome())
                    .then(|| vec![self.removed(self.nodes[*node].span)]),
                _ => self.without(*node, &unneeded),
            };
            let Some(less) = less else {
                continue;
            };
            edits.extend(less);
            if unneeded.len() == into.len() {
                places.push(self.nodes[*node].span);
            }
            let unneeded = unneeded.iter().map(|place| &into[*place]);
            for declaration in unneeded.filter_map(|name| self.declaration(name)) {
                places.push(declaration);
                edits.push(self.removed(declaration));
            }
        }
        edits
    }

    /// A SELECT into a record, reduced to the fields that are named outside of these places.
    fn fewer_fields(&self, node: usize, record: &str, besides: &[Span]) -> Option<Vec<Edit>> {
        let inside = |span: Span| {
            let within = |place: &Span| place.start <= span.start && span.end <= place.end;
            besides.iter().any(within)
        };
        let mut fields: Vec<&str> = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            if word.name() != Some(record) || inside(word.span) {
                continue;
            }
            // The record is needed as a whole where it is named without a field.
            let dot = self.words.get(at + 1).is_some_and(|dot| dot.is_sign("."));
            let field = self.words.get(at + 2).filter(|_| dot)?;
            let text = self.file.slice(field.span);
            if !fields.contains(&text) {
                fields.push(text);
            }
        }
        let words = &self.nodes[node].words;
        let selected = self.selected(node)?;
        let is_star = matches!(selected.as_slice(), [part] if words[part.start].is_sign("*"));
        let is_plain = |part: &std::ops::Range<usize>| self.column_at(node, part.clone()).is_some();
        if !is_star && !selected.iter().all(is_plain) {
            return None;
        }
        let whole = words[selected.first()?.start].span;
        let whole = whole.to(words[selected.last()?.end - 1].span);
        Some(vec![Edit::replace(whole, fields.join(", "))])
    }

    /// Removes DECLARE with the last of its declarations.
    pub(super) fn declares_nothing(&self, edits: &[Edit]) -> Option<Edit> {
        let gone = |span: &Span| {
            let within = |e: &Edit| e.span.start <= span.start && span.end <= e.span.end;
            edits.iter().any(within)
        };
        let all: Vec<Span> = self.variables.values().filter_map(|v| v.declared).collect();
        let mut says = self.words.iter().filter(|word| word.is_word("declare"));
        match (says.next(), says.next()) {
            (Some(word), None) if !all.is_empty() && all.iter().all(gone) => {
                Some(self.removed(word.span))
            }
            _ => None,
        }
    }
}
