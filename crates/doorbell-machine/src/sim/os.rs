//! What programs ask the C library for: the time, and random bytes. A program whose `clock_gettime` and `getrandom` are
//! these functions gets both from the simulation while it runs. They do what the C library's own do elsewhere.

use super::Sim;
use super::world::{is_inside, is_whole, look};
use crate::Machine;
use libc::{c_char, c_int, c_uint, c_void, clockid_t, timespec};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The time of day at which a simulation begins: in May 2033.
const EPOCH_S: u64 = 2_000_000_000;

const NS_PER_S: u64 = 1_000_000_000;

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;
type Getrandom = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> isize;

/// A function of the C library, looked up once.
struct Real(AtomicPtr<c_void>);

static CLOCK_GETTIME: Real = Real(AtomicPtr::new(std::ptr::null_mut()));
static GETRANDOM: Real = Real(AtomicPtr::new(std::ptr::null_mut()));

impl Real {
    /// Its address; null if the C library does not have it.
    fn get(&self, name: *const c_char) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) };
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

/// As `clock_gettime` of the C library. On a simulated thread all clocks show simulated time.
///
/// # Safety
/// As for that function: `to` is valid for a write.
pub unsafe fn clock_gettime(clock: clockid_t, to: *mut timespec) -> c_int {
    if is_inside() {
        // A step takes time, so that a loop which waits for a time ends. Code that a switch may interrupt can be inside
        // a lock: for it the time stands.
        let now_ns = if is_whole() {
            Sim::<0>::now_ns()
        } else {
            look(|world| world.clock_ns()).unwrap_or(0)
        };
        let epoch_s = if clock == libc::CLOCK_REALTIME {
            EPOCH_S
        } else {
            0
        };
        let now = timespec {
            tv_sec: (epoch_s + now_ns / NS_PER_S).cast_signed(),
            tv_nsec: (now_ns % NS_PER_S).cast_signed(),
        };
        // SAFETY: the caller's promise.
        unsafe { to.write(now) };
        return 0;
    }
    let real = CLOCK_GETTIME.get(c"clock_gettime".as_ptr());
    if real.is_null() {
        // SAFETY: passed on from the caller.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, to) } as c_int;
    }
    // SAFETY: the C library's function of that name has this type.
    let real = unsafe { std::mem::transmute::<*mut c_void, ClockGettime>(real) };
    // SAFETY: passed on from the caller.
    unsafe { real(clock, to) }
}

/// As `getrandom` of the C library. On a simulated thread the bytes follow from the seed.
///
/// # Safety
/// As for that function: `to` is valid for `len` writes.
pub unsafe fn getrandom(to: *mut c_void, len: usize, flags: c_uint) -> isize {
    if is_inside() {
        for at in 0..len {
            // SAFETY: the caller's promise.
            unsafe { to.cast::<u8>().add(at).write(super::random() as u8) };
        }
        return len.cast_signed();
    }
    let real = GETRANDOM.get(c"getrandom".as_ptr());
    if real.is_null() {
        // SAFETY: passed on from the caller.
        return unsafe { libc::syscall(libc::SYS_getrandom, to, len, flags) } as isize;
    }
    // SAFETY: the C library's function of that name has this type.
    let real = unsafe { std::mem::transmute::<*mut c_void, Getrandom>(real) };
    // SAFETY: passed on from the caller.
    unsafe { real(to, len, flags) }
}
