//! The attributes.

#![allow(clippy::disallowed_methods, reason = "tests play the outside world")]

#[doorbell::test]
async fn a_test_has_two_cores() {
    assert_eq!(doorbell::Handle::current().cores(), 2);
}

const CORES: usize = 3;

#[doorbell::test(cores = CORES)]
async fn cores_may_be_an_expression() {
    assert_eq!(doorbell::Handle::current().cores(), 3);
}

fn named() -> doorbell::Builder {
    doorbell::Builder::new().cores(3).name("named")
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[doorbell::test(builder = named)]
async fn a_test_begins_with_its_builder() {
    assert_eq!(doorbell::Handle::current().cores(), 3);
    let name = doorbell::task().on(2).spawn(async { thread_name() }).await;
    assert_eq!(name.unwrap(), "named-2");
}

#[doorbell::main(builder = || named().name("other"), cores = 1)]
async fn of_a_builder() -> (usize, String) {
    let name = doorbell::spawn(async { thread_name() }).await.unwrap();
    (doorbell::Handle::current().cores(), name)
}

#[test]
fn main_begins_with_its_builder_and_the_other_options_come_behind() {
    assert_eq!(of_a_builder(), (1, "other-0".to_owned()));
}

#[doorbell::test]
#[should_panic(expected = "seen from outside")]
async fn a_panic_of_the_body_fails_the_test() {
    panic!("seen from outside");
}

#[doorbell::test]
async fn a_test_may_return_a_result() -> Result<(), doorbell::CallError> {
    let there = doorbell::call_on(1, doorbell::current_core).await?;
    assert_eq!(there, Some(doorbell::CoreId::new(1)));
    Ok(())
}

mod program {
    #[doorbell::main(cores = 1)]
    pub(super) async fn main() -> Result<u8, std::io::Error> {
        doorbell::spawn(async { 3 })
            .await
            .map_err(std::io::Error::other)
    }
}

#[test]
fn main_returns_what_its_body_returns() {
    assert_eq!(program::main().unwrap(), 3);
}

fn runtime() -> u8 {
    7
}

#[doorbell::test]
async fn the_macro_takes_no_name_from_its_body() {
    assert_eq!(runtime(), 7);
}

/// Says what the function does.
#[doorbell::main(cores = 1)]
#[must_use]
#[inline(never)]
async fn join<T: ToString, const N: usize>(
    parts: [T; N],
    (left, mut right): (&str, String),
) -> String
where
    [T; N]: Sized,
{
    #![allow(clippy::unused_async)]
    for part in &parts {
        right += &part.to_string();
    }
    let right = doorbell::spawn(async move { right }).await.unwrap();
    format!("{left}{right}")
}

struct Sum(u32);

impl Sum {
    #[doorbell::main(cores = 1)]
    async fn with(&self, other: u32) -> u32 {
        let task = doorbell::spawn(async move { other });
        self.0 + task.await.unwrap()
    }

    #[doorbell::main(cores = 1)]
    async fn add(&mut self, other: &u32) -> &mut Self {
        self.0 += doorbell::spawn(std::future::ready(*other)).await.unwrap();
        self
    }

    #[doorbell::main(cores = 1)]
    async fn end(self) -> impl std::fmt::Display {
        self.0
    }
}

#[test]
fn c6_main_runs_functions_with_arguments_generics_and_attributes() {
    assert_eq!(join([1, 2], ("<", String::from("a"))), "<a12");
}

#[test]
fn c6_main_runs_methods() {
    let mut sum = Sum(40);
    assert_eq!(sum.with(1), 41);
    assert_eq!(sum.add(&2).0, 42);
    assert_eq!(sum.end().to_string(), "42");
}

#[doorbell::test]
#[cfg_attr(all(), allow(clippy::unused_async))]
async fn c6_a_test_may_have_attributes_inside() {
    #![allow(unused_variables)]
    let unused = 1;
}
