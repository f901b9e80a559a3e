//! Strandline through its public Rust API: one runtime a process, and the calls that are timed.

use std::path::PathBuf;
use std::time::Duration;

use strandline::collector::Collected;
use strandline::events::{DispatchDone, DispatchIssue, Ids, Operation};
use strandline::record::{Kind, Record, Records, domain};
use strandline::segment_entry::SegmentKind;
use strandline::settings::{Collector, Settings};
use strandline::{Runtime, Token, Vendor};

use crate::c_abi::Library;
use crate::driver::{Peer, Producer, Shape};
use crate::region_reader::RegionReader;

/// The process's runtime with a region of its own, whose file is gone as soon as it is mapped.
#[derive(Debug)]
pub struct Process {
    /// The runtime.
    pub runtime: &'static Runtime,
    /// Id of an interned name.
    pub name: u64,
    /// The region's file, still readable.
    pub file: std::fs::File,
}

/// A launch, as HIP numbers it.
const LAUNCH: Operation = Operation {
    domain: domain::RUNTIME,
    number: 214,
};

/// Where regions lie: on tmpfs, as by default.
pub fn region_path() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = PathBuf::from("/dev/shm");
    let dir = if dir.is_dir() {
        dir
    } else {
        std::env::temp_dir()
    };
    dir.join(format!(
        "strandline-bench-{}-{count}.slt",
        std::process::id()
    ))
}

impl Process {
    /// Makes the runtime, with its housekeeper.
    pub fn start_whole(budget_bytes: u64, mode: &'static str) -> Result<Self, String> {
        let process = Self::start_in(budget_bytes, mode)?;
        process
            .runtime
            .start_housekeeper(None, None)
            .map_err(|error| format!("starting the housekeeper: {error}"))?;
        Ok(process)
    }

    /// Makes the runtime; only what is backed at first can be used.
    pub fn start(budget_bytes: u64) -> Result<Self, String> {
        Self::start_in(budget_bytes, "window")
    }

    fn start_in(budget_bytes: u64, mode: &'static str) -> Result<Self, String> {
        let path = region_path();
        let mut settings = Settings::from_lookup(|name| match name {
            "STRANDLINE_OUT" => Some(path.clone().into_os_string()),
            "STRANDLINE_START" => Some("api".into()),
            "STRANDLINE_MODE" => Some(mode.into()),
            "STRANDLINE_BUDGET" => Some(budget_bytes.to_string().into()),
            // The rows time appends, not how fast the kernel makes pages for a machine full of producers.
            "STRANDLINE_PREFAULT" => Some("on".into()),
            _ => None,
        })
        .map_err(|error| error.to_string())?;
        if mode == "stream" {
            settings.collector = Collector::Host;
            settings.dir = path.with_extension("live");
        }
        let dir = settings.dir.clone();
        strandline::clock::is_tsc();
        let runtime = Runtime::make_global(settings, &Vendor::default())
            .map_err(|(_, why)| format!("making the runtime: {why}"))?;
        let file = std::fs::File::open(runtime.path())
            .map_err(|error| format!("opening {}: {error}", runtime.path().display()))?;
        let _ = std::fs::remove_file(runtime.path());
        if mode == "stream" {
            let _ = std::fs::remove_dir(dir);
        }
        let name = runtime.intern(b"bench");
        Ok(Self {
            runtime,
            name,
            file,
        })
    }

    /// Opens a session.
    pub fn open(&self) -> Result<u64, String> {
        self.runtime
            .session_open()
            .map_err(|status| format!("opening a session: {status:?}"))
    }

    /// Stops a session.
    pub fn stop(&self, session: u64) -> Result<(), String> {
        self.runtime
            .session_stop(session, Duration::from_secs(5), None)
            .map(drop)
            .map_err(|status| format!("stopping a session: {status:?}"))
    }

    /// Stops a session and checks that the trace holds at least `records` records of it and lost none.
    pub fn stop_and_count(&self, session: u64, records: u64) -> Result<(), String> {
        let end = self
            .runtime
            .session_stop(session, Duration::from_secs(5), None)
            .map_err(|status| format!("stopping a session: {status:?}"))?;
        let trace = self.runtime.trace().map_err(|error| error.to_string())?;
        let found = trace
            .entries()
            .filter(|entry| u64::from(entry.record.session()) == session)
            .count() as u64;
        if end.lost.total() != 0 || found < records {
            return Err(format!(
                "{found} of {records} records are in the trace, {} were lost",
                end.lost.total()
            ));
        }
        Ok(())
    }
}

/// The append that is timed: one record of one cell, with one timestamp.
#[inline(always)]
pub fn append(runtime: &Runtime, name: u64, sequence: u64, producer: u64) {
    runtime.instant(name, sequence, producer);
}

/// The same at a time that the caller has read already.
#[inline(always)]
pub fn append_at(runtime: &Runtime, name: u64, sequence: u64, producer: u64, ticks: u64) {
    runtime.instant_at(name, sequence, producer, ticks);
}

/// The out-of-line form.
#[inline(never)]
pub fn append_call(runtime: &Runtime, name: u64, sequence: u64, producer: u64) {
    runtime.instant(name, sequence, producer);
}

/// A whole API call, begin and end: one record with two timestamps, and the stack of open calls kept.
#[inline(always)]
pub fn api_pair(runtime: &Runtime, sequence: u64, producer: u64) {
    let ids = Ids {
        correlation: sequence,
        ancestor: producer,
        ..Ids::default()
    };
    let token = runtime.api_enter(LAUNCH, ids, 1);
    runtime.api_exit(token, LAUNCH, ids, 0, None);
}

/// A dispatch, issued and completed: a record of one cell and one of two.
#[inline(always)]
pub fn dispatch_pair(runtime: &Runtime, sequence: u64, producer: u64) {
    let ids = Ids {
        correlation: sequence,
        ancestor: producer,
        ..Ids::default()
    };
    let token = runtime.dispatch_issue(&DispatchIssue {
        ids,
        dispatch_id: sequence,
        kernel_id: 3,
        agent: 7,
        queue: 9,
    });
    dispatch_done(runtime, token, sequence, producer);
}

/// A dispatch's completion alone.
#[inline(always)]
pub fn dispatch_done(runtime: &Runtime, token: Token, sequence: u64, producer: u64) {
    let ids = Ids {
        correlation: sequence,
        ancestor: producer,
        ..Ids::default()
    };
    runtime.dispatch_done(
        token,
        &DispatchDone {
            ids,
            dispatch_id: sequence,
            kernel_id: 3,
            agent: 7,
            queue: 9,
            start_ns: 1_000,
            end_ns: 2_000,
            block: [64, 1, 1],
            grid: [4_096, 1, 1],
            private_bytes: 0,
            group_bytes: 512,
            graph: 0,
            node: 0,
        },
    );
}

/// Which call a producer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`append`].
    Append,
    /// [`append_at`].
    AppendAt,
    /// [`api_pair`].
    ApiPair,
    /// A dispatch's completion: two cells.
    Dispatch,
}

impl Call {
    /// The call that a row's shape asks for.
    pub fn of(shape: Shape) -> Self {
        match (shape.timestamps, shape.cells) {
            (_, 2) => Self::Dispatch,
            (0, _) => Self::AppendAt,
            (1, _) => Self::Append,
            _ => Self::ApiPair,
        }
    }
}

/// Ticks of records whose time the caller gives.
const GIVEN: u64 = 77;

/// Checks a record that came out of a region and says whose it is.
pub fn check(record: &Record<'_>, call: Call, name: u64) -> Result<(usize, u64), String> {
    let word = |index| record.word(index);
    let (kind, sequence, sound) = match call {
        Call::Append => (Kind::Mark, word(3), word(1) > GIVEN && word(6) == name),
        Call::AppendAt => (Kind::Mark, word(3), word(1) == GIVEN && word(6) == name),
        Call::ApiPair => (Kind::Api, word(3), word(1) > GIVEN && word(1) <= word(2)),
        Call::Dispatch => (
            Kind::Dispatch,
            word(5),
            (word(1), word(2), word(8), word(9)) == (1_000, 2_000, 7, 9),
        ),
    };
    let producer = word(4).wrapping_sub(1);
    if record.kind() == Some(kind) && sound && producer < 1 << 16 {
        Ok((producer as usize, sequence))
    } else {
        Err(format!("a record came out changed: {:x?}", record.words()))
    }
}

/// Strandline as a peer; `CALL` is a [`Call`].
#[derive(Debug)]
pub struct Ours<const CALL: u8> {
    process: Process,
    reader: RegionReader,
    session: u64,
}

impl<const CALL: u8> Ours<CALL> {
    /// Opens a session and the reader.
    pub fn new(process: Process) -> Result<Self, String> {
        let reader = RegionReader::open(&process.file)?;
        let session = process.open()?;
        Ok(Self {
            process,
            reader,
            session,
        })
    }

    fn call() -> Call {
        [Call::Append, Call::AppendAt, Call::ApiPair, Call::Dispatch][usize::from(CALL)]
    }
}

/// A producer: any thread.
#[derive(Debug)]
pub struct OurProducer<const CALL: u8> {
    runtime: &'static Runtime,
    name: u64,
    producer: u64,
    token: Token,
}

impl<const CALL: u8> Producer for OurProducer<CALL> {
    #[inline(always)]
    fn append(&mut self, sequence: u64) -> bool {
        match Ours::<CALL>::call() {
            Call::Append => append(self.runtime, self.name, sequence, self.producer),
            Call::AppendAt => {
                append_at(self.runtime, self.name, sequence, self.producer, GIVEN);
            }
            Call::ApiPair => api_pair(self.runtime, sequence, self.producer),
            Call::Dispatch => dispatch_done(self.runtime, self.token, sequence, self.producer),
        }
        true
    }
}

impl<const CALL: u8> Peer for Ours<CALL> {
    type Producer<'a> = OurProducer<CALL>;

    fn producer(&self, index: usize) -> OurProducer<CALL> {
        OurProducer {
            runtime: self.process.runtime,
            name: self.process.name,
            producer: index as u64 + 1,
            token: self.process.runtime.token(1),
        }
    }

    fn segment_records(&self) -> u64 {
        self.reader.segment_cells() as u64
    }

    fn lost(&self) -> Result<u64, String> {
        self.process
            .runtime
            .session_stop(self.session, Duration::from_secs(5), None)
            .map(|end| end.lost.total())
            .map_err(|status| format!("stopping a session: {status:?}"))
    }

    fn drain(&self, seen: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        self.reader.drain(|record| {
            let (producer, sequence) = check(&record, Self::call(), self.process.name)?;
            seen(producer, sequence);
            Ok(())
        })
    }
}

/// Strandline in stream mode: the consumer is the collector, which takes segments whole when they are sealed and gives
/// them back. With `PAIRS` each append is a dispatch, issued and completed, which the collector also notes for the books.
#[derive(Debug)]
pub struct Streamed<const PAIRS: bool> {
    process: Process,
    session: u64,
}

/// A producer: any thread.
#[derive(Debug)]
pub struct StreamedProducer<const PAIRS: bool> {
    runtime: &'static Runtime,
    name: u64,
    producer: u64,
}

impl<const PAIRS: bool> Producer for StreamedProducer<PAIRS> {
    #[inline(always)]
    fn append(&mut self, sequence: u64) -> bool {
        if PAIRS {
            dispatch_pair(self.runtime, sequence, self.producer);
        } else {
            append(self.runtime, self.name, sequence, self.producer);
        }
        true
    }
}

impl<const PAIRS: bool> Streamed<PAIRS> {
    /// Opens a session.
    pub fn new(process: Process) -> Result<Self, String> {
        let session = process.open()?;
        Ok(Self { process, session })
    }
}

impl<const PAIRS: bool> Peer for Streamed<PAIRS> {
    type Producer<'a> = StreamedProducer<PAIRS>;

    fn producer(&self, index: usize) -> StreamedProducer<PAIRS> {
        StreamedProducer {
            runtime: self.process.runtime,
            name: self.process.name,
            producer: index as u64 + 1,
        }
    }

    fn lost(&self) -> Result<u64, String> {
        let stopped = self
            .process
            .runtime
            .session_stop(self.session, Duration::from_secs(5), None);
        stopped
            .map(|end| end.lost.total())
            .map_err(|status| format!("stopping a session: {status:?}"))
    }

    fn drain(&self, seen: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        let (runtime, name) = (self.process.runtime, self.process.name);
        let mut wrong = Ok(());
        let mut sink = |collected: &Collected<'_>| {
            if collected.kind != SegmentKind::Records {
                return Ok(());
            }
            for record in Records::new(collected.words).map_while(Result::ok) {
                if matches!(record.kind(), Some(Kind::Thread | Kind::Enqueue)) {
                    continue;
                }
                let call = if PAIRS { Call::Dispatch } else { Call::Append };
                match check(&record, call, name) {
                    Ok((producer, sequence)) => seen(producer, sequence),
                    Err(why) => wrong = Err(why),
                }
            }
            Ok(())
        };
        // What is still open only when nothing else is there: at the end, and when producers are slow.
        let taken = match runtime.collect(16, &mut sink) {
            Ok(0) => runtime.collect_all(&mut sink),
            taken => taken,
        };
        taken.map_err(|status| format!("collecting: {status:?}"))?;
        wrong
    }
}

/// Strandline through C, as a peer.
#[derive(Debug)]
pub struct OursInC {
    library: Library,
    reader: RegionReader,
    name: u64,
}

impl OursInC {
    /// Opens a session and the reader.
    pub fn new(library: Library) -> Result<Self, String> {
        library.start()?;
        let file = library.file()?;
        let reader = RegionReader::open(&file)?;
        let name = library.name("bench");
        Ok(Self {
            library,
            reader,
            name,
        })
    }
}

impl Producer for (&OursInC, u64) {
    #[inline(always)]
    fn append(&mut self, sequence: u64) -> bool {
        self.0.library.mark(self.0.name, sequence, self.1);
        true
    }
}

impl Peer for OursInC {
    type Producer<'a> = (&'a OursInC, u64);

    fn producer(&self, index: usize) -> (&OursInC, u64) {
        (self, index as u64 + 1)
    }

    fn segment_records(&self) -> u64 {
        self.reader.segment_cells() as u64
    }

    fn drain(&self, seen: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        self.reader.drain(|record| {
            let (producer, sequence) = check(&record, Call::Append, self.name)?;
            seen(producer, sequence);
            Ok(())
        })
    }
}
