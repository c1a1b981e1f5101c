//! The coordination graph: transaction types, joined by the invariants for which their calls have to be ordered.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write;

use anabranch_types::markup::escaped;

use super::names::class_name;
use super::not_analysed::{distinct, name_of};
use super::notes::mark;
use crate::plan::{CoordinationClass, Edge, Plan};

/// The height of a type's box, in pixels.
const HEIGHT: f64 = 46.0;

/// The least width of the drawing, in pixels.
const NARROW: f64 = 560.0;

/// The gap between two boxes of a row and between two rows, in pixels.
const GAP: f64 = 14.0;

/// The approximate width of a letter, in pixels.
const LETTER: f64 = 8.2;

/// With more edges than this the picture has numbers, and only the table has names.
const NAMED_MAX: usize = 4;

/// Longer names of invariants are cut at an edge, in characters.
const NAME_MAX: usize = 30;

/// A type's box, by its centre.
#[derive(Clone, Copy, Debug)]
struct Node {
    x: f64,
    y: f64,
    width: f64,
}

/// The graph as an SVG element. Types that have no edge stand in rows below the others.
pub(super) fn svg(plan: &Plan, edges: &[Edge]) -> String {
    let is_bound = |at: &usize| edges.iter().any(|e| e.ends.0 == *at || e.ends.1 == *at);
    let (bound, free): (Vec<usize>, Vec<usize>) = distinct(plan).partition(is_bound);
    let wide = |at: &usize| {
        let name = name_of(plan, &plan.entries[*at]);
        34.0 + LETTER * name.chars().count().max(6) as f64
    };
    let widest = bound.iter().map(wide).fold(0.0, f64::max);
    // An ellipse on which neighbours have room.
    let count = bound.len() as f64;
    let (across, down) = match bound.len() {
        0 | 1 => (0.0, 0.0),
        2 => (widest / 2.0 + 150.0, 0.0),
        _ => (
            (widest * count / TAU).max(widest / 2.0 + 150.0),
            (HEIGHT * count / 3.0).max(110.0),
        ),
    };
    let loops = 60.0;
    let width = (2.0 * across + widest + 2.0 * loops).max(760.0);
    let mut places: BTreeMap<usize, Node> = BTreeMap::new();
    let middle = loops + down + HEIGHT / 2.0;
    for (turn, at) in bound.iter().enumerate() {
        let angle = TAU * (turn as f64 / count) - TAU / 4.0 * f64::from(u8::from(count > 2.0));
        let place = Node {
            x: width / 2.0 - across * angle.cos(),
            y: middle + down * angle.sin(),
            width: wide(at),
        };
        places.insert(*at, place);
    }
    let mut below = match bound.is_empty() {
        true => 16.0,
        false => middle + down + HEIGHT / 2.0 + loops + 14.0,
    };
    for row in rows(&free, width - 20.0, &wide) {
        let taken: f64 = row.iter().map(&wide).sum::<f64>() + GAP * (row.len() - 1) as f64;
        let mut left = (width - taken) / 2.0;
        for at in row {
            let place = Node {
                x: left + wide(&at) / 2.0,
                y: below + HEIGHT / 2.0,
                width: wide(&at),
            };
            places.insert(at, place);
            left += wide(&at) + GAP;
        }
        below += HEIGHT + GAP;
    }
    let height = below;
    // On a phone the drawing is scrolled rather than made too small to read.
    let narrow = width.min(NARROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         style=\"min-width:{narrow:.0}px;max-width:{width:.0}px;margin:0 auto\" role=\"img\" \
         aria-label=\"The coordination graph\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\">\n"
    );
    for (number, edge) in edges.iter().enumerate() {
        let (from, to) = (places[&edge.ends.0], places[&edge.ends.1]);
        put_edge(
            &mut svg,
            plan,
            edge,
            number + 1,
            edges.len(),
            from,
            to,
            (width / 2.0, middle),
        );
    }
    for (at, place) in &places {
        put_box(&mut svg, plan, *at, *place);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The boxes in rows that fit the width.
fn rows(types: &[usize], width: f64, wide: &dyn Fn(&usize) -> f64) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut left = 0.0;
    for at in types {
        left -= wide(at) + GAP;
        match rows.last_mut().filter(|_| left >= -GAP) {
            Some(row) => row.push(*at),
            None => {
                left = width - wide(at) - GAP;
                rows.push(vec![*at]);
            }
        }
    }
    rows
}

/// The names of all invariants of an edge.
fn title(plan: &Plan, edge: &Edge) -> String {
    let names = edge
        .invariants
        .keys()
        .map(|i| plan.invariants[*i].name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// The label at an edge.
fn label(plan: &Plan, edge: &Edge, number: usize, edges: usize) -> String {
    if edges > NAMED_MAX {
        return number.to_string();
    }
    let first = edge.invariants.keys().next();
    let name = first.map_or("", |i| plan.invariants[*i].name.as_str());
    let mut label: String = name.chars().take(NAME_MAX).collect();
    if name.chars().count() > NAME_MAX {
        label.push('…');
    }
    match edge.invariants.len() {
        0 | 1 => label,
        more => format!("{label} and {} more", more - 1),
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "an edge lies between two places around a middle"
)]
fn put_edge(
    svg: &mut String,
    plan: &Plan,
    edge: &Edge,
    number: usize,
    edges: usize,
    from: Node,
    to: Node,
    middle: (f64, f64),
) {
    let (path, at) = if edge.ends.0 == edge.ends.1 {
        // A loop on the side away from the middle.
        let up = if from.y <= middle.1 { -1.0 } else { 1.0 };
        let (x, y) = (from.x, from.y + up * HEIGHT / 2.0);
        let reach = y + up * 52.0;
        let path = format!(
            "M{:.1} {y:.1} C{:.1} {reach:.1} {:.1} {reach:.1} {:.1} {y:.1}",
            x - 26.0,
            x - 40.0,
            x + 40.0,
            x + 26.0
        );
        // A number is on its loop, a name beyond it.
        let beyond = if edges > NAMED_MAX { 39.0 } else { 48.0 };
        (path, (x, y + up * beyond))
    } else {
        // Bent away from the middle, so that edges across do not all meet there.
        let half = ((from.x + to.x) / 2.0, (from.y + to.y) / 2.0);
        let along = (to.x - from.x, to.y - from.y);
        let length = along.0.hypot(along.1).max(1.0);
        let aside = (-along.1 / length, along.0 / length);
        let bend = (half.0 + aside.0 * 26.0, half.1 + aside.1 * 26.0);
        let path = format!(
            "M{:.1} {:.1} Q{:.1} {:.1} {:.1} {:.1}",
            from.x, from.y, bend.0, bend.1, to.x, to.y
        );
        (path, ((half.0 + bend.0) / 2.0, (half.1 + bend.1) / 2.0))
    };
    let title = escaped(&title(plan, edge));
    let label = escaped(&label(plan, edge, number, edges));
    let _ = writeln!(
        svg,
        "<g><title>{title}</title><path d=\"{path}\" fill=\"none\" stroke=\"#b3261e\" \
         stroke-width=\"1.8\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
         dominant-baseline=\"central\" fill=\"#8c1d18\" font-size=\"13\" stroke=\"#fff\" \
         stroke-width=\"5\" stroke-linejoin=\"round\" paint-order=\"stroke\">{label}</text></g>",
        at.0, at.1
    );
}

fn put_box(svg: &mut String, plan: &Plan, at: usize, place: Node) {
    let entry = &plan.entries[at];
    let (fill, ink) = match entry.class {
        CoordinationClass::Free => ("#e8f5ee", "#00704f"),
        CoordinationClass::Local => ("#fff4dc", "#8a5a00"),
        CoordinationClass::Global => ("#fdeaea", "#b3261e"),
    };
    let (left, top) = (place.x - place.width / 2.0, place.y - HEIGHT / 2.0);
    let name = escaped(&name_of(plan, entry));
    let class = format!("{} {}", mark(entry.class), class_name(entry.class));
    let _ = writeln!(
        svg,
        "<a href=\"#type-{at}\"><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
         height=\"{HEIGHT}\" rx=\"9\" fill=\"{fill}\" stroke=\"{ink}\" stroke-width=\"1.4\"/>\
         <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#1c2430\" \
         font-weight=\"600\">{name}</text><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
         fill=\"{ink}\" font-size=\"12\">{class}</text></a>",
        place.width,
        place.y - 3.0,
        place.y + 14.0,
        x = place.x,
    );
}
