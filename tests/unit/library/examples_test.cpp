// SPDX-License-Identifier: GPL-2.0-only
/// The examples do what they say, and a safetensors header may hold anything.
#include "run.hpp"
#include "support.hpp"

#include <safetensors.hpp>

namespace weft::test
{

namespace
{

std::string example(const std::string& name)
{
    return std::string(EXAMPLES) + "/example-" + name;
}

std::string safetensors(const std::string& header, std::size_t data)
{
    std::uint64_t size = header.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + std::string(data, 'x');
}

void write(const TemporaryFile& file, const std::string& text)
{
    std::ofstream(file.path(), std::ios::binary | std::ios::trunc) << text;
}

constexpr auto good =
    R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]},)"
    R"("b":{"dtype":"F32","shape":[],"data_offsets":[12,16]}})";

TEST(Library, ItsClassesAreOfItsVersion)
{
    // By the names of the symbols' versions the loader refuses a program that was built with another one.
    const auto versions = run("readelf --version-info --wide " LIBRARY);
    EXPECT_NE(versions.text.find("Name: LIBWEFT_0"), std::string::npos);
    EXPECT_NE(versions.text.find("Name: LIBWEFT_CXX_PRIVATE_" VERSION), std::string::npos) << versions.text;
}

TEST(Safetensors, AHeader)
{
    const auto tensors = parse_safetensors(good, 8 + std::strlen(good) + 16);
    ASSERT_TRUE(tensors) << tensors.error();
    ASSERT_EQ(tensors->size(), 2U);
    EXPECT_EQ((*tensors)[1].name, "w");
    EXPECT_EQ((*tensors)[1].shape, (std::vector<std::uint64_t>{2, 3}));
    EXPECT_EQ((*tensors)[1].begin, 8 + std::strlen(good));
    EXPECT_EQ((*tensors)[0].end, 8 + std::strlen(good) + 16);
}

TEST(Safetensors, AnythingElse)
{
    const auto fails = [](const std::string& header) {
        return !parse_safetensors(header, 8 + header.size() + 16);
    };
    EXPECT_TRUE(fails(""));
    EXPECT_TRUE(fails("[]"));
    EXPECT_TRUE(fails("{"));
    EXPECT_TRUE(fails(R"({"w":3})"));
    EXPECT_TRUE(fails(R"({"w":{"dtype":"F16","shape":[2]}})"));
    EXPECT_TRUE(fails(R"({"w":{"dtype":1,"shape":[2],"data_offsets":[0,4]}})"));
    EXPECT_TRUE(fails(R"({"w":{"dtype":"F16","shape":[-2],"data_offsets":[0,4]}})"));
    EXPECT_TRUE(fails(R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[0]}})"));
    EXPECT_TRUE(fails(R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[4,0]}})"));
    EXPECT_TRUE(fails(R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[0,17]}})"));
    EXPECT_TRUE(fails(R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[0,-1]}})"));
    EXPECT_TRUE(fails(R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[18446744073709551615,0]}})"));
    const std::byte huge[8] = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                               std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};
    EXPECT_FALSE(safetensors_header_size(huge, 1000));
    EXPECT_FALSE(safetensors_header_size(std::span(huge).first(4), 1000));
    EXPECT_FALSE(safetensors_header_size(huge, 4));
}

TEST(Examples, LoadSafetensors)
{
    const TemporaryFile file(1);
    write(file, safetensors(good, 16));
    const auto output = run(example("load_safetensors") + " " + file.path());
    EXPECT_EQ(output.status, 0);
    EXPECT_NE(output.text.find("w F16 at"), std::string::npos) << output.text;
    EXPECT_NE(output.text.find("by the route"), std::string::npos);
    write(file, safetensors(good, 3));
    const auto bad = run(example("load_safetensors") + " " + file.path());
    EXPECT_NE(bad.status, 0);
    EXPECT_NE(bad.text.find("is not within the file"), std::string::npos) << bad.text;
}

TEST(Examples, LoadSafetensorsIntoAGpu)
{
    const TemporaryFile file(1);
    write(file, safetensors(good, 16));
    const auto output = run("LD_LIBRARY_PATH=" STANDIN " " + example("load_safetensors") + " " + file.path());
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_NE(output.text.find("by the route staged"), std::string::npos) << output.text;
}

TEST(Examples, DataLoader)
{
    const TemporaryFile file(8 * mib);
    const auto output = run(example("data_loader") + " " + file.path() + " 4096 64 5");
    EXPECT_EQ(output.status, 0);
    EXPECT_NE(output.text.find(std::to_string(5 * 64 * 4096) + " bytes"), std::string::npos) << output.text;
}

TEST(Examples, Checkpoint)
{
    const TemporaryFile file(8 * mib);
    const auto output = run(example("checkpoint") + " " + file.path() + " 5000000");
    EXPECT_EQ(output.status, 0) << output.text;
    const auto now = file.read();
    for (std::size_t i = 0; i < 5000000; i += 999)
        ASSERT_EQ(now[i], static_cast<std::byte>(i * 7 + i / 4096)) << i;
    EXPECT_NE(run(example("checkpoint") + " " + file.path() + " 9000000").status, 0);
}

TEST(Examples, ReadRange)
{
    const TemporaryFile file(64 * kib);
    const auto output = run(example("read_range") + " " + file.path() + " 4097 8191");
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_NE(output.text.find("8191 bytes by the route staged"), std::string::npos) << output.text;
    // Several pieces, and copies to a GPU.
    const TemporaryFile longer(8 * mib);
    for (const auto* gpu : {"", "LD_LIBRARY_PATH=" STANDIN " "}) {
        const auto all = run(gpu + example("read_range") + " " + longer.path() + " 1 5000001");
        EXPECT_NE(all.text.find("5000001 bytes by the route staged"), std::string::npos) << all.text;
    }
    EXPECT_NE(run(example("read_range") + " /no/where 0 4096").status, 0);
}

TEST(Examples, GatherSamples)
{
    const TemporaryFile file(8 * mib);
    const auto output = run(example("gather_samples") + " " + file.path() + " 20000");
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_NE(output.text.find("81920000 bytes by the route"), std::string::npos) << output.text;
    const TemporaryFile small(100);
    EXPECT_NE(run(example("gather_samples") + " " + small.path()).status, 0);
}

TEST(Examples, SaveTensors)
{
    const TemporaryFile file(1);
    const auto output = run(example("save_tensors") + " " + file.path() + " 5000 4096 1000001");
    EXPECT_EQ(output.status, 0) << output.text;
    const auto now = file.read();
    ASSERT_EQ(now.size(), 5000U + 4096 + 1000001);
    for (std::size_t i = 0; i < now.size(); i++)
        ASSERT_EQ(now[i], static_cast<std::byte>(i < 5000 ? 1 : i < 9096 ? 2 : 3)) << i;
    EXPECT_NE(run(example("save_tensors") + " /no/where 1").status, 0);
}

// Python cannot be started beside the thread sanitizer.
#ifndef __SANITIZE_THREAD__
#ifdef __SANITIZE_ADDRESS__
// A program that is not sanitized loads a library that is.
const std::string sanitizer = "LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 ";
#else
const std::string sanitizer;
#endif

TEST(Examples, Python)
{
    // The package, with its own tests.
    const auto package = run(sanitizer + "LD_LIBRARY_PATH=" EXAMPLES " PYTHONPATH=" PYTHON
                                         " python3 -B " PYTHON_TESTS "/test_weft.py -v 2>&1");
    EXPECT_EQ(package.status, 0) << package.text;
    EXPECT_NE(package.text.find("OK"), std::string::npos) << package.text;
}

TEST(Examples, PythonWithGpuMemory)
{
    const auto gpu =
        run(sanitizer + "WEFT_STANDIN_DEVICES=2 LD_LIBRARY_PATH=" EXAMPLES ":" STANDIN " PYTHONPATH=" PYTHON
                        " python3 -B " PYTHON_TESTS "/test_gpu.py Own -v 2>&1");
    EXPECT_EQ(gpu.status, 0) << gpu.text;
    EXPECT_NE(gpu.text.find("OK"), std::string::npos) << gpu.text;
    EXPECT_EQ(gpu.text.find("one GPU alone"), std::string::npos) << gpu.text;
}

TEST(Examples, PythonPacked)
{
    // The first Python of the path may be one without the system's modules.
    std::string python;
    for (const auto* one : {"python3", "/usr/bin/python3"})
        if (python.empty() && !run(std::string(one) + " -c 'import numpy' 2>&1").status)
            python = one;
    if (python.empty())
        GTEST_SKIP() << "the Python module numpy is missing: apt-get install python3-numpy";
    auto command = sanitizer + "LD_LIBRARY_PATH=" EXAMPLES " PYTHONPATH=" PYTHON " " + python;
    command += " -B -W ignore::DeprecationWarning " PYTHON_TESTS "/test_pack.py -v 2>&1";
    const auto packed = run(command);
    EXPECT_EQ(packed.status, 0) << packed.text;
    EXPECT_NE(packed.text.find("OK"), std::string::npos) << packed.text;
}
#endif

} // namespace

} // namespace weft::test
