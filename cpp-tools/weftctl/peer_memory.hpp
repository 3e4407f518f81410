// SPDX-License-Identifier: GPL-2.0-only
/// A piece of each device memory of this host as a dma-buf, for tests.
#pragma once

#include "result.hpp"
#include <fd.hpp>

#include <memory>
#include <string>
#include <vector>

namespace weft
{

/// A piece of memory as a dma-buf; the destructor frees it.
class peer_memory
{
public:
    virtual ~peer_memory() = default;
    peer_memory() = default;
    peer_memory(const peer_memory&) = delete;
    peer_memory& operator=(const peer_memory&) = delete;
    [[nodiscard]] virtual int fd() const = 0;
    [[nodiscard]] virtual std::size_t size() const = 0;
    [[nodiscard]] virtual const std::string& name() const = 0; ///< "the BAR of 0000:05:00.0"
};

/// The available memories, and the reasons for those that are not.
struct peer_memories {
    std::vector<std::unique_ptr<peer_memory>> memories;
    std::vector<std::string> refusals;
};

/// BARs from weft_p2p, and GPU memory from CUDA if there is a libcuda.
[[nodiscard]] peer_memories find_peer_memories();

/// Registers a memory with an RDMA device by verbs (ibv_reg_dmabuf_mr), and unregisters it.
[[nodiscard]] result<void> try_register(const std::string& rdma_device, const peer_memory& memory);

/// Registers a memory with a volume, only by the direct route, and unregisters it.
[[nodiscard]] result<void> try_volume(const std::string& volume, const peer_memory& memory);

} // namespace weft
