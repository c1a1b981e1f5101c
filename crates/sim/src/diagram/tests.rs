//! Diagrams of small recordings.

use anabranch_types::NodeId;

use super::layout::{Scale, Span, rows};
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

/// A hundred messages from n0 to n1, sent 10 us apart, with a latency of 5 us.
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

/// The number of arrows, without those of the legend.
fn arrows(svg: &str) -> usize {
    svg.matches("marker-end").count() - MessageKind::ALL.len()
}

#[test]
fn the_diagram_of_a_race_goes_from_its_first_message_to_the_second_round_answer() {
    let mut recorder = recorder();
    let answer = Label::read("Got", transaction(60));
    recorder.sent(1, 0, at(700), answer);
    recorder.received(1, 0, at(730));
    let drawn = recorder.draw(&frame(&[]));
    let svg = &drawn.svg;
    assert!(svg.contains("a &amp; b") && svg.contains("read_group"));
    // The demanded transaction prepares at 550; the answer arrives at 730.
    let (from, to) = drawn.window;
    assert!((530..550).contains(&from.as_micros()), "{from:?}");
    assert!((731..750).contains(&to.as_micros()), "{to:?}");
    assert!(
        svg.contains(">Prepare T") && svg.contains(">Got T"),
        "{svg}"
    );
    assert!(!drawn.is_empty);
}

#[test]
fn the_diagram_of_a_crowded_race_shows_its_own_messages_and_counts_the_others() {
    let mut recorder = recorder();
    let answer = Label::read("Got", transaction(60));
    recorder.sent(1, 0, at(980), answer);
    recorder.received(1, 0, at(990));
    let drawn = recorder.draw(&frame(&[]));
    assert!(
        drawn.svg.contains(">Get T2 with T1</text>"),
        "{}",
        drawn.svg
    );
    assert_eq!(arrows(&drawn.svg), 3, "a Prepare, a Get and a Got");
    assert!(drawn.svg.contains("more messages"));
}

#[test]
fn the_first_violation_is_drawn_with_the_messages_before_it() {
    let mut recorder = recorder();
    recorder.violated(at(905));
    recorder.violated(at(950));
    let drawn = recorder.draw(&frame(&[]));
    let (from, to) = drawn.window;
    assert!(
        from < at(600) && to > at(905) && to < at(950),
        "{from:?} {to:?}"
    );
    assert!(drawn.svg.contains(">violation</text>"));
    let before = Frame {
        window: Some((at(0), at(99))),
        ..frame(&[])
    };
    assert!(!recorder.draw(&before).svg.contains(">violation<"));
}

#[test]
fn without_a_race_the_first_calls_are_drawn() {
    let mut recorder = Recorder::default();
    recorder.called(1, at(20), CallId(1), "put");
    recorder.answered(1, at(60), CallId(1), true);
    recorder.sent(1, 0, at(9_000), Label::other("Stable"));
    let drawn = recorder.draw(&frame(&[]));
    assert!(drawn.svg.contains(">put</text>") && !drawn.svg.contains("Stable"));
    assert!(drawn.window.1 < at(100));
}

#[test]
fn an_empty_window_says_so() {
    let nothing = Recorder::default().draw(&frame(&[]));
    assert!(nothing.is_empty && nothing.svg.ends_with("</svg>\n"));
    let late = Frame {
        window: Some((at(900_000), at(900_100))),
        ..frame(&[])
    };
    let late = recorder().draw(&late);
    assert!(late.is_empty && late.svg.contains("Nothing happens"));
    let some = recorder().draw(&frame(&[]));
    assert!(!some.is_empty && !some.svg.contains("Nothing happens"));
}

#[test]
fn an_aborted_attempt_lists_its_reason_and_its_reads() {
    let mut recorder = recorder();
    let attempt = Attempt {
        call: CallId(1 << 32),
        number: 2,
        outcome: Err("aborted: below floor".to_owned()),
        read: vec![Timestamp::new(1, NodeId(1))],
    };
    recorder.attempts.insert(transaction(60), attempt);
    let svg = recorder.draw(&frame(&[])).svg;
    assert!(
        svg.contains("attempt 2: aborted: below floor, reads earlier versions"),
        "{svg}"
    );
}

#[test]
fn an_explicit_window_is_drawn() {
    let window = Some((at(0), at(99)));
    let explicit = Frame {
        window,
        ..frame(&[])
    };
    let svg = recorder().draw(&explicit).svg;
    assert!(svg.contains("0 to 99 us") && !svg.contains("read_group"));
    assert_eq!(svg.matches(">Prepare T").count(), 10);
}

#[test]
fn faults_and_lost_messages_are_drawn() {
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
    recorder.crashed(1);
    let inside = Frame {
        window: Some((at(540), at(800))),
        ..frame(&faults)
    };
    let svg = recorder.draw(&inside).svg;
    assert!(svg.contains(">down</text>") && svg.contains(">7% lost</text>"));
    assert_eq!(
        svg.matches('\u{d7}').count(),
        1,
        "a lost message has a cross"
    );
    let outside = Frame {
        window: Some((at(0), at(99))),
        ..frame(&faults)
    };
    let svg = recorder.draw(&outside).svg;
    assert!(!svg.contains("down") && !svg.contains("lost<"));
}

#[test]
fn overlapping_bars_get_rows_of_their_own() {
    let bar = |left, right| Span { left, right };
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
