//! The console is embedded at build time; a fresh one makes a fresh binary.

fn main() {
    println!("cargo::rerun-if-changed=../../web/dist");
}
