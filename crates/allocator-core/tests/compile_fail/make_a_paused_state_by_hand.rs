use allocator_core::Paused;

fn misuse() -> Paused<()> {
    Paused { stash: None }
}

fn main() {}
