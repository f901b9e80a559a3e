//! Subscriptions over the C border: the runtime's [`Subscriber`], with the names and the clock resolved from the facts that
//! it has handed out so far.

use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::{Arc, Mutex};

use strandline::anchors::{TickAnchor, TickMap};
use strandline::record::{Kind, Record, high, low};
use strandline::subscribe::{From, Subscriber};
use strandline::{Status, clock};
use strandline_rocprofiler::c_api::runtime;

use crate::abi::{SUBSCRIBE_OLDEST, kind_bit, strandline_lost, strandline_record};
use crate::border::{answer, not_forked, out, room};
use crate::handles::Handles;
use crate::records::{Resolve, Texts, describe, kind_number};

static SUBSCRIBERS: Handles<Mutex<Subscription>> = Handles::new(0x55);

/// Anchors that are kept: what comes is near the newest ones.
const ANCHORS_MAX: usize = 64;

/// A place in what a live process records.
// Never followed, see `crate::handles`. In a form in which cbindgen does not see that it has a layout.
#[derive(Debug)]
#[cfg_attr(all(), repr(C))]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct strandline_subscriber([u8; 0]);

#[derive(Debug)]
struct Subscription {
    subscriber: Subscriber,
    kinds: u64,
    known: Known,
}

/// What the facts said so far.
#[derive(Debug)]
struct Known {
    /// Strings whose parts are not all there, and those that are.
    strings: HashMap<u64, Vec<u8>>,
    texts: Mutex<Texts>,
    kernels: HashMap<u64, u64>,
    operations: HashMap<(u8, u16), u64>,
    anchors: Vec<TickAnchor>,
    clock: TickMap,
}

impl Known {
    fn new() -> Self {
        Self {
            strings: HashMap::new(),
            texts: Mutex::default(),
            kernels: HashMap::new(),
            operations: HashMap::new(),
            anchors: Vec::new(),
            clock: TickMap::new(Vec::new(), clock::ticks_per_second()),
        }
    }

    fn take(&mut self, record: &Record<'_>, anchor: TickAnchor) {
        let word = |index| record.word(index);
        self.anchor(anchor);
        match record.kind() {
            Some(Kind::String) => {
                let (total, offset) = (low(word(2)) as usize, high(word(2)) as usize);
                let bytes = self.strings.entry(word(1)).or_default();
                // Two lanes may announce the same string: a part that is there already is skipped.
                if offset == bytes.len() && offset <= total {
                    let part = record.words()[3..]
                        .iter()
                        .flat_map(|word| word.to_le_bytes());
                    bytes.extend(part.take(total - offset));
                }
            }
            Some(Kind::KernelSymbol) => {
                self.kernels.insert(word(1), word(3));
            }
            Some(Kind::Operation) => {
                let place = low(word(1));
                self.operations
                    .insert(((place >> 16) as u8, place as u16), word(2));
            }
            Some(Kind::Anchor) => self.anchor(TickAnchor {
                ticks: word(1),
                vendor_ns: word(2),
            }),
            _ => {}
        }
    }

    fn anchor(&mut self, anchor: TickAnchor) {
        if anchor.vendor_ns == 0 || self.anchors.contains(&anchor) {
            return;
        }
        self.anchors.push(anchor);
        if self.anchors.len() > ANCHORS_MAX {
            self.anchors.remove(0);
        }
        self.clock = TickMap::new(self.anchors.clone(), clock::ticks_per_second());
    }
}

impl Resolve for Known {
    fn text(&self, id: u64) -> Option<(*const c_char, u64)> {
        let mut texts = self
            .texts
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // The parts of a string precede whatever names it.
        texts.get_or(id, || self.strings.get(&id).cloned())
    }

    fn kernel_name(&self, kernel_id: u64) -> Option<u64> {
        self.kernels.get(&kernel_id).copied()
    }

    fn operation_name(&self, domain: u8, operation: u16) -> Option<u64> {
        self.operations.get(&(domain, operation)).copied()
    }

    fn ns(&self, ticks: u64) -> u64 {
        self.clock.vendor_ns(ticks)
    }

    fn external_id(&self, _: u64) -> u64 {
        0
    }

    /// The call's record and the session's end are still to come.
    fn device_flags(&self, record: &Record<'_>) -> u16 {
        record.flags()
    }
}

/// Subscribes to this process's facts and records of some kinds (a mask, 0 = all). Any number of subscribers, each at its own
/// pace; none slows an append.
///
/// # Safety
/// `subscriber` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_subscribe(
    kinds: u64,
    flags: u32,
    subscriber: *mut *mut strandline_subscriber,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { out(subscriber, std::ptr::null_mut()) }?;
        if flags & !SUBSCRIBE_OLDEST != 0 {
            return Err(Status::InvalidArgument);
        }
        not_forked()?;
        let from = if flags & SUBSCRIBE_OLDEST != 0 {
            From::Oldest
        } else {
            From::Now
        };
        let handle = SUBSCRIBERS.open(Arc::new(Mutex::new(Subscription {
            subscriber: Subscriber::new(runtime()?, from),
            kinds,
            known: Known::new(),
        })))?;
        // SAFETY: as the caller promises.
        unsafe { out(subscriber, std::ptr::without_provenance_mut(handle)) }
    })
}

/// The next one: first every fact there is, then facts and records as they are published, each once, a fact always before
/// the records that need it, in the order of each thread (not of time). Errors: NOTHING for now; ask again in a
/// millisecond. One thread at a time for one subscriber.
///
/// # Safety
/// `record` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_subscriber_next(
    subscriber: *mut strandline_subscriber,
    record: *mut strandline_record,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(record) }?;
        let subscription = SUBSCRIBERS.get(subscriber.addr())?;
        let mut subscription = subscription
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let Subscription {
            subscriber,
            kinds,
            known,
        } = &mut *subscription;
        while let Some(item) = subscriber.next() {
            known.take(&item.record, item.anchor);
            let kind = kind_number(&item.record);
            let wanted = *kinds == 0 || *kinds & kind_bit(kind) != 0;
            if wanted && kind != Kind::String as u32 {
                room.fill(&describe(&item.record, item.lane, known));
                return Ok(());
            }
        }
        Err(Status::Nothing)
    })
}

/// String `id`, as far as it was announced to this subscriber. `bytes` may be null. Errors: NOTHING.
///
/// # Safety
/// `name` and `bytes` are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_subscriber_text(
    subscriber: *mut strandline_subscriber,
    id: u64,
    name: *mut *const c_char,
    bytes: *mut u64,
) -> i32 {
    answer(|| {
        let subscription = SUBSCRIBERS.get(subscriber.addr())?;
        let subscription = subscription
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let (found, length) = subscription.known.text(id).ok_or(Status::Nothing)?;
        // SAFETY: as the caller promises.
        unsafe { out(name, found) }?;
        if !bytes.is_null() {
            // SAFETY: as the caller promises.
            unsafe { bytes.write_unaligned(length) };
        }
        Ok(())
    })
}

/// What the subscriber was too slow for, so far.
///
/// # Safety
/// `lost` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_subscriber_lost(
    subscriber: *mut strandline_subscriber,
    lost: *mut strandline_lost,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(lost) }?;
        let subscription = SUBSCRIBERS.get(subscriber.addr())?;
        let lost = subscription
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .subscriber
            .lost();
        room.fill(&strandline_lost {
            segments: lost.segments,
            cells: lost.cells,
            records: lost.records,
            ..strandline_lost::default()
        });
        Ok(())
    })
}

/// Closes a subscription.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_subscriber_close(subscriber: *mut strandline_subscriber) -> i32 {
    answer(|| SUBSCRIBERS.close(subscriber.addr()))
}
