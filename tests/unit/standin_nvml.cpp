// SPDX-License-Identifier: GPL-2.0-only
/// A libnvidia-ml.so.1 for machines without a GPU: of three GPUs one is busy, one is divided by MIG, and one
/// fell off its bus. Its driver is not loaded at the first call.
#include <cstdint>
#include <cstring>
#include <utility>

namespace
{

constexpr int success = 0;
constexpr int uninitialized = 1;
constexpr int invalid_argument = 2;
constexpr int not_supported = 3;
constexpr int insufficient_size = 7;
constexpr int driver_not_loaded = 9;
constexpr int gpu_is_lost = 15;
constexpr unsigned gpu_count = 3;
bool ready = false;

unsigned number_of(void* device)
{
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) - 1;
}

int put(const char* word, char* text, unsigned size)
{
    if (std::strlen(word) >= size)
        return insufficient_size;
    std::strcpy(text, word);
    return success;
}

} // namespace

extern "C" {

int nvmlInit_v2()
{
    static bool is_loaded = false;
    ready = std::exchange(is_loaded, true);
    return ready ? success : driver_not_loaded;
}

int nvmlDeviceGetCount_v2(unsigned* count)
{
    *count = gpu_count;
    return ready ? success : uninitialized;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device)
{
    if (index >= gpu_count)
        return invalid_argument;
    if (index == 1)
        return gpu_is_lost;
    *device = reinterpret_cast<void*>(std::uintptr_t{index} + 1);
    return success;
}

int nvmlDeviceGetName(void* device, char* name, unsigned size)
{
    return put(number_of(device) ? "stand-in, MIG" : "stand-in", name, size);
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned size)
{
    return put(number_of(device) ? "GPU-2" : "GPU-0", uuid, size);
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned* percent)
{
    if (number_of(device))
        return not_supported;
    percent[0] = 37;
    percent[1] = 5;
    return success;
}

} // extern "C"
