//! Lines in a plot, as SVG or PNG. The legend stands in a column beside them.

use std::path::Path;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use crate::error::Error;

const WIDTH: u32 = 980;
const HEIGHT: u32 = 480;
/// Height of a line of the legend, and width of a letter in it.
const LEGEND_LINE: i32 = 18;
const LETTER: u32 = 7;
/// Width of the mark of a line with the space around it.
const LEGEND_MARK: u32 = 56;
const LEGEND_WIDTH_MAX: u32 = 420;

/// The palette: colours that people with any sight tell apart, dark enough on white.
const COLORS: [RGBColor; 7] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x8c, 0x6d, 0x1f),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x33, 0x33, 0x33),
];

/// The mark at each point of a line. Their number has no divisor in common with that of the colours, so that 35 lines differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Disc,
    Square,
    Triangle,
    Cross,
    Ring,
}

const MARKERS: [Marker; 5] = [Marker::Disc, Marker::Square, Marker::Triangle, Marker::Cross, Marker::Ring];

/// How a line looks: one of the colours and one of the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    color: usize,
    marker: usize,
}

impl Look {
    /// The look of a line: different for each of the first 35 lines of a plot.
    pub fn nth(index: usize) -> Look {
        Look { color: index % COLORS.len(), marker: index % MARKERS.len() }
    }

    /// One colour for each group of lines and one mark for each line of it; `None` if there are not enough.
    pub fn grouped(group: usize, line: usize) -> Option<Look> {
        (group < COLORS.len() && line < MARKERS.len()).then_some(Look { color: group, marker: line })
    }

    fn parts(self) -> (RGBColor, Marker) {
        (COLORS[self.color], MARKERS[self.marker])
    }
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Its colour and mark.
    pub look: Look,
}

/// An axis: its title, and whether equal distances are equal factors.
#[derive(Clone, Debug)]
pub struct Axis {
    title: String,
    is_log: bool,
}

impl Axis {
    pub fn log(title: &str) -> Axis {
        Axis { title: title.to_owned(), is_log: true }
    }

    pub fn linear(title: &str) -> Axis {
        Axis { title: title.to_owned(), is_log: false }
    }
}

/// A plot. If the x axis is logarithmic, the y axis is too.
#[derive(Clone, Debug)]
pub struct Plot {
    pub lines: Vec<Line>,
    pub x: Axis,
    pub y: Axis,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Plot(error.to_string())
}

impl Plot {
    /// As SVG.
    ///
    /// # Errors
    /// The drawing failed, or nothing was measured.
    pub fn svg(&self) -> Result<String, Error> {
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, self.size()).into_drawing_area())?;
        Ok(svg)
    }

    /// Writes it into a file: PNG or SVG, by the file's name.
    ///
    /// # Errors
    /// The drawing failed, nothing was measured, the file cannot be written, or its name says neither.
    pub fn write(&self, file: &Path) -> Result<(), Error> {
        if Plot::is_png(file)? {
            let area = BitMapBackend::new(file, self.size()).into_drawing_area();
            return self.draw(&area).map_err(|error| Error::Plot(format!("{}: {error}", file.display())));
        }
        std::fs::write(file, self.svg()?).map_err(|error| Error::file(file, error))
    }

    /// Whether a file of this name holds a PNG; otherwise it is an SVG.
    ///
    /// # Errors
    /// When it can be neither.
    pub fn is_png(file: &Path) -> Result<bool, Error> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("png") => Ok(true),
            Some("svg") | None => Ok(false),
            Some(_) => {
                Err(Error::Options(format!("{}: plots are SVG or PNG; name a .svg or .png file", file.display())))
            }
        }
    }

    /// Tall enough for the legend.
    fn size(&self) -> (u32, u32) {
        (WIDTH, HEIGHT.max((self.lines.len() as u32 + 3) * LEGEND_LINE as u32))
    }

    fn legend_width(&self) -> u32 {
        let longest = self.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0) as u32;
        (longest * LETTER + LEGEND_MARK).min(LEGEND_WIDTH_MAX)
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, Shift>) -> Result<(), Error>
    where
        B::ErrorType: 'static,
    {
        // Letters are measured, and in pictures drawn, with a built-in font, so that none must be installed.
        register_font("sans-serif", FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT)
            .map_err(|_| Error::Plot("its font".into()))?;
        root.fill(&WHITE).map_err(failed)?;
        let (chart, legend) = root.split_horizontally(WIDTH - self.legend_width());
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let bounds = |axis: fn(&(f64, f64)) -> f64| {
            points().map(axis).fold((f64::INFINITY, 0.0_f64), |(low, high), at| (low.min(at), high.max(at)))
        };
        let ((left, right), (low, high)) = (bounds(|point| point.0), bounds(|point| point.1));
        if points().next().is_none() {
            return Err(Error::Plot("nothing was measured".into()));
        }
        let y = ((low / 1.5).max(1e-6)..high.max(1e-5) * 1.5).log_scale();
        let mut builder = ChartBuilder::on(&chart);
        builder.margin(12).x_label_area_size(45).y_label_area_size(75);
        let marks = if self.x.is_log {
            let left = left.max(1e-3);
            let x = (left..right.max(left * 1.01)).log_scale();
            self.fill(builder.build_cartesian_2d(x, y).map_err(failed)?)?
        } else if self.y.is_log {
            self.fill(builder.build_cartesian_2d(0.0..right.max(1e-3), y).map_err(failed)?)?
        } else {
            let y = 0.0..high.max(1e-5) * 1.05;
            self.fill(builder.build_cartesian_2d(0.0..right.max(1e-3), y).map_err(failed)?)?
        };
        marks.iter().try_for_each(|mark| draw_mark(root, *mark))?;
        self.draw_legend(&legend)?;
        root.present().map_err(failed)
    }

    /// Draws the axes and lines; returns the places of the marks, in pixels of the whole picture.
    fn fill<B, X, Y>(&self, mut chart: ChartContext<'_, B, Cartesian2d<X, Y>>) -> Result<Vec<Mark>, Error>
    where
        B: DrawingBackend,
        B::ErrorType: 'static,
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        chart
            .configure_mesh()
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .light_line_style(RGBColor(0xf2, 0xf2, 0xf2))
            .draw()
            .map_err(failed)?;
        let mut marks = Vec::new();
        for line in &self.lines {
            let (color, marker) = line.look.parts();
            let path = line.points.iter().copied();
            chart.draw_series(LineSeries::new(path, color.stroke_width(2))).map_err(failed)?;
            marks.extend(line.points.iter().map(|at| (chart.backend_coord(at), marker, color)));
        }
        Ok(marks)
    }

    /// The lines as the legend has them: many of them in the order in which they end beside it.
    fn in_legend(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        if lines.len() > COLORS.len() {
            let end = |line: &Line| line.points.last().map_or(0.0, |point| point.1);
            lines.sort_by(|one, other| end(other).total_cmp(&end(one)));
        }
        lines
    }

    fn draw_legend<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), Error>
    where
        B::ErrorType: 'static,
    {
        let letters_max = ((self.legend_width() - LEGEND_MARK) / LETTER) as usize;
        for (index, line) in self.in_legend().into_iter().enumerate() {
            let (color, marker) = line.look.parts();
            let y = 24 + index as i32 * LEGEND_LINE;
            area.draw(&PathElement::new([(4, y), (32, y)], color.stroke_width(2))).map_err(failed)?;
            draw_mark(area, ((18, y), marker, color))?;
            let mut name: String = line.name.chars().take(letters_max).collect();
            if name.len() < line.name.len() {
                name.pop();
                name.push('…');
            }
            let style = ("sans-serif", 13).into_font().color(&BLACK);
            area.draw(&Text::new(name, (40, y - 7), style)).map_err(failed)?;
        }
        Ok(())
    }
}

/// The mark of a line, and where it goes in pixels.
type Mark = ((i32, i32), Marker, RGBColor);

fn draw_mark<B: DrawingBackend>(area: &DrawingArea<B, Shift>, (at, marker, color): Mark) -> Result<(), Error>
where
    B::ErrorType: 'static,
{
    let (x, y) = at;
    let line = color.stroke_width(2);
    let drawn = match marker {
        Marker::Disc => area.draw(&Circle::new(at, 4, color.filled())),
        Marker::Square => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], color.filled())),
        Marker::Triangle => area.draw(&TriangleMarker::new(at, 6, color.filled())),
        Marker::Cross => area.draw(&Cross::new(at, 4, line)),
        Marker::Ring => area.draw(&Circle::new(at, 4, line)),
    };
    drawn.map_err(failed)
}

fn short(number: f64) -> String {
    let trimmed = |text: String| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    match number {
        n if n >= 1e6 => trimmed(format!("{:.3}", n / 1e6)) + "M",
        n if n >= 1e3 => trimmed(format!("{:.3}", n / 1e3)) + "k",
        n if n >= 1.0 => trimmed(format!("{n:.1}")),
        0.0 => "0".into(),
        n => format!("{n:.4}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_35_lines_look_the_same() {
        for one in 0..COLORS.len() * MARKERS.len() {
            for other in 0..one {
                assert!(Look::nth(one).parts() != Look::nth(other).parts(), "{other} and {one}");
            }
        }
    }

    #[test]
    fn the_legend_has_many_lines_in_the_order_of_their_ends() {
        let line = |n: usize| Line {
            name: n.to_string(),
            points: vec![(1.0, 20.0 - n as f64), (2.0, 1.0 + n as f64)],
            look: Look::nth(n),
        };
        let names = |count: usize| {
            let plot = Plot { lines: (0..count).map(line).collect(), x: Axis::log("x"), y: Axis::log("y") };
            plot.in_legend().into_iter().map(|line| line.name.parse().unwrap()).collect::<Vec<usize>>()
        };
        assert_eq!(names(7), (0..7).collect::<Vec<_>>());
        assert_eq!(names(16), (0..16).rev().collect::<Vec<_>>());
    }

    #[test]
    fn the_legend_stands_right_of_all_lines() {
        let line =
            |name: &str| Line { name: name.into(), points: vec![(1.0, 5.0), (1_000.0, 7.0)], look: Look::nth(0) };
        let plot = Plot { lines: vec![line("one line"), line("another")], x: Axis::log("x"), y: Axis::log("y") };
        let svg = plot.svg().unwrap();
        let edge = f64::from(WIDTH - plot.legend_width());
        // Where the name of each line begins, and how far its points reach.
        let number = |text: &str, field: &str| -> f64 {
            text.split(&format!("{field}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        for name in ["one line", "another"] {
            let end = svg.find(&format!("\n{name}\n")).unwrap();
            let tag = &svg[svg[..end].rfind("<text").unwrap()..end];
            assert!(number(tag, "x") > edge, "{tag}");
        }
        let rights = svg.split("<circle").skip(1).map(|tag| number(tag, "cx")).filter(|cx| *cx < edge);
        assert!(rights.fold(0.0, f64::max) > edge / 2.0);
    }

    #[test]
    fn many_lines_have_all_their_names_inside_the_picture() {
        let line =
            |n: usize| Line { name: format!("line {n}"), points: vec![(1.0, n as f64 + 1.0)], look: Look::nth(n) };
        let plot = Plot { lines: (0..40).map(line).collect(), x: Axis::linear("x"), y: Axis::log("y") };
        assert!(plot.size().1 as i32 > 24 + 40 * LEGEND_LINE);
        assert!(plot.svg().unwrap().contains("line 39"));
    }
}
