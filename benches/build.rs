//! Builds the C++ peers when the feature asks for them and their headers are there.

fn main() {
    println!("cargo:rustc-check-cfg=cfg(strandline_cxx)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=cxx/peers.cpp");
    #[cfg(feature = "cxx")]
    {
        let headers = [
            "concurrentqueue/concurrentqueue.h",
            "readerwriterqueue/readerwriterqueue.h",
        ];
        let there = |header| std::path::Path::new("/usr/include").join(header).exists();
        if headers.into_iter().all(there) {
            cc::Build::new()
                .cpp(true)
                .std("c++17")
                .opt_level(3)
                .file("cxx/peers.cpp")
                .compile("strandline_bench_peers");
            println!("cargo:rustc-cfg=strandline_cxx");
        } else {
            println!(
                "cargo:warning=the headers of moodycamel's queues are not installed: those peers are skipped"
            );
        }
    }
}
