//! A scene as SVG 1.1: outlines only, so that no viewer needs a font.
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::palette::Color;
use super::scene::{Anchor, At, Item, Outline, Scene, Step, Stroke, Text, Weight};
use super::typeface;
use crate::Manifest;

/// Glyphs are defined once, a thousand units to the em.
const EM: f32 = 1000.0;

/// Writes the scene; the manifest goes into `<metadata>`.
pub(super) fn write(scene: &Scene, manifest: &Manifest) -> String {
    let mut body = String::new();
    let mut glyphs = BTreeMap::new();
    let mut clips = String::new();
    let mut clip_count = 0;
    let mut clipped = false;
    // Several figures may share one HTML page, and with it one space of ids.
    let page_id =
        fingerprint(&format!("{}{}{}{}", scene.width, scene.title, scene.description, manifest.command));
    for item in &scene.items {
        match item {
            Item::Shape { outline, fill, stroke } => shape(&mut body, outline, *fill, stroke.as_ref()),
            Item::Text(text) => write_text(&mut body, &mut glyphs, text),
            Item::Clip(clip) => {
                if std::mem::take(&mut clipped) {
                    body.push_str("</g>\n");
                }
                if let Some(rect) = clip {
                    let _ = writeln!(
                        clips,
                        "<clipPath id=\"c{page_id:x}-{clip_count}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>",
                        Num(rect.left),
                        Num(rect.top),
                        Num(rect.width()),
                        Num(rect.height())
                    );
                    let _ = writeln!(body, "<g clip-path=\"url(#c{page_id:x}-{clip_count})\">");
                    clip_count += 1;
                    clipped = true;
                }
            }
        }
    }
    if clipped {
        body.push_str("</g>\n");
    }

    let (width, height) = (Num(scene.width), Num(scene.height));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" \
         width=\"{width}pt\" height=\"{height}pt\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"t{page_id:x} d{page_id:x}\">\n"
    );
    let _ = writeln!(svg, "<title id=\"t{page_id:x}\">{}</title>", escaped(&scene.title));
    let _ = writeln!(svg, "<desc id=\"d{page_id:x}\">{}</desc>", escaped(&scene.description));
    let _ = writeln!(svg, "<metadata>{}</metadata>", escaped(&manifest.to_json()));
    svg.push_str("<defs>\n");
    svg.push_str(&clips);
    for ((weight, glyph), data) in &glyphs {
        if !data.is_empty() {
            let _ = writeln!(svg, "<path id=\"{}\" d=\"{data}\"/>", glyph_id(*weight, *glyph));
        }
    }
    svg.push_str("</defs>\n");
    let _ = writeln!(svg, "<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>", Color::PAPER.hex());
    svg.push_str(&body);
    svg.push_str("</svg>\n");
    svg
}

fn shape(body: &mut String, outline: &Outline, fill: Option<Color>, stroke: Option<&Stroke>) {
    let _ = write!(body, "<path d=\"{}\"", data(outline, 1.0, 2));
    match fill {
        Some(color) => paint(body, "fill", color),
        None => body.push_str(" fill=\"none\""),
    }
    if let Some(stroke) = stroke {
        paint(body, "stroke", stroke.color);
        let _ = write!(body, " stroke-width=\"{}\" stroke-linejoin=\"round\"", Num(stroke.width));
        if !stroke.dash.is_empty() {
            let dash: Vec<String> = stroke.dash.iter().map(|d| Num(*d).to_string()).collect();
            let _ = write!(body, " stroke-dasharray=\"{}\"", dash.join(" "));
        }
    }
    body.push_str("/>\n");
}

fn paint(body: &mut String, attribute: &str, color: Color) {
    let _ = write!(body, " {attribute}=\"{}\"", color.hex());
    if color.opacity < 1.0 {
        let _ = write!(body, " {attribute}-opacity=\"{}\"", Num(color.opacity));
    }
}

fn write_text(body: &mut String, glyphs: &mut BTreeMap<(Weight, u16), String>, text: &Text) {
    let (placed, width) = typeface::set(&text.text, text.style.weight);
    let shift = anchor_shift(text.anchor, width) * EM;
    let scale = text.style.size / EM;
    let mut uses = String::new();
    for glyph in placed {
        let key = (text.style.weight, glyph.glyph.0);
        let path = glyphs
            .entry(key)
            .or_insert_with(|| data(&typeface::outline(glyph.glyph, text.style.weight), EM, 0));
        if !path.is_empty() {
            let x = Num(shift + glyph.offset * EM);
            let id = glyph_id(key.0, key.1);
            let _ = if glyph.superscript {
                let (size, lift) = (typeface::SUPERSCRIPT_SIZE, typeface::SUPERSCRIPT_LIFT);
                let y = Num(-lift * EM);
                write!(uses, "<use xlink:href=\"#{id}\" transform=\"translate({x} {y}) scale({size})\"/>")
            } else {
                write!(uses, "<use xlink:href=\"#{id}\" x=\"{x}\"/>")
            };
        }
    }
    let rotate = if text.upright { " rotate(-90)" } else { "" };
    let transform =
        format!("translate({} {}){rotate} scale({})", Num(text.at.x), Num(text.at.y), Fine(scale));
    if text.halo > 0.0 {
        let _ = writeln!(
            body,
            "<g aria-hidden=\"true\" transform=\"{transform}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\">{uses}</g>",
            Color::PAPER.hex(),
            Num(2.0 * text.halo / scale)
        );
    }
    let _ = write!(body, "<g aria-label=\"{}\" transform=\"{transform}\"", escaped(&text.text));
    paint(body, "fill", text.style.color);
    let _ = writeln!(body, ">{uses}</g>");
}

/// How far a text's first glyph is from its reference point, in ems.
pub(super) fn anchor_shift(anchor: Anchor, width: f32) -> f32 {
    match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    }
}

fn glyph_id(weight: Weight, glyph: u16) -> String {
    match weight {
        Weight::Regular => format!("r{glyph}"),
        Weight::Bold => format!("b{glyph}"),
    }
}

fn data(outline: &Outline, scale: f32, decimals: usize) -> String {
    let mut out = String::new();
    let number = |v: f32| {
        let text = format!("{:.decimals$}", v * scale);
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        if text == "-0" { "0".to_string() } else { text.to_string() }
    };
    let mut command = |letter: char, points: &[At]| {
        out.push(letter);
        for (i, p) in points.iter().enumerate() {
            let _ = write!(out, "{}{} {}", if i > 0 { " " } else { "" }, number(p.x), number(p.y));
        }
    };
    for step in outline {
        match *step {
            Step::Move(p) => command('M', &[p]),
            Step::Line(p) => command('L', &[p]),
            Step::Quad(c, p) => command('Q', &[c, p]),
            Step::Cubic(a, b, p) => command('C', &[a, b, p]),
            Step::Close => command('Z', &[]),
        }
    }
    out
}

/// FNV-1a, to tell figures apart.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Text as XML character data and attribute value; what XML 1.0 cannot hold is left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c < ' ' || ('\u{fffe}'..='\u{ffff}').contains(&c) => {}
            c => out.push(c),
        }
    }
    out
}

/// A length with two decimals, without trailing zeros.
struct Num(f32);

impl std::fmt::Display for Num {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.2}", self.0);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if text == "-0" { "0" } else { text })
    }
}

/// A factor with five decimals.
struct Fine(f32);

impl std::fmt::Display for Fine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(format!("{:.5}", self.0).trim_end_matches('0'))
    }
}
