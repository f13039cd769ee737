//! CPU time of this process and of all it has started, such as a database server. Other work on the machine moves
//! it by a quarter, where it moves the time on the clock by a factor. Linux only; nothing elsewhere.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// The kernel counts in hundredths of a second, wherever Linux runs today.
const TICK: Duration = Duration::from_millis(10);

struct Process {
    parent: u32,
    /// Its own ticks and those of its children that have ended.
    ticks: u32,
}

pub(crate) fn time() -> Duration {
    let processes: HashMap<u32, Process> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Some((id, read(id)?))
        })
        .collect();
    let ours = std::process::id();
    let is_ours = |id: u32| {
        let mut ancestors = std::iter::successors(Some(id), |id| Some(processes.get(id)?.parent));
        ancestors.any(|ancestor| ancestor == ours)
    };
    let ticks = processes.iter().filter(|(id, _)| is_ours(**id));
    TICK * ticks.map(|(_, process)| process.ticks).sum::<u32>()
}

fn read(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name may contain anything but is the only thing in parentheses.
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = behind_name.split(' ').collect();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        ticks: fields
            .get(11..15)?
            .iter()
            .filter_map(|ticks| ticks.parse::<u32>().ok())
            .sum(),
    })
}
