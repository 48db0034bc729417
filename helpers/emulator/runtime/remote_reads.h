// Reads of another CTA's shared memory (ld.shared::cluster).
#pragma once
#include "cta.h"

namespace emulator {

// The last thread of a CTA has exited: reports reads of its shared memory that need not have been over by then.
void remote_reads_cta_exits(Thread& last);

// Without ordering: a CTA has learnt from another that reads of its shared memory are over.
void remote_reads_are_known(Cta& owner);

}   // namespace emulator
