//! Link flags of the tool library: it is never unmapped, since a callback may come at any time.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstrandline_rocprofiler.so");
    println!("cargo:rerun-if-changed=build.rs");
}
