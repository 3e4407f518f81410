// SPDX-License-Identifier: GPL-2.0-only
/// A piece of each memory on this host that others could read and write, as a dma-buf: to try what works.
#pragma once

#include "result.hpp"
#include <fd.hpp>

#include <memory>
#include <string>
#include <vector>

namespace weft
{

/// Some memory, as a dma-buf; gone with this.
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

/// What could be had, and for each that could not, why.
struct peer_memories {
    std::vector<std::unique_ptr<peer_memory>> memories;
    std::vector<std::string> refusals;
};

/// BARs by weft_p2p, and GPUs by CUDA where there is a libcuda.
[[nodiscard]] peer_memories find_peer_memories();

/// Registers a memory with an RDMA device by verbs (ibv_reg_dmabuf_mr), and takes it back.
[[nodiscard]] result<void> try_register(const std::string& rdma_device, const peer_memory& memory);

/// Registers it with a volume, strictly, and takes it back.
[[nodiscard]] result<void> try_volume(const std::string& volume, const peer_memory& memory);

} // namespace weft
