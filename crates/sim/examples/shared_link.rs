//! Two, six and fifty hosts that share a link, direct and through a gateway: `shared_link [HOSTS [RATE [SEED [own|churn] [GATEWAY-LINE]...]]]`, where a zero
//! stands for all; `own` gives each host a link of its own, with `churn` every third one comes and goes. Without a line for the gateway: direct, with nothing configured, and with a bottleneck that is configured.
#[path = "../tests/suite/shared_link.rs"]
mod shared_link;

use shared_link::SharedLink;
use std::error::Error;

/// What a gateway is told, with a name for it.
const WAYS: [(&str, &str); 3] = [
    ("direct", "split = false"),
    ("auto", ""),
    ("bottleneck", "[[gateways.gateway.bottleneck]]\nname = \"link\""),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).map_or(Ok(0), |text| text.parse::<u64>());
    let (hosts, rate, seed) = (number(0)?, number(1)?, number(2)?.max(1));
    let [is_own, churn] = ["own", "churn"].map(|asked| arguments.get(3).is_some_and(|word| word == asked));
    let own = arguments
        .get(3 + usize::from(is_own || churn)..)
        .filter(|own| !own.is_empty())
        .map(|own| own.join("\n"));
    let ways = match &own {
        Some(own) => vec![("own", own.as_str())],
        None => WAYS.to_vec(),
    };
    for link in
        [2, 6, 50].into_iter().flat_map(|hosts| [10, 30, 300].map(|rate| SharedLink::new(hosts, rate)))
    {
        if hosts > 0 && link.hosts != hosts || rate > 0 && link.rate != rate {
            continue;
        }
        for (name, gateway) in &ways {
            let shared = SharedLink { own: is_own, churn, ..link }.run(gateway, seed);
            println!(
                "{:2} hosts, {:3} Mbit/s, {name:10}: Jain {:.3}, used {:.3}, queue {:5.1} ms, a page {:6.3} s, groups {:?}",
                link.hosts, link.rate, shared.jain, shared.used, shared.queue, shared.page, shared.groups
            );
        }
    }
    Ok(())
}
