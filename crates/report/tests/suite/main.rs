//! Figures and pages as they are written.

mod figure;
mod page;
