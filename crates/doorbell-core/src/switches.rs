//! The switches: each turns one protocol into another one, to be measured against the default.
//!
//! The settings of `timer_pull` and `rt_push` are for users. The feature `baselines` adds those for measurements: the
//! behaviour before each kernel patch. Without the feature [`PostRules`] answers with constants, so the compiler
//! removes the code of the baselines.

use doorbell_machine::Counter;
use std::fmt;
use std::str::FromStr;

/// What a call to a spinning worker does (kernel patch: `TIF_NOTIFY_IPI`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleNotify {
    /// The worker sees the post in the line that it spins on, takes its mailbox and goes on spinning.
    #[default]
    On,
    /// Every kick also sets RESCHED, so every call costs the worker a pass.
    Off,
    /// As `On`, and a ring even to a spinning worker.
    AlwaysRing,
}

/// Which posts touch the bell (kernel patch: no IPI if `call_single_queue` is not empty).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallCoalesce {
    /// The post that finds the worker parked and not yet notified.
    #[default]
    On,
    /// Every post to a worker that is not spinning makes the wake syscall.
    Base,
}

/// How a waker gets an idle worker (kernel patch: the race of two wakers that select the same idle CPU).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleClaim {
    /// By a claim that one waker wins; the others go to other workers.
    #[default]
    On,
    /// By a look alone: two wakers may choose the same worker. Another worker steals the second task.
    Off,
    /// As `Off`, with the kernel patch's flag: a waker sets it at the worker that it chooses, and others look at it.
    /// The worker clears it before it parks. Two wakers may still choose the same worker.
    Mark,
    /// As `Off`, but no worker steals from one that makes progress.
    Base,
}

impl IdleClaim {
    /// All settings, in the order of their numbers in the word.
    pub const ALL: [IdleClaim; 4] = [
        IdleClaim::On,
        IdleClaim::Off,
        IdleClaim::Mark,
        IdleClaim::Base,
    ];
}

/// How an urgent worker gets a task of a higher rank that waits at another urgent worker, before it begins a poll or
/// parks (kernel patch: `RT_PUSH_IPI`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RtPush {
    /// `On` in a scheduler of 100 workers or more, else `Pull`.
    #[default]
    Auto,
    /// Before a poll the worker takes such a task itself. Of the workers that park at one moment, one scans the others
    /// on behalf of all.
    On,
    /// The worker takes such a task itself, also before it parks. Many workers may look at the same one at once.
    Pull,
}

impl RtPush {
    /// All settings, in the order of their numbers in the word.
    pub const ALL: [RtPush; 3] = [RtPush::Auto, RtPush::On, RtPush::Pull];
}

/// Which worker fires the timer of a task that may run anywhere, if the worker that has it sleeps (kernel patch: the
/// timer pull model).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerPull {
    /// The worker itself: it sleeps until then.
    #[default]
    Off,
    /// A worker that is awake. If all sleep, one of them sleeps until the first timer of all. While the worker that is
    /// awake is inside a long poll, these timers wait as its own do (`worker/watch/README.md`). As `Off` for class Rt,
    /// in a scheduler of one worker, and while the clock is paused. Not the default: it spares wake-ups, but the tasks
    /// run where their timers were fired, and may crowd there (`docs/decisions/0029-sleepers-leave-their-timers.md`).
    On,
    /// The baseline of the kernel patch. The worker on which it was armed: as `Off`, but a worker without other work to
    /// do arms it on the nearest worker that seems awake, by mail. A guess: that worker may sleep by then, or be inside
    /// a long poll.
    #[cfg(feature = "baselines")]
    Base,
}

impl TimerPull {
    /// All settings, in the order of their numbers in the word.
    #[cfg(feature = "baselines")]
    pub const ALL: [TimerPull; 3] = [TimerPull::Off, TimerPull::On, TimerPull::Base];

    /// All settings, in the order of their numbers in the word.
    #[cfg(not(feature = "baselines"))]
    pub const ALL: [TimerPull; 2] = [TimerPull::Off, TimerPull::On];
}

/// The settings of all switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// What a call to a spinning worker does.
    #[cfg(feature = "baselines")]
    pub idle_notify: IdleNotify,
    /// Which posts touch the bell.
    #[cfg(feature = "baselines")]
    pub call_coalesce: CallCoalesce,
    /// Which worker fires the timers of one that sleeps.
    pub timer_pull: TimerPull,
    /// How a waker gets an idle worker.
    #[cfg(feature = "baselines")]
    pub idle_claim: IdleClaim,
    /// How an urgent worker gets a task of a higher rank that waits elsewhere.
    pub rt_push: RtPush,
}

/// The names of the switches.
#[cfg(feature = "baselines")]
const NAMES: &str = "idle_notify, call_coalesce, timer_pull, idle_claim and rt_push";
#[cfg(not(feature = "baselines"))]
const NAMES: &str = "timer_pull and rt_push";

/// How the settings of a switch are written.
macro_rules! texts {
    ($switch:ident $name:literal: $first:ident $text:literal $(, $setting:ident $texts:literal)*) => {
        impl $switch {
            fn read(text: &str) -> Result<Self, SwitchError> {
                match text {
                    $text => Ok(Self::$first),
                    $($texts => Ok(Self::$setting),)*
                    _ => Err(SwitchError::Setting {
                        switch: $name,
                        setting: text.to_owned(),
                        known: concat!($text $(, ", ", $texts)*),
                    }),
                }
            }
        }

        impl fmt::Display for $switch {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    Self::$first => concat!($name, "=", $text),
                    $(Self::$setting => concat!($name, "=", $texts),)*
                })
            }
        }
    };
}

#[cfg(feature = "baselines")]
texts!(IdleNotify "idle_notify": On "on", Off "off", AlwaysRing "always_ring");
#[cfg(feature = "baselines")]
texts!(CallCoalesce "call_coalesce": On "on", Base "base");
#[cfg(feature = "baselines")]
texts!(TimerPull "timer_pull": On "on", Off "off", Base "base");
#[cfg(not(feature = "baselines"))]
texts!(TimerPull "timer_pull": On "on", Off "off");
#[cfg(feature = "baselines")]
texts!(IdleClaim "idle_claim": On "on", Off "off", Mark "mark", Base "base");
texts!(RtPush "rt_push": Auto "auto", On "on", Pull "pull");

/// Why a text names no setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// Not of the form `switch=setting`.
    #[error(
        "`{0}` is not of the form switch=setting; write for example timer_pull=on,rt_push=pull"
    )]
    Form(String),
    /// No switch has this name.
    #[error("there is no switch `{0}`; there are {names}", names = NAMES)]
    Switch(String),
    /// The switch has no such setting.
    #[error("switch `{switch}` has no setting `{setting}`; it has {known}")]
    Setting {
        /// The switch.
        switch: &'static str,
        /// The setting in the text.
        setting: String,
        /// The settings that there are.
        known: &'static str,
    },
}

impl FromStr for Switches {
    type Err = SwitchError;

    /// Reads `switch=setting,…`; switches that are not named keep their default.
    fn from_str(text: &str) -> Result<Self, SwitchError> {
        let mut switches = Switches::default();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (switch, setting) = part
                .split_once('=')
                .ok_or_else(|| SwitchError::Form(part.to_owned()))?;
            switches.set(switch.trim(), setting.trim())?;
        }
        Ok(switches)
    }
}

impl Switches {
    fn set(&mut self, switch: &str, setting: &str) -> Result<(), SwitchError> {
        match switch {
            #[cfg(feature = "baselines")]
            "idle_notify" => self.idle_notify = IdleNotify::read(setting)?,
            #[cfg(feature = "baselines")]
            "call_coalesce" => self.call_coalesce = CallCoalesce::read(setting)?,
            #[cfg(feature = "baselines")]
            "idle_claim" => self.idle_claim = IdleClaim::read(setting)?,
            "timer_pull" => self.timer_pull = TimerPull::read(setting)?,
            "rt_push" => self.rt_push = RtPush::read(setting)?,
            other => return Err(SwitchError::Switch(other.to_owned())),
        }
        Ok(())
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "baselines")]
        write!(
            f,
            "{},{},{},",
            self.idle_notify, self.call_coalesce, self.idle_claim
        )?;
        write!(f, "{},{}", self.timer_pull, self.rt_push)
    }
}

/// The switches as posters read them. They may change while the runtime runs.
///
/// Each setting alone is safe, and so is any mixture of old and new ones. So a relaxed number carries them.
#[derive(Debug, Default)]
pub struct SwitchWord<C>(C);

/// Bits of the word; zero is the default of every switch.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | a kick also sets RESCHED (`idle_notify=off`) |
/// | 1 | a spinning worker is rung too (`idle_notify=always_ring`) |
/// | 2 | every post to a worker that is not spinning rings (`call_coalesce=base`) |
/// | 3 to 4 | the number of the setting of `idle_claim`; posts do not look at it |
/// | 5 to 6 | the number of the setting of `rt_push`; posts do not look at it |
/// | 7 to 8 | the number of the setting of `timer_pull`; posts do not look at it |
mod bits {
    pub(super) const KICK_PASSES: u64 = 1 << 0;
    pub(super) const RING_SPINNING: u64 = 1 << 1;
    pub(super) const RING_EVERY_POST: u64 = 1 << 2;
    pub(super) const OF_POSTS: u64 = KICK_PASSES | RING_SPINNING | RING_EVERY_POST;
    pub(super) const CLAIM: u64 = 1 << 3;
    pub(super) const CLAIM_MAX: u64 = 3;
    pub(super) const PUSH: u64 = 1 << 5;
    pub(super) const PUSH_MAX: u64 = 3;
    pub(super) const PULL: u64 = 1 << 7;
    pub(super) const PULL_MAX: u64 = 3;
    const _: () = assert!(OF_POSTS == 0b111 && CLAIM == OF_POSTS + 1);
    const _: () = assert!(PUSH == CLAIM * (CLAIM_MAX + 1) && PULL == PUSH * (PUSH_MAX + 1));
}

const _: () = assert!(IdleClaim::ALL.len() as u64 == bits::CLAIM_MAX + 1);
const _: () = assert!(RtPush::ALL.len() as u64 <= bits::PUSH_MAX + 1);
const _: () = assert!(TimerPull::ALL.len() as u64 <= bits::PULL_MAX + 1);

/// The rules of a post, read once per post.
#[derive(Clone, Copy, Debug)]
pub struct PostRules(u64);

impl PostRules {
    /// Whether the switches that concern posts are at their default, which is the fast path of a post.
    #[inline(always)]
    pub fn is_default(self) -> bool {
        !cfg!(feature = "baselines") || self.0 & bits::OF_POSTS == 0
    }
    /// How a waker gets an idle worker.
    #[inline(always)]
    pub fn idle_claim(self) -> IdleClaim {
        if !cfg!(feature = "baselines") {
            return IdleClaim::On;
        }
        IdleClaim::ALL[((self.0 / bits::CLAIM) & bits::CLAIM_MAX) as usize]
    }
    /// How an urgent worker gets a task of a higher rank from another worker.
    #[inline(always)]
    pub fn rt_push(self) -> RtPush {
        RtPush::ALL[((self.0 / bits::PUSH) & bits::PUSH_MAX) as usize]
    }
    /// Which worker fires the timers of one that sleeps.
    #[inline(always)]
    pub fn timer_pull(self) -> TimerPull {
        TimerPull::ALL[((self.0 / bits::PULL) & bits::PULL_MAX) as usize]
    }
    /// Whether a worker without other work arms timers on another one (`timer_pull=base`).
    #[inline(always)]
    pub fn places_timers(self) -> bool {
        #[cfg(feature = "baselines")]
        return self.timer_pull() == TimerPull::Base;
        #[cfg(not(feature = "baselines"))]
        false
    }
    /// Whether a kick also asks for a pass.
    #[inline(always)]
    pub fn kick_passes(self) -> bool {
        cfg!(feature = "baselines") && self.0 & bits::KICK_PASSES != 0
    }
    /// Whether a spinning worker is rung too.
    #[inline(always)]
    pub fn ring_spinning(self) -> bool {
        cfg!(feature = "baselines") && self.0 & bits::RING_SPINNING != 0
    }
    /// Whether every post to a worker that does not spin rings.
    #[inline(always)]
    pub fn ring_every_post(self) -> bool {
        cfg!(feature = "baselines") && self.0 & bits::RING_EVERY_POST != 0
    }
}

impl<C: Counter> SwitchWord<C> {
    /// A word with these settings.
    pub fn new(switches: Switches) -> Self {
        let word = SwitchWord(C::default());
        word.store(switches);
        word
    }

    /// Changes the settings; posts that begin later follow them.
    pub fn store(&self, switches: Switches) {
        let word = switches.rt_push as u64 * bits::PUSH + switches.timer_pull as u64 * bits::PULL;
        #[cfg(feature = "baselines")]
        let word = word | Self::baselines(switches);
        self.0.set(word);
    }

    #[cfg(feature = "baselines")]
    fn baselines(switches: Switches) -> u64 {
        let notify = match switches.idle_notify {
            IdleNotify::On => 0,
            IdleNotify::Off => bits::KICK_PASSES,
            IdleNotify::AlwaysRing => bits::RING_SPINNING,
        };
        let coalesce = match switches.call_coalesce {
            CallCoalesce::On => 0,
            CallCoalesce::Base => bits::RING_EVERY_POST,
        };
        notify | coalesce | (switches.idle_claim as u64 * bits::CLAIM)
    }

    /// The settings now.
    pub fn load(&self) -> Switches {
        let rules = self.rules();
        Switches {
            #[cfg(feature = "baselines")]
            idle_notify: if rules.kick_passes() {
                IdleNotify::Off
            } else if rules.ring_spinning() {
                IdleNotify::AlwaysRing
            } else {
                IdleNotify::On
            },
            #[cfg(feature = "baselines")]
            call_coalesce: if rules.ring_every_post() {
                CallCoalesce::Base
            } else {
                CallCoalesce::On
            },
            timer_pull: rules.timer_pull(),
            #[cfg(feature = "baselines")]
            idle_claim: rules.idle_claim(),
            rt_push: rules.rt_push(),
        }
    }

    /// The settings now, as a poster reads them.
    #[inline(always)]
    pub fn rules(&self) -> PostRules {
        PostRules(self.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CallCoalesce, IdleClaim, IdleNotify, RtPush, SwitchError, SwitchWord, Switches, TimerPull,
    };
    use doorbell_machine::host::HostCounter;

    #[test]
    fn text_and_settings_are_one_to_one() {
        let notifies = [IdleNotify::On, IdleNotify::Off, IdleNotify::AlwaysRing];
        let coalesces = [CallCoalesce::On, CallCoalesce::Base];
        let of_posts = notifies
            .into_iter()
            .flat_map(|notify| coalesces.map(|coalesce| (notify, coalesce)));
        let claims = IdleClaim::ALL.map(|claim| TimerPull::ALL.map(|pull| (claim, pull)));
        let others = claims.into_iter().flatten();
        let others = others.flat_map(|setting| RtPush::ALL.map(|push| (setting, push)));
        for (idle_notify, call_coalesce) in of_posts {
            for ((idle_claim, timer_pull), rt_push) in others.clone() {
                let switches = Switches {
                    idle_notify,
                    call_coalesce,
                    timer_pull,
                    idle_claim,
                    rt_push,
                };
                assert_eq!(switches.to_string().parse(), Ok(switches));
                let word = SwitchWord::<HostCounter>::new(switches);
                assert_eq!(word.load(), switches);
                let rules = word.rules();
                assert_eq!(rules.kick_passes(), idle_notify == IdleNotify::Off);
                assert_eq!(rules.ring_spinning(), idle_notify == IdleNotify::AlwaysRing);
                assert_eq!(rules.ring_every_post(), call_coalesce == CallCoalesce::Base);
                assert_eq!((rules.idle_claim(), rules.rt_push()), (idle_claim, rt_push));
                assert_eq!(rules.timer_pull(), timer_pull);
                let of_posts = (IdleNotify::On, CallCoalesce::On);
                assert_eq!(rules.is_default(), (idle_notify, call_coalesce) == of_posts);
            }
        }
        assert_eq!("".parse(), Ok(Switches::default()));
    }

    #[test]
    fn a_wrong_text_says_what_there_is() {
        let error = |text: &str| text.parse::<Switches>().unwrap_err();
        assert_eq!(
            error("idle_notify"),
            SwitchError::Form("idle_notify".into())
        );
        assert_eq!(error("x=on"), SwitchError::Switch("x".into()));
        assert!(
            error("idle_notify=maybe")
                .to_string()
                .contains("on, off, always_ring")
        );
        assert!(error("call_coalesce=off").to_string().contains("on, base"));
        assert!(
            error("idle_claim=no")
                .to_string()
                .contains("on, off, mark, base")
        );
        assert!(error("rt_push=off").to_string().contains("auto, on, pull"));
        assert!(error("timer_pull=no").to_string().contains("on, off, base"));
    }
}
