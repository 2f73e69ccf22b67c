//! The operations.

use super::driver::Driver;

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $text:literal => $method:ident,)+) => {
        /// An operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Op {
            $($(#[$doc])* $name,)+
        }

        impl Op {
            /// All of them, in the order of the table.
            pub(super) const ALL: [Op; Op::COUNT] = [$(Op::$name),+];
            /// How many there are.
            pub(super) const COUNT: usize = [$(stringify!($name)),+].len();

            /// As in the table.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Op::$name => $text,)+
                }
            }

            /// Does it once.
            pub(super) async fn perform(self, driver: &mut Driver) {
                match self {
                    $(Op::$name => driver.$method().await,)+
                }
            }
        }
    };
}

operations! {
    /// One core, and its answer awaited.
    CallAwaited "single, wait: call_on" => call_awaited,
    /// One core, from a thread that blocks.
    CallBlocking "single, wait: call_blocking" => call_blocking,
    /// One core, and nobody looks at the answer.
    CallDetached "single, no wait: call_on detached" => call_detached,
    /// One core, and no answer.
    Post "single, no wait: post_on" => post,
    /// One core, and taken back at once.
    CallWithdrawn "single, withdrawn: call_on" => call_withdrawn,
    /// A closure that panics.
    CallPanics "single, wait: call_on that panics" => call_panics,
    /// Some cores.
    ManyAwaited "many, wait: call_many" => many_awaited,
    /// Some cores, from a thread that blocks.
    ManyBlocking "many, wait: call_many_blocking" => many_blocking,
    /// Some cores, and nobody waits.
    ManyPosted "many, no wait: post_on" => many_posted,
    /// Some cores, and taken back at once.
    ManyWithdrawn "many, withdrawn: call_many" => many_withdrawn,
    /// All cores.
    AllAwaited "all, wait: call_all" => all_awaited,
    /// All cores, from a thread that blocks.
    AllBlocking "all, wait: call_all_blocking" => all_blocking,
    /// All cores, and nobody waits.
    AllPosted "all, no wait: post_on" => all_posted,
    /// A call that posts a call, whose answer is awaited.
    CallsFromCalls "nested, wait: call_on in call_on" => calls_from_calls,
    /// A post that posts the next one.
    PostsFromPosts "nested, no wait: post_on in post_on" => posts_from_posts,
    /// A call that starts calls to all cores.
    AllFromCalls "nested, wait: call_all in call_on" => all_from_calls,
    /// A task that may run anywhere.
    TaskMoves "tasks: spawn, yield, join" => task_moves,
    /// A task that stays.
    TaskStays "tasks: on(core), yield, join" => task_stays,
    /// Two tasks that wake each other.
    TasksAlternate "tasks: wake across workers" => tasks_alternate,
    /// Many tasks, joined as they end.
    TasksJoined "tasks: JoinSet" => tasks_joined,
    /// Tasks that are aborted.
    TasksAborted "tasks: abort" => tasks_aborted,
    /// A task woken by a thread that is no worker.
    TaskWokenOutside "tasks: wake from outside" => task_woken_outside,
    /// Tasks that are not `Send`, and their children.
    LocalTasks "tasks: spawn_local_on, spawn_local" => local_tasks,
    /// Children that end before their scope does.
    Scoped "tasks: scope" => scoped,
    /// A set that is given up.
    SetAborted "tasks: JoinSet aborted" => set_aborted,
    /// A closure on a thread that may block.
    Blocking "tasks: spawn_blocking" => blocking,
    /// One that calls back.
    BlockingCalls "tasks: call_blocking in spawn_blocking" => blocking_calls,
    /// A sleep.
    Sleep "timers: sleep" => sleep,
    /// Something that is given up.
    Timeout "timers: timeout" => timeout,
    /// Many sleeps, some dropped.
    SleepsDropped "timers: some dropped, some moved" => sleeps_dropped,
    /// The switches turned.
    Switches "switches turned" => turn_switches,
}
