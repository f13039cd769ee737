//! Time, processor and memory of a program.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A tick of `/proc`, on every Linux there is.
const TICK_S: f64 = 0.01;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Seconds and megabytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    pub(crate) memory: f64,
}

/// Runs a program to its end. What it used is what was last seen of it.
pub(crate) fn measure(mut command: Command) -> Result<Measured, String> {
    let begun = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let mut measured = Measured::default();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            measured.wall = begun.elapsed().as_secs_f64();
            return match status.success() {
                true => Ok(measured),
                false => Err(format!("it ended with {status}")),
            };
        }
        look(child.id(), &mut measured);
        std::thread::sleep(LOOK_EVERY);
    }
}

fn look(pid: u32, measured: &mut Measured) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = most.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    measured.memory = measured.memory.max(kilobytes.unwrap_or(0.0) / 1024.0);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may contain anything.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    measured.cpu = measured.cpu.max((ticks(11) + ticks(12)) * TICK_S);
}
