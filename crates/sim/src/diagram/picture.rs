//! The picture as SVG.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anabranch_protocol::TransactionId;
use anabranch_types::markup::escaped;
use anabranch_types::{Ticks, Timestamp};

use super::label::MessageKind;
use super::layout::{LETTER, LabelledLine, Point, Scale, Span, grouped, rows};
use super::{Call, Diagram, Frame, Message, Recorder, Window};
use crate::fault::Fault;

const WIDTH: f64 = 1_500.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 40.0;
/// Below the title.
const TOP: f64 = 62.0;
/// The space for arrows between a site's line and the rows above the next one.
const ARROWS: f64 = 150.0;
/// A row of bars.
const ROW: f64 = 17.0;
const BAR: f64 = 14.0;
/// The height of a line of the legend, and the approximate width of its letters.
const LINE: f64 = 16.0;
const LETTER_LISTED: f64 = 6.0;

/// The largest number of rows of calls above a site's line. Hidden calls are counted.
const CALL_ROWS_MAX: usize = 6;
/// The largest number of rows of faults at the top.
const FAULT_ROWS_MAX: usize = 5;
/// The largest number of messages that are drawn. Hidden messages are counted.
const ARROWS_MAX: usize = 300;
/// The largest number of transactions in the list. Hidden transactions are counted.
const LISTED_MAX: usize = 40;
/// The largest number of items or versions in a line of the list.
const VERSIONS_MAX: usize = 4;

/// Draws the part of a recording in a window.
pub(super) fn draw(recorder: &Recorder, frame: &Frame<'_>, window: &Window) -> Diagram {
    let scale = Scale {
        from: window.from,
        to: window.to.max(Ticks(window.from.0 + 1_000)),
        left: LEFT,
        right: WIDTH - RIGHT,
    };
    let mut messages: Vec<&Message> = (recorder.messages.iter())
        .filter(|m| scale.span(m.sent, m.received).is_some())
        .filter(|m| m.received.is_some() || m.sent >= scale.from)
        .collect();
    let all = messages.len();
    if let Some(only) = &window.only {
        messages.retain(|m| {
            recorder
                .transaction_of(m)
                .is_some_and(|of| only.contains(&of))
        });
    }
    messages.truncate(ARROWS_MAX);
    let hidden_messages = all - messages.len();
    let names = Names::new(recorder, &messages, &scale);
    let sites = Sites::new(recorder, frame, &scale, &names);
    let is_empty = all == 0 && sites.calls.iter().all(Vec::is_empty) && names.order.is_empty();
    let mut picture = Picture {
        recorder,
        scale,
        names,
        sites,
        svg: String::new(),
    };
    picture.grid();
    for node in 0..frame.nodes {
        picture.site(node, frame.faults);
    }
    picture.network_faults();
    picture.arrows(&messages);
    picture.installations();
    picture.violation();
    if is_empty {
        let middle = Point((LEFT + WIDTH - RIGHT) / 2.0, TOP - 10.0);
        let style = "text-anchor=\"middle\" font-size=\"14\" fill=\"#777777\"";
        picture.text(middle, style, "Nothing happens in this window.");
    }
    let body = std::mem::take(&mut picture.svg);
    let bottom = picture.legend(hidden_messages);
    let list = std::mem::take(&mut picture.svg);
    picture.head(frame.title, bottom);
    let window = (picture.scale.from, picture.scale.to);
    Diagram {
        svg: picture.svg + &body + &list + "</svg>\n",
        window,
        is_empty,
    }
}

/// The short names of the transactions in a window.
struct Names {
    numbers: BTreeMap<TransactionId, usize>,
    /// By number, from 1.
    order: Vec<TransactionId>,
}

impl Names {
    fn new(recorder: &Recorder, messages: &[&Message], scale: &Scale) -> Names {
        let mut names = Names {
            numbers: BTreeMap::new(),
            order: Vec::new(),
        };
        // Transactions without messages count if they are installed in the window.
        let installed = (recorder.installations.iter())
            .filter(|one| one.at >= scale.from && one.at <= scale.to)
            .filter_map(|one| Some((one.at, *recorder.transactions.get(&one.timestamp)?)));
        let sent = messages.iter().flat_map(|message| {
            let demanded = message.label.demands;
            let demanded =
                demanded.and_then(|prepared| recorder.transactions.get(&prepared).copied());
            let both = [recorder.transaction_of(message), demanded]
                .into_iter()
                .flatten();
            both.map(|transaction| (message.sent.max(scale.from), transaction))
        });
        let mut met: Vec<(Ticks, TransactionId)> = sent.chain(installed).collect();
        met.sort();
        for (_, transaction) in met {
            let next = names.order.len() + 1;
            if let Entry::Vacant(new) = names.numbers.entry(transaction) {
                new.insert(next);
                names.order.push(transaction);
            }
        }
        names
    }

    fn of(&self, transaction: TransactionId) -> Option<String> {
        let number = self.numbers.get(&transaction)?;
        Some(format!("T{number}"))
    }

    fn of_timestamp(&self, recorder: &Recorder, timestamp: Timestamp) -> Option<String> {
        self.of(*recorder.transactions.get(&timestamp)?)
    }
}

/// A call above a site's line.
struct CallBar {
    span: Span,
    row: usize,
    words: String,
    /// Whether it did not commit.
    failed: bool,
}

/// The positions of the sites' lines, and the bars above them.
struct Sites {
    /// By node: the position of its line.
    lines: Vec<f64>,
    /// By node: its calls.
    calls: Vec<Vec<CallBar>>,
    /// By node: the number of calls without a row.
    hidden: Vec<usize>,
    /// The network's faults, with their rows and labels.
    faults: Vec<(Span, usize, String)>,
}

impl Sites {
    fn new(recorder: &Recorder, frame: &Frame<'_>, scale: &Scale, names: &Names) -> Sites {
        let mut faults: Vec<(Span, String)> = (frame.faults.iter())
            .filter(|fault| fault.kind.site().is_none())
            .filter_map(|fault| Some((during(fault, scale)?, fault.kind.to_string())))
            .map(|(span, words)| (with_label(span, &words), words))
            .collect();
        faults.sort_by(|one, other| one.0.left.total_cmp(&other.0.left));
        let spans: Vec<Span> = faults.iter().map(|(span, _)| *span).collect();
        let (placed, fault_rows) = rows(&spans, FAULT_ROWS_MAX);
        let faults = (faults.into_iter().zip(placed))
            .filter_map(|((span, words), row)| Some((span, row?, words)))
            .collect();
        let mut sites = Sites {
            lines: Vec::new(),
            calls: Vec::new(),
            hidden: Vec::new(),
            faults,
        };
        let mut attempts: BTreeMap<_, BTreeSet<usize>> = BTreeMap::new();
        for (transaction, attempt) in &recorder.attempts {
            if let Some(number) = names.numbers.get(transaction) {
                attempts.entry(attempt.call).or_default().insert(*number);
            }
        }
        let mut below = TOP + fault_rows as f64 * ROW;
        for node in 0..frame.nodes {
            let mut calls: Vec<(Span, &Call)> = (recorder.calls.iter())
                .filter(|call| call.node == node)
                .filter_map(|call| Some((scale.span(call.began, call.ended)?, call)))
                .collect();
            calls.sort_by(|one, other| one.0.left.total_cmp(&other.0.left));
            let worded: Vec<(Span, String)> = (calls.iter())
                .map(|(span, call)| {
                    let numbers = attempts.get(&call.id).into_iter().flatten();
                    let mut words: String = numbers.map(|number| format!("T{number} ")).collect();
                    words.push_str(call.name);
                    (with_label(*span, &words), words)
                })
                .collect();
            let spans: Vec<Span> = worded.iter().map(|(span, _)| *span).collect();
            let (placed, call_rows) = rows(&spans, CALL_ROWS_MAX);
            sites
                .hidden
                .push(placed.iter().filter(|row| row.is_none()).count());
            let line = below + call_rows as f64 * ROW + 12.0;
            let with_rows = (calls.iter().zip(worded).zip(placed))
                .filter_map(|(((span, call), (_, words)), row)| {
                    Some(CallBar {
                        span: *span,
                        row: row?,
                        words,
                        failed: !call.committed,
                    })
                })
                .collect();
            sites.calls.push(with_rows);
            sites.lines.push(line);
            below = line + ARROWS;
        }
        sites
    }

    fn line(&self, node: u16) -> f64 {
        self.lines.get(usize::from(node)).copied().unwrap_or(TOP)
    }

    /// The position below the last site's line.
    fn bottom(&self) -> f64 {
        self.lines.last().copied().unwrap_or(TOP) + 34.0
    }
}

/// The span of a fault, cut to the window.
fn during(fault: &Fault, scale: &Scale) -> Option<Span> {
    let ended = fault.at_us.saturating_add(fault.for_us);
    let ended = (!fault.kind.is_permanent()).then(|| Ticks::from_micros(ended));
    scale.span(Ticks::from_micros(fault.at_us), ended)
}

/// The span of a bar together with its label, which begins where the bar begins.
fn with_label(bar: Span, words: &str) -> Span {
    let wide = words.chars().count() as f64 * LETTER + 8.0;
    Span {
        left: bar.left,
        right: bar.right.max(bar.left + wide),
    }
}

struct Picture<'a> {
    recorder: &'a Recorder,
    scale: Scale,
    names: Names,
    sites: Sites,
    svg: String,
}

impl Picture<'_> {
    fn head(&mut self, title: &str, bottom: f64) {
        let _ = write!(
            self.svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{bottom:.0}\" \
             viewBox=\"0 0 {WIDTH} {bottom:.0}\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
             <defs>"
        );
        for kind in MessageKind::ALL {
            let _ = write!(
                self.svg,
                "<marker id=\"{kind:?}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" \
                 markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
                 <path d=\"M0,1 L10,5 L0,9 z\" fill=\"{}\"/></marker>",
                kind.colour()
            );
        }
        let _ = writeln!(
            self.svg,
            "</defs>\n<rect width=\"{WIDTH}\" height=\"{bottom:.0}\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"30\" font-size=\"18\" fill=\"#222222\">{}</text>\n\
             <text x=\"{LEFT}\" y=\"48\" fill=\"#555555\">simulated time, {} to {} us</text>",
            escaped(title),
            grouped(self.scale.from.as_micros()),
            grouped(self.scale.to.as_micros()),
        );
    }

    fn text(&mut self, at: Point, style: &str, words: &str) {
        let Point(x, y) = at;
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>",
            escaped(words)
        );
    }

    /// A bar with a label that begins where the bar begins.
    fn bar(&mut self, span: Span, y: f64, look: &str, ink: &str, words: &str) {
        let wide = (span.right - span.left).max(3.0);
        let _ = writeln!(
            self.svg,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{BAR}\" rx=\"3\" {look}>\
             <title>{}</title></rect>",
            span.left,
            escaped(words)
        );
        // At the right edge the label ends where the picture ends.
        let length = words.chars().count() as f64 * LETTER;
        let x = (span.left + 4.0).min(WIDTH - 4.0 - length).max(LEFT);
        let style = format!("font-size=\"10\" fill=\"{ink}\"");
        self.text(Point(x, y + 10.5), &style, words);
    }

    fn grid(&mut self) {
        let (top, bottom) = (TOP - 4.0, self.sites.bottom() - 14.0);
        for (x, words) in self.scale.ticks(8) {
            let _ = writeln!(
                self.svg,
                "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" \
                 stroke=\"#e8ebef\"/>"
            );
            let style = "font-size=\"10\" fill=\"#777777\" text-anchor=\"middle\"";
            self.text(Point(x, bottom + 12.0), style, &words);
        }
    }

    /// A site's line, its faults, and its calls.
    fn site(&mut self, node: u16, faults: &[Fault]) {
        let y = self.sites.line(node);
        let _ = writeln!(
            self.svg,
            "<text x=\"20\" y=\"{:.1}\" font-size=\"16\" font-weight=\"bold\">n{node}</text>\
             <line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#888888\" \
             stroke-width=\"1.5\"/>",
            y + 5.0,
            WIDTH - RIGHT
        );
        for fault in faults
            .iter()
            .filter(|fault| fault.kind.site() == Some(node))
        {
            let Some(span) = during(fault, &self.scale) else {
                continue;
            };
            let _ = writeln!(
                self.svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"8\" fill=\"#c62828\" \
                 fill-opacity=\"0.35\"><title>{}</title></rect>",
                span.left,
                y - 4.0,
                (span.right - span.left).max(3.0),
                escaped(&fault.kind.to_string())
            );
            let at = Point(span.left + 3.0, y + 14.0);
            let style = "font-size=\"10\" fill=\"#a02020\" stroke=\"#ffffff\" stroke-width=\"3\" \
                         paint-order=\"stroke\"";
            self.text(at, style, &fault.kind.to_string());
        }
        let hidden = self.sites.hidden[usize::from(node)];
        if hidden > 0 {
            let style = "font-size=\"10\" fill=\"#8a6d1d\"";
            self.text(Point(8.0, y - 12.0), style, &format!("+{hidden} calls"));
        }
        for call in std::mem::take(&mut self.sites.calls[usize::from(node)]) {
            let top = y - 10.0 - (call.row + 1) as f64 * ROW + (ROW - BAR);
            let look = match call.failed {
                false => "fill=\"#ecd9a0\"",
                true => "fill=\"#f7efe0\" stroke=\"#b08a3a\" stroke-dasharray=\"3 2\"",
            };
            self.bar(call.span, top, look, "#5c470e", &call.words);
        }
    }

    fn network_faults(&mut self) {
        for (span, row, words) in std::mem::take(&mut self.sites.faults) {
            let y = TOP + row as f64 * ROW - 6.0;
            self.bar(span, y, "fill=\"#f6d5d5\"", "#8c1c1c", &words);
        }
    }

    /// The messages. Messages that travel together are one arrow.
    fn arrows(&mut self, messages: &[&Message]) {
        let mut batches: BTreeMap<_, Vec<&Message>> = BTreeMap::new();
        for message in messages {
            let way = (message.from, message.to, message.sent, message.received);
            batches.entry(way).or_default().push(message);
        }
        let mut arrows: Vec<(MessageKind, bool, LabelledLine)> = Vec::new();
        for ((from, to, sent, received), messages) in batches {
            let (start, end) = (self.sites.line(from), self.sites.line(to));
            let whole = LabelledLine {
                from: Point(self.scale.x_beyond(sent), start),
                to: match received {
                    Some(received) => Point(self.scale.x_beyond(received), end),
                    // The point of loss is unknown.
                    None => Point(
                        self.scale.x_beyond(sent) + 60.0,
                        start + (end - start) * 0.4,
                    ),
                },
                text: self.text_of(&messages),
            };
            let lost = received.is_none() && messages[0].lost;
            let (mut line, arrives) = whole.within(self.scale.left, self.scale.right);
            if line.is_cut(&whole) && !line.has_room() {
                line.text.clear();
            }
            let kind = |message: &&Message| message.label.kind;
            // Second-round reads stand out.
            let kind = messages
                .iter()
                .map(kind)
                .max_by_key(|s| *s == MessageKind::Demand);
            let kind = kind.unwrap_or(MessageKind::Write);
            self.line(&line, kind, arrives && received.is_some(), lost);
            arrows.push((kind, lost, line));
        }
        // Second-round reads choose their positions first. Labels are drawn above all lines.
        arrows.sort_by_key(|(kind, ..)| *kind != MessageKind::Demand);
        let mut written = Vec::new();
        for (number, (kind, _, line)) in arrows.iter().enumerate() {
            let others = arrows.iter().enumerate();
            let others = others.filter(|(other, _)| *other != number);
            let place = line.place(others.map(|(_, (.., other))| other), &mut written);
            if line.text.is_empty() {
                continue;
            }
            let Point(x, y) = line.from.towards(line.to, place);
            let _ = writeln!(
                self.svg,
                "<text transform=\"translate({x:.1},{y:.1}) rotate({:.1})\" dy=\"-4\" \
                 text-anchor=\"middle\" font-size=\"10\" fill=\"{}\" stroke=\"#ffffff\" \
                 stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                line.angle(),
                kind.colour(),
                escaped(&line.text)
            );
        }
    }

    fn line(&mut self, line: &LabelledLine, kind: MessageKind, arrives: bool, lost: bool) {
        let (Point(x1, y1), Point(x2, y2)) = (line.from, line.to);
        let tip = match arrives {
            true => format!(" marker-end=\"url(#{kind:?})\""),
            false if lost => " stroke-dasharray=\"5 3\"".to_owned(),
            false => String::new(),
        };
        let colour = kind.colour();
        let _ = writeln!(
            self.svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
             stroke=\"{colour}\" stroke-width=\"1.4\"{tip}/>"
        );
        if lost {
            let style = format!("font-size=\"14\" fill=\"{colour}\" text-anchor=\"middle\"");
            self.text(Point(x2, y2 + 5.0), &style, "\u{d7}");
        }
    }

    /// The label of messages that travel together: each text once, with all of its transactions.
    fn text_of(&self, messages: &[&Message]) -> String {
        let mut parts: Vec<(String, Vec<String>)> = Vec::new();
        for message in messages {
            let label = &message.label;
            let own = self.recorder.transaction_of(message);
            let own = own.and_then(|transaction| self.names.of(transaction));
            let demanded = (label.demands).map(|prepared| {
                let name = self.names.of_timestamp(self.recorder, prepared);
                name.unwrap_or_else(|| prepared.to_string())
            });
            let names = match (own, demanded) {
                (Some(own), Some(demanded)) => Some(format!("{own} with {demanded}")),
                (None, Some(demanded)) => Some(format!("with {demanded}")),
                (own, None) => own,
            };
            match parts.iter_mut().find(|(text, _)| *text == label.text) {
                Some((_, all)) => all.extend(names),
                None => parts.push((label.text.clone(), names.into_iter().collect())),
            }
        }
        let parts = parts.into_iter().map(|(text, mut all)| {
            all.dedup();
            if all.len() > 3 {
                let more = all.len() - 2;
                all.truncate(2);
                all.push(format!("{more} more"));
            }
            match all.is_empty() {
                true => text,
                false => format!("{text} {}", all.join(", ")),
            }
        });
        parts.collect::<Vec<_>>().join(" · ")
    }

    /// Dots for installations.
    fn installations(&mut self) {
        let mut last: BTreeMap<u16, f64> = BTreeMap::new();
        let recorder = self.recorder;
        let within = |at: Ticks| at >= self.scale.from && at <= self.scale.to;
        let installed: Vec<_> = recorder
            .installations
            .iter()
            .filter(|s| within(s.at))
            .collect();
        for one in installed {
            let (x, y) = (self.scale.x(one.at), self.sites.line(one.node));
            let name = self.names.of_timestamp(recorder, one.timestamp);
            let name = name.unwrap_or_else(|| one.timestamp.to_string());
            let _ = writeln!(
                self.svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#2e7d32\" stroke=\"#ffffff\">\
                 <title>{} installed: {}</title></circle>",
                escaped(&name),
                escaped(&one.items.join(", "))
            );
            let free = last.get(&one.node).is_none_or(|end| *end < x - 8.0);
            if free {
                let half = name.len() as f64 * LETTER / 2.0;
                last.insert(one.node, x + half);
                let style = "font-size=\"10\" font-weight=\"bold\" fill=\"#2e7d32\" \
                             text-anchor=\"middle\" stroke=\"#ffffff\" stroke-width=\"3\" \
                             paint-order=\"stroke\"";
                self.text(Point(x, y + 15.0), style, &name);
            }
        }
    }

    /// The first violation.
    fn violation(&mut self) {
        let Some(at) =
            (self.recorder.violation).filter(|at| (self.scale.from..=self.scale.to).contains(at))
        else {
            return;
        };
        let (x, top, bottom) = (self.scale.x(at), TOP - 4.0, self.sites.bottom() - 14.0);
        let _ = writeln!(
            self.svg,
            "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" \
             stroke=\"#c62828\" stroke-width=\"2\" stroke-dasharray=\"2 3\"/>"
        );
        let style = "font-size=\"11\" fill=\"#c62828\" text-anchor=\"end\"";
        self.text(Point(x - 4.0, top + 8.0), style, "violation");
    }

    /// The legend, and the list of transactions. Returns the position of the picture's end.
    fn legend(&mut self, hidden_messages: usize) -> f64 {
        let mut y = self.sites.bottom() + 22.0;
        let mut x = LEFT;
        for kind in MessageKind::ALL {
            let _ = writeln!(
                self.svg,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{}\" \
                 stroke-width=\"1.4\" marker-end=\"url(#{kind:?})\"/>",
                y - 4.0,
                x + 26.0,
                y - 4.0,
                kind.colour()
            );
            self.text(
                Point(x + 32.0, y),
                "font-size=\"11\" fill=\"#444444\"",
                kind.description(),
            );
            x += 32.0 + kind.description().len() as f64 * 5.9 + 22.0;
        }
        let _ = writeln!(
            self.svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#2e7d32\"/>",
            x + 4.0,
            y - 4.0
        );
        let soft = "font-size=\"11\" fill=\"#444444\"";
        self.text(Point(x + 14.0, y), soft, "installed: visible from here on");
        x += 14.0 + 31.0 * 5.9 + 22.0;
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"24\" height=\"10\" rx=\"3\" fill=\"#ecd9a0\"/>",
            y - 9.0
        );
        self.text(Point(x + 30.0, y), soft, "a call (dashed: not committed)");
        y += LINE * 1.5;
        let listed: Vec<String> = (self.names.order.iter().take(LISTED_MAX))
            .map(|transaction| self.describe(*transaction))
            .collect();
        let half = listed.len().div_ceil(2);
        for (number, words) in listed.iter().enumerate() {
            let (column, row) = (number / half, number % half);
            let x = LEFT + column as f64 * (WIDTH - LEFT - RIGHT) / 2.0;
            let wide = (WIDTH - LEFT - RIGHT) / 2.0 - 16.0;
            let words = cut(words, (wide / LETTER_LISTED) as usize);
            self.text(Point(x, y + row as f64 * LINE), soft, &words);
        }
        y += half as f64 * LINE;
        let unlisted = self.names.order.len().saturating_sub(LISTED_MAX);
        for (count, what) in [
            (unlisted, "more transactions"),
            (hidden_messages, "more messages"),
        ] {
            if count > 0 {
                self.text(Point(LEFT, y), soft, &format!("… and {count} {what}"));
                y += LINE;
            }
        }
        y + 8.0
    }

    /// The description of a transaction, in one line.
    fn describe(&self, transaction: TransactionId) -> String {
        let recorder = self.recorder;
        let name = self.names.of(transaction).unwrap_or_default();
        let Some(attempt) = recorder.attempts.get(&transaction) else {
            return format!("{name}  coordinated by {}", transaction.node);
        };
        let call = recorder.calls.iter().find(|call| call.id == attempt.call);
        let mut words = format!("{name}  ");
        words.push_str(call.map_or("a call", |call| call.name));
        let _ = write!(words, " at {}", transaction.node);
        if attempt.number > 1 {
            let _ = write!(words, ", attempt {}", attempt.number);
        }
        let items: BTreeSet<&str> = match &attempt.outcome {
            Ok(timestamp) => (recorder.installations.iter())
                .filter(|one| one.timestamp == *timestamp)
                .flat_map(|one| one.items.iter().map(String::as_str))
                .collect(),
            Err(_) => BTreeSet::new(),
        };
        match &attempt.outcome {
            Ok(timestamp) if !items.is_empty() => {
                let _ = write!(words, ": {timestamp}, writes {}", shortened(&items));
            }
            Ok(_) => words.push(':'),
            Err(why) => {
                let _ = write!(words, ": {why}");
            }
        }
        if !attempt.read.is_empty() {
            let read: Vec<String> = (attempt.read.iter().rev())
                .filter_map(|version| self.names.of_timestamp(recorder, *version))
                .collect();
            let earlier = attempt.read.len() - read.len();
            let mut seen: BTreeSet<&str> = read.iter().map(String::as_str).collect();
            if earlier > 0 {
                seen.insert("earlier versions");
            }
            let comma = match (&attempt.outcome, items.is_empty()) {
                (Ok(_), true) => "",
                (Ok(_), false) | (Err(_), _) => ",",
            };
            let _ = write!(words, "{comma} reads {}", shortened(&seen));
        }
        words
    }
}

/// A text, cut to a number of letters.
fn cut(words: &str, letters_max: usize) -> String {
    match words.chars().count() > letters_max {
        true => words.chars().take(letters_max - 1).chain(['…']).collect(),
        false => words.to_owned(),
    }
}

/// The first few names, and the number of the others.
fn shortened(all: &BTreeSet<&str>) -> String {
    let mut words: Vec<&str> = all.iter().copied().take(VERSIONS_MAX).collect();
    let more = all.len() - words.len();
    let more = format!("{more} more");
    if all.len() > VERSIONS_MAX {
        words.push(&more);
    }
    words.join(", ")
}
