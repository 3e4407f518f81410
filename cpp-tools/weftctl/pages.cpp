// SPDX-License-Identifier: GPL-2.0-only
/// Writes weftctl's man pages and bash completion, from the declarations that --help is made of.
///
/// usage: weftctl-pages FOLDER
#include "verbs.hpp"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace
{

/// Text as troff takes it: nothing in it is a request, and a hyphen can be copied and pasted.
std::string roff(const std::string& text)
{
    std::string out;
    bool line_start = true;
    for (const char c : text) {
        if (line_start && (c == '.' || c == '\''))
            out += "\\&";
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else
            out += c;
        line_start = c == '\n';
    }
    return out;
}

std::string upper(std::string text)
{
    for (auto& c : text)
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}

bool is_flag(const CLI::Option& option)
{
    return option.get_items_expected_max() == 0;
}

/// "--chunk SIZE": what stands for a value is the option's name unless it is one of several words.
std::string value_of(const CLI::Option& option)
{
    if (is_flag(option))
        return {};
    auto name = option.get_lnames().front();
    if (const auto dash = name.rfind('-'); dash != std::string::npos)
        name = name.substr(dash + 1);
    return upper(name);
}

void write_options(std::ostream& page, const CLI::App& app, bool positional)
{
    for (const auto* option : app.get_options()) {
        if (option->get_positional() != positional || (positional && option->get_name(true).empty()))
            continue;
        page << ".TP\n";
        if (positional) {
            page << ".I " << roff(option->get_name(true)) << '\n';
        } else {
            std::string names;
            for (const auto& name : option->get_snames())
                names += (names.empty() ? "\\fB" : ", \\fB") + roff("-" + name) + "\\fR";
            for (const auto& name : option->get_lnames())
                names += (names.empty() ? "\\fB" : ", \\fB") + roff("--" + name) + "\\fR";
            if (const auto value = value_of(*option); !value.empty())
                names += " \\fI" + value + "\\fR";
            page << names << '\n';
        }
        page << roff(option->get_description());
        if (!option->get_default_str().empty())
            page << " (default " << roff(option->get_default_str()) << ")";
        page << ".\n";
    }
}

/// A footer: paragraphs, "Heading:" lines, and lines that are indented because they are to be typed.
void write_footer(std::ostream& page, const std::string& footer)
{
    std::istringstream lines(footer);
    bool verbatim = false;
    bool described = false;
    for (std::string line; std::getline(lines, line);) {
        const bool indented = line.rfind("  ", 0) == 0;
        if (verbatim && !indented) {
            page << ".fi\n.RE\n";
            verbatim = false;
        }
        if (line.empty()) {
            page << ".PP\n";
        } else if (indented) {
            if (!verbatim)
                page << ".RS 4\n.nf\n";
            verbatim = true;
            page << roff(line.substr(2)) << '\n';
        } else if (line.back() == ':' && line.find(' ') == line.rfind(' ') && line.size() < 20) {
            page << ".SH \"" << upper(line.substr(0, line.size() - 1)) << "\"\n";
            described = true;
        } else {
            if (!described) {
                page << ".SH DESCRIPTION\n";
                described = true;
            }
            page << roff(line) << '\n';
        }
    }
    if (verbatim)
        page << ".fi\n.RE\n";
}

void write_head(std::ostream& page, const std::string& name, const std::string& description)
{
    page << ".\\\" Made by weftctl-pages of what 'weftctl --help' says.\n";
    page << ".TH " << upper(name) << " 8 \"\" \"weft " << WEFT_VERSION << "\" \"weft\"\n";
    page << ".SH NAME\n" << roff(name) << " \\- " << roff(description) << '\n';
}

void write_verb(std::ostream& page, const CLI::App& verb)
{
    const auto name = "weftctl-" + verb.get_name();
    write_head(page, name, verb.get_description());
    page << ".SH SYNOPSIS\n.B weftctl " << roff(verb.get_name()) << "\n[\\fIOPTIONS\\fR]";
    for (const auto* option : verb.get_options())
        if (option->get_positional()) {
            const auto value = roff(option->get_name(true));
            const bool many = option->get_items_expected_max() > 1;
            page << (option->get_required() ? " \\fI" : " [\\fI") << value << "\\fR" << (many ? "..." : "")
                 << (option->get_required() ? "" : "]");
        }
    page << '\n';
    write_footer(page, verb.get_footer().substr(0, verb.get_footer().find("Examples:")));
    page << ".SH OPTIONS\n";
    write_options(page, verb, true);
    write_options(page, verb, false);
    if (const auto at = verb.get_footer().find("Examples:"); at != std::string::npos)
        write_footer(page, verb.get_footer().substr(at));
    page << ".SH \"SEE ALSO\"\n.BR weftctl (8)\n";
}

/// Verbs that are for people.
std::vector<const CLI::App*> shown(const CLI::App& app)
{
    return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

void write_main(std::ostream& page, const CLI::App& app)
{
    write_head(page, "weftctl", app.get_description().substr(app.get_description().find(": ") + 2));
    page << ".SH SYNOPSIS\n.B weftctl\n[\\fIOPTIONS\\fR] \\fIVERB\\fR [...]\n";
    page << ".SH VERBS\n";
    for (const auto* verb : shown(app))
        page << ".TP\n.BR weftctl\\-" << roff(verb->get_name()) << " (8)\n"
             << roff(verb->get_description()) << ".\n";
    page << ".SH OPTIONS\n";
    write_options(page, app, false);
    write_footer(page, app.get_footer());
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

/// What a positional of that name is completed with.
const char* completer_of(const std::string& positional)
{
    if (positional == "DEVICE" || positional == "MEMBER")
        return "devices";
    return "volumes";
}

void write_completion(std::ostream& out, const CLI::App& app)
{
    out << "# bash completion for weftctl, made by weftctl-pages of what 'weftctl --help' says.\n\n"
           "_weftctl()\n{\n"
           "\tlocal cur prev words cword verb='' options='' operands='' i\n"
           "\t_init_completion || return\n"
           "\tfor ((i = 1; i < cword; i++)); do\n"
           "\t\tcase ${words[i]} in -*) ;; *) verb=${words[i]}; break ;; esac\n"
           "\tdone\n"
           "\tcase $verb in\n";
    std::string verbs;
    for (const auto* verb : shown(app)) {
        verbs += (verbs.empty() ? "" : " ") + verb->get_name();
        std::string operands;
        for (const auto* option : verb->get_options())
            if (option->get_positional())
                operands += (operands.empty() ? "" : " ") + std::string(completer_of(option->get_name(true)));
        out << "\t" << verb->get_name() << ") options='" << option_words(*verb) << "' operands='" << operands
            << "' ;;\n";
    }
    out << "\t'')\n"
        << "\t\tmapfile -t COMPREPLY < <(compgen -W '" << verbs << ' ' << option_words(app)
        << "' -- \"$cur\")\n"
        << "\t\treturn\n\t\t;;\n\tesac\n"
           "\tcase $prev in\n"
           "\t--transport) mapfile -t COMPREPLY < <(compgen -W 'rdma tcp' -- \"$cur\"); return ;;\n"
           "\t--p2pmem) mapfile -t COMPREPLY < <(compgen -W 'auto off' -- \"$cur\"); return ;;\n"
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
        write_verb(verb_page, *verb);
        good &= verb_page.flush().good();
    }
    std::ofstream completion(folder / "weftctl");
    write_completion(completion, app);
    good &= completion.flush().good();
    if (!good)
        std::cerr << "weftctl-pages: " << folder << " cannot be written\n";
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
