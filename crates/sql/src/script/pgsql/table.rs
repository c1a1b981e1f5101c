//! Translates the columns and constraints of CREATE TABLE and ALTER TABLE.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{
    Edit, OptionalPart, PartKind, Translation,
    types::{DeclaredType, TypeClass, Types, of_column},
};
use crate::parse::keyword::is_reserved;
use crate::script::{
    column_properties::ColumnProperties,
    scan::starts_among,
    tokens::{Token, after_if, altered, begin, closing, listed, name_of, quoted, tokens},
};

/// The words that end a column's type.
const OPTIONS: [&str; 13] = [
    "constraint",
    "not",
    "null",
    "default",
    "generated",
    "collate",
    "check",
    "unique",
    "primary",
    "references",
    "storage",
    "compression",
    "deferrable",
];

/// Translates the CREATE TABLE or ALTER TABLE in `text`, at `base` in its file.
pub(super) fn table(
    text: &str,
    base: usize,
    types: &Types,
    skipped: &dyn Fn(usize) -> bool,
    properties: &mut ColumnProperties,
    translation: &mut Translation,
) {
    if !starts_among(text, 3, &["table"]) {
        return;
    }
    let all = tokens(text);
    if !begin(&all, &["create"]) && !begin(&all, &["alter", "table"]) {
        return;
    }
    let mut table = Table {
        text,
        base,
        types,
        name: String::new(),
        retypes: false,
        skipped,
        properties,
        translation,
    };
    if begin(&all, &["alter"]) {
        table.alter(&all);
    } else {
        table.create(&all);
    }
}

struct Table<'a> {
    text: &'a str,
    base: usize,
    types: &'a Types,
    name: String,
    /// Whether this is a change of a column's type.
    retypes: bool,
    skipped: &'a dyn Fn(usize) -> bool,
    properties: &'a mut ColumnProperties,
    translation: &'a mut Translation,
}

/// The constraints and the default that a declared type adds to its column.
#[derive(Debug, Default)]
struct TypeConstraints {
    not_null: bool,
    default: Option<String>,
    checks: Vec<String>,
}

impl Table<'_> {
    fn create(&mut self, all: &[Token<'_>]) -> Option<()> {
        let at = usize::from(all.get(1)?.is("unlogged"));
        if at > 0 {
            self.edit(&all[1..2], "");
        }
        if !all.get(at + 1)?.is("table") {
            return None;
        }
        let (name, open) = name_of(all, after_if(all, at + 2))?;
        if !all.get(open)?.is_sign('(') {
            return None;
        }
        self.name = name;
        let close = closing(all, open)?;
        // The partition key does not matter.
        if begin(&all[close + 1..], &["partition", "by"]) {
            let by = close + 1 + all[close + 1..].iter().position(|t| t.is_sign('('))?;
            self.edit(&all[close + 1..=closing(all, by)?], "");
        }
        let elements = listed(&all[open + 1..close]);
        self.columns(&elements);
        let kept: Vec<bool> = elements.iter().map(|one| self.element(one, one)).collect();
        self.blank_others(all, &elements, &kept);
        Some(())
    }

    /// Translates ADD and ALTER of columns and constraints.
    fn alter(&mut self, all: &[Token<'_>]) -> Option<()> {
        let (name, next) = name_of(all, altered(all)?)?;
        self.name = name;
        let actions = listed(&all[next..]);
        let mut elements = Vec::new();
        for action in &actions {
            let column = 1 + usize::from(action.get(1).is_some_and(|t| t.is("column")));
            elements.push(match begin(action, &["add"]) {
                true => action.get(after_if(action, column)..).unwrap_or_default(),
                false => &[],
            });
        }
        self.columns(&elements);
        for action in &actions {
            self.retyped(action);
        }
        let mut kept = Vec::new();
        for (action, element) in actions.iter().zip(&elements) {
            kept.push(element.is_empty() || self.element(element, action));
        }
        if kept.contains(&true) {
            self.blank_others(all, &actions, &kept);
        } else {
            self.edit(all, "");
        }
        Some(())
    }

    /// Translates `ALTER COLUMN … TYPE`.
    fn retyped(&mut self, action: &[Token<'_>]) -> Option<()> {
        if !begin(action, &["alter"]) {
            return None;
        }
        let at = 1 + usize::from(action.get(1)?.is("column"));
        let name = action.get(at)?.name()?;
        let data = 2 * usize::from(begin(&action[at + 1..], &["set", "data"]));
        let start = at + 1 + data;
        if !action.get(start)?.is("type") {
            return None;
        }
        let ends = |t: &Token<'_>| t.is("using") || t.is("collate");
        let end = action.iter().position(ends).unwrap_or(action.len());
        // The column is read as if it were declared with the new type.
        let mut declared = vec![action[at]];
        declared.extend_from_slice(&action[start + 1..end]);
        self.columns(&[&declared]);
        if action.get(end).is_some_and(|t| t.is("collate")) {
            self.properties.own_equality.insert(self.key(&name));
            let using = action.iter().position(|t| t.is("using"));
            self.edit(&action[end..using.unwrap_or(action.len())], "");
        }
        self.retypes = true;
        let (_, says) = self.typed(&declared[1..], &name, &[]);
        self.retypes = false;
        let key = plain(&name);
        let mut behind = String::new();
        if says.not_null {
            behind.push_str(&format!(", ALTER COLUMN {key} SET NOT NULL"));
        }
        for check in says.checks {
            behind.push_str(&format!(", ADD CHECK {check}"));
        }
        self.append(action, &declared[1..], behind);
        Some(())
    }

    /// Adds text after these tokens. Diagnostics for it name the place of the type `named`.
    fn append(&mut self, tokens: &[Token<'_>], named: &[Token<'_>], words: String) {
        let at = self.range(tokens).end;
        let edit = Edit::new(at..at, words);
        if !edit.text.is_empty() {
            let place = self.range(named).start;
            self.translation.edits.push(Edit { place, ..edit });
        }
    }

    /// Blanks the elements of a list that are not kept, and the commas beside them.
    fn blank_others(&mut self, all: &[Token<'_>], elements: &[&[Token<'_>]], kept: &[bool]) {
        let mut any = false;
        for (at, element) in elements.iter().enumerate() {
            if at > 0
                && !(any && kept[at])
                && let Some(before) = elements[at - 1].last()
                && let Some(comma) = all.iter().find(|t| t.start >= before.end)
            {
                self.edit(&[*comma], "");
            }
            any |= kept[at];
            if !kept[at] {
                self.edit(element, "");
            }
        }
    }

    fn range(&self, tokens: &[Token<'_>]) -> Range<usize> {
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => self.base + first.start..self.base + last.end,
            _ => self.base..self.base,
        }
    }

    fn written(&self, tokens: &[Token<'_>]) -> &str {
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => &self.text[first.start..last.end],
            _ => "",
        }
    }

    fn edit(&mut self, tokens: &[Token<'_>], words: &str) {
        let range = self.range(tokens);
        self.translation.edits.push(Edit::new(range, words));
    }

    fn key(&self, column: &str) -> (String, String) {
        (self.name.clone(), column.to_owned())
    }

    /// Notes the properties of the columns among these elements.
    fn columns(&mut self, elements: &[&[Token<'_>]]) {
        for element in elements.iter().filter(|element| !is_constraint(element)) {
            let Some(name) = element.first().and_then(Token::name) else {
                continue;
            };
            let of_table = self
                .properties
                .columns
                .entry(self.name.clone())
                .or_default();
            of_table.insert(name.clone());
            let key = self.key(&name);
            let end = type_end(element);
            let (opaque, own_order) = match self.types.classify(self.text, &element[1..end]) {
                TypeClass::Opaque => (true, true),
                TypeClass::Declared(declared) => (declared.opaque, declared.own_order),
                TypeClass::Known | TypeClass::Named(_) => (false, false),
            };
            let options = &element[end..];
            if opaque || options.iter().any(|t| t.is("collate")) {
                self.properties.own_equality.insert(key.clone());
            }
            if own_order {
                self.properties.own_order.insert(key.clone());
            }
            let computed = options
                .windows(2)
                .position(|two| two[0].is("as") && two[1].is_sign('('));
            if let Some(open) = computed.map(|at| at + 1) {
                let close = closing(options, open).unwrap_or(options.len() - 1);
                let sources = options[open..=close].iter().filter_map(Token::name);
                self.properties.own_equality.insert(key.clone());
                self.properties.defaulted.insert(key.clone());
                self.properties.generated.insert(key, sources.collect());
            }
        }
    }

    /// Translates an element, the whole of `action`; returns whether it is kept.
    fn element(&mut self, element: &[Token<'_>], action: &[Token<'_>]) -> bool {
        // LIKE adds the columns of another table, so it cannot be skipped by itself.
        if begin(element, &["like"]) {
            return true;
        }
        if is_constraint(element) {
            return self.constraint(action, element, None);
        }
        self.column(element);
        true
    }

    /// Translates the constraint in `whole`; returns whether it is kept. `column` is that of a column constraint.
    fn constraint(
        &mut self,
        whole: &[Token<'_>],
        body: &[Token<'_>],
        column: Option<&str>,
    ) -> bool {
        let body = match body.first().is_some_and(|t| t.is("constraint")) {
            true => body.get(2..).unwrap_or_default(),
            false => body,
        };
        let is = |word: &str| body.first().is_some_and(|t| t.is(word));
        let table = quoted(&self.name);
        let written = self.written(body);
        let text = match column.map(quoted) {
            Some(key) if is("references") => {
                format!("ALTER TABLE {table} ADD FOREIGN KEY ({key}) {written}")
            }
            Some(key) if !is("check") => format!("ALTER TABLE {table} ADD {written} ({key})"),
            _ => format!("ALTER TABLE {table} ADD {written}"),
        };
        let mut named: BTreeSet<String> = body.iter().filter_map(Token::name).collect();
        let whole_row = named.contains(&self.name);
        named.extend(column.filter(|_| !is("check")).map(str::to_owned));
        if let Some(columns) = self.properties.columns.get(&self.name) {
            named.retain(|name| columns.contains(name));
        }
        let first = |among: &dyn Fn(&(String, String)) -> bool| {
            named.iter().find(|name| among(&self.key(name))).cloned()
        };
        let properties = &*self.properties;
        let generated = first(&|key| properties.generated.contains_key(key));
        let unknown = first(&|key| properties.own_equality.contains(key));
        let compares = super::compares(body);
        let disordered = first(&|key| properties.own_order.contains(key));
        let generated_named = generated.is_some();
        let why = match (generated, is("check"), &unknown, disordered) {
            (Some(column), ..) => {
                Some(format!("a constraint on the generated column \"{column}\""))
            }
            (_, true, Some(column), _) => Some(format!(
                "a CHECK on \"{column}\", with values that the analysis does not know,"
            )),
            (_, true, _, Some(column)) if compares => Some(format!(
                "a CHECK on \"{column}\", with values in an order other than that of text,"
            )),
            _ => None,
        };
        let is_opaque_check = is("check")
            && !whole_row
            && why.is_some()
            && !generated_named
            && named.len() == 1
            && unknown.is_some();
        let kind = match is_opaque_check {
            true => PartKind::OpaqueCheck,
            false => PartKind::Constraint,
        };
        if why.is_none()
            && !is("check")
            && let Some(column) = unknown
        {
            let range = self.range(whole);
            self.translation.keys.push((range, column));
        }
        self.part(whole, text, kind, why)
    }

    /// Notes an optional part; returns whether it is kept.
    fn part(
        &mut self,
        whole: &[Token<'_>],
        text: String,
        kind: PartKind,
        why: Option<String>,
    ) -> bool {
        let range = self.range(whole);
        let stays = why.is_none() && !(self.skipped)(range.start);
        self.translation.parts.push(OptionalPart {
            range,
            text,
            kind,
            why,
        });
        stays
    }

    /// Translates a column constraint, and blanks it if it is not kept.
    fn option(&mut self, option: &[Token<'_>], column: &str) {
        if !self.constraint(option, option, Some(column)) {
            self.edit(option, "");
        }
    }

    fn column(&mut self, element: &[Token<'_>]) -> Option<()> {
        let name = element.first()?.name()?;
        let end = type_end(element);
        let named = &element[1..end];
        let (opaque, says) = self.typed(named, &name, &element[end..]);
        let mut behind = String::new();
        if says.not_null {
            behind.push_str(" NOT NULL");
        }
        if let Some(default) = says.default {
            behind.push_str(&format!(" DEFAULT {default}"));
        }
        for check in says.checks {
            behind.push_str(&format!(" CHECK {check}"));
        }
        self.append(element, named, behind);
        let mut rest = &element[end..];
        while let Some(length) = self.column_option(rest, &name, opaque) {
            rest = rest.get(length..).unwrap_or_default();
        }
        Some(())
    }

    /// Translates the type of a column with these options; returns whether it is opaque, and what it adds to the
    /// column.
    fn typed(
        &mut self,
        named: &[Token<'_>],
        column: &str,
        options: &[Token<'_>],
    ) -> (bool, TypeConstraints) {
        let types = self.types;
        match types.classify(self.text, named) {
            TypeClass::Known => (false, TypeConstraints::default()),
            TypeClass::Named(words) => {
                self.edit(named, words);
                (false, TypeConstraints::default())
            }
            TypeClass::Declared(declared) => {
                let says = self.declared(named, declared, column, options);
                self.edit(named, &declared.base);
                (declared.opaque, says)
            }
            TypeClass::Opaque => {
                if let Some(unknown_types) = types.unknown_name(named) {
                    let range = self.range(named);
                    self.translation.unknown_types.push((range, unknown_types));
                }
                self.edit(named, "text");
                (true, TypeConstraints::default())
            }
        }
    }

    /// What a declared type adds to its column.
    fn declared(
        &mut self,
        named: &[Token<'_>],
        declared: &DeclaredType,
        column: &str,
        options: &[Token<'_>],
    ) -> TypeConstraints {
        let has = |words: &[&str]| (0..options.len()).any(|at| begin(&options[at..], words));
        let mut says = TypeConstraints {
            not_null: declared.not_null && !has(&["not", "null"]),
            ..TypeConstraints::default()
        };
        if let Some(default) = &declared.default
            && !has(&["default"])
        {
            match declared.opaque {
                true => {
                    self.properties.defaulted.insert(self.key(column));
                }
                false => says.default = Some(default.clone()),
            }
        }
        let key = plain(column);
        if !self.retypes && self.types.is_retyped(&self.key(column)) {
            return says;
        }
        for check in &declared.checks {
            let check = of_column(check, &key);
            let text = format!("ALTER TABLE \"{}\" ADD CHECK {check}", self.name);
            let (kind, why) = match declared.opaque {
                true => (
                    PartKind::OpaqueCheck,
                    Some(format!(
                        "a CHECK on \"{column}\", with values that the analysis does not know,"
                    )),
                ),
                false => (PartKind::Constraint, None),
            };
            if self.part(named, text, kind, why) {
                says.checks.push(check);
            }
        }
        says
    }

    /// Translates the next of a column's options; returns its number of tokens.
    fn column_option(&mut self, rest: &[Token<'_>], column: &str, opaque: bool) -> Option<usize> {
        let first = rest.first()?;
        let constrained = match first.is("constraint") {
            true => 2,
            false => 0,
        };
        let body = rest.get(constrained..)?;
        let is = |word: &str| body.first().is_some_and(|t| t.is(word));
        if begin(body, &["not", "null"]) {
            if self.properties.generated.contains_key(&self.key(column)) {
                let key = quoted(column);
                let text = format!(
                    "ALTER TABLE {} ADD CHECK ({key} IS NOT NULL)",
                    quoted(&self.name)
                );
                let why = format!("NOT NULL of \"{column}\", which the database computes,");
                self.part(
                    &rest[..constrained + 2],
                    text,
                    PartKind::Constraint,
                    Some(why),
                );
                self.edit(&rest[..constrained + 2], "");
            }
            return Some(constrained + 2);
        }
        if is("storage") || is("compression") || is("collate") {
            let length = match body.get(2).is_some_and(|t| t.is_sign('.')) {
                true => 4,
                false => 2,
            };
            self.edit(&body[..length.min(body.len())], "");
            return Some(constrained + length);
        }
        if is("default") {
            let length = 1 + expression(&body[1..]);
            self.default(&body[..length], column, opaque);
            return Some(constrained + length);
        }
        if is("generated") {
            return Some(constrained + self.generated(body));
        }
        let length = if is("check") {
            let close = closing(body, 1)?;
            1 + close + 2 * usize::from(begin(&body[close + 1..], &["no", "inherit"]))
        } else if is("unique") || is("primary") {
            1 + until_option(&body[1..])
                .max(usize::from(is("primary")))
                .max(nulls(&body[1..]))
        } else if is("references") {
            reference(body)
        } else {
            return Some(1);
        };
        let length = (constrained + length).min(rest.len());
        self.option(&rest[..length], column);
        Some(length)
    }

    fn default(&mut self, option: &[Token<'_>], column: &str, opaque: bool) {
        let null = option.len() == 2 && option[1].is("null");
        if opaque && !null {
            self.properties.defaulted.insert(self.key(column));
            self.edit(&option[1..], "''");
            return;
        }
        let text = format!("the default of {}.{column}", self.name);
        if !self.part(option, text, PartKind::Default, None) {
            self.properties.defaulted.insert(self.key(column));
            self.edit(option, "");
        }
    }

    /// Translates `GENERATED …`; returns its number of tokens.
    fn generated(&mut self, body: &[Token<'_>]) -> usize {
        let Some(at) = body.iter().position(|t| t.is("as")) else {
            return 1;
        };
        if body.get(at + 1).is_some_and(|t| t.is_sign('(')) {
            let close = closing(body, at + 1).unwrap_or(body.len() - 1);
            let kept = ["stored", "virtual"];
            let stored = body
                .get(close + 1)
                .is_some_and(|t| kept.iter().any(|k| t.is(k)));
            let length = close + 1 + usize::from(stored);
            self.edit(&body[..length], "");
            return length;
        }
        // The options of an identity matter only with CYCLE, which repeats numbers.
        let open = at + 2;
        if body.get(open).is_some_and(|t| t.is_sign('('))
            && let Some(close) = closing(body, open)
        {
            let options = &body[open..=close];
            let cycles =
                (1..options.len()).any(|at| options[at].is("cycle") && !options[at - 1].is("no"));
            if !cycles {
                self.edit(options, "");
            }
            return close + 1;
        }
        open
    }
}

/// A column's name as people write it, without quotes where possible.
fn plain(column: &str) -> String {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = column.starts_with(|c: char| !c.is_ascii_digit());
    // A few words can name columns, but cannot begin an expression.
    let is_free = !is_reserved(column) && column != "is";
    match starts && column.chars().all(is_word) && is_free {
        true => column.to_owned(),
        false => quoted(column),
    }
}

fn is_constraint(element: &[Token<'_>]) -> bool {
    let first = |words: &[&str]| begin(element, words);
    let bracket = |at: usize| element.get(at).is_some_and(|t| t.is_sign('('));
    first(&["constraint"])
        || first(&["primary", "key"])
        || first(&["foreign", "key"])
        || first(&["unique"])
            && (bracket(1) || first(&["unique", "nulls"]) || first(&["unique", "using"]))
        || first(&["check"]) && bracket(1)
        || first(&["exclude"]) && (bracket(1) || first(&["exclude", "using"]))
        || first(&["like"])
}

/// The position after a column's type.
fn type_end(element: &[Token<'_>]) -> usize {
    let is_option = |t: &Token<'_>| OPTIONS.iter().any(|word| t.is(word));
    let behind = element.iter().skip(1).position(is_option);
    behind.map_or(element.len(), |at| at + 1).max(1)
}

/// The number of tokens up to the next option, outside of brackets.
fn until_option(rest: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in rest.iter().enumerate() {
        if token.is_sign('(') {
            depth += 1;
        } else if token.is_sign(')') {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && OPTIONS.iter().any(|word| token.is(word)) {
            return at;
        }
    }
    rest.len()
}

/// The number of tokens of a default; at least one.
fn expression(rest: &[Token<'_>]) -> usize {
    match rest.is_empty() {
        true => 0,
        false if rest[0].is_sign('(') => {
            let close = closing(rest, 0).unwrap_or(rest.len() - 1);
            close + 1 + until_option(&rest[close + 1..])
        }
        false => 1 + until_option(&rest[1..]),
    }
}

/// The number of tokens of `NULLS [NOT] DISTINCT`, if it comes next.
fn nulls(rest: &[Token<'_>]) -> usize {
    match (
        begin(rest, &["nulls", "distinct"]),
        begin(rest, &["nulls", "not", "distinct"]),
    ) {
        (true, _) => 2,
        (_, true) => 3,
        _ => 0,
    }
}

/// The number of tokens of `REFERENCES …`.
fn reference(body: &[Token<'_>]) -> usize {
    let mut at = 1;
    while at < body.len() {
        let rest = &body[at..];
        let action = begin(rest, &["on", "delete"]) || begin(rest, &["on", "update"]);
        at += if action {
            let set = begin(&rest[2..], &["set"]) || begin(&rest[2..], &["no"]);
            3 + usize::from(set)
        } else if begin(rest, &["not", "deferrable"]) {
            2
        } else if rest[0].is("deferrable") {
            1
        } else if rest[0].is_sign('(') {
            closing(rest, 0).map_or(1, |close| close + 1)
        } else if OPTIONS.iter().any(|word| rest[0].is(word)) {
            break;
        } else {
            1
        };
    }
    at.min(body.len())
}
