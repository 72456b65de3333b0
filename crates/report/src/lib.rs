//! Tables, CSV, SVG and PNG plots, HTML pages: how results reach people, spreadsheets and papers.
//!
//! Reading order: [`Manifest`] (what every report starts with), [`Csv`] (tidy data),
//! [`Table`] (for terminals), [`plot::Figure`] (one description, SVG and PNG),
//! [`Page`] (all of it, in one HTML file), [`Console`] (where a long job tells what it does).
//!
//! Nothing here needs a network, a system font or another program: the typeface is compiled in
//! and text in figures is drawn as outlines, so that a figure looks the same everywhere.
#![forbid(unsafe_code)]

mod console;
mod csv;
mod error;
mod manifest;
mod page;
pub mod plot;
mod quantity;
mod table;
mod terminal;

pub use console::{Console, PARTS, Progress, Silence};
pub use csv::{Csv, Field};
pub use error::{ReportError, make_directory, write_file};
pub use manifest::{Manifest, Scenario};
pub use page::Page;
pub use quantity::Unit;
pub use table::{Align, Column, Table, TableCell, Tone};
pub use terminal::Terminal;
