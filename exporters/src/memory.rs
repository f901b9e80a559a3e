//! Device memory in use, as the allocation records tell it: a free says only the address.

use strandline::record::Record;

use crate::join::IdMap;

/// Operations of an allocation record that free.
const FREES: [u32; 2] = [3, 4];

/// What an allocation record changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Bytes more, or fewer.
    pub(crate) bytes: i64,
    /// Bytes in use on the agent after it, as far as the trace knows.
    pub(crate) total: u64,
    /// The agent.
    pub(crate) agent: u64,
}

/// Allocations that are alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    live: IdMap<u64, (u64, u64)>,
    totals: IdMap<u64, u64>,
}

impl Memory {
    /// Takes an allocation record; records come in the order of time.
    pub(crate) fn change(&mut self, record: &Record<'_>) -> Change {
        let address = record.word(11);
        let free = FREES.contains(&record.operation());
        let (bytes, agent) = if free {
            self.live
                .remove(&address)
                .unwrap_or((record.bytes(), record.agent()))
        } else {
            self.live.insert(address, (record.bytes(), record.agent()));
            (record.bytes(), record.agent())
        };
        let total = self.totals.entry(agent).or_insert(0);
        *total = if free {
            total.saturating_sub(bytes)
        } else {
            total.saturating_add(bytes)
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        Change {
            bytes: if free { -bytes } else { bytes },
            total: *total,
            agent,
        }
    }
}
