//! A sign of life on a terminal for work that takes longer than a second.

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

/// Does `work`. If it takes longer than a second and standard error is a terminal, a spinner says what is being done.
pub(crate) fn during<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        scope.spawn(move || {
            if wait.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let spinner = ProgressBar::new_spinner().with_message(what.to_owned());
            spinner.enable_steady_tick(Duration::from_millis(100));
            let _ = wait.recv();
            spinner.finish_and_clear();
        });
        let result = work();
        drop(done);
        result
    })
}
