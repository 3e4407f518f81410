// SPDX-License-Identifier: GPL-2.0-only
#include "process.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

namespace
{

/// The first word that should be a command and is not; empty if there is none.
std::string unknown_command(const CLI::App& app, int argc, char** argv)
{
    const auto* at = &app;
    for (int i = 1; i < argc && !at->get_subcommands([](const CLI::App*) { return true; }).empty(); i++) {
        const std::string word = argv[i];
        if (word.empty() || word[0] == '-')
            continue;
        const auto named =
            at->get_subcommands([&word](const CLI::App* one) { return one->get_name() == word; });
        if (named.empty())
            return word;
        at = named.front();
    }
    return {};
}

/// The exit status after an invalid command line, or after the help.
int refuse(const CLI::App& app, const CLI::ParseError& problem, int argc, char** argv)
{
    if (!problem.get_exit_code())
        return app.exit(problem);
    const auto unknown = unknown_command(app, argc, argv);
    const auto text = unknown.empty() ? std::string(problem.what())
                                      : fmt::format("'{}' is not a command of weftctl", unknown);
    // The parser may have stopped before this option.
    const bool json =
        std::any_of(argv + 1, argv + argc, [](std::string_view word) { return word == "--json"; });
    const auto renderer = json ? weft::make_json_renderer() : weft::make_text_renderer();
    renderer->failure({weft::exit_code::usage, text + "; run weftctl --help"});
    renderer->end();
    return static_cast<int>(weft::exit_code::usage);
}

weft::exit_code run(const weft::verb& verb, weft::renderer& out)
{
    // Report exceptions of the standard library (a folder that vanishes while it is listed) as errors.
    try {
        const auto done = verb.run(out);
        if (done)
            return *done;
        out.failure(done.error());
        return done.error().code;
    } catch (const std::exception& problem) {
        out.failure({weft::exit_code::failure, problem.what()});
        return weft::exit_code::failure;
    }
}

// Writes what is left of the output. A program that reads it must not take half of it for all.
weft::exit_code finish(weft::renderer& out, weft::exit_code code)
{
    bool written = true;
    try {
        out.end();
    } catch (const std::exception&) {
        written = false; // fmt cannot write
    }
    written = !std::fflush(stdout) && !std::ferror(stdout) && written;
    if (written)
        return code;
    weft::complain("weftctl: the output cannot be written: {}\n", std::strerror(errno));
    return code == weft::exit_code::ok ? weft::exit_code::failure : code;
}

} // namespace

int main(int argc, char** argv)
{
    CLI::App app;
    bool json = false;
    const auto verbs = weft::add_verbs(app, json);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& problem) {
        return refuse(app, problem, argc, argv);
    }

    const auto renderer = json ? weft::make_json_renderer() : weft::make_text_renderer();
    auto code = weft::exit_code::usage;
    for (const auto& verb : verbs)
        if (verb.command->parsed()) {
            code = run(verb, *renderer);
            break;
        }
    code = finish(*renderer, code);
    weft::end_as_signalled();
    return static_cast<int>(code);
}
