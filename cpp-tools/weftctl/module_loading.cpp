// SPDX-License-Identifier: GPL-2.0-only
#include "host.hpp"
#include "process.hpp"

#include <cerrno>
#include <cstring>
#include <libkmod.h>
#include <memory>

namespace weft
{

result<void> load_module(const std::string& name)
{
    const std::unique_ptr<kmod_ctx, kmod_ctx* (*)(kmod_ctx*)> context(kmod_new(nullptr, nullptr), kmod_unref);
    kmod_list* all = nullptr;
    int problem = context ? kmod_module_new_from_lookup(context.get(), name.c_str(), &all) : -ENOMEM;
    const std::unique_ptr<kmod_list, int (*)(kmod_list*)> found(all, kmod_module_unref_list);
    if (!problem && !found)
        return fail(exit_code::missing, "the kernel module {} is not installed for kernel {}", name,
                    kernel_release());
    for (const auto* at = found.get(); at && !problem; at = kmod_list_next(found.get(), at)) {
        const std::unique_ptr<kmod_module, kmod_module* (*)(kmod_module*)> module(kmod_module_get_module(at),
                                                                                  kmod_module_unref);
        problem = kmod_module_probe_insert_module(module.get(), 0, nullptr, nullptr, nullptr, nullptr);
    }
    if (!problem)
        return {};
    return fail(problem == -EPERM ? exit_code::permission : exit_code::missing,
                "the kernel module {} cannot be loaded: {}; the kernel's log (dmesg) may say why", name,
                std::strerror(problem < 0 ? -problem : EPERM));
}

} // namespace weft
