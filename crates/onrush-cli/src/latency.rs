//! `--latency`, `--latency-history`, `--latency-dist`: round trips of PING, in milliseconds; `--intrinsic-latency`: what
//! this machine adds by itself.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::args::Options;
use crate::connection::Connection;
use crate::fail::Fail;
use crate::format::Output;
use crate::session::print;

/// The pause between two PINGs.
const SAMPLE_PAUSE: Duration = Duration::from_millis(10);

/// The figures of an interval's samples.
#[derive(Default)]
struct Samples {
    min: u128,
    max: u128,
    total: u128,
    count: u128,
}

impl Samples {
    fn add(&mut self, millis: u128) {
        self.min = if self.count == 0 { millis } else { self.min.min(millis) };
        self.max = self.max.max(millis);
        self.total += millis;
        self.count += 1;
    }

    fn shown(&self, output: Output) -> String {
        let Samples { min, max, total, count } = self;
        let avg = *total as f64 / *count as f64;
        match output {
            Output::Standard => format!("min: {min}, max: {max}, avg: {avg:.2} ({count} samples)"),
            Output::Csv => format!("{min},{max},{avg:.2},{count}\n"),
            Output::Raw => format!("{min} {max} {avg:.2} {count}\n"),
            Output::Json | Output::QuotedJson => {
                format!("{{\"min\": {min}, \"max\": {max}, \"avg\": {avg:.2}, \"count\": {count}}}\n")
            }
        }
    }
}

/// Samples until interrupted; with output to a pipe, for one interval only unless `history` is asked for.
///
/// # Errors
/// When the connection is gone.
pub fn run(options: &Options, history: bool) -> Result<(), Fail> {
    let live = options.output == Output::Standard;
    let default = if history { 15 } else { 1 };
    let interval = if options.interval.is_zero() { Duration::from_secs(default) } else { options.interval };
    let mut connection = Connection::open_logged_in(&options.target)?;
    let (mut samples, mut started) = (Samples::default(), Instant::now());
    loop {
        samples.add(ping(&mut connection)?.as_millis());
        if live {
            print(format!("\x1b[0G\x1b[2K{}", samples.shown(options.output)));
        } else if history {
            print(samples.shown(options.output));
        } else if started.elapsed() > interval {
            print(samples.shown(options.output));
            return Ok(());
        }
        if history && started.elapsed() > interval {
            print(format!(" -- {:.2} seconds range\n", started.elapsed().as_secs_f64()));
            (samples, started) = (Samples::default(), Instant::now());
        }
        std::thread::sleep(SAMPLE_PAUSE);
    }
}

fn ping(connection: &mut Connection) -> Result<Duration, Fail> {
    let started = Instant::now();
    connection.call(&["PING"])?;
    Ok(started.elapsed())
}

/// The classes of the spectrum: up to so many microseconds, and the sign.
const CLASSES: [(u64, char); 31] = [
    (10, '.'),
    (125, '-'),
    (250, '*'),
    (500, '#'),
    (1_000, '1'),
    (2_000, '2'),
    (3_000, '3'),
    (4_000, '4'),
    (5_000, '5'),
    (6_000, '6'),
    (7_000, '7'),
    (8_000, '8'),
    (9_000, '9'),
    (10_000, 'A'),
    (20_000, 'B'),
    (30_000, 'C'),
    (40_000, 'D'),
    (50_000, 'E'),
    (100_000, 'F'),
    (200_000, 'G'),
    (300_000, 'H'),
    (400_000, 'I'),
    (500_000, 'J'),
    (1_000_000, 'K'),
    (2_000_000, 'L'),
    (4_000_000, 'M'),
    (8_000_000, 'N'),
    (16_000_000, 'O'),
    (30_000_000, 'P'),
    (60_000_000, 'Q'),
    (u64::MAX, '?'),
];
/// The 256-color codes from none to all.
const PALETTE_COLOR: [u8; 19] =
    [0, 233, 234, 235, 237, 239, 241, 243, 245, 247, 144, 143, 142, 184, 226, 214, 208, 202, 196];
const PALETTE_GRAY: [u8; 13] = [0, 233, 234, 235, 237, 239, 241, 243, 245, 247, 249, 251, 253];
/// Lines between two legends.
const LINES_PER_LEGEND: usize = 20;
const RULE: &str = "---------------------------------------------\n";

/// A line per interval with the share of each class of round-trip times as a color.
///
/// # Errors
/// When the connection is gone.
pub fn distribution(options: &Options) -> Result<(), Fail> {
    let gray = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let palette: &[u8] = if gray { &PALETTE_GRAY } else { &PALETTE_COLOR };
    let interval = if options.interval.is_zero() { Duration::from_secs(1) } else { options.interval };
    let mut connection = Connection::open_logged_in(&options.target)?;
    for line in 0.. {
        let (mut counts, mut total, started) = ([0u64; CLASSES.len()], 0, Instant::now());
        while started.elapsed() <= interval {
            let micros = u64::try_from(ping(&mut connection)?.as_micros()).unwrap_or(u64::MAX);
            counts[CLASSES.partition_point(|(max, _)| *max < micros).min(CLASSES.len() - 1)] += 1;
            total += 1;
            std::thread::sleep(SAMPLE_PAUSE);
        }
        if line % LINES_PER_LEGEND == 0 {
            print(legend(palette));
        }
        print(spectrum(&counts, total, palette));
    }
    Ok(())
}

fn legend(palette: &[u8]) -> String {
    let mut text = RULE.to_owned();
    text += ". - * #          .01 .125 .25 .5 milliseconds\n\
             1,2,3,...,9      from 1 to 9     milliseconds\n\
             A,B,C,D,E        10,20,30,40,50  milliseconds\n\
             F,G,H,I,J        .1,.2,.3,.4,.5       seconds\n\
             K,L,M,N,O,P,Q,?  1,2,4,8,16,30,60,>60 seconds\n\
             From 0 to 100%: ";
    palette.iter().for_each(|color| text += &format!("\x1b[48;5;{color}m "));
    text + "\x1b[0m\n" + RULE
}

fn spectrum(counts: &[u64], total: u64, palette: &[u8]) -> String {
    let mut text = "\x1b[38;5;0m".to_owned();
    for ((_, sign), count) in CLASSES.iter().zip(counts) {
        let last = palette.len() - 1;
        let color = palette[(*count as f64 / total.max(1) as f64 * last as f64).ceil() as usize];
        text += &format!("\x1b[48;5;{color}m{sign}");
    }
    text + "\x1b[0m\n"
}

/// Runs a busy loop for `seconds` seconds and shows the longest gap in it: on this machine a server may be interrupted
/// as long.
///
/// # Errors
/// None so far.
pub fn intrinsic(seconds: u64) -> Result<(), Fail> {
    let stop = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone());
    let (started, length) = (Instant::now(), Duration::from_secs(seconds));
    let (mut longest, mut runs, mut now) = (0, 0u64, Instant::now());
    while now - started < length && !stop.load(Ordering::Relaxed) {
        black_box((0..black_box(100u32)).fold(7u32, |state, step| state.rotate_left(5) ^ step));
        let end = Instant::now();
        let micros = (end - now).as_micros();
        (now, runs) = (end, runs + 1);
        if micros > longest {
            longest = micros;
            print(format!("Max latency so far: {longest} microseconds.\n"));
        }
    }
    let average = started.elapsed().as_secs_f64() * 1e6 / runs.max(1) as f64;
    print(format!(
        "\n{runs} total runs (avg latency: {average:.4} microseconds / {:.2} nanoseconds per run).\n\
             Worst run took {:.0}x longer than the average latency.\n",
        average * 1e3,
        longest as f64 / average
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_shown_in_every_format() {
        let mut samples = Samples::default();
        [3, 1, 2].into_iter().for_each(|millis| samples.add(millis));
        assert_eq!(samples.shown(Output::Standard), "min: 1, max: 3, avg: 2.00 (3 samples)");
        assert_eq!(samples.shown(Output::Raw), "1 3 2.00 3\n");
        assert_eq!(samples.shown(Output::Csv), "1,3,2.00,3\n");
        assert_eq!(samples.shown(Output::Json), "{\"min\": 1, \"max\": 3, \"avg\": 2.00, \"count\": 3}\n");
    }

    #[test]
    fn the_spectrum_colors_shares() {
        let mut counts = [0; CLASSES.len()];
        (counts[0], counts[30]) = (10, 1);
        let text = spectrum(&counts, 11, &PALETTE_COLOR);
        assert!(text.starts_with("\x1b[38;5;0m\x1b[48;5;202m.\x1b[48;5;0m-"), "{text:?}");
        assert!(text.ends_with("\x1b[48;5;234m?\x1b[0m\n"));
    }
}
