//! The client `wrk`: starting it and parsing its report.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::error::LabError;
use crate::measure::is_enough;

/// Threads of the client.
const THREADS: u32 = 2;

/// The figures of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Finding {
    /// Answers that came in time.
    pub(super) requests: u64,
    /// Answers per second.
    pub(super) per_s: f64,
    /// Half of the answers came within this time, in µs.
    pub(super) p50_us: f64,
    /// 99 of 100 answers came within this time, in µs.
    pub(super) p99_us: f64,
    /// Refused or broken connections, late answers, and answers that were no success.
    pub(super) errors: u64,
}

impl Finding {
    /// The named percentiles for which there were enough answers.
    pub(super) fn percentiles(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [("p50_us", 50.0, self.p50_us), ("p99_us", 99.0, self.p99_us)];
        let requests = self.requests as usize;
        all.into_iter()
            .filter(move |(_, percent, _)| is_enough(requests, *percent))
            .map(|(name, _, us)| (name, us))
    }
}

/// A running `wrk`.
#[derive(Debug)]
pub(super) struct Running(Child);

/// Checks that `wrk` is installed.
///
/// # Errors
/// [`LabError::NoWrk`] if it is not.
pub(super) fn look_for() -> Result<(), LabError> {
    // It prints its version but exits with an error.
    let tried = Command::new("wrk")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.map(drop).map_err(not_started)
}

/// Starts it with a number of connections that request `path` for some seconds.
///
/// # Errors
/// [`LabError::NoWrk`] if it is not installed, [`LabError::System`] if it cannot be started.
pub(super) fn start(
    address: SocketAddr,
    path: &str,
    connections: u32,
    seconds: u32,
) -> Result<Running, LabError> {
    let child = Command::new("wrk")
        .args([
            format!("-t{THREADS}"),
            format!("-c{connections}"),
            format!("-d{seconds}s"),
            "--latency".to_owned(),
            format!("http://{address}{path}"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.map(Running).map_err(not_started)
}

fn not_started(source: std::io::Error) -> LabError {
    if source.kind() == ErrorKind::NotFound {
        return LabError::NoWrk;
    }
    LabError::System {
        what: "starting wrk",
        source,
    }
}

impl Running {
    /// Waits for its end.
    ///
    /// # Errors
    /// [`LabError::Wrk`] if it fails or its output is not understood.
    pub(super) fn finish(self) -> Result<Finding, LabError> {
        let output = self
            .0
            .wait_with_output()
            .map_err(|source| LabError::System {
                what: "waiting for wrk",
                source,
            })?;
        let said = String::from_utf8_lossy(&output.stdout);
        let found = output.status.success().then(|| parse(&said)).flatten();
        found.ok_or_else(|| LabError::Wrk {
            said: format!("{said}{}", String::from_utf8_lossy(&output.stderr)),
        })
    }
}

/// Parses its report; `None` if anything is missing.
fn parse(text: &str) -> Option<Finding> {
    let lines = || text.lines().map(str::trim);
    let behind = |label: &str| lines().find_map(|line| line.strip_prefix(label));
    let (requests, _) = lines().find_map(|line| line.split_once(" requests in "))?;
    let percentile = |label| duration_us(behind(label)?.trim());
    Some(Finding {
        requests: requests.parse().ok()?,
        per_s: behind("Requests/sec:")?.trim().parse().ok()?,
        p50_us: percentile("50% ")?,
        p99_us: percentile("99% ")?,
        errors: match behind("Socket errors:") {
            Some(counts) => sum(counts)?,
            None => 0,
        } + match behind("Non-2xx or 3xx responses:") {
            Some(count) => count.trim().parse().ok()?,
            None => 0,
        },
    })
}

/// The sum of the numbers in a text such as `connect 0, read 2, write 0, timeout 3`.
fn sum(counts: &str) -> Option<u64> {
    let each = counts
        .split(',')
        .map(|part| part.split_whitespace().last()?.parse::<u64>().ok());
    each.sum()
}

/// A time in its notation, such as `1.05ms`, in µs.
fn duration_us(text: &str) -> Option<f64> {
    let unit = text.find(|character: char| character.is_ascii_alphabetic())?;
    let factor = match &text[unit..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3_600e6,
        _ => return None,
    };
    Some(factor * text[..unit].parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of a run without errors.
    const GOOD: &str = "\
Running 1s test @ http://127.0.0.1:18080/
  2 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    10.10ms    5.46ms  43.89ms   73.69%
    Req/Sec   302.62     66.23   430.00     61.90%
  Latency Distribution
     50%  896.00us
     75%   12.48ms
     90%   16.29ms
     99%   33.36ms
  637 requests in 1.10s, 116.51KB read
Requests/sec:    578.56
Transfer/sec:    105.82KB
";
    /// The output for a server that closes some connections and does not answer on others.
    const BROKEN: &str = "\
Running 4s test @ http://127.0.0.1:18081/
  1 threads and 6 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    10.47ms    0.96ms  22.34ms   95.63%
    Req/Sec   288.08     19.30   333.00     87.50%
  Latency Distribution
     50%   10.28ms
     75%   10.35ms
     90%   10.42ms
     99%    1.59s 
  1147 requests in 4.00s, 44.80KB read
  Socket errors: connect 0, read 2, write 0, timeout 3
Requests/sec:    286.56
Transfer/sec:     11.19KB
";

    #[test]
    fn a_report_is_read() {
        let expected = Finding {
            requests: 637,
            per_s: 578.56,
            p50_us: 896.0,
            p99_us: 33_360.0,
            errors: 0,
        };
        assert_eq!(parse(GOOD), Some(expected));
    }

    #[test]
    fn few_answers_have_no_p99() {
        let found = parse(GOOD).expect("it is whole");
        let names = |requests| {
            let finding = Finding { requests, ..found };
            finding
                .percentiles()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(637), ["p50_us"]);
        assert_eq!(names(1_000), ["p50_us", "p99_us"]);
        assert!(names(19).is_empty());
    }

    #[test]
    fn errors_of_both_kinds_are_counted() {
        let found = parse(BROKEN).expect("it is whole");
        assert_eq!((found.requests, found.errors), (1_147, 5));
        assert!((found.p99_us - 1_590_000.0).abs() < 1.0);
        let other = "  Non-2xx or 3xx responses: 708\nRequests/sec:";
        let both = parse(&BROKEN.replace("Requests/sec:", other)).expect("it is whole");
        assert_eq!(both.errors, 713);
    }

    #[test]
    fn what_is_cut_off_is_no_report() {
        assert_eq!(parse(""), None);
        for label in ["Requests/sec", "99%", "requests in"] {
            assert_eq!(parse(&GOOD.replace(label, "?")), None, "{label}");
        }
        assert_eq!(parse(&BROKEN.replace("read 2", "read some")), None);
    }

    #[test]
    fn every_unit_of_time_is_known() {
        let all = [
            ("5.00us", 5.0),
            ("2.50ms", 2_500.0),
            ("1.00s", 1e6),
            ("2.00m", 120e6),
        ];
        for (text, us) in all {
            assert_eq!(duration_us(text), Some(us), "{text}");
        }
        assert_eq!(duration_us("5"), None);
        assert_eq!(duration_us("5x"), None);
    }
}
