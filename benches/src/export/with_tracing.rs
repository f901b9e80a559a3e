//! The same events through tracing and tracing-chrome, as a program would that has no other writer: a span each, entered
//! and left at once, its fields as arguments.
//!
//! What it can't say: a time that the caller has (it reads its own clock when a span is entered and when it is left), a row
//! of its own (a span lies on the thread that made it), an arrow, a number as an argument (all of them become text), one
//! row for a begin and its end (it writes two). A name that is not known when the program is built comes from `name_fn`.

use std::cell::Cell;
use std::io::Write;
use std::sync::LazyLock;

use strandline::Trace;
use strandline::record::Kind;
use tracing_subscriber::layer::SubscriberExt;

use super::synthetic::{GRAPH, GRAPH_LAUNCH, kernel_name};

static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| (0..GRAPH).map(kernel_name).collect());

thread_local! {
    /// The name of the span that this thread is in.
    static NAME: Cell<&'static str> = const { Cell::new("") };
}

/// Writes the events; returns how many. `globally` makes its subscriber the process's, once: as a program has it, and
/// faster.
pub(super) fn tracing_to(
    trace: &Trace,
    sink: impl Write + Send + 'static,
    globally: bool,
) -> Result<u64, String> {
    LazyLock::force(&NAMES);
    let (layer, guard) = tracing_chrome::ChromeLayerBuilder::new()
        .writer(std::io::BufWriter::with_capacity(1 << 18, sink))
        .include_args(true)
        .include_locations(false)
        .name_fn(Box::new(|_| NAME.get().to_owned()))
        .build();
    let subscriber = tracing_subscriber::registry().with(layer);
    let events = if globally {
        tracing::subscriber::set_global_default(subscriber).map_err(|error| error.to_string())?;
        spans(trace)
    } else {
        tracing::subscriber::with_default(subscriber, || spans(trace))
    };
    // Waits for its writing thread.
    drop(guard);
    Ok(events)
}

fn spans(trace: &Trace) -> u64 {
    let mut events = 0;
    for entry in trace.entries() {
        let record = entry.record;
        let span = match record.kind() {
            Some(Kind::Api) => {
                let graph = record.operation() == u32::from(GRAPH_LAUNCH);
                NAME.set(if graph {
                    "hipGraphLaunch"
                } else {
                    "hipMemcpyAsync"
                });
                tracing::info_span!(
                    target: "cuda_runtime",
                    "call",
                    external = record.external_id(),
                    correlation = record.correlation_id(),
                )
            }
            Some(Kind::Dispatch) => {
                NAME.set(&NAMES[(record.kernel_id() % GRAPH) as usize]);
                tracing::info_span!(
                    target: "kernel",
                    "kernel",
                    external = record.external_id(),
                    correlation = record.correlation_id(),
                    device = 0u64,
                    stream = record.stream(),
                    grid = ?record.grid(),
                    block = ?record.block(),
                )
            }
            Some(Kind::Copy) => {
                NAME.set("Memcpy HtoD");
                tracing::info_span!(
                    target: "gpu_memcpy",
                    "copy",
                    external = record.external_id(),
                    correlation = record.correlation_id(),
                    device = 0u64,
                    stream = record.stream(),
                    bytes = record.bytes(),
                )
            }
            _ => continue,
        };
        events += 1;
        drop(span.entered());
    }
    events
}
