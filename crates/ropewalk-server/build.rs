//! Has the dashboard embedded again when it was built again: its files have other names then.

fn main() {
    println!("cargo::rerun-if-changed=../../ui/dist");
}
