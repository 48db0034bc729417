// The emulator's twin of kernels/hopper.cuh: functions of the same names that do what the PTX instructions do.
#pragma once
#include "emulator/cuda.h"
#include "emulator/hopper_sync.h"
#include "emulator/hopper_async.h"
