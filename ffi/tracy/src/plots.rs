//! Plots: how many dispatches of a queue are under way, and how much memory of a device is allocated.
//!
//! Tracy's client stamps a point of a plot with its own clock when it is sent, so a point stands where the bridge learnt of it: a
//! poll after the call that issued the work or allocated the memory, and a poll after the *record* of a completion came, which
//! is later than the completion. The zones say when work ran.
//!
//! Invariants
//! - P1 A dispatch counts from its issue to its completion, whichever the bridge sees first: two threads' records come in any
//!   order within two polls.
//! - P2 What will never end counts no longer than its session: its end takes it out, and so does a loss of records.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CStr, CString};

use strandline::record::{Kind, Record};

use crate::client::{Client, Unit};
use crate::names::Names;

/// Allocations that are remembered at most; further ones are not counted.
const LIVE_MAX: usize = 1 << 20;

/// What one plot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// Agent, queue.
    Depth(u64, u64),
    /// Agent.
    Memory(u64),
}

#[derive(Debug)]
struct Plot {
    /// Tracy knows a plot by the address of its name.
    name: &'static CStr,
    value: i64,
    /// What the profiler that is connected was told last.
    told: Option<i64>,
}

/// What is plotted.
#[derive(Debug, Default)]
pub(crate) struct Plots {
    plots: BTreeMap<What, Plot>,
    /// Dispatches under way: session and queue.
    issued: HashMap<u64, (u32, u64)>,
    /// Completions that came before their issue: in this poll, and in the one before (P1).
    early: [HashSet<u64>; 2],
    /// Allocations by address: agent and bytes.
    live: HashMap<u64, (u64, u64)>,
    /// Points sent.
    pub(crate) points: u64,
}

impl Plots {
    /// Takes a record. Queues and agents were announced before.
    pub(crate) fn take(&mut self, record: &Record<'_>, names: &Names) {
        match record.kind() {
            Some(Kind::Enqueue) => {
                let id = record.dispatch_id();
                let early = self.early.iter_mut().any(|early| early.remove(&id));
                if !early {
                    let place = (record.session(), record.queue());
                    if self.issued.insert(id, place).is_none() {
                        self.depth(place.1, names, 1);
                    }
                }
            }
            Some(Kind::Dispatch) => self.done(record.dispatch_id(), names, true),
            // Over without a record.
            Some(Kind::Retired) => self.done(record.word(2), names, false),
            Some(Kind::SessionEnd) => {
                let session = record.word(1) as u32;
                self.forget(names, |issued| issued == session);
            }
            Some(Kind::Alloc) => self.memory(record, names),
            _ => {}
        }
    }

    fn done(&mut self, id: u64, names: &Names, may_be_early: bool) {
        match self.issued.remove(&id) {
            Some((_, queue)) => self.depth(queue, names, -1),
            None if may_be_early => {
                self.early[0].insert(id);
            }
            None => {}
        }
    }

    fn depth(&mut self, queue: u64, names: &Names, by: i64) {
        let agent = names.agent_of(queue);
        self.add(What::Depth(agent, queue), names, by);
    }

    fn memory(&mut self, record: &Record<'_>, names: &Names) {
        let address = record.word(11);
        match record.operation() {
            // Allocated; as virtual memory.
            1 | 2 if self.live.len() < LIVE_MAX && names.is_gpu(record.agent()) => {
                let new = (record.agent(), record.bytes());
                if let Some((agent, bytes)) = self.live.insert(address, new) {
                    self.add(What::Memory(agent), names, -(bytes as i64));
                }
                self.add(What::Memory(new.0), names, new.1 as i64);
            }
            3 | 4 => {
                if let Some((agent, bytes)) = self.live.remove(&address) {
                    self.add(What::Memory(agent), names, -(bytes as i64));
                }
            }
            _ => {}
        }
    }

    /// Takes out the dispatches of some sessions.
    fn forget(&mut self, names: &Names, which: impl Fn(u32) -> bool) {
        let gone: Vec<u64> = self
            .issued
            .iter()
            .filter(|(_, (session, _))| which(*session))
            .map(|(&id, _)| id)
            .collect();
        for id in gone {
            self.done(id, names, false);
        }
    }

    /// Records were lost: completions may be among them.
    pub(crate) fn lost(&mut self, names: &Names) {
        self.forget(names, |_| true);
        self.early = Default::default();
    }

    fn add(&mut self, what: What, names: &Names, by: i64) {
        let plot = self.plots.entry(what).or_insert_with(|| {
            let text = match what {
                What::Depth(agent, queue) => names.queue(agent, queue) + ", dispatches under way",
                What::Memory(agent) => names.agent(agent) + ", memory allocated",
            };
            let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
            Plot {
                // The client reads it whenever a profiler asks. One for each queue and device.
                name: Box::leak(text.into_boxed_c_str()),
                value: 0,
                told: None,
            }
        });
        plot.value += by;
    }

    /// A profiler has connected: it knows nothing.
    pub(crate) fn restart(&mut self) {
        for plot in self.plots.values_mut() {
            plot.told = None;
        }
    }

    /// The end of a poll; `client` when points are wanted.
    pub(crate) fn send(&mut self, client: Option<&mut impl Client>) {
        self.early.swap(0, 1);
        self.early[0].clear();
        let Some(client) = client else { return };
        for (what, plot) in &mut self.plots {
            if plot.told == Some(plot.value) {
                continue;
            }
            if plot.told.is_none() {
                let unit = match what {
                    What::Depth(..) => Unit::Number,
                    What::Memory(_) => Unit::Bytes,
                };
                client.plot_unit(plot.name, unit);
            }
            client.plot(plot.name, plot.value);
            plot.told = Some(plot.value);
            self.points += 1;
        }
    }
}
