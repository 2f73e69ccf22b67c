//! The consumers of posts, each on one CPU, and how to post to them.

use std::sync::mpsc;

use super::{Counts, Gone, rings};
use crate::peers::{Doorbell, Host as _, Tokio, Workers, join, thread_on};
use anyhow::Result;

const CORE: usize = 0;

/// Makes so many posts. A call of it is for many, so the posts themselves are compiled for each target.
pub(super) type Post = dyn FnMut(u64) -> Result<(), Gone> + Send;

/// A running consumer: how each producer posts, and how it ends once all posters are gone.
pub(super) struct Consumer {
    pub(super) poster: Box<dyn Fn(usize) -> Box<Post>>,
    pub(super) stop: Box<dyn FnOnce() -> Result<()>>,
}

/// Starts a consumer on a CPU for so many producers.
pub(super) type Start = fn(usize, usize, &'static Counts) -> Result<Consumer>;

/// Who is posted to, what, and how that starts.
pub(super) type Target = (&'static str, &'static str, Start);

/// In the order of the table.
pub(super) const ALL: [Target; 8] = [
    (rings::NAME, "to a spinning thread", rings::start),
    ("crossbeam", "unbounded to a thread", |cpu, _, counts| {
        let (sender, posts) = crossbeam_channel::unbounded();
        let post = move |producer| sender.send(producer).map_err(|_| Gone);
        emptied(cpu, counts, posts, post)
    }),
    ("std", "mpsc to a thread", |cpu, _, counts| {
        let (sender, posts) = mpsc::channel();
        let post = move |producer| sender.send(producer).map_err(|_| Gone);
        emptied(cpu, counts, posts, post)
    }),
    ("tokio", "mpsc to a task", |cpu, _, counts| {
        let peer = Tokio::start(&Workers::on([cpu]))?;
        let (sender, mut posts) = tokio::sync::mpsc::unbounded_channel();
        drop(peer.0.spawn(async move {
            while let Some(producer) = posts.recv().await {
                counts.one_done(producer);
            }
        }));
        let post = move |producer| sender.send(producer).map_err(|_| Gone);
        Ok(consumer(post, || peer.stop()))
    }),
    ("doorbell", "post_on", |cpu, _, counts| {
        doorbell(cpu, move |handle, producer| {
            let posted = handle.post_on(CORE, move || counts.one_done(producer));
            posted.map_err(|_| Gone)
        })
    }),
    ("doorbell", "call_on, detached", |cpu, _, counts| {
        doorbell(cpu, move |handle, producer| {
            let call = handle.call_on(CORE, move || counts.one_done(producer));
            call.detach();
            Ok(())
        })
    }),
    ("tokio", "spawn", |cpu, _, counts| {
        let peer = Tokio::start(&Workers::on([cpu]))?;
        let handle = peer.0.handle().clone();
        let post = move |producer| {
            drop(handle.spawn(async move { counts.one_done(producer) }));
            Ok(())
        };
        Ok(consumer(post, || peer.stop()))
    }),
    ("doorbell", "task().on(core).spawn", |cpu, _, counts| {
        doorbell(cpu, move |handle, producer| {
            let task = handle.task().on(CORE);
            drop(task.spawn(async move { counts.one_done(producer) }));
            Ok(())
        })
    }),
];

/// A consumer to which each producer posts one by one, with a copy of `post`.
fn consumer(
    post: impl Fn(usize) -> Result<(), Gone> + Clone + Send + 'static,
    stop: impl FnOnce() -> Result<()> + 'static,
) -> Consumer {
    Consumer {
        poster: Box::new(move |producer| {
            let post = post.clone();
            Box::new(move |count| (0..count).try_for_each(|_| post(producer)))
        }),
        stop: Box::new(stop),
    }
}

fn doorbell(
    cpu: usize,
    post: impl Fn(&doorbell::Handle, usize) -> Result<(), Gone> + Copy + Send + 'static,
) -> Result<Consumer> {
    let peer = Doorbell::start(&Workers::on([cpu]))?;
    let handle = peer.0.handle().clone();
    Ok(consumer(
        move |producer| post(&handle, producer),
        || peer.stop(),
    ))
}

/// A channel that a thread empties. It ends when there is no sender left.
fn emptied(
    cpu: usize,
    counts: &'static Counts,
    posts: impl IntoIterator<Item = usize> + Send + 'static,
    post: impl Fn(usize) -> Result<(), Gone> + Clone + Send + 'static,
) -> Result<Consumer> {
    let thread = thread_on("flood-consumer", Some(cpu), move || {
        for producer in posts {
            counts.one_done(producer);
        }
    })?;
    Ok(consumer(post, move || join(thread)))
}
