fn main() {
    let a =
        shorthaul_lab::accuracy::measure(std::time::Duration::from_secs(2)).unwrap_or_else(|e| panic!("{e}"));
    for r in &a.rates {
        println!("{} {} {:+.3}%", r.configured, r.measured, r.error() * 100.0);
    }
    for d in &a.delays {
        println!("{} {:?}\n    {:?}", d.load, d.error, d.lateness);
    }
    for d in &a.throughputs {
        println!("{:?} {}", d.configured.map(|c| c.to_string()), d.measured);
    }
    println!("{}", a.runs_first);
}
