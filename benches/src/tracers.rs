//! Peers that are tracers in Rust: a span is a begin and an end, with two timestamps of their own.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::driver::{BURST, Peer, Producer};

/// Waits until `count` reaches `expected`.
fn settle(count: &AtomicU64, expected: u64, what: &str) -> Result<(), String> {
    let began = Instant::now();
    while count.load(Ordering::Acquire) < expected {
        if began.elapsed() > Duration::from_secs(10) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    match count.load(Ordering::Acquire) {
        found if found == expected => Ok(()),
        found => Err(format!("{found} of {expected} {what} came out")),
    }
}

/// fastrace: local spans under one root span a burst.
pub struct Fastrace {
    spans: Arc<AtomicU64>,
}

struct CountSpans(Arc<AtomicU64>);

impl fastrace::collector::Reporter for CountSpans {
    fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
        let spans = spans.iter().filter(|span| span.name == "append").count();
        self.0.fetch_add(spans as u64, Ordering::Release);
    }
}

impl Fastrace {
    /// Sets the process's reporter.
    pub fn new() -> Self {
        let spans = Arc::new(AtomicU64::new(0));
        let config =
            fastrace::collector::Config::default().report_interval(Duration::from_millis(1));
        fastrace::set_reporter(CountSpans(Arc::clone(&spans)), config);
        Self { spans }
    }
}

/// A thread's root span. Fields are dropped in order: the guard first.
#[derive(Default)]
pub struct FastraceProducer {
    guard: Option<fastrace::local::LocalParentGuard>,
    root: Option<fastrace::Span>,
}

impl Producer for FastraceProducer {
    #[inline(always)]
    fn append(&mut self, sequence: u64) -> bool {
        if sequence.is_multiple_of(BURST) {
            self.guard = None;
            let root = fastrace::Span::root("burst", fastrace::collector::SpanContext::random());
            self.guard = Some(root.set_local_parent());
            self.root = Some(root);
        }
        let span = fastrace::local::LocalSpan::enter_with_local_parent("append");
        drop(span);
        if sequence % BURST == BURST - 1 {
            self.guard = None;
            self.root = None;
        }
        true
    }
}

impl Peer for Fastrace {
    type Producer<'a> = FastraceProducer;

    fn producer(&self, _: usize) -> FastraceProducer {
        FastraceProducer::default()
    }

    fn drain(&self, _: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        Ok(())
    }

    fn drains_itself(&self) -> bool {
        true
    }

    fn settle(&self, appended: u64) -> Result<(), String> {
        fastrace::flush();
        settle(&self.spans, appended, "spans")
    }
}

/// tracing with tracing-chrome, into a sink that counts.
pub struct TracingChrome {
    begins: Arc<AtomicU64>,
    guard: Mutex<tracing_chrome::FlushGuard>,
}

/// Counts the begin events in the JSON that is written to it.
struct CountBegins {
    begins: Arc<AtomicU64>,
    tail: Vec<u8>,
}

const BEGIN: &[u8] = b"\"ph\":\"B\"";

impl Write for CountBegins {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.tail.extend_from_slice(bytes);
        let found = self
            .tail
            .windows(BEGIN.len())
            .filter(|window| *window == BEGIN)
            .count();
        self.begins.fetch_add(found as u64, Ordering::Release);
        let keep = self.tail.len().min(BEGIN.len() - 1);
        self.tail.drain(..self.tail.len() - keep);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl TracingChrome {
    /// Sets the process's subscriber.
    pub fn new() -> Result<Self, String> {
        use tracing_subscriber::layer::SubscriberExt;
        let begins = Arc::new(AtomicU64::new(0));
        let sink = CountBegins {
            begins: Arc::clone(&begins),
            tail: Vec::new(),
        };
        let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new()
            .writer(std::io::BufWriter::with_capacity(1 << 16, sink))
            .build();
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            begins,
            guard: Mutex::new(guard),
        })
    }
}

/// A thread that enters spans.
pub struct TracingProducer;

impl Producer for TracingProducer {
    #[inline(always)]
    fn append(&mut self, _: u64) -> bool {
        drop(tracing::info_span!("append").entered());
        true
    }
}

impl Peer for TracingChrome {
    type Producer<'a> = TracingProducer;

    fn producer(&self, _: usize) -> TracingProducer {
        TracingProducer
    }

    fn drain(&self, _: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        Ok(())
    }

    fn drains_itself(&self) -> bool {
        true
    }

    fn settle(&self, appended: u64) -> Result<(), String> {
        if let Ok(guard) = self.guard.lock() {
            guard.flush();
        }
        settle(&self.begins, appended, "spans")
    }
}
