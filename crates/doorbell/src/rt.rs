//! The runtime of one machine, below the public names.

use crate::ambient::{self, Ambient, Limit};
use crate::blocking::{Blocking, BlockingPlan, Open, Pool};
use crate::handle::Handle;
use crate::metrics::{LaneMetrics, Metrics};
use crate::room::Rooms;
use crate::{CoreId, Switches};
use async_lock::Semaphore;
use doorbell_core::bell::LaneState;
use doorbell_core::call::{
    Drawn, ErasedCall, Gone, ManyTable, Pool as Parcels, RawMany, Room, Run, SPIN_NS, launch_many,
    wait_for,
};
use doorbell_core::crew::{Crew, FrontRef};
use doorbell_core::lane::{IdlePolicy, Lane, LaneConfig, LaneShared, WatchPlan, Watchers};
use doorbell_core::offline::{PutBack, TakenOff};
use doorbell_core::switches::SwitchWord;
use doorbell_core::task::{
    BodyVtable, Kind, Local, Name, RawJoin, TaskSeen, drop_quietly, launch_named,
};
use doorbell_core::wait;
use doorbell_core::wheel::{AtRest, Clock, Holds, RawTimer};
use doorbell_machine::{
    Counter, Line, Machine, Seat, ThreadError, ThreadHandle, ThreadSpec, Topology, Word,
};
use event_listener::{Event, EventListener, IntoNotification};
use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// What a runtime is made of.
pub(crate) struct Plan {
    pub(crate) name: String,
    /// The CPU of each core; `None` leaves its lane free.
    pub(crate) cpus: Vec<Option<usize>>,
    pub(crate) idle: IdlePolicy,
    pub(crate) switches: Switches,
    pub(crate) blocking: BlockingPlan,
    pub(crate) mailbox_limit: Option<usize>,
    pub(crate) watch: WatchPlan,
    /// Whether the clock stands still while there is something to do.
    pub(crate) paused: bool,
}

/// How far one core is from another: work is taken from the nearest first.
fn distance(topology: &Topology, one: Option<usize>, other: Option<usize>) -> u32 {
    let cpu = |os_id: Option<usize>| topology.cpu(os_id?);
    let (Some(one), Some(other)) = (cpu(one), cpu(other)) else {
        // A lane that is free to move is as far from one as from another.
        return 0;
    };
    if one.node != other.node {
        3
    } else if one.llc != other.llc {
        2
    } else {
        u32::from(one.smt != other.smt)
    }
}

/// How long a thread of the user's watches in `block_on`: lanes may be asked to for ever, such a
/// thread only for a while.
fn watch_of_threads_ns(idle: IdlePolicy) -> u64 {
    match idle {
        IdlePolicy::Park => 0,
        IdlePolicy::Watch { watch_ns } => watch_ns.min(SPIN_NS),
        IdlePolicy::Adaptive { watch_max_ns, .. } => watch_max_ns.min(SPIN_NS),
        IdlePolicy::Spin => SPIN_NS,
    }
}

/// A clock that tells whoever waits for the runtime to rest, one at a time.
fn paused_clock<M: Machine>(front: FrontRef<M>, rested: Arc<Event>) -> Clock<M> {
    Clock::paused(front, move || {
        // One who was told and has not looked yet does not stand for the next one. A panic of a
        // waker of the user's goes no further: the caller is a lane.
        let told = catch_unwind(AssertUnwindSafe(|| rested.notify(1.additional())));
        match told {
            Ok(0) => AtRest::Nobody,
            Ok(_) => AtRest::Woken,
            Err(payload) => {
                drop_quietly(payload);
                AtRest::Woken
            }
        }
    })
}

/// What handles and lanes share.
pub(crate) struct Rt<M: Machine> {
    lanes: Box<[Arc<LaneShared<M>>]>,
    switches: Arc<SwitchWord<M::Counter>>,
    /// Written by every thread that is no lane; in a line of its own.
    cursor: M::Line<M::Counter>,
    watch_ns: u64,
    clock: Arc<Clock<M>>,
    /// Told when the runtime rests; only with a paused clock.
    rested: Option<Arc<Event>>,
    /// The CPU of each core; `None` leaves its lane free.
    cpus: Vec<Option<usize>>,
    rooms: Rooms,
    blocking: Arc<Pool<M>>,
}

impl<M: Machine> std::fmt::Debug for Rt<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rt")
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}

/// The lanes' threads: whoever has this ends the runtime by dropping it.
#[derive(Debug)]
pub(crate) struct Owner<M: Machine> {
    rt: Arc<Rt<M>>,
    threads: Vec<M::Thread>,
    /// Whether dropping this waits for the blocking closures under way.
    waits_for_blocking: bool,
    /// `None` once the threads for closures that block were told to end.
    blocking: Option<Open>,
}

impl<M: Machine> Owner<M> {
    /// Starts one lane per core.
    pub(crate) fn start(plan: &Plan) -> Result<Self, ThreadError> {
        let switches = Arc::new(SwitchWord::new(plan.switches));
        let config = LaneConfig { idle: plan.idle };
        let topology = M::topology();
        let watchers = (!plan.watch.is_nothing())
            .then(|| Arc::new(Watchers::new(plan.watch.clone(), plan.cpus.len())));
        let fronts = Crew::watched(plan.cpus.len(), &switches, watchers, |one, other| {
            distance(&topology, plan.cpus[one], plan.cpus[other])
        });
        let rested = plan.paused.then(|| Arc::new(Event::new()));
        let clock = Arc::new(match &rested {
            Some(rested) => paused_clock(fronts[0].clone(), Arc::clone(rested)),
            None => Clock::default(),
        });
        let lanes = fronts
            .into_iter()
            .map(|front| Arc::new(LaneShared::with(config, front, Arc::clone(&clock))));
        let (blocking, open) = Pool::new(plan.blocking.clone(), &plan.name, &clock);
        let rt = Arc::new(Rt {
            lanes: lanes.collect(),
            switches,
            cursor: M::Line::new(M::Counter::default),
            watch_ns: watch_of_threads_ns(plan.idle),
            clock,
            rested,
            cpus: plan.cpus.clone(),
            rooms: Rooms::new(plan.mailbox_limit, plan.cpus.len()),
            blocking,
        });
        // If a thread cannot be started, dropping the owner ends those that were.
        let mut owner = Owner {
            rt,
            threads: Vec::new(),
            blocking: Some(open),
            waits_for_blocking: true,
        };
        for (core, &cpu) in plan.cpus.iter().enumerate() {
            let spec = ThreadSpec {
                name: format!("{}-{core}", plan.name),
                cpu,
            };
            let rt = Arc::clone(&owner.rt);
            owner
                .threads
                .push(M::spawn(spec, Box::new(move || rt.run_lane(core)))?);
        }
        Ok(owner)
    }

    pub(crate) fn handle(&self) -> Handle {
        let rt: Arc<Rt<M>> = Arc::clone(&self.rt);
        Handle::new(rt)
    }
}

impl<M: Machine> Owner<M> {
    /// Tells all lanes and the blocking pool to end.
    fn close(&mut self) {
        // All are told before any is waited for: a task of one may wait for a task of another
        // to be dropped.
        for lane in &self.rt.lanes {
            lane.close();
        }
        if let Some(open) = self.blocking.take() {
            self.rt.blocking.close(open);
        }
    }

    /// Ends the runtime, waiting at most so long. Returns how many threads had not ended.
    pub(crate) fn shutdown(&mut self, timeout: Duration) -> usize {
        self.close();
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = M::now_ns().saturating_add(timeout_ns);
        // Lanes that have ended are waited for by `drop`, which takes no time; the others are let
        // go.
        let (word, seat) = (M::U32::new(0), M::Seat::new());
        loop {
            let lanes = self.threads.iter().filter(|thread| !thread.is_finished());
            let running = lanes.count() + self.rt.blocking.metrics().threads;
            let now_ns = M::now_ns();
            if running == 0 {
                return 0;
            }
            // A lane, or a blocking closure, would wait for itself.
            let waits = !ambient::on_a_lane() && !ambient::on_a_blocking_thread();
            if now_ns >= until_ns || !waits {
                self.threads.retain(M::Thread::is_finished);
                self.waits_for_blocking = false;
                return running;
            }
            let next_ns = now_ns.saturating_add(SHUTDOWN_LOOK_NS).min(until_ns);
            let _ = seat.park(&word, 0, Some(next_ns));
        }
    }
}

impl<M: Machine> Drop for Owner<M> {
    fn drop(&mut self) {
        self.close();
        // On a lane, its own or another runtime's, nobody is waited for: that lane's other tasks
        // would wait too, and two runtimes that end each other would do so for ever. The lanes
        // end by themselves, after their current polls.
        if ambient::on_a_lane() {
            return;
        }
        for thread in self.threads.drain(..) {
            // A lane catches the panics of what it runs; one that panics itself ends the
            // process, see `run_lane`.
            let _ = thread.join();
        }
        // Such a closure that ends a runtime would wait for itself, or for one that waits for it.
        if self.waits_for_blocking && !ambient::on_a_blocking_thread() {
            self.rt.blocking.join();
        }
    }
}

/// How often a shutdown with a time limit looks whether the threads have ended.
const SHUTDOWN_LOOK_NS: u64 = 500_000;

/// Ends the process if a lane unwinds: whoever waits for it would wait for ever.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        // Only reached by unwinding: std has printed the panic.
        std::process::abort();
    }
}

impl<M: Machine> Rt<M> {
    fn run_lane(self: Arc<Self>, core: usize) {
        let shared = Arc::clone(&self.lanes[core]);
        let entered = ambient::enter(Handle::new(self), Some(core));
        let abort = AbortOnUnwind;
        Lane::new(shared).run();
        std::mem::forget(abort);
        drop(entered);
    }
}

impl<M: Machine> Ambient for Rt<M> {
    fn cores(&self) -> usize {
        self.lanes.len()
    }

    fn is_on(&self, core: usize) -> bool {
        !self.lanes[core].front().is_off()
    }

    fn room(&self, core: usize) -> Option<&Arc<Semaphore>> {
        self.rooms.of(core)
    }

    fn has_budget(&self) -> bool {
        Local::<M>::with_current(|local| local.is_none_or(Local::has_budget))
    }

    fn spend_budget(&self) {
        Local::<M>::with_current(|local| local.into_iter().for_each(Local::spend_budget));
    }

    fn set_on(&self, core: usize, on: bool) -> Option<bool> {
        let crew = self.lanes[core].front().crew();
        if on {
            return Some(crew.put_back(core) == PutBack::Now);
        }
        match crew.take_off(core) {
            TakenOff::Now => Some(true),
            TakenOff::Before => Some(false),
            TakenOff::LastOne => None,
        }
    }

    fn follow_core(&self, core: usize) -> Result<(), ThreadError> {
        Local::<M>::with_current(|local| {
            if let Some(local) = local {
                local.follow();
            }
        });
        let Some(cpu) = self.cpus[core] else {
            return Ok(());
        };
        // What cannot leave the lane leaves the CPU, for those of the cores that are on.
        let on = (0..self.cpus.len()).filter(|core| self.is_on(*core));
        let cpus: Vec<usize> = if self.is_on(core) {
            vec![cpu]
        } else {
            on.filter_map(|core| self.cpus[core]).collect()
        };
        M::bind_thread(&cpus)
    }

    fn next_core(&self) -> usize {
        (self.cursor.add_shared(1) % self.lanes.len() as u64) as usize
    }

    unsafe fn launch(
        &self,
        core: usize,
        kind: Kind,
        name: Option<&Name>,
        vtable: &'static BodyVtable,
        write: &mut dyn FnMut(*mut u8),
    ) -> RawJoin {
        let front = self.lanes[core].front().clone();
        // SAFETY: passed on from the caller.
        unsafe { launch_named(front, kind, name, vtable, write) }
    }

    unsafe fn call_blocking(&self, core: usize, call: &ErasedCall) -> Result<(), Gone> {
        // SAFETY: passed on from the caller.
        unsafe { wait_for(self.lanes[core].front(), call) }
    }

    fn draw(&self, core: usize, room: Room, limit: Limit) -> Option<Drawn> {
        let lane = self.lanes.get(core)?;
        let limited = limit == Limit::Heed && self.rooms.of(core).is_some();
        (!limited && !lane.front().is_off()).then(|| Parcels::<M>::draw_current(room))
    }

    unsafe fn send(&self, core: usize, drawn: Drawn, run: Run) -> Result<(), Gone> {
        // SAFETY: passed on from the caller.
        unsafe { Parcels::<M>::send(self.lanes[core].front(), drawn, run) }
    }

    unsafe fn call_many(
        &self,
        cores: &[usize],
        table: &'static ManyTable,
        data: Layout,
        write: &mut dyn FnMut(NonNull<u8>),
    ) -> RawMany {
        let fronts = cores.iter().map(|&core| &**self.lanes[core].front());
        // SAFETY: passed on from the caller.
        unsafe { launch_many(fronts, cores.len(), table, data, write) }
    }

    fn block_on(&self, holds: Holds, future: Pin<&mut dyn Future<Output = ()>>) {
        let _inside = self.clock.inside(holds);
        wait::block_on_inside(&self.clock, future, self.watch_ns);
    }

    fn advance(&self, duration_ns: u64) -> Option<EventListener> {
        // Before the lanes are told: they may rest at once.
        let rested = self.rested.as_ref()?.listen();
        self.clock.advance_by(duration_ns);
        Some(rested)
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn after_ns(&self, duration_ns: u64) -> u64 {
        self.clock.after_ns(duration_ns)
    }

    fn arm_timer(&self, when_ns: u64, waker: &Waker) -> Result<RawTimer, Gone> {
        // The core matters only to a caller that is no lane.
        RawTimer::arm(self.lanes[0].front(), when_ns, waker)
    }

    fn blocking(&self) -> &dyn Blocking {
        &self.blocking
    }

    fn metrics(&self) -> Metrics {
        let lanes = self.lanes.iter().enumerate();
        Metrics::new(
            lanes.map(|(core, lane)| {
                LaneMetrics::new(CoreId::new(core), lane.state(), lane.counts())
            }),
            self.blocking.metrics(),
        )
        .with(self.lanes[0].front().crew().watchers())
    }

    fn tasks_here(&self) -> Vec<TaskSeen> {
        Local::<M>::with_current(|local| {
            let mine = |local: &&Local<M>| self.lanes.iter().any(|lane| local.is(lane.front()));
            local.filter(mine).map(Local::tasks).unwrap_or_default()
        })
    }

    fn lane_state(&self, core: usize) -> LaneState {
        self.lanes[core].state()
    }

    fn switches(&self) -> Switches {
        self.switches.load()
    }

    fn set_switches(&self, switches: Switches) {
        self.switches.store(switches);
    }
}
