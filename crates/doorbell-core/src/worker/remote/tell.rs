//! Who tells a worker of what was posted to it, and who rings it: see ../../mailbox/README.md.

use super::Remote;
use crate::bell::{Kick, Look, Notified, WorkerState};
use crate::class::Standing;
use crate::mailbox::Pushed;
use crate::switches::PostRules;
use doorbell_machine::{Bug, Counter, Machine, Mark};

impl<M: Machine> Remote<M> {
    /// The protocol: a spinning worker sees the push itself, a running one looks before it idles, and a poster
    /// that finds the worker parked and untold tells it. Call it directly after the push, whose
    /// read-modify-write the fence needs.
    #[inline]
    pub(crate) fn tell(&self, pushed: Pushed) {
        if !M::breaks(Bug::MailboxNoRecheckFence) {
            M::fence_recheck();
        }
        if M::breaks(Bug::MailboxNoStalledRule) && pushed == Pushed::Behind {
            return;
        }
        let rules = self.switches.rules();
        if !rules.is_default() {
            return self.tell_by_rules(pushed == Pushed::Behind, rules);
        }
        match self.shared.bell.look() {
            Look::Running | Look::Spinning | Look::Notified => {}
            Look::ParkedUntold => self.notify(Kick::Take, pushed == Pushed::Behind),
            Look::NotifiedFromBelow => self.help(),
        }
    }

    /// The worker is parked, and a notifier of a lower class has promised to ring it.
    #[cold]
    #[inline(never)]
    fn help(&self) {
        self.ring_if_due(self.shared.bell.help(self.standing()));
    }

    fn standing(&self) -> Standing {
        self.class.standing::<M>()
    }

    fn ring_if_due(&self, notified: Notified) {
        match notified {
            Notified::MustRing => self.ring(),
            Notified::MustHelp => {
                self.counts.rings_helped.add_shared(1);
                self.ring();
            }
            Notified::Running | Notified::Spinning | Notified::Already => {}
        }
    }

    /// Tells the worker, and rings it if this poster must.
    #[cold]
    #[inline(never)]
    fn notify(&self, kick: Kick, behind: bool) {
        let notified = self.shared.bell.notify(kick, self.standing());
        self.ring_if_due(notified);
        if behind && notified == Notified::MustRing {
            M::mark(Mark::MailboxRescue);
            self.counts.rings_for_stalled.add_shared(1);
        }
    }

    /// The older behaviours that the switches bring back. Call it after the fence of `tell`.
    #[cold]
    #[inline(never)]
    fn tell_by_rules(&self, behind: bool, rules: PostRules) {
        let kick = if rules.kick_passes() {
            Kick::Pass
        } else {
            Kick::Take
        };
        let look = self.shared.bell.look();
        if look == Look::Spinning {
            if rules.kick_passes() {
                self.notify(kick, behind);
            }
            if rules.ring_spinning() && !behind {
                self.ring_awake();
            }
        } else if rules.ring_every_post() && self.state() != WorkerState::Spinning {
            // Every post makes the wake syscall, also if another poster rang already. A worker that
            // spins is never rung here, told or not, like a polling CPU in the seed's baseline.
            // Later posters ring too, so this one need not say that it may be below.
            match self.shared.bell.notify(kick, Standing::Level) {
                notified @ (Notified::MustRing | Notified::MustHelp) => self.ring_if_due(notified),
                Notified::Running | Notified::Spinning | Notified::Already => self.ring_awake(),
            }
        } else if look == Look::ParkedUntold {
            self.notify(kick, behind);
        } else if look == Look::NotifiedFromBelow {
            self.help();
        }
    }

    fn ring(&self) {
        if let Some(core_use) = self.core_use() {
            core_use.begin(self.worker());
        }
        self.counts.rings.add_shared(1);
        self.shared.bell.ring(&self.parker);
        if self.shared.bell.is_quiescent()
            && let Some(core_use) = self.core_use()
        {
            // The ring came after its park was over: the worker sleeps on in the next one, with nothing to do.
            core_use.end(self.worker());
        }
    }

    fn ring_awake(&self) {
        self.counts.rings_awake.add_shared(1);
        self.ring();
    }

    /// Has the worker look at its descriptors, for which there is no post.
    pub(crate) fn signal(&self) {
        let notified = self.shared.bell.notify(Kick::Take, self.standing());
        self.ring_if_due(notified);
    }

    /// Asks the worker for a pass, whatever its state.
    pub fn request_pass(&self) {
        let notified = self.shared.bell.notify(Kick::Pass, self.standing());
        self.ring_if_due(notified);
    }
}
