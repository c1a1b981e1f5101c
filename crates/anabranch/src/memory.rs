//! The memory of this process.
//!
//! A database that grows takes memory from the system page by page, and the system clears each
//! page at its first touch. On a virtual machine whose host lends memory only when it is touched,
//! that was an eighth of the processors' time while a benchmark ran. So, like other databases and
//! virtual machines that are set to touch their memory first, a run may take it beforehand.

/// Takes `bytes` from the system, touches them, and keeps them, and whatever else is freed later,
/// for this process. It lasts as long as clearing that much memory.
///
/// Without the program's own allocator (the feature `mimalloc`) memory is returned as the system's
/// allocator likes, and this has little effect.
pub(crate) fn reserve(bytes: u64) {
    if bytes == 0 {
        return;
    }
    keep_what_is_freed();
    // Blocks of a size that an allocator gives back whole.
    const BLOCK: usize = 1 << 20;
    let blocks: Vec<Vec<u8>> = (0..bytes.div_ceil(BLOCK as u64))
        .map(|_| vec![1; BLOCK])
        .collect();
    drop(std::hint::black_box(blocks));
}

/// Has the allocator keep freed memory instead of giving it back to the system after a while.
#[cfg(feature = "mimalloc")]
#[expect(unsafe_code, reason = "an option of a library written in C")]
fn keep_what_is_freed() {
    /// `mi_option_purge_delay` of mimalloc.h, which the bindings do not name: how many milliseconds
    /// freed memory is kept, in versions 2 and 3.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    const FOR_EVER: i64 = -1;
    // SAFETY: the function stores a number in a table of options that the library checks the index
    // against, atomically, at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, FOR_EVER as std::ffi::c_long) };
}

#[cfg(not(feature = "mimalloc"))]
fn keep_what_is_freed() {}
