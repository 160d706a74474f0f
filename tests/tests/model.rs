//! Random steps against a plain map that says what must be so.

use std::collections::BTreeMap;

use dormant_engine::{
    Address, Allocation, BlockState, Device, Engine, ErrorKind, PauseOptions, Policy,
    ResumeOptions, Selection,
};
use dormant_sim::Sim;
use proptest::prelude::*;

use support::{Contents, GRANULE, engine_with_disk, free_bytes, read, small, until};

mod support;

/// So little that allocations and resumes run out of it.
const GRANULES: u64 = 24;
const TAGS: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    Allocate { tag: usize, device: u32, policy: Policy, granules: u64, short: u64 },
    Write { block: usize, seed: u8 },
    Free { block: usize },
    Pause { tags: Option<Vec<usize>>, policy: Option<Policy> },
    Resume { tags: Option<Vec<usize>> },
    DropBackup { tags: Option<Vec<usize>> },
}

/// What a sleeping block has saved.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Saved {
    Nothing,
    Contents,
}

#[derive(Clone, Debug)]
struct Block {
    tag: usize,
    device: u32,
    policy: Policy,
    bytes: u64,
    granules: u64,
    /// What is saved, if it sleeps.
    asleep: Option<Saved>,
    contents: Contents,
}

#[derive(Debug, Default)]
struct Model(BTreeMap<Address, Block>);

impl Model {
    fn free_granules(&self, device: u32) -> u64 {
        let active = self.0.values().filter(|b| b.device == device && b.asleep.is_none());
        GRANULES - active.map(|block| block.granules).sum::<u64>()
    }

    fn nth(&self, block: usize) -> Option<Address> {
        self.0.keys().nth(block % self.0.len().max(1)).copied()
    }

    fn selected(&mut self, tags: &Option<Vec<usize>>) -> impl Iterator<Item = &mut Block> {
        self.0
            .values_mut()
            .filter(move |block| tags.as_ref().is_none_or(|tags| tags.contains(&block.tag)))
    }

    fn pause(&mut self, tags: &Option<Vec<usize>>, policy: Option<Policy>) -> u64 {
        let mut moved = 0;
        for block in self.selected(tags).filter(|block| block.asleep.is_none()) {
            moved += block.granules;
            block.asleep = Some(Saved::Nothing);
            match policy.unwrap_or(block.policy) {
                Policy::Host | Policy::Disk => block.asleep = Some(Saved::Contents),
                Policy::Zero => block.contents = Contents::Zero,
                _ => block.contents = Contents::Undefined,
            }
        }
        moved
    }

    fn drop_backup(&mut self, tags: &Option<Vec<usize>>) -> u64 {
        let saved = self.selected(tags).filter(|block| block.asleep == Some(Saved::Contents));
        saved
            .map(|block| {
                block.asleep = Some(Saved::Nothing);
                block.contents = Contents::Undefined;
                block.bytes
            })
            .sum()
    }
}

fn selection(tags: &Option<Vec<usize>>) -> Selection {
    match tags {
        None => Selection::All,
        Some(tags) => Selection::tags(tags.iter().map(|tag| TAGS[*tag])),
    }
}

fn contents_of(bytes: u64, contents: Contents) -> Option<Vec<u8>> {
    match contents {
        Contents::Pattern(seed) => Some(allocator_testkit::pattern(bytes, seed)),
        Contents::Zero => Some(vec![0; usize::try_from(bytes).expect("a size")]),
        Contents::Undefined => None,
    }
}

fn expect_contents(engine: &Engine<Sim>, address: Address, block: &Block) {
    if let Some(want) = contents_of(block.bytes, block.contents) {
        assert!(read(engine, address, block.bytes) == want, "other contents in {block:?}");
    }
}

fn allocate(engine: &Engine<Sim>, model: &mut Model, block: Block) {
    let allocation = Allocation::new(block.bytes, Device(block.device))
        .tag(TAGS[block.tag])
        .policy(block.policy);
    match engine.allocate(&allocation) {
        Ok(address) => {
            assert!(block.granules <= model.free_granules(block.device), "there is no room");
            expect_contents(engine, address, &block);
            assert!(model.0.insert(address, block).is_none(), "an address twice");
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
            assert!(block.granules > model.free_granules(block.device), "{error}");
        }
    }
}

fn resume(engine: &Engine<Sim>, model: &mut Model, tags: &Option<Vec<usize>>) {
    let mut wanted = [0; 2];
    for block in model.selected(tags).filter(|block| block.asleep.is_some()) {
        wanted[block.device as usize] += block.granules;
    }
    let room = (0..2).all(|device| wanted[device as usize] <= model.free_granules(device));
    match engine.resume(selection(tags), &ResumeOptions::default()) {
        Ok(report) => {
            assert!(room, "there is no room for {wanted:?}");
            assert_eq!(report.moved().bytes, (wanted[0] + wanted[1]) * GRANULE);
            model.selected(tags).for_each(|block| block.asleep = None);
            model
                .0
                .iter()
                .filter(|(_, block)| block.asleep.is_none())
                .for_each(|(address, block)| expect_contents(engine, *address, block));
        }
        Err(error) => {
            assert!(!room, "{error}");
            let kinds = [ErrorKind::OutOfMemory, ErrorKind::TooLarge];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    }
}

fn take(engine: &Engine<Sim>, model: &mut Model, step: &Step) {
    match step {
        &Step::Allocate { tag, device, policy, granules, short } => {
            let contents =
                if policy == Policy::Zero { Contents::Zero } else { Contents::Undefined };
            let bytes = granules * GRANULE - short;
            let block = Block { tag, device, policy, bytes, granules, asleep: None, contents };
            allocate(engine, model, block);
        }
        &Step::Write { block, seed } => {
            let Some(address) = model.nth(block) else { return };
            let block = model.0.get_mut(&address).expect("found");
            let contents = allocator_testkit::pattern(block.bytes, seed);
            let written = engine.write(address, &contents);
            assert_eq!(written.is_ok(), block.asleep.is_none(), "{written:?}");
            if written.is_ok() {
                block.contents = Contents::Pattern(seed);
            }
        }
        Step::Free { block } => {
            let Some(address) = model.nth(*block) else { return };
            engine.free(address).expect("free");
            model.0.remove(&address);
        }
        Step::Pause { tags, policy } => {
            let mut options = PauseOptions::default();
            options.policy = *policy;
            let report = engine.pause(selection(tags), &options).expect("pause");
            assert_eq!(report.moved().bytes, model.pause(tags, *policy) * GRANULE);
        }
        Step::Resume { tags } => resume(engine, model, tags),
        Step::DropBackup { tags } => {
            let dropped = engine.drop_backup(selection(tags)).expect("drop");
            assert_eq!(dropped, model.drop_backup(tags));
        }
    }
}

/// States, totals and free bytes are the model's.
fn compare(engine: &Engine<Sim>, model: &Model) {
    let blocks = engine.blocks();
    assert_eq!(blocks.len(), model.0.len());
    for (info, (address, block)) in blocks.iter().zip(&model.0) {
        let asleep = block.asleep.is_some();
        let state = if asleep { BlockState::Paused } else { BlockState::Active };
        assert_eq!((info.address, info.state), (*address, state), "{block:?}");
        assert_eq!((info.bytes, info.physical_bytes), (block.bytes, block.granules * GRANULE));
        assert_eq!((info.tag.as_str(), info.policy), (TAGS[block.tag], block.policy));
        if let Some(saved) = block.asleep {
            let backup = engine.backup(*address);
            assert_eq!(backup.is_ok(), saved == Saved::Contents, "{block:?}");
            if let (Ok(backup), Some(want)) = (backup, contents_of(block.bytes, block.contents)) {
                assert!(*backup == *want, "another backup of {block:?}");
            }
        }
    }
    let mut totals = BTreeMap::<(u32, &str), [u64; 6]>::new();
    for block in model.0.values() {
        let total = totals.entry((block.device, TAGS[block.tag])).or_default();
        let at = if block.asleep.is_some() { 2 } else { 0 };
        total[at] += 1;
        total[at + 1] += block.granules * GRANULE;
        if block.asleep == Some(Saved::Contents) {
            total[4] += 1;
            total[5] += block.bytes;
        }
    }
    let stats = engine.stats();
    let have: BTreeMap<_, _> = stats
        .tags
        .iter()
        .map(|tag| {
            let (active, paused, saved) = (tag.active, tag.paused, tag.saved);
            assert_eq!((tag.moving.blocks, tag.poisoned.blocks), (0, 0));
            let numbers = [
                active.blocks,
                active.bytes,
                paused.blocks,
                paused.bytes,
                saved.blocks,
                saved.bytes,
            ];
            ((tag.device.0, tag.tag.as_str()), numbers)
        })
        .collect();
    assert_eq!(have, totals);
    assert_eq!((stats.failed_frees, stats.deferred_frees), (0, 0));
    for device in 0..2 {
        let free = free_bytes(engine.driver(), Device(device));
        assert_eq!(free, model.free_granules(device) * GRANULE, "device {device}");
    }
}

fn tags() -> impl Strategy<Value = Option<Vec<usize>>> {
    prop_oneof![
        1 => Just(None),
        4 => prop::collection::vec(0..3_usize, 1..3).prop_map(Some),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Host), Just(Policy::Disk), Just(Policy::Zero), Just(Policy::Discard)]
}

fn step() -> impl Strategy<Value = Step> {
    let granules = (1..8_u64, 0..3_u64);
    let allocate = (0..3_usize, 0..2_u32, policy(), granules).prop_map(
        |(tag, device, policy, (granules, short))| Step::Allocate {
            tag,
            device,
            policy,
            granules,
            short,
        },
    );
    prop_oneof![
        5 => allocate,
        4 => (any::<usize>(), any::<u8>()).prop_map(|(block, seed)| Step::Write { block, seed }),
        2 => any::<usize>().prop_map(|block| Step::Free { block }),
        3 => (tags(), prop::option::weighted(0.3, policy()))
            .prop_map(|(tags, policy)| Step::Pause { tags, policy }),
        4 => tags().prop_map(|tags| Step::Resume { tags }),
        1 => tags().prop_map(|tags| Step::DropBackup { tags }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_sixty_steps_leave_what_a_plain_map_says(steps in prop::collection::vec(step(), 60)) {
        let directory = tempfile::tempdir().expect("a directory");
        let config = small().capacity_bytes(GRANULES * GRANULE);
        let (_sim, engine) = engine_with_disk(config, directory.path());
        let mut model = Model::default();
        for step in &steps {
            take(&engine, &mut model, step);
            compare(&engine, &model);
        }
        for address in model.0.keys() {
            engine.free(*address).expect("free");
        }
        compare(&engine, &Model::default());
        until("backups go back", || {
            let stats = engine.stats();
            (stats.host_backup_bytes, stats.disk_backup_bytes) == (0, 0)
        });
    }
}
