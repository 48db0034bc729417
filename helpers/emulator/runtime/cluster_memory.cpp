// Reads of another CTA's shared memory (ld.shared::cluster).
#include <cstring>

#include "cluster.h"
#include "hazards.h"
#include "hooks.h"
#include "launch.h"
#include "worker.h"

using namespace emulator;

void emulator_ld_shared_cluster(void* value, const void* address, uint32_t rank, int line) {
    Thread& thread = *current_thread;
    const uint32_t offset = emulator_shared_offset(address, line);
    Cta& owner = *thread.cta->cluster->ctas[rank];
    if (&owner == thread.cta) {
        shared_access(thread, owner.shared + offset, kChunkBytes, Op::load, __builtin_return_address(0));
    }
    std::memcpy(value, owner.shared + offset, kChunkBytes);
}
