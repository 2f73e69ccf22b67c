//! Cores that are taken off. The other tests of this folder lie beside what they test.

use super::Scheduler;
use super::offline::TakenOff;
use crate::switches::SwitchWord;
use crate::task::Phase;
use crate::testing::spawn;
use crate::worker::Local;
use doorbell_machine::Host;
use std::sync::Arc;

#[test]
fn a_worker_that_is_off_keeps_its_tasks_if_all_others_have_ended() {
    let switches = Arc::new(SwitchWord::default());
    let remotes = Scheduler::<Host>::new(2, &switches, |_, _| 0);
    let (here, there) = (
        Local::new(remotes[0].clone()),
        Local::new(remotes[1].clone()),
    );
    there.enter(|| there.close());
    here.enter(|| {
        let join = spawn(&remotes[0], async { 7 });
        assert_eq!(here.queued(), 1);
        assert_eq!(here.remote().scheduler().take_off(0), TakenOff::Now);
        // Once it handed the task to itself here, for ever.
        here.follow();
        assert_eq!(here.queued(), 1);
        here.close();
        assert_eq!(join.phase(), Phase::Complete);
    });
}
