//! A progress bar on standard error, when that is a terminal.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(100);

/// Shows how far `bytes` of work have got. Gone when dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for work that is counted in bytes.
    pub(crate) fn bar(what: &'static str, bytes: u64) -> Self {
        let bar = ProgressBar::new(bytes);
        let template =
            "{msg} [{bar:24}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar.with_message(what))
    }

    /// A sign of life for work that cannot be counted.
    pub(crate) fn spinner(what: impl Into<Cow<'static, str>>) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {prefix}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Says something else from now on.
    pub(crate) fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
    }

    /// Says which cycle it is; the one before the first is for warming up.
    pub(crate) fn counted(&self, cycle: u32, count: u32) {
        self.0.set_prefix(match cycle {
            0 => "warming up".to_owned(),
            cycle => format!("cycle {cycle} of {count}"),
        });
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
