//! Running the program to be recorded as if strandline were not there.
//!
//! The program runs in strandline's own process group, so the terminal's signals reach both; strandline ignores them while
//! it waits. A signal that was sent to strandline alone is passed on. The exit code is the program's.
//!
//! Invariants: I1, `PROGRAM` holds a process id only while that process is not reaped, so that no other process is ever
//! signalled; I2, the handler calls nothing but `kill` and touches nothing but atomics.

use std::io;
use std::mem::MaybeUninit;
use std::process::{Child, Command};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Signals that end programs or mean something to them.
const PASSED_ON: [libc::c_int; 6] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// The program's process id; 0 before it runs and after it has ended.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// Signals that came before the program ran, one bit each.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With an exit code.
    Code(u8),
    /// By a signal.
    Signal(i32),
}

impl Ended {
    /// The exit code that passes it on.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// Runs a program to its end, and says its process id and how it ended.
///
/// # Errors
/// When it can't be started.
pub(crate) fn run(command: &mut Command) -> io::Result<(u32, Ended)> {
    let handlers = Handlers::install();
    // The spawned program starts with the default action for every signal that has a handler here: exec resets them.
    let child = command.spawn()?;
    let process = child.id();
    PROGRAM.store(process.cast_signed(), Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    for signal in PASSED_ON {
        if early >> signal & 1 != 0 {
            // SAFETY: kill has no memory effects; I1.
            unsafe { libc::kill(process.cast_signed(), signal) };
        }
    }
    let ended = wait(child);
    drop(handlers);
    Ok((process, ended?))
}

/// Waits without reaping, forgets the process id, then reaps (I1).
fn wait(mut child: Child) -> io::Result<Ended> {
    use std::os::unix::process::ExitStatusExt;
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: `info` is a siginfo_t to be filled; the id is our own child's, which is not reaped yet.
        let waited = unsafe {
            libc::waitid(
                libc::P_PID,
                child.id(),
                info.as_mut_ptr(),
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        if waited == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break;
        }
    }
    PROGRAM.store(0, Ordering::SeqCst);
    let status = child.wait()?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code as u8),
        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
    })
}

/// Signal handlers, put back as they were when dropped.
struct Handlers(Vec<(libc::c_int, libc::sigaction)>);

impl Handlers {
    fn install() -> Self {
        let mut before = Vec::new();
        for signal in PASSED_ON {
            let mut old = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: asks for the present action of a valid signal into memory of the right type.
            if unsafe { libc::sigaction(signal, ptr::null(), old.as_mut_ptr()) } != 0 {
                continue;
            }
            // SAFETY: filled by the call above.
            let old = unsafe { old.assume_init() };
            if old.sa_sigaction == libc::SIG_IGN {
                // Ignored on purpose (nohup): the program inherits that, and nothing is to be passed on.
                continue;
            }
            // SAFETY: a sigaction of zeros is valid: default action, no flags, empty mask.
            let mut new: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                pass_on;
            new.sa_sigaction = handler as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: the handler is async-signal-safe (I2) and lives as long as the process.
            if unsafe { libc::sigaction(signal, &raw const new, ptr::null_mut()) } == 0 {
                before.push((signal, old));
            }
        }
        Self(before)
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for (signal, old) in &self.0 {
            // SAFETY: puts back an action that the system gave out for this signal.
            unsafe { libc::sigaction(*signal, &raw const *old, ptr::null_mut()) };
        }
    }
}

extern "C" fn pass_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a valid siginfo_t to a handler installed with SA_SIGINFO.
    let from_kernel = unsafe { (*info).si_code } > 0;
    if from_kernel {
        // The terminal signals the whole group: the program has it already.
        return;
    }
    // SAFETY: as above.
    let sender = unsafe { (*info).si_pid() };
    let program = PROGRAM.load(Ordering::SeqCst);
    if program == 0 {
        EARLY.fetch_or(1 << signal, Ordering::SeqCst);
    } else if sender != program {
        // SAFETY: kill is async-signal-safe and the process is not reaped (I1).
        unsafe { libc::kill(program, signal) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_passed_on() {
        assert_eq!(Ended::Code(7).code(), 7);
        assert_eq!(Ended::Signal(9).code(), 137);
        assert_eq!(Ended::Signal(64).code(), 192);
    }
}
