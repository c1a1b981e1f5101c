//! Sends hostile statements to servers in this process: `hostile_statements COUNT [FIRST_SEED]`. A failure names its seed; if
//! the process is gone, the last line names the thousand in which it was.

#[path = "../tests/server/hostile_statements.rs"]
mod hostile_statements;
#[path = "../tests/server/support/mod.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod support;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| {
        argument
            .parse::<u64>()
            .expect("COUNT and FIRST_SEED are numbers")
    });
    let count = arguments.next().unwrap_or(1_000_000);
    let first = arguments.next().unwrap_or(0);
    let mut counts = hostile_statements::Counts::default();
    hostile_statements::run(first, count, &mut counts, |seed| {
        if seed % 1_000 == 0 {
            println!("seed {seed}");
        }
    });
    println!("{counts:?}");
}
