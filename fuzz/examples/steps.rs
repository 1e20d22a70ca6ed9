//! Prints the steps of inputs of the target `pipelines`, a line for each. With `--play` it executes them as well.
//!
//! ```sh
//! cargo run -p onrush-fuzz --example steps -- [--play] FILE...
//! ```

use std::{env, fs, io};

use onrush_fuzz::{Step, pipelines, steps};

fn main() -> io::Result<()> {
    let mut plays = false;
    for argument in env::args().skip(1) {
        if argument == "--play" {
            plays = true;
            continue;
        }
        let input = fs::read(&argument)?;
        println!("{argument}:");
        steps(&input).iter().for_each(show);
        if plays {
            pipelines(&input);
        }
    }
    Ok(())
}

fn show(step: &Step) {
    match step {
        Step::Call { connection, argv } => {
            let words: Vec<String> = argv.iter().map(|word| format!("\"{}\"", word.escape_ascii())).collect();
            println!("{connection}: {}", words.join(" "));
        }
        Step::Bytes { connection, bytes } => println!("{connection}: bytes \"{}\"", bytes.escape_ascii()),
        Step::Send { connection } => println!("{connection}: sends"),
        Step::SendAll => println!("all send"),
        Step::Pass { ms } => println!("{ms} ms pass"),
    }
}
