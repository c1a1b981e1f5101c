//! A durable node whose disk is full: it refuses writes, reads go on, and it continues when there is room.

use anabranch_engine::{Admission, CallError, Shortage, Work};
use anabranch_protocol::Durable;
use anabranch_storage::media::memory::DiskFaults;

use crate::checkpoints::{Make, World, locking, ramp};
use crate::support::args;

fn limit<P: Durable>(world: &mut World<P>, capacity: Option<u64>) {
    let faults = DiskFaults {
        capacity,
        ..DiskFaults::default()
    };
    world.node.media_mut().set_faults(faults);
}

const COUNT: &str = "SELECT count(*) FROM entries";

/// Fills the disk by calls until a write is refused; returns how many rows there are.
fn fill<P: Durable>(world: &mut World<P>) -> i64 {
    let used = world.node.media_mut().used();
    limit(world, Some(used + 700));
    for entered in 0..1_000 {
        let outcome = world.outcome(Work::Procedure(0), &args([entered]));
        match outcome.expect("the reserve is large enough").result {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, CallError::Shortage(Shortage::Disk));
                assert_eq!(error.code(), "53100");
                assert!(entered > 2, "it was refused at once");
                return entered;
            }
        }
    }
    panic!("the disk was never full")
}

fn goes_on<P: Durable>(make: Make<P>) {
    let mut world = World::new(make);
    let rows = fill(&mut world);
    // What was refused has left nothing, here or on the disk.
    assert_eq!(world.query(COUNT), [[rows]]);
    assert_eq!(world.crashed(0).query(COUNT), [[rows]]);
    assert_eq!(world.node.admission(), Admission::Deletes(Shortage::Disk));
    let refused = world.statement("UPDATE counters SET value = 0 WHERE id = 1");
    assert!(refused.expect("it is answered").result.is_err());
    let deleted = world.statement("DELETE FROM entries WHERE id = 1");
    deleted
        .expect("there is room")
        .result
        .expect("deletions are admitted");
    // Room that others free is noticed.
    limit(&mut world, None);
    world.node.make_room(&mut world.out).expect("no faults");
    assert_eq!(world.node.admission(), Admission::All);
    let entered = world.outcome(Work::Procedure(0), &args([0]));
    entered.expect("there is room").result.expect("it commits");
    assert_eq!(world.query(COUNT), [[rows]]);
    assert_eq!(world.crashed(0).query(COUNT), [[rows]]);
}

#[test]
fn a_node_refuses_writes_on_a_full_disk_and_goes_on_when_there_is_room() {
    goes_on(ramp);
    goes_on(locking);
}

#[test]
fn a_checkpoint_on_a_full_disk_frees_the_log() {
    let mut world = World::new(ramp);
    let rows = fill(&mut world);
    for id in 1..=rows {
        let deleted = world.statement(&format!("DELETE FROM entries WHERE id = {id}"));
        if deleted
            .expect("the reserve is large enough")
            .result
            .is_err()
        {
            break;
        }
    }
    let left = world.query(COUNT);
    for _ in 0..100 {
        world.node.make_room(&mut world.out).expect("no faults");
        world
            .node
            .checkpoint_if_due(&mut world.out)
            .expect("no faults");
        // Versions are collected as commits come and time passes.
        world.query(COUNT);
        if world.node.admission() == Admission::All {
            assert!(world.node.counters().checkpoints > 0);
            assert_eq!(world.query(COUNT), left);
            assert_eq!(world.crashed(0).query(COUNT), left);
            return;
        }
    }
    panic!("no checkpoint freed the log: {:?}", world.node.counters())
}

/// Output that depends on records for which there is no room waits, and leaves once there is.
#[test]
fn output_waits_while_there_is_no_room_for_its_records() {
    let mut world = World::new(ramp);
    let used = world.node.media_mut().used();
    let reserve = crate::checkpoints::OPTIONS.log.reserve_bytes;
    // Less than one commit, even with the reserve.
    limit(&mut world, Some(used - reserve + 10));
    assert!(world.outcome(Work::Procedure(0), &args([1])).is_none());
    assert_eq!(world.node.admission(), Admission::Reads(Shortage::Disk));
    assert_eq!(world.crashed(0).query(COUNT), [[0]]);
    limit(&mut world, None);
    world.node.make_room(&mut world.out).expect("no faults");
    world.sync();
    let outcome = world.out.outcomes.pop().expect("it is answered now");
    outcome.result.expect("it has committed");
    assert_eq!(world.crashed(0).query(COUNT), [[1]]);
}
