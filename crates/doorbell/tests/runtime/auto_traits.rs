//! Which public types may go to other threads, be shared, be moved while pinned, and be used in `catch_unwind`.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unused_self,
    reason = "tests play the outside world"
)]

use doorbell::net::{
    self, Direction, OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf,
};
use doorbell::sync::{
    Lock, MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard, TryLockError,
};
use doorbell::{coop, time};
use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use std::os::fd::OwnedFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;
use std::rc::Rc;

/// `Send` and not `Sync`.
type SendOnly = Cell<u8>;
/// Neither.
type Stays = Rc<u8>;

/// Asks for a trait that a type may lack: the method of `Asked` is found before that of `Lacks`.
struct Asked<T: ?Sized>(PhantomData<T>);

trait Lacks {
    fn has_send(&self) -> bool {
        false
    }
    fn has_sync(&self) -> bool {
        false
    }
    fn has_unpin(&self) -> bool {
        false
    }
    fn has_unwind_safe(&self) -> bool {
        false
    }
    fn has_ref_unwind_safe(&self) -> bool {
        false
    }
}

impl<T: ?Sized> Lacks for Asked<T> {}

impl<T: ?Sized + Send> Asked<T> {
    fn has_send(&self) -> bool {
        true
    }
}

impl<T: ?Sized + Sync> Asked<T> {
    fn has_sync(&self) -> bool {
        true
    }
}

impl<T: ?Sized + Unpin> Asked<T> {
    fn has_unpin(&self) -> bool {
        true
    }
}

impl<T: ?Sized + UnwindSafe> Asked<T> {
    fn has_unwind_safe(&self) -> bool {
        true
    }
}

impl<T: ?Sized + RefUnwindSafe> Asked<T> {
    fn has_ref_unwind_safe(&self) -> bool {
        true
    }
}

/// All five.
const ALL: &str = "Send Sync Unpin UnwindSafe RefUnwindSafe";

macro_rules! table {
    ($($traits:expr => $($type:ty),+ $(,)?;)+) => {{
        let mut wrong = Vec::new();
        $($({
            let asked = Asked::<$type>(PhantomData);
            let has = [
                ("Send", asked.has_send()),
                ("Sync", asked.has_sync()),
                ("Unpin", asked.has_unpin()),
                ("UnwindSafe", asked.has_unwind_safe()),
                ("RefUnwindSafe", asked.has_ref_unwind_safe()),
            ];
            let has: Vec<_> = has.iter().filter(|it| it.1).map(|it| it.0).collect();
            if has.join(" ") != $traits {
                wrong.push((stringify!($type), has.join(" ")));
            }
        })+)+
        wrong
    }};
}

#[test]
fn c5_public_types_have_the_auto_traits_that_they_promise() {
    let wrong = table! {
        // The runtime.
        ALL => doorbell::Runtime, doorbell::Handle, doorbell::WeakHandle, doorbell::ThreadRole, doorbell::Builder,
            doorbell::IdlePolicy, doorbell::error::ShutdownTimeout, doorbell::error::CoreError, doorbell::CoreId,
            doorbell::error::BlockOnError, doorbell::error::NoRuntime, doorbell::metrics::WorkerPolicy, doorbell::metrics::Metrics,
            doorbell::metrics::WorkerMetrics, doorbell::metrics::WorkerCounts,
            doorbell::metrics::BlockingMetrics, doorbell::metrics::WorkerInfo, doorbell::metrics::TaskInfo<'static>,
            doorbell::metrics::Stall, doorbell::metrics::StallKind, doorbell::metrics::LongPoll, doorbell::metrics::TaskDump, doorbell::metrics::TaskState;
        "Unpin" => doorbell::EnterGuard;
        // Tasks.
        ALL => doorbell::Class, doorbell::ClassKind, doorbell::error::ClassError, doorbell::Group, doorbell::error::WeightError,
            doorbell::TaskBuilder, doorbell::SpawnError, doorbell::error::NotAWorker, doorbell::TaskId, doorbell::coop::YieldNow,
            doorbell::AbortHandle, doorbell::Scope, doorbell::JoinHandle<SendOnly>, doorbell::JoinSet<SendOnly>,
            doorbell::ScopedJoinHandle<SendOnly>;
        "Unpin UnwindSafe RefUnwindSafe" => doorbell::local::LocalJoinHandle<SendOnly>, doorbell::local::LocalJoinHandle<Stays>,
            doorbell::JoinHandle<Stays>, doorbell::JoinSet<Stays>, doorbell::ScopedJoinHandle<Stays>;
        ALL => doorbell::local::TaskLocal<u8>, doorbell::local::TaskLocal<Stays>, doorbell::error::TaskLocalError,
            doorbell::local::WorkerLocal<Stays>, doorbell::error::WorkerLocalError, doorbell::local::TaskLocalFuture<u8, u8>;
        "Unpin UnwindSafe RefUnwindSafe" => doorbell::local::TaskLocalFuture<Stays, u8>;
        // Signals.
        ALL => doorbell::signal::Signal, doorbell::signal::SignalKind, doorbell::signal::UncatchableSignal;
        // Calls and blocking closures.
        ALL => doorbell::call::Call<SendOnly>, doorbell::call::CallBuilder, doorbell::call::CallMany<SendOnly>,
            doorbell::BlockingHandle<SendOnly>;
        "Unpin UnwindSafe RefUnwindSafe" => doorbell::call::Call<Stays>, doorbell::call::CallMany<Stays>,
            doorbell::BlockingHandle<Stays>;
        // Errors with the payload of a panic or an error of the OS.
        "Send Sync Unpin" => net::AsyncFdRegisterError<OwnedFd>, doorbell::JoinError, doorbell::error::Payload, doorbell::CallError, doorbell::BuildError,
            doorbell::error::ThreadError, doorbell::error::SpawnBlockingError;
        // Time and the poll budget.
        ALL => time::Instant, time::Interval, time::MissedTicks, time::Sleep, time::Elapsed, time::Timeout<u8>,
            coop::Cooperative<u8>, coop::Unconstrained<u8>;
        "Send Sync UnwindSafe RefUnwindSafe" => time::Timeout<PhantomPinned>, coop::Cooperative<PhantomPinned>;
        // Locks: a panic may leave what they guard half-changed.
        "Send Sync Unpin UnwindSafe" => Mutex<u8>, Mutex<SendOnly>;
        "Unpin UnwindSafe" => Mutex<Stays>;
        "Send Sync Unpin" => MutexGuard<'static, u8>, OwnedMutexGuard<u8>, Lock<'static, u8>;
        "Send Unpin" => MutexGuard<'static, SendOnly>, OwnedMutexGuard<SendOnly>;
        "Send Sync Unpin" => MappedMutexGuard<'static, u8, u8>, OwnedMappedMutexGuard<u8, u8>;
        "Send Unpin" => MappedMutexGuard<'static, SendOnly, SendOnly>, OwnedMappedMutexGuard<SendOnly, SendOnly>;
        ALL => TryLockError;
        // Sockets.
        ALL => net::TcpListener, net::TcpStream, net::UdpSocket, net::UnixDatagram, net::UnixListener,
            net::UnixStream, net::AsyncFd<OwnedFd>, net::Addresses, net::NoAddress, net::AlreadyRegistered,
            net::RuntimeEnded,
            net::Backlog, net::PeerCred, net::TcpSocket, net::UnixSocket, net::Interest, net::Ready, net::TryIoError,
            net::AsyncFdReadyGuard<'static, OwnedFd>, net::pipe::Sender, net::pipe::Receiver,
            net::pipe::OpenOptions, Direction, OwnedReadHalf, OwnedWriteHalf, ReadHalf<'static>,
            WriteHalf<'static>, ReuniteError;
    };
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[cfg(feature = "sim")]
#[test]
fn types_of_a_simulation_have_the_auto_traits_that_they_promise() {
    use doorbell::sim;
    let wrong = table! {
        ALL => sim::Config, sim::Fault, sim::Report, sim::Place, sim::Failed, sim::Problem, sim::Found;
    };
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Types that a user cannot name.
const HIDDEN: [&str; 2] = ["Said", "Io"];

/// The public types of the sources in a folder.
fn public_types(at: &Path, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            public_types(&path, all);
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let line = line.trim();
            let named = line
                .strip_prefix("pub struct ")
                .or_else(|| line.strip_prefix("pub enum "));
            let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
            all.extend(named.map(|named| {
                named
                    .chars()
                    .take_while(|it| is_part(*it))
                    .collect::<String>()
            }));
        }
    }
}

#[test]
fn every_public_type_is_in_the_table() {
    let mut all = Vec::new();
    public_types(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    assert!(all.len() > 60, "{all:?}");
    let this = include_str!("auto_traits.rs");
    let is_named = |name: &String| {
        let bounds = |end: char| !(end.is_alphanumeric() || end == '_');
        this.split(bounds).any(|word| word == name) || HIDDEN.contains(&name.as_str())
    };
    let missing: Vec<_> = all.iter().filter(|name| !is_named(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_panic_inside_block_on_is_caught() {
    let rt = doorbell::Builder::new().cores(1).build().unwrap();
    let caught = std::panic::catch_unwind(|| rt.block_on(async { panic!("on purpose") }));
    assert!(caught.is_err());
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
}
