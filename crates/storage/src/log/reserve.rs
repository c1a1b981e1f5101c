//! The reserve: a file of zeros beside the log, which is given up when the disk is full.
//!
//! Transactions that have begun have to end, and a checkpoint that frees old segments has to be written: both need room
//! when there is none. The node refuses new writes meanwhile. The reserve is filled again when there is room.

use super::{Log, LogError, LogPosition};
use crate::media::{Media, MediaError};

/// The file.
const RESERVE: &str = "reserve";

/// The reserve is written in parts of this size.
const PART: usize = 1 << 16;

/// How much room a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// As far as it is known, enough.
    Enough,
    /// The disk was full, and the log goes on in the room of the reserve. So many bytes of it should be left.
    Reserve {
        /// The bytes.
        left: u64,
    },
}

/// The state of the reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reserve {
    /// There is none yet.
    #[default]
    None,
    /// It is on the disk.
    Kept,
    /// It was given up when the log ended here.
    GivenUp(LogPosition),
}

/// The reserve.
impl<D: Media> Log<D> {
    /// How much room it has.
    pub fn room(&self) -> Room {
        match self.reserve {
            Reserve::GivenUp(at) => Room::Reserve {
                left: (self.options.reserve_bytes).saturating_sub(self.end.0 - at.0),
            },
            Reserve::None | Reserve::Kept => Room::Enough,
        }
    }

    /// Gives up the reserve. Returns whether there was one.
    pub(super) fn give_up_reserve(&mut self) -> Result<bool, LogError> {
        if self.reserve != Reserve::Kept {
            return Ok(false);
        }
        let removed = self.media.remove(RESERVE);
        self.stop_on(removed)?;
        self.reserve = Reserve::GivenUp(self.end);
        Ok(true)
    }

    /// Writes the reserve if there is none and the disk has room for it. Returns whether there is one, or none is
    /// wanted. It need not be durable: a start after a crash writes what is missing.
    ///
    /// # Errors
    /// When the disk fails; the log then stops.
    pub fn refill_reserve(&mut self) -> Result<bool, LogError> {
        self.running()?;
        if self.reserve == Reserve::Kept || self.options.reserve_bytes == 0 {
            return Ok(true);
        }
        match self.write_reserve() {
            Ok(()) => {
                self.reserve = Reserve::Kept;
                Ok(true)
            }
            Err(MediaError::Full { .. }) => {
                match self.media.remove(RESERVE) {
                    Ok(()) | Err(MediaError::Missing { .. }) => {}
                    failed => self.stop_on(failed)?,
                }
                if self.reserve == Reserve::None {
                    self.reserve = Reserve::GivenUp(self.end);
                }
                Ok(false)
            }
            failed => self.stop_on(failed).map(|()| false),
        }
    }

    fn write_reserve(&mut self) -> Result<(), MediaError> {
        self.media.create(RESERVE)?;
        let mut missing = self.options.reserve_bytes;
        while missing > 0 {
            let part = missing.min(PART as u64);
            self.media.append(RESERVE, &vec![0; part as usize])?;
            missing -= part;
        }
        Ok(())
    }
}
