//! One way to make the transfer: a row of the table, and of the CSV.
use shorthaul_planner::{Forecast, Limit};
use shorthaul_report::{Csv, Field, Manifest, ReportError, TableCell, Tone, Unit};
use shorthaul_types::{Bytes, format_duration};

/// A way to make the transfer and its forecast.
pub struct Row {
    /// By way of which sites, where they have names.
    pub way: String,
    pub forecast: Forecast,
    /// The direct way's time over this one's; not known where there is none.
    pub gain: Option<f64>,
    /// What it costs, where prices are known.
    pub price: Option<f64>,
    /// The buffer of each relay.
    pub buffers: Vec<Bytes>,
    /// Whether this is what is advised.
    pub advised: bool,
}

impl Row {
    pub fn relays(&self) -> usize {
        self.forecast.legs - 1
    }

    pub fn time(&self) -> TableCell {
        let time = self.forecast.time;
        let tone = if self.advised { Tone::Strong } else { Tone::Plain };
        TableCell::toned(format_duration(time.expected), tone)
    }

    pub fn interval(&self) -> TableCell {
        let time = self.forecast.time;
        let text = format!("{} to {}", format_duration(time.low), format_duration(time.high));
        TableCell::toned(text, Tone::Quiet)
    }

    pub fn throughput(&self) -> TableCell {
        Unit::BitsPerSecond.format(self.forecast.throughput().bits_per_sec() as f64).into()
    }

    /// How many times as fast as the direct way, green where it is worth it.
    pub fn gain(&self) -> TableCell {
        match self.gain {
            None => TableCell::toned("–", Tone::Quiet),
            Some(_) if self.relays() == 0 => TableCell::toned("1", Tone::Quiet),
            Some(gain) => {
                let tone = match gain {
                    1.1.. => Tone::Good,
                    ..0.95 => Tone::Bad,
                    _ => Tone::Plain,
                };
                TableCell::toned(format!("{gain:.2} ×"), tone)
            }
        }
    }

    /// The largest of the relays' buffers.
    pub fn buffer(&self) -> TableCell {
        match self.buffers.iter().max() {
            Some(buffer) => buffer.to_string().into(),
            None => TableCell::toned("–", Tone::Quiet),
        }
    }

    /// The worst of the relays.
    pub fn drought(&self) -> TableCell {
        let worst = self.forecast.relays.iter().map(|relay| relay.drought).max_by(f64::total_cmp);
        share(worst)
    }

    /// The worst of the relays.
    pub fn overflow(&self) -> TableCell {
        let worst = self.forecast.relays.iter().map(|relay| relay.overflow).max_by(f64::total_cmp);
        share(worst)
    }

    pub fn binds(&self) -> TableCell {
        let bottleneck = self.forecast.bottleneck;
        let text = match bottleneck.limit {
            Limit::Start => bottleneck.limit.to_string(),
            limit if self.forecast.alike => limit.to_string(),
            Limit::Buffer => format!("buffer of relay {}", bottleneck.leg + 1),
            limit => format!("{limit}, leg {}", bottleneck.leg + 1),
        };
        text.into()
    }
}

fn share(share: Option<f64>) -> TableCell {
    match share {
        Some(share) => format!("{:.0} %", 100.0 * share).into(),
        None => TableCell::toned("–", Tone::Quiet),
    }
}

impl Row {
    /// For programs: the names of the columns of the CSV.
    pub fn json(&self) -> serde_json::Value {
        let Forecast { time, bottleneck, steady, .. } = &self.forecast;
        serde_json::json!({
            "way": self.way, "relays": self.relays(), "seconds": time.expected.as_secs_f64(),
            "seconds_low": time.low.as_secs_f64(), "seconds_high": time.high.as_secs_f64(),
            "goodput_bit_per_s": self.forecast.throughput().bits_per_sec(),
            "long_run_bit_per_s": steady.bits_per_sec(), "gain": self.gain, "price": self.price,
            "largest_buffer_bytes": self.buffers.iter().max().map(|buffer| buffer.0),
            "binding_leg": bottleneck.leg + 1, "binding_limit": bottleneck.limit.to_string(),
            "advised": self.advised,
        })
    }
}

/// All rows, for programs.
pub fn csv(rows: &[Row], manifest: &Manifest) -> Result<Csv, ReportError> {
    let columns = [
        "way",
        "relays",
        "seconds",
        "seconds_low",
        "seconds_high",
        "goodput_bit_per_s",
        "long_run_bit_per_s",
        "gain",
        "price",
        "largest_buffer_bytes",
        "binding_leg",
        "binding_limit",
        "advised",
    ];
    let mut csv = Csv::new(manifest, &columns);
    for row in rows {
        let forecast = &row.forecast;
        let number = |value: Option<f64>| value.map_or(Field::Missing, Field::Number);
        let whole = |value: u64| Field::Integer(i128::from(value));
        csv.row([
            Field::Text(row.way.clone()),
            Field::Integer(row.relays() as i128),
            Field::Number(forecast.time.expected.as_secs_f64()),
            Field::Number(forecast.time.low.as_secs_f64()),
            Field::Number(forecast.time.high.as_secs_f64()),
            whole(forecast.throughput().bits_per_sec()),
            whole(forecast.steady.bits_per_sec()),
            number(row.gain),
            number(row.price),
            row.buffers.iter().max().map_or(Field::Missing, |buffer| whole(buffer.0)),
            Field::Integer(forecast.bottleneck.leg as i128 + 1),
            Field::Text(forecast.bottleneck.limit.to_string()),
            Field::Text(row.advised.to_string()),
        ])?;
    }
    Ok(csv)
}
