//! What `anabranch belt check` prints.

use std::fmt::Write;

use anabranch_analysis::partition::{Distribution, OperationClass, PartitionedType};
use anabranch_analysis::report::partition::class_name;
use anabranch_dbms::Servers;

use super::Reached;
use super::parts::{Held, Parts};
use crate::cli::input::Input;

/// The whole report, but for what does not fit.
pub(super) fn render(
    servers: &Servers,
    input: &Input,
    reached: &[Reached],
    parts: &Parts,
) -> String {
    let mut out = String::new();
    put_servers(reached, &mut out);
    put_types(input, servers.server.len(), &mut out);
    put_tables(&parts.tables, &mut out);
    put_sequences(servers, parts, &mut out);
    if !parts.remarks.is_empty() {
        heading("To know", &mut out);
        for remark in &parts.remarks {
            let _ = writeln!(out, "  {remark}");
        }
    }
    out
}

/// The tables that an installation has copied from one server to the others.
pub(super) fn copied(from: &str, tables: &[(String, u64)]) -> String {
    let mut out = String::new();
    heading(&format!("Copied from {from} to the others"), &mut out);
    let width = tables.iter().map(|(name, _)| name.chars().count());
    let width = width.max().unwrap_or(0);
    for (name, rows) in tables {
        let _ = writeln!(out, "  {name:width$}  {rows} rows");
    }
    out
}

/// What does not fit, each with what to do.
pub(super) fn objections(objections: &[String], installs: bool) -> String {
    if objections.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    heading("What does not fit", &mut out);
    for objection in objections {
        let _ = writeln!(out, "  {objection}");
    }
    if installs {
        out.push_str("Nothing was installed.\n");
    }
    out
}

fn heading(title: &str, out: &mut String) {
    let _ = writeln!(out, "\n{title}\n{}", "─".repeat(title.chars().count()));
}

fn put_servers(reached: &[Reached], out: &mut String) {
    let width = |text: &dyn Fn(&Reached) -> usize| reached.iter().map(text).max().unwrap_or(0);
    let names = width(&|r| r.entry.name.len());
    let addresses = width(&|r| r.address.len());
    let _ = writeln!(out, "A ring of {} servers", reached.len());
    for server in reached {
        let state = match &server.database {
            Err(_) => "not reached".to_owned(),
            Ok((_, inspection)) => {
                let installed = match &inspection.installed {
                    None => "nothing installed".to_owned(),
                    Some(it) => {
                        let behind = lag(server, reached);
                        format!(
                            "installed for schema {}, epoch {}, hop {}{behind}",
                            it.digest, it.epoch, it.received
                        )
                    }
                };
                let version = inspection.version.split(' ').next().unwrap_or_default();
                format!("PostgreSQL {version}, {installed}")
            }
        };
        let _ = writeln!(
            out,
            "  {:names$}  {:addresses$}  {state}",
            server.entry.name, server.address
        );
    }
}

/// How many operations of other servers are not applied on this one.
fn lag(server: &Reached, reached: &[Reached]) -> String {
    let installed = |r: &Reached| {
        let (_, inspection) = r.database.as_ref().ok()?;
        inspection.installed.clone()
    };
    let Some(here) = installed(server) else {
        return String::new();
    };
    let mut behind = String::new();
    for (origin, applied) in here.applied {
        let of = usize::try_from(origin).ok().and_then(|at| reached.get(at));
        let Some((of, there)) = of.and_then(|of| Some((of, installed(of)?))) else {
            continue;
        };
        if there.drawn > applied {
            let _ = write!(
                behind,
                ", {} behind {}",
                there.drawn - applied,
                of.entry.name
            );
        }
    }
    behind
}

fn put_types(input: &Input, servers: usize, out: &mut String) {
    let Some(partitioning) = &input.plan.partitioning else {
        return;
    };
    heading("Operations", out);
    let width = input
        .script
        .summaries
        .iter()
        .map(|s| s.name.chars().count());
    let width = width.max().unwrap_or(0);
    for (summary, of) in input.script.summaries.iter().zip(&partitioning.types) {
        let routing: Vec<&str> = of
            .parameters
            .iter()
            .filter_map(|at| Some(summary.parameters.get(*at)?.0.as_str()))
            .collect();
        let _ = writeln!(
            out,
            "  {:width$}  {:15}  {}",
            summary.name,
            class_name(of.class),
            runs(of, &routing)
        );
    }
    let of = |class| partitioning.weight(class) as f64;
    let total: f64 = partitioning.types.iter().map(|t| t.weight as f64).sum();
    let at_once = of(OperationClass::Commutative)
        + of(OperationClass::Local)
        + of(OperationClass::LocalOrGlobal) / servers as f64;
    if total > 0.0 {
        let _ = writeln!(
            out,
            "With calls spread evenly, {:.1}% of them run at once; the others wait for the token.",
            100.0 * at_once / total
        );
    }
}

/// Where an operation runs.
fn runs(of: &PartitionedType, routing: &[&str]) -> String {
    let by = routing.join(" and ");
    match of.class {
        OperationClass::Commutative => "at once, on any server".to_owned(),
        OperationClass::Local if routing.is_empty() => "at once, on any server".to_owned(),
        OperationClass::Local => format!("at once, on the server of {by}"),
        OperationClass::LocalOrGlobal => {
            format!("at once where {by} have one server, otherwise with the token")
        }
        OperationClass::Global if routing.is_empty() => "with the token, on any server".to_owned(),
        OperationClass::Global => format!("with the token, on the server of {by}"),
    }
}

fn put_tables(tables: &[Held], out: &mut String) {
    heading("Tables", out);
    let width = tables.iter().map(|t| t.name.chars().count());
    let width = width.max().unwrap_or(0);
    for table in tables {
        let held = match (&table.distribution, &table.column) {
            (Distribution::Immutable, _) => "on every server; no operation writes it".to_owned(),
            (Distribution::Anywhere, _) => "where it was written".to_owned(),
            (Distribution::By(_), Some(column)) => {
                format!("each row on the server of its {column}")
            }
            (Distribution::By(_) | Distribution::Scattered, _) => {
                "each row on the server that wrote it".to_owned()
            }
            (Distribution::Everywhere, _) => {
                format!("on every server; written by {}", table.writers.join(", "))
            }
            (Distribution::Mixed, _) => format!(
                "what {} writes on every server, the rest on the server that wrote it",
                table.writers.join(", ")
            ),
        };
        let triggers = match table.is_replicated {
            true => "   [triggers]",
            false => "",
        };
        let _ = writeln!(out, "  {:width$}  {held}{triggers}", table.name);
    }
}

fn put_sequences(servers: &Servers, parts: &Parts, out: &mut String) {
    if parts.sequences.is_empty() {
        return;
    }
    heading("Sequences", out);
    let _ = writeln!(
        out,
        "  in steps of {}, so that a number tells its server: {}",
        servers.slots,
        parts
            .sequences
            .iter()
            .map(|sequence| sequence.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    );
}
