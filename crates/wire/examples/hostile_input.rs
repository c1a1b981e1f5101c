//! Runs hostile input against the state machine: `hostile_input COUNT [FIRST_SEED]`. A failure names its seed.

#[path = "../tests/wire/backend.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod backend;
#[path = "../tests/wire/frontend.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod frontend;
#[path = "../tests/wire/hostile_input.rs"]
mod hostile_input;
#[path = "../tests/wire/session.rs"]
mod session;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| {
        argument
            .parse::<u64>()
            .expect("COUNT and FIRST_SEED are numbers")
    });
    let count = arguments.next().unwrap_or(1_000_000);
    let first = arguments.next().unwrap_or(0);
    let mut counts = hostile_input::Counts::default();
    for seed in first..first + count {
        hostile_input::run(seed, &mut counts);
    }
    println!("{counts:?}");
}
