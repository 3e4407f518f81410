// SPDX-License-Identifier: GPL-2.0-only
#include "options.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace
{

const std::map<std::string, bool options::*> flags{
    {"--anonymous", &options::anonymous},
    {"--auth", &options::auth},
    {"--cacheless", &options::cacheless},
    {"--deaf", &options::deaf},
    {"--dh", &options::dh},
    {"--holds-admin", &options::holds_admin},
    {"--keeps-keys", &options::keeps_keys},
    {"--limitless", &options::limitless},
    {"--picky", &options::picky},
    {"--refuse", &options::refuse},
    {"--stays", &options::stays},
    {"--traffic", &options::traffic},
    {"--unarmed", &options::unarmed},
};

const std::map<std::string, unsigned options::*> numbers{
    {"--at", &options::at},         {"--capsule", &options::capsule},
    {"--dmrsl", &options::dmrsl},   {"--entries", &options::entries},
    {"--floor", &options::floor_s}, {"--grant", &options::grant},
    {"--keep", &options::keep_s},   {"--mdts", &options::mdts},
    {"--wzsl", &options::wzsl},     {"--namespaces", &options::namespaces},
    {"--port", &options::port},     {"--shutdown", &options::shutdown_s},
};

const std::map<std::string, std::string options::*> texts{
    {"--ctrl-secret", &options::ctrl_secret},
    {"--fault", &options::fault},
    {"--host-secret", &options::host_secret},
    {"--serial", &options::serial},
};

} // namespace

bool options::set(const std::string& word, const char* value)
{
    if (const auto number = numbers.find(word); number != numbers.end())
        this->*number->second = static_cast<unsigned>(std::atoi(value));
    else if (const auto text = texts.find(word); text != texts.end())
        this->*text->second = value;
    else if (word == "--ana")
        ana.push_back(std::atoi(value));
    else
        return false;
    return true;
}

bool options::parse(int argc, char** argv)
{
    bool understood = true;
    for (int i = 1; i < argc && understood; i++) {
        const std::string word = argv[i];
        if (!word.starts_with("--")) {
            addresses.push_back(word);
        } else if (const auto flag = flags.find(word); flag != flags.end()) {
            this->*flag->second = true;
        } else {
            understood = i + 1 < argc && set(word, argv[i + 1]);
            i++;
        }
    }
    capsule = std::min<unsigned>(capsule, inline_size);
    if (understood && !addresses.empty())
        return true;
    std::fprintf(stderr, "usage: weft-hostile [OPTION]... ADDRESS...\n");
    for (const auto& [name, field] : flags)
        std::fprintf(stderr, "  %s\n", name.c_str());
    for (const auto& [name, field] : numbers)
        std::fprintf(stderr, "  %s NUMBER\n", name.c_str());
    for (const auto& [name, field] : texts)
        std::fprintf(stderr, "  %s TEXT\n", name.c_str());
    std::fprintf(stderr, "  --ana STATE (once for each address)\n");
    return false;
}
