//! Where things stand on the page: bars that overlap lie above each other, and words find a place
//! where they cover as little as possible.

use anabranch_types::Ticks;

/// How wide a letter of small text is, about.
pub(super) const LETTER: f64 = 5.6;

/// Where on its way a message's words may stand, the best places first: nearer to the sender, so
/// that arrows that cross leave each other's words alone.
const PLACES: [f64; 11] = [
    0.4, 0.34, 0.46, 0.28, 0.52, 0.22, 0.58, 0.64, 0.7, 0.16, 0.78,
];

/// A place on the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point(pub(super) f64, pub(super) f64);

impl Point {
    fn distance(self, other: Point) -> f64 {
        (self.0 - other.0).hypot(self.1 - other.1)
    }

    /// So far on the way to another point.
    pub(super) fn towards(self, other: Point, share: f64) -> Point {
        let part = |from: f64, to: f64| from + (to - from) * share;
        Point(part(self.0, other.0), part(self.1, other.1))
    }

    /// Points on the way to another, near enough to each other that no word fits between.
    pub(super) fn to(self, other: Point) -> impl Iterator<Item = Point> {
        let steps = (self.distance(other) / 8.0).ceil().max(1.0);
        (0..=steps as u32).map(move |step| self.towards(other, f64::from(step) / steps))
    }
}

/// The part of a window that something takes up, from left to right on the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) left: f64,
    pub(super) right: f64,
}

/// Time on the page.
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

    /// The same, for a time that may be outside the window.
    pub(super) fn x_beyond(&self, at: Ticks) -> f64 {
        match at < self.from {
            true => 2.0 * self.left - self.x(Ticks(2 * self.from.0 - at.0)),
            false => self.x(at),
        }
    }

    /// What lasts from one time to another, as far as it is within the window; nothing if none of it.
    pub(super) fn extent(&self, began: Ticks, ended: Option<Ticks>) -> Option<Extent> {
        let ended = ended.unwrap_or(self.to);
        (ended >= self.from && began <= self.to).then(|| Extent {
            left: self.x(began.max(self.from)),
            right: self.x(ended.min(self.to)),
        })
    }

    /// Round times in the window, about so many, and what they are in words.
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

/// A number with its thousands apart.
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

/// Puts bars into rows in which they do not overlap, the first row that is free; given from left to
/// right, gives each bar's row and how many rows there are. What finds no row of so many has none.
pub(super) fn rows(bars: &[Extent], rows_max: usize) -> (Vec<Option<usize>>, usize) {
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

/// A straight line with words along it.
#[derive(Clone, Debug)]
pub(super) struct Worded {
    pub(super) from: Point,
    pub(super) to: Point,
    pub(super) words: String,
}

impl Worded {
    /// Its part between two edges of the page, and whether its end is there.
    pub(super) fn within(&self, left: f64, right: f64) -> (Worded, bool) {
        let wide = (self.to.0 - self.from.0).max(f64::EPSILON);
        let share = |x: f64| ((x - self.from.0) / wide).clamp(0.0, 1.0);
        let part = Worded {
            from: self.from.towards(self.to, share(left)),
            to: self.from.towards(self.to, share(right)),
            words: self.words.clone(),
        };
        (part, self.to.0 <= right + 0.5)
    }

    /// Whether it is but a part of another.
    pub(super) fn is_cut(&self, whole: &Worded) -> bool {
        self.from.distance(self.to) + 1.0 < whole.from.distance(whole.to)
    }

    /// Whether its words are no longer than it is.
    pub(super) fn has_room(&self) -> bool {
        self.half() <= 0.5
    }

    /// Where on the line its words cover as few others, and as few other lines, as possible: how far from
    /// its beginning. They count as written from then on.
    pub(super) fn place<'a>(
        &self,
        others: impl Iterator<Item = &'a Worded>,
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

    /// The angle at which the words are read, in degrees, never upside down.
    pub(super) fn angle(&self) -> f64 {
        let angle = (self.to.1 - self.from.1).atan2(self.to.0 - self.from.0);
        angle.to_degrees()
    }

    /// What the words cover if they stand at a place.
    fn covered(&self, place: f64) -> Vec<Point> {
        let length = self.from.distance(self.to).max(1.0);
        let half = self.half();
        let end = |share: f64| self.from.towards(self.to, share);
        // Above the line, as one reads.
        let across = (
            (self.to.1 - self.from.1) / length,
            (self.from.0 - self.to.0) / length,
        );
        let lift = |point: Point| Point(point.0 + across.0 * 8.0, point.1 + across.1 * 8.0);
        end(place - half).to(end(place + half)).map(lift).collect()
    }

    /// Half the words' length, as a share of the line's.
    fn half(&self) -> f64 {
        let length = self.from.distance(self.to).max(1.0);
        self.words.chars().count() as f64 * LETTER / 2.0 / length
    }
}
