// SPDX-License-Identifier: GPL-2.0-only
/// Writes weftctl's man pages and bash completion, from the declarations that --help is made of.
///
/// usage: weftctl-pages FOLDER
#include "verbs.hpp"

#include <man/man.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace
{

/// Verbs that are shown in the help.
std::vector<const CLI::App*> shown(const CLI::App& app)
{
    return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

void write_main(std::ostream& page, const CLI::App& app)
{
    man::write_head(page, "weftctl", 8, app.get_description().substr(app.get_description().find(": ") + 2));
    page << ".SH SYNOPSIS\n.B weftctl\n[\\fIOPTIONS\\fR] \\fIVERB\\fR [...]\n";
    page << ".SH VERBS\n";
    for (const auto* verb : shown(app))
        page << ".TP\n.BR weftctl\\-" << man::roff(verb->get_name()) << " (8)\n"
             << man::roff(verb->get_description()) << ".\n";
    page << ".SH OPTIONS\n";
    man::write_options(page, app, false);
    man::write_footer(page, app.get_footer());
}

std::string option_words(const CLI::App& app)
{
    std::string words;
    for (const auto* option : app.get_options())
        if (!option->get_positional())
            for (const auto& name : option->get_lnames())
                words += (words.empty() ? "--" : " --") + name;
    return words;
}

/// The completion of a positional with that name.
const char* completer_of(const std::string& positional)
{
    if (positional == "DEVICE" || positional == "MEMBER" || positional == "PATH")
        return "devices";
    if (positional == "POLICY")
        return "policies";
    return "volumes";
}

std::string names_of(const std::vector<const CLI::App*>& commands)
{
    std::string names;
    for (const auto* one : commands)
        names += (names.empty() ? "" : " ") + one->get_name();
    return names;
}

/// Sets what the shell offers after this command.
void write_operands(std::ostream& out, const CLI::App& command)
{
    std::string operands;
    for (const auto* option : command.get_options())
        if (option->get_positional())
            operands += (operands.empty() ? "" : " ") + std::string(completer_of(option->get_name(true)));
    out << command.get_name() << ") options='" << option_words(command) << "' operands='" << operands
        << "' ;;\n";
}

void write_completion(std::ostream& out, const CLI::App& app)
{
    out << "# bash completion for weftctl, made by weftctl-pages of what 'weftctl --help' says.\n\n"
           "_weftctl()\n{\n"
           "\tlocal cur prev words cword verb='' command='' options='' operands='' i\n"
           "\t_init_completion || return\n"
           "\tfor ((i = 1; i < cword; i++)); do\n"
           "\t\tcase ${words[i]} in\n"
           "\t\t-*) ;;\n"
           "\t\t*) if [[ -z $verb ]]; then verb=${words[i]}; else command=${words[i]}; break; fi ;;\n"
           "\t\tesac\n"
           "\tdone\n"
           "\tcase $verb in\n";
    for (const auto* verb : shown(app)) {
        const auto commands = shown(*verb);
        if (commands.empty()) {
            write_operands(out << "\t", *verb);
            continue;
        }
        out << "\t" << verb->get_name() << ")\n\t\tcase $command in\n";
        for (const auto* command : commands)
            write_operands(out << "\t\t", *command);
        out << "\t\t*) mapfile -t COMPREPLY < <(compgen -W '" << names_of(commands)
            << "' -- \"$cur\"); return ;;\n\t\tesac\n\t\t;;\n";
    }
    out << "\t'')\n"
        << "\t\tmapfile -t COMPREPLY < <(compgen -W '" << names_of(shown(app)) << ' ' << option_words(app)
        << "' -- \"$cur\")\n"
        << "\t\treturn\n\t\t;;\n\tesac\n"
           "\tcase $prev in\n"
           "\t--transport) mapfile -t COMPREPLY < <(compgen -W 'rdma tcp' -- \"$cur\"); return ;;\n"
           "\t--p2pmem) mapfile -t COMPREPLY < <(compgen -W 'auto off' -- \"$cur\"); return ;;\n"
           "\t--exec) mapfile -t COMPREPLY < <(compgen -c -- \"$cur\"); return ;;\n"
           "\t--output) _filedir; return ;;\n"
           "\tesac\n"
           "\tif [[ $cur == -* ]]; then\n"
           "\t\tmapfile -t COMPREPLY < <(compgen -W \"$options --json\" -- \"$cur\")\n"
           "\t\treturn\n"
           "\tfi\n"
           "\tcase $operands in\n"
           "\t*devices*) [[ $cur == /* ]] && mapfile -t COMPREPLY < <(lsblk -lpno NAME 2>/dev/null | grep -F "
           "-- \"$cur\") ;;\n"
           "\tesac\n"
           "\tcase $operands in\n"
           "\t*policies*) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W 'round-robin numa' -- "
           "\"$cur\") ;;\n"
           "\tesac\n"
           "\tcase $operands in\n"
           "\t*volumes*) [[ $cur == /* ]] || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "
           "\"$(weftctl list 2>/dev/null | awk 'NR > 1 { print $1 }')\" -- \"$cur\") ;;\n"
           "\tesac\n"
           "}\ncomplete -F _weftctl weftctl\n";
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
    for (const auto* verb : shown(app)) {
        std::ofstream verb_page(folder / ("weftctl-" + verb->get_name() + ".8"));
        man::write_command(verb_page, *verb, "weftctl " + verb->get_name(), 8, verb->get_description());
        verb_page << ".SH \"SEE ALSO\"\n.BR weftctl (8)\n";
        good &= verb_page.flush().good();
    }
    std::ofstream completion(folder / "weftctl");
    write_completion(completion, app);
    good &= completion.flush().good();
    if (!good)
        std::cerr << "weftctl-pages: " << folder << " cannot be written\n";
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
