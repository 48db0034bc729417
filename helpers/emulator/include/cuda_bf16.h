#pragma once
#include "emulator/cuda.h"
