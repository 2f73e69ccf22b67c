//! Pipes and FIFOs.

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, ReadWriteFlags, ioctl_fionbio, pwritev2, readv, writev};
use std::fs::OpenOptions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// `RWF_NOSIGNAL`, since Linux 6.18: a write to a pipe without a reader raises no `SIGPIPE`.
const NO_SIGNAL: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x100);

/// The offset of a file that has none: where it stands.
const HERE: u64 = u64::MAX;

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
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode).is_fifo())
}

/// Whether this access is open.
///
/// # Errors
/// The OS's error.
pub fn has_access(fd: impl AsFd, access: Access) -> io::Result<bool> {
    let mode = fcntl_getfl(fd)? & OFlags::RWMODE;
    Ok(mode == OFlags::RDWR
        || match access {
            Access::Read => mode == OFlags::RDONLY,
            Access::Write => mode == OFlags::WRONLY,
            Access::Both => false,
        })
}

/// Makes the descriptor non-blocking, or blocking.
///
/// # Errors
/// The OS's error.
pub fn set_nonblocking(fd: impl AsFd, is_nonblocking: bool) -> io::Result<()> {
    Ok(ioctl_fionbio(fd, is_nonblocking)?)
}

/// Reads; returns how many bytes it filled, from the front.
///
/// # Errors
/// The OS's error.
pub fn read_into(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, buffer)?)
}

/// Reads into uninitialised memory; returns how many bytes it filled, from the front.
///
/// # Errors
/// The OS's error.
pub fn read(fd: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (read, _) = rustix::io::read(fd, buffer)?;
    Ok(read.len())
}

/// Reads into several buffers in order; returns how many bytes they got. Of very many it fills only some.
///
/// # Errors
/// The OS's error.
pub fn read_slices(fd: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let empty = buffers.iter().take_while(|buffer| buffer.is_empty());
    let empty = empty.count();
    Ok(readv(fd, &mut buffers[empty..])?)
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
        match pwritev2(&fd, buffers, HERE, NO_SIGNAL) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {
                // Of what is not a pipe, that says nothing about pipes.
                if is_pipe(&fd)? {
                    // ORDER: Relaxed; as above.
                    SIGNALS.store(true, Ordering::Relaxed);
                }
            }
            written => return Ok(written?),
        }
    }
    Ok(writev(fd, buffers)?)
}
