// SPDX-License-Identifier: GPL-2.0-only
#include "sysfile.hpp"
#include "tls.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

struct key_options {
    std::string file;
    std::size_t length = 32;
    bool force = false;
    bool dry_run = false;
};

result<exit_code> run_gen_tls_key(const key_options& options, renderer& out)
{
    std::error_code ignored;
    if (!options.force && std::filesystem::exists(options.file, ignored))
        return fail(exit_code::busy,
                    "{} is there already; --force replaces it, and hosts with the old key cannot connect any "
                    "more",
                    options.file);
    if (!options.dry_run) {
        const auto key = new_tls_key(options.length);
        if (!key)
            return std::unexpected(key.error());
        if (auto done = replace_file(options.file, key->text() + "\n"); !done)
            return std::unexpected(done.error());
    }
    out.actions(
        {{"gen-tls-key", options.file,
          fmt::format("wrote a new key of {} bytes to {}", options.length, options.file), options.dry_run}});
    return exit_code::ok;
}

} // namespace

verb add_gen_tls_key(CLI::App& app)
{
    auto options = std::make_shared<key_options>();
    auto* command = app.add_subcommand("gen-tls-key", "make a key for TLS of NVMe/TCP");
    command->add_option("FILE", options->file, "to write it to; only root may read it")->required();
    command->add_option("--length", options->length, "bytes of the key: 32 for SHA-256, 48 for SHA-384")
        ->check(CLI::IsMember({32, 48}))
        ->capture_default_str();
    command->add_flag("--force", options->force, "replace a file that is there");
    command->add_flag("--dry-run", options->dry_run, "write nothing");
    command->footer(R"(Host and target need the same key. Copy the file by an encrypted way, such as scp.
weftctl-export(8) gives it to a target, and weftctl-connect(8) to a host, by --tls-key-file. It is in the
form that nvme-cli takes, too (nvme gen-tls-key). The key is in no message and not in 'weftctl report'.

Examples:
  weftctl gen-tls-key /etc/weft/tls-key
  weftctl gen-tls-key key-of-node17 --length 48)");
    return {command, [options](renderer& out) { return run_gen_tls_key(*options, out); }};
}

} // namespace weft
