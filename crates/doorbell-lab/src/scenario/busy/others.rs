//! A web service whose handlers compute in slices, and sleeps of a runtime that has nothing else to do.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use doorbell::IdlePolicy;

use super::super::http::{Probe, Site, connect, get};
use super::{BASELINE, OURS, SPINNING};
use crate::frame::{Contestant, Outcome};
use crate::peers::{Doorbell, Host as _, Role, Timers, Tokio, Workers};
use crate::tools::{Lateness, beside_threads, run_all, steps_for};

/// Names, and the flags of the servers.
const SERVERS: [(&str, &str); 3] = [
    (BASELINE, "tokio"),
    ("tokio, one a core", "two-tokios"),
    (OURS, "doorbell-one-class"),
];
/// How `/compute` does its work: slices, and the length of one.
const CUTS: [(&str, u32, Duration); 2] = [
    ("service, 10 x 1 ms", 10, Duration::from_millis(1)),
    ("service, 50 x 0.1 ms", 50, Duration::from_micros(100)),
];
/// Connections that compute all the time.
const CLIENTS: usize = 8;
/// A probe is due so often.
const PROBED: Duration = Duration::from_millis(5);
/// The probes begin later and end earlier.
const EDGE: Duration = Duration::from_millis(30);
/// A server lives so much longer than a pass.
const SPARE_S: u64 = 120;
const THREAD: &str = "service-client";
/// A worker that spins does so for this long.
const SPIN: Duration = Duration::from_millis(5);

pub(super) fn services(pass: Duration) -> Vec<Contestant> {
    let mut all = Vec::new();
    for (variant, slices, slice) in CUTS {
        for (name, flag) in SERVERS {
            let start = move || {
                let more = [
                    format!("--compute-slices={slices}"),
                    format!("--seconds-max={}", pass.as_secs() + SPARE_S),
                ];
                Site::start(flag, steps_for(slice) * u64::from(slices), &more)
            };
            let one = Contestant::new(name, variant, start, serve, Site::end);
            all.push(one.baseline_if(name == BASELINE));
        }
    }
    all
}

const FAILED: &str = "asking the service";

/// Probes on kept and on new connections, beside clients that compute.
fn serve(site: &mut Site, amount_ms: u32) -> Result<Outcome> {
    let span = Duration::from_millis(amount_ms.into()).saturating_sub(EDGE);
    let probe = |keeps| Probe::start(site.address, keeps, PROBED, EDGE, span);
    let probes = [probe(true)?, probe(false)?];
    let began = Instant::now();
    let address = site.address;
    let client = || {
        let mut stream = connect(address).context(FAILED)?;
        Ok(move || get(&mut stream, "/compute").context(FAILED))
    };
    let (computed, probed) =
        beside_threads((THREAD, CLIENTS), client, || probes.map(Probe::finish))?;
    let took_s = began.elapsed().as_secs_f64();
    let mut parts = Vec::new();
    for (part, probed) in ["kept", "new"].into_iter().zip(probed) {
        let (late, errors) = probed?;
        ensure!(errors == 0, "{errors} requests were not answered");
        parts.push((part, late));
    }
    let figures = [("computed_per_s", computed as f64 / took_s)];
    Ok(Outcome::of(computed, figures).in_parts(parts))
}

/// Sleeps of one length, or ticks that are so far apart.
const WAITS: [(&str, Duration, bool); 5] = [
    ("sleeps of 0.2 ms", Duration::from_micros(200), false),
    ("sleeps of 1 ms", Duration::from_millis(1), false),
    ("sleeps of 5 ms", Duration::from_millis(5), false),
    ("sleeps of 20 ms", Duration::from_millis(20), false),
    ("an interval of 1 ms", Duration::from_millis(1), true),
];

pub(super) fn sleeps() -> Vec<Contestant> {
    const ONE: Workers = Workers::Free(1);
    let [never_parks, spins] = SPINNING;
    let mut all = Vec::new();
    for (variant, length, is_ticks) in WAITS {
        let wait = (length, is_ticks);
        let never = || Doorbell::with(&ONE, |builder| builder.idle(IdlePolicy::NeverPark));
        let spinning = || Doorbell::with(&ONE, |builder| builder.spin(SPIN));
        all.extend([
            Contestant::of(variant, || Tokio::start(&ONE), waits::<Tokio>(wait)).baseline(),
            Contestant::of(variant, || Doorbell::start(&ONE), waits::<Doorbell>(wait)),
            Contestant::of(variant, never, waits::<Doorbell>(wait)).named(never_parks),
            Contestant::of(variant, spinning, waits::<Doorbell>(wait)).named(spins),
        ]);
    }
    all
}

fn waits<P: Timers>(wait: (Duration, bool)) -> impl Fn(&mut P, u32) -> Result<Outcome> {
    move |peer, amount_ms| {
        let wait = wait_for::<P>(wait, Duration::from_millis(amount_ms.into()));
        let found = run_all(peer, [(Role::default(), wait)]);
        Ok(found?.remove(0).into_outcome())
    }
}

async fn wait_for<P: Timers>((length, is_ticks): (Duration, bool), span: Duration) -> Lateness {
    let ends = Instant::now() + span;
    let mut late = Lateness::default();
    let mut due = Instant::now() + length;
    let mut ticks = is_ticks.then(|| P::ticks(due, length, Duration::ZERO));
    loop {
        if let Some(ticks) = &mut ticks {
            P::tick(ticks).await;
        } else {
            P::sleep(length).await;
        }
        late.note(due, Instant::now());
        if due >= ends {
            return late;
        }
        due = if is_ticks { due } else { Instant::now() } + length;
    }
}
