// SPDX-License-Identifier: GPL-2.0-only
/// What a container orchestrator has done with volumes on this host. Paths are absolute, names are valid. One
/// call for a volume runs at a time. A call that is repeated after it succeeded succeeds again (CSI,
/// "Idempotency").
#pragma once

#include <cstdint>
#include <grpcpp/support/status.h>
#include <string>
#include <string_view>
#include <vector>

namespace weft
{

/// How a volume is used.
struct volume_use {
    std::string name;
    bool block = false;             ///< as a device; else as a mounted filesystem
    bool read_only = false;         ///< other hosts may read, too
    std::string filesystem;         ///< its type; empty: the one that is there
    std::vector<std::string> flags; ///< options of mount(8)
    std::string members;            ///< URIs and devices with spaces between them; empty: the volume's file
};

/// Assembles a volume, unless it is assembled already, and mounts its filesystem at `staging`. A
/// failure undoes all of this.
[[nodiscard]] grpc::Status stage(const volume_use& use, const std::string& staging);

/// Whether 'weftctl assemble' has assembled the volume, by its output. If not, another command may have, at
/// the same time, and the volume is not weft-csi's to stop.
[[nodiscard]] bool has_assembled(bool succeeded, std::string_view output);

/// Unmounts, and stops the volume if stage() assembled it.
[[nodiscard]] grpc::Status unstage(const std::string& name, const std::string& staging);

/// Gives the volume to a container, at `target`, which is made.
[[nodiscard]] grpc::Status publish(const volume_use& use, const std::string& staging,
                                   const std::string& target, bool read_only);

/// Takes it away again, and removes `target`.
[[nodiscard]] grpc::Status unpublish(const std::string& name, const std::string& target);

struct volume_usage {
    struct amount {
        std::int64_t available = 0, total = 0, used = 0;
    };
    bool block = false;
    bool counted = false; ///< whether the amounts are known
    amount bytes;         ///< for a device: the total alone
    amount inodes;        ///< not for a device
    std::string problem;  ///< a sentence; empty for a volume that works
};

/// What is used of a volume that is staged or published at `path`, and whether it works.
[[nodiscard]] grpc::Status measure(const std::string& name, const std::string& path, volume_usage& usage);

/// Whether weft.ko answers.
[[nodiscard]] grpc::Status probe();

} // namespace weft
