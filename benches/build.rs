//! Builds the C and C++ peers when a feature asks for them and their headers are there.

fn main() {
    println!("cargo:rustc-check-cfg=cfg(strandline_cxx)");
    println!("cargo:rustc-check-cfg=cfg(strandline_lttng)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=cxx/peers.cpp");
    println!("cargo:rerun-if-changed=lttng/provider.c");
    println!("cargo:rerun-if-changed=lttng/provider.h");
    #[cfg(feature = "cxx")]
    cxx();
    #[cfg(feature = "lttng")]
    lttng();
}

#[cfg(feature = "cxx")]
fn cxx() {
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

/// The tracepoint provider, as a shared library that the program carries in itself.
#[cfg(feature = "lttng")]
fn lttng() {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let built = cc::Build::new()
        .opt_level(2)
        .try_get_compiler()
        .map_err(|error| error.to_string())
        .and_then(|compiler| {
            compiler
                .to_command()
                .args(["-shared", "-fPIC", "-O2", "-Ilttng", "lttng/provider.c"])
                .arg("-o")
                .arg(out.join("provider.so"))
                .args(["-llttng-ust", "-ldl"])
                .output()
                .map_err(|error| error.to_string())
        });
    let why = match built {
        Ok(output) if output.status.success() => {
            println!("cargo:rustc-cfg=strandline_lttng");
            return;
        }
        Ok(output) => {
            let talk = String::from_utf8_lossy(&output.stderr);
            let line = talk.lines().find(|line| line.contains("error"));
            line.map_or_else(
                || format!("the compiler failed, {}", output.status),
                str::to_owned,
            )
        }
        Err(why) => why.replace('\n', " "),
    };
    println!("cargo:warning=LTTng's peer is skipped: {why}");
    println!("cargo:rustc-env=STRANDLINE_LTTNG_WHY=its provider was not built: {why}");
}
