//! The settings of a builder, and the faults that change the runtime or its clock.

use doorbell::sim::{self, Config, Fault};
use doorbell::time::{Duration, Instant, sleep};
use doorbell::{Builder, CallError, Handle, IdlePolicy, call_on, current_core, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn three_cores_in_random_order() -> Builder {
    Builder::new()
        .cores(3)
        .shuffle(5)
        .idle(IdlePolicy::Park)
        .poll_times(true)
}

#[doorbell::test(sim, seeds = 0..2, builder = three_cores_in_random_order)]
async fn a_builder_says_how_many_cores_there_are_and_what_is_recorded() {
    assert_eq!(Handle::current().cores(), 3);
    let waits = spawn(sleep(Duration::from_millis(1)));
    sleep(Duration::from_micros(200)).await;
    let tasks = Handle::current().dump().await;
    assert!(tasks.iter().any(|task| task.age().is_some()));
    waits.await.unwrap();
}

#[doorbell::test(sim, cores = 2, seeds = 0..1, builder = three_cores_in_random_order)]
async fn the_option_cores_replaces_the_number_of_a_builder() {
    assert_eq!(Handle::current().cores(), 2);
}

#[doorbell::test(sim, cores = 2, seeds = 0..3, builder = || Builder::new().start_paused(true))]
async fn a_paused_clock_jumps_exactly_to_the_next_timer() {
    const DAY: Duration = Duration::from_hours(24);
    let begun = Instant::now();
    let longer = spawn(sleep(2 * DAY));
    sleep(DAY).await;
    sim::check(begun.elapsed() == DAY, "the clock went on by itself");
    longer.await.unwrap();
    sim::check(begun.elapsed() == 2 * DAY, "the clock went on by itself");
}

#[test]
fn a_setting_that_is_not_simulated_is_refused_with_its_name() {
    let refused = [
        ("core_list", Builder::new().core_list([0])),
        ("pin", Builder::new().pin(false)),
        ("stack_size", Builder::new().stack_size(1 << 20)),
        ("blocking_threads", Builder::new().blocking_threads(1)),
        (
            "blocking_keep_alive",
            Builder::new().blocking_keep_alive(Duration::ZERO),
        ),
        (
            "on_stall",
            Builder::new().on_stall(Duration::from_secs(1), |_| ()),
        ),
        ("around_threads", doorbell_tokio::builder()),
    ];
    for (setting, builder) in refused {
        let failed = sim::run(Config::new().builder(builder), || async {}).unwrap_err();
        let text = failed.to_string();
        assert!(
            text.contains(&format!("`Builder::{setting}` is not simulated")),
            "{text}"
        );
    }
}

#[test]
fn a_builder_that_cannot_be_built_says_why() {
    let failed = sim::run(
        Config::new().builder(Builder::new().rt_priority(0)),
        || async {},
    );
    let text = failed.unwrap_err().to_string();
    assert!(text.contains("cannot have priority 0"), "{text}");
}

#[test]
fn the_fault_offline_has_calls_refused_and_loses_no_task() {
    let refused = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&refused);
    let program = move || {
        let count = Arc::clone(&count);
        async move {
            let tasks: Vec<_> = (0..50)
                .map(|number| {
                    spawn(async move {
                        for _ in 0..20 {
                            sleep(Duration::from_micros(500)).await;
                            sim::work(Duration::from_micros(20));
                        }
                        number
                    })
                })
                .collect();
            for core in (0..400).map(|call| call % 4) {
                match call_on(core, current_core).await {
                    Ok(at) => sim::check(at.is_some(), "a call ran outside of the cores"),
                    Err(CallError::CoreOffline { .. }) => _ = count.fetch_add(1, Relaxed),
                    Err(error) => sim::check(false, &error.to_string()),
                }
                sleep(Duration::from_micros(20)).await;
            }
            for (number, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), number);
            }
        }
    };
    let config = Config::new().cores(4).seeds(0..5).faults([Fault::Offline]);
    sim::run(config, program).unwrap();
    assert!(refused.load(Relaxed) > 0, "no core was off");
}

#[test]
fn a_wait_for_ever_is_found_while_cores_are_taken_off() {
    let config = Config::new().cores(2).seeds(0..1).faults([Fault::Offline]);
    let failed = sim::run(config, std::future::pending::<()>).unwrap_err();
    assert!(failed.to_string().contains("every task waits"), "{failed}");
}

#[test]
fn the_fault_clock_jump_has_sleeps_end_long_after_their_time() {
    let late = |faults: &[Fault]| {
        let worst = Arc::new(AtomicU64::new(0));
        let ours = Arc::clone(&worst);
        let program = move || {
            let ours = Arc::clone(&ours);
            async move {
                for _ in 0..1_000 {
                    let until = Instant::now() + Duration::from_micros(100);
                    sleep(Duration::from_micros(100)).await;
                    let late = Instant::now() - until;
                    ours.fetch_max(late.as_micros() as u64, Relaxed);
                }
            }
        };
        let config = Config::new().cores(2).seeds(0..5);
        sim::run(config.faults(faults.to_vec()), program).unwrap();
        worst.load(Relaxed)
    };
    let (without, with) = (late(&[]), late(&[Fault::ClockJump]));
    assert!(without < 900 && with > 900, "{without} µs, {with} µs");
}

#[test]
fn a_profile_says_what_the_machine_costs() {
    let ten_calls_ns = |config: Config| {
        let took_ns = Arc::new(AtomicU64::new(0));
        let ours = Arc::clone(&took_ns);
        let calls = move || {
            let ours = Arc::clone(&ours);
            async move {
                let begun = Instant::now();
                for core in 0..10 {
                    call_on(core, current_core).await.unwrap();
                }
                ours.store(begun.elapsed().as_nanos() as u64, Relaxed);
            }
        };
        sim::run(config.cores(64).seeds(0..1), calls).unwrap();
        took_ns.load(Relaxed)
    };
    // Its CPUs take eight times as long to leave their idle states.
    let (usual, zen3) = (
        ten_calls_ns(Config::new()),
        ten_calls_ns(Config::new().profile("zen3-2x64")),
    );
    assert!(zen3 > 2 * usual, "{zen3} ns, {usual} ns");
}

#[doorbell::test(sim, cores = 2, seeds = 0..1, profile = "profiles/slow.toml")]
async fn a_profile_may_be_a_file() {
    let begun = Instant::now();
    let _ = Instant::now();
    sim::check(
        begun.elapsed() >= Duration::from_micros(5),
        "the file was not used",
    );
}

#[test]
fn a_profile_that_is_not_there_says_which_there_are() {
    let failed = sim::run(Config::new().profile("zen3-2x46"), || async {}).unwrap_err();
    assert!(
        failed.to_string().contains("did you mean `zen3-2x64`"),
        "{failed}"
    );
}
