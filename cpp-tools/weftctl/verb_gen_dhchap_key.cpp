// SPDX-License-Identifier: GPL-2.0-only
#include "dhchap.hpp"
#include "sysfile.hpp"
#include "verbs.hpp"

#include <algorithm>

namespace weft
{

namespace
{

/// By their number in a secret.
const std::vector<std::string> hashes{"none", "sha256", "sha384", "sha512"};

struct key_options {
    std::string file;
    std::size_t length = 32;
    std::string hash = "none";
    bool force = false;
    bool dry_run = false;
};

result<exit_code> run_gen_dhchap_key(const key_options& options, renderer& out)
{
    const auto hash = static_cast<unsigned int>(std::ranges::find(hashes, options.hash) - hashes.begin());
    if (hash && options.length != hash_size(hash))
        return fail(exit_code::usage, "a secret that {} transforms has {} bytes, not {}", options.hash,
                    hash_size(hash), options.length);
    std::error_code ignored;
    if (!options.force && std::filesystem::exists(options.file, ignored))
        return fail(exit_code::busy,
                    "{} is there already; --force replaces it, and hosts with the old secret "
                    "cannot connect any more",
                    options.file);
    if (!options.dry_run) {
        const auto secret = new_dhchap_secret(options.length, hash);
        if (!secret)
            return std::unexpected(secret.error());
        if (auto done = replace_file(options.file, secret->text() + "\n"); !done)
            return std::unexpected(done.error());
    }
    out.actions({{"gen-dhchap-key", options.file,
                  fmt::format("wrote a new secret of {} bytes to {}", options.length, options.file),
                  options.dry_run}});
    return exit_code::ok;
}

} // namespace

verb add_gen_dhchap_key(CLI::App& app)
{
    auto options = std::make_shared<key_options>();
    auto* command = app.add_subcommand("gen-dhchap-key", "make a secret for DH-HMAC-CHAP");
    command->add_option("FILE", options->file, "to write it to; only root may read it")->required();
    command->add_option("--length", options->length, "bytes of the secret")
        ->check(CLI::IsMember({32, 48, 64}))
        ->capture_default_str();
    command->add_option("--hash", options->hash, "that transforms it with its owner's NQN")
        ->check(CLI::IsMember(hashes))
        ->capture_default_str();
    command->add_flag("--force", options->force, "replace a file that is there");
    command->add_flag("--dry-run", options->dry_run, "write nothing");
    command->footer(
        R"(Host and target need the same secret. Copy the file by an encrypted way, such as scp.
weftctl-export(8) gives it to a target, and weftctl-connect(8) to a host: /etc/weft/dhchap-secret is this
host's own secret for all targets, unless another file is named. The secret is in no message and not in
'weftctl report'.

Examples:
  weftctl gen-dhchap-key /etc/weft/dhchap-secret
  weftctl gen-dhchap-key secret-of-node17 --length 64 --hash sha512)");
    return {command, [options](renderer& out) { return run_gen_dhchap_key(*options, out); }};
}

} // namespace weft
