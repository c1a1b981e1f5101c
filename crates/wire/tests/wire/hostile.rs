//! Hostile input. `cargo run -p anabranch-wire --example hostile_input -- COUNT FIRST_SEED` runs more of it.

use crate::hostile_input::{Counts, run};

#[test]
fn hostile_input_is_refused_and_nothing_else_happens() {
    let mut counts = Counts::default();
    for seed in 0..40_000 {
        run(seed, &mut counts);
    }
    // Every kind of end has been met, and often.
    assert_eq!(counts.inputs, 40_000);
    assert!(counts.requests > 40_000, "{counts:?}");
    assert!(counts.errors > 20_000, "{counts:?}");
    assert!(counts.closed > 10_000, "{counts:?}");
    assert!(counts.closed < 36_000, "{counts:?}");
}
