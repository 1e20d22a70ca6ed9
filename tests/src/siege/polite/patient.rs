//! A client that waits longer than the idle timeout still gets its element.

use std::time::{Duration, Instant};

use crate::argv;
use crate::resp::Value;
use crate::rng::Rng;
use crate::siege::report::Checked;
use crate::siege::scene::{Scenario, Scene};
use crate::siege::talk::Talk;

const NAME: &str = "patient";

/// One client that waits, one that makes it wait.
pub struct Patient;

impl Scenario for Patient {
    fn name(&self) -> &'static str {
        NAME
    }

    fn play(&self, scene: &Scene<'_>, _part: usize, rng: &mut Rng) -> Checked<()> {
        let mut number = 0;
        while scene.polite_stay() {
            number += 1;
            self.wait_once(scene, number, rng)?;
        }
        Ok(())
    }
}

impl Patient {
    fn wait_once(&self, scene: &Scene<'_>, number: u64, rng: &mut Rng) -> Checked<()> {
        let (mut waiting, mut other) = (Talk::open(scene, NAME)?, Talk::open(scene, NAME)?);
        let key = format!("patient:{number}");
        let before = argv!["BLPOP", key, format!("{key}:never"), "0"];
        let taken = waiting.conn().send_command(&before);
        waiting.check(taken.is_ok(), || "a command is taken".into(), || format!("{taken:?}"))?;
        // The server looks for idle clients about once a second.
        let patience =
            scene.setting.idle_timeout.map_or(Duration::ZERO, |timeout| timeout + Duration::from_millis(1500));
        let until = Instant::now() + patience + Duration::from_millis(rng.below(300) as u64);
        while Instant::now() < until && scene.polite_stay() {
            other.expect(&argv!["PING"], &Value::Status(b"PONG".to_vec()))?;
            std::thread::sleep(Duration::from_millis(50));
        }
        let pushed = other.call(&argv!["RPUSH", key, "a", "b"])?;
        other.check(pushed == Value::Int(2), || "RPUSH answers 2".into(), || pushed.to_string())?;
        let reply = waiting.conn().read_reply();
        let expected = format!("*2\r\n${}\r\n{key}\r\n$1\r\na\r\n", key.len());
        let got = reply.as_deref().map(String::from_utf8_lossy);
        waiting.check(
            got.as_deref().is_ok_and(|got| *got == expected),
            || "a patient client gets its element".into(),
            || format!("{got:?} after {patience:?}"),
        )?;
        other.expect(&argv!["LPOP", key], &Value::Bulk(b"b".to_vec()))?;
        scene.report.count("patient waits", 1);
        Ok(())
    }
}
