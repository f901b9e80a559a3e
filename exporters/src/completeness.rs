//! The completeness report as JSON: what every JSON export carries in its top-level object `strandline`.
//!
//! Each part of an export has it, with all processes and sessions: `part` counts from 1. A part before the last one names the
//! file behind it (`next_part`), the last one says how many there are (`parts`) and what they hold together (`drawn`). An
//! export that is one file has `"part":1` and neither. Arrows whose ends lie in two parts are counted in the part of the later
//! end (`arrows_to_earlier_parts`), and all of them in the last one (`arrows_between_parts`).

use strandline::Work;
use strandline::loss::{LossReason, Losses};
use strandline::report::SessionReport;

use crate::export::ExportReport;
use crate::model::{Model, Process};
use crate::text::{push_hex, push_hex_bytes, push_i64, push_string, push_u64};

fn key(out: &mut Vec<u8>, name: &str) {
    if !matches!(out.last(), Some(b'{' | b'[')) {
        out.push(b',');
    }
    push_string(out, name.as_bytes());
    out.push(b':');
}

fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    key(out, name);
    push_u64(out, value);
}

fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    push_string(out, value.as_bytes());
}

fn boolean(out: &mut Vec<u8>, name: &str, value: bool) {
    key(out, name);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

fn object(out: &mut Vec<u8>, name: &str, fill: impl FnOnce(&mut Vec<u8>)) {
    key(out, name);
    out.push(b'{');
    fill(out);
    out.push(b'}');
}

fn work(out: &mut Vec<u8>, name: &str, work: &Work) {
    object(out, name, |out| {
        number(out, "issued", work.issued);
        number(out, "recorded", work.recorded);
        number(out, "retired_without_record", work.retired_without_record);
        number(out, "missing", work.missing());
    });
}

fn losses(out: &mut Vec<u8>, name: &str, lost: &Losses) {
    object(out, name, |out| {
        for reason in LossReason::ALL {
            number(out, reason.name(), lost.get(reason));
        }
    });
}

/// One session, with the names that `summary --json` uses.
fn session(out: &mut Vec<u8>, report: &SessionReport) {
    out.push(b'{');
    number(out, "id", report.id);
    text(out, "verdict", report.verdict.name());
    text(out, "proof", report.proof.name());
    work(out, "dispatches", &report.dispatches);
    work(out, "copies", &report.copies);
    object(out, "api", |out| {
        number(out, "recorded", report.api_recorded);
        number(out, "open_at_stop", report.open_at_stop);
    });
    number(out, "low_watermark", report.low_watermark);
    number(out, "high_watermark", report.high_watermark);
    number(out, "late", report.late);
    losses(out, "lost", &report.lost);
    if report.first_loss_ns != 0 {
        number(out, "first_loss_ns", report.first_loss_ns);
        number(out, "last_loss_ns", report.last_loss_ns);
    }
    object(out, "flagged", |out| {
        let flagged = &report.flagged;
        number(out, "outside_window", flagged.outside_window);
        number(out, "untimed", flagged.untimed);
        number(out, "end_before_start", flagged.end_before_start);
        number(out, "unknown_stream", flagged.unknown_stream);
        number(out, "no_launch", flagged.no_launch);
    });
    object(out, "window", |out| {
        number(out, "begin_ns", report.begin_ns);
        number(out, "end_ns", report.returned_ns);
    });
    boolean(out, "unfinished", report.unfinished);
    boolean(out, "retirement_off", report.retirement_off);
    out.push(b'}');
}

fn process(out: &mut Vec<u8>, process: &Process<'_>) {
    let header = process.trace.header();
    out.push(b'{');
    number(out, "pid", process.pid);
    number(out, "os_pid", header.pid.into());
    key(out, "rank");
    // No space behind the colon: a reader that looks for the text `"rank": ` must find the job's own entry.
    push_i64(out, header.rank.into());
    text(out, "program", process.program());
    key(out, "host_hash");
    push_hex(out, header.host_hash);
    key(out, "boot_id");
    push_hex_bytes(out, &header.boot_id);
    number(out, "start_ns", header.process_start_ns);
    boolean(out, "simulated", header.simulated);
    text(out, "sdk", &header.sdk);
    number(out, "sdk_version", header.sdk_version.into());
    number(out, "runtime_version", header.runtime_version.into());
    text(out, "mode", header.mode.name());
    key(out, "vendor_to_output_ns");
    push_i64(out, process.offset);
    key(out, "clock_anchors");
    out.push(b'[');
    for anchor in process.clock_anchors() {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        out.push(b'{');
        number(out, "vendor_ns", anchor.vendor_ns);
        number(out, "boottime_ns", anchor.boottime_ns);
        number(out, "monotonic_ns", anchor.monotonic_ns);
        number(out, "monotonic_raw_ns", anchor.monotonic_raw_ns);
        number(out, "realtime_ns", anchor.realtime_ns);
        out.push(b'}');
    }
    out.push(b']');
    key(out, "sessions");
    out.push(b'[');
    for report in &process.reports {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        session(out, report);
    }
    out.push(b']');
    losses(out, "lost", &process.trace.losses());
    let cost = process.trace.cost();
    object(out, "cost", |out| {
        number(out, "records", cost.records);
        number(out, "bytes", cost.bytes);
        number(out, "sampled_appends", cost.sampled_appends);
        number(out, "append_ns", cost.append_ns);
    });
    key(out, "damage");
    out.push(b'[');
    for damage in process.trace.damage() {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        push_string(out, damage.to_string().as_bytes());
    }
    out.push(b']');
    object(out, "metadata", |out| {
        for (name, value) in &process.facts.metadata {
            text(out, name, value);
        }
    });
    out.push(b'}');
}

/// Which part of an export says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// From 1.
    pub(crate) number: usize,
    /// The file behind it, if there is one.
    pub(crate) next: Option<&'a str>,
    /// Arrows between this part and earlier ones, which are not drawn.
    pub(crate) cut_arrows: u64,
}

/// What every part of an export says of its completeness: all processes and sessions.
#[derive(Debug)]
pub(crate) struct Completeness {
    processes: Vec<u8>,
    untimed: u64,
    end_before_start: u64,
    outside_window: u64,
}

impl Completeness {
    /// `report`: what was found before anything was drawn.
    pub(crate) fn new(model: &Model<'_>, report: &ExportReport) -> Self {
        let mut processes = b"[".to_vec();
        for one in &model.processes {
            if processes.last() != Some(&b'[') {
                processes.push(b',');
            }
            process(&mut processes, one);
        }
        processes.push(b']');
        Self {
            processes,
            untimed: report.untimed,
            end_before_start: report.end_before_start,
            outside_window: report.outside_window,
        }
    }

    /// Bytes that the object takes at most, without the next part's name.
    pub(crate) fn bytes_max(&self) -> usize {
        self.processes.len() + 1024
    }

    /// The object of one part. `drawn` is for the last one: what all parts hold.
    pub(crate) fn push(&self, out: &mut Vec<u8>, place: &Place<'_>, drawn: Option<&ExportReport>) {
        let is_one_of_several = place.number > 1 || place.next.is_some();
        out.push(b'{');
        text(out, "schema", "strandline.export/1");
        number(out, "part", place.number as u64);
        match place.next {
            Some(next) => text(out, "next_part", next),
            None if is_one_of_several => number(out, "parts", place.number as u64),
            None => {}
        }
        key(out, "processes");
        out.extend_from_slice(&self.processes);
        if let Some(report) = drawn {
            object(out, "drawn", |out| {
                number(out, "calls", report.calls);
                number(out, "kernels", report.kernels);
                number(out, "copies", report.copies);
                number(out, "ranges", report.ranges);
                number(out, "instants", report.instants);
                number(out, "arrows", report.arrows);
                number(out, "overlaps", report.overlaps);
                number(out, "host_overlaps", report.host_overlaps);
                number(out, "before_launch", report.before_launch);
                number(out, "unlinked", report.unlinked);
            });
        }
        object(out, "not_drawn", |out| {
            number(out, "untimed", self.untimed);
            number(out, "end_before_start", self.end_before_start);
            number(out, "outside_window", self.outside_window);
            if is_one_of_several {
                number(out, "arrows_to_earlier_parts", place.cut_arrows);
                if let Some(report) = drawn {
                    number(out, "arrows_between_parts", report.cut_arrows);
                }
            }
        });
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_object_has_room() {
        const MOST: u64 = u64::MAX;
        let completeness = Completeness {
            processes: b"[]".to_vec(),
            untimed: MOST,
            end_before_start: MOST,
            outside_window: MOST,
        };
        let report = ExportReport {
            calls: MOST,
            kernels: MOST,
            copies: MOST,
            ranges: MOST,
            instants: MOST,
            arrows: MOST,
            cut_arrows: MOST,
            overlaps: MOST,
            host_overlaps: MOST,
            before_launch: MOST,
            unlinked: MOST,
            ..ExportReport::default()
        };
        for (next, drawn) in [(Some(""), None), (None, Some(&report))] {
            let place = Place {
                number: usize::MAX,
                next,
                cut_arrows: MOST,
            };
            let mut out = Vec::new();
            completeness.push(&mut out, &place, drawn);
            assert!(out.len() <= completeness.bytes_max(), "{}", out.len());
        }
    }
}
