//! A database's catalogs as the SQL that declares their contents: one source for each table, constraint, view, routine
//! and trigger, named by its kind and name. The front end that reads files then reads a database as well, and skips
//! the same things with the same effect.
//!
//! Columns are in CREATE TABLE, constraints in statements of their own. A table with children by inheritance is
//! written in a form that PostgreSQL would refuse, so that the front end refuses it as well.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dbms::postgres::quoted;
use anabranch_sql::SourceFile;
use postgres::Transaction;

/// The condition for objects of the schema `public` that do not belong to an extension.
const OWN: &str = "nspname = 'public' AND NOT EXISTS (SELECT 1 FROM pg_depend e WHERE e.objid = o.oid \
    AND e.classid = o.tableoid AND e.deptype = 'e')";

/// The contents of the catalogs.
#[derive(Default)]
pub(super) struct Schema {
    pub(super) files: Vec<SourceFile>,
    /// Columns, by table and name, that the analyser treats as text and whose collation is not bytewise.
    pub(super) ordered_otherwise: BTreeSet<(String, String)>,
    /// Names of tables and views.
    pub(super) relations: BTreeSet<String>,
    /// Names of functions and procedures.
    pub(super) routines: BTreeSet<String>,
}

/// Reads the catalogs; the names of sources begin with `place`.
pub(super) fn read(
    transaction: &mut Transaction<'_>,
    place: &str,
) -> Result<Schema, postgres::Error> {
    let mut reader = Reader {
        transaction,
        place,
        schema: Schema::default(),
    };
    reader.types()?;
    reader.sequences()?;
    reader.tables()?;
    reader.constraints()?;
    reader.listed(
        "index",
        &format!(
            "SELECT quote_ident(o.relname), pg_get_indexdef(o.oid) FROM pg_class o JOIN pg_namespace n \
             ON n.oid = o.relnamespace JOIN pg_index i ON i.indexrelid = o.oid WHERE {OWN} \
             AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = o.oid AND k.contype IN ('p', 'u', 'x')) \
             AND NOT EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhrelid = o.oid) ORDER BY o.oid"
        ),
    )?;
    reader.views()?;
    reader.routines()?;
    reader.listed(
        "trigger",
        &format!(
            "SELECT quote_ident(t.tgname), pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class o \
             ON o.oid = t.tgrelid JOIN pg_namespace n ON n.oid = o.relnamespace WHERE {OWN} AND NOT t.tgisinternal ORDER BY t.oid"
        ),
    )?;
    reader.listed(
        "rule",
        &format!(
            "SELECT quote_ident(r.rulename), pg_get_ruledef(r.oid) FROM pg_rewrite r JOIN pg_class o \
             ON o.oid = r.ev_class JOIN pg_namespace n ON n.oid = o.relnamespace WHERE {OWN} \
             AND r.rulename <> '_RETURN' ORDER BY r.oid"
        ),
    )?;
    reader.listed(
        "policy",
        &format!(
            "SELECT quote_ident(p.polname), format('CREATE POLICY %I ON public.%I USING (%s) WITH CHECK (%s)', \
             p.polname, o.relname, coalesce(pg_get_expr(p.polqual, o.oid), 'true'), \
             coalesce(pg_get_expr(p.polwithcheck, o.oid), 'true')) FROM pg_policy p JOIN pg_class o \
             ON o.oid = p.polrelid JOIN pg_namespace n ON n.oid = o.relnamespace WHERE {OWN} AND o.relrowsecurity ORDER BY p.oid"
        ),
    )?;
    Ok(reader.schema)
}

struct Reader<'r, 't> {
    transaction: &'r mut Transaction<'t>,
    place: &'r str,
    schema: Schema,
}

impl Reader<'_, '_> {
    fn add(&mut self, kind: &str, name: &str, text: &str) {
        let text = plain(text.trim_end().trim_end_matches(';'));
        let name = format!("{}: {kind} {name}", self.place);
        self.schema
            .files
            .push(SourceFile::new(name, format!("{text};\n")));
    }

    /// Adds objects whose SQL the query returns.
    fn listed(&mut self, kind: &str, query: &str) -> Result<(), postgres::Error> {
        for row in self.transaction.query(query, &[])? {
            self.add(kind, row.get(0), row.get(1));
        }
        Ok(())
    }

    /// Adds enumerations, domains and other types, of all schemas.
    fn types(&mut self) -> Result<(), postgres::Error> {
        self.enumerations()?;
        self.domains()?;
        let rows = self.transaction.query(
            &format!(
                "SELECT format_type(o.oid, NULL) FROM pg_type o JOIN pg_namespace n ON n.oid = o.typnamespace \
                 LEFT JOIN pg_class c ON c.oid = o.typrelid WHERE {OWN} \
                 AND (c.relkind = 'c' OR o.typtype = 'r') ORDER BY o.oid"
            ),
            &[],
        )?;
        for row in rows {
            let name: String = row.get(0);
            self.add("type", &name, &format!("CREATE TYPE {name} AS ()"));
        }
        Ok(())
    }

    fn enumerations(&mut self) -> Result<(), postgres::Error> {
        let rows = self.transaction.query(
            "SELECT format_type(t.oid, NULL), array_agg(e.enumlabel::text ORDER BY e.enumsortorder) \
             FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid GROUP BY t.oid ORDER BY t.oid",
            &[],
        )?;
        for row in rows {
            let (name, labels): (String, Vec<String>) = (row.get(0), row.get(1));
            let quoted: Vec<String> = labels.iter().map(|label| literal(label)).collect();
            let text = format!("CREATE TYPE {name} AS ENUM ({})", quoted.join(", "));
            self.add("type", &name, &text);
        }
        Ok(())
    }

    fn domains(&mut self) -> Result<(), postgres::Error> {
        // In the order of oids: a domain over another one is declared after it.
        let rows = self.transaction.query(
            "SELECT format_type(t.oid, NULL), format_type(t.typbasetype, t.typtypmod), \
             t.typnotnull, pg_get_expr(t.typdefaultbin, 0), \
             ARRAY(SELECT pg_get_expr(k.conbin, 0) FROM pg_constraint k WHERE k.contypid = t.oid \
             AND k.contype = 'c' ORDER BY k.oid) FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace \
             WHERE t.typtype = 'd' AND n.nspname <> 'information_schema' ORDER BY t.oid",
            &[],
        )?;
        for row in rows {
            let (name, base, not_null): (String, String, bool) =
                (row.get(0), row.get(1), row.get(2));
            let default: Option<String> = row.get(3);
            let checks: Vec<String> = row.get(4);
            let mut text = format!("CREATE DOMAIN {name} AS {base}");
            if let Some(default) = default {
                text.push_str(&format!(" DEFAULT {default}"));
            }
            if not_null {
                text.push_str(" NOT NULL");
            }
            for check in checks {
                text.push_str(&format!(" CHECK ({})", listed_again(&check)));
            }
            self.add("domain", &name, &text);
        }
        Ok(())
    }

    /// Adds sequences that no identity column owns. Default options are not written.
    fn sequences(&mut self) -> Result<(), postgres::Error> {
        let rows = self.transaction.query(
            &format!(
                "SELECT quote_ident(o.relname), s.seqincrement, s.seqcycle FROM pg_sequence s \
                 JOIN pg_class o ON o.oid = s.seqrelid JOIN pg_namespace n ON n.oid = o.relnamespace WHERE {OWN} \
                 AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = o.oid AND d.deptype = 'i') ORDER BY o.oid"
            ),
            &[],
        )?;
        for row in rows {
            let (name, by, cycles): (String, i64, bool) = (row.get(0), row.get(1), row.get(2));
            let by = match by {
                1 => String::new(),
                by => format!(" INCREMENT BY {by}"),
            };
            let cycle = if cycles { " CYCLE" } else { "" };
            self.add(
                "sequence",
                &name,
                &format!("CREATE SEQUENCE public.{name}{by}{cycle}"),
            );
        }
        Ok(())
    }

    /// Whether the database's default collation orders text by its bytes.
    fn is_bytewise(&mut self) -> Result<bool, postgres::Error> {
        let row = self.transaction.query_one(
            "SELECT coalesce(to_jsonb(d)->>'datlocprovider', 'c') = 'c' \
             AND lower(replace(d.datcollate, '-', '')) IN ('c', 'posix', 'c.utf8') \
             FROM pg_database d WHERE d.datname = current_database()",
            &[],
        )?;
        Ok(row.get(0))
    }

    /// The column definitions of all tables, by the table's oid.
    fn columns(&mut self) -> Result<BTreeMap<u32, Vec<String>>, postgres::Error> {
        let bytewise = self.is_bytewise()?;
        let mut columns: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let rows = self.transaction.query(
            &format!(
                "SELECT o.oid, o.relname::text, a.attname::text, quote_ident(a.attname), \
                 format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid), \
                 a.attidentity::text, a.attgenerated::text, \
                 (SELECT l.collname::text FROM pg_collation l WHERE l.oid = a.attcollation), \
                 EXISTS (SELECT 1 FROM pg_depend p JOIN pg_sequence s ON s.seqrelid IN (p.refobjid, p.objid) \
                 WHERE s.seqcycle AND (p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid \
                 OR p.refobjid = o.oid AND p.refobjsubid = a.attnum AND p.deptype IN ('i', 'a'))) \
                 FROM pg_attribute a JOIN pg_class o ON o.oid = a.attrelid \
                 JOIN pg_namespace n ON n.oid = o.relnamespace \
                 LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
                 WHERE {OWN} AND o.relkind IN ('r', 'p', 'f') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY o.oid, a.attnum"
            ),
            &[],
        )?;
        for row in rows {
            let table: u32 = row.get(0);
            let (raw_table, raw, column): (String, String, String) =
                (row.get(1), row.get(2), row.get(3));
            let shown: String = row.get(4);
            let mut text = format!("{column} {shown}");
            let collation: Option<String> = row.get(9);
            match collation.as_deref() {
                Some("default") if !bytewise => {
                    let of_column = (raw_table.clone(), raw.clone());
                    self.schema.ordered_otherwise.insert(of_column);
                }
                None | Some("default" | "C" | "POSIX") => {}
                Some(other) => text.push_str(&format!(" COLLATE {}", quoted(other))),
            }
            let (identity, generated): (String, String) = (row.get(7), row.get(8));
            text.push_str(&value_source(
                &identity,
                &generated,
                row.get(6),
                row.get(10),
            ));
            let not_null: bool = row.get(5);
            if not_null {
                text.push_str(" NOT NULL");
            }
            columns.entry(table).or_default().push(text);
        }
        Ok(columns)
    }

    fn tables(&mut self) -> Result<(), postgres::Error> {
        let mut columns = self.columns()?;
        let rows = self.transaction.query(
            &format!(
                "SELECT o.oid, o.relname::text, quote_ident(o.relname), o.relkind::text, \
                 CASE WHEN o.relkind = 'p' THEN pg_get_partkeydef(o.oid) END, \
                 EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = o.oid), \
                 (SELECT string_agg(i.inhparent::regclass::text, ', ') FROM pg_inherits i WHERE i.inhrelid = o.oid), \
                 o.relispartition \
                 FROM pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace \
                 WHERE {OWN} AND o.relkind IN ('r', 'p', 'f') ORDER BY o.oid"
            ),
            &[],
        )?;
        for row in rows {
            let (table, raw, shown, kind): (u32, String, String, String) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            let foreign = if kind == "f" { "FOREIGN " } else { "" };
            let columns = columns.remove(&table).unwrap_or_default().join(",\n    ");
            let (key, has_children, parents): (Option<String>, bool, Option<String>) =
                (row.get(4), row.get(5), row.get(6));
            let is_partition: bool = row.get(7);
            let attached = parents.clone().filter(|_| is_partition);
            let (before, behind) = match (key, has_children, parents) {
                _ if is_partition => ("", String::new()),
                (Some(key), ..) => ("", format!(" PARTITION BY {key}")),
                (None, _, Some(parents)) => ("", format!(" INHERITS ({parents})")),
                (None, true, None) => ("-- others inherit from it\n", " INHERITS ()".to_owned()),
                (None, false, None) => ("", String::new()),
            };
            self.schema.relations.insert(raw);
            let text =
                format!("{before}CREATE {foreign}TABLE public.{shown} (\n    {columns}\n){behind}");
            self.add("table", &format!("public.{shown}"), &text);
            if let Some(whole) = attached {
                // The bounds of the partition do not matter.
                let text =
                    format!("ALTER TABLE ONLY {whole} ATTACH PARTITION public.{shown} DEFAULT");
                self.add("partition", &format!("public.{shown}"), &text);
            }
        }
        Ok(())
    }

    fn constraints(&mut self) -> Result<(), postgres::Error> {
        let query = format!(
            "SELECT quote_ident(o.relname), quote_ident(k.conname), pg_get_constraintdef(k.oid) \
             FROM pg_constraint k JOIN pg_class o ON o.oid = k.conrelid \
             JOIN pg_namespace n ON n.oid = o.relnamespace WHERE {OWN} AND k.contype IN ('p', 'u', 'c', 'f', 'x') \
             AND k.conparentid = 0 AND (k.conislocal OR k.coninhcount = 0) \
             ORDER BY o.oid, array_position(ARRAY['p', 'u', 'c', 'x', 'f'], k.contype::text), k.oid"
        );
        for row in self.transaction.query(&query, &[])? {
            let (table, constraint, text): (String, String, String) =
                (row.get(0), row.get(1), row.get(2));
            let name = format!("{constraint} of public.{table}");
            let text = format!(
                "ALTER TABLE ONLY public.{table} ADD CONSTRAINT {constraint} {}",
                listed_again(&text)
            );
            self.add("constraint", &name, &text);
        }
        Ok(())
    }

    fn views(&mut self) -> Result<(), postgres::Error> {
        let query = format!(
            "SELECT o.relname::text, quote_ident(o.relname), o.relkind::text, pg_get_viewdef(o.oid), \
             coalesce(array_to_string(o.reloptions, ','), '') FROM pg_class o \
             JOIN pg_namespace n ON n.oid = o.relnamespace WHERE {OWN} AND o.relkind IN ('v', 'm') ORDER BY o.oid"
        );
        for row in self.transaction.query(&query, &[])? {
            let (raw, shown, kind, text): (String, String, String, String) =
                (row.get(0), row.get(1), row.get(2), row.get(3));
            let options: String = row.get(4);
            let kind = if kind == "m" { "MATERIALIZED " } else { "" };
            let text = text.trim_end().trim_end_matches(';');
            let checked = match options.contains("check_option") {
                true => " WITH CHECK OPTION",
                false => "",
            };
            let text = format!("CREATE {kind}VIEW public.{shown} AS\n{text}{checked}");
            self.schema.relations.insert(raw);
            self.add("view", &format!("public.{shown}"), &text);
        }
        Ok(())
    }

    fn routines(&mut self) -> Result<(), postgres::Error> {
        let query = format!(
            "SELECT o.proname::text, quote_ident(o.proname), pg_get_function_identity_arguments(o.oid), \
             pg_get_functiondef(o.oid) FROM pg_proc o JOIN pg_namespace n ON n.oid = o.pronamespace \
             WHERE {OWN} AND o.prokind IN ('f', 'p') AND o.prorettype <> 'event_trigger'::regtype ORDER BY o.oid"
        );
        for row in self.transaction.query(&query, &[])? {
            let (raw, shown, arguments): (String, String, String) =
                (row.get(0), row.get(1), row.get(2));
            let name = format!("public.{shown}({arguments})");
            self.schema.routines.insert(raw);
            self.add("routine", &name, row.get(3));
        }
        Ok(())
    }
}

/// Where a column gets its value from: the identity, generation or default clause of its definition.
fn value_source(identity: &str, generated: &str, default: Option<String>, cycles: bool) -> String {
    let options = if cycles { " (CYCLE)" } else { "" };
    match (identity, generated, default) {
        ("a", ..) => format!(" GENERATED ALWAYS AS IDENTITY{options}"),
        ("d", ..) => format!(" GENERATED BY DEFAULT AS IDENTITY{options}"),
        (_, "s" | "v", Some(expression)) => {
            format!(" GENERATED ALWAYS AS ({expression}) STORED")
        }
        // The numbers of a sequence that cycles are not unique, as generated keys are.
        (_, _, Some(_)) if cycles => format!(" GENERATED BY DEFAULT AS IDENTITY{options}"),
        (_, _, Some(expression)) => format!(" DEFAULT {expression}"),
        (_, _, None) => String::new(),
    }
}

/// The text with the server's `bpchar` in casts written as `text`.
pub(super) fn plain(text: &str) -> String {
    const CAST: &str = "::bpchar";
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, found) in text.match_indices(CAST) {
        let end = at + found.len();
        let after = text[end..].chars().next();
        if !after.is_some_and(|c| c.is_alphanumeric() || "_.$(".contains(c)) {
            out.push_str(&text[done..at]);
            out.push_str("::text");
            done = end;
        }
    }
    out.push_str(&text[done..]);
    out
}

/// The condition with IN and NOT IN, which the server writes as `= ANY (ARRAY[…])` and `<> ALL (ARRAY[…])`.
fn listed_again(condition: &str) -> String {
    let mut out = String::new();
    let mut rest = condition;
    let forms = [("= ANY (", "IN ("), ("<> ALL (", "NOT IN (")];
    while let Some((at, (server, again))) = forms
        .iter()
        .filter_map(|form| Some((rest.find(form.0)?, *form)))
        .min()
    {
        let behind = &rest[at + server.len()..];
        let inner = behind
            .strip_prefix("(ARRAY[")
            .or_else(|| behind.strip_prefix("ARRAY["));
        let list = inner.and_then(|inner| Some((inner, list_end(inner)?)));
        let closed = list.and_then(|(inner, end)| {
            let after = &inner[end + 1..];
            match behind.starts_with('(') {
                // The array is cast: )::text[]
                true => after
                    .starts_with(")::")
                    .then(|| after.find("[])"))
                    .flatten()
                    .map(|n| &after[n + 3..]),
                false => after.strip_prefix(')'),
            }
            .map(|after| (&inner[..end], after))
        });
        out.push_str(&rest[..at]);
        match closed {
            Some((list, after)) => {
                out.push_str(&format!("{again}{list})"));
                rest = after;
            }
            None => {
                out.push_str(server);
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The position of the bracket that closes a list of constants.
fn list_end(text: &str) -> Option<usize> {
    let (mut quoted, mut depth) = (false, 0_usize);
    for (at, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted && depth == 0 => return Some(at),
            ']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    None
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_conditions_become_lists() {
        for (server, again) in [
            ("CHECK ((a = ANY (ARRAY[0, 1])))", "CHECK ((a IN (0, 1)))"),
            (
                "CHECK (((a)::text = ANY ((ARRAY['x]'::character varying, 'y'::character varying])::text[])) AND b)",
                "CHECK (((a)::text IN ('x]'::character varying, 'y'::character varying)) AND b)",
            ),
            ("CHECK ((a <> ALL (ARRAY[1])))", "CHECK ((a NOT IN (1)))"),
            ("CHECK ((a = ANY (b)))", "CHECK ((a = ANY (b)))"),
        ] {
            assert_eq!(listed_again(server), again);
        }
    }

    #[test]
    fn char_is_text_in_casts() {
        let text = "CHECK (a <> 'x'::bpchar AND b = c::bpchar(3) AND d = 'y'::bpchars)";
        let expected = "CHECK (a <> 'x'::text AND b = c::bpchar(3) AND d = 'y'::bpchars)";
        assert_eq!(plain(text), expected);
    }
}
