//! The limit of memory: above it, what makes the database grow is refused.
//!
//! A thread compares the process's resident memory with the limit from time to time, and the nodes look at what it has
//! found before each commit that writes. So the limit is passed by what is written between two looks.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::room::RoomGauge;

/// How often the memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The part of the machine's memory that is the default limit.
const SHARE: f64 = 0.8;

/// The thread; it ends with this.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    _running: Sender<()>,
}

impl MemoryWatch {
    /// Starts the thread.
    pub(crate) fn start(max: u64, room: Arc<RoomGauge>) -> std::io::Result<MemoryWatch> {
        let (running, ended) = channel();
        std::thread::Builder::new()
            .name("memory".to_owned())
            .spawn(move || {
                let mut is_short = false;
                while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if let Some(used) = resident() {
                        is_short = is_short_of(used, max, is_short);
                        room.set_memory(is_short);
                    }
                }
            })?;
        Ok(MemoryWatch { _running: running })
    }
}

/// Whether so much is too much. Once it is, a part has to be free again, so that writes are not admitted and refused in
/// turns.
fn is_short_of(used: u64, max: u64, was_short: bool) -> bool {
    used > if was_short { max - max / 32 } else { max }
}

/// The process's resident memory in bytes, where the operating system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmRSS:")
}

/// The default limit in bytes: 0.8 of the memory that the machine has, or of what the container may use. `None` where
/// the operating system does not tell.
pub fn default_max() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| kibibytes(&text, "MemTotal:"))?;
    let files = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let limits = files.iter().filter_map(|file| {
        let text = std::fs::read_to_string(file).ok()?;
        text.trim().parse::<u64>().ok()
    });
    let all = limits.fold(machine, u64::min);
    Some((all as f64 * SHARE) as u64)
}

/// The number behind a name in a file of `/proc`, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_refused_above_the_limit_and_admitted_clearly_below_it() {
        let max = 3_200;
        assert!(!is_short_of(3_200, max, false));
        assert!(is_short_of(3_201, max, false));
        assert!(is_short_of(3_101, max, true));
        assert!(!is_short_of(3_100, max, true));
    }

    #[test]
    fn the_process_and_the_machine_have_memory() {
        let (used, max) = (resident().expect("Linux"), default_max().expect("Linux"));
        assert!(used > 1 << 20 && max > 64 << 20, "{used} {max}");
        assert_eq!(
            kibibytes("A: 1\nVmRSS:\t  12 kB\n", "VmRSS:"),
            Some(12 << 10)
        );
    }
}
