//! Anomalies as pictures: transactions are boxes with their operations, dependencies are arrows.
//!
//! A cycle is laid out clockwise on an ellipse, from the top; two transactions stand side by side. The reason for
//! each step is listed below. Text widths are estimated, since no font is available here.

use std::fmt::Write as _;

use anabranch_types::markup::escaped;

use crate::graph::Dependency;
use crate::verdict::{Anomaly, AnomalyStep, Participant};

const MARGIN: f64 = 36.0;
const LINE: f64 = 17.0;
const PADDING: f64 = 12.0;
/// The gap between boxes, for arrows and their labels.
const GAP_X: f64 = 190.0;
const GAP_Y: f64 = 74.0;
/// A character of the boxes' font.
const CHARACTER: f64 = 7.3;
/// A character of the labels on arrows and of the reasons.
const CHARACTER_WORDS: f64 = 6.7;
const CHARACTERS_MAX: usize = 44;
/// Operations shown in a box; a note stands for the others.
const OPERATIONS_MAX: usize = 8;

/// The anomalies one below another, as the text of an SVG file.
pub fn svg(anomalies: &[&Anomaly]) -> String {
    let figures: Vec<Figure<'_>> = anomalies.iter().map(|of| Figure::new(of)).collect();
    let width = figures.iter().map(|f| f.width).fold(480.0, f64::max) + 2.0 * MARGIN;
    let height = figures.iter().map(|f| f.height() + MARGIN).sum::<f64>() + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"13\">\n<defs>"
    );
    for kind in KINDS {
        let _ = write!(
            svg,
            "<marker id=\"{}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" \
             markerHeight=\"8\" orient=\"auto\"><path d=\"M0,0.8 L10,5 L0,9.2 z\" fill=\"{}\"/>\
             </marker>",
            marker(kind),
            colour(kind)
        );
    }
    let _ = writeln!(
        svg,
        "</defs>\n<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>"
    );
    let mut top = MARGIN;
    for figure in &figures {
        figure.draw(&mut svg, top, width);
        top += figure.height() + MARGIN;
    }
    svg.push_str("</svg>\n");
    svg
}

/// A point of the page.
type Point = (f64, f64);

/// A transaction's box.
struct Block {
    centre: Point,
    width: f64,
    height: f64,
    title: String,
    subtitle: Option<String>,
    lines: Vec<String>,
}

impl Block {
    fn new(participant: &Participant) -> Block {
        let title = shortened(&participant.name);
        let subtitle = participant.call.as_deref().map(shortened);
        let mut lines: Vec<String> = participant
            .operations
            .iter()
            .map(|o| shortened(o))
            .collect();
        if lines.len() > OPERATIONS_MAX {
            let more = lines.len() - OPERATIONS_MAX + 1;
            lines.truncate(OPERATIONS_MAX - 1);
            lines.push(format!("… and {more} more"));
        }
        let texts = lines.iter().chain([&title]).chain(&subtitle);
        let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
        let rows = 1 + usize::from(subtitle.is_some()) + lines.len();
        Block {
            centre: (0.0, 0.0),
            width: (longest as f64 * CHARACTER + 2.0 * PADDING).max(96.0),
            height: rows as f64 * LINE + 2.0 * PADDING + 3.0,
            title,
            subtitle,
            lines,
        }
    }

    /// Where the line from the centre to a point leaves the box, with a small margin.
    fn border(&self, (x, y): Point) -> Point {
        let (dx, dy) = (x - self.centre.0, y - self.centre.1);
        let across = |half: f64, way: f64| match way.abs() {
            way if way < 1e-6 => f64::INFINITY,
            way => half / way,
        };
        let share = across(self.width / 2.0 + 3.0, dx).min(across(self.height / 2.0 + 3.0, dy));
        let share = share.min(1.0);
        (self.centre.0 + dx * share, self.centre.1 + dy * share)
    }

    /// Whether it overlaps a rectangle of this half width and half height around a point.
    fn covers(&self, (x, y): Point, wide: f64, high: f64) -> bool {
        (x - self.centre.0).abs() < self.width / 2.0 + wide
            && (y - self.centre.1).abs() < self.height / 2.0 + high
    }

    fn corners(&self) -> [Point; 2] {
        let ((x, y), half) = (self.centre, (self.width / 2.0, self.height / 2.0));
        [(x - half.0, y - half.1), (x + half.0, y + half.1)]
    }

    fn draw(&self, svg: &mut String) {
        let (left, top) = (
            self.centre.0 - self.width / 2.0,
            self.centre.1 - self.height / 2.0,
        );
        let head = LINE + PADDING;
        let (width, height) = (self.width, self.height);
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             rx=\"7\" fill=\"#f7f8fa\" stroke=\"#5b6472\" stroke-width=\"1.2\"/>\
             <path d=\"M{left:.1},{:.1} v{:.1} a7,7 0 0 1 7,-7 h{:.1} a7,7 0 0 1 7,7 v{:.1} z\" \
             fill=\"#dfe4ec\" stroke=\"#5b6472\" stroke-width=\"1.2\"/>",
            top + head,
            7.0 - head,
            width - 14.0,
            head - 7.0
        );
        let x = left + PADDING;
        let mut y = top + LINE + 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-weight=\"bold\" fill=\"#1d2430\">{}</text>",
            escaped(&self.title)
        );
        y += LINE + 9.0;
        let mono =
            "font-family=\"Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"12\"";
        for (text, colour) in self
            .subtitle
            .iter()
            .map(|text| (text, "#6b7280"))
            .chain(self.lines.iter().map(|text| (text, "#1d2430")))
        {
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" {mono} fill=\"{colour}\">{}</text>",
                escaped(text)
            );
            y += LINE;
        }
    }
}

/// A dependency: a curved arrow with a label.
struct Arrow {
    dependency: Dependency,
    start: Point,
    bow: Point,
    end: Point,
    /// The centre of its label.
    label: Point,
    /// The width of its label.
    width: f64,
    number: usize,
    item: String,
}

/// How far an arrow between two of several boxes may be bent, the best first: outside of the ellipse, farther out,
/// inside.
const BOWS: [f64; 7] = [1.0, 2.0, 3.0, 4.5, 6.0, -1.0, -2.5];

/// Where the label may be placed along the arrow, the best first.
const PLACES: [f64; 5] = [0.5, 0.42, 0.58, 0.34, 0.66];

/// The height of a label.
const LABEL: f64 = 20.0;

impl Arrow {
    /// The item of its label, and the label's width.
    fn words(number: usize, step: &AnomalyStep) -> (String, f64) {
        let item = step.item.as_deref();
        let item = item.map_or(String::new(), |item| format!(" {}", shortened_to(item, 24)));
        let digits = number.to_string().len() + 2;
        let characters = digits + step.dependency.name().chars().count() + item.chars().count();
        (item, characters as f64 * CHARACTER_WORDS + 14.0)
    }

    /// An arrow between two placed boxes; `centre` is the centre of all.
    fn new(number: usize, step: &AnomalyStep, blocks: &[Block], centre: Point) -> Arrow {
        let (from, to) = (&blocks[step.from], &blocks[step.to]);
        let middle = (
            (from.centre.0 + to.centre.0) / 2.0,
            (from.centre.1 + to.centre.1) / 2.0,
        );
        let (item, width) = Arrow::words(number, step);
        let bowed = |bow: Point| Arrow {
            dependency: step.dependency,
            start: from.border(bow),
            bow,
            end: to.border(bow),
            label: (0.0, 0.0),
            width,
            number,
            item: item.clone(),
        };
        if blocks.len() == 2 {
            let up = if from.centre.0 < to.centre.0 {
                -1.0
            } else {
                1.0
            };
            let far = from.height.min(to.height) / 2.0 + 34.0;
            let mut arrow = bowed((middle.0, middle.1 + up * far));
            // The label is placed on the outer side: the space between the two boxes is small.
            let (x, y) = arrow.at(0.5);
            arrow.label = (x, y + up * LABEL * 0.7);
            return arrow;
        }
        let (dx, dy) = (middle.0 - centre.0, middle.1 - centre.1);
        let length = dx.hypot(dy).max(1.0);
        let others = || {
            let own = [step.from, step.to];
            let others = blocks
                .iter()
                .enumerate()
                .filter(move |(at, _)| !own.contains(at));
            others.map(|(_, block)| block)
        };
        let hidden = |arrow: &Arrow| {
            let points = (1..20).map(|at| arrow.at(f64::from(at) / 20.0));
            points
                .filter(|at| others().any(|block| block.covers(*at, 8.0, 8.0)))
                .count()
        };
        let all = BOWS.map(|by| {
            bowed((
                middle.0 + dx / length * 34.0 * by,
                middle.1 + dy / length * 26.0 * by,
            ))
        });
        let best = all.into_iter().min_by_key(hidden);
        let mut arrow = best.expect("there are several");
        let covered = |place: &f64| {
            let at = arrow.at(*place);
            let hits = blocks
                .iter()
                .filter(|block| block.covers(at, width / 2.0, LABEL / 2.0));
            hits.count()
        };
        let place = PLACES.into_iter().min_by_key(covered).unwrap_or(0.5);
        arrow.label = arrow.at(place);
        arrow
    }

    /// The point at this share of the arrow's length.
    fn at(&self, share: f64) -> Point {
        let rest = 1.0 - share;
        let part = |start: f64, bow: f64, end: f64| {
            rest * rest * start + 2.0 * rest * share * bow + share * share * end
        };
        (
            part(self.start.0, self.bow.0, self.end.0),
            part(self.start.1, self.bow.1, self.end.1),
        )
    }

    /// Points around the area that it covers.
    fn corners(&self) -> impl Iterator<Item = Point> + '_ {
        let (x, y) = self.label;
        let (half, high) = (self.width / 2.0, LABEL / 2.0);
        let line = (0..=20).map(|at| self.at(f64::from(at) / 20.0));
        line.chain([(x - half, y - high), (x + half, y + high)])
    }

    fn moved(&mut self, (x, y): Point) {
        for point in [
            &mut self.start,
            &mut self.bow,
            &mut self.end,
            &mut self.label,
        ] {
            *point = (point.0 + x, point.1 + y);
        }
    }

    fn line(&self, svg: &mut String) {
        let dashes = match self.dependency {
            Dependency::ReadWrite => " stroke-dasharray=\"7 4\"",
            Dependency::Session | Dependency::RealTime => " stroke-dasharray=\"2 4\"",
            _ => "",
        };
        let (start, bow, end) = (self.start, self.bow, self.end);
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1},{:.1} Q{:.1},{:.1} {:.1},{:.1}\" fill=\"none\" stroke=\"{}\" \
             stroke-width=\"1.8\"{dashes} marker-end=\"url(#{})\"/>",
            start.0,
            start.1,
            bow.0,
            bow.1,
            end.0,
            end.1,
            colour(self.dependency),
            marker(self.dependency),
        );
    }

    /// Draws the label above the boxes, so that it stays readable.
    fn label(&self, svg: &mut String) {
        let ((x, y), width) = (self.label, self.width);
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{LABEL}\" rx=\"4\" \
             fill=\"#ffffff\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{}\">{}. \
             <tspan font-weight=\"bold\">{}</tspan>{}</text>",
            x - width / 2.0,
            y - LABEL / 2.0,
            y + 4.5,
            colour(self.dependency),
            self.number,
            self.dependency.name(),
            escaped(&self.item)
        );
    }
}

/// One anomaly: its boxes with the upper left corner at 0, and its reasons.
struct Figure<'a> {
    anomaly: &'a Anomaly,
    blocks: Vec<Block>,
    arrows: Vec<Arrow>,
    width: f64,
    /// The width and height of the boxes with their arrows.
    drawing: (f64, f64),
    reasons: Vec<String>,
}

const HEAD: f64 = 58.0;
const REASON: f64 = 19.0;

impl<'a> Figure<'a> {
    fn new(anomaly: &'a Anomaly) -> Figure<'a> {
        let mut blocks: Vec<Block> = anomaly.transactions.iter().map(Block::new).collect();
        let numbered = || {
            let steps = anomaly.steps.iter().enumerate();
            let steps = steps.map(|(at, step)| (at + 1, step));
            steps.filter(|(_, step)| step.from != step.to)
        };
        let widths = numbered().map(|(number, step)| Arrow::words(number, step).1);
        place(&mut blocks, widths.fold(GAP_X, f64::max));
        let mut arrows: Vec<Arrow> = numbered()
            .map(|(number, step)| Arrow::new(number, step, &blocks, (0.0, 0.0)))
            .collect();
        let of_blocks = blocks.iter().flat_map(Block::corners);
        let corners: Vec<Point> = of_blocks
            .chain(arrows.iter().flat_map(Arrow::corners))
            .collect();
        let edge = |of: fn(&Point) -> f64, best: fn(f64, f64) -> f64| {
            corners.iter().map(of).reduce(best).unwrap_or(0.0)
        };
        let (left, top) = (
            edge(|at| at.0, f64::min) - 4.0,
            edge(|at| at.1, f64::min) - 4.0,
        );
        let (right, bottom) = (
            edge(|at| at.0, f64::max) + 4.0,
            edge(|at| at.1, f64::max) + 4.0,
        );
        for block in &mut blocks {
            block.centre = (block.centre.0 - left, block.centre.1 - top);
        }
        for arrow in &mut arrows {
            arrow.moved((-left, -top));
        }
        let reasons: Vec<String> = anomaly
            .steps
            .iter()
            .enumerate()
            .map(|(number, step)| format!("{}. {}", number + 1, step.reason))
            .collect();
        let title = 2.0 + anomaly.phenomenon.meaning().chars().count() as f64;
        let words = reasons.iter().map(|words| words.chars().count());
        let words = (words.max().unwrap_or(0) as f64).max(title) * CHARACTER_WORDS;
        Figure {
            anomaly,
            blocks,
            arrows,
            width: (right - left).max(words),
            drawing: (right - left, bottom - top),
            reasons,
        }
    }

    fn height(&self) -> f64 {
        HEAD + self.drawing.1 + 16.0 + self.reasons.len() as f64 * REASON
    }

    fn draw(&self, svg: &mut String, top: f64, page: f64) {
        let anomaly = self.anomaly;
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"20\" font-weight=\"bold\" \
             fill=\"#1d2430\">{}</text>\
             <text x=\"{MARGIN}\" y=\"{:.1}\" fill=\"#4a5361\">{}</text>",
            top + 18.0,
            escaped(anomaly.phenomenon.name()),
            top + 39.0,
            escaped(anomaly.phenomenon.meaning())
        );
        let shift = ((page - 2.0 * MARGIN - self.drawing.0) / 2.0).max(0.0);
        let _ = writeln!(
            svg,
            "<g transform=\"translate({:.1},{:.1})\">",
            MARGIN + shift,
            top + HEAD
        );
        for arrow in &self.arrows {
            arrow.line(svg);
        }
        for block in &self.blocks {
            block.draw(svg);
        }
        for arrow in &self.arrows {
            arrow.label(svg);
        }
        svg.push_str("</g>\n");
        let mut y = top + HEAD + self.drawing.1 + 22.0;
        for reason in &self.reasons {
            let _ = writeln!(
                svg,
                "<text x=\"{MARGIN}\" y=\"{y:.1}\" fill=\"#1d2430\">{}</text>",
                escaped(reason)
            );
            y += REASON;
        }
    }
}

/// Places boxes around the origin: one alone, two side by side, more on the smallest ellipse that keeps the gaps.
/// `gap` is the distance between two boxes side by side.
fn place(blocks: &mut [Block], gap: f64) {
    let count = blocks.len();
    if count < 2 {
        return;
    }
    if count == 2 {
        let half = (blocks[0].width + blocks[1].width) / 4.0 + gap / 2.0;
        blocks[0].centre = (-half, 0.0);
        blocks[1].centre = (half, 0.0);
        return;
    }
    let mut radius = 60.0;
    loop {
        for (number, block) in blocks.iter_mut().enumerate() {
            let angle = std::f64::consts::TAU * number as f64 / count as f64;
            block.centre = (radius * 1.5 * angle.sin(), -radius * angle.cos());
        }
        let clear = |a: &Block, b: &Block| {
            let (dx, dy) = (a.centre.0 - b.centre.0, a.centre.1 - b.centre.1);
            dx.abs() >= (a.width + b.width) / 2.0 + gap
                || dy.abs() >= (a.height + b.height) / 2.0 + GAP_Y
        };
        let all = (0..count).all(|a| (0..a).all(|b| clear(&blocks[a], &blocks[b])));
        if all {
            return;
        }
        radius *= 1.05;
    }
}

const KINDS: [Dependency; 6] = [
    Dependency::WriteWrite,
    Dependency::WriteRead,
    Dependency::ReadWrite,
    Dependency::Session,
    Dependency::RealTime,
    Dependency::Silent,
];

fn marker(kind: Dependency) -> &'static str {
    match kind {
        Dependency::WriteWrite => "ww",
        Dependency::WriteRead => "wr",
        Dependency::ReadWrite => "rw",
        Dependency::Session => "session",
        Dependency::RealTime => "time",
        Dependency::Silent => "order",
    }
}

/// Read dependencies are blue, antidependencies red, write dependencies green, the others grey.
fn colour(kind: Dependency) -> &'static str {
    match kind {
        Dependency::WriteWrite => "#2e7d32",
        Dependency::WriteRead => "#1f5fa8",
        Dependency::ReadWrite => "#c62828",
        Dependency::Session | Dependency::RealTime | Dependency::Silent => "#6b7280",
    }
}

fn shortened(text: &str) -> String {
    shortened_to(text, CHARACTERS_MAX)
}

/// Shortens a long text in the middle.
fn shortened_to(text: &str, characters_max: usize) -> String {
    let count = text.chars().count();
    if count <= characters_max {
        return text.to_string();
    }
    let half = (characters_max - 1) / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}…{tail}")
}
