//! Regions: a stack per thread that says which tag and policy new memory gets.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use allocator_core::Device;

use crate::policy::{Checksum, HostMode, Policy};
use crate::tag::Tag;

/// What memory allocated in a region gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The tag under which it is paused.
    pub tag: Tag,
    /// What happens to its contents.
    pub policy: Policy,
    /// Devices that may use it beside its owner.
    pub peers: Vec<Device>,
    /// Where the contents go at pause, for a policy that keeps them on disk. `None`: where the
    /// engine's settings say.
    pub directory: Option<Arc<Path>>,
    /// How its backups in host memory are held. `None`: as the engine's settings say.
    pub host_mode: Option<HostMode>,
    /// Whether its saved contents are checked. `None`: as the engine's settings say.
    pub checksum: Option<Checksum>,
}

impl Default for Settings {
    /// The tag `default`, contents discarded.
    fn default() -> Self {
        Self::new(Tag::default_tag(), Policy::default())
    }
}

impl Settings {
    /// A tag, its contents kept as `policy` says, with no peers.
    pub fn new(tag: impl Into<Tag>, policy: Policy) -> Self {
        Self {
            tag: tag.into(),
            policy,
            peers: Vec::new(),
            directory: None,
            host_mode: None,
            checksum: None,
        }
    }

    /// Names devices that may use the memory beside its owner.
    #[must_use]
    pub fn with_peers(mut self, peers: impl IntoIterator<Item = Device>) -> Self {
        self.peers = peers.into_iter().collect();
        self
    }

    /// Names the directory for contents that are kept on disk.
    #[must_use]
    pub fn with_directory(mut self, directory: impl Into<Arc<Path>>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Says how backups in host memory are held.
    #[must_use]
    pub fn with_host_mode(mut self, mode: HostMode) -> Self {
        self.host_mode = Some(mode);
        self
    }

    /// Says whether saved contents are checked.
    #[must_use]
    pub fn with_checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

/// What the innermost region of a thread says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Current {
    /// The thread is in no region.
    Outside,
    /// The thread is in [`disable`]: new memory is not ours.
    Disabled,
    /// New memory gets these settings.
    Inside(Settings),
}

/// One level of a thread's regions: whether new memory is ours, and what it gets if so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Whether new memory is ours.
    pub on: bool,
    /// What it gets.
    pub settings: Settings,
    /// For whoever amends places: notes of its own, which go with the place.
    pub marks: u32,
}

/// A region entered without a guard, for [`leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entered(u64);

impl Entered {
    /// As a number, for a foreign interface; never zero unless nothing was entered.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// From [`number`](Self::number). A wrong number leaves nothing.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

#[derive(Debug)]
struct Stack {
    /// Below all regions; `None` until the thread changes it, and then the process's default.
    base: Option<Place>,
    entries: Vec<(Entered, Place)>,
}

thread_local! {
    static STACK: RefCell<Stack> = const {
        RefCell::new(Stack { base: None, entries: Vec::new() })
    };
}

/// What holds on a thread that has entered no region and amended nothing.
static PROCESS_DEFAULT: OnceLock<Place> = OnceLock::new();
/// The last region entered on any thread: one thread's number means nothing on another.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Says what holds on every thread outside its regions: by default that new memory is not ours.
/// For the first call of a process; a later one changes nothing and is answered `false`.
pub fn set_process_default(place: Place) -> bool {
    PROCESS_DEFAULT.set(place).is_ok()
}

fn base(stack: &Stack) -> Option<&Place> {
    stack.base.as_ref().or_else(|| PROCESS_DEFAULT.get())
}

fn top(stack: &Stack) -> Option<&Place> {
    stack.entries.last().map(|(_, place)| place).or_else(|| base(stack))
}

fn push(make: impl FnOnce(Option<&Place>) -> Place) -> Entered {
    let entered = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        let place = make(top(&stack));
        let entered = Entered(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        stack.entries.push((entered, place));
        entered
    });
    // Zero is no region: the thread is ending, and allocates nothing any more.
    entered.unwrap_or(Entered(0))
}

/// Enters a region on this thread, until the guard is dropped; regions nest.
#[must_use = "the region ends when the guard is dropped"]
pub fn enter(settings: Settings) -> Region {
    Region::new(push_enter(settings))
}

/// Enters a region in which new memory is not ours.
#[must_use = "the region ends when the guard is dropped"]
pub fn disable() -> Region {
    Region::new(push_disable())
}

/// As [`enter`], to be left with [`leave`].
pub fn push_enter(settings: Settings) -> Entered {
    push(|_| Place { on: true, settings, marks: 0 })
}

/// As [`disable`], to be left with [`leave`].
pub fn push_disable() -> Entered {
    push(|outer| Place { on: false, ..outer.cloned().unwrap_or_default() })
}

/// Leaves a region of this thread, and with it those that were entered inside and not left.
/// Returns whether the thread was in it.
pub fn leave(entered: Entered) -> bool {
    let left = STACK.try_with(|stack| {
        let entries = &mut stack.borrow_mut().entries;
        let place = entries.iter().rposition(|(id, _)| *id == entered);
        if let Some(place) = place {
            entries.truncate(place);
        }
        place.is_some()
    });
    left.unwrap_or(false)
}

/// Changes what holds at this thread's innermost level, until that is left; outside every region,
/// what holds on this thread for good. This is what switches like `tms_set_current_tag` do.
pub fn amend(change: impl FnOnce(&mut Place)) {
    let _ = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        if stack.entries.is_empty() {
            let mut place = base(&stack).cloned().unwrap_or_default();
            change(&mut place);
            stack.base = Some(place);
        } else if let Some((_, place)) = stack.entries.last_mut() {
            change(place);
        }
    });
}

/// What holds on this thread outside its regions.
#[must_use]
pub fn outermost() -> Place {
    let place = STACK.try_with(|stack| base(&stack.borrow()).cloned());
    place.ok().flatten().unwrap_or_default()
}

/// What holds at this thread's innermost level.
#[must_use]
pub fn place() -> Place {
    let place = STACK.try_with(|stack| top(&stack.borrow()).cloned());
    place.ok().flatten().unwrap_or_default()
}

/// Whether new memory of this thread is ours: the quick question in front of a foreign allocation.
#[must_use]
pub fn is_on() -> bool {
    STACK.try_with(|stack| top(&stack.borrow()).is_some_and(|place| place.on)).unwrap_or(false)
}

/// What the innermost region of this thread says.
#[must_use]
pub fn current() -> Current {
    let current = STACK.try_with(|stack| {
        let stack = stack.borrow();
        match top(&stack) {
            Some(place) if place.on => Current::Inside(place.settings.clone()),
            _ if stack.entries.is_empty() => Current::Outside,
            _ => Current::Disabled,
        }
    });
    current.unwrap_or(Current::Outside)
}

/// Takes what this thread's innermost region says, to enter it on another thread.
#[must_use]
pub fn carry() -> Carried {
    Carried(place())
}

/// A region on its way to another thread.
#[derive(Clone, Debug)]
pub struct Carried(Place);

impl Carried {
    /// Enters it on this thread. Carried from where new memory is not ours, it makes this thread
    /// one where it is not, until the guard is dropped.
    #[must_use = "the region ends when the guard is dropped"]
    pub fn enter(&self) -> Region {
        Region::new(self.push())
    }

    /// As [`enter`](Self::enter), to be left with [`leave`].
    pub fn push(&self) -> Entered {
        push(|_| self.0.clone())
    }
}

/// A region that this thread is in. Dropping it leaves the region, and with it those that were
/// entered inside and not left, so that an unwinding panic restores the outer one.
#[derive(Debug)]
#[must_use = "the region ends when the guard is dropped"]
pub struct Region {
    entered: Entered,
    /// The stack is the thread's; so is the guard.
    thread_bound: PhantomData<*const ()>,
}

impl Region {
    fn new(entered: Entered) -> Self {
        Self { entered, thread_bound: PhantomData }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Left already, if an outer region was left first.
        leave(self.entered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag() -> Option<String> {
        match current() {
            Current::Inside(settings) => Some(settings.tag.to_string()),
            Current::Outside | Current::Disabled => None,
        }
    }

    #[test]
    fn regions_nest_and_restore_the_outer_one_past_a_panic() {
        assert_eq!(current(), Current::Outside);
        let _a = enter(Settings::new("a", Policy::Zero));
        let caught = std::panic::catch_unwind(|| {
            let _b = enter(Settings::new("b", Policy::Host));
            assert_eq!(tag().as_deref(), Some("b"));
            let _off = disable();
            assert_eq!(current(), Current::Disabled);
            std::panic::resume_unwind(Box::new("leave"));
        });
        assert!(caught.is_err());
        assert_eq!(current(), Current::Inside(Settings::new("a", Policy::Zero)));
    }

    #[test]
    fn a_region_belongs_to_its_thread_until_it_is_carried() {
        let _a = enter(Settings::new("a", Policy::Discard).with_peers([Device(1)]));
        let carried = carry();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(current(), Current::Outside);
                {
                    let _here = carried.enter();
                    assert_eq!(tag().as_deref(), Some("a"));
                }
                assert_eq!(current(), Current::Outside);
            });
        });
    }

    #[test]
    fn leaving_an_outer_region_first_leaves_the_inner_one_too() {
        let a = enter(Settings::new("a", Policy::Discard));
        let b = enter(Settings::new("b", Policy::Discard));
        drop(a);
        assert_eq!(current(), Current::Outside);
        let _c = enter(Settings::new("c", Policy::Discard));
        let _d = enter(Settings::new("d", Policy::Discard));
        drop(b);
        assert_eq!(tag().as_deref(), Some("d"), "a stale guard ends no newer region");
    }

    #[test]
    fn what_is_amended_holds_at_the_innermost_level_until_that_is_left() {
        std::thread::spawn(|| {
            amend(|place| place.settings.tag = "raw".into());
            assert_eq!(current(), Current::Outside, "a tag alone makes no memory ours");
            let region = push_enter(Settings::new("x", Policy::Host));
            amend(|place| place.on = false);
            assert_eq!((current(), is_on()), (Current::Disabled, false));
            amend(|place| place.on = true);
            assert_eq!(tag().as_deref(), Some("x"));
            let off = push_disable();
            amend(|place| place.on = true);
            assert_eq!(
                tag().as_deref(),
                Some("x"),
                "switched on inside disable, with the outer tag"
            );
            assert!(leave(off) && leave(region) && !leave(region));
            assert_eq!(current(), Current::Outside);
            amend(|place| place.on = true);
            assert_eq!(tag().as_deref(), Some("raw"));
            assert!(std::thread::spawn(|| !is_on()).join().unwrap(), "of this thread alone");
        })
        .join()
        .unwrap();
    }
}
