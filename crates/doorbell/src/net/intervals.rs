//! Retries of syscalls for which the OS does not always report when they may succeed.

use crate::time::sleep;
use crate::{Handle, coop};
use futures_util::future::{Either, select};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

/// The first pause.
const PAUSE: Duration = Duration::from_millis(1);

/// The longest pause. Each pause is twice as long as the one before.
const PAUSE_MOST: Duration = Duration::from_millis(50);

/// Calls `f` again and again, with growing pauses, until it returns something else than `WouldBlock`. A pause
/// ends early when the future of `hint` does. Each attempt takes one from the budget of the poll.
pub(super) async fn again_at_intervals<R, T, H>(
    mut f: impl FnMut() -> io::Result<R>,
    hint: impl Fn() -> H,
) -> io::Result<R>
where
    H: Future<Output = io::Result<T>>,
{
    let mut pause = PAUSE;
    loop {
        match poll_fn(|cx| coop::allow(cx).map(|()| f())).await {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
        Handle::try_current().map_err(io::Error::other)?;
        match select(pin!(hint()), pin!(sleep(pause))).await {
            Either::Left((hinted, _)) => {
                hinted?;
                pause = PAUSE;
            }
            Either::Right(((), _)) => pause = (pause * 2).min(PAUSE_MOST),
        }
    }
}
