//! Names, and where they lie.

use super::{Bench, Count, output};
use crate::task::{About, BodyVtable, Join, Kind, Name, write_body};
use crate::worker::launch_described;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A future with an alignment that no header has, and of an odd size.
#[repr(align(64))]
struct Wide(
    [u8; 65],
    #[allow(dead_code, reason = "it is dropped")] super::CountsDrop,
);

impl Future for Wide {
    type Output = usize;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<usize> {
        let it: &Wide = &self;
        assert_eq!((&raw const *it).addr() % 64, 0);
        Poll::Ready(self.0.iter().map(|byte| *byte as usize).sum())
    }
}

fn launch_wide(bench: &Bench, name: Option<&Name>, drops: &Count) -> Join<usize> {
    let future = Wide([1; 65], drops.on_drop());
    bench.on_worker(|| {
        let remote = bench.remote.clone();
        let vtable = BodyVtable::of::<Wide>();
        let about = About {
            name,
            ..About::default()
        };
        // SAFETY: the body is of the table's type and Send, as is its output.
        unsafe {
            launch_described(remote, Kind::Task, about, vtable, |body| {
                write_body(body, future);
            })
            .typed()
        }
    })
}

#[test]
fn miri_a_name_lies_behind_any_body_and_goes_with_the_task() {
    let bench = Bench::new();
    let drops = Count::default();
    let text: Arc<str> = "shared".into();
    let shared = Name::from(Arc::clone(&text));
    for (name, expected) in [
        (None, None),
        (Some(&Name::from("static")), Some("static")),
        (Some(&shared), Some("shared")),
    ] {
        let mut join = launch_wide(&bench, name, &drops);
        assert_eq!(join.name(), expected);
        bench.run();
        assert_eq!(output(&mut join).unwrap(), 65);
        // The handle keeps the name when the future is gone.
        assert_eq!(join.name(), expected);
    }
    assert_eq!((drops.get(), Arc::strong_count(&text)), (3, 2));
    bench.end();
}

#[test]
fn miri_a_task_that_is_refused_or_cancelled_drops_its_name() {
    let drops = Count::default();
    let text: Arc<str> = "shared".into();
    let name = Name::from(Arc::clone(&text));
    let bench = Bench::new();
    let early = launch_wide(&bench, Some(&name), &drops);
    bench.on_worker(|| bench.local.close());
    let late = launch_wide(&bench, Some(&name), &drops);
    for mut join in [early, late] {
        assert!(output(&mut join).unwrap_err().is_cancelled());
        assert_eq!(join.name(), Some("shared"));
    }
    drop(name);
    assert_eq!((drops.get(), Arc::strong_count(&text)), (2, 1));
    bench.end();
}

#[test]
fn names_of_all_kinds_of_text() {
    let names: [Name; 5] = [
        "a name".into(),
        "a name".to_owned().into(),
        Arc::<str>::from("a name").into(),
        Cow::Borrowed("a name").into(),
        Cow::<str>::Owned("a name".to_owned()).into(),
    ];
    for name in &names {
        assert_eq!(name.as_str(), "a name");
        assert_eq!(format!("{name:>7}"), " a name");
        assert_eq!(name, &names[0]);
    }
    assert_ne!(names[0], "another".into());
}

#[test]
fn the_ids_of_tasks_that_are_there_differ() {
    let bench = Bench::new();
    let joins: Vec<_> = (0..50).map(|_| bench.spawn(async {})).collect();
    let mut ids: Vec<u64> = joins.iter().map(Join::id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 50);
    drop(joins);
    bench.run();
    bench.end();
}
