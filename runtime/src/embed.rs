//! What an embedder's own code needs beside the events: the word behind the "no session" test, and external
//! correlation ids.
//!
//! An external id is the embedder's own number for what it is doing (an operator of a framework, a request). A thread
//! pushes one around its work, per *domain*, so that two layers of one program don't see each other's ids. The id on top
//! of domain 0 travels in each API record; those of the other domains are recorded beside it as records of kind
//! [`Kind::External`].
//!
//! Progress: [`push`] and [`pop`] are the embedder's calls: the first push of a thread allocates its stacks (1.1 KiB),
//! which its end frees. [`top`], which callbacks use, is two loads and never allocates.

use std::sync::OnceLock;

use crate::clock;
use crate::control::{self, Token};
use crate::counters::Counter;
use crate::record::{Kind, head_word, pair};
use crate::runtime::Runtime;
use crate::status::Status;
use crate::sync::Ordering;
use crate::tls::external as tls;

/// Domains of external ids.
pub const EXTERNAL_DOMAINS: usize = 4;
/// Ids that a thread can have pushed in one domain at once.
pub const EXTERNAL_DEPTH: usize = 32;

/// One thread's external ids.
#[derive(Debug)]
struct Stacks {
    depth: [usize; EXTERNAL_DOMAINS],
    ids: [[u64; EXTERNAL_DEPTH]; EXTERNAL_DOMAINS],
}

/// Where the number of the open session lies, 0 = none: 8 bytes, aligned, written atomically, there as long as the
/// process. A forked child reads 0.
pub const fn session_word() -> *const u64 {
    control::session_place()
}

extern "C" fn thread_ended(stacks: *mut libc::c_void) {
    tls::set(0);
    if !stacks.is_null() {
        // SAFETY: the value is the box that `push` made for this thread, and the TLS word no longer points to it.
        drop(unsafe { Box::from_raw(stacks.cast::<Stacks>()) });
    }
}

/// Frees a thread's stacks at its end; `None` where the system has no key left (they then stay).
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is valid for writing; the destructor lives as long as the process.
        let made = unsafe { libc::pthread_key_create(&mut key, Some(thread_ended)) } == 0;
        made.then_some(key)
    })
}

fn stacks() -> *mut Stacks {
    tls::get() as *mut Stacks
}

/// True while the process's runtime accepts appends, and no session is open: then an append has nothing to do.
#[inline]
pub fn is_quiet() -> bool {
    control::process_session() == 0 && control::process().barrier().is_some()
}

/// Pushes an external id on the calling thread.
///
/// # Errors
/// [`Status::InvalidArgument`] for a domain that is not below [`EXTERNAL_DOMAINS`], or [`EXTERNAL_DEPTH`] ids pushed.
pub fn push(domain: u32, id: u64) -> Result<(), Status> {
    let domain = domain as usize;
    if domain >= EXTERNAL_DOMAINS {
        return Err(Status::InvalidArgument);
    }
    if stacks().is_null() {
        let made = Box::into_raw(Box::new(Stacks {
            depth: [0; EXTERNAL_DOMAINS],
            ids: [[0; EXTERNAL_DEPTH]; EXTERNAL_DOMAINS],
        }));
        if let Some(key) = key() {
            // SAFETY: the key was made above; the value is this thread's own.
            unsafe { libc::pthread_setspecific(key, made.cast()) };
        }
        tls::set(made as u64);
    }
    // SAFETY: not null (above); only this thread uses its stacks, and nothing else here holds a reference to them.
    let stacks = unsafe { &mut *stacks() };
    let depth = stacks.depth[domain];
    if depth >= EXTERNAL_DEPTH {
        return Err(Status::InvalidArgument);
    }
    stacks.ids[domain][depth] = id;
    stacks.depth[domain] = depth + 1;
    Ok(())
}

/// Pops the id that the calling thread pushed last in that domain.
///
/// # Errors
/// [`Status::InvalidArgument`] for a domain that is not below [`EXTERNAL_DOMAINS`], [`Status::Nothing`] when the thread
/// has pushed none.
pub fn pop(domain: u32) -> Result<u64, Status> {
    let domain = domain as usize;
    if domain >= EXTERNAL_DOMAINS {
        return Err(Status::InvalidArgument);
    }
    // SAFETY: null, or this thread's own stacks; nothing else here holds a reference to them.
    let Some(stacks) = (unsafe { stacks().as_mut() }) else {
        return Err(Status::Nothing);
    };
    let depth = stacks.depth[domain].checked_sub(1).ok_or(Status::Nothing)?;
    stacks.depth[domain] = depth;
    Ok(stacks.ids[domain][depth])
}

/// The id on top of a domain of the calling thread, `None` = nothing pushed. For callbacks.
#[inline]
pub fn top(domain: usize) -> Option<u64> {
    // SAFETY: null, or this thread's own stacks.
    let stacks = unsafe { stacks().as_ref() }?;
    let depth = stacks.depth.get(domain)?.checked_sub(1)?;
    Some(stacks.ids[domain][depth])
}

impl Runtime {
    /// False in a forked child, and before the runtime is made: nothing is accepted there.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.control().barrier().is_some()
    }

    /// True for a token that a session of this runtime could have given, or for none: what a host hands back is checked
    /// before counters are chosen by it.
    #[inline]
    pub fn knows(&self, token: Token) -> bool {
        if token.is_none() {
            return true;
        }
        let session = self.control().expand(token.session());
        session != 0 && u64::from(session) <= self.control().newest.load(Ordering::Relaxed)
    }

    /// Records what the calling thread has pushed in the domains from 1 up, for the API call with that correlation id.
    /// Once a call, next to [`Runtime::api_enter`].
    #[inline]
    pub fn external_ids(&self, correlation: u64) {
        if self.session_now() != 0 && !stacks().is_null() {
            self.external_ids_cold(correlation);
        }
    }

    #[cold]
    fn external_ids_cold(&self, correlation: u64) {
        for domain in 1..EXTERNAL_DOMAINS {
            let Some(id) = top(domain) else { continue };
            let Some(inside) = self.lane(0).and_then(|lane| lane.enter(0)) else {
                return;
            };
            let session = self.control().open_session();
            if session == 0 {
                return;
            }
            let block = inside.block(session);
            let words = [
                head_word(Kind::External, 1, 0, session),
                clock::ticks(),
                0,
                correlation,
                0,
                domain as u64,
                id,
                pair(0, inside.thread()),
            ];
            let stored = inside.append(&words, session);
            inside.bump(block, Counter::OtherRecorded as usize, u64::from(stored));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_apart_and_threads_are_apart() {
        assert_eq!(pop(0), Err(Status::Nothing));
        push(0, 7).unwrap();
        push(0, 0).unwrap();
        push(1, 9).unwrap();
        assert_eq!((top(0), top(1), top(2)), (Some(0), Some(9), None));
        std::thread::spawn(|| {
            assert_eq!(top(0), None);
            push(3, 1).unwrap();
        })
        .join()
        .unwrap();
        assert_eq!((pop(0), pop(0), pop(1)), (Ok(0), Ok(7), Ok(9)));
        assert_eq!(pop(0), Err(Status::Nothing));
        assert_eq!(push(4, 1), Err(Status::InvalidArgument));
        for id in 0..EXTERNAL_DEPTH as u64 {
            push(2, id).unwrap();
        }
        assert_eq!(push(2, 1), Err(Status::InvalidArgument));
    }
}
