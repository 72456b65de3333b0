use super::*;
use shorthaul_os::bpf::Program;
use shorthaul_proxy::Bottleneck;
use shorthaul_testkit::{Chance, each_seed};
use std::io::ErrorKind;

fn config(hosts: HostPrefix, bottlenecks: &[&[&str]]) -> GatewayConfig {
    let bottleneck = |(number, hosts): (usize, &&[&str])| Bottleneck {
        name: number.to_string(),
        hosts: hosts.iter().map(|prefix| prefix.parse().unwrap()).collect(),
        ..Bottleneck::default()
    };
    let bottlenecks = bottlenecks.iter().enumerate().map(bottleneck).collect();
    GatewayConfig { hosts, bottlenecks, ..GatewayConfig::default() }
}

const HOSTS: HostPrefix = HostPrefix { v4: 32, v6: 64 };

fn v4(protocol: u8, source: [u8; 4], destination: [u8; 4], rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    (packet[0], packet[9]) = (0x45, protocol);
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    packet.extend_from_slice(rest);
    packet
}

fn v6(protocol: u8, source: Ipv6Addr, destination: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    (packet[0], packet[6]) = (0x60, protocol);
    packet[8..24].copy_from_slice(&source.octets());
    packet[24..40].copy_from_slice(&destination.octets());
    packet.extend_from_slice(rest);
    packet
}

#[test]
fn both_directions_of_a_host_have_one_worker_whoever_is_at_the_other_end() {
    let steering = Steering::of(&config(HOSTS, &[]), 7);
    for host in 0..=255 {
        let (host, worker) = ([10, 1, 2, host], steering.of_host(IpAddr::from([10, 1, 2, host])));
        for server in 0..20 {
            let server = [192, 0, 2, server];
            assert_eq!(steering.of_packet(Gateway::ACCESS, &v4(6, host, server, &[])), Some(worker));
            assert_eq!(steering.of_packet(Gateway::WAN, &v4(17, server, host, &[])), Some(worker));
        }
    }
    // All addresses of a host that has a prefix.
    let worker = steering.of_host("2001:db8:1:2::1".parse().unwrap());
    for last in 0..100 {
        assert_eq!(steering.of_host(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, last, 3, 4, 5 * last).into()), worker);
    }
}

/// In a row as evenly as can be, in other steps about as by chance.
#[test]
fn hosts_in_a_row_are_shared_evenly() {
    for workers in [2, 3, 4, 16] {
        let steering = Steering::of(&config(HOSTS, &[]), workers);
        for (step, fair) in [1, 2, 4, 16, 64, 256, 1024].into_iter().flat_map(|step| [(step, 8), (step, 100)])
        {
            let mut v4 = vec![0; workers];
            let mut v6 = vec![0; workers];
            for number in 0..(fair * workers) as u32 {
                v4[steering.of_host(Ipv4Addr::from_bits(0x0a01_0001 + number * step).into())] += 1;
                let net = 0x2001_0db8_0000_0000_u128 + u128::from(number * step);
                v6[steering.of_host(Ipv6Addr::from_bits(net << 64 | 7).into())] += 1;
            }
            let bound = if step == 1 { 2 } else { 4 * fair.isqrt() };
            for counts in [v4, v6] {
                let worst = counts.iter().map(|count: &usize| count.abs_diff(fair)).max();
                assert!(worst <= Some(bound), "{workers} workers, steps of {step}: {counts:?}");
            }
        }
    }
}

#[test]
fn hosts_of_a_bottleneck_have_one_worker() {
    let hosts = [&["10.1.0.0/16", "2001:db8:1::/48"][..], &["10.2.0.0/16"], &["10.0.0.0/8"]];
    let steering = Steering::of(&config(HOSTS, &hosts), 2);
    for number in 0..200 {
        assert_eq!(steering.of_host([10, 1, number, number].into()), 0);
        assert_eq!(steering.of_host(Ipv6Addr::new(0x2001, 0xdb8, 1, number.into(), 0, 0, 0, 1).into()), 0);
        assert_eq!(steering.of_host([10, 2, number, 1].into()), 1);
        assert_eq!(steering.of_host([10, 77, number, 1].into()), 0);
    }
    let others: Vec<usize> = (0..200).map(|number| steering.of_host([10 + 1, 1, number, 1].into())).collect();
    assert!(others.contains(&0) && others.contains(&1));
}

#[test]
fn an_icmp_error_goes_where_the_host_is_that_it_is_about() {
    let steering = Steering::of(&config(HOSTS, &[]), 16);
    let (server, router) = ([192, 0, 2, 1], [10, 200, 0, 1]);
    for host in 0..=255 {
        let host = [10, 1, 2, host];
        let worker = Some(steering.of_host(host.into()));
        let quoted = v4(6, server, host, &[0; 8]);
        let error = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
        assert_eq!(steering.of_packet(Gateway::ACCESS, &v4(ICMP, router, server, &error)), worker);
        // What a host asks for by ICMP is its own.
        let echo = [&[8, 0, 0, 0, 0, 0, 0, 0][..], &v4(6, server, router, &[])].concat();
        assert_eq!(steering.of_packet(Gateway::ACCESS, &v4(ICMP, host, server, &echo)), worker);
        // Routers beyond speak to the host itself.
        let quoted = v4(6, host, server, &[0; 8]);
        let error = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
        assert_eq!(steering.of_packet(Gateway::WAN, &v4(ICMP, [198, 51, 100, 1], host, &error)), worker);
    }
    let [server, router, host]: [Ipv6Addr; 3] =
        ["2001:db8:ffff::1", "2001:db8:eeee::1", "2001:db8:1:7::9"].map(|text| text.parse().unwrap());
    let error = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &v6(6, server, host, &[0; 8])].concat();
    let packet = v6(ICMPV6, router, server, &error);
    assert_eq!(steering.of_packet(Gateway::ACCESS, &packet), Some(steering.of_host(host.into())));
}

#[test]
fn what_names_no_host_is_nobodys() {
    let steering = Steering::of(&config(HOSTS, &[]), 4);
    let whole = v6(6, Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, &[]);
    for length in 0..24 {
        assert_eq!(steering.of_packet(Gateway::ACCESS, &whole[..length]), None);
    }
    assert_eq!(steering.of_packet(Gateway::WAN, &[0x10; 60]), None);
    // An error that quotes too little of its packet.
    for length in 0..20 {
        let error = [&[3, 4, 0, 0, 0, 0, 0, 0][..], &v4(6, [1; 4], [2; 4], &[])[..length]].concat();
        assert_eq!(steering.of_packet(Gateway::ACCESS, &v4(ICMP, [3; 4], [4; 4], &error)), None);
    }
}

/// The kernel's program and this one, on the same packets.
#[test]
fn the_kernel_says_the_same() {
    each_seed(0..20, |seed| {
        let mut chance = Chance(seed);
        let workers = [1, 2, 3, 8, 64][chance.below(5) as usize];
        let prefixes = HostPrefix { v4: 16 + chance.below(17) as u8, v6: 32 + chance.below(97) as u8 };
        let bottlenecks: [&[&str]; 4] = [
            &["10.1.0.0/16", "2001:db8:1::/48"],
            &["0.0.0.0/1"],
            &["10.3.0.0/16", "2001:db8:2::/32", "2001:db8:3:4:5::/80"],
            &["172.16.0.0/12"],
        ];
        let steering = Steering::of(&config(prefixes, &bottlenecks[..chance.below(5) as usize]), workers);
        for port in [Gateway::ACCESS, Gateway::WAN] {
            let program = match Program::load(&steering.program(port)) {
                Ok(program) => program,
                // This host lets nobody, or not this user.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => return,
                Err(error) => panic!("{error}"),
            };
            for _ in 0..200 {
                let mut word = || chance.below(1 << 32) as u32;
                let packet = if word() % 2 == 0 {
                    let v4_of = |random: u32| [[10, 1], [10, 3], [172, 20], [200, 1]][random as usize % 4];
                    let [a, b] = [word(), word()].map(|random| {
                        let [first, second] = v4_of(random);
                        [first, second, (random >> 8) as u8, (random >> 16) as u8]
                    });
                    v4(6, a, b, &[0; 20])
                } else {
                    let [a, b] = [0; 2].map(|_: u32| {
                        let net = word() as u16 % 5;
                        let part = word();
                        Ipv6Addr::new(0x2001, 0xdb8, net, (part % 6) as u16, (part >> 8) as u16 % 7, 1, 2, 3)
                    });
                    v6(6, a, b, &[0; 20])
                };
                let expected = steering.of_packet(port, &packet).unwrap();
                assert_eq!(program.run(&packet).unwrap(), expected as u32, "{steering:?} {packet:?}");
            }
        }
    });
}
