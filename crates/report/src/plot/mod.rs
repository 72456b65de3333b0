//! Figures for print: one description, drawn as SVG and as PNG.
//!
//! Reading order: [`Figure`] holds [`Panel`]s (small multiples), a panel has two [`Axis`] and
//! some [`Series`], a series is [`Point`]s with a [`Mark`]. Then the way to paper: `layout`
//! turns the description into a flat scene of outlines, which `svg` writes and `raster` paints.
//! Both show the same outlines, so the PNG is a faithful picture of the SVG.
//!
//! Lengths on paper are points (1/72 inch). Data stay in base units (seconds, bits per second,
//! bytes); an axis picks its own prefix.
//!
//! ```
//! use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Series};
//! use shorthaul_report::{Manifest, Unit};
//!
//! let throughput = Series::line("direct", Hue::Vermillion).points([(0.0, 0.0), (1.0, 8e6), (2.0, 7e6)]);
//! let panel = Panel::new("GEO, 600 ms")
//!     .x(Axis::new("time", Unit::Seconds))
//!     .y(Axis::new("throughput", Unit::BitsPerSecond))
//!     .series(throughput);
//! let figure = Figure::new("Start-up over a satellite").panel(panel);
//! let manifest = Manifest::new("shorthaul", "0.1.0");
//! assert!(figure.to_svg(&manifest).starts_with("<svg"));
//! assert!(figure.to_png(&manifest)?.starts_with(b"\x89PNG"));
//! # Ok::<(), shorthaul_report::ReportError>(())
//! ```

mod axis;
mod draw;
mod figure;
mod layout;
mod palette;
mod raster;
mod scene;
mod series;
mod svg;
mod ticks;
mod typeface;

pub use axis::{Axis, Scale};
pub use figure::{Figure, Panel, Reference, Share};
pub use palette::{Color, Hue};
pub use series::{Dash, Mark, Marker, Point, Series};
