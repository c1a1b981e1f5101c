//! The memory of this process.
//!
//! A database that grows takes memory from the system page by page, and the system clears each
//! page at its first touch. On a virtual machine whose host lends memory only when it is touched,
//! that was an eighth of the processors' time while a benchmark ran. So, like other databases and
//! runtimes that can be set to touch their memory first, a run may take it beforehand.

/// Sets the program's allocator up for threads that each keep a database of their own. To be called
/// before there are threads.
///
/// Their memory fills up and stays full, and it is they who come back to what little is freed of it.
/// So they keep their full pages, where by default they would hand them over to whoever frees
/// something in them first.
pub(crate) fn settle() {
    #[cfg(feature = "mimalloc")]
    allocator::set(allocator::PAGE_FULL_RETAIN, allocator::ALL);
}

/// Takes `bytes` from the system, touches them, and keeps them, and whatever else is freed later,
/// for this process. It lasts as long as clearing that much memory.
///
/// Without the program's own allocator (the feature `mimalloc`) memory is returned as the system's
/// allocator likes, and this has little effect.
pub(crate) fn reserve(bytes: u64) {
    if bytes == 0 {
        return;
    }
    #[cfg(feature = "mimalloc")]
    allocator::set(allocator::PURGE_DELAY, allocator::FOR_EVER);
    // Blocks of a size that an allocator gives back whole.
    const BLOCK: usize = 1 << 20;
    let blocks: Vec<Vec<u8>> = (0..bytes.div_ceil(BLOCK as u64))
        .map(|_| vec![1; BLOCK])
        .collect();
    drop(std::hint::black_box(blocks));
}

/// Options of mimalloc.h that the bindings do not name, by their numbers in version 3.
#[cfg(feature = "mimalloc")]
mod allocator {
    use std::ffi::{c_int, c_long};

    /// For how many milliseconds freed memory is kept.
    pub(super) const PURGE_DELAY: c_int = 15;
    pub(super) const FOR_EVER: c_long = -1;
    /// How many full pages of a size a thread keeps to itself.
    pub(super) const PAGE_FULL_RETAIN: c_int = 36;
    pub(super) const ALL: c_long = -1;

    #[expect(unsafe_code, reason = "options of a library written in C")]
    pub(super) fn set(option: c_int, value: c_long) {
        // SAFETY: both only read and write numbers, atomically, and may be called at any time; the
        // library checks the option's number.
        unsafe {
            if (30_000..40_000).contains(&libmimalloc_sys::mi_version()) {
                libmimalloc_sys::mi_option_set(option, value);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Another version of the library may number its options otherwise: then these are not the
        /// values that its documentation says they begin with.
        #[test]
        #[expect(unsafe_code, reason = "options of a library written in C")]
        fn the_options_are_the_ones_meant() {
            // SAFETY: as above.
            let get = |option| unsafe { libmimalloc_sys::mi_option_get(option) };
            assert_eq!((get(PURGE_DELAY), get(PAGE_FULL_RETAIN)), (1000, 2));
            set(PAGE_FULL_RETAIN, ALL);
            assert_eq!(get(PAGE_FULL_RETAIN), ALL);
        }
    }
}
