//! `strandline record`: sets the tool library's environment, runs the program, and writes what was recorded.
//!
//! Promise 8: nothing but the environment is set, and the program's exit code is passed on. The live region lies in a
//! private folder in memory and survives the program however it ends; if it can't be written to its place afterwards,
//! it is kept and named. In stream mode the tool library moves full segments to a second private folder, beside the
//! output; what the program had not moved when it died is brought there afterwards.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use strandline::header::Mode;
use strandline::settings::{Backing, Settings};

use crate::args;
use crate::child::{self, Ended};
use crate::counts::Counts;
use crate::export::{Target, threads};
use crate::failure::{Failure, advice, code, guard, reason, say};
use crate::keeper::{Keeper, Kept};
use crate::region_folder::Private;
use crate::summary::printable;
use crate::{input, place, process, region_folder, streamed};

/// Most that is repeated of the tool library's log, bytes.
const LOG_BYTES_MAX: u64 = 64 * 1024;

/// What is to be recorded, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The stand-in's folder, when it is to be used.
    pub(crate) sim: Option<PathBuf>,
    /// Variables for the tool library besides the region's place.
    pub(crate) settings: Vec<(&'static str, OsString)>,
    /// Regions have no name, and are sent to us.
    pub(crate) memfd: bool,
    /// What the tool library will make of them, and of the environment.
    pub(crate) mode: Mode,
    /// Where the trace goes.
    pub(crate) target: Target,
    /// Replace it.
    pub(crate) force: bool,
    /// Program and arguments.
    pub(crate) program: Vec<OsString>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// How the program ended.
    pub(crate) ended: Ended,
    /// Files written.
    pub(crate) written: usize,
    /// True when a region could not be written to its place.
    pub(crate) failed: bool,
}

/// Runs the command.
pub(crate) fn run(args: &args::Record) -> Result<u8, Failure> {
    let plan = plan(args).map_err(|failure| failure.with_code(code::RECORDING_FAILED))?;
    let recorded = plan.run(|_| {})?;
    let own = recorded.ended.code();
    Ok(if recorded.failed && own == code::FINE {
        code::RECORDING_FAILED
    } else {
        own
    })
}

fn plan(args: &args::Record) -> Result<Plan, Failure> {
    let target = Target::parse(&args.out)?;
    target.check(args.force)?;
    let mut settings = Vec::new();
    if let Some(mode) = args.mode {
        settings.push(("STRANDLINE_MODE", mode.name().into()));
    }
    for (name, value) in [
        ("STRANDLINE_BUDGET", &args.budget),
        ("STRANDLINE_KINDS", &args.kinds),
        ("STRANDLINE_EXCLUDE_API", &args.exclude_api),
    ] {
        if let Some(value) = value {
            settings.push((name, value.into()));
        }
    }
    let checked = check_settings(&settings)?;
    Ok(Plan {
        sim: args.sim.then(place::sim_folder).transpose()?,
        settings,
        memfd: checked.backing == Backing::Memfd,
        mode: checked.mode,
        target,
        force: args.force,
        program: args.program.clone(),
    })
}

/// Checks what the tool library will read: it would stay off with a bad value, and say so to nobody.
fn check_settings(settings: &[(&str, OsString)]) -> Result<Settings, Failure> {
    let lookup = |name: &str| match settings.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => Some(value.clone()),
        None => env::var_os(name),
    };
    Settings::from_lookup(lookup).map_err(|error| {
        Failure::new(format!(
            "setting up the recording: {}={:?}: expected {}; correct it or unset it",
            error.name, error.value, error.expected
        ))
    })
}

impl Plan {
    /// Runs the program and writes its traces. `adjust` may change the command before it runs.
    ///
    /// # Errors
    /// When the program could not be started; whatever happens afterwards is in [`Recorded`].
    pub(crate) fn run(&self, adjust: impl FnOnce(&mut Command)) -> Result<Recorded, Failure> {
        let recording = |failure: Failure| failure.with_code(code::RECORDING_FAILED);
        let tool = place::rocprofiler_library().map_err(recording)?;
        let folder = Private::new().map_err(recording)?;
        let stream = (self.mode == Mode::Stream).then(|| Private::beside(self.target.path()));
        let stream = stream.transpose().map_err(|failure| {
            folder.remove_if_empty();
            recording(failure)
        })?;
        let remove_if_empty = || {
            folder.remove_if_empty();
            if let Some(stream) = &stream {
                stream.remove_if_empty();
            }
        };
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]);
        let mut ready = self.set_environment(&mut command, &tool, &folder);
        if let (Some(stream), Ok(())) = (&stream, &ready) {
            ready = stream_environment(&mut command, &folder, stream);
        }
        let ready = ready.and_then(|()| self.keep(&mut command, &folder));
        let started = ready.map_err(recording).and_then(|keeper| {
            adjust(&mut command);
            let ended =
                child::run(&mut command).map_err(|error| not_started(&self.program[0], &error))?;
            Ok((ended, keeper))
        });
        let ((_, ended), keeper) = started.inspect_err(|_| remove_if_empty())?;
        let mut recorded = Recorded {
            ended,
            written: 0,
            failed: false,
        };
        if let Ended::Signal(signal) = ended {
            say(format_args!("the program was killed by signal {signal}"));
        }
        repeat_log(&folder.log());
        let kept = keeper.as_ref().map(Keeper::take).unwrap_or_default();
        if stream.is_some() {
            finish_streams(&folder, &mut recorded);
        }
        self.collect(stream.as_ref().unwrap_or(&folder), kept, &mut recorded);
        remove_if_empty();
        Ok(recorded)
    }

    fn set_environment(
        &self,
        command: &mut Command,
        tool: &Path,
        folder: &Private,
    ) -> Result<(), Failure> {
        let list_error = |path: &Path| {
            Failure::new(format!(
                "setting up the recording: {} contains a colon, which separates entries of the list it must stand in; move Strandline to another folder",
                path.display()
            ))
        };
        if !place::fits_colon_list(tool.as_os_str()) {
            return Err(list_error(tool));
        }
        let tools = tool_list(
            env::var_os("ROCP_TOOL_LIBRARIES").as_deref(),
            tool.as_os_str(),
        );
        command.env("ROCP_TOOL_LIBRARIES", tools);
        command.env("STRANDLINE_OUT", folder.region());
        // What keeps the tool library from tracing is said at the end, not into the program's output.
        if env::var_os("STRANDLINE_LOG").is_none_or(|log| log.is_empty()) {
            command.env("STRANDLINE_LOG", folder.log());
        }
        for (name, value) in &self.settings {
            command.env(name, value);
        }
        if let Some(sim) = &self.sim {
            if !place::fits_colon_list(sim.as_os_str()) {
                return Err(list_error(sim));
            }
            let paths = search_path(env::var_os("LD_LIBRARY_PATH").as_deref(), sim.as_os_str());
            command.env("LD_LIBRARY_PATH", paths);
        }
        Ok(())
    }

    /// Listens for regions that have no name, if the program is to have such.
    fn keep(&self, command: &mut Command, folder: &Private) -> Result<Option<Keeper>, Failure> {
        if !self.memfd {
            return Ok(None);
        }
        let path = folder.keeper();
        let keeper = Keeper::new(&path).map_err(|error| {
            Failure::new(format!(
                "making the socket {} for regions in a memfd: {}{}; STRANDLINE_DIR names another folder",
                path.display(),
                reason(&error),
                advice(&error)
            ))
        })?;
        command.env("STRANDLINE_KEEPER", path);
        Ok(Some(keeper))
    }

    /// Writes every region of the private folder, and every one that was sent to us, to its place.
    fn collect(&self, folder: &Private, kept: Vec<Kept>, recorded: &mut Recorded) {
        let mut regions: Vec<(Option<String>, PathBuf, Option<Kept>)> = match folder.regions() {
            Ok(regions) => {
                let named = regions.into_iter();
                named.map(|(which, path)| (which, path, None)).collect()
            }
            Err(error) => {
                say(format_args!(
                    "looking for the recorded regions: {}{}",
                    reason(&error),
                    advice(&error)
                ));
                recorded.failed = true;
                return;
            }
        };
        for kept in kept {
            // The first process has the exact name; a process that replaces itself by another program is two.
            let mut which = (!regions.is_empty()).then(|| kept.process.to_string());
            let taken = |which: &Option<String>| regions.iter().any(|region| region.0 == *which);
            let mut number = 1;
            while taken(&which) {
                which = Some(format!("{}.{number}", kept.process));
                number += 1;
            }
            regions.push((which, kept.path(), Some(kept)));
        }
        if regions.is_empty() {
            say(self.nothing_recorded());
        }
        for (which, mut region, kept) in regions {
            let target = match &which {
                None => self.target.clone(),
                Some(which) => self.target.further(which),
            };
            // A bug in reading or exporting must not hide the program's code.
            match guard("writing the recording", || {
                self.write(&region, &target, kept.is_some())
            }) {
                Ok(()) => recorded.written += 1,
                Err(failure) => {
                    recorded.failed = true;
                    say(failure.text);
                    if let Some(kept) = kept {
                        region = folder.named(which.as_deref());
                        if let Err(error) = kept.copy(&region) {
                            say(format_args!(
                                "the recording is lost: copying it to {}: {}{}",
                                region.display(),
                                reason(&error),
                                advice(&error)
                            ));
                            continue;
                        }
                    }
                    say(format_args!(
                        "the recording is kept in {r}; write it with `strandline export {r} -o OUT`",
                        r = region.display()
                    ));
                }
            }
        }
    }

    fn write(&self, region: &Path, target: &Target, kept: bool) -> Result<(), Failure> {
        let trace = input::open(region)?;
        let alive = process::is_alive(trace.header());
        let counts = Counts::of(&trace);
        let traces = [trace];
        let report = target.write(&traces, self.force, threads())?;
        let [trace] = &traces;
        let header = trace.header();
        let simulated = if header.simulated {
            "SIMULATED on a stand-in SDK, "
        } else {
            ""
        };
        for file in &report.files {
            say(format_args!(
                "wrote {}: {simulated}pid {}, {}",
                file.display(),
                header.pid,
                counts.loss_line()
            ));
        }
        say(counts.verdict_line());
        if alive {
            say(format_args!(
                "process {} still runs and records: what it has recorded since is {} {}",
                header.pid,
                if kept {
                    "in a memfd, while it runs: see /proc/PID/fd of process"
                } else {
                    "in"
                },
                if kept {
                    header.pid.to_string()
                } else {
                    region.display().to_string()
                },
            ));
            return Ok(());
        }
        if kept {
            return Ok(());
        }
        fs::remove_file(region).map_err(|error| Failure::io("removing", region, &error))
    }

    fn nothing_recorded(&self) -> String {
        let program = self.program[0].display();
        let why = if self.sim.is_some() {
            "it loaded no HIP runtime, or one by a path that the stand-in can't replace"
        } else {
            "it made no GPU call, or this machine's ROCm can't be traced (`strandline doctor` says why)"
        };
        format!(
            "nothing was recorded and {} was not written: {program} started no GPU runtime that loads the tool library; {why}",
            self.target.path().display()
        )
    }
}

/// The region in memory, its stream on the disk.
fn stream_environment(
    command: &mut Command,
    folder: &Private,
    stream: &Private,
) -> Result<(), Failure> {
    let output = std::path::absolute(stream.region())
        .map_err(|error| Failure::io("finding the place of", &stream.region(), &error))?;
    command.env("STRANDLINE_DIR", folder.path());
    command.env("STRANDLINE_OUT", output);
    Ok(())
}

/// Brings to the streams what processes that died left in their regions.
fn finish_streams(folder: &Private, recorded: &mut Recorded) {
    let left = region_folder::find(folder.path()).unwrap_or_default();
    for region in left {
        let finished = input::open(&region).and_then(|trace| {
            // A process that still runs has its own to finish.
            if process::is_alive(trace.header()) || streamed::finish(&region, &trace)?.is_none() {
                return Ok(());
            }
            fs::remove_file(&region).map_err(|error| Failure::io("removing", &region, &error))
        });
        if let Err(failure) = finished {
            recorded.failed = true;
            say(failure.text);
        }
    }
}

/// Repeats what the tool library had to say, and removes its log.
fn repeat_log(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    let mut text = Vec::new();
    let read = file.take(LOG_BYTES_MAX).read_to_end(&mut text);
    let _ = fs::remove_file(path);
    if read.is_err() {
        return;
    }
    for line in String::from_utf8_lossy(&text).lines() {
        let line = line.strip_prefix("strandline: ").unwrap_or(line);
        // That is said anyhow, with what came of it.
        if !line.starts_with("tracing into ") {
            say(format_args!("the tool library: {}", printable(line)));
        }
    }
}

fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let (code, next) = if error.kind() == io::ErrorKind::NotFound {
        (code::NOT_FOUND, "; check its name and PATH")
    } else {
        (
            code::NOT_RUNNABLE,
            "; check that it is a program and may be run",
        )
    };
    Failure {
        code,
        text: format!("running {}: {}{next}", program.display(), reason(error)),
    }
}

/// The list of tool libraries with ours in it, once, behind those that were there.
///
/// rocprofiler-sdk 1.0.0 forgets what stands behind the last colon of a list, so a list of several ends in one.
fn tool_list(before: Option<&OsStr>, tool: &OsStr) -> OsString {
    let mut entries: Vec<&[u8]> = before
        .map(OsStr::as_bytes)
        .unwrap_or_default()
        .split(|&byte| byte == b':')
        .filter(|entry| !entry.is_empty())
        .collect();
    if !entries.contains(&tool.as_bytes()) {
        entries.push(tool.as_bytes());
    }
    let mut list = entries.join(&b':');
    if entries.len() > 1 {
        list.push(b':');
    }
    OsString::from_vec(list)
}

/// The loader's search path with the stand-in before everything else.
fn search_path(before: Option<&OsStr>, sim: &OsStr) -> OsString {
    let mut path = sim.to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        path.push(":");
        path.push(before);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_list_is_added_to_and_ends_as_the_sdk_needs_it() {
        let list = |before: Option<&str>| tool_list(before.map(OsStr::new), OsStr::new("/s.so"));
        assert_eq!(list(None), "/s.so");
        assert_eq!(list(Some("")), "/s.so");
        assert_eq!(list(Some("/a.so")), "/a.so:/s.so:");
        assert_eq!(list(Some("/a.so:/b.so:")), "/a.so:/b.so:/s.so:");
        assert_eq!(list(Some("/s.so")), "/s.so");
        assert_eq!(list(Some("/s.so:/a.so")), "/s.so:/a.so:");
    }

    #[test]
    fn the_stand_in_comes_first() {
        assert_eq!(search_path(None, OsStr::new("/sim")), "/sim");
        assert_eq!(
            search_path(Some(OsStr::new("")), OsStr::new("/sim")),
            "/sim"
        );
        assert_eq!(
            search_path(Some(OsStr::new("/opt/rocm/lib")), OsStr::new("/sim")),
            "/sim:/opt/rocm/lib"
        );
    }
}
