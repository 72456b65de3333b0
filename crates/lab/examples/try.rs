use shorthaul_lab::*;
use std::process::Command;
fn main() {
    let mut args = std::env::args().skip(1);
    let topo = Topology::load(&args.next().unwrap()).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(2)
    });
    let t = std::time::Instant::now();
    let mut lab = Lab::start(&topo).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(3)
    });
    eprintln!("started in {:?}", t.elapsed());
    eprintln!("{}", lab.plan());
    let host = args.next().unwrap();
    if let Ok(also) = std::env::var("ALSO") {
        lab.run_in_background("server", &also).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let mut c = Command::new(args.next().unwrap());
    c.args(args);
    let mut child = lab.host(&host).spawn(&mut c).unwrap();
    println!("{:?}", child.wait());
    for l in lab.links() {
        if l.is_emulated() {
            eprintln!("{} {:#?}", l.name(), l.report().unwrap());
        }
    }
}
