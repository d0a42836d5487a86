// The emulator's state: fibers (CUDA threads), warps, blocks, and one launch at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi.h"

namespace papilio_emu {

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using Address = std::uintptr_t;

constexpr u32 kWarpSize = 32;
constexpr u64 kStackBytes = 64 << 10;

/// A range of global memory that the launch may touch. `initialized` has a byte per byte, or is null when the
/// whole range holds values. Filled by Python; the layout is that of the ctypes structure there.
struct Region {
    Address base;
    u64 size;
    u8* initialized;
    u64 argument;
};

struct LaunchSpec {
    void (*run)(void**);
    void** arguments;
    u32 grid[3];
    u32 block[3];
    u64 dynamic_shared_bytes;
    u64 max_shared_bytes;
    u64 resident_blocks;
    u64 seed;
    u64 max_steps;
    const Region* regions;
    u64 n_regions;
    char* report;
    u64 report_bytes;
    u64 switches;  // out
    u64 steps;     // out
};

/// What one thread knows to have happened through fences: per block, the barrier epoch before which all its
/// accesses are ordered; per warp, for each lane, the tag before which they are.
struct Knowledge {
    std::unordered_map<u32, u32> blocks;
    struct Lanes {
        u32 before[kWarpSize];
    };
    std::unordered_map<u32, Lanes> warps;

    void merge(const Knowledge& other);
};
using KnowledgePtr = std::shared_ptr<const Knowledge>;
KnowledgePtr merged(const KnowledgePtr& a, const KnowledgePtr& b);

/// What a fence published and what atomics brought, by scope of the fence.
struct FenceState {
    KnowledgePtr known;
    KnowledgePtr published_block, published_device;  // by this thread's last fences
    KnowledgePtr received_block, received_device;    // read by atomics, not yet behind a fence
};

enum class State : u8 { ready, at_block_barrier, at_warp_collective, finished };

struct Block;

struct Warp {
    u32 index;     // of all warps of the launch
    u32 sequence;  // tags given out
    u32 existing;  // lanes that the block has
    u32 finished;
    struct Group {
        u32 op, mask, arrived, width;
        Address pc;
    };
    std::vector<Group> groups;  // collectives that wait for lanes
};

struct Fiber {
    void* stack_pointer;
    Address stack;  // lowest address
    Block* block;
    u32 thread;  // within the block
    u32 id;      // within the launch, from 1
    u32 lane;
    Warp* warp;
    State state;
    papilio_emu_uint3 thread_idx;
    u32 tag;               // of the accesses that it makes now
    u32 known[kWarpSize];  // accesses of a lane of the own warp with a smaller tag are ordered before us
    Address pc;            // of the last event
    u64 value;             // given to and taken from a collective
    u32 lane_argument;
    std::unique_ptr<FenceState> fences;
};

struct SharedVariable {
    const void* tag;
    u64 offset, size;
    std::string name;
};

/// Four remembered accesses to one aligned word of memory, as in ThreadSanitizer.
struct Access {
    u32 thread;  // Fiber::id, 0 when the slot is free
    u32 epoch;   // barriers that its block had passed
    u32 tag;
    u32 pc : 26, kind : 2, bytes : 4;
};
enum Kind : u32 { kRead, kWrite, kAtomic };
constexpr int kSlots = 4;
struct Cell {
    Access slot[kSlots];
};

enum SharedByte : u8 { kOutside, kUnwritten, kWritten };

/// A resident block and the memory that it runs in; the memory is reused by the next block.
struct Block {
    u32 index;
    papilio_emu_uint3 idx;
    u32 epoch;
    u32 finished;
    u32 waiting;
    u32 barrier_op;
    Address barrier_pc;
    Address arena;
    u64 arena_bytes, arena_used;
    std::vector<u8> bytes;  // SharedByte of each byte of the arena
    Cell* cells;
    u64 static_bytes;
    std::vector<SharedVariable> variables;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
};

struct Launch {
    LaunchSpec* spec;
    Fiber* current;
    void* main_stack_pointer;
    std::vector<Fiber*> ready;
    Block* retiring;
    bool failed;
    u32 threads_per_block;
    u64 random_state;
    u32 preempt_plain, preempt_atomic;  // chances out of 65536
    u32 stick;                          // chance to go on with the fiber that became ready last
    u64 steps_left;
    Address module_low, module_high;
    std::vector<Region> regions;
    std::vector<Cell*> region_cells;
    std::size_t last_region;
    std::unordered_map<u64, KnowledgePtr> published_device;  // by address of the atomic
    std::unordered_map<u64, KnowledgePtr> published_block;   // by address, then mixed with the block
    bool fences_used;
};

extern Launch g;

inline u64 random_bits() {
    u64 x = g.random_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    g.random_state = x;
    return x * 0x2545f4914f6cdd1dull;
}
inline u32 random_below(u32 bound) { return (u32)((random_bits() >> 32) * bound >> 32); }
inline bool random_chance(u32 of_65536) { return of_65536 != 0 && (random_bits() >> 48) < of_65536; }

/// The address that a message names, as an offset in the module; Python turns it into file and line.
inline u32 module_offset(Address pc) { return (u32)(pc - g.module_low); }

// fibers.cpp
void start_fiber(Fiber& fiber);
void yield_to_others();                 // the caller stays ready
void block_current();                   // the caller is not ready until make_ready
void make_ready(Fiber* fiber);
[[noreturn]] void leave_current();      // never comes back
void run_until_pause();                 // from the main stack

// report.cpp
void report(const Fiber& fiber, const std::string& what);
[[noreturn]] void fail(Address pc, const std::string& what);
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string at_pc(Address pc);
std::string thread_name(u32 id);
std::string describe(Address address);

// barriers.cpp
void note_finished(Fiber& fiber);

// shadow.cpp
void touch(Address address, u64 size, Kind kind, Address pc);
void prepare_shadow();
void release_shadow();

// watchdog.cpp
void start_watchdog();
void stop_watchdog();

// fences.cpp
bool ordered_by_fences(const Access& earlier, const Fiber& now);
void join_block_fences(Block& block);
void join_warp_fences(Block& block, Warp& warp, u32 mask);
void note_atomic(Fiber& fiber, Address address);

}  // namespace papilio_emu
