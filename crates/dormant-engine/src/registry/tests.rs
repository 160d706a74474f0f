use super::*;

type Tokens = Registry<u32, u32, u32>;

fn facts(tag: &str) -> Arc<Facts> {
    Arc::new(Facts {
        id: 0,
        tag: tag.into(),
        policy: Policy::Discard,
        device: Device(0),
        bytes: 100,
        physical_bytes: 128,
        peers: Vec::new(),
        directory: None,
        host_mode: None,
        checksum: None,
        home: Arc::new(Home::default()),
    })
}

fn three() -> Tokens {
    let mut registry = Tokens::default();
    registry.insert(Address(0x1000), facts("a"), 1);
    registry.insert(Address(0x2000), facts("b"), 2);
    registry.insert(Address(0x3000), facts("a"), 3);
    registry
}

fn addresses<B>(snapshot: &Snapshot<B>) -> Vec<u64> {
    snapshot.taken.iter().map(|taken| taken.address.0).collect()
}

#[test]
fn a_snapshot_takes_the_selected_tags_in_the_order_of_the_caller() {
    let mut registry = three();
    let taken = registry.take_active(&Selection::tags(["b", "none", "a"]));
    assert_eq!(addresses(&taken), [0x2000, 0x1000, 0x3000]);
    assert!(registry.take_active(&Selection::All).taken.is_empty());
}

#[test]
fn a_tag_named_twice_is_taken_once() {
    let mut registry = three();
    assert_eq!(addresses(&registry.take_active(&Selection::tags(["b", "b"]))), [0x2000]);
}

#[test]
fn a_block_freed_while_it_moves_comes_out_when_it_is_brought_back() {
    let mut registry = three();
    let taken = registry.take_active(&"b".into()).taken.remove(0);
    assert!(matches!(registry.free(taken.address, None), Freed::Doomed));
    assert!(
        matches!(registry.free(taken.address, None), Freed::NotFound),
        "a second free finds nothing"
    );
    assert!(registry.find(taken.address).is_none() && !registry.starts_at(taken.address));
    let back = registry.put_back(taken.address, &taken.facts, Resting::Paused(taken.block));
    assert!(matches!(back, Some(Resting::Paused(2))));
    assert!(matches!(registry.free(taken.address, None), Freed::NotFound));
}

#[test]
fn a_freed_block_leaves_the_registry_and_its_tag() {
    let mut registry = three();
    assert!(matches!(registry.free(Address(0x1000), None), Freed::Gone(Resting::Active(1), _)));
    assert!(matches!(registry.free(Address(0x1000), None), Freed::NotFound));
    assert_eq!(addresses(&registry.take_active(&"a".into())), [0x3000]);
}

#[test]
fn an_address_inside_a_block_finds_it_and_one_behind_it_does_not() {
    let registry = three();
    let (start, _, state) = registry.find(Address(0x2063)).unwrap();
    assert_eq!((start.0, state), (0x2000, BlockState::Active));
    assert!(registry.find(Address(0x2064)).is_none());
    assert!(registry.find(Address(0xfff)).is_none());
}

#[test]
fn a_poisoned_block_whose_address_is_handed_out_again_steps_aside() {
    let mut registry = three();
    let taken = registry.take_active(&"b".into()).taken.remove(0);
    assert!(registry.put_back(taken.address, &taken.facts, Resting::Poisoned(9)).is_none());
    registry.insert(taken.address, facts("c"), 4);
    assert_eq!(registry.displaced().iter().map(|(.., left)| *left).collect::<Vec<_>>(), [9]);
    assert!(registry.take_active(&"b".into()).taken.is_empty());
    assert_eq!(addresses(&registry.take_active(&"c".into())), [0x2000]);
}

#[test]
fn a_block_starts_where_it_was_put_until_it_is_freed() {
    let mut registry = three();
    let starts = |registry: &Tokens| {
        [0xfff, 0x1000, 0x1001, 0x2000, 0x3000].map(|place| registry.starts_at(Address(place)))
    };
    assert_eq!(starts(&registry), [false, true, false, true, true]);
    let taken = registry.take_active(&"b".into()).taken.remove(0);
    assert!(registry.starts_at(taken.address), "a block that moves is still its owner's");
    assert!(registry.put_back(taken.address, &taken.facts, Resting::Poisoned(9)).is_none());
    registry.insert(taken.address, facts("c"), 4);
    assert!(registry.starts_at(taken.address), "handed out again");
    assert!(matches!(registry.free(taken.address, None), Freed::Gone(..)));
    assert!(matches!(registry.free(Address(0x1000), None), Freed::Gone(..)));
    assert_eq!(starts(&registry), [false, false, false, false, true]);
}

#[test]
fn a_block_that_moves_while_its_address_is_handed_out_again_does_not_touch_the_new_one() {
    let mut registry = three();
    let taken = registry.take_active(&"b".into()).taken.remove(0);
    registry.insert(taken.address, facts("c"), 4);
    assert!(registry.put_back(taken.address, &taken.facts, Resting::Poisoned(9)).is_none());
    assert_eq!(registry.displaced().len(), 1);
    assert_eq!(addresses(&registry.take_active(&"c".into())), [0x2000]);
    assert_eq!(registry.poisoned_mut(&"b".into()).map(|left| *left).collect::<Vec<_>>(), [9]);
}

#[test]
fn a_block_is_freed_by_its_id_only_if_it_is_the_one() {
    let mut registry = three();
    assert!(matches!(registry.free(Address(0x1000), Some(7)), Freed::NotFound));
    assert!(matches!(registry.free(Address(0x1000), Some(0)), Freed::Gone(..)));
}

#[test]
fn a_tag_named_twice_is_looked_at_once() {
    let mut registry = three();
    let taken = registry.take_active(&"b".into()).taken.remove(0);
    registry.put_back(taken.address, &taken.facts, Resting::Paused(2));
    assert_eq!(registry.take_active(&Selection::tags(["b", "b"])).already.len(), 1);
}
