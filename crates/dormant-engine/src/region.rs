//! Regions: a stack per thread that says which tag and policy new memory gets.

use std::cell::RefCell;
use std::marker::PhantomData;

use allocator_core::Device;

use crate::policy::Policy;
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
}

impl Settings {
    /// A tag, its contents kept as `policy` says, with no peers.
    pub fn new(tag: impl Into<Tag>, policy: Policy) -> Self {
        Self { tag: tag.into(), policy, peers: Vec::new() }
    }

    /// Names devices that may use the memory beside its owner.
    #[must_use]
    pub fn with_peers(mut self, peers: impl IntoIterator<Item = Device>) -> Self {
        self.peers = peers.into_iter().collect();
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

struct Stack {
    entries: Vec<(u64, Current)>,
    /// How many regions this thread has entered: the next one's number.
    entered: u64,
}

thread_local! {
    static STACK: RefCell<Stack> = const {
        RefCell::new(Stack { entries: Vec::new(), entered: 0 })
    };
}

fn push(entry: Current) -> Region {
    let id = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        stack.entered += 1;
        let id = stack.entered;
        stack.entries.push((id, entry));
        id
    });
    // Zero is no region: the thread is ending, and allocates nothing any more.
    Region { id: id.unwrap_or(0), thread_bound: PhantomData }
}

/// Enters a region on this thread, until the guard is dropped; regions nest.
#[must_use = "the region ends when the guard is dropped"]
pub fn enter(settings: Settings) -> Region {
    push(Current::Inside(settings))
}

/// Enters a region in which new memory is not ours.
#[must_use = "the region ends when the guard is dropped"]
pub fn disable() -> Region {
    push(Current::Disabled)
}

/// What the innermost region of this thread says.
#[must_use]
pub fn current() -> Current {
    STACK
        .try_with(|stack| stack.borrow().entries.last().map(|(_, current)| current.clone()))
        .ok()
        .flatten()
        .unwrap_or(Current::Outside)
}

/// Takes what this thread's innermost region says, to enter it on another thread.
#[must_use]
pub fn carry() -> Carried {
    Carried(current())
}

/// A region on its way to another thread.
#[derive(Clone, Debug)]
pub struct Carried(Current);

impl Carried {
    /// Enters it on this thread. Carried from outside any region, it makes this thread one that is
    /// outside, until the guard is dropped.
    #[must_use = "the region ends when the guard is dropped"]
    pub fn enter(&self) -> Region {
        push(self.0.clone())
    }
}

/// A region that this thread is in. Dropping it leaves the region, and with it those that were
/// entered inside and not left, so that an unwinding panic restores the outer one.
#[derive(Debug)]
#[must_use = "the region ends when the guard is dropped"]
pub struct Region {
    id: u64,
    /// The stack is the thread's; so is the guard.
    thread_bound: PhantomData<*const ()>,
}

impl Drop for Region {
    fn drop(&mut self) {
        let _ = STACK.try_with(|stack| {
            let entries = &mut stack.borrow_mut().entries;
            // Left already, if an outer region was left first.
            if let Some(place) = entries.iter().rposition(|(id, _)| *id == self.id) {
                entries.truncate(place);
            }
        });
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
}
