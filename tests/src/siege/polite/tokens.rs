//! Pipelines get one reply per command, each its own, in order: every command carries a token or touches a key of its own.

use std::collections::HashMap;
use std::time::Duration;

use crate::argv;
use crate::argv::Argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

const NAME: &str = "tokens";
const KEYS: usize = 64;

/// Two clients with keys of their own and connections that they renew now and then.
pub struct Tokens;

impl Scenario for Tokens {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parts(&self) -> usize {
        2
    }

    fn play(&self, scene: &Scene<'_>, part: usize, rng: &mut Rng) -> Checked<()> {
        let mut model: HashMap<String, Vec<u8>> = HashMap::new();
        let mut number = 0;
        while scene.polite_stay() {
            let mut talk = Talk::open(scene, NAME)?;
            for _ in 0..200 {
                let (commands, expected) = batch(scene, part, &mut number, &mut model, rng);
                let values = talk.batch(&commands)?;
                for ((value, expected), command) in values.iter().zip(&expected).zip(&commands) {
                    let got = || format!("{value}\nand not\n{expected}\nto {command}");
                    talk.check(value == expected, || "each reply in its place".into(), got)?;
                }
                scene.report.count("tokens", commands.len() as u64);
                std::thread::sleep(Duration::from_micros(rng.below(2000) as u64));
                if !scene.polite_stay() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Commands and what they must answer. The model follows.
fn batch(
    scene: &Scene<'_>,
    part: usize,
    number: &mut u64,
    model: &mut HashMap<String, Vec<u8>>,
    rng: &mut Rng,
) -> (Vec<Argv>, Vec<Value>) {
    let depth = if rng.percent(70) { 1 + rng.below(12) } else { 1 + rng.below(300) };
    let (mut commands, mut expected) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..depth {
        *number += 1;
        let token = format!("{part}-{number}");
        let key = format!("token:{part}:{}", rng.below(KEYS));
        let ok = Value::Status(b"OK".to_vec());
        let (command, reply) = match rng.below(10) {
            0 | 1 => (argv!["ECHO", token], Value::Bulk(token.clone().into_bytes())),
            2 => (argv!["NOSUCH", token], unknown(&token)),
            3..=5 => {
                let value = value(&token, rng);
                model.insert(key.clone(), value.clone());
                (argv!["SET", key, value], ok)
            }
            6 => {
                let value = model.entry(key.clone()).or_default();
                if value.len() > 100_000 {
                    value.clear();
                    value.extend_from_slice(token.as_bytes());
                    (argv!["SET", key, token], ok)
                } else {
                    value.extend_from_slice(token.as_bytes());
                    (argv!["APPEND", key, token], Value::Int(value.len() as i64))
                }
            }
            _ => {
                let value = model.get(&key).map_or(Value::Null(b'$'), |value| Value::Bulk(value.clone()));
                (argv!["GET", key], value)
            }
        };
        bytes += command.0.iter().map(|arg| arg.len() + 20).sum::<usize>();
        commands.push(command);
        expected.push(reply);
        if bytes > scene.setting.batch_bytes_max / 2 {
            break;
        }
    }
    (commands, expected)
}

fn unknown(token: &str) -> Value {
    Value::Error(format!("ERR unknown command 'NOSUCH', with args beginning with: '{token}' ").into_bytes())
}

fn value(token: &str, rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(400) {
        0 => 100_000 + rng.below(150_000),
        1..12 => 1000 + rng.below(30_000),
        _ => rng.below(64),
    };
    let mut value = token.as_bytes().to_vec();
    value.resize(value.len() + len, b'.');
    value
}
