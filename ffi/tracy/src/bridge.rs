//! From records to messages.
//!
//! Tracy wants the zones of a context in the order of their times, and none that overlap. Records come in any order
//! (completions under backlog come newest first), and kernels of one queue may overlap. So zones wait for
//! [`Options::hold_ns`] and leave in the order of their starts; one that overlaps the last of its context goes to another
//! context of the same queue, its "lane", and one that is too late for every lane gets a lane too. Times are never changed.
//!
//! Invariants
//! - B1 A context is announced once in the life of the client, before its first zone, with its name. An on-demand client
//!   keeps both for every profiler.
//! - B2 A zone's four messages are sent together, and only while a profiler is connected (unless [`Options::always`]).
//! - B3 Within a context, times never go back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::rc::Rc;

use strandline::Runtime;
use strandline::record::{Kind, Record, flag};
use strandline::subscribe::{From, Lost, Subscriber};

use crate::client::{Client, Place};
use crate::names::{Kernel, Names};
use crate::plots::Plots;

/// How the bridge works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long zones wait, so that they can leave in order.
    pub hold_ns: u64,
    /// How long after a connection the first zone, and any new context, is sent: the client is then past its greeting, in
    /// which it hands over the contexts that it keeps.
    pub settle_ns: u64,
    /// How often contexts are calibrated.
    pub calibrate_ns: u64,
    /// Zones also while nobody is connected, for a client that is always on. It keeps them in its memory.
    pub always: bool,
    /// The first context number; further ones count down. Tracy's own C++ contexts count up from 0.
    pub first_context: u8,
    /// Zones that wait at most; further ones are dropped and counted.
    pub waiting_max: usize,
    /// Plots too: dispatches under way in each queue, memory allocated on each device.
    pub plots: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hold_ns: 200_000_000,
            settle_ns: 500_000_000,
            calibrate_ns: 1_000_000_000,
            always: false,
            first_context: u8::MAX,
            waiting_max: 1 << 20,
            plots: true,
        }
    }
}

/// What the bridge did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Zones sent.
    pub zones: u64,
    /// Contexts announced.
    pub contexts: u64,
    /// Connections seen.
    pub connections: u64,
    /// Work that came while nobody was connected.
    pub unconnected: u64,
    /// Work without usable times.
    pub untimed: u64,
    /// Work that found no context: all numbers are used.
    pub no_context: u64,
    /// Work beyond [`Options::waiting_max`].
    pub too_many: u64,
    /// Zones whose name was left out, because Tracy has no room for more places.
    pub unnamed: u64,
    /// Points of plots sent.
    pub points: u64,
}

/// Tracy numbers places with 16 bits, signed; the program's own need some.
const PLACES_MAX: usize = 30_000;
/// The queue number that stands for an agent's copies.
const COPIES: u64 = u64::MAX;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Kernel(u64),
    Copy(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Zone {
    start: u64,
    end: u64,
    agent: u64,
    queue: u64,
    work: Work,
}

#[derive(Debug)]
struct Context {
    number: u8,
    query: u16,
    /// The end of its last zone.
    end: u64,
    /// Vendor and CPU ns when it was announced.
    made: (u64, u64),
    calibrated: (u64, u64),
}

/// Feeds one client from one runtime. Not `Send`: it lives on the thread that polls it.
#[derive(Debug)]
pub struct Bridge<C> {
    client: C,
    subscriber: Subscriber,
    options: Options,
    names: Names,
    /// By agent and queue, one for each lane.
    contexts: HashMap<(u64, u64), Vec<Context>>,
    next_context: Option<u8>,
    queues_announced: usize,
    waiting: BinaryHeap<Reverse<Zone>>,
    places: HashSet<Rc<[u8]>>,
    /// CPU ns.
    connected_since: Option<u64>,
    calibrated_at: u64,
    counts: Counts,
    plots: Plots,
    /// What was lost when the plots were last told.
    lost: Lost,
}

impl<C: Client> Bridge<C> {
    /// A bridge for everything that comes from now on. Facts are known from the beginning.
    pub fn new(runtime: &'static Runtime, client: C, options: Options) -> Self {
        Self {
            client,
            subscriber: Subscriber::new(runtime, From::Now),
            options,
            names: Names::default(),
            contexts: HashMap::new(),
            next_context: Some(options.first_context),
            queues_announced: 0,
            waiting: BinaryHeap::new(),
            places: HashSet::new(),
            connected_since: None,
            calibrated_at: 0,
            counts: Counts::default(),
            plots: Plots::default(),
            lost: Lost::default(),
        }
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        Counts {
            points: self.plots.points,
            ..self.counts
        }
    }

    /// What the runtime reused before it was read.
    pub fn lost(&self) -> Lost {
        self.subscriber.lost()
    }

    /// The client.
    pub fn client(&self) -> &C {
        &self.client
    }

    /// The client.
    pub fn client_mut(&mut self) -> &mut C {
        &mut self.client
    }

    /// Takes what is new and sends what is due. About every millisecond. `vendor_ns` and `cpu_ns` are the time now, in
    /// the timeline's clock and in the CPU's.
    pub fn poll(&mut self, vendor_ns: u64, cpu_ns: u64) {
        self.follow_connection(cpu_ns);
        let wanted = self.options.always || self.connected_since.is_some();
        while let Some(item) = self.subscriber.next() {
            if self.options.plots {
                self.plots.take(&item.record, &self.names);
            }
            match zone(&item.record, &self.names) {
                Some(Ok(_)) if !wanted => self.counts.unconnected += 1,
                Some(Ok(_)) if self.waiting.len() >= self.options.waiting_max => {
                    self.counts.too_many += 1;
                }
                Some(Ok(zone)) => self.waiting.push(Reverse(zone)),
                Some(Err(Untimed)) => self.counts.untimed += 1,
                None => self.names.take(&item.record),
            }
        }
        let lost = self.subscriber.lost();
        if lost != self.lost {
            self.lost = lost;
            self.plots.lost(&self.names);
        }
        let is_greeting = self.is_greeting(cpu_ns);
        self.plots
            .send((wanted && !is_greeting).then_some(&mut self.client));
        if !is_greeting {
            self.announce_queues(vendor_ns, cpu_ns);
            if wanted {
                self.send_zones(vendor_ns, cpu_ns);
            }
        }
        self.calibrate(vendor_ns, cpu_ns);
    }

    /// Sends what still waits, for the end.
    pub fn finish(&mut self, vendor_ns: u64, cpu_ns: u64) {
        self.poll(vendor_ns, cpu_ns);
        self.send_zones(vendor_ns.saturating_add(self.options.hold_ns), cpu_ns);
    }

    fn follow_connection(&mut self, cpu_ns: u64) {
        match (self.client.is_connected(), self.connected_since) {
            (true, None) => {
                self.connected_since = Some(cpu_ns);
                self.counts.connections += 1;
                self.plots.restart();
                // A profiler knows of a context what it was announced with: calibration starts there again.
                for context in self.contexts.values_mut().flatten() {
                    context.calibrated = context.made;
                }
                self.calibrated_at = cpu_ns;
            }
            (false, Some(_)) => {
                self.connected_since = None;
                if !self.options.always {
                    self.counts.unconnected += self.waiting.len() as u64;
                    self.waiting.clear();
                }
            }
            _ => {}
        }
    }

    fn is_greeting(&self, cpu_ns: u64) -> bool {
        self.connected_since
            .is_some_and(|since| cpu_ns.saturating_sub(since) < self.options.settle_ns)
    }

    /// A context for each queue that is known, whether it has zones yet or not.
    fn announce_queues(&mut self, vendor_ns: u64, cpu_ns: u64) {
        while let Some(&(queue, agent)) = self.names.queues.get(self.queues_announced) {
            self.queues_announced += 1;
            if !self.contexts.contains_key(&(agent, queue)) {
                self.announce(agent, queue, vendor_ns, cpu_ns);
            }
        }
    }

    /// B1.
    fn announce(
        &mut self,
        agent: u64,
        queue: u64,
        vendor_ns: u64,
        cpu_ns: u64,
    ) -> Option<&mut Context> {
        let number = self.next_context?;
        self.next_context = number.checked_sub(1);
        let lanes = self.contexts.entry((agent, queue)).or_default();
        let mut name = match queue {
            COPIES => self.names.agent(agent) + ", copies",
            queue => self.names.queue(agent, queue),
        };
        if !lanes.is_empty() {
            name.push_str(&format!(" ({})", lanes.len() + 1));
        }
        self.client.new_context(number, vendor_ns as i64);
        self.client.context_name(number, name.as_bytes());
        self.counts.contexts += 1;
        lanes.push(Context {
            number,
            query: 0,
            end: 0,
            made: (vendor_ns, cpu_ns),
            calibrated: (vendor_ns, cpu_ns),
        });
        lanes.last_mut()
    }

    fn send_zones(&mut self, vendor_ns: u64, cpu_ns: u64) {
        let until = vendor_ns.saturating_sub(self.options.hold_ns);
        while let Some(Reverse(zone)) = self.waiting.peek()
            && zone.end <= until
        {
            let Some(Reverse(zone)) = self.waiting.pop() else {
                return;
            };
            self.send(&zone, vendor_ns, cpu_ns);
        }
    }

    fn send(&mut self, zone: &Zone, vendor_ns: u64, cpu_ns: u64) {
        let kernel = match zone.work {
            Work::Kernel(id) => self.names.kernel(id),
            Work::Copy(operation) => Rc::new(Kernel {
                name: copy_name(operation).into(),
                function: b"copy".into(),
                source: Vec::new(),
            }),
        };
        let mut place = Place {
            name: &kernel.name,
            function: &kernel.function,
            source: &kernel.source,
        };
        if !self.places.contains(kernel.name.as_slice()) {
            if self.places.len() >= PLACES_MAX {
                self.counts.unnamed += 1;
                place = Place {
                    name: b"(one of more kernels than Tracy has places for)",
                    function: b"",
                    source: b"",
                };
            } else {
                self.places.insert(kernel.name.as_slice().into());
            }
        }
        let key = (zone.agent, zone.queue);
        // B3: the first lane whose last zone has ended.
        let free = self
            .contexts
            .get(&key)
            .and_then(|lanes| lanes.iter().position(|lane| lane.end <= zone.start));
        let context = match free {
            Some(lane) => self.contexts.get_mut(&key).map(|lanes| &mut lanes[lane]),
            None => self.announce(zone.agent, zone.queue, vendor_ns, cpu_ns),
        };
        let Some(context) = context else {
            self.counts.no_context += 1;
            return;
        };
        let (begin, end) = (context.query, context.query.wrapping_add(1));
        context.query = context.query.wrapping_add(2);
        context.end = zone.end;
        let number = context.number;
        self.client.zone_begin(number, begin, place);
        self.client.zone_end(number, end);
        self.client.time(number, begin, zone.start as i64);
        self.client.time(number, end, zone.end as i64);
        self.counts.zones += 1;
    }

    fn calibrate(&mut self, vendor_ns: u64, cpu_ns: u64) {
        if self.connected_since.is_none()
            || self.is_greeting(cpu_ns)
            || cpu_ns.saturating_sub(self.calibrated_at) < self.options.calibrate_ns
        {
            return;
        }
        self.calibrated_at = cpu_ns;
        for context in self.contexts.values_mut().flatten() {
            let (vendor_before, cpu_before) = context.calibrated;
            // Tracy divides by what the GPU's clock advanced.
            if vendor_ns > vendor_before && cpu_ns > cpu_before {
                context.calibrated = (vendor_ns, cpu_ns);
                self.client.calibrate(
                    context.number,
                    vendor_ns as i64,
                    (cpu_ns - cpu_before) as i64,
                );
            }
        }
    }
}

struct Untimed;

/// The zone of a record of device work; `None` for any other record.
fn zone(record: &Record<'_>, names: &Names) -> Option<Result<Zone, Untimed>> {
    let (agent, queue, work) = match record.kind()? {
        Kind::Dispatch => (
            record.agent(),
            record.queue(),
            Work::Kernel(record.kernel_id()),
        ),
        Kind::Copy => {
            let (from, to) = (record.agent(), record.destination_agent());
            let gpu = if names.is_gpu(to) { to } else { from };
            (gpu, COPIES, Work::Copy(record.operation()))
        }
        _ => return None,
    };
    // case B11, B13: never placed at a time that is not one.
    if record.flags() & (flag::UNTIMED | flag::END_BEFORE_START) != 0
        || record.end() > i64::MAX as u64
    {
        return Some(Err(Untimed));
    }
    Some(Ok(Zone {
        start: record.start(),
        end: record.end(),
        agent,
        queue,
        work,
    }))
}

fn copy_name(operation: u32) -> &'static str {
    match operation {
        1 => "copy host to host",
        2 => "copy host to device",
        3 => "copy device to host",
        4 => "copy device to device",
        _ => "copy",
    }
}
