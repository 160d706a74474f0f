//! Eight processes at once, each with its share: this program again, led through pipes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use dormant::{Device, ErrorKind};

use super::Bench;
use crate::bench::bed::Layout;
use crate::bench::case::Case;
use crate::bench::figure::Figure;
use crate::bench::outcome::Found;
use crate::bench::plan::RANKS;
use crate::bench::rank::{Answer, Order};
use crate::bench::samples::Samples;
use crate::failure::Failure;

/// How much longer a rank may take than plain copies of all ranks at once.
const SLOWER: f64 = 1.7;

/// One of the processes. Ended when dropped.
#[derive(Debug)]
struct Rank {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

pub(super) fn ranks(bench: &mut Bench) -> Result<Found, Failure> {
    let (bytes, block_bytes) = bench.sizes.rank_bytes();
    let share = Layout { bytes, block_bytes, ..bench.layout(Case::Ranks) };
    let mut ranks = Vec::new();
    bench.progress.say("ranks, starting");
    for device in bench.devices.iter().cycle().take(usize::try_from(RANKS).unwrap_or(1)) {
        ranks.push(Rank::start(bench, *device, &share)?);
    }
    bench.progress.say("ranks:");
    // Each has allocated and filled its blocks when it answers the first order.
    all(&mut ranks, Order::Settle)?;
    let mut times = Order::TIMED.map(|order| (order, Samples::default()));
    for cycle in 0..=bench.cycles {
        bench.progress.counted(cycle, bench.cycles);
        for (order, samples) in &mut times {
            if *order == Order::Pause {
                all(&mut ranks, Order::Settle)?;
            }
            let slowest = all(&mut ranks, *order)?;
            if cycle > 0 {
                samples.push(slowest);
            }
        }
    }
    for (index, rank) in ranks.iter_mut().enumerate() {
        rank.tell(Order::Verify);
        if let Answer::Wrong(text) = rank.hear()? {
            bench.problems.push(format!("{}: rank {index}: {text}", Case::Ranks.name()));
        }
    }
    let [(_, down), (_, up), (_, pause), (_, resume)] = times;
    let figure = |what: &str, found: &Samples, floor: f64| {
        Figure::times(format!("{what}, slowest rank"), found)
            .floor("copies", floor)
            .limit(SLOWER * floor)
    };
    let figures =
        vec![figure("pause", &pause, down.median()), figure("resume", &resume, up.median())];
    // What all of them have together.
    let layout = Layout { bytes: bytes * RANKS, ..share };
    Ok(Found::Measured { layout, figures })
}

/// All ranks do the same at once; how long the slowest took.
fn all(ranks: &mut [Rank], order: Order) -> Result<Duration, Failure> {
    for rank in &mut *ranks {
        rank.tell(order);
    }
    let mut slowest = Duration::ZERO;
    for rank in ranks {
        if let Answer::Took(time) = rank.hear()? {
            slowest = slowest.max(time);
        }
    }
    Ok(slowest)
}

impl Rank {
    fn start(bench: &Bench, device: Device, share: &Layout) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| failed("cannot be found", &error))?;
        let mut child = Command::new(program)
            .arg("bench-rank")
            .args(["--backend", bench.backend.name()])
            .args(["--device", &device.to_string()])
            .args(["--size", &share.bytes.to_string()])
            .args(["--blocks", &share.block_bytes.to_string()])
            .env("LOCAL_WORLD_SIZE", RANKS.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("cannot be started", &error))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(answers)) => {
                Ok(Self { child, orders, answers: BufReader::new(answers) })
            }
            _ => Err(failed("has no pipes", &std::io::Error::other("no pipe"))),
        }
    }

    /// One that has ended says why when it is heard.
    fn tell(&mut self, order: Order) {
        let _ = writeln!(self.orders, "{}", order.name()).and_then(|()| self.orders.flush());
    }

    fn hear(&mut self) -> Result<Answer, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| failed("does not answer", &error))?;
        match line.trim_end().parse() {
            Ok(Answer::Failed(message)) => {
                Err(Failure { kind: ErrorKind::Unknown, message: format!("a rank: {message}") })
            }
            Ok(answer) => Ok(answer),
            Err(text) => Err(failed("ended or answered wrongly", &std::io::Error::other(text))),
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure {
        kind: ErrorKind::Io,
        message: format!("a process of the case `ranks` {what}: {error}"),
    }
}
