//! Tracy's client, alone and with a viewer connected. Feature `tracy`.
//!
//! Alone, its zones pile up in its queue and cost memory that was never touched. With a viewer its own thread takes them
//! out, compresses and sends them, and the queue's blocks are used again: what a user has while he looks. The viewer here
//! is a thread that speaks as much of the protocol as that needs: it shakes hands, reads the welcome, then reads frames
//! and throws them away. It asks nothing back, and doesn't decompress: the uncompressed length of a frame follows from
//! its tokens alone, and says how many zones came out.
//!
//! # Source
//! tracy-client-sys 0.30.1, `tracy/common/TracyProtocol.hpp` (protocol 82, the handshake, the welcome's fields),
//! `TracyQueue.hpp` (sizes of items), `TracyProfiler.cpp` (a frame is its length in four bytes and an LZ4 block).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::driver::{Peer, Producer};

/// What a viewer says first, and the version that it speaks.
const HELLO: &[u8; 8] = b"TracyPrf";
const PROTOCOL: u32 = 82;
/// The client's answer when it takes the viewer.
const WELCOME: u8 = 1;
/// Bytes of the welcome, and where the process id lies in it.
const WELCOME_BYTES: usize = 6 * 8 + 8 + 8 + 1 + 1 + 12 + 4 + 64 + 1024;
const WELCOME_PID: usize = 6 * 8;
/// Bytes of a zone's begin and end in a frame: a type each, a time each since the event before, the place in the source.
/// Times take two bytes where they fit, else four or eight.
const ZONE_BYTES: u64 = 1 + 2 + 8 + 1 + 2;
/// What wider times and changes of thread add to a zone, at most, on average: the first of a burst of 256 needs them.
const WIDER_BYTES: u64 = 1;
/// What else the client sends of itself, at most: the processor's load every tenth of a second, keep-alives.
const OTHER_BYTES: u64 = 1 << 16;

/// The client.
pub struct Tracy {
    client: tracy_client::Client,
    viewer: Option<Viewer>,
}

/// What the viewer's thread has read.
struct Viewer {
    /// Bytes of all frames, uncompressed.
    bytes: Arc<AtomicU64>,
    /// The thread met what it did not understand, or the connection is gone.
    broken: Arc<AtomicBool>,
}

impl Tracy {
    /// Starts the client; nobody connects.
    pub fn alone() -> Self {
        Self {
            client: tracy_client::Client::start(),
            viewer: None,
        }
    }

    /// Starts the client and connects a viewer. The process has one thread as yet.
    ///
    /// # Errors
    /// What the client did not do.
    pub fn viewed() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("tracy's viewer: {error}");
        // A port that was free a moment ago: the client takes its port from the environment.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(failed)?
            .port();
        // SAFETY: no other thread exists that could read the environment.
        unsafe { std::env::set_var("TRACY_PORT", port.to_string()) };
        let client = tracy_client::Client::start();
        let began = Instant::now();
        let mut stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) if began.elapsed() > Duration::from_secs(5) => {
                    return Err(failed(error));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        stream.write_all(HELLO).map_err(failed)?;
        stream.write_all(&PROTOCOL.to_le_bytes()).map_err(failed)?;
        let mut status = [0; 1];
        stream.read_exact(&mut status).map_err(failed)?;
        if status != [WELCOME] {
            return Err(format!(
                "tracy's client answered {} to protocol {PROTOCOL}",
                status[0]
            ));
        }
        let mut welcome = [0; WELCOME_BYTES];
        stream.read_exact(&mut welcome).map_err(failed)?;
        let pid = welcome[WELCOME_PID..].first_chunk().copied();
        if pid.map(u64::from_le_bytes) != Some(std::process::id().into()) {
            return Err("tracy's welcome is not this process's".to_owned());
        }
        let (bytes, broken) = <(Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let viewer = Viewer {
            bytes: Arc::clone(&bytes),
            broken: Arc::clone(&broken),
        };
        // Ends with the process.
        std::thread::Builder::new()
            .name("tracy viewer".to_owned())
            .spawn(move || {
                let mut frame = Vec::new();
                while let Some(length) = read_frame(&mut stream, &mut frame) {
                    // Pairs with the Acquire in `settle`.
                    bytes.fetch_add(length, Ordering::Release);
                }
                broken.store(true, Ordering::Release);
            })
            .map_err(failed)?;
        Ok(Self {
            client,
            viewer: Some(viewer),
        })
    }
}

/// Reads a frame; its uncompressed length.
fn read_frame(stream: &mut impl Read, frame: &mut Vec<u8>) -> Option<u64> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    frame.resize(u32::from_le_bytes(length) as usize, 0);
    stream.read_exact(frame).ok()?;
    uncompressed(frame)
}

/// The uncompressed length of an LZ4 block, from its tokens: literals and matches. None: it is not one.
fn uncompressed(mut block: &[u8]) -> Option<u64> {
    /// A length of four bits goes on in bytes while they are 255.
    fn length(start: u8, block: &mut &[u8]) -> Option<u64> {
        let mut length = u64::from(start);
        if start == 15 {
            loop {
                let (&more, rest) = block.split_first()?;
                *block = rest;
                length += u64::from(more);
                if more != 255 {
                    break;
                }
            }
        }
        Some(length)
    }
    let mut all = 0;
    while let Some((&token, rest)) = block.split_first() {
        block = rest;
        let literals = length(token >> 4, &mut block)?;
        block = block.get(literals as usize..)?;
        all += literals;
        // The last sequence has literals only.
        if block.is_empty() {
            break;
        }
        block = block.get(2..)?;
        all += length(token & 15, &mut block)? + 4;
    }
    Some(all)
}

/// A thread that makes zones.
pub struct TracyProducer(tracy_client::Client);

impl Producer for TracyProducer {
    #[inline(always)]
    fn append(&mut self, _: u64) -> bool {
        drop(
            self.0
                .clone()
                .span(tracy_client::span_location!("append"), 0),
        );
        true
    }
}

impl Peer for Tracy {
    type Producer<'a> = TracyProducer;

    fn producer(&self, _: usize) -> TracyProducer {
        TracyProducer(self.client.clone())
    }

    fn drain(&self, _: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        Ok(())
    }

    fn drains_itself(&self) -> bool {
        true
    }

    fn settle(&self, appended: u64) -> Result<(), String> {
        if !tracy_client::Client::is_running() {
            return Err("the client does not run".to_owned());
        }
        // With nobody connected nobody can count; that the client runs is all that can be seen from here.
        let Some(viewer) = &self.viewer else {
            return Ok(());
        };
        let expected = appended * ZONE_BYTES;
        let began = Instant::now();
        let read = || viewer.bytes.load(Ordering::Acquire);
        while read() < expected && began.elapsed() < Duration::from_secs(20) {
            if viewer.broken.load(Ordering::Acquire) {
                return Err(
                    "the viewer lost its connection, or a frame was no LZ4 block".to_owned(),
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // What follows, if more than these zones were sent.
        std::thread::sleep(Duration::from_millis(50));
        let found = read();
        let most = expected + appended * WIDER_BYTES + OTHER_BYTES;
        if (expected..=most).contains(&found) {
            Ok(())
        } else {
            Err(format!(
                "the viewer read {found} bytes, {appended} zones are {expected} to {most}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_say_how_long_a_block_is() {
        // "abc", then six bytes that repeat it, then a last literal.
        assert_eq!(
            uncompressed(&[0x32, b'a', b'b', b'c', 3, 0, 0x10, b'd']),
            Some(10)
        );
        // 15 + 255 + 2 literals.
        let mut long = vec![0xf0, 255, 2];
        long.extend([0; 272]);
        assert_eq!(uncompressed(&long), Some(272));
        assert_eq!(uncompressed(&long[..200]), None);
        assert_eq!(uncompressed(&[0x32, b'a', b'b', b'c', 3]), None);
        assert_eq!(uncompressed(&[]), Some(0));
    }
}
