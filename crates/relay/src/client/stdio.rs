use super::{Client, Early, OpenError, Session, moving};
use crate::pump::Broken;
use crate::resume::{Application, Moved};
use crate::route::Endpoint;
use std::io::{self, Read as _};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf, Stdout};
use tokio::sync::mpsc::{Receiver, channel};

/// What is read at once.
const CHUNK: usize = 64 << 10;

impl Client {
    /// Connects this process's standard input and output to a destination, until the destination has said
    /// all that it has to say. The end of the input is passed on, and the other direction goes on.
    /// `opened` hears of the session when it is there.
    ///
    /// # Errors
    /// There is no way, or the connection breaks: then what was written is not all.
    pub async fn connect_stdio(
        &self,
        target: &Endpoint,
        opened: impl FnOnce(&Session),
    ) -> Result<io::Result<()>, OpenError> {
        // Reading blocks, so it has a thread of its own; two pieces may wait for the network.
        let (send, mut input) = channel::<io::Result<Vec<u8>>>(2);
        std::thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = stdin.read(&mut chunk).map(|len| {
                    chunk.truncate(len);
                    chunk
                });
                let is_last = read.as_ref().map_or(true, Vec::is_empty);
                if send.blocking_send(read).is_err() || is_last {
                    return;
                }
            }
        });
        let mut is_over = false;
        let mut broken = None;
        let mut take = || {
            let mut taken = Vec::new();
            while !is_over && taken.len() < CHUNK {
                match input.try_recv() {
                    Ok(Ok(chunk)) if chunk.is_empty() => is_over = true,
                    Ok(Ok(chunk)) => taken.extend(chunk),
                    Ok(Err(error)) => {
                        broken = Some(error);
                        is_over = true;
                    }
                    Err(_) => break,
                }
            }
            taken
        };
        let session = self.open_with(target, None, &mut Early::new(&mut take)).await?;
        opened(&session);
        if let Some(error) = broken {
            return Ok(Err(error));
        }
        Ok(talk(session, input, is_over).await)
    }
}

/// Standard input and output, as a session that can move has them.
struct Stdio {
    input: Receiver<io::Result<Vec<u8>>>,
    /// What of the latest piece is still to be given.
    piece: Vec<u8>,
    given: usize,
    is_over: bool,
    /// Writes in another thread: whoever reads it may rest for long, and who is at the other end is to be answered meanwhile.
    output: Mutex<Stdout>,
}

impl Stdio {
    fn output(&self) -> MutexGuard<'_, Stdout> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Application for Stdio {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.given == self.piece.len() && !self.is_over {
            match ready!(self.input.poll_recv(cx)) {
                Some(Ok(piece)) if !piece.is_empty() => (self.piece, self.given) = (piece, 0),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(_)) | None => self.is_over = true,
            }
        }
        let len = buf.remaining().min(self.piece.len() - self.given);
        buf.put_slice(&self.piece[self.given..][..len]);
        self.given += len;
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut output = self.output();
        // One piece after the other: what waits elsewhere holds the other end back.
        ready!(Pin::new(&mut *output).poll_flush(cx))?;
        Pin::new(&mut *output).poll_write(cx, bytes)
    }

    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn has_all(&self) -> io::Result<bool> {
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut *self.output()).poll_flush(&mut cx) {
            Poll::Ready(flushed) => flushed.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }

    // Whoever it speaks with has said all: nobody waits for more of the input.
    fn ends_with_other(&self) -> bool {
        true
    }
}

async fn talk(
    session: Session,
    mut input: Receiver<io::Result<Vec<u8>>>,
    mut is_over: bool,
) -> io::Result<()> {
    if let Some(moving) = session.moving {
        let output = Mutex::new(tokio::io::stdout());
        let mut app = Stdio { input, piece: Vec::new(), given: 0, is_over, output };
        let way = (session.leg, session.rest);
        return moving.carry(&mut app, moving::never, way, &session.tally).await.map_err(
            |broken| match broken {
                Broken::Source(error) | Broken::Sink(error) => error,
                other => io::Error::other(other),
            },
        );
    }
    let (socket, progress) = (session.leg.socket().clone(), &session.tally.progress);
    let (mut source, mut sink) = session.leg.into_halves();
    let there = async {
        while !is_over {
            match input.recv().await {
                Some(Ok(chunk)) if !chunk.is_empty() => {
                    sink.write_all(&chunk).await?;
                    sink.flush().await?;
                    progress.moved(Moved::Given, chunk.len());
                }
                Some(Err(error)) => return Err(error),
                Some(Ok(_)) | None => is_over = true,
            }
        }
        sink.shutdown().await
    };
    let back = async {
        let mut stdout = tokio::io::stdout();
        stdout.write_all(&session.rest).await?;
        stdout.flush().await?;
        let mut chunk = vec![0; CHUNK];
        loop {
            match source.read(&mut chunk).await? {
                0 => return Ok::<(), io::Error>(()),
                len => {
                    progress.moved(Moved::Received, len);
                    stdout.write_all(&chunk[..len]).await?;
                    stdout.flush().await?;
                }
            }
        }
    };
    tokio::pin!(there, back);
    tokio::select! {
        done = &mut back => done?,
        done = &mut there => {
            // Its end was passed on; what breaks is told by the other direction, with a better reason.
            if let Err(error) = done {
                return match back.await {
                    Err(better) => Err(better),
                    Ok(()) => Err(error),
                };
            }
            back.await?;
        }
    }
    socket.end_well()
}
