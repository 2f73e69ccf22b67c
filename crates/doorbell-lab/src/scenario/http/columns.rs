//! The columns of the scenario's tables, and how to read them.

use super::super::late;
use crate::report::Chart;

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 9] = [
    ["rate_per_s", "rate_min_per_s", "rate_max_per_s"],
    late::SPREADS[0],
    late::SPREADS[1],
    ["max_us", "max_min_us", "max_max_us"],
    [
        "server_cpu_us_per_op",
        "server_cpu_min_us_per_op",
        "server_cpu_max_us_per_op",
    ],
    ["kept_x", "kept_min_x", "kept_max_x"],
    ["plain_per_s", "plain_min_per_s", "plain_max_per_s"],
    [
        "idle_wakeups_per_s",
        "idle_wakeups_min_per_s",
        "idle_wakeups_max_per_s",
    ],
    [
        "rss_per_connection_bytes",
        "rss_min_per_connection_bytes",
        "rss_max_per_connection_bytes",
    ],
];

/// One sentence for each group of columns. Also part of the help.
pub(super) const READING: [&str; 14] = [
    "hello: 64 connections of `wrk` ask for 12 bytes, as fast as they can. req/s, p50 us and p99 us are \
     as wrk says; medians over the rounds, and the least and the greatest round. A round with fewer than \
     1,000 answers has no p99.",
    "CPU us/req: the CPU time of the server's process for each request; that of the clients is not in it.",
    "x tokio, x two: the rate divided by that of tokio with two workers, and by that of two tokio runtimes \
     of one thread each, in the same round.",
    "computing: 32 connections of `wrk` ask for what takes 5 ms of a CPU, an amount of work that is the same \
     for everybody. compute/s: how often they got it.",
    "probe: /healthz is due every 10 ms meanwhile, whether the last answer has come or not, on a new \
     connection each time or on one of those that were opened before. Its p50, p99 and max count from when it \
     was due; the asking threads run before all others, or with a slice of 100 us where that is refused.",
    late::ENOUGH,
    "flood: 64 connections of `wrk` ask for /healthz, as fast as they can. compute/s: what 32 connections get beside \
     that; kept: divided by what they got without it, just before, which is alone. /healthz/s: answers of the flood. plain/s: the same amount of work, by two \
     threads of this program that do nothing else, beside a flood; x tokio: divided by what they get beside \
     tokio under the same flood.",
    "idle: connections that have asked once and then ask nothing. wakeups/s: how often a thread of the \
     server leaves a CPU to wait; RSS/conn: memory of the server's process for each, in bytes. Left: \
     descriptors, and memory for each connection, when the clients have closed them.",
    "errors: connections that failed, answers that were late or no success, of wrk's and of the probe's; \
     there must be none.",
    "Each server is a process of its own with two workers, where the OS puts them; doorbell has one for each \
     class that it uses on each core, and servers with a pool have two threads more. The allocator is the same. What the JSON says of CPU time, wake-ups, switches and interrupts beside these is that of \
     the clients.",
    "Servers of tokio and doorbell are hyper's and have the same features: a timeout for heads, HTTP/1 and \
     HTTP/2 on one port, and requests in flight are answered when the server ends. `tokio, bare hyper` has \
     HTTP/1 alone and no timeout; `raw epoll` is a few lines by hand, as a limit.",
    "The handler computes, unless the row says otherwise. `spawn_blocking`: tokio's blocking threads compute. \
     `two SCHED_IDLE threads`: the handler sends the work to two such threads and awaits the answer. \
     `idle-class pool`: raw epoll does the same.",
    "doorbell answers /healthz in class Rt and every other route in class Fair, as the documentation of \
     `Server::classes` has it. `/ in class Rt` answers greetings there as well; `one class` has no classes.",
    "goals of doorbell: hello at least 1.05 times tokio's rate and 0.98 times that of two runtimes, p99 at \
     most tokio's, at most 14 us of CPU for a request; /healthz p99 at most 1 ms, or 2 ms without privilege, \
     and at most that of tokio with two SCHED_IDLE threads (x tokio idle), at 0.97 times the compute/s of \
     tokio that computes in the handler, as doorbell does; a flood leaves 0.5 of the computations, and plain \
     threads 0.95 of what they get beside tokio; idle no wake-up, and at most tokio's memory.",
];

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How long answers take, greetings and probes, µs (log scale)")
}
