//! Builds as anywhere else.

fn main() {
    println!("{}", dormant::build_info::build_info());
}
