//! F8: a thousand random steps, and nothing grows.

use allocator_core::{Deadline, Driver};
use dormant_engine::{Address, Allocation, Config, Device, Engine, Policy, Selection};
use dormant_sim::{Sim, SimConfig};

use crate::child::in_its_own_process;
use crate::support::{ONE, ZERO, free_bytes, pause, resume, until};

const CAPACITY: u64 = 96 << 20;
const TAGS: [&str; 3] = ["weights", "kv_cache", "default"];

/// A small generator, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.roll(from.len() as u64)).expect("a short list")]
    }
}

struct Block {
    address: Address,
    bytes: u64,
    tag: &'static str,
    checksum: u64,
    asleep: bool,
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn expect_contents(engine: &Engine<Sim>, block: &Block) {
    let mut have = vec![0; usize::try_from(block.bytes).expect("a size")];
    engine.read(block.address, &mut have).expect("read");
    assert_eq!(checksum(&have), block.checksum, "a block of {} bytes changed", block.bytes);
}

fn allocate(engine: &Engine<Sim>, dice: &mut Dice) -> Block {
    let tag = dice.pick(&TAGS);
    // From 4 KiB up to 1 MiB, most of them small.
    let bytes = (4096 << dice.roll(9)) - dice.roll(4000);
    let device = dice.pick(&[ZERO, ONE]);
    let allocation = Allocation::new(bytes, device).tag(tag).policy(Policy::Host);
    let address = engine.allocate(&allocation).expect("there is room");
    let seed = u8::try_from(dice.roll(256)).expect("a byte");
    let contents = allocator_testkit::pattern(bytes, seed);
    engine.write(address, &contents).expect("write");
    Block { address, bytes, tag, checksum: checksum(&contents), asleep: false }
}

fn churn(engine: &Engine<Sim>, dice: &mut Dice, steps: u32) {
    let mut blocks = Vec::new();
    for _ in 0..steps {
        match dice.roll(10) {
            0..=4 if blocks.len() < 200 => blocks.push(allocate(engine, dice)),
            0..=6 if !blocks.is_empty() => {
                let index = usize::try_from(dice.roll(blocks.len() as u64)).expect("few");
                let block: Block = blocks.swap_remove(index);
                if !block.asleep {
                    expect_contents(engine, &block);
                }
                engine.free(block.address).expect("free");
            }
            7 => {
                let tag = dice.pick(&TAGS);
                pause(engine, tag);
                blocks.iter_mut().filter(|b| b.tag == tag).for_each(|b| b.asleep = true);
            }
            _ => {
                let tag = dice.pick(&TAGS);
                resume(engine, tag);
                for block in blocks.iter_mut().filter(|block| block.tag == tag) {
                    block.asleep = false;
                    expect_contents(engine, block);
                }
            }
        }
    }
    pause(engine, Selection::All);
    let free = |device| free_bytes(engine.driver(), device);
    assert_eq!((free(ZERO), free(ONE)), (CAPACITY, CAPACITY), "after a full pause");
    resume(engine, Selection::All);
    for block in blocks {
        expect_contents(engine, &block);
        engine.free(block.address).expect("free");
    }
    assert_eq!((free(ZERO), free(ONE)), (CAPACITY, CAPACITY), "all freed");
}

/// What could grow.
#[derive(Debug)]
struct Size {
    files: usize,
    mappings: usize,
    address_bytes: u64,
    resident_bytes: u64,
}

fn size(engine: &Engine<Sim>) -> Size {
    engine.trim();
    until("the backups are gone", || engine.stats().host_backup_bytes == 0);
    for device in [0, 1] {
        engine.driver().quiesce(Device(device), Deadline::NEVER).expect("idle");
    }
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let mut pages = statm.split(' ').map(|pages| pages.parse::<u64>().expect("pages"));
    let page = dormant_host::page_bytes() as u64;
    Size {
        files: std::fs::read_dir("/proc/self/fd").expect("fd").count(),
        mappings: std::fs::read_to_string("/proc/self/maps").expect("maps").lines().count(),
        address_bytes: pages.next().expect("size") * page,
        resident_bytes: pages.next().expect("resident") * page,
    }
}

in_its_own_process! {
    fn f8_a_thousand_random_steps_keep_every_byte_and_nothing_grows() {
        let config = SimConfig::new()
            .devices(2)
            .capacity_bytes(CAPACITY)
            .granularity(4096)
            .scribble(Some(0x5A));
        let sim = std::sync::Arc::new(Sim::new(config).unwrap());
        let engine = Engine::new(sim, Config::default());
        let mut dice = Dice(0x2545_F491_4F6C_DD1D);
        churn(&engine, &mut dice, 200);
        let before = size(&engine);
        churn(&engine, &mut dice, 1000);
        let after = size(&engine);
        let grown = || format!("before: {before:?}\nafter: {after:?}");
        assert_eq!(after.files, before.files, "open files; {}", grown());
        assert!(after.mappings <= before.mappings + 32, "mappings; {}", grown());
        let some = 32 << 20;
        assert!(after.address_bytes <= before.address_bytes + some, "addresses; {}", grown());
        assert!(after.resident_bytes <= before.resident_bytes + some, "memory; {}", grown());
        assert_eq!(engine.stats().failed_frees, 0);
    }
}
