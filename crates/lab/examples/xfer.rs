use shorthaul_lab::workload::*;
use shorthaul_lab::*;
use std::time::Duration;
fn main() {
    let mut args = std::env::args().skip(1);
    let lab = Lab::start(&Topology::load(&args.next().unwrap()).unwrap()).unwrap();
    for cc in ["reno", "cubic", "bbr"] {
        for sender in [Sender::Server, Sender::Client] {
            let t = Transfer { sender, amount: Amount::Time(Duration::from_secs(5)), ..Transfer::default() }
                .with_congestion(cc);
            let r = t.run(lab.host("client"), lab.host("server")).map(|r| {
                (
                    r.connected,
                    r.first_byte,
                    r.completed,
                    r.throughput().to_string(),
                    r.retransmits(),
                    r.samples.len(),
                    r.samples.last().cloned(),
                )
            });
            println!("{cc} {sender:?} {r:?}");
        }
    }
}
