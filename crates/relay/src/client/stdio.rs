use super::{Client, Early, OpenError, Session, moving};
use crate::pump::Broken;
use crate::resume::{Application, Moved};
use crate::route::Endpoint;
use shorthaul_os::process::end_standard_output;
use std::future::poll_fn;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread::JoinHandle;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::sync::mpsc::{Receiver, channel};

/// What is read at once.
const CHUNK: usize = 64 << 10;

impl Client {
    /// Connects this process's standard input and output to a destination, until both have said all that they have to say. The end of
    /// either is passed on, and the other direction goes on; but for a terminal's input nobody waits once the destination has ended.
    /// `opened` hears of the session when it is there.
    ///
    /// # Errors
    /// There is no way, or the connection breaks: then what was written is not all, or what was read has not all arrived. The error says which.
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
        Ok(talk(session, input, is_over)
            .await
            .map_err(|Cut { what, error }| io::Error::new(error.kind(), format!("{what}: {error}"))))
    }
}

/// Which stream was cut off, for people, and why.
struct Cut {
    what: &'static str,
    error: io::Error,
}

impl Cut {
    fn output(error: io::Error) -> Cut {
        Cut { what: "what came is not all", error }
    }

    /// The destination had said all before.
    fn input(error: io::Error) -> Cut {
        Cut { what: "what was sent has not all arrived", error }
    }
}

/// Standard input and output, as a session that can move has them.
struct Stdio {
    input: Receiver<io::Result<Vec<u8>>>,
    /// What of the latest piece is still to be given.
    piece: Vec<u8>,
    given: usize,
    is_over: bool,
    output: Output,
    /// The destination has said all.
    has_heard_all: bool,
}

/// Standard output, written by a thread of its own: whoever reads it may rest for long, and who is at the other end is to be answered meanwhile. Dropped, it waits
/// until all is written.
struct Output {
    pieces: Option<Sender<Vec<u8>>>,
    waiting: Arc<Mutex<Waiting>>,
    writing: Option<JoinHandle<()>>,
}

/// What is not written yet.
#[derive(Default)]
struct Waiting {
    bytes: usize,
    error: Option<io::Error>,
    /// Who waits for room.
    waker: Option<Waker>,
}

fn locked(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Output {
    fn new() -> Output {
        let (pieces, given) = std::sync::mpsc::channel::<Vec<u8>>();
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let theirs = Arc::clone(&waiting);
        let writing = std::thread::spawn(move || {
            let mut stdout = io::stdout().lock();
            for piece in given {
                let written = stdout.write_all(&piece).and_then(|()| stdout.flush());
                let mut waiting = locked(&theirs);
                waiting.bytes -= piece.len();
                let is_over = written.is_err();
                waiting.error = written.err();
                let waker = waiting.waker.take();
                drop(waiting);
                waker.into_iter().for_each(Waker::wake);
                if is_over {
                    return;
                }
            }
            // Whoever reads it may be waiting for its end, to give more. Where there is no /dev/null, it comes with the end of the process.
            let _ = end_standard_output();
        });
        Output { pieces: Some(pieces), waiting, writing: Some(writing) }
    }

    /// Takes some of these bytes, if not too many wait.
    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut waiting = locked(&self.waiting);
        if let Some(error) = waiting.error.take() {
            return Poll::Ready(Err(error));
        }
        if waiting.bytes >= 2 * CHUNK {
            waiting.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let len = bytes.len().min(CHUNK);
        waiting.bytes += len;
        drop(waiting);
        match self.pieces.as_ref().map(|pieces| pieces.send(bytes[..len].to_vec())) {
            Some(Ok(())) => Poll::Ready(Ok(len)),
            _ => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// It ends behind what is not written yet.
    fn end(&mut self) {
        self.pieces = None;
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[poll_fn(|cx| self.poll_write(cx, bytes)).await?..];
        }
        Ok(())
    }

    /// Waits until all is written.
    async fn all_written(&self) -> io::Result<()> {
        poll_fn(|cx| {
            let mut waiting = locked(&self.waiting);
            match waiting.error.take() {
                Some(error) => Poll::Ready(Err(error)),
                None if waiting.bytes == 0 => Poll::Ready(Ok(())),
                None => {
                    waiting.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Whether all is written.
    fn has_all(&self) -> io::Result<bool> {
        let mut waiting = locked(&self.waiting);
        waiting.error.take().map_or(Ok(waiting.bytes == 0), Err)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.end();
        // A thread that panicked has said so.
        let _ = self.writing.take().map(JoinHandle::join);
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
        self.output.poll_write(cx, bytes)
    }

    fn close(&mut self) -> io::Result<()> {
        self.has_heard_all = true;
        self.output.end();
        Ok(())
    }

    fn has_all(&self) -> io::Result<bool> {
        self.output.has_all()
    }

    fn ends_with_other(&self) -> bool {
        nobody_gives_more()
    }
}

/// Whether the input is at a terminal: who sits there has seen the end of what the destination said. A program that writes into a pipe has not, and it
/// may be that the destination waits for the rest.
fn nobody_gives_more() -> bool {
    io::stdin().is_terminal()
}

async fn talk(
    session: Session,
    mut input: Receiver<io::Result<Vec<u8>>>,
    mut is_over: bool,
) -> Result<(), Cut> {
    if let Some(moving) = session.moving {
        let output = Output::new();
        let mut app = Stdio { input, piece: Vec::new(), given: 0, is_over, output, has_heard_all: false };
        let way = (session.leg, session.rest);
        let carried = moving.carry(&mut app, moving::never, way, &session.tally).await;
        return carried.map_err(|broken| {
            let error = match broken {
                Broken::Source(error) | Broken::Sink(error) => error,
                other => io::Error::other(other),
            };
            if app.has_heard_all { Cut::input(error) } else { Cut::output(error) }
        });
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
        let stdout = Output::new();
        stdout.write_all(&session.rest).await?;
        let mut chunk = vec![0; CHUNK];
        loop {
            match source.read(&mut chunk).await? {
                0 => return stdout.all_written().await,
                len => {
                    progress.moved(Moved::Received, len);
                    stdout.write_all(&chunk[..len]).await?;
                }
            }
        }
    };
    tokio::pin!(there, back);
    tokio::select! {
        done = &mut back => {
            done.map_err(Cut::output)?;
            if !nobody_gives_more() {
                there.await.map_err(Cut::input)?;
            }
        }
        done = &mut there => {
            // Its end was passed on; what breaks is told by the other direction, with a better reason.
            if let Err(error) = done {
                return match back.await {
                    Err(better) => Err(Cut::output(better)),
                    Ok(()) => Err(Cut::input(error)),
                };
            }
            back.await.map_err(Cut::output)?;
        }
    }
    socket.end_well().map_err(Cut::output)
}
