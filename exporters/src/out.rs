//! Where an export goes: files that appear whole or not at all.
//!
//! Each part is written to a temporary file in the target's own folder and gets its name only when all parts are written
//! and synced with the disk's idea of free space. Whatever fails, the temporary files go. Without `force` no file is
//! ever replaced, also when it appears while the export runs.
//!
//! Compression runs on threads of its own, over blocks that are handed back and forth; so does writing when the export
//! may have more than one thread.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use flate2::Crc;

use crate::export::{ExportError, Format, Options};
use crate::gzip::{Deflate, Member};

/// Bytes of one block given to the system or to the compressor at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks on their way to the thread that writes.
const BLOCKS_WAITING: usize = 4;

enum Sink<'a> {
    File(File),
    Thread(Option<WriterThread>),
    Writer(&'a mut dyn Write),
    WriterGzip(Box<(Deflate, Member<&'a mut dyn Write>)>),
}

impl std::fmt::Debug for Sink<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Thread(_) => "Thread",
            Self::Writer(_) => "Writer",
            Self::WriterGzip(_) => "WriterGzip",
        })
    }
}

/// A block on its way to the file: as it was, and compressed with its checksum where the file is.
type Ready = (Vec<u8>, Option<(Vec<u8>, Crc)>);

/// A thread that writes blocks to a file, and threads before it that compress them.
#[derive(Debug)]
struct WriterThread {
    /// To the compressors, which take turns, or to the one that writes.
    full: Vec<SyncSender<Vec<u8>>>,
    turn: usize,
    empty: Receiver<Vec<u8>>,
    /// None: it was waited for.
    thread: Option<JoinHandle<io::Result<()>>>,
    compressors: Vec<JoinHandle<()>>,
}

/// Where a compressor's blocks come from, and go to, and the thread.
type Compressor = (
    SyncSender<Vec<u8>>,
    Receiver<io::Result<Ready>>,
    JoinHandle<()>,
);

/// Starts a thread that gets blocks and compresses them.
fn start_compressor() -> io::Result<Compressor> {
    let (full, work) = sync_channel::<Vec<u8>>(1);
    let (done, ready) = sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("compress".to_owned())
        .spawn(move || {
            let mut deflate = Deflate::new();
            for block in work {
                let mut out = Vec::new();
                let result = deflate.block(&block, &mut out);
                let result = result.map(|crc| (block, Some((out, crc))));
                if done.send(result).is_err() {
                    // The one that writes has failed and says why.
                    break;
                }
            }
        })?;
    Ok((full, ready, thread))
}

impl WriterThread {
    /// `compressors` threads compress; with none the file gets the blocks as they are.
    fn start(mut file: File, compressors: usize) -> io::Result<Self> {
        let (mut full, mut ready) = (Vec::new(), Vec::new());
        let mut compressing = Vec::new();
        for _ in 0..compressors {
            let (give, take, thread) = start_compressor()?;
            full.push(give);
            ready.push(take);
            compressing.push(thread);
        }
        let mut plain = None;
        if compressors == 0 {
            let (give, take) = sync_channel::<Vec<u8>>(BLOCKS_WAITING);
            full.push(give);
            plain = Some(take);
        }
        let (back, empty) = sync_channel::<Vec<u8>>(BLOCKS_WAITING + 2);
        let give_back = move |block: Vec<u8>| {
            // Nobody waits for it when the export is done.
            let _ = back.try_send(block);
        };
        let thread = std::thread::Builder::new()
            .name("write".to_owned())
            .spawn(move || {
                if let Some(blocks) = plain {
                    for block in blocks {
                        file.write_all(&block)?;
                        give_back(block);
                    }
                    return Ok(());
                }
                let mut member = Member::new(file)?;
                // In the order in which they were handed out; the first that has no more is behind the last block.
                for turn in (0..ready.len()).cycle() {
                    let Ok(next) = ready[turn].recv() else { break };
                    let (block, compressed) = next?;
                    if let Some((bytes, crc)) = compressed {
                        member.add(&bytes, &crc)?;
                    }
                    give_back(block);
                }
                member.finish()
            })?;
        Ok(Self {
            full,
            turn: 0,
            empty,
            thread: Some(thread),
            compressors: compressing,
        })
    }

    /// Hands over a block.
    fn give(&mut self, block: Vec<u8>) -> bool {
        let turn = self.turn;
        self.turn = (turn + 1) % self.full.len();
        self.full[turn].send(block).is_ok()
    }

    /// All blocks were given: waits until they are written, and the threads are gone.
    fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    /// The threads have nothing more to come. Waits until they are gone, not only done: the host may unload what holds this
    /// code.
    fn end(&mut self) -> io::Result<()> {
        self.full.clear();
        let mut done = match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(done)) => done,
            Some(Err(_)) => Err(io::Error::other("the thread that writes has stopped")),
        };
        for compressor in self.compressors.drain(..) {
            // One that panicked left its block out.
            if compressor.join().is_err() && done.is_ok() {
                done = Err(io::Error::other("a thread that compresses has stopped"));
            }
        }
        done
    }
}

impl Drop for WriterThread {
    /// An export that failed: why was said by whatever failed first.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// One file that is being written.
#[derive(Debug)]
struct Part {
    target: PathBuf,
    temporary: PathBuf,
}

/// What an export writes to: one target, or several parts of it.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    /// What was appended and not yet handed on. Who appends to it calls [`Output::flow`].
    pub(crate) block: Vec<u8>,
    sink: Option<Sink<'a>>,
    target: PathBuf,
    /// True when files are written by a thread of their own.
    apart: bool,
    gzip: bool,
    /// Threads that compress.
    compressors: usize,
    force: bool,
    parts: Vec<Part>,
    part_bytes: u64,
    bytes: u64,
    /// Largest part; none: there is one part, of any size.
    part_bytes_max: Option<u64>,
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn part_path(target: &Path, number: usize) -> PathBuf {
    if number < 2 {
        return target.to_owned();
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = match name.rfind(".json") {
        Some(at) => name.split_at(at),
        None => name.split_at(name.rfind('.').unwrap_or(name.len())),
    };
    target.with_file_name(format!("{stem}.part{number}{extension}"))
}

impl<'a> Output<'a> {
    /// An output to a file and, if need be, further parts beside it.
    pub(crate) fn file(
        target: &Path,
        format: Format,
        options: &Options<'_>,
    ) -> Result<Self, ExportError> {
        let gzip = format == Format::JsonGz;
        let part_bytes_max = (options.part_bytes_max).unwrap_or_else(|| format.part_bytes_max());
        let mut output = Self {
            block: Vec::with_capacity(BLOCK_BYTES),
            sink: None,
            target: target.to_owned(),
            apart: gzip || options.threads > 1,
            gzip,
            compressors: if gzip { options.threads.max(1) } else { 0 },
            force: options.force,
            parts: Vec::new(),
            part_bytes: 0,
            bytes: 0,
            part_bytes_max: Some(part_bytes_max),
        };
        output.open_part()?;
        Ok(output)
    }

    /// An output to a stream; one part only.
    pub(crate) fn writer(writer: &'a mut dyn Write, gzip: bool) -> Result<Self, ExportError> {
        let sink = if gzip {
            let member = Member::new(writer).map_err(|error| ExportError::Io {
                doing: "writing",
                path: PathBuf::from("-"),
                error,
            })?;
            Sink::WriterGzip(Box::new((Deflate::new(), member)))
        } else {
            Sink::Writer(writer)
        };
        Ok(Self {
            block: Vec::with_capacity(BLOCK_BYTES),
            sink: Some(sink),
            target: PathBuf::from("-"),
            apart: false,
            gzip,
            compressors: 0,
            force: false,
            parts: Vec::new(),
            part_bytes: 0,
            bytes: 0,
            part_bytes_max: None,
        })
    }

    fn error(&self, doing: &'static str, error: io::Error) -> ExportError {
        ExportError::Io {
            doing,
            path: self
                .parts
                .last()
                .map_or_else(|| self.target.clone(), |part| part.target.clone()),
            error,
        }
    }

    fn open_part(&mut self) -> Result<(), ExportError> {
        let target = part_path(&self.target, self.parts.len() + 1);
        if !self.force && target.symlink_metadata().is_ok() {
            return Err(ExportError::Exists { path: target });
        }
        if target.is_dir() {
            return Err(ExportError::Io {
                doing: "writing",
                path: target,
                error: io::ErrorKind::IsADirectory.into(),
            });
        }
        let name = target
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut number = 0u32;
        let (file, temporary) = loop {
            let temporary =
                target.with_file_name(format!(".{name}.{}.{number}.tmp", std::process::id()));
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary)
            {
                Ok(file) => break (file, temporary),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => {
                    number += 1;
                }
                Err(error) => {
                    return Err(ExportError::Io {
                        doing: "creating",
                        path: target,
                        error,
                    });
                }
            }
        };
        self.parts.push(Part { target, temporary });
        self.part_bytes = 0;
        self.sink = Some(if self.apart {
            let thread = WriterThread::start(file, self.compressors)
                .map_err(|error| self.error("starting a thread for", error))?;
            Sink::Thread(Some(thread))
        } else {
            Sink::File(file)
        });
        Ok(())
    }

    /// Bytes appended to this part so far, before compression.
    #[inline]
    pub(crate) fn part_bytes(&self) -> u64 {
        self.part_bytes + self.block.len() as u64
    }

    /// Bytes appended to all parts, before compression.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.block.len() as u64
    }

    /// True when further parts can follow this one.
    pub(crate) fn is_splittable(&self) -> bool {
        self.part_bytes_max.is_some()
    }

    /// True when this part has no room for `more` bytes more.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.part_bytes_max
            .is_some_and(|most| self.part_bytes() + more as u64 > most)
    }

    /// Call when a part holds what every part begins with; `end_bytes` are those that each ends with.
    ///
    /// # Errors
    /// Together they take more than half of a part: an export could become thousands of parts that say the same and hold an
    /// event each.
    pub(crate) fn check_repeated(&self, end_bytes: usize) -> Result<(), ExportError> {
        let repeated = self.part_bytes() + end_bytes as u64;
        match self.part_bytes_max {
            Some(most) if repeated > most / 2 => Err(self.too_small(end_bytes)),
            _ => Ok(()),
        }
    }

    /// Says that a part must have room for `more` bytes more.
    pub(crate) fn too_small(&self, more: usize) -> ExportError {
        ExportError::PartSize {
            bytes_max: self.part_bytes_max.unwrap_or(u64::MAX),
            needed: self.part_bytes() + more as u64,
        }
    }

    /// Number of the part that is being written, from 1.
    pub(crate) fn part_number(&self) -> usize {
        self.parts.len().max(1)
    }

    /// The name that the part will have.
    pub(crate) fn part_name(&self) -> String {
        match self.parts.last() {
            Some(part) => file_name(&part.target),
            None => "-".to_owned(),
        }
    }

    /// The name that the part behind this one will have, if there is one.
    pub(crate) fn next_part_name(&self) -> String {
        file_name(&part_path(&self.target, self.parts.len() + 1))
    }

    /// As long as the name of any part.
    pub(crate) fn longest_part_name(&self) -> String {
        file_name(&part_path(&self.target, usize::MAX))
    }

    /// Hands the block on when it is full.
    #[inline]
    pub(crate) fn flow(&mut self) -> Result<(), ExportError> {
        if self.block.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Appends some bytes.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<(), ExportError> {
        while self.block.len() + bytes.len() >= BLOCK_BYTES {
            let (now, later) = bytes.split_at(BLOCK_BYTES.saturating_sub(self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            self.flush()?;
        }
        self.block.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends some bytes, without copying them where that can be. What is left in the vector means nothing.
    pub(crate) fn give(&mut self, bytes: &mut Vec<u8>) -> Result<(), ExportError> {
        if self.gzip {
            // What is compressed as one block must not depend on who gives how much at once.
            return self.append(bytes);
        }
        if !self.block.is_empty() {
            self.flush()?;
        }
        self.hand_on(bytes)
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let mut block = std::mem::take(&mut self.block);
        let handed = self.hand_on(&mut block);
        block.clear();
        self.block = block;
        handed
    }

    /// Hands some bytes on. What is left in the vector means nothing.
    fn hand_on(&mut self, bytes: &mut Vec<u8>) -> Result<(), ExportError> {
        let length = bytes.len() as u64;
        self.part_bytes += length;
        self.bytes += length;
        let written = match self.sink.as_mut() {
            Some(Sink::File(file)) => file.write_all(bytes),
            Some(Sink::Writer(writer)) => writer.write_all(bytes),
            Some(Sink::WriterGzip(gzip)) => {
                let (deflate, member) = &mut **gzip;
                let mut out = Vec::new();
                let crc = deflate.block(bytes, &mut out);
                crc.and_then(|crc| member.add(&out, &crc))
            }
            Some(Sink::Thread(thread)) => {
                let next = thread
                    .as_ref()
                    .and_then(|thread| thread.empty.try_recv().ok())
                    .unwrap_or_default();
                let block = std::mem::replace(bytes, next);
                let taken = thread.as_mut().is_some_and(|one| one.give(block));
                if taken {
                    Ok(())
                } else {
                    // The thread has ended early: its own error says why.
                    match thread.take().map(WriterThread::finish) {
                        Some(Err(error)) => Err(error),
                        _ => Err(io::Error::other("the thread that writes has stopped")),
                    }
                }
            }
            None => Ok(()),
        };
        written.map_err(|error| self.error("writing", error))
    }

    fn close_part(&mut self) -> Result<(), ExportError> {
        self.flush()?;
        let closed = match self.sink.take() {
            Some(Sink::Thread(Some(thread))) => thread.finish(),
            Some(Sink::Writer(writer)) => writer.flush(),
            Some(Sink::WriterGzip(gzip)) => gzip.1.finish(),
            _ => Ok(()),
        };
        closed.map_err(|error| self.error("writing", error))
    }

    /// Closes this part and opens the next one.
    pub(crate) fn next_part(&mut self) -> Result<(), ExportError> {
        self.close_part()?;
        self.open_part()
    }

    /// Closes the last part and gives all parts their names.
    pub(crate) fn commit(mut self) -> Result<(Vec<PathBuf>, u64), ExportError> {
        self.close_part()?;
        let mut named = Vec::new();
        while !self.parts.is_empty() {
            let part = &self.parts[0];
            if let Err(error) = give_name(part, self.force) {
                // What this call named goes again: all parts or none.
                for path in &named {
                    let _ = fs::remove_file(path);
                }
                return Err(if error.kind() == io::ErrorKind::AlreadyExists {
                    ExportError::Exists {
                        path: part.target.clone(),
                    }
                } else {
                    ExportError::Io {
                        doing: "naming",
                        path: part.target.clone(),
                        error,
                    }
                });
            }
            named.push(self.parts.remove(0).target);
        }
        if self.force && self.is_splittable() {
            // Parts of an earlier, longer export would look like ours.
            let mut number = named.len() + 1;
            while fs::remove_file(part_path(&self.target, number.max(2))).is_ok() {
                number = number.max(2) + 1;
            }
        }
        Ok((named, self.bytes))
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if let Some(Sink::Thread(Some(thread))) = self.sink.take() {
            let _ = thread.finish();
        }
        for part in &self.parts {
            let _ = fs::remove_file(&part.temporary);
        }
    }
}

fn give_name(part: &Part, force: bool) -> io::Result<()> {
    if force {
        return fs::rename(&part.temporary, &part.target);
    }
    match fs::hard_link(&part.temporary, &part.target) {
        Ok(()) => fs::remove_file(&part.temporary),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if part.target.symlink_metadata().is_ok() => {
            Err(io::ErrorKind::AlreadyExists.into())
        }
        // A file system without hard links.
        Err(_) => fs::rename(&part.temporary, &part.target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        let name = |target: &str, number| {
            part_path(Path::new(target), number)
                .to_string_lossy()
                .into_owned()
        };
        assert_eq!(name("/x/out.json", 1), "/x/out.json");
        assert_eq!(name("/x/out.json", 2), "/x/out.part2.json");
        assert_eq!(name("a.b.json.gz", 3), "a.b.part3.json.gz");
        assert_eq!(name("out.pftrace", 2), "out.part2.pftrace");
    }
}
