//! What is drawn, flat and in order: filled and stroked outlines in points, y downwards.
use super::palette::Color;

/// A place on paper.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct At {
    pub x: f32,
    pub y: f32,
}

pub(super) const fn at(x: f32, y: f32) -> At {
    At { x, y }
}

/// An upright rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub left: f32,
    pub top: f32,
    pub right: f32,
    pub bottom: f32,
}

impl Rect {
    pub fn width(self) -> f32 {
        self.right - self.left
    }

    pub fn height(self) -> f32 {
        self.bottom - self.top
    }

    pub fn grown(self, by: f32) -> Rect {
        Rect { left: self.left - by, top: self.top - by, right: self.right + by, bottom: self.bottom + by }
    }
}

/// One step of an outline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Move(At),
    Line(At),
    Quad(At, At),
    Cubic(At, At, At),
    Close,
}

/// An outline.
pub(super) type Outline = Vec<Step>;

/// How an outline is drawn over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stroke {
    pub color: Color,
    pub width: f32,
    /// Lengths on, off, on, off, …; empty: solid.
    pub dash: &'static [f32],
}

impl Stroke {
    pub fn solid(color: Color, width: f32) -> Self {
        Stroke { color, width, dash: &[] }
    }
}

/// Where a text's reference point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How heavy a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Weight {
    Regular,
    Bold,
}

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Type {
    /// Size of the em in points.
    pub size: f32,
    pub weight: Weight,
    pub color: Color,
}

/// A line of text, its baseline at `at`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    pub text: String,
    pub at: At,
    pub anchor: Anchor,
    /// Reads upwards, as the label of a vertical axis does.
    pub upright: bool,
    pub style: Type,
    /// A band of paper around the letters, in points, where they stand on lines.
    pub halo: f32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Shape {
        outline: Outline,
        fill: Option<Color>,
        stroke: Option<Stroke>,
    },
    Text(Text),
    /// From here on only what lies inside is shown; `None` ends it.
    Clip(Option<Rect>),
}

/// All of a figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub width: f32,
    pub height: f32,
    /// What a reader that cannot see it is told.
    pub title: String,
    pub description: String,
    pub items: Vec<Item>,
}

impl Scene {
    pub fn line(&mut self, from: At, to: At, stroke: Stroke) {
        self.stroke(vec![Step::Move(from), Step::Line(to)], stroke);
    }

    pub fn stroke(&mut self, outline: Outline, stroke: Stroke) {
        self.items.push(Item::Shape { outline, fill: None, stroke: Some(stroke) });
    }

    pub fn fill(&mut self, outline: Outline, fill: Color) {
        self.items.push(Item::Shape { outline, fill: Some(fill), stroke: None });
    }

    pub fn text(&mut self, text: Text) {
        self.items.push(Item::Text(text));
    }
}

pub(super) fn rectangle(r: Rect) -> Outline {
    vec![
        Step::Move(at(r.left, r.top)),
        Step::Line(at(r.right, r.top)),
        Step::Line(at(r.right, r.bottom)),
        Step::Line(at(r.left, r.bottom)),
        Step::Close,
    ]
}

pub(super) fn polygon(corners: &[At]) -> Outline {
    let mut outline: Outline = corners.iter().map(|c| Step::Line(*c)).collect();
    if let Some(first) = outline.first_mut() {
        *first = Step::Move(corners[0]);
        outline.push(Step::Close);
    }
    outline
}

/// A circle of four cubic arcs: off by less than 0.03 % of the radius.
pub(super) fn circle(center: At, radius: f32) -> Outline {
    const KAPPA: f32 = 0.552_285;
    let (x, y, r, k) = (center.x, center.y, radius, radius * KAPPA);
    vec![
        Step::Move(at(x + r, y)),
        Step::Cubic(at(x + r, y + k), at(x + k, y + r), at(x, y + r)),
        Step::Cubic(at(x - k, y + r), at(x - r, y + k), at(x - r, y)),
        Step::Cubic(at(x - r, y - k), at(x - k, y - r), at(x, y - r)),
        Step::Cubic(at(x + k, y - r), at(x + r, y - k), at(x + r, y)),
        Step::Close,
    ]
}
