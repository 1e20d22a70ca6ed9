//! Which lines the plots of results have.

use super::plot::{Axis, Line, Look, Plot};
use crate::error::Error;
use crate::outcome::{Cell, Outcome};

/// The name of the lines of a test and a server: only what distinguishes them from the others.
fn name(cell: &Cell, cells: &[Cell]) -> String {
    let has_others = |field: fn(&Cell) -> &str| cells.iter().any(|other| field(other) != field(cell));
    match (has_others(|cell| &cell.test), has_others(|cell| &cell.server)) {
        (true, true) => format!("{}, {}", cell.test, cell.server),
        (false, true) => cell.server.clone(),
        _ => cell.test.clone(),
    }
}

/// The name of a figure, and the function that reads it.
type Figure = (&'static str, fn(&Outcome) -> f64);

/// Lines over the values of a sweep: one for each test, server and figure. The figures of a test and a server have one colour.
fn over_values(cells: &[Cell], figures: &[Figure]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for cell in cells {
        for (number, (figure, read)) in figures.iter().enumerate() {
            let name = [name(cell, cells).as_str(), figure].join(" ").trim_end().to_owned();
            let at = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
                lines.push(Line { name, points: Vec::new(), look: Look::nth(number) });
                lines.len() - 1
            });
            let x = cell.number.unwrap_or(lines[at].points.len() as f64 + 1.0);
            lines[at].points.push((x, read(cell.median())));
        }
    }
    let is_few = figures.len() > 1 && Look::grouped(lines.len() / figures.len() - 1, figures.len() - 1).is_some();
    for (index, line) in lines.iter_mut().enumerate() {
        let grouped = Look::grouped(index / figures.len(), index % figures.len()).filter(|_| is_few);
        line.look = grouped.unwrap_or_else(|| Look::nth(index));
        line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    lines
}

/// A line for each cell.
fn by_cell(cells: &[Cell], points: impl Fn(&Outcome) -> Vec<(f64, f64)>) -> Vec<Line> {
    let line = |(index, cell): (usize, &Cell)| {
        let name = [name(cell, cells).as_str(), &cell.value].join(" ").trim_end().to_owned();
        Line { name, points: points(cell.median()), look: Look::nth(index) }
    };
    cells.iter().enumerate().map(line).collect()
}

/// Throughput over the values of a sweep.
pub fn throughput_plot(cells: &[Cell], x_title: &str) -> Plot {
    let lines = over_values(cells, &[("", |outcome| outcome.rps())]);
    Plot { lines, x: Axis::log(x_title), y: Axis::log("commands a second") }
}

/// The middle and the far end of latencies over the values of a sweep. If there are more tests and servers than colours,
/// only the 99th percentile: three times as many lines could not be told apart.
pub fn percentiles_plot(cells: &[Cell], x_title: &str) -> Plot {
    let figures: [Figure; 3] = [
        ("p50", |outcome| outcome.latency_ms(0.5)),
        ("p99", |outcome| outcome.latency_ms(0.99)),
        ("p99.9", |outcome| outcome.latency_ms(0.999)),
    ];
    let lines = over_values(cells, &figures);
    if Look::grouped((lines.len() / figures.len()).saturating_sub(1), 0).is_some() {
        return Plot { lines, x: Axis::log(x_title), y: Axis::log("latency in milliseconds") };
    }
    let lines = over_values(cells, &[("", figures[1].1)]);
    Plot { lines, x: Axis::log(x_title), y: Axis::log("99th percentile of latency in milliseconds") }
}

/// Latency by percentile, a line for each cell.
pub fn latency_plot(cells: &[Cell]) -> Plot {
    let points = |outcome: &Outcome| {
        let latencies = &outcome.latencies;
        // Halves the rest each time, until it is less than a command.
        let rests = std::iter::successors(Some(1.0_f64), |rest| Some(rest / 2.0));
        rests
            .take_while(|rest| rest * latencies.len() as f64 >= 1.0)
            .map(|rest| (1.0 / rest, latencies.value_at_quantile(1.0 - rest).max(1) as f64 / 1e6))
            .collect()
    };
    Plot {
        lines: by_cell(cells, points),
        x: Axis::log("one in so many commands takes longer"),
        y: Axis::log("latency in milliseconds"),
    }
}

/// Throughput of each piece of a run over time, a line for each cell.
pub fn throughput_series_plot(cells: &[Cell]) -> Plot {
    let points = |outcome: &Outcome| {
        // The last piece of a run is too short for a throughput.
        let shortest = outcome.series.first().map_or(0.0, |first| first.len_s / 2.0);
        let pieces = outcome.series.iter().filter(|point| point.len_s >= shortest);
        pieces.map(|point| (point.at_s + point.len_s / 2.0, point.replies as f64 / point.len_s)).collect()
    };
    Plot { lines: by_cell(cells, points), x: Axis::linear("seconds"), y: Axis::linear("commands a second") }
}

/// The 99th percentile of latency of each piece of a run over time, a line for each cell.
pub fn latency_series_plot(cells: &[Cell]) -> Plot {
    let points = |outcome: &Outcome| {
        // A piece without a reply has no latency.
        let pieces = outcome.series.iter().filter(|point| point.replies > 0);
        pieces.map(|point| (point.at_s + point.len_s / 2.0, point.p99_ms)).collect()
    };
    Plot { lines: by_cell(cells, points), x: Axis::linear("seconds"), y: Axis::log("p99 of a piece in milliseconds") }
}

/// The lines of a JSON file with the titles of the axes.
///
/// # Errors
/// The text does not have that form.
pub fn lines_plot(text: &str) -> Result<Plot, Error> {
    #[derive(serde::Deserialize)]
    struct File {
        x: String,
        y: String,
        lines: serde_json::Map<String, serde_json::Value>,
    }
    let failed = |error: serde_json::Error| Error::Plot(error.to_string());
    let file: File = serde_json::from_str(text).map_err(failed)?;
    let line = |(index, (name, points))| {
        let mut points: Vec<(f64, f64)> = serde_json::from_value(points).map_err(failed)?;
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Ok(Line { name, points, look: Look::nth(index) })
    };
    let lines = file.lines.into_iter().enumerate().map(line).collect::<Result<Vec<Line>, Error>>()?;
    Ok(Plot { lines, x: Axis::log(&file.x), y: Axis::log(&file.y) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::example;

    fn cell(test: &str, server: &str, value: &str) -> Cell {
        Cell::new(test.into(), server.into(), value.into(), value.parse().ok(), vec![example(1_000)])
    }

    #[test]
    fn percentiles_have_a_line_each_over_the_values() {
        let cells: Vec<Cell> =
            ["1", "10"].iter().flat_map(|value| [cell("SET", "a:1", value), cell("SET", "b:2", value)]).collect();
        let plot = percentiles_plot(&cells, "pipeline depth");
        let names: Vec<&str> = plot.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["a:1 p50", "a:1 p99", "a:1 p99.9", "b:2 p50", "b:2 p99", "b:2 p99.9"]);
        assert!(plot.lines.iter().all(|line| line.points.iter().map(|point| point.0).eq([1.0, 10.0])));
        let looks: Vec<Look> = plot.lines.iter().map(|line| line.look).collect();
        assert!((0..6).all(|one| !looks[..one].contains(&looks[one])));
        assert_eq!(looks[4], Look::grouped(1, 1).unwrap());
    }

    #[test]
    fn sixteen_tests_have_a_line_each_that_looks_like_no_other() {
        let name = |n: usize| format!("test {n}");
        let cells: Vec<Cell> =
            ["1", "10"].iter().flat_map(|value| (0..16).map(|n| cell(&name(n), "a:1", value))).collect();
        for plot in [percentiles_plot(&cells, "pipeline depth"), throughput_plot(&cells, "pipeline depth")] {
            assert!(plot.lines.iter().map(|line| line.name.clone()).eq((0..16).map(name)));
            assert!((0..16).all(|one| plot.lines[..one].iter().all(|other| other.look != plot.lines[one].look)));
            assert!(plot.svg().is_ok());
        }
    }

    #[test]
    fn lines_of_a_file_are_drawn_in_the_order_of_their_points() {
        let plot = lines_plot(r#"{"x": "depth", "y": "s", "lines": {"one": [[10, 2], [1, 5.5]]}}"#).unwrap();
        assert_eq!(
            plot.lines,
            [Line { name: "one".into(), points: vec![(1.0, 5.5), (10.0, 2.0)], look: Look::nth(0) }]
        );
        assert!(lines_plot(r#"{"x": "depth", "lines": {}}"#).is_err());
    }

    #[test]
    fn a_line_is_called_by_what_tells_it_from_others() {
        let cells = [cell("SET", "a:1", "1"), cell("GET", "a:1", "1")];
        let plot = throughput_plot(&cells, "pipeline depth");
        assert_eq!(plot.lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["SET", "GET"]);
    }
}
