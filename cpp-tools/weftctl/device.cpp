// SPDX-License-Identifier: GPL-2.0-only
#include "device.hpp"

#include "model.hpp"
#include "sysfile.hpp"

#include <algorithm>
#include <blkid/blkid.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <libmount/libmount.h>
#include <linux/fs.h>
#include <memory>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace weft
{

namespace fs = std::filesystem;

exit_code exit_code_of(int errnum) noexcept
{
    switch (errnum) {
    case EINVAL:
    case E2BIG:
    case ENAMETOOLONG:
    case ENOTBLK:
    case ENOSPC:
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case EMSGSIZE:
        return exit_code::usage;
    case EBUSY:
    case EEXIST:
        return exit_code::busy;
    case ENOENT:
    case ENXIO:
    case ENODEV:
    case ENODATA:
        return exit_code::missing;
    case EBADMSG:
    case ESTALE:
    case EXDEV:
        return exit_code::damaged;
    case EPERM:
    case EACCES:
    case EROFS:
        return exit_code::permission;
    default:
        return exit_code::failure;
    }
}

namespace
{

std::unexpected<error> open_error(const std::string& path, int errnum, dev_t number)
{
    if (errnum == EBUSY) {
        std::string who;
        for (const auto& user : users_of(number))
            who += (who.empty() ? ": " : ", ") + user;
        return fail(exit_code::busy, "{} is in use{}", path, who);
    }
    if (errnum == EROFS || errnum == EACCES)
        return fail(exit_code::permission, "{} cannot be opened for writing: {}", path,
                    errnum == EROFS ? "it is read-only" : std::strerror(errnum));
    return fail(exit_code_of(errnum), "{} cannot be opened: {}", path, std::strerror(errnum));
}

} // namespace

result<block_device> block_device::open(const std::string& path, access access)
{
    struct stat st {
    };
    if (::stat(path.c_str(), &st))
        return fail(exit_code_of(errno), "{} cannot be found: {}", path, std::strerror(errno));
    if (!S_ISBLK(st.st_mode))
        return fail(exit_code::usage, "{} is not a block device", path);

    const bool write = access == access::write_exclusive;
    const int flags = O_CLOEXEC | O_DIRECT | (write ? O_RDWR | O_EXCL : O_RDONLY);
    block_device device;
    device.path_ = path;
    device.number_ = st.st_rdev;
    device.fd_ = OwnedFd(::open(path.c_str(), flags));
    if (!device.fd_)
        return open_error(path, errno, st.st_rdev);

    int read_only = 0;
    int block_size = 0;
    if (ioctl(device.fd_.get(), BLKGETSIZE64, &device.size_) ||
        ioctl(device.fd_.get(), BLKSSZGET, &block_size) || ioctl(device.fd_.get(), BLKROGET, &read_only))
        return fail(exit_code::failure, "the size of {} cannot be read: {}", path, std::strerror(errno));
    if (write && read_only)
        return fail(exit_code::permission, "{} cannot be opened for writing: it is read-only", path);
    device.block_size_ = static_cast<unsigned int>(block_size);
    return device;
}

std::string standby_state(dev_t number)
{
    const auto state =
        read_text(fmt::format("/sys/dev/block/{}:{}/ana_state", major(number), minor(number))).value_or("");
    return is_accessible(state) ? std::string() : state;
}

result<block_device::block> block_device::read_block(std::uint64_t offset) const
{
    block data;
    const auto got = ::pread(fd_.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (got != static_cast<ssize_t>(data.size())) {
        const std::string reason = got < 0 ? std::strerror(errno) : "the device ends there";
        const auto state = standby_state(number_);
        return fail(exit_code::failure, "{} cannot be read at byte {}: {}{}", path_, offset, reason,
                    state.empty() ? "" : "; its ANA state is " + state);
    }
    return data;
}

result<void> block_device::write_block(std::uint64_t offset, const block& data) const
{
    const auto put = ::pwrite(fd_.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (put != static_cast<ssize_t>(data.size()) || ::fdatasync(fd_.get()))
        return fail(exit_code::failure, "{} cannot be written at byte {}: {}", path_, offset,
                    std::strerror(errno));
    return {};
}

result<void> block_device::erase(std::uint64_t offset, std::uint64_t length) const
{
    std::uint64_t range[2] = {offset, length};
    if (ioctl(fd_.get(), BLKZEROOUT, range) || ::fdatasync(fd_.get()))
        return fail(exit_code::failure, "{} cannot be erased at byte {}: {}", path_, offset,
                    std::strerror(errno));
    return {};
}

void block_device::written() const
{
    ioctl(fd_.get(), BLKFLSBUF, 0);
    // udev watches only some kinds of disks for writers. Without udev this has no effect.
    static_cast<void>(write_attribute(
        fmt::format("/sys/dev/block/{}:{}/uevent", major(number_), minor(number_)), "change"));
}

namespace
{

// Older versions of libblkid read at any alignment, which direct I/O does not allow.
class buffered
{
public:
    explicit buffered(int fd) : fd_(fd), flags_(fcntl(fd, F_GETFL))
    {
        fcntl(fd_, F_SETFL, flags_ & ~O_DIRECT);
    }
    ~buffered() { fcntl(fd_, F_SETFL, flags_); }
    buffered(const buffered&) = delete;
    buffered& operator=(const buffered&) = delete;

private:
    int fd_;
    int flags_;
};

// Beyond any number of signatures that a device has: erasing one has no effect then.
constexpr int signatures_max = 256;

using probe_handle = std::unique_ptr<blkid_struct_probe, void (*)(blkid_probe)>;

// For the signatures of filesystems, volume managers and partition tables; null if that fails.
probe_handle make_probe(int fd, std::uint64_t size)
{
    // A remote host's writes to an exported disk are not in this host's page cache.
    ioctl(fd, BLKFLSBUF, 0);
    probe_handle probe(blkid_new_probe(), blkid_free_probe);
    if (!probe || blkid_probe_set_device(probe.get(), fd, 0, static_cast<blkid_loff_t>(size)))
        return {nullptr, blkid_free_probe};
    blkid_probe_enable_superblocks(probe.get(), 1);
    blkid_probe_set_superblocks_flags(probe.get(),
                                      BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE | BLKID_SUBLKS_MAGIC);
    blkid_probe_enable_partitions(probe.get(), 1);
    blkid_probe_set_partitions_flags(probe.get(), BLKID_PARTS_MAGIC);
    return probe;
}

} // namespace

result<std::optional<std::string>> block_device::content() const
{
    const buffered while_probing(fd_.get());
    const auto probe = make_probe(fd_.get(), size_);
    if (!probe)
        return fail(exit_code::failure, "the contents of {} cannot be probed", path_);
    const int found = blkid_do_safeprobe(probe.get());
    if (found == 1)
        return std::nullopt;
    // Ambivalent results (several kinds of contents) also count as contents.
    if (found == -2)
        return "several signatures that contradict each other";
    if (found < 0)
        return fail(exit_code::failure, "the contents of {} cannot be probed: {}", path_,
                    std::strerror(errno));

    const char* value = nullptr;
    if (!blkid_probe_lookup_value(probe.get(), "TYPE", &value, nullptr)) {
        const char* usage = nullptr;
        const bool filesystem = !blkid_probe_lookup_value(probe.get(), "USAGE", &usage, nullptr) &&
                                !std::strcmp(usage, "filesystem");
        return fmt::format("{}{}", value, filesystem ? " filesystem" : "");
    }
    if (!blkid_probe_lookup_value(probe.get(), "PTTYPE", &value, nullptr))
        return fmt::format("{} partition table", value);
    return "something that libblkid knows";
}

result<void> block_device::erase_signatures() const
{
    const buffered while_probing(fd_.get());
    const auto probe = make_probe(fd_.get(), size_);
    if (!probe)
        return fail(exit_code::failure, "the contents of {} cannot be probed", path_);
    // Each turn erases the magic that was found, also those of backups at the end of the device. A place that
    // cannot be read ends it: the disk is of use all the same.
    int turns = 0;
    int failed = 0;
    for (; turns < signatures_max && !failed && !blkid_do_probe(probe.get()); turns++)
        failed = blkid_do_wipe(probe.get(), 0);
    if (failed || ::fsync(fd_.get()))
        return fail(exit_code::failure, "{}: an old signature cannot be erased: {}", path_,
                    std::strerror(errno));
    if (turns == signatures_max)
        return fail(exit_code::failure, "{}: libblkid finds a signature that it does not erase", path_);
    // The kernel keeps partitions of a table that is gone. It refuses this for a disk that has none, and
    // while a program has one open; a boot drops them.
    if (turns)
        static_cast<void>(::ioctl(fd_.get(), BLKRRPART));
    return {};
}

namespace
{

/// The number of a block device by its folder in sysfs.
std::optional<dev_t> number_in(const fs::path& folder)
{
    std::ifstream dev(folder / "dev");
    unsigned int maj = 0;
    unsigned int min = 0;
    char colon = 0;
    return dev >> maj >> colon >> min ? std::optional(makedev(maj, min)) : std::nullopt;
}

} // namespace

std::optional<dev_t> whole_of(dev_t number, const fs::path& numbers)
{
    std::error_code failed;
    const auto folder = fs::canonical(numbers / fmt::format("{}:{}", major(number), minor(number)), failed);
    if (failed || !fs::exists(folder / "partition", failed))
        return std::nullopt;
    return number_in(folder.parent_path());
}

bool overlaps(dev_t one, dev_t other, const fs::path& numbers)
{
    return one == other || whole_of(one, numbers) == other || whole_of(other, numbers) == one;
}

namespace
{

// Device numbers of a whole disk and its partitions: the disk is in use if one of them is.
std::vector<dev_t> family_of(dev_t number)
{
    std::vector<dev_t> family{number};
    std::error_code ignored;
    const auto dir = fs::path("/sys/dev/block") / fmt::format("{}:{}", major(number), minor(number));
    for (const auto& entry : fs::directory_iterator(dir, ignored))
        if (fs::exists(entry.path() / "partition", ignored))
            if (const auto part = number_in(entry.path()))
                family.push_back(*part);
    return family;
}

void add_mounts(const std::vector<dev_t>& family, std::vector<std::string>& users)
{
    const std::unique_ptr<libmnt_table, void (*)(libmnt_table*)> mounts(
        mnt_new_table_from_file("/proc/self/mountinfo"), mnt_unref_table);
    const std::unique_ptr<libmnt_iter, void (*)(libmnt_iter*)> at(mnt_new_iter(MNT_ITER_FORWARD),
                                                                  mnt_free_iter);
    libmnt_fs* mounted = nullptr;
    while (mounts && at && !mnt_table_next_fs(mounts.get(), at.get(), &mounted))
        if (std::find(family.begin(), family.end(), mnt_fs_get_devno(mounted)) != family.end())
            users.push_back(fmt::format("mounted on {}", mnt_fs_get_target(mounted)));
}

void add_holders(dev_t number, std::vector<std::string>& users)
{
    std::error_code ignored;
    const auto dir =
        fs::path("/sys/dev/block") / fmt::format("{}:{}", major(number), minor(number)) / "holders";
    for (const auto& entry : fs::directory_iterator(dir, ignored)) {
        auto name = entry.path().filename().string();
        std::replace(name.begin(), name.end(), '!', '/');
        users.push_back("held by " + name);
    }
}

/// Processes that have one of these devices open; kind: S_IFBLK or S_IFCHR.
void add_processes(const std::vector<dev_t>& family, mode_t kind, std::string_view how,
                   std::vector<std::string>& users)
{
    std::error_code ignored;
    for (const auto& process : fs::directory_iterator("/proc", ignored)) {
        const auto pid = process.path().filename().string();
        if (!std::all_of(pid.begin(), pid.end(), [](unsigned char c) { return std::isdigit(c); }) ||
            pid == std::to_string(getpid()))
            continue;
        for (const auto& fd : fs::directory_iterator(process.path() / "fd", ignored)) {
            // For a file on a network filesystem this must not contact the server, which may be down.
            struct statx st {
            };
            if (::statx(AT_FDCWD, fd.path().c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &st) ||
                (st.stx_mode & S_IFMT) != kind ||
                std::find(family.begin(), family.end(), makedev(st.stx_rdev_major, st.stx_rdev_minor)) ==
                    family.end())
                continue;
            std::ifstream comm(process.path() / "comm");
            std::string name;
            std::getline(comm, name);
            // A process gives it to itself, with any bytes.
            users.push_back(fmt::format("{} in {} (pid {})", how, printable(std::move(name)), pid));
            break;
        }
    }
}

} // namespace

bool is_claimed(const std::string& path)
{
    const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_EXCL | O_NONBLOCK | O_CLOEXEC));
    return !fd && errno == EBUSY;
}

std::vector<std::string> users_of(dev_t number)
{
    std::vector<std::string> users;
    const auto family = family_of(number);
    add_mounts(family, users);
    for (const auto member : family)
        add_holders(member, users);
    add_processes(family, S_IFBLK, "open", users);
    return users;
}

std::vector<std::string> memory_users_of(const std::string& volume)
{
    std::vector<std::string> users;
    struct stat st {
    };
    if (!::stat(fmt::format("/dev/weft/{}.mem", volume).c_str(), &st) && S_ISCHR(st.st_mode))
        add_processes({st.st_rdev}, S_IFCHR, ".mem open", users);
    return users;
}

std::optional<dev_t> block_number(const std::string& path)
{
    struct stat st {
    };
    return !::stat(path.c_str(), &st) && S_ISBLK(st.st_mode) ? std::optional(st.st_rdev) : std::nullopt;
}

std::optional<std::vector<std::string>> users_of(const std::string& path)
{
    const auto number = block_number(path);
    return number ? std::optional(users_of(*number)) : std::nullopt;
}

result<void> check_distinct(const std::vector<block_device>& opened, const std::string& path)
{
    // Do not open it: a second open of a device that we claimed would only say that it is in use.
    const auto peek = block_device::open(path, block_device::access::read);
    if (!peek)
        return std::unexpected(peek.error());
    const auto name = namespace_of(peek->number());
    const bool is_telling = is_identifier(name);
    for (const auto& other : opened) {
        if (other.number() == peek->number())
            return fail(exit_code::usage, "{} and {} are the same device", other.path(), path);
        if (is_telling && namespace_of(other.number()) == name)
            return fail(
                exit_code::usage,
                "{} and {} are two paths to one namespace, which is one member; 'weftctl path add' adds "
                "the other path",
                other.path(), path);
    }
    return {};
}

bool is_identifier(std::string_view wwid)
{
    return wwid.starts_with("uuid.") || wwid.starts_with("eui.");
}

std::string namespace_of(dev_t number)
{
    const fs::path dir = fmt::format("/sys/dev/block/{}:{}", major(number), minor(number));
    std::error_code failed;
    if (!is_own_disk(fs::canonical(dir, failed).filename().string()))
        return {};
    return read_text(dir / "wwid").value_or("");
}

std::string disk_name(const std::string& device)
{
    struct stat st {
    };
    if (::stat(device.c_str(), &st) || !S_ISBLK(st.st_mode))
        return {};
    std::error_code ignored;
    const auto folder =
        fs::canonical(fmt::format("/sys/dev/block/{}:{}", major(st.st_rdev), minor(st.st_rdev)), ignored);
    return fs::exists(folder / "partition", ignored) ? folder.parent_path().filename() : folder.filename();
}

bool is_own_disk(std::string_view name)
{
    constexpr std::string_view prefix = "weft-rdma";
    return name.substr(0, prefix.size()) == prefix && name.find('n', prefix.size()) != std::string_view::npos;
}

namespace
{

/// Whether a disk is an NVMe namespace, none of whose controllers is connected now: a read would wait until
/// one is, or is given up.
bool is_away(const fs::path& entry)
{
    std::error_code failed;
    auto disk = fs::canonical(entry, failed);
    if (fs::exists(disk / "partition", failed))
        disk = disk.parent_path();
    const auto name = disk.filename().string();
    if (!is_own_disk(name) && !name.starts_with("nvme"))
        return false;
    if (const auto state = read_text(disk / "device/state"))
        return *state != "live";
    // The disk of several controllers belongs to their subsystem.
    bool any = false;
    for (const auto& child : fs::directory_iterator(disk / "device", failed))
        if (const auto state = read_text(child.path() / "state")) {
            if (*state == "live")
                return false;
            any = true;
        }
    return any;
}

} // namespace

std::vector<std::string> all_block_devices()
{
    std::vector<std::string> paths;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/sys/class/block", ignored)) {
        auto name = entry.path().filename().string();
        // A volume is a member only if the user names it, and opening a floppy drive takes seconds.
        if (name.rfind("weft!", 0) == 0 || name.rfind("fd", 0) == 0)
            continue;
        std::uint64_t sectors = 0;
        std::ifstream(entry.path() / "size") >> sectors;
        if (sectors * 512 < (1 << 20) || is_away(entry.path()))
            continue;
        std::replace(name.begin(), name.end(), '!', '/');
        paths.push_back("/dev/" + name);
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

} // namespace weft
