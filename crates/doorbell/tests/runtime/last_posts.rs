//! Posts of an ending thread whose own memory for posts has been freed.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "threads of the user's, and what they keep for themselves"
)]

use doorbell::{Builder, CallError, Handle};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Posts when its thread ends.
struct PostsLast {
    handle: Handle,
    /// Each closure has a clone.
    ran: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl PostsLast {
    fn post(&self, f: impl FnOnce() + Send + 'static) {
        match self.handle.post_on(0, f) {
            Ok(()) => {}
            Err(CallError::RuntimeGone) => {
                self.refused.fetch_add(1, SeqCst);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for PostsLast {
    fn drop(&mut self) {
        // One that needs half a line, one that needs a line, and one in a box.
        let [small, large, boxed] = [(); 3].map(|()| Arc::clone(&self.ran));
        let (one, many) = ([1_usize; 4], [1_usize; 20]);
        self.post(move || {
            small.fetch_add(1, SeqCst);
        });
        self.post(move || {
            large.fetch_add(one[3], SeqCst);
        });
        self.post(move || {
            boxed.fetch_add(many[19], SeqCst);
        });
    }
}

thread_local! {
    static LAST: RefCell<Option<PostsLast>> = const { RefCell::new(None) };
}

#[test]
fn d10_a_thread_that_ends_posts_once_more() {
    for gone in [false, true] {
        let runtime = Builder::new().cores(1).build().unwrap();
        let [ran, refused] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let last = PostsLast {
            handle: runtime.handle().clone(),
            ran: Arc::clone(&ran),
            refused: Arc::clone(&refused),
        };
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let handle = last.handle.clone();
            LAST.with(|cell| *cell.borrow_mut() = Some(last));
            // The memory for posts is created later, so it is destroyed first.
            handle.post_on(0, || ()).unwrap();
            wait.recv().unwrap();
        });
        let mut runtime = Some(runtime);
        if gone {
            // Not before the thread's first post, since its calls are not ordered after that.
            while runtime
                .as_ref()
                .is_some_and(|runtime| runtime.metrics().workers[0].counts.delivered == 0)
            {
                std::thread::yield_now();
            }
            drop(runtime.take());
        }
        go.send(()).unwrap();
        thread.join().unwrap();
        drop(runtime);
        let expected = if gone { (0, 3) } else { (3, 0) };
        assert_eq!((ran.load(SeqCst), refused.load(SeqCst)), expected);
        assert_eq!(Arc::strong_count(&ran), 1, "a closure was lost or doubled");
    }
}
