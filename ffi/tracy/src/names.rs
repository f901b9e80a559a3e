//! What the sticky log says: the names of kernels, agents and queues.

use std::collections::HashMap;
use std::rc::Rc;

use strandline::record::{Kind, Record, high, low};
use strandline_exporters::demangle;

/// A kernel's place, made once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) name: Vec<u8>,
    pub(crate) function: Vec<u8>,
    pub(crate) source: Vec<u8>,
}

#[derive(Debug)]
struct Agent {
    is_gpu: bool,
    index: u32,
    /// String ids: product, name.
    names: [u64; 2],
}

#[derive(Debug)]
struct Text {
    total: usize,
    bytes: Vec<u8>,
}

/// Facts that were announced so far. The first announcement counts: an id is given once in a process.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: HashMap<u64, Text>,
    agents: HashMap<u64, Agent>,
    /// Queues in the order in which they were announced, with their agents.
    pub(crate) queues: Vec<(u64, u64)>,
    /// Code object and string id of the name.
    symbols: HashMap<u64, (u64, u64)>,
    /// String id of the uri.
    code_objects: HashMap<u64, u64>,
    kernels: HashMap<u64, Rc<Kernel>>,
}

impl Names {
    /// Takes a fact.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        let word = |index| record.word(index);
        match record.kind() {
            Some(Kind::String) => self.take_text(record),
            Some(Kind::Agent) => {
                self.agents.entry(word(1)).or_insert(Agent {
                    is_gpu: low(word(2)) == 2,
                    index: high(word(3)),
                    names: [word(6), word(4)],
                });
            }
            Some(Kind::Queue) => {
                let queue = (word(1), word(2));
                if !self.queues.contains(&queue) {
                    self.queues.push(queue);
                }
            }
            Some(Kind::CodeObject) => {
                self.code_objects.entry(word(1)).or_insert(word(3));
            }
            Some(Kind::KernelSymbol) => {
                self.symbols.entry(word(1)).or_insert((word(2), word(3)));
            }
            _ => {}
        }
    }

    fn take_text(&mut self, record: &Record<'_>) {
        let (total, offset) = (low(record.word(2)) as usize, high(record.word(2)) as usize);
        let text = self.texts.entry(record.word(1)).or_insert_with(|| Text {
            total,
            bytes: Vec::new(),
        });
        // The parts of a string follow each other; a second announcement of it adds nothing.
        if offset != text.bytes.len() || total != text.total {
            return;
        }
        let part = total.saturating_sub(offset);
        let bytes = record.words()[3..]
            .iter()
            .flat_map(|word| word.to_le_bytes());
        text.bytes.extend(bytes.take(part));
    }

    fn text(&self, id: u64) -> Option<&[u8]> {
        self.texts.get(&id).map(|text| text.bytes.as_slice())
    }

    /// The place of a kernel: never nameless.
    pub(crate) fn kernel(&mut self, id: u64) -> Rc<Kernel> {
        if let Some(kernel) = self.kernels.get(&id) {
            return Rc::clone(kernel);
        }
        let symbol = self.symbols.get(&id);
        let name = symbol.and_then(|&(_, name)| self.text(name));
        let source = symbol
            .and_then(|(object, _)| self.code_objects.get(object))
            .and_then(|&uri| self.text(uri))
            .unwrap_or_default();
        let kernel = Rc::new(Kernel {
            name: match name {
                Some(name) => demangle::display_name(name),
                None => format!("kernel {id}").into_bytes(),
            },
            function: demangle::strip_descriptor(name.unwrap_or_default()).to_vec(),
            source: source.to_vec(),
        });
        // A name that has not come yet is asked for again.
        if name.is_some() {
            self.kernels.insert(id, Rc::clone(&kernel));
        }
        kernel
    }

    /// True for a GPU, and for an agent that was never announced.
    pub(crate) fn is_gpu(&self, agent: u64) -> bool {
        self.agents.get(&agent).is_none_or(|agent| agent.is_gpu)
    }

    /// The agent of a queue, 0 = not announced.
    pub(crate) fn agent_of(&self, queue: u64) -> u64 {
        let known = self.queues.iter().find(|known| known.0 == queue);
        known.map_or(0, |&(_, agent)| agent)
    }

    /// What people call a queue.
    pub(crate) fn queue(&self, agent: u64, queue: u64) -> String {
        format!("{}, queue {queue}", self.agent(agent))
    }

    /// What people call an agent.
    pub(crate) fn agent(&self, handle: u64) -> String {
        let Some(agent) = self.agents.get(&handle) else {
            return format!("agent {handle:#x}");
        };
        let name = agent
            .names
            .iter()
            .filter_map(|&id| self.text(id))
            .find(|name| !name.is_empty())
            .unwrap_or(b"GPU");
        format!("{} #{}", String::from_utf8_lossy(name), agent.index)
    }
}
