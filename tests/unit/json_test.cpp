// SPDX-License-Identifier: GPL-2.0-only
/// What weftctl prints for programs is one document, and what its schema says.
#include "render.hpp"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace
{

using namespace weft;
using nlohmann::json;

/// As much of JSON Schema as weftctl.schema.json uses. Where it does not fit, or empty.
class schema
{
public:
    schema() { std::ifstream(SCHEMA) >> all_; }
    [[nodiscard]] std::string mismatch(const json& value) const { return mismatch(value, all_, "document"); }

private:
    [[nodiscard]] std::string mismatch(const json& value, const json& rule, const std::string& where) const
    {
        if (rule.contains("$ref"))
            return mismatch(value, all_.at(json::json_pointer(rule["$ref"].get<std::string>().substr(1))),
                            where);
        if (rule.contains("anyOf")) {
            std::string why;
            for (const auto& one : rule["anyOf"]) {
                const auto wrong = mismatch(value, one, where);
                if (wrong.empty())
                    return {};
                why += wrong + "; ";
            }
            return why;
        }
        if (rule.contains("const") && value != rule["const"])
            return where + " is another constant";
        if (rule.contains("enum") &&
            std::find(rule["enum"].begin(), rule["enum"].end(), value) == rule["enum"].end())
            return where + " is none of the values";
        if (rule.contains("type") && !has_type(value, rule["type"]))
            return where + " is of another type";
        for (const auto& name : rule.value("required", json::array()))
            if (!value.contains(name))
                return where + " has no " + name.get<std::string>();
        if (value.is_object())
            for (const auto& [name, member] : value.items())
                if (auto wrong = mismatch(member, name, rule, where); !wrong.empty())
                    return wrong;
        if (value.is_array() && rule.contains("items"))
            for (const auto& item : value)
                if (auto wrong = mismatch(item, rule["items"], where + "[]"); !wrong.empty())
                    return wrong;
        return {};
    }
    /// Of a member of an object that `rule` is for.
    [[nodiscard]] std::string mismatch(const json& member, const std::string& name, const json& rule,
                                       const std::string& where) const
    {
        const auto properties = rule.value("properties", json::object());
        const auto own = properties.value(name, rule.value("additionalProperties", json(true)));
        if (own.is_boolean())
            return own ? std::string() : where + " has " + name;
        return mismatch(member, own, where + "." + name);
    }
    static bool has_type(const json& value, const json& type)
    {
        if (type.is_array())
            return std::any_of(type.begin(), type.end(),
                               [&](const json& one) { return has_type(value, one); });
        return type == "object"    ? value.is_object()
               : type == "array"   ? value.is_array()
               : type == "string"  ? value.is_string()
               : type == "integer" ? value.is_number_integer()
               : type == "number"  ? value.is_number()
               : type == "boolean" ? value.is_boolean()
                                   : value.is_null();
    }
    json all_;
};

/// What is printed, until `use` and the end.
template <typename Use>
std::string printed(Use use)
{
    testing::internal::CaptureStdout();
    const auto renderer = make_json_renderer();
    use(*renderer);
    renderer->end();
    return testing::internal::GetCapturedStdout();
}

TEST(json, is_one_document_and_fits_its_schema)
{
    volume_status volume;
    volume.name = "data";
    volume.members.resize(2);
    volume.members[0].paths.resize(2);
    volume.members[0].paths[0].ends = {{"queue-pair", 2}, {"keep-alive", 1}};
    const found_volume stopped{"old", "uuid", 1 << 20, 2, {"/dev/a", "/dev/b"}};
    const found_volume incomplete{"half", "uuid", 1 << 20, 2, {"/dev/a", ""}};
    topology drawn;
    drawn.endpoints.resize(1);
    drawn.pairs.resize(2);
    drawn.pairs[0].bridges = 2;
    drawn.pairs[0].possible = true;
    examined_owner claim;
    claim.record = "claim";
    qos_status qos;
    qos.members.resize(1);
    qos.members[0].classes[1].latency = {1, 2, 3};
    volume_load load;
    load.rows.resize(2);
    load.rows[0].kind = "read";
    load.rows[1].member = 0;
    load.rows[1].kind = "feed";
    export_status exported;
    exported.spec.addresses.resize(2);
    const auto text = printed([&](renderer& out) {
        out.qos(qos);
        out.load(load);
        load.qos = true;
        out.load(load);
        out.failure({exit_code::busy, "one is in use"});
        out.list({volume}, {stopped, incomplete});
        out.status({volume}, {{"more", 1700000000, "member 0 of 2 is missing"}});
        out.actions({{"stop", "data", "stopped data"}});
        out.actions({{"stop", "more", "stopped more"}});
        out.findings({{"/dev/a", "ok", "both copies are good", true, false}});
        out.examined({examined_member{}}, {claim});
        out.host("nqn.2014-08.org.example:host");
        out.exports({exported});
        out.discovered({weft::discovered{}});
        out.connections({connection{}});
        out.diagnosed({{severity::warning, "kernel", "it is", "it matters", "mend"}});
        out.drawn(drawn);
        out.metrics("# TYPE a gauge\n");
        out.failure({exit_code::missing, "another is not there"});
    });
    const auto document = json::parse(text);
    EXPECT_EQ(schema().mismatch(document), "");
    EXPECT_EQ(document["errors"].size(), 2U);
    EXPECT_EQ(document["errors"][1], (json{{"code", 4}, {"text", "another is not there"}}));
    EXPECT_EQ(document["volumes"].size(), 4U);
    const auto& paths = document["volumes"][0]["members"][0]["paths"];
    EXPECT_EQ(paths[0]["ends"], (json{{"queue-pair", 2}, {"keep-alive", 1}}));
    EXPECT_EQ(paths[1]["ends"], json::object());
    EXPECT_EQ(document["actions"].size(), 2U);
    EXPECT_EQ(document["findings"].size(), 2U);
    EXPECT_EQ(document["loads"].size(), 2U);
    EXPECT_EQ(document["qos"]["members"][0]["background"]["latency"], (json{1, 2, 3}));
}

TEST(json, of_a_failure_alone)
{
    const auto document = json::parse(printed([](renderer& out) {
        out.failure({exit_code::missing, "not there"});
    }));
    EXPECT_EQ(schema().mismatch(document), "");
    EXPECT_EQ(document["errors"][0]["code"], 4);
}

TEST(json, of_events_is_a_line_each)
{
    event_report event;
    event.member = 1;
    event.errnum = 5;
    const auto text = printed([&](renderer& out) {
        out.event(event);
        out.event({});
    });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        EXPECT_EQ(schema().mismatch(json::parse(line)), "");
}

TEST(json, of_a_status_that_is_watched_is_a_line_each)
{
    const auto text = printed([&](renderer& out) {
        for (int i = 0; i < 2; i++) {
            out.status({volume_status{}}, {});
            out.next();
        }
    });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const auto document = json::parse(line);
        EXPECT_EQ(schema().mismatch(document), "");
        EXPECT_EQ(document["volumes"].size(), 1U);
    }
}

TEST(json, the_schema_refuses_what_is_not_in_it)
{
    EXPECT_NE(schema().mismatch({{"schema", 1}, {"errors", json::array()}, {"more", 1}}), "");
    EXPECT_NE(schema().mismatch({{"schema", 2}, {"errors", json::array()}}), "");
    EXPECT_NE(schema().mismatch({{"schema", 1}, {"errors", {{{"code", "x"}, {"text", ""}}}}}), "");
}

} // namespace
