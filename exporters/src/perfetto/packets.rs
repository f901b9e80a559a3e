//! Pieces that several kinds of packets have.

use crate::proto::{bytes, message, text, uint, varint, varint_bytes};
use crate::text::is_utf8;

use super::field;
use super::parts::WaitEnd;

/// `sequence_flags`: the state is cleared here.
pub(super) const CLEARED: u64 = 1;
/// `sequence_flags`: the packet needs the state.
pub(super) const NEEDS_STATE: u64 = 2;

/// BuiltinClock: that of all times.
pub(super) const BOOTTIME: u64 = 6;

/// TrackEvent.Type.
pub(super) const BEGIN: u64 = 1;
pub(super) const END: u64 = 2;
pub(super) const INSTANT: u64 = 3;
pub(super) const COUNTER: u64 = 4;

/// A packet of `sequence`, with its time if it has one.
#[inline]
pub(super) fn packet(
    out: &mut Vec<u8>,
    sequence: u64,
    flags: u64,
    time: Option<u64>,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    message(out, field::PACKET, |out| {
        if let Some(time) = time {
            uint(out, field::TIMESTAMP, time);
        }
        uint(out, field::SEQUENCE, sequence);
        uint(out, field::SEQUENCE_FLAGS, flags);
        fill(out);
    });
}

/// An ExtraComputeArg with a number. Names are interned under ids below 128.
#[inline]
pub(super) fn arg(out: &mut Vec<u8>, number: u32, name: u64, value: u64) {
    let length = 3 + varint_bytes(value) as u8;
    out.extend_from_slice(&[(number << 3 | 2) as u8, length, 1 << 3, name as u8, 4 << 3]);
    varint(out, value);
}

/// A DebugAnnotation with a number.
#[inline]
pub(super) fn annotate(out: &mut Vec<u8>, name: u64, value: u64) {
    message(out, field::ANNOTATION, |out| {
        uint(out, 1, name);
        uint(out, 3, value);
    });
}

pub(super) fn annotate_flag(out: &mut Vec<u8>, name: u64) {
    message(out, field::ANNOTATION, |out| {
        uint(out, 1, name);
        uint(out, 2, 1);
    });
}

pub(super) fn named(out: &mut Vec<u8>, number: u32, iid: u64, name: &[u8]) {
    message(out, number, |out| {
        uint(out, 1, iid);
        text(out, 2, name);
    });
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Keeps the bytes of a name that is no UTF-8.
pub(super) fn keep_bytes(out: &mut Vec<u8>, name: &[u8]) {
    if !is_utf8(name) {
        message(out, field::ANNOTATION, |out| {
            uint(out, 1, annotation!("name_bytes"));
            bytes(out, 6, hex(name).as_bytes());
        });
    }
}

pub(super) fn defaults(out: &mut Vec<u8>, track: Option<u64>) {
    message(out, field::DEFAULTS, |out| {
        uint(out, field::DEFAULT_CLOCK, BOOTTIME);
        if let Some(track) = track {
            message(out, field::DEFAULT_TRACK_EVENT, |out| {
                uint(out, field::TRACK_UUID, track);
            });
        }
    });
}

pub(super) fn specification(out: &mut Vec<u8>, iid: u64, name: &str, about: &str, category: u64) {
    message(out, field::SPECIFICATIONS, |out| {
        uint(out, 1, iid);
        bytes(out, 2, name.as_bytes());
        bytes(out, 3, about.as_bytes());
        uint(out, 4, category);
    });
}

pub(super) fn child_track(out: &mut Vec<u8>, sequence: u64, uuid: u64, parent: u64, name: &str) {
    packet(out, sequence, NEEDS_STATE, None, |out| {
        message(out, field::TRACK_DESCRIPTOR, |out| {
            uint(out, 1, uuid);
            uint(out, 5, parent);
            bytes(out, 2, name.as_bytes());
        });
    });
}

/// The end of a span, with the stages it waited for.
pub(super) fn end_packet(out: &mut Vec<u8>, end: &WaitEnd, waited: &[u64]) {
    packet(out, end.sequence, NEEDS_STATE, Some(end.end), |out| {
        message(out, field::TRACK_EVENT, |out| {
            uint(out, field::EVENT_TYPE, END);
            if let Some(track) = end.track {
                uint(out, field::TRACK_UUID, track);
            }
            if !waited.is_empty() {
                message(out, field::GPU_CORRELATION, |out| {
                    for &id in waited {
                        uint(out, 2, id);
                    }
                });
            }
        });
    });
}
