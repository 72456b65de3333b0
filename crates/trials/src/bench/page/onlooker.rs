//! Who looks at a gateway: the page in two browsers, or two that read its stream of samples; and `top` in a terminal beside.
use super::browser::{Browser, installed};
use crate::error::{Result, TrialError, While};
use shorthaul_lab::Host;
use shorthaul_os::process::kill_group;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// So many have the page open.
const BROWSERS: usize = 2;
/// A sample comes within this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is written for less is no other screen: the cursor is hidden again with each.
const A_SCREEN: usize = 100;

/// Those who have the page open.
pub enum Pages {
    /// Browsers that run all the time, and show the page or nothing.
    Browsers(Vec<Browser>),
    /// No browser is here: the stream that the page reads is read, and forgotten.
    Followers(Vec<TcpStream>),
}

impl Pages {
    /// Starts the browsers, if there are any.
    ///
    /// # Errors
    /// One is here and does not start.
    pub fn new(gateway: &Host) -> Result<Self> {
        let Some(program) = installed() else { return Ok(Pages::Followers(Vec::new())) };
        (0..BROWSERS)
            .map(|number| Browser::start(&program, gateway, number))
            .collect::<Result<_>>()
            .map(Pages::Browsers)
    }

    /// Opens the page, and waits until each has a sample.
    ///
    /// # Errors
    /// None comes.
    pub fn open(&mut self, gateway: &Host, at: SocketAddr) -> Result<()> {
        match self {
            Pages::Browsers(browsers) => {
                for browser in browsers.iter_mut() {
                    browser.open(&format!("http://{at}/"))?;
                }
                let is_live = "!!document.getElementById('live') && document.getElementById('live').textContent === 'live'";
                browsers.iter_mut().try_for_each(|browser| browser.until(is_live))
            }
            Pages::Followers(streams) => {
                for _ in 0..BROWSERS {
                    let mut stream = gateway.run(|| TcpStream::connect(at)).doing("following samples")?;
                    stream.set_read_timeout(Some(PATIENCE)).doing("following samples")?;
                    let asked = format!("GET /events HTTP/1.1\r\nHost: {at}\r\n\r\n");
                    stream.write_all(asked.as_bytes()).doing("following samples")?;
                    let mut reading = stream.try_clone().doing("following samples")?;
                    let mut piece = vec![0; 64 << 10];
                    let first = reading.read(&mut piece).doing("following samples")?;
                    if !piece[..first].starts_with(b"HTTP/1.1 200") {
                        return Err(TrialError::failed("the page's stream is not there"));
                    }
                    std::thread::spawn(
                        move || while reading.read(&mut piece).is_ok_and(|length| length > 0) {},
                    );
                    streams.push(stream);
                }
                Ok(())
            }
        }
    }

    /// Nobody has it open any more.
    ///
    /// # Errors
    /// A browser does not answer.
    pub fn close(&mut self) -> Result<()> {
        match self {
            Pages::Browsers(browsers) => {
                browsers.iter_mut().try_for_each(|browser| browser.open("about:blank"))
            }
            Pages::Followers(streams) => {
                for stream in streams.drain(..) {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                Ok(())
            }
        }
    }

    /// How long each redraw took that the page has marked since it was opened, from the arrival of a sample until it is painted.
    ///
    /// # Errors
    /// A browser does not answer.
    pub fn redraws(&mut self) -> Result<Vec<Duration>> {
        let mut all = Vec::new();
        if let Pages::Browsers(browsers) = self {
            for browser in browsers {
                let marks =
                    browser.value("performance.getEntriesByName('redraw').map(mark => mark.duration)")?;
                let marks = marks.as_array().into_iter().flatten().filter_map(serde_json::Value::as_f64);
                all.extend(marks.map(|ms| Duration::from_secs_f64(ms / 1e3)));
            }
        }
        Ok(all)
    }

    /// What they are.
    pub fn kind(&self) -> &'static str {
        match self {
            Pages::Browsers(_) => "chromium",
            Pages::Followers(_) => "readers of /events",
        }
    }
}

/// `top` in a terminal of 80 × 24; ends when dropped.
pub struct TopScreen {
    process: Child,
    keys: ChildStdin,
    /// When something longer than a screen's worth was written.
    screens: Receiver<Instant>,
    views: [&'static [u8]; 2],
}

impl TopScreen {
    /// Starts it in `gateway`, by `script(1)`, which has a terminal of its own.
    ///
    /// # Errors
    /// It shows nothing.
    pub fn start(gateway: &Host, run_dir: &Path) -> Result<Self> {
        let program = std::env::current_exe().doing("looking for this program")?;
        let shown = format!(
            "stty cols 80 rows 24; exec '{}' top --run-dir '{}'",
            program.display(),
            run_dir.display()
        );
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--flush", "--command", &shown, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut process = gateway.spawn(&mut command).doing("starting `top` in a terminal of script(1)")?;
        let (keys, written) = (process.stdin.take(), process.stdout.take());
        let (pass, screens) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut written, mut piece) = (written?, vec![0; 64 << 10]);
            loop {
                let length = written.read(&mut piece).ok().filter(|length| *length > 0)?;
                if length >= A_SCREEN {
                    pass.send(Instant::now()).ok()?;
                }
            }
            #[expect(unreachable_code, reason = "it says of which type the closure is")]
            Some(())
        });
        let keys = keys.ok_or_else(|| TrialError::failed("`top` takes no keys"))?;
        let top = TopScreen { process, keys, screens, views: [b"2", b"1"] };
        match top.screens.recv_timeout(PATIENCE) {
            Ok(_) => Ok(top),
            Err(_) => Err(TrialError::failed("`top` shows nothing")),
        }
    }

    /// Asks for another view, and says how long it took until that was written.
    ///
    /// # Errors
    /// It never was.
    pub fn redraw(&mut self) -> Result<Duration> {
        while self.screens.try_recv().is_ok() {}
        let asked = Instant::now();
        self.keys.write_all(self.views[0]).doing("pressing a key")?;
        self.views.reverse();
        let drawn = self
            .screens
            .recv_timeout(PATIENCE)
            .map_err(|_| TrialError::failed("`top` does not answer a key"))?;
        Ok(drawn.duration_since(asked))
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        kill_group(self.process.id());
        let _ = self.process.wait();
    }
}
