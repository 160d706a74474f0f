//! What a case says by panicking, kept from the program's stderr.
//!
//! The process has one panic hook. While a run goes on it is ours, and hands on to the one before
//! whatever does not come from a thread of a case.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

use dormant_engine::region::{self, Place};

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

thread_local! {
    static CASE: RefCell<Option<Said>> = const { RefCell::new(None) };
}

/// What the threads of one case said, the first first: others fall over it.
#[derive(Clone, Debug, Default)]
struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    fn add(&self, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn first(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }
}

/// The case that this thread belongs to.
fn case() -> Option<Said> {
    CASE.try_with(|case| case.try_borrow().ok()?.clone()).ok().flatten()
}

/// Begins a thread of a case. What the process's environment says of new memory is not the case's.
fn enter(case: Option<Said>) {
    CASE.set(case);
    region::amend(|place| *place = Place::default());
}

/// Spawns a thread that belongs to the same case as the one that spawns it.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let case = case();
    scope.spawn(move || {
        enter(case);
        work()
    })
}

/// Runs a case on a thread of its own: what the caller's thread is in the middle of (a region, a
/// current device) is not the case's.
///
/// # Errors
/// What the first panic in a thread of the case said.
pub(crate) fn run(case: impl FnOnce() + Send) -> Result<(), String> {
    let said = Said::default();
    let of_thread = said.clone();
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("case".to_owned()).spawn_scoped(scope, || {
            enter(Some(of_thread));
            case();
        });
        match thread {
            Ok(thread) => {
                thread.join().map_err(|panic| said.first().unwrap_or_else(|| text(&*panic)))
            }
            Err(error) => Err(format!("there is no thread for the case: {error}")),
        }
    })
}

/// A panic's text, where the hook did not see it.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked without a text").to_owned()
}

/// A panic's text and place. The place is named from the crate's sources on: where they lay when
/// this was built is nobody's business.
fn seen(info: &PanicHookInfo<'_>) -> String {
    let text = info.payload_as_str().unwrap_or("it panicked without a text");
    info.location().map_or_else(
        || text.to_owned(),
        |place| {
            let file = place.file();
            let file = file.rsplit_once("src/").map_or(file, |(_, file)| file);
            format!("{text} ({file}:{})", place.line())
        },
    )
}

/// While it lives, what cases say is kept from stderr. Afterwards the hook before is back, unless
/// somebody has set another one meanwhile: theirs then stays.
pub(crate) struct Quiet {
    /// Ours has it too, until it is taken out.
    before: Arc<Hook>,
    ours: *const (),
}

impl Quiet {
    pub(crate) fn begin() -> Self {
        let before = Arc::new(panic::take_hook());
        let other = Arc::clone(&before);
        let hook: Hook = Box::new(move |info| match case() {
            Some(said) => said.add(seen(info)),
            None => other(info),
        });
        let ours = place(&hook);
        panic::set_hook(hook);
        Self { before, ours }
    }

    /// Ends it. Not in `drop`: a thread that unwinds cannot set a hook.
    pub(crate) fn end(self) {
        let hook = panic::take_hook();
        // If ours is gone, another may lie in its place by now.
        let lives = Arc::strong_count(&self.before) > 1;
        if !lives || place(&hook) != self.ours {
            panic::set_hook(hook);
            return;
        }
        // Whoever is in the hook holds it in place, so nobody is in ours any more.
        drop(hook);
        if let Some(before) = Arc::into_inner(self.before) {
            panic::set_hook(before);
        }
    }
}

/// Where a hook's own state lies: ours has some, so no other hook lies there while it lives.
fn place(hook: &Hook) -> *const () {
    (&raw const **hook).cast()
}
