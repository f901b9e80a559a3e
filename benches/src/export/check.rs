//! What a writer writes is read back before it is timed: a small region's events, counted by kind, with their names and
//! correlation ids.

use std::collections::BTreeSet;

use serde_json::Value;
use strandline::Trace;
use strandline::record::Kind;

/// What a file says, or a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Calls.
    pub(super) calls: u64,
    /// Kernels.
    pub(super) kernels: u64,
    /// Copies.
    pub(super) copies: u64,
    /// Distinct names of kernels.
    names: BTreeSet<String>,
    /// Sum of the correlation ids of all of them.
    correlations: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{} calls, {} kernels of {} names, {} copies, correlation ids of {} together",
            self.calls,
            self.kernels,
            self.names.len(),
            self.copies,
            self.correlations
        )
    }
}

impl Counts {
    /// Counts an event of one of kineto's categories; others are not looked at.
    pub(super) fn add(&mut self, category: &str, name: &str, correlation: u64) {
        match category {
            "cuda_runtime" => self.calls += 1,
            "kernel" => {
                self.kernels += 1;
                if !self.names.contains(name) {
                    self.names.insert(name.to_owned());
                }
            }
            "gpu_memcpy" => self.copies += 1,
            _ => return,
        }
        self.correlations = self.correlations.wrapping_add(correlation);
    }

    /// What a region holds.
    pub(super) fn of(trace: &Trace) -> Self {
        let mut counts = Self::default();
        for entry in trace.entries() {
            let record = entry.record;
            let category = match record.kind() {
                Some(Kind::Api) => "cuda_runtime",
                Some(Kind::Dispatch) => "kernel",
                Some(Kind::Copy) => "gpu_memcpy",
                _ => continue,
            };
            let name = if category == "kernel" {
                super::synthetic::kernel_name(record.kernel_id())
            } else {
                String::new()
            };
            counts.add(category, &name, record.correlation_id());
        }
        counts
    }

    /// What a Chrome trace says: events of one row, or a begin and an end; as an object or a bare list.
    pub(super) fn of_json(bytes: &[u8]) -> Result<Self, String> {
        let file: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let rows = file.get("traceEvents").unwrap_or(&file);
        let rows = rows.as_array().ok_or("no list of events")?;
        let (mut counts, mut begins, mut ends) = (Self::default(), 0u64, 0u64);
        for row in rows {
            let text = |name: &str| row[name].as_str().unwrap_or("");
            match text("ph") {
                "E" => ends += 1,
                phase @ ("X" | "B") => {
                    begins += u64::from(phase == "B");
                    let correlation = match &row["args"]["correlation"] {
                        Value::String(text) => text.parse().ok(),
                        number => number.as_u64(),
                    };
                    counts.add(text("cat"), text("name"), correlation.unwrap_or(0));
                }
                _ => {}
            }
        }
        if begins == ends {
            Ok(counts)
        } else {
            Err(format!("{begins} begins and {ends} ends"))
        }
    }

    /// What our Perfetto file says: render stages are kernels and copies together, begun slices are calls.
    pub(super) fn of_our_packets(bytes: &[u8]) -> Result<(u64, u64), String> {
        let (mut slices, mut ends, mut stages) = (0u64, 0u64, 0);
        fields(bytes, &mut |number, packet| {
            if number != 1 {
                return Ok(());
            }
            fields(packet.bytes(), &mut |number, value| match number {
                53 => {
                    stages += 1;
                    Ok(())
                }
                11 => fields(value.bytes(), &mut |number, value| {
                    match (number, value) {
                        (9, Wire::Number(1)) => slices += 1,
                        (9, Wire::Number(2)) => ends += 1,
                        _ => {}
                    }
                    Ok(())
                }),
                _ => Ok(()),
            })
        })?;
        if slices == ends {
            Ok((slices, stages))
        } else {
            Err(format!("{slices} begins and {ends} ends"))
        }
    }

    /// Kernels and copies.
    pub(super) fn on_gpu(&self) -> u64 {
        self.kernels + self.copies
    }
}

/// A field's value.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => &[],
        }
    }
}

/// Walks a protobuf message.
fn fields<'a>(
    mut bytes: &'a [u8],
    each: &mut dyn FnMut(u64, Wire<'a>) -> Result<(), String>,
) -> Result<(), String> {
    fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = bytes.split_first().ok_or("a number that ends early")?;
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number of more than ten bytes".to_owned())
    }
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let mut take = |length: u64| {
            let (taken, rest) = bytes
                .split_at_checked(length as usize)
                .ok_or("a field that ends early")?;
            bytes = rest;
            Ok::<_, String>(Wire::Bytes(taken))
        };
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => take(8)?,
            2 => {
                let length = varint(&mut bytes)?;
                let (taken, rest) = bytes
                    .split_at_checked(length as usize)
                    .ok_or("a field that ends early")?;
                bytes = rest;
                Wire::Bytes(taken)
            }
            5 => take(4)?,
            wire => return Err(format!("a field of wire type {wire}")),
        };
        each(tag >> 3, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_too_few_or_a_changed_id_is_seen() {
        let row = |phase: &str, correlation: u64| {
            format!(
                r#"{{"ph":"{phase}","cat":"kernel","name":"k","args":{{"correlation":{correlation}}}}}"#
            )
        };
        let file = |rows: &[String]| Counts::of_json(format!("[{}]", rows.join(",")).as_bytes());
        let whole = file(&[row("X", 1), row("X", 2)]).unwrap();
        assert_eq!((whole.kernels, whole.correlations), (2, 3));
        assert_ne!(whole, file(&[row("X", 1)]).unwrap());
        assert_ne!(whole, file(&[row("X", 1), row("X", 3)]).unwrap());
        assert_eq!(
            whole,
            file(&[row("B", 1), row("E", 0), row("B", 2), row("E", 0)]).unwrap()
        );
        assert!(file(&[row("B", 1)]).is_err());
    }

    #[test]
    fn packets_are_walked_and_a_short_one_is_an_error() {
        // A packet with a slice's begin, one with its end, one with a render stage.
        let bytes = [10, 4, 90, 2, 72, 1, 10, 4, 90, 2, 72, 2, 10, 3, 0xaa, 3, 0];
        assert_eq!(Counts::of_our_packets(&bytes), Ok((1, 1)));
        assert!(Counts::of_our_packets(&bytes[..16]).is_err());
        assert!(Counts::of_our_packets(&bytes[..6]).is_err());
    }
}
