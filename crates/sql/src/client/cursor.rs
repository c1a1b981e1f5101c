//! Cursors: DECLARE, FETCH, MOVE and CLOSE.

use super::runnable::Runnable;

/// `DECLARE name CURSOR FOR query`
#[derive(Clone, Debug)]
pub struct CursorDeclaration {
    /// The cursor's name.
    pub name: String,
    /// Whether rows are fetched in binary form, also by the simple protocol.
    pub binary: bool,
    /// Whether it was declared SCROLL (`true`) or NO SCROLL.
    pub scroll: Option<bool>,
    /// Whether it outlives a transaction that commits: WITH HOLD.
    pub holds: bool,
    /// The query.
    pub query: Runnable,
}

/// Which rows FETCH and MOVE go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    /// The next rows, or with a negative number the ones before, backwards; 0 is the current row again. `None`: all.
    Forward(Option<i64>),
    /// All rows before, backwards.
    BackwardAll,
    /// The row with this number, from 1; from the end if it is negative; 0 is the place before the first.
    Absolute(i64),
    /// The row so many places on.
    Relative(i64),
}

impl FetchDirection {
    /// Whether it may go back, which a cursor declared NO SCROLL refuses.
    pub fn may_go_back(self) -> bool {
        match self {
            FetchDirection::Forward(count) => count.is_some_and(|count| count < 0),
            FetchDirection::BackwardAll | FetchDirection::Absolute(_) => true,
            FetchDirection::Relative(count) => count < 0,
        }
    }
}
