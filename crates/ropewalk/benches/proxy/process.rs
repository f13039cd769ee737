//! What runs beside the benchmark: started on a core of its own, with what it has used.

use std::collections::HashSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A tick of `/proc`, on every Linux there is.
const TICK_S: f64 = 0.01;

/// How long a proxy may take until it listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// Threads of ours that do nothing but forward.
const FORWARDING: &str = "forward-";

pub(crate) struct Process {
    child: Child,
}

/// CPU in seconds since the start, memory in MB now and at most.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: f64,
    pub(crate) forwarding: f64,
    pub(crate) rss: f64,
    pub(crate) rss_max: f64,
}

/// The proxy's core and the benchmark's, where there are two.
pub(crate) fn has_two_cores() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2)
        && Command::new("taskset").arg("-V").output().is_ok()
}

/// Load and upstream go to the second core. Before there is a second thread.
pub(crate) fn pin_self() {
    let pid = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-cp", "1", &pid]).output();
    assert!(pinned.unwrap().status.success(), "taskset cannot pin this process");
}

impl Process {
    /// Waits until it listens.
    pub(crate) fn start(mut command: Command, address: SocketAddr, is_pinned: bool) -> Result<Self, String> {
        if is_pinned {
            let mut pinned = Command::new("taskset");
            pinned
                .args(["-c", "0"])
                .arg(command.get_program())
                .args(command.get_args());
            for (name, value) in command.get_envs() {
                pinned.env(name, value.unwrap_or_default());
            }
            command = pinned;
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut process = Process {
            child: child.map_err(|error| error.to_string())?,
        };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = process.child.try_wait() {
                return Err(format!("it ended: {status}"));
            }
            if begun.elapsed() > PATIENCE {
                return Err("it does not listen".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(process)
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for pid in tree(self.child.id()) {
            usage.cpu += ticks(&format!("/proc/{pid}/stat")) * TICK_S;
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            usage.rss += megabytes(&status, "VmRSS:");
            usage.rss_max += megabytes(&status, "VmHWM:").max(megabytes(&status, "VmRSS:"));
            for thread in fs::read_dir(format!("/proc/{pid}/task"))
                .into_iter()
                .flatten()
                .flatten()
            {
                let path = thread.path();
                let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
                if name.starts_with(FORWARDING) {
                    usage.forwarding += ticks(&path.join("stat").to_string_lossy()) * TICK_S;
                }
            }
        }
        usage
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for pid in tree(self.child.id()) {
            drop(Command::new("kill").arg(pid.to_string()).status());
        }
        drop(self.child.wait());
    }
}

/// A process and all that it started.
fn tree(root: u32) -> HashSet<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, field(&format!("/proc/{pid}/stat"), 1)? as u32)))
        .collect();
    let mut tree = HashSet::from([root]);
    loop {
        let before = tree.len();
        let children = parents.iter().filter(|(_, parent)| tree.contains(parent));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        tree.extend(children);
        if tree.len() == before {
            return tree;
        }
    }
}

/// A number of `stat`, counted from behind the name, which may contain anything.
fn field(path: &str, index: usize) -> Option<f64> {
    let stat = fs::read_to_string(path).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(index)?.parse().ok()
}

/// Of user and system.
fn ticks(path: &str) -> f64 {
    field(path, 11).unwrap_or(0.0) + field(path, 12).unwrap_or(0.0)
}

fn megabytes(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}
