//! Memory that is reserved before a benchmark.
//!
//! A growing database takes memory from the system page by page, and the system clears each page at its first touch.
//! On a virtual machine whose host allocates memory at the first touch, this took an eighth of the processors' time
//! during a benchmark. A run may therefore touch its memory beforehand, as other databases and runtimes can.

/// The allocator's settings in the environment, which it reads once, before `main`.
///
/// Freed memory stays with the process instead of going back to the system after a second. Each thread keeps a
/// database of its own, and keeps its full pages; by default the thread that first frees something in a page would
/// get it.
#[cfg(all(unix, feature = "mimalloc"))]
const SETTINGS: [(&str, &str); 2] = [
    ("MIMALLOC_PURGE_DELAY", "-1"),
    ("MIMALLOC_PAGE_FULL_RETAIN", "-1"),
];

/// Allocates and touches `bytes`, and keeps them, and all memory that is freed later, for this process. It takes as
/// long as the system needs to clear that much memory.
///
/// Call it before any work: if the allocator's settings are missing from the environment, the program sets them and
/// starts again with the same arguments. If it cannot, or has another allocator (without the feature `mimalloc`), the
/// allocator returns memory to the system as it likes, and the call has little effect.
pub(crate) fn reserve(bytes: u64) {
    if bytes == 0 {
        return;
    }
    #[cfg(all(unix, feature = "mimalloc"))]
    restart_with_settings();
    // A block size that an allocator returns to the system as a whole.
    const BLOCK: usize = 1 << 20;
    let blocks: Vec<Vec<u8>> = (0..bytes.div_ceil(BLOCK as u64))
        .map(|_| vec![1; BLOCK])
        .collect();
    drop(std::hint::black_box(blocks));
}

/// Starts the program again if a setting is missing. Settings that the environment has are kept.
#[cfg(all(unix, feature = "mimalloc"))]
fn restart_with_settings() {
    use std::env;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    let missing: Vec<_> = SETTINGS
        .into_iter()
        .filter(|(name, _)| env::var_os(name).is_none())
        .collect();
    if missing.is_empty() {
        return;
    }
    if let Ok(program) = env::current_exe() {
        // `exec` returns only if it fails; the run then continues without the settings.
        let _refused = Command::new(program)
            .args(env::args_os().skip(1))
            .envs(missing)
            .exec();
    }
}
