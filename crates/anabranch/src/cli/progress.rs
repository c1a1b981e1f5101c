//! Progress of long work, on standard error: drawn on a terminal; lines of steps elsewhere, and only now and then.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::complain;

/// Shows a bar that follows `done` to `total` while `work` runs.
pub(crate) fn bar<T>(
    message: &str,
    total: u64,
    done: &Arc<AtomicU64>,
    work: impl FnOnce() -> T,
) -> T {
    let bar = ProgressBar::new(total).with_message(message.to_owned());
    if let Ok(style) = ProgressStyle::with_template(
        "  {msg} {wide_bar:.cyan/blue} {human_pos}/{human_len} rows, {elapsed}",
    ) {
        bar.set_style(style);
    }
    let ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                bar.set_position(done.load(Ordering::Relaxed).min(total));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        // The thread that updates the bar ends with the work, even if the work panics.
        struct End<'e>(&'e AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let _end = End(&ended);
        work()
    });
    bar.finish_and_clear();
    result
}

/// How long a log waits for the next line about work that goes on.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Shows a spinner while `work` runs; `work` names its current step. Where standard error is no terminal, a step is a
/// line of its own, at most one in [`BETWEEN_LINES`].
pub(crate) fn steps<T>(name: &str, work: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    if !std::io::stderr().is_terminal() {
        let began = Instant::now();
        let mut told = began;
        return work(&mut |step| {
            if told.elapsed() >= BETWEEN_LINES {
                told = Instant::now();
                complain(&format!("{name}: {step} ({} s)", began.elapsed().as_secs()));
            }
        });
    }
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("  {spinner:.cyan} {msg} {elapsed}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(100));
    let result = work(&mut |step| spinner.set_message(format!("{name}: {step}")));
    spinner.finish_and_clear();
    result
}
