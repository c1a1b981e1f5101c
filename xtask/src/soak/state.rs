//! The state of a soak: the runs of each combination, and the failures.

use std::fmt;
use std::time::Duration;

use super::mode::Mode;

/// The target duration of a shift.
const SHIFT: Duration = Duration::from_secs(10);

/// The state of a soak.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The commit of the program.
    pub(super) commit: String,
    /// The number of the next combination.
    pub(super) turn: usize,
    pub(super) combinations: Vec<Combination>,
    pub(super) failures: Vec<Failure>,
}

/// A workload under a protocol, in a mode and under a fault profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Combination {
    workload: String,
    protocol: String,
    pub(super) mode: &'static Mode,
    profile: String,
    /// The next seed.
    pub(super) next: u64,
    /// The number of seeds of its next shift.
    pub(super) shift: u64,
    failed: u64,
    weak: u64,
    committed: u64,
    /// Virtual time, in tenths of a second.
    simulated: u64,
}

/// A failing seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The command that repeats it.
    pub(super) command: String,
    /// The violation.
    pub(super) what: String,
    /// The file with the minimised case of its shift.
    pub(super) case: String,
}

/// The command's report of a shift.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reported {
    /// The number of seeds that were run.
    pub(super) seeds: u64,
    pub(super) weak: u64,
    pub(super) committed: u64,
    pub(super) simulated: u64,
    /// Failing seeds, with their violations.
    pub(super) failed: Vec<(u64, String)>,
}

impl Reported {
    /// Parses the text report of `anabranch sim` over many seeds.
    pub(super) fn read(text: &str) -> Option<Reported> {
        let mut reported = Reported::default();
        let mut seeds = false;
        for line in text.lines().map(str::trim) {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.trim();
            let mut numbers = rest.split(|c: char| !(c.is_ascii_digit() || c == ',' || c == '.'));
            let mut number = || numbers.find_map(parse);
            match name {
                "seeds" => {
                    seeds = true;
                    reported.seeds = number()?.0;
                    // Skip the number of failures: each has a line below.
                    let _ = number()?;
                    reported.weak = number()?.0;
                }
                "transactions" => reported.committed = number()?.0,
                "time" => {
                    let (whole, tenths) = number()?;
                    reported.simulated = whole * 10 + tenths;
                }
                "seed" => {
                    let (seed, what) = rest.split_once(' ').unwrap_or((rest, ""));
                    reported
                        .failed
                        .push((seed.parse().ok()?, what.trim().to_owned()));
                }
                _ => {}
            }
        }
        seeds.then_some(reported)
    }
}

/// A number like `1,234.5`: its whole part and its tenths.
fn parse(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.replace(',', "").parse().ok()?;
    let tenths = fraction.get(..1).and_then(|digit| digit.parse().ok());
    Some((whole, tenths.unwrap_or(0)))
}

impl Combination {
    pub(super) fn new(
        workload: &str,
        protocol: &str,
        mode: &'static Mode,
        profile: &str,
    ) -> Combination {
        Combination {
            workload: workload.to_owned(),
            protocol: protocol.to_owned(),
            mode,
            profile: profile.to_owned(),
            next: 0,
            shift: 20,
            failed: 0,
            weak: 0,
            committed: 0,
            simulated: 0,
        }
    }

    pub(super) fn name(&self) -> String {
        let Combination {
            workload,
            protocol,
            mode,
            profile,
            ..
        } = self;
        format!("{workload}-{protocol}-{}-{profile}", mode.name)
    }

    /// The arguments for `anabranch`.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut words = vec![
            "sim",
            &self.workload,
            "--protocol",
            &self.protocol,
            "--faults",
            &self.profile,
        ];
        words.extend(self.mode.arguments);
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    pub(super) fn add(&mut self, reported: &Reported) {
        self.weak += reported.weak;
        self.failed += reported.failed.len() as u64;
        self.committed += reported.committed;
        self.simulated += reported.simulated;
    }

    /// Adjusts the number of seeds of the next shift to the target duration.
    pub(super) fn adjust_shift(&mut self, took: Duration) {
        let share = SHIFT.as_secs_f64() / took.as_secs_f64().max(0.01);
        let wanted = self.shift as f64 * share.clamp(0.25, 4.0);
        self.shift = (wanted as u64).clamp(1, 100_000);
    }

    fn fields(&self) -> [u64; 6] {
        [
            self.next,
            self.shift,
            self.failed,
            self.weak,
            self.committed,
            self.simulated,
        ]
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<9} {:<11} {:<16} {:<14} {:>9} seeds, {:>7} weak, {:>3} failed",
            self.workload,
            self.protocol,
            self.mode.name,
            self.profile,
            self.next,
            self.weak,
            self.failed
        )
    }
}

impl State {
    /// The initial state.
    pub(super) fn new(commit: &str) -> State {
        State {
            commit: commit.to_owned(),
            turn: 0,
            combinations: super::combinations(),
            failures: Vec::new(),
        }
    }

    /// Ends the turn of the current combination, after a shift of this length.
    pub(super) fn end_turn(&mut self, took: Duration) {
        self.combinations[self.turn].adjust_shift(took);
        self.turn = (self.turn + 1) % self.combinations.len();
    }

    /// The text of the state file.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("commit\t{}\nturn\t{}\n", self.commit, self.turn);
        for combination in &self.combinations {
            let Combination {
                workload,
                protocol,
                mode,
                profile,
                ..
            } = combination;
            let mode = mode.name;
            let fields = combination
                .fields()
                .map(|field| field.to_string())
                .join("\t");
            text.push_str(&format!(
                "run\t{workload}\t{protocol}\t{mode}\t{profile}\t{fields}\n"
            ));
        }
        for failure in &self.failures {
            let Failure {
                command,
                what,
                case,
            } = failure;
            text.push_str(&format!("failure\t{command}\t{case}\t{what}\n"));
        }
        text
    }

    /// Parses the output of [`State::to_text`].
    ///
    /// # Errors
    /// The number of the first malformed line, counted from 1; that of the last line if `turn` is out of range.
    pub(super) fn from_text(text: &str) -> Result<State, usize> {
        let mut state = State::default();
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<&str> = line.split('\t').collect();
            match words[..] {
                ["commit", commit] => state.commit = commit.to_owned(),
                ["turn", turn] => state.turn = turn.parse().map_err(|_| number)?,
                ["run", workload, protocol, mode, profile, ref fields @ ..] => {
                    let mode = Mode::named(mode).ok_or(number)?;
                    let fields = fields.iter().map(|field| field.parse().ok());
                    let fields: Option<Vec<u64>> = fields.collect();
                    let Some([next, shift, failed, weak, committed, simulated]) = fields.as_deref()
                    else {
                        return Err(number);
                    };
                    state.combinations.push(Combination {
                        next: *next,
                        shift: (*shift).max(1),
                        failed: *failed,
                        weak: *weak,
                        committed: *committed,
                        simulated: *simulated,
                        ..Combination::new(workload, protocol, mode, profile)
                    });
                }
                ["failure", command, case, what] => state.failures.push(Failure {
                    command: command.to_owned(),
                    what: what.to_owned(),
                    case: case.to_owned(),
                }),
                _ => return Err(number),
            }
        }
        match state.turn < state.combinations.len() {
            true => Ok(state),
            false => Err(text.lines().count()),
        }
    }

    /// The summary for people, in Markdown.
    pub(super) fn summary(&self) -> String {
        let sum = |of: fn(&Combination) -> u64| self.combinations.iter().map(of).sum::<u64>();
        let mut text = format!(
            "# Soak of commit {}\n\n{} seeds, {} transactions, {} s of virtual time, {} failures.\n\n\
             | workload | protocol | mode | faults | seeds | weak | failed | transactions | virtual s |\n\
             |---|---|---|---|--:|--:|--:|--:|--:|\n",
            self.commit,
            sum(|c| c.next),
            sum(|c| c.committed),
            sum(|c| c.simulated) / 10,
            self.failures.len()
        );
        for combination in &self.combinations {
            let [next, _, failed, weak, committed, simulated] = combination.fields();
            text.push_str(&format!(
                "| {} | {} | {} | {} | {next} | {weak} | {failed} | {committed} | {}.{} |\n",
                combination.workload,
                combination.protocol,
                combination.mode.name,
                combination.profile,
                simulated / 10,
                simulated % 10
            ));
        }
        for failure in &self.failures {
            text.push_str(&format!(
                "\n- `{}`: {}\n  (the minimised case of its shift: {})\n",
                failure.command, failure.what, failure.case
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::mode::MODES;
    use super::*;

    const REPORT: &str = "\
register under ramp-fast, simulated: 3 nodes (lan), 6 clients, faults storm

  seeds         1,200, of which 1 failed and 17 were weak
  transactions  261,450 committed
  aborts        fractured, retried 85
  time          1,342.6 s simulated to the last answers, 1,350.1 s to the ends; 9,876,543 events,
                in 3.1 s
  seed 77       violated: n0 at 12 us: RAMP-I2: something
";

    #[test]
    fn the_commands_report_is_parsed() {
        let reported = Reported::read(REPORT).expect("it is a sum");
        assert_eq!(
            (
                reported.seeds,
                reported.weak,
                reported.committed,
                reported.simulated
            ),
            (1_200, 17, 261_450, 13_426)
        );
        let what = "violated: n0 at 12 us: RAMP-I2: something".to_owned();
        assert_eq!(reported.failed, [(77, what)]);
        assert_eq!(Reported::read("error: no"), None);
    }

    #[test]
    fn a_soak_continues_where_the_last_one_ended() {
        let mut state = State::new("abc");
        let reported = Reported::read(REPORT).expect("it is a sum");
        state.combinations[3].next = 1_200;
        state.combinations[3].add(&reported);
        state.failures.push(Failure {
            command: "anabranch sim --seed 77".into(),
            what: "violated".into(),
            case: "a-0.jsonl".into(),
        });
        let read = State::from_text(&state.to_text());
        assert_eq!(read.as_ref(), Ok(&state));
        let summary = state.summary();
        assert!(
            summary.contains("1200 seeds, 261450 transactions, 1342 s"),
            "{summary}"
        );
        assert!(summary.contains("sim --seed 77`: violated"), "{summary}");
        assert_eq!(State::from_text("commit\tabc\nrun\tregister\n"), Err(2));
    }

    /// Each of these soaks has time for one shift.
    #[test]
    fn short_soaks_reach_all_combinations() {
        let mut state = State::new("abc");
        let count = state.combinations.len();
        let mut turns = Vec::new();
        for _ in 0..=count {
            state = State::from_text(&state.to_text()).expect("it has written it");
            turns.push(state.turn);
            state.end_turn(Duration::from_secs(40));
        }
        let each: Vec<usize> = (0..count).chain([0]).collect();
        assert_eq!(turns, each);
        // Twenty seeds at first, a quarter of them after a shift of four times its length.
        assert_eq!(state.combinations[1].shift, 5);
        assert_eq!(state.combinations[0].shift, 1);
    }

    #[test]
    fn a_turn_out_of_range_is_refused() {
        let text = State::new("abc").to_text();
        let lines = text.lines().count();
        let last = State::new("abc").combinations.len() - 1;
        let turn = |turn: usize| text.replacen("turn\t0", &format!("turn\t{turn}"), 1);
        assert!(State::from_text(&turn(last)).is_ok());
        assert_eq!(State::from_text(&turn(last + 1)), Err(lines));
        assert_eq!(State::from_text("commit\tabc\n"), Err(1));
    }

    #[test]
    fn shifts_grow_and_shrink_towards_their_time() {
        let mut combination = Combination::new("tpcc", "locking", &MODES[0], "mild");
        combination.adjust_shift(Duration::from_secs(1));
        assert_eq!(combination.shift, 80);
        combination.adjust_shift(Duration::from_secs(100));
        assert_eq!(combination.shift, 20);
    }
}
