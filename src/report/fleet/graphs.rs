//! A thread that keeps a graph: it is built once for each change, however many ask.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use tokio::sync::oneshot;

use crate::report::ClusterObjects;
use policy_sync_topology::Graph;

/// A graph, and what it is of.
#[derive(Clone, Copy, Debug)]
pub struct GraphOf<'k> {
    /// The objects, and what is not known of them.
    pub found: &'k ClusterObjects,
    /// What is attached to what.
    pub graph: &'k Graph<'k>,
    /// Another one for each graph.
    pub number: u64,
}

type Ask = Box<dyn FnOnce(GraphOf<'_>) + Send>;

enum Message {
    /// From now on it is of these; whoever sends them is told once it is built.
    Objects(Box<ClusterObjects>, oneshot::Sender<()>),
    Ask(Ask),
}

/// The thread, which ends with this.
#[derive(Debug)]
pub(super) struct Graphs(Sender<Message>);

impl Graphs {
    /// Starts it, without a graph.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, messages) = mpsc::channel();
        thread::Builder::new().name("topology".to_owned()).spawn(move || {
            keep(&messages);
        })?;
        Ok(Self(sender))
    }

    /// Has it be of `found` from now on.
    pub(super) async fn replace(&self, found: ClusterObjects) {
        let (built, is_built) = oneshot::channel();
        // A thread that panicked answers nobody, which those who ask are told.
        let _ = self.0.send(Message::Objects(found.into(), built));
        let _ = is_built.await;
    }

    /// What `ask` says of it, as soon as there is one; `None` where it panics.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(GraphOf<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let asks = move |of: GraphOf<'_>| {
            // Who asked may have gone.
            let _ = tell.send(ask(of));
        };
        self.0.send(Message::Ask(Box::new(asks))).ok()?;
        told.await.ok()
    }
}

/// Builds graphs and asks them, until nobody sends any more.
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

/// A question that panics is nobody else's matter: its panic is on standard error.
fn answer(ask: Ask, of: GraphOf<'_>) {
    let _ = catch_unwind(AssertUnwindSafe(|| ask(of)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_asks_early_waits_and_a_panic_is_one_answer() {
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
