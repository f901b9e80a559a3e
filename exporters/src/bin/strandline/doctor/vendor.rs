//! The vendors' side: tool library, SDK, HIP, driver, and who else wants to trace.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::probe::{Probed, probe};
use super::{Finding, Mark};
use crate::failure::reason;
use crate::place;

/// `ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED`.
const LOCKED: i64 = 16;
/// Oldest SDK whose structs are known.
const OLDEST_SDK: (u64, u64) = (1, 0);

pub(super) fn findings() -> Vec<Finding> {
    let mut all = vec![tool_library(), stand_in()];
    all.extend(rocprofiler());
    all.extend(other_tools());
    all.push(driver());
    all.extend(nvidia());
    all
}

fn tool_library() -> Finding {
    match place::rocprofiler_library() {
        Ok(path) => {
            let probed = probe(path.as_os_str());
            let found = path.display().to_string();
            if probed.get("rocprofiler_configure").is_some() {
                Finding::new(
                    Mark::Ok,
                    "tool library",
                    found,
                    "it loads; `record` puts it into ROCP_TOOL_LIBRARIES",
                )
            } else {
                let means = format!(
                    "it can't be used: {}",
                    why(&probed, "it has no rocprofiler_configure")
                );
                Finding::new(Mark::No, "tool library", found, means)
                    .todo("build it again (`cargo build --release`)")
            }
        }
        Err(failure) => Finding::new(Mark::No, "tool library", "missing", failure.text),
    }
}

fn stand_in() -> Finding {
    let what = "stand-in SDK (record --sim, demo)";
    let folder = match place::sim_folder() {
        Ok(folder) => folder,
        Err(failure) => return Finding::new(Mark::Warn, what, "missing", failure.text),
    };
    let probed = probe(folder.join("librocprofiler-sdk.so.1").as_os_str());
    let found = folder.display().to_string();
    match probed.get("version") {
        Some(version) => Finding::new(Mark::Ok, what, found, format!("it loads, as SDK {version}")),
        None => Finding::new(
            Mark::Warn,
            what,
            found,
            format!("it can't be used: {}", probed.why_not()),
        )
        .todo("build it again (`cargo build --release`)"),
    }
}

fn why(probed: &Probed, otherwise: &str) -> String {
    if probed.opened().is_some() && probed.died.is_none() {
        otherwise.to_owned()
    } else {
        probed.why_not()
    }
}

/// The SDK by the loader's rules, else where ROCm installs it.
fn find_sdk() -> (Probed, Option<PathBuf>) {
    let by_name = probe(OsStr::new("librocprofiler-sdk.so.1"));
    if by_name.opened().is_some() {
        return (by_name, None);
    }
    for folder in rocm_folders() {
        let path = folder.join("lib/librocprofiler-sdk.so.1");
        if path.exists() {
            return (probe(path.as_os_str()), Some(path));
        }
    }
    (by_name, None)
}

fn rocm_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = env::var_os("ROCM_PATH")
        .into_iter()
        .map(PathBuf::from)
        .collect();
    if let Ok(entries) = fs::read_dir("/opt") {
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.file_name()
                    .is_some_and(|name| name.as_bytes().starts_with(b"rocm"))
            })
            .collect();
        found.sort();
        folders.extend(found);
    }
    folders
}

fn rocprofiler() -> Vec<Finding> {
    let what = "rocprofiler-sdk";
    let (probed, off_path) = find_sdk();
    let Some(opened) = probed.opened() else {
        let means = "AMD GPU work can't be recorded here";
        let missing = Finding::new(Mark::No, what, probed.why_not(), means)
            .todo("install ROCm's rocprofiler-sdk or add its folder to LD_LIBRARY_PATH; `strandline record --sim` needs none");
        return vec![missing];
    };
    let version = probed.get("version").unwrap_or("of unknown version");
    let found = format!("{version} at {opened}");
    let mut all = Vec::new();
    if parse_version(version).is_none_or(|version| version < OLDEST_SDK) {
        let means =
            "it is too old or says no version: the tool library stays off, programs run untraced";
        all.push(
            Finding::new(Mark::No, what, found, means)
                .todo("install ROCm 7.0 or newer (SDK 1.0.0)"),
        );
    } else if is_stand_in(Path::new(opened)) {
        let means = "it is Strandline's stand-in: programs started from here run without a GPU";
        all.push(
            Finding::new(Mark::Warn, what, found, means)
                .todo("take its folder out of LD_LIBRARY_PATH to use the real one"),
        );
    } else if off_path.is_some() {
        let means =
            "the loader does not find it by name; programs whose ROCm libraries lie beside it do";
        all.push(
            Finding::new(Mark::Warn, what, found, means)
                .todo("if nothing is recorded, add its folder to LD_LIBRARY_PATH"),
        );
    } else {
        all.push(Finding::new(
            Mark::Ok,
            what,
            found,
            "AMD GPU work can be recorded",
        ));
    }
    all.push(configuration(&probed));
    for (library, what, means_missing) in [
        (
            "libamdhip64.so",
            "HIP runtime",
            "HIP programs of this machine bring their own, or none can run",
        ),
        (
            "librocprofiler-register.so.0",
            "rocprofiler-register",
            "the HIP runtime hands its tables to the SDK through it: without it nothing is traced",
        ),
    ] {
        let mut probed = probe(OsStr::new(library));
        if probed.opened().is_none() {
            let beside = Path::new(opened).with_file_name(library);
            if beside.exists() {
                probed = probe(beside.as_os_str());
            }
        }
        all.push(match probed.opened() {
            Some(path) => Finding::new(Mark::Ok, what, path, "it loads"),
            None => Finding::new(Mark::Warn, what, probed.why_not(), means_missing),
        });
    }
    all
}

/// True for the library that `tool-path sim` leads to.
fn is_stand_in(path: &Path) -> bool {
    let stand_in = place::sim_folder().map(|folder| folder.join("librocprofiler-sdk.so.1"));
    stand_in.is_ok_and(|stand_in| path.canonicalize().ok() == stand_in.canonicalize().ok())
}

fn parse_version(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
    Some((parts.next()??, parts.next()??))
}

/// Whether a tool can still configure the SDK, as tried in the child.
fn configuration(probed: &Probed) -> Finding {
    let what = "SDK configuration";
    if let Some(died) = &probed.died {
        let means = "a traced program would end in the same way";
        return Finding::new(Mark::No, what, died.clone(), means)
            .todo("check that /sys/class/kfd is readable here, and look at the SDK's message with ROCPROFILER_LOG_LEVEL=info");
    }
    let early = probed
        .number("initialized")
        .is_some_and(|status| status != 0);
    match (
        probed.number("forced"),
        probed.number("priority"),
        probed.number("context"),
    ) {
        (Some(LOCKED), ..) => {
            let found = if early {
                "locked as soon as it is loaded"
            } else {
                "locked"
            };
            Finding::new(Mark::No, what, found, "another tool has configured it first, so a late tool records nothing")
                .todo("see LD_PRELOAD and ROCPROFILER_LIBRARY_CTOR below; `record` registers early, by ROCP_TOOL_LIBRARIES")
        }
        (Some(0), Some(0), Some(0)) => Finding::new(
            Mark::Ok,
            what,
            "open",
            "a tool is asked to configure itself first in line, and may create contexts",
        ),
        (Some(0), Some(priority), Some(0)) if priority > 0 => Finding::new(
            Mark::Warn,
            what,
            format!("open, {priority} tools come first"),
            "several tools share the SDK; each sees all work",
        ),
        (Some(0), Some(_), Some(context)) if context > 0 => Finding::new(
            Mark::No,
            what,
            format!("creating a context was refused with status {context}"),
            "tools record nothing",
        )
        .todo("look at the SDK's message with ROCPROFILER_LOG_LEVEL=info"),
        (forced, priority, context) => Finding::new(
            Mark::Warn,
            what,
            format!(
                "not settled (configure {forced:?}, priority {priority:?}, context {context:?})"
            ),
            "the SDK did not ask the trial tool to configure itself",
        ),
    }
}

/// Who else is in line to configure the SDK in programs started from here.
fn other_tools() -> Vec<Finding> {
    let mut all = Vec::new();
    let own = place::rocprofiler_library().ok();
    let is_own = |entry: &OsStr| {
        let entry = Path::new(entry).canonicalize();
        own.is_some() && entry.ok() == own
    };
    let list = env::var_os("ROCP_TOOL_LIBRARIES").unwrap_or_default();
    let entries = split(&list, b":");
    for entry in &entries {
        if own.as_deref().is_some_and(|own| own.as_os_str() == entry) {
            continue;
        }
        let probed = probe(entry);
        let found = format!("ROCP_TOOL_LIBRARIES names {}", entry.display());
        all.push(if probed.opened().is_none() {
            let means = format!(
                "the SDK ends a program whose list has a library that can't be opened ({})",
                probed.why_not()
            );
            Finding::new(Mark::No, "first in line", found, means).todo("take it out of the list")
        } else {
            Finding::new(
                Mark::Warn,
                "first in line",
                found,
                "it is configured before Strandline; both see all work",
            )
        });
    }
    if entries.len() > 1 && !list.as_bytes().ends_with(b":") {
        all.push(
            Finding::new(
                Mark::Warn,
                "ROCP_TOOL_LIBRARIES",
                "a list without a trailing colon",
                "SDK 1.0.0 forgets its last entry",
            )
            .todo("end the list in a colon, as `record` does"),
        );
    }
    let preload = env::var_os("LD_PRELOAD").unwrap_or_default();
    for entry in split(&preload, b": ") {
        if is_own(&entry) {
            continue;
        }
        let probed = probe(&entry);
        if probed.get("rocprofiler_configure").is_some() {
            let found = format!(
                "LD_PRELOAD names {}, which exports rocprofiler_configure",
                entry.display()
            );
            let means =
                "it is configured behind the tools of ROCP_TOOL_LIBRARIES; both see all work";
            all.push(Finding::new(Mark::Warn, "first in line", found, means));
        }
    }
    for (name, bad, means) in [
        (
            "ROCPROFILER_LIBRARY_CTOR",
            "",
            "the SDK configures itself when it is loaded; a tool that registers later finds it locked",
        ),
        (
            "ROCPROFILER_REGISTER_LIBRARY",
            "",
            "the runtimes load this library in place of the SDK",
        ),
        (
            "ROCPROFILER_REGISTER_FORCE_LOAD",
            "",
            "the SDK is loaded also when no tool is there; child processes inherit it",
        ),
        (
            "ROCPROFILER_REGISTER_ENABLED",
            "false",
            "the runtimes never hand over their tables: nothing is ever traced",
        ),
    ] {
        if let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) {
            let off = value.as_bytes();
            let is_false =
                [&b"0"[..], b"false", b"off", b"no"].contains(&off.to_ascii_lowercase().as_slice());
            let mark = match (bad, is_false) {
                ("false", true) => Mark::No,
                ("false", false) | ("", true) => continue,
                _ => Mark::Warn,
            };
            let found = format!("set to {}", value.display());
            all.push(
                Finding::new(mark, name, found, means)
                    .todo("unset it unless it is there on purpose"),
            );
        }
    }
    if all.is_empty() {
        all.push(Finding::new(
            Mark::Ok,
            "first in line",
            "no other tool in ROCP_TOOL_LIBRARIES or LD_PRELOAD",
            "Strandline is configured first, unless the program brings a tool of its own",
        ));
    }
    all
}

fn split(list: &OsStr, separators: &[u8]) -> Vec<OsString> {
    list.as_bytes()
        .split(|byte| separators.contains(byte))
        .filter(|entry| !entry.is_empty())
        .map(|entry| OsStr::from_bytes(entry).to_owned())
        .collect()
}

/// The AMD driver's topology, from which the SDK takes its agents.
fn driver() -> Finding {
    let what = "KFD topology";
    let folder = Path::new("/sys/class/kfd/kfd/topology/nodes");
    let nodes = match fs::read_dir(folder) {
        Ok(nodes) => nodes,
        Err(error) => {
            return Finding::new(
                Mark::No,
                what,
                reason(&error),
                "there is no AMD GPU here, or the amdgpu driver is not loaded",
            )
            .todo(
                "in a container, pass /dev/kfd and /dev/dri; `strandline record --sim` needs none",
            );
        }
    };
    let (mut gpus, mut unreadable) = (0, 0);
    for node in nodes.flatten() {
        match fs::read_to_string(node.path().join("properties")) {
            Ok(text) => gpus += usize::from(has_simds(&text)),
            Err(_) => unreadable += 1,
        }
    }
    let found = format!("{gpus} GPUs, {unreadable} unreadable nodes");
    // SAFETY: a valid C string.
    let open = unsafe { libc::access(c"/dev/kfd".as_ptr(), libc::R_OK | libc::W_OK) } == 0;
    if unreadable > 0 {
        let means = "SDK 1.0.0 ends programs when its list of GPUs and HSA's differ";
        Finding::new(Mark::No, what, found, means)
            .todo("make all nodes readable, or hide the same GPUs from both")
    } else if gpus > 0 && !open {
        let means = "/dev/kfd can't be opened, so no program of this user can use them";
        Finding::new(Mark::No, what, found, means).todo("join the groups `render` and `video`")
    } else if gpus == 0 {
        Finding::new(Mark::No, what, found, "no AMD GPU can be used")
    } else {
        Finding::new(Mark::Ok, what, found, "the SDK sees the machine's GPUs")
    }
}

fn has_simds(properties: &str) -> bool {
    properties
        .lines()
        .filter_map(|line| line.strip_prefix("simd_count "))
        .any(|count| count.trim() != "0")
}

fn nvidia() -> Vec<Finding> {
    let driver = probe(OsStr::new("libcuda.so.1"));
    let Some(path) = driver.opened() else {
        let means = "there is no NVIDIA driver here";
        return vec![Finding::new(
            Mark::No,
            "NVIDIA driver",
            driver.why_not(),
            means,
        )];
    };
    let version = driver.get("version").unwrap_or("unknown");
    let mut all = vec![Finding::new(
        Mark::Ok,
        "NVIDIA driver",
        format!("CUDA {version} at {path}"),
        "it loads",
    )];
    let cupti = ["libcupti.so", "libcupti.so.13", "libcupti.so.12"]
        .into_iter()
        .map(|name| probe(OsStr::new(name)))
        .find(|probed| probed.opened().is_some());
    all.push(match cupti.as_ref().and_then(Probed::opened) {
        Some(path) => Finding::new(Mark::Ok, "NVIDIA CUPTI", path, "it loads"),
        None => Finding::new(
            Mark::Warn,
            "NVIDIA CUPTI",
            "not found by the loader",
            "CUDA work can't be recorded",
        )
        .todo("install the CUDA toolkit's CUPTI or add its folder to LD_LIBRARY_PATH"),
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_topology() {
        assert_eq!(parse_version("1.2.1"), Some((1, 2)));
        assert_eq!(parse_version("of unknown version"), None);
        assert!(has_simds("cpu_cores_count 0\nsimd_count 1216\n"));
        assert!(!has_simds("cpu_cores_count 64\nsimd_count 0\n"));
    }

    #[test]
    fn lists_split_at_their_separators() {
        assert_eq!(split(OsStr::new("a.so::b.so:"), b":"), ["a.so", "b.so"]);
        assert_eq!(
            split(OsStr::new("a.so b.so:c.so"), b": "),
            ["a.so", "b.so", "c.so"]
        );
    }
}
