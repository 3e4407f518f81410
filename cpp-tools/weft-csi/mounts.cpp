// SPDX-License-Identifier: GPL-2.0-only
#include "mounts.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <libmount/libmount.h>
#include <memory>
#include <sys/mount.h>
#include <sys/stat.h>

namespace weft
{

namespace
{

using context = std::unique_ptr<libmnt_context, void (*)(libmnt_context*)>;

/// libmount sets the umask of the process for a moment, and two threads at once may leave its 0077.
void restore_umask()
{
    ::umask(0022);
}

/// mount(2) by libmount, which knows the options of filesystems from its own, and says what was wrong.
result<void> mount_by(context with, const std::string& path)
{
    if (!with || mnt_context_set_target(with.get(), path.c_str()))
        return fail(exit_code::failure, "{} cannot be mounted: out of memory", path);
    const int done = mnt_context_mount(with.get());
    restore_umask();
    char why[512] = "";
    // Also helpers, such as mount.xfs, may fail.
    if (!mnt_context_get_excode(with.get(), done, why, sizeof(why)))
        return {};
    return fail(exit_code::failure, "nothing can be mounted at {}: {}", path,
                *why ? why : "mount(2) fails; the kernel's log (dmesg) may say why");
}

/// A path as the kernel names it, without symbolic links in its folder.
result<std::string> kernel_path(const std::string& path)
{
    auto target = std::filesystem::path(path).lexically_normal();
    if (!target.has_filename())
        target = target.parent_path();
    std::error_code problem;
    const auto folder = std::filesystem::weakly_canonical(target.parent_path(), problem);
    if (problem)
        return fail(exit_code::failure, "{} cannot be found: {}", path, problem.message());
    return (folder / target.filename()).string();
}

/// libmount keeps options that the kernel does not have, such as _netdev, in a file (/run/mount/utab). What
/// it keeps of a mount that is gone harms nothing, but a node would collect it.
void forget_options(const std::string& target)
{
    const std::unique_ptr<libmnt_update, void (*)(libmnt_update*)> update(mnt_new_update(), mnt_free_update);
    if (update && !mnt_update_set_fs(update.get(), 0, target.c_str(), nullptr))
        static_cast<void>(mnt_update_table(update.get(), nullptr));
    restore_umask();
}

} // namespace

result<std::optional<mount_point>> mounted_at(const std::string& path)
{
    const std::unique_ptr<libmnt_table, void (*)(libmnt_table*)> mounts(
        mnt_new_table_from_file("/proc/self/mountinfo"), mnt_unref_table);
    if (!mounts)
        return fail(exit_code::failure, "/proc/self/mountinfo cannot be read: {}", std::strerror(errno));
    const auto target = kernel_path(path);
    if (!target)
        return std::unexpected(target.error());
    // The last one is on top.
    auto* found = mnt_table_find_target(mounts.get(), target->c_str(), MNT_ITER_BACKWARD);
    if (!found)
        return std::nullopt;
    unsigned long flags = 0;
    if (const char* options = mnt_fs_get_vfs_options(found))
        mnt_optstr_get_flags(options, &flags, mnt_get_builtin_optmap(MNT_LINUX_MAP));
    const auto text = [](const char* given) { return std::string(given ? given : ""); };
    return mount_point{mnt_fs_get_devno(found), text(mnt_fs_get_source(found)), text(mnt_fs_get_root(found)),
                       (flags & MS_RDONLY) != 0};
}

bool says_read_only(const std::string& options)
{
    return !mnt_optstr_get_option(options.c_str(), "ro", nullptr, nullptr);
}

result<void> mount_filesystem(const std::string& device, const std::string& path, const std::string& type,
                              const std::string& options)
{
    context with(mnt_new_context(), mnt_free_context);
    if (!with || mnt_context_set_source(with.get(), device.c_str()) ||
        mnt_context_set_fstype(with.get(), type.c_str()) ||
        mnt_context_set_options(with.get(), options.c_str()))
        return fail(exit_code::usage, "the mount options '{}' are not understood", options);
    mnt_context_enable_rwonly_mount(with.get(), !says_read_only(options));
    return mount_by(std::move(with), path);
}

result<void> mount_bind(const std::string& from, const std::string& path, const std::string& options)
{
    const std::string all = options.empty() ? "bind" : "bind," + options;
    context with(mnt_new_context(), mnt_free_context);
    if (!with || mnt_context_set_source(with.get(), from.c_str()) ||
        mnt_context_set_options(with.get(), all.c_str()))
        return fail(exit_code::failure, "{} cannot be mounted: out of memory", path);
    return mount_by(std::move(with), path);
}

result<void> unmount_top(const std::string& path)
{
    const auto target = kernel_path(path);
    if (!target)
        return std::unexpected(target.error());
    if (::umount2(target->c_str(), UMOUNT_NOFOLLOW))
        return fail(exit_code_of(errno), "{} cannot be unmounted: {}", path,
                    errno == EBUSY ? "a process uses it" : std::strerror(errno));
    forget_options(*target);
    return {};
}

} // namespace weft
