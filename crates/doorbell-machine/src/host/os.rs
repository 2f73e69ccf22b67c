//! Calls of the C library with results as Rust has them. Such a call returns -1 for an error, and keeps its number in
//! `errno`.

use std::ffi::c_int;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The most buffers that one syscall takes (`UIO_MAXIOV`).
pub(super) const BUFFERS_MAX: usize = 1_024;

/// The number of bytes that a call returned, or its error.
pub(super) fn counted(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The error of a call, if it failed.
pub(super) fn done(result: c_int) -> io::Result<()> {
    counted(result as isize).map(drop)
}

/// The descriptor that a call has opened, or its error.
///
/// # Safety
/// Nothing else owns the descriptor.
pub(super) unsafe fn opened(result: c_int) -> io::Result<OwnedFd> {
    done(result)?;
    // SAFETY: it is open, since the call succeeded, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// Initialised memory, as calls take it that need none.
///
/// # Safety
/// Nothing is written there that is not initialised.
pub(super) unsafe fn may_be_uninit(buffer: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the same layout; the caller keeps the bytes initialised.
    unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) }
}

/// How many buffers a call is given, of so many.
pub(super) fn buffers_of(count: usize) -> c_int {
    c_int::try_from(count.min(BUFFERS_MAX)).unwrap_or(c_int::MAX)
}

/// Reads into several buffers in order; returns how many bytes they got. Of very many it fills only some.
pub(super) fn read_slices(fd: BorrowedFd<'_>, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    // Without the empty ones in front: if the others are too many, these would be all that the call sees.
    let empty = buffers.iter().take_while(|buffer| buffer.is_empty());
    let empty = empty.count();
    let buffers = &mut buffers[empty..];
    let count = buffers_of(buffers.len());
    // SAFETY: an `IoSliceMut` has the layout of an `iovec`, and the memory may be written.
    counted(unsafe { libc::readv(fd.as_raw_fd(), buffers.as_mut_ptr().cast(), count) })
}
