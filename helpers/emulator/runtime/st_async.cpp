// Numbers that a thread sends into a CTA's shared memory (st.async), and that an mbarrier there waits for.
//
// The place is poisoned when the number is sent; it comes later, when the scheduler wants, as a TMA load's data does.
// Unlike that it is a write of the generic proxy.
#include <cstring>
#include <memory>

#include "cluster.h"
#include "hazards.h"
#include "hooks.h"
#include "launch.h"
#include "mbarrier.h"
#include "remote_reads.h"
#include "worker.h"

using namespace emulator;

namespace {

constexpr AsyncWriter kWriter = AsyncWriter::st_async;

class Number final : public AsyncOperation {
public:
    Number(const Origin& issuer, Cta& to, uint32_t offset, int value, uint32_t barrier)
        : AsyncOperation(issuer), to_(to), offset_(offset), value_(value), barrier_(barrier) {}

    void complete() override {
        std::memcpy(to_.shared + offset_, &value_, sizeof value_);
        order_async_write_done(to_, offset_, barrier_, kWriter);
        barrier_complete_tx(to_, barrier_, sizeof value_, kWriter, origin);
    }
    const Cta* target() const override { return &to_; }

private:
    Cta& to_;
    const uint32_t offset_;
    const int value_;
    const uint32_t barrier_;
};

}   // namespace

void emulator_st_async(int* to, int value, uint64_t* barrier, uint32_t rank, int line) {
    Thread& thread = *current_thread;
    thread.cta->worker->step(thread, -1, line);
    Cta& owner = checked_owner(thread, rank, Op::store, line);
    int array;
    const uint32_t offset = checked_offset(thread, owner, to, sizeof value, Op::store, line, array);
    const uint32_t barrier_offset = emulator_shared_offset(barrier, line);
    if (!barrier_used_by_async(thread, owner, barrier_offset, kWriter, line)) return;
    order_async_write_issued(thread, owner, offset, sizeof value, barrier_offset, kWriter, line);
    std::memset(owner.shared + offset, 0xff, sizeof value);
    const Origin origin{thread.cta, thread.linear, line};
    thread.cta->cluster->issue(std::make_unique<Number>(origin, owner, offset, value, barrier_offset));
    count_remote_access(thread, offset, sizeof value, array, Op::store, __builtin_return_address(0));
}
