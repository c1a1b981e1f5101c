//! `cargo xtask mutants`: checks that the tests catch planted bugs.
//!
//! Each patch under `tests/mutants` is a small, plausible bug, and names the commands that must fail because of
//! it. The working tree is copied. The commands run once without a patch (a test that fails anyway catches
//! nothing), then once with each patch. A mutant survives if one of its commands passes: a test is missing.

mod patch;
mod workshop;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::patch::{Catcher, FOLDER, Mutant};
use self::workshop::{Ending, Workshop};
use crate::{Outcome, Trouble};

/// The options of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The mutants whose names contain one of these; all if there is none.
    only: Vec<String>,
    list: bool,
    jobs: usize,
    /// The time limit of each command, without its build.
    limit: Duration,
}

impl Options {
    /// Reads the command's arguments: `[--list] [--only NAME]… [--jobs N] [--seconds N]`.
    ///
    /// # Errors
    /// Misuse, for anything else.
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, Trouble> {
        let mut options = Options {
            only: Vec::new(),
            list: false,
            jobs: 1,
            limit: Duration::from_secs(300),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let missing = || Trouble::Misuse(format!("`{argument}` needs a value"));
                arguments.next().ok_or_else(missing)
            };
            match argument.as_str() {
                "--list" => options.list = true,
                "--only" => options.only.push(value()?.clone()),
                "--jobs" => options.jobs = number(argument, value()?)? as usize,
                "--seconds" => options.limit = Duration::from_secs(number(argument, value()?)?),
                other => return Err(Trouble::Misuse(format!("mutants takes no `{other}`"))),
            }
        }
        Ok(options)
    }
}

fn number(name: &str, text: &str) -> Result<u64, Trouble> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Trouble::Misuse(format!(
            "`{name}` needs a number above 0, not `{text}`"
        ))),
    }
}

/// The verdict on a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// All its commands failed; these are the first failed tests.
    Caught(Vec<String>),
    /// These commands passed.
    Survived(Vec<String>),
    /// It could not be judged, with the reason: the patch does not apply or build, or a command takes too long.
    Unjudged(String),
}

/// Judges the mutants of the workspace at `root`.
///
/// # Errors
/// When there is no mutant of a name, a header is not valid, or a tool cannot run.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Outcome, Trouble> {
    let all = patch::read_all(root)?;
    let is_meant = |mutant: &Mutant| {
        let named = |only: &String| mutant.name.contains(only.as_str());
        options.only.is_empty() || options.only.iter().any(named)
    };
    let mutants: Vec<Mutant> = all.into_iter().filter(is_meant).collect();
    if mutants.is_empty() {
        let message = format!("{FOLDER} has no such mutant");
        return Err(Trouble::Misuse(message));
    }
    if options.list {
        for mutant in &mutants {
            println!("{}\n    {}", mutant.name, mutant.about);
            for catcher in &mutant.caught_by {
                println!("    {catcher}");
            }
        }
        return Ok(Outcome::Clean);
    }
    workshop::take_copy(root)?;
    let broken = check_originals(root, &mutants, options)?;
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![None; mutants.len()]);
    let jobs = options.jobs.min(mutants.len());
    let results: Vec<Result<(), Trouble>> = std::thread::scope(|scope| {
        let work = |job| {
            let workshop = Workshop::open(root, job)?;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(mutant) = mutants.get(at) else {
                    return workshop.restore();
                };
                let began = Instant::now();
                let verdict = judge(&workshop, mutant, &broken, options)?;
                let seconds = began.elapsed().as_secs();
                println!("{}", line(&mutant.name, &verdict, seconds));
                if let Ok(mut verdicts) = verdicts.lock() {
                    verdicts[at] = Some(verdict);
                }
            }
        };
        let handles: Vec<_> = (0..jobs)
            .map(|job| scope.spawn(move || work(job)))
            .collect();
        let gone = || Err(Trouble::Tool("a job has panicked".into()));
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|_| gone()))
            .collect()
    });
    results.into_iter().collect::<Result<(), Trouble>>()?;
    let verdicts = verdicts.into_inner().unwrap_or_default();
    Ok(report(&mutants, &verdicts))
}

/// The commands that fail without any mutant. Builds what all mutants need.
fn check_originals(
    root: &Path,
    mutants: &[Mutant],
    options: &Options,
) -> Result<BTreeSet<Catcher>, Trouble> {
    let workshop = Workshop::open(root, 0)?;
    let catchers = mutants.iter().flat_map(|mutant| &mutant.caught_by);
    let catchers: BTreeSet<&Catcher> = catchers.collect();
    println!("{} commands, as it is:", catchers.len());
    let mut broken = BTreeSet::new();
    for catcher in catchers {
        let began = Instant::now();
        let ending = match workshop.build(catcher) {
            Ok(()) => Some(workshop.run(catcher, options.limit)?),
            Err(_) => None,
        };
        let words = match &ending {
            Some(Ending::Passed) => "passes",
            Some(Ending::Failed(_)) => "FAILS",
            Some(Ending::OutOfTime) => "TAKES TOO LONG",
            None => "DOES NOT BUILD",
        };
        println!("  {words} ({} s): {catcher}", began.elapsed().as_secs());
        if ending != Some(Ending::Passed) {
            broken.insert(catcher.clone());
        }
    }
    Ok(broken)
}

fn judge(
    workshop: &Workshop,
    mutant: &Mutant,
    broken: &BTreeSet<Catcher>,
    options: &Options,
) -> Result<Verdict, Trouble> {
    let unjudged = |why: &str| Ok(Verdict::Unjudged(why.to_string()));
    workshop.restore()?;
    if let Err(why) = workshop.apply(&mutant.path) {
        return unjudged(&format!("it does not apply: {why}"));
    }
    let mut caught = Vec::new();
    let mut survived = Vec::new();
    for catcher in &mutant.caught_by {
        if broken.contains(catcher) {
            return unjudged(&format!("fails without it, too: {catcher}"));
        }
        if let Err(why) = workshop.build(catcher) {
            return unjudged(&format!("it does not build: {why}"));
        }
        match workshop.run(catcher, options.limit)? {
            Ending::Failed(test) => caught.push(test.unwrap_or_else(|| catcher.to_string())),
            Ending::Passed => survived.push(catcher.to_string()),
            Ending::OutOfTime => {
                let seconds = options.limit.as_secs();
                return unjudged(&format!("still running after {seconds} s: {catcher}"));
            }
        }
    }
    Ok(match survived.is_empty() {
        true => Verdict::Caught(caught),
        false => Verdict::Survived(survived),
    })
}

/// A mutant's line in the table.
fn line(name: &str, verdict: &Verdict, seconds: u64) -> String {
    let (word, why) = match verdict {
        Verdict::Caught(tests) => ("caught", tests.join(", ")),
        Verdict::Survived(commands) => ("SURVIVED", commands.join(", ")),
        Verdict::Unjudged(why) => ("UNJUDGED", why.clone()),
    };
    format!("{word:<9} {name:<40} {seconds:>4} s  {why}")
}

/// Prints the counts, and the mutants that need work.
fn report(mutants: &[Mutant], verdicts: &[Option<Verdict>]) -> Outcome {
    let mut caught = 0;
    for (mutant, verdict) in mutants.iter().zip(verdicts) {
        match verdict {
            Some(Verdict::Caught(_)) => caught += 1,
            Some(Verdict::Survived(_)) => println!("survived: {}: {}", mutant.name, mutant.about),
            _ => println!("unjudged: {}: {}", mutant.name, mutant.about),
        }
    }
    println!("{caught} of {} mutants caught", mutants.len());
    match caught == mutants.len() {
        true => Outcome::Clean,
        false => Outcome::Findings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Trouble> {
        Options::parse(&crate::words(line))
    }

    #[test]
    fn options_are_read() {
        let options = parse("--only ramp --only lock --jobs 2 --seconds 9").unwrap();
        assert_eq!(options.only, ["ramp", "lock"]);
        assert_eq!((options.jobs, options.limit.as_secs()), (2, 9));
        for line in ["--jobs", "--jobs 0", "--jobs x", "ramp"] {
            assert!(matches!(parse(line), Err(Trouble::Misuse(_))), "{line}");
        }
    }

    #[test]
    fn every_mutant_has_a_proper_header() {
        let mutants = patch::read_all(&crate::root().unwrap()).unwrap();
        assert!(mutants.len() >= 15, "{}", mutants.len());
    }

    #[test]
    fn one_that_is_not_caught_is_a_finding() {
        let mutants = patch::read_all(&crate::root().unwrap()).unwrap();
        let caught = || Some(Verdict::Caught(Vec::new()));
        let two = &mutants[..2];
        assert_eq!(report(two, &[caught(), caught()]), Outcome::Clean);
        for other in [
            Some(Verdict::Survived(Vec::new())),
            Some(Verdict::Unjudged(String::new())),
            None,
        ] {
            assert_eq!(report(two, &[caught(), other]), Outcome::Findings);
        }
    }
}
