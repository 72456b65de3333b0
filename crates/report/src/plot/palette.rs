/// The eight colours of Okabe and Ito (2008), which people with any of the common colour-vision
/// deficiencies can tell apart: <https://jfly.uni-koeln.de/color/>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hue {
    /// `#0072B2`
    Blue,
    /// `#D55E00`
    Vermillion,
    /// `#009E73`
    Green,
    /// `#E69F00`
    Orange,
    /// `#CC79A7`
    Purple,
    /// `#56B4E9`
    Sky,
    /// `#000000`
    Black,
    /// `#F0E442`; too light for thin lines on white.
    Yellow,
}

impl Hue {
    /// All of them, the ones that read best on white first.
    pub const ALL: [Hue; 8] =
        [Hue::Blue, Hue::Vermillion, Hue::Green, Hue::Orange, Hue::Purple, Hue::Sky, Hue::Black, Hue::Yellow];

    /// The colour for the `index`th of several series, in turn.
    pub const fn nth(index: usize) -> Hue {
        Hue::ALL[index % Hue::ALL.len()]
    }

    /// Its red, green and blue.
    pub const fn color(self) -> Color {
        match self {
            Hue::Blue => Color::rgb(0x0072B2),
            Hue::Vermillion => Color::rgb(0xD55E00),
            Hue::Green => Color::rgb(0x009E73),
            Hue::Orange => Color::rgb(0xE69F00),
            Hue::Purple => Color::rgb(0xCC79A7),
            Hue::Sky => Color::rgb(0x56B4E9),
            Hue::Black => Color::rgb(0x000000),
            Hue::Yellow => Color::rgb(0xF0E442),
        }
    }
}

/// A colour in sRGB with an opacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Color {
    /// Red, green and blue, 0 to 255.
    pub rgb: [u8; 3],
    /// From 0 (not there) to 1 (solid).
    pub opacity: f32,
}

impl Color {
    /// Ink of text and axes: not quite black, as in print.
    pub(crate) const INK: Color = Color::rgb(0x222222);
    /// Second-rank text.
    pub(crate) const QUIET: Color = Color::rgb(0x5A5A5A);
    /// Grid lines.
    pub(crate) const GRID: Color = Color::rgb(0xE3E3E3);
    /// Paper.
    pub(crate) const PAPER: Color = Color::rgb(0xFFFFFF);

    /// A solid colour from `0xRRGGBB`.
    pub const fn rgb(hex: u32) -> Color {
        Color { rgb: [(hex >> 16) as u8, (hex >> 8) as u8, hex as u8], opacity: 1.0 }
    }

    /// The same colour, `opacity` from 0 to 1.
    #[must_use]
    pub const fn with_opacity(self, opacity: f32) -> Color {
        Color { opacity, ..self }
    }

    /// `#rrggbb`.
    pub(crate) fn hex(self) -> String {
        let [r, g, b] = self.rgb;
        format!("#{r:02x}{g:02x}{b:02x}")
    }
}
