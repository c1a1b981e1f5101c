//! `anabranch explain FILES… PROCEDURE`, `anabranch explain RULE` and `anabranch explain REPAIR`

use std::error::Error;
use std::path::PathBuf;

use anabranch_analysis::repair::{Kind, kind_by_code};
use anabranch_analysis::rule::{Rule, rule};
use anabranch_bench::application;
use clap::Args;

use super::Verdict;
use super::output::say;

/// A code in reports on read-only types. It is not a rule on an invariant.
const RSIW: &str = "rsiw";
const RSIW_MEANS: &str = "\
rsiw: what a type reads is always written together

The type is read-only, and whenever it reads a write of a transaction, that transaction wrote everything
that the type reads. Under atomic visibility such transactions are serializable: they have the
read-subset-items-written property (Scalable Atomic Visibility with RAMP Transactions, section 3.4,
Theorem 3.29).

docs/analysis.md says when the analyser reports it.
";

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// SQL files or folders of them, followed by the name of a procedure in them; or the code of a rule or repair, as
    /// `analyze` prints it
    #[arg(required = true, num_args = 1.., value_name = "FILES… PROCEDURE|RULE")]
    what: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<Verdict, Box<dyn Error>> {
    let (name, paths) = arguments
        .what
        .split_last()
        .ok_or("error: name a rule, a repair, or files and a procedure")?;
    let name = name.to_string_lossy();
    if paths.is_empty() {
        if PathBuf::from(&*name).exists() {
            return Err(format!(
                "error: name a procedure of {name}: anabranch explain {name} PROCEDURE"
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
                "error: no rule or repair is called \"{name}\"; docs/analysis.md lists them. For a procedure name its files \
                 as well: anabranch explain FILES… PROCEDURE"
            )
            .into());
        };
        say!("{}", described(rule))?;
        return Ok(Verdict::Fine);
    }
    let files = application::read_sources(paths)?;
    let compiled = application::compile(files)?;
    // An unquoted SQL name is folded to lower case; the exact name is tried first.
    let folded = name.to_ascii_lowercase();
    let named = compiled.find(&name);
    let Some(procedure) = named.or_else(|| compiled.find(&folded)) else {
        let mut names: Vec<&str> = compiled.procedures.iter().map(|p| p.name()).collect();
        names.sort_unstable();
        let paths = paths.iter().map(|path| path.display().to_string());
        return Err(format!(
            "error: no procedure \"{name}\" in {}; the procedures are: {}",
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

/// The explanation of a rule.
fn described(rule: &Rule) -> String {
    let holds = match rule.verdict {
        "yes" => "holds without coordination",
        "no" => "needs coordination",
        "unknown" => "not known, which counts as needing coordination",
        _ => "depends on the merge: holds without coordination, or needs it",
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

/// The explanation of a kind of repair.
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
