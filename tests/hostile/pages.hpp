// SPDX-License-Identifier: GPL-2.0-only
/// Memory of the target that costs nothing before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <utility>

/// Bytes that are zero, each page of which is there when it is first used: a vector would write all of them
/// at once, which takes most of a second of an emulated processor for the disk alone.
class pages
{
public:
    pages() = default;
    /// Throws std::bad_alloc.
    explicit pages(std::size_t size) : size_(size)
    {
        void* at =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            throw std::bad_alloc();
        data_ = static_cast<std::uint8_t*>(at);
    }
    pages(pages&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
    pages& operator=(pages&& other) noexcept
    {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~pages()
    {
        if (data_)
            munmap(data_, size_);
    }

    std::uint8_t* data() { return data_; }
    std::size_t size() const { return size_; }

private:
    std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0;
};
