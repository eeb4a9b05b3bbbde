//! A thread that owns the topology graph. It builds the graph once for each change, and runs all queries on
//! it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use tokio::sync::oneshot;

use crate::ClusterObjects;
use policy_sync_topology::Graph;

/// A graph with its objects.
#[derive(Clone, Copy, Debug)]
pub struct GraphOf<'k> {
    /// The objects of the graph, with the kinds that could not be read.
    pub found: &'k ClusterObjects,
    /// The relations of Gateways, routes and policies.
    pub graph: &'k Graph<'k>,
    /// The sequence number of the graph, which changes with each rebuild.
    pub number: u64,
}

type Ask = Box<dyn FnOnce(GraphOf<'_>) + Send>;

enum Message {
    /// Builds a graph of these objects, then sends a message on the channel.
    Objects(Box<ClusterObjects>, oneshot::Sender<()>),
    Ask(Ask),
}

/// A handle to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Graphs(Sender<Message>);

impl Graphs {
    /// Starts the thread without a graph.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, messages) = mpsc::channel();
        thread::Builder::new().name("topology".to_owned()).spawn(move || {
            keep(&messages);
        })?;
        Ok(Self(sender))
    }

    /// Replaces the graph by one of `found`, and waits until it is built.
    pub(super) async fn replace(&self, found: ClusterObjects) {
        let (built, is_built) = oneshot::channel();
        // If the thread has panicked, later queries return `None`.
        let _ = self.0.send(Message::Objects(found.into(), built));
        let _ = is_built.await;
    }

    /// Runs `ask` on the graph, as soon as there is one. Returns `None` if it panics.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(GraphOf<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let asks = move |of: GraphOf<'_>| {
            // The caller may have been cancelled.
            let _ = tell.send(ask(of));
        };
        self.0.send(Message::Ask(Box::new(asks))).ok()?;
        told.await.ok()
    }
}

/// Builds graphs and runs queries until all senders are dropped.
fn keep(messages: &Receiver<Message>) -> Option<()> {
    let mut early: Vec<Ask> = Vec::new();
    let mut next = loop {
        match messages.recv().ok()? {
            Message::Objects(found, built) => break (found, built),
            Message::Ask(ask) => early.push(ask),
        }
    };
    for number in 0.. {
        let (found, built) = next;
        let facts = found.objects.facts();
        let of = GraphOf { found: &found, graph: &Graph::build(&facts), number };
        early.drain(..).for_each(|ask| answer(ask, of));
        let _ = built.send(());
        next = loop {
            match messages.recv().ok()? {
                Message::Objects(found, built) => break (found, built),
                Message::Ask(ask) => answer(ask, of),
            }
        };
    }
    None
}

/// Runs one query. A panic is contained, and printed on standard error.
fn answer(ask: Ask, of: GraphOf<'_>) {
    let _ = catch_unwind(AssertUnwindSafe(|| ask(of)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn early_query_waits_for_a_graph_and_a_panic_affects_one_query() {
        let graphs = Graphs::start().unwrap();
        let early = graphs.ask(|of| of.found.unread.len());
        let found = |unread: usize| ClusterObjects {
            unread: vec![String::new(); unread],
            ..ClusterObjects::default()
        };
        let (early, ()) = tokio::join!(early, graphs.replace(found(1)));
        assert_eq!(early, Some(1));
        graphs.replace(found(2)).await;
        assert_eq!(graphs.ask(|_| -> () { panic!("no") }).await, None);
        assert_eq!(graphs.ask(|of| (of.found.unread.len(), of.graph.nodes().count())).await, Some((2, 0)));
    }
}
