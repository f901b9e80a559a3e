//! Gives the library the real soname, and keeps it loaded for ever: its threads outlive `dlclose`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libamdhip64.so.7");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
