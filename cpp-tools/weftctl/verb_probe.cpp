// SPDX-License-Identifier: GPL-2.0-only
#include "superblock.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

// Prints for a member the variables that udev's blkid builtin sets for known devices. Prints nothing for
// other devices.
result<exit_code> run_probe(const std::string& path)
{
    const auto device = block_device::open(path, block_device::access::read);
    if (!device)
        return exit_code::ok; // the device was removed
    const auto copies = read_superblocks(*device);
    const auto* sb = copies ? copies->best() : nullptr;
    if (!sb)
        return exit_code::ok;
    // A name is letters, digits, '-' and '_', so nothing needs to be escaped for udev.
    fmt::print(
        "ID_FS_TYPE=weft_member\nID_FS_USAGE=raid\nID_FS_VERSION={}\nID_FS_LABEL={}\nID_FS_LABEL_ENC={}\n",
        WEFT_SB_MAJOR, sb->name, sb->name);
    fmt::print("ID_FS_UUID={0}\nID_FS_UUID_ENC={0}\nID_FS_UUID_SUB={1}\nID_FS_UUID_SUB_ENC={1}\n",
               format_uuid(sb->volume_uuid), format_uuid(sb->member_uuid));
    return exit_code::ok;
}

} // namespace

verb add_probe(CLI::App& app)
{
    auto path = std::make_shared<std::string>();
    auto* command = app.add_subcommand("probe", "print the properties of a member for udev");
    command->add_option("DEVICE", *path, "block device")->required();
    command->group(""); // for udev; not in the help
    return {command, [path](renderer&) { return run_probe(*path); }};
}

} // namespace weft
