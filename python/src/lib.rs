//! The Python module `shorthaul._shorthaul`: what of shorthaul is worth calling from Python, as little as that needs. The rest is
//! Python, in `../shorthaul`.
//!
//! `plan` (forecasts), `study` (scenario files and their runs), `play` (a link and a congestion control by themselves).
//! Whatever computes for long lets other Python threads run, and ends at Ctrl-C.
#![forbid(unsafe_code)]

mod plan;
mod play;
mod study;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    _shorthaul,
    ScenarioError,
    PyValueError,
    "A scenario makes no sense: where, what is wrong, and what would be right."
);
create_exception!(
    _shorthaul,
    EngineError,
    PyRuntimeError,
    "An engine cannot run a scenario, or failed at it."
);

/// What a person wrote does not make sense.
fn value_error(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymodule]
fn _shorthaul(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ENGINE", shorthaul_sim::ENGINE)?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add("EngineError", module.py().get_type::<EngineError>())?;
    module.add_class::<study::Study>()?;
    module.add_class::<play::Link>()?;
    module.add_class::<play::Congestion>()?;
    module.add_function(wrap_pyfunction!(plan::forecast, module)?)?;
    module.add_function(wrap_pyfunction!(plan::models, module)?)?;
    module.add_function(wrap_pyfunction!(plan::map_feature_names, module)?)?;
    module.add_function(wrap_pyfunction!(plan::map_ways, module)?)?;
    module.add_function(wrap_pyfunction!(plan::map_features, module)?)?;
    module.add_function(wrap_pyfunction!(plan::map_best, module)?)?;
    module.add_function(wrap_pyfunction!(plan::map_plan, module)?)?;
    module.add_function(wrap_pyfunction!(study::schema, module)?)?;
    module.add_function(wrap_pyfunction!(study::metric_units, module)?)?;
    Ok(())
}
