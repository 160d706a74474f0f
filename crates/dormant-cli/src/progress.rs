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
        bar.enable_steady_tick(TICK);
        Self(bar)
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
