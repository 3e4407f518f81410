// SPDX-License-Identifier: GPL-2.0-only
/// cuFile, for comparison: the needed functions by their documented ABI, from the libcufile that is found.
/// NVIDIA's does not say by which route bytes go; weft's does.
#include "measure.hpp"

#include <shim/cuda.hpp>
#include <shim/library.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace bench
{

namespace
{

struct CuFileError {
    int err;
    int cu_err;
};

struct CuFileDescr {
    int type; // CU_FILE_HANDLE_TYPE_OPAQUE_FD
    union {
        int fd;
        void* handle;
    } handle;
    const void* fs_ops;
};

constexpr int opaque_fd = 1;

/// struct weft_cufile_bytes
struct Bytes {
    std::uint64_t direct, staged, cached;
};

struct CuFile {
    CuFileError (*open)();
    CuFileError (*close)();
    CuFileError (*handle_register)(void**, CuFileDescr*);
    void (*handle_deregister)(void*);
    CuFileError (*buffer_register)(const void*, std::size_t, int);
    CuFileError (*buffer_deregister)(const void*);
    ssize_t (*read)(void*, void*, std::size_t, off_t, off_t);
    ssize_t (*write)(void*, const void*, std::size_t, off_t, off_t);
    void (*count)(Bytes*); ///< only weft's library has it

    [[nodiscard]] bool load(const weft::shim::Library& library)
    {
        if (!library.find(count, "weft_cufile_count"))
            count = nullptr;
        return library.find(open, "cuFileDriverOpen") &&
               (library.find(close, "cuFileDriverClose_v2") || library.find(close, "cuFileDriverClose")) &&
               library.find(handle_register, "cuFileHandleRegister") &&
               library.find(handle_deregister, "cuFileHandleDeregister") &&
               library.find(buffer_register, "cuFileBufRegister") &&
               library.find(buffer_deregister, "cuFileBufDeregister") && library.find(read, "cuFileRead") &&
               library.find(write, "cuFileWrite");
    }
};

/// What the library says about the bytes since `before`.
std::string route_of(const CuFile& api, const Bytes& before)
{
    if (!api.count)
        return "cuFile's own choice";
    Bytes now{};
    api.count(&now);
    const char* route = now.staged != before.staged   ? "staged"
                        : now.cached != before.cached ? "cached"
                                                      : "direct";
    return std::string(route) + ", by weft's libcufile";
}

} // namespace

Figures run_cufile(const Job& job, const weft::Memory& memory, const Progress& progress)
{
    const std::string name = "cufile";
    const weft::shim::Library library("libcufile.so.0");
    CuFile api{};
    if (!job.gpu)
        return refused(name, "cuFile is for GPU memory");
    if (!library || !api.load(library))
        return refused(name, "there is no libcufile.so.0 here");
    if (const auto error = api.open(); error.err)
        return refused(name, "cuFileDriverOpen fails with " + std::to_string(error.err));
    const std::unique_ptr<CuFile, void (*)(CuFile*)> driver(&api, [](CuFile* opened) { opened->close(); });
    const auto fd = open_source(job, true);
    if (!fd)
        return refused(name, path_of(job) + ": " + std::strerror(fd.error()));
    CuFileDescr descr{opaque_fd, {fd->get()}, nullptr};
    void* registered = nullptr;
    if (const auto error = api.handle_register(&registered, &descr); error.err)
        return refused(name, "cuFileHandleRegister fails with " + std::to_string(error.err) +
                                 "; the library's log says why");
    const std::unique_ptr<void, void (*)(void*)> handle(registered, api.handle_deregister);
    // cuFile takes a CUDA device pointer as a void pointer.
    auto* pointer = reinterpret_cast<void*>(memory.device_pointer());
    const bool known = !api.buffer_register(pointer, memory.size(), 0).err;

    Figures figures;
    figures.name = name;
    // cuFile's calls are synchronous.
    const auto count = std::min(job.depth, most_threads);
    Bytes before{};
    if (api.count)
        api.count(&before);
    using Moved = std::expected<std::size_t, std::string>;
    const auto move = [&](std::uint32_t number, std::uint32_t length, off_t offset) -> Moved {
        const weft::shim::CurrentContext current(*weft::shim::cuda(), memory.cuda_context());
        const auto at = static_cast<off_t>(std::uint64_t{number} * job.piece);
        const auto moved = job.write ? api.write(handle.get(), pointer, length, offset, at)
                                     : api.read(handle.get(), pointer, length, offset, at);
        // -1 stands for an errno, and what is below for an error of cuFile.
        if (moved < -1)
            return std::unexpected("its I/O fails with " + std::to_string(moved));
        if (moved <= 0)
            return std::unexpected(path_of(job) + ": " + (moved ? std::strerror(errno) : "it ends early"));
        return static_cast<std::size_t>(moved);
    };
    move_pieces(figures, job, count, progress, move);
    figures.route = route_of(api, before) + ", " + std::to_string(count) + " threads";
    if (known)
        api.buffer_deregister(pointer);
    return figures;
}

} // namespace bench
