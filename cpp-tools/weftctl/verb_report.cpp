// SPDX-License-Identifier: GPL-2.0-only
#include "archive.hpp"
#include "doctor/doctor.hpp"
#include "process.hpp"
#include "redact.hpp"
#include "sysfile.hpp"
#include "verbs.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sys/stat.h>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

struct report_options {
    std::string output;
};

/// A temporary folder; the destructor removes it.
class temporary_folder
{
public:
    temporary_folder()
    {
        std::error_code none;
        std::string name = (fs::temp_directory_path(none) / "weft-report.XXXXXX").string();
        if (::mkdtemp(name.data()))
            path_ = name;
    }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder()
    {
        std::error_code ignored;
        if (!path_.empty())
            fs::remove_all(path_, ignored);
    }
    [[nodiscard]] const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

constexpr auto self = "/proc/self/exe";

/// A file of the bundle and the command whose output it is.
struct part {
    const char* name;
    std::vector<std::string> command;
};

const std::array parts{
    part{"doctor.txt", {self, "doctor"}},
    part{"doctor.json", {self, "doctor", "--json"}},
    part{"list.json", {self, "list", "--json"}},
    part{"status.json", {self, "status", "--json"}},
    part{"exports.json", {self, "exports", "--all", "--json"}},
    part{"connections.json", {self, "connect", "--json"}},
    part{"uname.txt", {"uname", "-a"}},
    part{"cmdline.txt", {"cat", "/proc/cmdline"}},
    part{"os-release.txt", {"cat", "/etc/os-release"}},
    part{"dmesg.txt", {"dmesg"}},
    part{"modules.txt", {"cat", "/proc/modules"}},
    part{"modinfo-weft.txt", {"/sbin/modinfo", "weft"}},
    part{"dkms-status.txt", {"dkms", "status"}},
    part{"lsblk.txt", {"lsblk", "-o", "NAME,TYPE,SIZE,FSTYPE,MOUNTPOINTS,LOG-SEC,PHY-SEC,SCHED,MODEL"}},
    part{"mountinfo.txt", {"cat", "/proc/self/mountinfo"}},
    part{"lspci.txt", {"lspci", "-nnvv"}},
    part{"rdma-link.txt", {"rdma", "link"}},
    part{"rdma-statistic.txt", {"rdma", "statistic"}},
    part{"ip-address.txt", {"ip", "-details", "address"}},
    part{"nvme-subsystems.txt", {"nvme", "list-subsys"}},
    part{"interrupts.txt", {"cat", "/proc/interrupts"}},
    part{"meminfo.txt", {"cat", "/proc/meminfo"}},
};

result<void> write_part(const fs::path& path, std::string_view text)
{
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file)
        return fail(exit_code::failure, "{} cannot be written", path.string());
    return {};
}

result<void> copy_build_logs(const fs::path& folder)
{
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator("/var/lib/dkms/weft", ignored)) {
        if (entry.path().filename() != "make.log" || entry.is_symlink(ignored))
            continue;
        const auto text = read_text(entry.path());
        if (!text)
            continue;
        auto name = entry.path().parent_path().lexically_relative("/var/lib/dkms/weft").string();
        std::replace(name.begin(), name.end(), '/', '_');
        if (auto done = write_part(folder / ("dkms-" + name + "-make.log"), redact(*text) + "\n"); !done)
            return done;
    }
    return {};
}

result<exit_code> run_report(const report_options& options, renderer& out)
{
    // Before the state is collected, which takes a while.
    if (auto good = check_archive(options.output); !good)
        return std::unexpected(good.error());
    const temporary_folder scratch;
    if (scratch.path().empty())
        return fail(exit_code::failure, "no folder for the report can be made: {}", std::strerror(errno));
    std::array<char, 32> now{};
    const auto time = std::time(nullptr);
    std::tm parts_of_time{};
    std::strftime(now.data(), now.size(), "%Y%m%d-%H%M%S", gmtime_r(&time, &parts_of_time));
    const auto name = fmt::format("weft-report-{}", now.data());
    const auto folder = scratch.path() / name;
    std::error_code problem;
    fs::create_directory(folder, problem);

    std::error_code unknown;
    const auto executable = fs::read_symlink(self, unknown).string();
    std::string missing;
    for (const auto& part : parts) {
        // On a broken node some of these programs may hang. Continue with the others.
        auto command = part.command;
        if (command.front() == self)
            command.front() = executable;
        command.insert(command.begin(), {"timeout", "--kill-after=5", "30"});
        const auto done = run_process(command);
        auto text = redact(done.output);
        if (done.status)
            text += fmt::format("\n({} ended with status {})\n", part.command.front(), done.status);
        if (auto written = write_part(folder / part.name, text); !written)
            return std::unexpected(written.error());
        if (done.status == 127)
            missing += (missing.empty() ? "" : ", ") + part.command.front();
    }
    if (auto copied = copy_build_logs(folder); !copied)
        return std::unexpected(copied.error());

    // Only root may see the kernel's log and the names of other hosts: the archive has mode 0600.
    const auto output = options.output.empty() ? name + ".tar.gz" : options.output;
    if (auto packed = write_archive(output, folder); !packed)
        return std::unexpected(packed.error());
    std::vector<action> actions{
        {"report", output,
         fmt::format("wrote {}; secrets are blanked, names and addresses are in it", output)}};
    if (!missing.empty())
        actions.push_back({"report", output, fmt::format("not included, because not installed: {}", missing),
                           false, false});
    out.actions(actions);
    return exit_code::ok;
}

} // namespace

verb add_report(CLI::App& app)
{
    auto options = std::make_shared<report_options>();
    auto* command =
        app.add_subcommand("report", "collect the state of this node in one archive, for support");
    command->add_option("--output", options->output,
                        "archive to write; default: weft-report-TIME.tar.gz in this folder");
    command->footer(
        R"(Holds what doctor, list, status, exports and connect print, the kernel's log, and the kernel's data of disks, PCI
and RDMA devices. Secrets are removed. Names and addresses of hosts stay in it.

Examples:
  weftctl report
  weftctl report --output /tmp/node17.tar.gz)");
    return {command, [options](renderer& out) { return run_report(*options, out); }};
}

} // namespace weft
