//! The steps as in doorbell-core, on the host.

use doorbell_core::link::{Delivered, Node, Taker};
use doorbell_core::mailbox::Posted;
use doorbell_core::scheduler::Member;
use doorbell_core::scheduler::RemoteRef;
use doorbell_core::switches::{SwitchWord, Switches};
use doorbell_machine::Host;
use std::ptr::NonNull;
use std::sync::Arc;

#[repr(C)]
struct Call {
    node: Node<Host>,
    ran: u64,
}

unsafe fn run(node: NonNull<Node<Host>>) -> Delivered {
    // SAFETY: the node is the first field of a call that outlives the mailbox.
    unsafe { (*node.cast::<Call>().as_ptr()).ran += 1 };
    Delivered::Done
}

/// A worker that takes only calls.
struct Caller;

impl Taker<Host> for Caller {
    unsafe fn take(&self, _node: NonNull<Node<Host>>, _delivered: Delivered) {}
}

/// A function of its own on both sides. So the comparison is of the step, not of the registers that the
/// loop around it leaves free.
#[inline(never)]
fn post(remote: &Member<Host>, node: NonNull<Node<Host>>) -> bool {
    // SAFETY: the call stays in place until it is taken.
    unsafe { remote.post(node) == Posted::Yes }
}

#[inline(never)]
fn serve(remote: &Member<Host>) -> u64 {
    // SAFETY: this thread is the worker.
    unsafe { remote.serve(&Caller) }.delivered
}

#[inline(never)]
pub(crate) fn calls(count: usize, batch: usize) -> u64 {
    let remote = RemoteRef::<Host>::alone(&Arc::new(SwitchWord::new(Switches::default())));
    let mut calls: Vec<Call> = (0..batch)
        .map(|_| Call {
            node: Node::new(run),
            ran: 0,
        })
        .collect();
    let base = calls.as_mut_ptr();
    let mut taken = 0;
    for _ in 0..count / batch {
        for i in 0..batch {
            // SAFETY: inside the vector, which is not accessed otherwise meanwhile.
            let node = unsafe { NonNull::new_unchecked(base.add(i).cast()) };
            assert!(post(&remote, node));
        }
        taken += serve(&remote);
    }
    assert_eq!(taken, count as u64);
    calls.iter().map(|call| call.ran).sum()
}
