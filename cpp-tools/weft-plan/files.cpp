// SPDX-License-Identifier: GPL-2.0-only
#include "files.hpp"

#include "fields.hpp"

#include <algorithm>
#include <toml++/toml.h>

namespace weft::plan
{

namespace
{

result<toml::table> parse(const std::string& path)
{
    try {
        return toml::parse_file(path);
    } catch (const toml::parse_error& problem) {
        // A file that cannot be opened has no place in it.
        const auto line = problem.source().begin.line;
        if (!line)
            return fail(exit_code::missing, "{} cannot be read: {}", path, problem.description());
        return fail(exit_code::usage, "{}, line {}: {}", path, line, problem.description());
    }
}

/// What a user would type for the value.
result<std::string> text_of(const toml::node& value, const std::string& path, std::string_view key)
{
    if (const auto text = value.value_exact<std::string>())
        return *text;
    if (const auto whole = value.value_exact<std::int64_t>())
        return fmt::format("{}", *whole);
    if (const auto number = value.value_exact<double>())
        return fmt::format("{}", *number);
    if (const auto is = value.value_exact<bool>())
        return std::string(*is ? "yes" : "no");
    return fail(exit_code::usage, "{}: {} must be text, a number, true or false", path, key);
}

/// With the file's name in front, since the option was not typed.
std::unexpected<error> in_file(const std::string& path, error problem)
{
    problem.text = fmt::format("{}: {}", path, problem.text);
    return std::unexpected(std::move(problem));
}

result<profile> profile_of(const std::string& path, std::string_view family, std::string_view name,
                           const toml::node& node)
{
    const auto* table = node.as_table();
    if (!table)
        return fail(exit_code::usage, "{}: {}.{} must be a table", path, family, name);
    profile one{std::string(family), std::string(name), {}, {}};
    for (const auto& [key, value] : *table) {
        auto text = text_of(value, path, key.str());
        if (!text)
            return std::unexpected(text.error());
        if (key.str() == "source") {
            one.source = *text;
            continue;
        }
        inputs unused;
        if (auto done = set_field(unused, key.str(), *text); !done)
            return in_file(path, done.error());
        one.values.emplace_back(key.str(), std::move(*text));
    }
    if (one.source.empty())
        return fail(exit_code::usage, "{}: {}.{} has no source; say where its figures are from", path, family,
                    name);
    return one;
}

} // namespace

result<std::vector<profile>> read_profiles(const std::string& path)
{
    const auto file = parse(path);
    if (!file)
        return std::unexpected(file.error());
    std::vector<profile> all;
    for (const auto& [family, node] : *file) {
        const auto* table = node.as_table();
        if (!table || std::ranges::find(families, family.str()) == std::end(families))
            return fail(exit_code::usage,
                        "{}: the family '{}' of presets is unknown; use model, gpu, nic or ssd", path,
                        family.str());
        for (const auto& [name, values] : *table) {
            auto one = profile_of(path, family.str(), name.str(), values);
            if (!one)
                return std::unexpected(one.error());
            all.push_back(std::move(*one));
        }
    }
    return all;
}

result<profile> find_profile(const std::vector<profile>& among, std::string_view family,
                             std::string_view name)
{
    std::string known;
    const profile* found = nullptr;
    for (const auto& one : among) {
        if (one.family != family)
            continue;
        if (one.name == name)
            found = &one; // the last file's counts
        known.append(known.empty() ? "" : ", ").append(one.name);
    }
    if (found)
        return *found;
    return fail(exit_code::usage, "--{} {}: this preset is unknown; use one of {}", family, name,
                known.empty() ? "none" : known);
}

result<settings> read_plan(const std::string& path)
{
    const auto file = parse(path);
    if (!file)
        return std::unexpected(file.error());
    settings all;
    for (const auto& [key, value] : *file) {
        if (!find_field(key.str()) && std::ranges::find(families, key.str()) == std::end(families))
            return fail(exit_code::usage, "{}: '{}' is not an input; 'weft-plan --help' lists them", path,
                        key.str());
        auto text = text_of(value, path, key.str());
        if (!text)
            return std::unexpected(text.error());
        all.emplace_back(key.str(), std::move(*text));
    }
    return all;
}

} // namespace weft::plan
