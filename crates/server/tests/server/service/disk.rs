//! A server on a small file system: filled, emptied and started again.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use anabranch_server::Durability;

use super::*;

/// A file system of 64 MiB, unmounted at the end.
struct SmallDisk(Scratch);

impl SmallDisk {
    /// `None` where this user may not mount one.
    fn mount(name: &str) -> Option<SmallDisk> {
        let scratch = Scratch::new(name);
        std::fs::create_dir_all(&scratch.0).expect("it is made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]);
        let mounted = mount.arg(&scratch.0).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(scratch)),
            _ => {
                eprintln!("skipped: no file system can be mounted here");
                None
            }
        }
    }

    fn data(&self) -> PathBuf {
        self.0.0.join("data")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).status();
    }
}

/// Inserts rows of 16 KiB each, some in a statement, until one is refused; returns how many there are.
fn fill(client: &mut Client, mut next: i32) -> (i32, postgres::Error) {
    let name = "x".repeat(16 << 10);
    loop {
        let rows: Vec<String> = (next..next + 8)
            .map(|id| format!("({id}, '{name}', 1)"))
            .collect();
        let insert = format!("INSERT INTO items VALUES {}", rows.join(", "));
        match client.execute(&insert, &[]) {
            Ok(_) => next += 8,
            Err(error) => return (next, error),
        }
        assert!(next < 100_000, "the disk is never full");
    }
}

fn count(client: &mut Client) -> i32 {
    let row = client.query_one("SELECT count(*), sum(stock) FROM items", &[]);
    let row = row.expect("reads go on");
    let (rows, stock) = (row.get::<_, i64>(0), row.get::<_, Option<i64>>(1));
    assert_eq!(stock.unwrap_or(0), rows);
    i32::try_from(rows).expect("few rows")
}

/// Inserts a row as soon as that is possible again.
fn insert_soon(client: &mut Client, id: i32) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match client.execute(&format!("INSERT INTO items VALUES ({id}, 'one', 1)"), &[]) {
            Ok(_) => return,
            Err(error) => assert_eq!(code(&error), "53100", "{}", message(&error)),
        }
        assert!(Instant::now() < until, "there is still no room");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let Some(disk) = SmallDisk::mount("full") else {
        return;
    };
    let data = disk.data();
    let start = || {
        let started = start_in(&[SHOP], Guarantee::Serializable, options(), Some(&data));
        started.expect("it starts")
    };
    // Another program takes some of the disk.
    std::fs::write(disk.0.0.join("other"), vec![1; 10 << 20]).expect("there is room");
    let service = start();
    let mut client = connect(&service);
    let (rows, error) = fill(&mut client, 0);
    assert_eq!(code(&error), "53100");
    assert!(message(&error).starts_with("the disk of the data folder is full"));
    assert!(rows > 500, "{rows} rows");
    assert_eq!(
        count(&mut client),
        rows,
        "nothing of the refused statement stays"
    );

    // Room that another program leaves is used.
    std::fs::remove_file(disk.0.0.join("other")).expect("it is removed");
    insert_soon(&mut client, rows);
    let (rows, error) = fill(&mut client, rows + 1);
    assert_eq!(code(&error), "53100");
    assert_eq!(count(&mut client), rows);

    // Deletions are admitted, and the checkpoint after them frees the disk.
    for from in (0..rows).step_by(64) {
        let delete = format!(
            "DELETE FROM items WHERE id >= {from} AND id < {}",
            from + 64
        );
        client
            .execute(&delete, &[])
            .expect("deletions are admitted");
    }
    insert_soon(&mut client, 0);
    assert_eq!(count(&mut client), 1);
    let (rows, error) = fill(&mut client, 1);
    assert_eq!(code(&error), "53100");
    assert!(rows > 500, "{rows} rows after the disk was emptied");
    assert_eq!(count(&mut client), rows);
    assert_eq!(service.failure(), None);
    service.stop().expect("it stops");

    let service = start();
    assert_eq!(count(&mut connect(&service)), rows, "after a restart");
    service.stop().expect("it stops");
}

/// Every file of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("it reads") {
        let path = entry.expect("it reads").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("it is made");
    for entry in std::fs::read_dir(from).expect("it reads") {
        let path = entry.expect("it reads").path();
        let target = to.join(path.file_name().expect("it has a name"));
        match path.is_dir() {
            true => copy(&path, &target),
            false => std::fs::copy(&path, &target)
                .map(drop)
                .expect("it is copied"),
        }
    }
}

const TINY: &str = "CREATE TABLE t (id integer PRIMARY KEY, v integer);";

/// The rows that a server finds in a folder.
fn rows_in(folder: &Path) -> Vec<(i32, i32)> {
    let service = start_in(&[TINY], Guarantee::Serializable, options(), Some(folder));
    let service = service.expect("it starts");
    let rows = connect(&service).query("SELECT id, v FROM t ORDER BY id", &[]);
    let rows = rows.expect("it reads");
    let rows = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    service.stop().expect("it stops");
    rows
}

#[test]
fn every_byte_that_is_flipped_is_named_or_harmless() {
    let (scratch, spare) = (Scratch::new("flips"), Scratch::new("flipped"));
    let folder = &scratch.0;
    let service = start_in(&[TINY], Guarantee::Serializable, options(), Some(folder));
    let service = service.expect("it starts");
    let mut client = connect(&service);
    for id in 0..4 {
        let insert = format!("INSERT INTO t VALUES ({id}, {id})");
        client.execute(&insert, &[]).expect("it inserts");
    }
    service.stop().expect("it stops");
    let rows = rows_in(folder);
    assert_eq!(rows.len(), 4);
    let whole = folder::verify(folder).expect("nothing is damaged");
    assert_eq!(whole.nodes.len(), usize::from(PARTITIONS));
    assert!(whole.nodes.iter().all(|node| node.torn.is_none()));
    let (mut named, mut torn, mut harmless) = (0, 0, 0);
    for path in files(folder) {
        let bytes = std::fs::read(&path).expect("it reads");
        // The reserve is zeros that nothing reads.
        let is_reserve = path.ends_with("reserve");
        let step = if is_reserve { 1 << 20 } else { 1 };
        for byte in (0..bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[byte] ^= 0x10;
            std::fs::write(&path, &flipped).expect("it writes");
            match folder::verify(folder) {
                Err(folder::VerifyError::Damaged {
                    path: found,
                    byte: at,
                    ..
                }) => {
                    assert_eq!(found, path, "byte {byte}");
                    assert!(at <= byte as u64, "byte {byte} of {found:?} at {at}");
                    named += 1;
                }
                Err(error) => panic!("byte {byte} of {}: {error}", path.display()),
                Ok(verified) if verified.nodes.iter().any(|node| node.torn.is_some()) => torn += 1,
                Ok(verified) => {
                    // Where it is not named, a server has the same rows.
                    assert_eq!(verified.bytes, whole.bytes);
                    harmless += 1;
                    if !is_reserve || byte == 0 {
                        let _ = std::fs::remove_dir_all(&spare.0);
                        copy(folder, &spare.0);
                        assert_eq!(rows_in(&spare.0), rows, "byte {byte} of {}", path.display());
                    }
                }
            }
        }
        std::fs::write(&path, &bytes).expect("it writes");
    }
    assert!(
        named > 500 && torn > 20,
        "{named} named, {torn} torn ends, {harmless} harmless"
    );
    assert_eq!(folder::verify(folder).expect("it is whole again"), whole);
}

#[test]
fn above_the_limit_of_memory_what_grows_is_refused_and_the_rest_goes_on() {
    let limited = ServiceOptions {
        memory_max: Some(1 << 20),
        ..options()
    };
    let service = start_with(&[SHOP], Guarantee::Serializable, limited);
    let mut client = connect(&service);
    // The limit is looked at from time to time.
    std::thread::sleep(Duration::from_millis(300));
    let refused = client.execute("INSERT INTO items VALUES (1, 'one', 1), (2, 'two', 1)", &[]);
    let refused = refused.expect_err("it grows");
    assert_eq!(code(&refused), "53200");
    assert!(
        message(&refused).contains("memory_max"),
        "{}",
        message(&refused)
    );
    assert_eq!(count(&mut client), 0);
    client
        .execute("DELETE FROM items", &[])
        .expect("deletions are admitted");
    client
        .execute("UPDATE items SET stock = 2", &[])
        .expect("it changes no row");
    service.stop().expect("it stops");
}

/// An account and its balance.
type Balance = (i32, i64);

/// A client, the number of its move, and the amount.
type Move = (i32, i32, i64);

/// The rows of each table that a server with accounts finds in a folder.
fn accounts_in(folder: &Path, durability: Durability) -> (Vec<Balance>, Vec<Move>) {
    let options = ServiceOptions {
        durability,
        ..options()
    };
    let service = start_in(&[ACCOUNTS], Guarantee::Serializable, options, Some(folder));
    let service = service.expect("it starts");
    let mut client = connect(&service);
    let balances = client.query("SELECT id, balance FROM accounts ORDER BY id", &[]);
    let balances = balances.expect("it reads");
    let balances = balances.iter().map(|row| (row.get(0), row.get(1)));
    let moves = client.query(
        "SELECT client, number, amount FROM moves ORDER BY client, number",
        &[],
    );
    let moves = moves.expect("it reads");
    let moves = moves.iter().map(|row| (row.get(0), row.get(1), row.get(2)));
    let found = (balances.collect(), moves.collect());
    service.stop().expect("it stops");
    found
}

const ACCOUNTS: &str = "
CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE moves (client integer, number integer, amount bigint NOT NULL, PRIMARY KEY (client, number));
CREATE PROCEDURE move(p_client integer, p_number integer, p_amount bigint) LANGUAGE SQL BEGIN ATOMIC
    UPDATE accounts SET balance = balance - p_amount WHERE id = p_client;
    UPDATE accounts SET balance = balance + p_amount WHERE id = p_client + 1;
    INSERT INTO moves VALUES (p_client, p_number, p_amount);
END;
";

/// Clients write while backups are taken: each backup has a transaction as a whole or not at all, everything that was
/// acknowledged before it, and nothing without what its client did before.
#[test]
fn a_backup_under_load_has_the_state_of_one_moment() {
    const CLIENTS: i32 = 4;
    for durability in [
        Durability::Sync,
        Durability::Batch(Duration::from_millis(5)),
    ] {
        let scratch = Scratch::new(&format!("backup-{}", durability.name()));
        let data = scratch.0.join("data");
        let limits = ServiceOptions {
            durability,
            ..options()
        };
        let service = start_in(&[ACCOUNTS], Guarantee::Serializable, limits, Some(&data));
        let service = service.expect("it starts");
        let mut client = connect(&service);
        let rows: Vec<String> = (0..=CLIENTS).map(|id| format!("({id}, 1000)")).collect();
        let insert = format!("INSERT INTO accounts VALUES {}", rows.join(", "));
        client.execute(&insert, &[]).expect("it inserts");
        let acknowledged: Vec<AtomicI32> = (0..CLIENTS).map(|_| AtomicI32::new(0)).collect();
        let ends = AtomicBool::new(false);
        let address = service.address();
        let mut backups = Vec::new();
        std::thread::scope(|scope| {
            for of in 0..CLIENTS {
                let (acknowledged, ends) = (&acknowledged, &ends);
                scope.spawn(move || {
                    let mut client = connect_to(address);
                    let mut number = 0;
                    while !ends.load(Ordering::SeqCst) {
                        number += 1;
                        let call = format!("CALL move({of}, {number}, {})", number % 7);
                        client.execute(&call, &[]).expect("it moves");
                        acknowledged[of as usize].store(number, Ordering::SeqCst);
                    }
                });
            }
            for round in 0..4 {
                std::thread::sleep(Duration::from_millis(150));
                let before: Vec<i32> = acknowledged
                    .iter()
                    .map(|number| number.load(Ordering::SeqCst))
                    .collect();
                let folder = scratch.0.join(format!("backup-{round}"));
                let statement = format!("BACKUP TO '{}'", folder.display());
                client.batch_execute(&statement).expect("it copies");
                let again = client.batch_execute(&statement).expect_err("it is there");
                assert_eq!(code(&again), "22023", "{}", message(&again));
                backups.push((folder, before));
            }
            ends.store(true, Ordering::SeqCst);
        });
        let relative = client
            .batch_execute("BACKUP TO 'here'")
            .expect_err("it is relative");
        assert_eq!(code(&relative), "22023");
        service.stop().expect("it stops");
        for (folder, before) in backups {
            folder::verify(&folder).expect("it is whole");
            let (balances, moves) = accounts_in(&folder, Durability::Sync);
            let mut expected: Vec<i64> = vec![1_000; CLIENTS as usize + 1];
            let mut last = vec![0; CLIENTS as usize];
            for (of, number, amount) in moves {
                assert_eq!(number, last[of as usize] + 1, "client {of}");
                last[of as usize] = number;
                expected[of as usize] -= amount;
                expected[of as usize + 1] += amount;
            }
            let balances: Vec<i64> = balances.into_iter().map(|(_, balance)| balance).collect();
            assert_eq!(balances, expected, "{}", folder.display());
            assert!(
                last.iter().zip(&before).all(|(has, had)| has >= had),
                "{last:?} {before:?}"
            );
            assert!(last.iter().all(|last| *last > 0));
        }
    }
}
