// SPDX-License-Identifier: GPL-2.0-only
/// Verbs fetch data, renderers print it: as text, at once; or for programs as one JSON document at the end,
/// as weftctl.schema.json describes it.
#pragma once

#include "awaited.hpp"
#include "exports.hpp"
#include "fabrics.hpp"
#include "model.hpp"
#include "result.hpp"
#include "topology.hpp"

#include <memory>

namespace weft
{

class renderer
{
public:
    virtual ~renderer() = default;
    virtual void list(const std::vector<volume_status>& assembled,
                      const std::vector<found_volume>& found) = 0;
    virtual void status(const std::vector<volume_status>& volumes,
                        const std::vector<awaited_volume>& awaited) = 0;
    virtual void paths(const volume_status& volume) = 0;
    virtual void qos(const qos_status& status) = 0;
    virtual void load(const volume_load& load) = 0;
    virtual void explained(const explanation& found) = 0;
    virtual void actions(const std::vector<action>& actions) = 0;
    virtual void findings(const std::vector<check_finding>& findings) = 0;
    virtual void examined(const std::vector<examined_member>& members,
                          const std::vector<examined_owner>& owners) = 0;
    virtual void host(const std::string& nqn) = 0;
    virtual void exports(const std::vector<export_status>& exports) = 0;
    virtual void discovered(const std::vector<weft::discovered>& found) = 0;
    virtual void connections(const std::vector<connection>& connections) = 0;
    virtual void diagnosed(const std::vector<diagnosis>& found) = 0;
    virtual void drawn(const topology& topology) = 0;
    virtual void metrics(const std::string& text) = 0;
    virtual void cdi(const std::vector<volume_status>& volumes) = 0;
    virtual void event(const event_report& event) = 0;
    virtual void failure(const error& error) = 0;
    virtual void next() = 0; ///< what follows is another document
    virtual void end() = 0;  ///< called once, at the end
};

[[nodiscard]] std::unique_ptr<renderer> make_text_renderer();
[[nodiscard]] std::unique_ptr<renderer> make_json_renderer();

/// If standard output is a terminal, what is printed next is at the top of an empty screen.
void clear_screen();

} // namespace weft
