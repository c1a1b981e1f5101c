//! `anabranch calibrate …`

use std::error::Error;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_bench::calibrate::{Calibration, Effort, ExperimentName, Provenance};
use clap::Args;

use super::Verdict;
use super::output::{check_writable, say, write_file};
use super::progress::steps;

/// The default of `--out`.
const OUT: &str = "calibration.json";

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// The file that the calibration is written to
    #[arg(long, value_name = "FILE", default_value = OUT)]
    out: PathBuf,
    /// One short round over a small database: a test of the command, not a usable calibration
    #[arg(long)]
    quick: bool,
    /// Measure only one experiment: new-order, new-order-distributed, writes-1 to writes-8, or items. The built-in
    /// calibration has the rest
    #[arg(long, value_name = "NAME", value_parser = experiment)]
    only: Option<ExperimentName>,
}

fn experiment(name: &str) -> Result<ExperimentName, String> {
    ExperimentName::by_text(name).ok_or_else(|| {
        "unknown experiment; known are new-order, new-order-distributed, writes-1 to writes-8, and items".to_owned()
    })
}

pub(crate) fn run(arguments: &CalibrateArguments) -> Result<Verdict, Box<dyn Error>> {
    check_writable(Some(&arguments.out))?;
    let effort = if arguments.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    let measured = steps("measuring", |progress| {
        let provenance = provenance(arguments);
        match arguments.only {
            Some(only) => {
                Calibration::built_in().measure_again(only, &provenance, effort, progress)
            }
            None => Calibration::measure(provenance, effort, progress),
        }
    });
    let calibration = measured.map_err(|error| format!("error: {error}"))?;
    write_file(&arguments.out, calibration.to_text())?;
    let shown = arguments.only.unwrap_or(ExperimentName::NewOrder);
    say!("{}\n", calibration.name_of(shown))?;
    let local = calibration.costs(shown, "ramp-fast")?;
    for step in &local.steps {
        say!("  {:<36} {:>9.0} ns\n", step.step, step.nanos)?;
    }
    for (what, nanos) in [
        ("a message sent or received", local.message_nanos),
        ("a call received or answered", local.client_nanos),
    ] {
        say!("  {what:<36} {nanos:>9.0} ns\n")?;
    }
    say!("written to {}\n", arguments.out.display())?;
    Ok(Verdict::Fine)
}

fn provenance(arguments: &CalibrateArguments) -> Provenance {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut command = "anabranch calibrate".to_owned();
    if arguments.quick {
        command.push_str(" --quick");
    }
    if let Some(only) = arguments.only {
        command.push_str(&format!(" --only {}", only.text()));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let days = now.map_or(0, |now| now.as_secs() / 86_400);
    Provenance {
        machine: format!("{}, {cores} cores", processor()),
        date: date(days),
        commit: env!("ANABRANCH_COMMIT").to_owned(),
        command,
    }
}

/// The processor's name; the architecture where the system does not give a name.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = info.lines().find(|line| line.starts_with("model name"));
    let name = named.and_then(|line| line.split(':').nth(1));
    let name = name.map_or(std::env::consts::ARCH, str::trim);
    name.to_owned()
}

/// The date of a number of days after 1970-01-01 (H. Hinnant's algorithm for the civil calendar).
fn date(days: u64) -> String {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_778, "2026-11-21"),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}
