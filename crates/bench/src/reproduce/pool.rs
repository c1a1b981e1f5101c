//! Runs jobs on several threads, where many jobs begin with a copy of the same data.
//!
//! The data of a [`Group`] (a filled database) take time to prepare and much memory. So a thread runs a job of
//! a prepared group if there is one, and prepares the next group only otherwise: no more groups are prepared
//! at a time than there are threads. Jobs are deterministic by themselves, so their results depend neither on
//! the thread nor on the order.

use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

/// Jobs that begin with a copy of the same data.
pub(super) struct Group<B, J> {
    /// Describes the data.
    pub(super) data: B,
    /// The jobs.
    pub(super) jobs: Vec<J>,
}

/// Progress, reported on the caller's thread.
pub(super) enum Event<B, J, R> {
    /// A group's data are being prepared.
    Preparing(B),
    /// A job has run, with this result.
    Done(J, R),
}

/// Runs every job of every group once, and reports progress to `on_event`. Groups and jobs begin in their
/// order.
///
/// # Errors
/// An error of `prepare` or `run`. Jobs that have not begun by then do not run.
///
/// # Panics
/// When a job panics.
pub(super) fn run<B, J, S, R, E>(
    groups: &[Group<B, J>],
    threads: NonZeroUsize,
    prepare: impl Fn(&B) -> Result<S, E> + Sync,
    run: impl Fn(&J, S) -> Result<R, E> + Sync,
    mut on_event: impl FnMut(Event<&B, &J, R>),
) -> Result<(), E>
where
    B: Sync,
    J: Sync,
    S: Clone + Send + Sync,
    R: Send,
    E: Send,
{
    let pool = Pool {
        groups,
        state: Mutex::new(State {
            prepared: Vec::new(),
            next: 0,
            preparing: 0,
            ended: false,
        }),
        changed: Condvar::new(),
    };
    let runs: usize = groups.iter().map(|group| group.jobs.len()).sum();
    let (sender, events) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(runs) {
            let (pool, prepare, run, sender) = (&pool, &prepare, &run, sender.clone());
            scope.spawn(move || {
                // If this thread panics, others must not wait for the data that it was to prepare.
                let _ended = EndsOnPanic(pool);
                while let Some(task) = pool.next() {
                    let found = match task {
                        Task::Prepare(group) => {
                            let data = &pool.groups[group].data;
                            let _ = sender.send(Ok(Event::Preparing(data)));
                            prepare(data).map(|prepared| {
                                pool.add_prepared(group, prepared);
                                None
                            })
                        }
                        Task::Run(job, data) => {
                            let copied = Arc::unwrap_or_clone(data);
                            run(job, copied).map(|found| Some(Event::Done(job, found)))
                        }
                    };
                    if found.is_err() {
                        pool.end();
                    }
                    if let Some(found) = found.transpose() {
                        let _ = sender.send(found);
                    }
                }
            });
        }
        drop(sender);
        let mut result = Ok(());
        for event in events {
            match event {
                Ok(event) => on_event(event),
                Err(error) if result.is_ok() => result = Err(error),
                Err(_) => {}
            }
        }
        result
    })
}

/// What a thread does next.
enum Task<'g, J, S> {
    Prepare(usize),
    Run(&'g J, Arc<S>),
}

struct Pool<'g, B, J, S> {
    groups: &'g [Group<B, J>],
    state: Mutex<State<S>>,
    changed: Condvar,
}

struct State<S> {
    /// Prepared groups with jobs left: the group, the index of its next job, the data.
    prepared: Vec<(usize, usize, Arc<S>)>,
    /// The first group whose preparation has not begun.
    next: usize,
    /// The number of groups that are being prepared.
    preparing: usize,
    /// Whether an error or a panic has ended the run.
    ended: bool,
}

impl<'g, B, J, S> Pool<'g, B, J, S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task; waits if every job left belongs to a group that another thread prepares.
    fn next(&self) -> Option<Task<'g, J, S>> {
        let mut state = self.state();
        loop {
            if state.ended {
                return None;
            }
            if let Some((group, job, data)) = state.prepared.first_mut() {
                let jobs = &self.groups[*group].jobs;
                let (task, data) = (&jobs[*job], Arc::clone(data));
                *job += 1;
                if *job == jobs.len() {
                    state.prepared.remove(0);
                }
                return Some(Task::Run(task, data));
            }
            if state.next < self.groups.len() {
                state.next += 1;
                state.preparing += 1;
                return Some(Task::Prepare(state.next - 1));
            }
            if state.preparing == 0 {
                return None;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn add_prepared(&self, group: usize, prepared: S) {
        let mut state = self.state();
        state.preparing -= 1;
        if !self.groups[group].jobs.is_empty() {
            state.prepared.push((group, 0, Arc::new(prepared)));
        }
        self.changed.notify_all();
    }

    fn end(&self) {
        self.state().ended = true;
        self.changed.notify_all();
    }
}

struct EndsOnPanic<'p, 'g, B, J, S>(&'p Pool<'g, B, J, S>);

impl<B, J, S> Drop for EndsOnPanic<'_, '_, B, J, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).expect("it is not 0")
    }

    fn groups(sizes: &[u64]) -> Vec<Group<u64, u64>> {
        let group = |(number, size): (u64, &u64)| Group {
            data: number,
            jobs: (0..*size).map(|job| 100 * number + job).collect(),
        };
        (0..).zip(sizes).map(group).collect()
    }

    #[test]
    fn every_job_runs_once_over_its_own_data() {
        for count in [1, 2, 3, 8] {
            let prepared = AtomicUsize::new(0);
            let mut found = BTreeMap::new();
            let done = run(
                &groups(&[3, 0, 1, 5]),
                threads(count),
                |data| {
                    prepared.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, ()>(*data)
                },
                |job, data| Ok((*job, data)),
                |news| {
                    if let Event::Done(job, found_of) = news {
                        assert_eq!(found.insert(*job, found_of), None);
                    }
                },
            );
            assert_eq!(done, Ok(()));
            let jobs = [0, 1, 2, 200, 300, 301, 302, 303, 304];
            let expected = jobs.map(|job| (job, (job, job / 100)));
            assert_eq!(found, BTreeMap::from(expected), "{count} threads");
            assert_eq!(prepared.into_inner(), 4);
        }
    }

    /// Each job waits for another: one thread would wait for ever.
    #[test]
    fn jobs_of_one_group_and_of_several_run_at_the_same_time() {
        for sizes in [&[2][..], &[1, 1]] {
            let both = Barrier::new(2);
            let wait = |_: &u64, _| {
                both.wait();
                Ok::<_, ()>(())
            };
            let done = run(&groups(sizes), threads(2), |_| Ok(()), wait, |_| ());
            assert_eq!(done, Ok(()));
        }
    }

    #[test]
    fn an_error_ends_the_run() {
        let runs = AtomicUsize::new(0);
        let done = run(
            &groups(&[5, 5]),
            threads(1),
            |_| Ok(()),
            |job, ()| match runs.fetch_add(1, Ordering::Relaxed) {
                2 => Err(*job),
                _ => Ok(()),
            },
            |_| (),
        );
        assert_eq!((done, runs.into_inner()), (Err(2), 3));
        let done = run(
            &groups(&[1]),
            threads(2),
            |_| Err::<(), _>("empty"),
            |_, ()| Ok(()),
            |_| (),
        );
        assert_eq!(done, Err("empty"));
    }

    #[test]
    #[should_panic = "a scoped thread panicked"]
    fn a_job_that_panics_is_not_waited_for() {
        let prepare = |data: &u64| match data {
            0 => panic!("on purpose"),
            _ => Ok::<_, ()>(()),
        };
        let _ = run(
            &groups(&[1, 1, 1]),
            threads(2),
            prepare,
            |_, ()| Ok(()),
            |_| (),
        );
    }
}
