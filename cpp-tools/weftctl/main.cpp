// SPDX-License-Identifier: GPL-2.0-only
#include "verbs.hpp"

#include <exception>

int main(int argc, char** argv)
{
    CLI::App app;
    bool json = false;
    const auto verbs = weft::add_verbs(app, json);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& problem) {
        const int status = app.exit(problem);
        return status ? static_cast<int>(weft::exit_code::usage) : 0;
    }

    const auto renderer = json ? weft::make_json_renderer() : weft::make_text_renderer();
    for (const auto& verb : verbs) {
        if (!verb.command->parsed())
            continue;
        // The library's own exceptions (a folder that vanishes while it is listed) end as what they are:
        // errors.
        try {
            const auto done = verb.run(*renderer);
            if (done)
                return static_cast<int>(*done);
            renderer->failure(done.error());
            return static_cast<int>(done.error().code);
        } catch (const std::exception& problem) {
            renderer->failure({weft::exit_code::failure, problem.what()});
            return static_cast<int>(weft::exit_code::failure);
        }
    }
    return static_cast<int>(weft::exit_code::usage);
}
