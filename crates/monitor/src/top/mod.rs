//! `shorthaul top`: a gateway, or a node, in a terminal of 80 × 24 or more.
//!
//! Reading order: [`Feed`] (where it comes from), `state` (what is looked at, and what keys do), `view` (how it is drawn).
mod feed;
mod state;
mod view;

pub use feed::{Feed, GatewayFeed, NodeFeed, NodeStatus, Seen};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use state::{Next, Top};
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the feed is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// A key is answered within this time, whatever the feed does.
const GLANCE: Duration = Duration::from_millis(100);

/// Shows what the feed says until somebody presses `q`.
///
/// # Errors
/// There is no terminal, or the feed has failed from the beginning.
pub fn run(mut feed: impl Feed + 'static, colored: bool) -> io::Result<()> {
    // What is wrong from the beginning is said without a screen.
    let first = feed.look(None)?;
    let sought = Arc::new(Mutex::new(None::<String>));
    let answers = ask_on(feed, Arc::clone(&sought))?;
    let mut top = Top::new(colored);
    top.see(Ok(first));
    let mut terminal = ratatui::try_init()?;
    let result = (|| {
        loop {
            terminal.draw(|frame| view::draw(frame, &mut top))?;
            while event::poll(GLANCE)? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => {
                        if top.on_key(key) == Next::Leave {
                            return Ok(());
                        }
                        *sought.lock().unwrap_or_else(PoisonError::into_inner) = top.sought();
                    }
                    _ => {}
                }
                terminal.draw(|frame| view::draw(frame, &mut top))?;
            }
            while let Ok(seen) = answers.try_recv() {
                top.see(seen);
            }
        }
    })();
    ratatui::restore();
    result
}

/// Asks the feed in a thread of its own: one that hangs keeps no key waiting.
fn ask_on(
    mut feed: impl Feed + 'static,
    sought: Arc<Mutex<Option<String>>>,
) -> io::Result<Receiver<io::Result<Seen>>> {
    let (tell, answers) = mpsc::sync_channel(1);
    let ask = move || {
        let mut before: Option<String> = None;
        loop {
            // Another question is asked at once.
            for _ in 0..10 {
                let now = sought.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if now != before {
                    break;
                }
                std::thread::sleep(PERIOD / 10);
            }
            let now = sought.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let seen = feed.look(now.as_deref());
            before = now;
            if tell.send(seen).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("feed".into()).spawn(ask)?;
    Ok(answers)
}
