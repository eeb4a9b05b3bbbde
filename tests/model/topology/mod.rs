//! The capability that keeps the topology on a hub, explored: graphs that are built while watches go on, writes of statuses and of the
//! ConfigMap, and what becomes of these.
//!
//! What decides is the product's own: both mirrors, what of their changes has the graph built, the graph with its text, the statuses
//! that differ, which of them wait, and the requests to the byte. Left out: the pace of writes, the pause where somebody undoes the
//! same again and again, the length of backoffs, leadership, lists that come in pages, kinds that are served later or no more, and a graph
//! that is given up because something is not known yet.

mod hub;
mod mirrors;
mod state;
mod step;
mod take;
mod worlds;
