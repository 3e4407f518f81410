// SPDX-License-Identifier: GPL-2.0-only
#include "secret_writing.hpp"
#include "tls.hpp"

namespace weft
{

namespace
{

result<exit_code> run_gen_tls_key(const secret_file_options& options, renderer& out)
{
    const auto make = [&]() -> result<std::string> {
        const auto key = new_tls_key(options.length);
        if (!key)
            return std::unexpected(key.error());
        return key->text();
    };
    return write_secret(options, "gen-tls-key", "key", make, out);
}

} // namespace

verb add_gen_tls_key(CLI::App& app)
{
    auto options = std::make_shared<secret_file_options>();
    auto* command = app.add_subcommand("gen-tls-key", "make a key for TLS of NVMe/TCP");
    command->add_option("FILE", options->file, "file to write it to; only root may read it")->required();
    command->add_option("--length", options->length, "bytes of the key: 32 for SHA-256, 48 for SHA-384")
        ->check(CLI::IsMember({32, 48}))
        ->capture_default_str();
    add_secret_file_options(*command, *options);
    command->footer(
        R"(Host and target need the same key. Copy the file over an encrypted connection, such as scp.
weftctl-export(8) gives it to a target, and weftctl-connect(8) to a host, by --tls-key-file. nvme-cli
takes the same form (nvme gen-tls-key). Messages and 'weftctl report' do not contain the key.

Examples:
  weftctl gen-tls-key /etc/weft/tls-key
  weftctl gen-tls-key key-of-node17 --length 48)");
    return {command, [options](renderer& out) { return run_gen_tls_key(*options, out); }};
}

} // namespace weft
