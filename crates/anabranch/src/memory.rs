//! The memory of this process.
//!
//! A database that grows takes memory from the system page by page, and the system clears each
//! page at its first touch. On a virtual machine whose host lends memory only when it is touched,
//! that was an eighth of the processors' time while a benchmark ran. So, like other databases and
//! runtimes that can be set to touch their memory first, a run may take it beforehand.

/// What the program's allocator has to be told, in its environment: that is where it looks, once,
/// before anything of this program runs.
///
/// Memory that is freed stays with the process instead of going back to the system after a second;
/// and threads, of which each keeps a database of its own, keep their full pages, where by default
/// they would hand them over to whoever frees something in them first.
#[cfg(all(unix, feature = "mimalloc"))]
const SETTINGS: [(&str, &str); 2] = [
    ("MIMALLOC_PURGE_DELAY", "-1"),
    ("MIMALLOC_PAGE_FULL_RETAIN", "-1"),
];

/// Takes `bytes` from the system, touches them, and keeps them, and whatever else is freed later,
/// for this process. It lasts as long as clearing that much memory.
///
/// To be called before there is anything to lose: if its allocator was not told at its start to keep
/// what is freed, the program starts again, with the same arguments, and tells it. Where it cannot,
/// or has another allocator (the feature `mimalloc`), memory is returned to the system as that
/// allocator likes, and this has little effect.
pub(crate) fn reserve(bytes: u64) {
    if bytes == 0 {
        return;
    }
    #[cfg(all(unix, feature = "mimalloc"))]
    start_again_unless_told();
    // Blocks of a size that an allocator gives back whole.
    const BLOCK: usize = 1 << 20;
    let blocks: Vec<Vec<u8>> = (0..bytes.div_ceil(BLOCK as u64))
        .map(|_| vec![1; BLOCK])
        .collect();
    drop(std::hint::black_box(blocks));
}

/// Starts the program again where a setting is missing; one that somebody has made is left alone.
#[cfg(all(unix, feature = "mimalloc"))]
fn start_again_unless_told() {
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
        // It only returns if the system refuses: then the run goes on without.
        let _refused = Command::new(program)
            .args(env::args_os().skip(1))
            .envs(missing)
            .exec();
    }
}
