//! Peers from crates.io and std that hand one fixed record from producers to a consumer.
//!
//! Every record is [`Row`]: producer and sequence number, a time where the row asks for one, and words that follow from
//! the sequence number, which the consumer checks.

use std::sync::Mutex;
use std::sync::mpsc;

use crate::clock;
use crate::driver::{Peer, Producer};

/// One record of `W` words.
pub type Row<const W: usize> = [u64; W];

/// The record that producer `index` appends as number `sequence`, with `TIMES` timestamps.
#[inline(always)]
pub fn row<const W: usize, const TIMES: usize>(index: usize, sequence: u64) -> Row<W> {
    let mut row = [sequence; W];
    row[1] = index as u64;
    row[2] = !sequence;
    if TIMES > 0 {
        row[3] = clock::ticks();
    }
    if TIMES > 1 {
        row[4] = clock::ticks();
    }
    row
}

/// Checks a record and says whose it is.
#[inline(always)]
pub fn check<const W: usize, const TIMES: usize>(row: &Row<W>) -> Result<(usize, u64), String> {
    let sequence = row[0];
    let times = &row[3..3 + TIMES];
    let whole = row[2] == !sequence
        && row[3 + TIMES..].iter().all(|&word| word == sequence)
        && times.iter().all(|&time| time != 0)
        && times.is_sorted();
    if whole {
        Ok((row[1] as usize, sequence))
    } else {
        Err(format!("a record came out changed: {row:x?}"))
    }
}

/// Places of a bounded queue, for each producer: 512 KiB, which the caches hold.
const PLACES: usize = 1 << 13;

/// A pair of cache lines of its own: handles side by side in memory would make every append a miss.
#[derive(Debug)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// rtrb: one ring a producer.
pub struct Rtrb<const W: usize, const TIMES: usize> {
    producers: Vec<Padded<Mutex<Option<rtrb::Producer<Row<W>>>>>>,
    consumers: Vec<Padded<Mutex<rtrb::Consumer<Row<W>>>>>,
}

impl<const W: usize, const TIMES: usize> Rtrb<W, TIMES> {
    /// Rings for that many producers.
    pub fn new(producers: usize) -> Self {
        let (producers, consumers) = (0..producers)
            .map(|_| rtrb::RingBuffer::new(PLACES))
            .map(|(producer, consumer)| {
                (
                    Padded(Mutex::new(Some(producer))),
                    Padded(Mutex::new(consumer)),
                )
            })
            .unzip();
        Self {
            producers,
            consumers,
        }
    }
}

/// One ring's producer; goes back when the thread ends.
pub struct RtrbProducer<'a, const W: usize, const TIMES: usize> {
    home: &'a Mutex<Option<rtrb::Producer<Row<W>>>>,
    ring: Padded<Option<rtrb::Producer<Row<W>>>>,
    index: usize,
}

impl<const W: usize, const TIMES: usize> Drop for RtrbProducer<'_, W, TIMES> {
    fn drop(&mut self) {
        if let Ok(mut home) = self.home.lock() {
            *home = self.ring.0.take();
        }
    }
}

impl<const W: usize, const TIMES: usize> Producer for RtrbProducer<'_, W, TIMES> {
    #[inline(always)]
    fn append(&mut self, sequence: u64) -> bool {
        match &mut self.ring.0 {
            Some(ring) => ring.push(row::<W, TIMES>(self.index, sequence)).is_ok(),
            None => false,
        }
    }
}

impl<const W: usize, const TIMES: usize> Peer for Rtrb<W, TIMES> {
    type Producer<'a> = RtrbProducer<'a, W, TIMES>;

    fn producer(&self, index: usize) -> Self::Producer<'_> {
        let home = &self.producers[index].0;
        let ring = home.lock().ok().and_then(|mut home| home.take());
        RtrbProducer {
            home,
            ring: Padded(ring),
            index,
        }
    }

    fn drain(&self, seen: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        for ring in &self.consumers {
            let mut ring = ring.0.lock().map_err(|_| "poisoned".to_owned())?;
            let there = ring.slots();
            if let Ok(chunk) = ring.read_chunk(there) {
                for row in chunk {
                    let (producer, sequence) = check::<W, TIMES>(&row)?;
                    seen(producer, sequence);
                }
            }
        }
        Ok(())
    }
}

/// A queue that all producers share.
pub trait Shared<const W: usize>: Sync {
    /// Puts a record in; false when full.
    fn push(&self, row: Row<W>) -> bool;
    /// Takes one out.
    fn pop(&self) -> Option<Row<W>>;
}

/// A shared queue as a peer.
pub struct SharedPeer<Q, const W: usize, const TIMES: usize>(pub Q);

/// A producer of a shared queue.
pub struct SharedProducer<'a, Q, const W: usize, const TIMES: usize> {
    queue: &'a Q,
    index: usize,
}

impl<Q: Shared<W>, const W: usize, const TIMES: usize> Producer
    for SharedProducer<'_, Q, W, TIMES>
{
    #[inline(always)]
    fn append(&mut self, sequence: u64) -> bool {
        self.queue.push(row::<W, TIMES>(self.index, sequence))
    }
}

impl<Q: Shared<W>, const W: usize, const TIMES: usize> Peer for SharedPeer<Q, W, TIMES> {
    type Producer<'a>
        = SharedProducer<'a, Q, W, TIMES>
    where
        Q: 'a;

    fn producer(&self, index: usize) -> Self::Producer<'_> {
        SharedProducer {
            queue: &self.0,
            index,
        }
    }

    fn drain(&self, seen: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        while let Some(row) = self.0.pop() {
            let (producer, sequence) = check::<W, TIMES>(&row)?;
            seen(producer, sequence);
        }
        Ok(())
    }
}

/// crossbeam's ArrayQueue.
pub struct ArrayQueue<const W: usize>(pub crossbeam_queue::ArrayQueue<Row<W>>);

impl<const W: usize> ArrayQueue<W> {
    /// Room for that many producers.
    pub fn new(producers: usize) -> Self {
        Self(crossbeam_queue::ArrayQueue::new(PLACES * producers))
    }
}

impl<const W: usize> Shared<W> for ArrayQueue<W> {
    #[inline(always)]
    fn push(&self, row: Row<W>) -> bool {
        self.0.push(row).is_ok()
    }
    fn pop(&self) -> Option<Row<W>> {
        self.0.pop()
    }
}

/// crossbeam's channel, bounded.
pub struct CrossbeamChannel<const W: usize>(
    crossbeam_channel::Sender<Row<W>>,
    crossbeam_channel::Receiver<Row<W>>,
);

impl<const W: usize> CrossbeamChannel<W> {
    /// Room for that many producers.
    pub fn new(producers: usize) -> Self {
        let (sender, receiver) = crossbeam_channel::bounded(PLACES * producers);
        Self(sender, receiver)
    }
}

impl<const W: usize> Shared<W> for CrossbeamChannel<W> {
    #[inline(always)]
    fn push(&self, row: Row<W>) -> bool {
        self.0.try_send(row).is_ok()
    }
    fn pop(&self) -> Option<Row<W>> {
        self.1.try_recv().ok()
    }
}

/// std's channel, unbounded.
pub struct StdChannel<const W: usize>(mpsc::Sender<Row<W>>, Mutex<mpsc::Receiver<Row<W>>>);

impl<const W: usize> Default for StdChannel<W> {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self(sender, Mutex::new(receiver))
    }
}

impl<const W: usize> Shared<W> for StdChannel<W> {
    #[inline(always)]
    fn push(&self, row: Row<W>) -> bool {
        self.0.send(row).is_ok()
    }
    fn pop(&self) -> Option<Row<W>> {
        self.1.lock().ok()?.try_recv().ok()
    }
}

/// kineto's row store: a mutex around a vector of boxed rows, taken whole.
pub struct RowStore<const W: usize, const TIMES: usize>(Mutex<Vec<Box<Row<W>>>>);

impl<const W: usize, const TIMES: usize> Default for RowStore<W, TIMES> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

/// A producer of the row store.
pub struct RowStoreProducer<'a, const W: usize, const TIMES: usize> {
    rows: &'a Mutex<Vec<Box<Row<W>>>>,
    index: usize,
}

impl<const W: usize, const TIMES: usize> Producer for RowStoreProducer<'_, W, TIMES> {
    #[inline(always)]
    fn append(&mut self, sequence: u64) -> bool {
        let row = Box::new(row::<W, TIMES>(self.index, sequence));
        match self.rows.lock() {
            Ok(mut rows) => {
                rows.push(row);
                true
            }
            Err(_) => false,
        }
    }
}

impl<const W: usize, const TIMES: usize> Peer for RowStore<W, TIMES> {
    type Producer<'a> = RowStoreProducer<'a, W, TIMES>;

    fn producer(&self, index: usize) -> Self::Producer<'_> {
        RowStoreProducer {
            rows: &self.0,
            index,
        }
    }

    fn drain(&self, seen: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        let rows = match self.0.lock() {
            Ok(mut rows) => std::mem::take(&mut *rows),
            Err(_) => return Err("poisoned".to_owned()),
        };
        for row in rows {
            let (producer, sequence) = check::<W, TIMES>(&row)?;
            seen(producer, sequence);
        }
        Ok(())
    }
}
