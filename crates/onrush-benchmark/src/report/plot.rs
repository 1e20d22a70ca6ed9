//! Results as plots, in SVG or PNG.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::sweep::Cell;

const SIZE: (u32, u32) = (900, 480);
const COLORS: [RGBColor; 6] = [
    RGBColor(0xc0, 0x39, 0x2b),
    RGBColor(0x29, 0x80, 0xb9),
    RGBColor(0x27, 0xae, 0x60),
    RGBColor(0x8e, 0x44, 0xad),
    RGBColor(0xd3, 0x54, 0x00),
    RGBColor(0x2c, 0x3e, 0x50),
];

/// A line of a plot.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Cells by test and server, each with the place of its value on the x axis.
fn series(cells: &[Cell], y: impl Fn(&Cell) -> f64) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for cell in cells {
        let name = format!("{} on {}", cell.test, cell.server);
        let at = all.iter().position(|series| series.name == name).unwrap_or_else(|| {
            all.push(Series { name, points: Vec::new() });
            all.len() - 1
        });
        let x = number(&cell.value).unwrap_or(all[at].points.len() as f64 + 1.0);
        all[at].points.push((x, y(cell)));
    }
    all
}

/// The number in a value of a sweep, times as milliseconds.
fn number(value: &str) -> Option<f64> {
    value.parse().ok().or_else(|| crate::args::time(value).map(|time| time.as_secs_f64() * 1e3))
}

/// What is to be drawn.
pub struct Plot {
    lines: Vec<Series>,
    x_title: String,
    y_title: &'static str,
}

/// Throughput against the value of a sweep.
pub fn throughput_plot(cells: &[Cell], x_title: &str) -> Plot {
    let lines = series(cells, |cell| cell.rps() / 1e3);
    Plot { lines, x_title: x_title.into(), y_title: "1,000 commands a second" }
}

/// Latency by percentile, a line for each cell.
pub fn latency_plot(cells: &[Cell]) -> Plot {
    let lines: Vec<Series> = cells
        .iter()
        .map(|cell| {
            let latencies = &cell.median().latencies;
            let mut points = Vec::new();
            let mut rest = 1.0_f64;
            while rest * latencies.len() as f64 >= 1.0 {
                points.push((1.0 / rest, latencies.value_at_quantile(1.0 - rest).max(1) as f64 / 1e6));
                rest /= 2.0;
            }
            Series { name: format!("{} {} on {}", cell.test, cell.value, cell.server), points }
        })
        .collect();
    Plot { lines, x_title: "one in so many commands takes longer".into(), y_title: "milliseconds" }
}

fn failed(error: &dyn std::fmt::Display) -> String {
    format!("the plot: {error}")
}

impl Plot {
    /// As SVG.
    ///
    /// # Errors
    /// The drawing failed, or nothing was measured.
    pub fn svg(&self) -> Result<String, String> {
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area())?;
        Ok(svg)
    }

    /// Into a file: PNG if it is called so, else SVG.
    ///
    /// # Errors
    /// The drawing failed, nothing was measured, the file cannot be written, or its name says neither.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("png") => self
                .draw(&BitMapBackend::new(file, SIZE).into_drawing_area())
                .map_err(|error| format!("{}: {error}", file.display())),
            Some("svg") | None => {
                std::fs::write(file, self.svg()?).map_err(|error| format!("{}: {error}", file.display()))
            }
            Some(_) => Err(format!("{}: plots are SVG or PNG; name a .svg or .png file", file.display())),
        }
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> Result<(), String>
    where
        B::ErrorType: 'static,
    {
        // Letters are measured, and in pictures drawn, with a font of our own, so that none has to be installed.
        register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT)
            .map_err(|_| "the plot: its font".to_owned())?;
        draw(&self.lines, &self.x_title, self.y_title, root)
    }
}

fn draw<B: DrawingBackend>(
    lines: &[Series],
    x_title: &str,
    y_title: &str,
    root: &DrawingArea<B, Shift>,
) -> Result<(), String>
where
    B::ErrorType: 'static,
{
    let points = || lines.iter().flat_map(|line| &line.points);
    let bounds = |axis: fn(&(f64, f64)) -> f64| {
        points().map(axis).fold((f64::INFINITY, 0.0_f64), |(low, high), at| (low.min(at), high.max(at)))
    };
    let ((left, right), (low, high)) = (bounds(|point| point.0), bounds(|point| point.1));
    if points().next().is_none() {
        return Err("the plot: nothing was measured".into());
    }
    root.fill(&WHITE).map_err(|error| failed(&error))?;
    let (left, right) = (left.max(1e-3), right.max(left.max(1e-3) * 1.01));
    let (low, high) = ((low / 1.5).max(1e-6), high.max(1e-5) * 1.5);
    let mut chart = ChartBuilder::on(root)
        .margin(12)
        .x_label_area_size(45)
        .y_label_area_size(75)
        .build_cartesian_2d((left..right).log_scale(), (low..high).log_scale())
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc(x_title)
        .y_desc(y_title)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .draw()
        .map_err(|error| failed(&error))?;
    for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(2)).point_size(3))
            .map_err(|error| failed(&error))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()
        .map_err(|error| failed(&error))?;
    root.present().map_err(|error| failed(&error))?;
    Ok(())
}

fn short(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.3}", n / 1e6).trim_end_matches('0').trim_end_matches('.').to_owned() + "M",
        n if n >= 1e3 => format!("{:.3}", n / 1e3).trim_end_matches('0').trim_end_matches('.').to_owned() + "k",
        n if n >= 1.0 => format!("{n:.1}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        n => format!("{n:.4}").trim_end_matches('0').to_owned(),
    }
}
