//! Anomalies as pictures: transactions are boxes with what they did, dependencies are arrows.
//!
//! A cycle is laid out on an ellipse, clockwise from the top, so that one can follow it with a
//! finger; two transactions stand side by side. Below it stands each step's reason in words. The
//! text's widths are estimated, since nothing here knows a font.

use std::fmt::Write as _;

use anabranch_types::markup::escaped;

use crate::graph::Dependency;
use crate::verdict::{Anomaly, AnomalyStep, Participant};

const MARGIN: f64 = 36.0;
const LINE: f64 = 17.0;
const PADDING: f64 = 12.0;
/// Between boxes, for arrows and what stands on them.
const GAP_X: f64 = 190.0;
const GAP_Y: f64 = 74.0;
/// A character of the boxes' font.
const CHARACTER: f64 = 7.3;
/// A character of what stands on arrows and below.
const CHARACTER_WORDS: f64 = 6.7;
const CHARACTERS_MAX: usize = 44;
/// Operations shown in a box; a note stands for the others.
const OPERATIONS_MAX: usize = 8;

/// These anomalies one below the other, as an SVG file's text.
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

    /// Where the way from the centre towards a point leaves the box, with a little distance.
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

/// One anomaly: its boxes laid out with the left upper corner at 0, and its words.
struct Figure<'a> {
    anomaly: &'a Anomaly,
    blocks: Vec<Block>,
    centre: Point,
    width: f64,
    drawing: f64,
    reasons: Vec<String>,
}

const HEAD: f64 = 58.0;
const REASON: f64 = 19.0;

impl<'a> Figure<'a> {
    fn new(anomaly: &'a Anomaly) -> Figure<'a> {
        let mut blocks: Vec<Block> = anomaly.transactions.iter().map(Block::new).collect();
        place(&mut blocks);
        let edge = |of: fn(&Block) -> f64, best: fn(f64, f64) -> f64| {
            blocks.iter().map(of).reduce(best).unwrap_or(0.0)
        };
        // Arrows bow out of the ellipse; what stands on them needs room, too.
        let room = match blocks.len() {
            0 | 1 => (40.0, 20.0),
            2 => (0.0, 44.0),
            _ => (70.0, 30.0),
        };
        let left = edge(|b| b.centre.0 - b.width / 2.0, f64::min) - room.0;
        let right = edge(|b| b.centre.0 + b.width / 2.0, f64::max) + room.0;
        let top = edge(|b| b.centre.1 - b.height / 2.0, f64::min).min(-60.0) - room.1;
        let bottom = edge(|b| b.centre.1 + b.height / 2.0, f64::max).max(60.0) + room.1;
        for block in &mut blocks {
            block.centre = (block.centre.0 - left, block.centre.1 - top);
        }
        let reasons: Vec<String> = anomaly
            .steps
            .iter()
            .enumerate()
            .map(|(number, step)| format!("{}. {}", number + 1, step.words))
            .collect();
        let title = 2.0 + anomaly.phenomenon.meaning().chars().count() as f64;
        let words = reasons.iter().map(|words| words.chars().count());
        let words = (words.max().unwrap_or(0) as f64).max(title) * CHARACTER_WORDS;
        Figure {
            anomaly,
            blocks,
            centre: (-left, -top),
            width: (right - left).max(words),
            drawing: bottom - top,
            reasons,
        }
    }

    fn height(&self) -> f64 {
        HEAD + self.drawing + 16.0 + self.reasons.len() as f64 * REASON
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
        let inner = self.blocks.iter().map(|b| b.centre.0 + b.width / 2.0);
        let inner = inner.fold(0.0, f64::max);
        let shift = ((page - 2.0 * MARGIN - inner) / 2.0).max(0.0);
        let _ = writeln!(
            svg,
            "<g transform=\"translate({:.1},{:.1})\">",
            MARGIN + shift,
            top + HEAD
        );
        for (number, step) in anomaly.steps.iter().enumerate() {
            self.arrow(svg, number + 1, step);
        }
        for block in &self.blocks {
            block.draw(svg);
        }
        svg.push_str("</g>\n");
        let mut y = top + HEAD + self.drawing + 22.0;
        for reason in &self.reasons {
            let _ = writeln!(
                svg,
                "<text x=\"{MARGIN}\" y=\"{y:.1}\" fill=\"#1d2430\">{}</text>",
                escaped(reason)
            );
            y += REASON;
        }
    }

    /// An arrow, bowed away from the middle, with its number, its kind and its item.
    fn arrow(&self, svg: &mut String, number: usize, step: &AnomalyStep) {
        let (from, to) = (&self.blocks[step.from], &self.blocks[step.to]);
        if step.from == step.to {
            return;
        }
        let middle = (
            (from.centre.0 + to.centre.0) / 2.0,
            (from.centre.1 + to.centre.1) / 2.0,
        );
        let bow = if self.blocks.len() == 2 {
            let up = if from.centre.0 < to.centre.0 {
                -1.0
            } else {
                1.0
            };
            let far = from.height.min(to.height) / 2.0 + 34.0;
            (middle.0, middle.1 + up * far)
        } else {
            let (dx, dy) = (middle.0 - self.centre.0, middle.1 - self.centre.1);
            let length = dx.hypot(dy).max(1.0);
            (middle.0 + dx / length * 34.0, middle.1 + dy / length * 26.0)
        };
        let (start, end) = (from.border(bow), to.border(bow));
        let label = (
            0.25 * start.0 + 0.5 * bow.0 + 0.25 * end.0,
            0.25 * start.1 + 0.5 * bow.1 + 0.25 * end.1,
        );
        let colour = colour(step.dependency);
        let dashes = match step.dependency {
            Dependency::ReadWrite => " stroke-dasharray=\"7 4\"",
            Dependency::Session | Dependency::RealTime => " stroke-dasharray=\"2 4\"",
            _ => "",
        };
        let item = step
            .item
            .as_deref()
            .map_or(String::new(), |item| format!(" {}", shortened_to(item, 24)));
        let kind = step.dependency.name();
        let characters = 3 + kind.chars().count() + item.chars().count();
        let width = characters as f64 * CHARACTER_WORDS + 14.0;
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1},{:.1} Q{:.1},{:.1} {:.1},{:.1}\" fill=\"none\" stroke=\"{colour}\" \
             stroke-width=\"1.8\"{dashes} marker-end=\"url(#{})\"/>\
             <rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"20\" rx=\"4\" \
             fill=\"#ffffff\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{colour}\">{number}. \
             <tspan font-weight=\"bold\">{kind}</tspan>{}</text>",
            start.0,
            start.1,
            bow.0,
            bow.1,
            end.0,
            end.1,
            marker(step.dependency),
            label.0 - width / 2.0,
            label.1 - 10.0,
            label.0,
            label.1 + 4.5,
            escaped(&item)
        );
    }
}

/// Puts boxes round the origin: one alone, two side by side, more on an ellipse that is as small as
/// the gaps between them permit.
fn place(blocks: &mut [Block]) {
    let count = blocks.len();
    if count < 2 {
        return;
    }
    if count == 2 {
        let half = (blocks[0].width + blocks[1].width) / 4.0 + GAP_X / 2.0;
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
            dx.abs() >= (a.width + b.width) / 2.0 + GAP_X * 0.6
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

/// A long text keeps its two ends.
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
