//! The layout of the page: overlapping bars get rows of their own, and labels are placed where they cover
//! as little as possible.

use anabranch_types::Ticks;

/// The approximate width of a letter of small text.
pub(super) const LETTER: f64 = 5.6;

/// The positions of a label along its arrow, best first: nearer to the sender, so that arrows that cross do not cross
/// each other's labels.
const PLACES: [f64; 11] = [
    0.4, 0.34, 0.46, 0.28, 0.52, 0.22, 0.58, 0.64, 0.7, 0.16, 0.78,
];

/// A point on the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point(pub(super) f64, pub(super) f64);

impl Point {
    fn distance(self, other: Point) -> f64 {
        (self.0 - other.0).hypot(self.1 - other.1)
    }

    /// The point at this share of the way to another.
    pub(super) fn towards(self, other: Point, share: f64) -> Point {
        let part = |from: f64, to: f64| from + (to - from) * share;
        Point(part(self.0, other.0), part(self.1, other.1))
    }

    /// Points on the way to another, so dense that no label fits between two.
    pub(super) fn to(self, other: Point) -> impl Iterator<Item = Point> {
        let steps = (self.distance(other) / 8.0).ceil().max(1.0);
        (0..=steps as u32).map(move |step| self.towards(other, f64::from(step) / steps))
    }
}

/// A horizontal span on the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) left: f64,
    pub(super) right: f64,
}

/// The time axis of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) from: Ticks,
    pub(super) to: Ticks,
    pub(super) left: f64,
    pub(super) right: f64,
}

impl Scale {
    pub(super) fn x(&self, at: Ticks) -> f64 {
        let share = at.since(self.from).0 as f64 / self.to.since(self.from).0.max(1) as f64;
        self.left + share * (self.right - self.left)
    }

    /// The same for a time that may be before the window.
    pub(super) fn x_beyond(&self, at: Ticks) -> f64 {
        match at < self.from {
            true => 2.0 * self.left - self.x(Ticks(2 * self.from.0 - at.0)),
            false => self.x(at),
        }
    }

    /// The span of a time on the page, cut to the window; `None` if it is outside.
    pub(super) fn span(&self, began: Ticks, ended: Option<Ticks>) -> Option<Span> {
        let ended = ended.unwrap_or(self.to);
        (ended >= self.from && began <= self.to).then(|| Span {
            left: self.x(began.max(self.from)),
            right: self.x(ended.min(self.to)),
        })
    }

    /// About so many round times in the window, with their labels.
    pub(super) fn ticks(&self, about: u64) -> Vec<(f64, String)> {
        let (from, to) = (self.from.as_micros(), self.to.as_micros());
        let least = ((to - from) / about.max(1)).max(1);
        let mut step = 1;
        for factor in [2, 5, 10].into_iter().cycle() {
            if step >= least {
                break;
            }
            // 1, 2, 5, 10, 20, 50 and so on.
            step = match factor {
                2 => step * 2,
                5 => step / 2 * 5,
                _ => step * 2,
            };
        }
        let first = from.div_ceil(step) * step;
        (first..=to)
            .step_by(step as usize)
            .map(|at| {
                (
                    self.x(Ticks::from_micros(at)),
                    format!("{} us", grouped(at)),
                )
            })
            .collect()
    }
}

/// A number with grouped thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Assigns bars, sorted from left to right, to rows in which they do not overlap. Returns each bar's row, or `None` if
/// all rows are occupied, and the number of rows.
pub(super) fn rows(bars: &[Span], rows_max: usize) -> (Vec<Option<usize>>, usize) {
    const GAP: f64 = 4.0;
    let mut ends: Vec<f64> = Vec::new();
    let placed = bars
        .iter()
        .map(|bar| {
            let free = ends.iter().position(|end| *end + GAP <= bar.left);
            let row = match free {
                Some(row) => row,
                None if ends.len() < rows_max => {
                    ends.push(0.0);
                    ends.len() - 1
                }
                None => return None,
            };
            ends[row] = bar.right;
            Some(row)
        })
        .collect();
    (placed, ends.len())
}

/// A straight line with a label along it.
#[derive(Clone, Debug)]
pub(super) struct LabelledLine {
    pub(super) from: Point,
    pub(super) to: Point,
    pub(super) text: String,
}

impl LabelledLine {
    /// The part between two edges of the page, and whether the line's end is in it.
    pub(super) fn within(&self, left: f64, right: f64) -> (LabelledLine, bool) {
        let wide = (self.to.0 - self.from.0).max(f64::EPSILON);
        let share = |x: f64| ((x - self.from.0) / wide).clamp(0.0, 1.0);
        let part = LabelledLine {
            from: self.from.towards(self.to, share(left)),
            to: self.from.towards(self.to, share(right)),
            text: self.text.clone(),
        };
        (part, self.to.0 <= right + 0.5)
    }

    /// Whether it is shorter than the whole line.
    pub(super) fn is_cut(&self, whole: &LabelledLine) -> bool {
        self.from.distance(self.to) + 1.0 < whole.from.distance(whole.to)
    }

    /// Whether its label is not longer than the line.
    pub(super) fn has_room(&self) -> bool {
        self.half() <= 0.5
    }

    /// The position, as a share of the line, where its label covers the fewest other labels and lines. Adds the label
    /// to `written`.
    pub(super) fn place<'a>(
        &self,
        others: impl Iterator<Item = &'a LabelledLine>,
        written: &mut Vec<Point>,
    ) -> f64 {
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
        place
    }

    /// The angle of the label in degrees.
    pub(super) fn angle(&self) -> f64 {
        let angle = (self.to.1 - self.from.1).atan2(self.to.0 - self.from.0);
        angle.to_degrees()
    }

    /// The points that the label covers at a position.
    fn covered(&self, place: f64) -> Vec<Point> {
        let length = self.from.distance(self.to).max(1.0);
        let half = self.half();
        let end = |share: f64| self.from.towards(self.to, share);
        // Above the line.
        let across = (
            (self.to.1 - self.from.1) / length,
            (self.from.0 - self.to.0) / length,
        );
        let lift = |point: Point| Point(point.0 + across.0 * 8.0, point.1 + across.1 * 8.0);
        end(place - half).to(end(place + half)).map(lift).collect()
    }

    /// Half the label's length, as a share of the line's.
    fn half(&self) -> f64 {
        let length = self.from.distance(self.to).max(1.0);
        self.text.chars().count() as f64 * LETTER / 2.0 / length
    }
}
