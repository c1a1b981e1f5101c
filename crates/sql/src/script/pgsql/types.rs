//! Declared types (enumerations and domains), and how the type of a column is represented.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_types::DataType;

use crate::{
    parse::resolve_written_type,
    script::{
        scan::{Part, starts_among},
        tokens::{Token, after_if, altered, begin, closing, listed, name_of, tokens},
    },
};

/// The declared types by name, and the schemas in use.
#[derive(Clone, Debug, Default)]
pub(in crate::script) struct Types {
    declared: BTreeMap<String, DeclaredType>,
    /// Columns that get another type later, so that the constraints of their first type do not hold.
    retyped: BTreeSet<(String, String)>,
    /// Schemas other than `public` that can be dropped from names: no two have a relation of the same name.
    schemas: BTreeSet<String>,
}

/// An enumeration or a domain.
#[derive(Clone, Debug, Default)]
pub(super) struct DeclaredType {
    /// The type that represents its values.
    pub(super) base: String,
    /// Its CHECKs, with `VALUE` for the value.
    pub(super) checks: Vec<String>,
    pub(super) not_null: bool,
    pub(super) default: Option<String>,
    /// Whether it is opaque: nothing is known of its values.
    pub(super) opaque: bool,
    /// Whether its labels are in another order than as text.
    pub(super) own_order: bool,
}

/// How a column's type is represented.
#[derive(Clone, Debug)]
pub(super) enum TypeClass<'t> {
    /// As it is written; also what is no type at all.
    Known,
    /// By a type of another name.
    Named(&'static str),
    /// By that of a declared type.
    Declared(&'t DeclaredType),
    /// Opaquely: nothing is known of its values.
    Opaque,
}

/// Built-in types that the catalog does not have, with values that are equal only if their texts mean the same: a
/// literal of one can be replaced by text.
const OWN: [&str; 17] = [
    "json",
    "jsonb",
    "inet",
    "cidr",
    "macaddr",
    "money",
    "time",
    "timetz",
    "xml",
    "tsvector",
    "tsquery",
    "bit",
    "point",
    "int4range",
    "int8range",
    "tsrange",
    "tstzrange",
];

/// More such types, with literals that cannot be replaced by text: different texts may be equal, or something is
/// computed from them.
const OTHERS: [&str; 24] = [
    "interval",
    "varbit",
    "box",
    "line",
    "lseg",
    "path",
    "polygon",
    "circle",
    "macaddr8",
    "name",
    "oid",
    "regclass",
    "bpchar",
    "char",
    "numrange",
    "daterange",
    "int4multirange",
    "int8multirange",
    "nummultirange",
    "tsmultirange",
    "tstzmultirange",
    "datemultirange",
    "pg_lsn",
    "numeric",
];

/// Whether a text declares a type, or nothing but a schema.
pub(super) fn declares(text: &str) -> bool {
    if !starts_among(text, 2, &["type", "domain", "schema"]) {
        return false;
    }
    let all = tokens(text);
    let forms: [&[&str]; 3] = [
        &["create", "domain"],
        &["create", "type"],
        &["alter", "type"],
    ];
    let is_schema = begin(&all, &["create", "schema"]) && !all.iter().any(|t| t.is_sign('('));
    // A type that is dropped by itself has no columns left.
    let drops = [["drop", "type"], ["drop", "domain"]];
    let is_drop =
        drops.iter().any(|words| begin(&all, words)) && !all.iter().any(|t| t.is("cascade"));
    is_schema || is_drop || forms.iter().any(|words| begin(&all, words))
}

/// The columns with a change of type, except those that are dropped, and may be added again.
fn retyped<'t>(declarations: impl Iterator<Item = &'t str>) -> BTreeSet<(String, String)> {
    let (mut retyped, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    for text in declarations.filter(|text| starts_among(text, 1, &["alter"])) {
        let all = tokens(text);
        let Some((table, next)) = altered(&all).and_then(|at| name_of(&all, at)) else {
            continue;
        };
        for action in listed(&all[next..]) {
            let word = |at: usize, word: &str| action.get(at).is_some_and(|t| t.is(word));
            let column = after_if(action, 1 + usize::from(word(1, "column")));
            let Some(name) = action.get(column).and_then(Token::name) else {
                continue;
            };
            let typed =
                column + 1 + 2 * usize::from(word(column + 1, "set") && word(column + 2, "data"));
            if word(0, "drop") {
                skipped.insert((table.clone(), name));
            } else if word(0, "alter") && word(typed, "type") {
                retyped.insert((table.clone(), name));
            }
        }
    }
    &retyped - &skipped
}

impl Types {
    /// Collects the types from declarations, in order.
    pub(in crate::script) fn of<'t>(declarations: impl Iterator<Item = &'t str> + Clone) -> Types {
        let mut types = Types {
            schemas: schemas(declarations.clone()),
            retyped: retyped(declarations.clone()),
            ..Types::default()
        };
        let kinds = ["type", "domain", "schema"];
        for text in declarations.filter(|text| starts_among(text, 2, &kinds)) {
            let all = tokens(text);
            // The statement is skipped and reported, so the domain's constraints are not known.
            if begin(&all, &["alter", "domain"])
                && let Some((name, next)) = name_of(&all, 2)
                && let Some(declared) = types.declared.get_mut(&name)
                && !begin(&all[next..], &["owner"])
            {
                *declared = opaque();
            }
            if !declares(text) {
                continue;
            }
            let Some((name, next)) = name_of(&all, 2) else {
                continue;
            };
            if begin(&all, &["create", "schema"]) || begin(&all, &["drop"]) {
                continue;
            }
            if begin(&all, &["alter"]) {
                if let Some(declared) = types.declared.get_mut(&name) {
                    declared.alter(&all[next..]);
                }
                continue;
            }
            let declared = match begin(&all, &["create", "domain"]) {
                true => types.domain(text, &all[next..]),
                false => enumeration(&all[next..]),
            };
            types.declared.insert(name, declared.unwrap_or_else(opaque));
        }
        types
    }

    /// Whether this is a schema that can be dropped from names.
    pub(super) fn is_schema(&self, name: &str) -> bool {
        self.schemas.contains(name)
    }

    /// Whether a column, by the names of table and column, gets another type later.
    pub(super) fn is_retyped(&self, column: &(String, String)) -> bool {
        self.retyped.contains(column)
    }

    /// The declared type of this name.
    pub(super) fn get(&self, name: &str) -> Option<&DeclaredType> {
        self.declared.get(name)
    }

    /// The type that represents a declared type, unless that is opaque.
    pub(super) fn base(&self, name: &str) -> Option<&str> {
        let declared = self.get(name).filter(|declared| !declared.opaque)?;
        Some(&declared.base)
    }

    /// The same, by its shortest name.
    pub(super) fn short_base(&self, name: &str) -> Option<String> {
        const SHORT: [(&str, &str); 8] = [
            ("timestamp with time zone", "timestamptz"),
            ("timestamp without time zone", "timestamp"),
            ("character varying", "varchar"),
            ("double precision", "float8"),
            ("smallint", "int2"),
            ("integer", "int"),
            ("bigint", "int8"),
            ("numeric", "dec"),
        ];
        let base = self.base(name)?.to_lowercase();
        let shorter = SHORT.iter().find_map(|(long, short)| {
            let rest = base.strip_prefix(long)?;
            Some(format!("{short}{rest}"))
        });
        Some(shorter.unwrap_or(base))
    }

    /// Whether a literal of this type can be replaced by text.
    pub(super) fn is_own(&self, name: &str) -> bool {
        !self.declared.contains_key(name) && OWN.contains(&name)
    }

    /// The name of the type in these tokens, if it is neither declared nor built in.
    pub(super) fn unknown_name(&self, named: &[Token<'_>]) -> Option<String> {
        let (name, next) = name_of(named, 0)?;
        let is_array = named[next..].iter().any(|t| t.is_sign('['));
        let brought = OWN.contains(&name.as_str()) || OTHERS.contains(&name.as_str());
        (!is_array && !brought && self.get(&name).is_none()).then_some(name)
    }

    /// How the type in these tokens is represented.
    pub(super) fn classify(&self, text: &str, named: &[Token<'_>]) -> TypeClass<'_> {
        let (Some(first), Some(last)) = (named.first(), named.last()) else {
            return TypeClass::Opaque;
        };
        if !is_type(named) {
            return TypeClass::Known;
        }
        let plain = name_of(named, 0).filter(|(_, next)| *next == named.len());
        if let Some((name, _)) = &plain
            && let Some(declared) = self.get(name)
        {
            return TypeClass::Declared(declared);
        }
        match resolve_written_type(&text[first.start..last.end]) {
            Some(DataType::Array(_) | DataType::Json | DataType::Jsonb) => TypeClass::Opaque,
            Some(_) => TypeClass::Known,
            // Fewer fractional digits make a subset of the values.
            None if first.is("timestamptz") => TypeClass::Named("timestamptz"),
            None if first.is("timestamp") && named.iter().any(|t| t.is("with")) => {
                TypeClass::Named("timestamptz")
            }
            None if first.is("timestamp") && !named.iter().any(|t| t.is_sign('[')) => {
                TypeClass::Named("timestamp")
            }
            None => TypeClass::Opaque,
        }
    }

    fn domain(&self, text: &str, rest: &[Token<'_>]) -> Option<DeclaredType> {
        let rest = match rest.first()?.is("as") {
            true => &rest[1..],
            false => rest,
        };
        const OPTIONS: [&str; 6] = ["default", "not", "null", "constraint", "check", "collate"];
        let is_option = |t: &Token<'_>| OPTIONS.iter().any(|word| t.is(word));
        let end = rest.iter().position(is_option).unwrap_or(rest.len());
        let named = rest.get(..end).filter(|named| !named.is_empty())?;
        let written = &text[named.first()?.start..named.last()?.end];
        let mut declared = match self.classify(text, named) {
            TypeClass::Declared(below) => below.clone(),
            TypeClass::Known => DeclaredType {
                base: written.to_owned(),
                ..DeclaredType::default()
            },
            TypeClass::Named(base) => DeclaredType {
                base: base.to_owned(),
                ..DeclaredType::default()
            },
            TypeClass::Opaque => opaque(),
        };
        let mut at = end;
        while at < rest.len() {
            let token = &rest[at];
            at += if token.is("check") {
                let close = closing(rest, at + 1)?;
                let inside = &text[rest[at + 1].start..rest[close].end];
                declared.checks.push(inside.to_owned());
                close + 1 - at
            } else if begin(&rest[at..], &["not", "null"]) {
                declared.not_null = true;
                2
            } else if token.is("constraint") {
                2
            } else if token.is("collate") {
                declared.opaque = true;
                2
            } else if token.is("default") {
                let behind = &rest[at + 1..];
                let length = 1 + behind
                    .iter()
                    .skip(1)
                    .position(is_option)
                    .unwrap_or(behind.len().saturating_sub(1));
                let value = behind.get(..length)?;
                declared.default = Some(text[value.first()?.start..value.last()?.end].to_owned());
                1 + length
            } else {
                1
            };
        }
        Some(declared)
    }
}

/// The schemas in declarations; none if two relations differ in their schema alone.
fn schemas<'t>(declarations: impl Iterator<Item = &'t str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut relations: BTreeMap<String, String> = BTreeMap::new();
    let mut differ = true;
    for text in declarations {
        let all = tokens(text);
        if !begin(&all, &["create"]) {
            continue;
        }
        let kinds = [
            "table",
            "view",
            "sequence",
            "type",
            "domain",
            "function",
            "procedure",
        ];
        let kind = all
            .iter()
            .take(5)
            .position(|t| kinds.iter().any(|kind| t.is(kind)));
        let Some(kind) = kind else {
            continue;
        };
        let at = after_if(&all, kind + 1);
        let Some((name, next)) = name_of(&all, at) else {
            continue;
        };
        let schema = match next > at + 1 {
            true => all[at].name().unwrap_or_default(),
            false => "public".to_owned(),
        };
        if all[kind].is("table") || all[kind].is("view") {
            let known = relations.entry(name).or_insert_with(|| schema.clone());
            differ &= *known == schema;
        }
        found.insert(schema);
    }
    found.remove("public");
    match differ {
        true => found,
        false => BTreeSet::new(),
    }
}

impl DeclaredType {
    /// Applies `ALTER TYPE`, from after the name. Anything but a new label makes the type opaque.
    fn alter(&mut self, rest: &[Token<'_>]) {
        let labels: Vec<&str> = rest.iter().filter_map(label).collect();
        let same: [&[&str]; 2] = [&["owner"], &["set", "schema"]];
        if same.iter().any(|words| begin(rest, words)) {
            return;
        }
        let (true, Some(new), Some(list)) = (
            begin(rest, &["add", "value"]) && !self.opaque,
            labels.first(),
            self.checks
                .first()
                .and_then(|check| check.strip_suffix("))")),
        ) else {
            *self = opaque();
            return;
        };
        // BEFORE or AFTER another label: the order may then differ from that of text.
        let last = list
            .rsplit(", ")
            .next()
            .and_then(|last| last.strip_prefix("(VALUE IN (").or(Some(last)));
        self.own_order |= labels.len() > 1 || last.is_some_and(|last| last > *new);
        self.checks = vec![format!("{list}, {new}))")];
    }
}

/// The label in a token.
fn label<'t>(token: &Token<'t>) -> Option<&'t str> {
    match token.part {
        Part::Quoted(label) if label.starts_with('\'') => Some(label),
        _ => None,
    }
}

/// Whether tokens have the form of a type: one name, or the several words of a standard type.
fn is_type(named: &[Token<'_>]) -> bool {
    const MORE: [&str; 16] = [
        "precision",
        "varying",
        "character",
        "char",
        "with",
        "without",
        "time",
        "zone",
        "array",
        "to",
        "year",
        "month",
        "day",
        "hour",
        "minute",
        "second",
    ];
    let Some((_, next)) = name_of(named, 0) else {
        return false;
    };
    let mut depth = 0_usize;
    named[next..].iter().all(|token| {
        match token.part {
            Part::Sign('(' | '[') => depth += 1,
            Part::Sign(')' | ']') => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ => return MORE.iter().any(|word| token.is(word)),
        }
        true
    })
}

/// An opaque type.
fn opaque() -> DeclaredType {
    DeclaredType {
        base: "text".to_owned(),
        opaque: true,
        ..DeclaredType::default()
    }
}

/// The enumeration declared after a name; `None` for another kind of type.
fn enumeration(rest: &[Token<'_>]) -> Option<DeclaredType> {
    if !begin(rest, &["as", "enum"]) {
        return None;
    }
    let labels: Vec<&str> = rest.iter().filter_map(label).collect();
    let base = "text".to_owned();
    let none = labels.is_empty();
    Some(DeclaredType {
        base,
        checks: match none {
            true => Vec::new(),
            false => vec![format!("(VALUE IN ({}))", labels.join(", "))],
        },
        own_order: !labels.is_sorted(),
        opaque: none,
        ..DeclaredType::default()
    })
}

/// A domain's CHECK with this column for `VALUE`; `column` is as in an expression.
pub(super) fn of_column(check: &str, column: &str) -> String {
    let mut out = String::with_capacity(check.len());
    let mut done = 0;
    for token in tokens(check).iter().filter(|token| token.is("value")) {
        out.push_str(&check[done..token.start]);
        out.push_str(column);
        done = token.end;
    }
    out.push_str(&check[done..]);
    out
}
