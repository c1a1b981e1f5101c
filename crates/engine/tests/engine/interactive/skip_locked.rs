//! SKIP LOCKED and NOWAIT: job queues.

use std::collections::BTreeMap;

use anabranch_engine::{CallId, NodeOptions, SavepointId, StepAction};
use anabranch_types::Value;

use super::{Block, code, outcome_of};
use crate::support::{Cluster, args, ints, plan, under_each, under_locking};

const JOBS: &str = "
CREATE TABLE jobs (id integer PRIMARY KEY, state integer NOT NULL, worker integer NOT NULL);
CREATE INDEX jobs_by_state ON jobs (state);
CREATE PROCEDURE add_job(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    INSERT INTO jobs (id, state, worker) VALUES (p_id, 0, 0);
END;
CREATE PROCEDURE set_state(p_id integer, p_state integer) LANGUAGE SQL BEGIN ATOMIC
    UPDATE jobs SET state = p_state WHERE id = p_id;
END;
CREATE PROCEDURE remove_job(p_id integer) LANGUAGE SQL BEGIN ATOMIC
    DELETE FROM jobs WHERE id = p_id;
END;
";

const TAKE: &str = "SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";

fn jobs(count: i64) -> Vec<(u16, Vec<Value>)> {
    (1..=count)
        .map(|id| (0, args([id, 0, 0]).to_vec()))
        .collect()
}

/// Runs a test over one, two and three nodes under locking, with `count` jobs.
fn with_jobs(count: i64, test: impl Fn(&mut dyn Cluster, u16)) {
    for partitions in 1..=3 {
        let planned = plan(JOBS, partitions);
        under_locking(&planned, &jobs(count), NodeOptions::default(), |cluster| {
            test(cluster, partitions);
        });
    }
}

#[test]
fn each_of_two_blocks_takes_another_job() {
    with_jobs(3, |cluster, partitions| {
        // The second one is younger, and takes its job first.
        let (one, other) = (Block::new(0, 1), Block::new(partitions - 1, 2));
        one.sql(cluster, "SELECT 1").unwrap();
        assert_eq!(other.ints(cluster, TAKE), [[1]]);
        assert_eq!(one.ints(cluster, TAKE), [[2]]);
        assert_eq!(one.ints(cluster, TAKE), [[2]], "an own lock is free");
        let two = "SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
        assert_eq!(other.ints(cluster, two), [[1], [3]]);
        let behind = "SELECT id FROM jobs ORDER BY id OFFSET 1 FOR UPDATE SKIP LOCKED";
        assert_eq!(one.ints(cluster, behind), [[0_i64; 1]; 0]);
        one.sql(cluster, "UPDATE jobs SET state = 1 WHERE id = 2")
            .unwrap();
        assert_eq!(
            one.ints(cluster, TAKE),
            [[0_i64; 1]; 0],
            "its own write counts"
        );
        other.sql(cluster, "DELETE FROM jobs WHERE id = 1").unwrap();
        other.commit(cluster).expect("nothing has disturbed it");
        assert_eq!(one.ints(cluster, TAKE), [[3]]);
        one.commit(cluster).expect("nothing has disturbed it");
        let rest = cluster.ints(0, "SELECT id, state FROM jobs ORDER BY id");
        assert_eq!(rest, [[2, 1], [3, 0]]);
        cluster.run();
        cluster.assert_idle();
    });
}

/// What it looks for is in no lock: a job that is added meanwhile does not wait for the block, and the block finds it.
#[test]
fn the_range_in_which_jobs_are_looked_for_is_not_locked() {
    with_jobs(1, |cluster, partitions| {
        let block = Block::new(partitions - 1, 1);
        let all = "SELECT id FROM jobs WHERE state = 0 FOR UPDATE SKIP LOCKED";
        assert_eq!(block.ints(cluster, all), [[1]]);
        cluster.call(0, "add_job", &args([2])).expect("no wait");
        assert_eq!(block.ints(cluster, all), [[1], [2]]);
        block.commit(cluster).unwrap();
        cluster.run();
        cluster.assert_idle();
    });
}

/// Between the look and the lock another transaction has taken the job: its condition is evaluated again, and the next one
/// is taken.
#[test]
fn a_job_that_has_changed_since_it_was_looked_at_is_not_taken() {
    let planned = plan(JOBS, 2);
    let mut seen = Vec::new();
    for steps in 0..6 {
        let taken = std::cell::Cell::new(0);
        under_locking(&planned, &jobs(8), NodeOptions::default(), |cluster| {
            for node in 0..2 {
                let block = Block::new(node, 1);
                let take = block.begin_sql(cluster, TAKE);
                for _ in 0..steps {
                    cluster.advance();
                }
                let first = i64::from(node) * 2 + 1;
                for (at, job) in [(0, first), (1, first + 1)] {
                    cluster.begin(at, "set_state", &args([job, 1]));
                }
                let got = ints(&outcome_of(cluster, take).expect("no conflict"));
                taken.set(got[0][0]);
                let id = got[0][0];
                let state = format!("SELECT state FROM jobs WHERE id = {id}");
                assert_eq!(block.ints(cluster, &state), [[0]], "after {steps} steps");
                block.commit(cluster).expect("nothing has disturbed it");
                cluster.run();
            }
            cluster.run();
            cluster.assert_idle();
        });
        seen.push(taken.get());
    }
    assert!(
        seen.iter().any(|id| *id != seen[0]),
        "the order matters: {seen:?}"
    );
}

#[test]
fn what_is_locked_is_an_error_under_nowait() {
    with_jobs(3, |cluster, partitions| {
        let (one, other) = (Block::new(0, 1), Block::new(partitions - 1, 2));
        one.sql(cluster, "SELECT 1").unwrap();
        other
            .sql(cluster, "UPDATE jobs SET worker = 5 WHERE id = 1")
            .unwrap();
        one.sql(cluster, "UPDATE jobs SET worker = 6 WHERE id = 2")
            .unwrap();
        one.step(cluster, StepAction::Savepoint(SavepointId(1)))
            .unwrap();
        for sql in [
            "SELECT id FROM jobs WHERE id = 1 FOR UPDATE NOWAIT",
            "SELECT id FROM jobs WHERE id = 1 FOR SHARE NOWAIT",
            "SELECT id FROM jobs WHERE state = 0 FOR UPDATE NOWAIT",
            "SELECT j.id FROM jobs j JOIN jobs k ON k.id = j.id - 1 WHERE j.id = 2 FOR UPDATE NOWAIT",
        ] {
            assert_eq!(code(one.sql(cluster, sql)), "55P03", "{sql}");
            let back = StepAction::RollbackTo(SavepointId(1));
            one.step(cluster, back).unwrap();
        }
        let own = "SELECT worker FROM jobs WHERE id = 2 FOR UPDATE NOWAIT";
        assert_eq!(one.ints(cluster, own), [[6]]);
        let of = "SELECT j.id FROM jobs j WHERE j.id = 3 FOR SHARE OF j NOWAIT";
        assert_eq!(one.ints(cluster, of), [[3]]);
        other.commit(cluster).expect("nothing has disturbed it");
        let free = "SELECT worker FROM jobs WHERE id = 1 FOR UPDATE NOWAIT";
        assert_eq!(one.ints(cluster, free), [[5]]);
        one.commit(cluster).expect("nothing has disturbed it");
        cluster.run();
        cluster.assert_idle();
    });
}

/// Where nothing is locked, nothing is skipped, and nothing fails.
#[test]
fn without_locks_it_is_for_update() {
    under_each(JOBS, 2, &jobs(2), |cluster| {
        let (one, other) = (Block::new(0, 1), Block::new(1, 2));
        one.sql(cluster, "UPDATE jobs SET worker = 5 WHERE id = 1")
            .unwrap();
        let first = other.ints(cluster, TAKE)[0][0];
        let failed = other.sql(
            cluster,
            "SELECT id FROM jobs WHERE id = 1 FOR UPDATE NOWAIT",
        );
        match first {
            1 => assert_eq!(ints(&failed.unwrap()), [[1]]),
            _ => assert_eq!(code(failed), "55P03"),
        }
        other.step(cluster, StepAction::Rollback).unwrap();
        one.commit(cluster).unwrap();
        cluster.run();
        cluster.assert_idle();
    });
}

/// A worker: what it has asked for, and the job that it has.
#[derive(Clone, Copy)]
enum Worker {
    Takes,
    Works(i64),
    Commits(i64),
    Done,
}

/// Lets eight workers empty the queue, each with one open statement at a time; returns who had which job. `work` is the
/// statement of a worker for its job.
fn drain(
    cluster: &mut dyn Cluster,
    nodes: u16,
    take: &str,
    work: Option<&str>,
) -> BTreeMap<i64, u64> {
    let mut next = 0;
    let mut block = |worker: u64| {
        next += 1;
        Block::new((worker % u64::from(nodes)) as u16, next)
    };
    let mut blocks: Vec<Block> = (0..8).map(&mut block).collect();
    let mut states = [Worker::Takes; 8];
    let mut calls: BTreeMap<CallId, usize> = BTreeMap::new();
    for (worker, block) in blocks.iter().enumerate() {
        calls.insert(block.begin_sql(cluster, take), worker);
    }
    let mut taken = BTreeMap::new();
    while !calls.is_empty() {
        let advanced = cluster.advance();
        let outcomes = cluster.take_outcomes();
        assert!(
            advanced || !outcomes.is_empty(),
            "the workers wait for ever"
        );
        for (call, outcome) in outcomes {
            let worker = calls.remove(&call).expect("it is a worker's");
            let rows = outcome.result.expect("no conflict").rows;
            let commit =
                |cluster: &mut dyn Cluster| blocks[worker].begin(cluster, StepAction::Commit, &[]);
            let (state, call) = match (states[worker], work) {
                (Worker::Takes, _) if rows.is_empty() => (Worker::Done, Some(commit(cluster))),
                (Worker::Takes, Some(work)) => {
                    let job = ints(&rows)[0][0];
                    let sql = work.replace("$1", &job.to_string());
                    (
                        Worker::Works(job),
                        Some(blocks[worker].begin_sql(cluster, &sql)),
                    )
                }
                (Worker::Takes, None) => {
                    (Worker::Commits(ints(&rows)[0][0]), Some(commit(cluster)))
                }
                (Worker::Works(job), _) => (Worker::Commits(job), Some(commit(cluster))),
                (Worker::Commits(job), _) => {
                    let before = taken.insert(job, worker as u64);
                    assert_eq!(before, None, "job {job} is taken twice");
                    blocks[worker] = block(worker as u64);
                    (Worker::Takes, Some(blocks[worker].begin_sql(cluster, take)))
                }
                (Worker::Done, _) => (Worker::Done, None),
            };
            states[worker] = state;
            calls.extend(call.map(|call| (call, worker)));
        }
    }
    taken
}

/// Eight workers empty a queue: each job is taken once, no worker meets a conflict, and all have some.
#[test]
fn eight_workers_empty_a_queue() {
    let update = "UPDATE jobs SET state = 1 WHERE id = $1";
    let delete = "DELETE FROM jobs WHERE id = $1";
    let at_once = "UPDATE jobs SET state = 1 WHERE id = (SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 1 \
                   FOR UPDATE SKIP LOCKED) RETURNING id";
    let of_several = "UPDATE jobs SET state = 1 WHERE id IN (SELECT id FROM jobs WHERE state = 0 LIMIT 1 \
                      FOR UPDATE SKIP LOCKED) RETURNING id";
    let of_an_array = of_several
        .replace("IN (", "= ANY (ARRAY(")
        .replace(") RETURNING", ")) RETURNING");
    let with = "WITH job AS (SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) \
                UPDATE jobs SET state = 1 FROM job WHERE jobs.id = job.id RETURNING jobs.id";
    let cases = [
        (TAKE, Some(update)),
        (TAKE, Some(delete)),
        (at_once, None),
        (of_several, None),
        (&of_an_array, None),
        (with, None),
    ];
    for (take, work) in cases {
        with_jobs(60, |cluster, partitions| {
            let taken = drain(cluster, partitions, take, work);
            assert_eq!(taken.len(), 60, "{take}");
            let mut workers: Vec<u64> = taken.values().copied().collect();
            workers.sort_unstable();
            workers.dedup();
            assert!(workers.len() > 4, "{take}: all work: {workers:?}");
            let left = cluster.ints(0, "SELECT count(*) FROM jobs WHERE state = 0");
            assert_eq!(left, [[0]]);
            cluster.run();
            cluster.assert_idle();
        });
    }
}

/// A statement outside a block takes jobs beside a block that holds some.
#[test]
fn a_statement_of_its_own_skips_what_a_block_holds() {
    with_jobs(40, |cluster, partitions| {
        let block = Block::new(partitions - 1, 1);
        // More than are looked at at first.
        let many =
            "SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 30 FOR UPDATE SKIP LOCKED";
        assert_eq!(block.ints(cluster, many).len(), 30);
        let take = "UPDATE jobs SET state = 1 WHERE id = (SELECT id FROM jobs WHERE state = 0 ORDER BY id LIMIT 1 \
                    FOR UPDATE SKIP LOCKED) RETURNING id";
        assert_eq!(cluster.ints(0, take), [[31]]);
        assert_eq!(cluster.ints(0, take), [[32]]);
        block.commit(cluster).unwrap();
        assert_eq!(cluster.ints(0, take), [[1]]);
        cluster.run();
        cluster.assert_idle();
    });
}

/// In a declared procedure, too, which waits for locks in the lock order.
#[test]
fn a_procedure_skips_what_a_block_holds() {
    let sql = format!(
        "{JOBS}
CREATE FUNCTION take_job() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    job integer;
BEGIN
    SELECT id INTO job FROM jobs WHERE state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF job IS NOT NULL THEN
        UPDATE jobs SET state = 1 WHERE id = job;
    END IF;
    RETURN job;
END $$;"
    );
    for partitions in 1..=2 {
        let planned = plan(&sql, partitions);
        under_locking(&planned, &jobs(4), NodeOptions::default(), |cluster| {
            let block = Block::new(partitions - 1, 1);
            assert_eq!(block.ints(cluster, TAKE), [[1]]);
            let calls = [0, partitions - 1].map(|node| cluster.begin(node, "take_job", &[]));
            let mut outcomes = cluster.run();
            let mut taken = calls.map(|call| {
                let outcome = outcomes.remove(&call).expect("it has ended");
                ints(&outcome.result.expect("no conflict").rows)[0][0]
            });
            taken.sort_unstable();
            assert_eq!(taken, [2, 3]);
            block.commit(cluster).expect("nothing has disturbed it");
            cluster.run();
            cluster.assert_idle();
        });
    }
}

/// A row that was seen without a lock is not known to be there later: a reference to it is checked.
#[test]
fn what_was_only_looked_at_may_be_gone() {
    let schema = "
        CREATE TABLE jobs (id integer PRIMARY KEY);
        CREATE TABLE runs (id integer PRIMARY KEY, job integer REFERENCES jobs);
        CREATE PROCEDURE add_job(p_id integer) LANGUAGE SQL BEGIN ATOMIC
            INSERT INTO jobs (id) VALUES (p_id);
        END;
        CREATE PROCEDURE add_run(p_id integer, p_job integer) LANGUAGE SQL BEGIN ATOMIC
            INSERT INTO runs (id, job) VALUES (p_id, p_job);
        END;";
    // One that another block had locked, and one that stood behind LIMIT.
    for (partitions, gone) in [(1, 1), (2, 1), (1, 3), (2, 3)] {
        let planned = plan(schema, partitions);
        let rows: Vec<(u16, Vec<Value>)> = (1..=3).map(|id| (0, args([id]).to_vec())).collect();
        under_locking(&planned, &rows, NodeOptions::default(), |cluster| {
            let (one, other) = (Block::new(0, 1), Block::new(partitions - 1, 2));
            one.sql(cluster, "SELECT 1").unwrap();
            other.sql(cluster, "DELETE FROM jobs WHERE id = 1").unwrap();
            let take = "SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
            assert_eq!(one.ints(cluster, take), [[2]]);
            other.sql(cluster, "DELETE FROM jobs WHERE id = 3").unwrap();
            other.commit(cluster).expect("nothing has disturbed it");
            let insert = format!("INSERT INTO runs (id, job) VALUES (1, {gone})");
            let answer = one.sql(cluster, &insert);
            assert_eq!(code(answer.clone()), "23503", "{gone}: {answer:?}");
            cluster.run();
        });
    }
}
