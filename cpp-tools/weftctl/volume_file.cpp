// SPDX-License-Identifier: GPL-2.0-only
#include "volume_file.hpp"

#include "connect_keys.hpp"
#include "dhchap.hpp"
#include "superblock.hpp"
#include "sysfile.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <toml++/toml.h>
#include <uuid/uuid.h>

namespace weft
{

namespace
{

const std::filesystem::path folder = "/etc/weft/volumes";

/// The kernel's limit, in seconds.
constexpr int no_path_timeout_most = 30 * 86400;

/// A setting of QoS: text, or a number without a unit.
struct qos_key {
    std::string key;
    std::string& value;
};

std::vector<qos_key> qos_keys(qos_words& words)
{
    std::vector<qos_key> keys{{"feed_latency", words.feed_latency},
                              {"background_floor", words.floor},
                              {"background_latency", words.background_latency},
                              {"background_weight", words.weight},
                              {"background_from", words.background_from},
                              {"reads", words.reads},
                              {"writes", words.writes}};
    for (std::size_t i = 0; i < io_classes.size(); i++) {
        const std::string name = io_classes[i];
        keys.push_back({name + "_max", words.max_rate[i]});
        keys.push_back({name + "_max_iops", words.max_ios[i]});
    }
    return keys;
}

/// Reads the keys of one table. Keeps the first error; a key that the caller did not read is an error, too.
class table_reader
{
public:
    table_reader(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

    [[nodiscard]] const toml::node* take(std::string_view key)
    {
        known_.emplace(key);
        return table_.get(key);
    }

    void text(std::string_view key, std::string& to)
    {
        if (const auto* node = take(key)) {
            if (const auto value = node->value_exact<std::string>(); value && !value->empty())
                to = *value;
            else
                refuse(*node, fmt::format("{} must be a text in quotes", key));
        }
    }

    void boolean(std::string_view key, bool& to)
    {
        if (const auto* node = take(key)) {
            if (const auto value = node->value_exact<bool>())
                to = *value;
            else
                refuse(*node, fmt::format("{} must be true or false", key));
        }
    }

    void number(std::string_view key, std::optional<int>& to, int least, int most)
    {
        if (const auto* node = take(key)) {
            if (const auto value = node->value_exact<std::int64_t>();
                value && *value >= least && *value <= most)
                to = static_cast<int>(*value);
            else
                refuse(*node, fmt::format("{} must be a whole number from {} to {}", key, least, most));
        }
    }

    void words(std::string_view key, std::string& to)
    {
        if (const auto* node = take(key); node && node->is_integer())
            to = std::to_string(*node->value<std::int64_t>());
        else
            text(key, to);
    }

    void refuse(const toml::node& node, const std::string& why) { refuse(node.source(), why); }
    void refuse(const toml::source_region& at, const std::string& why)
    {
        if (!problem_)
            problem_ = error{exit_code::usage,
                             fmt::format("{}:{}:{}: {}", where_, at.begin.line, at.begin.column, why)};
    }

    /// Call it last.
    [[nodiscard]] result<void> done()
    {
        for (const auto& [key, node] : table_)
            if (!known_.contains(std::string(key.str())))
                refuse(key.source(), fmt::format("{} is not a key here; valid keys are: {}", key.str(),
                                                 fmt::join(known_, ", ")));
        return problem_ ? result<void>(std::unexpected(*problem_)) : result<void>();
    }

private:
    const toml::table& table_;
    std::string where_;
    std::set<std::string> known_;
    std::optional<error> problem_;
};

void read_options(table_reader& in, connect_options& options)
{
    for (const auto& [key, value, least, most, help] : connect_number_keys)
        in.number(key, options.*value, least, most);
    for (const auto& [key, value, help] : connect_text_keys)
        in.text(key, options.*value);
    // It is read at boot, in another folder.
    for (const auto& [key, file] : {std::pair{"dhchap_secret_file", &options.dhchap_secret_file},
                                    std::pair{"dhchap_ctrl_secret_file", &options.dhchap_ctrl_secret_file},
                                    std::pair{"tls_key_file", &options.tls_key_file}})
        if (const auto* node = in.take(key); node && !is_full_name(*file))
            in.refuse(*node, fmt::format("{} must be the full name of a file, or keyring:DESCRIPTION", key));
    if (!options.initiator.empty() &&
        std::ranges::find(connect_transports, options.initiator) == connect_transports.end())
        in.refuse(*in.take("transport"), "transport must be \"weft\" or \"nvme\"");
}

result<void> check_path(const member_path& path)
{
    if (!is_uri(path.at))
        return path.at.starts_with("/")
                   ? result<void>()
                   : fail(exit_code::usage,
                          "'{}' is neither a URI, as rdma://10.0.0.1/nqn.2014-08.org.example:a, "
                          "nor the full name of a device",
                          path.at);
    const auto uri = parse_member_uri(path.at);
    return uri ? result<void>() : result<void>(std::unexpected(uri.error()));
}

/// A string, or a table with options of its own beyond `common`.
result<member_path> read_path(const toml::node& node, const connect_options& common, const std::string& where)
{
    const toml::table none;
    const auto* table = node.as_table();
    table_reader in(table ? *table : none, where);
    member_path path{{}, common};
    if (const auto text = node.value_exact<std::string>())
        path.at = *text;
    else if (!table)
        in.refuse(node,
                  "a member must be a text in quotes, or a table { at = \"...\" } with its own options");
    else {
        in.text("at", path.at);
        read_options(in, path.options);
        if (path.at.empty())
            in.refuse(node, "the table of a member must have at = \"URI or device\"");
    }
    if (!path.at.empty())
        if (const auto good = check_path(path); !good)
            in.refuse(node, good.error().text);
    if (const auto good = in.done(); !good)
        return std::unexpected(good.error());
    return path;
}

result<void> read_members(table_reader& in, const connect_options& common, volume_file& file,
                          const std::string& where)
{
    const auto* node = in.take("members");
    const auto* array = node ? node->as_array() : nullptr;
    if (!array || array->empty())
        return fail(
            exit_code::usage,
            "{}: the file names no members: members = [ \"URI or device\", ... ] lists all paths to them",
            where);
    for (const auto& element : *array) {
        auto path = read_path(element, common, where);
        if (!path)
            return std::unexpected(path.error());
        if (std::ranges::any_of(file.paths,
                                [&](const member_path& other) { return is_same_path(other, *path); }))
            in.refuse(element, fmt::format("{} is there twice", path->at));
        file.paths.push_back(std::move(*path));
    }
    return {};
}

void read_follow(table_reader& in, volume_file& file)
{
    const auto* node = in.take("follow");
    if (!node)
        return;
    const auto* array = node->as_array();
    if (!array)
        return in.refuse(*node, "follow = [ \"rdma://ADDRESS:PORT\", ... ] lists discovery services");
    for (const auto& element : *array) {
        const auto text = element.value_exact<std::string>().value_or("");
        if (const auto at = parse_service_uri(text); !at)
            in.refuse(element, at.error().text);
        file.follow.push_back(text);
    }
}

/// The table of that name; null if the file has none.
const toml::table* sub_table(table_reader& in, std::string_view key)
{
    const auto* node = in.take(key);
    if (node && !node->is_table())
        in.refuse(*node, fmt::format("{0} must be a table, which begins with a line [{0}]", key));
    return node ? node->as_table() : nullptr;
}

result<qos_words> read_qos(const toml::table& table, const std::string& where)
{
    qos_words words;
    table_reader in(table, where);
    for (const auto& [key, value] : qos_keys(words))
        in.words(key, value);
    for (std::size_t i = 0; i < io_classes.size(); i++) {
        std::string path;
        in.text(std::string(io_classes[i]) + "_cgroup", path);
        words.cgroup[i] = path;
    }
    if (const auto valid = parse_qos(words, {}); !valid)
        in.refuse(table, valid.error().text);
    if (const auto good = in.done(); !good)
        return std::unexpected(good.error());
    return words;
}

result<volume_file> read_file(const toml::table& table, const std::string& name, const std::string& where)
{
    volume_file file;
    file.name = name;
    table_reader in(table, where);
    in.text("uuid", file.uuid);
    uuid_t parsed;
    if (!file.uuid.empty() && uuid_parse(file.uuid.c_str(), parsed))
        in.refuse(*in.take("uuid"), fmt::format("'{}' is not a UUID", file.uuid));
    // The form that weftctl writes everywhere else.
    std::ranges::transform(file.uuid, file.uuid.begin(), [](unsigned char c) { return std::tolower(c); });
    in.boolean("read_only", file.read_only);
    in.boolean("iostats", file.iostats);
    in.text("iopolicy", file.iopolicy);
    if (!file.iopolicy.empty() && file.iopolicy != "round-robin" && file.iopolicy != "numa")
        in.refuse(*in.take("iopolicy"), "iopolicy must be \"round-robin\" or \"numa\"");
    in.number("no_path_timeout", file.no_path_timeout, -1, no_path_timeout_most);

    if (const auto* options = sub_table(in, "connect")) {
        table_reader connect(*options, where);
        read_options(connect, file.connect);
        if (const auto good = connect.done(); !good)
            return std::unexpected(good.error());
    }
    if (const auto* qos = sub_table(in, "qos")) {
        auto words = read_qos(*qos, where);
        if (!words)
            return std::unexpected(words.error());
        file.qos = std::move(*words);
    }
    if (const auto good = read_members(in, file.connect, file, where); !good)
        return std::unexpected(good.error());
    read_follow(in, file);
    if (const auto good = in.done(); !good)
        return std::unexpected(good.error());
    return file;
}

/// What all paths by URI have in common: an option that one of them has differently, or lacks, is not part of
/// it.
connect_options common_options(const std::vector<member_path>& paths)
{
    connect_options common;
    bool first = true;
    for (const auto& path : paths) {
        if (!is_uri(path.at))
            continue;
        if (std::exchange(first, false)) {
            common = path.options;
            continue;
        }
        for (const auto& one : connect_number_keys)
            if (common.*one.value != path.options.*one.value)
                (common.*one.value).reset();
        for (const auto& one : connect_text_keys)
            if (common.*one.value != path.options.*one.value)
                (common.*one.value).clear();
    }
    return common;
}

/// The table [connect]: what all paths by URI have in common, and what it had before, where each of them has
/// a value of its own. Services that the volume follows are connected by it.
connect_options connect_table(const volume_file& file)
{
    auto table = common_options(file.paths);
    const auto all_have = [&](auto has) {
        return std::ranges::all_of(
            file.paths, [&](const member_path& path) { return !is_uri(path.at) || has(path.options); });
    };
    for (const auto& one : connect_number_keys)
        if (!(table.*one.value) &&
            all_have([&](const connect_options& options) { return (options.*one.value).has_value(); }))
            table.*one.value = file.connect.*one.value;
    for (const auto& one : connect_text_keys)
        if ((table.*one.value).empty() &&
            all_have([&](const connect_options& options) { return !(options.*one.value).empty(); }))
            table.*one.value = file.connect.*one.value;
    return table;
}

toml::table options_table(const connect_options& options, const connect_options& without)
{
    toml::table table;
    for (const auto& one : connect_number_keys)
        if (options.*one.value && options.*one.value != without.*one.value)
            table.insert(one.key, *(options.*one.value));
    for (const auto& one : connect_text_keys)
        if (!(options.*one.value).empty() && options.*one.value != without.*one.value)
            table.insert(one.key, options.*one.value);
    return table;
}

/// A value as TOML writes it, text in double quotes.
std::string text_of(const toml::node& node)
{
    std::ostringstream out;
    out << toml::toml_formatter(node, toml::format_flags::none);
    return out.str();
}

std::string quoted(const std::string& text)
{
    return text_of(toml::value<std::string>(text));
}

/// "key = value" lines.
std::string lines_of(const toml::table& table)
{
    std::string text;
    for (const auto& [key, node] : table)
        text += fmt::format("{} = {}\n", key.str(), text_of(node));
    return text;
}

std::string path_line(const member_path& path, const connect_options& common)
{
    auto own = is_uri(path.at) ? options_table(path.options, common) : toml::table();
    if (own.empty())
        return fmt::format("    {},\n", quoted(path.at));
    std::string text = fmt::format("    {{ at = {}", quoted(path.at));
    for (const auto& [key, node] : own)
        text += fmt::format(", {} = {}", key.str(), text_of(node));
    return text + " },\n";
}

toml::table qos_table(qos_words words)
{
    toml::table table;
    for (const auto& [key, value] : qos_keys(words))
        if (!value.empty())
            table.insert(key, value);
    for (std::size_t i = 0; i < io_classes.size(); i++)
        if (words.cgroup[i] && !words.cgroup[i]->empty())
            table.insert(std::string(io_classes[i]) + "_cgroup", *words.cgroup[i]);
    return table;
}

} // namespace

bool is_same_path(const member_path& one, const member_path& other)
{
    return one.at == other.at && one.options.host_address == other.options.host_address &&
           one.options.host_interface == other.options.host_interface;
}

std::filesystem::path volume_file_path(const std::string& name)
{
    return folder / (name + ".toml");
}

result<volume_file> parse_volume_file(std::string_view text, const std::string& name,
                                      const std::string& where)
{
    try {
        return read_file(toml::parse(text), name, where);
    } catch (const toml::parse_error& problem) {
        return fail(exit_code::usage, "{}:{}:{}: {}", where, problem.source().begin.line,
                    problem.source().begin.column, problem.description());
    }
}

std::string format_volume_file(const volume_file& file)
{
    const auto common = connect_table(file);
    std::string text = fmt::format("# Volume {0}, for 'weftctl assemble {0} --saved' and "
                                   "weft-assemble@{0}.service.\n",
                                   file.name);
    if (!file.uuid.empty())
        text += fmt::format("uuid = {}\n", quoted(file.uuid));
    text += "members = [\n";
    for (const auto& path : file.paths)
        text += path_line(path, common);
    text += "]\n";
    if (!file.follow.empty()) {
        text += "follow = [\n";
        for (const auto& service : file.follow)
            text += fmt::format("    {},\n", quoted(service));
        text += "]\n";
    }
    text += fmt::format("read_only = {}\niostats = {}\n", file.read_only, file.iostats);
    if (!file.iopolicy.empty())
        text += fmt::format("iopolicy = {}\n", quoted(file.iopolicy));
    if (file.no_path_timeout)
        text += fmt::format("no_path_timeout = {}\n", *file.no_path_timeout);
    if (const auto table = options_table(common, {}); !table.empty())
        text += "\n[connect]\n" + lines_of(table);
    if (file.qos)
        text += "\n[qos]\n" + lines_of(qos_table(*file.qos));
    return text;
}

result<volume_file> load_volume_file(const std::string& name)
{
    weft_why why{};
    if (weft_name_check(name.c_str(), &why))
        return fail(exit_code::usage, "{}", why.text);
    const auto path = volume_file_path(name);
    if (is_missing(path))
        return fail(exit_code::missing, "volume {0} is not saved: {1} is missing; run 'weftctl save {0}'",
                    name, path.string());
    const auto text = read_text(path);
    if (!text)
        return fail(exit_code::permission, "{} cannot be read", path.string());
    return parse_volume_file(*text, name, path.string());
}

result<void> check_assembled(const volume_file& file, const volume_status& volume)
{
    if (volume.state == "assembling")
        return fail(exit_code::missing,
                    "volume {} is assembled already by another command, which has not ended", file.name);
    if (volume.state == "stopping")
        return fail(exit_code::missing, "volume {} is assembled already, and another command is stopping it",
                    file.name);
    if (!file.uuid.empty() && volume.uuid != file.uuid)
        return fail(exit_code::busy, "another volume called {} is assembled, {}", file.name, volume.uuid);
    return {};
}

std::vector<std::string> saved_volumes()
{
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
        if (entry.path().extension() == ".toml")
            names.push_back(entry.path().stem());
    std::ranges::sort(names);
    return names;
}

} // namespace weft
