//! C++ peers: moodycamel's two queues, and a mutex around a vector of `new`ed rows. Feature `cxx`.

/// Why there are none, or nothing.
pub fn missing() -> Option<&'static str> {
    if cfg!(not(feature = "cxx")) {
        Some("built without the feature cxx")
    } else if cfg!(not(strandline_cxx)) {
        Some(
            "libconcurrentqueue-dev or libreaderwriterqueue-dev was not installed when this was built",
        )
    } else {
        None
    }
}

#[cfg(strandline_cxx)]
pub use present::{Kind, Queue};

#[cfg(strandline_cxx)]
mod present {
    use std::ffi::c_void;

    use crate::driver::{Peer, Producer};
    use crate::queues::{Row, check, row};

    /// Which queue.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(i32)]
    pub enum Kind {
        /// ReaderWriterQueue: one a producer.
        ReaderWriter = 0,
        /// ConcurrentQueue, with a token a producer.
        Concurrent = 1,
        /// std::mutex, std::vector and new.
        RowStore = 2,
    }

    unsafe extern "C" {
        fn peer_new(kind: i32, producers: i32) -> *mut c_void;
        fn peer_delete(peer: *mut c_void);
        fn peer_producer(peer: *mut c_void, index: i32) -> *mut c_void;
        fn peer_push_rw(producer: *mut c_void, row: *const u64) -> bool;
        fn peer_push_cq(producer: *mut c_void, row: *const u64) -> bool;
        fn peer_push_store(producer: *mut c_void, row: *const u64) -> bool;
        fn peer_take(peer: *mut c_void, rows: *mut u64, most: usize) -> usize;
    }

    /// A queue of rows of 8 words.
    #[derive(Debug)]
    pub struct Queue<const TIMES: usize> {
        peer: *mut c_void,
        kind: Kind,
    }

    // SAFETY: the C++ side is made for the threads that `Peer` promises: a producer each, one consumer.
    unsafe impl<const TIMES: usize> Sync for Queue<TIMES> {}

    impl<const TIMES: usize> Queue<TIMES> {
        /// For that many producers.
        pub fn new(kind: Kind, producers: usize) -> Self {
            // SAFETY: plain numbers.
            let peer = unsafe { peer_new(kind as i32, producers as i32) };
            Self { peer, kind }
        }
    }

    impl<const TIMES: usize> Drop for Queue<TIMES> {
        fn drop(&mut self) {
            // SAFETY: made in `new`, used by nobody any more.
            unsafe { peer_delete(self.peer) };
        }
    }

    /// A producer's side.
    #[derive(Debug)]
    pub struct QueueProducer<const TIMES: usize> {
        producer: *mut c_void,
        push: unsafe extern "C" fn(*mut c_void, *const u64) -> bool,
        index: usize,
    }

    impl<const TIMES: usize> Producer for QueueProducer<TIMES> {
        #[inline(always)]
        fn append(&mut self, sequence: u64) -> bool {
            let row: Row<8> = row::<8, TIMES>(self.index, sequence);
            // SAFETY: this thread's own producer, and 8 words.
            unsafe { (self.push)(self.producer, row.as_ptr()) }
        }
    }

    impl<const TIMES: usize> Peer for Queue<TIMES> {
        type Producer<'a> = QueueProducer<TIMES>;

        fn producer(&self, index: usize) -> QueueProducer<TIMES> {
            QueueProducer {
                // SAFETY: an index below the number of producers.
                producer: unsafe { peer_producer(self.peer, index as i32) },
                push: match self.kind {
                    Kind::ReaderWriter => peer_push_rw,
                    Kind::Concurrent => peer_push_cq,
                    Kind::RowStore => peer_push_store,
                },
                index,
            }
        }

        fn drain(&self, seen: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
            const MOST: usize = 1024;
            let mut rows = [[0u64; 8]; MOST];
            loop {
                // SAFETY: room for that many rows; the one consumer.
                let count = unsafe { peer_take(self.peer, rows.as_mut_ptr().cast(), MOST) };
                for row in &rows[..count] {
                    let (producer, sequence) = check::<8, TIMES>(row)?;
                    seen(producer, sequence);
                }
                if count == 0 {
                    return Ok(());
                }
            }
        }
    }
}
