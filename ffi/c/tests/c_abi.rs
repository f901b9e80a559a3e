//! Goal: the C API is what its header says, for C and C++ programs that know nothing of Rust. Method: the library is installed as
//! a user would install it, programs are built against it with the compilers that there are, and run; those in `tests/c` check
//! themselves and end with "ok".

mod support;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use strandline_c::abi;
use support::{Scratch, build, compiler, compilers, exists, here, prefix, root, run, skip};

/// A program of `tests/c`.
fn source(name: &str) -> std::path::PathBuf {
    here().join("tests/c").join(name)
}

#[test]
fn the_headers_compile_as_c_and_as_cxx() {
    let scratch = Scratch::new("headers");
    let c = scratch.path("header.c");
    let use_it =
        "int main(void) { strandline_dispatch d; STRANDLINE_INIT(&d); return (int)d.reserved; }\n";
    std::fs::write(
        &c,
        format!("#include <strandline.h>\n#include <strandline.h>\n{use_it}"),
    )
    .unwrap();
    let cxx = scratch.path("header.cpp");
    std::fs::write(
        &cxx,
        "#include <strandline.hpp>\n#include <strandline.hpp>\nint main() {}\n",
    )
    .unwrap();
    for (cc, cxx_name) in compilers() {
        for standard in ["c11", "c17"] {
            let mut command = compiler(cc, standard);
            run(command.arg("-Wpedantic").arg("-fsyntax-only").arg(&c)).expect_clean();
        }
        for standard in ["c++17", "c++20"] {
            let mut command = compiler(cxx_name, standard);
            run(command.arg("-Wpedantic").arg("-fsyntax-only").arg(&cxx)).expect_clean();
            let mut command = compiler(cxx_name, standard);
            run(command.args(["-fsyntax-only", "-x", "c++"]).arg(&c)).expect_clean();
        }
    }
}

#[test]
fn every_size_offset_and_number_is_the_same_on_both_sides() {
    let scratch = Scratch::new("layout");
    let mut text = "#include <strandline.h>\n".to_owned();
    let assert = |text: &mut String, what: String, why: &str| {
        writeln!(text, "_Static_assert({what}, \"{why}\");").unwrap();
    };
    let mut fields_seen = 0;
    for &(name, bytes, fields) in abi::STRUCTS {
        assert(&mut text, format!("sizeof({name}) == {bytes}"), name);
        for &(field, offset) in fields {
            let what = format!("offsetof({name}, {field}) == {offset}");
            assert(&mut text, what, &format!("{name}.{field}"));
            fields_seen += 1;
        }
    }
    assert!(abi::STRUCTS.len() >= 14 && fields_seen > 150);
    for (name, value) in abi::numbers() {
        assert(&mut text, format!("{name} == UINT64_C({value})"), &name);
    }
    // No number of the header that the library does not know.
    let header = std::fs::read_to_string(here().join("../include/strandline.h")).unwrap();
    let known: BTreeSet<String> = abi::numbers().into_iter().map(|(name, _)| name).collect();
    for line in header.lines().map(str::trim) {
        if let Some((name, value)) = line.trim_end_matches(',').split_once(" = ")
            && name.starts_with("STRANDLINE_")
            && value.parse::<u64>().is_ok()
        {
            assert!(known.contains(name), "{name} is only in the header");
        }
    }
    let c = scratch.path("layout.c");
    std::fs::write(&c, text).unwrap();
    for (cc, _) in compilers() {
        let mut command = compiler(cc, "c11");
        run(command.arg("-fsyntax-only").arg(&c)).expect_clean();
    }
}

/// Symbols of the allow-list.
fn allowed() -> BTreeSet<String> {
    let map = std::fs::read_to_string(here().join("strandline.map")).unwrap();
    map.lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("strandline_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn only_the_listed_symbols_are_exported_and_each_is_declared() {
    if !exists("nm") {
        return skip("exports", "no nm");
    }
    let symbols = |arguments: &[&str], library: &str| -> BTreeSet<String> {
        let mut command = Command::new("nm");
        command
            .args(arguments)
            .arg(prefix().join("lib").join(library));
        let listed = run(&mut command);
        listed.expect_clean();
        listed
            .stdout
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
            .map(str::to_owned)
            .collect()
    };
    let allowed = allowed();
    let mut versioned: BTreeSet<String> = allowed
        .iter()
        .map(|name| format!("{name}@@STRANDLINE_1"))
        .collect();
    // The version itself.
    versioned.insert("STRANDLINE_1".to_owned());
    assert_eq!(
        symbols(&["-D", "--defined-only"], "libstrandline.so.1"),
        versioned
    );
    assert_eq!(
        symbols(&["-g", "--defined-only"], "libstrandline.a"),
        allowed
    );
    let header = std::fs::read_to_string(here().join("../include/strandline.h")).unwrap();
    let declared: BTreeSet<String> = header
        .replace("STRANDLINE_API\n", "STRANDLINE_API ")
        .split("STRANDLINE_API ")
        .skip(1)
        .filter_map(|text| {
            let declaration = text.split(';').next()?.split('(').next()?;
            let name = declaration
                .rsplit([' ', '*'])
                .find(|word| !word.is_empty())?;
            name.starts_with("strandline_").then(|| name.to_owned())
        })
        .collect();
    assert_eq!(declared, allowed);
    for frozen in [
        "session_start",
        "session_stop",
        "export",
        "metadata",
        "status_string",
    ] {
        assert!(allowed.contains(&format!("strandline_{frozen}")));
    }
    let dynamic = run(Command::new("readelf")
        .arg("-dW")
        .arg(prefix().join("lib/libstrandline.so.1")));
    if dynamic.code == Some(0) {
        assert!(dynamic.stdout.contains("[libstrandline.so.1]"), "soname");
        assert!(dynamic.stdout.contains("NODELETE"), "never unmapped");
    }
}

/// What `pkg-config` says, with and without `--static`; by hand where there is none.
fn flags(is_static: bool) -> Vec<String> {
    if exists("pkg-config") {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
        if is_static {
            command.arg("--static");
        }
        let said = run(command.args(["--cflags", "--libs", "strandline"]));
        said.expect_clean();
        return said.stdout.split_whitespace().map(str::to_owned).collect();
    }
    skip("pkg-config", "not installed");
    vec![
        format!("-I{}", prefix().join("include").display()),
        format!("-L{}", prefix().join("lib").display()),
        "-lstrandline".to_owned(),
        "-lgcc_s".to_owned(),
        "-lm".to_owned(),
        "-ldl".to_owned(),
    ]
}

#[test]
fn the_examples_build_and_run() {
    let scratch = Scratch::new("examples");
    let warnings = ["-Wall", "-Wextra", "-Werror", "-O2"];
    let check_c = |program: &Path| {
        let ended = run(Command::new(program).env("LD_LIBRARY_PATH", prefix().join("lib")));
        ended.expect_clean();
        let expected = "complete: 300 of 300 dispatches (a simulation)\n   \
            100 x    30000 ns  _Z6reducePf.kd\n   \
            100 x    20000 ns  _Z4gemmPf.kd\n   \
            100 x    10000 ns  _Z4axpyPf.kd\n";
        assert_eq!(ended.stdout, expected);
    };
    for (cc, cxx) in compilers() {
        let program = scratch.path(&format!("top-kernels-{cc}"));
        let mut command = Command::new(cc);
        command
            .arg("-std=c11")
            .args(warnings)
            .arg(root().join("examples/c/top_kernels.c"));
        run(command
            .args(flags(false))
            .arg("-lpthread")
            .arg("-o")
            .arg(&program))
        .expect_clean();
        check_c(&program);

        // The static library: the same program needs nothing of ours at run time.
        let program = scratch.path(&format!("top-kernels-static-{cc}"));
        let mut command = Command::new(cc);
        command
            .arg("-std=c11")
            .args(warnings)
            .arg(root().join("examples/c/top_kernels.c"));
        let archive = prefix().join("lib/libstrandline.a").display().to_string();
        let with_archive = flags(true).into_iter().map(|flag| {
            if flag == "-lstrandline" {
                archive.clone()
            } else {
                flag
            }
        });
        run(command
            .args(with_archive)
            .arg("-lpthread")
            .arg("-o")
            .arg(&program))
        .expect_clean();
        check_c(&program);

        let program = scratch.path(&format!("live-{cxx}"));
        let mut command = Command::new(cxx);
        command
            .arg("-std=c++17")
            .args(warnings)
            .arg(root().join("examples/cpp/live.cpp"));
        run(command
            .args(flags(false))
            .arg("-lpthread")
            .arg("-o")
            .arg(&program))
        .expect_clean();
        let ended = run(Command::new(&program).env("LD_LIBRARY_PATH", prefix().join("lib")));
        ended.expect_clean();
        let expected = "complete: 1, 100 of 100 dispatches (a simulation)\n\
            live: 25 x _Z4axpyPf.kd\n\
            live: 25 x _Z4gemmPf.kd\n\
            range: second half\n\
            trace: 100 dispatches, 100 with their external id, in order\n";
        assert_eq!(ended.stdout, expected);
    }
}

#[test]
fn the_rust_example_runs() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args([
        "run",
        "--quiet",
        "-p",
        "strandline-examples",
        "--bin",
        "first-trace",
    ]);
    if support::profile_folder().ends_with("release") {
        command.arg("--release");
    }
    let ended = run(&mut command);
    ended.expect_clean();
    assert!(
        ended
            .stdout
            .starts_with("complete: 100 of 100 dispatches (a simulation)\n"),
        "{}",
        ended.stdout
    );
}

#[test]
fn cmake_finds_the_package() {
    if !exists("cmake") {
        return skip("the CMake package", "cmake is not installed");
    }
    let scratch = Scratch::new("cmake");
    let example = root()
        .join("examples/c/top_kernels.c")
        .canonicalize()
        .unwrap();
    let lists = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(test C)\nfind_package(strandline 0.1 REQUIRED)\n\
         find_package(Threads REQUIRED)\n\
         add_executable(shared {0})\ntarget_link_libraries(shared strandline::strandline Threads::Threads)\n\
         add_executable(static {0})\ntarget_link_libraries(static strandline::static Threads::Threads)\n",
        example.display()
    );
    std::fs::write(scratch.path("CMakeLists.txt"), lists).unwrap();
    let mut command = Command::new("cmake");
    command
        .arg("-S")
        .arg(&scratch.0)
        .arg("-B")
        .arg(scratch.path("build"));
    run(command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display()))).expect_clean();
    run(Command::new("cmake")
        .arg("--build")
        .arg(scratch.path("build")))
    .expect_clean();
    for program in ["shared", "static"] {
        run(&mut Command::new(scratch.path("build").join(program))).expect_clean();
    }
}

/// True when a program with that sanitizer can be built and run.
fn sanitizer(compiler_name: &str, which: &str) -> bool {
    let scratch = Scratch::new("sanitizer");
    let (c, program) = (scratch.path("empty.c"), scratch.path("empty"));
    std::fs::write(&c, "int main(void) { return 0; }\n").unwrap();
    let mut command = Command::new(compiler_name);
    command
        .arg(format!("-fsanitize={which}"))
        .arg(&c)
        .arg("-o")
        .arg(&program);
    let works =
        run(&mut command).code == Some(0) && run(&mut Command::new(&program)).code == Some(0);
    if !works {
        skip(
            &format!("{which} sanitizer"),
            &format!("{compiler_name} has none that runs here"),
        );
    }
    works
}

#[test]
fn used_wrongly_it_answers_with_a_status() {
    let scratch = Scratch::new("misuse");
    for (cc, _) in compilers() {
        let program = scratch.path(&format!("misuse-{cc}"));
        let sanitize: &[&OsStr] = if sanitizer(cc, "address,undefined") {
            &[
                OsStr::new("-fsanitize=address,undefined"),
                OsStr::new("-fno-sanitize-recover=all"),
            ]
        } else {
            &[]
        };
        build(cc, "c11", &source("misuse.c"), sanitize, &program);
        run(&mut Command::new(&program)).expect_ok();
    }
}

#[test]
fn no_sequence_of_calls_crashes() {
    let scratch = Scratch::new("random");
    let seeds: u64 = std::env::var("STRANDLINE_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or(3);
    let Some((cc, _)) = compilers().first().copied() else {
        return;
    };
    let program = scratch.path("random");
    let sanitize: &[&OsStr] = if sanitizer(cc, "address,undefined") {
        &[
            OsStr::new("-fsanitize=address,undefined"),
            OsStr::new("-fno-sanitize-recover=all"),
        ]
    } else {
        &[]
    };
    build(cc, "gnu11", &source("random.c"), sanitize, &program);
    for seed in 1..=seeds {
        let mut command = Command::new(&program);
        command.arg(&scratch.0).arg(seed.to_string()).arg("3000");
        run(&mut command).expect_ok();
    }
}

/// Builds a program of `tests/c` with each compiler and its AddressSanitizer, and runs it with a folder of its own; `check` looks
/// at what is in the folder.
fn run_with_each_compiler(name: &str, check: impl Fn(&Path)) {
    let scratch = Scratch::new(name);
    for (cc, _) in compilers() {
        let program = scratch.path(&format!("{name}-{cc}"));
        let out = scratch.path(&format!("out-{cc}"));
        std::fs::create_dir(&out).unwrap();
        let sanitize: &[&OsStr] = if sanitizer(cc, "address,undefined") {
            &[
                OsStr::new("-fsanitize=address,undefined"),
                OsStr::new("-fno-sanitize-recover=all"),
            ]
        } else {
            &[]
        };
        build(cc, "c11", &source(&format!("{name}.c")), sanitize, &program);
        run(Command::new(&program).arg(&out)).expect_ok();
        check(&out);
    }
}

#[test]
fn what_was_appended_is_read_back() {
    run_with_each_compiler("roundtrip", |out| {
        assert!(out.join("roundtrip.json").metadata().unwrap().len() > 1000);
    });
}

#[test]
fn settings_do_what_they_say_and_an_older_program_has_the_defaults() {
    run_with_each_compiler("settings", |_| {});
}

#[test]
fn a_subscriber_gets_each_record_or_a_count_of_it() {
    run_with_each_compiler("lost", |_| {});
}

#[test]
fn a_cursor_says_what_is_odd_about_a_record() {
    run_with_each_compiler("flags", |_| {});
}

#[test]
fn many_threads_append_read_subscribe_and_close_at_once() {
    let scratch = Scratch::new("threads");
    for (_, cxx) in compilers() {
        let plain = scratch.path(&format!("threads-{cxx}"));
        build(cxx, "c++17", &source("threads.cpp"), &[], &plain);
        run(&mut Command::new(&plain)).expect_ok();
        if sanitizer(cxx, "thread") {
            let program = scratch.path(&format!("threads-tsan-{cxx}"));
            build(
                cxx,
                "c++17",
                &source("threads.cpp"),
                &[OsStr::new("-fsanitize=thread")],
                &program,
            );
            let options = format!(
                "halt_on_error=1 suppressions={}",
                source("tsan.supp").display()
            );
            run(Command::new(&program).env("TSAN_OPTIONS", options)).expect_ok();
        }
    }
}

#[test]
fn loaded_twice_and_under_two_versions_each_is_its_own() {
    let scratch = Scratch::new("twice");
    let Some((cc, _)) = compilers().first().copied() else {
        return;
    };
    let copy = scratch.path("libcopied.so");
    std::fs::copy(prefix().join("lib/libstrandline.so.1"), &copy).unwrap();
    // The next version of the library: the same object under another soname and symbol version.
    let map = std::fs::read_to_string(here().join("strandline.map")).unwrap();
    let other_map = scratch.path("other.map");
    std::fs::write(&other_map, map.replace("STRANDLINE_1", "STRANDLINE_2")).unwrap();
    let other = scratch.path("libstrandline.so.2");
    let mut command = Command::new(cc);
    command
        .args([
            "-shared",
            "-Wl,-soname,libstrandline.so.2",
            "-Wl,-z,nodelete",
            "-Wl,-Bsymbolic",
            "-Wl,--whole-archive",
        ])
        .arg(prefix().join("lib/libstrandline.a"))
        .arg(format!("-Wl,--version-script={}", other_map.display()))
        .args([
            "-Wl,--no-whole-archive",
            "-lgcc_s",
            "-lm",
            "-lpthread",
            "-ldl",
            "-o",
        ])
        .arg(&other);
    run(&mut command).expect_clean();
    let plugin = scratch.path("libplugin.so");
    let mut command = compiler(cc, "c11");
    command
        .args(["-shared", "-fPIC"])
        .arg(source("plugin.c"))
        .arg(&other);
    command.arg(format!("-Wl,-rpath,{}", scratch.0.display()));
    run(command.arg("-o").arg(&plugin)).expect_clean();
    let program = scratch.path("twice");
    build(
        cc,
        "gnu11",
        &source("twice.c"),
        &[OsStr::new("-ldl")],
        &program,
    );
    let out = scratch.path("out");
    std::fs::create_dir(&out).unwrap();
    run(Command::new(&program)
        .arg(&copy)
        .arg(&other)
        .arg(&plugin)
        .arg(&out))
    .expect_ok();
}

/// The folder of the stand-in SDK and HIP runtime.
fn stand_in() -> Option<std::path::PathBuf> {
    let command = support::profile_folder().join("strandline");
    if !command.is_file() {
        skip(
            "programs on the stand-in",
            "build the workspace first: cargo build",
        );
        return None;
    }
    let said = run(Command::new(command).args(["tool-path", "sim"]));
    if said.code != Some(0) {
        skip("programs on the stand-in", &said.stderr);
        return None;
    }
    Some(said.stdout.trim_end().into())
}

/// Builds the embedder for one of its modes.
fn embedder(cxx: &str, mode: &str, sim: &Path, flags: &[&str], program: &Path) {
    let mut command = compiler(cxx, "c++17");
    command
        .arg(source("embedder.cpp"))
        .args(flags)
        .arg("-rdynamic")
        .arg("-L")
        .arg(sim);
    if ["own", "static", "chain", "second", "inside"].contains(&mode) {
        command.args(["-DOWN", "-l:librocprofiler-sdk.so.1"]);
    }
    if ["force", "foreign"].contains(&mode) {
        command.args(["-DFORCE", "-l:librocprofiler-sdk.so.1"]);
    }
    command.args(["-l:libamdhip64.so.7", "-Wno-unused-function", "-ldl"]);
    command.arg("-o").arg(program);
    // The program's own `rocprofiler_configure` and the one inside the archive don't meet.
    let linked = if mode == "static" {
        let archive = prefix().join("lib/libstrandline.a");
        command.arg(archive).args(["-lgcc_s", "-lm", "-lpthread"])
    } else {
        support::link(&mut command)
    };
    run(linked).expect_clean();
}

/// Starts an embedder with a folder of its own.
fn start(program: &Path, mode: &str, sim: &Path, out: &Path) -> Command {
    std::fs::create_dir(out).unwrap();
    let mut host = Command::new(program);
    host.env("LD_LIBRARY_PATH", sim)
        .env("EMBEDDER_MODE", if mode == "static" { "own" } else { mode })
        .env("EMBEDDER_OUT", out)
        .env("STRANDLINE_DIR", out);
    host
}

fn tool_library() -> std::path::PathBuf {
    support::profile_folder().join("libstrandline_rocprofiler.so")
}

#[test]
fn hosts_that_bring_the_tool_themselves() {
    let Some(sim) = stand_in() else { return };
    let scratch = Scratch::new("embedder");
    for (_, cxx) in compilers() {
        for mode in [
            "own", "static", "chain", "second", "inside", "force", "foreign", "forced", "session",
            "late",
        ] {
            let program = scratch.path(&format!("embedder-{mode}-{cxx}"));
            embedder(cxx, mode, &sim, &[], &program);
            let out = scratch.path(&format!("out-{mode}-{cxx}"));
            let mut host = start(&program, mode, &sim, &out);
            if mode == "second" {
                host.env("ROCP_TOOL_LIBRARIES", tool_library());
            }
            let ended = run(&mut host);
            ended.expect_ok();
            if mode == "own" {
                assert!(ended.stdout.contains("300 x _Z4nodev"), "{}", ended.stdout);
            }
        }
    }
}

#[test]
fn hosts_that_bring_the_tool_themselves_under_sanitizers() {
    let Some(sim) = stand_in() else { return };
    let scratch = Scratch::new("embedder-sanitized");
    // The stand-ins keep what they tell tools for the life of the process.
    let leaks = scratch.path("leaks");
    std::fs::write(&leaks, "leak:librocprofiler-sdk.so\nleak:libamdhip64.so\n").unwrap();
    let unseen = root().join("ffi/kineto/test/tsan.supp");
    for (_, cxx) in compilers() {
        for which in ["address,undefined", "thread"] {
            if !sanitizer(cxx, which) {
                continue;
            }
            for mode in ["own", "inside", "force"] {
                let name = format!("{mode}-{cxx}-{}", &which[..6]);
                let program = scratch.path(&name);
                let flag = format!("-fsanitize={which}");
                let flags = [flag.as_str(), "-fno-sanitize-recover=all"];
                embedder(cxx, mode, &sim, &flags, &program);
                let mut host = start(&program, mode, &sim, &scratch.path(&format!("out-{name}")));
                let leaks = format!("print_suppressions=0:suppressions={}", leaks.display());
                // The SDK starts its threads again in a forked child.
                let unseen = format!(
                    "halt_on_error=1 die_after_fork=0 suppressions={}",
                    unseen.display()
                );
                host.env("LSAN_OPTIONS", leaks).env("TSAN_OPTIONS", unseen);
                run(&mut host).expect_ok();
            }
        }
    }
}

#[test]
fn the_tool_library_is_the_second_tool_beside_another() {
    let Some(sim) = stand_in() else { return };
    let scratch = Scratch::new("beside");
    let Some((cc, cxx)) = compilers().first().copied() else {
        return;
    };
    let other = scratch.path("libother_tool.so");
    let mut command = compiler(cc, "c11");
    command
        .args(["-shared", "-fPIC"])
        .arg(source("other_tool.c"))
        .arg("-o")
        .arg(&other);
    run(&mut command).expect_clean();
    let program = scratch.path("host");
    embedder(cxx, "beside", &sim, &[], &program);
    // Alone, and with us: the other tool is told the same.
    for tools in [
        vec![other.clone()],
        vec![other.clone(), tool_library()],
        vec![tool_library(), other.clone()],
    ] {
        let out = scratch.path(&format!("out-{}-{}", tools.len(), tools[0] == other));
        let mut host = start(&program, "beside", &sim, &out);
        let list: Vec<String> = tools
            .iter()
            .map(|tool| tool.display().to_string())
            .collect();
        // SDK 1.0.0 forgets what follows the last colon.
        let end = if list.len() > 1 { ":" } else { "" };
        host.env("ROCP_TOOL_LIBRARIES", list.join(":") + end)
            .env("OTHER_OUT", out.join("other"))
            .env("STRANDLINE_OUT", out.join("ours.slt"));
        run(&mut host).expect_ok();
        let place = tools.iter().position(|tool| *tool == other).unwrap();
        let said = std::fs::read_to_string(out.join("other")).unwrap();
        assert_eq!(said, format!("priority {place}, 300 enqueued"));
        if tools.len() == 2 {
            let command = support::profile_folder().join("strandline");
            let summary = run(Command::new(command)
                .arg("summary")
                .arg(out.join("ours.slt")));
            summary.expect_clean();
            assert!(
                summary
                    .stdout
                    .ends_with("complete: 300 of 300 dispatches\n"),
                "{}",
                summary.stdout
            );
        }
    }
}
