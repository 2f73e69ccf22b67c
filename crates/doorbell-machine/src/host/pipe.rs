//! Pipes and FIFOs.

use super::os;
use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// `RWF_NOSIGNAL`, since Linux 6.18: a write to a pipe without a reader raises no `SIGPIPE`.
const NO_SIGNAL: c_int = 0x100;

/// The offset of a file that has none: where it stands.
const HERE: libc::c_long = -1;

/// Whether the OS knows no such writes to pipes.
static SIGNALS: AtomicBool = AtomicBool::new(false);

/// Which way a FIFO is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read.
    Read,
    /// To write; an error if nobody reads.
    Write,
    /// Both: it is neither without a reader nor without a writer.
    Both,
}

/// Opens the file at that path, non-blocking.
///
/// # Errors
/// The OS's error.
pub fn open(path: &Path, access: Access) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .read(access != Access::Write)
        .write(access != Access::Read)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    Ok(file.into())
}

/// Whether it is a pipe or a FIFO.
///
/// # Errors
/// The OS's error.
pub fn is_pipe(fd: impl AsFd) -> io::Result<bool> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel writes all of it, if it succeeds.
    os::done(unsafe { libc::fstat(fd.as_fd().as_raw_fd(), stat.as_mut_ptr()) })?;
    // SAFETY: it succeeded.
    let mode = unsafe { stat.assume_init() }.st_mode;
    Ok(mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Whether this access is open.
///
/// # Errors
/// The OS's error.
pub fn has_access(fd: impl AsFd, access: Access) -> io::Result<bool> {
    // SAFETY: the call touches no memory of the caller.
    let flags = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GETFL) };
    os::done(flags)?;
    let mode = flags & libc::O_ACCMODE;
    Ok(mode == libc::O_RDWR
        || match access {
            Access::Read => mode == libc::O_RDONLY,
            Access::Write => mode == libc::O_WRONLY,
            Access::Both => false,
        })
}

/// Makes the descriptor non-blocking, or blocking.
///
/// # Errors
/// The OS's error.
pub fn set_nonblocking(fd: impl AsFd, is_nonblocking: bool) -> io::Result<()> {
    let on = c_int::from(is_nonblocking);
    // SAFETY: the kernel reads one `c_int`, which outlives the call.
    os::done(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::FIONBIO, &raw const on) })
}

/// Reads; returns how many bytes it filled, from the front.
///
/// # Errors
/// The OS's error.
pub fn read_into(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes what is initialised.
    read(fd, unsafe { os::may_be_uninit(buffer) })
}

/// Reads into uninitialised memory; returns how many bytes it filled, from the front.
///
/// # Errors
/// The OS's error.
pub fn read(fd: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes there.
    os::counted(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}

/// Reads into several buffers in order; returns how many bytes they got. Of very many it fills only some.
///
/// # Errors
/// The OS's error.
pub fn read_slices(fd: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    os::read_slices(fd.as_fd(), buffers)
}

/// Writes from several buffers in order; returns how many bytes went. Of very many it writes only some. If nobody
/// reads any more, this is an error. Before Linux 6.18 it also raises `SIGPIPE`.
///
/// # Errors
/// The OS's error.
pub fn write_slices(fd: impl AsFd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let empty = buffers.iter().take_while(|buffer| buffer.is_empty());
    let buffers = &buffers[empty.count()..];
    // ORDER: Relaxed; a hint that each call can find out for itself.
    if !SIGNALS.load(Ordering::Relaxed) {
        match write_without_signal(fd.as_fd(), buffers) {
            Err(error) if is_unknown(&error) => {
                // Of what is not a pipe, that says nothing about pipes.
                if is_pipe(&fd)? {
                    // ORDER: Relaxed; as above.
                    SIGNALS.store(true, Ordering::Relaxed);
                }
            }
            written => return written,
        }
    }
    let (fd, count) = (fd.as_fd().as_raw_fd(), os::buffers_of(buffers.len()));
    // SAFETY: an `IoSlice` has the layout of an `iovec`.
    os::counted(unsafe { libc::writev(fd, buffers.as_ptr().cast(), count) })
}

/// By pwritev2(2), which not every C library has.
fn write_without_signal(fd: BorrowedFd<'_>, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: an `IoSlice` has the layout of an `iovec`. The kernel takes the offset in two halves.
    let written = unsafe {
        libc::syscall(
            libc::SYS_pwritev2,
            fd.as_raw_fd(),
            buffers.as_ptr(),
            buffers.len().min(os::BUFFERS_MAX),
            HERE,
            HERE,
            NO_SIGNAL,
        )
    };
    os::counted(written as isize)
}

/// Whether the error says that the OS does not know such a write, or that a filter of syscalls does not.
fn is_unknown(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(
        number,
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::EPERM)
    )
}
