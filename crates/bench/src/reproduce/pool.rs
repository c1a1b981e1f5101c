//! Runs on several threads, where many of them begin with a copy of the same.
//!
//! What a [`Group`] begins with (a filled database) takes time to prepare and much memory. So a thread
//! takes a run of what is prepared already, if there is one, and prepares the next group only
//! otherwise: never are more groups prepared at a time than threads. Which thread has run what, and
//! when, does not matter to a run that is deterministic by itself.

use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

/// Runs that begin with a copy of the same.
pub(super) struct Group<B, J> {
    /// What says with what they begin.
    pub(super) beginning: B,
    /// The runs.
    pub(super) jobs: Vec<J>,
}

/// What the caller is told, on its own thread.
pub(super) enum News<B, J, R> {
    /// This is being prepared.
    Prepares(B),
    /// This has been run, and this has come of it.
    Done(J, R),
}

/// Runs every job of every group once, groups and jobs begun in their order; `told` what happens.
///
/// # Errors
/// One that preparing or a run has met; what has not begun then is not run.
///
/// # Panics
/// When a run does.
pub(super) fn run<B, J, S, R, E>(
    groups: &[Group<B, J>],
    threads: NonZeroUsize,
    prepare: impl Fn(&B) -> Result<S, E> + Sync,
    run: impl Fn(&J, S) -> Result<R, E> + Sync,
    mut told: impl FnMut(News<&B, &J, R>),
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
    let (sender, news) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(runs) {
            let (pool, prepare, run, sender) = (&pool, &prepare, &run, sender.clone());
            scope.spawn(move || {
                // Others must not wait for what a thread that panics was to prepare.
                let _ended = EndsOnPanic(pool);
                while let Some(task) = pool.next() {
                    let found = match task {
                        Task::Prepare(group) => {
                            let beginning = &pool.groups[group].beginning;
                            let _ = sender.send(Ok(News::Prepares(beginning)));
                            prepare(beginning).map(|prepared| {
                                pool.is_prepared(group, prepared);
                                None
                            })
                        }
                        Task::Run(job, beginning) => {
                            let copied = Arc::unwrap_or_clone(beginning);
                            run(job, copied).map(|found| Some(News::Done(job, found)))
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
        for item in news {
            match item {
                Ok(item) => told(item),
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
    /// Groups that have runs left, with the number of the next of them.
    prepared: Vec<(usize, usize, Arc<S>)>,
    /// The next group that nobody prepares yet.
    next: usize,
    /// How many are being prepared.
    preparing: usize,
    /// Nothing more is begun.
    ended: bool,
}

impl<'g, B, J, S> Pool<'g, B, J, S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do next; waits where it depends on what others prepare.
    fn next(&self) -> Option<Task<'g, J, S>> {
        let mut state = self.state();
        loop {
            if state.ended {
                return None;
            }
            if let Some((group, job, beginning)) = state.prepared.first_mut() {
                let jobs = &self.groups[*group].jobs;
                let (task, beginning) = (&jobs[*job], Arc::clone(beginning));
                *job += 1;
                if *job == jobs.len() {
                    state.prepared.remove(0);
                }
                return Some(Task::Run(task, beginning));
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

    fn is_prepared(&self, group: usize, prepared: S) {
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
            beginning: number,
            jobs: (0..*size).map(|job| 100 * number + job).collect(),
        };
        (0..).zip(sizes).map(group).collect()
    }

    #[test]
    fn every_run_is_made_once_over_its_own_beginning() {
        for count in [1, 2, 3, 8] {
            let prepared = AtomicUsize::new(0);
            let mut found = BTreeMap::new();
            let done = run(
                &groups(&[3, 0, 1, 5]),
                threads(count),
                |beginning| {
                    prepared.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, ()>(*beginning)
                },
                |job, beginning| Ok((*job, beginning)),
                |news| {
                    if let News::Done(job, found_of) = news {
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

    /// Each run waits for another: with one thread they would wait for ever.
    #[test]
    fn runs_of_one_group_and_of_several_are_made_at_the_same_time() {
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
    fn an_error_ends_it() {
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
    fn a_run_that_panics_is_not_waited_for() {
        let prepare = |beginning: &u64| match beginning {
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
