//! A thread that owns the topology graph. The thread builds the graph once for each change, and runs all queries.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use tokio::sync::oneshot;

use crate::ClusterObjects;
use policy_sync_topology::Graph;

/// A graph with its objects.
#[derive(Clone, Copy, Debug)]
pub struct GraphSnapshot<'k> {
    /// The objects of the graph, with the kinds that could not be read.
    pub found: &'k ClusterObjects,
    /// The relations of Gateways, routes and policies.
    pub graph: &'k Graph<'k>,
    /// The sequence number of the graph, which changes with each rebuild.
    pub number: u64,
}

type GraphQuery = Box<dyn FnOnce(GraphSnapshot<'_>) + Send>;

enum Message {
    /// Builds a graph of these objects, then sends a message on the channel.
    Objects(Box<ClusterObjects>, oneshot::Sender<()>),
    Query(GraphQuery),
}

/// A handle to the thread. The thread ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct GraphThread(Sender<Message>);

impl GraphThread {
    /// Starts the thread without a graph.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, messages) = mpsc::channel();
        thread::Builder::new().name("topology".to_owned()).spawn(move || {
            run_thread(&messages);
        })?;
        Ok(Self(sender))
    }

    /// Replaces the graph by a graph of the objects `found`, and waits until the new graph is built.
    pub(super) async fn replace(&self, found: ClusterObjects) {
        let (built, is_built) = oneshot::channel();
        // If the thread has panicked, later queries return `None`.
        let _ = self.0.send(Message::Objects(found.into(), built));
        let _ = is_built.await;
    }

    /// Runs `query` on the graph, as soon as a graph exists. Returns `None` if the query panics.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(GraphSnapshot<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let send_result = move |of: GraphSnapshot<'_>| {
            // The caller may have been cancelled.
            let _ = sender.send(query(of));
        };
        self.0.send(Message::Query(Box::new(send_result))).ok()?;
        receiver.await.ok()
    }
}

/// Builds graphs and runs queries until all senders are dropped.
fn run_thread(messages: &Receiver<Message>) -> Option<()> {
    let mut early: Vec<GraphQuery> = Vec::new();
    let mut next = loop {
        match messages.recv().ok()? {
            Message::Objects(found, built) => break (found, built),
            Message::Query(query) => early.push(query),
        }
    };
    for number in 0.. {
        let (found, built) = next;
        let graph_input = found.objects.graph_input();
        let of = GraphSnapshot { found: &found, graph: &Graph::build(&graph_input), number };
        early.drain(..).for_each(|query| run_query(query, of));
        let _ = built.send(());
        next = loop {
            match messages.recv().ok()? {
                Message::Objects(found, built) => break (found, built),
                Message::Query(query) => run_query(query, of),
            }
        };
    }
    None
}

/// Runs one query. If it panics, the thread continues, and the panic is printed on standard error.
fn run_query(query: GraphQuery, of: GraphSnapshot<'_>) {
    let _ = catch_unwind(AssertUnwindSafe(|| query(of)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn early_query_waits_for_a_graph_and_a_panic_affects_one_query() {
        let graphs = GraphThread::start().unwrap();
        let early = graphs.query(|of| of.found.unread.len());
        let found = |unread: usize| ClusterObjects {
            unread: vec![String::new(); unread],
            ..ClusterObjects::default()
        };
        let (early, ()) = tokio::join!(early, graphs.replace(found(1)));
        assert_eq!(early, Some(1));
        graphs.replace(found(2)).await;
        assert_eq!(graphs.query(|_| -> () { panic!("no") }).await, None);
        assert_eq!(graphs.query(|of| (of.found.unread.len(), of.graph.nodes().count())).await, Some((2, 0)));
    }
}
