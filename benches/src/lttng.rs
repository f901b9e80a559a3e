//! LTTng's userspace tracer: one tracepoint with seven words, a session daemon of this process's own, its consumer daemon
//! that takes full sub-buffers and writes them to a folder on tmpfs. Feature `lttng`.
//!
//! The tracepoint lies in a library that only these rows load, so that no other peer's process has the tracer's threads.
//! What a row measured counts only when the trace, read by babeltrace2, holds every event once and unchanged and the
//! tracer says that it discarded none; of a snapshot, when each event is unchanged and there once, and a sub-buffer's worth
//! is there.

/// Why there is none, or nothing.
pub fn missing() -> Option<&'static str> {
    if cfg!(not(feature = "lttng")) {
        Some("built without the feature lttng")
    } else if cfg!(not(strandline_lttng)) {
        // What the build script found: no package, or a compiler that fails.
        option_env!("STRANDLINE_LTTNG_WHY").or(Some("its provider was not built"))
    } else {
        None
    }
}

#[cfg(strandline_lttng)]
pub use present::{Lttng, Mode};

#[cfg(strandline_lttng)]
mod present {
    use std::collections::HashSet;
    use std::ffi::{CStr, CString};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use crate::driver::{Peer, Producer};

    /// The tracepoint provider.
    const PROVIDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/provider.so"));
    /// Bytes of a sub-buffer, and how many of them a ring has; each processor has a ring.
    const SUB_BUFFER: u64 = 1 << 20;
    const SUB_BUFFERS: u64 = 32;
    /// Bytes of an event: seven words and a header.
    const EVENT_BYTES: u64 = 56 + 12;

    /// How a session keeps events.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mode {
        /// Rings that all processes of a user share, drained.
        Uid,
        /// Rings of the process's own, drained.
        Pid,
        /// Rings that are overwritten, until a snapshot is taken.
        Snapshot,
    }

    /// A session that is tracing.
    #[derive(Debug)]
    pub struct Lttng {
        mark: unsafe extern "C" fn(u64, u64),
        mode: Mode,
        daemon: Daemon,
    }

    /// The session daemon, and its folder; both go with it.
    #[derive(Debug)]
    struct Daemon {
        process: Child,
        dir: PathBuf,
    }

    impl Drop for Daemon {
        fn drop(&mut self) {
            let _ = lttng(&self.dir, &["destroy", "--no-wait", "bench"]);
            // SAFETY: a signal to a child that was not waited for. It ends its consumers.
            unsafe { libc::kill(self.process.id() as libc::pid_t, libc::SIGTERM) };
            let _ = self.process.wait();
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }

    /// Runs the command-line tool; what it printed.
    fn lttng(home: &Path, words: &[&str]) -> Result<String, String> {
        let output = Command::new("lttng")
            .args(words)
            .env("LTTNG_HOME", home)
            .output()
            .map_err(|error| format!("starting lttng: {error}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(format!("lttng {}: {}", words.join(" "), why.trim()))
        }
    }

    impl Daemon {
        fn start() -> Result<Self, String> {
            let dir = crate::ours::region_path().with_extension("lttng");
            // Root's daemon has one place in the system, whatever the folder.
            if lttng(&dir, &["list"]).is_ok() {
                return Err("a session daemon runs already, which is not this bench's".to_owned());
            }
            std::fs::create_dir_all(&dir)
                .map_err(|error| format!("making {}: {error}", dir.display()))?;
            let mut command = Command::new("lttng-sessiond");
            command
                .args(["--no-kernel", "--quiet"])
                .env("LTTNG_HOME", &dir)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            // SAFETY: prctl may be called between fork and exec. The daemon ends with this process.
            unsafe {
                command.pre_exec(|| {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                    Ok(())
                });
            }
            let process = command.spawn();
            let process = process.map_err(|error| {
                let _ = std::fs::remove_dir_all(&dir);
                format!("starting lttng-sessiond: {error}")
            })?;
            let daemon = Self { process, dir };
            let began = Instant::now();
            while let Err(why) = lttng(&daemon.dir, &["list"]) {
                if began.elapsed() > Duration::from_secs(10) {
                    return Err(why);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(daemon)
        }
    }

    impl Lttng {
        /// Starts a daemon and a session, then loads the tracepoint: it is enabled when this returns. The process has one
        /// thread as yet.
        ///
        /// # Errors
        /// What the daemon, its tool or the loader said.
        pub fn new(mode: Mode) -> Result<Self, String> {
            let daemon = Daemon::start()?;
            let dir = &daemon.dir;
            let trace = format!("--output={}", dir.join("trace").display());
            let mut create = vec!["create", "bench", &trace];
            let (size, count) = (
                format!("--subbuf-size={SUB_BUFFER}"),
                format!("--num-subbuf={SUB_BUFFERS}"),
            );
            let mut channel = vec!["enable-channel", "--userspace", &size, &count];
            if mode == Mode::Snapshot {
                create.push("--snapshot");
                channel.push("--overwrite");
            }
            channel.push(if mode == Mode::Pid {
                "--buffers-pid"
            } else {
                "--buffers-uid"
            });
            channel.push("rows");
            lttng(dir, &create)?;
            lttng(dir, &channel)?;
            let event = "strandline_bench:mark";
            lttng(
                dir,
                &["enable-event", "--userspace", "--channel=rows", event],
            )?;
            lttng(dir, &["start", "bench"])?;
            let mark = load(dir)?;
            Ok(Self { mark, mode, daemon })
        }
    }

    /// Loads the provider; its constructor registers with the daemon and waits until the session's events are enabled.
    fn load(dir: &Path) -> Result<unsafe extern "C" fn(u64, u64), String> {
        let path = dir.join("provider.so");
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(PROVIDER))
            .map_err(|error| format!("writing {}: {error}", path.display()))?;
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: no other thread exists that could read the environment.
        unsafe {
            std::env::set_var("LTTNG_HOME", dir);
            // Milliseconds that a constructor waits for the daemon.
            std::env::set_var("LTTNG_UST_REGISTER_TIMEOUT", "10000");
        }
        // SAFETY: names that end with a zero; the library is never unloaded. The function's type is that of provider.c.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            let symbol = if library.is_null() {
                std::ptr::null_mut()
            } else {
                libc::dlsym(library, c"strandline_bench_mark".as_ptr())
            };
            if symbol.is_null() {
                let why = CStr::from_ptr(libc::dlerror()).to_string_lossy();
                return Err(format!("loading the tracepoint: {why}"));
            }
            Ok(std::mem::transmute::<
                *mut libc::c_void,
                unsafe extern "C" fn(u64, u64),
            >(symbol))
        }
    }

    /// A thread that makes events.
    #[derive(Debug)]
    pub struct LttngProducer {
        mark: unsafe extern "C" fn(u64, u64),
        index: u64,
    }

    impl Producer for LttngProducer {
        #[inline(always)]
        fn append(&mut self, sequence: u64) -> bool {
            // SAFETY: plain numbers; the library stays loaded.
            unsafe { (self.mark)(self.index, sequence) };
            true
        }
    }

    impl Peer for Lttng {
        type Producer<'a> = LttngProducer;

        fn producer(&self, index: usize) -> LttngProducer {
            LttngProducer {
                mark: self.mark,
                index: index as u64,
            }
        }

        fn drain(&self, _: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
            Ok(())
        }

        fn drains_itself(&self) -> bool {
            true
        }

        fn settle(&self, appended: u64) -> Result<(), String> {
            let dir = &self.daemon.dir;
            if self.mode == Mode::Snapshot {
                lttng(dir, &["snapshot", "record", "--session=bench"])?;
            }
            // Waits until the consumer has written all of it.
            lttng(dir, &["stop", "bench"])?;
            let found = read(&dir.join("trace"))?;
            if self.mode == Mode::Snapshot {
                let least = appended.min(SUB_BUFFER / EVENT_BYTES);
                return if (least..=appended).contains(&found) {
                    Ok(())
                } else {
                    Err(format!("{found} events are in the snapshot of {appended}"))
                };
            }
            let discarded = discarded(&lttng(dir, &["list", "bench"])?)?;
            if (found, discarded) == (appended, 0) {
                Ok(())
            } else {
                Err(format!(
                    "{found} events are in the trace of {appended}, the tracer discarded {discarded}"
                ))
            }
        }
    }

    /// What the tracer says that it discarded.
    fn discarded(list: &str) -> Result<u64, String> {
        list.lines()
            .find_map(|line| line.trim().strip_prefix("Discarded events:"))
            .and_then(|count| count.trim().parse().ok())
            .ok_or_else(|| "lttng list says nothing of discarded events".to_owned())
    }

    /// Reads the trace: how many events, each unchanged and there once.
    fn read(trace: &Path) -> Result<u64, String> {
        let mut reader = Command::new("babeltrace2")
            .arg("--names=payload")
            .arg(trace)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // It warns of every gap; the tracer's own count says it shorter.
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("starting babeltrace2: {error}"))?;
        let text = reader.stdout.take().ok_or("babeltrace2 has no output")?;
        let mut seen = HashSet::new();
        let mut wrong = None;
        for line in BufReader::new(text).lines() {
            let line = line.map_err(|error| format!("reading the trace: {error}"))?;
            match event(&line) {
                Some(event) if seen.insert(event) => {}
                _ => wrong = Some(line),
            }
        }
        let status = reader.wait().map_err(|error| error.to_string())?;
        match wrong {
            Some(line) => Err(format!("an event came out changed or twice: {line}")),
            None if !status.success() => Err(format!("babeltrace2: {status}")),
            None => Ok(seen.len() as u64),
        }
    }

    /// An event's producer and sequence number. None: it is not what was traced.
    fn event(line: &str) -> Option<(u64, u64)> {
        let field = |name: &str| -> Option<u64> {
            let rest = line.split_once(name)?.1.strip_prefix(" = ")?;
            let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
            rest[..end].parse().ok()
        };
        let (producer, sequence) = (field(" producer")?, field(" sequence")?);
        let whole = field(" inverted")? == !sequence
            && [" word4", " word5", " word6", " word7"]
                .into_iter()
                .all(|name| field(name) == Some(sequence));
        whole.then_some((producer, sequence))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_changed_event_is_seen() {
            let inverted = !5u64;
            let line = |word: u64| {
                format!(
                    "strandline_bench:mark: {{ producer = 1, sequence = 5, inverted = {inverted}, word4 = 5, word5 = {word}, \
                     word6 = 5, word7 = 5 }}"
                )
            };
            assert_eq!(event(&line(5)), Some((1, 5)));
            assert_eq!(event(&line(6)), None);
            assert_eq!(event(""), None);
        }

        #[test]
        fn what_was_discarded_is_read() {
            assert_eq!(
                discarded("Statistics:\n      Discarded events: 12\n"),
                Ok(12)
            );
            assert!(discarded("Statistics:").is_err());
        }
    }
}
