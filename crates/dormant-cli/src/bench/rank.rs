//! One of the processes of the case `ranks`: obeys orders from standard input, one a line, and
//! answers each with a line on standard output.

use std::io::BufRead as _;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use dormant::core::Driver as _;
use dormant::{Config, Device, HostMode, Policy};

use super::bed::{Bed, Layout};
use super::raw::PlainCopies;
use crate::backend;
use crate::cli::RankArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Host memory that a rank registers for plain copies, in bytes.
const WINDOW_BYTES: u64 = 256 << 20;

/// What a rank is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Wait until backups that go in the background have gone.
    Settle,
    CopyDown,
    CopyUp,
    Pause,
    Resume,
    Verify,
}

impl Order {
    /// What is timed, in this order.
    pub(crate) const TIMED: [Self; 4] = [Self::CopyDown, Self::CopyUp, Self::Pause, Self::Resume];

    const ALL: [Self; 6] =
        [Self::Settle, Self::CopyDown, Self::CopyUp, Self::Pause, Self::Resume, Self::Verify];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Settle => "settle",
            Self::CopyDown => "copy_down",
            Self::CopyUp => "copy_up",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Verify => "verify",
        }
    }
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Took(Duration),
    /// Contents are not what they were.
    Wrong(String),
    Failed(String),
}

impl Answer {
    fn line(&self) -> String {
        match self {
            Self::Took(time) => format!("took {}", time.as_nanos()),
            Self::Wrong(text) => format!("wrong {text}"),
            Self::Failed(text) => format!("failed {}", text.replace('\n', " ")),
        }
    }
}

impl FromStr for Answer {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        match line.split_once(' ') {
            Some(("took", time)) => time
                .parse()
                .map(|time| Self::Took(Duration::from_nanos(time)))
                .map_err(|_| format!("`{line}`")),
            Some(("wrong", text)) => Ok(Self::Wrong(text.to_owned())),
            Some(("failed", text)) => Ok(Self::Failed(text.to_owned())),
            _ => Err(format!("`{line}`")),
        }
    }
}

/// What a rank works on.
struct Stage {
    bed: Bed,
    copies: PlainCopies,
    bytes: u64,
}

/// Obeys until there are no more orders. Whether it could begin.
pub(crate) fn run(args: &RankArgs, output: &mut Output) -> bool {
    let mut stage = match Stage::new(args) {
        Ok(stage) => stage,
        Err(failure) => {
            // The answer to the first order, which is on its way.
            output.line(Answer::Failed(failure.to_string()).line());
            return false;
        }
    };
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let order = Order::ALL.into_iter().find(|order| order.name() == line);
        let answer = match order {
            Some(order) => {
                stage.obey(order).unwrap_or_else(|failure| Answer::Failed(failure.to_string()))
            }
            None => Answer::Failed(format!("no order is called `{line}`")),
        };
        output.line(answer.line());
    }
    true
}

impl Stage {
    fn new(args: &RankArgs) -> Result<Self, Failure> {
        let driver = Arc::new(backend::open(Some(args.backend))?.driver);
        let device = Device(args.device);
        let bytes = args.size.0;
        let layout = Layout {
            devices: vec![device],
            bytes,
            block_bytes: args.blocks.0,
            policy: Policy::Host,
            directory: None,
        };
        // With the number of ranks from the environment, as in a training job.
        let mut config = Config::from_env();
        config.host_mode = HostMode::Reclaim;
        let bed = Bed::new(&driver, config, &layout)?;
        let window = driver.granularity(device)?.round_up(bytes.min(WINDOW_BYTES))?;
        let copies = PlainCopies::new(&driver, device, window)?;
        Ok(Self { bed, copies, bytes })
    }

    fn obey(&mut self, order: Order) -> Result<Answer, Failure> {
        Ok(Answer::Took(match order {
            Order::Settle => {
                self.bed.settle();
                Duration::ZERO
            }
            Order::CopyDown => self.copies.down(self.bytes)?,
            Order::CopyUp => self.copies.up(self.bytes)?,
            Order::Pause => self.bed.pause(self.bed.selection())?.0,
            Order::Resume => self.bed.resume(self.bed.selection())?.0,
            Order::Verify => {
                let wrong = self.bed.verify()?;
                if !wrong.is_empty() {
                    return Ok(Answer::Wrong(wrong.join("; ")));
                }
                Duration::ZERO
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_back_from_their_lines() {
        for answer in [
            Answer::Took(Duration::from_nanos(1_234_567)),
            Answer::Wrong("block 1: byte 5 is 0x00, not 0x01".to_owned()),
            Answer::Failed("out of memory".to_owned()),
        ] {
            assert_eq!(answer.line().parse(), Ok(answer));
        }
        for line in ["", "took", "took long", "dormant"] {
            assert!(line.parse::<Answer>().is_err(), "{line}");
        }
        assert_eq!(Answer::Failed("a\nb".to_owned()).line(), "failed a b");
    }
}
