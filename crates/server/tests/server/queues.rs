//! Queues of jobs: SKIP LOCKED and NOWAIT through unmodified clients.

use postgres::{Client, Error};

use crate::support::*;

const WORKERS: usize = 8;
const JOBS: i32 = 200;

/// A worker's way to take a job and to end it, as one that it has taken.
type Take = fn(&mut Client) -> Result<Option<i32>, Error>;

fn in_a_transaction(client: &mut Client) -> Result<Option<i32>, Error> {
    let mut transaction = client.transaction()?;
    let taken = transaction.query_opt(
        "SELECT id FROM jobs WHERE state = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED",
        &[],
    )?;
    let job: Option<i32> = taken.map(|row| row.get(0));
    if let Some(job) = job {
        transaction.execute("DELETE FROM jobs WHERE id = $1", &[&job])?;
    }
    transaction.commit()?;
    Ok(job)
}

fn at_once(client: &mut Client) -> Result<Option<i32>, Error> {
    let taken = client.query_opt(
        "UPDATE jobs SET state = 'done' WHERE id = (SELECT id FROM jobs WHERE state = 'queued' ORDER BY id \
         FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id",
        &[],
    )?;
    Ok(taken.map(|row| row.get(0)))
}

fn by_a_with(client: &mut Client) -> Result<Option<i32>, Error> {
    let taken = client.query_opt(
        "WITH job AS (SELECT id FROM jobs WHERE state = $1 ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) \
         UPDATE jobs SET state = 'done' FROM job WHERE jobs.id = job.id RETURNING jobs.id",
        &[&"queued"],
    )?;
    Ok(taken.map(|row| row.get(0)))
}

#[test]
fn each_job_is_taken_once_and_no_worker_meets_a_conflict() {
    let takes: [Take; 3] = [in_a_transaction, at_once, by_a_with];
    for index in ["", "CREATE INDEX jobs_by_state ON jobs (state)"] {
        let service = open();
        let mut client = connect(&service);
        let made = client.batch_execute(&format!(
            "CREATE TABLE jobs (id integer PRIMARY KEY, state text NOT NULL); {index};
             INSERT INTO jobs SELECT n, 'queued' FROM generate_series(1, {JOBS}) AS g (n)"
        ));
        made.expect("it fills");
        let mut taken: Vec<i32> = std::thread::scope(|scope| {
            let service = &service;
            let work = |worker: usize| {
                let take = takes[worker % takes.len()];
                move || {
                    let mut client = connect(service);
                    let next = || take(&mut client).expect("no worker meets a conflict");
                    std::iter::from_fn(next).collect::<Vec<i32>>()
                }
            };
            let workers: Vec<_> = (0..WORKERS).map(|of| scope.spawn(work(of))).collect();
            let taken = workers.into_iter().map(|of| of.join().expect("it ends"));
            taken.flatten().collect()
        });
        taken.sort_unstable();
        assert_eq!(taken, (1..=JOBS).collect::<Vec<_>>());
        let left = client.query_one("SELECT count(*) FROM jobs WHERE state = 'queued'", &[]);
        assert_eq!(left.expect("it counts").get::<_, i64>(0), 0);
    }
}

#[test]
fn nowait_fails_at_once_and_the_transaction_goes_on_from_a_savepoint() {
    let service = open();
    let (mut ann, mut ben) = (connect(&service), connect(&service));
    ann.batch_execute("INSERT INTO items VALUES (1, 'apple', 5), (2, 'pear', 7)")
        .expect("it fills");
    ann.batch_execute("BEGIN; SELECT id FROM items WHERE id = 1 FOR UPDATE")
        .expect("it locks");
    ben.batch_execute("BEGIN; SAVEPOINT a").expect("it begins");
    let failed = ben
        .batch_execute("SELECT id FROM items WHERE id = 1 FOR UPDATE NOWAIT")
        .expect_err("it is locked");
    assert_eq!(code(&failed), "55P03", "{}", message(&failed));
    let expected = "could not obtain lock on row in relation \"items\"";
    assert_eq!(message(&failed), expected);
    ben.batch_execute("ROLLBACK TO a; SELECT id FROM items WHERE id = 2 FOR UPDATE NOWAIT; COMMIT")
        .expect("it goes on");
    ann.batch_execute("COMMIT")
        .expect("nothing has disturbed it");
}
