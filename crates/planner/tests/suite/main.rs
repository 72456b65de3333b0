//! Models, forecasts and placement against what papers and simulations say.

mod papers;
mod placement;
mod properties;
mod sharing;
mod tandem;
mod ways;
