//! Pipes and FIFOs, for tasks.
//!
//! A [`Sender`] and a [`Receiver`] are the ends of a pipe, made by [`pipe()`], by [`OpenOptions`] of a file in
//! the file system, or of an end that somebody else has made, such as that of a child process.
//!
//! If no receiver is left, writing is an error of kind [`BrokenPipe`](io::ErrorKind::BrokenPipe). Before Linux
//! 6.18 the OS also raises `SIGPIPE`, which Rust programs ignore; where the program is written in another
//! language, it may end the process.
//!
//! ```
//! # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
//! let (sender, receiver) = doorbell::net::pipe::pipe()?;
//! sender.write_all(b"hello").await?;
//! let mut hello = [0; 5];
//! receiver.read_exact(&mut hello).await?;
//! assert_eq!(&hello, b"hello");
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```

use super::Direction;
use super::bytes::Bytes;
use super::io::Io;
use super::methods::{read_methods, write_methods};
use super::ready::interest_methods;
use crate::here::refuse_os;
use doorbell_machine::host::pipe::{self, Access};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::task::{Context, Poll};

/// Makes a pipe.
///
/// # Errors
/// The OS's error.
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (reads, writes) = io::pipe()?;
    let receiver = Receiver::from_owned_fd_unchecked(reads.into())?;
    Ok((Sender::from_owned_fd_unchecked(writes.into())?, receiver))
}

/// An end of a pipe.
#[derive(Debug)]
pub(super) struct End(OwnedFd);

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Bytes for End {
    /// A read of a pipe in packet mode stops after each packet.
    const SHORT_IS_ALL: bool = false;

    fn read_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        pipe::read(self, buffer)
    }

    fn read_into(&self, buffer: &mut [u8]) -> io::Result<usize> {
        pipe::read_into(self, buffer)
    }

    fn read_slices(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        pipe::read_slices(self, buffers)
    }

    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        pipe::write_slices(self, &[IoSlice::new(buffer)])
    }

    fn write_slices(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        pipe::write_slices(self, buffers)
    }

    /// Nothing: a pipe is closed by the drop of its end.
    fn shutdown(&self, _how: Shutdown) -> io::Result<()> {
        Ok(())
    }
}

/// The end of a pipe that writes. All methods take `&self`, so several tasks may use it at a time.
#[derive(Debug)]
pub struct Sender {
    io: Io<End>,
}

/// The end of a pipe that reads. All methods take `&self`, so several tasks may use it at a time.
#[derive(Debug)]
pub struct Receiver {
    io: Io<End>,
}

fn refused(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Checks that it is the end of a pipe with this access.
fn check(fd: BorrowedFd<'_>, access: Access) -> io::Result<()> {
    if !pipe::is_pipe(fd)? {
        return Err(refused("not a pipe; use AsyncFd for other descriptors"));
    }
    if !pipe::has_access(fd, access)? {
        return Err(refused("the pipe's other end; it is not open for this"));
    }
    Ok(())
}

macro_rules! ends {
    ($($end:ident $access:expr;)*) => {$(
        impl $end {
            pub(super) fn io(&self) -> &Io<End> {
                &self.io
            }

            /// Takes over an end of a pipe, and makes it non-blocking. The OS has that in common with all copies
            /// of the descriptor, also in other processes.
            ///
            /// # Errors
            /// The OS's error; [`io::ErrorKind::InvalidInput`] if it is no pipe, or its other end.
            pub fn from_file(file: File) -> io::Result<$end> {
                $end::from_owned_fd(file.into())
            }

            #[doc = concat!("As [`", stringify!($end), "::from_file`].")]
            ///
            /// # Errors
            /// As there.
            pub fn from_owned_fd(fd: OwnedFd) -> io::Result<$end> {
                check(fd.as_fd(), $access)?;
                $end::from_owned_fd_unchecked(fd)
            }

            #[doc = concat!("As [`", stringify!($end), "::from_file`], whatever it is.")]
            ///
            /// # Errors
            /// If the OS refuses to make it non-blocking.
            pub fn from_file_unchecked(file: File) -> io::Result<$end> {
                $end::from_owned_fd_unchecked(file.into())
            }

            #[doc = concat!("As [`", stringify!($end), "::from_file_unchecked`].")]
            ///
            /// # Errors
            /// As there.
            pub fn from_owned_fd_unchecked(fd: OwnedFd) -> io::Result<$end> {
                refuse_os()?;
                pipe::set_nonblocking(&fd, true)?;
                Ok($end {
                    io: Io::new(End(fd)),
                })
            }

            /// Returns the descriptor, made blocking, for example for a child process. It is registered with no
            /// runtime any more.
            ///
            /// # Errors
            /// If the OS refuses to make it blocking.
            pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
                let fd = self.into_nonblocking_fd()?;
                pipe::set_nonblocking(&fd, false)?;
                Ok(fd)
            }

            /// Returns the descriptor, which stays non-blocking. It is registered with no runtime any more.
            ///
            /// # Errors
            /// Never; for the sake of other runtimes' names.
            pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
                Ok(self.io.into_inner().0)
            }

            interest_methods!();
        }

        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.get().as_fd()
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }

        impl From<$end> for OwnedFd {
            /// The descriptor stays non-blocking, and is registered with no runtime any more.
            fn from(end: $end) -> OwnedFd {
                end.io.into_inner().0
            }
        }

        impl IntoRawFd for $end {
            /// The caller closes the descriptor. It stays non-blocking, and is registered with no runtime any
            /// more.
            fn into_raw_fd(self) -> RawFd {
                OwnedFd::from(self).into_raw_fd()
            }
        }
    )*};
}

ends! {
    Sender Access::Write;
    Receiver Access::Read;
}

impl Sender {
    write_methods!([]);
}

impl Receiver {
    read_methods!([]);
}

/// How a FIFO in the file system is opened.
///
/// ```no_run
/// use doorbell::net::pipe::OpenOptions;
///
/// # doorbell::Builder::new().cores(1).build().unwrap().block_on(async {
/// let receiver = OpenOptions::new().open_receiver("/run/commands")?;
/// let mut command = [0; 64];
/// let read = receiver.read(&mut command).await?;
/// # let _ = read;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    is_read_write: bool,
    is_unchecked: bool,
}

impl OpenOptions {
    /// Options that open a FIFO one way, and refuse other files.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Opens it to read and to write. So a receiver sees no end when the last sender goes, and a sender can be
    /// opened before any receiver.
    pub fn read_write(&mut self, is_read_write: bool) -> &mut OpenOptions {
        self.is_read_write = is_read_write;
        self
    }

    /// Opens it whatever it is. The file must be one that the OS can wait for.
    pub fn unchecked(&mut self, is_unchecked: bool) -> &mut OpenOptions {
        self.is_unchecked = is_unchecked;
        self
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<OwnedFd> {
        let access = if self.is_read_write {
            Access::Both
        } else {
            access
        };
        let fd = pipe::open(path, access)?;
        if !self.is_unchecked {
            check(fd.as_fd(), access)?;
        }
        Ok(fd)
    }

    /// Opens the FIFO at `path` to read.
    ///
    /// # Errors
    /// The OS's error; [`io::ErrorKind::InvalidInput`] if it is no FIFO.
    pub fn open_receiver(&self, path: impl AsRef<Path>) -> io::Result<Receiver> {
        Receiver::from_owned_fd_unchecked(self.open(path.as_ref(), Access::Read)?)
    }

    /// Opens the FIFO at `path` to write.
    ///
    /// # Errors
    /// The OS's error: `ENXIO` if no receiver has it open; [`io::ErrorKind::InvalidInput`] if it is no FIFO.
    pub fn open_sender(&self, path: impl AsRef<Path>) -> io::Result<Sender> {
        Sender::from_owned_fd_unchecked(self.open(path.as_ref(), Access::Write)?)
    }
}
