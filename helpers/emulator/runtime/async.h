// Operations that run beside the threads, such as copies by another unit of the SM.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "protocol.h"
#include "random.h"

namespace emulator {

struct Cta;

// Who issued an operation, for reports.
struct Origin {
    Cta* cta = nullptr;
    int thread = -1;   // linear index in the CTA
    int line = 0;
};

// Something issued that has not happened yet. `complete` makes it happen, all at once. It runs between fibers, on the
// OS thread of any CTA of the cluster: it may call Worker::add_report and Worker::stop, not Worker::fail.
class AsyncOperation {
public:
    explicit AsyncOperation(const Origin& issuer) : origin(issuer) {}
    virtual ~AsyncOperation() = default;

    virtual void complete() = 0;
    // Whether it may happen now. One that is not ready is passed over; that its issuer waits may make it ready.
    virtual bool ready() const { return true; }
    // The CTA into whose shared memory it writes, if any: that CTA must not exit before.
    virtual const Cta* target() const { return nullptr; }

    const Origin origin;
};

// What the CTAs of a cluster have issued and not happened. The scheduler decides when it does: in order and only when
// no thread of the cluster can go on (lazy), or at random moments in random order (random). Under the eager schedule
// an operation that is ready happens as it is issued.
class AsyncQueue {
public:
    bool empty() const { return operations_.empty(); }
    void clear() { operations_.clear(); }

    void issue(std::unique_ptr<AsyncOperation> operation, Schedule schedule) {
        if (schedule == Schedule::eager && operation->ready()) {
            operation->complete();
        } else {
            operations_.push_back(std::move(operation));
        }
    }

    // Makes one operation happen that is ready. Returns whether there was one.
    bool complete_one(Schedule schedule, Random& random) {
        const size_t count = operations_.size();
        const size_t first = schedule == Schedule::random && count > 1 ? random.below(uint32_t(count)) : 0;
        for (size_t i = 0; i < count; ++i) {
            const size_t which = (first + i) % count;
            if (!operations_[which]->ready()) continue;
            const std::unique_ptr<AsyncOperation> operation = std::move(operations_[which]);
            operations_.erase(operations_.begin() + std::ptrdiff_t(which));
            operation->complete();
            return true;
        }
        return false;
    }

    // The first operation on its way into a CTA's shared memory, or nullptr.
    const AsyncOperation* find_target(const Cta* cta) const {
        for (const auto& operation : operations_) {
            if (operation->target() == cta) return operation.get();
        }
        return nullptr;
    }

private:
    std::deque<std::unique_ptr<AsyncOperation>> operations_;
};

}   // namespace emulator
