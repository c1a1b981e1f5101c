//! `anabranch explain FILES… PROCEDURE`, and `anabranch explain RULE`, or a kind of repairs

use std::error::Error;
use std::path::PathBuf;

use anabranch_analysis::repair::{Kind, kind_by_code};
use anabranch_analysis::rule::{Rule, rule};
use anabranch_bench::application;
use clap::Args;

use super::Verdict;
use super::output::say;

/// What reports say of types that only read, which is no rule of an invariant.
const RSIW: &str = "rsiw";
const RSIW_MEANS: &str = "\
rsiw: what a type reads is always written together

The type only reads, and whenever it reads what a transaction wrote, that transaction has written all
that it reads. Under atomic visibility such transactions are serializable: the read-subset-items-written
property (Scalable Atomic Visibility with RAMP Transactions, section 3.4, Theorem 3.29).

docs/analysis.md says when it is told.";

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// SQL files, or folders of them, and then the name of a procedure in them; or the code of a rule or a
    /// repair alone, as `analyze` names it
    #[arg(required = true, num_args = 1.., value_name = "FILES… PROCEDURE|RULE")]
    what: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<Verdict, Box<dyn Error>> {
    let (name, paths) = arguments.what.split_last().ok_or("error: explain what?")?;
    let name = name.to_string_lossy();
    if paths.is_empty() {
        if PathBuf::from(&*name).exists() {
            return Err(format!(
                "error: which procedure of {name}? anabranch explain {name} PROCEDURE"
            )
            .into());
        }
        if let Some(kind) = kind_by_code(&name) {
            say!("{}", described_kind(kind))?;
            return Ok(Verdict::Fine);
        }
        if *name == *RSIW {
            say!("{RSIW_MEANS}")?;
            return Ok(Verdict::Fine);
        }
        let Some(rule) = rule(&name) else {
            return Err(format!(
                "error: there is no rule and no repair \"{name}\"; docs/analysis.md has them all. Of a procedure name the \
                 files, too: anabranch explain FILES… PROCEDURE"
            )
            .into());
        };
        say!("{}", described(rule))?;
        return Ok(Verdict::Fine);
    }
    let files = application::read_sources(paths)?;
    let compiled = application::compile(files)?;
    // As SQL reads a name that is not quoted; an exact one is found, too.
    let folded = name.to_ascii_lowercase();
    let named = compiled.find(&name);
    let Some(procedure) = named.or_else(|| compiled.find(&folded)) else {
        let mut names: Vec<&str> = compiled.procedures.iter().map(|p| p.name()).collect();
        names.sort_unstable();
        let paths = paths.iter().map(|path| path.display().to_string());
        return Err(format!(
            "error: there is no procedure \"{name}\" in {}; there are: {}",
            paths.collect::<Vec<_>>().join(", "),
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        )
        .into());
    };
    say!("{}", procedure.explain())?;
    Ok(Verdict::Fine)
}

/// What a rule's code means.
fn described(rule: &Rule) -> String {
    let holds = match rule.verdict {
        "yes" => "holds without coordination",
        "no" => "needs coordination",
        "unknown" => "not known, which counts as needing coordination",
        _ => "holds without coordination, or not: it depends on the merge",
    };
    let mut lines = vec![
        format!("{}: {}", rule.code, rule.title),
        String::new(),
        format!("  verdict     {holds}"),
        format!("  why         {}", rule.proof),
    ];
    if !rule.remedy.is_empty() {
        lines.push(format!("  what to do  {}", rule.remedy));
    }
    lines.push(format!(
        "  source      Coordination Avoidance in Database Systems, {}",
        rule.source
    ));
    lines.join("\n") + "\n"
}

/// What the code of a kind of repairs means.
fn described_kind(kind: &Kind) -> String {
    [
        format!("{}: {}", kind.code, kind.title),
        String::new(),
        format!("  why         {}", kind.why),
        format!("  gives up    {}", kind.gives_up),
        format!("  source      {}", kind.source),
    ]
    .join("\n")
        + "\n"
}
