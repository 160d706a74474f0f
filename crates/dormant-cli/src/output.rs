//! Standard output and standard error, without a panic when nobody reads them.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};

/// Narrow enough for any terminal.
const WIDTH: usize = 80;

/// Standard output. Once its reader has gone (`dormant demo | head`) nothing more is written, and
/// the work goes on: the exit status is still the verdict.
#[derive(Debug, Default)]
pub(crate) struct Output {
    closed: bool,
    error: Option<io::Error>,
}

impl Output {
    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) {
        if self.closed {
            return;
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
            self.closed = true;
            self.error = Some(error).filter(|error| error.kind() != ErrorKind::BrokenPipe);
        }
    }

    /// Writes text in lines of at most [`WIDTH`], where its words allow. The first begins as the
    /// text does, the others with `indent`.
    pub(crate) fn paragraph(&mut self, text: &str, indent: &str) {
        let (first, words) = text.split_at(text.len() - text.trim_start().len());
        let mut line = first.to_owned();
        let mut empty = true;
        for word in words.split_whitespace() {
            if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(&line);
                indent.clone_into(&mut line);
            } else if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.line(line);
    }

    /// Writes one value as a line of JSON.
    pub(crate) fn json(&mut self, value: &impl serde::Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.line(text),
            Err(error) => self.error = Some(error.into()),
        }
    }

    /// What went wrong with writing, other than a reader who had enough.
    ///
    /// # Errors
    /// The first error of a write.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}

/// Writes one line to standard error.
pub(crate) fn complain(message: impl fmt::Display) {
    // Where this cannot be written there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "dormant: {message}");
}
