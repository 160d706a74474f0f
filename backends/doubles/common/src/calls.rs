//! How often each exported function was called.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::Code;
use crate::errors::{Refused, SUCCESS, UNKNOWN, remember};
use crate::machine::is_forked_child;

static CALLS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

fn table() -> MutexGuard<'static, BTreeMap<&'static str, u64>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a call and makes it. A panic is answered as an unknown error: it must not cross into C.
pub fn call(name: &'static str, run: impl FnOnce() -> Result<(), Refused>) -> Code {
    count(name);
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(Refused(code))) => code,
        Err(_) => UNKNOWN,
    }
}

/// The same for interfaces that remember the last error.
pub fn call_and_remember(name: &'static str, run: impl FnOnce() -> Result<(), Refused>) -> Code {
    let code = call(name, run);
    remember(code);
    code
}

/// Counts a call; none of a forked child, where the lock may be held for ever.
pub fn count(name: &'static str) {
    if is_forked_child() {
        return;
    }
    *table().entry(name).or_default() += 1;
}

/// How often a function was called.
#[must_use]
pub fn calls(name: &str) -> u64 {
    table().get(name).copied().unwrap_or(0)
}

/// Begins to count from zero.
pub fn reset() {
    table().clear();
}

/// All counts, a line each.
#[must_use]
pub fn report() -> String {
    let mut text = String::new();
    for (name, calls) in table().iter() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name} {calls}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_unknown_error() {
        let silent = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let code = call("a", || panic!("on purpose"));
        std::panic::set_hook(silent);
        assert_eq!(code, UNKNOWN);
        assert_eq!(call("a", || Ok(())), SUCCESS);
        assert_eq!(call("b", || Err(Refused(2))), 2);
        assert_eq!((calls("a"), calls("b"), calls("c")), (2, 1, 0));
        assert_eq!(report(), "a 2\nb 1\n");
    }
}
