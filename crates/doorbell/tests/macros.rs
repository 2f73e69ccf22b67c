//! The attributes.

#[doorbell::test]
async fn a_test_has_two_cores() {
    assert_eq!(doorbell::Handle::current().cores(), 2);
}

const CORES: usize = 3;

#[doorbell::test(cores = CORES)]
async fn cores_may_be_an_expression() {
    assert_eq!(doorbell::Handle::current().cores(), 3);
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
