//! One panel: grid, series, axes.
use super::axis::{Extent, Ruler};
use super::figure::Panel;
use super::layout::{AXIS_LABEL, IMPRINT, PANEL_TITLE, TICK_LABEL, text_at};
use super::palette::Color;
use super::scene::{
    Anchor, At, Item, Rect, Scene, Step, Stroke, Text, Type, Weight, at, circle, polygon, rectangle,
};
use super::series::{Dash, Mark, Marker, Point, Series};
use super::ticks::Tick;
use super::typeface;

const LINE_WIDTH: f32 = 1.25;
const SPINE: f32 = 0.6;
const TICK: f32 = 2.5;
const DOT: f32 = 1.9;
const BAND_OPACITY: f32 = 0.2;
/// How much of a category's width its bars take.
const BAR_GROUP: f64 = 0.78;

/// Where a panel's data go on paper.
pub(super) struct Frame<'a> {
    pub area: Rect,
    pub x: &'a Ruler,
    pub y: &'a Ruler,
}

/// Which axis labels a panel shows.
pub(super) struct Labels {
    pub x: bool,
    /// The baseline of the vertical axis's label.
    pub y: Option<f32>,
    /// The baseline of the panel's title.
    pub title: f32,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> Option<f32> {
        self.x.place(value).map(|f| self.area.left + f * self.area.width())
    }

    fn y(&self, value: f64) -> Option<f32> {
        self.y.place(value).map(|f| self.area.bottom - f * self.area.height())
    }

    fn at(&self, point: &Point) -> Option<At> {
        Some(at(self.x(point.x)?, self.y(point.y)?))
    }
}

/// Over what the data of a panel reach, horizontally and vertically.
pub(super) fn extents(panel: &Panel) -> (Extent, Extent) {
    let (mut x, mut y) = (Extent::NONE, Extent::NONE);
    for series in &panel.series {
        for point in &series.points {
            x.include(point.x);
            y.include(point.y);
            if let Some((low, high)) = point.interval {
                y.include(low);
                y.include(high);
            }
        }
        if series.mark == Mark::Bars && y.high > 0.0 {
            // Room for what is written above the tallest bar.
            let lines = series.points.iter().filter_map(|p| p.text.as_ref()).count().min(1);
            y.include(y.high * (1.0 + 0.08 * lines as f64));
        }
    }
    for reference in &panel.references {
        y.include(reference.at);
    }
    (x, y)
}

/// The width of a tick's label.
pub(super) fn tick_width(label: &str) -> f32 {
    typeface::width(label, TICK_LABEL.weight, TICK_LABEL.size)
}

/// Draws the panel and returns where it ends below.
pub(super) fn panel(
    scene: &mut Scene,
    panel: &Panel,
    frame: &Frame,
    y_ticks: &[Tick],
    labels: Labels,
) -> f32 {
    let x_ticks = fitting_x_ticks(panel, frame);
    grid_lines(scene, panel, frame, &x_ticks, y_ticks);
    // Half a line's width more, so that a line along the edge is not shaved.
    scene.items.push(Item::Clip(Some(frame.area.grown(LINE_WIDTH))));
    for series in &panel.series {
        band(scene, series, frame);
    }
    bars(scene, panel, frame);
    for reference in &panel.references {
        if let Some(y) = frame.y(reference.at) {
            let stroke = Stroke { color: Color::QUIET, width: 0.7, dash: &[3.0, 2.0] };
            scene.line(at(frame.area.left, y), at(frame.area.right, y), stroke);
        }
    }
    for series in &panel.series {
        lines(scene, series, frame);
    }
    scene.items.push(Item::Clip(None));
    for series in &panel.series {
        dots(scene, series, frame);
    }
    reference_labels(scene, panel, frame);

    if !panel.title.is_empty() {
        let place = at(frame.area.left, labels.title);
        let mut text = text_at(&panel.title, place, Anchor::Start, PANEL_TITLE);
        // A title longer than its panel is set smaller rather than into the next one.
        let length = typeface::width(&panel.title, PANEL_TITLE.weight, PANEL_TITLE.size);
        text.style.size *= (frame.area.width() / length.max(1.0)).clamp(0.6, 1.0);
        scene.text(text);
    }
    y_axis(scene, frame, y_ticks, labels.y);
    x_axis(scene, panel, frame, &x_ticks, labels.x)
}

/// As many ticks as have room for their labels beside each other.
fn fitting_x_ticks(panel: &Panel, frame: &Frame) -> Vec<Tick> {
    if !panel.x.categories.is_empty() {
        return Vec::new();
    }
    let room = frame.area.width();
    let mut at_most = (room / 18.0) as usize + 1;
    loop {
        let ticks = frame.x.ticks(at_most);
        let places: Vec<(f32, f32)> = ticks
            .iter()
            .filter_map(|t| Some((frame.x.place_shown(t.value)? * room, tick_width(&t.label))))
            .collect();
        let apart = |w: &[(f32, f32)]| w[1].0 - w[0].0 > (w[0].1 + w[1].1) / 2.0 + TICK_LABEL.size * 0.7;
        if at_most <= 2 || places.windows(2).all(apart) {
            return ticks;
        }
        at_most -= 1;
    }
}

fn grid_lines(scene: &mut Scene, panel: &Panel, frame: &Frame, x_ticks: &[Tick], y_ticks: &[Tick]) {
    let area = frame.area;
    let line = |width| Stroke::solid(Color::GRID, width);
    for value in frame.y.minor_ticks() {
        if let Some(y) = frame.y.place_shown(value).map(|f| area.bottom - f * area.height()) {
            scene.line(at(area.left, y), at(area.right, y), line(0.25));
        }
    }
    for tick in y_ticks {
        if let Some(y) = frame.y.place_shown(tick.value).map(|f| area.bottom - f * area.height()) {
            scene.line(at(area.left, y), at(area.right, y), line(0.6));
        }
    }
    if panel.x.categories.is_empty() {
        for tick in x_ticks {
            if let Some(x) = frame.x.place_shown(tick.value).map(|f| area.left + f * area.width()) {
                scene.line(at(x, area.top), at(x, area.bottom), line(0.4));
            }
        }
    }
}

fn y_axis(scene: &mut Scene, frame: &Frame, ticks: &[Tick], label_baseline: Option<f32>) {
    let area = frame.area;
    let ink = || Stroke::solid(Color::INK, SPINE);
    scene.line(at(area.left, area.top), at(area.left, area.bottom), ink());
    for value in frame.y.minor_ticks() {
        if let Some(f) = frame.y.place_shown(value) {
            let y = area.bottom - f * area.height();
            scene.line(at(area.left - TICK * 0.6, y), at(area.left, y), Stroke::solid(Color::INK, 0.4));
        }
    }
    for tick in ticks {
        let Some(f) = frame.y.place_shown(tick.value) else { continue };
        let y = area.bottom - f * area.height();
        scene.line(at(area.left - TICK, y), at(area.left, y), ink());
        let baseline = y + TICK_LABEL.size * typeface::CAPITAL / 2.0;
        scene.text(text_at(&tick.label, at(area.left - TICK - 2.0, baseline), Anchor::End, TICK_LABEL));
    }
    if let Some(x) = label_baseline {
        let middle = at(x, (area.top + area.bottom) / 2.0);
        let mut text = text_at(frame.y.label(), middle, Anchor::Middle, AXIS_LABEL);
        text.upright = true;
        // A label longer than its axis is set smaller rather than cut.
        let length = typeface::width(&text.text, AXIS_LABEL.weight, AXIS_LABEL.size);
        text.style.size *= (area.height() * 1.1 / length).min(1.0);
        scene.text(text);
    }
}

fn x_axis(scene: &mut Scene, panel: &Panel, frame: &Frame, ticks: &[Tick], labelled: bool) -> f32 {
    let area = frame.area;
    let ink = || Stroke::solid(Color::INK, SPINE);
    scene.line(at(area.left, area.bottom), at(area.right, area.bottom), ink());
    let first_baseline = area.bottom + TICK + 1.0 + TICK_LABEL.size;
    let mut lowest = first_baseline;
    for tick in ticks {
        let Some(f) = frame.x.place_shown(tick.value) else { continue };
        let x = area.left + f * area.width();
        scene.line(at(x, area.bottom), at(x, area.bottom + TICK), ink());
        scene.text(text_at(&tick.label, at(x, first_baseline), Anchor::Middle, TICK_LABEL));
    }
    lowest = lowest.max(category_names(scene, &panel.x.categories, frame));
    if labelled {
        lowest += AXIS_LABEL.size * 1.3;
        let middle = at((area.left + area.right) / 2.0, lowest);
        scene.text(text_at(frame.x.label(), middle, Anchor::Middle, AXIS_LABEL));
    }
    lowest + 2.0
}

/// The names of categories: wrapped below their places, or turned where one of them is too wide for that. Returns the lowest point.
fn category_names(scene: &mut Scene, names: &[String], frame: &Frame) -> f32 {
    /// More lines than these are turned, too.
    const MOST_LINES: usize = 3;
    /// How long a turned line may be.
    const LONGEST: f32 = 96.0;
    let area = frame.area;
    let slot = area.width() / names.len().max(1) as f32;
    let leading = TICK_LABEL.size * 1.15;
    let wrapped = |room: f32| -> Vec<Vec<String>> {
        names.iter().map(|name| typeface::wrap(name, TICK_LABEL.weight, TICK_LABEL.size, room)).collect()
    };
    let upright = wrapped(slot - 3.0);
    let fits = |lines: &Vec<String>| {
        lines.len() <= MOST_LINES && lines.iter().all(|line| tick_width(line) <= slot - 2.0)
    };
    let first_baseline = area.bottom + TICK + 1.0 + TICK_LABEL.size;
    let mut lowest = first_baseline;
    let middle = |i: usize| area.left + (i as f32 + 0.5) * slot;
    if upright.iter().all(fits) {
        for (i, lines) in upright.iter().enumerate() {
            for (line, text) in lines.iter().enumerate() {
                let baseline = first_baseline + line as f32 * leading;
                scene.text(text_at(text, at(middle(i), baseline), Anchor::Middle, TICK_LABEL));
                lowest = lowest.max(baseline);
            }
        }
        return lowest;
    }
    let top = area.bottom + TICK + 2.0;
    for (i, mut lines) in wrapped(LONGEST).into_iter().enumerate() {
        let room = ((slot / leading) as usize).max(1);
        if lines.len() > room {
            lines.truncate(room);
            lines.last_mut().into_iter().for_each(|line| line.push('…'));
        }
        let first =
            middle(i) + TICK_LABEL.size * typeface::CAPITAL / 2.0 - (lines.len() - 1) as f32 * leading / 2.0;
        for (line, text) in lines.iter().enumerate() {
            let place = at(first + line as f32 * leading, top);
            scene.text(Text { upright: true, ..text_at(text, place, Anchor::End, TICK_LABEL) });
            lowest = lowest.max(top + tick_width(text));
        }
    }
    lowest
}

fn reference_labels(scene: &mut Scene, panel: &Panel, frame: &Frame) {
    let style = Type { size: 6.5, weight: Weight::Regular, color: Color::QUIET };
    for reference in &panel.references {
        let Some(y) = frame.y(reference.at) else { continue };
        let above = y - style.size > frame.area.top - 2.0;
        let baseline = if above { y - 2.0 } else { y + style.size };
        let place = at(frame.area.right - 1.0, baseline);
        let text = text_at(&reference.label, place, Anchor::End, style);
        scene.text(Text { halo: 1.2, ..text });
    }
}

/// The corners of a series' line: gaps part it, a step has a corner more, and where there are
/// many more points than can be seen, only the first, lowest, highest and last of each quarter
/// point of width are kept.
fn runs(series: &Series, frame: &Frame, value: impl Fn(&Point) -> f64) -> Vec<Vec<At>> {
    let mut runs: Vec<Vec<At>> = vec![Vec::new()];
    for point in &series.points {
        let place = frame.at(&Point::new(point.x, value(point)));
        match (place, runs.last_mut()) {
            (Some(place), Some(run)) => {
                if let (Mark::Step, Some(last)) = (series.mark, run.last().copied()) {
                    run.push(at(place.x, last.y));
                }
                run.push(place);
            }
            _ => runs.push(Vec::new()),
        }
    }
    runs.retain(|run| !run.is_empty());
    runs.into_iter().map(|run| thinned(&run)).collect()
}

fn thinned(run: &[At]) -> Vec<At> {
    const COLUMN: f32 = 0.25;
    let mut kept: Vec<At> = Vec::new();
    for column in run.chunk_by(|a, b| (a.x / COLUMN).floor() == (b.x / COLUMN).floor()) {
        if column.len() <= 4 {
            kept.extend_from_slice(column);
            continue;
        }
        let mut chosen = [0, 0, 0, column.len() - 1];
        for (i, place) in column.iter().enumerate() {
            if place.y < column[chosen[1]].y {
                chosen[1] = i;
            }
            if place.y > column[chosen[2]].y {
                chosen[2] = i;
            }
        }
        chosen.sort_unstable();
        kept.extend(chosen.iter().map(|i| column[*i]));
        kept.dedup();
    }
    kept
}

fn lines(scene: &mut Scene, series: &Series, frame: &Frame) {
    if !matches!(series.mark, Mark::Line | Mark::Step | Mark::LineAndDots) {
        return;
    }
    for run in runs(series, frame, |p| p.y) {
        if let [only] = run[..] {
            // A lone point has no line, but it was measured.
            scene.fill(circle(only, LINE_WIDTH), ink(series));
        } else {
            let mut outline: Vec<Step> = run.into_iter().map(Step::Line).collect();
            if let Some(Step::Line(first)) = outline.first().copied() {
                outline[0] = Step::Move(first);
            }
            scene.stroke(outline, pen(series));
        }
    }
}

/// The confidence band of a line.
fn band(scene: &mut Scene, series: &Series, frame: &Frame) {
    if !matches!(series.mark, Mark::Line | Mark::Step) {
        return;
    }
    let side = |pick: fn((f64, f64)) -> f64| runs(series, frame, |p| p.interval.map_or(f64::NAN, pick));
    for (low, mut high) in side(|i| i.0).into_iter().zip(side(|i| i.1)) {
        high.extend(low.into_iter().rev());
        scene.fill(polygon(&high), series.hue.color().with_opacity(BAND_OPACITY * series.opacity));
    }
}

fn bars(scene: &mut Scene, panel: &Panel, frame: &Frame) {
    let groups: Vec<&Series> = panel.series.iter().filter(|s| s.mark == Mark::Bars).collect();
    // Only those that have a bar in a category share its room.
    let has_bar = |series: &Series, x: f64| series.points.iter().any(|p| p.x == x && p.y.is_finite());
    let Some(floor) = frame.y(0.0).or(Some(frame.area.bottom)) else { return };
    for (i, series) in groups.iter().enumerate() {
        for point in &series.points {
            let beside = groups.iter().filter(|other| has_bar(other, point.x)).count();
            let before = groups[..i].iter().filter(|other| has_bar(other, point.x)).count();
            let width = BAR_GROUP / beside.max(1) as f64;
            let left = point.x - BAR_GROUP / 2.0 + before as f64 * width;
            let (Some(x1), Some(x2), Some(y)) = (frame.x(left), frame.x(left + width), frame.y(point.y))
            else {
                continue;
            };
            // A hair of paper between neighbours.
            let bar = Rect { left: x1 + 0.4, right: x2 - 0.4, top: y.min(floor), bottom: y.max(floor) };
            scene.fill(rectangle(bar), ink(series));
            let top =
                whisker(scene, point, (x1 + x2) / 2.0, frame, Color::INK).unwrap_or(bar.top).min(bar.top);
            if let Some(text) = &point.text {
                let mut style = Type { size: 7.0, ..IMPRINT };
                style.color = Color::INK;
                let room = (x2 - x1) * 1.15;
                style.size *=
                    (room / typeface::width(text, style.weight, style.size).max(1.0)).clamp(0.7, 1.0);
                let place = at((x1 + x2) / 2.0, top - 2.0);
                scene.text(Text { halo: 0.8, ..text_at(text, place, Anchor::Middle, style) });
            }
        }
    }
}

/// The confidence interval as an upright line with caps; returns its upper end.
fn whisker(scene: &mut Scene, point: &Point, x: f32, frame: &Frame, color: Color) -> Option<f32> {
    const CAP: f32 = 1.8;
    let (low, high) = point.interval?;
    let (low, high) = (frame.y(low)?, frame.y(high)?);
    let stroke = || Stroke::solid(color, 0.7);
    scene.line(at(x, low), at(x, high), stroke());
    for y in [low, high] {
        scene.line(at(x - CAP, y), at(x + CAP, y), stroke());
    }
    Some(high)
}

fn dots(scene: &mut Scene, series: &Series, frame: &Frame) {
    if !matches!(series.mark, Mark::Dots | Mark::LineAndDots) {
        return;
    }
    for point in &series.points {
        let Some(place) = frame.at(point).filter(|p| {
            let area = frame.area.grown(DOT);
            p.x >= area.left && p.x <= area.right && p.y >= area.top && p.y <= area.bottom
        }) else {
            continue;
        };
        whisker(scene, point, place.x, frame, ink(series));
        dot(scene, series, place);
        if let Some(text) = &point.text {
            let style = Type { size: 7.0, ..AXIS_LABEL };
            let place = at(place.x + DOT + 2.0, place.y - DOT);
            scene.text(Text { halo: 1.0, ..text_at(text, place, Anchor::Start, style) });
        }
    }
}

fn dot(scene: &mut Scene, series: &Series, p: At) {
    let outline = match series.marker {
        Marker::Circle => circle(p, DOT),
        Marker::Square => rectangle(Rect { left: p.x, right: p.x, top: p.y, bottom: p.y }.grown(DOT * 0.88)),
        Marker::Triangle => polygon(&[
            at(p.x, p.y - DOT * 1.25),
            at(p.x + DOT * 1.15, p.y + DOT * 0.8),
            at(p.x - DOT * 1.15, p.y + DOT * 0.8),
        ]),
        Marker::Diamond => polygon(&[
            at(p.x, p.y - DOT * 1.3),
            at(p.x + DOT * 1.3, p.y),
            at(p.x, p.y + DOT * 1.3),
            at(p.x - DOT * 1.3, p.y),
        ]),
    };
    // A rim of paper keeps dots apart where they overlap.
    scene.items.push(Item::Shape {
        outline,
        fill: Some(ink(series)),
        stroke: Some(Stroke::solid(Color::PAPER, 0.4)),
    });
}

/// The entry of a legend: what the series looks like, `width` long, its middle at height `from.y`.
pub(super) fn sample(scene: &mut Scene, series: &Series, from: At, width: f32) {
    match series.mark {
        Mark::Bars => {
            let half = 3.0;
            let middle = from.x + width / 2.0;
            let swatch = Rect {
                left: middle - width / 2.0,
                right: middle + width / 2.0,
                top: from.y - half,
                bottom: from.y + half,
            };
            scene.fill(rectangle(swatch), ink(series));
        }
        Mark::Dots => dot(scene, series, at(from.x + width / 2.0, from.y)),
        Mark::Line | Mark::Step | Mark::LineAndDots => {
            scene.line(from, at(from.x + width, from.y), Stroke { width: 1.6, ..pen(series) });
            if series.mark == Mark::LineAndDots {
                dot(scene, series, at(from.x + width / 2.0, from.y));
            }
        }
    }
}

fn ink(series: &Series) -> Color {
    series.hue.color().with_opacity(series.opacity)
}

fn pen(series: &Series) -> Stroke {
    let dash: &[f32] = match series.dash {
        Dash::Solid => &[],
        Dash::Dashed => &[4.0, 2.2],
        Dash::Dotted => &[1.2, 1.6],
    };
    Stroke { color: ink(series), width: LINE_WIDTH, dash }
}
