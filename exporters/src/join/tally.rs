//! What a pass over records notes of their ids, put together where records that follow each other have ids that do.

use super::launches::LaunchTable;
use super::pages::{GROUP_IDS, Ids, Pages, bit};
use super::shards::{Drawn, Feeder};
use super::words::Budget;

/// What is known of some ids of a group of 64, a bit each, or of one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note {
    /// There are recorded calls with them.
    Calls(u64, u64),
    /// So much drawn device work leads to one id.
    Work(u64, u32),
    /// They are ids of dispatches that are drawn.
    Drawn(u64, u64),
}

impl Note {
    #[inline]
    pub(super) fn group(&self) -> u64 {
        match *self {
            Self::Calls(group, _) | Self::Drawn(group, _) => group,
            Self::Work(id, _) => id / GROUP_IDS,
        }
    }

    #[inline]
    pub(super) fn add_to(self, pages: &mut Pages) {
        match self {
            Self::Calls(group, bits) => pages.add_calls(group, bits),
            Self::Work(id, more) => pages.add_work(id, more),
            Self::Drawn(..) => {}
        }
    }
}

/// Where notes go.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each thread")]
enum Sink {
    Own(Pages, Ids),
    Shared(Feeder),
    /// All is handed on.
    Nowhere,
}

/// Tally of one thread. Id 0 means "unknown" and joins nothing.
#[derive(Debug)]
pub(crate) struct Tally {
    sink: Sink,
    /// Ids that were noted and not yet handed on: their group, and a bit each. Calls are, one by one, where nobody shares.
    calls: (u64, u64),
    drawn: (u64, u64),
    /// The newest id that work leads to, and how much in a row.
    newest: (u64, u32),
}

impl Tally {
    /// For tables of its own.
    pub(crate) fn own(counted: bool, budget: &Budget) -> Self {
        Self::to(Sink::Own(
            Pages::new(counted, 0, budget.clone()),
            Ids::new(0, budget.clone()),
        ))
    }

    /// For tables that are shared with other threads.
    pub(crate) fn shared(feeder: Feeder) -> Self {
        Self::to(Sink::Shared(feeder))
    }

    fn to(sink: Sink) -> Self {
        Self {
            sink,
            calls: (0, 0),
            drawn: (0, 0),
            newest: (0, 0),
        }
    }

    /// There is a recorded call.
    #[inline]
    pub(crate) fn call(&mut self, id: u64) {
        let group = id / GROUP_IDS;
        if let Sink::Own(pages, _) = &mut self.sink {
            if id != 0 {
                pages.add_calls(group, bit(id));
            }
            return;
        }
        if group != self.calls.0 {
            self.give_calls();
            self.calls = (group, 0);
        }
        self.calls.1 |= bit(id);
    }

    /// Drawn device work leads to an id.
    #[inline]
    pub(crate) fn work(&mut self, id: u64) {
        if id == self.newest.0 {
            self.newest.1 += 1;
        } else {
            self.give_newest();
            self.newest = (id, 1);
        }
    }

    /// A dispatch is drawn.
    #[inline]
    pub(crate) fn drawn(&mut self, dispatch_id: u64) {
        let group = dispatch_id / GROUP_IDS;
        if group != self.drawn.0 {
            self.give_drawn();
            self.drawn = (group, 0);
        }
        self.drawn.1 |= bit(dispatch_id);
    }

    #[inline]
    fn give_newest(&mut self) {
        let (id, count) = self.newest;
        match &mut self.sink {
            _ if id == 0 => {}
            Sink::Own(pages, _) => pages.add_work(id, count),
            Sink::Shared(feeder) => feeder.add(Note::Work(id, count)),
            Sink::Nowhere => {}
        }
    }

    #[inline]
    fn give_calls(&mut self) {
        let (group, bits) = self.calls;
        let known = if group == 0 { bits & !1 } else { bits };
        match &mut self.sink {
            _ if known == 0 => {}
            Sink::Shared(feeder) => feeder.add(Note::Calls(group, known)),
            // Its own tables have them already.
            Sink::Own(..) | Sink::Nowhere => {}
        }
    }

    #[inline]
    fn give_drawn(&mut self) {
        let (group, bits) = self.drawn;
        match &mut self.sink {
            _ if bits == 0 => {}
            Sink::Own(_, drawn) => {
                if !drawn.insert_of(group, bits) {
                    drawn.give_up();
                }
            }
            Sink::Shared(feeder) => feeder.add(Note::Drawn(group, bits)),
            Sink::Nowhere => {}
        }
    }

    /// Hands on what is left, and gives its own tables.
    pub(crate) fn finish(&mut self) -> Option<(LaunchTable, Drawn)> {
        self.give_calls();
        self.give_newest();
        self.give_drawn();
        match std::mem::replace(&mut self.sink, Sink::Nowhere) {
            Sink::Own(pages, drawn) => Some((LaunchTable::of(vec![pages]), Drawn::of(vec![drawn]))),
            Sink::Shared(mut feeder) => {
                feeder.finish();
                None
            }
            Sink::Nowhere => None,
        }
    }
}
