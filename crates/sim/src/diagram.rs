//! Space-time diagrams of a window of a run: a line a site, an arrow a message.
//!
//! Drawn as the papers draw by hand (ramp.txt, Figure 2): time goes to the right, what a message
//! says stands along its arrow, and a bar on a site's line is a call that a client waits for. The
//! window is around the first read that demands a transaction which a race would hide, in whichever
//! round it is asked, where there is one.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use anabranch_types::Ticks;
use anabranch_types::markup::escaped;

/// Messages that are kept; what comes later is not drawn.
const MESSAGES_MAX: usize = 200_000;

/// Messages that a window shows at most.
const SHOWN_MAX: usize = 28;

/// How the label of a read begins that demands a transaction which a race would hide.
pub(crate) const DEMANDING: &str = "Get with";

/// Looks on while a run goes, for a diagram.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    messages: Vec<Message>,
    /// By link: messages that have not arrived, oldest first.
    travelling: BTreeMap<(u16, u16), VecDeque<usize>>,
    calls: Vec<Call>,
}

#[derive(Clone, Debug)]
struct Message {
    from: u16,
    to: u16,
    sent: Ticks,
    received: Option<Ticks>,
    label: String,
}

#[derive(Clone, Debug)]
struct Call {
    node: u16,
    id: u64,
    began: Ticks,
    ended: Option<Ticks>,
    name: &'static str,
}

impl Recorder {
    pub(crate) fn sent(&mut self, from: u16, to: u16, sent: Ticks, label: String) {
        if self.messages.len() < MESSAGES_MAX {
            let waiting = self.travelling.entry((from, to)).or_default();
            waiting.push_back(self.messages.len());
            self.messages.push(Message {
                from,
                to,
                sent,
                received: None,
                label,
            });
        }
    }

    pub(crate) fn received(&mut self, from: u16, to: u16, at: Ticks) {
        let waiting = self.travelling.get_mut(&(from, to));
        if let Some(oldest) = waiting.and_then(VecDeque::pop_front) {
            self.messages[oldest].received = Some(at);
        }
    }

    /// A node has died: what travelled from it and to it may never arrive.
    pub(crate) fn died(&mut self, node: u16) {
        self.travelling
            .retain(|(from, to), _| *from != node && *to != node);
    }

    pub(crate) fn called(&mut self, node: u16, began: Ticks, id: u64, name: &'static str) {
        if self.calls.len() < MESSAGES_MAX {
            self.calls.push(Call {
                node,
                id,
                began,
                ended: None,
                name,
            });
        }
    }

    pub(crate) fn answered(&mut self, node: u16, at: Ticks, id: u64) {
        let mut open = self.calls.iter_mut().rev();
        if let Some(call) = open.find(|call| call.node == node && call.id == id) {
            call.ended = Some(at);
        }
    }

    /// The window to draw: from and to.
    fn window(&self) -> (Ticks, Ticks) {
        let demanding = self
            .messages
            .iter()
            .position(|m| m.label.starts_with(DEMANDING));
        let first = demanding.unwrap_or(0).saturating_sub(SHOWN_MAX * 2 / 3);
        let last = (first + SHOWN_MAX).min(self.messages.len()).max(first + 1) - 1;
        match (self.messages.get(first), self.messages.get(last)) {
            (Some(first), Some(last)) => {
                let end = last.received.unwrap_or(last.sent);
                (first.sent, end.max(Ticks(first.sent.0 + 1_000)))
            }
            _ => (Ticks(0), Ticks::from_micros(1)),
        }
    }

    /// The diagram of a cluster of `nodes`, as an SVG file's text.
    pub fn svg(&self, title: &str, nodes: u16) -> String {
        let canvas = Canvas::new(self.window(), nodes);
        let mut svg = canvas.head(title);
        for node in 0..nodes {
            canvas.site(&mut svg, node);
        }
        let mut written = Vec::new();
        for call in &self.calls {
            canvas.call(&mut svg, call, &mut written);
        }
        let mut arrows: Vec<Arrow<'_>> = self
            .messages
            .iter()
            .filter_map(|message| canvas.arrow(message))
            .collect();
        for arrow in &arrows {
            arrow.line(&mut svg);
        }
        // What the picture is about finds its place first; words stand above all lines.
        arrows.sort_by_key(|arrow| !arrow.label.starts_with(DEMANDING));
        for (number, arrow) in arrows.iter().enumerate() {
            let others = arrows.iter().enumerate();
            let others = others.filter(|(other, _)| *other != number);
            arrow.words(&mut svg, others.map(|(_, other)| other), &mut written);
        }
        canvas.axis(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }
}

/// Where things stand on the page.
struct Canvas {
    from: Ticks,
    to: Ticks,
    nodes: u16,
}

const WIDTH: f64 = 1_500.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 90.0;
const LANE: f64 = 190.0;

impl Canvas {
    fn new((from, to): (Ticks, Ticks), nodes: u16) -> Canvas {
        Canvas { from, to, nodes }
    }

    fn height(&self) -> f64 {
        self.y(self.nodes.saturating_sub(1)) + 80.0
    }

    fn x(&self, at: Ticks) -> f64 {
        let share = at.since(self.from).0 as f64 / self.to.since(self.from).0 as f64;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, node: u16) -> f64 {
        TOP + f64::from(node) * LANE
    }

    fn shows(&self, from: Ticks, to: Ticks) -> bool {
        from >= self.from && to <= self.to
    }

    fn head(&self, title: &str) -> String {
        let height = self.height();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"12\">\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" \
             markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
             <path d=\"M0,1 L10,5 L0,9 z\" fill=\"context-stroke\"/></marker></defs>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"34\" font-size=\"18\" fill=\"#222222\">{}</text>\n",
            escaped(title)
        )
    }

    fn site(&self, svg: &mut String, node: u16) {
        let y = self.y(node);
        let right = WIDTH - RIGHT;
        let _ = writeln!(
            svg,
            "<text x=\"20\" y=\"{:.1}\" font-size=\"16\" font-weight=\"bold\">n{node}</text>\
             <line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#888888\" \
             stroke-width=\"1.5\"/>",
            y + 5.0
        );
    }

    fn call(&self, svg: &mut String, call: &Call, written: &mut Vec<Point>) {
        let ended = call.ended.unwrap_or(self.to);
        if ended < self.from || call.began > self.to {
            return;
        }
        let (from, to) = (call.began.max(self.from), ended.min(self.to));
        // Calls of one node that overlap lie beside each other.
        let y = self.y(call.node) - 7.0 - (call.id >> 32) as f64 % 3.0 * 7.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"5\" rx=\"2\" \
             fill=\"#d9c27a\"><title>{}</title></rect>",
            self.x(from),
            (self.x(to) - self.x(from)).max(3.0),
            call.name
        );
        if call.began >= self.from {
            let (x, y) = (self.x(from), y - 2.0 - (call.id >> 32) as f64 % 3.0 * 5.0);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"10\" fill=\"#8a6d1d\">{}</text>",
                call.name
            );
            let end = Point(x + call.name.len() as f64 * LETTER, y - 4.0);
            written.extend(Point(x, y - 4.0).to(end));
        }
    }

    /// The arrow of a message that travels within the window.
    fn arrow<'m>(&self, message: &'m Message) -> Option<Arrow<'m>> {
        let received = message.received?;
        self.shows(message.sent, received).then(|| Arrow {
            from: Point(self.x(message.sent), self.y(message.from)),
            to: Point(self.x(received), self.y(message.to)),
            label: &message.label,
        })
    }

    fn axis(&self, svg: &mut String) {
        let y = self.height() - 16.0;
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{y:.1}\" fill=\"#555555\">{} us</text>\
             <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"#555555\" text-anchor=\"end\">{} us \
             (simulated)</text>",
            self.from.as_micros(),
            WIDTH - RIGHT,
            self.to.as_micros()
        );
    }
}

/// A place on the page.
#[derive(Clone, Copy, Debug)]
struct Point(f64, f64);

impl Point {
    fn distance(self, other: Point) -> f64 {
        (self.0 - other.0).hypot(self.1 - other.1)
    }

    /// So far on the way to another point.
    fn towards(self, other: Point, share: f64) -> Point {
        let part = |from: f64, to: f64| from + (to - from) * share;
        Point(part(self.0, other.0), part(self.1, other.1))
    }

    /// Points on the way to another, near enough to each other that no word fits between.
    fn to(self, other: Point) -> impl Iterator<Item = Point> {
        let steps = (self.distance(other) / 8.0).ceil().max(1.0);
        (0..=steps as u32).map(move |step| self.towards(other, f64::from(step) / steps))
    }
}

/// A message on its way.
struct Arrow<'m> {
    from: Point,
    to: Point,
    label: &'m str,
}

/// How wide a letter of a label is, about.
const LETTER: f64 = 5.6;

/// Where on its way a message's words may stand, the best places first: nearer to the sender, so
/// that arrows that cross leave each other's words alone.
const PLACES: [f64; 9] = [0.4, 0.34, 0.46, 0.28, 0.54, 0.62, 0.22, 0.7, 0.78];

impl Arrow<'_> {
    fn line(&self, svg: &mut String) {
        let (Point(x1, y1), Point(x2, y2), colour) = (self.from, self.to, colour(self.label));
        let _ = writeln!(
            svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
             stroke=\"{colour}\" stroke-width=\"1.4\" marker-end=\"url(#tip)\"/>"
        );
    }

    /// The words, where they lie on as few others, and on as few other arrows, as possible.
    fn words<'a>(
        &self,
        svg: &mut String,
        others: impl Iterator<Item = &'a Arrow<'a>>,
        written: &mut Vec<Point>,
    ) {
        let lines: Vec<Point> = others.flat_map(|other| other.from.to(other.to)).collect();
        let near = |points: &[Point], at: Point, distance: f64| {
            points.iter().any(|point| point.distance(at) < distance)
        };
        let crowded = |place: &f64| {
            let covered = self.covered(*place);
            let words = covered.iter().filter(|at| near(written, **at, 11.0));
            let arrows = covered.iter().filter(|at| near(&lines, **at, 6.0));
            let half = self.half();
            let sticks_out = *place < half || place + half > 1.0;
            words.count() * 4 + arrows.count() + usize::from(sticks_out) * 20
        };
        let place = PLACES.into_iter().min_by_key(crowded).unwrap_or(0.4);
        written.extend(self.covered(place));
        let Point(x, y) = self.from.towards(self.to, place);
        let angle = (self.to.1 - self.from.1).atan2(self.to.0 - self.from.0);
        let _ = writeln!(
            svg,
            "<text transform=\"translate({x:.1},{y:.1}) rotate({:.1})\" dy=\"-4\" \
             text-anchor=\"middle\" font-size=\"10\" fill=\"{}\" stroke=\"#ffffff\" \
             stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
            angle.to_degrees(),
            colour(self.label),
            escaped(self.label)
        );
    }

    /// What the words cover if they stand at a place.
    fn covered(&self, place: f64) -> Vec<Point> {
        let length = self.from.distance(self.to).max(1.0);
        let half = self.half();
        let end = |share: f64| self.from.towards(self.to, share);
        // Above the arrow, as one reads.
        let across = (
            (self.to.1 - self.from.1) / length,
            (self.from.0 - self.to.0) / length,
        );
        let lift = |point: Point| Point(point.0 + across.0 * 8.0, point.1 + across.1 * 8.0);
        end(place - half).to(end(place + half)).map(lift).collect()
    }

    /// Half the words' length, as a share of the arrow's.
    fn half(&self) -> f64 {
        let length = self.from.distance(self.to).max(1.0);
        self.label.len() as f64 * LETTER / 2.0 / length
    }
}

/// Reads are blue, those that demand a transaction are red, writes are green, refusals are orange.
fn colour(label: &str) -> &'static str {
    if label.starts_with(DEMANDING) {
        "#c62828"
    } else if label.contains("no:") || label.starts_with("Abort") || label.starts_with("Refused") {
        "#d07000"
    } else if ["Get", "Got", "Lock", "Granted"]
        .iter()
        .any(|name| label.starts_with(name))
    {
        "#1f5fa8"
    } else {
        "#2e7d32"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_drawn_around_the_first_demanding_read() {
        let mut recorder = Recorder::default();
        for number in 0..100u64 {
            let label = match number {
                60 => format!("{DEMANDING} <1@n0>"),
                _ => format!("Prepare {number}"),
            };
            recorder.sent(0, 1, Ticks::from_micros(number * 10), label);
            recorder.received(0, 1, Ticks::from_micros(number * 10 + 5));
        }
        recorder.called(0, Ticks::from_micros(600), 1 << 32, "read_group");
        recorder.answered(0, Ticks::from_micros(640), 1 << 32);
        let svg = recorder.svg("a & b", 2);
        assert!(svg.contains("Get with &lt;1@n0&gt;") && svg.contains("a &amp; b"));
        assert_eq!(svg.matches("marker-end").count(), SHOWN_MAX);
        assert!(svg.contains("read_group") && !svg.contains("Prepare 99"));
        assert!(Recorder::default().svg("nothing", 1).ends_with("</svg>\n"));
    }
}
