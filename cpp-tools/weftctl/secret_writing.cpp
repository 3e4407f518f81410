// SPDX-License-Identifier: GPL-2.0-only
#include "secret_writing.hpp"

#include "sysfile.hpp"

namespace weft
{

void add_secret_file_options(CLI::App& command, secret_file_options& options)
{
    command.add_flag("--force", options.force, "replace an existing file");
    command.add_flag("--dry-run", options.dry_run, "write nothing");
}

result<exit_code> write_secret(const secret_file_options& options, const char* verb, const char* noun,
                               const std::function<result<std::string>()>& make, renderer& out)
{
    std::error_code ignored;
    if (!options.force && std::filesystem::exists(options.file, ignored))
        return fail(exit_code::busy,
                    "{} is there already; --force replaces it, and then hosts with the old {} can no "
                    "longer connect",
                    options.file, noun);
    if (!options.dry_run) {
        const auto text = make();
        if (!text)
            return std::unexpected(text.error());
        if (auto done = replace_file(options.file, *text + "\n"); !done)
            return std::unexpected(done.error());
    }
    out.actions({{verb, options.file,
                  fmt::format("wrote a new {} of {} bytes to {}", noun, options.length, options.file),
                  options.dry_run}});
    return exit_code::ok;
}

} // namespace weft
