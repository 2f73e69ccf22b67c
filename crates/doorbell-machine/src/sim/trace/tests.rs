use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ChromeTrace, Event, State, What};

fn event(at_ns: u64, core: u32, worker: u32, what: What<'_>) -> Event<'_> {
    Event {
        at_ns,
        core,
        worker,
        what,
    }
}

fn written(events: &[Event<'_>]) -> Vec<Value> {
    let mut trace = ChromeTrace::begin(Vec::new()).expect("a vector takes everything");
    trace
        .name_worker(0, 7, "fair \"0\"")
        .expect("a vector takes everything");
    for event in events {
        trace.event(event).expect("a vector takes everything");
    }
    let bytes = trace.finish().expect("a vector takes everything");
    let json: Value = serde_json::from_slice(&bytes).expect("it is JSON");
    json["traceEvents"].as_array().expect("a list").clone()
}

/// Two workers that post to each other; one worker moves; one item never runs.
fn a_run() -> Vec<Event<'static>> {
    use State::{Ended, Parked, Running, Spinning, Waiting};
    vec![
        event(0, 0, 7, What::State(Running)),
        event(0, 1, 8, What::State(Spinning)),
        event(10, 0, 7, What::Post { item: 40 }),
        event(15, 0, 7, What::Notify { of: 8 }),
        event(90, 1, 8, What::State(Running)),
        event(95, 1, 8, What::Run { item: 40 }),
        // The number is free again.
        event(96, 1, 8, What::Post { item: 40 }),
        event(97, 1, 8, What::Ring { of: 7 }),
        event(99, 1, 8, What::State(Parked)),
        event(1_000, 0, 7, What::Run { item: 40 }),
        event(1_001, 0, 7, What::State(Waiting)),
        // The worker goes on on another core, and so does its slice.
        event(1_500, 2, 7, What::State(Running)),
        event(1_501, 2, 7, What::Post { item: 41 }),
        event(1_502, 2, 7, What::Post { item: 41 }),
        event(1_600, 2, 7, What::Run { item: 99 }),
        event(
            1_700,
            2,
            7,
            What::Instant {
                name: "fault: \"late\"",
            },
        ),
        event(2_500, 1, 8, What::State(Ended)),
    ]
}

fn number(record: &Value, field: &str) -> u64 {
    record[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} of {record}"))
}

fn phase(record: &Value) -> &str {
    record["ph"].as_str().expect("a phase")
}

#[test]
fn times_ascend_on_every_track_and_slices_close() {
    let mut last: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    let mut open: BTreeMap<(u64, u64), i32> = BTreeMap::new();
    for record in written(&a_run())
        .iter()
        .filter(|record| phase(record) != "M")
    {
        let track = (number(record, "pid"), number(record, "tid"));
        let ts = record["ts"].as_f64().expect("a time");
        let before = last.insert(track, ts).unwrap_or(0.0);
        assert!(before <= ts, "{before} then {ts} on {track:?}");
        let depth = open.entry(track).or_default();
        *depth += match phase(record) {
            "B" => 1,
            "E" => -1,
            _ => 0,
        };
        assert!((0..=1).contains(depth), "one slice at a time: {record}");
    }
    assert_eq!(last.len(), 3, "worker 7 is drawn on two cores");
    assert!(open.values().all(|depth| *depth == 0), "{open:?}");
}

#[test]
fn every_arrow_begins_and_ends_once() {
    let records = written(&a_run());
    let numbers = |of: &str| -> Vec<u64> {
        let arrows = records.iter().filter(|record| phase(record) == of);
        arrows.map(|record| number(record, "id")).collect()
    };
    let (begun, ended) = (numbers("s"), numbers("f"));
    assert_eq!(begun, [0, 1, 2, 3]);
    assert_eq!(
        ended.iter().collect::<BTreeSet<_>>(),
        begun.iter().collect()
    );
    assert_eq!(ended.len(), begun.len());
    let lost = records
        .iter()
        .filter(|record| record["name"] == "item 41 never ran");
    assert_eq!(lost.count(), 2, "posted twice, run never");
    let end = records
        .iter()
        .find(|record| phase(record) == "f" && record["id"] == 0)
        .expect("it ended");
    assert_eq!((number(end, "pid"), number(end, "tid")), (1, 8));
    assert_eq!(end["bp"], "e");
}

#[test]
fn cores_and_workers_have_names() {
    let records = written(&a_run());
    let named = |kind: &str| -> Vec<String> {
        let metadata = records.iter().filter(|record| record["name"] == kind);
        metadata
            .map(|record| record["args"]["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(named("thread_name"), ["fair \"0\""]);
    assert_eq!(named("process_name"), ["core 0", "core 1", "core 2"]);
    let names: BTreeSet<_> = records
        .iter()
        .filter(|record| phase(record) == "i" || phase(record) == "B")
        .map(|record| record["name"].as_str().expect("a name"))
        .collect();
    for name in [
        "running",
        "spinning",
        "parked",
        "notify worker 8",
        "ring worker 7",
        "fault: \"late\"",
    ] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
}

#[test]
fn what_is_kept_does_not_grow_with_the_run() {
    let mut trace = ChromeTrace::begin(std::io::sink()).expect("a sink takes everything");
    for at_ns in 0..100_000 {
        let what = if at_ns % 2 == 0 {
            What::Post { item: at_ns }
        } else {
            What::Run { item: at_ns - 1 }
        };
        trace
            .event(&event(at_ns, 0, 0, what))
            .expect("a sink takes everything");
        assert!(trace.kept() <= 3, "at {at_ns}");
    }
}

#[test]
fn a_run_of_the_machine_is_drawn_with_its_arrows() {
    use std::cell::RefCell;
    use std::rc::Rc;

    use crate::{Machine, Sim, ThreadHandle, ThreadSpec, sim};

    use super::{MachineTrace, post_note, run_note};

    let trace = MachineTrace::begin(Vec::new()).expect("a vector takes everything");
    let trace = Rc::new(RefCell::new(trace));
    let theirs = Rc::clone(&trace);
    let sink: sim::Sink = Box::new(move |event| {
        let mut trace = theirs.borrow_mut();
        trace.record(event).expect("a vector takes everything");
    });
    let outcome = sim::run_traced(sim::Config::default(), Some(sink), || {
        sim::note(post_note(5));
        let spec = ThreadSpec {
            name: "runner".to_owned(),
            cpu: Some(1),
            stack_size: None,
        };
        let thread = <Sim as Machine>::spawn(
            spec,
            Box::new(|| {
                sim::note(run_note(5));
                sim::sleep(1_000);
            }),
        );
        thread.expect("it starts").join().expect("it ends");
    });
    let outcome = outcome.expect("it can be simulated");
    assert_eq!(outcome.failure, None);
    let trace = Rc::into_inner(trace)
        .expect("the sink is gone")
        .into_inner();
    let bytes = trace
        .finish(&outcome.threads)
        .expect("a vector takes everything");
    let json: Value = serde_json::from_slice(&bytes).expect("it is JSON");
    let records = json["traceEvents"].as_array().expect("a list");
    let one = |of: &str| {
        let mut found = records.iter().filter(|record| phase(record) == of);
        let one = found.next().expect("there is one");
        assert!(found.next().is_none(), "and no other");
        (number(one, "pid"), number(one, "id"))
    };
    assert_eq!((one("s"), one("f")), ((0, 0), (1, 0)));
    assert!(
        records
            .iter()
            .any(|record| record["args"]["name"] == "runner")
    );
    let parked = records.iter().filter(|record| record["name"] == "parked");
    assert_eq!(parked.count(), 2, "one joins, one sleeps");
}
