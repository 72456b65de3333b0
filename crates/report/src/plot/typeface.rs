//! The typeface: Noto Sans (SIL Open Font License 1.1), compiled in, used as outlines.
use std::sync::OnceLock;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::scene::{Outline, Step, Weight, at};

/// A glyph set in a line: which one, and how far from the start, in ems.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Placed {
    pub glyph: GlyphId,
    pub offset: f32,
    /// Smaller than the rest and lifted off the baseline.
    pub superscript: bool,
}

/// The size of a superscript glyph, and how far it is lifted, in ems: those of the typeface's
/// own superscript digits.
pub(super) const SUPERSCRIPT_SIZE: f32 = 0.6;
pub(super) const SUPERSCRIPT_LIFT: f32 = 0.29;

/// The height of a capital letter, in ems.
pub(super) const CAPITAL: f32 = 0.714;

/// The face of a weight.
fn face(weight: Weight) -> &'static Face<'static> {
    static REGULAR: OnceLock<Face> = OnceLock::new();
    static BOLD: OnceLock<Face> = OnceLock::new();
    let (cell, bytes) = match weight {
        Weight::Regular => (&REGULAR, notosans::REGULAR_TTF),
        Weight::Bold => (&BOLD, notosans::BOLD_TTF),
    };
    cell.get_or_init(|| Face::parse(bytes, 0).expect("the typeface compiled in is whole"))
}

/// Sets `text` in a line: its glyphs and its width in ems.
///
/// A character that the typeface does not have becomes its "missing" box; a line break or
/// another control character becomes a space.
pub(super) fn set(text: &str, weight: Weight) -> (Vec<Placed>, f32) {
    let face = face(weight);
    let em = f32::from(face.units_per_em());
    let mut glyphs = Vec::new();
    let mut pen = 0.0;
    let mut previous = None;
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
        // The typeface has superscript digits but no superscript minus.
        let superscript = c == '⁻';
        let (c, size) = if superscript { ('−', SUPERSCRIPT_SIZE) } else { (c, 1.0) };
        let glyph = face.glyph_index(c).unwrap_or_default();
        if let Some(previous) = previous {
            pen += kerning(face, previous, glyph) / em;
        }
        glyphs.push(Placed { glyph, offset: pen, superscript });
        pen += f32::from(face.glyph_hor_advance(glyph).unwrap_or(0)) / em * size;
        previous = Some(glyph);
    }
    (glyphs, pen)
}

/// The width of `text` at `size` points.
pub(super) fn width(text: &str, weight: Weight, size: f32) -> f32 {
    set(text, weight).1 * size
}

/// Breaks `text` between words, and after a hyphen between letters, into lines no wider than `room` points; a part that is
/// wider alone stands alone.
pub(super) fn wrap(text: &str, weight: Weight, size: f32, room: f32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut glue = " ";
        for part in at_hyphens(word) {
            match lines.last_mut() {
                Some(line) if width(&format!("{line}{glue}{part}"), weight, size) <= room => {
                    line.push_str(glue);
                    line.push_str(part);
                }
                _ => lines.push(part.to_string()),
            }
            glue = "";
        }
    }
    lines
}

/// The parts of a word, each but the last with its hyphen.
fn at_hyphens(word: &str) -> impl Iterator<Item = &str> {
    let letters = |pair: &[char]| matches!(pair, [before, '-', after] if before.is_alphabetic() && after.is_alphabetic());
    let chars: Vec<char> = word.chars().collect();
    let mut ends: Vec<usize> = Vec::new();
    let mut end = 0;
    for (i, c) in chars.iter().enumerate() {
        end += c.len_utf8();
        if i > 0 && chars.get(i - 1..i + 2).is_some_and(letters) {
            ends.push(end);
        }
    }
    ends.push(word.len());
    let mut from = 0;
    ends.into_iter().map(move |to| &word[std::mem::replace(&mut from, to)..to])
}

/// The outline of a glyph, one em high, y downwards, its origin on the baseline.
pub(super) fn outline(glyph: GlyphId, weight: Weight) -> Outline {
    let face = face(weight);
    let mut pen = Pen { outline: Vec::new(), scale: 1.0 / f32::from(face.units_per_em()) };
    face.outline_glyph(glyph, &mut pen);
    pen.outline
}

/// The distance to add between two glyphs, in font units, from the `kern` table.
fn kerning(face: &Face, left: GlyphId, right: GlyphId) -> f32 {
    let Some(kern) = face.tables().kern else { return 0.0 };
    let pairs = kern.subtables.into_iter().filter(|s| s.horizontal && !s.variable);
    pairs.filter_map(|s| s.glyphs_kerning(left, right)).map(f32::from).next().unwrap_or(0.0)
}

struct Pen {
    outline: Outline,
    scale: f32,
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.outline.push(Step::Move(at(x * self.scale, -y * self.scale)));
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.outline.push(Step::Line(at(x * self.scale, -y * self.scale)));
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let s = self.scale;
        self.outline.push(Step::Quad(at(x1 * s, -y1 * s), at(x * s, -y * s)));
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let s = self.scale;
        self.outline.push(Step::Cubic(at(x1 * s, -y1 * s), at(x2 * s, -y2 * s), at(x * s, -y * s)));
    }
    fn close(&mut self) {
        self.outline.push(Step::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_reports_use_has_a_glyph() {
        let used = "−×±·–—…µ²³⁰¹⁴⁵⁶⁷⁸⁹⁻≤≥≈→%/()[]{}#°\u{2009}\u{a0}";
        for weight in [Weight::Regular, Weight::Bold] {
            for c in used.chars() {
                assert_ne!(set(&c.to_string(), weight).0[0].glyph, GlyphId(0), "{c:?} in {weight:?}");
            }
        }
    }

    #[test]
    fn lines_break_between_words_and_lose_none() {
        let text = "each half recovers from loss over half the round trip";
        let lines = wrap(text, Weight::Regular, 8.0, 90.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| width(line, Weight::Regular, 8.0) <= 90.0));
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrap("unbreakable", Weight::Regular, 8.0, 1.0), ["unbreakable"]);
        assert_eq!(
            wrap("ack-regulator --out -5", Weight::Regular, 8.0, 1.0),
            ["ack-", "regulator", "--out", "-5"]
        );
        assert_eq!(wrap("ack-regulator", Weight::Regular, 8.0, 90.0), ["ack-regulator"]);
    }

    #[test]
    fn digits_are_equally_wide_and_bold_is_wider() {
        let one = width("1", Weight::Regular, 10.0);
        assert!("023456789".chars().all(|c| width(&c.to_string(), Weight::Regular, 10.0) == one));
        assert!(width("shorthaul", Weight::Bold, 10.0) > width("shorthaul", Weight::Regular, 10.0));
        assert!((width("aa", Weight::Regular, 10.0) - 2.0 * width("a", Weight::Regular, 10.0)).abs() < 1e-3);
    }

    #[test]
    fn a_capital_reaches_its_height_above_the_baseline() {
        let glyph = set("H", Weight::Regular).0[0].glyph;
        let top = outline(glyph, Weight::Regular).into_iter().fold(0f32, |top, step| match step {
            Step::Move(p) | Step::Line(p) => top.min(p.y),
            _ => top,
        });
        assert!((top + CAPITAL).abs() < 0.01, "{top}");
    }
}
