//! What a file begins and ends with: clocks, processes, GPUs, metadata, counts of losses, and what the trace says of its own
//! quality.

use crate::model::{Model, Process};
use crate::notes::{self, Placed};
use crate::proto::{bytes, message, text, uint};

use super::closing::Closing;
use super::names::{ANNOTATION_NAMES, ARG_NAMES, CATEGORY_NAMES, thing, unique};
use super::packets::*;
use super::{Perfetto, STAGE_COPY, STAGE_KERNEL, State, field};

/// BuiltinClock.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const MONOTONIC_RAW: u64 = 5;
/// First clock that belongs to one sequence: the vendor's.
const VENDOR_CLOCK: u64 = 64;

pub(super) fn begin_process(block: &mut Vec<u8>, process: &Process<'_>, state: &State) {
    let anchors = process.clock_anchors();
    packet(block, state.main, CLEARED, None, |out| {
        defaults(out, None);
        message(out, field::CLOCK_SNAPSHOT, |out| {
            let first = anchors.first().copied().unwrap_or_default();
            let vendor_ns = if anchors.is_empty() {
                process.scan.first_ns.min(process.scan.last_ns)
            } else {
                first.vendor_ns
            };
            clocks(out, process, vendor_ns, &first);
        });
        message(out, field::INTERNED_DATA, |out| {
            for (at, name) in CATEGORY_NAMES.iter().enumerate() {
                named(out, field::CATEGORIES, at as u64 + 1, name.as_bytes());
            }
            for (at, name) in ANNOTATION_NAMES.iter().enumerate() {
                named(out, field::ANNOTATION_NAMES, at as u64 + 1, name.as_bytes());
            }
        });
    });
    packet(block, state.main, NEEDS_STATE, None, |out| {
        message(out, field::TRACK_DESCRIPTOR, |out| {
            uint(out, 1, state.process_uuid);
            message(out, 3, |out| {
                uint(out, 1, process.pid);
                text(out, 6, process.program().as_bytes());
                let rank = process.trace.header().rank;
                if rank >= 0 {
                    bytes(out, 8, format!("rank {rank}").as_bytes());
                }
            });
        });
    });
    // Spans of one track nest: what overlaps in part has a track of its own, of the same name.
    for lane in 0..notes::lanes(process) as u64 {
        packet(block, state.main, NEEDS_STATE, None, |out| {
            message(out, field::TRACK_DESCRIPTOR, |out| {
                uint(out, 1, unique(process.identity, thing::QUALITY, lane));
                let name = format!("Recording quality [{}]", process.pid);
                bytes(out, 2, name.as_bytes());
                let about =
                    "What Strandline says of this trace: what is missing, lost, late or not drawn";
                bytes(out, 14, about.as_bytes());
            });
        });
    }
    packet(block, state.gpu, CLEARED, None, |out| {
        defaults(out, None);
        message(out, field::INTERNED_DATA, |out| {
            message(out, field::CONTEXTS, |out| {
                uint(out, 1, state.context);
                uint(out, 2, process.pid);
                uint(out, 3, state.api);
            });
            specification(out, STAGE_KERNEL, "Kernel", "A kernel on the GPU", 2);
            specification(out, STAGE_COPY, "Memcpy", "A memory copy", 0);
            for (at, name) in ARG_NAMES.iter().enumerate() {
                named(out, field::ARG_NAMES, at as u64 + 1, name.as_bytes());
            }
        });
    });
}

/// What a part says of a process at its end.
pub(super) fn closing(process: &Process<'_>, sequence: u64) -> Closing {
    let mut snapshot = Vec::new();
    if let [_, last] = process.clock_anchors()[..] {
        packet(&mut snapshot, sequence, NEEDS_STATE, None, |out| {
            message(out, field::CLOCK_SNAPSHOT, |out| {
                clocks(out, process, last.vendor_ns, &last);
            });
        });
    }
    Closing::new(sequence, attribute_prefix(process), snapshot)
}

/// The packets of a note of quality.
pub(super) fn note(block: &mut Vec<u8>, process: &Process<'_>, sequence: u64, placed: &Placed<'_>) {
    let track = unique(process.identity, thing::QUALITY, placed.lane as u64);
    let event = |out: &mut Vec<u8>, kind| {
        message(out, field::TRACK_EVENT, |out| {
            uint(out, field::EVENT_TYPE, kind);
            uint(out, field::TRACK_UUID, track);
            if kind != END {
                uint(out, field::CATEGORY_IID, 5);
                text(out, field::NAME, placed.note.text.as_bytes());
                annotate(out, annotation!("count"), placed.note.count);
            }
        });
    };
    let kind = if placed.end.is_some() { BEGIN } else { INSTANT };
    packet(block, sequence, NEEDS_STATE, Some(placed.start), |out| {
        event(out, kind)
    });
    if placed.end.is_some() {
        packet(block, sequence, NEEDS_STATE, placed.end, |out| {
            event(out, END)
        });
    }
}

impl Perfetto<'_> {
    /// What a file begins with, before and behind its id; `block` is what processes begin with.
    pub(super) fn begin_file(&self, mut block: Vec<u8>, model: &Model<'_>) -> [Vec<u8>; 2] {
        let Some(state) = self.states.first() else {
            return [block, Vec::new()];
        };
        let main = state.main;
        let mut gpus: Vec<Option<&crate::model::Device<'_>>> = Vec::new();
        for device in model.processes.iter().flat_map(|process| &process.devices) {
            let at = device.gpu_id as usize;
            // An id far beyond the others would only make a list of nameless GPUs.
            if at < 1024 {
                if gpus.len() <= at {
                    gpus.resize(at + 1, None);
                }
                gpus[at].get_or_insert(device);
            }
        }
        if !gpus.is_empty() {
            packet(&mut block, main, NEEDS_STATE, None, |out| {
                message(out, field::GPU_INFO, |out| {
                    for (at, device) in gpus.iter().enumerate() {
                        message(out, 1, |out| gpu_info(out, at, *device));
                    }
                });
            });
        }
        let mut behind = Vec::new();
        packet(&mut behind, main, NEEDS_STATE, None, |out| {
            message(out, field::SYSTEM_INFO, |out| {
                let version = format!("Strandline {}", env!("CARGO_PKG_VERSION"));
                bytes(out, 4, version.as_bytes());
            });
        });
        for (process, state) in model.processes.iter().zip(&self.states) {
            packet(&mut behind, state.main, NEEDS_STATE, None, |out| {
                message(out, field::TRACE_ATTRIBUTES, |out| attributes(out, process));
            });
        }
        let lost = model.processes.iter().map(|process| {
            let reports = process.reports.iter();
            reports
                .map(|report| report.lost.total())
                .fold(0, u64::saturating_add)
        });
        if lost.clone().any(|lost| lost > 0) {
            packet(&mut behind, main, NEEDS_STATE, None, |out| {
                message(out, field::TRACE_STATS, |out| {
                    // One buffer for each process: readers keep one count for each buffer of a file.
                    for lost in lost {
                        message(out, 1, |out| {
                            if lost > 0 {
                                uint(out, 19, lost);
                            }
                        });
                    }
                });
            });
        }
        [block, behind]
    }
}

/// The content of a ClockSnapshot: BOOTTIME as this file's events use it, the vendor's clock, and what else was measured.
fn clocks(
    out: &mut Vec<u8>,
    process: &Process<'_>,
    vendor_ns: u64,
    anchor: &strandline::anchors::ClockAnchor,
) {
    let mut clock = |id: u64, time: u64| {
        message(out, 1, |out| {
            uint(out, 1, id);
            uint(out, 2, time);
        });
    };
    clock(BOOTTIME, process.out_ns(vendor_ns));
    for (id, time) in [
        (MONOTONIC, anchor.monotonic_ns),
        (MONOTONIC_RAW, anchor.monotonic_raw_ns),
        (REALTIME, anchor.realtime_ns),
    ] {
        if time != 0 {
            clock(id, time);
        }
    }
    clock(VENDOR_CLOCK, vendor_ns);
    uint(out, 2, BOOTTIME);
}

fn gpu_info(out: &mut Vec<u8>, at: usize, device: Option<&crate::model::Device<'_>>) {
    let Some(device) = device else {
        bytes(out, 1, format!("GPU {at}").as_bytes());
        return;
    };
    text(out, 1, device.name().as_bytes());
    let Some(agent) = device.agent else { return };
    for (number, value) in [(2, &agent.vendor), (3, &agent.model), (4, &agent.name)] {
        if !value.is_empty() {
            text(out, number, value.as_bytes());
        }
    }
    if agent.uuid != [0; 16] {
        bytes(out, 5, &agent.uuid);
    }
    let location = agent.pci_location;
    let bdf = format!(
        "{:04x}:{:02x}:{:02x}.{:x}",
        agent.pci_domain,
        location >> 8 & 0xff,
        location >> 3 & 0x1f,
        location & 7
    );
    bytes(out, 7, bdf.as_bytes());
    for (key, value) in [
        ("compute_units", agent.compute_units.to_string()),
        ("wave_front_size", agent.wave_front.to_string()),
        ("memory_bytes", agent.memory_bytes.to_string()),
    ] {
        message(out, 6, |out| {
            bytes(out, 1, key.as_bytes());
            bytes(out, 2, value.as_bytes());
        });
    }
}

/// What the keys of a process's attributes begin with, so that several processes do not overwrite each other.
fn attribute_prefix(process: &Process<'_>) -> String {
    match process.trace.header().rank {
        rank if rank >= 0 => format!("strandline.rank{rank}.{:08x}", process.identity as u32),
        _ => format!(
            "strandline.pid{}.{:08x}",
            process.pid, process.identity as u32
        ),
    }
}

/// The trace's own metadata.
fn attributes(out: &mut Vec<u8>, process: &Process<'_>) {
    let header = process.trace.header();
    let prefix = attribute_prefix(process);
    let mut string = |key: &str, value: &str| {
        message(out, 1, |out| {
            bytes(out, 1, format!("{prefix}.{key}").as_bytes());
            text(out, 3, value.as_bytes());
        });
    };
    string("program", process.program());
    string("sdk", &header.sdk);
    string("simulated", if header.simulated { "true" } else { "false" });
    string("host_hash", &format!("{:#x}", header.host_hash));
    string("boot_id", &hex(&header.boot_id));
    for (key, value) in &process.facts.metadata {
        string(&format!("metadata.{key}"), value);
    }
    for report in &process.reports {
        let session = report.id;
        string(&format!("session{session}.verdict"), report.verdict.name());
        string(&format!("session{session}.proof"), report.proof.name());
    }
    for damage in process.trace.damage() {
        string(&format!("damage.{}", damage.offset), &damage.cause);
    }
    let mut number = |key: &str, value: u64| {
        message(out, 1, |out| {
            bytes(out, 1, format!("{prefix}.{key}").as_bytes());
            uint(out, 2, value);
        });
    };
    number("rank", i64::from(header.rank) as u64);
    number("os_pid", header.pid.into());
    number("process_start_ns", header.process_start_ns);
    number("vendor_to_boottime_ns", process.offset as u64);
    for report in &process.reports {
        let session = report.id;
        let mut number = |key: &str, value: u64| number(&format!("session{session}.{key}"), value);
        for (what, work) in [
            ("dispatches", &report.dispatches),
            ("copies", &report.copies),
        ] {
            number(&format!("{what}.issued"), work.issued);
            number(&format!("{what}.recorded"), work.recorded);
            number(
                &format!("{what}.retired_without_record"),
                work.retired_without_record,
            );
            number(&format!("{what}.missing"), work.missing());
        }
        number("api.recorded", report.api_recorded);
        number("api.open_at_stop", report.open_at_stop);
        number("low_watermark", report.low_watermark);
        number("high_watermark", report.high_watermark);
        number("late", report.late);
        if report.first_loss_ns != 0 {
            number("first_loss_ns", process.out_ns(report.first_loss_ns));
            number("last_loss_ns", process.out_ns(report.last_loss_ns));
        }
        for reason in strandline::loss::LossReason::ALL {
            number(&format!("lost.{}", reason.name()), report.lost.get(reason));
        }
        let flagged = &report.flagged;
        for (what, count) in [
            ("outside_window", flagged.outside_window),
            ("untimed", flagged.untimed),
            ("end_before_start", flagged.end_before_start),
            ("unknown_stream", flagged.unknown_stream),
            ("no_launch", flagged.no_launch),
        ] {
            number(&format!("flagged.{what}"), count);
        }
    }
}
