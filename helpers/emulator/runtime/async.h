// Operations that run beside the threads, such as copies by another unit of the SM.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "protocol.h"
#include "random.h"

namespace emulator {

// Something issued that has not happened yet. `complete` makes it happen, all at once.
class AsyncOperation {
public:
    virtual ~AsyncOperation() = default;
    virtual void complete() = 0;
};

// What has been issued and not happened. The scheduler decides when it does: as late as possible (lazy) or at random
// moments in random order (random). Under the eager schedule whoever issues an operation completes it at once.
class AsyncQueue {
public:
    bool empty() const { return operations_.empty(); }
    void push(std::unique_ptr<AsyncOperation> operation) { operations_.push_back(std::move(operation)); }
    void clear() { operations_.clear(); }

    void complete_one(Schedule schedule, Random& random) {
        const size_t which = schedule == Schedule::random ? random.below(uint32_t(operations_.size())) : 0;
        std::unique_ptr<AsyncOperation> operation = std::move(operations_[which]);
        operations_.erase(operations_.begin() + std::ptrdiff_t(which));
        operation->complete();
    }

private:
    std::deque<std::unique_ptr<AsyncOperation>> operations_;
};

}   // namespace emulator
