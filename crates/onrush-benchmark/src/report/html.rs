//! Results as one page that needs no other files.

use minijinja::{Environment, context};

use super::circumstances::Circumstances;
use super::lines::{latency_plot, latency_series_plot, percentiles_plot, throughput_plot, throughput_series_plot};
use super::text::{summary, table};
use crate::error::Error;
use crate::outcome::{Cell, Ratio};

/// Because of this ending, inserted text is escaped.
const NAME: &str = "page.html";
const PAGE: &str = include_str!("page.html");

/// The page.
///
/// # Errors
/// A plot could not be drawn.
pub fn page(
    cells: &[Cell],
    ratios: &[Ratio],
    swept: Option<&str>,
    command_line: &str,
    circumstances: &Circumstances,
) -> Result<String, Error> {
    let mut plots = Vec::new();
    let mut add = |title: String, plot: super::plot::Plot| -> Result<(), Error> {
        plots.push(context! { title => title, svg => plot.svg()? });
        Ok(())
    };
    if let Some(swept) = swept {
        add(format!("Throughput over {swept}"), throughput_plot(cells, swept))?;
        add(format!("Latency over {swept}"), percentiles_plot(cells, swept))?;
    }
    add("Latency by percentile".into(), latency_plot(cells))?;
    add("Throughput over time".into(), throughput_series_plot(cells))?;
    add("Latency over time".into(), latency_series_plot(cells))?;
    let row = |cell: &Cell| {
        let figures = summary(cell.median()).map(|ms| format!("{ms:.3}"));
        let rps = format!("{:.0}", cell.rps());
        context! { test => &cell.test, server => &cell.server, value => &cell.value, rps => rps, figures => figures.to_vec() }
    };
    let mut environment = Environment::new();
    let failed = |error: minijinja::Error| Error::Plot(format!("the page: {error}"));
    environment.add_template(NAME, PAGE).map_err(failed)?;
    let all = context! {
        command_line => command_line,
        tool => concat!("onrush-benchmark ", env!("CARGO_PKG_VERSION")),
        date => &circumstances.date,
        machine => &circumstances.machine,
        servers => &circumstances.servers,
        plots => plots,
        value => swept.unwrap_or("value"),
        rows => cells.iter().map(row).collect::<Vec<_>>(),
        table => table(cells, ratios, swept),
    };
    environment.get_template(NAME).and_then(|template| template.render(all)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::example;

    #[test]
    fn the_page_escapes_what_is_put_in_and_has_all_plots() {
        let cell = |value: &str| {
            Cell::new("set <k> \"v\"".into(), "a:1".into(), value.into(), value.parse().ok(), vec![example(100)])
        };
        let circumstances = Circumstances::now(vec![("a:1".into(), "Onrush <0.1>".into())]);
        let line = "onrush-benchmark set '<k>' & more";
        let page = page(&[cell("1"), cell("10")], &[], Some("pipeline depth"), line, &circumstances).unwrap();
        for part in [&circumstances.date, &circumstances.machine, "a:1: Onrush &lt;0.1&gt;"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<svg").count(), 5);
        assert!(page.contains("&lt;k&gt;") && !page.contains("<k>") && page.contains("&amp; more"));
    }
}
