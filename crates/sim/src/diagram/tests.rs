//! What a diagram shows of what a recorder has seen.

use anabranch_types::NodeId;

use super::layout::{Extent, Scale, rows};
use super::*;
use crate::fault::FaultKind;

fn at(micros: u64) -> Ticks {
    Ticks::from_micros(micros)
}

fn transaction(sequence: u64) -> TransactionId {
    TransactionId {
        node: NodeId(0),
        sequence,
    }
}

fn frame(faults: &[Fault]) -> Frame<'_> {
    Frame {
        title: "a & b",
        nodes: 2,
        faults,
        window: None,
    }
}

/// A hundred messages from n0 to n1, 10 us apart and 5 us under way.
fn recorder() -> Recorder {
    let mut recorder = Recorder::default();
    for number in 0..100u64 {
        let label = match number {
            60 => Label::read("Get", transaction(60)).demanding(Timestamp::new(55, NodeId(0))),
            _ => {
                let prepared = Timestamp::new(number, NodeId(0));
                Label::write("Prepare", transaction(number)).prepared(prepared)
            }
        };
        recorder.sent(0, 1, at(number * 10), label);
        recorder.received(0, 1, at(number * 10 + 5));
    }
    recorder.called(0, at(600), CallId(1 << 32), "read_group");
    recorder.answered(0, at(640), CallId(1 << 32), true);
    recorder
}

#[test]
fn a_window_is_drawn_around_the_first_demanding_read() {
    let svg = recorder().svg(&frame(&[]));
    assert!(svg.contains("a &amp; b") && svg.contains("read_group"));
    // The window begins with the message that is called T1; five before the reader stands who is demanded.
    assert!(svg.contains(">Get T19 with T14</text>"), "{svg}");
    assert!(svg.contains(">Prepare T1</text>") && !svg.contains(">Prepare T29</text>"));
    let arrows = svg.matches("marker-end").count();
    assert_eq!(
        arrows,
        SHOWN_MAX + Sense::ALL.len(),
        "with those of the legend"
    );
    assert!(Recorder::default().svg(&frame(&[])).ends_with("</svg>\n"));
}

#[test]
fn another_window_is_drawn_where_it_is_asked_for() {
    let window = Some((at(0), at(99)));
    let asked = Frame {
        window,
        ..frame(&[])
    };
    let svg = recorder().svg(&asked);
    assert!(svg.contains("0 to 99 us") && !svg.contains("read_group"));
    assert_eq!(svg.matches(">Prepare T").count(), 10);
}

#[test]
fn faults_and_what_they_lose_are_drawn() {
    let fault = |kind| Fault {
        at_us: 500,
        for_us: 200,
        kind,
    };
    let faults = [
        fault(FaultKind::Crash {
            node: 1,
            clock_us: 0,
        }),
        fault(FaultKind::Loss { percent: 7 }),
    ];
    let mut recorder = recorder();
    recorder.sent(0, 1, at(650), Label::other("Stable"));
    recorder.died(1);
    let svg = recorder.svg(&frame(&faults));
    assert!(svg.contains(">down</text>") && svg.contains(">7% lost</text>"));
    assert_eq!(svg.matches('\u{d7}').count(), 1, "what is lost has a cross");
    let outside = Frame {
        window: Some((at(0), at(99))),
        ..frame(&faults)
    };
    let svg = recorder.svg(&outside);
    assert!(!svg.contains("down") && !svg.contains("lost<"));
}

#[test]
fn bars_that_overlap_lie_in_rows_of_their_own() {
    let bar = |left, right| Extent { left, right };
    let bars = [
        bar(0.0, 50.0),
        bar(10.0, 20.0),
        bar(15.0, 90.0),
        bar(60.0, 70.0),
    ];
    let (placed, count) = rows(&bars, 2);
    assert_eq!(placed, [Some(0), Some(1), None, Some(0)]);
    assert_eq!(count, 2);
}

#[test]
fn times_on_the_axis_are_round() {
    let scale = Scale {
        from: at(754),
        to: at(1_210),
        left: 0.0,
        right: 100.0,
    };
    let words: Vec<String> = scale.ticks(8).into_iter().map(|(_, words)| words).collect();
    assert_eq!(
        words,
        ["800 us", "900 us", "1,000 us", "1,100 us", "1,200 us"]
    );
}
