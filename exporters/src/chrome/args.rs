//! Arguments of events.

use strandline::record::{Kind, Record, api_arg, high, low};

use crate::external::Externals;
use crate::model::Process;
use crate::text::{Line, push_hex, push_i64, push_u64};

/// External ids of the domains that kineto's dialect has no name for; `spare` is room for them.
#[inline]
pub(super) fn external_args(
    line: &mut Line,
    spare: &mut Vec<u8>,
    externals: &Externals,
    correlation_id: u64,
) {
    if externals.is_empty() {
        return;
    }
    spare.clear();
    for (domain, id) in externals.of(correlation_id) {
        spare.extend_from_slice(b",\"External id (domain ");
        push_u64(spare, domain.into());
        spare.extend_from_slice(b")\":");
        push_u64(spare, id);
    }
    line.text(spare);
}

/// The external id, if there is one.
#[inline]
pub(super) fn external_id(line: &mut Line, id: u64) {
    if id != 0 {
        line.put(b"\"External id\":").number(id).put(b",");
    }
}

/// The end of device work that is joined to a call, with its own id if that is another.
#[inline]
pub(super) fn end_work(line: &mut Line, process: &Process<'_>, (joined, own): (u64, u64)) {
    if joined != own {
        line.put(b",\"own correlation\":");
        line.number(process.correlation(own));
    }
    line.put(b"}}");
}

/// The end of an arrow on device work; the id and the time are those of its event.
#[inline]
pub(super) fn arrow_end(line: &mut Line, id: (usize, usize), head: &[u8], time: (usize, usize)) {
    line.put(b",\n{\"ph\":\"f\",\"id\":").again(id);
    line.put(b",\"pid\":").text(head).again(time);
    line.put(b",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
}

/// Sizes of a launch, in work-groups.
#[inline]
pub(super) fn launch_args(line: &mut Line, record: &Record<'_>) {
    let word = record.word(15);
    let size = [word as u16, (word >> 16) as u16, (word >> 32) as u16].map(u32::from);
    let mut grid = [
        low(record.word(13)),
        high(record.word(13)),
        low(record.word(14)),
    ];
    if record.word(8) & api_arg::GRID_IN_ITEMS != 0 {
        grid = std::array::from_fn(|axis| grid[axis].div_ceil(size[axis].max(1)));
    }
    line.put(b",\"grid\":").triple(grid);
    line.put(b",\"block\":").triple(size);
    line.put(b",\"shared memory\":");
    line.number(high(record.word(14)).into());
}

/// What a call's other arguments say.
pub(super) fn call_args(block: &mut Vec<u8>, record: &Record<'_>) {
    let mask = record.word(8);
    if mask & api_arg::BYTES != 0 {
        block.extend_from_slice(b",\"bytes\":");
        push_u64(block, record.word(9));
    }
    if mask & api_arg::COPY_KIND != 0 {
        block.extend_from_slice(b",\"copy kind\":");
        push_u64(block, low(record.word(12)).into());
    }
    if mask & api_arg::SOURCE != 0 {
        block.extend_from_slice(b",\"src\":");
        push_hex(block, record.word(11));
    }
    for (bit, key) in [
        (api_arg::DESTINATION, &b",\"dst\":"[..]),
        (api_arg::GRAPH, b",\"graph\":"),
        (api_arg::EVENT, b",\"event\":"),
    ] {
        if mask & bit != 0 {
            block.extend_from_slice(key);
            push_hex(block, record.word(10));
        }
    }
    if record.return_value() != 0 {
        block.extend_from_slice(b",\"return\":");
        push_i64(block, record.return_value().into());
    }
    if matches!(record.kind(), Some(Kind::OpenCall)) || record.end() == 0 {
        block.extend_from_slice(b",\"open\":true");
    }
}
