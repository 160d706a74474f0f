//! Prints which backends it got.

fn main() {
    println!("{}", dormant::build_info::build_info().features.join(" "));
}
