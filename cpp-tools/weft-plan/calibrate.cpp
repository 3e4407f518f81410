// SPDX-License-Identifier: GPL-2.0-only
#include "calibrate.hpp"

#include <process.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace weft::plan
{

namespace
{

using nlohmann::json;

/// Parts of fio-jobs/: a member's share of what they measure is this input.
struct job_use {
    std::string_view job;
    const char* side;
    const char* figure;
    const char* input;
};
constexpr job_use uses[] = {{"checkpoint-write", "write", "bw_bytes", "ssd-write"},
                            {"restore", "read", "bw_bytes", "ssd-read"},
                            {"weights-load", "read", "bw_bytes", "ssd-read"},
                            {"feed-sequential", "read", "bw_bytes", "ssd-read"},
                            {"feed-small-random", "read", "iops", "ssd-iops"}};

/// The document in a text that may have lines before it, as fio's warnings.
result<json> document_of(const std::string& text, const std::string& whose)
{
    const auto start = text.find('{');
    auto parsed = json::parse(start == text.npos ? std::string() : text.substr(start), nullptr, false);
    if (!parsed.is_object())
        return fail(exit_code::failure, "{} holds no JSON object", whose);
    return parsed;
}

result<std::string> read_file(const std::filesystem::path& path)
{
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file || !text)
        return fail(exit_code::missing, "{} cannot be read", path.string());
    return text.str();
}

/// The targets by which each member is reached, and how many rails the most have.
void add_targets(const json& members, measured& to)
{
    std::set<std::set<std::string>> targets;
    std::set<std::string> node_rails;
    std::size_t rails = 1;
    for (const auto& member : members) {
        std::set<std::string> addresses;
        for (const auto& path : member.at("paths")) {
            addresses.insert(path.at("target").get<std::string>());
            if (auto rail = path.at("rail").get<std::string>(); !rail.empty())
                node_rails.insert(std::move(rail));
        }
        rails = std::max(rails, addresses.size());
        targets.insert(std::move(addresses));
    }
    const auto each = (members.size() + targets.size() - 1) / targets.size();
    to.values.emplace_back("targets", fmt::format("{}", targets.size()));
    to.values.emplace_back("rails", fmt::format("{}", rails));
    to.values.emplace_back("ssds", fmt::format("{}", each));
    if (!node_rails.empty())
        to.values.emplace_back("node-rails", fmt::format("{}", node_rails.size()));
}

measured measured_of_volume(const json& volume)
{
    measured found;
    found.counted = volume.at("iostats").get<bool>();
    const auto& members = volume.at("members");
    std::uint64_t capacity = 0;
    for (const auto& member : members) {
        const auto size = member.at("size").get<std::uint64_t>();
        capacity = capacity ? std::min(capacity, size) : size;
        found.read_bytes += member.at("read").at("bytes").get<double>();
        found.written_bytes += member.at("write").at("bytes").get<double>();
        found.members++;
    }
    add_targets(members, found);
    found.values.emplace_back("volumes", "1");
    found.values.emplace_back("ssd-capacity", fmt::format("{}B", capacity));
    found.values.emplace_back("chunk", fmt::format("{}B", volume.at("chunk_size").get<std::uint64_t>()));
    return found;
}

/// Adds the figures of one file's jobs, and keeps the largest of each.
result<bool> add_fio(const std::filesystem::path& path, count members,
                     std::vector<std::pair<const char*, double>>& to)
{
    const auto text = read_file(path);
    if (!text)
        return std::unexpected(text.error());
    const auto document = document_of(*text, path.string());
    if (!document)
        return std::unexpected(document.error());
    bool any = false;
    try {
        if (!document->contains("jobs"))
            return false;
        for (const auto& use : uses) {
            double all = 0;
            for (const auto& job : document->at("jobs")) {
                if (job.at("jobname").get<std::string>() != use.job)
                    continue;
                // Its figures are those of the time before the error.
                if (const int wrong = job.value("error", 0))
                    return fail(exit_code::failure, "{}: the job {} has failed ({}); run it again",
                                path.string(), use.job, std::strerror(wrong));
                all += job.at(use.side).at(use.figure).get<double>();
            }
            if (all <= 0)
                continue;
            any = true;
            const double each = all / static_cast<double>(members);
            const auto at = std::ranges::find_if(
                to, [&](const auto& one) { return one.first == std::string_view(use.input); });
            if (at == to.end())
                to.emplace_back(use.input, each);
            else
                at->second = std::max(at->second, each);
        }
    } catch (const json::exception& problem) {
        return fail(exit_code::failure, "{} holds no results of fio: {}", path.string(), problem.what());
    }
    return any;
}

} // namespace

result<measured> measured_of(const std::string& text, const std::string& name)
{
    const auto document = document_of(text, fmt::format("the output of 'weftctl status {} --json'", name));
    if (!document)
        return std::unexpected(document.error());
    try {
        for (const auto& problem : document->value("errors", json::array()))
            return fail(static_cast<exit_code>(problem.value("code", static_cast<int>(exit_code::failure))),
                        "--from {}: {}", name, problem.at("text").get<std::string>());
        for (const auto& volume : document->at("volumes"))
            if (volume.at("name") == name && !volume.at("members").empty())
                return measured_of_volume(volume);
    } catch (const json::exception& problem) {
        return fail(exit_code::failure, "the output of 'weftctl status {} --json' is not as expected: {}",
                    name, problem.what());
    }
    return fail(exit_code::missing, "--from {}: no volume of this name is assembled here", name);
}

result<measured> measure(const std::string& name, seconds watch, count gpus)
{
    const auto look = [&]() -> result<measured> {
        // It is for administrators, so the path of other users lacks its folder.
        std::error_code ignored;
        const bool is_installed = std::filesystem::exists(WEFT_SBINDIR "/weftctl", ignored);
        const auto done =
            run_process({is_installed ? WEFT_SBINDIR "/weftctl" : "weftctl", "status", name, "--json"});
        if (done.status == 127)
            return fail(exit_code::missing, "--from {}: weftctl is not installed here; it is in weft-tools",
                        name);
        auto found = measured_of(done.output, name);
        if (found && done.status)
            return fail(exit_code::failure, "--from {}: 'weftctl status' ended with status {}", name,
                        done.status);
        return found;
    };
    auto first = look();
    if (!first || watch <= seconds())
        return first;
    if (!first->counted)
        return fail(exit_code::usage,
                    "--watch: the I/O of volume {0} is not counted (--no-iostats); to start the counters: "
                    "echo 1 >'/sys/block/weft!{0}/queue/iostats'",
                    name);
    const auto began = std::chrono::steady_clock::now();
    end_waits_at_signals();
    if (!wait_for(std::chrono::milliseconds(static_cast<std::int64_t>(watch.value() * 1000))))
        return std::unexpected(interruption());
    auto second = look();
    if (!second)
        return second;
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const double read = second->read_bytes - first->read_bytes;
    if (read < 0)
        return fail(
            exit_code::failure,
            "--from {}: the volume was stopped and assembled again during the measurement; run it again",
            name);
    second->values.emplace_back("feed", fmt::format("{:.0f}B/s", read / passed / static_cast<double>(gpus)));
    return second;
}

result<settings> fio_settings(const std::string& path, count members)
{
    std::vector<std::filesystem::path> files;
    std::error_code problem;
    if (std::filesystem::is_directory(path, problem)) {
        for (const auto& one : std::filesystem::directory_iterator(path, problem))
            if (one.path().extension() == ".json" && one.path().filename() != "run.json")
                files.push_back(one.path());
        if (problem)
            return fail(exit_code::missing, "--fio {}: {}", path, problem.message());
    } else {
        files.emplace_back(path);
    }
    std::ranges::sort(files);
    std::vector<std::pair<const char*, double>> found;
    bool any = false;
    for (const auto& file : files) {
        const auto done = add_fio(file, members, found);
        if (!done)
            return std::unexpected(done.error());
        any = any || *done;
    }
    if (!any)
        return fail(
            exit_code::usage,
            "--fio {}: there are no results of checkpoint-write, restore, weights-load, feed-sequential or "
            "feed-small-random",
            path);
    settings values;
    for (const auto& [input, each] : found)
        values.emplace_back(input, std::string_view(input) == "ssd-iops" ? fmt::format("{:.0f}", each)
                                                                         : fmt::format("{:.0f}B/s", each));
    return values;
}

} // namespace weft::plan
