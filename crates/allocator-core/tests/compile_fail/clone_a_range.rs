use allocator_core::Range;

fn misuse(range: Range) -> (Range, Range) {
    (range.clone(), range)
}

fn main() {}
