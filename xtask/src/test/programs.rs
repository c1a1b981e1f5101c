//! Builds the workspace's test programs, and runs two at a time: many tests wait for a database, a disk or a clock, and
//! `cargo test` runs one program after the other. The longest begin first, so that none runs alone at the end.
//!
//! Examples in documentation are not among them: `cargo test --doc` runs these.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Instant;

use super::counts::Counts;
use crate::{Built, Trouble, cargo};

/// How many programs run at once. Each has as many threads as the machine has cores.
const AT_ONCE: usize = 2;

/// The programs that run longest, the longest first.
const LONGEST: [&str; 5] = ["models", "sim", "anabranch_bench", "dbms", "analysis"];

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// Its package's folder, in which it runs.
    folder: PathBuf,
    file: PathBuf,
}

/// What one program did.
struct Ended {
    program: Program,
    /// Everything it has printed.
    output: String,
    /// Why it counts as failed, if its exit code says so.
    failure: Option<String>,
    seconds: u64,
}

/// Builds and runs every test program of the workspace at `root`. `settings` are environment variables. Returns whether they
/// are built.
///
/// # Errors
/// When cargo cannot be started.
pub(super) fn run(
    root: &Path,
    settings: &[(&str, &Path)],
    counts: &mut Counts,
) -> Result<Built, Trouble> {
    let Some(mut programs) = build(root)? else {
        println!("the tests do not build");
        counts.failed += 1;
        return Ok(Built::No);
    };
    programs.sort_by_key(Program::place);
    let total = programs.len();
    println!("{total} test programs, {AT_ONCE} at a time");
    let queue = Mutex::new(VecDeque::from(programs));
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                let next = || {
                    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                    queue.pop_front()
                };
                while let Some(program) = next() {
                    if sender.send(program.run(settings)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (number, ended) in (1..).zip(ended) {
            let name = ended.program.file.file_name().unwrap_or_default();
            println!(
                "\n[{number}/{total}] {} in {}, {} s",
                name.display(),
                ended.program.folder.display(),
                ended.seconds
            );
            print!("{}", ended.output);
            let failed = counts.failed;
            ended.output.lines().for_each(|line| counts.read(line));
            if let Some(failure) = &ended.failure {
                println!("{failure}");
                if counts.failed == failed {
                    counts.failed += 1;
                }
            }
        }
    });
    Ok(Built::Yes)
}

/// Builds the test programs; nothing if one does not build.
fn build(root: &Path) -> Result<Option<Vec<Program>>, Trouble> {
    let failed = |error: std::io::Error| Trouble::Tool(format!("running cargo test: {error}"));
    let arguments = [
        "test",
        "--workspace",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ];
    let mut command = cargo();
    let mut child = command
        .current_dir(root)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut programs = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            programs.extend(Program::of_message(&line.map_err(failed)?));
        }
    }
    let status = child.wait().map_err(failed)?;
    Ok(status.success().then_some(programs))
}

impl Program {
    /// The test program that a line of cargo's messages (one JSON object a line) tells of, if it does.
    fn of_message(line: &str) -> Option<Program> {
        let text = |key: &str| {
            let (_, rest) = line.split_once(&format!("\"{key}\":\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        let (_, profile) = line.split_once("\"profile\":{")?;
        let (profile, _) = profile.split_once('}')?;
        let is_test = profile.contains("\"test\":true") && text("reason")? == "compiler-artifact";
        let file = text("executable").filter(|_| is_test)?;
        let folder = Path::new(text("manifest_path")?).parent()?;
        Some(Program {
            folder: folder.to_path_buf(),
            file: PathBuf::from(file),
        })
    }

    /// Where it comes in the order in which programs begin.
    fn place(&self) -> usize {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        // Cargo adds a hash.
        let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
        let place = LONGEST.iter().position(|long| *long == name);
        place.unwrap_or(LONGEST.len())
    }

    fn run(self, settings: &[(&str, &Path)]) -> Ended {
        let begun = Instant::now();
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder);
        command.envs(settings.iter().copied());
        let (output, failure) = match command.output() {
            Ok(done) => {
                let text = String::from_utf8_lossy(&done.stdout).into_owned()
                    + &String::from_utf8_lossy(&done.stderr);
                let failure = (!done.status.success())
                    .then(|| format!("{} ended with {}", self.file.display(), done.status));
                (text, failure)
            }
            Err(error) => {
                let failure = format!("{} cannot be started: {error}", self.file.display());
                (String::new(), Some(failure))
            }
        };
        Ended {
            program: self,
            output,
            failure,
            seconds: begun.elapsed().as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_in_cargos_messages() {
        let line = |reason: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"{reason}","package_id":"path+file:///w/crates/sql#0.1.0","manifest_path":"/w/crates/sql/Cargo.toml","target":{{"kind":["test"],"name":"access","test":true}},"profile":{{"opt_level":"1","test":{test}}},"features":[],"executable":{executable},"fresh":true}}"#
            )
        };
        let found = Program::of_message(&line("compiler-artifact", true, r#""/t/access-1""#));
        let expected = Program {
            folder: "/w/crates/sql".into(),
            file: "/t/access-1".into(),
        };
        assert_eq!(found, Some(expected));
        for other in [
            line("compiler-artifact", false, r#""/t/anabranch""#),
            line("compiler-artifact", true, "null"),
            line("build-finished", true, r#""/t/access-1""#),
        ] {
            assert_eq!(Program::of_message(&other), None, "{other}");
        }
    }

    #[test]
    fn the_longest_begin_first() {
        let program = |file: &str| Program {
            folder: "/w".into(),
            file: file.into(),
        };
        let mut programs = [
            "/t/access-1",
            "/t/sim-2",
            "/t/anabranch_sim-3",
            "/t/models-4",
        ]
        .map(program);
        programs.sort_by_key(Program::place);
        let sorted = [
            "/t/models-4",
            "/t/sim-2",
            "/t/access-1",
            "/t/anabranch_sim-3",
        ]
        .map(program);
        assert_eq!(programs, sorted);
    }
}
