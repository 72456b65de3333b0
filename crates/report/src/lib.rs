//! Tables, CSV, SVG and PNG plots: how results reach people, spreadsheets and papers.
//!
//! Reading order: [`Manifest`] (what every report starts with), [`Csv`] (tidy data),
//! [`Table`] (for terminals), [`plot::Figure`] (one description, SVG and PNG).
//!
//! Nothing here needs a network, a system font or another program: the typeface is compiled in
//! and text in figures is drawn as outlines, so that a figure looks the same everywhere.
#![forbid(unsafe_code)]

mod csv;
mod error;
mod manifest;
pub mod plot;
mod quantity;
mod table;
mod terminal;

pub use csv::{Csv, Field};
pub use error::ReportError;
pub use manifest::{Manifest, Scenario};
pub use quantity::Unit;
pub use table::{Align, Cell, Column, Table, Tone};
pub use terminal::Terminal;
