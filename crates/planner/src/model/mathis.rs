use super::{Limit, Rate, Response, ThroughputModel, limited};
use crate::Leg;

/// Mathis et al. 1997: `c·MSS / (RTT·√p)` with `c = √(3/2b)`; equation 4 of Kalim et al.
///
/// It knows no timeouts, no recovery and no queue; the link's rate and the window limit cut it off. The round
/// trip is the measured one, without the time that a full packet takes to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mathis;

impl Mathis {
    /// Segments a second by equation 4 alone; infinite without loss.
    pub fn law(leg: &Leg) -> f64 {
        let c = (1.5 / leg.segments_per_ack).sqrt();
        c / (leg.rtt.as_secs_f64() * leg.loss.sqrt())
    }
}

impl ThroughputModel for Mathis {
    fn name(&self) -> &'static str {
        "mathis"
    }

    fn source(&self) -> &'static str {
        "Mathis, Semke, Mahdavi, Ott 1997, eq. 3; Kalim et al. eq. 4"
    }

    fn rate(&self, leg: &Leg) -> Rate {
        limited(leg, Mathis::law(leg), Limit::Loss)
    }

    fn relative_error(&self) -> f64 {
        0.15
    }

    fn response(&self) -> Response {
        Response::keeps(0.5)
    }

    /// Equation 5 of Kalim et al.: it knows no slow start.
    fn times(&self, leg: &Leg, sizes: &[f64]) -> Vec<f64> {
        let rate = self.rate(leg).segments_per_sec;
        sizes.iter().map(|segments| segments / rate).collect()
    }
}
