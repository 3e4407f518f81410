// SPDX-License-Identifier: GPL-2.0-only
/// Files, memories and rings as weft-memtest uses them. Whatever goes wrong that is not the test's subject
/// ends it.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <liburing.h>
#include <string>
#include <utility>
#include <vector>

#include "uapi/weft_mem.h"

[[noreturn, gnu::format(printf, 1, 2)]] void die(const char* format, ...);

/// An owned descriptor.
class unique_fd
{
public:
    explicit unique_fd(int fd = -1) : fd_(fd) {}
    unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    unique_fd& operator=(unique_fd&& other) noexcept;
    ~unique_fd();
    [[nodiscard]] int get() const { return fd_; }

private:
    int fd_;
};

/// Memory to be registered, and how the CPU looks at it.
class memory_source
{
public:
    memory_source(const std::string& what, std::uint64_t size);
    ~memory_source();
    memory_source(const memory_source&) = delete;
    memory_source& operator=(const memory_source&) = delete;

    [[nodiscard]] bool is_pages() const { return fd_.get() < 0; }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] std::uint8_t* data() const { return data_; }
    void write(std::uint64_t at, const std::uint8_t* from, std::size_t length) const;
    [[nodiscard]] std::vector<std::uint8_t> read(std::uint64_t at, std::size_t length) const;
    /// Of the test exporter's.
    void move() const;
    /// For good; of a BAR by taking the driver from its device.
    void revoke() const;
    static std::uint64_t strays();

private:
    unique_fd fd_;
    unique_fd exporter_;
    std::vector<unique_fd> vfio_; ///< container, group, device
    std::string bar_;
    std::uint8_t* data_ = nullptr;
    std::uint64_t size_;
};

struct registered {
    std::uint32_t id;
    std::uint32_t route;
};

/// /dev/weft/NAME.mem
class mem_file
{
public:
    explicit mem_file(const std::string& volume);
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] weft_mem_geometry geometry() const;
    [[nodiscard]] std::uint32_t target(int block, std::uint32_t access) const;
    static weft_mem_register request(const memory_source& source, std::uint64_t start, std::uint64_t length,
                                     std::uint32_t flags);
    [[nodiscard]] bool try_add(weft_mem_register& request) const;
    [[nodiscard]] registered add(const memory_source& source, std::uint64_t start, std::uint64_t length,
                                 std::uint32_t flags) const;
    [[nodiscard]] bool remove(std::uint32_t id) const;
    /// A ring that it is registered with keeps it open.
    void close() { fd_ = unique_fd(); }
    [[nodiscard]] weft_mem_info info(std::uint32_t id) const;

private:
    unique_fd fd_;
};

/// The volume's block device, past the page cache.
class block_file
{
public:
    explicit block_file(const std::string& volume, int flags = O_RDWR | O_DIRECT);
    static block_file at(const std::string& path);
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] std::vector<std::uint8_t> read(std::uint64_t offset, std::size_t length) const;
    void write(std::uint64_t offset, const std::vector<std::uint8_t>& data) const;

private:
    explicit block_file(unique_fd fd) : fd_(std::move(fd)) {}
    unique_fd fd_;
};

class ring
{
public:
    explicit ring(unsigned entries, unsigned flags = IORING_SETUP_SQE128);
    ~ring();
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;
    void prepare(int fd, std::uint32_t op, const weft_mem_cmd& command, std::uint64_t tag);
    /// Submits what was prepared, and waits for nothing.
    void submit();
    /// The next completion's tag and result; submits what was prepared.
    std::pair<std::uint64_t, int> next();
    /// Results of all that is there, one at least; submits what was prepared.
    std::vector<int> ready();
    /// All commands are on this file from now on.
    void register_file(int fd);
    /// For prepare_fixed(): a registered file and buffer.
    void register_block(int fd, void* memory, std::uint64_t length);
    void prepare_fixed(void* memory, std::uint32_t length, std::uint64_t offset);

private:
    io_uring ring_{};
    bool fixed_file_ = false;
};

int bad_input(const std::string& volume);
int stopped_volume(const std::string& volume);

/// Reads of a sealed file.
struct file_test {
    std::string volume;
    std::string memory;
    std::string path;
    std::uint32_t flags;
    std::uint64_t size; ///< of the memory
    std::uint32_t largest;
    unsigned count;
    unsigned seconds; ///< at least for so long
    bool stop;        ///< itself before the first read, which is a long one
};
int read_file(const file_test& test);
