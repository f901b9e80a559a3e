//! What an export must keep, whatever the region says: its readers take the file, it does not depend on how many records
//! were held at once nor on whether tables of its ids had room, and parts hold what one file does.

use serde::de::IgnoredAny;
use strandline::Trace;
use strandline_exporters::{ExportError, ExportReport, Format, Options, export, export_to};

use crate::Input;

/// Exports the input and checks the bytes with `sound`.
pub fn keeps(input: &Input, format: Format, sound: fn(&[u8], &ExportReport)) {
    let traces = input.traces();
    if traces.is_empty() {
        return;
    }
    let options = Options {
        session: input.session,
        ..Options::default()
    };
    let Some((bytes, report)) = bytes_of(&traces, format, &options) else {
        return;
    };
    sound(&bytes, &report);
    if input.small {
        for table_bytes_max in [options.table_bytes_max, 0] {
            let small = Options {
                batch_records_max: 7,
                threads: input.threads,
                table_bytes_max,
                ..options
            };
            let (again, report_again) =
                bytes_of(&traces, format, &small).expect("it could be exported before");
            assert!(
                bytes == again,
                "stretches of 7 records, tables of {table_bytes_max} bytes give other bytes"
            );
            assert_eq!(report, report_again);
        }
    }
    if input.parts {
        in_parts(&traces, format, &options, &report, sound);
    }
}

/// Exports in parts of a third of the whole, or as small as is allowed: each is a file that readers take, and together
/// they hold as much.
fn in_parts(
    traces: &[Trace],
    format: Format,
    options: &Options<'_>,
    whole: &ExportReport,
    sound: fn(&[u8], &ExportReport),
) {
    let extension = match format {
        Format::Json => "json",
        _ => "pftrace",
    };
    let folder = std::env::temp_dir().join(format!("strandline-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the parts");
    let path = folder.join("parts").with_extension(extension);
    let mut limit = whole.bytes / 3 + 1;
    while limit < whole.bytes {
        let options = Options {
            part_bytes_max: Some(limit),
            ..*options
        };
        match export(traces, &path, &options) {
            Ok(report) => return check_parts(report, limit, whole, sound),
            // What each part repeats may take half of it.
            Err(ExportError::PartSize { needed, .. }) => {
                let left = std::fs::read_dir(&folder).expect("the folder").count();
                assert_eq!(left, 0, "a refused export leaves files");
                limit = (limit + limit / 8).max(2 * needed);
            }
            Err(error) => panic!("exporting in parts: {error}"),
        }
    }
}

fn check_parts(
    mut report: ExportReport,
    limit: u64,
    whole: &ExportReport,
    sound: fn(&[u8], &ExportReport),
) {
    for file in std::mem::take(&mut report.files) {
        let bytes = std::fs::read(&file).expect("the part");
        std::fs::remove_file(&file).expect("the part");
        assert!(bytes.len() as u64 <= limit, "{} bytes", bytes.len());
        let alone = ExportReport {
            bytes: bytes.len() as u64,
            ..ExportReport::default()
        };
        sound(&bytes, &alone);
    }
    assert_eq!(report.arrows + report.cut_arrows, whole.arrows);
    report.arrows = whole.arrows;
    (report.cut_arrows, report.cut_waits, report.bytes) = (0, 0, whole.bytes);
    assert_eq!(&report, whole, "the parts together, and one file");
}

fn bytes_of(
    traces: &[Trace],
    format: Format,
    options: &Options<'_>,
) -> Option<(Vec<u8>, ExportReport)> {
    let mut bytes = Vec::new();
    match export_to(traces, format, &mut bytes, options) {
        Ok(report) => Some((bytes, report)),
        Err(ExportError::NoSession { .. }) => None,
        Err(error) => panic!("exporting to memory: {error}"),
    }
}

/// A strict parser takes it: UTF-8, one value, nothing behind it. Its last line is the whole trace's.
pub fn json(bytes: &[u8], report: &ExportReport) {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    serde_json::from_str::<IgnoredAny>(text).expect("JSON");
    assert_eq!(report.bytes, bytes.len() as u64);
}

/// Every packet, and every message that we know to be one, ends where its length says.
pub fn perfetto(bytes: &[u8], report: &ExportReport) {
    assert_eq!(report.bytes, bytes.len() as u64);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (number, packet) = field(&mut rest);
        assert_eq!(number, 1, "a packet");
        let mut packet = packet.expect("a packet is bytes");
        let mut sequence = 0;
        while !packet.is_empty() {
            let before = packet;
            let (number, inner) = field(&mut packet);
            match (number, inner) {
                (10, None) => sequence = varint(&mut &before[1..]),
                // Clock snapshot, track event, interned data, track descriptor, render stage.
                (6 | 11 | 12 | 53 | 60, Some(mut message)) => {
                    while !message.is_empty() {
                        field(&mut message);
                    }
                }
                _ => {}
            }
        }
        assert_ne!(sequence, 0, "a packet has a sequence");
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for at in 0..10 {
        let (&byte, rest) = bytes.split_first().expect("a varint ends in its message");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

fn field<'a>(bytes: &mut &'a [u8]) -> (u64, Option<&'a [u8]>) {
    let tag = varint(bytes);
    let length = match tag & 7 {
        0 => {
            varint(bytes);
            return (tag >> 3, None);
        }
        1 => 8,
        2 => varint(bytes) as usize,
        5 => 4,
        other => panic!("wire type {other}"),
    };
    let (value, rest) = bytes
        .split_at_checked(length)
        .expect("a field ends in its message");
    *bytes = rest;
    (tag >> 3, Some(value))
}
