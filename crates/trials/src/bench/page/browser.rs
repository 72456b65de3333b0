//! A headless Chromium that is told what to do over pipes (Chrome DevTools Protocol: messages in JSON, each ended by a zero byte).
use crate::error::{Result, TrialError, While};
use serde_json::{Value, json};
use shorthaul_lab::Host;
use shorthaul_os::process::kill_group;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Names that distributions give it.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// It reads at descriptor 3 and writes at 4.
const ON_PIPES: &str = "exec 3<&0 4>&1 0</dev/null 1>&2; exec \"$@\"";
const OPTIONS: [&str; 6] = [
    "--headless=new",
    // There is no setuid helper in a lab; it sees nothing but the gateway's page.
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
];
/// It answers within this time, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const CLOSES: Duration = Duration::from_secs(5);

/// Where a Chromium is, if one is.
pub fn installed() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    NAMES.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.exists()))
}

/// A browser with one page; ends when dropped.
pub struct Browser {
    process: Child,
    tell: Option<ChildStdin>,
    messages: Receiver<Vec<u8>>,
    count: u64,
    session: String,
    profile: PathBuf,
}

impl Browser {
    /// Starts it in `host`, with an empty page. `number` tells it from others.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(program: &Path, host: &Host, number: usize) -> Result<Self> {
        let profile = std::env::temp_dir().join(format!("shorthaul-browser-{}-{number}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", ON_PIPES, "sh"]).arg(program).args(OPTIONS);
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut process = host.spawn(&mut command).doing("starting Chromium")?;
        let (tell, said) = (process.stdin.take(), process.stdout.take());
        let (pass, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let mut said = BufReader::new(said?);
            loop {
                let mut message = Vec::new();
                if said.read_until(0, &mut message).ok()? == 0 {
                    return Some(());
                }
                message.pop();
                pass.send(message).ok()?;
            }
        });
        let mut browser = Browser { process, tell, messages, count: 0, session: String::new(), profile };
        let made = browser.ask("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().into();
        Ok(browser)
    }

    /// Goes to an address.
    ///
    /// # Errors
    /// The browser does not answer.
    pub fn open(&mut self, address: &str) -> Result<()> {
        self.ask("Page.navigate", json!({ "url": address })).map(drop)
    }

    /// What a JavaScript expression has come to on the page.
    ///
    /// # Errors
    /// The browser does not answer.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let asked = json!({ "expression": expression, "returnByValue": true });
        Ok(self.ask("Runtime.evaluate", asked)?["result"]["value"].take())
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// It does not become true.
    pub fn until(&mut self, expression: &str) -> Result<()> {
        let give_up = Instant::now() + PATIENCE;
        while self.value(expression)? != true {
            if Instant::now() > give_up {
                return Err(TrialError::failed(format!("the page never came to `{expression}`")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Result<Value> {
        let gone = || TrialError::failed(format!("Chromium does not answer to {method}"));
        self.count += 1;
        let mut message = json!({ "id": self.count, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let tell = self.tell.as_mut().ok_or_else(gone)?;
        tell.write_all(format!("{message}\0").as_bytes()).doing("telling Chromium")?;
        loop {
            let said = self.messages.recv_timeout(PATIENCE).map_err(|_| gone())?;
            let mut said: Value = serde_json::from_slice(&said).map_err(TrialError::of)?;
            // Events come in between.
            if said["id"] != self.count {
                continue;
            }
            return match said.get("error") {
                Some(error) => Err(TrialError::failed(format!("Chromium: {method}: {error}"))),
                None => Ok(said["result"].take()),
            };
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends when nobody can tell it anything any more.
        self.tell = None;
        let over = Instant::now() + CLOSES;
        while self.process.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < over {
            std::thread::sleep(Duration::from_millis(20));
        }
        kill_group(self.process.id());
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
