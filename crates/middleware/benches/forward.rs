//! What the middleware costs a client whose operations are local: pgbench at it and at its database, in turns.

#[path = "../tests/middleware/world/mod.rs"]
mod world;

use std::process::Command;

use anabranch_dbms::postgres::Installation;
use world::World;

const ROUNDS: usize = 5;
const SECONDS: u32 = 3;

/// Rate and average latency in milliseconds of one run of pgbench.
fn pgbench(port: u16, script: &str, clients: u32) -> (f64, f64) {
    let file = std::env::temp_dir().join(format!("anabranch-forward-{}.sql", std::process::id()));
    std::fs::write(&file, script).expect("the file is written");
    let installation = Installation::find().unwrap_or_else(|error| panic!("{error:?}"));
    let output = Command::new(installation.program("pgbench"))
        .args(["-n", "-M", "prepared", "-h", "127.0.0.1", "-U", "anabranch"])
        .args(["-p", &port.to_string(), "-c", &clients.to_string()])
        .args(["-T", &SECONDS.to_string(), "-f"])
        .arg(&file)
        .arg("site0")
        .output()
        .expect("pgbench runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let after = |words: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(words));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        let found = number.and_then(|number| number.parse().ok());
        found.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
    };
    (after("tps = "), after("latency average = "))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let world = World::new(1);
    let own = (world.addresses[0].port(), world.server.port());
    let select = "\\set c random(0, 99)\nSELECT items(:c);\n";
    let update = "\\set c random(0, 99)\nSELECT add_item(:c, 1);\n";
    let statement = "\\set c random(0, 99)\nSELECT items FROM cart WHERE id = :c;\n";
    for (what, script, clients) in [
        ("select by a function", select, 8),
        ("update by a function", update, 8),
        ("select by a statement", statement, 8),
        ("select by a function", select, 1),
        ("select by a statement", statement, 1),
    ] {
        let (mut through, mut straight) = (Vec::new(), Vec::new());
        let (mut through_ms, mut straight_ms) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (rate, latency) = pgbench(own.0, script, clients);
            through.push(rate);
            through_ms.push(latency);
            let (rate, latency) = pgbench(own.1, script, clients);
            straight.push(rate);
            straight_ms.push(latency);
        }
        let (through, straight) = (median(through), median(straight));
        println!(
            "{what}, {clients} clients: {through:.0}/s through the middleware, {straight:.0}/s straight: {:.2}; {:.3} and {:.3} ms",
            through / straight,
            median(through_ms),
            median(straight_ms)
        );
    }
}
