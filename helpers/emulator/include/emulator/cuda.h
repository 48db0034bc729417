// All of the emulator's CUDA C++, whichever header of CUDA the kernel includes.
#pragma once
#include "emulator/language.h"
#include "emulator/vector_types.h"
#include "emulator/bf16.h"
#include "emulator/math.h"
#include "emulator/warp.h"
