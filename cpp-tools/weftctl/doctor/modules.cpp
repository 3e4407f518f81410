// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "host.hpp"
#include "process.hpp"
#include "sysfile.hpp"

#include <sstream>

namespace weft
{

namespace
{

// A field of a module's modinfo; empty if the module is not installed.
std::string modinfo(const std::string& field, const std::string& module)
{
    auto done = run_process({"/sbin/modinfo", "-F", field, module});
    if (done.status)
        return {};
    done.output.erase(done.output.find_last_not_of('\n') + 1);
    return done.output;
}

bool module_exists(const std::string& module)
{
    return !run_process({"/sbin/modinfo", "-n", module}).status;
}

void diagnose_dkms(diagnoses& found, const std::string& release)
{
    const auto status = run_process({"dkms", "status", "-m", "weft"});
    if (status.status == 127) {
        found.push_back({severity::warning, "dkms", "DKMS is not installed",
                         "after a kernel upgrade weft is missing until it is built by hand",
                         "apt-get install dkms"});
        return;
    }
    std::istringstream lines(status.output);
    bool any = false;
    for (std::string line; std::getline(lines, line);) {
        any |= line.find("weft") != std::string::npos;
        if (line.find(release) == std::string::npos)
            continue;
        if (line.find(": installed") != std::string::npos) {
            found.push_back({severity::good, "dkms", line, "", ""});
            return;
        }
    }
    if (any)
        found.push_back({severity::problem, "dkms", fmt::format("weft is not built for {}", release),
                         "it cannot be loaded on this kernel",
                         fmt::format("dkms install weft/{} -k {}; the log of a failed build is "
                                     "/var/lib/dkms/weft/{}/build/make.log",
                                     WEFT_VERSION, release, WEFT_VERSION)});
    else
        found.push_back({severity::warning, "dkms", "DKMS does not know weft",
                         "after a kernel upgrade weft is missing until it is built by hand",
                         "make dkms-install"});
}

bool secure_boot()
{
    // An EFI variable: four bytes of attributes, then the value.
    const auto bytes = read_text("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c");
    return bytes && bytes->size() == 5 && (*bytes)[4] == 1;
}

void diagnose_signature(diagnoses& found)
{
    const bool enforced =
        read_text("/sys/module/module/parameters/sig_enforce") == "Y" ||
        read_text("/sys/kernel/security/lockdown").value_or("[none]").find("[none]") == std::string::npos;
    const bool secure = secure_boot();
    if (!secure && !enforced) {
        found.push_back(
            {severity::good, "signature", "modules need no signature here (no Secure Boot)", "", ""});
        return;
    }
    if (std::filesystem::exists("/sys/module/weft")) {
        found.push_back({severity::good, "signature", "this kernel has accepted weft.ko", "", ""});
        return;
    }
    // weft.ko itself is another check's.
    if (!module_exists("weft"))
        return;
    if (modinfo("signer", "weft").empty()) {
        found.push_back(
            {severity::problem, "signature", "weft is not signed, and this kernel loads only signed modules",
             "'modprobe weft' fails with 'Key was rejected by service' or 'Operation not permitted'",
             "install weft by DKMS, which signs, and enrol its key: mokutil --import /var/lib/dkms/mok.pub, "
             "reboot"});
        return;
    }
    // Ubuntu's DKMS signs with the key of its firmware loader.
    const std::string key = std::filesystem::exists("/var/lib/dkms/mok.pub")
                                ? "/var/lib/dkms/mok.pub"
                                : "/var/lib/shim-signed/mok/MOK.der";
    const auto enrolled = run_process({"mokutil", "--test-key", key});
    if (enrolled.status == 127)
        found.push_back({severity::note, "signature", "mokutil is not installed",
                         "it is unknown whether this kernel knows the key that DKMS signed weft with",
                         "apt-get install mokutil"});
    else if (enrolled.output.find("already enrolled") == std::string::npos)
        found.push_back(
            {severity::problem, "signature", "the key that DKMS signed weft with is not enrolled",
             "this kernel loads only modules signed by a key it knows",
             fmt::format("mokutil --import {}, reboot, and confirm at the prompt of the firmware", key)});
    else
        found.push_back({severity::good, "signature", "weft is signed by an enrolled key", "", ""});
}

void diagnose_weft(diagnoses& found)
{
    if (!std::filesystem::exists("/sys/module/weft")) {
        if (module_exists("weft"))
            found.push_back({severity::note, "weft", "weft.ko is installed and not loaded",
                             "weftctl loads it when it is needed", "modprobe weft"});
        else
            found.push_back({severity::problem, "weft", "weft.ko is not installed for this kernel",
                             "volumes cannot be assembled",
                             "make dkms-install, or install the package weft-dkms"});
        return;
    }
    const auto loaded = read_text("/sys/module/weft/version").value_or("?");
    const auto source = read_text("/sys/module/weft/srcversion").value_or("");
    const auto installed = modinfo("version", "weft");
    const auto installed_source = modinfo("srcversion", "weft");
    // srcversion is of the module's own sources: two versions may have the same.
    const bool replaced = (!installed.empty() && installed != loaded) ||
                          (!installed_source.empty() && !source.empty() && installed_source != source);
    const auto* const fix = "reboot; or unmount the volumes, weftctl stop --all, weftctl disconnect --all, "
                            "modprobe -r weft_rdma weft_p2p weft, modprobe weft";
    if (loaded != WEFT_VERSION)
        found.push_back({severity::warning, "weft",
                         fmt::format("weft.ko is of version {}, weftctl of version {}", loaded, WEFT_VERSION),
                         "they are tested together only", fix});
    else if (replaced)
        found.push_back({severity::warning, "weft",
                         "the weft.ko that is loaded is not the one that is installed",
                         "it was replaced after it was loaded", fix});
    else
        found.push_back({severity::good, "weft", fmt::format("weft.ko {} is loaded", loaded), "", ""});
}

// The loaded RDMA stack may differ from the installed one: the kernel's own, or a
// vendor's.
void diagnose_rdma_stack(diagnoses& found)
{
    const auto path = modinfo("filename", "ib_core");
    if (path.empty()) {
        found.push_back(
            {severity::note, "rdma-stack", "this kernel has no RDMA", "NVMe over RDMA is not possible", ""});
        return;
    }
    const auto loaded = read_text("/sys/module/ib_core/srcversion");
    const auto installed = modinfo("srcversion", "ib_core");
    if (loaded && !loaded->empty() && *loaded != installed)
        found.push_back({severity::problem, "rdma-stack",
                         fmt::format("the ib_core that is loaded is not {}", path),
                         "modules built for one do not load with the other",
                         "reboot, or reload the RDMA stack ('/etc/init.d/openibd restart'); then 'dkms "
                         "install' weft again"});
    else
        found.push_back(
            {severity::good, "rdma-stack",
             fmt::format("{} RDMA stack",
                         path.find("/kernel/") != std::string::npos ? "the kernel's own" : "a vendor's"),
             "", ""});
    for (const auto* module : {"nvme-rdma", "nvme-tcp", "nvmet-rdma", "nvmet-tcp"})
        if (!module_exists(module))
            found.push_back({severity::note, "rdma-stack", fmt::format("this kernel has no {}", module),
                             "this host cannot use its transport", ""});
}

} // namespace

void diagnose_modules(diagnoses& found)
{
    const auto release = kernel_release();
    diagnose_dkms(found, release);
    diagnose_signature(found);
    diagnose_weft(found);
    diagnose_rdma_stack(found);
}

} // namespace weft
