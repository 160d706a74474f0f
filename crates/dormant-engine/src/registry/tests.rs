use super::*;

type Tokens = Registry<u32, u32, u32>;

fn facts(tag: &str) -> Arc<Facts> {
    Arc::new(Facts {
        tag: tag.into(),
        policy: Policy::Discard,
        device: Device(0),
        bytes: 100,
        physical_bytes: 128,
        peers: Vec::new(),
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
    assert!(matches!(registry.free(taken.address), Freed::Doomed));
    assert!(matches!(registry.free(taken.address), Freed::NotFound), "a second free finds nothing");
    assert!(registry.find(taken.address).is_none());
    let back = registry.put_back(taken.address, Resting::Paused(taken.block));
    assert!(matches!(back, Some((Resting::Paused(2), _))));
    assert!(matches!(registry.free(taken.address), Freed::NotFound));
}

#[test]
fn a_freed_block_leaves_the_registry_and_its_tag() {
    let mut registry = three();
    assert!(matches!(registry.free(Address(0x1000)), Freed::Gone(Resting::Active(1), _)));
    assert!(matches!(registry.free(Address(0x1000)), Freed::NotFound));
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
    assert!(registry.put_back(taken.address, Resting::Poisoned(9)).is_none());
    registry.insert(taken.address, facts("c"), 4);
    assert_eq!(registry.displaced, [9]);
    assert!(registry.take_active(&"b".into()).taken.is_empty());
    assert_eq!(addresses(&registry.take_active(&"c".into())), [0x2000]);
}
