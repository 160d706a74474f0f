//! Does not build, and is told what to type.

fn main() {
    println!("{}", dormant::build_info::build_info());
}
