//! Graphs: nodes added one by one or captured from a stream, launched in order.

use std::sync::Mutex;

use crate::device::{self, CopyJob, Launch, Stream};
use crate::runtime::lock;

/// One node.
#[derive(Clone, Copy)]
pub(crate) enum Node {
    Kernel(Launch),
    Copy(CopyJob),
    Empty,
}

/// A graph, or an executable copy of one. Never freed (I1).
pub(crate) struct Graph {
    pub(crate) nodes: Mutex<Vec<Node>>,
}

impl Graph {
    /// A graph with these nodes.
    pub(crate) fn create(nodes: Vec<Node>) -> &'static Self {
        Box::leak(Box::new(Self {
            nodes: Mutex::new(nodes),
        }))
    }

    /// The graph of a handle.
    pub(crate) fn of_handle(handle: *mut core::ffi::c_void) -> Option<&'static Self> {
        // SAFETY: HIP's contract: null or a handle that a create function gave; never freed (I1).
        unsafe { handle.cast::<Self>().as_ref() }
    }

    /// Adds a node; its handle is its number and never null.
    pub(crate) fn add(&self, node: Node) -> usize {
        let mut nodes = lock(&self.nodes);
        nodes.push(node);
        nodes.len()
    }

    /// Frees its nodes.
    pub(crate) fn clear(&self) {
        *lock(&self.nodes) = Vec::new();
    }

    /// Submits all nodes on a stream.
    pub(crate) fn launch(&self, stream: &'static Stream) {
        // Held during the launch: two launches of one executable graph do not mix.
        for node in &*lock(&self.nodes) {
            run(stream, *node);
        }
    }
}

/// Submits one piece of work on a stream, or adds it to the graph that the stream captures.
pub(crate) fn submit(stream: &'static Stream, node: Node) {
    if stream.capturing.load(std::sync::atomic::Ordering::Acquire)
        && let Some(graph) = *lock(&stream.capture)
    {
        graph.add(node);
        return;
    }
    run(stream, node);
}

fn run(stream: &'static Stream, node: Node) {
    match node {
        Node::Kernel(launch) => {
            launch.kernel.ensure_loaded(stream.gpu);
            device::launch(stream, launch);
        }
        Node::Copy(job) => device::copy(stream, job),
        Node::Empty => {}
    }
}
