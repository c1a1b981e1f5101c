//! The log on a simulated disk that loses and tears writes, fails, and flips bits.

use anabranch_storage::media::memory::{DiskFaults, MemoryDisk};
use anabranch_storage::{Log, LogError, LogOptions, Media, MediaError, Opened, Room, verify};
use anabranch_types::SplitMix64;

/// Small segments, so that each run has several.
const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 700,
    reserve_bytes: 0,
    ahead_bytes: 300,
};

/// A record: a number, and some padding.
type Record = (u64, Vec<u8>);

fn record(number: u64) -> Record {
    (number, vec![number as u8; (number % 60) as usize])
}

/// Opens the log; returns the numbers that it replays.
fn open(disk: MemoryDisk) -> Result<(Log<MemoryDisk>, Vec<u64>, Opened), LogError> {
    let mut numbers = Vec::new();
    let (log, opened) = Log::open(disk, OPTIONS, &mut |(number, weight): Record| {
        if weight != record(number).1 {
            return Err(format!("{number} has the wrong weight"));
        }
        numbers.push(number);
        Ok(())
    })?;
    Ok((log, numbers, opened))
}

/// A checkpoint of everything below `next`.
fn checkpoint(log: &mut Log<MemoryDisk>, next: u64) -> Result<(), LogError> {
    log.checkpoint(&mut |sink| (0..next).for_each(|number| sink(record(number))))
}

fn fresh() -> Log<MemoryDisk> {
    let (mut log, numbers, opened) = open(MemoryDisk::new()).expect("an empty disk is a new log");
    assert!(opened.is_new && numbers.is_empty());
    checkpoint(&mut log, 0).expect("the disk has no faults");
    log
}

fn append(log: &mut Log<MemoryDisk>, numbers: std::ops::Range<u64>) -> Result<(), LogError> {
    log.append(&numbers.map(record).collect::<Vec<Record>>())
}

fn sync(log: &mut Log<MemoryDisk>) -> Result<(), LogError> {
    let until = log.begin_sync();
    log.end_sync(until)
}

/// A checkpoint in slices of everything below `total`; `written` of it are written.
#[derive(Clone, Copy)]
struct Slices {
    written: u64,
    total: u64,
}

/// Takes the next step of a checkpoint in slices, whichever it is; returns what is left of it.
fn slice(
    log: &mut Log<impl Media>,
    slices: Option<Slices>,
    next: u64,
) -> Result<Option<Slices>, LogError> {
    let Some(Slices { written, total }) = slices else {
        log.begin_checkpoint()?;
        let (written, total) = (0, next);
        return Ok(Some(Slices { written, total }));
    };
    if log.is_checkpoint_durable() {
        log.adopt_checkpoint()?;
        return Ok(None);
    }
    let until = total.min(written + 7);
    if log.completed_checkpoint().is_none() {
        match written < total {
            true => {
                log.extend_checkpoint(&(written..until).map(record).collect::<Vec<Record>>())?
            }
            false => log.complete_checkpoint()?,
        }
    } else {
        log.end_checkpoint_sync(log.unsynced_checkpoint())?;
    }
    let written = until;
    Ok(Some(Slices { written, total }))
}

/// One disk through many crashes. Returns an error, or how many bytes were cut and how many unsynced records
/// were found again.
fn crash_repeatedly(seed: u64, faults: DiskFaults) -> Result<(u64, u64), String> {
    let mut random = SplitMix64::new(seed);
    let mut log = fresh();
    log.media_mut().set_faults(faults);
    let (mut next, mut durable, mut cut, mut extra) = (0, 0, 0, 0);
    for _ in 0..12 {
        let mut slices = None;
        for _ in 0..random.below(40) {
            match random.below(20) {
                0..6 => {
                    let count = 1 + random.below(4);
                    append(&mut log, next..next + count).map_err(|error| error.to_string())?;
                    next += count;
                }
                6..9 => {
                    let (until, was) = (log.begin_sync(), next);
                    if random.below(2) == 0 {
                        append(&mut log, next..next + 1).map_err(|error| error.to_string())?;
                        next += 1;
                    }
                    log.end_sync(until).map_err(|error| error.to_string())?;
                    durable = was;
                }
                9..19 => {
                    slices = slice(&mut log, slices, next).map_err(|error| error.to_string())?;
                }
                _ => {
                    checkpoint(&mut log, next).map_err(|error| error.to_string())?;
                    (durable, slices) = (next, None);
                }
            }
        }
        let mut disk = log.into_media();
        disk.crash(&mut |bound| random.below(bound));
        if random.below(4) == 0 {
            // It crashes again during recovery.
            let (log, ..) = open(disk).map_err(|error| error.to_string())?;
            disk = log.into_media();
            disk.crash(&mut |bound| random.below(bound));
        }
        let (again, numbers, opened) = open(disk).map_err(|error| error.to_string())?;
        if !numbers.iter().copied().eq(0..numbers.len() as u64) {
            return Err(format!("not a prefix of what was logged: {numbers:?}"));
        }
        let found = numbers.len() as u64;
        if found < durable || found > next {
            return Err(format!(
                "{found} records are left of {durable} synced, {next} logged"
            ));
        }
        cut += opened.cut;
        extra += found - durable;
        (log, next, durable) = (again, found, found);
    }
    Ok((cut, extra))
}

#[test]
fn what_was_synced_survives_every_crash_and_what_was_not_leaves_no_hole() {
    let (mut cut, mut extra) = (0, 0);
    for seed in 0..400 {
        let (torn, more) = crash_repeatedly(seed, DiskFaults::default())
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        cut += torn;
        extra += more;
    }
    assert!(
        cut > 10_000 && extra > 1_000,
        "crashes that tear nothing show nothing: {cut} {extra}"
    );
}

/// No log survives a disk that reports syncs that it did not do: the check above has to detect it.
#[test]
fn a_disk_that_lies_is_found_out() {
    let lies = DiskFaults {
        sync_lies: true,
        ..DiskFaults::default()
    };
    let found = (0..50)
        .filter(|seed| crash_repeatedly(*seed, lies).is_err())
        .count();
    assert!(found > 40, "{found} of 50");
}

#[test]
fn records_of_a_segment_that_was_synced_are_never_skipped() {
    let mut log = fresh();
    for batch in 0..60 {
        append(&mut log, 3 * batch..3 * batch + 3).expect("no faults");
        sync(&mut log).expect("no faults");
    }
    let disk = log.into_media();
    let (mut refused, mut last_batch) = (0, 0);
    for file in disk.clone().files().expect("no faults") {
        for offset in (0..u64::MAX).step_by(7) {
            let mut rotten = disk.clone();
            if !rotten.damage(&file, offset) {
                break;
            }
            match open(rotten) {
                Err(LogError::Damaged { file: named, .. }) => {
                    assert_eq!(named, file);
                    refused += 1;
                }
                // No later frame shows that the last frame had been synced.
                Ok((_, numbers, _)) => {
                    assert_eq!(numbers.len(), 177, "{file} at {offset}");
                    last_batch += 1;
                }
                Err(other) => panic!("{file} at {offset}: {other}"),
            }
        }
    }
    assert!(refused > 500 && last_batch < 40, "{refused} {last_batch}");
}

#[test]
fn a_missing_segment_or_checkpoint_is_a_gap() {
    let mut log = fresh();
    for batch in 0..40 {
        append(&mut log, 3 * batch..3 * batch + 3).expect("no faults");
    }
    sync(&mut log).expect("no faults");
    let mut disk = log.into_media();
    let files = disk.files().expect("no faults");
    let segments: Vec<&String> = files.iter().filter(|f| f.starts_with("log-")).collect();
    assert!(segments.len() > 3, "{files:?}");
    for missing in &segments[..segments.len() - 1] {
        let mut disk = disk.clone();
        disk.remove(missing).expect("it is there");
        assert!(matches!(open(disk), Err(LogError::Gap { .. })), "{missing}");
    }
    let checkpoint = files.iter().find(|f| f.starts_with("checkpoint-"));
    disk.remove(checkpoint.expect("there is one"))
        .expect("it is there");
    assert!(matches!(open(disk), Err(LogError::Gap { .. })));
}

#[test]
fn an_error_of_the_disk_stops_the_log_for_good() {
    let mut log = fresh();
    append(&mut log, 0..3).expect("no faults");
    sync(&mut log).expect("no faults");
    append(&mut log, 3..5).expect("no faults");
    let failing = DiskFaults {
        syncs_fail: true,
        ..DiskFaults::default()
    };
    log.media_mut().set_faults(failing);
    assert!(matches!(
        sync(&mut log),
        Err(LogError::Media(MediaError::Failed { .. }))
    ));
    log.media_mut().set_faults(DiskFaults::default());
    // The disk works again; whether it has the bytes of the failed sync is unknown.
    assert!(matches!(
        append(&mut log, 5..6),
        Err(LogError::Stopped { .. })
    ));
    assert!(matches!(sync(&mut log), Err(LogError::Stopped { .. })));
    assert!(matches!(
        checkpoint(&mut log, 5),
        Err(LogError::Stopped { .. })
    ));
}

/// A crash leaves the room as zeros: they are no torn tail, and nothing is appended behind them.
#[test]
fn room_ahead_of_the_end_is_cut_off_and_is_no_torn_tail() {
    let mut log = fresh();
    for start in [0, 3, 6] {
        append(&mut log, start..start + 3).expect("no faults");
        sync(&mut log).expect("no faults");
        let used = log.media().used();
        let mut disk = log.into_media();
        disk.crash(&mut |_| 0);
        assert!(disk.used() > used, "the room stays");
        let verified = verify(&mut disk, &mut |_: Record| Ok(())).expect("no damage");
        assert_eq!(verified.torn, None);
        let (reopened, numbers, opened) = open(disk).expect("it is whole");
        assert_eq!(numbers, (0..start + 3).collect::<Vec<u64>>());
        assert_eq!((opened.cut, reopened.media().used()), (0, used));
        log = reopened;
    }
    append(&mut log, 9..10).expect("no faults");
    for by_checkpoint in [false, true] {
        let mut log = log.clone();
        match by_checkpoint {
            false => log.rotate(),
            // Not adopted: the segments before it are needed.
            true => log.prepare_checkpoint::<Record>(&mut |_| {}),
        }
        .expect("no faults");
        append(&mut log, 10..12).expect("no faults");
        sync(&mut log).expect("no faults");
        let mut disk = log.into_media();
        disk.crash(&mut |_| 0);
        let (_, numbers, _) = open(disk).expect("only the last segment has room");
        assert_eq!(numbers, (0..12).collect::<Vec<u64>>());
    }
}

fn with_capacity(capacity: u64) -> DiskFaults {
    DiskFaults {
        capacity: Some(capacity),
        ..DiskFaults::default()
    }
}

#[test]
fn a_full_disk_keeps_nothing_of_what_it_refuses_and_the_log_goes_on_when_there_is_room() {
    for room in 0..120 {
        let mut log = fresh();
        append(&mut log, 0..3).expect("no faults");
        sync(&mut log).expect("no faults");
        let used = log.media().used();
        log.media_mut().set_faults(with_capacity(used + room));
        // One long frame fits in none of these rooms.
        let refused = append(&mut log, 40..50).expect_err("there is no room");
        assert!(refused.is_full(), "{refused}");
        assert_eq!(log.media().used(), used, "half a frame stays");
        sync(&mut log).expect("the log goes on");
        let (_, numbers, opened) = open(log.media().clone()).expect("it is whole");
        assert_eq!((numbers, opened.cut), (vec![0, 1, 2], 0));
        log.media_mut().set_faults(DiskFaults::default());
        append(&mut log, 3..6).expect("there is room");
        let (_, numbers, _) = open(log.into_media()).expect("it is whole");
        assert_eq!(numbers, (0..6).collect::<Vec<u64>>());
    }
}

#[test]
fn a_reserve_is_given_up_on_a_full_disk_and_filled_again() {
    let options = LogOptions {
        reserve_bytes: 1_000,
        ..OPTIONS
    };
    let open = |disk| Log::open(disk, options, &mut |_: Record| Ok(())).expect("no faults");
    let (mut log, _) = open(MemoryDisk::new());
    checkpoint(&mut log, 0).expect("no faults");
    assert_eq!(log.room(), Room::Enough);
    let used = log.media().used();
    log.media_mut().set_faults(with_capacity(used));
    append(&mut log, 40..50).expect("it fits into the reserve");
    assert_eq!(
        log.room(),
        Room::Reserve {
            left: 1_000 - (log.media().used() - (used - 1_000))
        }
    );
    assert!(!log.refill_reserve().expect("a full disk is no error"));
    let refused = (0..10).find_map(|_| append(&mut log, 40..50).err());
    assert!(refused.is_some_and(|error| error.is_full()));
    // A checkpoint that does not fit leaves the older one.
    log.begin_checkpoint().expect("a name fits");
    let records: Vec<Record> = (40..60).map(record).collect();
    let refused = log
        .extend_checkpoint(&records)
        .expect_err("it does not fit");
    assert!(refused.is_full(), "{refused}");
    log.abandon_checkpoint().expect("no faults");
    assert!(
        !log.media_mut()
            .files()
            .expect("no faults")
            .contains(&"checkpoint.partial".to_owned())
    );
    // What it frees is not enough for the reserve; with more room it is.
    assert!(!log.refill_reserve().expect("a full disk is no error"));
    log.media_mut().set_faults(DiskFaults::default());
    assert!(log.refill_reserve().expect("no faults"));
    assert_eq!(log.room(), Room::Enough);
    let (log, opened) = open(log.into_media());
    assert!(opened.logged > 0 && log.room() == Room::Enough);
}

#[test]
fn a_read_error_and_a_record_that_is_not_one_are_errors() {
    let mut log = fresh();
    append(&mut log, 0..3).expect("no faults");
    let mut disk = log.into_media();
    disk.set_faults(DiskFaults {
        reads_fail: true,
        ..DiskFaults::default()
    });
    assert!(matches!(
        open(disk.clone()),
        Err(LogError::Media(MediaError::Failed { .. }))
    ));
    disk.set_faults(DiskFaults::default());
    let refusing = Log::open(
        disk.clone(),
        OPTIONS,
        &mut |_: Record| Err("no".to_string()),
    );
    assert!(matches!(refusing, Err(LogError::Unreplayable { .. })));
    let other = Log::open(disk, OPTIONS, &mut |_: (bool, String)| Ok(()));
    assert!(matches!(other, Err(LogError::Damaged { .. })));
}

#[test]
fn checkpoints_cut_the_log() {
    let mut log = fresh();
    for batch in 0..100 {
        append(&mut log, 3 * batch..3 * batch + 3).expect("no faults");
    }
    let before = log.media_mut().files().expect("no faults").len();
    assert!(before > 5);
    checkpoint(&mut log, 300).expect("no faults");
    let files = log.media_mut().files().expect("no faults");
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(log.since_checkpoint(), 0);
    append(&mut log, 300..302).expect("no faults");
    let (_, numbers, opened) = open(log.into_media()).expect("nothing crashed");
    assert_eq!((opened.checkpointed, opened.logged), (300, 2));
    assert_eq!(numbers.len(), 302);
}

/// A disk whose machine crashes after a number of changes.
#[derive(Clone, Debug)]
struct Mortal {
    disk: MemoryDisk,
    left: usize,
}

impl Mortal {
    fn change(&mut self, file: &str) -> Result<(), MediaError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Err(MediaError::Failed {
                operation: "change",
                file: file.to_string(),
                reason: "the machine has died".to_string(),
            });
        };
        self.left = left;
        Ok(())
    }
}

impl Media for Mortal {
    fn make_room_ahead(&mut self, file: &str, bytes: u64) -> Result<(), MediaError> {
        self.disk.make_room_ahead(file, bytes)
    }

    fn files(&mut self) -> Result<Vec<String>, MediaError> {
        self.disk.files()
    }

    fn read(&mut self, file: &str, offset: u64, length: usize) -> Result<Vec<u8>, MediaError> {
        self.disk.read(file, offset, length)
    }

    fn create(&mut self, file: &str) -> Result<(), MediaError> {
        self.change(file)?;
        self.disk.create(file)
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> Result<(), MediaError> {
        self.change(file)?;
        self.disk.append(file, bytes)
    }

    fn sync(&mut self, file: &str) -> Result<(), MediaError> {
        self.change(file)?;
        self.disk.sync(file)
    }

    fn cut(&mut self, file: &str, length: u64) -> Result<(), MediaError> {
        self.change(file)?;
        self.disk.cut(file, length)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), MediaError> {
        self.change(from)?;
        self.disk.rename(from, to)
    }

    fn remove(&mut self, file: &str) -> Result<(), MediaError> {
        self.change(file)?;
        self.disk.remove(file)
    }
}

/// After a crash at any point of the first checkpoint, the log opens: as new, or with the whole checkpoint.
#[test]
fn a_crash_in_the_first_checkpoint_leaves_a_log_that_opens() {
    let (mut new, mut whole) = (0, 0);
    for left in 0..12 {
        for seed in 0..8 {
            let mut random = SplitMix64::new(seed);
            let disk = MemoryDisk::new();
            let mortal = Mortal { disk, left };
            let opened = Log::open(mortal, OPTIONS, &mut |_: Record| Ok(()));
            let (mut log, _) = opened.expect("nothing is changed before the checkpoint");
            let written =
                log.checkpoint(&mut |sink| (0..5).for_each(|number| sink(record(number))));
            let mut disk = log.into_media().disk;
            disk.crash(&mut |bound| random.below(bound));
            let (mut again, numbers, opened) =
                open(disk).unwrap_or_else(|error| panic!("{left} changes: {error}"));
            if opened.is_new {
                assert!(
                    written.is_err(),
                    "{left} changes, and the checkpoint was durable"
                );
                new += 1;
                checkpoint(&mut again, 0).expect("the disk has no faults");
            } else {
                assert!(numbers.iter().copied().eq(0..5), "{numbers:?}");
                whole += 1;
            }
            append(&mut again, 5..6).expect("it goes on");
        }
    }
    assert!(new > 20 && whole > 20, "{new} and {whole}");
}

/// A checkpoint is written in slices while the log goes on, and the machine crashes after any number of changes of
/// its disk: what was synced is there, from the older checkpoint or from the newer one.
#[test]
fn a_crash_at_any_point_of_a_checkpoint_in_slices_loses_nothing() {
    let (mut older, mut newer) = (0, 0);
    for left in 0..140 {
        for seed in 0..8 {
            let mut random = SplitMix64::new(seed);
            let mut log = fresh();
            // Several segments, which the checkpoint replaces.
            for batch in 0..3 {
                append(&mut log, 20 * batch..20 * batch + 20).expect("no faults");
            }
            sync(&mut log).expect("no faults");
            let mortal = Mortal {
                disk: log.into_media(),
                left,
            };
            let opened = Log::open(mortal, OPTIONS, &mut |_: Record| Ok(()));
            let Ok((mut log, _)) = opened else { continue };
            let (mut slices, mut next, mut durable) = (None, 60, 60);
            let died = loop {
                let batch: Vec<Record> = (next..next + 3).map(record).collect();
                let appended = log.append(&batch);
                next += 3;
                let step = appended.and_then(|()| slice(&mut log, slices, next));
                match step {
                    Ok(None) => break None,
                    Ok(more) => slices = more,
                    Err(error) => break Some(error),
                }
                if random.below(3) == 0 {
                    let (until, was) = (log.begin_sync(), next);
                    match log.end_sync(until) {
                        Ok(()) => durable = was,
                        Err(error) => break Some(error),
                    }
                }
            };
            let mut disk = log.into_media().disk;
            disk.crash(&mut |bound| random.below(bound));
            let (again, numbers, opened) =
                open(disk).unwrap_or_else(|error| panic!("{left} changes: {error}"));
            let found = numbers.len() as u64;
            assert!(numbers.iter().copied().eq(0..found), "{numbers:?}");
            assert!(
                (durable..=next).contains(&found),
                "{durable} {found} {next}"
            );
            match opened.checkpointed {
                0 => older += 1,
                _ => newer += 1,
            }
            assert!(died.is_some() || opened.checkpointed > 0, "it was adopted");
            assert!(again.since_checkpoint() > 0, "the log goes on meanwhile");
        }
    }
    assert!(older > 100 && newer > 100, "{older} and {newer}");
}

#[test]
fn a_log_that_ends_below_its_checkpoint_is_damaged() {
    let mut log = fresh();
    append(&mut log, 0..10).expect("no faults");
    let mut slices = slice(&mut log, None, 10).expect("no faults");
    append(&mut log, 10..12).expect("no faults");
    sync(&mut log).expect("no faults");
    while slices.is_some() {
        slices = slice(&mut log, slices, 10).expect("no faults");
    }
    let disk = log.into_media();
    let (mut whole, numbers, _) = open(disk.clone()).expect("nothing crashed");
    assert!(numbers.iter().copied().eq(0..12), "{numbers:?}");
    let files = whole.media_mut().files().expect("no faults");
    let file = files.iter().find(|file| file.starts_with("log-"));
    let file = file.expect("a log has a segment");
    let mut disk = disk;
    disk.cut(file, 30).expect("no faults");
    let error = open(disk).map(|(_, numbers, _)| numbers).unwrap_err();
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
}

/// The records of [`small`], the last of them in the middle of a segment.
const SMALL: u64 = 63;

/// A log with a checkpoint in its middle: segments before it, at it, and after it.
fn small() -> MemoryDisk {
    let mut log = fresh();
    append(&mut log, 0..20).expect("no faults");
    let mut slices = None;
    for batch in 20..SMALL {
        append(&mut log, batch..batch + 1).expect("no faults");
        sync(&mut log).expect("no faults");
        if log.checkpoint_bytes() < 1_000 {
            slices = slice(&mut log, slices, batch + 1).expect("no faults");
        }
    }
    assert!(log.checkpoint_bytes() > 1_000, "it was adopted");
    log.into_media()
}

/// Every byte of every file is flipped in turn. Either verification tells the file and where, and recovery reports the
/// same or cuts exactly that end off; or the flip is harmless, and every record is there.
#[test]
fn every_flipped_byte_is_told_or_harmless() {
    let disk = small();
    let take = |disk: &mut MemoryDisk| {
        let mut numbers = Vec::new();
        let verified = verify(disk, &mut |(number, padding): Record| {
            numbers.push(number);
            let expected = record(number).1;
            (padding == expected)
                .then_some(())
                .ok_or(format!("{number} has other padding"))
        });
        verified.map(|verified| (verified, numbers))
    };
    let (whole, all) = take(&mut disk.clone()).expect("nothing is damaged");
    assert_eq!((whole.torn, all.len() as u64), (None, SMALL));
    assert_eq!(whole.checkpointed + whole.logged, SMALL);
    let (mut told, mut torn, mut harmless) = (0, 0, 0);
    for file in disk.clone().files().expect("no faults") {
        let bytes = disk.clone().read(&file, 0, usize::MAX).expect("no faults");
        for offset in 0..bytes.len() as u64 {
            let mut flipped = disk.clone();
            assert!(flipped.damage(&file, offset));
            let before = flipped.clone();
            match take(&mut flipped) {
                Err(LogError::Damaged {
                    file: at,
                    offset: from,
                    ..
                }) => {
                    assert!(
                        at == file && from <= offset,
                        "{file} {offset}: told {at} {from}"
                    );
                    assert!(open(before).is_err(), "{file} {offset}: told, and opened");
                    told += 1;
                }
                Err(other) => panic!("{file} {offset}: {other}"),
                Ok((verified, numbers)) => {
                    let (_, opened_numbers, opened) = open(before).expect("verified");
                    assert_eq!(numbers, opened_numbers);
                    match verified.torn {
                        Some(tail) => {
                            assert!(tail.file == file && tail.offset <= offset);
                            assert_eq!(opened.cut, tail.bytes);
                            torn += 1;
                        }
                        None => {
                            assert_eq!(numbers, all, "{file} {offset}");
                            harmless += 1;
                        }
                    }
                }
            }
        }
    }
    // The last synced frame is told as an incomplete end.
    assert!(
        told > 2_000 && (1..200).contains(&torn),
        "{told} {torn} {harmless}"
    );
}

#[test]
fn verification_changes_nothing_and_names_unused_files() {
    let mut disk = small();
    disk.create("checkpoint.partial").expect("no faults");
    disk.create("notes").expect("no faults");
    let files = disk.files().expect("no faults");
    let verified = verify(&mut disk, &mut |_: Record| Ok(())).expect("no damage");
    assert_eq!(verified.unused, ["checkpoint.partial"]);
    assert_eq!(disk.files().expect("no faults"), files);
    let refused = verify(&mut disk, &mut |_: Record| Err("it is wrong".to_owned())).unwrap_err();
    let told = refused.to_string();
    assert!(
        told.contains("checkpoint-") && told.contains("byte 0"),
        "{told}"
    );
}
