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
            /// The number of operations.
            pub(super) const COUNT: usize = [$(stringify!($name)),+].len();

            /// The name in the table.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Op::$name => $text,)+
                }
            }

            /// Performs it once.
            pub(super) async fn perform(self, driver: &mut Driver) {
                match self {
                    $(Op::$name => driver.$method().await,)+
                }
            }
        }
    };
}

operations! {
    /// One core, with its answer awaited.
    CallAwaited "single, wait: call_on" => call_awaited,
    /// One core, from a blocking thread.
    CallBlocking "single, wait: call_blocking" => call_blocking,
    /// One core, with its answer ignored.
    CallDetached "single, no wait: call_on detached" => call_detached,
    /// One core, without an answer.
    Post "single, no wait: post_on" => post,
    /// One core, withdrawn at once.
    CallWithdrawn "single, withdrawn: call_on" => call_withdrawn,
    /// A closure that panics.
    CallPanics "single, wait: call_on that panics" => call_panics,
    /// Some cores.
    ManyAwaited "many, wait: call_many" => many_awaited,
    /// Some cores, from a blocking thread.
    ManyBlocking "many, wait: call_many_blocking" => many_blocking,
    /// Some cores, without waiting.
    ManyPosted "many, no wait: post_on" => many_posted,
    /// Some cores, withdrawn at once.
    ManyWithdrawn "many, withdrawn: call_many" => many_withdrawn,
    /// All cores.
    AllAwaited "all, wait: call_all" => all_awaited,
    /// All cores, from a blocking thread.
    AllBlocking "all, wait: call_all_blocking" => all_blocking,
    /// All cores, without waiting.
    AllPosted "all, no wait: post_on" => all_posted,
    /// A call from inside a call, with its answer awaited.
    CallsFromCalls "nested, wait: call_on in call_on" => calls_from_calls,
    /// A post from inside a post.
    PostsFromPosts "nested, no wait: post_on in post_on" => posts_from_posts,
    /// Calls to all cores from inside a call.
    AllFromCalls "nested, wait: call_all in call_on" => all_from_calls,
    /// A movable task.
    TaskMoves "tasks: spawn, yield, join" => task_moves,
    /// A pinned task.
    TaskStays "tasks: on(core), yield, join" => task_stays,
    /// Two tasks that wake each other.
    TasksAlternate "tasks: wake across workers" => tasks_alternate,
    /// Many tasks, joined as they end.
    TasksJoined "tasks: JoinSet" => tasks_joined,
    /// Aborted tasks.
    TasksAborted "tasks: abort" => tasks_aborted,
    /// A task woken by a foreign thread.
    TaskWokenOutside "tasks: wake from outside" => task_woken_outside,
    /// Tasks that are not `Send`, and their children.
    LocalTasks "tasks: spawn_local_on, spawn_local" => local_tasks,
    /// Children that end before their scope does.
    Scoped "tasks: scope" => scoped,
    /// A set that is aborted.
    SetAborted "tasks: JoinSet aborted" => set_aborted,
    /// A closure on a blocking thread.
    Blocking "tasks: spawn_blocking" => blocking,
    /// A closure on a blocking thread that calls a core.
    BlockingCalls "tasks: call_blocking in spawn_blocking" => blocking_calls,
    /// A sleep.
    Sleep "timers: sleep" => sleep,
    /// A timeout.
    Timeout "timers: timeout" => timeout,
    /// Many sleeps; some of them are dropped.
    SleepsDropped "timers: some dropped, some moved" => sleeps_dropped,
    /// Turning the switches.
    Switches "switches turned" => turn_switches,
}
