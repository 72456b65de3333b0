//! A scene as PNG: the same outlines as in the SVG, painted with antialiasing.
use tiny_skia::{
    FillRule, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, PixmapMut, StrokeDash, Transform,
};

use super::palette::Color;
use super::scene::{Item, Outline, Scene, Step, Stroke, Text, rectangle};
use super::svg::anchor_shift;
use super::typeface;
use crate::{Manifest, ReportError};

/// No figure needs more than this many pixels across or down.
const MAX_SIDE: f32 = 20_000.0;
const POINTS_PER_INCH: f32 = 72.0;
const INCHES_PER_METRE: f32 = 39.370_08;

/// Paints the scene at `dots_per_inch`; the manifest goes into a text chunk.
pub(super) fn write(scene: &Scene, manifest: &Manifest, dots_per_inch: f32) -> Result<Vec<u8>, ReportError> {
    let scale = dots_per_inch / POINTS_PER_INCH;
    let (width, height) = ((scene.width * scale).round(), (scene.height * scale).round());
    let too_large = || ReportError::TooLarge { width: width as u64, height: height as u64 };
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(too_large());
    }
    let mut pixmap = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
    pixmap.fill(solid(Color::PAPER));
    let to_pixels = Transform::from_scale(scale, scale);
    paint_items(scene, &mut pixmap.as_mut(), to_pixels);
    encode(&pixmap, manifest, dots_per_inch)
}

fn paint_items(scene: &Scene, canvas: &mut PixmapMut, to_pixels: Transform) {
    let mut mask: Option<Mask> = None;
    for item in &scene.items {
        match item {
            Item::Shape { outline, fill, stroke } => {
                let Some(path) = path(outline) else { continue };
                if let Some(color) = fill {
                    canvas.fill_path(&path, &ink(*color), FillRule::Winding, to_pixels, mask.as_ref());
                }
                if let Some(stroke) = stroke {
                    canvas.stroke_path(&path, &ink(stroke.color), &pen(stroke), to_pixels, mask.as_ref());
                }
            }
            Item::Text(text) => paint_text(text, canvas, to_pixels, mask.as_ref()),
            Item::Clip(rect) => {
                mask = rect.and_then(|rect| {
                    let mut mask = Mask::new(canvas.width(), canvas.height())?;
                    mask.fill_path(&path(&rectangle(rect))?, FillRule::Winding, true, to_pixels);
                    Some(mask)
                });
            }
        }
    }
}

fn paint_text(text: &Text, canvas: &mut PixmapMut, to_pixels: Transform, mask: Option<&Mask>) {
    let size = text.style.size;
    let (placed, width) = typeface::set(&text.text, text.style.weight);
    let mut start = to_pixels.pre_translate(text.at.x, text.at.y);
    if text.upright {
        start = start.pre_rotate(-90.0);
    }
    start = start.pre_scale(size, size).pre_translate(anchor_shift(text.anchor, width), 0.0);
    let glyphs: Vec<(Path, Transform)> = placed
        .iter()
        .filter_map(|p| {
            let path = path(&typeface::outline(p.glyph, text.style.weight))?;
            let place = start.pre_translate(p.offset, 0.0);
            let (size, lift) = (typeface::SUPERSCRIPT_SIZE, typeface::SUPERSCRIPT_LIFT);
            let raised = |place: Transform| place.pre_translate(0.0, -lift).pre_scale(size, size);
            Some((path, if p.superscript { raised(place) } else { place }))
        })
        .collect();
    if text.halo > 0.0 {
        let halo = pen(&Stroke::solid(Color::PAPER, 2.0 * text.halo / size));
        for (path, transform) in &glyphs {
            canvas.stroke_path(path, &ink(Color::PAPER), &halo, *transform, mask);
        }
    }
    for (path, transform) in &glyphs {
        canvas.fill_path(path, &ink(text.style.color), FillRule::Winding, *transform, mask);
    }
}

fn path(outline: &Outline) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for step in outline {
        match *step {
            Step::Move(p) => builder.move_to(p.x, p.y),
            Step::Line(p) => builder.line_to(p.x, p.y),
            Step::Quad(c, p) => builder.quad_to(c.x, c.y, p.x, p.y),
            Step::Cubic(a, b, p) => builder.cubic_to(a.x, a.y, b.x, b.y, p.x, p.y),
            Step::Close => builder.close(),
        }
    }
    builder.finish()
}

fn solid(color: Color) -> tiny_skia::Color {
    let [r, g, b] = color.rgb;
    tiny_skia::Color::from_rgba8(r, g, b, (color.opacity.clamp(0.0, 1.0) * 255.0).round() as u8)
}

fn ink(color: Color) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(solid(color));
    paint
}

fn pen(stroke: &Stroke) -> tiny_skia::Stroke {
    tiny_skia::Stroke {
        width: stroke.width,
        line_join: LineJoin::Round,
        dash: if stroke.dash.is_empty() { None } else { StrokeDash::new(stroke.dash.to_vec(), 0.0) },
        ..tiny_skia::Stroke::default()
    }
}

/// RGB without alpha: the paper is solid, so no pixel is see-through.
fn encode(pixmap: &Pixmap, manifest: &Manifest, dots_per_inch: f32) -> Result<Vec<u8>, ReportError> {
    let rgb: Vec<u8> = pixmap.pixels().iter().flat_map(|p| [p.red(), p.green(), p.blue()]).collect();
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, pixmap.width(), pixmap.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    let per_metre = (dots_per_inch * INCHES_PER_METRE).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: per_metre,
        yppu: per_metre,
        unit: png::Unit::Meter,
    }));
    encoder.add_itxt_chunk("Comment".to_string(), manifest.to_json())?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rgb)?;
    writer.finish()?;
    Ok(out)
}
