// The baton between the OS threads of a cluster: the scheduler hands a worker a task and waits until it is done.
#pragma once
#include <condition_variable>
#include <mutex>

namespace emulator {

class Turn {
public:
    using Task = void (*)(void* subject);

    // Scheduler: has the task done on the worker's OS thread, and returns when it is.
    void give(Task task, void* subject) {
        std::unique_lock<std::mutex> lock(mutex_);
        task_ = task;
        subject_ = subject;
        changed_.notify_one();
        changed_.wait(lock, [this] { return task_ == nullptr; });
    }

    // Scheduler: no more tasks.
    void end() {
        const std::lock_guard<std::mutex> lock(mutex_);
        ended_ = true;
        changed_.notify_one();
    }

    // Worker: does tasks until there are no more.
    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return task_ != nullptr || ended_; });
            if (task_ == nullptr) return;
            task_(subject_);
            task_ = nullptr;
            changed_.notify_one();
        }
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    Task task_ = nullptr;
    void* subject_ = nullptr;
    bool ended_ = false;
};

}   // namespace emulator
