// SPDX-License-Identifier: GPL-2.0-only
/// A libcufile.so.0 for machines without a GPU: the entry points that weft-bench uses, by pread() and a copy
/// by the stand-in for libcuda.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unistd.h>
#include <vector>

extern "C" {

int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes);
int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes);
int cuStreamSynchronize(void* stream);

struct Status {
    int err;
    int cu_err;
};

struct Descr {
    int type;
    union {
        int fd;
        void* handle;
    } handle;
    const void* fs_ops;
};

static std::set<const void*> buffers;
static int fd = -1;
static bool open_now = false;

Status cuFileDriverOpen()
{
    open_now = true;
    return {};
}

Status cuFileDriverClose()
{
    const bool left = fd >= 0 || !buffers.empty();
    open_now = false;
    return {left ? 5001 : 0, 0};
}

Status cuFileHandleRegister(void** handle, Descr* descr)
{
    if (!open_now || descr->type != 1 || fd >= 0)
        return {5022, 0};
    fd = descr->handle.fd;
    *handle = &fd;
    return {};
}

void cuFileHandleDeregister(void*)
{
    fd = -1;
}

Status cuFileBufRegister(const void* buffer, std::size_t, int)
{
    return {buffers.insert(buffer).second ? 0 : 5013, 0};
}

Status cuFileBufDeregister(const void* buffer)
{
    return {buffers.erase(buffer) ? 0 : 5014, 0};
}

ssize_t cuFileRead(void* handle, void* memory, std::size_t bytes, off_t offset, off_t at)
{
    if (handle != &fd)
        return -EINVAL;
    std::vector<std::byte> data(bytes + 4096);
    void* page =
        reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(data.data()) + 4095) / 4096 * 4096);
    const auto got = pread(fd, page, bytes, offset);
    if (got > 0 && (cuMemcpyHtoD_v2(reinterpret_cast<std::uintptr_t>(memory) + static_cast<std::uint64_t>(at),
                                    page, static_cast<std::size_t>(got)) ||
                    cuStreamSynchronize(nullptr)))
        return -EIO;
    return got;
}

ssize_t cuFileWrite(void* handle, const void* memory, std::size_t bytes, off_t offset, off_t at)
{
    if (handle != &fd)
        return -EINVAL;
    std::vector<std::byte> data(bytes + 4096);
    void* page =
        reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(data.data()) + 4095) / 4096 * 4096);
    if (cuMemcpyDtoH_v2(page, reinterpret_cast<std::uintptr_t>(memory) + static_cast<std::uint64_t>(at),
                        bytes))
        return -EIO;
    return pwrite(fd, page, bytes, offset);
}

} // extern "C"
