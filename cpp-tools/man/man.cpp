// SPDX-License-Identifier: GPL-2.0-only
#include "man.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace man
{

namespace
{

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

/// "[OPTIONS] SOURCE", for behind a command.
void write_operands(std::ostream& page, const CLI::App& app)
{
    page << "[\\fIOPTIONS\\fR]";
    for (const auto* option : app.get_options())
        if (option->get_positional()) {
            const auto value = roff(option->get_name(true));
            const bool many = option->get_items_expected_max() > 1;
            page << (option->get_required() ? " \\fI" : " [\\fI") << value << "\\fR" << (many ? "..." : "")
                 << (option->get_required() ? "" : "]");
        }
    page << '\n';
}

} // namespace

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

void write_head(std::ostream& page, const std::string& command, int section, const std::string& description)
{
    auto name = command;
    std::replace(name.begin(), name.end(), ' ', '-');
    page << ".\\\" Made of what '" << command << " --help' says.\n";
    page << ".TH " << upper(name) << ' ' << section << " \"\" \"weft " << WEFT_VERSION << "\" \"weft\"\n";
    page << ".SH NAME\n" << roff(name) << " \\- " << roff(description) << '\n';
}

void write_command(std::ostream& page, const CLI::App& app, const std::string& command, int section,
                   const std::string& description)
{
    const auto examples = std::min(app.get_footer().find("Examples:"), app.get_footer().size());
    write_head(page, command, section, description);
    page << ".SH SYNOPSIS\n.B " << roff(command) << '\n';
    write_operands(page, app);
    write_footer(page, app.get_footer().substr(0, examples));
    page << ".SH OPTIONS\n";
    write_options(page, app, true);
    write_options(page, app, false);
    for (const auto* one : app.get_subcommands([](const CLI::App*) { return true; })) {
        page << ".SS \"" << roff(command + " " + one->get_name()) << "\"\n";
        write_operands(page, *one);
        page << ".PP\n" << roff(one->get_description()) << ".\n";
        write_options(page, *one, true);
        write_options(page, *one, false);
    }
    write_footer(page, app.get_footer().substr(examples));
}

} // namespace man
