//! The only place that talks, and only when `STRANDLINE_LOG` asks for it. Never called in a callback.

use std::io::Write;
use std::sync::OnceLock;

use strandline::settings::{Log, Settings};

static LOG: OnceLock<Log> = OnceLock::new();

/// Sets where to talk; the first call counts.
pub fn set(log: Log) {
    let _ = LOG.set(log);
}

/// Sets where to talk when another setting is bad: as `STRANDLINE_LOG` says all the same.
pub fn set_alone() {
    let only = |name: &str| std::env::var_os(name).filter(|_| name == "STRANDLINE_LOG");
    if let Ok(settings) = Settings::from_lookup(only) {
        set(settings.log);
    }
}

/// Writes one line.
pub fn line(text: &str) {
    let line = format!("strandline: {text}\n");
    // A message that can't be written is nobody's problem: the host is untouched.
    match LOG.get() {
        Some(Log::Stderr) => {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        Some(Log::File(path)) => {
            let file = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path);
            let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
        }
        _ => {}
    }
}
