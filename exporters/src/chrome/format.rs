//! Makes events of records and decisions.

use std::io::Write;

use strandline::record::{Kind, Record, api_arg};

use crate::external::Externals;
use crate::model::{Process, copy_names};
use crate::order::Item;
use crate::pipeline::Formatter;
use crate::text::{
    Line, Moments, is_utf8, push_escaped, push_f64, push_hex, push_hex_bytes, push_micros, push_u64,
};

use super::args::{arrow_end, call_args, end_work, external_args, external_id, launch_args};
use super::texts::{Texts, named, shape_args};
use super::{ARROW, BY_ANCESTOR, Decision, NOTHING};

/// Makes events.
#[derive(Debug)]
pub(crate) struct Events {
    base_ns: u64,
    /// By process.
    texts: Vec<Texts>,
    moments: Moments,
    /// Arguments that most events do not have.
    rare_args: Vec<u8>,
}

impl Events {
    pub(super) fn new(processes: &[Process<'_>], base_ns: u64) -> Self {
        Self {
            base_ns,
            texts: processes.iter().map(Texts::new).collect(),
            moments: Moments::default(),
            rare_args: Vec::new(),
        }
    }

    fn call(
        &mut self,
        process: &Process<'_>,
        externals: &Externals,
        item: &Item<'_>,
        decision: Decision,
        line: &mut Line,
    ) {
        let (record, start, end) = (&item.record, item.place.start, item.place.end);
        let operation = process.operation(record);
        let correlation_id = record.correlation_id();
        let text = &self.texts[item.process()].operations[operation];
        let tid = u64::from(decision.tid);
        line.text(&text.head).number(tid).put(b",\"ts\":");
        let ts = times(line, &mut self.moments, (start - self.base_ns, end - start));
        external_id(line, record.external_id());
        line.text(&text.args);
        let correlation = placed(line, |line| {
            line.number(process.correlation(correlation_id));
        });
        external_args(line, &mut self.rare_args, externals, correlation_id);
        if record.word(8) & api_arg::LAUNCH != 0 {
            launch_args(line, record);
        }
        let rare = record.word(8) & !(api_arg::LAUNCH | api_arg::GRID_IN_ITEMS);
        if rare != 0 || record.return_value() != 0 || record.end() == 0 {
            self.rare_args.clear();
            call_args(&mut self.rare_args, record);
            line.text(&self.rare_args);
        }
        line.put(b"}}");
        if decision.flags & ARROW != 0 {
            line.put(b",\n{\"ph\":\"s\",\"id\":").again(correlation);
            line.put(b",\"pid\":").number(process.pid).put(b",\"tid\":");
            line.number(tid).put(b",\"ts\":").again(ts);
            line.put(b",\"cat\":\"ac2g\",\"name\":\"ac2g\"}");
        }
    }

    fn kernel(
        &mut self,
        process: &Process<'_>,
        externals: &Externals,
        item: &Item<'_>,
        decision: Decision,
        line: &mut Line,
    ) {
        let record = &item.record;
        // Every dispatch has two cells.
        let Some(words) = record.words().first_chunk::<16>() else {
            return;
        };
        let texts = &mut self.texts[item.process()];
        let row = decision.row as usize;
        let (at, is_new) = texts.kernel_numbers.of(words[6]);
        if is_new {
            texts.add_kernel(process, words[6]);
        }
        if !matches!(texts.streams.get(row), Some(Some(_))) {
            texts.add_stream(process, record, row);
        }
        let (Some(kernel), Some(Some(stream))) =
            (texts.kernels.get_mut(at), texts.streams.get_mut(row))
        else {
            return;
        };
        let shape = [words[11], words[12], words[13], words[14], words[15]];
        if (shape.iter().zip(&kernel.shape_of)).any(|(one, other)| one != other) {
            kernel.shape_of = shape;
            shape_args(&mut kernel.shape, process, record, &kernel.name);
        }
        stream.turn_to(process, decision.tid, words[9]);
        let (start, end) = (item.place.start, item.place.end);
        line.text(&kernel.name.head).text(&stream.head);
        let ts = times(line, &mut self.moments, (start - self.base_ns, end - start));
        external_id(line, words[7]);
        line.text(&stream.queue_args);
        let joined = target(record, decision.flags);
        let correlation = placed(line, |line| {
            line.number(process.correlation(joined));
        });
        line.text(&kernel.shape).number(words[5]);
        external_args(line, &mut self.rare_args, externals, joined);
        end_work(line, process, (joined, words[3]));
        if decision.flags & ARROW != 0 {
            arrow_end(line, correlation, &stream.head, ts);
        }
    }

    fn copy(
        &mut self,
        process: &Process<'_>,
        externals: &Externals,
        item: &Item<'_>,
        decision: Decision,
        line: &mut Line,
    ) {
        let (record, start, end) = (&item.record, item.place.start, item.place.end);
        let texts = &mut self.texts[item.process()];
        let row = decision.row as usize;
        if !matches!(texts.streams.get(row), Some(Some(_))) {
            texts.add_stream(process, record, row);
        }
        let Some(Some(stream)) = texts.streams.get_mut(row) else {
            return;
        };
        // Copies have no queue; kineto writes 0.
        stream.turn_to(process, decision.tid, 0);
        let (kind, copy_name) = copy_names(record.operation());
        line.text(b",\n{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"")
            .text(copy_name.as_bytes())
            .put(b"\",\"pid\":")
            .text(&stream.head);
        let ts = times(line, &mut self.moments, (start - self.base_ns, end - start));
        external_id(line, record.external_id());
        line.text(&stream.queue_args);
        let joined = target(record, decision.flags);
        let correlation = placed(line, |line| {
            line.number(process.correlation(joined));
        });
        let args = &mut self.rare_args;
        args.clear();
        args.extend_from_slice(b",\"kind\":\"");
        args.extend_from_slice(kind.as_bytes());
        args.extend_from_slice(b"\",\"bytes\":");
        push_u64(args, record.bytes());
        if end > start {
            args.extend_from_slice(b",\"memory bandwidth (GB/s)\":");
            push_f64(args, record.bytes() as f64 / (end - start) as f64);
        }
        if record.word(11) != 0 || record.word(12) != 0 {
            args.extend_from_slice(b",\"src\":");
            push_hex(args, record.word(11));
            args.extend_from_slice(b",\"dst\":");
            push_hex(args, record.word(12));
        }
        line.text(args);
        external_args(line, args, externals, joined);
        end_work(line, process, (joined, record.correlation_id()));
        if decision.flags & ARROW != 0 {
            arrow_end(line, correlation, &stream.head, ts);
        }
    }

    fn range(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        block: &mut Vec<u8>,
    ) {
        let (record, start, end) = (&item.record, item.place.start, item.place.end);
        let open = record.kind() == Some(Kind::OpenRange) || record.end() == 0;
        let names = &mut self.texts[item.process()].names;
        let text = names
            .entry(record.name_id())
            .or_insert_with(|| named("user_annotation", &process.name(record.name_id())));
        block.extend_from_slice(&text.head);
        push_u64(block, process.pid);
        block.extend_from_slice(b",\"tid\":");
        push_u64(block, decision.tid.into());
        block.extend_from_slice(b",\"ts\":");
        push_micros(block, start - self.base_ns);
        block.extend_from_slice(b",\"dur\":");
        push_micros(block, end - start);
        block.extend_from_slice(b",\"args\":{\"session\":");
        push_u64(block, record.session().into());
        block.extend_from_slice(&text.args);
        if open {
            block.extend_from_slice(b",\"open\":true");
        }
        block.extend_from_slice(b"}}");
    }

    fn mark(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        out: &mut Vec<u8>,
    ) {
        let record = &item.record;
        let place = (process.pid, decision.tid, item.place.start - self.base_ns);
        let args = &mut self.rare_args;
        args.clear();
        if record.kind() == Some(Kind::Scratch) {
            let what = match record.operation() {
                1 => "scratch alloc",
                2 => "scratch free",
                3 => "scratch reclaim",
                _ => "scratch",
            };
            let _ = write!(
                args,
                "\"bytes\":{},\"hsa_queue\":{},\"duration ns\":{}",
                record.bytes(),
                record.queue(),
                record.end().saturating_sub(record.start())
            );
            instant(out, what.as_bytes(), place, args);
            return;
        }
        let name = process.name(record.name_id());
        let _ = write!(args, "\"session\":{}", record.session());
        if !is_utf8(&name) {
            args.extend_from_slice(b",\"name bytes\":");
            push_hex_bytes(args, &name);
        }
        instant(out, &name, place, args);
    }
}

impl Formatter for Events {
    type Decision = Decision;

    #[inline]
    fn format(
        &mut self,
        process: &Process<'_>,
        externals: &Externals,
        item: &Item<'_>,
        decision: Decision,
        out: &mut Line,
    ) {
        if decision.flags & NOTHING != 0 {
            return;
        }
        match item.kind {
            Some(Kind::Api | Kind::OpenCall) => self.call(process, externals, item, decision, out),
            Some(Kind::Dispatch) => self.kernel(process, externals, item, decision, out),
            Some(Kind::Copy) => self.copy(process, externals, item, decision, out),
            Some(Kind::Range | Kind::OpenRange) => {
                out.by_vec(|out| self.range(process, item, decision, out));
            }
            Some(Kind::Mark | Kind::Scratch) => {
                out.by_vec(|out| self.mark(process, item, decision, out));
            }
            _ => {}
        }
    }
}

/// Appends something, and says where it lies.
#[inline]
fn placed(line: &mut Line, append: impl FnOnce(&mut Line)) -> (usize, usize) {
    let from = line.place();
    append(line);
    (from, line.place())
}

/// Appends a start and a length, ns, and the beginning of the arguments; where the start lies.
#[inline]
fn times(line: &mut Line, moments: &mut Moments, (start, length): (u64, u64)) -> (usize, usize) {
    let ts = placed(line, |line| moments.put(line, start));
    line.put(b",\"dur\":").micros(length);
    line.put(b",\"args\":{");
    ts
}

/// The call that work leads to.
#[inline]
pub(super) fn target(record: &Record<'_>, flags: u8) -> u64 {
    if flags & BY_ANCESTOR != 0 {
        record.ancestor_id()
    } else {
        record.correlation_id()
    }
}

/// An instant on a thread; the time is that of the output.
pub(super) fn instant(
    out: &mut Vec<u8>,
    name: &[u8],
    (pid, tid, time): (u64, u32, u64),
    args: &[u8],
) {
    out.extend_from_slice(
        b",\n{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"",
    );
    push_escaped(out, name);
    out.extend_from_slice(b"\",\"pid\":");
    push_u64(out, pid);
    out.extend_from_slice(b",\"tid\":");
    push_u64(out, tid.into());
    out.extend_from_slice(b",\"ts\":");
    push_micros(out, time);
    out.extend_from_slice(b",\"args\":{");
    out.extend_from_slice(args);
    out.extend_from_slice(b"}}");
}
