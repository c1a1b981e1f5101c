//! A chart: series of points over two axes, drawn as SVG and as PNG.
//!
//! `kuva` draws; this module holds the style that all our charts share. A colour stands for one way of
//! running transactions, on every chart. Our numbers are lines with dots, those of a paper are diamonds,
//! formulas are dotted lines.

use kuva::backend::png::PngBackend;
use kuva::backend::svg::SvgBackend;
use kuva::plot::legend::{LegendEntry, LegendPosition, LegendShape};
use kuva::plot::scatter::MarkerShape;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
use kuva::render::render::{Scene, render_multiple};
use kuva::render::theme::Theme;

use super::Origin;

/// The width of a chart in pixels; PNGs have twice as many.
const WIDTH: f64 = 560.0;
/// The height of a chart in pixels, without its legend.
const HEIGHT: f64 = 360.0;
/// About the height of a line of the legend, in pixels.
const LEGEND_LINE: f64 = 20.0;

/// A chart that can be drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The name of its files: letters, digits and dashes.
    pub name: String,
    /// Its subject in one line.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Horizontal lines across the chart, for comparison.
    pub levels: Vec<Level>,
}

/// A horizontal line for comparison, such as a published peak.
#[derive(Clone, Debug)]
pub struct Level {
    /// Its name in the legend, which appends the origin.
    pub name: String,
    /// Where its number comes from.
    pub origin: Origin,
    /// Its colour.
    pub tone: Tone,
    /// Its value on the vertical axis.
    pub y: f64,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// Its scale.
    pub scale: Scale,
}

impl Axis {
    /// An axis with equal steps.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis {
            label: label.into(),
            scale: Scale::Linear,
        }
    }

    /// An axis with equal factors; it shows positive numbers only.
    pub fn logarithmic(label: impl Into<String>) -> Axis {
        Axis {
            label: label.into(),
            scale: Scale::Logarithmic,
        }
    }
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps.
    Linear,
    /// Equal factors.
    Logarithmic,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend, which appends the origin.
    pub name: String,
    /// Where its numbers come from.
    pub origin: Origin,
    /// Its colour.
    pub tone: Tone,
    /// Its points, by ascending x.
    pub points: Vec<(f64, f64)>,
}

/// A colour with a meaning. The colours can be distinguished in print, and by people who do not distinguish
/// red from green.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Coordination-avoiding transactions: RAMP-Fast.
    Avoiding,
    /// RAMP-Hybrid, whose metadata are Bloom filters.
    AvoidingHybrid,
    /// RAMP-Small, whose metadata are timestamps of transactions.
    AvoidingSmall,
    /// Two-phase locking.
    Locking,
    /// Two-phase locking with short read locks.
    LockingShort,
    /// Write locks only.
    LockingWrites,
    /// Commit checks at coordinators.
    Checking,
    /// No concurrency control: the upper bound.
    Unprotected,
    /// Anything else.
    Neutral,
}

impl Tone {
    fn colour(self) -> &'static str {
        match self {
            Tone::Avoiding => "#0072b2",
            Tone::AvoidingHybrid => "#56b4e9",
            Tone::AvoidingSmall => "#cc79a7",
            Tone::Locking => "#d55e00",
            Tone::LockingShort => "#e69f00",
            Tone::LockingWrites => "#8c5a2b",
            Tone::Checking => "#000000",
            Tone::Unprotected => "#009e73",
            Tone::Neutral => "#555555",
        }
    }
}

/// Why a chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChartError {
    /// No point is on it.
    #[error("chart {0}: no series has a point that its axes can show")]
    Empty(String),
    /// The PNG could not be encoded.
    #[error("chart {chart}: {reason}")]
    Raster {
        /// The chart's name.
        chart: String,
        /// The encoder's message.
        reason: String,
    },
}

impl Chart {
    /// Draws the chart as SVG.
    ///
    /// # Errors
    /// When no point can be drawn.
    pub fn svg(&self) -> Result<String, ChartError> {
        Ok(SvgBackend::new().render_scene(&self.scene()?))
    }

    /// Draws the chart as PNG, with two pixels for each of the SVG's.
    ///
    /// # Errors
    /// When no point can be drawn, or the picture cannot be encoded.
    pub fn png(&self) -> Result<Vec<u8>, ChartError> {
        let scene = self.scene()?;
        let drawn = PngBackend::new().with_scale(2.0).render_scene(&scene);
        drawn.map_err(|reason| ChartError::Raster {
            chart: self.name.clone(),
            reason,
        })
    }

    /// The points that the axes can show, series by series.
    fn visible(&self) -> Vec<(&Series, Vec<(f64, f64)>)> {
        let shows =
            |scale: Scale, value: f64| value.is_finite() && (scale == Scale::Linear || value > 0.0);
        let points = |series: &Series| {
            let all = series.points.iter().copied();
            all.filter(|&(x, y)| shows(self.x.scale, x) && shows(self.y.scale, y))
                .collect::<Vec<_>>()
        };
        let all = self.series.iter().map(|series| (series, points(series)));
        all.filter(|(_, points)| !points.is_empty()).collect()
    }

    fn scene(&self) -> Result<Scene, ChartError> {
        let visible = self.visible();
        if visible.is_empty() {
            return Err(ChartError::Empty(self.name.clone()));
        }
        let mut plots: Vec<Plot> = Vec::new();
        let all = || visible.iter().flat_map(|(_, points)| points);
        let lowest = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let least_x = lowest(&mut all().map(|(x, _)| *x));
        let most_x = -lowest(&mut all().map(|(x, _)| -x));
        let least_y = lowest(&mut all().map(|(_, y)| *y));
        let mut entries: Vec<LegendEntry> = Vec::new();
        for level in &self.levels {
            let ends = [(least_x, level.y), (most_x, level.y)];
            plots.push(line(level.tone, &ends).with_dashed().into());
        }
        for (series, points) in &visible {
            let (tone, circle) = (series.tone, MarkerShape::Circle);
            let shape = match series.origin {
                Origin::Measured | Origin::Simulated => {
                    plots.push(line(tone, points).into());
                    plots.push(marks(tone, points, circle, 3.5).into());
                    LegendShape::Line
                }
                Origin::Computed => {
                    plots.push(line(tone, points).with_dotted().into());
                    LegendShape::Line
                }
                Origin::Drawn => {
                    plots.push(marks(tone, points, circle, 3.5).into());
                    LegendShape::Marker(circle)
                }
                Origin::Published => {
                    plots.push(marks(tone, points, MarkerShape::Diamond, 5.0).into());
                    LegendShape::Marker(MarkerShape::Diamond)
                }
            };
            let dots = (series.origin == Origin::Computed).then(|| "2 3".to_owned());
            entries.push(legend(&series.name, series.origin, tone, shape, dots));
        }
        for level in &self.levels {
            let (shape, dashes) = (LegendShape::Line, Some("5 3".to_owned()));
            entries.push(legend(&level.name, level.origin, level.tone, shape, dashes));
        }
        let legend_height = LEGEND_LINE * entries.len().div_ceil(2) as f64;
        let mut layout = Layout::auto_from_plots(&plots)
            .with_width(WIDTH)
            .with_height(HEIGHT + legend_height)
            .with_title(self.title.clone())
            .with_title_size(15)
            .with_label_size(12)
            .with_tick_size(11)
            .with_body_size(12)
            .with_x_label(self.x.label.clone())
            .with_y_label(self.y.label.clone())
            .with_tick_format(TickFormat::Custom(std::sync::Arc::new(tick)))
            .with_theme(theme())
            .with_show_grid(true)
            .with_legend_entries(entries)
            .with_legend_position(LegendPosition::OutsideBottomColumns)
            .with_legend_col_limit(2)
            .with_legend_box(false)
            .with_font_family("DejaVu Sans, Verdana, sans-serif");
        if self.x.scale == Scale::Logarithmic {
            layout = layout.with_log_x();
        }
        if self.y.scale == Scale::Logarithmic {
            layout = layout.with_log_y();
        } else if least_y >= 0.0 {
            layout = layout.with_y_axis_min(0.0);
        }
        Ok(render_multiple(plots, layout))
    }
}

fn legend(
    name: &str,
    origin: Origin,
    tone: Tone,
    shape: LegendShape,
    dasharray: Option<String>,
) -> LegendEntry {
    LegendEntry {
        label: format!("{name} ({})", origin.name()),
        color: tone.colour().into(),
        shape,
        dasharray,
    }
}

fn line(tone: Tone, points: &[(f64, f64)]) -> LinePlot {
    LinePlot::new()
        .with_data(points.iter().copied())
        .with_color(tone.colour())
        .with_stroke_width(2.0)
}

fn marks(tone: Tone, points: &[(f64, f64)], shape: MarkerShape, size: f64) -> ScatterPlot {
    ScatterPlot::new()
        .with_data(points.iter().copied())
        .with_color(tone.colour())
        .with_marker(shape)
        .with_size(size)
}

fn theme() -> Theme {
    let mut theme = Theme::light();
    theme.grid_color = "#e6e6e6".into();
    theme
}

/// Formats a tick's number: `0.5`, `40k`, `12.7M`.
fn tick(value: f64) -> String {
    let size = value.abs();
    let (scaled, suffix) = match size {
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let mut digits = format!("{scaled:.3}");
    while digits.ends_with('0') {
        digits.pop();
    }
    if digits.ends_with('.') {
        digits.pop();
    }
    digits + suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, y: Axis) -> Chart {
        Chart {
            name: "throughput".into(),
            title: "Throughput".into(),
            x: Axis::linear("clients"),
            y,
            series: vec![Series {
                name: "locking".into(),
                origin: Origin::Published,
                tone: Tone::Locking,
                points,
            }],
            levels: vec![Level {
                name: "the peak".into(),
                origin: Origin::Published,
                tone: Tone::Locking,
                y: 4.0,
            }],
        }
    }

    #[test]
    fn ticks_are_short() {
        let cases = [
            (0.0, "0"),
            (0.25, "0.25"),
            (40_000.0, "40k"),
            (12_740_000.0, "12.74M"),
            (-1_500.0, "-1.5k"),
            (1e10, "10G"),
        ];
        for (value, text) in cases {
            assert_eq!(tick(value), text);
        }
    }

    #[test]
    fn a_drawing_names_its_series_and_axes() {
        let chart = chart(vec![(1.0, 2.0), (2.0, 3.0)], Axis::linear("per second"));
        let svg = chart.svg().expect("there are points");
        for text in [
            "Throughput",
            "clients",
            "per second",
            "locking (published)",
            "the peak (published)",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        let png = chart.png().expect("there are points");
        assert_eq!(&png[1..4], b"PNG");
    }

    #[test]
    fn a_chart_without_points_is_an_error() {
        let nothing = chart(vec![(1.0, 0.0), (2.0, f64::NAN)], Axis::logarithmic("x"));
        assert!(matches!(nothing.svg(), Err(ChartError::Empty(_))));
    }
}
