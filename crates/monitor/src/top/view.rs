//! How it is drawn. 80 columns are enough.
use super::feed::NodeStatus;
use super::state::{Tab, Top};
use crate::snapshot::{FlowRow, GainRow, HalfRow, Snapshot};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, TableState, Wrap};
use shorthaul_types::{BitRate, Bytes, format_duration};
use std::time::Duration;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const HELP: &str = "
 1 to 5, Tab   hosts, flows, why flows are not split, gain, events
 Up, Down      choose a row                 Enter   one host, one flow in detail
 /             filter by address or state   Esc     back; clears the filter
 s             sort by rate, queue, held or name
 q             leave

 Queue is the round trip to a host less the shortest of late: what waits on
 the link. Held is what the gateway keeps for those who have not got it yet.
 Gain compares split flows with the control group, which is left alone.";

pub fn draw(frame: &mut Frame<'_>, top: &mut Top) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(5), Constraint::Min(3), Constraint::Length(1)])
            .areas(frame.area());
    if let Some(node) = &top.node {
        draw_node(frame, top, node);
    } else if let Some(snapshot) = &top.snapshot {
        frame.render_widget(Paragraph::new(heading(top, snapshot, head.width)), head);
        match (top.flow_in_detail(), top.tab) {
            (Some(flow), _) => {
                frame.render_widget(Paragraph::new(flow_lines(top, flow)).wrap(Wrap { trim: false }), body)
            }
            (None, _) if top.host.is_some() => draw_host(frame, top, body),
            (None, Tab::Hosts) => draw_hosts(frame, top, body),
            (None, Tab::Flows) => draw_flows(frame, top, body),
            (None, Tab::NotSplit) => draw_reasons(frame, top, snapshot, body),
            (None, Tab::Gain) => draw_gains(frame, top, snapshot, body),
            (None, Tab::Events) => draw_events(frame, top, snapshot, body),
        }
    }
    frame.render_widget(Paragraph::new(keys(top)), foot);
    if top.helps {
        let area = Rect { height: 13.min(frame.area().height), ..frame.area() };
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(HELP), area);
    }
}

fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn tinted(top: &Top, color: Color) -> Style {
    if top.colored { Style::new().fg(color) } else { Style::new() }
}

fn keys(top: &Top) -> Line<'_> {
    if top.writes {
        return Line::from(format!("filter: {}█   Enter takes it, Esc clears it", top.filter));
    }
    if let Some(trouble) = &top.trouble {
        return Line::styled(trouble.clone(), tinted(top, Color::Red).add_modifier(Modifier::BOLD));
    }
    if top.node.is_some() {
        return Line::styled("/ filter users  ? help  q leave", faint());
    }
    Line::styled("1-5 views  ↑↓ choose  Enter detail  Esc back  / filter  s sort  ? help  q leave", faint())
}

/// The last values as bars, the highest as the full height.
fn sparkline(values: impl DoubleEndedIterator<Item = f64>, width: usize) -> String {
    let mut last: Vec<f64> = values.rev().take(width).collect();
    last.reverse();
    let highest = last.iter().copied().fold(0.0, f64::max);
    let bar = |value: f64| match highest > 0.0 {
        true => BARS[((value / highest * 7.0).round() as usize).min(7)],
        false => BARS[0],
    };
    format!("{:>width$}", last.into_iter().map(bar).collect::<String>())
}

fn rate(bits: f64) -> String {
    BitRate::from_bits_per_sec(bits as u64).to_string()
}

fn millis(ms: Option<f64>) -> String {
    ms.map_or_else(|| "–".into(), |ms| format_duration(Duration::from_secs_f64(ms.max(0.0) / 1e3)))
}

fn seconds(s: f64) -> String {
    format_duration(Duration::from_secs_f64(s.max(0.0)))
}

/// The age of something in the two largest units.
fn age(s: f64) -> String {
    let s = s as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

fn heading<'a>(top: &Top, snapshot: &Snapshot, width: u16) -> Vec<Line<'a>> {
    let about = &snapshot.about;
    let last = snapshot.history.last().copied().unwrap_or_default();
    let spark = usize::from(width).saturating_sub(62).clamp(8, 60);
    let points = || snapshot.history.iter();
    let states: Vec<String> = snapshot.flows.iter().map(|(state, n)| format!("{n} {state}")).collect();
    let total: u64 = snapshot.flows.values().sum();
    let tabs = Tab::ALL.iter().enumerate().flat_map(|(at, (tab, name))| {
        let style = if *tab == top.tab { strong().add_modifier(Modifier::REVERSED) } else { Style::new() };
        [Span::styled(format!(" {} {name} ", at + 1), style), Span::raw(" ")]
    });
    let filter = if top.filter.is_empty() { String::new() } else { format!("  filter: {}", top.filter) };
    vec![
        Line::from(vec![
            Span::styled(format!("shorthaul {}", about.name), strong()),
            Span::raw(format!("  {} hosts  watched for {}", snapshot.hosts_known, age(snapshot.uptime_s))),
            Span::raw(format!("  {} <-> {}", about.access.join(" "), about.wan.join(" "))),
        ]),
        Line::from(vec![
            Span::raw(format!("Down {:>11} ", rate(snapshot.down))),
            Span::styled(sparkline(points().map(|p| p.down), spark), tinted(top, Color::Cyan)),
            Span::raw(format!("  Up {:>11}  Queue {:>7} ", rate(snapshot.up), millis(last.queue_ms))),
            Span::styled(
                sparkline(points().map(|p| p.queue_ms.unwrap_or(0.0)), 12),
                tinted(top, Color::Yellow),
            ),
        ]),
        Line::from(format!(
            "{total} flows: {}  held {} of {}  late {}",
            if states.is_empty() { "none".into() } else { states.join(", ") },
            Bytes(snapshot.held),
            Bytes(snapshot.memory),
            seconds(snapshot.lateness_us as f64 / 1e6)
        )),
        Line::from(vec![Span::styled("Gain ", strong()), Span::raw(gain_sentence(&snapshot.gains))]),
        Line::from_iter(tabs.chain([Span::styled(format!("sort: {}{filter}", top.order.name()), faint())])),
    ]
}

/// What splitting gives, in a sentence: of the figure that most flows were compared by.
fn gain_sentence(gains: &[GainRow]) -> String {
    let compared = gains.iter().filter(|row| row.gain.is_some() && row.servers.is_none());
    // Of equally many flows, the larger amount says more.
    let Some(row) = compared.max_by_key(|row| (row.flows[0].min(row.flows[1]), row.bytes)) else {
        return "nothing to compare yet: it takes a few flows of 30 kB, split and not".into();
    };
    gain_words(row)
}

fn gain_words(row: &GainRow) -> String {
    let time = |time: Option<f64>| time.map_or_else(|| "?".into(), seconds);
    let way = if row.down { "" } else { " up" };
    let gain = match (row.gain, row.interval) {
        (Some(gain), Some((low, high))) => format!(": {gain:.2} x as fast ({low:.2} to {high:.2})"),
        (Some(gain), None) => format!(": {gain:.2} x, too few to be sure"),
        _ => ": nothing to compare with yet".into(),
    };
    let [split, whole] = [row.split_s, row.whole_s].map(time);
    format!("first {}{way} {split}, not split {whole}{gain}", Bytes(row.bytes))
}

fn list<'a>(
    frame: &mut Frame<'_>,
    top: &Top,
    area: Rect,
    names: impl IntoIterator<Item = &'a str>,
    widths: &[Constraint],
    rows: Vec<Row<'_>>,
) {
    let names = Row::new(names.into_iter().map(|name| Cell::from(name.to_owned()))).style(faint());
    let selected = Style::new().add_modifier(Modifier::REVERSED);
    let table = Table::new(rows, widths.iter().copied()).header(names).row_highlight_style(selected);
    let mut state = TableState::default().with_selected(Some(top.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

fn draw_hosts(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    use Constraint::{Length, Min};
    let rows = top.hosts().into_iter().map(|host| {
        Row::new([
            host.host.to_string(),
            format!("{:>5}", host.flows),
            format!("{:>11}", rate(host.down)),
            format!("{:>11}", rate(host.up)),
            format!("{:>8}", millis(host.rtt_ms)),
            format!("{:>8}", millis(host.queue_ms)),
            sparkline(host.history.iter().map(|(_, queue)| *queue), 10),
            format!("{:>8}", Bytes(host.held).to_string()),
        ])
    });
    let names = ["host", "flows", "       down", "         up", "   rtt", "   queue", "", "    held"];
    let widths = [Min(12), Length(5), Length(11), Length(11), Length(8), Length(8), Length(10), Length(8)];
    list(frame, top, area, names, &widths, rows.collect());
}

fn draw_flows(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    use Constraint::{Length, Min};
    let rows = top.flows().into_iter().map(|flow| {
        let access = flow.access.clone().unwrap_or_default();
        Row::new([
            format!("{} > {}", flow.client, flow.server),
            flow.state.clone(),
            format!("{:>11}", rate(flow.down)),
            format!("{:>8}", millis(access.queue_ms())),
            format!("{:>8}", Bytes(flow.held()).to_string()),
        ])
    });
    let names = ["client > server", "state", "       down", "   queue", "    held"];
    list(frame, top, area, names, &[Min(30), Length(9), Length(11), Length(8), Length(8)], rows.collect());
}

fn draw_host(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    let [head, body] = Layout::vertical([Constraint::Length(4), Constraint::Min(1)]).areas(area);
    let name = top.host.clone().unwrap_or_default();
    let width = usize::from(area.width).saturating_sub(30).min(60);
    let hosts = top.snapshot.as_ref().map(|snapshot| snapshot.hosts.as_slice()).unwrap_or_default();
    let lines = match hosts.iter().find(|host| host.host.to_string() == name) {
        None => vec![Line::styled(format!("{name} is not among the busiest hosts now"), faint())],
        Some(host) => vec![
            Line::from(vec![
                Span::styled(name, strong()),
                Span::raw(format!("  {} flows, {} split  held {}", host.flows, host.split, Bytes(host.held))),
            ]),
            Line::from(format!(
                "down  {:>11}  {}",
                rate(host.down),
                sparkline(host.history.iter().map(|(down, _)| *down), width)
            )),
            Line::from(format!(
                "queue {:>11}  {}  rtt {}",
                millis(host.queue_ms),
                sparkline(host.history.iter().map(|(_, queue)| *queue), width.saturating_sub(12)),
                millis(host.rtt_ms)
            )),
        ],
    };
    frame.render_widget(Paragraph::new(lines), head);
    draw_flows(frame, top, body);
}

fn half_lines(name: &str, half: Option<&HalfRow>) -> Vec<Line<'static>> {
    let Some(half) = half else { return vec![Line::from(format!("  {name:<14} nothing known"))] };
    let sent = match half.control.is_empty() {
        true => "not sent by us, only seen".into(),
        false => format!(
            "{}, window {}, in flight {}, held {}",
            half.control,
            Bytes(half.window),
            Bytes(half.in_flight),
            Bytes(half.held)
        ),
    };
    vec![
        Line::from(format!(
            "  {name:<14} round trip {}, shortest {}, in queues {}",
            millis(half.rtt_ms),
            millis(half.min_rtt_ms),
            millis(half.queue_ms())
        )),
        Line::from(format!("  {:<14} {sent}", "")),
        Line::from(format!(
            "  {:<14} delivered {}, sent again {}, timeouts {}",
            "",
            Bytes(half.delivered),
            Bytes(half.retransmitted),
            half.timeouts
        )),
    ]
}

fn flow_lines(top: &Top, flow: &FlowRow) -> Vec<Line<'static>> {
    let why = match &flow.why {
        Some(why) => Line::styled(format!("not split: {why}"), tinted(top, Color::Yellow)),
        None => Line::from("split"),
    };
    let mut lines = vec![
        Line::styled(format!("{} > {}", flow.client, flow.server), strong()),
        Line::from(format!("{}, {}, for {}", flow.state, flow.policy, age(flow.age_s))),
        why,
        Line::from(format!("down {}, up {}", rate(flow.down), rate(flow.up))),
        Line::default(),
    ];
    lines.extend(half_lines("access side", flow.access.as_ref()));
    lines.extend(half_lines("rest of world", flow.wan.as_ref()));
    let part = |half: &Option<HalfRow>, take: fn(&HalfRow) -> Option<f64>| half.as_ref().and_then(take);
    lines.push(Line::default());
    lines.push(Line::from(format!(
        "where time goes: rest of world {}, waiting here {}, access link {}, its queue {}",
        millis(part(&flow.wan, |half| half.rtt_ms)),
        millis(flow.wait_ms),
        millis(part(&flow.access, |half| half.min_rtt_ms)),
        millis(part(&flow.access, HalfRow::queue_ms)),
    )));
    lines
}

fn draw_reasons(frame: &mut Frame<'_>, top: &Top, snapshot: &Snapshot, area: Rect) {
    use Constraint::{Length, Min};
    if snapshot.whole.is_empty() {
        return frame.render_widget(Paragraph::new("Every flow was split."), area);
    }
    let row = |reason: &crate::Reason| {
        Row::new([reason.why.clone(), format!("{:>9}", reason.now), format!("{:>12}", reason.ever)])
    };
    let rows = snapshot.whole.iter().map(row).collect();
    let names = ["why flows are not split", "      now", "  ever"];
    list(frame, top, area, names, &[Min(40), Length(9), Length(12)], rows);
}

fn draw_gains(frame: &mut Frame<'_>, top: &Top, snapshot: &Snapshot, area: Rect) {
    use Constraint::{Length, Min};
    if snapshot.gains.is_empty() {
        let why = "No flow has come far enough yet (30 kB), or control_group is 0. docs/gain.md";
        return frame.render_widget(Paragraph::new(why), area);
    }
    let time = |time: Option<f64>| format!("{:>8}", time.map_or_else(|| "–".into(), seconds));
    let row = |row: &GainRow| {
        let servers = row.servers.as_ref().map(|servers| format!(" {servers}")).unwrap_or_default();
        Row::new([
            format!("{}{servers}", row.access),
            format!("{} {}", Bytes(row.bytes), if row.down { "down" } else { "up" }),
            time(row.split_s),
            time(row.whole_s),
            row.gain.map_or_else(|| "–".into(), |gain| format!("{gain:>5.2}")),
            row.interval.map_or_else(|| "–".into(), |(low, high)| format!("{low:.2}–{high:.2}")),
            format!("{}/{}", row.flows[0], row.flows[1]),
        ])
    };
    let rows = snapshot.gains.iter().map(row).collect();
    let names = ["hosts, servers", "first", "   split", " unsplit", " gain", "95 %", "flows"];
    let widths = [Min(14), Length(11), Length(8), Length(8), Length(5), Length(11), Length(9)];
    list(frame, top, area, names, &widths, rows);
}

fn draw_events(frame: &mut Frame<'_>, top: &Top, snapshot: &Snapshot, area: Rect) {
    if snapshot.events.is_empty() {
        return frame.render_widget(Paragraph::new("Nothing has happened since it is watched."), area);
    }
    let row = |event: &crate::Event| {
        let ago = snapshot.at_ms.saturating_sub(event.at_ms) as f64 / 1e3;
        Row::new([format!("{:>12} ago", age(ago)), event.what.clone()])
    };
    let rows = snapshot.events.iter().map(row).collect();
    list(frame, top, area, ["when", "what"], &[Constraint::Length(16), Constraint::Min(40)], rows);
}

fn draw_node(frame: &mut Frame<'_>, top: &Top, node: &NodeStatus) {
    use Constraint::{Length, Min};
    let [head, users, refused] = Layout::vertical([Length(6), Min(3), Length(6)])
        .areas(Rect { height: frame.area().height.saturating_sub(1), ..frame.area() });
    let overloaded = if node.overloaded { "  OVERLOADED: new sessions are turned away" } else { "" };
    let width = usize::from(frame.area().width).saturating_sub(22).min(60);
    let lines = vec![
        Line::styled(format!("shorthaul node {}{overloaded}", node.name), strong()),
        Line::from(vec![
            Span::raw(format!("Rate {:>12} ", rate(node.bits_per_second as f64))),
            Span::styled(
                sparkline(top.node_rates.iter().map(|r| *r as f64), width),
                tinted(top, Color::Cyan),
            ),
        ]),
        Line::from(format!(
            "Sessions {} open, {} opened, {} finished, {} broken",
            node.sessions, node.sessions_opened, node.sessions_finished, node.sessions_broken
        )),
        Line::from(format!(
            "Service time {}  buffers free {}  moved {} up, {} down",
            seconds(node.service_time_us / 1e6),
            Bytes(node.buffer_free_bytes),
            Bytes(node.bytes_up),
            Bytes(node.bytes_down)
        )),
    ];
    frame.render_widget(Paragraph::new(lines), head);
    let row = |(name, user): (&String, &super::feed::NodeUser)| {
        let numbers = [user.sessions, user.sessions_opened].map(|n| format!("{n:>10}"));
        let [open, opened] = numbers;
        Row::new([name.clone(), open, opened, format!("{:>10}", Bytes(user.bytes).to_string())])
    };
    let rows = node.users.iter().filter(|(name, _)| name.contains(&top.filter)).map(row).collect();
    let names = ["user", "      open", "    opened", "     moved"];
    list(frame, top, users, names, &[Min(20), Length(10), Length(10), Length(10)], rows);
    let mut lines = vec![Line::styled("sessions that could not be, by RFC 9209 error", faint())];
    lines.extend(node.sessions_refused.iter().map(|(error, n)| Line::from(format!("{n:>10}  {error}"))));
    if node.sessions_refused.is_empty() {
        lines.push(Line::from("         0"));
    }
    frame.render_widget(Paragraph::new(lines), refused);
}

#[cfg(test)]
mod tests {
    use super::super::feed::Seen;
    use super::*;
    use crate::snapshot::{About, HostRow, Point, Reason};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    fn half(rtt_ms: f64) -> HalfRow {
        HalfRow {
            control: "cubic".into(),
            rtt_ms: Some(rtt_ms),
            min_rtt_ms: Some(20.0),
            held: 30_000,
            ..HalfRow::default()
        }
    }

    fn snapshot() -> Snapshot {
        let host = |n: u8, down: f64, queue: f64| HostRow {
            host: [10, 0, 0, n].into(),
            flows: 2,
            split: 1,
            down,
            up: 1e5,
            held: 60_000,
            rtt_ms: Some(20.0 + queue),
            queue_ms: Some(queue),
            history: vec![(down / 2.0, 0.0), (down, queue)],
        };
        let flow = |n: u8, state: &str, why: Option<&str>| FlowRow {
            client: format!("10.0.0.{n}:40000"),
            server: "192.0.2.1:443".into(),
            host: [10, 0, 0, n].into(),
            state: state.into(),
            policy: "mode auto".into(),
            why: why.map(Into::into),
            age_s: 65.0,
            down: 5e6,
            up: 1e5,
            access: Some(half(80.0)),
            wan: Some(half(25.0)),
            wait_ms: Some(12.0),
        };
        let gain = GainRow {
            policy: 0,
            access: "10.0.0.0/24".into(),
            servers: None,
            verdict: "gains".into(),
            down: true,
            bytes: 100_000,
            split_s: Some(0.21),
            whole_s: Some(0.48),
            flows: [40, 9],
            gain: Some(2.29),
            interval: Some((1.9, 2.8)),
        };
        Snapshot {
            about: About {
                name: "gw".into(),
                access: vec!["wlan0".into()],
                wan: vec!["eth0".into()],
                ..About::default()
            },
            uptime_s: 3700.0,
            flows: [("split".to_owned(), 3), ("control".to_owned(), 1)].into(),
            down: 2e7,
            up: 2e5,
            held: 120_000,
            memory: 512 << 20,
            whole: vec![Reason { why: "control group, to compare with".into(), now: 1, ever: 4 }],
            gains: vec![gain],
            history: vec![Point { down: 2e7, queue_ms: Some(60.0), ..Point::default() }],
            hosts_known: 2,
            hosts: vec![host(7, 1.5e7, 60.0), host(8, 5e6, 90.0)],
            top_flows: vec![flow(7, "split", None), flow(8, "control", Some("it is in the control group"))],
            ..Snapshot::default()
        }
    }

    fn screen(top: &mut Top) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, top)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..24).map(line).collect()
    }

    fn press(top: &mut Top, keys: &str) {
        for key in keys.chars() {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            top.on_key(KeyEvent::from(code));
        }
    }

    fn opened() -> Top {
        let mut top = Top::new(false);
        top.see(Ok(Seen::Gateway(Box::new(snapshot()), None)));
        top
    }

    #[test]
    fn the_first_screen_fits_and_says_what_it_gives() {
        let lines = screen(&mut opened());
        assert!(
            lines[0].starts_with("shorthaul gw  2 hosts  watched for 1 h 1 min  wlan0 <-> eth0"),
            "{}",
            lines[0]
        );
        assert!(
            lines[1].contains("Down") && lines[1].contains("20 Mbit/s") && lines[1].contains("60 ms"),
            "{}",
            lines[1]
        );
        assert!(lines[2].contains("4 flows: 1 control, 3 split"), "{}", lines[2]);
        assert!(lines[3].contains("2.29 x as fast (1.90 to 2.80)"), "{}", lines[3]);
        assert!(lines[6].starts_with("10.0.0.7") && lines[6].contains("15 Mbit/s"), "{}", lines[6]);
        assert!(lines[7].starts_with("10.0.0.8") && lines[23].contains("q leave"), "{lines:#?}");
    }

    #[test]
    fn rows_are_sorted_filtered_and_opened() {
        let mut top = opened();
        press(&mut top, "s");
        assert!(screen(&mut top)[6].starts_with("10.0.0.8"), "by queue");
        press(&mut top, "/0.7\n");
        let lines = screen(&mut top);
        assert!(lines[6].starts_with("10.0.0.7") && lines[7].is_empty(), "{lines:#?}");
        press(&mut top, "\n");
        assert_eq!(top.sought().as_deref(), Some("10.0.0.7"));
        assert!(screen(&mut top)[5].starts_with("10.0.0.7  2 flows, 1 split"));
        press(&mut top, "\n");
        let lines = screen(&mut top).join("\n");
        assert!(
            lines.contains("where time goes: rest of world 25 ms, waiting here 12 ms, access link 20 ms"),
            "{lines}"
        );
    }

    #[test]
    fn it_says_why_a_flow_is_not_split() {
        let mut top = opened();
        press(&mut top, "2");
        assert!(screen(&mut top)[6].ends_with("60 kB"), "held both ways: {}", screen(&mut top)[6]);
        press(&mut top, "/control\n\n");
        let lines = screen(&mut top).join("\n");
        assert!(lines.contains("not split: it is in the control group"), "{lines}");
        let mut top = opened();
        press(&mut top, "3");
        let lines = screen(&mut top);
        assert!(lines[6].contains("control group") && lines[6].ends_with('4'), "{lines:#?}");
    }

    #[test]
    fn a_node_is_shown_with_its_users() {
        let mut top = Top::new(false);
        let text = r#"{"name":"paris","sessions":3,"users":{"ann":{"sessions":2,"sessions_opened":9,"bytes":5000}},
            "sessions_refused":{"connection_timeout":4},"bits_per_second":7000000}"#;
        top.see(Ok(Seen::Node(serde_json::from_str(text).unwrap())));
        let lines = screen(&mut top).join("\n");
        for words in ["node paris", "7 Mbit/s", "ann", "5 kB", "4  connection_timeout"] {
            assert!(lines.contains(words), "{words} is not in\n{lines}");
        }
    }
}
