//! What standing in between costs: `make bench-proxy`, on Linux.
//!
//! Everything in one run and in turns, so that a noisy minute hits all alike: [`subject`] has what is measured, [`load`] asks,
//! [`upstream`] answers, both over [`message`]; [`process`] reads what it took; [`report`] prints it beside the goals. The proxy
//! has one core, load and upstream the other.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark may fail and talk"
)]

mod load;
mod message;
mod process;
mod report;
mod subject;
mod upstream;

use std::time::{Duration, Instant};

use load::{Load, Measured, Shape};
use report::{Report, Sample};
use subject::{Running, Subject};

/// Names a case in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Case {
    Json1K,
    Json500K,
    Sse,
}

const CASES: [Case; 3] = [Case::Json1K, Case::Json500K, Case::Sse];

/// Large bodies by number: more would fill the journal before the recorder has seen the first.
const LARGE_REQUESTS: usize = 1_500;
const SLOW_LARGE_REQUESTS: usize = 100;
const WARM_UP: Duration = Duration::from_millis(500);
/// The length of a burst that the journal must take.
const BURST: Duration = Duration::from_secs(10);

impl Case {
    fn load(self, subject: Subject, time: Duration) -> Load {
        let usual = Load {
            shape: Shape::Json,
            body_bytes: 1 << 10,
            headers: subject.headers().to_owned(),
            time,
            requests_max: usize::MAX,
        };
        match self {
            Case::Json1K => usual,
            Case::Json500K => Load {
                body_bytes: 500 << 10,
                requests_max: match subject.is_slow() {
                    true => SLOW_LARGE_REQUESTS,
                    false => LARGE_REQUESTS,
                },
                ..usual
            },
            Case::Sse => Load {
                shape: Shape::Sse,
                ..usual
            },
        }
    }
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}

fn main() {
    let time = Duration::from_secs(setting("ROPEWALK_BENCH_SECONDS", 3));
    let repetitions = setting("ROPEWALK_BENCH_REPETITIONS", 3);
    let is_pinned = process::has_two_cores();
    if is_pinned {
        process::pin_self();
    }
    let clock = Instant::now();
    let upstream = upstream::start(clock);
    let folder = tempfile::tempdir().unwrap();
    let started = subject::ALL.map(|subject| (subject, subject::start(subject, upstream, folder.path(), is_pinned)));
    let mut running = Vec::new();
    for (subject, outcome) in started {
        match outcome {
            Ok(one) => running.push(one),
            Err(reason) => eprintln!("{} is left out: {reason}", subject.name()),
        }
    }
    let mut report = Report::default();
    for repetition in 1..=repetitions {
        for case in CASES {
            for one in &running {
                eprintln!("{repetition}/{repetitions} {case:?} {}", one.subject.name());
                let sample = measure(one, &case.load(one.subject, time), clock);
                report.add(one.subject, case, sample);
            }
        }
    }
    // Before the bursts, which take minutes to be linked.
    report.print_cases(is_pinned);
    for one in running
        .iter()
        .filter(|one| matches!(one.subject, Subject::Nginx | Subject::Ropewalk))
    {
        eprintln!("a burst of {} s, {}", BURST.as_secs(), one.subject.name());
        let sample = measure(one, &Case::Json1K.load(one.subject, BURST), clock);
        report.add_burst(one.subject, sample);
    }
    report.print_bursts();
    report.print_goals();
}

/// One run after a short one that warms up, with the CPU until all of it is recorded.
fn measure(one: &Running, load: &Load, clock: Instant) -> Sample {
    let warm_up = Load {
        time: WARM_UP,
        requests_max: load.requests_max.min(50),
        ..load.clone()
    };
    let before = one.counts_if_recording();
    let warm = load::run(one.address, &warm_up, clock);
    one.wait_if_recording(before, &warm);
    let (counts, usage) = (one.counts_if_recording(), one.usage());
    let begun = Instant::now();
    let measured = load::run(one.address, load, clock);
    let forwarding = one.usage().forwarding - usage.forwarding;
    let all_linked = one.wait_if_recording(counts, &measured);
    let after = one.usage();
    Sample {
        cpu: after.cpu - usage.cpu,
        forwarding,
        rss: after.rss,
        rss_max: after.rss_max,
        until_linked: begun.elapsed().as_secs_f64(),
        all_linked,
        gaps: one.counts_if_recording().gaps - counts.gaps,
        measured,
    }
}

impl Running {
    fn usage(&self) -> process::Usage {
        self.process.as_ref().map(process::Process::usage).unwrap_or_default()
    }

    fn counts_if_recording(&self) -> subject::Counts {
        match self.subject {
            Subject::Ropewalk => self.counts(),
            _ => subject::Counts::default(),
        }
    }

    fn wait_if_recording(&self, before: subject::Counts, measured: &Measured) -> bool {
        self.subject != Subject::Ropewalk || self.wait_until_linked(before, measured.requests)
    }
}
