//! The same choice as a program of the kernel's.
use super::{GOLDEN, Prefix, Steering};
use shorthaul_os::bpf::Instruction;
use shorthaul_os::bpf::Operation::{Add, And, Move, Multiply, Or, ShiftLeft, ShiftRight};
use shorthaul_os::bpf::Register::{R0, R1, R2, R6, R7, R8};

/// Takes the host's address to R7, and the rest of a long one to R8; then the prefixes one by one, then the hash.
pub(super) fn write(steering: &Steering, host_is_source: bool) -> Vec<Instruction> {
    let (v4_at, v6_at) = if host_is_source { (12, 8) } else { (16, 24) };
    let v4 = of_v4(steering, v4_at);
    let v6 = of_v6(steering, v6_at);
    let hash = hash(steering.workers);
    let mut all = vec![
        Instruction::with_register(Move, R6, R1),
        Instruction::load_byte(0),
        Instruction::with_number(ShiftRight, R0, 4),
    ];
    // Each family is a block that ends with the hash.
    let block = |version, body: Vec<Instruction>| {
        let body = [body, hash.clone()].concat();
        let mut block = vec![Instruction::skip_unless(R0, version, body.len() as i16)];
        block.extend(body);
        block
    };
    all.extend(block(4, v4));
    all.extend(block(6, v6));
    all.extend([Instruction::with_number(Move, R0, 0), Instruction::exit()]);
    all
}

fn answer(worker: u32) -> [Instruction; 2] {
    [Instruction::with_number(Move, R0, worker), Instruction::exit()]
}

fn of_v4(steering: &Steering, at: i32) -> Vec<Instruction> {
    let host = u32::MAX.checked_shl(32 - u32::from(steering.hosts.v4.min(32))).unwrap_or(0);
    let mut all = vec![
        Instruction::load_word(at),
        Instruction::with_register(Move, R7, R0),
        Instruction::narrow_with_number(And, R7, host),
    ];
    for (prefix, worker) in &steering.together {
        let Prefix::V4 { bits, mask } = *prefix else { continue };
        all.extend([
            Instruction::with_register(Move, R0, R7),
            Instruction::narrow_with_number(And, R0, mask),
            Instruction::skip_unless(R0, bits, 2),
        ]);
        all.extend(answer(*worker));
    }
    all
}

fn of_v6(steering: &Steering, at: i32) -> Vec<Instruction> {
    let host = u128::MAX.checked_shl(128 - u32::from(steering.hosts.v6.min(128))).unwrap_or(0);
    let mut all = Vec::new();
    for (half, to) in [(0, R7), (8, R8)] {
        all.extend([
            Instruction::load_word(at + half),
            Instruction::with_register(Move, to, R0),
            Instruction::with_number(ShiftLeft, to, 32),
            Instruction::load_word(at + half + 4),
            Instruction::with_register(Or, to, R0),
        ]);
    }
    for (of, mask) in [(R7, host >> 64), (R8, host)] {
        all.extend(Instruction::load_number(R1, mask as u64));
        all.push(Instruction::with_register(And, of, R1));
    }
    for (prefix, worker) in &steering.together {
        let Prefix::V6 { bits, mask } = *prefix else { continue };
        // From the last to the first: each skips what follows.
        let mut rest = answer(*worker).to_vec();
        for (of, bits, mask) in
            [(R8, bits as u64, mask as u64), (R7, (bits >> 64) as u64, (mask >> 64) as u64)]
        {
            let mut compare = Instruction::load_number(R1, mask).to_vec();
            compare.push(Instruction::with_register(Move, R0, of));
            compare.push(Instruction::with_register(And, R0, R1));
            compare.extend(Instruction::load_number(R2, bits));
            compare.push(Instruction::skip_unless_equal(R0, R2, rest.len() as i16));
            compare.extend(rest);
            rest = compare;
        }
        all.extend(rest);
    }
    all.push(Instruction::with_register(Add, R7, R8));
    all
}

/// R0 becomes the worker of the number in R7.
fn hash(workers: u32) -> Vec<Instruction> {
    let mut all = Instruction::load_number(R1, GOLDEN).to_vec();
    all.extend([
        Instruction::with_register(Multiply, R7, R1),
        Instruction::with_number(ShiftRight, R7, 32),
        Instruction::with_number(Multiply, R7, workers),
        Instruction::with_number(ShiftRight, R7, 32),
        Instruction::with_register(Move, R0, R7),
        Instruction::exit(),
    ]);
    all
}
