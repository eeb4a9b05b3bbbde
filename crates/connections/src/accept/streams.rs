//! Tracks the phase of a connection from its reads and writes, and from the ends of request and response
//! bodies.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tracker::{Phase, TrackedConnection};

/// The stream of a connection. Its reads and writes update the phase of the connection.
#[derive(Debug)]
pub(super) struct TrackedStream<S> {
    stream: S,
    tracked: Arc<TrackedConnection>,
}

impl<S> TrackedStream<S> {
    pub(super) fn new(stream: S, tracked: Arc<TrackedConnection>) -> Self {
        Self { stream, tracked }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.tracked.advance(Phase::Idle, Phase::Head);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.tracked.set_stalled(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.tracked.set_stalled(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        match flushed {
            // hyper flushes the stream only once hyper's own buffer is empty.
            Poll::Ready(_) => self.tracked.advance(Phase::Flushing, Phase::Idle),
            Poll::Pending => self.tracked.set_stalled(true),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.tracked.set_stalled(shut.is_pending());
        shut
    }
}

/// The body of a request. Updates the phase of the connection when the body ends.
#[derive(Debug)]
pub(super) struct RequestBody {
    body: Incoming,
    tracked: Arc<TrackedConnection>,
}

impl RequestBody {
    pub(super) fn new(body: Incoming, tracked: Arc<TrackedConnection>) -> Self {
        let received = Self { body, tracked };
        received.check_end();
        received
    }

    fn check_end(&self) {
        if self.body.is_end_stream() {
            self.tracked.advance(Phase::Receiving, Phase::Handling);
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Ready(None) => self.tracked.advance(Phase::Receiving, Phase::Handling),
            Poll::Ready(Some(_)) => self.check_end(),
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    /// A handler that ignores the body drops it without reading it.
    fn drop(&mut self) {
        self.tracked.advance(Phase::Receiving, Phase::Handling);
    }
}

/// The body of a response. Updates the phase of the connection when the body ends.
#[derive(Debug)]
pub(super) struct ResponseBody {
    body: Body,
    tracked: Arc<TrackedConnection>,
}

impl ResponseBody {
    pub(super) fn new(body: Body, tracked: Arc<TrackedConnection>) -> Self {
        Self { body, tracked }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    /// hyper drops the body once hyper's own buffer contains all of it.
    fn drop(&mut self) {
        self.tracked.advance(Phase::Sending, Phase::Flushing);
    }
}
