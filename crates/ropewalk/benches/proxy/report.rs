//! The figures, and beside them what was aimed at.

use std::collections::HashMap;

use crate::load::Measured;
use crate::subject::{ALL, Subject};
use crate::{CASES, Case};

/// One run of one subject.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) measured: Measured,
    /// Seconds, of all threads, until everything was recorded.
    pub(crate) cpu: f64,
    /// Of the threads that forward, while there was load.
    pub(crate) forwarding: f64,
    pub(crate) rss: f64,
    pub(crate) rss_max: f64,
    pub(crate) until_linked: f64,
    pub(crate) all_linked: bool,
    pub(crate) gaps: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    samples: HashMap<(Subject, Case), Vec<Sample>>,
    bursts: HashMap<Subject, Sample>,
}

/// A case of a subject over all repetitions.
#[derive(Debug, Clone, Copy)]
struct Summary {
    rate: f64,
    cpu_us: f64,
    forwarding_us: f64,
    first_byte: (f64, f64),
    delay: (f64, f64),
    rss_max: f64,
    failed: usize,
}

impl Report {
    pub(crate) fn add(&mut self, subject: Subject, case: Case, sample: Sample) {
        self.samples.entry((subject, case)).or_default().push(sample);
    }

    pub(crate) fn add_burst(&mut self, subject: Subject, sample: Sample) {
        self.bursts.insert(subject, sample);
    }

    fn find(&self, subject: Subject, case: Case) -> Option<Summary> {
        let samples = self.samples.get(&(subject, case))?;
        let requests = samples
            .iter()
            .map(|sample| sample.measured.requests)
            .sum::<usize>()
            .max(1) as f64;
        let sum = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>();
        let spread = |of: fn(&Sample) -> &[f64]| {
            let mut all: Vec<f64> = samples.iter().flat_map(of).copied().collect();
            all.sort_by(f64::total_cmp);
            (part(&all, 0.5), part(&all, 0.99))
        };
        Some(Summary {
            rate: requests / sum(|sample| sample.measured.seconds),
            cpu_us: sum(|sample| sample.cpu) * 1e6 / requests,
            forwarding_us: sum(|sample| sample.forwarding) * 1e6 / requests,
            first_byte: spread(|sample| &sample.measured.first_byte),
            delay: spread(|sample| &sample.measured.delays),
            rss_max: samples.iter().map(|sample| sample.rss_max).fold(0.0, f64::max),
            failed: samples.iter().map(|sample| sample.measured.failed).sum(),
        })
    }

    pub(crate) fn print_cases(&self, is_pinned: bool) {
        println!("\n16 connections, closed loop, unique bodies; CPU of whole process trees:");
        println!("Ropewalk's until every exchange is linked, that of others until the last answer, recorded or not");
        match is_pinned {
            true => println!("proxy on core 0, load and upstream on core 1"),
            false => println!("nothing pinned: there is one core, or no taskset"),
        }
        for case in CASES {
            self.print_case(case);
        }
    }

    fn print_case(&self, case: Case) {
        let nginx = self.find(Subject::Nginx, case);
        println!("\n{}", case.title());
        println!(
            "{:24} {:>9} {:>7} {:>10} {:>7} {:>12} {:>8} {:>8} {:>8} {:>8} {:>7}",
            "",
            "req/s",
            "x nginx",
            "CPU us/req",
            "x nginx",
            "forwarding us",
            "ttfb p50",
            "p99",
            "SSE p50",
            "p99",
            "RSS MB"
        );
        for subject in ALL {
            let Some(own) = self.find(subject, case) else { continue };
            let beside = |of: fn(&Summary) -> f64| nginx.as_ref().map_or(f64::NAN, |nginx| of(&own) / of(nginx));
            println!(
                "{:24} {:>9.0} {:>7.2} {:>10.1} {:>7.2} {:>13.1} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>7.0}{}",
                subject.name(),
                own.rate,
                beside(|one| one.rate),
                own.cpu_us,
                beside(|one| one.cpu_us),
                own.forwarding_us,
                own.first_byte.0,
                own.first_byte.1,
                own.delay.0,
                own.delay.1,
                own.rss_max,
                match own.failed {
                    0 => String::new(),
                    failed => format!("  {failed} failed"),
                }
            );
        }
    }

    pub(crate) fn print_bursts(&self) {
        println!("\nburst of 10 s at 1 KB");
        for subject in [Subject::Nginx, Subject::Ropewalk] {
            let Some(sample) = self.bursts.get(&subject) else {
                continue;
            };
            let requests = sample.measured.requests as f64;
            println!(
                "{:24} {:>9.0} req/s, {:>7.0} req/s until linked{}, {} not kept, RSS {:.0} MB after it, {:.0} at most",
                subject.name(),
                requests / sample.measured.seconds,
                requests / sample.until_linked,
                if sample.all_linked { "" } else { " (NOT ALL)" },
                sample.gaps,
                sample.rss,
                sample.rss_max
            );
        }
    }

    pub(crate) fn print_goals(&self) {
        println!("\ngoals");
        let (Some(nginx), Some(own)) = (
            self.find(Subject::Nginx, Case::Json1K),
            self.find(Subject::Ropewalk, Case::Json1K),
        ) else {
            return;
        };
        goal("forwarding, 1 KB, x nginx's CPU", own.forwarding_us / nginx.cpu_us, 1.7);
        goal("everything, 1 KB, x nginx's CPU", own.cpu_us / nginx.cpu_us, 10.0);
        if let Some(peer) = self.find(Subject::BetterCcflare, Case::Json1K) {
            goal(
                "everything, 1 KB, x better-ccflare's CPU",
                own.cpu_us / peer.cpu_us,
                0.1,
            );
        }
        if let (Some(nginx), Some(own)) = (
            self.find(Subject::Nginx, Case::Json500K),
            self.find(Subject::Ropewalk, Case::Json500K),
        ) {
            goal(
                "forwarding, 500 KB, x nginx's CPU",
                own.forwarding_us / nginx.cpu_us,
                1.5,
            );
        }
        if let (Some(nginx), Some(own)) = (
            self.find(Subject::Nginx, Case::Sse),
            self.find(Subject::Ropewalk, Case::Sse),
        ) {
            goal(
                "SSE one-way delay p50, us over nginx's",
                own.delay.0 - nginx.delay.0,
                50.0,
            );
        }
        if let (Some(nginx), Some(own)) = (self.bursts.get(&Subject::Nginx), self.bursts.get(&Subject::Ropewalk)) {
            let rate = |sample: &Sample| sample.measured.requests as f64 / sample.measured.seconds;
            let linked = own.measured.requests as f64 / own.until_linked;
            goal_at_least("burst into the journal, x nginx's rate", rate(own) / rate(nginx), 0.5);
            goal_at_least("recorded and linked, req/s", linked, (0.1 * rate(nginx)).min(6_000.0));
            goal("exchanges not kept in the burst", own.gaps, 0.0);
            goal("RSS, MB", own.rss_max, 256.0);
        }
    }
}

impl Case {
    fn title(self) -> &'static str {
        match self {
            Case::Json1K => "1 KB asked, 1 KB answered (times in us)",
            Case::Json500K => "500 KB asked, 1 KB answered (times in us)",
            Case::Sse => "1 KB asked, a stream of 20 events 2 ms apart answered (times in us)",
        }
    }
}

fn goal(name: &str, value: f64, at_most: f64) {
    print_goal(name, value, &format!("<= {at_most}"), value <= at_most);
}

fn goal_at_least(name: &str, value: f64, at_least: f64) {
    print_goal(name, value, &format!(">= {at_least:.1}"), value >= at_least);
}

fn print_goal(name: &str, value: f64, wanted: &str, is_met: bool) {
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("  {name:42} {value:>10.2}  {wanted:>10}  {verdict}");
}

/// The value below which this part of them is.
fn part(sorted: &[f64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}
