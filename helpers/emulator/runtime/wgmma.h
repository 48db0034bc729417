// wgmma: matrix multiplication by the four warps of a warpgroup, beside the threads.
//
// A wgmma is issued when all 128 threads have executed it, and happens when some thread waits for it and the scheduler
// wants, which is as late as it can: only then are the operands read. From the issue to a thread's own wait its
// accumulators belong to the wgmma; until then they hold NaN.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "../include/emulator/abi_async.h"
#include "async.h"
#include "cta.h"
#include "descriptor.h"
#include "fragments.h"
#include "wgmma_math.h"

namespace emulator {

// One execution of the instruction, as a thread asks for it.
struct WgmmaCall {
    uint64_t a, b;   // descriptors
    int columns;
    Major a_major, b_major;
    bool accumulate;
    int line;

    MatrixOperand operand(int which) const {
        return which == 0 ? MatrixOperand{decode_descriptor(a), a_major} : MatrixOperand{decode_descriptor(b), b_major};
    }
    // M of A, N of B.
    uint32_t extent(int which) const { return which == 0 ? uint32_t(kTileRows) : uint32_t(columns); }
};

// The accumulators of a warpgroup: one array of each thread, together a tile of 64 rows.
struct AccumulatorTile {
    int columns = 0;
    std::array<float*, kWarpgroup> registers{};   // each thread's array; nullptr: it has not used the tile yet
    std::array<bool, kWarpgroup> held{};          // wgmma has it: issued and not waited for
    std::array<uint64_t, kWarpgroup> last{};      // the thread's last wgmma on it, counted from 1
    std::vector<float> values;                    // 64 x columns
};

class Warpgroup {
public:
    Warpgroup(Cta& cta, int first_thread) : cta_(&cta), first_thread_(first_thread) {}

    void issue(Thread& thread, float* registers, const WgmmaCall& call);
    void fence(Thread& thread);
    void commit_group(Thread& thread, int line);
    void wait_group(Thread& thread, int pending, int line);
    void thread_exits(Thread& thread);

    // Makes what threads wait for happen.
    void execute_wanted();
    // Who issued a wgmma that reads the chunk at this address and that nobody has waited for; nullptr: nobody.
    const Origin* find_reader(uint32_t address) const;
    // Whether the address is in an accumulator of this thread that a wgmma holds; nullptr: whether there is any.
    bool holds(const Thread& thread, const void* address) const;
    // Whether this thread has had a NaN as a result.
    bool gave_nan(const Thread& thread) const { return lanes_[size_t(lane_of(thread))].given_nan; }

private:
    struct Operation {
        WgmmaCall call;
        AccumulatorTile* tile = nullptr;
        Origin origin;            // the thread that came first
        int arrived = 0;          // threads that have executed it
        bool loaded[2] = {};      // A, B: TMA loads into all of it had been issued when that thread came
    };
    struct Lane {
        uint64_t issued = 0, waited = 0;   // wgmma
        size_t commits = 0;
        bool fenced = false;               // since it last had its accumulators back
        bool given_nan = false;            // among results that it had back
    };

    Operation& operation(uint64_t number) { return operations_[size_t(number - retired_)]; }
    int lane_of(const Thread& thread) const { return thread.linear - first_thread_; }
    Operation& begin_operation(Thread& thread, const WgmmaCall& call);
    // Whether TMA loads into all of the operand have been issued; reports those that have not come, and other faults.
    bool check_operand(Thread& thread, const WgmmaCall& call, int which);
    void check_same(Thread& thread, const Operation& operation, const WgmmaCall& call);
    void complete_issue(Thread& thread, Operation& operation);
    AccumulatorTile& find_tile(int lane, float* registers, int columns);
    void take_registers(Thread& thread, AccumulatorTile& tile, float* registers, const WgmmaCall& call);
    void give_registers_back(int lane);
    void start_execution();
    void execute(Operation& operation);
    void retire(uint64_t end);
    bool has_arrived(uint64_t end) const;
    [[noreturn]] void fail(Thread& thread, Kind kind, int line, int64_t value, int64_t second = 0);
    static bool is_executed(const Wait& wait);
    static void describe_wait(const Wait& wait, WarpState& state);

    Cta* cta_;
    int first_thread_;
    // wgmma are numbered as they are issued, from 0.
    std::deque<Operation> operations_;   // those that nobody has waited for; the first is number retired_
    uint64_t retired_ = 0, executed_ = 0, wanted_ = 0;   // all before this number
    bool under_way_ = false;             // the execution of what is wanted is in the queue
    std::vector<uint64_t> group_ends_;   // of each committed group: the number after its last wgmma
    std::vector<uint32_t> tickets_;      // of each wgmma, if accesses are ordered: see order_async_read_issued
    std::array<Lane, kWarpgroup> lanes_;
    std::deque<AccumulatorTile> tiles_;
};

}   // namespace emulator
