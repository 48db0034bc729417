// Reads of another CTA's shared memory (ld.shared::cluster), and what writes there (st.async) have in common with them.
#pragma once
#include "cta.h"

namespace emulator {

// The CTA of a rank, and the offset in every CTA's shared memory of the place that a thread reads or writes there. Both
// stop the thread if it cannot be. array: set to that of the place.
Cta& checked_owner(Thread& thread, uint32_t rank, Op op, int line);
uint32_t checked_offset(Thread& thread, const Cta& owner, const void* address, uint32_t bytes, Op op, int line,
                        int& array);

// The last thread of a CTA has exited: reports reads of its shared memory that need not have been over by then.
void remote_reads_cta_exits(Thread& last);

// Without ordering: a CTA has learnt from another that reads of its shared memory are over.
void remote_reads_are_known(Cta& owner);

}   // namespace emulator
