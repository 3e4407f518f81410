// SPDX-License-Identifier: GPL-2.0-only
#include "dhchap.hpp"
#include "secret_writing.hpp"

#include <algorithm>

namespace weft
{

namespace
{

/// By their number in a secret.
const std::vector<std::string> hashes{"none", "sha256", "sha384", "sha512"};

struct key_options : secret_file_options {
    std::string hash = "none";
};

result<exit_code> run_gen_dhchap_key(const key_options& options, renderer& out)
{
    const auto hash = static_cast<unsigned int>(std::ranges::find(hashes, options.hash) - hashes.begin());
    if (hash && options.length != hash_size(hash))
        return fail(exit_code::usage, "a secret for {} must have {} bytes, not {}", options.hash,
                    hash_size(hash), options.length);
    const auto make = [&]() -> result<std::string> {
        const auto secret = new_dhchap_secret(options.length, hash);
        if (!secret)
            return std::unexpected(secret.error());
        return secret->text();
    };
    return write_secret(options, "gen-dhchap-key", "secret", make, out);
}

} // namespace

verb add_gen_dhchap_key(CLI::App& app)
{
    auto options = std::make_shared<key_options>();
    auto* command = app.add_subcommand("gen-dhchap-key", "make a secret for DH-HMAC-CHAP");
    command->add_option("FILE", options->file, "file to write it to; only root may read it")->required();
    command->add_option("--length", options->length, "bytes of the secret")
        ->check(CLI::IsMember({32, 48, 64}))
        ->capture_default_str();
    command->add_option("--hash", options->hash, "hash that transforms it with its owner's NQN")
        ->check(CLI::IsMember(hashes))
        ->capture_default_str();
    add_secret_file_options(*command, *options);
    command->footer(
        R"(Host and target need the same secret. Copy the file over an encrypted connection, such as scp.
weftctl-export(8) gives it to a target, and weftctl-connect(8) to a host: /etc/weft/dhchap-secret is this
host's own secret for all targets, unless another file is named. Messages and 'weftctl report' do not
contain the secret.

Examples:
  weftctl gen-dhchap-key /etc/weft/dhchap-secret
  weftctl gen-dhchap-key secret-of-node17 --length 64 --hash sha512)");
    return {command, [options](renderer& out) { return run_gen_dhchap_key(*options, out); }};
}

} // namespace weft
