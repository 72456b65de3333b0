//! What is looked at, and what keys do.
use super::feed::{NodeStatus, Seen};
use crate::snapshot::{FlowRow, HostRow, Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use std::io;

/// Rates of a node that are kept.
const POINTS: usize = 60;

/// What fills the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Hosts,
    Flows,
    NotSplit,
    Gain,
    Events,
}

impl Tab {
    pub const ALL: [(Tab, &'static str); 5] = [
        (Tab::Hosts, "Hosts"),
        (Tab::Flows, "Flows"),
        (Tab::NotSplit, "Not split"),
        (Tab::Gain, "Gain"),
        (Tab::Events, "Events"),
    ];
}

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Rate,
    Queue,
    Held,
    Name,
}

impl Order {
    const ALL: [Order; 4] = [Order::Rate, Order::Queue, Order::Held, Order::Name];

    pub fn name(self) -> &'static str {
        match self {
            Order::Rate => "rate",
            Order::Queue => "queue",
            Order::Held => "held",
            Order::Name => "name",
        }
    }

    fn next(self) -> Order {
        let at = Order::ALL.iter().position(|order| *order == self).unwrap_or(0);
        Order::ALL[(at + 1) % Order::ALL.len()]
    }
}

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Stay,
    Leave,
}

/// Everything that is on the screen.
#[derive(Debug)]
pub struct Top {
    pub colored: bool,
    pub snapshot: Option<Box<Snapshot>>,
    pub found: Option<Vec<FlowRow>>,
    pub node: Option<Box<NodeStatus>>,
    pub node_rates: VecDeque<u64>,
    /// Why nothing new came.
    pub trouble: Option<String>,
    pub tab: Tab,
    pub order: Order,
    pub filter: String,
    /// The filter is being written.
    pub writes: bool,
    pub selected: usize,
    /// One host in detail.
    pub host: Option<String>,
    /// One flow in detail: client and server.
    pub flow: Option<(String, String)>,
    pub helps: bool,
}

impl Top {
    pub fn new(colored: bool) -> Self {
        Top {
            colored,
            snapshot: None,
            found: None,
            node: None,
            node_rates: VecDeque::new(),
            trouble: None,
            tab: Tab::Hosts,
            order: Order::Rate,
            filter: String::new(),
            writes: false,
            selected: 0,
            host: None,
            flow: None,
            helps: false,
        }
    }

    /// The feed has said something.
    pub fn see(&mut self, seen: io::Result<Seen>) {
        self.trouble = None;
        match seen {
            Ok(Seen::Gateway(snapshot, found)) => {
                self.snapshot = Some(snapshot);
                if found.is_some() || self.sought().is_none() {
                    self.found = found;
                }
            }
            Ok(Seen::Node(node)) => {
                self.node_rates.push_back(node.bits_per_second);
                if self.node_rates.len() > POINTS {
                    self.node_rates.pop_front();
                }
                self.node = Some(node);
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// What flows are sought by: the host in detail, or else the filter.
    pub fn sought(&self) -> Option<String> {
        let filtered = || (self.tab == Tab::Flows && !self.filter.is_empty()).then(|| self.filter.clone());
        self.host.clone().or_else(filtered)
    }

    /// The hosts that are listed.
    pub fn hosts(&self) -> Vec<&HostRow> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let holds = |host: &&HostRow| host.host.to_string().contains(&self.filter);
        let mut hosts: Vec<&HostRow> = snapshot.hosts.iter().filter(holds).collect();
        match self.order {
            Order::Rate => hosts.sort_by(|a, b| (b.down + b.up).total_cmp(&(a.down + a.up))),
            Order::Queue => {
                hosts.sort_by(|a, b| b.queue_ms.unwrap_or(-1.0).total_cmp(&a.queue_ms.unwrap_or(-1.0)));
            }
            Order::Held => hosts.sort_by_key(|host| std::cmp::Reverse(host.held)),
            Order::Name => hosts.sort_by_key(|host| host.host),
        }
        hosts
    }

    /// The flows that are listed: those that were sought, or else the busiest.
    pub fn flows(&self) -> Vec<&FlowRow> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let holds = |flow: &&FlowRow| match &self.host {
            Some(host) => flow.host.to_string() == *host,
            None => {
                let fields = [&flow.client, &flow.server, &flow.state, &flow.policy];
                fields.iter().any(|field| field.contains(&self.filter))
            }
        };
        let mut flows: Vec<&FlowRow> =
            self.found.as_ref().unwrap_or(&snapshot.top_flows).iter().filter(holds).collect();
        let half = |flow: &FlowRow| flow.access.clone().unwrap_or_default();
        match self.order {
            Order::Rate => flows.sort_by(|a, b| (b.down + b.up).total_cmp(&(a.down + a.up))),
            Order::Queue => flows.sort_by(|a, b| {
                let queue = |flow: &FlowRow| half(flow).queue_ms().unwrap_or(-1.0);
                queue(b).total_cmp(&queue(a))
            }),
            Order::Held => flows.sort_by_key(|flow| std::cmp::Reverse(flow.held())),
            Order::Name => flows.sort_by(|a, b| (&a.client, &a.server).cmp(&(&b.client, &b.server))),
        }
        flows
    }

    /// The flow in detail, as long as it is listed.
    pub fn flow_in_detail(&self) -> Option<&FlowRow> {
        let (client, server) = self.flow.as_ref()?;
        self.flows().into_iter().find(|flow| flow.client == *client && flow.server == *server)
    }

    fn rows(&self) -> usize {
        let snapshot = self.snapshot.as_ref();
        match self.tab {
            _ if self.host.is_some() => self.flows().len(),
            Tab::Hosts => self.hosts().len(),
            Tab::Flows => self.flows().len(),
            Tab::NotSplit => snapshot.map_or(0, |snapshot| snapshot.whole.len()),
            Tab::Gain => snapshot.map_or(0, |snapshot| snapshot.gains.len()),
            Tab::Events => snapshot.map_or(0, |snapshot| snapshot.events.len()),
        }
    }

    fn go(&mut self, tab: Tab) {
        (self.tab, self.selected, self.host, self.flow) = (tab, 0, None, None);
    }

    fn enter(&mut self) {
        let is_list = self.host.is_some() || self.tab == Tab::Flows;
        if is_list {
            let flows = self.flows();
            self.flow = flows.get(self.selected).map(|flow| (flow.client.clone(), flow.server.clone()));
        } else if self.tab == Tab::Hosts {
            self.host = self.hosts().get(self.selected).map(|host| host.host.to_string());
            (self.selected, self.found) = (0, None);
        }
    }

    /// Back by one step; whether there was one.
    fn back(&mut self) -> bool {
        if self.flow.take().is_some() {
            return true;
        }
        if self.host.take().is_some() {
            (self.selected, self.found) = (0, None);
            return true;
        }
        !std::mem::take(&mut self.filter).is_empty()
    }

    /// A key was pressed.
    pub fn on_key(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Next::Leave;
        }
        if self.writes {
            match key.code {
                KeyCode::Enter => self.writes = false,
                KeyCode::Esc => (self.writes, self.filter) = (false, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(letter) if self.filter.len() < 60 => self.filter.push(letter),
                _ => {}
            }
            self.selected = 0;
            return Next::Stay;
        }
        if std::mem::take(&mut self.helps) {
            return Next::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Leave,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => drop(self.back()),
            KeyCode::Char('?' | 'h') => self.helps = true,
            KeyCode::Char('/') => (self.writes, self.flow) = (true, None),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char(digit @ '1'..='5') => {
                self.go(Tab::ALL[digit as usize - '1' as usize].0);
            }
            KeyCode::Tab => {
                let at = Tab::ALL.iter().position(|(tab, _)| *tab == self.tab).unwrap_or(0);
                self.go(Tab::ALL[(at + 1) % Tab::ALL.len()].0);
            }
            KeyCode::Down | KeyCode::Char('j') => self.selected += 1,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected += 10,
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::Enter | KeyCode::Right => self.enter(),
            _ => {}
        }
        self.selected = self.selected.min(self.rows().saturating_sub(1));
        Next::Stay
    }
}
