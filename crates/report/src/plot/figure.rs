use std::path::{Path, PathBuf};

use super::axis::Axis;
use super::series::Series;
use super::{layout, raster, svg};
use crate::error::write_file;
use crate::{Manifest, ReportError, Unit};

/// A figure: a title, a legend for all, panels in a grid, a caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) caption: String,
    pub(super) panels: Vec<Panel>,
    pub(super) columns: usize,
    pub(super) width: f32,
    pub(super) panel_height: f32,
    pub(super) share_x: Share,
    pub(super) share_y: Share,
    pub(super) dots_per_inch: f32,
}

/// One plot of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    pub(super) references: Vec<Reference>,
    pub(super) note: String,
}

/// A value to compare with, drawn as a thin line across the panel: a link's rate, a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    pub(super) label: String,
    pub(super) at: f64,
}

/// Which panels have the same range on an axis, so that they can be compared by eye.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Each its own.
    #[default]
    None,
    /// Those of one row.
    Row,
    /// Those of one column.
    Column,
    /// All.
    All,
}

impl Panel {
    /// A panel with bare axes.
    pub fn new(title: &str) -> Self {
        Panel {
            title: title.to_string(),
            x: Axis::new("", Unit::None),
            y: Axis::new("", Unit::None),
            series: Vec::new(),
            references: Vec::new(),
            note: String::new(),
        }
    }

    /// Sets the horizontal axis.
    #[must_use]
    pub fn x(mut self, axis: Axis) -> Self {
        self.x = axis;
        self
    }

    /// Sets the vertical axis.
    #[must_use]
    pub fn y(mut self, axis: Axis) -> Self {
        self.y = axis;
        self
    }

    /// Adds a series, drawn over those before it.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Says above the panel what a reader would ask about it.
    #[must_use]
    pub fn note(mut self, text: &str) -> Self {
        self.note = text.to_string();
        self
    }

    /// Adds a horizontal reference line at `at` (in the base unit of the vertical axis).
    #[must_use]
    pub fn reference(mut self, label: &str, at: f64) -> Self {
        self.references.push(Reference { label: label.to_string(), at });
        self
    }
}

impl Figure {
    /// An empty figure, 7 inches wide: the text width of a paper in two columns.
    pub fn new(title: &str) -> Self {
        Figure {
            title: title.to_string(),
            subtitle: String::new(),
            caption: String::new(),
            panels: Vec::new(),
            columns: 1,
            width: 504.0,
            panel_height: 118.0,
            share_x: Share::None,
            share_y: Share::None,
            dots_per_inch: 300.0,
        }
    }

    /// Says below the title what is to be seen.
    #[must_use]
    pub fn subtitle(mut self, text: &str) -> Self {
        self.subtitle = text.to_string();
        self
    }

    /// Says below the panels how it was measured.
    #[must_use]
    pub fn caption(mut self, text: &str) -> Self {
        self.caption = text.to_string();
        self
    }

    /// Adds a panel; they fill the grid row by row.
    #[must_use]
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Sets how many panels stand side by side (at least one).
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.max(1);
        self
    }

    /// The same for a narrow screen: one panel below the other, as wide as a telephone shows at its own size.
    #[must_use]
    pub fn narrow(&self) -> Self {
        Figure { width: 270.0, columns: 1, ..self.clone() }
    }

    /// Sets the width on paper in points (1/72 inch), 150 to 3000.
    #[must_use]
    pub fn width(mut self, points: f32) -> Self {
        self.width = points.clamp(150.0, 3000.0);
        self
    }

    /// Sets the height of each panel's plot area in points, 40 to 2000.
    #[must_use]
    pub fn panel_height(mut self, points: f32) -> Self {
        self.panel_height = points.clamp(40.0, 2000.0);
        self
    }

    /// Sets which panels have the same horizontal range.
    #[must_use]
    pub fn share_x(mut self, share: Share) -> Self {
        self.share_x = share;
        self
    }

    /// Sets which panels have the same vertical range.
    #[must_use]
    pub fn share_y(mut self, share: Share) -> Self {
        self.share_y = share;
        self
    }

    /// Sets the resolution of the PNG; 300 is print quality.
    #[must_use]
    pub fn dots_per_inch(mut self, dots: f32) -> Self {
        self.dots_per_inch = dots.max(1.0);
        self
    }

    /// The figure as SVG, the manifest in its `<metadata>` and below the panels.
    pub fn to_svg(&self, manifest: &Manifest) -> String {
        svg::write(&layout::scene(self, manifest), manifest)
    }

    /// The figure as PNG, the manifest in a text chunk and below the panels.
    ///
    /// # Errors
    /// [`ReportError::TooLarge`] beyond 20 000 pixels a side; [`ReportError::Png`].
    pub fn to_png(&self, manifest: &Manifest) -> Result<Vec<u8>, ReportError> {
        raster::write(&layout::scene(self, manifest), manifest, self.dots_per_inch)
    }

    /// Writes `<stem>.svg` and `<stem>.png`, making the directories above them. Where this very figure was written before,
    /// nothing is painted again: that is most of the time of a study whose runs are all there.
    ///
    /// # Errors
    /// Those of [`to_png`](Self::to_png), and [`ReportError::Write`] with the path.
    pub fn save(&self, stem: &Path, manifest: &Manifest) -> Result<[PathBuf; 2], ReportError> {
        // Not `with_extension`: a stem may hold a dot that is no extension ("loss-0.1").
        let with = |extension: &str| {
            let mut name = stem.as_os_str().to_owned();
            name.push(extension);
            PathBuf::from(name)
        };
        let files = [with(".svg"), with(".png")];
        let svg = self.to_svg(manifest);
        let is_there = files[1].is_file() && std::fs::read(&files[0]).is_ok_and(|old| old == svg.as_bytes());
        if !is_there {
            // The SVG last: where it stands, the PNG is of the same figure.
            write_file(&files[1], &self.to_png(manifest)?)?;
            write_file(&files[0], svg.as_bytes())?;
        }
        Ok(files)
    }
}
