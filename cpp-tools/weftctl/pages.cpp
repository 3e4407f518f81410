// SPDX-License-Identifier: GPL-2.0-only
/// Writes weftctl's man pages and completion of shells, from the declarations that --help is made of.
///
/// usage: weftctl-pages FOLDER
#include "completion.hpp"
#include "verbs.hpp"

#include <man/man.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace
{

void write_main(std::ostream& page, const CLI::App& app)
{
    man::write_head(page, "weftctl", 8, app.get_description().substr(app.get_description().find(": ") + 2));
    page << ".SH SYNOPSIS\n.B weftctl\n[\\fIOPTIONS\\fR] \\fIVERB\\fR [...]\n";
    page << ".SH VERBS\n";
    for (const auto* verb : completion::shown(app))
        page << ".TP\n.BR weftctl\\-" << man::roff(verb->get_name()) << " (8)\n"
             << man::roff(verb->get_description()) << ".\n";
    page << ".SH OPTIONS\n";
    man::write_options(page, app, false);
    man::write_footer(page, app.get_footer());
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 2) {
        std::cerr << "usage: weftctl-pages FOLDER\n";
        return EXIT_FAILURE;
    }
    CLI::App app;
    bool json = false;
    const auto verbs = weft::add_verbs(app, json);
    const std::filesystem::path folder = argv[1];
    std::filesystem::create_directories(folder);
    std::ofstream page(folder / "weftctl.8");
    write_main(page, app);
    bool good = page.flush().good();
    for (const auto* verb : completion::shown(app)) {
        std::ofstream verb_page(folder / ("weftctl-" + verb->get_name() + ".8"));
        man::write_command(verb_page, *verb, "weftctl " + verb->get_name(), 8, verb->get_description());
        verb_page << ".SH \"SEE ALSO\"\n.BR weftctl (8)\n";
        good &= verb_page.flush().good();
    }
    for (const auto& shell : completion::shells) {
        std::ofstream file(folder / shell.file);
        shell.write(file, app);
        good &= file.flush().good();
    }
    if (!good)
        std::cerr << "weftctl-pages: " << folder << " cannot be written\n";
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
