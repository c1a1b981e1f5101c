//! Parses `CREATE FUNCTION` and `CREATE PROCEDURE`: parameters, result and options. The body is left to
//! [`super::plpgsql`] and [`super::sql_body`].

use anabranch_types::DataType;
use sqlparser::tokenizer::Token as Kind;

use super::{
    cursor::{Cursor, Name, Parsed},
    declaration::ResultKind,
    lexer::{Places, Text, Token, lex},
    plpgsql,
    scope::Scope,
    sql_body, trigger,
    type_name::{TypeName, type_name},
};
use crate::{
    catalog::{
        Block, Catalog, Parameter, ParameterMode, Procedure, Returns, RoutineKind, VariableType,
    },
    diagnostic::Diagnostic,
    source::{SourceFile, Span},
};

/// A routine and whether it may replace another of its name.
pub(crate) struct Routine {
    pub(crate) procedure: Procedure,
    pub(crate) name: Name,
    pub(crate) or_replace: bool,
    /// Whether it is the function of a trigger.
    pub(crate) is_trigger: bool,
}

/// Parses a statement that creates a routine; one that returns a trigger if there are triggers here. Errors within its
/// body are added to `errors`, as far as the body can be followed.
pub(crate) fn routine(
    mut cursor: Cursor<'_>,
    catalog: &Catalog,
    has_triggers: bool,
    errors: &mut Vec<Diagnostic>,
) -> Parsed<Routine> {
    let start = cursor.expect_words(&["create"])?;
    let or_replace = cursor.eat_words(&["or", "replace"]);
    let is_procedure = cursor.eat_word("procedure");
    if !is_procedure {
        cursor.expect_words(&["function"])?;
    }
    let name = cursor.schema_name("a name")?;
    let mut header = Header::new(is_procedure, has_triggers);
    header.parameters = parameters(&mut cursor, catalog)?;
    clauses(&mut cursor, catalog, &name, &mut header)?;
    header.check_trigger()?;
    header.settle_returns(&name)?;
    let mut scope = header.scope()?;
    let found = errors.len();
    let body = body(&cursor, &header, &name, &mut scope, catalog, errors)?;
    let is_trigger = header.trigger.is_some();
    if is_trigger && errors.len() == found {
        trigger::check_body(&body, name.span)?;
    }
    let span = cursor.since(start);
    let procedure = Procedure {
        name: name.text.clone(),
        kind: match header.is_procedure {
            true => RoutineKind::Procedure,
            false => RoutineKind::Function,
        },
        parameters: header
            .parameters
            .into_iter()
            .map(|(parameter, _)| parameter)
            .collect(),
        returns: header.returns.unwrap_or(Returns::Parameters),
        is_strict: header.is_strict,
        body,
        keeps: Vec::new(),
        span,
    };
    Ok(Routine {
        procedure,
        name,
        or_replace,
        is_trigger,
    })
}

/// The form of the body.
enum Body<'a> {
    /// A string literal.
    String(&'a Token),
    /// Between BEGIN ATOMIC and END.
    Atomic(Cursor<'a>),
    /// After RETURN.
    Return(Cursor<'a>),
}

struct Header<'a> {
    is_procedure: bool,
    /// Whether it may return a trigger.
    has_triggers: bool,
    parameters: Vec<(Parameter, Span)>,
    returns: Option<Returns>,
    returns_span: Option<Span>,
    /// `RETURNS [SETOF] record`: the OUT parameters give its columns.
    record: Option<bool>,
    /// `RETURNS trigger`, with its place.
    trigger: Option<Span>,
    kind: ResultKind,
    language: Option<Name>,
    is_strict: bool,
    body: Option<Body<'a>>,
}

impl<'a> Header<'a> {
    fn new(is_procedure: bool, has_triggers: bool) -> Header<'a> {
        Header {
            is_procedure,
            has_triggers,
            parameters: Vec::new(),
            returns: None,
            returns_span: None,
            record: None,
            trigger: None,
            kind: ResultKind::Parameters,
            language: None,
            is_strict: false,
            body: None,
        }
    }

    fn outputs(&self) -> Vec<(String, DataType)> {
        self.parameters
            .iter()
            .filter(|(parameter, _)| parameter.mode != ParameterMode::In)
            .map(|(parameter, _)| (parameter.name.clone(), parameter.data_type.clone()))
            .collect()
    }

    /// Refuses what the function of a trigger cannot be.
    fn check_trigger(&self) -> Parsed<()> {
        let Some(span) = self.trigger else {
            return Ok(());
        };
        if self.language.as_ref().is_some_and(|of| of.text == "sql") {
            let message = "SQL functions cannot return type trigger";
            return Err(Diagnostic::new("42P13", message, span));
        }
        if let Some((_, place)) = self.parameters.first() {
            let message = "trigger functions cannot have declared arguments";
            return Err(Diagnostic::new("42P13", message, *place).help(
                "The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead.",
            ));
        }
        Ok(())
    }

    /// RETURNS and OUT parameters must agree.
    fn settle_returns(&mut self, name: &Name) -> Parsed<()> {
        let outputs = self.outputs();
        let span = self.returns_span.unwrap_or(name.span);
        let invalid = |message: &str| Err(Diagnostic::new("42P13", message, span));
        match (&self.returns, self.record) {
            (_, Some(_)) if outputs.is_empty() => Err(Diagnostic::unsupported(
                "RETURNS record without OUT parameters",
                span,
            )
            .help("name the columns: RETURNS TABLE (column type, …)")),
            (_, Some(true)) => {
                self.returns = Some(Returns::Table(outputs));
                self.kind = ResultKind::NamedRows;
                self.parameters
                    .retain(|(parameter, _)| parameter.mode != ParameterMode::Out);
                Ok(())
            }
            (Some(Returns::Table(_)), _) if !outputs.is_empty() => {
                invalid("OUT and INOUT arguments aren't allowed in TABLE functions")
            }
            (Some(Returns::Scalar(data_type)), _) if !outputs.is_empty() => {
                if outputs.len() == 1 && outputs[0].1 == *data_type {
                    self.returns = Some(Returns::Parameters);
                    self.kind = ResultKind::Parameters;
                    return Ok(());
                }
                invalid("function result type must match its OUT parameters")
            }
            (None, None) if outputs.is_empty() && !self.is_procedure => Err(Diagnostic::new(
                "42P13",
                "function result type must be specified",
                span,
            )
            .help("add RETURNS type, RETURNS TABLE (…), RETURNS void or OUT parameters")),
            _ => Ok(()),
        }
    }

    /// The variables that a body starts with.
    fn scope(&self) -> Parsed<Scope> {
        let mut scope = Scope::default();
        if self.trigger.is_some() {
            trigger::declare_variables(&mut scope);
        }
        if !self.outputs().is_empty() {
            scope.set_outputs();
        }
        for (parameter, span) in &self.parameters {
            let known = VariableType::Data(parameter.data_type.clone());
            if !scope.declare(&parameter.name, known, false) {
                return Err(repeated(&parameter.name, *span));
            }
        }
        if let (ResultKind::NamedRows, Some(Returns::Table(columns))) = (self.kind, &self.returns) {
            for (name, data_type) in columns {
                // OUT parameters of a SETOF record may be INOUT, and so be declared already.
                let known = VariableType::Data(data_type.clone());
                if !scope.declare(name, known, false) && self.record.is_none() {
                    return Err(repeated(
                        name,
                        self.returns_span.unwrap_or(self.parameters[0].1),
                    ));
                }
            }
        }
        Ok(scope)
    }
}

fn repeated(name: &str, span: Span) -> Diagnostic {
    let message = format!("parameter name \"{name}\" used more than once");
    Diagnostic::new("42P13", message, span)
}

fn parameters(cursor: &mut Cursor<'_>, catalog: &Catalog) -> Parsed<Vec<(Parameter, Span)>> {
    let mut parameters = Vec::new();
    cursor.expect(&Kind::LParen)?;
    if cursor.eat(&Kind::RParen) {
        return Ok(parameters);
    }
    loop {
        let parameter = parameter(cursor, catalog, parameters.len())?;
        parameters.push(parameter);
        if cursor.eat(&Kind::RParen) {
            return Ok(parameters);
        }
        if !cursor.eat(&Kind::Comma) {
            return Err(cursor.expected("\",\" or \")\" after a parameter"));
        }
    }
}

fn mode(cursor: &mut Cursor<'_>) -> Parsed<Option<ParameterMode>> {
    // A mode is followed by a name or a type; else it is itself a name, such as "out integer".
    if cursor.at_word("variadic") {
        return Err(
            Diagnostic::unsupported("a VARIADIC parameter", cursor.span())
                .help("declare an array parameter"),
        );
    }
    Ok(
        if cursor.eat_words(&["in", "out"]) || cursor.eat_word("inout") {
            Some(ParameterMode::InOut)
        } else if cursor.eat_word("in") {
            Some(ParameterMode::In)
        } else if cursor.eat_word("out") {
            Some(ParameterMode::Out)
        } else {
            None
        },
    )
}

fn parameter(
    cursor: &mut Cursor<'_>,
    catalog: &Catalog,
    position: usize,
) -> Parsed<(Parameter, Span)> {
    let start = cursor.span();
    let mut parameter_mode = mode(cursor)?;
    // `name mode type` is allowed too.
    let mut nameless = *cursor;
    let is_nameless =
        type_name(&mut nameless, catalog, None).is_ok() && at_parameter_end(&nameless);
    let name = match is_nameless {
        true => Name {
            text: format!("${}", position + 1),
            span: start,
        },
        false => cursor.name("a parameter name")?,
    };
    if parameter_mode.is_none() {
        parameter_mode = mode(cursor)?;
    }
    let type_start = cursor.span();
    let data_type = match type_name(cursor, catalog, None)? {
        TypeName::Data(data_type) => unbounded(data_type),
        TypeName::Row(_) | TypeName::Record | TypeName::Void | TypeName::Trigger => {
            return Err(Diagnostic::unsupported(
                "a parameter of a row type",
                cursor.since(type_start),
            )
            .help("declare one parameter a column"));
        }
    };
    let default = if cursor.eat_word("default") || cursor.eat(&Kind::Eq) {
        Some(cursor.take_until(|at| at.at(&Kind::Comma)).expression()?)
    } else {
        None
    };
    let mode = parameter_mode.unwrap_or(ParameterMode::In);
    Ok((
        Parameter {
            name: name.text,
            data_type,
            mode,
            default,
        },
        name.span,
    ))
}

/// A parameter's or result's type: PostgreSQL forgets the bounds of `numeric(p, s)` and
/// `varchar(n)` there. `char(n)` keeps its length, to which its values are padded when shown, except where the length is
/// one: `pg_dump` writes `character` for every length.
fn unbounded(data_type: DataType) -> DataType {
    match data_type {
        DataType::Numeric(_) => DataType::Numeric(None),
        DataType::Varchar(_) => DataType::Varchar(None),
        DataType::Char(1) => DataType::BPCHAR,
        DataType::Array(element) => DataType::Array(Box::new(unbounded(*element))),
        other => other,
    }
}

fn at_parameter_end(cursor: &Cursor<'_>) -> bool {
    cursor.at(&Kind::Comma)
        || cursor.at(&Kind::RParen)
        || cursor.at(&Kind::Eq)
        || cursor.at_word("default")
}

/// The clauses after the parameters, in any order.
fn clauses<'a>(
    cursor: &mut Cursor<'a>,
    catalog: &Catalog,
    name: &Name,
    header: &mut Header<'a>,
) -> Parsed<()> {
    while !cursor.is_done() {
        let start = cursor.span();
        if cursor.eat_words(&["returns", "null", "on", "null", "input"])
            || cursor.eat_word("strict")
        {
            if header.is_procedure {
                let message = "invalid attribute in procedure definition";
                return Err(Diagnostic::new("42P13", message, cursor.since(start)));
            }
            header.is_strict = true;
        } else if !header.is_procedure && cursor.eat_word("returns") {
            returns(cursor, catalog, name, header)?;
            header.returns_span = Some(cursor.since(start));
        } else if cursor.eat_word("language") {
            header.language = Some(language(cursor)?);
        } else if cursor.eat_word("as") {
            let body = cursor
                .next()
                .filter(|t| matches!(t.kind, Kind::SingleQuotedString(_)));
            let Some(body) = body else {
                return Err(Diagnostic::new(
                    "42601",
                    "the body is not a string",
                    cursor.last_span(),
                )
                .help("write the body between $$ and $$"));
            };
            set_body(header, Body::String(body), start)?;
        } else if cursor.eat_words(&["begin", "atomic"]) {
            let inside = atomic(cursor)?;
            set_body(header, Body::Atomic(inside), start)?;
        } else if cursor.eat_word("return") {
            let inside = cursor.take(cursor.left());
            set_body(header, Body::Return(inside), start)?;
        } else {
            option(cursor)?;
        }
    }
    Ok(())
}

fn set_body<'a>(header: &mut Header<'a>, body: Body<'a>, span: Span) -> Parsed<()> {
    if header.body.is_some() {
        return Err(
            Diagnostic::new("42P13", "conflicting or redundant options", span)
                .help("a routine has one body"),
        );
    }
    header.body = Some(body);
    Ok(())
}

fn language(cursor: &mut Cursor<'_>) -> Parsed<Name> {
    if cursor.at_word("sql") || cursor.at_word("plpgsql") {
        return cursor.name("a language");
    }
    let (text, span) = match cursor.string() {
        Ok((text, span)) => (text.to_ascii_lowercase(), span),
        Err(_) => {
            let name = cursor.name("a language")?;
            (name.text, name.span)
        }
    };
    match text.as_str() {
        "sql" | "plpgsql" => Ok(Name { text, span }),
        _ => Err(Diagnostic::unsupported(format!("LANGUAGE {text}"), span)
            .help("write the procedure in LANGUAGE SQL or plpgsql")),
    }
}

/// From after BEGIN ATOMIC to before the END that closes it, which is consumed too.
fn atomic<'a>(cursor: &mut Cursor<'a>) -> Parsed<Cursor<'a>> {
    let opening = cursor.last_span();
    let mut depth = 0_usize;
    let mut length = 0;
    loop {
        let Some(token) = cursor.peek_at(length) else {
            return Err(
                Diagnostic::new("42601", "BEGIN ATOMIC without END", opening)
                    .help("close the body with END"),
            );
        };
        if token.is_word("begin") || token.is_word("case") {
            depth += 1;
        } else if token.is_word("end") {
            if depth == 0 {
                break;
            }
            depth -= 1;
        }
        length += 1;
    }
    let inside = cursor.take(length);
    cursor.expect_words(&["end"])?;
    Ok(inside)
}

/// Options of a routine: those that only inform PostgreSQL's planner, and those that concern
/// privileges, change nothing here.
fn option(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let start = cursor.span();
    let informs = cursor.eat_word("immutable")
        || cursor.eat_word("stable")
        || cursor.eat_word("volatile")
        || cursor.eat_words(&["not", "leakproof"])
        || cursor.eat_word("leakproof")
        || cursor.eat_words(&["called", "on", "null", "input"])
        || cursor.eat_words(&["parallel", "safe"])
        || cursor.eat_words(&["parallel", "restricted"])
        || cursor.eat_words(&["parallel", "unsafe"])
        || cursor.eat_words(&["security", "invoker"])
        || cursor.eat_words(&["security", "definer"])
        || cursor.eat_words(&["external", "security", "invoker"])
        || cursor.eat_words(&["external", "security", "definer"]);
    if informs {
        return Ok(());
    }
    if cursor.eat_word("cost") || cursor.eat_word("rows") {
        cursor.integer()?;
        return Ok(());
    }
    if cursor.eat_words(&["set", "search_path"]) {
        if !cursor.eat(&Kind::Eq) {
            cursor.expect_words(&["to"])?;
        }
        cursor.next();
        while cursor.eat(&Kind::Comma) {
            cursor.next();
        }
        return Ok(());
    }
    for word in ["set", "window", "support", "transform"] {
        if cursor.at_word(word) {
            let construct = format!("{} of a routine", word.to_uppercase());
            return Err(Diagnostic::unsupported(construct, start).help("leave it out"));
        }
    }
    Err(cursor.expected("RETURNS, LANGUAGE, AS, BEGIN ATOMIC or an option of the routine"))
}

fn returns(
    cursor: &mut Cursor<'_>,
    catalog: &Catalog,
    name: &Name,
    header: &mut Header<'_>,
) -> Parsed<()> {
    if cursor.eat_word("table") {
        cursor.expect(&Kind::LParen)?;
        let mut columns = Vec::new();
        loop {
            let column = cursor.name("a column name")?;
            let start = cursor.span();
            match type_name(cursor, catalog, None)? {
                TypeName::Data(data_type) => columns.push((column.text, unbounded(data_type))),
                _ => {
                    let span = cursor.since(start);
                    return Err(Diagnostic::unsupported("a column of a row type", span));
                }
            }
            if !cursor.eat(&Kind::Comma) {
                break;
            }
        }
        cursor.expect(&Kind::RParen)?;
        header.returns = Some(Returns::Table(columns));
        header.kind = ResultKind::NamedRows;
        return Ok(());
    }
    let setof = cursor.eat_word("setof");
    let start = cursor.span();
    match (type_name(cursor, catalog, None)?, setof) {
        (TypeName::Data(data_type), false) => {
            header.returns = Some(Returns::Scalar(unbounded(data_type)));
            header.kind = ResultKind::Scalar;
        }
        (TypeName::Data(data_type), true) => {
            let column = (name.text.clone(), unbounded(data_type));
            header.returns = Some(Returns::Table(vec![column]));
            header.kind = ResultKind::Rows;
        }
        (TypeName::Row(columns), true) => {
            header.returns = Some(Returns::Table(columns));
            header.kind = ResultKind::Rows;
        }
        (TypeName::Record, setof) => header.record = Some(setof),
        (TypeName::Void, false) => header.returns = Some(Returns::Parameters),
        (TypeName::Trigger, false) if header.has_triggers => {
            header.trigger = Some(cursor.since(start));
            header.returns = Some(Returns::Parameters);
            // RETURN takes an expression.
            header.kind = ResultKind::Scalar;
        }
        (TypeName::Trigger, _) => {
            return Err(trigger::refused_function(cursor.since(start)));
        }
        (TypeName::Row(_), false) | (TypeName::Void, true) => {
            return Err(
                Diagnostic::unsupported("this result type", cursor.since(start))
                    .help("use RETURNS TABLE (column type, …)"),
            );
        }
    }
    Ok(())
}

fn body(
    cursor: &Cursor<'_>,
    header: &Header<'_>,
    name: &Name,
    scope: &mut Scope,
    catalog: &Catalog,
    errors: &mut Vec<Diagnostic>,
) -> Parsed<Block> {
    let Some(body) = &header.body else {
        return Err(
            Diagnostic::new("42P13", "no function body specified", name.span)
                .help("add AS $$ … $$ with a LANGUAGE, or BEGIN ATOMIC … END"),
        );
    };
    let language = match (&header.language, body) {
        (Some(language), _) => language.text.as_str(),
        (None, Body::Atomic(_) | Body::Return(_)) => "sql",
        (None, Body::String(_)) => {
            return Err(Diagnostic::new("42P13", "no language specified", name.span)
                .help("add LANGUAGE plpgsql or LANGUAGE SQL"));
        }
    };
    match body {
        Body::String(token) => {
            let file = cursor.file();
            let literal = Literal::new(file, token)?;
            let (tokens, error) = lex(literal.text());
            if let Some(error) = error {
                return Err(error);
            }
            let end = Span {
                start: token.span.end.saturating_sub(1),
                ..token.span
            };
            let inside = Cursor::new(file, &tokens, end);
            match language {
                "sql" => sql_body::body(inside, header.kind, end, scope),
                _ => plpgsql::body(inside, header.kind, scope, catalog, errors),
            }
        }
        Body::Atomic(_) | Body::Return(_) if language != "sql" => {
            let message = "inline SQL function body only valid for language SQL";
            Err(Diagnostic::new("42P13", message, name.span).help("write LANGUAGE SQL"))
        }
        Body::Atomic(inside) => sql_body::body(*inside, header.kind, inside.end_span(), scope),
        Body::Return(inside) => sql_body::return_expression(*inside, header.kind),
    }
}

/// The text of a string literal, and the positions of its bytes.
struct Literal<'a> {
    file: u16,
    start: u32,
    text: &'a str,
    unescaped: Option<(String, Vec<u32>)>,
}

impl<'a> Literal<'a> {
    fn new(file: &'a SourceFile, token: &Token) -> Parsed<Literal<'a>> {
        let written = file.slice(token.span);
        let (quote, escapes) = match written.as_bytes() {
            [b'$', ..] => (written[1..].find('$').map_or(1, |end| end + 2), false),
            [b'\'', ..] => (1, written[1..written.len() - 1].contains('\'')),
            _ => {
                return Err(
                    Diagnostic::unsupported("a body in an escape string", token.span)
                        .help("write the body between $$ and $$"),
                );
            }
        };
        let text = &written[quote..written.len() - quote];
        let start = token.span.start + u32::try_from(quote).unwrap_or(0);
        let unescaped = escapes.then(|| unescape(text, start));
        if let Some((value, _)) = &unescaped
            && !matches!(&token.kind, Kind::SingleQuotedString(whole) if whole == value)
        {
            return Err(
                Diagnostic::unsupported("a body of several strings", token.span)
                    .help("write the body between $$ and $$"),
            );
        }
        Ok(Literal {
            file: token.span.file,
            start,
            text,
            unescaped,
        })
    }

    fn text(&self) -> Text<'_> {
        match &self.unescaped {
            None => Text {
                file: self.file,
                text: self.text,
                places: Places::From(self.start),
            },
            Some((text, places)) => Text {
                file: self.file,
                text,
                places: Places::Each(places),
            },
        }
    }
}

/// Each doubled quote as one, with the place of every byte and of the end.
fn unescape(text: &str, start: u32) -> (String, Vec<u32>) {
    let mut value = String::with_capacity(text.len());
    let mut places = Vec::with_capacity(text.len() + 1);
    let mut characters = text.char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        let place = start.saturating_add(u32::try_from(offset).unwrap_or(u32::MAX));
        places.extend((0..character.len_utf8()).map(|byte| place + byte as u32));
        value.push(character);
        if character == '\'' {
            characters.next_if(|(_, next)| *next == '\'');
        }
    }
    places.push(start.saturating_add(u32::try_from(text.len()).unwrap_or(u32::MAX)));
    (value, places)
}
