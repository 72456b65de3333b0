use crate::scenario::Planned;
use crate::{Estimate, Forecast, PlanError, Transfer};
use shorthaul_scenario::Workload;
use shorthaul_types::Bytes;
use std::time::Duration;

/// How many halvings find a size by its time: to less than a byte of any transfer.
const HALVINGS: u32 = 48;

/// How the data of a flow, and of those alike, arrives over time. Times are in seconds from the first SYN.
pub(super) struct Course<'p> {
    planned: &'p Planned<'p>,
    transfer: Transfer,
    /// Until the first byte arrives when the sender of the data opens the connection.
    set_up: f64,
    /// What it takes longer when the receiver opens it: the sender learns of it half a round trip later.
    asked: f64,
    kind: Kind,
    pick: Pick,
}

/// Takes one of an estimate's times.
pub(super) type Pick = fn(&Estimate) -> Duration;

enum Kind {
    /// One transfer of a size.
    Once,
    /// As much as goes through in this long.
    For(f64),
    /// Transfers one after the other, with pauses between them.
    Repeated { count: u32, pause: f64 },
}

impl<'p> Course<'p> {
    /// The course of a flow, of which times are as `pick` takes them from an estimate.
    pub fn of(planned: &'p Planned<'p>, pick: Pick) -> Result<Self, PlanError> {
        let kind = match &planned.flow.workload {
            Workload::Unlimited(lasts) => Kind::For(lasts.as_secs_f64()),
            Workload::Downloads { repeats, pause, .. } => {
                Kind::Repeated { count: *repeats, pause: pause.mean().as_secs_f64() }
            }
            _ => Kind::Once,
        };
        // A size of one's own has no part in what is found by time.
        let size = matches!(kind, Kind::For(_)).then_some(Bytes(1 << 20));
        let cannot = || PlanError::Flow {
            flow: planned.flow.name.clone(),
            problem: "the application has no size".to_owned(),
        };
        let transfer = planned.transfer(size).ok_or_else(cannot)?;
        let chain = planned.chain(&planned.flow.via)?;
        let round_trip: f64 = chain.legs.iter().map(|leg| leg.leg.rtt.as_secs_f64()).sum();
        let mut course = Course { planned, transfer, set_up: 0.0, asked: 0.0, kind, pick };
        course.set_up = course.forecast(transfer.size)?.set_up.as_secs_f64();
        if !planned.flow.sender_opens {
            course.asked = round_trip / 2.0;
        }
        Ok(course)
    }

    fn forecast(&self, size: Bytes) -> Result<Forecast, PlanError> {
        self.planned.forecast(&self.planned.flow.via, &Transfer { size, ..self.transfer })
    }

    /// When a transfer of this size is there. The path was forecast before, and any size can be.
    fn time_of(&self, size: Bytes) -> f64 {
        let time = self.forecast(size).map(|forecast| (self.pick)(&forecast.time).as_secs_f64());
        time.map_or(f64::INFINITY, |time| time + self.asked)
    }

    /// From the first SYN until the connection is established at both ends.
    pub fn set_up(&self) -> f64 {
        self.set_up
    }

    /// When everything has arrived.
    pub fn ends(&self) -> Option<f64> {
        let time = match self.kind {
            Kind::Once => self.time_of(self.transfer.size),
            Kind::For(lasts) => lasts,
            Kind::Repeated { count, pause } => {
                let count = f64::from(count);
                count * self.time_of(self.transfer.size) + (count - 1.0) * pause
            }
        };
        time.is_finite().then_some(time)
    }

    /// How long each transfer takes that has ended by `end`.
    pub fn transfers(&self, end: f64) -> Vec<f64> {
        match self.kind {
            Kind::For(lasts) => (lasts <= end).then_some(lasts).into_iter().collect(),
            Kind::Once => {
                Some(self.time_of(self.transfer.size)).filter(|time| *time <= end).into_iter().collect()
            }
            Kind::Repeated { count, pause } => {
                let each = self.time_of(self.transfer.size);
                let done = (0..count).filter(|before| f64::from(*before) * (each + pause) + each <= end);
                done.map(|_| each).collect()
            }
        }
    }

    /// Bytes that have arrived by a time, of all flows alike.
    pub fn delivered_by(&self, time: f64) -> f64 {
        match self.kind {
            Kind::Once => self.arrived(time, self.transfer.size),
            Kind::For(lasts) => self.arrived(time.min(lasts), Bytes(u64::MAX)),
            Kind::Repeated { count, pause } => {
                let each = self.time_of(self.transfer.size);
                let begun = ((time / (each + pause)).floor().max(0.0)).min(f64::from(count));
                let whole = begun * self.transfer.size.0 as f64;
                if begun >= f64::from(count) {
                    return whole;
                }
                whole + self.arrived(time - begun * (each + pause), self.transfer.size)
            }
        }
    }

    /// Bytes of one transfer that have arrived by a time: the largest size that takes no longer.
    fn arrived(&self, time: f64, at_most: Bytes) -> f64 {
        if time <= self.set_up + self.asked {
            return 0.0;
        }
        // Faster than in the long run no path is but by its queues.
        let steady =
            self.forecast(Bytes(1 << 30)).map_or(0.0, |forecast| forecast.steady.bits_per_sec() as f64);
        let ceiling = (2.0 * steady / 8.0 * time + 1e6).min(at_most.0 as f64);
        if self.time_of(Bytes(ceiling as u64)) <= time {
            return ceiling;
        }
        let (mut low, mut high) = (0.0, ceiling);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            let fits = self.time_of(Bytes((middle as u64).max(1))) <= time;
            (low, high) = if fits { (middle, high) } else { (low, middle) };
        }
        low
    }
}
