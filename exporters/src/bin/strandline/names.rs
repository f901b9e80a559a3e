//! Names for people: what records refer to by number.

use strandline::facts::Facts;
use strandline::record::{Kind, flag};
use strandline_exporters::demangle::{display_name, strip_descriptor};

/// A kernel's mangled name without the suffix of its descriptor symbol, or `None` when the symbol is not in the trace.
pub(crate) fn mangled(facts: &Facts, kernel_id: u64) -> Option<String> {
    Some(match facts.kernel_name(kernel_id) {
        Some(bytes) => String::from_utf8_lossy(strip_descriptor(bytes)).into_owned(),
        None => facts.text(facts.kernels.get(&kernel_id)?.name),
    })
}

/// The names of a record's flags, in the order of their bits.
pub(crate) const FLAGS: [(u16, &str); 8] = [
    (flag::UNTIMED, "untimed"),
    (flag::END_BEFORE_START, "end_before_start"),
    (flag::OUTSIDE_WINDOW, "outside_window"),
    (flag::UNKNOWN_STREAM, "unknown_stream"),
    (flag::NO_LAUNCH, "no_launch"),
    (flag::OPEN, "open"),
    (flag::CUT, "cut"),
    (flag::PARTIAL, "partial"),
];

/// The name of a record's kind, or `None` for cells that only say how to read others.
pub(crate) fn kind(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Api | Kind::OpenCall => "api",
        Kind::Enqueue => "enqueue",
        Kind::Dispatch => "dispatch",
        Kind::CopyIssue => "copy_issue",
        Kind::Copy => "copy",
        Kind::Alloc => "alloc",
        Kind::Scratch => "scratch",
        Kind::Range | Kind::OpenRange => "range",
        Kind::Mark => "mark",
        Kind::RangeStart => "range_start",
        Kind::RangeStop => "range_stop",
        _ => return None,
    })
}

/// What a copy, allocation or scratch operation is called; the numbers are the SDK's.
pub(crate) fn device_operation(kind: Kind, operation: u32) -> String {
    let names: &[&str] = match kind {
        Kind::Copy | Kind::CopyIssue => &[
            "None",
            "HostToHost",
            "HostToDevice",
            "DeviceToHost",
            "DeviceToDevice",
        ],
        Kind::Alloc => &["None", "Allocate", "VmemAllocate", "Free", "VmemFree"],
        _ => &["None", "Alloc", "Free", "AsyncReclaim"],
    };
    match names.get(operation as usize) {
        Some(&name) => name.to_owned(),
        None => format!("operation {operation}"),
    }
}

/// A kernel's name as people write it; what is not mangled stays as it is.
pub(crate) fn demangled(mangled: &str) -> String {
    String::from_utf8_lossy(&display_name(mangled.as_bytes())).into_owned()
}

/// A boot id as the kernel prints it.
pub(crate) fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_reads_as_in_proc() {
        let bytes = [
            0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17,
            0x40, 0x00,
        ];
        assert_eq!(uuid(&bytes), "123e4567-e89b-12d3-a456-426614174000");
    }
}
