// SPDX-License-Identifier: GPL-2.0-only
#include "completion.hpp"

#include <string>

namespace completion
{

std::vector<const CLI::App*> shown(const CLI::App& app)
{
    return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

namespace
{

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

/// What a user may write behind a command that has no commands itself.
struct leaf {
    std::string path; ///< "path add"
    const CLI::App* command;
};

std::vector<leaf> leaves(const CLI::App& app)
{
    std::vector<leaf> found;
    for (const auto* verb : shown(app)) {
        const auto commands = shown(*verb);
        if (commands.empty())
            found.push_back({verb->get_name(), verb});
        for (const auto* one : commands)
            found.push_back({verb->get_name() + " " + one->get_name(), one});
    }
    return found;
}

/// Text between single quotes, without a quote: shells differ in how one is written there.
std::string plain(const std::string& text)
{
    std::string safe;
    for (const char c : text) {
        if (c == '\'')
            safe += "\u2019";
        else if (c != '\\')
            safe += c;
    }
    return safe;
}

std::string quoted(const std::string& text)
{
    return '\'' + plain(text) + '\'';
}

/// In zsh's lists of descriptions, a colon and brackets have a meaning.
std::string described(const std::string& text)
{
    std::string safe;
    for (const char c : plain(text)) {
        if (c == ':' || c == '[' || c == ']')
            safe += '\\';
        safe += c;
    }
    return safe;
}

bool takes_value(const CLI::Option& option)
{
    return option.get_items_expected_max() > 0;
}

} // namespace

void write_bash(std::ostream& out, const CLI::App& app)
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

void write_fish(std::ostream& out, const CLI::App& app)
{
    out << "# fish completion for weftctl, made by weftctl-pages of what 'weftctl --help' says.\n\n"
           "function __weftctl_volumes\n"
           "\tweftctl list 2>/dev/null | awk 'NR > 1 { print $1 }'\n"
           "end\n"
           "function __weftctl_at\n"
           "\tset -l words (string match -v -- '-*' (commandline -opc)[2..-1])\n"
           "\tset -l length (count $argv)\n"
           "\ttest \"$words[1..$length]\" = \"$argv\"\n"
           "end\n"
           "function __weftctl_disks\n"
           "\tlsblk -lpno NAME 2>/dev/null\n"
           "end\n"
           "complete -c weftctl -f\n"
           "complete -c weftctl -l json -d 'print JSON for programs'\n";
    for (const auto* verb : shown(app)) {
        out << "complete -c weftctl -n __fish_use_subcommand -a " << verb->get_name() << " -d "
            << quoted(verb->get_description()) << "\n";
        const auto commands = shown(*verb);
        for (const auto* one : commands)
            out << "complete -c weftctl -n '__fish_seen_subcommand_from " << verb->get_name()
                << "; and not __fish_seen_subcommand_from " << names_of(commands) << "' -a "
                << one->get_name() << " -d " << quoted(one->get_description()) << "\n";
    }
    for (const auto& [path, command] : leaves(app)) {
        const std::string when = "__weftctl_at " + path;
        for (const auto* option : command->get_options()) {
            const bool positional = option->get_positional();
            if (positional && completer_of(option->get_name(true)) != std::string("policies"))
                out << "complete -c weftctl -n '" << when << "' -a '(__weftctl_"
                    << (completer_of(option->get_name(true)) == std::string("devices") ? "disks" : "volumes")
                    << ")'\n";
            else if (positional)
                out << "complete -c weftctl -n '" << when << "' -a 'round-robin numa'\n";
            for (const auto& name : option->get_lnames())
                out << "complete -c weftctl -n '" << when << "' -l " << name
                    << (takes_value(*option) ? " -x" : "") << " -d " << quoted(option->get_description())
                    << "\n";
        }
    }
}

void write_zsh(std::ostream& out, const CLI::App& app)
{
    out << "#compdef weftctl\n"
           "# zsh completion for weftctl, made by weftctl-pages of what 'weftctl --help' says.\n\n"
           "_weftctl_volumes() {\n"
           "\tlocal -a volumes=(${(f)\"$(weftctl list 2>/dev/null | awk 'NR > 1 { print $1 }')\"})\n"
           "\t_describe volume volumes\n"
           "}\n"
           "_weftctl_disks() {\n"
           "\tlocal -a disks=(${(f)\"$(lsblk -lpno NAME 2>/dev/null)\"})\n"
           "\t_describe disk disks\n"
           "}\n"
           "_weftctl() {\n"
           "\tlocal -a verbs options=('--json[print JSON for programs]')\n"
           "\tif (( CURRENT == 2 )); then\n\t\tverbs=(\n";
    for (const auto* verb : shown(app))
        out << "\t\t'" << verb->get_name() << ":" << described(verb->get_description()) << "'\n";
    out << "\t\t)\n\t\t_describe command verbs\n\t\treturn\n\tfi\n";
    for (const auto* verb : shown(app)) {
        const auto below = shown(*verb);
        if (below.empty())
            continue;
        out << "\tif (( CURRENT == 3 )) && [[ $words[2] == " << verb->get_name()
            << " ]]; then\n\t\tverbs=(\n";
        for (const auto* one : below)
            out << "\t\t'" << one->get_name() << ":" << described(one->get_description()) << "'\n";
        out << "\t\t)\n\t\t_describe command verbs\n\t\treturn\n\tfi\n";
    }
    out << "\tcase \"$words[2] $words[3]\" in\n";
    for (const auto& [path, command] : leaves(app)) {
        out << "\t'" << path << (path.contains(' ') ? "'" : " '*") << ")\n\t\toptions+=(\n";
        std::string operands = "_weftctl_volumes";
        for (const auto* option : command->get_options()) {
            if (option->get_positional() && completer_of(option->get_name(true)) == std::string("devices"))
                operands = "_weftctl_disks";
            for (const auto& name : option->get_lnames())
                out << "\t\t'--" << name << "[" << described(option->get_description()) << "]"
                    << (takes_value(*option) ? ":value:" : "") << "'\n";
        }
        out << "\t\t'*:operand:" << operands << "'\n\t\t)\n\t\t;;\n";
    }
    out << "\tesac\n\t_arguments -s : $options\n}\n_weftctl \"$@\"\n";
}

} // namespace completion
