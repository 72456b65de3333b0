//! From the description to places on paper: header, grid of panels, footer.
use super::axis::{Axis, Ends, Extent, Ruler};
use super::draw::{self, Frame};
use super::figure::{Figure, Panel, Share};
use super::palette::Color;
use super::scene::{Anchor, Rect, Scene, Text, Type, Weight, at};
use super::series::{Mark, Series};
use super::typeface;
use crate::Manifest;

const MARGIN: f32 = 10.0;
const GAP_BETWEEN_COLUMNS: f32 = 14.0;
const GAP_BETWEEN_ROWS: f32 = 9.0;

/// Sizes and weights of type, from largest to smallest.
pub(super) const TITLE: Type = Type { size: 11.0, weight: Weight::Bold, color: Color::INK };
pub(super) const SUBTITLE: Type = Type { size: 8.5, weight: Weight::Regular, color: Color::QUIET };
pub(super) const LEGEND: Type = Type { size: 8.0, weight: Weight::Regular, color: Color::INK };
pub(super) const PANEL_TITLE: Type = Type { size: 8.5, weight: Weight::Bold, color: Color::INK };
pub(super) const AXIS_LABEL: Type = Type { size: 8.0, weight: Weight::Regular, color: Color::INK };
pub(super) const TICK_LABEL: Type = Type { size: 7.5, weight: Weight::Regular, color: Color::INK };
pub(super) const CAPTION: Type = Type { size: 7.5, weight: Weight::Regular, color: Color::INK };
pub(super) const NOTE: Type = Type { size: 6.5, weight: Weight::Regular, color: Color::QUIET };
pub(super) const IMPRINT: Type = Type { size: 6.0, weight: Weight::Regular, color: Color::QUIET };

/// The distance from one baseline to the next, in sizes.
const LEADING: f32 = 1.3;
const NOTE_LEADING: f32 = 1.15;

/// Lays out the whole figure.
pub(super) fn scene(figure: &Figure, manifest: &Manifest) -> Scene {
    let mut scene = Scene {
        width: figure.width,
        height: 0.0,
        title: figure.title.clone(),
        description: description(figure),
        items: Vec::new(),
    };
    let mut top = MARGIN;
    top = paragraph(&mut scene, &figure.title, TITLE, top);
    top = paragraph(&mut scene, &figure.subtitle, SUBTITLE, top);
    top = legend(&mut scene, figure, top);
    top = grid(&mut scene, figure, top);
    if !figure.caption.is_empty() {
        top = paragraph(&mut scene, &figure.caption, CAPTION, top + 4.0);
    }
    let mut imprint = vec![format!("{} {}", manifest.program, manifest.version), manifest.command.clone()];
    imprint.extend(manifest.seed.map(|seed| format!("seed {seed}")));
    top = paragraph(&mut scene, &imprint.join(" · "), IMPRINT, top + 3.0);
    scene.height = (top + MARGIN - 4.0).ceil();
    scene
}

/// What the figure shows, for those who cannot see it.
fn description(figure: &Figure) -> String {
    let panels: Vec<String> =
        figure.panels.iter().map(|p| p.title.clone()).filter(|t| !t.is_empty()).collect();
    let mut parts = vec![figure.subtitle.clone(), figure.caption.clone()];
    if !panels.is_empty() {
        parts.push(format!("Panels: {}.", panels.join("; ")));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// Sets a paragraph over the whole width and returns where it ends.
fn paragraph(scene: &mut Scene, text: &str, style: Type, top: f32) -> f32 {
    let room = scene.width - 2.0 * MARGIN;
    let mut top = top;
    for line in typeface::wrap(text, style.weight, style.size, room) {
        let baseline = top + style.size;
        scene.text(text_at(line, at(MARGIN, baseline), Anchor::Start, style));
        top += style.size * LEADING;
    }
    if text.is_empty() { top } else { top + 2.0 }
}

/// A text that reads from left to right, without halo.
pub(super) fn text_at(text: impl Into<String>, at: super::scene::At, anchor: Anchor, style: Type) -> Text {
    Text { text: text.into(), at, anchor, upright: false, style, halo: 0.0 }
}

/// One legend for all panels: each look once, in the order of first use.
fn legend(scene: &mut Scene, figure: &Figure, top: f32) -> f32 {
    const SAMPLE: f32 = 16.0;
    // What is drawn in two ways (bars in one panel, a line in another) is one thing: named once.
    let mut named: Vec<&Series> = Vec::new();
    for series in figure.panels.iter().flat_map(|p| &p.series).filter(|s| !s.label.is_empty()) {
        if !named.iter().any(|n| n.label == series.label && n.hue == series.hue) {
            named.push(series);
        }
    }
    if named.is_empty() {
        return top + 4.0;
    }
    let line = LEGEND.size * 1.5;
    let (mut x, mut y) = (MARGIN, top + 2.0);
    for series in named {
        let width = SAMPLE + 4.0 + typeface::width(&series.label, LEGEND.weight, LEGEND.size);
        if x + width > scene.width - MARGIN && x > MARGIN {
            (x, y) = (MARGIN, y + line);
        }
        let middle = y + line / 2.0;
        draw::sample(scene, series, at(x, middle), SAMPLE);
        let baseline = middle + LEGEND.size * typeface::CAPITAL / 2.0;
        scene.text(text_at(&series.label, at(x + SAMPLE + 4.0, baseline), Anchor::Start, LEGEND));
        x += width + 14.0;
    }
    y + line + 6.0
}

/// The panels' axes, with ranges shared as the figure asks.
fn rulers(figure: &Figure) -> Vec<(Ruler, Ruler)> {
    let extents: Vec<(Extent, Extent)> = figure.panels.iter().map(draw::extents).collect();
    // Only what is the same quantity on the same scale can share a range.
    let alike = |a: &Axis, b: &Axis| {
        (&a.label, a.unit, a.scale) == (&b.label, b.unit, b.scale) && a.categories == b.categories
    };
    let shared =
        |share: Share, i: usize, axis: fn(&Panel) -> &Axis, pick: fn(&(Extent, Extent)) -> Extent| {
            let with = |j: usize| match share {
                Share::None => i == j,
                Share::Row => i / figure.columns == j / figure.columns,
                Share::Column => i % figure.columns == j % figure.columns,
                Share::All => true,
            };
            let mine = axis(&figure.panels[i]);
            let together = (0..extents.len()).filter(|j| with(*j) && alike(mine, axis(&figure.panels[*j])));
            together.map(|j| pick(&extents[j])).fold(Extent::NONE, Extent::union)
        };
    let ruler = |(i, panel): (usize, &Panel)| {
        let dotted = panel.series.iter().all(|s| matches!(s.mark, Mark::Dots | Mark::LineAndDots));
        let x_ends = if dotted { Ends::Padded } else { Ends::Flush };
        let x = Ruler::new(&panel.x, shared(figure.share_x, i, |p| &p.x, |e| e.0), x_ends);
        let y = Ruler::new(&panel.y, shared(figure.share_y, i, |p| &p.y, |e| e.1), Ends::FromZero);
        (x, y)
    };
    figure.panels.iter().enumerate().map(ruler).collect()
}

/// The panels in rows; plot areas line up in both directions.
fn grid(scene: &mut Scene, figure: &Figure, top: f32) -> f32 {
    let columns = figure.columns.min(figure.panels.len().max(1));
    let rulers = rulers(figure);
    let y_ticks: Vec<_> =
        rulers.iter().map(|(_, y)| y.ticks((figure.panel_height / 22.0) as usize + 1)).collect();
    // Every panel says what it shows, and in which unit: a reader looks at one of them.
    let y_labelled = |i: usize| !rulers[i].1.label().is_empty();
    let x_labelled = |i: usize| !rulers[i].0.label().is_empty();
    let gutters: Vec<f32> = (0..columns)
        .map(|column| {
            let widths = (column..figure.panels.len()).step_by(columns).map(|i| {
                let labels = y_ticks[i].iter().map(|t| draw::tick_width(&t.label));
                labels.fold(0.0, f32::max) + 5.0 + if y_labelled(i) { AXIS_LABEL.size + 5.0 } else { 0.0 }
            });
            widths.fold(0.0, f32::max)
        })
        .collect();
    let taken: f32 = gutters.iter().sum::<f32>() + GAP_BETWEEN_COLUMNS * (columns - 1) as f32;
    // A little room on the right, where the last tick's label sticks out.
    let plot_width = ((figure.width - 2.0 * MARGIN - 8.0 - taken) / columns as f32).max(20.0);

    let mut top = top;
    for (row, panels) in figure.panels.chunks(columns).enumerate() {
        let titled = panels.iter().any(|p| !p.title.is_empty());
        let notes: Vec<Vec<String>> = panels
            .iter()
            .map(|panel| typeface::wrap(&panel.note, NOTE.weight, NOTE.size, plot_width))
            .collect();
        let note_height = notes.iter().map(Vec::len).max().unwrap_or(0) as f32 * NOTE.size * NOTE_LEADING;
        let plot_top = top + note_height + if titled { PANEL_TITLE.size * LEADING + 2.0 } else { 4.0 };
        let plot_bottom = plot_top + figure.panel_height;
        let mut left = MARGIN;
        let mut lowest = plot_bottom;
        for (column, panel) in panels.iter().enumerate() {
            let i = row * columns + column;
            let plot_left = left + gutters[column];
            let area =
                Rect { left: plot_left, top: plot_top, right: plot_left + plot_width, bottom: plot_bottom };
            let (x, y) = &rulers[i];
            let frame = Frame { area, x, y };
            for (line, text) in notes[column].iter().enumerate() {
                let above = (notes[column].len() - line) as f32 - 1.0;
                let baseline = plot_top - 3.0 - above * NOTE.size * NOTE_LEADING;
                scene.text(text_at(text, at(plot_left, baseline), Anchor::Start, NOTE));
            }
            let bottom = draw::panel(
                scene,
                panel,
                &frame,
                &y_ticks[i],
                draw::Labels {
                    x: x_labelled(i),
                    y: y_labelled(i).then_some(left + AXIS_LABEL.size),
                    title: plot_top - note_height - 5.0,
                },
            );
            lowest = lowest.max(bottom);
            left = plot_left + plot_width + GAP_BETWEEN_COLUMNS;
        }
        top = lowest + GAP_BETWEEN_ROWS;
    }
    top - GAP_BETWEEN_ROWS + 4.0
}
