//! The choice, fed with times. `tests/workers.rs` tests the steps of workers.

mod workers;

use super::choice::{Account, choose, is_before, moves_present, step};
use super::{DEFAULT_WEIGHT, Table, WEIGHT_MAX};
use doorbell_machine::Host;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Groups from which simulated workers choose.
struct Model {
    accounts: Vec<Account>,
    rests: Vec<u64>,
    used_ns: Vec<u64>,
    present: u64,
    now_ns: u64,
}

impl Model {
    fn new(weights: &[u32], start: u64) -> Self {
        let account = |weight: &u32| Account {
            time: start,
            weight: *weight,
            ran_ns: 0,
        };
        Model {
            accounts: weights.iter().map(account).collect(),
            rests: vec![0; weights.len()],
            used_ns: vec![0; weights.len()],
            present: start,
            now_ns: 0,
        }
    }

    /// As `Table::choose` and `Table::begin`.
    fn choose(&mut self, runnable: impl Fn(usize) -> bool) -> usize {
        let known = self.accounts.iter().enumerate();
        let known = known
            .filter(|(at, _)| runnable(*at))
            .map(|(at, account)| (at as u8, *account));
        let choice = choose(known, self.present, self.now_ns).expect("one can run");
        let at = usize::from(choice.group);
        self.accounts[at].time = choice.time;
        if moves_present(self.present, choice.time) {
            self.present = choice.time;
        }
        at
    }

    /// As `Table::charge`.
    fn charge(&mut self, at: usize, ran_ns: u64) {
        let account = &mut self.accounts[at];
        let (steps, rest) = step(ran_ns, account.weight, self.rests[at]);
        self.rests[at] = rest;
        account.time = account.time.wrapping_add(steps);
        account.ran_ns = self.now_ns;
        self.used_ns[at] += ran_ns;
    }

    /// One worker runs polls for `for_ns`.
    fn run(
        &mut self,
        for_ns: u64,
        mut poll_ns: impl FnMut() -> u64,
        runnable: impl Fn(usize) -> bool,
    ) {
        let end_ns = self.now_ns + for_ns;
        while self.now_ns < end_ns {
            let at = self.choose(&runnable);
            let took_ns = poll_ns();
            self.now_ns += took_ns;
            self.charge(at, took_ns);
        }
    }

    /// Runs polls on several workers for `for_ns`. Each worker chooses by itself.
    fn run_workers(&mut self, workers: usize, for_ns: u64, mut poll_ns: impl FnMut() -> u64) {
        let end_ns = self.now_ns + for_ns;
        let mut busy: Vec<(u64, usize, u64)> = Vec::new();
        loop {
            while busy.len() < workers {
                let at = self.choose(|_| true);
                let took_ns = poll_ns();
                busy.push((self.now_ns + took_ns, at, took_ns));
            }
            busy.sort_unstable();
            let (ends_ns, at, took_ns) = busy.remove(0);
            if ends_ns > end_ns {
                return;
            }
            self.now_ns = ends_ns;
            self.charge(at, took_ns);
        }
    }

    /// Asserts that each group got its share of the time that all used, off by at most `most_ns`.
    fn assert_shares(&self, weights: &[u32], most_ns: u64) {
        let all_ns: u64 = self.used_ns.iter().sum();
        let all_weights: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        for (used_ns, weight) in self.used_ns.iter().zip(weights) {
            let part_ns = all_ns * u64::from(*weight) / all_weights;
            let off_ns = used_ns.abs_diff(part_ns);
            assert!(off_ns <= most_ns, "{:?} by {weights:?}", self.used_ns);
        }
    }
}

#[test]
fn weights_of_one_to_two_to_seven_share_two_workers() {
    let weights = [100, 200, 700];
    let mut model = Model::new(&weights, 0);
    model.run_workers(2, 100 * MS, || 100_000);
    model.assert_shares(&weights, 10 * MS);
    // Equal polls make it more exact: off by at most five polls.
    model.assert_shares(&weights, 500_000);
}

#[test]
fn equal_weights_alternate() {
    let mut model = Model::new(&[300; 3], 0);
    let chosen: Vec<usize> = (0..9)
        .map(|_| {
            let at = model.choose(|_| true);
            model.now_ns += 10_000;
            model.charge(at, 10_000);
            at
        })
        .collect();
    assert_eq!(chosen, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_group_alone_gets_all() {
    let mut model = Model::new(&[1, WEIGHT_MAX], 0);
    model.run(100 * MS, || 50_000, |at| at == 0);
    assert_eq!(model.used_ns, [100 * MS, 0]);
}

#[test]
fn who_did_nothing_has_no_credit() {
    let mut model = Model::new(&[100, 100], 0);
    model.run(1_000 * MS, || 50_000, |at| at == 0);
    model.used_ns = vec![0; 2];
    model.run(100 * MS, || 50_000, |_| true);
    model.assert_shares(&[100, 100], 100_000);
    // Neither has a group a debt for what it used alone.
    model.run(1_000 * MS, || 50_000, |at| at == 1);
    model.used_ns = vec![0; 2];
    model.run(100 * MS, || 50_000, |_| true);
    model.assert_shares(&[100, 100], 100_000);
}

#[test]
fn who_has_too_few_tasks_has_little_credit() {
    // The second group can run only every other millisecond; its weight entitles it to nearly all the time.
    let mut model = Model::new(&[100, WEIGHT_MAX], 0);
    for _ in 0..500 {
        model.run(MS, || 50_000, |at| at == 0);
        model.run(MS, || 50_000, |_| true);
    }
    model.accounts[1].weight = 100;
    model.used_ns = vec![0; 2];
    model.run(100 * MS, || 50_000, |_| true);
    model.assert_shares(&[100, 100], 2 * MS + 100_000);
}

#[test]
fn what_is_left_of_a_step_is_not_lost() {
    let weight = 7_777;
    let (mut time, mut rest) = (0, 0);
    for _ in 0..1_000_000 {
        let steps;
        (steps, rest) = step(150, weight, rest);
        time += steps;
    }
    assert_eq!(time, 150 * 1_000_000 * 100 / u64::from(weight));
}

#[test]
fn times_wrap() {
    assert!(is_before(u64::MAX, 0) && !is_before(0, u64::MAX));
    let mut model = Model::new(&[DEFAULT_WEIGHT, 200], u64::MAX - 10 * MS);
    model.run(100 * MS, || 100_000, |_| true);
    model.assert_shares(&[DEFAULT_WEIGHT, 200], 300_000);
    assert!(model.present < 100 * MS);
}

proptest! {
    /// For any weights and polls of up to 0.5 ms, shares over 100 ms are within 5 per cent of all CPU time.
    #[test]
    fn shares_are_within_five_per_cent_over_100_ms(
        weights in prop::collection::vec(1..=WEIGHT_MAX, 1..8),
        workers in 1_usize..9,
        start in any::<u64>(),
        polls in prop::collection::vec(1_000_u64..500_000, 1..64),
    ) {
        let mut model = Model::new(&weights, start);
        let mut polls = polls.iter().copied().cycle();
        // Not measured: the first polls all begin at the same time.
        model.run_workers(workers, 100 * MS, || polls.next().unwrap());
        model.used_ns.fill(0);
        model.run_workers(workers, 100 * MS, || polls.next().unwrap());
        model.assert_shares(&weights, 5 * MS * workers as u64);
    }

    /// A group that was idle and comes back gets its share from then on, within 5 per cent over 100 ms.
    #[test]
    fn whoever_comes_back_gets_its_part(
        weights in prop::collection::vec(1..=WEIGHT_MAX, 2..5),
        away_ms in 6_u64..200,
        poll_ns in 10_000_u64..200_000,
    ) {
        let mut model = Model::new(&weights, 0);
        model.run(100 * MS, || poll_ns, |_| true);
        model.run(away_ms * MS, || poll_ns, |at| at != 0);
        model.used_ns.fill(0);
        model.run(100 * MS, || poll_ns, |_| true);
        model.assert_shares(&weights, 5 * MS);
    }
}

#[test]
fn a_poll_that_is_charged_between_choice_and_begin_stays_charged() {
    let table = Table::<Host>::new(2);
    let choice = table.choose([0].into_iter(), MS).unwrap();
    // SAFETY: no other thread has the table.
    unsafe { table.charge(choice.group, 1, 0, MS) };
    let charged = table.slot(0).unwrap().account().time;
    table.begin(choice);
    assert_eq!(table.slot(0).unwrap().account().time, charged);
    assert_ne!(charged, choice.time);
}
