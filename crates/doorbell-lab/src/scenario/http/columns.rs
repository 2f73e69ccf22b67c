//! The columns of the scenario's tables, and how to read them.

use super::super::late;
use crate::report::Chart;

/// Figures whose spread over the rounds is kept.
pub(super) const SPREADS: [[&str; 3]; 9] = [
    ["rate_per_s", "rate_min_per_s", "rate_max_per_s"],
    late::SPREADS[0],
    late::SPREADS[1],
    late::MAX_SPREAD,
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
    "hello: 64 connections of `wrk` request 12 bytes as fast as they can. req/s, p50 us and p99 us \
     are wrk's figures; medians over the rounds, and the minimum and maximum. A round with fewer than \
     1,000 answers has no p99.",
    "CPU us/req: CPU time of the server's process per request; the clients' CPU time is not included.",
    "x tokio, x two: the rate divided by that of tokio with two workers, and by that of two \
     single-threaded tokio runtimes, in the same round.",
    "computing: 32 connections of `wrk` each request 5 ms of CPU time, the same amount of work for \
     all servers. compute/s: answers per second.",
    "probe: meanwhile a request for /healthz is due every 10 ms, whether the last one was answered or \
     not, on a new connection or on one that was opened before. Its p50, p99 and max count from the \
     time at which it was due. The probe's threads have real-time priority, or a slice of 100 us \
     where that is refused.",
    late::ENOUGH,
    "flood: 64 connections of `wrk` request /healthz as fast as they can. compute/s: what 32 \
     connections get beside that. kept: the same divided by alone, what they got without the flood \
     just before. /healthz/s: answers of the flood. plain/s: the same work, done by two threads of \
     this program beside a flood. x tokio: divided by what these threads get beside tokio under the \
     same flood.",
    "idle: connections that made one request and are idle since. wakeups/s: how often a thread of the \
     server leaves a CPU to wait. RSS/conn: resident memory of the server's process per connection, \
     in bytes. Left: descriptors, and memory per connection, after the clients have closed them.",
    "errors: failed connections, late answers and answers that were no success, of wrk and of the \
     probe; there must be none.",
    "Each server is a process of its own with two workers, where the OS puts them. doorbell has a \
     worker on each core for each class that it uses, and servers with a pool have two more threads. \
     The allocator is the same for all. Any other CPU time, wake-ups, switches and interrupts in the \
     JSON are those of the clients.",
    "The servers on tokio and doorbell use hyper and have the same features: a timeout for heads, \
     HTTP/1 and HTTP/2 on one port, and requests in flight are answered when the server ends. `tokio, \
     bare hyper` has HTTP/1 only and no timeout; `raw epoll` is a few lines by hand, as a limit.",
    "The handler computes, unless the row says otherwise. `spawn_blocking`: tokio's blocking threads \
     compute. `two SCHED_IDLE threads`: the handler sends the work to two such threads and awaits the \
     answer. `idle-class pool`: raw epoll does the same.",
    "doorbell answers /healthz in class Rt and every other route in class Fair, as the documentation \
     of `Server::classes` suggests. `/ in class Rt` answers greetings in class Rt as well; `one \
     class` has no classes.",
    "goals of doorbell: hello at least 1.05 times tokio's rate and 0.98 times that of two runtimes, \
     p99 at most tokio's, and at most 14 us of CPU time per request; /healthz p99 at most 1 ms, or 2 \
     ms without privilege, and at most that of tokio with two SCHED_IDLE threads (x tokio idle), at \
     0.97 times the compute/s of tokio that computes in the handler, as doorbell does; a flood leaves \
     0.5 of the computations, and leaves plain threads 0.95 of what they get beside tokio; idle \
     without wake-ups, and at most tokio's memory.",
];

/// The chart of the page.
pub(super) fn chart() -> Chart {
    late::chart("How long answers take, greetings and probes, µs (log scale)")
}
