//! Parses `CREATE TABLE`, `ALTER TABLE … ADD constraint` and `CREATE INDEX`.

use anabranch_types::DataType;
use sqlparser::{ast, tokenizer::Token as Kind};

use super::{
    cursor::{Cursor, Name, Parsed},
    data_type::{self, Declared},
    declaration::{
        ColumnDeclaration, ConstraintDeclaration, ConstraintKind, IndexDeclaration, IndexKey,
        TableDeclaration,
    },
    output::{fold, output_name},
    sequence,
};
use crate::{
    catalog::{ColumnDefault, Deferrability, ReferentialAction},
    diagnostic::Diagnostic,
    source::Span,
};

/// `CREATE TABLE`, from after these two words.
pub(crate) fn create_table(cursor: &mut Cursor<'_>, start: Span) -> Parsed<TableDeclaration> {
    let if_not_exists = cursor.eat_words(&["if", "not", "exists"]);
    let name = cursor.schema_name("a table name")?;
    if cursor.at_words(&["partition", "of"]) || cursor.at_word("of") {
        return Err(unsupported(cursor, "PARTITION OF or OF"));
    }
    if cursor.at_word("as") {
        return Err(unsupported(cursor, "CREATE TABLE AS").help("declare its columns"));
    }
    cursor.expect(&Kind::LParen)?;
    let mut table = TableDeclaration {
        name,
        if_not_exists,
        columns: Vec::new(),
        constraints: Vec::new(),
        span: start,
    };
    if !cursor.eat(&Kind::RParen) {
        loop {
            element(cursor, &mut table)?;
            if cursor.eat(&Kind::RParen) {
                break;
            }
            if !cursor.eat(&Kind::Comma) {
                return Err(cursor.expected("\",\" or \")\" after a column or constraint"));
            }
        }
    }
    table_options(cursor)?;
    table.span = cursor.since(start);
    Ok(table)
}

fn unsupported(cursor: &Cursor<'_>, construct: &str) -> Diagnostic {
    Diagnostic::unsupported(construct, cursor.span())
}

/// The options after a table's closing parenthesis: storage parameters and tablespaces, which change nothing here.
fn table_options(cursor: &mut Cursor<'_>) -> Parsed<()> {
    loop {
        if cursor.is_done() {
            return Ok(());
        } else if cursor.eat_word("with") {
            cursor.parenthesised()?;
        } else if cursor.eat_word("tablespace") {
            cursor.name("a tablespace")?;
        } else if cursor.eat_words(&["without", "oids"]) {
        } else if cursor.at_word("inherits") {
            return Err(unsupported(cursor, "INHERITS").help("repeat the columns"));
        } else if cursor.at_words(&["partition", "by"]) {
            return Err(unsupported(cursor, "PARTITION BY")
                .help("leave it out: tables are partitioned by the plan"));
        } else {
            return Err(cursor.expected("\";\" at the end of the statement"));
        }
    }
}

fn element(cursor: &mut Cursor<'_>, table: &mut TableDeclaration) -> Parsed<()> {
    if cursor.at_word("like") {
        return Err(unsupported(cursor, "LIKE in CREATE TABLE").help("repeat the columns"));
    }
    if is_table_constraint(cursor) {
        table.constraints.push(table_constraint(cursor)?);
        return Ok(());
    }
    column(cursor, table)
}

fn is_table_constraint(cursor: &Cursor<'_>) -> bool {
    cursor.at_any(&["constraint", "check", "foreign", "unique", "primary"])
        || cursor.at_word("exclude")
            && cursor
                .peek_at(1)
                .is_some_and(|t| t.is_word("using") || t.kind == Kind::LParen)
}

/// A constraint of a table, in CREATE TABLE or after `ALTER TABLE … ADD`.
pub(crate) fn table_constraint(cursor: &mut Cursor<'_>) -> Parsed<ConstraintDeclaration> {
    let start = cursor.span();
    let name = constraint_name(cursor)?;
    let mut kind = if cursor.eat_word("check") {
        check(cursor)?
    } else if cursor.eat_word("unique") {
        nulls_distinct(cursor)?;
        let columns = constraint_columns(cursor)?;
        ConstraintKind::Unique(columns)
    } else if cursor.eat_word("primary") {
        cursor.expect_words(&["key"])?;
        ConstraintKind::PrimaryKey(constraint_columns(cursor)?)
    } else if cursor.eat_word("foreign") {
        cursor.expect_words(&["key"])?;
        let columns = cursor.names("a column name")?;
        cursor.expect_words(&["references"])?;
        references(cursor, columns)?
    } else if cursor.at_word("exclude") {
        return Err(unsupported(cursor, "an EXCLUDE constraint")
            .help("declare a UNIQUE constraint, or an assertion"));
    } else {
        return Err(cursor.expected("PRIMARY KEY, UNIQUE, FOREIGN KEY or CHECK"));
    };
    index_parameters(cursor)?;
    characteristics(cursor, &mut kind, false)?;
    Ok(ConstraintDeclaration {
        name,
        kind,
        span: cursor.since(start),
    })
}

fn constraint_columns(cursor: &mut Cursor<'_>) -> Parsed<Vec<Name>> {
    if cursor.at_words(&["using", "index"]) {
        return Err(unsupported(cursor, "a constraint USING INDEX").help("name its columns"));
    }
    cursor.names("a column name")
}

/// `INCLUDE`, `WITH`, `USING INDEX TABLESPACE` of a key.
fn index_parameters(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.at_word("include") {
        return Err(unsupported(cursor, "INCLUDE").help("leave it out: indexes lead to whole rows"));
    }
    if cursor.at_word("with") && cursor.peek_at(1).is_some_and(|t| t.kind == Kind::LParen) {
        cursor.next();
        cursor.parenthesised()?;
    }
    if cursor.eat_words(&["using", "index", "tablespace"]) {
        cursor.name("a tablespace")?;
    }
    Ok(())
}

fn constraint_name(cursor: &mut Cursor<'_>) -> Parsed<Option<Name>> {
    if cursor.eat_word("constraint") {
        return cursor.name("a constraint name").map(Some);
    }
    Ok(None)
}

/// The column of an `ALTER TABLE … ADD COLUMN`, with the constraints that stand at it.
pub(crate) fn added_column(
    cursor: &mut Cursor<'_>,
    table: &Name,
) -> Parsed<(ColumnDeclaration, Vec<ConstraintDeclaration>)> {
    let mut added = TableDeclaration {
        name: table.clone(),
        if_not_exists: false,
        columns: Vec::new(),
        constraints: Vec::new(),
        span: table.span,
    };
    column(cursor, &mut added)?;
    let column = added.columns.swap_remove(0);
    Ok((column, added.constraints))
}

/// A type that a column may have.
pub(crate) fn column_type(cursor: &mut Cursor<'_>) -> Parsed<Declared> {
    let declared = data_type::declared(cursor)?;
    if declared.data_type == DataType::BPCHAR {
        let construct = "bpchar without a length";
        return Err(Diagnostic::unsupported(construct, declared.span).help("write char(n) or text"));
    }
    Ok(declared)
}

fn column(cursor: &mut Cursor<'_>, table: &mut TableDeclaration) -> Parsed<()> {
    let name = cursor.name("a column name")?;
    if cursor.at(&Kind::Comma) || cursor.at(&Kind::RParen) || cursor.is_done() {
        return Err(cursor.expected(&format!("the type of column \"{}\"", name.text)));
    }
    let declared = column_type(cursor)?;
    let mut column = ColumnDeclaration {
        not_null: declared.serial,
        default: match declared.serial {
            true => ColumnDefault::Generated {
                always: false,
                serial: true,
            },
            false => ColumnDefault::Null,
        },
        name,
        declared,
    };
    let mut nullable = false;
    while !(cursor.at(&Kind::Comma) || cursor.at(&Kind::RParen) || cursor.is_done()) {
        let start = cursor.span();
        column_option(
            cursor,
            &mut column,
            &mut nullable,
            &table.name.text,
            &mut table.constraints,
        )?;
        if column.not_null && nullable {
            let message = format!(
                "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{}\"",
                column.name.text, table.name.text
            );
            return Err(Diagnostic::new("42601", message, cursor.since(start)));
        }
    }
    table.columns.push(column);
    Ok(())
}

fn column_option(
    cursor: &mut Cursor<'_>,
    column: &mut ColumnDeclaration,
    nullable: &mut bool,
    table: &str,
    constraints: &mut Vec<ConstraintDeclaration>,
) -> Parsed<()> {
    let start = cursor.span();
    let name = constraint_name(cursor)?;
    let own = || vec![column.name.clone()];
    let mut kind = if cursor.eat_words(&["not", "null"]) {
        column.not_null = true;
        return Ok(());
    } else if cursor.eat_word("null") {
        *nullable = true;
        return Ok(());
    } else if cursor.eat_word("default") {
        let default = default_value(cursor)?;
        return set_default(column, table, default, cursor.since(start));
    } else if cursor.eat_word("generated") {
        let default = generated(cursor, &column.declared.data_type)?;
        column.not_null |= matches!(default, ColumnDefault::Generated { .. });
        return set_default(column, table, default, cursor.since(start));
    } else if cursor.eat_word("collate") {
        return collation(cursor);
    } else if cursor.eat_word("check") {
        check(cursor)?
    } else if cursor.eat_word("unique") {
        nulls_distinct(cursor)?;
        index_parameters(cursor)?;
        ConstraintKind::Unique(own())
    } else if cursor.eat_word("primary") {
        cursor.expect_words(&["key"])?;
        index_parameters(cursor)?;
        ConstraintKind::PrimaryKey(own())
    } else if cursor.eat_word("references") {
        references(cursor, own())?
    } else {
        return Err(cursor.expected("a column constraint, \",\" or \")\""));
    };
    characteristics(cursor, &mut kind, true)?;
    constraints.push(ConstraintDeclaration {
        name,
        kind,
        span: cursor.since(start),
    });
    Ok(())
}

fn set_default(
    column: &mut ColumnDeclaration,
    table: &str,
    default: ColumnDefault,
    span: Span,
) -> Parsed<()> {
    let is_computed = |of: &ColumnDefault| matches!(of, ColumnDefault::Computed(..));
    let is_identity =
        |of: &ColumnDefault| matches!(of, ColumnDefault::Generated { serial: false, .. });
    let name = &column.name.text;
    let both = match (&column.default, &default) {
        (ColumnDefault::Null, _) => None,
        (one, other) if is_computed(one) && is_computed(other) => {
            Some("multiple generation clauses")
        }
        (one, other) if is_computed(one) || is_computed(other) => {
            let has_identity = is_identity(one) || is_identity(other);
            Some(match has_identity {
                true => "both identity and generation expression",
                false => "both default and generation expression",
            })
        }
        _ => {
            let message = format!("multiple default values specified for column \"{name}\"");
            return Err(Diagnostic::new("42601", message, span));
        }
    };
    if let Some(both) = both {
        let message = format!("{both} specified for column \"{name}\" of table \"{table}\"");
        return Err(Diagnostic::new("42601", message, span));
    }
    column.default = default;
    Ok(())
}

/// The expression after DEFAULT, up to the next option of the column.
pub(crate) fn default_value(cursor: &mut Cursor<'_>) -> Parsed<ColumnDefault> {
    const OPTIONS: [&str; 11] = [
        "constraint",
        "not",
        "null",
        "check",
        "primary",
        "unique",
        "references",
        "generated",
        "default",
        "collate",
        "deferrable",
    ];
    let start = cursor.span();
    let tokens_left = cursor.left();
    let expression = cursor
        .take_until(|at| at.at(&Kind::Comma) || at.left() < tokens_left && at.at_any(&OPTIONS));
    let tree = expression.expression()?;
    Ok(ColumnDefault::Expression(tree, cursor.since(start)))
}

/// After GENERATED, of a column: an identity column, or one with an expression.
fn generated(cursor: &mut Cursor<'_>, of: &DataType) -> Parsed<ColumnDefault> {
    let mut inside = *cursor;
    let start = cursor.last_span();
    let always = inside.eat_word("always") || !inside.eat_words(&["by", "default"]);
    if !(inside.eat_words(&["as"]) && inside.at(&Kind::LParen)) {
        let always = identity(cursor, Some(of))?;
        return Ok(ColumnDefault::Generated {
            always,
            serial: false,
        });
    }
    *cursor = inside;
    if !always {
        let message = "for a generated column, GENERATED ALWAYS must be specified";
        return Err(Diagnostic::new("42601", message, cursor.since(start)));
    }
    let expression = cursor.parenthesised()?;
    if !cursor.eat_word("stored") {
        return Err(cursor.expected("STORED"));
    }
    let place = expression.whole_span();
    Ok(ColumnDefault::Computed(expression.expression()?, place))
}

/// After GENERATED, of an identity column: whether ALWAYS. `of` is the column's type, if it is known.
pub(crate) fn identity(cursor: &mut Cursor<'_>, of: Option<&DataType>) -> Parsed<bool> {
    let always = cursor.eat_word("always");
    if !always {
        cursor.expect_words(&["by", "default"])?;
    }
    cursor.expect_words(&["as", "identity"])?;
    if cursor.at(&Kind::LParen) {
        sequence::identity_options(cursor.parenthesised()?, of)?;
    }
    Ok(always)
}

/// After COLLATE: one that text is ordered by.
pub(crate) fn collation(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.at_word("pg_catalog") && cursor.peek_at(1).is_some_and(|t| t.kind == Kind::Period) {
        cursor.take(2);
    }
    let name = cursor.name("a collation")?;
    if ["C", "POSIX", "ucs_basic"].contains(&name.text.as_str()) {
        return Ok(());
    }
    let message = format!("collation \"{}\"", name.text);
    Err(Diagnostic::unsupported(message, name.span).help("text is ordered as by COLLATE \"C\""))
}

fn check(cursor: &mut Cursor<'_>) -> Parsed<ConstraintKind> {
    let inside = cursor.parenthesised()?;
    if cursor.at_words(&["no", "inherit"]) {
        return Err(unsupported(cursor, "NO INHERIT").help("leave it out"));
    }
    let words = inside
        .tokens_left()
        .iter()
        .filter_map(|token| match &token.kind {
            Kind::Word(word) => Some(word.value.clone()),
            _ => None,
        })
        .collect();
    Ok(ConstraintKind::Check {
        expression: inside.expression()?,
        words,
    })
}

fn nulls_distinct(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if cursor.at_words(&["nulls", "not", "distinct"]) {
        return Err(unsupported(cursor, "NULLS NOT DISTINCT")
            .help("declare the columns NOT NULL, or let NULLs be distinct"));
    }
    cursor.eat_words(&["nulls", "distinct"]);
    Ok(())
}

/// After REFERENCES.
fn references(cursor: &mut Cursor<'_>, columns: Vec<Name>) -> Parsed<ConstraintKind> {
    let parent = cursor.schema_name("a table name")?;
    let parent_columns = match cursor.at(&Kind::LParen) {
        true => cursor.names("a column name")?,
        false => Vec::new(),
    };
    let (mut on_delete, mut on_update) = (ReferentialAction::NoAction, ReferentialAction::NoAction);
    loop {
        if cursor.at_word("match") {
            if !cursor.eat_words(&["match", "simple"]) {
                return Err(unsupported(cursor, "MATCH FULL or PARTIAL")
                    .help("declare the columns NOT NULL and use MATCH SIMPLE, the default"));
            }
        } else if cursor.eat_words(&["on", "delete"]) {
            on_delete = action(cursor)?;
        } else if cursor.eat_words(&["on", "update"]) {
            on_update = action(cursor)?;
        } else {
            break;
        }
    }
    Ok(ConstraintKind::ForeignKey {
        columns,
        parent,
        parent_columns,
        on_delete,
        on_update,
        deferrability: Deferrability::NotDeferrable,
    })
}

fn action(cursor: &mut Cursor<'_>) -> Parsed<ReferentialAction> {
    let action = if cursor.eat_words(&["no", "action"]) {
        ReferentialAction::NoAction
    } else if cursor.eat_word("restrict") {
        ReferentialAction::Restrict
    } else if cursor.eat_word("cascade") {
        ReferentialAction::Cascade
    } else if cursor.eat_words(&["set", "null"]) {
        ReferentialAction::SetNull
    } else if cursor.eat_words(&["set", "default"]) {
        ReferentialAction::SetDefault
    } else {
        return Err(cursor.expected("NO ACTION, RESTRICT, CASCADE, SET NULL or SET DEFAULT"));
    };
    if cursor.at(&Kind::LParen) {
        return Err(unsupported(cursor, "a column list of a referential action"));
    }
    Ok(action)
}

/// What may follow a constraint: `[NOT] DEFERRABLE`, `INITIALLY IMMEDIATE | DEFERRED`, `NOT VALID`.
fn characteristics(
    cursor: &mut Cursor<'_>,
    kind: &mut ConstraintKind,
    of_column: bool,
) -> Parsed<()> {
    let start = cursor.span();
    let Some(declared) = deferrability(cursor)? else {
        return Ok(());
    };
    match kind {
        ConstraintKind::ForeignKey { deferrability, .. } => *deferrability = declared,
        ConstraintKind::Check { .. } if of_column => {
            let clause = cursor.file().slice(cursor.since(start)).to_uppercase();
            let message = format!("misplaced {clause} clause");
            return Err(Diagnostic::new("42601", message, start));
        }
        _ if !declared.is_deferrable() => {}
        ConstraintKind::Check { .. } => {
            let message = "CHECK constraints cannot be marked DEFERRABLE";
            return Err(Diagnostic::new("0A000", message, cursor.since(start)));
        }
        ConstraintKind::PrimaryKey(_) | ConstraintKind::Unique(_) => {
            let construct = "a PRIMARY KEY or UNIQUE constraint that is DEFERRABLE";
            return Err(Diagnostic::unsupported(construct, cursor.since(start))
                .help("leave DEFERRABLE out: a key is checked at each statement"));
        }
    }
    Ok(())
}

/// When a constraint is checked, and `NOT VALID`; `None` if nothing is said of it.
pub(crate) fn deferrability(cursor: &mut Cursor<'_>) -> Parsed<Option<Deferrability>> {
    let mut initially = cursor.span();
    let (mut deferrable, mut deferred) = (None, None);
    let once = |of: &mut Option<bool>, is: bool, what: &str, span: Span| match of.replace(is) {
        None => Ok(()),
        Some(_) => {
            let message = format!("multiple {what} clauses not allowed");
            Err(Diagnostic::new("42601", message, span))
        }
    };
    let both = "DEFERRABLE/NOT DEFERRABLE";
    let when = "INITIALLY IMMEDIATE/DEFERRED";
    loop {
        let at = cursor.span();
        if cursor.eat_words(&["not", "deferrable"]) {
            once(&mut deferrable, false, both, at)?;
        } else if cursor.eat_word("deferrable") {
            once(&mut deferrable, true, both, at)?;
        } else if cursor.eat_words(&["initially", "immediate"]) {
            once(&mut deferred, false, when, at)?;
        } else if cursor.eat_words(&["initially", "deferred"]) {
            initially = at;
            once(&mut deferred, true, when, at)?;
        } else if !cursor.eat_words(&["not", "valid"]) {
            break;
        }
    }
    Ok(match (deferrable, deferred) {
        (None, None) => None,
        (Some(false), Some(true)) => {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(Diagnostic::new("42601", message, initially));
        }
        (None | Some(true), Some(true)) => Some(Deferrability::InitiallyDeferred),
        (Some(true), _) => Some(Deferrability::InitiallyImmediate),
        (None | Some(false), _) => Some(Deferrability::NotDeferrable),
    })
}

/// `CREATE [UNIQUE] INDEX`, from after INDEX.
pub(crate) fn create_index(
    cursor: &mut Cursor<'_>,
    start: Span,
    unique: bool,
) -> Parsed<IndexDeclaration> {
    cursor.eat_word("concurrently");
    let if_not_exists = cursor.eat_words(&["if", "not", "exists"]);
    let name = match cursor.at_word("on") {
        true => None,
        false => Some(cursor.schema_name("an index name")?),
    };
    cursor.expect_words(&["on"])?;
    cursor.eat_word("only");
    let table = cursor.schema_name("a table name")?;
    if cursor.eat_word("using") && !cursor.eat_word("btree") {
        return Err(unsupported(cursor, "an index method other than btree")
            .help("leave USING out: indexes are ordered"));
    }
    cursor.expect(&Kind::LParen)?;
    let mut parts = vec![index_part(cursor)?];
    while cursor.eat(&Kind::Comma) {
        parts.push(index_part(cursor)?);
    }
    cursor.expect(&Kind::RParen)?;
    nulls_distinct(cursor)?;
    index_parameters(cursor)?;
    if cursor.eat_word("tablespace") {
        cursor.name("a tablespace")?;
    }
    let mut predicate = None;
    if cursor.eat_word("where") {
        let condition = cursor.take_until(|_| false);
        let place = condition.whole_span();
        predicate = Some((condition.expression()?, place));
    }
    cursor.finish("\";\" at the end of the statement")?;
    Ok(IndexDeclaration {
        name,
        if_not_exists,
        table,
        parts,
        predicate,
        unique,
        span: cursor.since(start),
    })
}

/// A part of the key of an index. DESC and NULLS are ignored: an index only speeds queries up, and results are sorted where
/// a query has ORDER BY. So are the operator classes of patterns: text is ordered by its bytes, as in collation "C".
fn index_part(cursor: &mut Cursor<'_>) -> Parsed<IndexKey> {
    let mut behind = *cursor;
    let is_call = behind.next().is_some() && {
        while behind.eat(&Kind::Period) {
            behind.next();
        }
        behind.at(&Kind::LParen)
    };
    let part = if cursor.at(&Kind::LParen) {
        let inside = cursor.parenthesised()?;
        let place = inside.whole_span();
        let tree = inside.expression()?;
        match &tree {
            // As in PostgreSQL, a column in parentheses is a column.
            ast::Expr::Identifier(name) => IndexKey::Column(Name {
                text: fold(name),
                span: place,
            }),
            _ => {
                let name = index_name(&tree);
                IndexKey::Expression(tree, place, name)
            }
        }
    } else if is_call {
        behind.parenthesised()?;
        let call = cursor.take(cursor.left() - behind.left());
        let place = call.whole_span();
        let tree = call.expression()?;
        let name = index_name(&tree);
        IndexKey::Expression(tree, place, name)
    } else {
        IndexKey::Column(cursor.name("a column name")?)
    };
    if cursor.eat_word("collate") {
        collation(cursor)?;
    }
    operator_class(cursor)?;
    if !cursor.eat_word("asc") {
        cursor.eat_word("desc");
    }
    if cursor.eat_word("nulls") && !cursor.eat_word("first") {
        cursor.expect_words(&["last"])?;
    }
    if !(cursor.at(&Kind::Comma) || cursor.at(&Kind::RParen) || cursor.is_done()) {
        if !matches!(cursor.peek().map(|token| &token.kind), Some(Kind::Word(_))) {
            return Err(cursor.syntax_error());
        }
        return Err(unsupported(cursor, "an operator class or index option").help("leave it out"));
    }
    Ok(part)
}

/// The name that PostgreSQL gives an expression in the default name of an index.
pub(crate) fn index_name(tree: &ast::Expr) -> String {
    match output_name(tree).as_str() {
        "?column?" => "expr".to_owned(),
        name => name.to_owned(),
    }
}

/// The operator classes that order as indexes do here.
const OPERATOR_CLASSES: [&str; 3] = [
    "text_pattern_ops",
    "varchar_pattern_ops",
    "bpchar_pattern_ops",
];

/// An operator class of a column of an index, if one comes next.
fn operator_class(cursor: &mut Cursor<'_>) -> Parsed<()> {
    let mut at = *cursor;
    if at.at_word("pg_catalog") && at.peek_at(1).is_some_and(|t| t.kind == Kind::Period) {
        at.take(2);
    }
    if OPERATOR_CLASSES.iter().any(|class| at.eat_word(class)) {
        *cursor = at;
    }
    Ok(())
}
