// Programs of raw instructions and the few calls of bpf(2) that the spikes need: there is no clang here, and no libbpf.
#include <err.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attributes) { return syscall(SYS_bpf, command, attributes, sizeof *attributes); }
static int bpf_map(int type, int key, int value, int entries) {
    union bpf_attr a = {.map_type = type, .key_size = key, .value_size = value, .max_entries = entries};
    int map = bpf(BPF_MAP_CREATE, &a);
    if (map < 0) err(1, "a map of type %d", type);
    return map;
}
static int bpf_put(int map, const void *key, const void *value) {
    union bpf_attr a = {.map_fd = map, .key = (uintptr_t)key, .value = (uintptr_t)value};
    return bpf(BPF_MAP_UPDATE_ELEM, &a);
}
static int bpf_load(int type, int flags, const struct bpf_insn *program, int count) {
    static char log[1 << 16];
    union bpf_attr a = {.prog_type = type, .insns = (uintptr_t)program, .insn_cnt = count, .license = (uintptr_t)"GPL", .prog_flags = flags,
                        .log_level = 1, .log_buf = (uintptr_t)log, .log_size = sizeof log};
    int loaded = bpf(BPF_PROG_LOAD, &a);
    if (loaded < 0) err(1, "loading a program: %s", log);
    return loaded;
}
#define LOAD(size, to, from, at) {BPF_LDX | BPF_MEM | (size), to, from, at, 0}
#define STORE(size, to, at, from) {BPF_STX | BPF_MEM | (size), to, from, at, 0}
#define MOVE(to, from) {BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0}
#define SET(to, number) {BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number}
#define ADD(to, number) {BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, number}
#define MAP(to, map) {BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, map}, {0, 0, 0, 0, 0}
#define JUMP(op, a, b, over) {BPF_JMP | (op) | BPF_X, a, b, over, 0}
#define JUMP_K(op, a, number, over) {BPF_JMP | (op) | BPF_K, a, 0, over, number}
#define CALL(helper) {BPF_JMP | BPF_CALL, 0, 0, 0, helper}
#define EXIT {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}
