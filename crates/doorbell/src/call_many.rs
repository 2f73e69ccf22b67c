//! Calls of one closure on many cores at once.

use crate::call_on::{CallError, check};
use crate::core_state::online;
use crate::handle::Handle;
use crate::large::boxed_if_large;
use crate::{CoreId, ambient, coop};
use doorbell_core::call::{Many, ManyCall, Outcome};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What the closure returned on each core, in the order in which the cores were named. A core's result is an
/// error if the closure panicked there, or did not run because the runtime ended.
pub type ManyResults<R> = Vec<Result<R, CallError>>;

/// Calls that are under way on many cores, and a future of their results, in the order in which the cores
/// were named. See [`call_many`].
///
/// It is ready when all calls have ended. Dropping it withdraws the calls that have not begun.
///
/// # Panics
/// If it is polled again after it was ready.
#[must_use = "dropping it withdraws the calls; await it"]
#[derive(Debug)]
pub struct CallMany<R>(CallManyState<R>);

#[derive(Debug)]
enum CallManyState<R> {
    Posted(Many<R>),
    /// Nothing was posted.
    Ended(Option<Result<(), CallError>>),
}

// By hand: a panic of a user's leaves it whole: it runs none of a user's code while it changes.
impl<R> std::panic::UnwindSafe for CallMany<R> {}
impl<R> std::panic::RefUnwindSafe for CallMany<R> {}

impl<R> Unpin for CallMany<R> {}

impl<R> Future for CallMany<R> {
    type Output = Result<ManyResults<R>, CallError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let CallManyState::Posted(many) = &mut self.0 {
            ready!(many.poll_ended(cx));
        }
        ready!(coop::allow(cx));
        Poll::Ready(match &mut self.0 {
            CallManyState::Posted(many) => Ok(results(many.take())),
            CallManyState::Ended(result) => {
                let result = result.take();
                let result =
                    result.expect("calls to many cores were polled again after being ready");
                result.map(|()| Vec::new())
            }
        })
    }
}

fn results<R>(outcomes: Vec<Outcome<R>>) -> ManyResults<R> {
    let results = outcomes.into_iter().map(|outcome| match outcome {
        Outcome::Done(result) => Ok(result),
        Outcome::Panicked(payload) => Err(CallError::Panicked(payload)),
        Outcome::Gone => Err(CallError::RuntimeGone),
    });
    results.collect()
}

/// Runs a closure once on the Fair worker of each of these cores of the current runtime, on all at the same
/// time, whatever the class of the caller.
///
/// Each call runs as a call of [`call_on`](crate::call_on()) does, also on the caller's own core. A core is
/// rung only if its worker sleeps, and then once. All calls are posted at once; they share the closure and
/// one allocation. A [mailbox limit](crate::Builder::mailbox_limit) does not count them.
///
/// Awaiting the future waits for all calls, and gives the results in the order in which the cores were named.
/// A panic on one core is that core's result; the other calls run all the same. Dropping the future withdraws
/// the calls that have not begun.
///
/// ```
/// # #[doorbell::main(cores = 3)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let squares = doorbell::call_many([2, 0], |core| core.index() * core.index()).await?;
/// let squares: Result<Vec<usize>, _> = squares.into_iter().collect();
/// assert_eq!(squares?, [4, 0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Awaiting the future returns [`CallError::NoSuchCore`], [`CallError::CoreOffline`] or
/// [`CallError::DuplicateCore`]; the closure has then run nowhere. The result of a single core may be
/// [`CallError::Panicked`] or [`CallError::RuntimeGone`].
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::call_many`] works anywhere.
///
/// Source: the kernel's `smp_call_function_many`, Seastar's `invoke_on_all`.
#[track_caller]
pub fn call_many<I, F, R>(cores: I, f: F) -> CallMany<R>
where
    I: IntoIterator<Item: Into<CoreId>>,
    F: Fn(CoreId) -> R + Send + Sync + 'static,
    R: Send + 'static,
{
    boxed_if_large!(f: F, Box::new => post(ambient::expect_current().handle(), cores, f))
}

/// Runs a closure once on the Fair worker of every core of the current runtime that is on; see [`call_many`].
///
/// ```
/// # #[doorbell::main(cores = 2)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// for (core, there) in doorbell::call_all(|_| doorbell::current_core()).await?.into_iter().enumerate() {
///     assert_eq!(there?, Some(doorbell::CoreId::new(core)));
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Awaiting the future returns [`CallError::CoreOffline`] if a core is taken off during this call; the
/// closure has then run nowhere. The result of a single core may be [`CallError::Panicked`] or
/// [`CallError::RuntimeGone`].
///
/// # Panics
/// If there is no runtime on this thread; [`Handle::call_all`] works anywhere.
#[track_caller]
pub fn call_all<F, R>(f: F) -> CallMany<R>
where
    F: Fn(CoreId) -> R + Send + Sync + 'static,
    R: Send + 'static,
{
    boxed_if_large!(f: F, Box::new => {
        let frame = ambient::expect_current();
        post(frame.handle(), online(frame.handle()), f)
    })
}

/// The numbers of the cores, after checking that each can be called and is named once.
fn checked<I: IntoIterator<Item: Into<CoreId>>>(
    handle: &Handle,
    cores: I,
) -> Result<Vec<usize>, CallError> {
    let mut named = vec![false; handle.cores()];
    let numbers = cores.into_iter().map(|core| {
        let core = core.into();
        let number = check(handle, core)?;
        if std::mem::replace(&mut named[number], true) {
            return Err(CallError::DuplicateCore { core });
        }
        Ok(number)
    });
    numbers.collect()
}

/// Posts to these cores, at least one.
///
/// # Safety
/// Closure and results may be sent to the workers and back; what they borrow outlives the calls.
unsafe fn launch<F, R>(handle: &Handle, cores: &[usize], f: F) -> Many<R>
where
    F: Fn(usize) -> R,
{
    fn table<F: Fn(usize) -> R, R>(_: &ManyCall<F, R>) -> &'static doorbell_core::call::ManyTable {
        ManyCall::<F, R>::TABLE
    }
    let call = ManyCall::new(f, cores);
    let (table, layout) = (table(&call), call.layout());
    let mut call = Some(call);
    let mut write = |data| {
        let call = call.take().expect("written once");
        // SAFETY: memory of the call's own layout.
        unsafe { call.write(data) };
    };
    // SAFETY: `write` writes a call of the table's types, for this number of cores; the caller promises the
    // rest.
    let raw = unsafe { handle.inner().call_many(cores, table, layout, &mut write) };
    // SAFETY: launched with the table of `F` above.
    unsafe { Many::typed::<F>(raw) }
}

pub(crate) fn post<I, F, R>(handle: &Handle, cores: I, f: F) -> CallMany<R>
where
    I: IntoIterator<Item: Into<CoreId>>,
    F: Fn(CoreId) -> R + Send + Sync + 'static,
    R: Send + 'static,
{
    let cores = match checked(handle, cores) {
        Ok(cores) if cores.is_empty() => {
            return CallMany(CallManyState::Ended(Some(Ok(()))));
        }
        Ok(cores) => cores,
        Err(error) => return CallMany(CallManyState::Ended(Some(Err(error)))),
    };
    // SAFETY: the closure is Send and Sync, the results are Send, and neither borrows.
    let many = unsafe { launch(handle, &cores, move |core| f(CoreId::new(core))) };
    CallMany(CallManyState::Posted(many))
}

pub(crate) fn blocking<I, F, R>(
    handle: &Handle,
    cores: I,
    f: &F,
) -> Result<ManyResults<R>, CallError>
where
    I: IntoIterator<Item: Into<CoreId>>,
    F: Fn(CoreId) -> R + Sync,
    R: Send,
{
    let cores = checked(handle, cores)?;
    if ambient::on_a_worker() {
        return Err(CallError::InsideWorker);
    }
    if cores.is_empty() {
        return Ok(Vec::new());
    }
    // SAFETY: the closure is Sync and is lent by reference, and the results are Send. `wait` waits for every
    // call and does not unwind before; when it returns, neither is in the block any more.
    let many = unsafe { launch(handle, &cores, move |core| f(CoreId::new(core))) };
    Ok(results(many.wait()))
}
