//! The bridge's messages, judged by what Tracy's server asserts.

use std::collections::HashMap;
use std::ffi::CStr;
use std::path::PathBuf;
use std::time::Duration;

use strandline::events::{AgentFact, DispatchDone, DispatchIssue, Ids, KernelFact, MemoryEvent};
use strandline::settings::Settings;
use strandline::{Runtime, Token, Vendor};
use strandline_tracy::{Bridge, Client, Options, Place, Unit};

const SECOND: u64 = 1_000_000_000;

/// Says what Tracy would do: a message that its server's assertions refuse fails the test.
#[derive(Debug, Default)]
struct Fake {
    connected: bool,
    /// Contexts and names that the on-demand client keeps for every profiler.
    kept: Vec<(u8, Vec<u8>)>,
    profiler: Profiler,
    /// Zones that were sent to nobody.
    unheard: usize,
}

#[derive(Debug, Default)]
struct Profiler {
    contexts: HashMap<u8, Context>,
    calibrations: Vec<(u8, i64, i64)>,
    plots: HashMap<usize, Plot>,
}

/// By the address of its name, as Tracy does.
#[derive(Debug)]
struct Plot {
    name: String,
    unit: Unit,
    points: Vec<i64>,
}

#[derive(Debug, Default)]
struct Context {
    name: Vec<u8>,
    open: Vec<usize>,
    /// Zone of a query that waits for its time.
    queries: HashMap<u16, usize>,
    /// Name, times.
    zones: Vec<(Vec<u8>, Vec<i64>)>,
    last: i64,
}

impl Fake {
    fn connect(&mut self) {
        self.connected = true;
        self.profiler = Profiler::default();
        for (context, name) in &self.kept {
            let context = self.profiler.contexts.entry(*context).or_default();
            context.name.clone_from(name);
        }
    }

    fn zones(&self) -> Vec<(&[u8], &[u8], i64, i64)> {
        let mut zones: Vec<_> = self
            .profiler
            .contexts
            .values()
            .flat_map(|context| {
                assert!(context.open.is_empty() && context.queries.is_empty());
                context.zones.iter().map(|(name, times)| {
                    (context.name.as_slice(), name.as_slice(), times[0], times[1])
                })
            })
            .collect();
        zones.sort_by_key(|zone| zone.2);
        zones
    }
}

impl Client for Fake {
    fn is_connected(&self) -> bool {
        self.connected
    }

    fn new_context(&mut self, context: u8, _: i64) {
        assert!(
            !self.kept.iter().any(|(known, _)| *known == context),
            "context {context} again"
        );
        self.kept.push((context, Vec::new()));
        self.profiler.contexts.entry(context).or_default();
    }

    fn context_name(&mut self, context: u8, name: &[u8]) {
        let kept = self.kept.iter_mut().find(|(known, _)| *known == context);
        kept.expect("a name for no context").1 = name.to_vec();
        self.profiler.contexts.get_mut(&context).unwrap().name = name.to_vec();
    }

    fn zone_begin(&mut self, context: u8, query: u16, place: Place<'_>) {
        if !self.connected {
            self.unheard += 1;
            return;
        }
        let context = self
            .profiler
            .contexts
            .get_mut(&context)
            .expect("no context");
        let zone = context.zones.len();
        context.zones.push((place.name.to_vec(), Vec::new()));
        context.open.push(zone);
        assert!(
            context.queries.insert(query, zone).is_none(),
            "query {query} in use"
        );
    }

    fn zone_end(&mut self, context: u8, query: u16) {
        if self.connected {
            let context = self
                .profiler
                .contexts
                .get_mut(&context)
                .expect("no context");
            let zone = context.open.pop().expect("no open zone");
            assert!(
                context.queries.insert(query, zone).is_none(),
                "query {query} in use"
            );
        }
    }

    fn time(&mut self, context: u8, query: u16, gpu_ns: i64) {
        if self.connected {
            let context = self
                .profiler
                .contexts
                .get_mut(&context)
                .expect("no context");
            let zone = context.queries.remove(&query).expect("a time for no query");
            assert!(gpu_ns >= context.last, "time goes back");
            context.last = gpu_ns;
            context.zones[zone].1.push(gpu_ns);
        }
    }

    fn calibrate(&mut self, context: u8, gpu_ns: i64, cpu_ns: i64) {
        assert!(self.connected && self.profiler.contexts.contains_key(&context));
        self.profiler.calibrations.push((context, gpu_ns, cpu_ns));
    }

    fn plot_unit(&mut self, name: &'static CStr, unit: Unit) {
        assert!(self.connected);
        let plot = Plot {
            name: name.to_str().unwrap().to_owned(),
            unit,
            points: Vec::new(),
        };
        let known = self.profiler.plots.insert(name.as_ptr().addr(), plot);
        assert!(known.is_none(), "a plot twice in one connection");
    }

    fn plot(&mut self, name: &'static CStr, value: i64) {
        assert!(self.connected);
        let plot = self.profiler.plots.get_mut(&name.as_ptr().addr());
        plot.expect("a point of no plot").points.push(value);
    }
}

fn dispatch(runtime: &Runtime, id: u64, queue: u64, times: [u64; 2]) {
    let token = issue(runtime, id, queue);
    done(runtime, token, id, queue, times);
}

fn issue(runtime: &Runtime, id: u64, queue: u64) -> Token {
    runtime.dispatch_issue(&DispatchIssue {
        ids: Ids {
            correlation: id,
            ..Ids::default()
        },
        dispatch_id: id,
        kernel_id: 1 + id % 2,
        agent: 300,
        queue,
    })
}

fn done(runtime: &Runtime, token: Token, id: u64, queue: u64, [start_ns, end_ns]: [u64; 2]) {
    runtime.dispatch_done(
        token,
        &DispatchDone {
            ids: Ids {
                correlation: id,
                ..Ids::default()
            },
            dispatch_id: id,
            kernel_id: 1 + id % 2,
            agent: 300,
            queue,
            start_ns,
            end_ns,
            ..DispatchDone::default()
        },
    );
}

/// One process, one runtime: the parts follow each other.
#[test]
fn a_profiler_that_comes_late_or_again_gets_contexts_names_and_zones_in_order() {
    let mut settings = Settings::from_lookup(|_| None).unwrap();
    settings.budget_bytes = 16 << 20;
    settings.out = Some(
        PathBuf::from("/dev/shm").join(format!("strandline-tracy-{}.slt", std::process::id())),
    );
    let runtime = Runtime::make_global(settings, &Vendor::default()).unwrap();
    std::fs::remove_file(runtime.path()).unwrap();
    runtime.agent(&AgentFact {
        handle: 300,
        kind: 2,
        product: b"Some GPU",
        ..AgentFact::default()
    });
    runtime.agent(&AgentFact {
        handle: 301,
        kind: 1,
        ..AgentFact::default()
    });
    for (kernel_id, name) in [(1, b"_Z5firstPfi.kd".as_slice()), (2, b"second_kernel")] {
        runtime.kernel(&KernelFact {
            kernel_id,
            name,
            ..KernelFact::default()
        });
    }
    let session = runtime.session_open().unwrap();
    dispatch(runtime, 10, 3, [100, 200]);

    let mut bridge = Bridge::new(runtime, Fake::default(), Options::default());
    let mut now = 10 * SECOND;
    let mut run = |bridge: &mut Bridge<Fake>, seconds: u64| {
        for _ in 0..seconds * 10 {
            now += SECOND / 10;
            bridge.poll(now, now + 77);
        }
        now
    };
    // Nobody is there: contexts are announced, zones are not.
    let now = run(&mut bridge, 1);
    dispatch(runtime, 11, 3, [now, now + 10]);
    let now = run(&mut bridge, 1);
    assert_eq!(
        (bridge.client().kept.len(), bridge.client().unheard),
        (1, 0)
    );
    assert_eq!(bridge.counts().unconnected, 1);

    // Late: what comes from now on, in the order of the starts, with the names of kernels that were loaded at start.
    for round in 0..2 {
        bridge.client_mut().connect();
        let base = run(&mut bridge, 0).max(now) + round * 20 * SECOND;
        bridge.poll(base, base + 77);
        // Newest first, as the SDK delivers under backlog; the last two overlap.
        for (id, times) in [
            (25, [50, 90]),
            (24, [40, 60]),
            (23, [20, 30]),
            (22, [0, 10]),
        ] {
            dispatch(runtime, id, 3, times.map(|time| base + time));
        }
        dispatch(runtime, 26, 9, [base + 5, base + 7]);
        // case B11: no time.
        dispatch(runtime, 27, 3, [0, 0]);
        for step in 1..40 {
            let now = base + step * SECOND / 10;
            bridge.poll(now, now + 77);
        }
        let zones: Vec<_> = bridge
            .client()
            .zones()
            .into_iter()
            .map(|(context, name, start, end)| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                (
                    text(context),
                    text(name),
                    start - base as i64,
                    end - base as i64,
                )
            })
            .collect();
        let first = "first(float*, int)";
        let expected = [
            ("Some GPU #0, queue 3", first, 0, 10),
            ("Some GPU #0, queue 9", first, 5, 7),
            ("Some GPU #0, queue 3", "second_kernel", 20, 30),
            ("Some GPU #0, queue 3", first, 40, 60),
            ("Some GPU #0, queue 3 (2)", "second_kernel", 50, 90),
        ];
        let zones: Vec<_> = zones
            .iter()
            .map(|(context, name, start, end)| (context.as_str(), name.as_str(), *start, *end))
            .collect();
        assert_eq!(zones, expected);
        assert_eq!(bridge.counts().untimed, round + 1);
        assert_eq!(bridge.counts().connections, round + 1);
        // The first calibration of a connection counts from the announcement.
        let calibrations = &bridge.client().profiler.calibrations;
        let (_, gpu_ns, cpu_ns) = calibrations[0];
        assert!(
            cpu_ns > 0 && cpu_ns < gpu_ns && calibrations.len() >= 3,
            "{calibrations:?}"
        );

        bridge.client_mut().connected = false;
        bridge.poll(base + 5 * SECOND, base + 5 * SECOND + 77);
    }
    assert_eq!(
        (bridge.client().kept.len(), bridge.client().unheard),
        (3, 0)
    );
    assert_eq!(bridge.counts().contexts, 3);

    // A kernel that was never announced has a name all the same, and numbers of queries go round.
    bridge.client_mut().connect();
    let base = 100 * SECOND;
    bridge.poll(base, base + 77);
    for id in 0..40_000 {
        dispatch(runtime, 100 + id, 3, [base + id * 10, base + id * 10 + 5]);
    }
    bridge.poll(base + SECOND, base + SECOND + 77);
    bridge.finish(base + 2 * SECOND, base + 2 * SECOND + 77);
    assert_eq!(bridge.client().zones().len(), 40_000);
    assert_eq!(bridge.lost(), Default::default());

    let points = bridge.counts().points;
    // Plots: what is under way and what is allocated, also of the time when nobody was there; a value that stays is told once.
    bridge.client_mut().connected = false;
    let mut now = base + 10 * SECOND;
    let mut step = |bridge: &mut Bridge<Fake>, ns: u64| {
        now += ns;
        bridge.poll(now, now + 77);
    };
    step(&mut bridge, 1);
    let memory = |operation, bytes, address, agent| {
        let event = MemoryEvent {
            operation,
            bytes,
            address,
            agent,
            ..MemoryEvent::default()
        };
        runtime.alloc_done(runtime.token(1), &event);
    };
    let tokens: Vec<Token> = (0..3).map(|id| issue(runtime, 90_000 + id, 3)).collect();
    memory(1, 1 << 20, 0x1000, 300);
    step(&mut bridge, 1);
    bridge.client_mut().connect();
    step(&mut bridge, SECOND);
    step(&mut bridge, SECOND);
    // Before its issue is seen, a completion of another thread's: in this program there is one lane, so both in one poll.
    done(runtime, tokens[1], 90_001, 3, [1, 2]);
    memory(1, 1 << 10, 0x9000, 300);
    memory(1, 1 << 30, 0x7000, 301);
    step(&mut bridge, 1);
    step(&mut bridge, 1);
    memory(3, 0, 0x1000, 300);
    memory(3, 0, 0xbad, 300);
    step(&mut bridge, 1);
    let plots = |bridge: &Bridge<Fake>| {
        let plots = bridge.client().profiler.plots.values();
        let mut plots: Vec<_> = plots
            .map(|plot| (plot.name.clone(), plot.unit, plot.points.clone()))
            .collect();
        plots.sort_by(|one, other| one.0.cmp(&other.0));
        plots
    };
    let depth = "Some GPU #0, queue 3, dispatches under way".to_owned();
    let allocated = "Some GPU #0, memory allocated".to_owned();
    // Agent 301 is a CPU: its memory is no device's.
    let expected = vec![
        (
            allocated,
            Unit::Bytes,
            vec![1 << 20, (1 << 20) + (1 << 10), 1 << 10],
        ),
        (
            "Some GPU #0, queue 9, dispatches under way".to_owned(),
            Unit::Number,
            vec![0],
        ),
        (depth, Unit::Number, vec![3, 2]),
    ];
    let mut told = plots(&bridge);
    told.sort_by_key(|plot| plot.2.len());
    let mut expected = expected;
    expected.sort_by_key(|plot| plot.2.len());
    assert_eq!(told, expected);
    assert_eq!(bridge.counts().points - points, 6);

    // What never completes counts as long as its session.
    runtime
        .session_stop(session, Duration::from_millis(1), None)
        .unwrap();
    step(&mut bridge, 1);
    let last: Vec<i64> = plots(&bridge)
        .iter()
        .map(|plot| *plot.2.last().unwrap())
        .collect();
    assert_eq!(last, [1 << 10, 0, 0]);
    assert_eq!(bridge.lost(), Default::default());
}
