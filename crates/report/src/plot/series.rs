use super::palette::Hue;

/// Points that belong together, and how they are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub(super) label: String,
    pub(super) hue: Hue,
    pub(super) mark: Mark,
    pub(super) dash: Dash,
    pub(super) marker: Marker,
    pub(super) opacity: f32,
    pub(super) points: Vec<Point>,
}

/// One observation, with its confidence interval where there is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Where on the horizontal axis.
    pub x: f64,
    /// Where on the vertical axis; not a number: a gap.
    pub y: f64,
    /// From where to where the true value may lie.
    pub interval: Option<(f64, f64)>,
    /// Written beside the point.
    pub text: Option<String>,
}

/// How points become ink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Joined by straight lines; intervals as a band.
    Line,
    /// Each value holds until the next; intervals as a band.
    Step,
    /// Bars from zero, series beside each other; intervals as whiskers.
    Bars,
    /// Dots alone; intervals as whiskers.
    Dots,
    /// Dots joined by lines; intervals as whiskers.
    LineAndDots,
}

/// The pattern of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dash {
    /// ———
    #[default]
    Solid,
    /// – – –
    Dashed,
    /// · · ·
    Dotted,
}

/// The shape of a dot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marker {
    /// ●
    #[default]
    Circle,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ◆
    Diamond,
}

impl Point {
    /// A point without interval or text.
    pub fn new(x: f64, y: f64) -> Self {
        Point { x, y, interval: None, text: None }
    }

    /// The interval in which the true value may lie.
    #[must_use]
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.interval = Some((low.min(high), low.max(high)));
        self
    }

    /// Writes `text` beside the point.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Point::new(x, y)
    }
}

impl Series {
    /// A series without points; an empty label keeps it out of the legend.
    pub fn new(label: &str, mark: Mark, hue: Hue) -> Self {
        Series {
            label: label.to_string(),
            hue,
            mark,
            dash: Dash::Solid,
            marker: Marker::Circle,
            opacity: 1.0,
            points: Vec::new(),
        }
    }

    /// Straight lines.
    pub fn line(label: &str, hue: Hue) -> Self {
        Series::new(label, Mark::Line, hue)
    }

    /// Steps.
    pub fn step(label: &str, hue: Hue) -> Self {
        Series::new(label, Mark::Step, hue)
    }

    /// Bars; x counts the categories of the axis.
    pub fn bars(label: &str, hue: Hue) -> Self {
        Series::new(label, Mark::Bars, hue)
    }

    /// Dots.
    pub fn dots(label: &str, hue: Hue) -> Self {
        Series::new(label, Mark::Dots, hue)
    }

    /// Adds points.
    #[must_use]
    pub fn points<P: Into<Point>>(mut self, points: impl IntoIterator<Item = P>) -> Self {
        self.points.extend(points.into_iter().map(Into::into));
        self
    }

    /// Sets the pattern of the line.
    #[must_use]
    pub fn dash(mut self, dash: Dash) -> Self {
        self.dash = dash;
        self
    }

    /// Sets the shape of the dots.
    #[must_use]
    pub fn marker(mut self, marker: Marker) -> Self {
        self.marker = marker;
        self
    }

    /// Sets how solid the ink is, from 0 to 1.
    #[must_use]
    pub fn opacity(mut self, opacity: f32) -> Self {
        self.opacity = opacity.clamp(0.0, 1.0);
        self
    }
}
